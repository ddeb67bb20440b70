/* SPDX-License-Identifier: Apache-2.0 */
/* Attention in f32 for any dtype and any head up to 256 elements: a warp for each row, a lane for
 * each of 32 keys at a time. Slow beside matrix instructions, and exact: for f32 runs. */
#include "kernel.h"

enum { MOST_D = 256, PER_LANE = MOST_D / 32, WARPS_HERE = CUDA_THREADS / 32 };

static __device__ inline bool sees(const cuda_attention_args &a, int b, int i, int j)
{
    return (!a.causal || a.index_k[j] <= a.index_q[i]) &&
           known(a.segments_q, (int64_t)b * a.q_rows + i) ==
               known(a.segments_k, (int64_t)b * a.k_rows + j);
}

/* Elements [from, from + d) of x times those of a row in shared memory. */
static __device__ inline float dot(const cuda_view &x, int64_t from, const float *row, int d)
{
    float sum = 0.0f, y[8];
    for (int c = 0; c < d; c += 8) {
        load8(x, from + c, from + d, y);
        EACH8(k)
        sum += c + k < d ? y[k] * row[c + k] : 0.0f;
    }
    return sum;
}

/* This warp's copy of a row. */
static __device__ inline float *copy_row(float (*rows)[MOST_D], const cuda_view &x, int64_t from,
                                         int d)
{
    float *row = rows[threadIdx.x >> 5];
    __syncwarp(); /* an earlier row may still be read */
    for (int c = (int)threadIdx.x & 31; c < d; c += 32)
        row[c] = get(x, from + c);
    __syncwarp();
    return row;
}

/* sum[c] += p of lane l times row l of x, for each lane; row l begins at from + l * step. */
static __device__ inline void add_rows(float sum[PER_LANE], float p, const cuda_view &x,
                                       int64_t from, int64_t step, int d)
{
    int lane = (int)threadIdx.x & 31;
    for (int l = 0; l < 32; l++) {
        float by = __shfl_sync(0xffffffffu, p, l);
        if (by == 0.0f)
            continue;
        _Pragma("unroll") for (int t = 0; t < PER_LANE; t++)
        {
            int c = lane + 32 * t;
            if (c < d)
                sum[t] += by * get(x, from + l * step + c);
        }
    }
}

#define FOR_WARPS(t, n)                                                                            \
    for (int64_t t = (int64_t)blockIdx.x * WARPS_HERE + (threadIdx.x >> 5); t < (int64_t)(n);      \
         t += (int64_t)gridDim.x * WARPS_HERE)

WEFT_KERNEL(attention_any, cuda_attention_args, CUDA_THREADS)
{
    __shared__ float rows[WARPS_HERE][MOST_D];
    int lane = (int)threadIdx.x & 31;
    int64_t step = (int64_t)a.kv_heads * a.d;
    FOR_WARPS(t, (int64_t)a.batch * a.q_rows * a.heads)
    {
        int rest = (int)((uint32_t)t / (uint32_t)a.heads),
            head = (int)(t - (int64_t)rest * a.heads);
        int b = rest / a.q_rows, i = rest - b * a.q_rows;
        int kv = (a.head_lo + head) / a.group - a.kv_lo;
        int64_t kv_at = ((int64_t)b * a.k_rows * a.kv_heads + kv) * a.d;
        float *q = copy_row(rows, a.q, t * a.d, a.d);
        float most = -INFINITY, total = 0.0f, sum[PER_LANE] = {0, 0, 0, 0, 0, 0, 0, 0};
        for (int j = 0; j < a.k_rows; j += 32) {
            float s = -INFINITY;
            if (j + lane < a.k_rows && sees(a, b, i, j + lane))
                s = a.scale * dot(a.k, kv_at + (j + lane) * step, q, a.d);
            float next = fmaxf(most, warp_reduce<larger_of>(s));
            if (next == -INFINITY)
                continue;
            float shrink = expf(most - next), p = expf(s - next);
            most = next;
            total = total * shrink + warp_reduce<add_of>(p);
            _Pragma("unroll") for (int c = 0; c < PER_LANE; c++) sum[c] *= shrink;
            add_rows(sum, p, a.v, kv_at + j * step, step, a.d);
        }
        float by = total > 0.0f ? 1.0f / total : 0.0f;
        if (lane == 0)
            a.lse[t] = total > 0.0f ? most + logf(total) : -INFINITY;
        _Pragma("unroll") for (int c = 0; c < PER_LANE; c++)
        {
            if (lane + 32 * c < a.d)
                put(a.out, t * a.d + lane + 32 * c, sum[c] * by);
        }
    }
}

