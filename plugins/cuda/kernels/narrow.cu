/* SPDX-License-Identifier: Apache-2.0 */
/* What makes an activation and narrows it: a norm, with the sum before it, or silu_mul; or narrows
 * what is there, and finds its largest magnitude in the same walk. What is between is rounded to
 * bf16 in registers, as it would be where it is stored, and written in 8 bits alone. */
#include "f8.h"
#include "held.h"

/* Rounds y; returns the largest magnitude of it and `most`. */
static __device__ inline float round8(float y[8], float most)
{
    widen_bf16(narrow_bf16(y), y);
    EACH8(k)
    most = larger_of::of(most, fabsf(y[k]));
    return most;
}

static __device__ inline void narrow8(const cuda_narrow_args &all, int64_t i, int64_t n,
                                      const float y[8], float scale)
{
    uint32_t codes[8];
    EACH8(k)
    codes[k] = quantised(y[k], scale, all.e5m2);
    store_codes(all.out, i, n, codes);
}

/* The scale of a row, from the largest magnitude that this thread has seen in it. */
static __device__ inline float row_scale(const cuda_narrow_args &all, int64_t row, float most)
{
    if (all.scale)
        return *all.scale;
    const float scale =
        scale_of(block_reduce<larger_of>(most, 0.0f), all.most, all.power_of_two, 0);
    if (threadIdx.x == 0)
        all.scales[row] = scale;
    return scale;
}

static __device__ inline void put_part(const cuda_narrow_args &all, float most)
{
    if (!all.parts)
        return;
    most = block_reduce<larger_of>(most, 0.0f);
    if (threadIdx.x == 0)
        all.parts[blockIdx.x] = most;
}

/* ---- norms ---- */

template <int HELD> static __device__ inline void narrow_norm_held(const cuda_narrow_args &all)
{
    const cuda_norm_args &a = all.of;
    float most = 0.0f;
    FOR_ROWS(row)
    {
        const int64_t from = row * a.width;
        float y[HELD][8], most_of_row = 0.0f;
        eight<true> raw[HELD];
        hold<HELD>(a, a.x, from, raw);
        if (a.sum.data)
            add_held<HELD>(a, from, raw);
        const row_stats s = stats_held<HELD>(a, raw);
        EACH_HELD(c, e)
        {
            float w[8];
            widen8(raw[c], y[c]);
            load8_words(a.w, e, w);
            EACH8(k)
            y[c][k] = (y[c][k] - s.mean) * s.r * w[k];
            most_of_row = round8(y[c], most_of_row);
        }
        most = larger_of::of(most, most_of_row);
        const float scale = row_scale(all, row, most_of_row);
        EACH_HELD(c, e)
        narrow8(all, from + e, from + a.width, y[c], scale);
    }
    put_part(all, most);
}

WEFT_KERNEL(narrow_norm_2, cuda_narrow_args, CUDA_THREADS)
{
    narrow_norm_held<2>(a);
}

WEFT_KERNEL(narrow_norm_4, cuda_narrow_args, CUDA_THREADS)
{
    narrow_norm_held<4>(a);
}

/* ---- silu_mul, and what is there ---- */

struct silu_mul_of {
    static __device__ inline float make(const cuda_norm_args &a, int64_t i, int64_t end, float y[8],
                                        float most)
    {
        float gate[8], up[8];
        load8(a.x, i, end, gate);
        load8(a.w, i, end, up);
        EACH8(k)
        y[k] = gate[k] * sigmoid(gate[k]) * up[k];
        return round8(y, most);
    }
};

struct given {
    static __device__ inline float make(const cuda_norm_args &a, int64_t i, int64_t end, float y[8],
                                        float most)
    {
        load8(a.x, i, end, y);
        EACH8(k)
        most = larger_of::of(most, fabsf(y[k]));
        return most;
    }
};

template <typename OF> static __device__ inline void narrow_all(const cuda_narrow_args &a)
{
    const int64_t n = a.of.rows * a.of.width;
    float most = 0.0f, y[8];
    FOR_CHUNKS(i, n)
    {
        most = OF::make(a.of, i, n, y, most);
        narrow8(a, i, n, y, *a.scale);
    }
    put_part(a, most);
}

/* A row is made twice, for it may be too long to be held. */
template <typename OF> static __device__ inline void narrow_rows(const cuda_narrow_args &a)
{
    for (int64_t row = blockIdx.x; row < a.of.rows; row += gridDim.x) {
        const int64_t from = row * a.of.width, end = from + a.of.width;
        float most = 0.0f, y[8];
        FOR_ROW(e, a.of.width)
        most = OF::make(a.of, from + e, end, y, most);
        const float scale = row_scale(a, row, most);
        FOR_ROW(e, a.of.width)
        {
            OF::make(a.of, from + e, end, y, 0.0f);
            narrow8(a, from + e, end, y, scale);
        }
    }
}

WEFT_KERNEL(narrow_silu_mul, cuda_narrow_args, CUDA_THREADS)
{
    narrow_all<silu_mul_of>(a);
}

WEFT_KERNEL(narrow_silu_mul_rows, cuda_narrow_args, CUDA_THREADS)
{
    narrow_rows<silu_mul_of>(a);
}

WEFT_KERNEL(narrow_given, cuda_narrow_args, CUDA_THREADS)
{
    narrow_all<given>(a);
}

WEFT_KERNEL(narrow_given_rows, cuda_narrow_args, CUDA_THREADS)
{
    narrow_rows<given>(a);
}

/* ---- both gradients of silu_mul, each by its scale ---- */

WEFT_KERNEL(narrow_silu_mul_dx, cuda_narrow_args, CUDA_THREADS)
{
    const int64_t n = a.of.rows * a.of.width;
    cuda_narrow_args other = a;
    other.out = a.other;
    other.parts = a.parts + gridDim.x;
    float most = 0.0f, most_of_other = 0.0f;
    FOR_CHUNKS(i, n)
    {
        float gate[8], up[8], dy[8], dgate[8], dup[8];
        load8(a.of.x, i, n, gate);
        load8(a.of.w, i, n, up);
        load8(a.of.dy, i, n, dy);
        silu_mul_gradients(gate, up, dy, dgate, dup);
        most = round8(dgate, most);
        most_of_other = round8(dup, most_of_other);
        narrow8(a, i, n, dgate, *a.scale);
        narrow8(other, i, n, dup, *a.other_scale);
    }
    put_part(a, most);
    put_part(other, most_of_other);
}
