/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of flow.c's ops for the device "cpu": threads share rows. */
#include "cpu.h"

/* A normal number takes as long as so many other elements. */
enum { NOISE = 16 };

/* The bits of the plain kernel: numbers are drawn as doubles. */
weft_status diffusion_launch_noise(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0];
    const uint64_t seed = (uint64_t)weft_call_int(call, "seed"), name = weft_hash_name("noise");
    const int64_t places = x->size[1], width = x->size[2];
    (void)err;
#pragma omp parallel for schedule(static) num_threads(threads_of(call, NOISE *weft_tensor_count(x)))
    for (int64_t row = 0; row < x->size[0] * places; row++) {
        const int64_t number = diffusion_int(&call->ins[1], row / places),
                      place = diffusion_int(&call->ins[2], row % places);
        const uint64_t first = (uint64_t)(place * x->whole[2] + x->lo[2]);
        double z[BLOCK] = {0};
        float y[BLOCK];
        EACH_BLOCK(from, n, width)
        {
            if (number >= 0)
                weft_random_normals(seed, name + (uint64_t)number, first + (uint64_t)from, n, z);
            for (int64_t i = 0; i < n; i++)
                y[i] = (float)z[i];
            store(call, row * width + from, n, y);
        }
    }
    return WEFT_OK;
}

weft_status diffusion_launch_mix(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0];
    const int64_t places = x->size[1], width = x->size[2];
    (void)err;
#pragma omp parallel for schedule(static) num_threads(threads_of(call, weft_tensor_count(x)))
    for (int64_t row = 0; row < x->size[0] * places; row++) {
        const float t = (float)diffusion_get(&call->ins[2], row / places);
        float room[2][BLOCK], y[BLOCK];
        EACH_BLOCK(from, n, width)
        {
            const float *a = load(x, row * width + from, n, room[0]),
                        *b = load(&call->ins[1], row * width + from, n, room[1]);
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                y[i] = (1 - t) * a[i] + t * b[i];
            store(call, row * width + from, n, y);
        }
    }
    return WEFT_OK;
}

/* e = v - (n - x) of a block of a row. */
static void errors(const weft_call *call, int64_t at, int64_t n, float *e)
{
    float room[3][BLOCK];
    const float *v = load(&call->ins[0], at, n, room[0]), *x = load(&call->ins[1], at, n, room[1]),
                *noise = load(&call->ins[2], at, n, room[2]);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        e[i] = v[i] - (noise[i] - x[i]);
}

/* How much of a sample's mean an element is; nothing, if the sample is not there. */
static double share_of(const weft_call *call, int64_t b)
{
    const weft_tensor *v = &call->ins[0];
    return diffusion_int(&call->ins[3], b) < 0 ? 0
                                               : 1 / ((double)v->whole[1] * (double)v->whole[2]);
}

weft_status diffusion_launch_error(const weft_call *call, weft_error *err)
{
    const weft_tensor *v = &call->ins[0];
    const int64_t places = v->size[1], width = v->size[2];
    (void)err;
#pragma omp parallel for schedule(static) num_threads(threads_of(call, weft_tensor_count(v)))
    for (int64_t row = 0; row < v->size[0] * places; row++) {
        double sum = 0;
        float e[BLOCK], y;
        EACH_BLOCK(from, n, width)
        {
            float part = 0;
            errors(call, row * width + from, n, e);
#pragma omp simd reduction(+ : part)
            for (int64_t i = 0; i < n; i++)
                part += e[i] * e[i];
            sum += (double)part;
        }
        y = (float)(sum * share_of(call, row / places));
        store(call, row, 1, &y);
    }
    return WEFT_OK;
}

weft_status diffusion_launch_error_dx(const weft_call *call, weft_error *err)
{
    const weft_tensor *v = &call->ins[0];
    const int64_t places = v->size[1], width = v->size[2];
    (void)err;
#pragma omp parallel for schedule(static) num_threads(threads_of(call, weft_tensor_count(v)))
    for (int64_t row = 0; row < v->size[0] * places; row++) {
        const float by =
            (float)(2 * share_of(call, row / places) * diffusion_get(&call->ins[4], row));
        float e[BLOCK];
        EACH_BLOCK(from, n, width)
        {
            errors(call, row * width + from, n, e);
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                e[i] *= by;
            store(call, row * width + from, n, e);
        }
    }
    return WEFT_OK;
}
