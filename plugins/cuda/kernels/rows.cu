/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that an index names: the last of a sequence, a cache's; and heads that are shared. */
#include "kernel.h"

/* in [batch places width], index [batch] -> [batch width]; zeros where it names no place */
WEFT_KERNEL(take, cuda_rows_args, CUDA_THREADS)
{
    for (int64_t b = blockIdx.x; b < a.batch; b += gridDim.x) {
        int64_t at = get_int(a.index, b);
        bool here = at >= 0 && at < a.places;
        FOR_ROW(e, a.width)
        {
            float x[8] = {0, 0, 0, 0, 0, 0, 0, 0};
            int64_t from = (b * a.places + at) * a.width;
            if (here)
                load8(a.in, from + e, from + a.width, x);
            store8_or_add(a.out, b * a.width + e, (b + 1) * a.width, x, a.accumulate);
        }
    }
}

/* more [batch n width] into the places of out [batch places width] that index [n] names. Of two
 * that name one place the later wins. */
WEFT_KERNEL(cache, cuda_rows_args, CUDA_THREADS)
{
    for (int64_t r = blockIdx.x; r < a.batch * a.n; r += gridDim.x) {
        int64_t b = r / a.n, i = r - b * a.n, at = get_int(a.index, i);
        bool here = at >= 0 && at < a.places;
        for (int64_t j = i + 1; here && j < a.n; j++)
            here = get_int(a.index, j) != at;
        FOR_ROW(e, a.width)
        {
            float x[8];
            int64_t from = r * a.width, to = (b * a.places + at) * a.width;
            if (!here)
                continue;
            load8(a.more, from + e, from + a.width, x);
            store8(a.out, to + e, to + a.width, x);
        }
    }
}

/* in [rows kv_heads d] -> out [rows heads d] */
WEFT_KERNEL(repeat_kv, cuda_rows_args, CUDA_THREADS)
{
    for (int64_t r = blockIdx.x; r < a.n * a.heads; r += gridDim.x) {
        int64_t row = r / a.heads;
        int64_t kv = (a.head_lo + (int32_t)(r - row * a.heads)) / a.group - a.kv_lo;
        int64_t from = (row * a.kv_heads + kv) * a.d, to = r * a.d;
        FOR_ROW(e, a.d)
        {
            float x[8];
            load8(a.in, from + e, from + a.d, x);
            store8_or_add(a.out, to + e, to + a.d, x, a.accumulate);
        }
    }
}

/* in [rows heads d] -> out [rows kv_heads d]: sums over the heads that shared */
WEFT_KERNEL(repeat_kv_dx, cuda_rows_args, CUDA_THREADS)
{
    for (int64_t r = blockIdx.x; r < a.n * a.kv_heads; r += gridDim.x) {
        int64_t row = r / a.kv_heads, kv = a.kv_lo + (r - row * a.kv_heads);
        int64_t begin = kv * a.group - a.head_lo, end = begin + a.group;
        begin = begin < 0 ? 0 : begin;
        end = end > a.heads ? a.heads : end;
        FOR_ROW(e, a.d)
        {
            float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0}, x[8];
            for (int64_t h = begin; h < end; h++) {
                int64_t from = (row * a.heads + h) * a.d;
                load8(a.in, from + e, from + a.d, x);
                EACH8(k)
                sum[k] += x[k];
            }
            store8_or_add(a.out, r * a.d + e, (r + 1) * a.d, sum, a.accumulate);
        }
    }
}
