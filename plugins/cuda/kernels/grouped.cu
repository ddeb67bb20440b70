/* SPDX-License-Identifier: Apache-2.0 */
/* Products of each expert's rows with its weight. How many rows that is the GPU alone knows, so a
 * grid has as many blocks as there could be tiles, or as a GPU is filled by, and walks over those
 * that there are. A row's sum is in one order, whatever other rows there are. */
#include "matrix.h"

/* ---- the list: by one block ---- */

static __device__ inline int32_t *run_of(const cuda_grouped_args &a, int64_t i)
{
    return a.list + CUDA_RUN_WORDS * i;
}

static __device__ inline int64_t runs_of(const cuda_grouped_args &a)
{
    return (int64_t)a.groups * a.experts;
}

static __device__ inline int32_t *all_tiles(const cuda_grouped_args &a)
{
    return run_of(a, runs_of(a));
}

/* Of expert group i of the token groups, the rows in use. */
static __device__ inline int32_t *used_of(const cuda_grouped_args &a, int64_t i)
{
    return all_tiles(a) + 1 + i;
}

/* Where each run of an expert group begins. No count is believed to be more than there are slots.
 */
static __device__ inline void list_group(const cuda_grouped_args &a, int64_t i)
{
    int64_t at = 0;
    for (int64_t r = i * a.each; r < (i + 1) * a.each; r++) {
        const int64_t wanted = a.counts[r], left = a.slots - at;
        const int64_t n = wanted < 0 ? 0 : wanted < left ? wanted : left;
        run_of(a, r)[0] = (int32_t)(i * a.slots + at);
        run_of(a, r)[1] = (int32_t)n;
        at += n;
    }
    *used_of(a, i) = (int32_t)at;
}

WEFT_KERNEL(grouped_list, cuda_grouped_args, CUDA_THREADS)
{
    __shared__ int32_t tiles[CUDA_THREADS];
    const int64_t me = threadIdx.x, runs = runs_of(a),
                  share = (runs + CUDA_THREADS - 1) / CUDA_THREADS;
    const int64_t from = me * share, to = from + share < runs ? from + share : runs;
    int32_t n = 0, before = 0;
    for (int64_t i = me; i < runs / a.each; i += blockDim.x)
        list_group(a, i);
    __syncthreads();
    for (int64_t r = from; r < to; r++)
        n += (run_of(a, r)[1] + a.tile - 1) / a.tile;
    tiles[me] = n;
    __syncthreads();
    for (int64_t t = 0; t < me; t++)
        before += tiles[t];
    for (int64_t r = from; r < to; r++) {
        run_of(a, r)[2] = before;
        before += (run_of(a, r)[1] + a.tile - 1) / a.tile;
    }
    if (me == CUDA_THREADS - 1)
        *all_tiles(a) = before;
}

/* Rows behind those in use are zeros. */
WEFT_KERNEL(grouped_clear, cuda_grouped_args, CUDA_THREADS)
{
    const float zeros[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        const int64_t group = row / a.slots;
        if (row - group * a.slots < *used_of(a, group))
            continue;
        FOR_ROW(e, a.n)
        store8(a.out, row * a.n + e, (row + 1) * a.n, zeros);
    }
}

/* ---- which tile ---- */

/* Rows [row, end) of the result and columns from `column` on. Of the gradient of weights rows are
 * an expert's own, and terms those of all its runs. */
typedef struct tile_place {
    int64_t expert, row, end, column;
} tile_place;

/* The last run that begins at tile t or before. */
static __device__ inline int64_t run_at(const cuda_grouped_args &a, int64_t t)
{
    int64_t from = 0, to = runs_of(a);
    while (to - from > 1) {
        const int64_t middle = (from + to) / 2;
        if (run_of(a, middle)[2] <= t)
            from = middle;
        else
            to = middle;
    }
    return from;
}

