/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that treat every element alike. */
#include "kernel.h"

/* Results 0 are written, or added to what is there. */
#define RESULT(i, y) store8_or_add(a.outs[0], i, a.n, y, a.accumulate)

/* Of the kernels that take most of a step, which are given what they read at once. */
#define WAS(i)               fetch8_if<WHOLE>(a.accumulate, a.outs[0], i, a.n)
#define OPERAND(o, i)        fetch8<WHOLE>(a.ins[o], i, a.n)
#define RESULT_OF(i, y, was) store8_sum<WHOLE>(a.outs[0], i, a.n, y, a.accumulate, was)
template <bool WHOLE> static __device__ inline void add_of(const cuda_elementwise_args &a)
{
    FOR_CHUNKS(i, a.n)
    {
        float y[8], x[8];
        eight<WHOLE> was = WAS(i), first = OPERAND(0, i), next = first;
        if (a.n_ins > 1)
            next = OPERAND(1, i);
        widen8(first, y);
        for (int o = 1; o < a.n_ins; o++) {
            widen8(next, x);
            if (o + 1 < a.n_ins)
                next = OPERAND(o + 1, i);
            EACH8(k)
            y[k] += x[k];
        }
        RESULT_OF(i, y, was);
    }
}

BY_WHOLE(add, cuda_elementwise_args)

/* A block for each row. */
WEFT_KERNEL(add_bias, cuda_elementwise_args, CUDA_THREADS)
{
    for (int64_t from = blockIdx.x * a.width; from < a.n; from += gridDim.x * a.width)
        FOR_ROW(e, a.width)
        {
            float y[8], bias[8];
            load8(a.ins[0], from + e, from + a.width, y);
            load8(a.ins[1], e, a.width, bias);
            EACH8(k)
            y[k] += bias[k];
            store8_or_add(a.outs[0], from + e, from + a.width, y, a.accumulate);
        }
}

WEFT_KERNEL(scale, cuda_elementwise_args, CUDA_THREADS)
{
    FOR_CHUNKS(i, a.n)
    {
        float y[8], by = get(a.ins[1], 0);
        load8(a.ins[0], i, a.n, y);
        EACH8(k)
        y[k] *= by;
        RESULT(i, y);
    }
}

/* Casts, and sums over micro-batches. */
WEFT_KERNEL(copy, cuda_elementwise_args, CUDA_THREADS)
{
    FOR_CHUNKS(i, a.n)
    {
        float y[8];
        load8(a.ins[0], i, a.n, y);
        RESULT(i, y);
    }
}

WEFT_KERNEL(larger, cuda_elementwise_args, CUDA_THREADS)
{
    FOR_CHUNKS(i, a.n)
    {
        float y[8], was[8];
        load8(a.ins[0], i, a.n, y);
        if (a.accumulate) {
            load8(a.outs[0], i, a.n, was);
            EACH8(k)
            y[k] = larger_of::of(was[k], y[k]);
        }
        store8(a.outs[0], i, a.n, y);
    }
}

/* What a maximum begins with. */
WEFT_KERNEL(lowest, cuda_elementwise_args, CUDA_THREADS)
{
    FOR_CHUNKS(i, a.n)
    {
        float y[8];
        EACH8(k)
        y[k] = -INFINITY;
        RESULT(i, y);
    }
}

WEFT_KERNEL(broadcast, cuda_elementwise_args, CUDA_THREADS)
{
    float x = get(a.ins[0], 0);
    FOR_CHUNKS(i, a.n)
    {
        float y[8];
        EACH8(k)
        y[k] = x;
        RESULT(i, y);
    }
}

/* ---- activations ---- */

template <bool WHOLE> static __device__ inline void silu_mul_of(const cuda_elementwise_args &a)
{
    FOR_CHUNKS(i, a.n)
    {
        float gate[8], up[8], y[8];
        const eight<WHOLE> was = WAS(i), raw[2] = {OPERAND(0, i), OPERAND(1, i)};
        widen8(raw[0], gate);
        widen8(raw[1], up);
        EACH8(k)
        y[k] = gate[k] * sigmoid(gate[k]) * up[k];
        RESULT_OF(i, y, was);
    }
}

BY_WHOLE(silu_mul, cuda_elementwise_args)

template <bool WHOLE> static __device__ inline void silu_mul_dx_of(const cuda_elementwise_args &a)
{
    FOR_CHUNKS(i, a.n)
    {
        float gate[8], up[8], dy[8], dgate[8], dup[8];
        const eight<WHOLE> was = WAS(i), raw[3] = {OPERAND(0, i), OPERAND(1, i), OPERAND(2, i)};
        widen8(raw[0], gate);
        widen8(raw[1], up);
        widen8(raw[2], dy);
        silu_mul_gradients(gate, up, dy, dgate, dup);
        RESULT_OF(i, dgate, was);
        store8_sum<WHOLE>(a.outs[1], i, a.n, dup, false, was);
    }
}

BY_WHOLE(silu_mul_dx, cuda_elementwise_args)

#define ROOT_2_OVER_PI  0.79788456080286535588f
#define ROOT_1_2        0.70710678118654752440f
#define ROOT_1_OVER_2PI 0.39894228040143267794f

/* The tanh form, or exactly x Phi(x). */
static __device__ inline float gelu_of(float x, bool exact)
{
    if (exact)
        return 0.5f * x * erfcf(-x * ROOT_1_2);
    return x * sigmoid(2.0f * ROOT_2_OVER_PI * (x + 0.044715f * x * x * x));
}

static __device__ inline float gelu_slope(float x, bool exact)
{
    if (exact)
        return 0.5f * erfcf(-x * ROOT_1_2) + x * expf(-0.5f * x * x) * ROOT_1_OVER_2PI;
    float du = ROOT_2_OVER_PI * (1.0f + 3.0f * 0.044715f * x * x);
    float s = sigmoid(2.0f * ROOT_2_OVER_PI * (x + 0.044715f * x * x * x));
    return s + 2.0f * x * s * (1.0f - s) * du;
}

WEFT_KERNEL(gelu, cuda_elementwise_args, CUDA_THREADS)
{
    FOR_CHUNKS(i, a.n)
    {
        float x[8];
        load8(a.ins[0], i, a.n, x);
        EACH8(k)
        x[k] = gelu_of(x[k], a.exact);
        RESULT(i, x);
    }
}

WEFT_KERNEL(gelu_dx, cuda_elementwise_args, CUDA_THREADS)
{
    FOR_CHUNKS(i, a.n)
    {
        float x[8], dy[8];
        load8(a.ins[0], i, a.n, x);
        load8(a.ins[1], i, a.n, dy);
        EACH8(k)
        x[k] = dy[k] * gelu_slope(x[k], a.exact);
        RESULT(i, x);
    }
}
