/* SPDX-License-Identifier: Apache-2.0 */
#include "ops.h"

#include <math.h>

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* silu(gate) * up */
static weft_status silu_mul_plain(const weft_call *call, weft_error *err)
{
    int64_t n = weft_tensor_count(&call->outs[0]);

    (void)err;
    for (int64_t i = 0; i < n; i++) {
        double gate = op_get(&call->ins[0], i);
        op_put(call, i, gate * sigmoid(gate) * op_get(&call->ins[1], i));
    }
    return WEFT_OK;
}

/* gate, up, dy -> dgate, dup */
static weft_status silu_mul_dx_plain(const weft_call *call, weft_error *err)
{
    int64_t n = weft_tensor_count(&call->outs[0]);

    (void)err;
    for (int64_t i = 0; i < n; i++) {
        double gate = op_get(&call->ins[0], i), up = op_get(&call->ins[1], i),
               dy = op_get(&call->ins[2], i), s = sigmoid(gate);
        op_put(call, i, dy * up * s * (1.0 + gate * (1.0 - s)));
        op_put_to(call, 1, i, dy * gate * s);
    }
    return WEFT_OK;
}

/* The tanh form (Hendrycks and Gimpel, 2016): x sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3); or
 * exactly x Phi(x). */
static weft_status gelu_plain(const weft_call *call, weft_error *err)
{
    int64_t n = weft_tensor_count(&call->outs[0]);
    bool exact = weft_call_int(call, "exact") != 0;

    (void)err;
    for (int64_t i = 0; i < n; i++) {
        double x = op_get(&call->ins[0], i), u = sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
        op_put(call, i, exact ? 0.5 * x * erfc(-x * M_SQRT1_2) : x * sigmoid(2.0 * u));
    }
    return WEFT_OK;
}

static double gelu_slope(double x, bool exact)
{
    double u, du, s;

    if (exact)
        return 0.5 * erfc(-x * M_SQRT1_2) + x * exp(-0.5 * x * x) / sqrt(2.0 * M_PI);
    u = sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
    du = sqrt(2.0 / M_PI) * (1.0 + 3.0 * 0.044715 * x * x);
    s = sigmoid(2.0 * u);
    return s + 2.0 * x * s * (1.0 - s) * du;
}

/* x, dy -> dx */
static weft_status gelu_dx_plain(const weft_call *call, weft_error *err)
{
    int64_t n = weft_tensor_count(&call->outs[0]);
    bool exact = weft_call_int(call, "exact") != 0;

    (void)err;
    for (int64_t i = 0; i < n; i++)
        op_put(call, i, op_get(&call->ins[1], i) * gelu_slope(op_get(&call->ins[0], i), exact));
    return WEFT_OK;
}

const weft_op ops_silu_mul = {
    .name = "silu_mul",
    .summary = "silu(gate) times up",
    .family = "activation",
    .rule = "*, * -> *",
    .linear = "1",
    .grad = (const char *const[]){"0 1: silu_mul_dx 0 1 dy", NULL},
    .flags = WEFT_OP_HALF | WEFT_OP_INPLACE,
    .plain = silu_mul_plain,
};

const weft_op ops_silu_mul_dx = {
    .name = "silu_mul_dx",
    .summary = "gradients of silu_mul",
    .family = "activation",
    .rule = "*, *, * -> *, *",
    .linear = "2",
    .flags = WEFT_OP_HALF | WEFT_OP_INPLACE,
    .plain = silu_mul_dx_plain,
};

const weft_op ops_gelu = {
    .name = "gelu",
    .summary = "x Phi(x), in its tanh form",
    .family = "activation",
    .rule = "* -> *",
    .grad = (const char *const[]){"0: gelu_dx 0 dy", NULL},
    .attrs = "exact",
    .flags = WEFT_OP_HALF | WEFT_OP_INPLACE,
    .plain = gelu_plain,
};

const weft_op ops_gelu_dx = {
    .name = "gelu_dx",
    .summary = "gradient of gelu",
    .family = "activation",
    .rule = "*, * -> *",
    .linear = "1",
    .attrs = "exact",
    .flags = WEFT_OP_HALF | WEFT_OP_INPLACE,
    .plain = gelu_dx_plain,
};
