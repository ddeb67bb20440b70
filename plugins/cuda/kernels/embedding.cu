/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table, and the gradient of the table: tokens are sorted by id, and by place where ids
 * are equal; a block adds the tokens of a piece of that list, and what a piece has of an id that
 * other pieces have, too, are parts, which are added in the pieces' order. So the sum's order is
 * fixed, and no id is so frequent that others wait for it. */
#include "kernel.h"

WEFT_KERNEL(embedding, cuda_embedding_args, CUDA_THREADS)
{
    for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x) {
        int64_t row = get_int(a.ids, t) - a.lo, end = (t + 1) * a.width;
        bool here = row >= 0 && row < a.rows;
        FOR_ROW(e, a.width)
        {
            float x[8] = {0, 0, 0, 0, 0, 0, 0, 0};
            if (here)
                load8(a.table, row * a.width + e, (row + 1) * a.width, x);
            store8_or_add(a.out, t * a.width + e, end, x, a.accumulate);
        }
    }
}

/* ---- the gradient ---- */

/* Of a sorted list, how many keys are smaller. */
static __device__ inline int64_t count_below(const int64_t *keys, int64_t n, int64_t key)
{
    int64_t lo = 0;
    while (n > 0) {
        int64_t half = n / 2;
        bool below = keys[lo + half] < key;
        lo += below ? half + 1 : 0;
        n = below ? n - half - 1 : half;
    }
    return lo;
}

static __device__ inline int64_t key_of(int64_t row, int64_t token)
{
    return (row << 32) + token;
}

/* Row of the table; INT32_MAX: another rank's, or none. */
static __device__ inline int32_t row_of(int64_t key)
{
    return (int32_t)(key >> 32);
}

/* Sorted by blocks of as many tokens as a block has threads: each counts the smaller ones. */
WEFT_KERNEL(sort_tokens, cuda_embedding_args, CUDA_THREADS)
{
    __shared__ int64_t keys[CUDA_THREADS];
    const int64_t n = blockDim.x, me = threadIdx.x;
    for (int64_t first = n * blockIdx.x; first < a.tokens; first += n * gridDim.x) {
        int64_t t = first + me, row = t < a.tokens ? get_int(a.ids, t) - a.lo : -1;
        int64_t key = key_of(row >= 0 && row < a.rows ? row : INT32_MAX, t), below = 0;
        __syncthreads(); /* all have read those before */
        keys[me] = key;
        __syncthreads();
        for (int64_t i = 0; i < n; i++)
            below += keys[i] < key;
        if (t < a.tokens)
            a.keys[first + below] = key;
    }
}

/* A token's place in the list is the count of smaller keys in all blocks. */
WEFT_KERNEL(order_tokens, cuda_embedding_args, CUDA_THREADS)
{
    for (int64_t t = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; t < a.tokens;
         t += (int64_t)gridDim.x * blockDim.x) {
        const int64_t key = a.keys[t], block = CUDA_THREADS;
        int64_t below = 0;
        for (int64_t first = 0; first < a.tokens; first += block) {
            int64_t n = a.tokens - first;
            below += count_below(a.keys + first, n < block ? n : block, key);
        }
        a.order[below] = key;
    }
}

/* Rows of parts have whole words. */
static __device__ inline float *part_of(const cuda_embedding_args &a, int64_t part, int64_t e)
{
    return a.parts + part * ((a.width + 7) / 8 * 8) + e;
}

static __device__ inline void add_part(const float *part, float sum[8])
{
    const float4 *p = (const float4 *)part;
    float4 lo = p[0], hi = p[1];
    sum[0] += lo.x, sum[1] += lo.y, sum[2] += lo.z, sum[3] += lo.w;
    sum[4] += hi.x, sum[5] += hi.y, sum[6] += hi.z, sum[7] += hi.w;
}

