/* SPDX-License-Identifier: Apache-2.0 */
/* Where rows of experts lie: a counting sort of each token group's choices, and the moves of rows
 * and weights to their slots and back. Every row is written once, by whom its place in the order
 * says: nothing is counted by atomics. */
#include "kernel.h"

/* ---- assign: a block for each expert of each token group reads the group's choices ---- */

#define FOR_PAIRS(pair)                                                                            \
    for (int64_t pair = blockIdx.x; pair < (int64_t)a.groups * a.experts; pair += gridDim.x)

/* Choice i of a token group, in the order of tokens, as an element of chosen. */
static __device__ inline int64_t element_of(const cuda_slots_args &a, int64_t group, int64_t i)
{
    const int64_t row = a.per_seq * a.k, b = i / row;
    return ((group / a.parts * a.per_batch + b) * a.seq + group % a.parts * a.per_seq) * a.k +
           (i - b * row);
}

static __device__ inline int64_t choices_of(const cuda_slots_args &a)
{
    return a.per_batch * a.per_seq * a.k;
}

WEFT_KERNEL(assign_count, cuda_slots_args, CUDA_THREADS)
{
    FOR_PAIRS(pair)
    {
        const int64_t group = pair / a.experts, expert = pair - group * a.experts;
        int n = 0;
        for (int64_t i = threadIdx.x; i < choices_of(a); i += blockDim.x)
            n += a.chosen[element_of(a, group, i)] == expert;
        n = block_sum(n);
        if (threadIdx.x == 0)
            a.wanted[pair] = n;
    }
}

/* Rows that the experts [from, to) of a token group are asked for. */
static __device__ inline int64_t wanted_of(const cuda_slots_args &a, int64_t group, int64_t from,
                                           int64_t to)
{
    int64_t n = 0;
    for (int64_t x = from; x < to; x++)
        n += a.wanted[group * a.experts + x];
    return n;
}

/* A token group's refused choices, and its fullest pair: a thread for each expert group. */
static __device__ inline void report(const cuda_slots_args &a, int64_t group)
{
    int64_t refused = 0, most = 0;
    for (int64_t j = threadIdx.x; j < a.owners; j += blockDim.x) {
        const int64_t n = wanted_of(a, group, j * a.each, (j + 1) * a.each);
        refused += n > a.slots ? n - a.slots : 0;
        most = n > most ? n : most;
    }
    refused = block_sum(refused);
    most = block_reduce<larger_of>(most, (int64_t)0);
    if (threadIdx.x == 0) {
        put_wide(a.refused, group, (double)refused);
        put_wide(a.most, group, (double)most / (double)a.balanced);
    }
}

/* How many of the block's threads before this one have how many; *all of the block's. */
static __device__ inline int count_before(int n, int *all)
{
    __shared__ int warps[CUDA_THREADS / 32];
    const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5;
    int sum = n, before = 0;
    for (int by = 1; by < 32; by <<= 1) {
        const int theirs = __shfl_sync(0xffffffffu, sum, lane - by);
        sum += lane >= by ? theirs : 0;
    }
    __syncthreads(); /* an earlier call's may still be read */
    if (lane == 31)
        warps[warp] = sum;
    __syncthreads();
    *all = 0;
    for (int w = 0; w < CUDA_THREADS / 32; w++) {
        before += w < warp ? warps[w] : 0;
        *all += warps[w];
    }
    return before + sum - n;
}

enum { AT_ONCE = 8 }; /* choices of a thread */

WEFT_KERNEL(assign_place, cuda_slots_args, CUDA_THREADS)
{
    FOR_PAIRS(pair)
    {
        const int64_t group = pair / a.experts, expert = pair - group * a.experts;
        const int64_t first = wanted_of(a, group, expert / a.each * a.each, expert),
                      left = a.slots - first, n = choices_of(a);
        int64_t at = first;
        for (int64_t i = 0; i < n; i += AT_ONCE * blockDim.x) {
            const int64_t from = i + AT_ONCE * (int64_t)threadIdx.x;
            bool mine[AT_ONCE];
            int count = 0, all;
            _Pragma("unroll") for (int j = 0; j < AT_ONCE; j++)
            {
                mine[j] = from + j < n && a.chosen[element_of(a, group, from + j)] == expert;
                count += mine[j];
            }
            int64_t slot = at + count_before(count, &all);
            _Pragma("unroll") for (int j = 0; j < AT_ONCE; j++) if (mine[j])
            {
                a.slot_out[element_of(a, group, from + j)] = slot < a.slots ? (int32_t)slot : -1;
                slot++;
            }
            at += all;
        }
        if (threadIdx.x == 0) {
            const int64_t wanted = a.wanted[pair], room = left < 0 ? 0 : left;
            a.counts[pair] = (int32_t)(wanted < room ? wanted : room);
        }
        if (expert == 0)
            report(a, group);
    }
}

