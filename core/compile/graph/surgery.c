/* SPDX-License-Identifier: Apache-2.0 */
/* What passes change of a graph that is there: who reads what, and where nodes stand. */
#include "compile/graph/internal.h"

#include <string.h>

void weft_node_set_operand(weft_graph *g, weft_node *n, int i, weft_value *v)
{
    if (!v || n->ins[i] == v || weft_graph_status(g))
        return;
    const weft_value *old = n->ins[i];
    if (n->steps && !weft_move_forget(g, n->outs[0])) {
        weft_fail_memory(&g->error);
        return;
    }
    if (g->placed && v->placed && old->placed && v->layout.bits != old->layout.bits) {
        weft_value *moved = weft_move_to(g, v, old->layout, n, n->phase, "what it replaces", NULL);
        if (!moved)
            return;
        weft_node_come_before(g, moved->node, n); /* it may be there already, further behind */
        v = moved;
    }
    weft_node_relink(g, n, i, v);
}

/* ---- replace ---- */

void weft_graph_replace_root(weft_graph *g, const weft_value *v, weft_value *by)
{
    weft_value **const roots[] = {&g->loss, &g->loss_sum, &g->tokens, &g->logits};
    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++)
        if (*roots[i] == v)
            *roots[i] = by;
    for (int i = 0; i < g->n_terms; i++)
        if (g->terms[i]->value == v)
            g->terms[i]->value = by;
    for (int i = 0; i < g->n_reports; i++)
        if (g->reports[i].value == v)
            g->reports[i].value = by;
}

enum { MAKES = 1, BEHIND = 2 };

/* Marks what makes `value`, and all nodes behind it. */
static void mark_around(weft_graph *g, const weft_value *value)
{
    int behind = 0;
    for (weft_node *n = g->first; n; n = n->next) {
        n->mark = n == value->node ? MAKES : behind;
        behind = n == value->node ? BEHIND : behind;
    }
    for (weft_node *n = value->node; n; n = n->prev)
        for (int i = 0; n->mark == MAKES && i < n->n_ins; i++)
            n->ins[i]->node->mark = MAKES;
}

static bool same_dims(const weft_value *a, const weft_value *b)
{
    bool same = a->n_dims == b->n_dims;
    for (int d = 0; same && d < a->n_dims; d++)
        same = strcmp(a->dims[d].name, b->dims[d].name) == 0 && a->dims[d].size == b->dims[d].size;
    return same;
}

/* A redistribute that makes `value` from `old` is `old` still, in another layout. */
static bool is_old(const weft_node *reader)
{
    return reader->mark == MAKES && reader->steps;
}

static weft_status check_readers(weft_graph *g, const weft_value *old, const weft_value *value)
{
    for (int i = 0; i < old->n_uses && !weft_graph_status(g); i++) {
        const weft_node *reader = old->uses[i].node;
        if (is_old(reader))
            check_readers(g, reader->outs[0], value);
        else if (!reader->mark)
            weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                            "%s cannot be replaced by %s: %s reads it before that is there; "
                            "weft_graph_at puts nodes further to the front",
                            old->name, value->name, reader->outs[0]->name);
    }
    return weft_graph_status(g);
}

static weft_status check_replace(weft_graph *g, const weft_value *old, const weft_value *value)
{
    if (same_dims(old, value))
        return check_readers(g, old, value);
    weft_text a = {0}, b = {0};
    weft_value_print_shape(old, &a);
    weft_value_print_shape(value, &b);
    weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "%s cannot be replaced by %s",
                    weft_text_get(&a), weft_text_get(&b));
    weft_text_release(&a);
    weft_text_release(&b);
    return weft_graph_status(g);
}

/* What the node that made `old` was told counts for the one that makes `value`. */
static void take_attributes(weft_graph *g, const weft_value *old, weft_value *value)
{
    for (int i = 0; i < old->node->n_attrs; i++)
        if (!weft_node_has(value->node, old->node->attrs[i].key))
            weft_node_set_attr(g, value, old->node->attrs[i]);
}

