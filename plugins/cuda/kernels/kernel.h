/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels share: reading and writing operands of any dtype in 16-byte accesses, and
 * reductions whose order is fixed. Arithmetic is in f32, sums of whole tensors in f64. */
#ifndef WEFT_CUDA_KERNEL_H
#define WEFT_CUDA_KERNEL_H

#include <target.h>

#include "args.h"

#define EACH8(k) _Pragma("unroll") for (int k = 0; k < 8; k++)

static __device__ inline float from_bf16(uint32_t half)
{
    return __uint_as_float(half << 16);
}

/* ---- one element ---- */

static __device__ inline float get(const cuda_view &v, int64_t i)
{
    if (v.dtype == WEFT_F32)
        return ((const float *)v.data)[i];
    if (v.dtype == WEFT_BF16)
        return from_bf16(((const uint16_t *)v.data)[i]);
    if (v.dtype == WEFT_F64)
        return (float)((const double *)v.data)[i];
    return (float)((const int32_t *)v.data)[i];
}

static __device__ inline double get_wide(const cuda_view &v, int64_t i)
{
    return v.dtype == WEFT_F64 ? ((const double *)v.data)[i] : (double)get(v, i);
}

static __device__ inline int32_t get_int(const cuda_view &v, int64_t i)
{
    return ((const int32_t *)v.data)[i];
}

/* Number i of a list; 0 where there is none, for nothing is hidden. */
static __device__ inline int32_t known(const int32_t *list, int64_t i)
{
    return list ? list[i] : 0;
}

static __device__ inline void put_wide(const cuda_view &v, int64_t i, double x)
{
    if (v.dtype == WEFT_F64)
        ((double *)v.data)[i] = x;
    else if (v.dtype == WEFT_BF16)
        ((uint16_t *)v.data)[i] = (uint16_t)pack_bf16((float)x, 0.0f);
    else
        ((float *)v.data)[i] = (float)x;
}

static __device__ inline void put(const cuda_view &v, int64_t i, float x)
{
    if (v.dtype == WEFT_BF16)
        ((uint16_t *)v.data)[i] = (uint16_t)pack_bf16(x, 0.0f);
    else if (v.dtype == WEFT_F64)
        ((double *)v.data)[i] = (double)x;
    else
        ((float *)v.data)[i] = x;
}

static __device__ inline void put_or_add(const cuda_view &v, int64_t i, float x, bool add)
{
    put(v, i, add ? get(v, i) + x : x);
}

/* ---- eight elements ---- */

/* May elements [i, i + 8) of a view be read as 16-byte words? i + 8 <= n is for the caller. */
static __device__ inline bool in_words(const cuda_view &v, int64_t i)
{
    int64_t size = v.dtype == WEFT_BF16 ? 2 : 4;
    return v.dtype != WEFT_F64 && (((uintptr_t)v.data + (uintptr_t)(i * size)) & 15) == 0;
}

static __device__ inline void widen_bf16(uint4 u, float x[8])
{
    uint32_t w[4] = {u.x, u.y, u.z, u.w};
    _Pragma("unroll") for (int k = 0; k < 4; k++)
    {
        x[2 * k] = from_bf16(w[k] & 0xffffu);
        x[2 * k + 1] = __uint_as_float(w[k] & 0xffff0000u);
    }
}

static __device__ inline uint4 narrow_bf16(const float x[8])
{
    return make_uint4(pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3]), pack_bf16(x[4], x[5]),
                      pack_bf16(x[6], x[7]));
}

/* Elements [i, i + 8) of f32 or bf16, which are in words. */
static __device__ inline void load8_words(const cuda_view &v, int64_t i, float x[8])
{
    if (v.dtype == WEFT_BF16) {
        widen_bf16(*(const uint4 *)((const uint16_t *)v.data + i), x);
        return;
    }
    const float4 *p = (const float4 *)((const float *)v.data + i);
    float4 lo = p[0], hi = p[1];
    x[0] = lo.x, x[1] = lo.y, x[2] = lo.z, x[3] = lo.w;
    x[4] = hi.x, x[5] = hi.y, x[6] = hi.z, x[7] = hi.w;
}

/* Elements [i, i + 8) of f32 or bf16; zeros from n on. */
static __device__ inline void load8(const cuda_view &v, int64_t i, int64_t n, float x[8])
{
    if (i + 8 <= n && in_words(v, i)) {
        load8_words(v, i, x);
        return;
    }
    EACH8(k)
    x[k] = i + k < n ? get(v, i + k) : 0.0f;
}

static __device__ inline void store8(const cuda_view &v, int64_t i, int64_t n, const float x[8])
{
    if (i + 8 > n || !in_words(v, i)) {
        EACH8(k)
        if (i + k < n)
            put(v, i + k, x[k]);
    } else if (v.dtype == WEFT_BF16) {
        *(uint4 *)((uint16_t *)v.data + i) = narrow_bf16(x);
    } else {
        float4 *p = (float4 *)((float *)v.data + i);
        p[0] = make_float4(x[0], x[1], x[2], x[3]);
        p[1] = make_float4(x[4], x[5], x[6], x[7]);
    }
}

/* Stores, or adds to what is there. */
static __device__ inline void store8_or_add(const cuda_view &v, int64_t i, int64_t n,
                                            const float x[8], bool add)
{
    float sum[8];
    if (!add) {
        store8(v, i, n, x);
        return;
    }
    load8(v, i, n, sum);
    EACH8(k)
    sum[k] += x[k];
    store8(v, i, n, sum);
}

/* ---- the same, all asked for before one is used ---- */

