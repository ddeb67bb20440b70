/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients that an op builds with a function of its own. */
#include "compile/autodiff/autodiff.h"
#include "compile/graph/grad.h"
#include "host/enter.h"

#include <string.h>

bool weft_backward_wants(const weft_backward *b, int operand)
{
    return operand >= 0 && operand < b->node->n_ins && b->needs[b->node->ins[operand]->id] &&
           weft_grad_covers(b->node, operand);
}

/* What it has built reads of the forward only what it said, and nothing that is to be computed
 * again. */
static weft_status check_reads(weft_backward *b, const weft_node *n, const weft_node *last)
{
    for (const weft_node *made = last->next; made; made = made->next)
        for (int i = 0; i < made->n_ins && made->phase != WEFT_RECOMPUTE; i++) {
            weft_value *v = made->ins[i];
            bool own = v->node == n;
            for (int k = 0; k < n->n_ins; k++)
                own = own || n->ins[k] == v;
            own = own && !weft_grad_declares(n, v);
            if (v->id < b->n_values && v->recompute)
                weft_graph_fail(b->g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                                "it reads %s, which is to be computed again: ask "
                                "weft_backward_saved for it",
                                v->name);
            else if (own)
                weft_graph_fail(b->g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                                "it reads %s, which is not among the grad_reads of op %s", v->name,
                                n->op->name);
        }
    return weft_graph_status(b->g);
}

static weft_status check_gradient(weft_backward *b, const weft_node *n, int i, const weft_value *dx)
{
    const weft_value *x = n->ins[i];
    weft_graph *g = b->g;
    bool same = dx->n_dims == x->n_dims;
    for (int d = 0; same && d < x->n_dims; d++)
        same =
            strcmp(dx->dims[d].name, x->dims[d].name) == 0 && dx->dims[d].size == x->dims[d].size;
    weft_text has = {0}, wants = {0};
    weft_value_print_shape(dx, &has);
    weft_value_print_shape(x, &wants);
    if (!weft_grad_covers(n, i))
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "it gives a gradient for operand %d, which grad_of does not name", i);
    else if (!same)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "its gradient for operand %d is %s, and the operand %s", i,
                        weft_text_get(&has), weft_text_get(&wants));
    else if (dx->dtype != weft_backward_dtype(b, x))
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "its gradient for operand %d, %s, is %s and should be %s: make it with "
                        "weft_backward_add, or cast it",
                        i, dx->name, weft_dtype_name(dx->dtype),
                        weft_dtype_name(weft_backward_dtype(b, x)));
    else if (x->node->scope == WEFT_MICRO_BATCH && weft_value_available(dx) > WEFT_MICRO_BATCH)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "its gradient for operand %d, %s, is known only after the last micro-batch",
                        i, dx->name);
    weft_text_release(&has);
    weft_text_release(&wants);
    return weft_graph_status(g);
}

/* With the gradients of some results alone an operand may have none: it need not be in these. */
static weft_status check_missing(weft_backward *b, const weft_node *n, int i,
                                 weft_value *const *dys)
{
    bool all = true;
    for (int r = 0; r < n->n_outs; r++)
        all = all && dys[r];
    if (all && weft_backward_wants(b, i))
        weft_graph_fail(b->g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "it leaves dxs[%d] NULL, and the gradient of operand %d, %s, is wanted: "
                        "give one, or leave %d out of grad_of",
                        i, i, n->ins[i]->name, i);
    return weft_graph_status(b->g);
}

static weft_status take_gradients(weft_backward *b, const weft_node *n, weft_value *const *dys,
                                  weft_value *const *dxs)
{
    for (int i = 0; i < n->n_ins; i++) {
        weft_status s = dxs[i] ? check_gradient(b, n, i, dxs[i]) : check_missing(b, n, i, dys);
        if (!dxs[i] && !s)
            continue;
        if (!s && b->needs[n->ins[i]->id] && !weft_backward_add_part(b, n->ins[i], dxs[i]))
            s = WEFT_ERR_MEMORY;
        if (s)
            return s;
    }
    return WEFT_OK;
}

/* Says of what was noted from item `from` on whose function it is about. */
static weft_status name_function(weft_graph *g, int from, const weft_node *n, const char *owner)
{
    for (int i = from; i < g->error.n_items; i++) {
        char *text = weft_format("%s%s%s, op %s, in the gradient (differentiate) of %s: %s",
                                 owner ? "plugin '" : "weft", owner ? owner : "", owner ? "'" : "",
                                 n->op->name, n->outs[0]->name, g->error.items[i].text);
        if (!text)
            return weft_fail_memory(&g->error);
        weft_free(g->error.items[i].text);
        g->error.items[i].text = text;
    }
    return weft_graph_status(g);
}

weft_status weft_backward_call(weft_backward *b, weft_node *n, weft_value *const *dys)
{
    weft_graph *g = b->g;
    bool wanted = false;
    b->node = n;
    for (int i = 0; i < n->n_ins; i++)
        wanted = wanted || weft_backward_wants(b, i);
    if (!wanted)
        return WEFT_OK;
    weft_value **dxs = weft_pool_alloc(&g->pool, ((size_t)n->n_ins + 1) * sizeof *dxs);
    if (!dxs)
        return weft_fail_memory(&g->error);
    const weft_node *last = g->last;
    weft_spot spot = g->spot;
    const char *owner = weft_ops_owner(g->config.ops, n->op);
    weft_backward_stand_at(g, n, WEFT_BACKWARD);
    const weft_entry entry = weft_enter_op(owner, "differentiate", n->op->name, &g->error);
    weft_status s = n->op->differentiate(b, n, dys, dxs, &g->error);
    s = weft_leave(&entry, s ? s : weft_graph_status(g));
    g->spot = spot;
    s = s ? s : check_reads(b, n, last);
    s = s ? s : take_gradients(b, n, dys, dxs);
    return s ? name_function(g, 0, n, owner) : WEFT_OK;
}
