/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-entropy: a block for each row of logits. */
#include "kernel.h"

#define FOR_ROWS(row) for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x)

enum { AHEAD = 4 }; /* chunks of a row that a thread has on their way at once */

/* A block's walk over a row that starts at element `from`: use(e, x) of each chunk, e in the row.
 * All of a thread's AHEAD are read before one is used, so use may write where they lay. */
template <bool WHOLE, typename USE>
static __device__ inline void read_row(const cuda_view &v, int64_t from, int64_t width, USE use)
{
    const int64_t step = 8 * (int64_t)blockDim.x, end = from + width;
    int64_t e = 8 * (int64_t)threadIdx.x;
    float x[8];
    for (; WHOLE && e + (AHEAD - 1) * step < width; e += AHEAD * step) {
        eight<WHOLE> raw[AHEAD];
        _Pragma("unroll") for (int i = 0; i < AHEAD; i++) raw[i] =
            fetch8<WHOLE>(v, from + e + i * step, end);
        _Pragma("unroll") for (int i = 0; i < AHEAD; i++)
        {
            widen8(raw[i], x);
            use(e + i * step, x);
        }
    }
    for (; e < width; e += step) {
        widen8(fetch8<WHOLE>(v, from + e, end), x);
        use(e, x);
    }
}

/* exp(logit - max), also where both are -infinity. Of what is far below the maximum the last bits
 * go, of numbers that a sum of at least 1 hardly sees. */
static __device__ inline float weight(float logit, float max)
{
    return logit == -INFINITY ? 0.0f : exp2_fast((logit - max) * 1.44269504088896340736f);
}

template <bool WHOLE> static __device__ inline void max_v_of(const cuda_loss_args &a)
{
    FOR_ROWS(row)
    {
        float most = -INFINITY;
        read_row<WHOLE>(a.logits, row * a.width, a.width, [&](int64_t e, const float *x) {
            EACH8(k)
            most = WHOLE || e + k < a.width ? larger_of::of(x[k], most) : most;
        });
        most = block_reduce<larger_of>(most, -INFINITY);
        if (threadIdx.x == 0)
            put(a.out, row, most);
    }
}

BY_WHOLE(max_v, cuda_loss_args)

template <bool WHOLE> static __device__ inline void sumexp_of(const cuda_loss_args &a)
{
    FOR_ROWS(row)
    {
        float max = get(a.max, row), sum = 0.0f;
        read_row<WHOLE>(a.logits, row * a.width, a.width, [&](int64_t e, const float *x) {
            EACH8(k)
            sum += WHOLE || e + k < a.width ? weight(x[k], max) : 0.0f;
        });
        sum = block_sum(sum);
        if (threadIdx.x == 0)
            put(a.out, row, sum);
    }
}

BY_WHOLE(sumexp, cuda_loss_args)

template <bool WHOLE> static __device__ inline void sumexp_dx_of(const cuda_loss_args &a)
{
    FOR_ROWS(row)
    {
        float max = get(a.max, row), dy = get(a.dy, row);
        int64_t from = row * a.width, end = from + a.width;
        read_row<WHOLE>(a.logits, from, a.width, [&](int64_t e, const float *x) {
            float y[8];
            EACH8(k)
            y[k] = dy * weight(x[k], max);
            const eight<WHOLE> was = fetch8_if<WHOLE>(a.accumulate, a.out, from + e, end);
            store8_sum<WHOLE>(a.out, from + e, end, y, a.accumulate, was);
        });
    }
}

BY_WHOLE(sumexp_dx, cuda_loss_args)

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
            store8(a.out, from + e, from + a.width, x);
        }
    }
}

/* The same, added to what is there: a number a row. */
WEFT_KERNEL(pick_dx_add, cuda_loss_args, CUDA_THREADS)
{
    for (int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; row < a.rows;
         row += (int64_t)gridDim.x * blockDim.x) {
        int64_t at = get_int(a.labels, row) - a.lo;
        if (at >= 0 && at < a.width)
            put_or_add(a.out, row * a.width + at, get(a.dy, row), true);
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
