/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped-query attention with fewer key heads than ranks: keys and values are whole on every rank
 * and repeated to the heads that the rank works on.
 */
#include "tp.h"

#include <string.h>

#define ROLE "repeated_heads"

/* Which key head global query head h shares. */
static int64_t shared_head(int64_t h, const weft_tensor *q, const weft_tensor *k)
{
    int64_t heads = q->whole[2] / q->grain[2], kv_heads = k->whole[2] / k->grain[2];
    return h / (heads / kv_heads);
}

static weft_status repeat_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *k = &call->ins[0], *out = &call->outs[0];
    int64_t d = out->grain[2], heads = out->size[2] / d, first = out->lo[2] / d,
            rows = out->size[0] * out->size[1];
    (void)err;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t h = 0; h < heads; h++) {
            int64_t from = r * k->size[2] + shared_head(first + h, out, k) * d,
                    to = r * out->size[2] + h * d;
            for (int64_t i = 0; i < d; i++)
                weft_tensor_set(out, to + i,
                                weft_tensor_get(k, from + i) +
                                    (call->accumulate ? weft_tensor_get(out, to + i) : 0));
        }
    return WEFT_OK;
}

/* The sum over the heads that shared a key head; over this rank's only, hence an open sum where the
 * heads are cut. */
static weft_status repeat_dx_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *dy = &call->ins[0], *out = &call->outs[0];
    int64_t d = out->grain[2], kv_heads = out->size[2] / d, heads = dy->size[2] / d,
            first = dy->lo[2] / d, rows = out->size[0] * out->size[1];
    (void)err;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t g = 0; g < kv_heads; g++)
            for (int64_t i = 0; i < d; i++) {
                int64_t to = r * out->size[2] + g * d + i;
                double sum = call->accumulate ? weft_tensor_get(out, to) : 0;
                for (int64_t h = 0; h < heads; h++)
                    if (shared_head(first + h, dy, out) == g)
                        sum += weft_tensor_get(dy, r * dy->size[2] + h * d + i);
                weft_tensor_set(out, to, sum);
            }
    return WEFT_OK;
}

static weft_status repeat_infer(weft_graph *g, weft_node *node, weft_error *err)
{
    (void)g, (void)err;
    const weft_value *k = node->ins[0], *q = node->ins[1];
    weft_value *out = node->outs[0];
    out->n_dims = q->n_dims;
    memcpy(out->dims, q->dims, sizeof q->dims);
    out->dtype = k->dtype;
    return WEFT_OK;
}

static const weft_op repeat_kv = {
    .name = "repeat_kv",
    .summary = "key or value heads repeated to the query heads that share them",
    .rule = "b s [g], b s h -> b s h",
    .linear = "0",
    .grad = (const char *const[]){"0: repeat_kv_dx dy like0", NULL},
    .flags = WEFT_OP_HALF,
    .plain = repeat_plain,
    .infer = repeat_infer,
};

static const weft_op repeat_kv_dx = {
    .name = "repeat_kv_dx",
    .summary = "the sum over the query heads that shared a key head",
    .rule = "b s h, b s [g] -> b s [g]",
    .linear = "0",
    .flags = WEFT_OP_HALF,
    .plain = repeat_dx_plain,
};

const weft_op *const tp_ops[] = {&repeat_kv, &repeat_kv_dx, NULL};

static int64_t heads_of(const weft_value *v)
{
    return v->dims[2].size / v->dims[2].grain;
}

/* Operands of attention: q, k, v, ... Adds a node right before it and lets it read that. */
static void repeat_operand(weft_graph *g, weft_node *attention, int operand)
{
    weft_value *v = attention->ins[operand];
    weft_value *ins[] = {v, attention->ins[0]};
    weft_value *repeated = weft_add_before(g, attention, "repeat_kv", v->name, ".rep", 2, ins);
    if (!repeated)
        return;
    weft_set_role(g, repeated, ROLE);
    weft_node_set_operand(g, attention, operand, repeated);
}

/* What is repeated is cut by heads: whoever left that to the bytes of a single move would have
 * queries follow keys that are cut by the sequence, and a ring go round all ranks of tp, too. */
bool tp_repeat_kv(weft_graph *g, int64_t degree)
{
    bool repeats = false;
    for (weft_node *n = weft_graph_first(g); n && !weft_graph_status(g); n = n->next) {
        if (!weft_node_in(n, "attention") || n->ins[1]->n_dims != 3)
            continue;
        int64_t heads = heads_of(n->ins[0]), kv_heads = heads_of(n->ins[1]);
        if (kv_heads >= degree || kv_heads == heads || heads % kv_heads)
            continue;
        if (!repeats)
            weft_add_rule(g, WEFT_RULE_ROLE, ROLE, n->ins[0]->dims[2].name, "tp");
        repeats = true;
        repeat_operand(g, n, 1);
        repeat_operand(g, n, 2);
    }
    return repeats;
}
