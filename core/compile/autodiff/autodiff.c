/* SPDX-License-Identifier: Apache-2.0 */
/* Reverse mode over the placed graph. A redistribute does not change what a value is, so its
 * adjoint is nothing at all: the gradient passes on, and every gradient gets the cuts of the value
 * that it belongs to. */
#include "compile/autodiff/autodiff.h"
#include "compile/graph/grad.h"

#include <string.h>
#include <weft/marks.h>

/* The reported loss: summed over micro-batches and closed. */
static weft_status report_loss(weft_backward *b)
{
    weft_graph *g = b->g;
    weft_node *n = weft_backward_accumulate(b, g->loss, g->loss, g->loss->node);
    if (!n)
        return weft_graph_status(g);
    n->phase = WEFT_FORWARD;
    g->loss_report =
        weft_move_to(g, n->outs[0], (weft_layout){0}, NULL, WEFT_UPDATE, "reported", NULL);
    return weft_graph_status(g);
}

/* What is left open (a norm's weight over tp, everything over dp_replicate) is summed once a step,
 * on the shard: whoever asks for a parameter's gradient gets it whole. */
static weft_status close_gradients(weft_graph *g)
{
    g->spot.phase = WEFT_UPDATE;
    for (int i = 0; i < g->n_parameters; i++) {
        weft_value *p = g->parameters[i], *gradient = p->gradient;
        weft_layout to = gradient ? gradient->layout : (weft_layout){0};
        for (int a = 0; gradient && a < WEFT_MAX_AXES; a++)
            if (weft_layout_open(to, a))
                to = weft_layout_clear(to, a);
        if (gradient && !(p->gradient = weft_move_to(g, gradient, to, NULL, WEFT_UPDATE,
                                                     "the optimizer", NULL)))
            return weft_graph_status(g);
        if (p->gradient != gradient)
            weft_set_mark(g, p->gradient, WEFT_MARK_GROUP, WEFT_GROUP_BLOCK);
        p->summed = p->gradient;
    }
    return WEFT_OK;
}

/* Who counts operations asks for it. */
static void mark_trains(weft_graph *g, const bool *needs)
{
    for (weft_node *n = g->first; n && needs; n = n->next)
        for (int r = 0; r < n->n_outs; r++)
            n->outs[r]->trains = needs[n->outs[r]->id];
}

weft_status weft_graph_differentiate(weft_graph *g)
{
    if (!g->loss) {
        weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                        "no listed plugin builds a model with a loss; list one, as llama3");
        return WEFT_ERR_INPUT;
    }
    weft_node *last = g->last;
    size_t n = (size_t)g->n_values;
    weft_backward b = {.g = g, .n_values = g->n_values};
    b.needs = weft_alloc_zero(n, sizeof *b.needs);
    b.of = weft_alloc_zero(n, sizeof *b.of);
    b.copies = weft_alloc_zero(n, sizeof *b.copies);
    int block = g->spot.block, chunk = g->spot.chunk;
    const char *by = g->by;
    weft_status s = WEFT_OK;
    g->differentiating = true;
    if (!b.needs || !b.of || !b.copies)
        s = weft_fail_memory(&g->error);
    s = s ? s : weft_gradient_wanted(g, b.needs);
    mark_trains(g, b.needs);
    if (!s) {
        weft_attr one = {.key = "value", .kind = WEFT_ATTR_REAL, .r = 1};
        weft_node_spec spec = {.n_outs = 1, .attrs = &one, .n_attrs = 1, .scope = WEFT_MICRO_BATCH};
        weft_node *seed = weft_backward_make(&b, "constant", 8, &g->loss, g->loss->node, spec);
        if (seed)
            weft_backward_add_part(&b, g->loss, seed->outs[0]);
        s = weft_graph_status(g);
    }
    for (weft_node *node = last; node && !s; node = node->prev)
        s = weft_backward_visit(&b, node);
    if (!s)
        s = report_loss(&b);
    if (!s)
        s = weft_backward_check_used(g);
    if (!s)
        s = close_gradients(g);
    g->differentiating = false;
    g->spot.block = WEFT_BLOCK_HEAD;
    g->spot.chunk = -1;
    g->spot.phase = WEFT_FORWARD;
    if (!s)
        s = weft_loss_report(g);
    g->spot.phase = WEFT_UPDATE;
    g->spot.block = block;
    g->spot.chunk = chunk;
    g->by = by;
    weft_free(b.needs);
    weft_free(b.of);
    weft_free(b.copies);
    return s;
}
