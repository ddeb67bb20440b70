/* SPDX-License-Identifier: Apache-2.0 */
/* relu2, the squared ReLU: y = x^2 where x > 0, else 0. An op says what is computed; a kernel says
 * how one device does it. */
#include "tinylm.h"

/* ---- plain kernels: any float dtype, any device whose memory the host can read, computed in f64
 * ---- */

static double positive(double x)
{
    return x > 0 ? x : 0;
}

static void put(const weft_call *call, int64_t i, double y)
{
    const weft_tensor *out = &call->outs[0];
    weft_tensor_set(out, i, call->accumulate ? weft_tensor_get(out, i) + y : y);
}

static weft_status relu2_plain(const weft_call *call, weft_error *err)
{
    int64_t n = weft_tensor_count(&call->outs[0]);
    (void)err;
    for (int64_t i = 0; i < n; i++) {
        double x = positive(weft_tensor_get(&call->ins[0], i));
        put(call, i, x * x);
    }
    return WEFT_OK;
}

/* x, dy -> dx = 2 max(x, 0) dy */
static weft_status relu2_dx_plain(const weft_call *call, weft_error *err)
{
    int64_t n = weft_tensor_count(&call->outs[0]);
    (void)err;
    for (int64_t i = 0; i < n; i++)
        put(call, i,
            2 * positive(weft_tensor_get(&call->ins[0], i)) * weft_tensor_get(&call->ins[1], i));
    return WEFT_OK;
}

/* ---- the ops ---- */

/* Operand 0 gets relu2_dx of the forward's operand 0 and the gradient of its result. */
static const char *const relu2_grad[] = {"0: relu2_dx 0 dy", NULL};

/* The rule "* -> *" is all that placement needs: any axis may cut any dim of x, and cuts y in the
 * same place. It is not linear: an open sum is closed before it. HALF lets bf16 narrow the result.
 */
const weft_op relu2_op = {
    .name = "relu2",
    .summary = "squared ReLU",
    .rule = "* -> *",
    .grad = relu2_grad,
    .flags = WEFT_OP_HALF | WEFT_OP_INPLACE,
    .plain = relu2_plain,
};

/* Linear in operand 1: if dy is an open sum over ranks, dx may be one too. */
const weft_op relu2_dx_op = {
    .name = "relu2_dx",
    .summary = "gradient of relu2 by x",
    .rule = "*, * -> *",
    .linear = "1",
    .flags = WEFT_OP_HALF | WEFT_OP_INPLACE,
    .plain = relu2_dx_plain,
};

/* ---- f32 on the device "cpu": vectors, and the threads that the device has given to this rank
 * ---- */

static bool all_f32(const weft_call *call)
{
    for (int i = 0; i < call->n_ins; i++)
        if (call->ins[i].dtype != WEFT_F32)
            return false;
    return call->outs[0].dtype == WEFT_F32;
}

/* Waking a thread takes as long as this many elements. */
static int team(const weft_call *call, int64_t n)
{
    return n > 16384 && call->threads > 1 ? call->threads : 1;
}

static weft_status relu2_f32(const weft_call *call, weft_error *err)
{
    const float *x = call->ins[0].data;
    float *y = call->outs[0].data;
    int64_t n = weft_tensor_count(&call->outs[0]);
    (void)err;
#pragma omp parallel for simd schedule(static) num_threads(team(call, n))
    for (int64_t i = 0; i < n; i++) {
        float p = x[i] > 0 ? x[i] : 0;
        y[i] = p * p;
    }
    return WEFT_OK;
}

static weft_status relu2_dx_f32(const weft_call *call, weft_error *err)
{
    const float *x = call->ins[0].data, *dy = call->ins[1].data;
    float *dx = call->outs[0].data;
    int64_t n = weft_tensor_count(&call->outs[0]);
    (void)err;
#pragma omp parallel for simd schedule(static) num_threads(team(call, n))
    for (int64_t i = 0; i < n; i++)
        dx[i] = 2 * (x[i] > 0 ? x[i] : 0) * dy[i];
    return WEFT_OK;
}

/* They do not say `accumulates`, so they are never asked to add to what is there. */
const weft_kernel relu2_kernels[] = {
    {.op = "relu2",
     .device = "cpu",
     .name = "relu2_f32",
     .priority = 10,
     .accepts = all_f32,
     .launch = relu2_f32},
    {.op = "relu2_dx",
     .device = "cpu",
     .name = "relu2_dx_f32",
     .priority = 10,
     .accepts = all_f32,
     .launch = relu2_dx_f32},
    {.op = NULL},
};
