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

/* All is well. */
WEFT_KERNEL(right, wrong_args, 64)
{
    __shared__ int32_t at[64];
    at[threadIdx.x] = (int32_t)threadIdx.x;
    __syncthreads();
    a.out[threadIdx.x] = at[63 - threadIdx.x] + __shfl_xor_sync(0xffffffffu, (int)blockIdx.x, 1);
}
