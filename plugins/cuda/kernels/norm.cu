/* SPDX-License-Identifier: Apache-2.0 */
/* Norms: a block for each row. An rms_norm is a layer_norm whose mean is held at zero. */
#include "held.h"

static __device__ inline row_stats stats_of(const cuda_norm_args &a, int64_t row)
{
    row_stats s = {0.0f, 0.0f};
    float x[8], sum = 0.0f;
    int64_t from = row * a.width, end = from + a.width;
    if (a.centred) {
        FOR_ROW(e, a.width)
        {
            load8(a.x, from + e, end, x);
            EACH8(k)
            sum += x[k];
        }
        s.mean = block_sum(sum) / (float)a.width;
    }
    sum = 0.0f;
    FOR_ROW(e, a.width)
    {
        load8(a.x, from + e, end, x);
        EACH8(k)
        {
            float d = e + k < a.width ? x[k] - s.mean : 0.0f;
            sum += d * d;
        }
    }
    s.r = 1.0f / sqrtf(block_sum(sum) / (float)a.width + a.eps);
    return s;
}

/* ---- a row that its block holds ---- */

template <int HELD> static __device__ inline void norm_held(const cuda_norm_args &a)
{
    FOR_ROWS(row)
    {
        int64_t from = row * a.width;
        eight<true> raw[HELD], was[HELD];
        hold<HELD>(a, a.x, from, raw);
        if (a.accumulate)
            hold<HELD>(a, a.out, from, was);
        row_stats s = stats_held<HELD>(a, raw);
        EACH_HELD(c, e)
        {
            float x[8], w[8], bias[8];
            widen8(raw[c], x);
            load8_words(a.w, e, w);
            EACH8(k)
            x[k] = (x[k] - s.mean) * s.r * w[k];
            if (a.centred) {
                load8_words(a.bias, e, bias);
                EACH8(k)
                x[k] += bias[k];
            }
            store8_sum<true>(a.out, from + e, a.width, x, a.accumulate, was[c]);
        }
    }
}

/* r (g - mean(g) - x^ mean(g x^)) with g = dy w; without mean(g) if not centred. Without a mean all
 * sums are made at once. */
template <int HELD> static __device__ inline void norm_dx_held(const cuda_norm_args &a)
{
    FOR_ROWS(row)
    {
        int64_t from = row * a.width;
        float x[8], w[8], g[HELD][8], mean = 0.0f, sums[3] = {0.0f, 0.0f, 0.0f};
        eight<true> raw[HELD], dy[HELD], was[HELD];
        hold<HELD>(a, a.x, from, raw);
        hold<HELD>(a, a.dy, from, dy);
        if (a.accumulate)
            hold<HELD>(a, a.out, from, was);
        if (a.centred) {
            EACH_HELD(c, e)
            {
                widen8(raw[c], x);
                EACH8(k)
                mean += x[k];
            }
            mean = block_sum(mean) / (float)a.width;
        }
        EACH_HELD(c, e)
        {
            load8_words(a.w, e, w);
            widen8(raw[c], x);
            widen8(dy[c], g[c]);
            EACH8(k)
            {
                g[c][k] *= w[k];
                sums[0] += (x[k] - mean) * (x[k] - mean);
                sums[1] += g[c][k] * (x[k] - mean);
                sums[2] += g[c][k];
            }
        }
        block_sums(sums);
        const float n = (float)a.width, r = 1.0f / sqrtf(sums[0] / n + a.eps),
                    gx_mean = sums[1] * r / n, g_mean = a.centred ? sums[2] / n : 0.0f;
        EACH_HELD(c, e)
        {
            widen8(raw[c], x);
            EACH8(k)
            x[k] = r * (g[c][k] - g_mean - (x[k] - mean) * r * gx_mean);
            store8_sum<true>(a.out, from + e, a.width, x, a.accumulate, was[c]);
        }
    }
}

/* Sums over rows of dy x^: block p has the rows r with r mod n_parts = p, and all columns. Several
 * rows at once, so that one's sums need not wait for another's memory. */