/* ---- moves ---- */

/* The row of a choice; -1: it has none. */
static __device__ inline int64_t row_of(const cuda_slots_args &a, int64_t choice)
{
    const int64_t token = choice / a.k, b = token / a.seq, s = token - b * a.seq,
                  at = a.slot[choice];
    const int64_t group = b / a.per_batch * a.parts + s / a.per_seq;
    return at < 0 ? -1 : (group * a.owners + a.chosen[choice] / a.each) * a.slots + at;
}

#define FOR_EACH(i, n)                                                                             \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n);                      \
         i += (int64_t)gridDim.x * blockDim.x)

/* Whose each row is. */
WEFT_KERNEL(slots_map, cuda_slots_args, CUDA_THREADS)
{
    FOR_EACH(i, a.batch * a.seq * a.k)
    {
        const int64_t row = row_of(a, i);
        if (row >= 0)
            a.map[row] = (int32_t)(i + 1);
    }
}

/* The token of each row, zeros where nobody has it. */
WEFT_KERNEL(slots_fill, cuda_slots_args, CUDA_THREADS)
{
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        const int64_t choice = a.map[row] - 1, from = choice / a.k * a.width;
        FOR_ROW(e, a.width)
        {
            float x[8] = {0, 0, 0, 0, 0, 0, 0, 0};
            if (choice >= 0)
                load8(a.in, from + e, from + a.width, x);
            store8(a.out, row * a.width + e, (row + 1) * a.width, x);
        }
    }
}

/* The number of each row's choice. */
WEFT_KERNEL(slots_spread, cuda_slots_args, CUDA_THREADS)
{
    FOR_EACH(row, a.rows)
    put(a.out, row, a.map[row] ? get(a.in, a.map[row] - 1) : 0.0f);
}

WEFT_KERNEL(slots_collect, cuda_slots_args, CUDA_THREADS)
{
    FOR_EACH(i, a.batch * a.seq * a.k)
    {
        const int64_t row = row_of(a, i);
        put_or_add(a.out, i, row < 0 ? 0.0f : get(a.in, row), a.accumulate);
    }
}

/* The sum of each token's rows, in the order of its choices. */
WEFT_KERNEL(slots_combine, cuda_slots_args, CUDA_THREADS)
{
    for (int64_t token = blockIdx.x; token < a.batch * a.seq; token += gridDim.x)
        FOR_ROW(e, a.width)
        {
            float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0}, x[8];
            for (int j = 0; j < a.k; j++) {
                const int64_t from = row_of(a, token * a.k + j) * a.width;
                if (from < 0)
                    continue;
                load8(a.in, from + e, from + a.width, x);
                EACH8(k)
                sum[k] += x[k];
            }
            store8_or_add(a.out, token * a.width + e, (token + 1) * a.width, sum, a.accumulate);
        }
}

/* ---- rows times a number each; and its gradient ---- */

WEFT_KERNEL(slot_scale, cuda_slots_args, CUDA_THREADS)
{
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        const int64_t end = (row + 1) * a.width;
        const float by = get(a.by, row);
        FOR_ROW(e, a.width)
        {
            float x[8];
            load8(a.in, row * a.width + e, end, x);
            EACH8(k)
            x[k] *= by;
            store8_or_add(a.out, row * a.width + e, end, x, a.accumulate);
        }
    }
}

WEFT_KERNEL(slot_dot, cuda_slots_args, CUDA_THREADS)
{
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        float sum = 0.0f;
        FOR_ROW(e, a.width)
        {
            float x[8], y[8];
            load8(a.in, row * a.width + e, (row + 1) * a.width, x);
            load8(a.by, row * a.width + e, (row + 1) * a.width, y);
            EACH8(k)
            sum += x[k] * y[k];
        }
        sum = block_sum(sum);
        if (threadIdx.x == 0)
            put_or_add(a.out, row, sum, a.accumulate);
    }
}
