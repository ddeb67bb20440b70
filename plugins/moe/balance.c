/* SPDX-License-Identifier: Apache-2.0 */
/* How evenly experts are used: counts of the step, the bias that they move, the term of the loss
 * that balances, and numbers that are reported. */
#include "moe.h"

#include <math.h>

/* ---- counts [B S experts] -> rows of each expert ---- */

static weft_status expert_load_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *counts = &call->ins[0];
    const int64_t n = counts->size[2];
    (void)err;
    for (int64_t x = 0; x < n; x++) {
        double sum = 0;
        for (int64_t i = x; i < weft_tensor_count(counts); i += n)
            sum += (double)moe_int(counts, i);
        moe_put(call, x, sum);
    }
    return WEFT_OK;
}

static weft_status expert_load_infer(weft_graph *g, weft_node *node, weft_error *err)
{
    (void)err;
    node->outs[0]->n_dims = 1;
    node->outs[0]->dims[0] = node->ins[0]->dims[2];
    node->outs[0]->dtype = weft_graph_dtype(g);
    return WEFT_OK;
}

const weft_op moe_expert_load = {
    .name = "expert_load",
    .summary = "rows of each expert",
    .rule = "b s x -> x",
    .plain = expert_load_plain,
    .infer = expert_load_infer,
};

static double mean_of(const weft_tensor *t)
{
    double sum = 0;
    for (int64_t i = 0; i < weft_tensor_count(t); i++)
        sum += weft_tensor_get(t, i);
    return sum / (double)weft_tensor_count(t);
}

/* ---- load -> the largest over the mean, times `scale` ---- */

static weft_status load_peak_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *load = &call->ins[0];
    double most = 0, mean = mean_of(load);
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(load); i++)
        most = fmax(most, weft_tensor_get(load, i));
    moe_put(call, 0, mean > 0 ? weft_call_real(call, "scale") * most / mean : 0);
    return WEFT_OK;
}

const weft_op moe_load_peak = {
    .name = "load_peak",
    .summary = "the largest load of an expert over the mean",
    .rule = "[x] ->",
    .attrs = "scale",
    .flags = WEFT_OP_STAT,
    .plain = load_peak_plain,
};

/* ---- bias, load -> the next bias: up where the load is below the mean ---- */

static double step_of(const weft_tensor *load, double mean, int64_t i)
{
    const double d = mean - weft_tensor_get(load, i);
    return (d > 0) - (d < 0);
}

static weft_status bias_step_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *bias = &call->ins[0], *load = &call->ins[1];
    const double mean = mean_of(load), rate = weft_call_real(call, "rate");
    double middle = 0;
    weft_status status = moe_no_sum(call, err);
    for (int64_t i = 0; i < weft_tensor_count(load) && weft_call_int(call, "recentre"); i++)
        middle += step_of(load, mean, i) / (double)weft_tensor_count(load);
    for (int64_t i = 0; !status && i < weft_tensor_count(bias); i++)
        weft_tensor_set(&call->outs[0], i,
                        weft_tensor_get(bias, i) +
                            rate * (step_of(load, mean, bias->lo[0] + i) - middle));
    return status;
}

const weft_op moe_bias_step = {
    .name = "bias_step",
    .summary = "a step of `rate` of each expert's bias against its load",
    .rule = "x, [y] -> x",
    .attrs = "rate, recentre",
    .flags = WEFT_OP_INPLACE,
    .plain = bias_step_plain,
};

/* ---- numbers of all blocks: their sum, their maximum; the maximum of a value ---- */

static weft_status scalars_rule(const weft_node *node, weft_text *rule, weft_error *err)
{
    (void)err;
    for (int i = 1; i < node->n_ins; i++)
        weft_text_add(rule, ", ");
    weft_text_add(rule, "->");
    return WEFT_OK;
}

static weft_status scalar_sum_plain(const weft_call *call, weft_error *err)
{
    double sum = 0;
    (void)err;
    for (int i = 0; i < call->n_ins; i++)
        sum += weft_tensor_get(&call->ins[i], 0);
    moe_put(call, 0, sum);
    return WEFT_OK;
}

static weft_status scalar_max_plain(const weft_call *call, weft_error *err)
{
    double most = -INFINITY;
    weft_status status = moe_no_sum(call, err);
    for (int i = 0; i < call->n_ins; i++)
        most = fmax(most, weft_tensor_get(&call->ins[i], 0));
    if (!status)
        weft_tensor_set(&call->outs[0], 0, most);
    return status;
}

const weft_op moe_scalar_sum = {
    .name = "scalar_sum",
    .summary = "the sum of numbers",
    .linear = "all",
    .plain = scalar_sum_plain,
    .make_rule = scalars_rule,
};

const weft_op moe_scalar_max = {
    .name = "scalar_max",
    .summary = "the largest of numbers",
    .plain = scalar_max_plain,
    .make_rule = scalars_rule,
};

static weft_status largest_plain(const weft_call *call, weft_error *err)
{
    double most = 0;
    weft_status status = moe_no_sum(call, err);
    for (int64_t i = 0; i < weft_tensor_count(&call->ins[0]); i++)
        most = fmax(most, weft_tensor_get(&call->ins[0], i));
    if (!status)
        weft_tensor_set(&call->outs[0], 0, most);
    return status;
}

const weft_op moe_largest = {
    .name = "largest",
    .summary = "the largest element, at least 0",
    .rule = "* ->",
    .flags = WEFT_OP_MAX,
    .plain = largest_plain,
};

/* ---- balance: shares, means -> scale times the sum of their products ---- */

static weft_status balance_plain(const weft_call *call, weft_error *err)
{
    double sum = 0;
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->ins[0]); i++)
        sum += weft_tensor_get(&call->ins[0], i) * weft_tensor_get(&call->ins[1], i);
    moe_put(call, 0, sum * weft_call_real(call, "scale"));
    return WEFT_OK;
}

/* dy, shares -> the gradient of the means */
static weft_status balance_dp_plain(const weft_call *call, weft_error *err)
{
    const double dy = weft_tensor_get(&call->ins[0], 0) * weft_call_real(call, "scale");
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++)
        moe_put(call, i, dy * weft_tensor_get(&call->ins[1], i));
    return WEFT_OK;
}

const weft_op moe_balance = {
    .name = "balance",
    .summary = "the sum of shares times means",
    .rule = "*, * ->",
    .linear = "0, 1",
    .grad = (const char *const[]){"1: balance_dp dy 0", NULL},
    .attrs = "scale",
    .flags = WEFT_OP_STAT,
    .plain = balance_plain,
};

const weft_op moe_balance_dp = {
    .name = "balance_dp",
    .summary = "gradient of balance's means",
    .rule = ", * -> *",
    .linear = "0, 1",
    .attrs = "scale",
    .flags = WEFT_OP_STAT,
    .dtype_from = 1,
    .plain = balance_dp_plain,
};
