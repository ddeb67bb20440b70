/* SPDX-License-Identifier: Apache-2.0 */
/* Test support: a driver of our own in the plugin's table. Its memory is the host's; launches are
 * dispatched by the kernel's name to the same kernel compiled for the host (emulate.h). */
#ifndef WEFT_CUDA_FAKE_H
#define WEFT_CUDA_FAKE_H

#include "emulate.h"
#include "gpu.h"

/* The functions that exist so far; the others are NULL. */
const cuda_driver *fake_driver(void);
/* Handles of all kernels, by number. */
const CUfunction *fake_functions(void);
/* The order of threads from now on: see emulate_launch. */
void fake_set_order(uint64_t order);
/* Who is told what kernels do from now on, or NULL. */
void fake_set_watch(const emulate_watch *watch);
/* Of each launch from now on only so many blocks run, the last; 0: all. */
void fake_set_last_blocks(uint64_t n);
/* Of launches and of fake_blas.c; what is enqueued is done at once. */
CUstream fake_stream(void);
/* What the last launch that failed did wrong; "" if none has. */
const char *fake_complaint(void);

#endif