static void take_marks(weft_value *old, weft_value *value)
{
    value->role = value->role ? value->role : old->role;
    value->fetch = value->fetch || old->fetch;
    value->recompute = value->recompute || old->recompute;
    old->role = NULL;
    old->fetch = false;
}

/* What the run and state read of `old`, in its layout where there is one. */
static void take_roots(weft_graph *g, weft_value *old, weft_value *value)
{
    weft_value *root = value;
    if (g->placed && value->layout.bits != old->layout.bits) {
        weft_spot spot = g->spot;
        root = weft_move_to(g, value, old->layout, value->node->next, value->node->phase,
                            "what it replaces", NULL);
        g->spot = spot;
        if (!root)
            return;
    }
    weft_graph_replace_root(g, old, root);
    g->inverse = g->inverse == old ? root : g->inverse;
    for (int i = 0; i < g->n_parameters; i++)
        if (g->parameters[i]->gradient == old)
            g->parameters[i]->gradient = root;
    if (old->update_of)
        root->update_of = old->update_of;
    old->update_of = NULL;
}

static bool is_root(const weft_graph *g, const weft_value *v)
{
    bool root = v == g->loss || v == g->loss_sum || v == g->tokens || v == g->logits ||
                v == g->inverse || v->update_of;
    for (int i = 0; !root && i < g->n_terms; i++)
        root = g->terms[i]->value == v;
    for (int i = 0; !root && i < g->n_reports; i++)
        root = g->reports[i].value == v;
    for (int i = 0; !root && i < g->n_parameters; i++)
        root = g->parameters[i]->gradient == v;
    return root;
}

static void replace_uses(weft_graph *g, weft_value *old, weft_value *value)
{
    int n = old->n_uses;
    weft_use *uses = weft_pool_alloc(&g->pool, ((size_t)n + 1) * sizeof *uses);
    if (!uses) {
        weft_fail_memory(&g->error);
        return;
    }
    if (n)
        memcpy(uses, old->uses, (size_t)n * sizeof *uses);
    for (int i = 0; i < n; i++) {
        if (is_old(uses[i].node))
            replace_uses(g, uses[i].node->outs[0], value);
        else if (uses[i].node->mark != MAKES)
            weft_node_set_operand(g, uses[i].node, uses[i].operand, value);
    }
    if (is_root(g, old))
        take_roots(g, old, value);
}

void weft_replace(weft_graph *g, weft_value *old, weft_value *value)
{
    if (!old || !value || old == value || weft_graph_status(g))
        return;
    mark_around(g, value);
    if (check_replace(g, old, value))
        return;
    if (old->node->mark != MAKES)
        take_attributes(g, old, value);
    take_marks(old, value);
    replace_uses(g, old, value);
}

/* ---- move ---- */

/* What keeps n from standing before `at`, in words; NULL: nothing. All nodes from `at` on have mark
 * 1, so that what stands there is known. */
static const char *held_by(const weft_node *n)
{
    for (int i = 0; i < n->n_ins; i++)
        if (n->ins[i]->node->mark)
            return n->ins[i]->name;
    if (n->like && n->like->node->mark)
        return n->like->name;
    for (int r = 0; r < n->n_outs; r++)
        for (int k = 0; k < n->outs[r]->n_uses; k++)
            if (!n->outs[r]->uses[k].node->mark)
                return n->outs[r]->uses[k].node->outs[0]->name;
    return NULL;
}

void weft_move_before(weft_graph *g, weft_node *n, weft_node *before)
{
    if (!n || n == before || weft_graph_status(g))
        return;
    bool behind = false;
    for (weft_node *at = g->first; at; at = at->next) {
        behind = behind || at == before;
        at->mark = behind;
    }
    const char *holds = held_by(n);
    if (holds) {
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s cannot stand before %s: %s, which it reads or which reads it, would be "
                        "on the wrong side",
                        n->outs[0]->name, before ? before->outs[0]->name : "the end", holds);
        return;
    }
    if (g->spot.before == n)
        g->spot.before = n->next;
    weft_node_unlink(g, n);
    weft_node_link(g, n, before);
}
