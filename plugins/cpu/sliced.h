/* SPDX-License-Identifier: Apache-2.0 */
/* A matrix product whose result does not depend on the number of threads. */
#ifndef WEFT_CPU_SLICED_H
#define WEFT_CPU_SLICED_H

#include "matmul.h"

typedef struct cpu_sliced cpu_sliced;

/* Would oneDNN cut the contracted dim of a product of this size among threads? */
bool cpu_sliced_is_cut(const cpu_matmul_shape *shape);
/* As cpu_matmul_scratch, _create, _destroy and _run. */
size_t cpu_sliced_scratch(const cpu_matmul_shape *shape, int threads);
weft_status cpu_sliced_create(const cpu_matmul_shape *shape, int threads, cpu_sliced **out,
                              weft_error *err);
void cpu_sliced_destroy(cpu_sliced *sliced);
weft_status cpu_sliced_run(cpu_sliced *sliced, const void *a, const void *b, void *c, void *scratch,
                           weft_error *err);

#endif
