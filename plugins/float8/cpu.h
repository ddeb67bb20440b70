/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels for CPUs share. */
#ifndef FLOAT8_CPU_H
#define FLOAT8_CPU_H

#include "float8.h"

/* ---- loops_*.c ---- */

/* Loops that are compiled for several instruction sets. half: of bf16, else of f32. */
typedef struct f8_loops {
    int rows, columns; /* of the piece of a product that `multiply` holds in registers */
    /* The largest magnitude of n, as its bits; and of each with what m holds. */
    uint32_t (*most)(const void *x, bool half, int64_t n);
    void (*raise)(const void *x, bool half, int64_t n, uint32_t *m);
    /* out[i] = x[i] scale[i * step], in 8 bits; step: 0 or 1. An infinity becomes a NaN. */
    void (*quantise)(const void *x, bool half, bool e5m2, const float *scale, int64_t step,
                     int64_t n, uint8_t *out);
    /* c[rows, columns] += a b; a: [depth, rows], b: [depth, columns]; c's rows lie c_row apart. */
    void (*multiply)(const float *a, const float *b, float *c, int64_t c_row, int64_t depth);
    /* out[i] = (or +=) sum[i] / of_a / of_b[i * step]; step: 0 or 1. */
    void (*put)(const float *sum, float of_a, const float *of_b, int64_t step, bool accumulate,
                bool half, int64_t n, void *out);
} f8_loops;

typedef enum f8_isa { F8_GENERIC, F8_AVX2, F8_AVX512 } f8_isa;

extern const f8_loops f8_loops_generic, f8_loops_avx2, f8_loops_avx512;

/* Those of the best instruction set that the processor has, and none better than `most`. */
const f8_loops *f8_loops_get(f8_isa most);

/* ---- cpu.c, cpu_products.c ---- */

static inline int64_t f8_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int f8_threads(const weft_call *call)
{
    return call->threads < 1 ? 1 : call->threads;
}

static inline bool f8_is_half(const weft_tensor *t)
{
    return t->dtype == WEFT_F32 || t->dtype == WEFT_BF16;
}

/* A kernel's functions for products. */
bool f8_product_accepts(const weft_call *call);
size_t f8_product_workspace(const weft_call *call);
weft_status f8_product_prepare(const weft_call *call, void **state, weft_error *err);
weft_status f8_product_launch(const weft_call *call, weft_error *err);

#endif
