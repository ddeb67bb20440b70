/* SPDX-License-Identifier: Apache-2.0 */
/* What attention's kernels by matrix instructions share: tiles in shared memory and what a tile of
 * keys may be skipped for. A warp has 16 rows; a row's numbers lie in the 4 lanes of a quad. */
#ifndef WEFT_CUDA_ATTENTION_H
#define WEFT_CUDA_ATTENTION_H

#include "matrix.h"

#define LOG2_E 1.44269504088896340736f

enum { ROWS = CUDA_TILE, WARPS = ROWS / 16, BLOCK = 32 * WARPS };

/* Least and largest index, least and largest segment of a tile. */
typedef struct tile_range {
    int32_t index_lo, index_hi, segment_lo, segment_hi;
} tile_range;

static __device__ inline tile_range range_of(const int32_t *ranges, int tiles, int b, int tile)
{
    const int32_t *r = ranges + 4 * (b * tiles + tile);
    return tile_range{r[0], r[1], r[2], r[3]};
}

/* No query of the one tile sees a key of the other. */
static __device__ inline bool is_blind(const cuda_attention_args &a, tile_range q, tile_range k)
{
    return (a.causal && k.index_lo > q.index_hi) || k.segment_lo > q.segment_hi ||
           k.segment_hi < q.segment_lo;
}

/* The first part of N rows of a tile, from part i on, whose tile `mine` meets; `end` if there is
 * none. mine is of queries (keys: the parts are of keys) or of keys. */
template <int N, bool KEYS>
static __device__ inline int next_part(const cuda_attention_args &a, tile_range mine, int b, int i,
                                       int end)
{
    const int tiles = ((KEYS ? a.k_rows : a.q_rows) + ROWS - 1) / ROWS;
    for (; i < end; i++) {
        tile_range theirs = range_of(KEYS ? a.ranges_k : a.ranges_q, tiles, b, i / (ROWS / N));
        if (KEYS ? !is_blind(a, mine, theirs) : !is_blind(a, theirs, mine))
            break;
    }
    return i;
}

/* Every query sees every key. */
static __device__ inline bool is_clear(const cuda_attention_args &a, tile_range q, tile_range k)
{
    return (!a.causal || k.index_hi <= q.index_lo) && q.segment_lo == q.segment_hi &&
           k.segment_lo == k.segment_hi && q.segment_lo == k.segment_lo;
}

/* ---- tiles of bf16 in shared memory ---- */

/* Rows [from, from + N) of a [rows, step] matrix, d columns of them; zeros beyond either. They are
 * there behind copies_wait and a barrier. */
template <int D, int N>
static __device__ inline void load_tile(uint16_t *tile, const uint16_t *x, int from, int rows,
                                        int step, int d)
{
    for (int i = (int)threadIdx.x; i < N * D / 8; i += BLOCK) {
        int row = i / (D / 8), column = i % (D / 8) * 8;
        bool there = from + row < rows && column < d;
        copy_ahead(at<D>(tile, row, column), there ? x + (int64_t)(from + row) * step + column : x,
                   there);
    }
}

/* Part j of two such matrices, one behind the other; nothing beyond their ends. */
template <int D, int N>
static __device__ inline void load_pair(uint16_t *stage, const uint16_t *x, const uint16_t *y,
                                        int j, int rows, int step, int d)
{
    if (j * N >= rows)
        return;
    load_tile<D, N>(stage, x, j * N, rows, step, d);
    load_tile<D, N>(stage + N * D, y, j * N, rows, step, d);
}

/* s[16, N] = x[16 rows of its tile from `row` on] y[N rows]^T */
template <int D, int N>
static __device__ inline void multiply(float s[N / 8][4], uint16_t *x, int row, uint16_t *y)
{
#pragma unroll
    for (int n = 0; n < N / 8; n++)
        s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.0f;
#pragma unroll(D > 128 ? 4 : D / 32) /* unrolled whole, addresses take the registers */
    for (int k = 0; k < D; k += 16) {
        uint32_t left[4], right[4];
        load_a<D>(left, x, row, k);
#pragma unroll
        for (int n = 0; n < N; n += 16) {
            load_b<D>(right, y, n, k);
            mma_bf16(s[n / 8], left, right[0], right[1]);
            mma_bf16(s[n / 8 + 1], left, right[2], right[3]);
        }
    }
}

/* The same of an x that is in registers, of which it is a warp's own part. */
template <int D, int N>
static __device__ inline void multiply_held(float s[N / 8][4], uint32_t x[D / 16][4], uint16_t *y)
{
#pragma unroll
    for (int n = 0; n < N / 8; n++)
        s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.0f;
#pragma unroll
    for (int k = 0; k < D; k += 16)
#pragma unroll
        for (int n = 0; n < N; n += 16) {
            uint32_t right[4];
            load_b<D>(right, y, n, k);
            mma_bf16(s[n / 8], x[k / 16], right[0], right[1]);
            mma_bf16(s[n / 8 + 1], x[k / 16], right[2], right[3]);
        }
}

/* sum[16, WIDTH] += p[16, N] y[N rows, columns from `column` on] */
template <int D, int N, int WIDTH>
static __device__ inline void multiply_add(float sum[WIDTH / 8][4], float p[N / 8][4], uint16_t *y,
                                           int column)
{
#pragma unroll
    for (int k = 0; k < N; k += 16) {
        float *lo = p[k / 8], *hi = p[k / 8 + 1];
        uint32_t left[4] = {pack_bf16(lo[0], lo[1]), pack_bf16(lo[2], lo[3]),
                            pack_bf16(hi[0], hi[1]), pack_bf16(hi[2], hi[3])};
#pragma unroll
        for (int n = 0; n < WIDTH; n += 16) {
            uint32_t right[4];
            load_b_trans<D>(right, y, k, column + n);
            mma_bf16(sum[n / 8], left, right[0], right[1]);
            mma_bf16(sum[n / 8 + 1], left, right[2], right[3]);
        }
    }
}

/* Over the four lanes that share a row. */
template <typename OP> static __device__ inline float quad_reduce(float x)
{
    x = OP::of(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return OP::of(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

/* Where head h of row i begins in [batch rows heads d]. */
static __device__ inline int64_t head_at(int b, int i, int rows, int heads, int h, int d)
{
    return (((int64_t)b * rows + i) * heads + h) * d;
}

static __device__ inline int kv_head_of(const cuda_attention_args &a, int head)
{
    return (a.head_lo + head) / a.group - a.kv_lo;
}

#endif
