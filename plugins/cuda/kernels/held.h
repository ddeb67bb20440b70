/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of norms that their block holds in registers. */
#ifndef WEFT_CUDA_HELD_H
#define WEFT_CUDA_HELD_H

#include "kernel.h"

typedef struct row_stats {
    float mean, r;
} row_stats;

#define FOR_ROWS(row) for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x)

/* Rows that are `whole`, of at most HELD chunks a thread, are read once, all of a row's operands at
 * once: a walk would wait for the memory at each chunk, and once more for each of the two or three
 * walks that sums behind sums take. */
#define EACH_HELD(c, e)                                                                            \
    _Pragma("unroll") for (int c = 0; c < HELD;                                                    \
                           c++) if (int64_t e =                                                    \
                                        8 * ((int64_t)threadIdx.x + (int64_t)c * blockDim.x);      \
                                    e < a.width)

template <int HELD>
static __device__ inline void hold(const cuda_norm_args &a, const cuda_view &v, int64_t from,
                                   eight<true> (&raw)[HELD])
{
    EACH_HELD(c, e)
    raw[c] = fetch8<true>(v, from + e, a.width);
}

/* raw += dy, which goes to `sum`. */
template <int HELD>
static __device__ inline void add_held(const cuda_norm_args &a, int64_t from,
                                       eight<true> (&raw)[HELD])
{
    eight<true> d[HELD];
    hold<HELD>(a, a.dy, from, d);
    EACH_HELD(c, e)
    {
        float x[8], y[8];
        widen8(raw[c], x);
        widen8(d[c], y);
        EACH8(k)
        x[k] += y[k];
        raw[c].u = narrow_bf16(x);
        *(uint4 *)((uint16_t *)a.sum.data + from + e) = raw[c].u;
    }
}

/* Mean and deviation of x. */
template <int HELD>
static __device__ inline row_stats stats_held(const cuda_norm_args &a,
                                              const eight<true> (&raw)[HELD])
{
    row_stats s = {0.0f, 0.0f};
    float x[8], sum = 0.0f;
    if (a.centred) {
        EACH_HELD(c, e)
        {
            widen8(raw[c], x);
            EACH8(k)
            sum += x[k];
        }
        s.mean = block_sum(sum) / (float)a.width;
    }
    sum = 0.0f;
    EACH_HELD(c, e)
    {
        widen8(raw[c], x);
        EACH8(k)
        sum += (x[k] - s.mean) * (x[k] - s.mean);
    }
    s.r = 1.0f / sqrtf(block_sum(sum) / (float)a.width + a.eps);
    return s;
}

#endif
