/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU's rate of matrix products, as cuBLASLt reaches it: what MFU refers to while training. */
#include "choices.h"

/* Products of n x n matrices from the least n to the largest: as large as takes no longer than
 * this. Each is launched a few times. */
enum { LEAST_N = 128, MOST_N = 4096 };
static const double one_s = 2e-3;

/* Both operands with the contracted dim last, as a linear has them, and as 8 bits must. */
static cuda_product square(int64_t n, weft_dtype dtype)
{
    const bool f8 = weft_dtype_is_f8(dtype);
    return (cuda_product){.m = n,
                          .n = n,
                          .k = n,
                          .turn_b = true,
                          .a = dtype,
                          .b = f8 ? WEFT_F8E4M3 : dtype,
                          .c = f8 ? WEFT_BF16 : dtype,
                          .scaling = f8 ? CUDA_SCALED : CUDA_UNSCALED};
}

/* Seconds of one product; 0: there is no such product, or no room for it. */
static weft_status time_square(cuda *c, int64_t n, weft_dtype dtype, double *seconds,
                               weft_error *err)
{
    cuda_product p = square(n, dtype);
    cuda_matmul *m;
    *seconds = 0;
    weft_status s = cuda_matmul_create(c->products, &p, &m, err);
    if (!s && m)
        s = cuda_time_product(c, m, seconds, err);
    cuda_matmul_destroy(m);
    return s;
}

static double rate_of(cuda *c, weft_dtype dtype)
{
    double best = 0, seconds = 0;
    for (int64_t n = LEAST_N; n <= MOST_N; n *= 2) {
        if (time_square(c, n, dtype, &seconds, NULL) || seconds <= 0)
            break;
        double rate = 2.0 * (double)n * (double)n * (double)n / seconds;
        best = rate > best ? rate : best;
        if (8 * seconds > one_s)
            break;
    }
    return best;
}

/* In 8 bits those of bf16 where the GPU has no others: values are widened. An error of the GPU
 * stays, and is told by whoever waits for it next. */
double cuda_peak(void *self, weft_dtype dtype, double reached)
{
    cuda *c = self;
    const char *from = "measured";
    const bool f8 = weft_dtype_is_f8(dtype);
    if (dtype != WEFT_F32 && dtype != WEFT_BF16 && !f8)
        return 0;
    double rate = rate_of(c, f8 ? WEFT_F8E4M3 : dtype);
    if (rate == 0 && f8) {
        rate = rate_of(c, WEFT_BF16);
        from = "measured in bf16, to which they are widened";
    }
    if (rate == 0)
        return 0;
    if (reached > rate) {
        rate = reached;
        from = "what a step reached";
    }
    weft_log_print(c->host->log, WEFT_LOG_DEBUG, "cuda: products of %s run at %.4g flop/s (%s)",
                   weft_dtype_name(dtype), rate, from);
    return rate;
}
