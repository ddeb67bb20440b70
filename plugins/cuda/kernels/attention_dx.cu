/* SPDX-License-Identifier: Apache-2.0 */
/* Attention's gradients in bf16 by matrix instructions. One kernel for dq, one for dk and dv: seven
 * products instead of five, nine for heads of more than 128 elements, whose dk and dv are two
 * blocks' work; but every sum is made by one block in a fixed order. What comes next is copied
 * while a block computes. */
#include "attention.h"

/* dout . out of every head of every row. */
WEFT_KERNEL(attention_delta, cuda_attention_args, CUDA_THREADS)
{
    int lane = (int)threadIdx.x & 31, warps = (int)blockDim.x >> 5;
    int64_t heads = (int64_t)a.batch * a.q_rows * a.heads;
    for (int64_t h = (int64_t)blockIdx.x * warps + (threadIdx.x >> 5); h < heads;
         h += (int64_t)gridDim.x * warps) {
        float sum = 0.0f, x[8], y[8];
        for (int c = 8 * lane; c < a.d; c += 256) {
            load8(a.out, h * a.d + c, (h + 1) * a.d, x);
            load8(a.dout, h * a.d + c, (h + 1) * a.d, y);
            EACH8(k)
            sum += x[k] * y[k];
        }
        sum = warp_reduce<add_of>(sum);
        if (lane == 0)
            a.delta[h] = sum;
    }
}

/* What a gradient needs of a query or a key: rows are laid out for either kernel. */
typedef struct query {
    float lse, delta; /* lse in powers of two; infinite where nothing is seen: weights are 0 */
    int32_t index, segment;
} query;

static __device__ inline query query_of(const cuda_attention_args &a, int b, int i, int head)
{
    query q = {INFINITY, 0.0f, 0, 0};
    if (i < a.q_rows) {
        int64_t at = ((int64_t)b * a.q_rows + i) * a.heads + head;
        q.lse = a.lse[at] == -INFINITY ? INFINITY : a.lse[at] * LOG2_E;
        q.delta = a.delta[at];
        q.index = known(a.index_q, i);
        q.segment = known(a.segments_q, (int64_t)b * a.q_rows + i);
    }
    return q;
}

typedef struct key {
    int32_t index, segment;
    bool there;
} key;

static __device__ inline key key_of(const cuda_attention_args &a, int b, int j)
{
    key k = {0, 0, j < a.k_rows};
    if (k.there) {
        k.index = known(a.index_k, j);
        k.segment = known(a.segments_k, (int64_t)b * a.k_rows + j);
    }
    return k;
}

static __device__ inline bool sees(const cuda_attention_args &a, const query &q, const key &k)
{
    return k.there && (!a.causal || k.index <= q.index) && k.segment == q.segment;
}

template <int D, int WIDTH>
static __device__ inline void write_rows(const cuda_attention_args &a, const cuda_view &to,
                                         const float sum[WIDTH / 8][4], int b, int row, int rows,
                                         int heads, int head, int column, bool add)
{
    int lane = (int)threadIdx.x & 31;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int i = row + (lane >> 2) + 8 * h;
        int64_t base = head_at(b, i, rows, heads, head, a.d);
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n++) {
            int c = column + 8 * n + 2 * (lane & 3);
            if (i < rows && c < a.d)
                put_pair(to, base + c, sum[n][2 * h], sum[n][2 * h + 1], add);
        }
    }
}

template <int WIDTH> static __device__ inline void clear(float sum[WIDTH / 8][4])
{
#pragma unroll
    for (int n = 0; n < WIDTH / 8; n++)
        sum[n][0] = sum[n][1] = sum[n][2] = sum[n][3] = 0.0f;
}

/* ---- dq: grid and blocks as in the forward ---- */

