/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of all elements, in f64: a fixed number of blocks makes a part each, and one adds the parts.
 * So the order is the same on every GPU and in every run. */
#include "kernel.h"

/* What is summed of an element. */
enum { PLAIN, SQUARE, VALID };

template <int WHAT> static __device__ inline void make_part(const cuda_sum_args &a)
{
    double sum = 0.0;
    FOR_CHUNKS(i, a.n)
    {
        float x[8];
        if (WHAT == VALID) {
            EACH8(k)
            sum += i + k < a.n && get_int(a.x, i + k) >= 0 ? 1.0 : 0.0;
        } else if (a.x.dtype == WEFT_F64) {
            EACH8(k)
            {
                double y = i + k < a.n ? get_wide(a.x, i + k) : 0.0;
                sum += WHAT == SQUARE ? y * y : y;
            }
        } else {
            load8(a.x, i, a.n, x);
            EACH8(k)
            sum += WHAT == SQUARE ? (double)x[k] * (double)x[k] : (double)x[k];
        }
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        a.parts[blockIdx.x] = sum;
}

WEFT_KERNEL(sum_parts, cuda_sum_args, CUDA_THREADS)
{
    make_part<PLAIN>(a);
}

WEFT_KERNEL(sumsq_parts, cuda_sum_args, CUDA_THREADS)
{
    make_part<SQUARE>(a);
}

WEFT_KERNEL(valid_parts, cuda_sum_args, CUDA_THREADS)
{
    make_part<VALID>(a);
}

WEFT_KERNEL(add_parts, cuda_sum_args, CUDA_THREADS)
{
    double sum = 0.0;
    for (int i = (int)threadIdx.x; i < a.n_parts; i += (int)blockDim.x)
        sum += a.parts[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        put_wide(a.out, 0, sum + (a.accumulate ? get_wide(a.out, 0) : 0.0));
}