template <int HELD> static __device__ inline void norm_dw_held(const cuda_norm_args &a)
{
    enum { ROWS = 4 / HELD };
    float sum[HELD][8] = {};
    for (int64_t first = blockIdx.x; first < a.rows; first += ROWS * (int64_t)gridDim.x) {
        eight<true> raw[ROWS][HELD] = {}, dy[ROWS][HELD] = {};
        float x[8], g[8], mean[ROWS] = {}, r[ROWS] = {};
        _Pragma("unroll") for (int i = 0; i < ROWS; i++)
        {
            int64_t row = first + i * (int64_t)gridDim.x;
            if (row < a.rows) { /* else zeros, which add nothing */
                hold<HELD>(a, a.x, row * a.width, raw[i]);
                hold<HELD>(a, a.dy, row * a.width, dy[i]);
            }
        }
        if (a.centred) {
            _Pragma("unroll") for (int i = 0; i < ROWS; i++) EACH_HELD(c, e)
            {
                widen8(raw[i][c], x);
                EACH8(k)
                mean[i] += x[k];
            }
            block_sums(mean);
        }
        _Pragma("unroll") for (int i = 0; i < ROWS; i++)
        {
            mean[i] /= (float)a.width;
            EACH_HELD(c, e)
            {
                widen8(raw[i][c], x);
                EACH8(k)
                r[i] += (x[k] - mean[i]) * (x[k] - mean[i]);
            }
        }
        block_sums(r);
        _Pragma("unroll") for (int i = 0; i < ROWS; i++)
        {
            r[i] = 1.0f / sqrtf(r[i] / (float)a.width + a.eps);
            EACH_HELD(c, e)
            {
                widen8(raw[i][c], x);
                widen8(dy[i][c], g);
                EACH8(k)
                sum[c][k] += g[k] * (x[k] - mean[i]) * r[i];
            }
        }
    }
    EACH_HELD(c, e)
    store8(a.parts, blockIdx.x * a.width + e, (blockIdx.x + 1) * a.width, sum[c]);
}

/* The residual's sum, and its norm: x + d goes to `sum`, rounded as it is normed. */
template <int HELD> static __device__ inline void add_norm_held(const cuda_norm_args &a)
{
    FOR_ROWS(row)
    {
        int64_t from = row * a.width;
        eight<true> raw[HELD];
        hold<HELD>(a, a.x, from, raw);
        add_held<HELD>(a, from, raw);
        row_stats s = stats_held<HELD>(a, raw);
        EACH_HELD(c, e)
        {
            float x[8], w[8];
            widen8(raw[c], x);
            load8_words(a.w, e, w);
            EACH8(k)
            x[k] = (x[k] - s.mean) * s.r * w[k];
            store8_sum<true>(a.out, from + e, a.width, x, false, raw[c]);
        }
    }
}

/* Both gradients of an rms_norm, of rows that are read once: dx, and this block's part of dw. */
template <int HELD> static __device__ inline void norm_dx_dw_held(const cuda_norm_args &a)
{
    float dw[HELD][8] = {};
    FOR_ROWS(row)
    {
        int64_t from = row * a.width;
        float x[8], w[8], g[8], sums[2] = {0.0f, 0.0f};
        eight<true> raw[HELD], dy[HELD], was[HELD];
        hold<HELD>(a, a.x, from, raw);
        hold<HELD>(a, a.dy, from, dy);
        if (a.accumulate)
            hold<HELD>(a, a.out, from, was);
        EACH_HELD(c, e)
        {
            load8_words(a.w, e, w);
            widen8(raw[c], x);
            widen8(dy[c], g);
            EACH8(k)
            {
                sums[0] += x[k] * x[k];
                sums[1] += g[k] * w[k] * x[k];
            }
        }
        block_sums(sums);
        const float n = (float)a.width, r = 1.0f / sqrtf(sums[0] / n + a.eps),
                    gx_mean = sums[1] * r / n;
        EACH_HELD(c, e)
        {
            load8_words(a.w, e, w);
            widen8(raw[c], x);
            widen8(dy[c], g);
            EACH8(k)
            {
                const float normed = x[k] * r;
                dw[c][k] += g[k] * normed;
                x[k] = r * (g[k] * w[k] - normed * gx_mean);
            }
            store8_sum<true>(a.out, from + e, a.width, x, a.accumulate, was[c]);
        }
    }
    EACH_HELD(c, e)
    store8(a.parts, blockIdx.x * a.width + e, (blockIdx.x + 1) * a.width, dw[c]);
}

