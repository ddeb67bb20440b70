/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients replaced; the norm of all of them, and the factor that clips them. */
#include "kit/shapes.h"

#include <string.h>

enum { FAN_IN = 32 };

/* Are there gradients? If not, that is noted, and of what. */
static bool is_joint(weft_graph *g, const char *what)
{
    if (!g->loss_report)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s: there are no gradients yet; let a joint pass ask", what);
    return !weft_graph_status(g);
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
    if (!parameter || !v || weft_graph_status(g) || !is_joint(g, "weft_set_gradient") ||
        check_gradient(g, parameter, v))
        return;
    weft_value *moved = weft_move_to(g, v, parameter->gradient->layout, NULL, WEFT_UPDATE,
                                     "the gradient that it replaces", NULL);
    if (moved)
        parameter->gradient = moved;
}

/* ---- their norm ---- */

/* A tree, since nodes have a limited number of operands. Sums over mesh axes stay open in it, so
 * that one all-reduce at its root closes them all. */
static weft_value *sum_all(weft_graph *g, int n, weft_value **list)
{
    while (n > 1) {
        int n_sums = 0;
        for (int i = 0; i < n; i += FAN_IN, n_sums++)
            list[n_sums] =
                n - i == 1 ? list[i]
                           : weft_add(g, "add", NULL, n - i < FAN_IN ? n - i : FAN_IN, list + i);
        n = n_sums;
    }
    return list[0];
}

/* The sums of each stage of a pipeline, then that of all of them: so a stage has one share. */
static weft_value *sum_stages(weft_graph *g, int n, weft_value **list)
{
    int axis = weft_graph_stage_axis(g), n_sums = 0;
    weft_value *sums[WEFT_MAX_AT], **of = weft_pool_alloc(&g->pool, ((size_t)n + 1) * sizeof *of);
    if (!of) {
        weft_fail_memory(&g->error);
        return NULL;
    }
    for (int at = 0; at < g->config.mesh.axis[axis].size; at++) {
        int n_of = 0;
        for (int i = 0; i < n; i++)
            if (list[i] && weft_layout_at(list[i]->layout, axis) == at)
                of[n_of++] = list[i];
        if (n_of)
            sums[n_sums++] = sum_all(g, n_of, of);
    }
    int n_rest = 0;
    for (int i = 0; i < n; i++)
        if (list[i] && weft_layout_at(list[i]->layout, axis) < 0)
            of[n_rest++] = list[i];
    weft_value *total = n_sums ? sum_all(g, n_sums, sums) : NULL;
    if (n_rest == 0)
        return total;
    weft_value *both[] = {sum_all(g, n_rest, of), total};
    return total ? weft_add(g, "add", NULL, 2, both) : both[0];
}

static weft_value *add_norm(weft_graph *g)
{
    int n = 0;
    weft_value **squares =
        weft_pool_alloc(&g->pool, ((size_t)g->n_parameters + 1) * sizeof(weft_value *));
    if (!squares) {
        weft_fail_memory(&g->error);
        return NULL;
    }
    for (int i = 0; i < g->n_parameters; i++) {
        if (!g->parameters[i]->gradient)
            continue;
        weft_graph_set_block(g, g->parameters[i]->node->block);
        squares[n++] = weft_add1(g, "sumsq", NULL, g->parameters[i]->gradient);
    }
    weft_graph_set_block(g, WEFT_BLOCK_NONE);
    if (n == 0)
        return weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                               "no parameter has a gradient, so there is no norm of them");
    bool stages = weft_graph_stage_axis(g) >= 0;
    return weft_add1(g, "sqrt", "grad_norm",
                     stages ? sum_stages(g, n, squares) : sum_all(g, n, squares));
}

weft_value *weft_gradient_norm(weft_graph *g)
{
    if (weft_graph_status(g) || !is_joint(g, "weft_gradient_norm"))
        return NULL;
    if (g->grad_norm)
        return g->grad_norm;
    weft_spot spot = g->spot;
    weft_graph_at(g, NULL);
    g->grad_norm = add_norm(g);
    g->spot = spot;
    weft_add_report(g, "grad_norm", g->grad_norm);
    return g->grad_norm;
}

weft_value *weft_gradient_clip(weft_graph *g, double max_norm)
{
    weft_value *norm = weft_gradient_norm(g);
    for (int i = 0; norm && i < norm->n_uses; i++) {
        weft_node *n = norm->uses[i].node;
        if (strcmp(n->op->name, "clip") == 0 && weft_node_real(n, "max_norm") == max_norm)
            return n->outs[0];
    }
    weft_spot spot = g->spot;
    weft_graph_at(g, NULL);
    weft_graph_set_block(g, WEFT_BLOCK_NONE);
    weft_value *clip = weft_add1(g, "clip", "clip", norm);
    weft_set_real(g, clip, "max_norm", max_norm);
    g->spot = spot;
    return clip;
}
