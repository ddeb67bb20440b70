/* SPDX-License-Identifier: Apache-2.0 */
/* For ops that build their gradients with a function of their own. */
#include "compile/autodiff/autodiff.h"
#include "compile/graph/grad.h"

#include <string.h>

weft_graph *weft_backward_graph(weft_backward *b)
{
    return b->g;
}

weft_value *weft_backward_saved(weft_backward *b, weft_value *v)
{
    if (!v || weft_graph_status(b->g))
        return NULL;
    if (!weft_grad_declares(b->node, v))
        return weft_graph_fail(b->g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                               "it reads %s, which is not among the grad_reads of op %s", v->name,
                               b->node->op->name);
    weft_spot spot = b->g->spot;
    const char *by = b->g->by;
    b->g->spot.before = NULL; /* what is computed again stands in front of all that reads it */
    weft_value *kept = weft_backward_recall(b, v);
    b->g->spot = spot;
    b->g->by = by;
    return kept;
}

static weft_status check_operands(weft_backward *b, const char *op, int n, const int *operands)
{
    for (int i = 0; i < n; i++)
        if (operands[i] < 0 || operands[i] >= b->node->n_ins || n > WEFT_RULE_MAX_PARTS)
            weft_graph_fail(b->g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                            "it adds %s for operand %d, and there are %d, from 0", op, operands[i],
                            b->node->n_ins);
    return weft_graph_status(b->g);
}

void weft_backward_add_many(weft_backward *b, const char *op, int n, const int *operands, int n_ins,
                            weft_value *const *ins, weft_value *like, weft_value **dxs)
{
    weft_value *targets[WEFT_RULE_MAX_PARTS];
    if (weft_graph_status(b->g) || check_operands(b, op, n, operands))
        return;
    for (int i = 0; i < n; i++)
        targets[i] = b->node->ins[operands[i]];
    for (int i = 0; i < n_ins; i++)
        if (!ins[i]) {
            weft_graph_fail(b->g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                            "operand %d of the %s that it adds is NULL", i, op);
            return;
        }
    weft_node *made = weft_backward_make(b, op, strlen(op), targets, b->node,
                                         (weft_node_spec){.n_ins = n_ins,
                                                          .ins = ins,
                                                          .n_outs = n,
                                                          .like = like,
                                                          .attrs = b->node->attrs,
                                                          .n_attrs = b->node->n_attrs});
    for (int i = 0; made && i < n; i++)
        dxs[operands[i]] = made->outs[i];
}

weft_value *weft_backward_add(weft_backward *b, const char *op, int operand, int n_ins,
                              weft_value *const *ins, weft_value *like)
{
    weft_value **dxs = weft_pool_alloc(&b->g->pool, ((size_t)b->node->n_ins + 1) * sizeof *dxs);
    if (!dxs) {
        weft_fail_memory(&b->g->error);
        return NULL;
    }
    weft_backward_add_many(b, op, 1, &operand, n_ins, ins, like, dxs);
    return weft_graph_status(b->g) ? NULL : dxs[operand];
}
