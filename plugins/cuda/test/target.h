/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels ask of the machine they are compiled for: here the host, where emulate.cc runs the
 * threads of a block one after another. The twin of kernels/nvcc/target.h. */
#ifndef WEFT_CUDA_TARGET_H
#define WEFT_CUDA_TARGET_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "emulate.h"

#define __device__
#define __align__(n) __attribute__((aligned(n)))
#define __shared__   static
#define __launch_bounds__(n)

#define WEFT_KERNEL(name, args, threads)                                                           \
    static void name##_body(const args &a);                                                        \
    extern "C" const size_t emulate_size_##name;                                                   \
    const size_t emulate_size_##name = sizeof(args);                                               \
    extern "C" void emulate_##name(const void *p)                                                  \
    {                                                                                              \
        name##_body(*(const args *)p);                                                             \
    }                                                                                              \
    static void name##_body(const args &a)

#define WEFT_DYNAMIC_SHARED(name) unsigned char *name = emulate_dynamic_shared()

/* The compiler must not see that a thread's fiber changes: what it asks is asked each time. */
#define threadIdx (*emulate_thread_index())
#define blockIdx  (*emulate_block_index())
#define blockDim  (*emulate_block_size())
#define gridDim   (*emulate_grid_size())

#define __syncthreads() emulate_barrier(__FILE__, __LINE__)
#define __syncwarp()    emulate_warp_barrier(__FILE__, __LINE__)

struct __align__(16) uint4
{
    uint32_t x, y, z, w;
};

struct __align__(16) float4
{
    float x, y, z, w;
};

struct __align__(8) uint2
{
    uint32_t x, y;
};

static inline uint2 make_uint2(uint32_t x, uint32_t y)
{
    return uint2{x, y};
}

static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
    return uint4{x, y, z, w};
}

static inline float4 make_float4(float x, float y, float z, float w)
{
    return float4{x, y, z, w};
}

static inline float __uint_as_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint32_t __float_as_uint(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

template <typename T> static inline T emulate_shuffle_value(T x, int lane, int line)
{
    T got;
    emulate_shuffle(&x, &got, sizeof x, lane, __FILE__, line);
    return got;
}

/* All lanes take part, as the kernels ask (the mask is always full). */
#define __shfl_xor_sync(mask, value, by)                                                           \
    emulate_shuffle_value(value, (int)(threadIdx.x & 31) ^ (by), __LINE__)
#define __shfl_sync(mask, value, lane) emulate_shuffle_value(value, (int)(lane)&31, __LINE__)

#define atomicMin(to, x) emulate_atomic_min(to, x)

static inline float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}

static inline float exp2_fast(float x)
{
    return exp2f(x);
}

static inline float reciprocal_fast(float x)
{
    return 1.0f / x;
}

static inline void sincospif(float x, float *s, float *c)
{
    *s = (float)sin(M_PI * (double)x);
    *c = (float)cos(M_PI * (double)x);
}

static inline uint32_t pack_bf16(float lo, float hi)
{
    return (uint32_t)weft_f32_to_bf16(lo) | (uint32_t)weft_f32_to_bf16(hi) << 16;
}

#define copy_ahead(to, from, there) emulate_copy_ahead(to, from, there, __LINE__)
#define copies_wait()               emulate_copies_wait()
#define ldmatrix_x4(r, row)         emulate_ldmatrix(r, row, false, __LINE__)
#define ldmatrix_x4_trans(r, row)   emulate_ldmatrix(r, row, true, __LINE__)
#define mma_bf16(c, a, b0, b1)      emulate_mma(c, a, b0, b1, __LINE__)

#endif
