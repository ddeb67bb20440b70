/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels for the device "cpu" share: blocks of a row in f32, and threads. */
#ifndef DIFFUSION_CPU_H
#define DIFFUSION_CPU_H

#include "diffusion.h"

/* BLOCK: elements of a row that are in f32 at a time; SHARE: elements that pay for a thread. */
enum { BLOCK = 256, SHARE = 16384, MOST_HEAD = 512 };

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int threads_of(const weft_call *call, int64_t elements)
{
    const int64_t most = call->threads < 1 ? 1 : call->threads;
    return elements < 2 * SHARE ? 1 : (int)least(most, elements / SHARE);
}

/* Elements as f32: where they lie, or in the buffer. */
static inline const float *load(const weft_tensor *t, int64_t at, int64_t n, float *buffer)
{
    const uint16_t *h = (const uint16_t *)t->data + at;
    if (t->dtype == WEFT_F32)
        return (const float *)t->data + at;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        buffer[i] = weft_bf16_to_f32(h[i]);
    return buffer;
}

/* Result 0 = x, or += x. */
static inline void store(const weft_call *call, int64_t at, int64_t n, const float *x)
{
    const weft_tensor *y = &call->outs[0];
    float *f = (float *)y->data + at;
    uint16_t *h = (uint16_t *)y->data + at;
    const bool add = call->accumulate;
    if (y->dtype == WEFT_F32) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            f[i] = add ? f[i] + x[i] : x[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            h[i] = weft_f32_to_bf16(add ? weft_bf16_to_f32(h[i]) + x[i] : x[i]);
    }
}

/* Blocks of a row of n: from, and how many. */
#define EACH_BLOCK(from, n, width)                                                                 \
    for (int64_t from = 0, n = least(BLOCK, width); from < (width);                                \
         from += n, n = least(BLOCK, (width)-from))

/* Kernels of flow.c's ops (cpu_flow.c). */
weft_status diffusion_launch_noise(const weft_call *call, weft_error *err);
weft_status diffusion_launch_mix(const weft_call *call, weft_error *err);
weft_status diffusion_launch_error(const weft_call *call, weft_error *err);
weft_status diffusion_launch_error_dx(const weft_call *call, weft_error *err);

#endif
