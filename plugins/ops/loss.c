/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-entropy in four steps, so that a sharded vocabulary leaves an open maximum and two open
 * sums of [b s]: loss parallel. The maximum needs no gradient: what reaches it through sumexp and
 * through nll cancels. A negative label is no token. */
#include "ops.h"

#include <math.h>

/* logits [b s v] -> [b s]; -inf where the shard is empty */
static weft_status max_v_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *logits = &call->ins[0];
    int64_t rows = op_rows(logits), width = op_last(logits);

    (void)err;
    for (int64_t r = 0; r < rows; r++) {
        double max = -INFINITY;
        for (int64_t v = 0; v < width; v++) {
            double x = op_get(logits, r * width + v);
            max = x > max || isnan(x) ? x : max;
        }
        op_put(call, r, max);
    }
    return WEFT_OK;
}

/* exp(logit - max), also where both are -inf */
static double weight(double logit, double max)
{
    return logit == -INFINITY ? 0.0 : exp(logit - max);
}

/* logits [b s v], max [b s] -> [b s] */
static weft_status sumexp_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *logits = &call->ins[0];
    int64_t rows = op_rows(logits), width = op_last(logits);

    (void)err;
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0.0, max = op_get(&call->ins[1], r);
        for (int64_t v = 0; v < width; v++)
            sum += weight(op_get(logits, r * width + v), max);
        op_put(call, r, sum);
    }
    return WEFT_OK;
}

/* logits, max, dy [b s] -> [b s v] */
static weft_status sumexp_dx_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *logits = &call->ins[0];
    int64_t rows = op_rows(logits), width = op_last(logits);

    (void)err;
    for (int64_t r = 0; r < rows; r++) {
        double max = op_get(&call->ins[1], r), dy = op_get(&call->ins[2], r);
        for (int64_t v = 0; v < width; v++)
            op_put(call, r * width + v, dy * weight(op_get(logits, r * width + v), max));
    }
    return WEFT_OK;
}

/* logits [b s v], labels [b s] -> [b s] */
static weft_status pick_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *logits = &call->ins[0];
    int64_t rows = op_rows(logits), width = op_last(logits), lo = logits->lo[logits->n_dims - 1];

    (void)err;
    for (int64_t r = 0; r < rows; r++) {
        int64_t v = op_get_int(&call->ins[1], r) - lo;
        bool here = v >= 0 && v < width;
        op_put(call, r, here ? op_get(logits, r * width + v) : 0.0);
    }
    return WEFT_OK;
}

/* labels [b s], dy [b s] -> [b s v] */
static weft_status pick_dx_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *out = &call->outs[0];
    int64_t rows = op_rows(out), width = op_last(out), lo = out->lo[out->n_dims - 1];

    (void)err;
    for (int64_t r = 0; r < rows; r++) {
        int64_t label = op_get_int(&call->ins[0], r);
        for (int64_t v = 0; v < width; v++)
            op_put(call, r * width + v, v + lo == label ? op_get(&call->ins[1], r) : 0.0);
    }
    return WEFT_OK;
}

/* max, sumexp, pick, labels, all [b s] */
static weft_status nll_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *in = call->ins;
    int64_t n = weft_tensor_count(&call->outs[0]);

    (void)err;
    for (int64_t i = 0; i < n; i++)
        op_put(call, i,
               op_get_int(&in[3], i) >= 0
                   ? log(op_get(&in[1], i)) + op_get(&in[0], i) - op_get(&in[2], i)
                   : 0.0);
    return WEFT_OK;
}

/* sumexp, labels, dy */
static weft_status nll_de_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *in = call->ins;
    int64_t n = weft_tensor_count(&call->outs[0]);

    (void)err;
    for (int64_t i = 0; i < n; i++)
        op_put(call, i, op_get_int(&in[1], i) >= 0 ? op_get(&in[2], i) / op_get(&in[0], i) : 0.0);
    return WEFT_OK;
}

/* labels, dy */
static weft_status nll_dt_plain(const weft_call *call, weft_error *err)
{
    int64_t n = weft_tensor_count(&call->outs[0]);

    (void)err;
    for (int64_t i = 0; i < n; i++)
        op_put(call, i, op_get_int(&call->ins[0], i) >= 0 ? -op_get(&call->ins[1], i) : 0.0);
    return WEFT_OK;
}

const weft_op ops_max_v = {
    .name = "max_v",
    .summary = "the largest logit",
    .rule = "... v -> ...",
    .flags = WEFT_OP_STAT | WEFT_OP_MAX,
    .plain = max_v_plain,
};

const weft_op ops_sumexp = {
    .name = "sumexp",
    .summary = "the sum of exp(logit - max)",
    .rule = "... v, ... -> ...",
    .grad = (const char *const[]){"0: sumexp_dx 0 1 dy", NULL},
    .flags = WEFT_OP_STAT,
    .plain = sumexp_plain,
};

const weft_op ops_sumexp_dx = {
    .name = "sumexp_dx",
    .summary = "gradient of sumexp",
    .rule = "... v, ..., ... -> ... v",
    .linear = "2",
    .flags = WEFT_OP_HALF | WEFT_OP_INPLACE,
    .plain = sumexp_dx_plain,
};

const weft_op ops_pick = {
    .name = "pick",
    .summary = "the logit of the label",
    .rule = "... v, ... -> ...",
    .linear = "0",
    .grad = (const char *const[]){"0: pick_dx 1 dy like0", NULL},
    .flags = WEFT_OP_STAT,
    .plain = pick_plain,
};

const weft_op ops_pick_dx = {
    .name = "pick_dx",
    .summary = "gradient of pick",
    .rule = "..., ..., ... v -> ... v",
    .linear = "1",
    .flags = WEFT_OP_HALF,
    .dtype_from = 1,
    .plain = pick_dx_plain,
};

const weft_op ops_nll = {
    .name = "nll",
    .summary = "the negative log-likelihood of the label",
    .rule = "..., ..., ..., ... -> ...",
    .grad = (const char *const[]){"1: nll_de 1 3 dy", "2: nll_dt 3 dy", NULL},
    .flags = WEFT_OP_STAT,
    .plain = nll_plain,
};

const weft_op ops_nll_de = {
    .name = "nll_de",
    .summary = "gradient of nll's sumexp",
    .rule = "..., ..., ... -> ...",
    .linear = "2",
    .flags = WEFT_OP_STAT,
    .plain = nll_de_plain,
};

const weft_op ops_nll_dt = {
    .name = "nll_dt",
    .summary = "gradient of nll's pick",
    .rule = "..., ... -> ...",
    .linear = "1",
    .flags = WEFT_OP_STAT,
    .dtype_from = 1,
    .plain = nll_dt_plain,
};
