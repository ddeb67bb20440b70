/* SPDX-License-Identifier: Apache-2.0 */
/* Scales, and values in 8 bits. */
#ifndef WEFT_CUDA_F8_H
#define WEFT_CUDA_F8_H

#include "kernel.h"

/* What brings amax to the dtype's largest number; made in f64, so that it is the same as
 * anywhere. */
static __device__ inline float scale_of(double amax, double most, int power_of_two, int margin)
{
    float scale = (float)ldexp(most / (amax < 1e-12 ? 1e-12 : amax), -margin);
    if (!power_of_two || !(fabsf(scale) <= 3.4028234e38f) || scale == 0.0f)
        return scale;
    int exponent;
    frexpf(scale, &exponent);
    return ldexpf(1.0f, exponent - 1);
}

/* To nearest even; beyond the largest number: that; NaN stays. As weft_f32_to_f8, bit by bit. */
static __device__ inline uint32_t to_f8(float f, bool e5m2)
{
    uint32_t u = __float_as_uint(f), sign = u >> 24 & 0x80u, cut = e5m2 ? 21 : 20;
    uint32_t largest = e5m2 ? 0x47600000u : 0x43e00000u, normal = e5m2 ? 0x38800000u : 0x3c800000u;
    float base = e5m2 ? 128.0f : 16384.0f; /* with the smallest number as the last bit */
    u &= 0x7fffffffu;
    if (u > 0x7f800000u)
        return sign | 0x7fu;
    u = u < largest ? u : largest;
    uint32_t small = __float_as_uint(base + __uint_as_float(u)) - __float_as_uint(base);
    uint32_t rounded = u + ((1u << (cut - 1)) - 1u) + (u >> cut & 1u);
    return sign | (u < normal ? small : (rounded >> cut) - (e5m2 ? 112u << 2 : 120u << 3));
}

/* An infinity becomes a NaN: that a step has overflowed must not be lost in the largest number. */
static __device__ inline uint32_t quantised(float x, float scale, bool e5m2)
{
    return to_f8(fabsf(x) <= 3.4028234e38f ? x * scale : x - x, e5m2);
}

/* Of elements [i, i + 8). */
static __device__ inline void store_codes(uint8_t *out, int64_t i, int64_t n,
                                          const uint32_t codes[8])
{
    if (i + 8 <= n && ((uintptr_t)(out + i) & 7) == 0) {
        *(uint2 *)(out + i) =
            make_uint2(codes[0] | codes[1] << 8 | codes[2] << 16 | codes[3] << 24,
                       codes[4] | codes[5] << 8 | codes[6] << 16 | codes[7] << 24);
        return;
    }
    EACH8(k)
    if (i + k < n)
        out[i + k] = (uint8_t)codes[k];
}

#endif
