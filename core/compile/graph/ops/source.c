/* SPDX-License-Identifier: Apache-2.0 */
/* Where values come from, and the node that moves them. */
#include "ops.h"

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

static weft_status constant_plain(const weft_call *call, weft_error *err)
{
    (void)err;
    op_put(call, 0, weft_call_real(call, "value"));
    return WEFT_OK;
}

const weft_op weft_op_parameter = {
    .name = "parameter",
    .summary = "a trained tensor",
    .rule = "->",
    .flags = WEFT_OP_SOURCE | WEFT_OP_PARAMETER,
    .make_rule = source_rule,
    .infer = source_infer,
};

const weft_op weft_op_state = {
    .name = "state",
    .summary = "a tensor kept from step to step",
    .rule = "->",
    .flags = WEFT_OP_SOURCE | WEFT_OP_STATE,
    .make_rule = source_rule,
    .infer = source_infer,
};

const weft_op weft_op_input = {
    .name = "input",
    .summary = "data, or a number from the run",
    .rule = "->",
    .flags = WEFT_OP_SOURCE | WEFT_OP_INPUT,
    .make_rule = source_rule,
    .infer = source_infer,
};

const weft_op weft_op_constant = {
    .name = "constant",
    .summary = "the number `value`",
    .rule = "->",
    .attrs = "value",
    .plain = constant_plain,
};

const weft_op weft_op_gather = {
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

const weft_op weft_op_redistribute = {
    .name = "redistribute",
    .summary = "the same value in another layout; lowered to collectives",
    .rule = "* -> *",
    .linear = "0",
    .grad = (const char *const[]){"0: dy", NULL},
};
