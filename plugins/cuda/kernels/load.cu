/* SPDX-License-Identifier: Apache-2.0 */
/* Loads of experts, the bias that they move, and single numbers of all blocks: few elements, in
 * f64, by one block, or by one thread. */
#include "kernel.h"

static __device__ inline void result(const cuda_load_args &a, int64_t i, double x)
{
    put_wide(a.out, i, x + (a.accumulate ? get_wide(a.out, i) : 0.0));
}

#define FOR_THREAD(i, n) for (int64_t i = threadIdx.x; i < (n); i += blockDim.x)

struct fmax_of {
    static __device__ inline double of(double x, double y)
    {
        return fmax(x, y);
    }
};

/* counts [rows n] -> [n] */
WEFT_KERNEL(expert_load, cuda_load_args, CUDA_THREADS)
{
    FOR_THREAD(x, a.n)
    {
        double sum = 0.0;
        for (int64_t r = 0; r < a.rows; r++)
            sum += (double)get_int(a.ins[0], r * a.n + x);
        result(a, x, sum);
    }
}

static __device__ inline double mean_of(const cuda_view &v, int64_t n)
{
    double sum = 0.0;
    FOR_THREAD(i, n)
    sum += get_wide(v, i);
    return block_sum(sum) / (double)n;
}

static __device__ inline double largest_of(const cuda_view &v, int64_t n)
{
    double most = 0.0;
    FOR_THREAD(i, n)
    most = fmax(most, get_wide(v, i));
    return block_reduce<fmax_of>(most, 0.0);
}

WEFT_KERNEL(load_peak, cuda_load_args, CUDA_THREADS)
{
    const double mean = mean_of(a.ins[0], a.n), most = largest_of(a.ins[0], a.n);
    if (threadIdx.x == 0)
        result(a, 0, mean > 0.0 ? a.scale * most / mean : 0.0);
}

WEFT_KERNEL(largest, cuda_load_args, CUDA_THREADS)
{
    const double most = largest_of(a.ins[0], a.n);
    if (threadIdx.x == 0)
        put_wide(a.out, 0, most);
}

/* Up where the load [rows] is below the mean. The bias here begins at its element lo. */
static __device__ inline double step_of(const cuda_load_args &a, double mean, int64_t i)
{
    const double d = mean - get_wide(a.ins[1], i);
    return (d > 0.0) - (d < 0.0);
}

WEFT_KERNEL(bias_step, cuda_load_args, CUDA_THREADS)
{
    const double mean = mean_of(a.ins[1], a.rows);
    double middle = 0.0;
    FOR_THREAD(i, a.recentre ? a.rows : 0)
    middle += step_of(a, mean, i);
    middle = block_sum(middle) / (double)a.rows;
    FOR_THREAD(i, a.n)
    put_wide(a.out, i, get_wide(a.ins[0], i) + a.scale * (step_of(a, mean, a.lo + i) - middle));
}

/* ---- shares times means ---- */

WEFT_KERNEL(balance, cuda_load_args, CUDA_THREADS)
{
    double sum = 0.0;
    FOR_THREAD(i, a.n)
    sum += get_wide(a.ins[0], i) * get_wide(a.ins[1], i);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        result(a, 0, sum * a.scale);
}

/* dy, shares -> the gradient of the means */
WEFT_KERNEL(balance_dp, cuda_load_args, CUDA_THREADS)
{
    const double dy = get_wide(a.ins[0], 0) * a.scale;
    FOR_THREAD(i, a.n)
    result(a, i, dy * get_wide(a.ins[1], i));
}

/* ---- single numbers ---- */

WEFT_KERNEL(scalar_sum, cuda_load_args, 32)
{
    double sum = 0.0;
    if (threadIdx.x != 0)
        return;
    for (int i = 0; i < a.n_ins; i++)
        sum += get_wide(a.ins[i], 0);
    result(a, 0, sum);
}

WEFT_KERNEL(scalar_max, cuda_load_args, 32)
{
    double most = -INFINITY;
    if (threadIdx.x != 0)
        return;
    for (int i = 0; i < a.n_ins; i++)
        most = fmax(most, get_wide(a.ins[i], 0));
    put_wide(a.out, 0, most);
}