WEFT_KERNEL(attention_any_dq, cuda_attention_args, CUDA_THREADS)
{
    __shared__ float rows[WARPS_HERE][MOST_D], more[WARPS_HERE][MOST_D];
    int lane = (int)threadIdx.x & 31;
    int64_t step = (int64_t)a.kv_heads * a.d;
    FOR_WARPS(t, (int64_t)a.batch * a.q_rows * a.heads)
    {
        int rest = (int)((uint32_t)t / (uint32_t)a.heads),
            head = (int)(t - (int64_t)rest * a.heads);
        int b = rest / a.q_rows, i = rest - b * a.q_rows;
        int kv = (a.head_lo + head) / a.group - a.kv_lo;
        int64_t kv_at = ((int64_t)b * a.k_rows * a.kv_heads + kv) * a.d;
        float *q = copy_row(rows, a.q, t * a.d, a.d), *dout = copy_row(more, a.dout, t * a.d, a.d);
        float lse = a.lse[t], delta = a.delta[t], sum[PER_LANE] = {0, 0, 0, 0, 0, 0, 0, 0};
        for (int j = 0; j < a.k_rows; j += 32) {
            float ds = 0.0f;
            int64_t at = kv_at + (j + lane) * step;
            if (j + lane < a.k_rows && sees(a, b, i, j + lane))
                ds = expf(a.scale * dot(a.k, at, q, a.d) - lse) *
                     (dot(a.v, at, dout, a.d) - delta) * a.scale;
            add_rows(sum, ds, a.k, kv_at + j * step, step, a.d);
        }
        _Pragma("unroll") for (int c = 0; c < PER_LANE; c++) if (lane + 32 * c < a.d)
            put_or_add(a.dq, t * a.d + lane + 32 * c, sum[c], a.add_dq);
    }
}

WEFT_KERNEL(attention_any_dkv, cuda_attention_args, CUDA_THREADS)
{
    __shared__ float rows[WARPS_HERE][MOST_D], more[WARPS_HERE][MOST_D];
    int lane = (int)threadIdx.x & 31;
    int64_t step = (int64_t)a.heads * a.d;
    FOR_WARPS(t, (int64_t)a.batch * a.k_rows * a.kv_heads)
    {
        int rest = (int)((uint32_t)t / (uint32_t)a.kv_heads);
        int kv = (int)(t - (int64_t)rest * a.kv_heads), b = rest / a.k_rows,
            j = rest - b * a.k_rows;
        float *k = copy_row(rows, a.k, t * a.d, a.d), *v = copy_row(more, a.v, t * a.d, a.d);
        float dk[PER_LANE] = {0, 0, 0, 0, 0, 0, 0, 0}, dv[PER_LANE] = {0, 0, 0, 0, 0, 0, 0, 0};
        int begin = (a.kv_lo + kv) * a.group - a.head_lo, end = begin + a.group;
        begin = begin < 0 ? 0 : begin;
        end = end > a.heads ? a.heads : end;
        for (int head = begin; head < end; head++)
            for (int i = 0; i < a.q_rows; i += 32) {
                float p = 0.0f, ds = 0.0f;
                int64_t from = ((int64_t)b * a.q_rows * a.heads + head) * a.d,
                        at = from + (i + lane) * step;
                if (i + lane < a.q_rows && sees(a, b, i + lane, j)) {
                    int64_t row = ((int64_t)b * a.q_rows + i + lane) * a.heads + head;
                    p = expf(a.scale * dot(a.q, at, k, a.d) - a.lse[row]);
                    ds = p * (dot(a.dout, at, v, a.d) - a.delta[row]) * a.scale;
                }
                add_rows(dv, p, a.dout, from + i * step, step, a.d);
                add_rows(dk, ds, a.q, from + i * step, step, a.d);
            }
        _Pragma("unroll") for (int c = 0; c < PER_LANE; c++) if (lane + 32 * c < a.d)
        {
            put(a.dk, t * a.d + lane + 32 * c, dk[c]);
            put(a.dv, t * a.d + lane + 32 * c, dv[c]);
        }
    }
}

/* Attention over two sets of keys: outputs and log-sum-exps over each in ins 0 to 3. A warp for
 * each row of a head, so that results may lie where operands lay. */
WEFT_KERNEL(attention_merge, cuda_elementwise_args, CUDA_THREADS)
{
    int lane = (int)threadIdx.x & 31;
    FOR_WARPS(r, a.n / a.width)
    {
        float one = get(a.ins[1], r), two = get(a.ins[3], r), most = fmaxf(one, two);
        float all = most == -INFINITY ? most : most + logf(expf(one - most) + expf(two - most));
        float p = one == -INFINITY ? 0.0f : expf(one - all);
        float q = two == -INFINITY ? 0.0f : expf(two - all);
        if (one != one || two != two)
            all = p = q = NAN;
        __syncwarp(); /* all lanes have read what the first one overwrites */
        if (lane == 0)
            put(a.outs[1], r, all);
        for (int64_t c = 8 * lane; c < a.width; c += 256) {
            float x[8], y[8];
            load8(a.ins[0], r * a.width + c, (r + 1) * a.width, x);
            load8(a.ins[2], r * a.width + c, (r + 1) * a.width, y);
            EACH8(k)
            x[k] = p * x[k] + q * y[k];
            store8(a.outs[0], r * a.width + c, (r + 1) * a.width, x);
        }
    }
}
