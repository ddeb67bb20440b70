/* SPDX-License-Identifier: Apache-2.0 */
/* Norms: a block for each row. An rms_norm is a layer_norm whose mean is held at zero. */
#include "kernel.h"

typedef struct row_stats {
    float mean, r;
} row_stats;

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

#define FOR_ROWS(row) for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x)

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

/* r (g - mean(g) - x^ mean(g x^)) with g = dy w; without mean(g) if not centred. */
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

WEFT_KERNEL(column_sums, cuda_columns_args, CUDA_THREADS)
{
    int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    if (e >= a.width)
        return;
    for (int64_t p = 0; p < a.n_parts; p++)
        sum += a.parts[p * a.width + e];
    put_or_add(a.out, e, sum, a.accumulate);
}