static __device__ inline tile_place place_of(const cuda_grouped_args &a, int64_t t)
{
    const int64_t columns = (a.n + a.tile - 1) / a.tile, row = t / columns;
    const int32_t *run = run_of(a, run_at(a, row));
    const int64_t first = run[0] + (row - run[2]) * a.tile;
    return tile_place{(run - a.list) / CUDA_RUN_WORDS % a.experts, first, run[0] + run[1],
                      (t - row * columns) * a.tile};
}

static __device__ inline tile_place weight_place_of(const cuda_grouped_args &a, int64_t t)
{
    const int64_t columns = (a.n + a.tile - 1) / a.tile, rows = (a.m + a.tile - 1) / a.tile;
    const int64_t expert = t / (rows * columns), rest = t - expert * rows * columns;
    return tile_place{expert, rest / columns * a.tile, a.m, rest % columns * a.tile};
}

#define FOR_TILES(t)                                                                               \
    for (int64_t t = blockIdx.x, tiles = *all_tiles(a) * ((a.n + a.tile - 1) / a.tile); t < tiles; \
         t += gridDim.x)
#define FOR_WEIGHT_TILES(t)                                                                        \
    for (int64_t t = blockIdx.x, tiles = (int64_t)a.experts * ((a.m + a.tile - 1) / a.tile) *      \
                                         ((a.n + a.tile - 1) / a.tile);                            \
         t < tiles; t += gridDim.x)

/* ---- any dtype and any width: 64 by 64 results of a block, 4 by 4 of a thread ---- */

enum { SIDE = 64, DEPTH = 16, PITCH = SIDE + 4 };

/* x[DEPTH][SIDE] of terms [k, k + DEPTH) of SIDE rows of the result: from a matrix with `pitch`
 * elements a row, whose rows are those (ROWS), from `row` up to `end`, and whose columns are terms
 * up to `terms`; or the other way round. Half a block's threads do it. */
template <bool ROWS>
static __device__ inline void load_side(float (*x)[PITCH], const cuda_view &v, int64_t base,
                                        int64_t pitch, int64_t row, int64_t end, int64_t k,
                                        int64_t terms, int me)
{
    float y[8];
    if (ROWS) {
        const int r = me / 2, c = me % 2 * 8;
        const int64_t at = base + (row + r) * pitch;
        load8(v, at + k + c, row + r < end ? at + terms : 0, y);
        EACH8(i)
        x[c + i][r] = y[i];
    } else {
        const int r = me / 8, c = me % 8 * 8;
        const int64_t at = base + (k + r) * pitch;
        load8(v, at + row + c, k + r < terms ? at + end : 0, y);
        EACH8(i)
        x[r][c + i] = y[i];
    }
}

/* Adds terms [0, terms) to this thread's 4 by 4. */
template <bool A_ROWS, bool B_ROWS>
static __device__ inline void add_terms(const cuda_grouped_args &a, float sum[4][4],
                                        const tile_place &p, int64_t a_base, int64_t b_base,
                                        int64_t b_pitch, int64_t terms)
{
    __shared__ __align__(16) float x[DEPTH][PITCH], y[DEPTH][PITCH];
    const int me = (int)threadIdx.x, half = CUDA_THREADS / 2, i = me / 16 * 4, j = me % 16 * 4;
    for (int64_t k = 0; k < terms; k += DEPTH) {
        __syncthreads(); /* those before have been read */
        if (me < half)
            load_side<A_ROWS>(x, a.a, a_base, A_ROWS ? a.k : a.m, p.row, p.end, k, terms, me);
        else
            load_side<B_ROWS>(y, a.b, b_base, b_pitch, p.column, a.n, k, terms, me - half);
        __syncthreads();
        _Pragma("unroll") for (int d = 0; d < DEPTH; d++)
        {
            const float4 l = *(const float4 *)&x[d][i], r = *(const float4 *)&y[d][j];
            const float left[4] = {l.x, l.y, l.z, l.w}, right[4] = {r.x, r.y, r.z, r.w};
            _Pragma("unroll") for (int m = 0; m < 4; m++)
                _Pragma("unroll") for (int n = 0; n < 4; n++) sum[m][n] += left[m] * right[n];
        }
    }
}