template <int D, int N> static __device__ inline void make_dq(const cuda_attention_args &a)
{
    WEFT_DYNAMIC_SHARED(shared);
    uint16_t *q = (uint16_t *)shared, *dout = q + ROWS * D, *stages = dout + ROWS * D;
    int q_tiles = (int)gridDim.x, k_tiles = (a.k_rows + ROWS - 1) / ROWS;
    int parts = (a.k_rows + N - 1) / N;
    int tile = q_tiles - 1 - (int)blockIdx.x, b = (int)blockIdx.z;
    int head = (int)blockIdx.y, kv = kv_head_of(a, head), lane = (int)threadIdx.x & 31;
    int first = ((int)threadIdx.x >> 5) * 16;
    int q_step = a.heads * a.d, k_step = a.kv_heads * a.d;
    int64_t q_at = head_at(b, 0, a.q_rows, a.heads, head, a.d);
    int64_t kv_at = head_at(b, 0, a.k_rows, a.kv_heads, kv, a.d);
    const uint16_t *from_k = (const uint16_t *)a.k.data + kv_at,
                   *from_v = (const uint16_t *)a.v.data + kv_at;
    int row = tile * ROWS + first;
    tile_range mine = range_of(a.ranges_q, q_tiles, b, tile);
    query me[2] = {query_of(a, b, row + (lane >> 2), head),
                   query_of(a, b, row + (lane >> 2) + 8, head)};
    float sum[D / 8][4], s[N / 8][4], dp[N / 8][4], scale = a.scale * LOG2_E;

    clear<D>(sum);
    load_tile<D, ROWS>(q, (const uint16_t *)a.q.data + q_at, tile * ROWS, a.q_rows, q_step, a.d);
    load_tile<D, ROWS>(dout, (const uint16_t *)a.dout.data + q_at, tile * ROWS, a.q_rows, q_step,
                       a.d);
    int j = next_part<N, true>(a, mine, b, 0, parts);
    load_pair<D, N>(stages, from_k, from_v, j, a.k_rows, k_step, a.d);
    for (int stage = 0, next; j < parts; j = next, stage ^= 1) {
        uint16_t *k = stages + stage * 2 * N * D, *v = k + N * D;
        tile_range theirs = range_of(a.ranges_k, k_tiles, b, j / (ROWS / N));
        bool clear_tile = is_clear(a, mine, theirs) && (j + 1) * N <= a.k_rows;
        next = next_part<N, true>(a, mine, b, j + 1, parts);
        copies_wait();
        __syncthreads(); /* this stage is there, and nobody reads the other one */
        if (next < parts)
            load_pair<D, N>(stages + (stage ^ 1) * 2 * N * D, from_k, from_v, next, a.k_rows,
                            k_step, a.d);
        multiply<D, N>(s, q, first, k);
        multiply<D, N>(dp, dout, first, v);
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int c = 0; c < 4; c++) {
                int h = c >> 1;
                bool seen = clear_tile;
                if (!clear_tile)
                    seen = sees(a, me[h], key_of(a, b, j * N + 8 * n + 2 * (lane & 3) + (c & 1)));
                float p = seen ? exp2_fast(s[n][c] * scale - me[h].lse) : 0.0f;
                s[n][c] = p * (dp[n][c] - me[h].delta) * a.scale;
            }
        multiply_add<D, N, D>(sum, s, k, 0);
    }
    copies_wait(); /* where nothing was seen */
    write_rows<D, D>(a, a.dq, sum, b, row, a.q_rows, a.heads, head, 0, a.add_dq);
}

/* ---- dk and dv: a block has 64 keys of a key head and walks over the queries of all heads that
 * share it; WIDTH of the D columns, the others are another block's ---- */

/* Part i of the queries of a head: rows, gradients of results, and what is known of each. */
template <int D, int N>
static __device__ inline void load_queries(uint16_t *stage, query *queries,
                                           const cuda_attention_args &a, int b, int i, int head)
{
    int64_t at = head_at(b, 0, a.q_rows, a.heads, head, a.d);
    load_pair<D, N>(stage, (const uint16_t *)a.q.data + at, (const uint16_t *)a.dout.data + at, i,
                    a.q_rows, a.heads * a.d, a.d);
    if (threadIdx.x < N)
        queries[threadIdx.x] = query_of(a, b, i * N + (int)threadIdx.x, head);
}

