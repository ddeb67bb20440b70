/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between strided boxes of bytes; zeros where there is nothing to copy from. */
#include "kernel.h"

/* rest / size[d]; factor 0: there are too many words for a prepared division. */
static __device__ inline int64_t divide(const cuda_move_args &a, int64_t rest, int d)
{
    return a.factor[d] ? (uint32_t)((uint64_t)(uint32_t)rest * a.factor[d] >> 32) >> a.shift[d]
                       : rest / a.size[d];
}

template <typename WORD> static __device__ inline void move_words(const cuda_move_args &a)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.words;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t rest = i, from = 0, to = 0;
        for (int d = a.n_dims - 1; d > 0; d--) {
            const int64_t above = divide(a, rest, d), at = rest - above * a.size[d];
            from += at * a.from_step[d];
            to += at * a.to_step[d];
            rest = above;
        }
        WORD zero = {};
        from += rest * a.from_step[0];
        to += rest * a.to_step[0];
        *(WORD *)(a.to + to) = a.from ? *(const WORD *)(a.from + from) : zero;
    }
}

WEFT_KERNEL(move, cuda_move_args, CUDA_THREADS)
{
    if (a.word == 16)
        move_words<uint4>(a);
    else if (a.word == 4)
        move_words<uint32_t>(a);
    else if (a.word == 2)
        move_words<uint16_t>(a);
    else
        move_words<unsigned char>(a);
}

/* An element of all arrays, one after the other; f64 in f64, the rest in f32. */
template <typename T>
static __device__ inline void reduce_8(const cuda_reduce_args &a, int64_t i, T sum[8],
                                       void (*load)(const cuda_view &, int64_t, int64_t, T *),
                                       void (*store)(const cuda_view &, int64_t, int64_t,
                                                     const T *))
{
    for (int r = 0; r < a.n_from; r++) {
        cuda_view v = {(void *)(uintptr_t)a.from[r], a.dtype};
        T x[8];
        load(v, i, a.n, x);
        EACH8(k)
        sum[k] = r == 0 ? x[k] : a.most ? larger_of::of(sum[k], x[k]) : sum[k] + x[k];
    }
    for (int r = 0; r < a.n_to; r++) {
        cuda_view v = {a.to[r], a.dtype};
        store(v, i, a.n, sum);
    }
}

static __device__ inline void load8_wide(const cuda_view &v, int64_t i, int64_t n, double *x)
{
    EACH8(k)
    x[k] = i + k < n ? get_wide(v, i + k) : 0.0;
}

static __device__ inline void store8_wide(const cuda_view &v, int64_t i, int64_t n, const double *x)
{
    EACH8(k)
    if (i + k < n)
        put_wide(v, i + k, x[k]);
}

WEFT_KERNEL(reduce, cuda_reduce_args, CUDA_THREADS)
{
    FOR_CHUNKS(i, a.n)
    {
        float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        double wide[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (a.dtype == WEFT_F64)
            reduce_8<double>(a, i, wide, load8_wide, store8_wide);
        else
            reduce_8<float>(a, i, sum, load8, store8);
    }
}
