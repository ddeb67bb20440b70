/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that do the work of several others at once, where a device has a kernel for them: their
 * patterns say of which. Plain kernels are those of the others, one after the other. */
#include "ops.h"

/* r = x + d, y = norm of r. */
static weft_status make_both(const weft_call *call, weft_error *err)
{
    weft_call sum = *call, norm = *call;
    const weft_tensor normed[] = {call->outs[0], call->ins[2]};
    sum.accumulate = norm.accumulate = false;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++)
        op_put(&sum, i, op_get(&call->ins[0], i) + op_get(&call->ins[1], i));
    norm.n_ins = 2;
    norm.ins = normed;
    norm.n_outs = 1;
    norm.outs = call->outs + 1;
    return ops_rms_norm.plain(&norm, err);
}

/* What r is added to joins it behind the norm. */
static weft_status add_rms_norm_plain(const weft_call *call, weft_error *err)
{
    const int64_t n = weft_tensor_count(&call->outs[0]);
    if (!call->accumulate || n == 0)
        return make_both(call, err);
    double *before = weft_alloc((size_t)n * sizeof *before);
    if (!before)
        return weft_fail_memory(err);
    for (int64_t i = 0; i < n; i++)
        before[i] = op_get(&call->outs[0], i);
    weft_status s = make_both(call, err);
    for (int64_t i = 0; i < n && !s; i++)
        op_put(call, i, before[i]);
    weft_free(before);
    return s;
}

/* x, w, dy -> dx, dw: dx alone is added to what is there. */
static weft_status rms_norm_dx_dw_plain(const weft_call *call, weft_error *err)
{
    weft_call dx = *call, dw = *call;
    const weft_tensor of_dw[] = {call->ins[0], call->ins[2]};
    dx.n_outs = dw.n_outs = 1;
    dw.n_ins = 2;
    dw.ins = of_dw;
    dw.outs = call->outs + 1;
    dw.accumulate = false;
    weft_status s = ops_rms_norm_dw.plain(&dw, err);
    return s ? s : ops_rms_norm_dx.plain(&dx, err);
}

/* ---- products in pairs ---- */

/* Member i: x with a weight (linear), or a gradient with x (linear_dw). */
static weft_call member_of(const weft_call *call, int i, const weft_op *op, weft_tensor ins[2])
{
    weft_call one = *call;
    const bool dw = op == &ops_linear_dw;
    ins[dw] = call->ins[0];
    ins[!dw] = call->ins[1 + i];
    one.op = op;
    one.n_ins = 2;
    one.ins = ins;
    one.n_outs = 1;
    one.outs = call->outs + i;
    return one;
}

static weft_status pair_plain(const weft_call *call, const weft_op *op, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < 2 && !s; i++) {
        weft_tensor ins[2];
        const weft_call one = member_of(call, i, op, ins);
        s = op->plain(&one, err);
    }
    return s;
}

static double pair_flops(const weft_call *call, const weft_op *op)
{
    double flops = 0;
    for (int i = 0; i < 2; i++) {
        weft_tensor ins[2];
        const weft_call one = member_of(call, i, op, ins);
        flops += op->flops(&one);
    }
    return flops;
}

static weft_status member_rule(const weft_node *node, int i, const weft_op *op, weft_text *rule,
                               weft_error *err)
{
    const bool dw = op == &ops_linear_dw;
    weft_value *ins[2] = {0};
    weft_node one = *node;
    ins[dw] = node->ins[0];
    ins[!dw] = node->ins[1 + i];
    one.ins = ins;
    return op->make_rule(&one, rule, err);
}

/* "x, w, w -> y, y" of a member's "x, w -> y" (or, of a gradient, "w, x -> y"). What one result is
 * cut by the other is, too: so both members have one rule. */
