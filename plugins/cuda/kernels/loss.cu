/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-entropy: a block for each row of logits. */
#include "kernel.h"

#define FOR_ROWS(row) for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x)

/* exp(logit - max), also where both are -infinity */
static __device__ inline float weight(float logit, float max)
{
    return logit == -INFINITY ? 0.0f : expf(logit - max);
}

WEFT_KERNEL(max_v, cuda_loss_args, CUDA_THREADS)
{
    FOR_ROWS(row)
    {
        float most = -INFINITY, x[8];
        int64_t from = row * a.width;
        FOR_ROW(e, a.width)
        {
            load8(a.logits, from + e, from + a.width, x);
            EACH8(k)
            most = e + k < a.width ? larger_of::of(x[k], most) : most;
        }
        most = block_reduce<larger_of>(most, -INFINITY);
        if (threadIdx.x == 0)
            put(a.out, row, most);
    }
}

WEFT_KERNEL(sumexp, cuda_loss_args, CUDA_THREADS)
{
    FOR_ROWS(row)
    {
        float max = get(a.max, row), sum = 0.0f, x[8];
        int64_t from = row * a.width;
        FOR_ROW(e, a.width)
        {
            load8(a.logits, from + e, from + a.width, x);
            EACH8(k)
            sum += e + k < a.width ? weight(x[k], max) : 0.0f;
        }
        sum = block_sum(sum);
        if (threadIdx.x == 0)
            put(a.out, row, sum);
    }
}

WEFT_KERNEL(sumexp_dx, cuda_loss_args, CUDA_THREADS)
{
    FOR_ROWS(row)
    {
        float max = get(a.max, row), dy = get(a.dy, row), x[8];
        int64_t from = row * a.width, end = from + a.width;
        FOR_ROW(e, a.width)
        {
            load8(a.logits, from + e, end, x);
            EACH8(k)
            x[k] = dy * weight(x[k], max);
            store8_or_add(a.out, from + e, end, x, a.accumulate);
        }
    }
}

WEFT_KERNEL(pick, cuda_loss_args, CUDA_THREADS)
{
    for (int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; row < a.rows;
         row += (int64_t)gridDim.x * blockDim.x) {
        int64_t v = get_int(a.labels, row) - a.lo;
        bool here = v >= 0 && v < a.width;
        put(a.out, row, here ? get(a.logits, row * a.width + v) : 0.0f);
    }
}

WEFT_KERNEL(pick_dx, cuda_loss_args, CUDA_THREADS)
{
    FOR_ROWS(row)
    {
        int64_t from = row * a.width, at = get_int(a.labels, row) - a.lo;
        float dy = get(a.dy, row), x[8];
        FOR_ROW(e, a.width)
        {
            EACH8(k)
            x[k] = e + k == at ? dy : 0.0f;
            store8_or_add(a.out, from + e, from + a.width, x, a.accumulate);
        }
    }
}

/* ---- of a token: the loss and its gradients ---- */

#define FOR_TOKENS(i)                                                                              \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.n;                      \
         i += (int64_t)gridDim.x * blockDim.x)

/* maximum, sum of exponentials, the label's logit, label */
WEFT_KERNEL(nll, cuda_elementwise_args, CUDA_THREADS)
{
    FOR_TOKENS(i)
    {
        bool valid = get_int(a.ins[3], i) >= 0;
        put(a.outs[0], i,
            valid ? logf(get(a.ins[1], i)) + get(a.ins[0], i) - get(a.ins[2], i) : 0.0f);
    }
}

/* sum of exponentials, label, dy */
WEFT_KERNEL(nll_de, cuda_elementwise_args, CUDA_THREADS)
{
    FOR_TOKENS(i)
    {
        bool valid = get_int(a.ins[1], i) >= 0;
        put(a.outs[0], i, valid ? get(a.ins[2], i) / get(a.ins[0], i) : 0.0f);
    }
}

/* label, dy */
WEFT_KERNEL(nll_dt, cuda_elementwise_args, CUDA_THREADS)
{
    FOR_TOKENS(i)
    put(a.outs[0], i, get_int(a.ins[0], i) >= 0 ? -get(a.ins[1], i) : 0.0f);
}
