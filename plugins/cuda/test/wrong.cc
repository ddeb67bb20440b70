/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that are wrong on purpose: what the emulator must see. */
#include <target.h>

typedef struct wrong_args {
    int32_t *out;
} wrong_args;

/* Half of the block waits for the other half, which does not come. */
WEFT_KERNEL(divergent, wrong_args, 64)
{
    if (threadIdx.x < 32)
        __syncthreads();
    a.out[threadIdx.x] = 1;
}

/* Two barriers that meet. */
WEFT_KERNEL(two_places, wrong_args, 64)
{
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
    a.out[threadIdx.x] = 1;
}

/* Lanes of a warp leave before a shuffle. */
WEFT_KERNEL(left_warp, wrong_args, 64)
{
    if (threadIdx.x % 2)
        return;
    a.out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, (int)threadIdx.x, 2);
}

/* No barrier between what one thread writes and another reads. */
WEFT_KERNEL(race, wrong_args, 64)
{
    __shared__ int32_t at[64];
    at[threadIdx.x] = -1;
    __syncthreads();
    at[threadIdx.x] = (int32_t)threadIdx.x;
    a.out[threadIdx.x] = at[63 - threadIdx.x];
}

/* Read before the copy is waited for. */
WEFT_KERNEL(hasty_copy, wrong_args, 64)
{
    __shared__ __align__(16) int32_t at[4 * 64];
    copy_ahead(&at[4 * threadIdx.x], &a.out[64], true);
    a.out[threadIdx.x] = at[4 * threadIdx.x];
    copies_wait();
}

WEFT_KERNEL(left_copy, wrong_args, 64)
{
    __shared__ __align__(16) int32_t at[4 * 64];
    copy_ahead(&at[4 * threadIdx.x], &a.out[64], true);
}

/* All is well. */
WEFT_KERNEL(right, wrong_args, 64)
{
    __shared__ int32_t at[64];
    at[threadIdx.x] = (int32_t)threadIdx.x;
    __syncthreads();
    a.out[threadIdx.x] = at[63 - threadIdx.x] + __shfl_xor_sync(0xffffffffu, (int)blockIdx.x, 1);
}

/* ---- what only races.c sees, whatever the order ---- */

/* Written again while others may still read. */
WEFT_KERNEL(reused, wrong_args, 64)
{
    __shared__ int32_t at[2];
    if (threadIdx.x % 32 == 0)
        at[threadIdx.x / 32] = 1;
    __syncthreads();
    a.out[threadIdx.x] = at[0] + at[1];
    if (threadIdx.x % 32 == 0)
        at[threadIdx.x / 32] = 2;
}

/* Lanes that shuffle have met, and yet what one wrote need not be there for another. */
WEFT_KERNEL(shuffle_is_no_barrier, wrong_args, 64)
{
    __shared__ int32_t at[64];
    at[threadIdx.x] = (int32_t)threadIdx.x;
    int x = __shfl_xor_sync(0xffffffffu, 1, 1);
    a.out[threadIdx.x] = at[threadIdx.x ^ 1] + x;
}

/* A warp's barrier is its own. */
WEFT_KERNEL(other_warp, wrong_args, 64)
{
    __shared__ int32_t at[64];
    at[threadIdx.x] = (int32_t)threadIdx.x;
    __syncwarp();
    a.out[threadIdx.x] = at[threadIdx.x ^ 32];
}

/* Rows are given by lanes and read by all. */
WEFT_KERNEL(early_matrix, wrong_args, 64)
{
    __shared__ __align__(16) uint16_t rows[64][8];
    uint32_t r[4];
    for (int c = 0; c < 8; c++)
        rows[threadIdx.x][c] = (uint16_t)c;
    ldmatrix_x4(r, rows[threadIdx.x]);
    a.out[threadIdx.x] = (int32_t)r[0];
}

/* What a thread has waited for is not yet there for another. */
WEFT_KERNEL(copy_without_barrier, wrong_args, 64)
{
    __shared__ __align__(16) int32_t at[4 * 64];
    copy_ahead(&at[4 * threadIdx.x], NULL, false);
    copies_wait();
    a.out[threadIdx.x] = at[4 * (63 - threadIdx.x)];
}

/* The next copy begins while others may still read the last one. */
WEFT_KERNEL(early_copy, wrong_args, 64)
{
    __shared__ __align__(16) int32_t at[4 * 64];
    for (int turn = 0; turn < 2; turn++) {
        copy_ahead(&at[4 * threadIdx.x], NULL, false);
        copies_wait();
        __syncthreads();
        a.out[threadIdx.x] = at[4 * (63 - threadIdx.x)];
    }
}

/* One element of shared memory is forgotten. */
WEFT_KERNEL(unwritten, wrong_args, 64)
{
    WEFT_DYNAMIC_SHARED(shared);
    int32_t *at = (int32_t *)shared;
    if (threadIdx.x != 5)
        at[threadIdx.x] = 1;
    __syncthreads();
    a.out[threadIdx.x] = at[63 - threadIdx.x];
}

/* What an earlier block wrote is not there for a later one. */
WEFT_KERNEL(unwritten_by_block, wrong_args, 64)
{
    __shared__ int32_t at[64];
    if (blockIdx.x == 0)
        at[threadIdx.x] = 1;
    a.out[64 * blockIdx.x + threadIdx.x] = at[threadIdx.x];
}

WEFT_KERNEL(global_race, wrong_args, 64)
{
    a.out[threadIdx.x] = 1;
    a.out[64 + threadIdx.x] = a.out[63 - threadIdx.x];
}

WEFT_KERNEL(two_blocks_write, wrong_args, 64)
{
    if (threadIdx.x == 0)
        a.out[0] = 1;
}

WEFT_KERNEL(block_reads_of_other, wrong_args, 64)
{
    a.out[64 * (blockIdx.x + 1) + threadIdx.x] = a.out[64 * blockIdx.x + threadIdx.x];
}

/* Others may still be at it. */
WEFT_KERNEL(atomic_and_read, wrong_args, 64)
{
    atomicMin(&a.out[0], -1);
    a.out[1 + threadIdx.x] = a.out[0];
}

/* All that is allowed: a warp's barrier inside it, atomics of all, a block's own part of global
 * memory by several threads in turn, shared memory that is used again. */
WEFT_KERNEL(allowed, wrong_args, 64)
{
    __shared__ __align__(16) uint16_t rows[64][8], copied[2][64][8];
    int32_t *out = a.out + 64 * (blockIdx.x + 1);
    uint32_t r[4];
    copy_ahead(copied[0][threadIdx.x], NULL, false);
    for (int turn = 0; turn < 2; turn++) {
        copies_wait();
        __syncthreads();
        copy_ahead(copied[1 - turn][threadIdx.x], NULL, false);
        out[threadIdx.x] = copied[turn][63 - threadIdx.x][0];
        __syncthreads();
        for (int c = 0; c < 8; c++)
            rows[threadIdx.x][c] = (uint16_t)c;
        __syncwarp();
        ldmatrix_x4(r, rows[threadIdx.x]);
        out[threadIdx.x] = rows[threadIdx.x ^ 1][0];
        __syncthreads();
        out[63 - threadIdx.x] += (int32_t)(r[0] & 1);
        __syncthreads();
    }
    copies_wait();
    atomicMin(&a.out[threadIdx.x % 2], -1);
}
