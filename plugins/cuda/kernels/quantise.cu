/* SPDX-License-Identifier: Apache-2.0 */
/* Largest magnitudes, scales and values in 8 bits. A scale is one for all, one for each row of
 * `width` elements, or one for each of `width` columns. */
#include "f8.h"

static __device__ inline float larger_magnitude(const cuda_view &v, int64_t i, int64_t end,
                                                float most)
{
    float x[8];
    load8(v, i, end, x);
    EACH8(k)
    most = larger_of::of(most, fabsf(x[k]));
    return most;
}

WEFT_KERNEL(amax_rows, cuda_quantise_args, CUDA_THREADS)
{
    int64_t rows = a.width > 0 ? a.n / a.width : 0;
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        float most = 0.0f;
        int64_t from = row * a.width;
        FOR_ROW(e, a.width)
        most = larger_magnitude(a.x, from + e, from + a.width, most);
        most = block_reduce<larger_of>(most, 0.0f);
        if (threadIdx.x == 0)
            put(a.out, row, most);
    }
}

WEFT_KERNEL(amax_parts, cuda_quantise_args, CUDA_THREADS)
{
    float most = 0.0f;
    FOR_CHUNKS(i, a.n)
    most = larger_magnitude(a.x, i, a.n, most);
    most = block_reduce<larger_of>(most, 0.0f);
    if (threadIdx.x == 0)
        a.parts[blockIdx.x] = most;
}

/* n: of parts */
WEFT_KERNEL(amax_of_parts, cuda_quantise_args, CUDA_THREADS)
{
    float most = 0.0f;
    for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x)
        most = larger_of::of(most, a.parts[i]);
    most = block_reduce<larger_of>(most, 0.0f);
    if (threadIdx.x == 0)
        put(a.out, 0, most);
}

/* Block (c, p): CUDA_COLUMNS columns from c on, of the rows r with r mod n_parts = p; a warp takes
 * a row. */
WEFT_KERNEL(amax_column_parts, cuda_quantise_args, CUDA_THREADS)
{
    __shared__ float maxima[CUDA_THREADS / 32][CUDA_COLUMNS];
    int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5, warps = (int)blockDim.x >> 5;
    int64_t e = (int64_t)blockIdx.x * CUDA_COLUMNS + 8 * lane, rows = a.n / a.width;
    float most[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (int64_t row = blockIdx.y + (int64_t)warp * a.n_parts; row < rows && e < a.width;
         row += warps * a.n_parts) {
        float x[8];
        load8(a.x, row * a.width + e, (row + 1) * a.width, x);
        EACH8(k)
        most[k] = larger_of::of(most[k], fabsf(x[k]));
    }
    EACH8(k)
    maxima[warp][8 * lane + k] = most[k];
    __syncthreads();
    for (int c = (int)threadIdx.x; c < CUDA_COLUMNS; c += (int)blockDim.x) {
        int64_t at = (int64_t)blockIdx.x * CUDA_COLUMNS + c;
        float all = 0.0f;
        for (int w = 0; w < warps; w++)
            all = larger_of::of(all, maxima[w][c]);
        if (at < a.width)
            a.parts[(int64_t)blockIdx.y * a.width + at] = all;
    }
}

WEFT_KERNEL(amax_of_columns, cuda_quantise_args, CUDA_THREADS)
{
    for (int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; e < a.width;
         e += (int64_t)gridDim.x * blockDim.x) {
        float most = 0.0f;
        for (int64_t p = 0; p < a.n_parts; p++)
            most = larger_of::of(most, a.parts[p * a.width + e]);
        put(a.out, e, most);
    }
}

/* ---- scales ---- */

WEFT_KERNEL(f8_scale, cuda_quantise_args, CUDA_THREADS)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.n;
         i += (int64_t)gridDim.x * blockDim.x)
        put(a.out, i, scale_of(get_wide(a.x, i), a.most, a.power_of_two, 0));
}

WEFT_KERNEL(f8_history, cuda_history_args, 32)
{
    if (threadIdx.x != 0)
        return;
    float now = 0.0f, amax;
    for (int i = 0; i < a.n_maxima; i++)
        now = larger_of::of(get(a.maxima[i], 0), now);
    amax = now;
    for (int64_t i = a.n - 1; i > 0; i--) { /* may lie where the old one lay */
        float x = get(a.was, i - 1);
        amax = !a.recent && x > amax ? x : amax;
        put(a.out, i, x);
    }
    put(a.out, 0, now);
    float scale = get(a.scale, 0);
    int64_t step = (int64_t)rint(get_wide(a.step, 0));
    if (step % (a.interval < 1 ? 1 : a.interval) == 0)
        scale = amax > 0.0f ? scale_of(amax, a.most, a.power_of_two, a.margin) : 1.0f;
    put(a.scale_out, 0, scale);
}

/* ---- values ---- */

/* The scales of the 8 elements from i on: read once where one is for all of them. */
static __device__ inline void load_scales(const cuda_quantise_args &a, int64_t i, float scale[8])
{
    int64_t row = a.keep ? i / a.width : 0, column = a.keep ? i - row * a.width : 0;
    const bool several = a.keep && column + 8 > a.width, by_column = a.keep == CUDA_KEEP_COLUMNS;
    if (by_column && !several) {
        load8(a.scale, column, a.width, scale);
        return;
    }
    float one = get(a.scale, by_column ? column : row);
    EACH8(k)
    {
        if (k > 0 && several && i + k < a.n) {
            if (++column == a.width)
                row++, column = 0;
            one = get(a.scale, by_column ? column : row);
        }
        scale[k] = one;
    }
}

WEFT_KERNEL(quantise, cuda_quantise_args, CUDA_THREADS)
{
    uint8_t *out = (uint8_t *)a.out.data;
    FOR_CHUNKS(i, a.n)
    {
        float x[8], scale[8];
        uint32_t codes[8];
        load8(a.x, i, a.n, x);
        load_scales(a, i, scale);
        EACH8(k)
        codes[k] = quantised(x[k], scale[k], a.e5m2);
        store_codes(out, i, a.n, codes);
    }
}
