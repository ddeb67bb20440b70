/* SPDX-License-Identifier: Apache-2.0 */
/* Norms and parts of heads, which are short: a warp for each. rows are heads of all tokens. */
#include "kernel.h"

enum { WARPS_HERE = CUDA_THREADS / 32, AT_ONCE = 256 /* elements of a warp */ };

#define FOR_HEADS(row)                                                                             \
    for (int64_t row = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) >> 5; row < a.rows;        \
         row += (int64_t)gridDim.x * WARPS_HERE)
#define FOR_HEAD(e) for (int64_t e = 8 * (int64_t)(threadIdx.x & 31); e < a.width; e += AT_ONCE)

/* One over the root mean square. */
static __device__ inline float scale_of(const cuda_norm_args &a, int64_t row)
{
    float sum = 0.0f, x[8];
    FOR_HEAD(e)
    {
        load8(a.x, row * a.width + e, (row + 1) * a.width, x);
        EACH8(k)
        sum += x[k] * x[k];
    }
    return 1.0f / sqrtf(warp_reduce<add_of>(sum) / (float)a.width + a.eps);
}

WEFT_KERNEL(head_norm, cuda_norm_args, CUDA_THREADS)
{
    FOR_HEADS(row)
    {
        const int64_t from = row * a.width, end = from + a.width;
        const float r = scale_of(a, row);
        FOR_HEAD(e)
        {
            float x[8], w[8];
            load8(a.x, from + e, end, x);
            load8(a.w, e, a.width, w);
            EACH8(k)
            x[k] *= r * w[k];
            store8_or_add(a.out, from + e, end, x, a.accumulate);
        }
    }
}

/* r (g - r x mean(r x g)) with g = dy w */
WEFT_KERNEL(head_norm_dx, cuda_norm_args, CUDA_THREADS)
{
    FOR_HEADS(row)
    {
        const int64_t from = row * a.width, end = from + a.width;
        const float r = scale_of(a, row);
        float x[8], w[8], dy[8], mean = 0.0f;
        FOR_HEAD(e)
        {
            load8(a.x, from + e, end, x);
            load8(a.w, e, a.width, w);
            load8(a.dy, from + e, end, dy);
            EACH8(k)
            mean += r * x[k] * w[k] * dy[k];
        }
        mean = warp_reduce<add_of>(mean) / (float)a.width;
        FOR_HEAD(e)
        {
            load8(a.x, from + e, end, x);
            load8(a.w, e, a.width, w);
            load8(a.dy, from + e, end, dy);
            EACH8(k)
            x[k] = r * (w[k] * dy[k] - r * x[k] * mean);
            store8_or_add(a.out, from + e, end, x, a.accumulate);
        }
    }
}

/* Sums over heads of dy x r: a part for each block, of the heads that its warps walk over. */
WEFT_KERNEL(head_norm_dw, cuda_norm_args, CUDA_THREADS)
{
    __shared__ float sums[WARPS_HERE][AT_ONCE];
    const int warp = (int)threadIdx.x >> 5, lane = (int)threadIdx.x & 31;
    for (int64_t first = 0; first < a.width; first += AT_ONCE) {
        const int64_t e = first + 8 * lane;
        float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0}, x[8], dy[8];
        FOR_HEADS(row)
        {
            const int64_t from = row * a.width, end = from + a.width;
            const float r = scale_of(a, row);
            if (e >= a.width)
                continue;
            load8(a.x, from + e, end, x);
            load8(a.dy, from + e, end, dy);
            EACH8(k)
            sum[k] += r * x[k] * dy[k];
        }
        __syncthreads(); /* those before have been read */
        EACH8(k)
        sums[warp][8 * lane + k] = sum[k];
        __syncthreads();
        const int64_t column = first + threadIdx.x;
        float all = 0.0f;
        for (int w = 0; w < WARPS_HERE; w++)
            all += sums[w][threadIdx.x];
        if (column < a.width)
            put(a.parts, blockIdx.x * a.width + column, all);
    }
}

/* ---- parts of heads ---- */

/* Elements [e, e + 8) of those that lie from `from` on, `width` of them, and zeros around them. */
static __device__ inline void load8_among(const cuda_view &v, int64_t from, int64_t width,
                                          int64_t e, float x[8])
{
    if (e >= 0) {
        load8(v, from + e, from + (e < width ? width : e), x);
        return;
    }
    EACH8(k)
    x[k] = e + k >= 0 && e + k < width ? get(v, from + e + k) : 0.0f;
}

/* in [rows whole] -> [rows width], from `first` on */
WEFT_KERNEL(head_part, cuda_heads_args, CUDA_THREADS)
{
    FOR_HEADS(row)
    FOR_HEAD(e)
    {
        float x[8];
        load8_among(a.in, row * a.whole + a.first, a.width, e, x);
        store8_or_add(a.out, row * a.width + e, (row + 1) * a.width, x, a.accumulate);
    }
}

#define FOR_WHOLE(e) for (int64_t e = 8 * (int64_t)(threadIdx.x & 31); e < a.whole; e += AT_ONCE)

/* in [rows width] -> [rows whole], zeros around it */
WEFT_KERNEL(head_place, cuda_heads_args, CUDA_THREADS)
{
    FOR_HEADS(row)
    FOR_WHOLE(e)
    {
        float x[8];
        load8_among(a.in, row * a.width, a.width, e - a.first, x);
        store8_or_add(a.out, row * a.whole + e, (row + 1) * a.whole, x, a.accumulate);
    }
}

/* in [rows width], more [tokens whole - width] -> [rows whole] */
WEFT_KERNEL(head_join, cuda_heads_args, CUDA_THREADS)
{
    const int64_t shared = a.whole - a.width;
    FOR_HEADS(row)
    FOR_WHOLE(e)
    {
        float x[8], y[8];
        load8_among(a.in, row * a.width, a.width, e, x);
        load8_among(a.more, row / a.heads * shared, shared, e - a.width, y);
        EACH8(k)
        x[k] += y[k];
        store8_or_add(a.out, row * a.whole + e, (row + 1) * a.whole, x, a.accumulate);
    }
}

/* in [tokens heads whole] -> [tokens whole - width]; rows are tokens */
WEFT_KERNEL(head_sum, cuda_heads_args, CUDA_THREADS)
{
    const int64_t shared = a.whole - a.width;
    FOR_HEADS(row)
    for (int64_t e = 8 * (int64_t)(threadIdx.x & 31); e < shared; e += AT_ONCE) {
        float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0}, x[8];
        for (int64_t h = row * a.heads; h < (row + 1) * a.heads; h++) {
            load8_among(a.in, h * a.whole + a.width, shared, e, x);
            EACH8(k)
            sum[k] += x[k];
        }
        store8_or_add(a.out, row * shared + e, (row + 1) * shared, sum, a.accumulate);
    }
}