#define HOLDING(name, held)                                                                        \
    WEFT_KERNEL(name##_##held, cuda_norm_args, CUDA_THREADS)                                       \
    {                                                                                              \
        name##_held<held>(a);                                                                      \
    }

HOLDING(norm, 2)
HOLDING(norm, 4)
HOLDING(norm_dx, 2)
HOLDING(norm_dx, 4)
HOLDING(norm_dw, 2)
HOLDING(norm_dw, 4)
HOLDING(add_norm, 2)
HOLDING(add_norm, 4)
HOLDING(norm_dx_dw, 2)
HOLDING(norm_dx_dw, 4)

/* ---- a row of any width ---- */

WEFT_KERNEL(norm, cuda_norm_args, CUDA_THREADS)
{
    FOR_ROWS(row)
    {
        row_stats s = stats_of(a, row);
        int64_t from = row * a.width, end = from + a.width;
        FOR_ROW(e, a.width)
        {
            float x[8], w[8], bias[8];
            load8(a.x, from + e, end, x);
            load8(a.w, e, a.width, w);
            EACH8(k)
            x[k] = (x[k] - s.mean) * s.r * w[k];
            if (a.centred) {
                load8(a.bias, e, a.width, bias);
                EACH8(k)
                x[k] += bias[k];
            }
            store8_or_add(a.out, from + e, end, x, a.accumulate);
        }
    }
}

WEFT_KERNEL(norm_dx, cuda_norm_args, CUDA_THREADS)
{
    FOR_ROWS(row)
    {
        row_stats s = stats_of(a, row);
        int64_t from = row * a.width, end = from + a.width;
        float x[8], w[8], dy[8], g_mean = 0.0f, gx_mean = 0.0f;
        FOR_ROW(e, a.width)
        {
            load8(a.x, from + e, end, x);
            load8(a.w, e, a.width, w);
            load8(a.dy, from + e, end, dy);
            EACH8(k)
            {
                float g = dy[k] * w[k];
                g_mean += g;
                gx_mean += g * (x[k] - s.mean) * s.r;
            }
        }
        g_mean = a.centred ? block_sum(g_mean) / (float)a.width : 0.0f;
        gx_mean = block_sum(gx_mean) / (float)a.width;
        FOR_ROW(e, a.width)
        {
            load8(a.x, from + e, end, x);
            load8(a.w, e, a.width, w);
            load8(a.dy, from + e, end, dy);
            EACH8(k)
            x[k] = s.r * (dy[k] * w[k] - g_mean - (x[k] - s.mean) * s.r * gx_mean);
            store8_or_add(a.out, from + e, end, x, a.accumulate);
        }
    }
}

WEFT_KERNEL(norm_stats, cuda_norm_args, CUDA_THREADS)
{
    FOR_ROWS(row)
    {
        row_stats s = stats_of(a, row);
        if (threadIdx.x == 0) {
            a.stats[2 * row] = s.mean;
            a.stats[2 * row + 1] = s.r;
        }
    }
}

/* ---- sums over rows ---- */

/* Block (c, p): CUDA_COLUMNS columns from c on, of the rows r with r mod n_parts = p. A warp takes
 * a row; the warps' sums are added in their order. */
WEFT_KERNEL(column_parts, cuda_columns_args, CUDA_THREADS)
{
    __shared__ float sums[CUDA_THREADS / 32][CUDA_COLUMNS];
    int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5, warps = (int)blockDim.x >> 5;
    int64_t e = (int64_t)blockIdx.x * CUDA_COLUMNS + 8 * lane;
    float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};

    for (int64_t row = blockIdx.y + (int64_t)warp * a.n_parts; row < a.rows && e < a.width;
         row += warps * a.n_parts) {
        float x[8], dy[8];
        int64_t from = row * a.width, end = from + a.width;
        load8(a.dy, from + e, end, dy);
        if (a.stats) {
            float mean = a.stats[2 * row], r = a.stats[2 * row + 1];
            load8(a.x, from + e, end, x);
            EACH8(k)
            dy[k] *= (x[k] - mean) * r;
        }
        EACH8(k)
        sum[k] += dy[k];
    }
    EACH8(k)
    sums[warp][8 * lane + k] = sum[k];
    __syncthreads();
    for (int c = (int)threadIdx.x; c < CUDA_COLUMNS; c += (int)blockDim.x) {
        int64_t at = (int64_t)blockIdx.x * CUDA_COLUMNS + c;
        float total = 0.0f;
        for (int w = 0; w < warps; w++)
            total += sums[w][c];
        if (at < a.width)
            a.parts[(int64_t)blockIdx.y * a.width + at] = total;
    }
}

/* A block for 32 columns: a warp adds every 8th part, and the warps' sums are added in their order.
 */
WEFT_KERNEL(column_sums, cuda_columns_args, CUDA_THREADS)
{
    __shared__ float sums[CUDA_THREADS / 32][32];
    int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5, warps = (int)blockDim.x >> 5;
    int64_t e = (int64_t)blockIdx.x * 32 + lane;
    float sum = 0.0f;
    if (e < a.width)
        _Pragma("unroll 8") for (int64_t p = warp; p < a.n_parts; p += warps) sum +=
            a.parts[p * a.width + e];
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || e >= a.width)
        return;
    for (int w = 1; w < warps; w++)
        sum += sums[w][lane];
    put_or_add(a.out, e, sum, a.accumulate);
}
