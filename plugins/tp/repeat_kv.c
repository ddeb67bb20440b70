/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped-query attention with fewer key heads than ranks: keys and values are whole on every rank
 * and repeated to the heads that the rank works on.
 */
#include "tp.h"

/* Which element of the key heads, whole, element i of the repeated ones is. */
static int64_t source_of(const weft_tensor *repeated, const weft_tensor *k, int64_t i)
{
    int64_t d = repeated->grain[2], row = i / repeated->size[2], at = i % repeated->size[2],
            head = (repeated->lo[2] + at) / d / (repeated->whole[2] / k->whole[2]);
    return row * k->size[2] + head * d + at % d;
}

static weft_status repeat_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *k = &call->ins[0], *out = &call->outs[0];
    (void)err;
    for (int64_t i = 0, n = weft_tensor_count(out); i < n; i++)
        weft_tensor_set(out, i,
                        weft_tensor_get(k, source_of(out, k, i)) +
                            (call->accumulate ? weft_tensor_get(out, i) : 0));
    return WEFT_OK;
}

/* The sum over the heads that shared a key head; over this rank's only, hence an open sum where the
 * heads are cut. */
static weft_status repeat_dx_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *dy = &call->ins[0], *out = &call->outs[0];
    const int64_t d = out->grain[2], row = dy->size[2];
    (void)err;
    for (int64_t k = 0, n = weft_tensor_count(out); k < n; k++) {
        double sum = call->accumulate ? weft_tensor_get(out, k) : 0;
        const int64_t from = k / out->size[2] * row;
        for (int64_t i = from + k % d; i < from + row; i += d) /* the same place of each head */
            if (source_of(dy, out, i) == k)
                sum += weft_tensor_get(dy, i);
        weft_tensor_set(out, k, sum);
    }
    return WEFT_OK;
}

static weft_status repeat_infer(weft_graph *g, weft_node *node, weft_error *err)
{
    (void)g, (void)err;
    weft_value_shape_as(node->outs[0], node->ins[1]);
    node->outs[0]->dtype = node->ins[0]->dtype;
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

/* Of attention's operands q, k and v, the last two. What is repeated is cut by heads: whoever left
 * that to the bytes of a single move would have queries follow keys that are cut by the sequence,
 * and a ring go round all ranks of tp, too. */
bool tp_repeat_kv(weft_graph *g, int64_t degree)
{
    bool repeats = false;
    for (weft_node *n = weft_graph_first(g); n && !weft_graph_status(g); n = n->next) {
        if (!weft_node_in(n, "attention") || n->ins[1]->n_dims != 3)
            continue;
        const int64_t heads = heads_of(n->ins[0]), kv_heads = heads_of(n->ins[1]);
        if (kv_heads >= degree || kv_heads == heads || heads % kv_heads)
            continue;
        for (int i = 1; i <= 2; i++) {
            weft_value *v = n->ins[i];
            v = weft_add_before(g, n, "repeat_kv", v->name, ".rep", 2,
                                (weft_value *[]){v, n->ins[0]});
            weft_set_role(g, v, "repeated_heads");
            weft_node_set_operand(g, n, i, v);
        }
        if (!repeats)
            weft_add_rule(g, WEFT_RULE_ROLE, "repeated_heads", n->ins[0]->dims[2].name, "tp");
        repeats = true;
    }
    return repeats;
}
