/* SPDX-License-Identifier: Apache-2.0 */
/* Attention in bf16 by matrix instructions, after Dao, "FlashAttention-2" (2023): a block has 64
 * queries of a head and walks over the tiles of keys that they can see; scores stay in registers.
 */
#include "attention.h"

/* ---- ranges of tiles ---- */

/* A warp for each tile of ROWS rows, of queries and then of keys. */
WEFT_KERNEL(attention_ranges, cuda_attention_args, CUDA_THREADS)
{
    int q_tiles = (a.q_rows + ROWS - 1) / ROWS, k_tiles = (a.k_rows + ROWS - 1) / ROWS;
    int tiles = a.batch * (q_tiles + k_tiles);
    int lane = (int)threadIdx.x & 31, warps = (int)blockDim.x >> 5;
    for (int t = (int)blockIdx.x * warps + ((int)threadIdx.x >> 5); t < tiles;
         t += (int)gridDim.x * warps) {
        bool of_q = t < a.batch * q_tiles;
        int u = of_q ? t : t - a.batch * q_tiles, n = of_q ? q_tiles : k_tiles;
        int b = u / n, tile = u % n, rows = of_q ? a.q_rows : a.k_rows;
        const int32_t *index = of_q ? a.index_q : a.index_k;
        const int32_t *segments = of_q ? a.segments_q : a.segments_k;
        int32_t r[4] = {INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN};
        for (int i = tile * ROWS + lane; i < rows && i < (tile + 1) * ROWS; i += 32) {
            int32_t place = known(index, i), segment = known(segments, (int64_t)b * rows + i);
            r[0] = place < r[0] ? place : r[0];
            r[1] = place > r[1] ? place : r[1];
            r[2] = segment < r[2] ? segment : r[2];
            r[3] = segment > r[3] ? segment : r[3];
        }
        for (int step = 16; step > 0; step >>= 1)
            for (int k = 0; k < 4; k++) {
                int32_t other = __shfl_xor_sync(0xffffffffu, r[k], step);
                r[k] = (k & 1) == (other > r[k]) ? other : r[k];
            }
        int32_t *to = (of_q ? a.ranges_q : a.ranges_k) + 4 * u;
        if (lane < 4)
            to[lane] = lane == 0 ? r[0] : lane == 1 ? r[1] : lane == 2 ? r[2] : r[3];
    }
}

/* ---- forward ---- */

/* What a query row has met so far: the largest score in powers of two, the sum of weights. */
typedef struct row_state {
    float most, sum;
    int row;
    int32_t index, segment;
} row_state;

static __device__ inline row_state begin_row(const cuda_attention_args &a, int b, int row)
{
    row_state s = {-INFINITY, 0.0f, row, 0, 0};
    if (row < a.q_rows) {
        s.index = known(a.index_q, row);
        s.segment = known(a.segments_q, (int64_t)b * a.q_rows + row);
    }
    return s;
}

/* Scores that are not to be seen become -infinity. */
template <int N>
static __device__ inline void hide(const cuda_attention_args &a, float s[N / 8][4], int b,
                                   int k_from, const row_state row[2])
{
    int quad = (int)threadIdx.x & 3;
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int c = 0; c < 2; c++) {
            int j = k_from + 8 * n + 2 * quad + c;
            bool there = j < a.k_rows;
            int32_t index = there ? known(a.index_k, j) : 0;
            int32_t segment = there ? known(a.segments_k, (int64_t)b * a.k_rows + j) : 0;
#pragma unroll
            for (int h = 0; h < 2; h++)
                if (!there || (a.causal && index > row[h].index) || segment != row[h].segment)
                    s[n][2 * h + c] = -INFINITY;
        }
}

/* Scores become weights against the new maximum; what was summed before shrinks by the result. */
template <int N>
static __device__ inline float weigh(float s[N / 8][4], int h, float scale, row_state *row)
{
    float most = row->most;
#pragma unroll
    for (int n = 0; n < N / 8; n++)
        most = fmaxf(most, fmaxf(s[n][2 * h], s[n][2 * h + 1]) * scale);
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
    float from = most == -INFINITY ? 0.0f : most; /* nothing is seen yet: all weights are 0 */
    float shrink = exp2_fast(row->most - from), sum = 0.0f;
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int c = 0; c < 2; c++) {
            float p = exp2_fast(s[n][2 * h + c] * scale - from);
            s[n][2 * h + c] = p;
            sum += p;
        }
    row->sum = row->sum * shrink + sum;
    row->most = most;
    return shrink;
}

