/* SPDX-License-Identifier: Apache-2.0 */
/* Dims and dtypes of a node's results from its op's rule. */
#include "graph/internal.h"

#include <string.h>

weft_status weft_node_rule(weft_graph *g, const weft_node *n, weft_rule *rule)
{
    return weft_rule_of_node(n, true, rule, &g->error);
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
    if (n->op->infer)
        return n->op->infer(g, n, &g->error) ? weft_graph_status(g) : WEFT_OK;
    weft_rule rule;
    weft_status s = weft_rule_of_node(n, false, &rule, &g->error);
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
