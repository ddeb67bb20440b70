/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake libraries share. */
#ifndef WEFT_CUDA_FAKE_DRIVER_H
#define WEFT_CUDA_FAKE_DRIVER_H

#include <cuda.h>

#include <stddef.h>

/* Has a stream do this, or the graph that is being captured; `what` is copied. */
__attribute__((visibility("default"))) CUresult fake_enqueue(void (*act)(const void *what),
                                                             const void *what, size_t size);

#endif
