/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of heads: some elements of every head, such elements among zeros, every head with what all
 * heads share behind it, and the sum over heads of what they share. */
#include "ops.h"

#define ATTRS "first, width, whole, dim"

/* Of every head of `whole` elements those from `first` on, `width` of them. */
typedef struct part {
    int64_t first, width, whole;
} part;

static part part_of(const weft_call *call)
{
    return (part){weft_call_int(call, "first"), weft_call_int(call, "width"),
                  weft_call_int(call, "whole")};
}

static weft_status head_part_plain(const weft_call *call, weft_error *err)
{
    const part p = part_of(call);
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++)
        op_put(call, i, op_get(&call->ins[0], i / p.width * p.whole + p.first + i % p.width));
    return WEFT_OK;
}

static weft_status head_place_plain(const weft_call *call, weft_error *err)
{
    const part p = part_of(call);
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++) {
        const int64_t e = i % p.whole - p.first, head = i / p.whole;
        op_put(call, i, e >= 0 && e < p.width ? op_get(&call->ins[0], head * p.width + e) : 0);
    }
    return WEFT_OK;
}

static weft_status head_join_plain(const weft_call *call, weft_error *err)
{
    const part p = part_of(call);
    const int64_t shared = p.whole - p.width, n = op_last(&call->outs[0]);
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++) {
        const int64_t e = i % p.whole, head = i / p.whole;
        op_put(call, i,
               e < p.width ? op_get(&call->ins[0], head * p.width + e)
                           : op_get(&call->ins[1], i / n * shared + e - p.width));
    }
    return WEFT_OK;
}

static weft_status head_sum_plain(const weft_call *call, weft_error *err)
{
    const part p = part_of(call);
    const int64_t shared = p.whole - p.width, n = op_last(&call->ins[0]);
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++) {
        double sum = 0;
        for (int64_t at = i / shared * n; at < (i / shared + 1) * n; at += p.whole)
            sum += op_get(&call->ins[0], at + p.width + i % shared);
        op_put(call, i, sum);
    }
    return WEFT_OK;
}

/* The operand's heads, with as many elements each; called as the attribute `dim` says. */
static weft_status infer_heads(weft_node *node, int64_t from, int64_t to, weft_error *err)
{
    const weft_value *x = node->ins[0];
    const weft_dim *heads = &x->dims[x->n_dims - 1];
    const int64_t first = weft_node_int(node, "first"), width = weft_node_int(node, "width");
    const char *name = weft_node_text(node, "dim");
    weft_dim *made = &node->outs[0]->dims[x->n_dims - 1];

    if (x->n_dims < 1 || heads->grain != from || first < 0 || width < 1 ||
        first + width > weft_node_int(node, "whole"))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "%s of %s: %lld elements from %lld on of heads of %lld, but its heads "
                         "have %lld",
                         node->op->name, x->name, (long long)width, (long long)first,
                         (long long)weft_node_int(node, "whole"),
                         x->n_dims ? (long long)heads->grain : 0);
    op_infer_like(node, 0, x);
    *made = (weft_dim){*name ? name : heads->name, heads->size / from * to, to};
    return WEFT_OK;
}

static weft_status head_part_infer(weft_graph *graph, weft_node *node, weft_error *err)
{
    (void)graph;
    return infer_heads(node, weft_node_int(node, "whole"), weft_node_int(node, "width"), err);
}

static weft_status head_place_infer(weft_graph *graph, weft_node *node, weft_error *err)
{
    (void)graph;
    return infer_heads(node, weft_node_int(node, "width"), weft_node_int(node, "whole"), err);
}

static weft_status head_join_infer(weft_graph *graph, weft_node *node, weft_error *err)
{
    const weft_value *x = node->ins[1];
    const int64_t shared = weft_node_int(node, "whole") - weft_node_int(node, "width");

    (void)graph;
    if (x->dims[x->n_dims - 1].size != shared || weft_node_int(node, "first") != 0)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "head_join of %s: %lld elements stand behind those of each head, but %s "
                         "has %lld",
                         node->ins[0]->name, (long long)shared, x->name,
                         (long long)x->dims[x->n_dims - 1].size);
    return infer_heads(node, weft_node_int(node, "width"), weft_node_int(node, "whole"), err);
}

const weft_op ops_head_part = {
    .name = "head_part",
    .summary = "some elements of every head",
    .rule = "... h -> ... h",
    .linear = "0",
    .grad = (const char *const[]){"0: head_place dy", NULL},
    .attrs = ATTRS,
    .flags = WEFT_OP_HALF,
    .plain = head_part_plain,
    .infer = head_part_infer,
};

const weft_op ops_head_place = {
    .name = "head_place",
    .summary = "elements of every head among zeros",
    .rule = "... h -> ... h",
    .linear = "0",
    .grad = (const char *const[]){"0: head_part dy", NULL},
    .attrs = ATTRS,
    .flags = WEFT_OP_HALF,
    .plain = head_place_plain,
    .infer = head_place_infer,
};

const weft_op ops_head_join = {
    .name = "head_join",
    .summary = "every head, and behind it what all share",
    .rule = "... h, ... [r] -> ... h",
    .linear = "0 1",
    .grad = (const char *const[]){"0: head_part dy", "1: head_sum dy like1", NULL},
    .attrs = ATTRS,
    .flags = WEFT_OP_HALF,
    .plain = head_join_plain,
    .infer = head_join_infer,
};

const weft_op ops_head_sum = {
    .name = "head_sum",
    .summary = "the sum over heads of what they share",
    .rule = "... h, ... [r] -> ... [r]",
    .linear = "0",
    .attrs = ATTRS,
    .flags = WEFT_OP_HALF,
    .plain = head_sum_plain,
};
