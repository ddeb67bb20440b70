/* SPDX-License-Identifier: Apache-2.0 */
/* A matrix product with our own scratch memory: by oneDNN, 2.x and 3.x (onednn.c), or, where weft
 * was built without it, by ourselves (own_matmul.c). */
#ifndef WEFT_CPU_MATMUL_H
#define WEFT_CPU_MATMUL_H

#include <weft/base.h>

/* c[m, n] = a[m, k] b[k, n], or += with `add`. a and b are both f32 or both bf16; c is f32 or, for
 * bf16, either. Strides count elements, one of each of a's and b's is 1; c's rows are dense but for
 * c_row. */
typedef struct cpu_matmul_shape {
    int64_t m, n, k;
    int64_t a_row, a_col, b_row, b_col, c_row;
    weft_dtype ab, c;
    bool add;
} cpu_matmul_shape;

typedef struct cpu_matmul cpu_matmul;

/* Bytes of scratch memory that a run needs with `threads` threads; SIZE_MAX if it cannot be done.
 */
size_t cpu_matmul_scratch(const cpu_matmul_shape *shape, int threads);
/* Does oneDNN compute it by what it calls gemm? It cuts k among its threads as it sees fit, so
 * the sums depend on how many there are. (Its kernels for AVX-512 do not.) */
bool cpu_matmul_is_gemm(const cpu_matmul_shape *shape);
weft_status cpu_matmul_create(const cpu_matmul_shape *shape, int threads, cpu_matmul **out,
                              weft_error *err);
void cpu_matmul_destroy(cpu_matmul *matmul);
/* scratch: 64-byte aligned. One thread at a time per matmul. */
weft_status cpu_matmul_run(cpu_matmul *matmul, const void *a, const void *b, void *c, void *scratch,
                           weft_error *err);
/* "oneDNN 2.6.3": the library that runs, not the header; or that there is none. */
void cpu_matmul_library(weft_text *text);

#endif