static __device__ inline void put_tile(const cuda_grouped_args &a, const float sum[4][4],
                                       const tile_place &p, int64_t base)
{
    const int i = (int)threadIdx.x / 16 * 4, j = (int)threadIdx.x % 16 * 4;
#pragma unroll
    for (int m = 0; m < 4; m++)
#pragma unroll
        for (int n = 0; n < 4; n++)
            if (p.row + i + m < p.end && p.column + j + n < a.n)
                put_or_add(a.out, base + (p.row + i + m) * a.n + p.column + j + n, sum[m][n],
                           a.accumulate);
}

#define NO_SUM                                                                                     \
    {                                                                                              \
        {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0},                                                  \
        {                                                                                          \
            0, 0, 0, 0                                                                             \
        }                                                                                          \
    }

WEFT_KERNEL(grouped_any, cuda_grouped_args, CUDA_THREADS)
{
    FOR_TILES(t)
    {
        const tile_place p = place_of(a, t);
        const int64_t weight = p.expert * a.n * a.k;
        float sum[4][4] = NO_SUM;
        if (a.turned)
            add_terms<true, false>(a, sum, p, 0, weight, a.n, a.k);
        else
            add_terms<true, true>(a, sum, p, 0, weight, a.k, a.k);
        put_tile(a, sum, p, 0);
    }
}

WEFT_KERNEL(grouped_any_dw, cuda_grouped_args, CUDA_THREADS)
{
    FOR_WEIGHT_TILES(t)
    {
        const tile_place p = weight_place_of(a, t);
        float sum[4][4] = NO_SUM;
        for (int64_t r = p.expert; r < runs_of(a); r += a.experts) {
            const int64_t first = run_of(a, r)[0];
            add_terms<false, false>(a, sum, p, first * a.m, first * a.n, a.n, run_of(a, r)[1]);
        }
        put_tile(a, sum, p, p.expert * a.m * a.n);
    }
}

/* ---- bf16 of whole words by matrix instructions: 128 by 128 results of a block of 8 warps, 64 by
 * 32 of a warp; 32 terms at a time, and those that come next are copied meanwhile ---- */

enum { EDGE = 128, TERMS = 32, STAGE = EDGE * TERMS };

/* A side's stage: tile[EDGE][TERMS] of its rows, or tile[TERMS][EDGE] of terms; zeros beyond both
 * ends. */
template <bool ROWS>
static __device__ inline void copy_side(uint16_t *tile, const uint16_t *v, int64_t pitch,
                                        int64_t row, int64_t end, int64_t k, int64_t terms)
{
    enum { HEIGHT = ROWS ? EDGE : TERMS, WIDTH = ROWS ? TERMS : EDGE };
    for (int i = (int)threadIdx.x; i < STAGE / 8; i += CUDA_THREADS) {
        const int r = i / (WIDTH / 8), c = i % (WIDTH / 8) * 8;
        const int64_t y = (ROWS ? row : k) + r, x = (ROWS ? k : row) + c;
        const bool there = y < (ROWS ? end : terms) && x < (ROWS ? terms : end);
        copy_ahead(at<WIDTH>(tile, r, c), there ? v + y * pitch + x : v, there);
    }
}

/* Of one stage. */
template <bool A_ROWS, bool B_ROWS>
static __device__ inline void multiply_stage(float sum[4][4][4], uint16_t *x, uint16_t *y)
{
    const int warp = (int)threadIdx.x >> 5, row = (warp & 1) * 64, column = (warp >> 1) * 32;
#pragma unroll(A_ROWS ? 2 : 1) /* unrolled, addresses of turned operands take the registers */
    for (int k = 0; k < TERMS; k += 16) {
        uint32_t right[2][4];
#pragma unroll
        for (int n = 0; n < 2; n++)
            if (B_ROWS)
                load_b<TERMS>(right[n], y, column + 16 * n, k);
            else
                load_b_trans<EDGE>(right[n], y, k, column + 16 * n);
#pragma unroll
        for (int m = 0; m < 4; m++) {
            uint32_t left[4];
            if (A_ROWS)
                load_a<TERMS>(left, x, row + 16 * m, k);
            else
                load_a_trans<EDGE>(left, x, k, row + 16 * m);
#pragma unroll
            for (int n = 0; n < 4; n++)
                mma_bf16(sum[m][n], left, right[n / 2][n % 2 * 2], right[n / 2][n % 2 * 2 + 1]);
        }
    }
}

