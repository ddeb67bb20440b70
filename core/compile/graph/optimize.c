/* SPDX-License-Identifier: Apache-2.0 */
/* What optimizers and transforms of gradients share: which parameters are left, gradients replaced.
 */
#include "compile/graph/internal.h"

#include <string.h>

bool weft_graph_is_joint(weft_graph *g, const char *what)
{
    if (!g->loss_report)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s: there are no gradients yet; let a joint pass ask", what);
    return !weft_graph_status(g);
}

/* ---- who updates what ---- */

int weft_graph_unclaimed(const weft_graph *g, bool (*pick)(const weft_value *p, void *ctx),
                         void *ctx, weft_value **list)
{
    int n = 0;
    for (int i = 0; i < g->n_parameters; i++) {
        weft_value *p = g->parameters[i];
        if (!p->gradient || p->updated_by || (pick && !pick(p, ctx)))
            continue;
        if (list)
            list[n] = p;
        n++;
    }
    return n;
}

static bool anything_updated(const weft_graph *g)
{
    for (int i = 0; i < g->n_parameters; i++)
        if (g->parameters[i]->updated_by)
            return true;
    for (int i = 0; i < g->n_states; i++)
        if (g->states[i]->updated_by)
            return true;
    return false;
}

weft_status weft_graph_check_claims(weft_graph *g)
{
    int n = weft_graph_unclaimed(g, NULL, NULL, NULL), first = 0;
    if (n == 0 || !anything_updated(g)) /* a plan of the model alone */
        return weft_graph_status(g);
    while (!g->parameters[first]->gradient || g->parameters[first]->updated_by)
        first++;
    weft_text more = {0};
    if (n > 1)
        weft_text_print(&more, " and %d more parameter%s", n - 1, n > 2 ? "s" : "");
    weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                    "no optimizer updates %s%s, though %s; list one that takes what others leave, "
                    "as adamw, behind them in [weft] plugins",
                    g->parameters[first]->name, weft_text_get(&more),
                    n > 1 ? "they have gradients" : "it has a gradient");
    weft_text_release(&more);
    return weft_graph_status(g);
}

/* ---- gradients replaced ---- */

static weft_status check_gradient(weft_graph *g, const weft_value *p, const weft_value *v)
{
    const weft_value *was = p->gradient;
    if (!weft_node_is(p->node, WEFT_OP_PARAMETER))
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s is not a parameter: it has no gradient to be replaced", p->name);
    else if (!was)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s has no gradient to be replaced; look at its field `gradient` first",
                        p->name);
    else if (g->grad_norm)
        weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                        "%s cannot replace the gradient of %s any more: %s has read the norm of "
                        "all gradients; list %s before %s in [weft] plugins",
                        g->by, p->name, g->grad_norm->node->by, g->by, g->grad_norm->node->by);
    else if (p->updated_by)
        weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                        "%s cannot replace the gradient of %s any more: %s has updated it; list "
                        "%s before %s in [weft] plugins",
                        g->by, p->name, p->updated_by, g->by, p->updated_by);
    else if (weft_value_available(v) == WEFT_MICRO_BATCH)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s cannot be the gradient of %s: it differs between micro-batches, so "
                        "that only the last would count; weft_accumulate combines them",
                        v->name, p->name);
    else if (!weft_same_shape(v, was))
        weft_fail_shapes(g, v, "cannot be a gradient in the place of", was);
    return weft_graph_status(g);
}

void weft_set_gradient(weft_graph *g, weft_value *parameter, weft_value *v)
{
    if (!parameter || !v || weft_graph_status(g) || !weft_graph_is_joint(g, "weft_set_gradient") ||
        check_gradient(g, parameter, v))
        return;
    weft_value *moved = weft_move_to(g, v, parameter->gradient->layout, NULL, WEFT_UPDATE,
                                     "the gradient that it replaces", NULL);
    if (moved)
        parameter->gradient = moved;
}
