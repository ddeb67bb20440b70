/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops. Included by loops_*.c, after these have set the instruction set for all that
 * follows, F8_VECTOR (floats of a register), F8_ROWS, and F8_NAME (the table's name). None makes
 * other bits of its operands than another: a maximum and a rounding have one result, and products
 * of two values in 8 bits are exact in f32, so that fused into a sum they are what they are apart;
 * each sum has its terms in their order. */
#include "cpu.h"

#include <math.h>
#include <string.h>

/* As bits, larger magnitudes are larger numbers, and a NaN is the largest. */
static uint32_t most(const void *x, bool half, int64_t n)
{
    const uint32_t *wide = x;
    const uint16_t *narrow = x;
    uint32_t m = 0;
    uint16_t h = 0;
    for (int64_t i = 0; i < n && !half; i++) {
        uint32_t bits = wide[i] & 0x7fffffffu;
        m = bits > m ? bits : m;
    }
    for (int64_t i = 0; i < n && half; i++) {
        uint16_t bits = narrow[i] & 0x7fffu;
        h = bits > h ? bits : h;
    }
    return half ? (uint32_t)h << 16 : m;
}

static void raise(const void *x, bool half, int64_t n, uint32_t *m)
{
    const uint32_t *wide = x;
    const uint16_t *narrow = x;
    for (int64_t i = 0; i < n && !half; i++) {
        uint32_t bits = wide[i] & 0x7fffffffu;
        m[i] = bits > m[i] ? bits : m[i];
    }
    for (int64_t i = 0; i < n && half; i++) {
        uint32_t bits = (uint32_t)(narrow[i] & 0x7fffu) << 16;
        m[i] = bits > m[i] ? bits : m[i];
    }
}

static inline __attribute__((always_inline)) void quantise_as(const void *x, bool half, bool e5m2,
                                                              const float *scale, int64_t step,
                                                              int64_t n, uint8_t *out)
{
    const float *wide = x;
    const uint16_t *narrow = x;
    for (int64_t i = 0; i < n; i++) {
        float v = half ? weft_bf16_to_f32(narrow[i]) : wide[i];
        float y = v * scale[i * step];
        out[i] = weft_f32_to_f8(fabsf(v) == INFINITY ? NAN : y, e5m2);
    }
}

static void quantise(const void *x, bool half, bool e5m2, const float *scale, int64_t step,
                     int64_t n, uint8_t *out)
{
    if (step && half)
        e5m2 ? quantise_as(x, true, true, scale, 1, n, out)
             : quantise_as(x, true, false, scale, 1, n, out);
    else if (step)
        e5m2 ? quantise_as(x, false, true, scale, 1, n, out)
             : quantise_as(x, false, false, scale, 1, n, out);
    else if (half)
        e5m2 ? quantise_as(x, true, true, scale, 0, n, out)
             : quantise_as(x, true, false, scale, 0, n, out);
    else
        e5m2 ? quantise_as(x, false, true, scale, 0, n, out)
             : quantise_as(x, false, false, scale, 0, n, out);
}

/* ---- products ---- */

typedef float vector __attribute__((vector_size(4 * F8_VECTOR)));
typedef float vector_at
    __attribute__((vector_size(4 * F8_VECTOR), aligned(4), may_alias)); /* anywhere in memory */

enum { VECTORS = 2 };

/* c[F8_ROWS, columns] += a b, all of c in registers; a: [depth, F8_ROWS], b: [depth, columns]. */
static void multiply(const float *a, const float *b, float *c, int64_t c_row, int64_t depth)
{
    vector sum[F8_ROWS][VECTORS];
#pragma GCC unroll 16
    for (int r = 0; r < F8_ROWS; r++)
#pragma GCC unroll 16
        for (int j = 0; j < VECTORS; j++)
            sum[r][j] = (vector) * (const vector_at *)(c + r * c_row + j * F8_VECTOR);
    for (int64_t k = 0; k < depth; k++, a += F8_ROWS, b += VECTORS * F8_VECTOR) {
#pragma GCC unroll 16
        for (int r = 0; r < F8_ROWS; r++)
#pragma GCC unroll 16
            for (int j = 0; j < VECTORS; j++)
                sum[r][j] += a[r] * (vector) * (const vector_at *)(b + j * F8_VECTOR);
    }
#pragma GCC unroll 16
    for (int r = 0; r < F8_ROWS; r++)
#pragma GCC unroll 16
        for (int j = 0; j < VECTORS; j++)
            *(vector_at *)(c + r * c_row + j * F8_VECTOR) = sum[r][j];
}

static inline __attribute__((always_inline)) void put_as(const float *sum, float of_a,
                                                         const float *of_b, int64_t step,
                                                         bool accumulate, bool half, int64_t n,
                                                         void *out)
{
    float *wide = out;
    uint16_t *narrow = out;
    for (int64_t i = 0; i < n; i++) {
        float y = sum[i] / of_a / of_b[i * step];
        if (accumulate)
            y += half ? weft_bf16_to_f32(narrow[i]) : wide[i];
        if (half)
            narrow[i] = weft_f32_to_bf16(y);
        else
            wide[i] = y;
    }
}

static void put(const float *sum, float of_a, const float *of_b, int64_t step, bool accumulate,
                bool half, int64_t n, void *out)
{
    if (half && !accumulate)
        step ? put_as(sum, of_a, of_b, 1, false, true, n, out)
             : put_as(sum, of_a, of_b, 0, false, true, n, out);
    else if (half)
        put_as(sum, of_a, of_b, step, true, true, n, out);
    else if (accumulate)
        step ? put_as(sum, of_a, of_b, 1, true, false, n, out)
             : put_as(sum, of_a, of_b, 0, true, false, n, out);
    else
        step ? put_as(sum, of_a, of_b, 1, false, false, n, out)
             : put_as(sum, of_a, of_b, 0, false, false, n, out);
}

const f8_loops F8_NAME = {.rows = F8_ROWS,
                          .columns = VECTORS * F8_VECTOR,
                          .most = most,
                          .raise = raise,
                          .quantise = quantise,
                          .multiply = multiply,
                          .put = put};
