/* SPDX-License-Identifier: Apache-2.0 */
/* What passes take out: nodes, parameters, the training of parameters. */
#include "compile/graph/internal.h"

#include <string.h>

/* Who else needs v, in words; NULL: nobody. */
static const char *needed_by(const weft_graph *g, const weft_value *v)
{
    const weft_value *const roots[] = {g->loss, g->loss_report, g->loss_sum, g->tokens, g->logits};
    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++)
        if (roots[i] == v)
            return "the run";
    for (int i = 0; i < g->n_terms; i++)
        if (g->terms[i]->value == v)
            return "the run";
    for (int i = 0; i < g->n_reports; i++)
        if (g->reports[i].value == v)
            return "a report";
    for (int i = 0; i < g->n_parameters; i++)
        if (g->parameters[i]->gradient == v)
            return g->parameters[i]->name;
    for (const weft_node *n = g->first; n; n = n->next)
        if (n->like == v)
            return n->outs[0]->name;
    return v->n_uses       ? v->uses[0].node->outs[0]->name
           : v->update_of  ? v->update_of->name
           : v->updated_by ? v->updated_by
           : v->gradient   ? v->gradient->name
                           : NULL;
}

/* Neither its name nor a redistribute finds it again. */
static bool forget(weft_graph *g, weft_value *v)
{
    if (weft_map_set(&g->names, &g->pool, v->name, strlen(v->name), NULL) && weft_move_forget(g, v))
        return true;
    weft_fail_memory(&g->error);
    return false;
}

static void drop(weft_value **list, int *n, const weft_value *v)
{
    int to = 0;
    for (int i = 0; i < *n; i++)
        if (list[i] != v)
            list[to++] = list[i];
    *n = to;
}

/* Inputs stay: they are there for whoever asks for them next. */
static bool may_go(const weft_graph *g, const weft_node *n)
{
    if (weft_node_is(n, WEFT_OP_INPUT))
        return false;
    for (int i = 0; i < n->n_outs; i++)
        if (needed_by(g, n->outs[i]))
            return false;
    return true;
}

/* Takes n, which nobody reads, and then what nobody reads any more. */
static void take_out(weft_graph *g, weft_node *n)
{
    for (int i = 0; i < n->n_outs; i++)
        if (!forget(g, n->outs[i]))
            return;
    if (weft_node_is(n, WEFT_OP_PARAMETER))
        drop(g->parameters, &g->n_parameters, n->outs[0]);
    else if (weft_node_is(n, WEFT_OP_STATE))
        drop(g->states, &g->n_states, n->outs[0]);
    weft_node *next = n->next;
    if (g->spot.before == n)
        g->spot.before = next;
    weft_node_unlink(g, n);
    n->next = next; /* whoever walks the graph goes on from here */
    while (n->n_ins > 0) {
        weft_node *from = weft_node_drop_operand(n)->node;
        if (may_go(g, from))
            take_out(g, from);
    }
}

void weft_remove(weft_graph *g, weft_node *n)
{
    if (!n || weft_graph_status(g))
        return;
    for (int i = 0; i < n->n_outs; i++) {
        const char *by = needed_by(g, n->outs[i]);
        if (!by)
            continue;
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s cannot be removed: %s needs it; let that read something else first",
                        n->outs[i]->name, by);
        return;
    }
    take_out(g, n);
}

void weft_freeze(weft_graph *g, weft_value *parameter)
{
    if (!parameter)
        return;
    if (!weft_node_is(parameter->node, WEFT_OP_PARAMETER))
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s cannot be frozen: it is no parameter", parameter->name);
    else if (g->loss_report)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s cannot be frozen any more: its gradient is in the graph; freeze it in "
                        "a graph pass",
                        parameter->name);
    else
        parameter->frozen = true;
}
