/* SPDX-License-Identifier: Apache-2.0 */
/* Single numbers, so that no step waits for the host: one thread, in f64. */
#include "kernel.h"

static __device__ inline void result(const cuda_scalar_args &a, double y)
{
    put_wide(a.out, 0, y + (a.accumulate ? get_wide(a.out, 0) : 0.0));
}

#define ONCE                                                                                       \
    if (threadIdx.x != 0)                                                                          \
    return

WEFT_KERNEL(constant, cuda_scalar_args, 32)
{
    ONCE;
    result(a, a.value);
}

/* A batch without one valid token has loss 0, not NaN. */
WEFT_KERNEL(reciprocal, cuda_scalar_args, 32)
{
    ONCE;
    double x = get_wide(a.in, 0);
    result(a, 1.0 / (x < 1.0 ? 1.0 : x));
}

WEFT_KERNEL(square_root, cuda_scalar_args, 32)
{
    ONCE;
    result(a, sqrt(get_wide(a.in, 0)));
}

/* A norm that is not a number stays one. */
WEFT_KERNEL(clip, cuda_scalar_args, 32)
{
    ONCE;
    double factor = a.value / (get_wide(a.in, 0) + 1e-6);
    result(a, a.value == 0.0 || factor > 1.0 ? 1.0 : factor);
}

/* ---- the learning rate ---- */

enum { CONSTANT, LINEAR, SQRT, COSINE };

static __device__ inline double remaining(int shape, double p)
{
    switch (shape) {
    case LINEAR:
        return 1.0 - p;
    case SQRT:
        return 1.0 - sqrt(p);
    case COSINE:
        return 0.5 * (1.0 + cos(3.14159265358979323846 * p));
    default:
        return 1.0;
    }
}

WEFT_KERNEL(lr_schedule, cuda_scalar_args, 32)
{
    ONCE;
    int64_t step = (int64_t)rint(get_wide(a.in, 0));
    step = step > a.total ? a.total : step;
    int64_t into = step - (a.total + 1 - a.decay);
    double rate = a.value;
    if (step <= a.warmup)
        rate = a.value * (double)step / (double)a.warmup;
    else if (into > 0)
        rate = a.value * (a.min_factor + (1.0 - a.min_factor) *
                                             remaining(a.shape, (double)into / (double)a.decay));
    result(a, rate);
}