/* Adds terms [0, terms) to this thread's part of a tile. */
template <bool A_ROWS, bool B_ROWS>
static __device__ inline void add_products(const cuda_grouped_args &a, float sum[4][4][4],
                                           const tile_place &p, int64_t a_base, int64_t b_base,
                                           int64_t b_pitch, int64_t terms)
{
    __shared__ __align__(128) uint16_t x[2][STAGE], y[2][STAGE];
    const uint16_t *left = (const uint16_t *)a.a.data + a_base,
                   *right = (const uint16_t *)a.b.data + b_base;
    const int64_t a_pitch = A_ROWS ? a.k : a.m;
    __syncthreads(); /* an earlier tile's may still be read */
    for (int64_t k = -TERMS; k < terms; k += TERMS) {
        const int now = (int)(k / TERMS) & 1, next = now ^ 1;
        copies_wait();
        __syncthreads(); /* this stage is there, and the next one's has been read */
        if (k + TERMS < terms) {
            copy_side<A_ROWS>(x[next], left, a_pitch, p.row, p.end, k + TERMS, terms);
            copy_side<B_ROWS>(y[next], right, b_pitch, p.column, a.n, k + TERMS, terms);
        }
        if (k >= 0)
            multiply_stage<A_ROWS, B_ROWS>(sum, x[now], y[now]);
    }
}

static __device__ inline void put_products(const cuda_grouped_args &a, const float sum[4][4][4],
                                           const tile_place &p, int64_t base)
{
    const int warp = (int)threadIdx.x >> 5, lane = (int)threadIdx.x & 31;
    const int64_t row = p.row + (warp & 1) * 64 + (lane >> 2),
                  column = p.column + (warp >> 1) * 32 + 2 * (lane & 3);
#pragma unroll
    for (int m = 0; m < 4; m++)
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int64_t i = row + 16 * m + 8 * h, j = column + 8 * n;
                if (i < p.end && j < a.n)
                    put_pair(a.out, base + i * a.n + j, sum[m][n][2 * h], sum[m][n][2 * h + 1],
                             a.accumulate);
            }
}

static __device__ inline void clear_sum(float sum[4][4][4])
{
#pragma unroll
    for (int m = 0; m < 4; m++)
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                sum[m][n][c] = 0.0f;
}

/* [n k]: as forward has weights. */
WEFT_KERNEL(grouped_mma, cuda_grouped_args, CUDA_THREADS)
{
    FOR_TILES(t)
    {
        const tile_place p = place_of(a, t);
        float sum[4][4][4];
        clear_sum(sum);
        add_products<true, true>(a, sum, p, 0, p.expert * a.n * a.k, a.k, a.k);
        put_products(a, sum, p, 0);
    }
}

/* [k n]: as the gradient of rows has them. */
WEFT_KERNEL(grouped_mma_dx, cuda_grouped_args, CUDA_THREADS)
{
    FOR_TILES(t)
    {
        const tile_place p = place_of(a, t);
        float sum[4][4][4];
        clear_sum(sum);
        add_products<true, false>(a, sum, p, 0, p.expert * a.n * a.k, a.n, a.k);
        put_products(a, sum, p, 0);
    }
}

WEFT_KERNEL(grouped_mma_dw, cuda_grouped_args, CUDA_THREADS)
{
    FOR_WEIGHT_TILES(t)
    {
        const tile_place p = weight_place_of(a, t);
        float sum[4][4][4];
        clear_sum(sum);
        for (int64_t r = p.expert; r < runs_of(a); r += a.experts) {
            const int64_t first = run_of(a, r)[0];
            add_products<false, false>(a, sum, p, first * a.m, first * a.n, a.n, run_of(a, r)[1]);
        }
        put_products(a, sum, p, p.expert * a.m * a.n);
    }
}