/* A piece's sum of a row, into the table if no other piece has of it. */
static __device__ inline void put_row(const cuda_embedding_args &a, int64_t piece, int32_t row,
                                      int64_t e, const float sum[8])
{
    const int64_t begin = piece * CUDA_PIECE, end = begin + CUDA_PIECE;
    const bool before = begin > 0 && row_of(a.order[begin - 1]) == row,
               behind = end < a.tokens && row_of(a.order[end]) == row;
    if (!before && !behind) {
        store8_or_add(a.out, row * a.width + e, (row + 1) * a.width, sum, a.accumulate);
        return;
    }
    float4 *p = (float4 *)part_of(a, 2 * piece + !before, e);
    p[0] = make_float4(sum[0], sum[1], sum[2], sum[3]);
    p[1] = make_float4(sum[4], sum[5], sum[6], sum[7]);
}

#define FOR_PIECES(piece)                                                                          \
    for (int64_t piece = blockIdx.x; piece * CUDA_PIECE < a.tokens; piece += gridDim.x)
/* Columns are shared out to the grid's second dim. */
#define FOR_COLUMNS(e)                                                                             \
    for (int64_t e = 8 * ((int64_t)blockIdx.y * blockDim.x + threadIdx.x); e < a.width;            \
         e += 8 * (int64_t)gridDim.y * blockDim.x)

enum { AHEAD = 8 }; /* tokens that are on their way at once */

template <bool WHOLE>
static __device__ inline void add_piece(const cuda_embedding_args &a, int64_t piece, int64_t e)
{
    const int64_t begin = piece * CUDA_PIECE,
                  end = begin + CUDA_PIECE < a.tokens ? begin + CUDA_PIECE : a.tokens;
    int32_t row = row_of(a.order[begin]);
    float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    _Pragma("unroll 1") for (int64_t p = begin; p < end && row != INT32_MAX; p += AHEAD)
    {
        eight<WHOLE> raw[AHEAD];
        int32_t rows[AHEAD];
        _Pragma("unroll") for (int i = 0; i < AHEAD; i++)
        {
            int64_t key = a.order[p + i < end ? p + i : end - 1], t = (uint32_t)key;
            rows[i] = p + i < end ? row_of(key) : INT32_MAX;
            raw[i] = fetch8<WHOLE>(a.dy, t * a.width + e, (t + 1) * a.width);
        }
        _Pragma("unroll") for (int i = 0; i < AHEAD; i++)
        {
            float dy[8];
            if (rows[i] != row) {
                if (row != INT32_MAX)
                    put_row(a, piece, row, e, sum);
                row = rows[i];
                EACH8(k)
                sum[k] = 0.0f;
            }
            widen8(raw[i], dy);
            EACH8(k)
            sum[k] += dy[k];
        }
    }
    if (row != INT32_MAX)
        put_row(a, piece, row, e, sum);
}

WEFT_KERNEL(embedding_dw, cuda_embedding_args, CUDA_THREADS)
{
    FOR_PIECES(piece)
    FOR_COLUMNS(e)
    {
        if (a.whole)
            add_piece<true>(a, piece, e);
        else
            add_piece<false>(a, piece, e);
    }
}

/* The parts of the row that begins in a piece and goes on behind it. */
WEFT_KERNEL(embedding_join, cuda_embedding_args, CUDA_THREADS)
{
    FOR_PIECES(piece)
    {
        const int64_t begin = piece * CUDA_PIECE, end = begin + CUDA_PIECE;
        const int32_t row = end < a.tokens ? row_of(a.order[end]) : INT32_MAX;
        if (row == INT32_MAX || row_of(a.order[end - 1]) != row ||
            (begin > 0 && row_of(a.order[begin - 1]) == row))
            continue;
        const int64_t last = (count_below(a.order, a.tokens, key_of(row + 1, 0)) - 1) / CUDA_PIECE;
        FOR_COLUMNS(e)
        {
            float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
            add_part(part_of(a, 2 * piece + 1, e), sum);
            _Pragma("unroll 8") for (int64_t p = piece + 1; p <= last; p++)
                add_part(part_of(a, 2 * p, e), sum);
            store8_or_add(a.out, row * a.width + e, (row + 1) * a.width, sum, a.accumulate);
        }
    }
}
