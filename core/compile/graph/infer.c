/* SPDX-License-Identifier: Apache-2.0 */
/* Dims and dtypes of a node's results from its op's rule. */
#include "compile/graph/graph.h"
#include "host/enter.h"

#include <string.h>

/* Into the op of a node; an op of the core's is what the pass that made the node is in. */
static weft_entry enter(const weft_graph *g, const weft_node *n, const char *function,
                        weft_error *err)
{
    const char *owner = weft_ops_owner(g->config.ops, n->op);
    const weft_blame now = weft_blame_get();
    return owner || !now.hook ? weft_enter_op(owner, function, n->op->name, err)
                              : weft_enter_op(now.plugin, now.hook, now.op, err);
}

weft_status weft_node_find_rule(const weft_graph *g, const weft_node *n, bool results,
                                weft_rule *rule, weft_error *err)
{
    const weft_entry entry = enter(g, n, "make_rule", err);
    weft_status s = weft_rule_of_node(n, results, rule, err);
    for (int i = entry.n_items; s == WEFT_ERR_INPUT && err && i < err->n_items; i++)
        err->items[i].status = WEFT_ERR_INTERNAL; /* operands that do not fit: whose pass it is */
    return weft_leave(&entry, s == WEFT_ERR_INPUT ? WEFT_ERR_INTERNAL : s);
}

static const weft_dim *letter_dim(const weft_node *n, const weft_rule *rule, int letter)
{
    for (int i = 0; i < rule->n_ins; i++) {
        int d = weft_rule_dim(&rule->in[i], letter);
        if (d >= 0)
            return &(i < n->n_ins ? n->ins[i] : n->like)->dims[d];
    }
    return NULL;
}

static weft_dtype result_dtype(const weft_graph *g, const weft_node *n)
{
    if (n->n_ins == 0)
        return g->config.dtype;
    weft_dtype from = n->ins[n->op->dtype_from < n->n_ins ? n->op->dtype_from : 0]->dtype;
    if (!(n->op->flags & WEFT_OP_STAT))
        return from;
    return from == WEFT_F64 || g->config.dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;
}

weft_status weft_infer(weft_graph *g, weft_node *n)
{
    for (int i = 0; i < n->n_outs; i++)
        n->outs[i]->dtype = result_dtype(g, n);
    if (n->op->infer) {
        const weft_entry entry = enter(g, n, "infer", &g->error);
        return weft_leave(&entry, n->op->infer(g, n, &g->error)) ? weft_graph_status(g) : WEFT_OK;
    }
    weft_rule rule;
    weft_status s = weft_node_find_rule(g, n, false, &rule, &g->error);
    for (int i = 0; !s && i < n->n_outs; i++) {
        weft_value *v = n->outs[i];
        v->n_dims = rule.out[i].n_dims;
        for (int d = 0; d < v->n_dims; d++) {
            const weft_dim *dim = letter_dim(n, &rule, rule.out[i].letter[d]);
            if (!dim) {
                weft_graph_fail(
                    g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                    "%s = %s: result index '%s' is in no operand, and the op infers nothing itself",
                    v->name, n->op->name, rule.name[rule.out[i].letter[d]]);
                return WEFT_ERR_INTERNAL;
            }
            v->dims[d] = *dim;
        }
    }
    return s;
}
