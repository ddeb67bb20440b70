/* SPDX-License-Identifier: Apache-2.0 */
/* From tensors to numbers and back. */
#include "ops.h"

#include <math.h>

static weft_status sum_plain(const weft_call *call, weft_error *err)
{
    int64_t n = weft_tensor_count(&call->ins[0]);
    double sum = 0.0;

    (void)err;
    for (int64_t i = 0; i < n; i++)
        sum += op_get(&call->ins[0], i);
    op_put(call, 0, sum);
    return WEFT_OK;
}

static weft_status broadcast_plain(const weft_call *call, weft_error *err)
{
    int64_t n = weft_tensor_count(&call->outs[0]);

    (void)err;
    for (int64_t i = 0; i < n; i++)
        op_put(call, i, op_get(&call->ins[0], 0));
    return WEFT_OK;
}

static weft_status count_valid_plain(const weft_call *call, weft_error *err)
{
    int64_t n = weft_tensor_count(&call->ins[0]), valid = 0;

    (void)err;
    for (int64_t i = 0; i < n; i++)
        valid += op_get_int(&call->ins[0], i) >= 0;
    op_put(call, 0, (double)valid);
    return WEFT_OK;
}

/* 1 / max(x, 1): a batch without one valid token has loss 0, not NaN. */
static weft_status reciprocal_plain(const weft_call *call, weft_error *err)
{
    double x = op_get(&call->ins[0], 0);

    (void)err;
    op_put(call, 0, 1.0 / (x < 1.0 ? 1.0 : x));
    return WEFT_OK;
}

static weft_status sumsq_plain(const weft_call *call, weft_error *err)
{
    int64_t n = weft_tensor_count(&call->ins[0]);
    double sum = 0.0;

    (void)err;
    for (int64_t i = 0; i < n; i++) {
        double x = op_get(&call->ins[0], i);
        sum += x * x;
    }
    op_put(call, 0, sum);
    return WEFT_OK;
}

static weft_status sqrt_plain(const weft_call *call, weft_error *err)
{
    (void)err;
    op_put(call, 0, sqrt(op_get(&call->ins[0], 0)));
    return WEFT_OK;
}

/* A norm that is not a number stays one, so that it is seen. */
static weft_status clip_plain(const weft_call *call, weft_error *err)
{
    double max_norm = weft_call_real(call, "max_norm");
    double factor = max_norm / (op_get(&call->ins[0], 0) + 1e-6);

    (void)err;
    op_put(call, 0, max_norm == 0 || factor > 1 ? 1 : factor);
    return WEFT_OK;
}

static double sumsq_flops(const weft_call *call)
{
    return 2.0 * (double)weft_tensor_count(&call->ins[0]);
}

const weft_op ops_sum = {
    .name = "sum",
    .summary = "the sum of all elements",
    .rule = "* ->",
    .linear = "0",
    .grad = (const char *const[]){"0: broadcast dy like0", NULL},
    .flags = WEFT_OP_STAT,
    .plain = sum_plain,
};

const weft_op ops_broadcast = {
    .name = "broadcast",
    .summary = "one number for every element",
    .rule = ", * -> *",
    .linear = "0",
    .plain = broadcast_plain,
};

const weft_op ops_count_valid = {
    .name = "count_valid",
    .summary = "how many labels are tokens",
    .rule = "* ->",
    .flags = WEFT_OP_STAT,
    .plain = count_valid_plain,
};

const weft_op ops_reciprocal = {
    .name = "reciprocal",
    .summary = "1 / max(x, 1)",
    .rule = "->",
    .flags = WEFT_OP_STAT,
    .plain = reciprocal_plain,
};

const weft_op ops_sumsq = {
    .name = "sumsq",
    .summary = "sum of squares",
    .rule = "* ->",
    .flags = WEFT_OP_STAT,
    .plain = sumsq_plain,
    .flops = sumsq_flops,
};

const weft_op ops_sqrt = {
    .name = "sqrt",
    .summary = "square root of a scalar",
    .rule = "->",
    .flags = WEFT_OP_STAT,
    .plain = sqrt_plain,
};

const weft_op ops_clip = {
    .name = "clip",
    .summary = "factor that brings a norm down to attribute max_norm (0: none)",
    .rule = "->",
    .attrs = "max_norm",
    .flags = WEFT_OP_STAT,
    .plain = clip_plain,
};
