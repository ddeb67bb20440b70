/* SPDX-License-Identifier: Apache-2.0 */
/* AdamW with the clip factor, in place. The numbers of a step are made in f64 by every thread:
 * a dozen operations against 28 bytes a parameter. */
#include "kernel.h"

/* base^n by squaring: the same bits whatever the math library. */
static __device__ inline double power(double base, int64_t n)
{
    double x = 1.0;
    for (; n > 0; n >>= 1, base *= base)
        if (n & 1)
            x *= base;
    return x;
}

WEFT_KERNEL(adamw, cuda_adamw_args, CUDA_THREADS)
{
    double lr_wide = get_wide(a.lr, 0);
    int64_t step = (int64_t)rint(get_wide(a.step, 0));
    float rate = (float)(lr_wide / (1.0 - power(a.beta1, step)));
    float root = (float)(1.0 / sqrt(1.0 - power(a.beta2, step)));
    float keep = (float)(lr_wide * a.weight_decay), clip = get(a.clip, 0);
    float beta1 = (float)a.beta1, beta2 = (float)a.beta2, eps = (float)a.eps;
    float rest1 = (float)(1.0 - a.beta1), rest2 = (float)(1.0 - a.beta2);
    FOR_CHUNKS(i, a.n)
    {
        float p[8], m[8], v[8], g[8];
        load8(a.p, i, a.n, p);
        load8(a.m, i, a.n, m);
        load8(a.v, i, a.n, v);
        load8(a.g, i, a.n, g);
        EACH8(k)
        {
            float x = clip * g[k];
            m[k] = beta1 * m[k] + rest1 * x;
            v[k] = beta2 * v[k] + rest2 * x * x;
            p[k] -= keep * p[k] + rate * m[k] / (sqrtf(v[k]) * root + eps);
        }
        store8(a.p_out, i, a.n, p);
        store8(a.m_out, i, a.n, m);
        store8(a.v_out, i, a.n, v);
    }
}
