/* SPDX-License-Identifier: Apache-2.0 */
/* What a backward is made of: nodes that make gradients, forward values as it reads them, and the
 * sums of contributions, in the cuts of what they belong to. */
#include "compile/autodiff/autodiff.h"

#include <stdio.h>
#include <string.h>
#include <weft/marks.h>

bool weft_backward_add_part(weft_backward *b, weft_value *x, weft_value *part)
{
    weft_parts *p = &b->of[x->id];
    return weft_graph_push(b->g, (void ***)&p->list, &p->n, &p->capacity, part);
}

weft_dtype weft_backward_dtype(const weft_backward *b, const weft_value *x)
{
    /* nothing is summed in 8 bits: as wide as what was narrowed to them */
    while (weft_dtype_is_f8(x->dtype) && x->node->n_ins)
        x = x->node->ins[0];
    const weft_value *of = x; /* before it was moved */
    while (of->node->steps)
        of = of->node->ins[0];
    if (weft_get_mark(of->node, WEFT_MARK_WIDE_GRADIENT) && of->result == 0 &&
        weft_dtype_is_float(x->dtype) && weft_dtype_size(x->dtype) < weft_dtype_size(WEFT_F32))
        return WEFT_F32;
    return x->weight || weft_dtype_is_f8(x->dtype) ? b->g->config.dtype : x->dtype;
}

void weft_backward_stand_at(weft_graph *g, const weft_node *source, weft_phase phase)
{
    g->spot.block = source->block;
    g->spot.chunk = source->chunk;
    g->by = source->by;
    g->spot.phase = phase;
}

weft_node *weft_backward_make(weft_backward *b, const char *op, size_t op_size,
                              weft_value *const *targets, const weft_node *source,
                              weft_node_spec spec)
{
    weft_graph *g = b->g;
    char *name = weft_pool_format(&g->pool, "%.*s", (int)op_size, op);
    weft_dtype dtypes[WEFT_RULE_MAX_PARTS];
    if (!name)
        return NULL;
    if (!(spec.op = weft_ops_find(g->config.ops, name))) {
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "the gradient of %s needs op '%s', which does not exist", source->op->name,
                        name);
        return NULL;
    }
    for (int i = 0; i < spec.n_outs; i++)
        dtypes[i] = weft_backward_dtype(b, targets[i]);
    spec.gradient_of = targets;
    spec.dtypes = dtypes;
    weft_backward_stand_at(g, source, WEFT_BACKWARD);
    return weft_graph_add_node(g, &spec);
}

/* Does a gather that weight x goes through ask for collectives that run as one? Then the gradient's
 * do, too. */
static bool is_grouped(const weft_value *x)
{
    for (int i = 0; i < x->n_uses; i++)
        if (weft_get_mark(x->uses[i].node, WEFT_MARK_GROUP))
            return true;
    return false;
}

static bool same_stage(const weft_graph *g, const weft_value *a, const weft_value *b)
{
    int axis = weft_graph_stage_axis(g);
    return axis < 0 || weft_layout_byte(a->layout, axis) == weft_layout_byte(b->layout, axis);
}

/* Every axis that cuts x cuts its gradient in the same place, and it is where x is; on all other
 * axes the gradient stays as it is, open sums included. */
static weft_value *settle(weft_backward *b, weft_value *dx, const weft_value *x)
{
    weft_layout to = x->layout, have = dx->layout;
    for (int a = 0; a < WEFT_MAX_AXES; a++)
        if (weft_layout_open(to, a))
            to = weft_layout_clear(to, a);
    for (int d = 0; d < dx->n_dims; d++) {
        int list[WEFT_MAX_AXES], n = weft_layout_list(have, d, list);
        for (int i = 0; i < n; i++)
            if (weft_layout_byte(to, list[i]) == 0)
                to = weft_layout_cut(to, d, list[i], weft_layout_fine(have, list[i]));
    }
    for (int a = 0; a < WEFT_MAX_AXES; a++)
        if (weft_layout_open(have, a) && weft_layout_byte(to, a) == 0)
            to = weft_layout_set_open(to, a, weft_layout_open(have, a));
    for (int a = 0; a < WEFT_MAX_AXES; a++)
        if (weft_layout_at(have, a) >= 0 && weft_layout_byte(to, a) == 0)
            to = weft_layout_set_at(to, a, weft_layout_at(have, a));
    if (to.bits == have.bits)
        return dx;
    char why[256];
    snprintf(why, sizeof why, "cuts of %s", x->name);
    weft_backward_stand_at(b->g, dx->node, WEFT_BACKWARD);
    weft_value *moved =
        weft_move_to(b->g, dx, to, NULL, WEFT_BACKWARD, why, x->weight ? b->g->gathered_by : NULL);
    if (moved && same_stage(b->g, moved, dx))
        moved->node->block = dx->node->block;
    if (moved && x->weight && is_grouped(x))
        weft_set_mark(b->g, moved, WEFT_MARK_GROUP, WEFT_GROUP_BLOCK);
    return moved;
}

