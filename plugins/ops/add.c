/* SPDX-License-Identifier: Apache-2.0 */
/* Sums, scalings and copies. */
#include "ops.h"

#include <math.h>

/* x [b s f], bias [f] */
static weft_status add_bias_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0];
    int64_t rows = op_rows(x), width = op_last(x);

    (void)err;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t f = 0; f < width; f++)
            op_put(call, r * width + f, op_get(x, r * width + f) + op_get(&call->ins[1], f));
    return WEFT_OK;
}

/* dy [b s f] -> [f] */
static weft_status bias_dw_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *dy = &call->ins[0];
    int64_t rows = op_rows(dy), width = op_last(dy);

    (void)err;
    for (int64_t f = 0; f < width; f++) {
        double sum = 0.0;
        for (int64_t r = 0; r < rows; r++)
            sum += op_get(dy, r * width + f);
        op_put(call, f, sum);
    }
    return WEFT_OK;
}

static weft_status scale_plain(const weft_call *call, weft_error *err)
{
    int64_t n = weft_tensor_count(&call->outs[0]);
    double by = op_get(&call->ins[1], 0);

    (void)err;
    for (int64_t i = 0; i < n; i++)
        op_put(call, i, op_get(&call->ins[0], i) * by);
    return WEFT_OK;
}

/* x [b s e], last [b] -> [b e]: zeros where `last` is no place of the sequence. */
static weft_status take_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0], *last = &call->ins[1];
    int64_t places = x->size[1], width = x->size[2];

    (void)err;
    for (int64_t b = 0; b < x->size[0]; b++) {
        int64_t s = op_get_int(last, b);
        bool here = s >= 0 && s < places;
        for (int64_t e = 0; e < width; e++)
            op_put(call, b * width + e, here ? op_get(x, (b * places + s) * width + e) : 0.0);
    }
    return WEFT_OK;
}

const weft_op ops_add_bias = {
    .name = "add_bias",
    .summary = "x + bias along the last dim",
    .rule = "... f, f -> ... f",
    .linear = "0 1",
    .grad = (const char *const[]){"0: dy", "1: bias_dw dy", NULL},
    .flags = WEFT_OP_HALF | WEFT_OP_INPLACE,
    .plain = add_bias_plain,
};

const weft_op ops_bias_dw = {
    .name = "bias_dw",
    .summary = "sums over all dims but the last",
    .rule = "... f -> f",
    .linear = "0",
    .plain = bias_dw_plain,
};

const weft_op ops_scale = {
    .name = "scale",
    .summary = "x times a scalar",
    .rule = "*, -> *",
    .linear = "0",
    .grad = (const char *const[]){"0: scale dy 1", NULL},
    .flags = WEFT_OP_INPLACE,
    .plain = scale_plain,
};

const weft_op ops_take = {
    .name = "take",
    .summary = "one row of every sequence",
    .rule = "b [s] e, b -> b e",
    .linear = "0",
    .flags = WEFT_OP_HALF,
    .plain = take_plain,
};
