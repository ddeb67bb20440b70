/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters that the gradient does not reach, and why. */
#include "graph/autodiff.h"
#include "graph/grad.h"

#include <string.h>

enum { REACHED = 1, OF_LOSS = 2 };

/* Marks what the loss is made from. */
static void mark_makers(weft_graph *g)
{
    for (weft_node *n = g->first; n; n = n->next)
        n->mark = 0;
    g->loss->node->mark = OF_LOSS;
    for (weft_node *n = g->loss->node; n; n = n->prev)
        for (int i = 0; n->mark && i < n->n_ins; i++)
            n->ins[i]->node->mark = OF_LOSS;
}

/* The first node on the way from p to the loss that has no gradient for what it reads of it. */
static weft_node *cut_at(weft_graph *g, const weft_value *p, int *operand)
{
    mark_makers(g);
    p->node->mark |= REACHED;
    for (weft_node *n = p->node->next; n; n = n->next)
        for (int i = 0; i < n->n_ins; i++) {
            if (!(n->ins[i]->node->mark & REACHED) || (n->mark & REACHED))
                continue;
            *operand = i;
            if (weft_grad_covers(n, i))
                n->mark |= REACHED;
            else if (n->mark & OF_LOSS)
                return n;
        }
    return NULL;
}

static weft_status check_used(weft_graph *g, const weft_value *p, const weft_node **said)
{
    int i;
    const weft_node *n = cut_at(g, p, &i);
    if (n && n == *said)
        return WEFT_ERR_INTERNAL;
    if (n)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "op %s has no gradient for operand %d of %s (%s), which parameter %s needs",
                        n->op->name, i, n->outs[0]->name, n->by, p->name);
    else
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "parameter %s (%s) does not reach the loss; remove it or use it", p->name,
                        p->node->by);
    *said = n ? n : *said;
    return WEFT_ERR_INTERNAL;
}

weft_status weft_backward_check_used(weft_graph *g)
{
    weft_status s = WEFT_OK;
    const weft_node *said = NULL;
    int n_frozen = 0;
    for (int i = 0; i < g->n_parameters; i++) {
        n_frozen += g->parameters[i]->frozen;
        if (!g->parameters[i]->gradient && !g->parameters[i]->frozen)
            s = check_used(g, g->parameters[i], &said);
    }
    if (n_frozen == 0 || n_frozen < g->n_parameters)
        return s;
    return weft_fail(&g->error, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "every parameter is frozen; nothing is left to train");
}
