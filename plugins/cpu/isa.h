/* SPDX-License-Identifier: Apache-2.0 */
/* What the vector kernels stand on: f32 views of f32 and bf16 tensors, exp, and how to share work.
 * Included by isa_*.c, after these have set the instruction set for all that follows, CPU_VECTOR
 * (floats in a register) and CPU_NAME (the table's name).
 *
 * A kernel reads blocks of CPU_BLOCK elements as f32, computes, and stores them in the tensor's
 * type. A block is read whole before it is written, so a result may lie where an operand lay. Work
 * is cut in fixed parts, so results do not depend on the thread count. */
#include "cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum { CPU_BLOCK = 512, CPU_SHARE = 16384 };

/* A function that is compiled once, so that all kernels that call it round alike: where it were
 * inlined, products and sums could be contracted in another way. */
#ifdef __clang__
#define CPU_ONCE __attribute__((noinline))
#else
#define CPU_ONCE __attribute__((noinline, noclone))
#endif

/* ---- work ---- */

/* Threads for a call that touches this many elements: each has a share that takes longer than to
 * wake it. */
static inline int team(const weft_call *call, int64_t elements)
{
    int64_t shares = elements / CPU_SHARE;
    int threads = cpu_threads(call);
    return shares < 2 ? 1 : shares < threads ? (int)shares : threads;
}

static inline int64_t blocks_of(int64_t n)
{
    return (n + CPU_BLOCK - 1) / CPU_BLOCK;
}

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t width_of(const weft_tensor *t)
{
    return t->n_dims ? t->size[t->n_dims - 1] : 1;
}

/* All dims but the last. */
static inline int64_t rows_of(const weft_tensor *t)
{
    int64_t n = 1;
    for (int d = 0; d + 1 < t->n_dims; d++)
        n *= t->size[d];
    return n;
}

/* ---- elements ---- */

static inline uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline float widen1(uint16_t h)
{
    return from_bits((uint32_t)h << 16);
}

/* Round to nearest even without a branch, so that loops vectorise. */
static inline uint16_t narrow1(float f)
{
    uint32_t u = bits_of(f), rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16, nan = u >> 16 | 0x40u;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

/* Elements [at, at + n) as f32: where they lie, or in buffer. */
static inline const float *load(const weft_tensor *t, int64_t at, int64_t n, float *buffer)
{
    if (t->dtype == WEFT_F32)
        return (const float *)t->data + at;
    const uint16_t *h = (const uint16_t *)t->data + at;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        buffer[i] = widen1(h[i]);
    return buffer;
}

/* Elements [at, at + n) = x, or += x. x is no part of t. */
static inline void store(const weft_tensor *t, int64_t at, int64_t n, const float *x, bool add)
{
    if (t->dtype == WEFT_F32) {
        float *f = (float *)t->data + at;
        if (!add) {
            memcpy(f, x, (size_t)n * sizeof *f);
            return;
        }
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            f[i] += x[i];
        return;
    }
    uint16_t *h = (uint16_t *)t->data + at;
    if (add) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            h[i] = narrow1(widen1(h[i]) + x[i]);
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        h[i] = narrow1(x[i]);
}

static inline float get1(const weft_tensor *t, int64_t i)
{
    return t->dtype == WEFT_F32 ? ((const float *)t->data)[i]
                                : widen1(((const uint16_t *)t->data)[i]);
}

static inline const int32_t *ints(const weft_tensor *t)
{
    return t->data;
}

/* ---- functions ---- */

/* 2^n for n = whole - 256 in [-252, 252], in two factors, so that denormal and infinite results
 * come out right. */
static inline float times_power(float y, uint32_t whole)
{
    uint32_t half = whole >> 1;
    return y * from_bits((half - 1) << 23) * from_bits((whole - half - 1) << 23);
}

/* e^x = y 2^n with x in [-104, 89], y in [0.7, 1.42]. */
typedef struct power {
    float y;
    uint32_t n; /* modulo 2^32 */
} power;

/* e^x = 2^n e^r with r in [-ln 2 / 2, ln 2 / 2]; the polynomial is our own Chebyshev fit, error
 * 1e-8. */
static inline power power_of(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    float t = x * 1.44269504f + magic, n = t - magic;
    float r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    float q = 0.0013926181810335776f;
    q = q * r + 0.008363177629992228f;
    q = q * r + 0.04166655462787854f;
    q = q * r + 0.1666657699824294f;
    q = q * r + 0.5f;
    return (power){q * (r * r) + r + 1.0f, bits_of(t) - bits_of(magic)};
}

/* e^x within 2 ulp; NaN stays NaN. */
static inline float exp1(float x)
{
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    power p = power_of(x);
    return times_power(p.y, p.n + 256u);
}

/* The same bits for x up to 88, but 0 below 2^-127, at some seven tenths of the time: with one
 * factor, whose exponent of -127 is none at all. */
static inline float exp_small1(float x)
{
    power p = power_of(x < -88.0f ? -88.0f : x);
    int32_t exponent = (int32_t)(p.n + 127u);
    return p.y * from_bits((uint32_t)(exponent > 255 ? 255 : exponent) << 23);
}

/* 2^x for x up to 127; 0 below 2^-126. Relative error 1e-7. */
static inline float exp2_1(float x)
{
    const float magic = 12582912.0f;
    float in = x < -126.0f ? -126.0f : x;
    float t = in + magic, r = in - (t - magic);
    float q = 0.00015453162948414402f;
    q = q * r + 0.0013390863364793834f;
    q = q * r + 0.00961808255727139f;
    q = q * r + 0.055503571142188096f;
    q = q * r + 0.2402265076056811f;
    q = q * r + 0.6931471880262288f;
    float y = (q * r + 1.0f) * from_bits((bits_of(t) - bits_of(magic) + 127u) << 23);
    return x < -126.0f ? 0.0f : y;
}

static inline float sigmoid1(float x)
{
    return 1.0f / (1.0f + exp1(-x));
}

/* ---- registers ---- */

typedef float vector __attribute__((vector_size(4 * CPU_VECTOR)));
typedef float vector_at
    __attribute__((vector_size(4 * CPU_VECTOR), aligned(4), may_alias)); /* anywhere in memory */