template <int D, int N, int WIDTH>
static __device__ inline void make_dkv(const cuda_attention_args &a)
{
    WEFT_DYNAMIC_SHARED(shared);
    __shared__ query queries[2][N];
    uint16_t *k = (uint16_t *)shared, *v = k + ROWS * D, *stages = v + ROWS * D;
    int q_tiles = (a.q_rows + ROWS - 1) / ROWS, k_tiles = (a.k_rows + ROWS - 1) / ROWS;
    int parts = (a.q_rows + N - 1) / N;
    int tile = (int)blockIdx.x / (D / WIDTH), b = (int)blockIdx.z;
    int column = (int)blockIdx.x % (D / WIDTH) * WIDTH, kv = (int)blockIdx.y;
    int lane = (int)threadIdx.x & 31, first = ((int)threadIdx.x >> 5) * 16;
    int k_step = a.kv_heads * a.d;
    int64_t kv_at = head_at(b, 0, a.k_rows, a.kv_heads, kv, a.d);
    int row = tile * ROWS + first;
    tile_range mine = range_of(a.ranges_k, k_tiles, b, tile);
    key me[2] = {key_of(a, b, row + (lane >> 2)), key_of(a, b, row + (lane >> 2) + 8)};
    float dk[WIDTH / 8][4], dv[WIDTH / 8][4], s[N / 8][4], dp[N / 8][4], scale = a.scale * LOG2_E;
    int begin = (a.kv_lo + kv) * a.group - a.head_lo, end = begin + a.group;
    begin = begin < 0 ? 0 : begin;
    end = end > a.heads ? a.heads : end;

    clear<WIDTH>(dk);
    clear<WIDTH>(dv);
    load_tile<D, ROWS>(k, (const uint16_t *)a.k.data + kv_at, tile * ROWS, a.k_rows, k_step, a.d);
    load_tile<D, ROWS>(v, (const uint16_t *)a.v.data + kv_at, tile * ROWS, a.k_rows, k_step, a.d);
    int head = begin, i = next_part<N, false>(a, mine, b, 0, parts);
    bool any = i < parts && begin < end;
    if (any)
        load_queries<D, N>(stages, queries[0], a, b, i, head);
    for (int stage = 0; any; stage ^= 1) {
        uint16_t *q = stages + stage * 2 * N * D, *dout = q + N * D;
        tile_range theirs = range_of(a.ranges_q, q_tiles, b, i / (ROWS / N));
        bool clear_tile = is_clear(a, theirs, mine) && (tile + 1) * ROWS <= a.k_rows;
        i = next_part<N, false>(a, mine, b, i + 1, parts);
        if (i == parts) {
            i = next_part<N, false>(a, mine, b, 0, parts);
            head++;
        }
        any = head < end;
        copies_wait();
        __syncthreads(); /* this stage is there, and nobody reads the other one */
        if (any)
            load_queries<D, N>(stages + (stage ^ 1) * 2 * N * D, queries[stage ^ 1], a, b, i, head);
        multiply<D, N>(s, k, first, q);
        multiply<D, N>(dp, v, first, dout);
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int c = 0; c < 4; c++) {
                query you = queries[stage][8 * n + 2 * (lane & 3) + (c & 1)];
                bool seen = clear_tile || sees(a, you, me[c >> 1]);
                s[n][c] = seen ? exp2_fast(s[n][c] * scale - you.lse) : 0.0f;
                dp[n][c] = s[n][c] * (dp[n][c] - you.delta) * a.scale;
            }
        multiply_add<D, N, WIDTH>(dv, s, dout, column);
        multiply_add<D, N, WIDTH>(dk, dp, q, column);
    }
    copies_wait(); /* where nothing was seen */
    write_rows<D, WIDTH>(a, a.dk, dk, b, row, a.k_rows, a.kv_heads, kv, column, false);
    write_rows<D, WIDTH>(a, a.dv, dv, b, row, a.k_rows, a.kv_heads, kv, column, false);
}

WEFT_KERNEL(attention_dq_64, cuda_attention_args, BLOCK)
{
    make_dq<64, 64>(a);
}

WEFT_KERNEL(attention_dq_128, cuda_attention_args, BLOCK)
{
    make_dq<128, 32>(a);
}

WEFT_KERNEL(attention_dq_256, cuda_attention_args, BLOCK)
{
    make_dq<256, 16>(a);
}

WEFT_KERNEL(attention_dkv_64, cuda_attention_args, BLOCK)
{
    make_dkv<64, 32, 64>(a);
}

WEFT_KERNEL(attention_dkv_128, cuda_attention_args, BLOCK)
{
    make_dkv<128, 32, 128>(a);
}

WEFT_KERNEL(attention_dkv_256, cuda_attention_args, BLOCK)
{
    make_dkv<256, 16, 128>(a);
}