weft_value *weft_backward_recall(weft_backward *b, weft_value *v)
{
    if (!v->recompute || v->id >= b->n_values)
        return v;
    if (b->copies[v->id])
        return b->copies[v->id];
    weft_graph *g = b->g;
    weft_node *n = v->node;
    weft_value **ins = weft_pool_alloc(&g->pool, ((size_t)n->n_ins + 1) * sizeof *ins);
    char *name = weft_pool_format(&g->pool, "%s*", n->outs[0]->name);
    if (!ins || !name)
        return NULL;
    for (int i = 0; i < n->n_ins; i++)
        if (!(ins[i] = weft_backward_recall(b, n->ins[i])))
            return NULL;
    weft_backward_stand_at(g, n, WEFT_RECOMPUTE);
    weft_node *copy = weft_node_copy(g, n, name, ins);
    if (!copy)
        return NULL;
    copy->stage = n->stage;
    copy->steps = n->steps;
    copy->n_steps = n->n_steps;
    copy->why = n->why;
    for (int r = 0; r < n->n_outs; r++) {
        weft_value *from = n->outs[r], *to = copy->outs[r];
        to->layout = from->layout;
        to->placed = true;
        b->copies[from->id] = to;
    }
    return b->copies[v->id];
}

/* Beside the last contribution; where they are in different stages, beside x, so that what comes
 * from elsewhere is sent once. */
static const weft_node *place_of_sum(const weft_graph *g, const weft_value *total,
                                     const weft_value *part, const weft_value *x)
{
    return same_stage(g, total, part) ? part->node : x->node;
}

/* Contributions are summed two at a time, each sum beside its last contribution, so that a sum may
 * grow in place. */
static weft_value *sum(weft_backward *b, weft_value **list, int n, weft_value *x)
{
    weft_value *total = list[0];
    for (int i = 1; total && i < n; i++) {
        weft_value *ins[] = {total, list[i]};
        weft_node *node = weft_backward_make(b, "add", 3, &x, place_of_sum(b->g, total, list[i], x),
                                             (weft_node_spec){.n_ins = 2, .ins = ins, .n_outs = 1});
        total = node ? node->outs[0] : NULL;
    }
    return total;
}

weft_node *weft_backward_accumulate(weft_backward *b, weft_value *v, weft_value *x,
                                    const weft_node *source)
{
    return weft_backward_make(
        b, "accumulate", 10, &x, source,
        (weft_node_spec){.n_ins = 1, .ins = &v, .n_outs = 1, .scope = WEFT_MICRO_BATCH});
}

/* In whose cuts the sum over micro-batches is kept: those of x itself, or, if the gather that x is
 * made through says so, those of what that gathers.
 */
static const weft_value *kept_like(const weft_value *x)
{
    for (const weft_node *n = x->node; n->n_ins; n = n->ins[0]->node)
        if (weft_get_mark(n, WEFT_MARK_REDUCE_EACH))
            return n->ins[0];
    return x;
}

/* A step_begin value that micro-batches use: sum its contributions over them, and go on after the
 * last. */
static weft_value *over_micro_batches(weft_backward *b, weft_value *x, weft_parts *p)
{
    weft_value **inner = weft_pool_alloc(&b->g->pool, ((size_t)p->n + 1) * sizeof *inner);
    int n_inner = 0, n_outer = 0;
    if (!inner)
        return NULL;
    for (int i = 0; i < p->n; i++) {
        if (weft_value_available(p->list[i]) == WEFT_MICRO_BATCH)
            inner[n_inner++] = p->list[i];
        else
            p->list[n_outer++] = p->list[i];
    }
    p->n = n_outer;
    if (n_inner) {
        weft_value *last = inner[n_inner - 1], *total = sum(b, inner, n_inner, x);
        if (total)
            total = settle(b, total, x->weight ? kept_like(x) : x);
        weft_node *node =
            total ? weft_backward_accumulate(b, total, x, place_of_sum(b->g, total, last, x))
                  : NULL;
        if (!node || !weft_backward_add_part(b, x, node->outs[0]))
            return NULL;
    }
    weft_value *total = sum(b, p->list, p->n, x);
    return total ? settle(b, total, x) : NULL;
}

weft_value *weft_backward_total(weft_backward *b, weft_value *x)
{
    weft_parts *p = &b->of[x->id];
    if (x->node->scope == WEFT_STEP_BEGIN)
        return over_micro_batches(b, x, p);
    weft_value *total = sum(b, p->list, p->n, x);
    return total ? settle(b, total, x) : NULL;
}