/* Eight elements on their way. WHOLE: bf16 in whole words, as the host has found: nothing is asked
 * between one load and the next, so that all of a thread's are on their way at once. load8 must
 * know the dtype, and waits for each. */
template <bool WHOLE> struct eight;

template <> struct eight<true> {
    uint4 u;
};

template <> struct eight<false> {
    float x[8];
};

template <bool WHOLE>
static __device__ inline eight<WHOLE> fetch8(const cuda_view &v, int64_t i, int64_t n);

template <> __device__ inline eight<true> fetch8<true>(const cuda_view &v, int64_t i, int64_t n)
{
    (void)n;
    return {*(const uint4 *)((const uint16_t *)v.data + i)};
}

template <> __device__ inline eight<false> fetch8<false>(const cuda_view &v, int64_t i, int64_t n)
{
    eight<false> e;
    load8(v, i, n, e.x);
    return e;
}

/* What results are added to. */
template <bool WHOLE>
static __device__ inline eight<WHOLE> fetch8_if(bool add, const cuda_view &v, int64_t i, int64_t n)
{
    return add ? fetch8<WHOLE>(v, i, n) : eight<WHOLE>();
}

static __device__ inline void widen8(const eight<true> &e, float x[8])
{
    widen_bf16(e.u, x);
}

static __device__ inline void widen8(const eight<false> &e, float x[8])
{
    EACH8(k)
    x[k] = e.x[k];
}

/* Stores, or adds to what was there. */
template <bool WHOLE>
static __device__ inline void store8_sum(const cuda_view &v, int64_t i, int64_t n, const float x[8],
                                         bool add, const eight<WHOLE> &was)
{
    float sum[8];
    if (add)
        widen8(was, sum);
    EACH8(k)
    sum[k] = add ? sum[k] + x[k] : x[k];
    if (WHOLE)
        *(uint4 *)((uint16_t *)v.data + i) = narrow_bf16(sum);
    else
        store8(v, i, n, sum);
}

/* A kernel whose operands and results the host has found in whole words of bf16, or not. */
#define BY_WHOLE(name, args)                                                                       \
    WEFT_KERNEL(name, args, CUDA_THREADS)                                                          \
    {                                                                                              \
        if (a.whole)                                                                               \
            name##_of<true>(a);                                                                    \
        else                                                                                       \
            name##_of<false>(a);                                                                   \
    }

static __device__ inline float sigmoid(float x)
{
    return reciprocal_fast(1.0f + expf(-x));
}

/* Of silu(gate) * up. */
static __device__ inline void silu_mul_gradients(const float gate[8], const float up[8],
                                                 const float dy[8], float dgate[8], float dup[8])
{
    EACH8(k)
    {
        float s = sigmoid(gate[k]);
        dgate[k] = dy[k] * up[k] * s * (1.0f + gate[k] * (1.0f - s));
        dup[k] = dy[k] * gate[k] * s;
    }
}

/* ---- who does what ---- */

/* Where this thread begins in a walk of the grid over chunks of 8, and its step. */
static __device__ inline int64_t first_chunk(void)
{
    return 8 * ((int64_t)blockIdx.x * blockDim.x + threadIdx.x);
}

static __device__ inline int64_t chunk_step(void)
{
    return 8 * (int64_t)gridDim.x * blockDim.x;
}

#define FOR_CHUNKS(i, n)                                                                           \
    _Pragma("unroll 1") for (int64_t i = first_chunk(); i < (n); i += chunk_step())
/* A block's walk over a row of `width` elements, in chunks of 8. */
#define FOR_ROW(e, width)                                                                          \
    for (int64_t e = 8 * (int64_t)threadIdx.x; e < (width); e += 8 * (int64_t)blockDim.x)

/* ---- reductions ---- */

struct add_of {
    template <typename T> static __device__ inline T of(T a, T b)
    {
        return a + b;
    }
};

/* A NaN stays, wherever it comes from. */
struct larger_of {
    template <typename T> static __device__ inline T of(T a, T b)
    {
        return a > b || a != a ? a : b;
    }
};

template <typename OP, typename T> static __device__ inline T warp_reduce(T x)
{
    _Pragma("unroll") for (int step = 16; step > 0; step >>= 1) x =
        OP::of(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

/* Of a whole block; every thread gets it. `none` is what changes nothing. */
template <typename OP, typename T> static __device__ inline T block_reduce(T x, T none)
{
    __shared__ T parts[32];
    int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5, warps = (int)blockDim.x >> 5;
    x = warp_reduce<OP>(x);
    __syncthreads(); /* an earlier call's parts may still be read */
    if (lane == 0)
        parts[warp] = x;
    __syncthreads();
    return warp_reduce<OP>(lane < warps ? parts[lane] : none);
}

template <typename T> static __device__ inline T block_sum(T x)
{
    return block_reduce<add_of>(x, (T)0);
}

/* Of several numbers at once: as many barriers as for one. */
template <int N> static __device__ inline void block_sums(float (&x)[N])
{
    __shared__ float parts[N][32];
    int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5, warps = (int)blockDim.x >> 5;
    _Pragma("unroll") for (int i = 0; i < N; i++) x[i] = warp_reduce<add_of>(x[i]);
    __syncthreads(); /* an earlier call's parts may still be read */
    _Pragma("unroll") for (int i = 0; i < N; i++) if (lane == 0) parts[i][warp] = x[i];
    __syncthreads();
    _Pragma("unroll") for (int i = 0; i < N; i++) x[i] =
        warp_reduce<add_of>(lane < warps ? parts[i][lane] : 0.0f);
}

#endif