/* The row's output and log-sum-exp. */
template <int D>
static __device__ inline void end_row(const cuda_attention_args &a, const float sum[D / 8][4],
                                      int h, int b, int head, const row_state *row)
{
    float total = quad_reduce<add_of>(row->sum), by = total > 0.0f ? 1.0f / total : 0.0f;
    int quad = (int)threadIdx.x & 3;
    int64_t base = head_at(b, row->row, a.q_rows, a.heads, head, a.d);
    if (row->row >= a.q_rows)
        return;
    if (quad == 0)
        a.lse[base / a.d] = total > 0.0f ? row->most / LOG2_E + logf(total) : -INFINITY;
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
        int c = 8 * n + 2 * quad;
        if (c < a.d)
            put_pair(a.out, base + c, sum[n][2 * h] * by, sum[n][2 * h + 1] * by, false);
    }
}

/* Grid: tiles of queries (the longest first), heads, batch. N keys at a time, the next of which are
 * copied while these are computed with. */
template <int D, int N> static __device__ inline void attend(const cuda_attention_args &a)
{
    WEFT_DYNAMIC_SHARED(shared);
    uint16_t *q = (uint16_t *)shared, *stages = q + ROWS * D; /* two, of keys and values */
    int q_tiles = (int)gridDim.x, k_tiles = (a.k_rows + ROWS - 1) / ROWS;
    int parts = (a.k_rows + N - 1) / N;
    int tile = q_tiles - 1 - (int)blockIdx.x, b = (int)blockIdx.z;
    int head = (int)blockIdx.y, kv = kv_head_of(a, head), lane = (int)threadIdx.x & 31;
    int first = ((int)threadIdx.x >> 5) * 16;
    int q_step = a.heads * a.d, k_step = a.kv_heads * a.d;
    const uint16_t *from_q =
        (const uint16_t *)a.q.data + head_at(b, 0, a.q_rows, a.heads, head, a.d);
    int64_t kv_at = head_at(b, 0, a.k_rows, a.kv_heads, kv, a.d);
    const uint16_t *from_k = (const uint16_t *)a.k.data + kv_at,
                   *from_v = (const uint16_t *)a.v.data + kv_at;
    tile_range mine = range_of(a.ranges_q, q_tiles, b, tile);
    row_state row[2] = {begin_row(a, b, tile * ROWS + first + (lane >> 2)),
                        begin_row(a, b, tile * ROWS + first + (lane >> 2) + 8)};
    float sum[D / 8][4], s[N / 8][4], scale = a.scale * LOG2_E;
    const bool holds = D <= 128; /* a warp's queries, which it would read for each part of keys */
    uint32_t held[holds ? D / 16 : 1][4];

#pragma unroll
    for (int n = 0; n < D / 8; n++)
        sum[n][0] = sum[n][1] = sum[n][2] = sum[n][3] = 0.0f;
    load_tile<D, ROWS>(q, from_q, tile * ROWS, a.q_rows, q_step, a.d);
    int j = next_part<N, true>(a, mine, b, 0, parts);
    load_pair<D, N>(stages, from_k, from_v, j, a.k_rows, k_step, a.d);
    if (holds) {
        copies_wait();
        __syncthreads(); /* all queries are there */
#pragma unroll
        for (int k = 0; k < (holds ? D / 16 : 0); k++)
            load_a<D>(held[k], q, first, 16 * k);
    }
    for (int stage = 0, next; j < parts; j = next, stage ^= 1) {
        uint16_t *k = stages + stage * 2 * N * D, *v = k + N * D;
        tile_range theirs = range_of(a.ranges_k, k_tiles, b, j / (ROWS / N));
        next = next_part<N, true>(a, mine, b, j + 1, parts);
        copies_wait();
        __syncthreads(); /* this stage is there, and nobody reads the other one */
        if (next < parts)
            load_pair<D, N>(stages + (stage ^ 1) * 2 * N * D, from_k, from_v, next, a.k_rows,
                            k_step, a.d);
        if (holds)
            multiply_held<holds ? D : 16, N>(s, held, k);
        else
            multiply<D, N>(s, q, first, k);
        if (!is_clear(a, mine, theirs) || (j + 1) * N > a.k_rows)
            hide<N>(a, s, b, j * N, row);
        float shrink[2];
#pragma unroll
        for (int h = 0; h < 2; h++)
            shrink[h] = weigh<N>(s, h, scale, &row[h]);
#pragma unroll
        for (int n = 0; n < D / 8; n++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                sum[n][c] *= shrink[c >> 1];
        multiply_add<D, N, D>(sum, s, v, 0);
    }
    copies_wait(); /* where nothing was seen */
#pragma unroll
    for (int h = 0; h < 2; h++)
        end_row<D>(a, sum, h, b, head, &row[h]);
}

WEFT_KERNEL(attention_64, cuda_attention_args, BLOCK)
{
    attend<64, 64>(a);
}

WEFT_KERNEL(attention_128, cuda_attention_args, BLOCK)
{
    attend<128, 64>(a);
}

WEFT_KERNEL(attention_256, cuda_attention_args, BLOCK)
{
    attend<256, 32>(a);
}
