/* SPDX-License-Identifier: Apache-2.0 */
/* Whether every trained parameter has a gradient: a way to the loss, through operands that ops have
 * gradients for. */
#include "compile/autodiff/autodiff.h"
#include "compile/graph/grad.h"

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

/* *said: the node that was named last; it is named once, whatever needs it. */
static weft_status explain(weft_graph *g, const weft_value *p, const weft_node **said,
                           weft_error *err)
{
    int i;
    const weft_node *n = cut_at(g, p, &i);
    if (!n)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "parameter %s (%s) does not reach the loss; remove it or use it", p->name,
                         p->node->by);
    const char *owner = weft_ops_owner(g->config.ops, n->op);
    if (n != *said)
        weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                  "op %s%s%s has no gradient for operand %d of %s (%s), which parameter %s needs",
                  n->op->name, owner ? " of plugin " : "", owner ? owner : "", i, n->outs[0]->name,
                  n->by, p->name);
    *said = n;
    return WEFT_ERR_INTERNAL;
}

/* Marks what a gradient comes to, from the loss on. */
static void mark_reached(weft_graph *g)
{
    for (weft_node *n = g->first; n; n = n->next)
        n->mark = 0;
    g->loss->node->mark = REACHED;
    for (weft_node *n = g->loss->node; n; n = n->prev)
        for (int i = 0; n->mark && i < n->n_ins; i++)
            if (!n->ins[i]->node->mark && weft_grad_covers(n, i))
                n->ins[i]->node->mark = REACHED;
}

weft_status weft_graph_check_reach(weft_graph *g, weft_error *err)
{
    if (!g->loss || weft_graph_status(g))
        return weft_graph_status(g);
    mark_reached(g);
    const weft_value **missed = weft_alloc(((size_t)g->n_parameters + 1) * sizeof *missed);
    if (!missed)
        return weft_fail_memory(err);
    int n = 0;
    for (int i = 0; i < g->n_parameters; i++)
        if (!g->parameters[i]->frozen && !g->parameters[i]->node->mark)
            missed[n++] = g->parameters[i];
    const weft_node *said = NULL;
    weft_status s = WEFT_OK;
    for (int i = 0; i < n && i < 20; i++)
        s = explain(g, missed[i], &said, err);
    weft_free(missed);
    return s;
}

weft_status weft_backward_check_used(weft_graph *g)
{
    weft_status s = WEFT_OK;
    const weft_node *said = NULL;
    int n_frozen = 0;
    for (int i = 0; i < g->n_parameters; i++) {
        n_frozen += g->parameters[i]->frozen;
        if (!g->parameters[i]->gradient && !g->parameters[i]->frozen)
            s = explain(g, g->parameters[i], &said, &g->error);
    }
    if (n_frozen == 0 || n_frozen < g->n_parameters)
        return s;
    return weft_fail(&g->error, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "every parameter is frozen; nothing is left to train");
}
