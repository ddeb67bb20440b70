/* SPDX-License-Identifier: Apache-2.0 */
/* The structural ops: where values come from, and what placement, differentiation and lowering add
 * of themselves. All others are brought by plugins. */
#include "compile/graph/graph.h"

#include <math.h>

/* ---- sources ---- */

/* "-> vocab embed": every dim an index of its own. */
static weft_status source_rule(const weft_node *node, weft_text *rule, weft_error *err)
{
    (void)err;
    weft_text_add(rule, "->");
    for (int d = 0; d < node->outs[0]->n_dims; d++)
        weft_text_print(rule, " %s", node->outs[0]->dims[d].name);
    return WEFT_OK;
}

/* Whoever adds a source says what it is. */
static weft_status source_infer(weft_graph *graph, weft_node *node, weft_error *err)
{
    (void)graph, (void)node, (void)err;
    return WEFT_OK;
}

static void put(const weft_call *call, int64_t i, double x)
{
    const weft_tensor *out = &call->outs[0];
    weft_tensor_set(out, i, call->accumulate ? weft_tensor_get(out, i) + x : x);
}

static weft_status constant_plain(const weft_call *call, weft_error *err)
{
    (void)err;
    put(call, 0, weft_call_real(call, "value"));
    return WEFT_OK;
}

static const weft_op op_parameter = {
    .name = "parameter",
    .summary = "a trained tensor",
    .rule = "->",
    .flags = WEFT_OP_SOURCE | WEFT_OP_PARAMETER,
    .make_rule = source_rule,
    .infer = source_infer,
};

static const weft_op op_state = {
    .name = "state",
    .summary = "a tensor kept from step to step",
    .rule = "->",
    .flags = WEFT_OP_SOURCE | WEFT_OP_STATE,
    .make_rule = source_rule,
    .infer = source_infer,
};

static const weft_op op_input = {
    .name = "input",
    .summary = "data, or a number from the run",
    .rule = "->",
    .flags = WEFT_OP_SOURCE | WEFT_OP_INPUT,
    .make_rule = source_rule,
    .infer = source_infer,
};

static const weft_op op_constant = {
    .name = "constant",
    .summary = "the number `value`",
    .rule = "->",
    .attrs = "value",
    .plain = constant_plain,
};

/* ---- sums, maxima and copies ---- */

static weft_status add_plain(const weft_call *call, weft_error *err)
{
    int64_t n = weft_tensor_count(&call->outs[0]);

    (void)err;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (int k = 0; k < call->n_ins; k++)
            sum += weft_tensor_get(&call->ins[k], i);
        put(call, i, sum);
    }
    return WEFT_OK;
}

static weft_status copy_plain(const weft_call *call, weft_error *err)
{
    int64_t n = weft_tensor_count(&call->outs[0]);

    (void)err;
    for (int64_t i = 0; i < n; i++)
        put(call, i, weft_tensor_get(&call->ins[0], i));
    return WEFT_OK;
}

/* A NaN stays, wherever it comes from. */
static weft_status larger_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *out = &call->outs[0];
    int64_t n = weft_tensor_count(out);

    (void)err;
    for (int64_t i = 0; i < n; i++) {
        double x = weft_tensor_get(&call->ins[0], i),
               was = call->accumulate ? weft_tensor_get(out, i) : x;
        weft_tensor_set(out, i, was > x || isnan(was) ? was : x);
    }
    return WEFT_OK;
}

static weft_status lowest_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *out = &call->outs[0];
    int64_t n = weft_tensor_count(out);
    double least = out->dtype == WEFT_I32 ? INT32_MIN : out->dtype == WEFT_U8 ? 0 : -INFINITY;

    (void)err;
    for (int64_t i = 0; i < n; i++)
        weft_tensor_set(out, i, call->accumulate ? weft_tensor_get(out, i) + least : least);
    return WEFT_OK;
}

/* The dtype is set by whoever adds the cast, here or afterwards. */
static weft_status cast_infer(weft_graph *graph, weft_node *node, weft_error *err)
{
    const char *to = weft_node_text(node, "dtype");

    (void)graph;
    weft_value_shape_as(node->outs[0], node->ins[0]);
    if (!*to)
        return WEFT_OK;
    node->outs[0]->dtype = weft_dtype_find(to);
    if (node->outs[0]->dtype != WEFT_DTYPES)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "cast of %s: no dtype is called \"%s\"",
                     node->ins[0]->name, to);
}

static const weft_op op_add = {
    .name = "add",
    .summary = "the sum of all operands",
    .rule = "* ... -> *",
    .linear = "all",
    .grad = (const char *const[]){"all: dy", NULL},
    .flags = WEFT_OP_HALF | WEFT_OP_INPLACE | WEFT_OP_ADD,
    .plain = add_plain,
};

static const weft_op op_cast = {
    .name = "cast",
    .summary = "x in another dtype",
    .rule = "* -> *",
    .linear = "0",
    .grad = (const char *const[]){"0: cast dy", NULL},
    .attrs = "dtype",
    .plain = copy_plain,
    .infer = cast_infer,
    .flags = WEFT_OP_CAST | WEFT_OP_MONOTONE,
};

static const weft_op op_accumulate = {
    .name = "accumulate",
    .summary = "the sum of x over the step's micro-batches",
    .rule = "* ... -> *", /* a second: what those before have left, brought to where it is added */
    .linear = "all",
    .flags = WEFT_OP_ACCUMULATES,
    .plain = copy_plain,
};

static const weft_op op_accumulate_max = {
    .name = "accumulate_max",
    .summary = "the maximum of x over the step's micro-batches; a NaN stays",
    .rule = "* -> *",
    .flags = WEFT_OP_ACCUMULATES | WEFT_OP_MAX | WEFT_OP_MONOTONE,
    .plain = larger_plain,
};

static const weft_op op_lowest = {
    .name = "lowest",
    .summary = "what a maximum begins with: -infinity, or the least integer",
    .rule = "* -> *",
    .flags = WEFT_OP_MAX,
    .plain = lowest_plain,
};

/* ---- moves ---- */

static const weft_op op_gather = {
    .name = "gather",
    .summary =
        "a weight from its storage shards, or over the storage axes in `axes` alone; placement "
        "turns it into a redistribute",
    .rule = "* -> *",
    .linear = "0",
    .grad = (const char *const[]){"0: dy", NULL},
    .attrs = "axes",
    .flags = WEFT_OP_GATHER,
};

static const weft_op op_redistribute = {
    .name = "redistribute",
    .summary = "the same value in another layout; lowered to collectives",
    .rule = "* -> *",
    .linear = "0",
    .grad = (const char *const[]){"0: dy", NULL},
};

static const weft_op op_fetch = {
    .name = "fetch",
    .summary = "what lies in far memory, brought to where it is read",
    .rule = "* -> *",
    .linear = "0",
    .flags = WEFT_OP_FETCH,
};

static const weft_op op_evict = {
    .name = "evict",
    .summary = "what lies in far memory from here on, on its way there",
    .rule = "* -> *",
    .linear = "0",
    .flags = WEFT_OP_EVICT,
};

const weft_op *const *weft_core_ops(void)
{
    static const weft_op *const table[] = {
        &op_parameter,    &op_state,      &op_input,          &op_constant, &op_add,
        &op_cast,         &op_accumulate, &op_accumulate_max, &op_lowest,   &op_gather,
        &op_redistribute, &op_fetch,      &op_evict,          NULL};
    return table;
}
