/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table, and the gradient of the table: tokens with one id are chained, and a block walks
 * the chain in the tokens' order. So the sum's order is fixed, and nothing is sorted. */
#include "kernel.h"

WEFT_KERNEL(embedding, cuda_embedding_args, CUDA_THREADS)
{
    for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x) {
        int64_t row = get_int(a.ids, t) - a.lo, end = (t + 1) * a.width;
        bool here = row >= 0 && row < a.rows;
        FOR_ROW(e, a.width)
        {
            float x[8] = {0, 0, 0, 0, 0, 0, 0, 0};
            if (here)
                load8(a.table, row * a.width + e, (row + 1) * a.width, x);
            store8_or_add(a.out, t * a.width + e, end, x, a.accumulate);
        }
    }
}

WEFT_KERNEL(chain_begin, cuda_embedding_args, CUDA_THREADS)
{
    for (int64_t v = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; v < a.rows;
         v += (int64_t)gridDim.x * blockDim.x)
        a.first[v] = INT32_MAX;
}

/* A warp looks for the next token with the id of token t, 32 at a time. */
WEFT_KERNEL(chain_link, cuda_embedding_args, CUDA_THREADS)
{
    int lane = (int)threadIdx.x & 31, warps = (int)blockDim.x >> 5;
    int64_t first = (int64_t)blockIdx.x * warps + (threadIdx.x >> 5);
    for (int64_t t = first; t < a.tokens; t += (int64_t)gridDim.x * warps) {
        int32_t id = get_int(a.ids, t), next = INT32_MAX;
        bool here = id >= a.lo && id - a.lo < a.rows;
        for (int64_t from = t + 1; here && from < a.tokens && next == INT32_MAX; from += 32) {
            int64_t u = from + lane;
            int32_t found = u < a.tokens && get_int(a.ids, u) == id ? (int32_t)u : INT32_MAX;
            for (int step = 16; step > 0; step >>= 1) {
                int32_t other = __shfl_xor_sync(0xffffffffu, found, step);
                found = other < found ? other : found;
            }
            next = found;
        }
        if (lane == 0) {
            a.next[t] = next;
            if (here)
                atomicMin(&a.first[id - a.lo], (int32_t)t);
        }
    }
}

WEFT_KERNEL(embedding_dw, cuda_embedding_args, CUDA_THREADS)
{
    for (int64_t v = blockIdx.x; v < a.rows; v += gridDim.x) {
        int32_t first = a.first[v];
        if (first == INT32_MAX && a.accumulate)
            continue;
        FOR_ROW(e, a.width)
        {
            float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0}, dy[8];
            for (int32_t t = first; t != INT32_MAX; t = a.next[t]) {
                load8(a.dy, t * a.width + e, (t + 1) * a.width, dy);
                EACH8(k)
                sum[k] += dy[k];
            }
            store8_or_add(a.out, v * a.width + e, (v + 1) * a.width, sum, a.accumulate);
        }
    }
}
