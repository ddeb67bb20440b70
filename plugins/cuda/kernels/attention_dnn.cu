/* SPDX-License-Identifier: Apache-2.0 */
/* Around cuDNN's attention: results that it makes in memory of its own, of some of the rows, and
 * log-sum-exps, which it has [batch heads rows]. */
#include "kernel.h"

/* Rows of which nothing was made are zeros. */
WEFT_KERNEL(attention_rows, cuda_dnn_rows_args, CUDA_THREADS)
{
    for (int64_t r = blockIdx.x; r < a.batch * a.rows; r += gridDim.x) {
        int64_t b = r / a.rows, i = r - b * a.rows - a.lo, from = (b * a.n + i) * a.width;
        bool here = i >= 0 && i < a.n;
        FOR_ROW(e, a.width)
        {
            float x[8] = {0, 0, 0, 0, 0, 0, 0, 0};
            if (here)
                load8(a.from, from + e, from + a.width, x);
            store8_or_add(a.to, r * a.width + e, (r + 1) * a.width, x, a.add);
        }
    }
}

/* Queries that see nothing have none. */
WEFT_KERNEL(attention_lse_from, cuda_dnn_lse_args, CUDA_THREADS)
{
    int64_t n = a.batch * a.rows * a.heads, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; e < n; e += step) {
        int64_t h = e % a.heads, r = e / a.heads, b = r / a.rows, i = r - b * a.rows - a.lo;
        bool here = i >= 0 && i < a.n;
        a.lse[e] = here ? a.theirs[(b * a.heads + h) * a.n + i] : -INFINITY;
    }
}

WEFT_KERNEL(attention_lse_to, cuda_dnn_lse_args, CUDA_THREADS)
{
    int64_t n = a.batch * a.heads * a.n, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; e < n; e += step) {
        int64_t i = e % a.n, r = e / a.n, b = r / a.heads, h = r - b * a.heads;
        a.theirs[e] = a.lse[(b * a.rows + a.lo + i) * a.heads + h];
    }
}