static weft_status pair_rule(const weft_node *node, const weft_op *op, weft_text *rule,
                             weft_error *err)
{
    weft_text of[2] = {{0}};
    weft_status s = member_rule(node, 0, op, &of[0], err);
    s = s ? s : member_rule(node, 1, op, &of[1], err);
    const char *text = weft_text_get(&of[0]);
    if (!s && strcmp(text, weft_text_get(&of[1])) != 0)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s: %s and %s must have the same dims",
                      node->op->name, node->ins[1]->name, node->ins[2]->name);
    const int first = (int)strcspn(text, ","), both = (int)strcspn(text, "-");
    const char *second = text + first + !s, *result = text + both + 2 * !s;
    const int n = both - first - 1;
    if (!s && op == &ops_linear_dw)
        weft_text_print(rule, "%.*s, %.*s, %.*s ->%s, %s", n, second, first, text, first, text,
                        result, result);
    else if (!s)
        weft_text_print(rule, "%.*s, %.*s, %.*s ->%s, %s", first, text, n, second, n, second,
                        result, result);
    weft_text_release(&of[0]);
    weft_text_release(&of[1]);
    return s;
}

static weft_status linear_pair_plain(const weft_call *call, weft_error *err)
{
    return pair_plain(call, &ops_linear, err);
}

static double linear_pair_flops(const weft_call *call)
{
    return pair_flops(call, &ops_linear);
}

static weft_status linear_pair_rule(const weft_node *node, weft_text *rule, weft_error *err)
{
    return pair_rule(node, &ops_linear, rule, err);
}

static weft_status linear_pair_dw_plain(const weft_call *call, weft_error *err)
{
    return pair_plain(call, &ops_linear_dw, err);
}

static double linear_pair_dw_flops(const weft_call *call)
{
    return pair_flops(call, &ops_linear_dw);
}

static weft_status linear_pair_dw_rule(const weft_node *node, weft_text *rule, weft_error *err)
{
    return pair_rule(node, &ops_linear_dw, rule, err);
}

const weft_op ops_add_rms_norm = {
    .name = "add_rms_norm",
    .summary = "x + d, and its rms_norm",
    .family = "norm",
    .rule = "... [e], ... [e], [e] -> ... [e], ... [e]",
    .pattern = "x d w -> r y; r = add(x, d); y = rms_norm(r, w)",
    .attrs = "eps",
    .flags = WEFT_OP_HALF,
    .plain = add_rms_norm_plain,
};

const weft_op ops_rms_norm_dx_dw = {
    .name = "rms_norm_dx_dw",
    .summary = "both gradients of rms_norm",
    .family = "norm",
    .rule = "... [e], [e], ... [e] -> ... [e], [e]",
    .linear = "2",
    .pattern = "x w dy -> dx dw; dx = rms_norm_dx(x, w, dy); dw = rms_norm_dw(x, dy)",
    .attrs = "eps",
    .plain = rms_norm_dx_dw_plain,
};

const weft_op ops_linear_pair = {
    .name = "linear_pair",
    .summary = "x v^T and x w^T",
    .family = "linear",
    .linear = "0, 1 2",
    .pattern = "x v w -> y z; y = linear(x, v); z = linear(x, w)",
    .flags = WEFT_OP_HALF | WEFT_OP_HALF_WEIGHT | WEFT_OP_MATMUL | WEFT_OP_PAIR,
    .plain = linear_pair_plain,
    .flops = linear_pair_flops,
    .make_rule = linear_pair_rule,
};

/* There is none for the gradient of x: that is one sum of two products, which no batch makes. */
const weft_op ops_linear_pair_dw = {
    .name = "linear_pair_dw",
    .summary = "dy^T x and dz^T x",
    .family = "linear",
    .linear = "0, 1 2",
    .pattern = "x dy dz -> dv dw; dv = linear_dw(dy, x); dw = linear_dw(dz, x)",
    .flags = WEFT_OP_MATMUL | WEFT_OP_PAIR,
    .plain = linear_pair_dw_plain,
    .flops = linear_pair_dw_flops,
    .make_rule = linear_pair_dw_rule,
};
