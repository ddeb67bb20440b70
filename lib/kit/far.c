/* SPDX-License-Identifier: Apache-2.0 */
/* For passes: parameters, state and what a step makes that lie in far memory. */
#include "compile/graph/graph.h"

#include <string.h>
#include <weft/marks.h>

/* Where a block begins in the program of a part and stage. */
typedef struct beginning {
    weft_node *first;
    weft_part part;
    int stage, block;
} beginning;

typedef struct work {
    weft_graph *g;
    beginning *list; /* in the order of the graph */
    int n;
    int *position; /* by node id, of those that were there before; -1: taken out of the graph */
    int n_positions;
} work;

static bool is_of(const beginning *b, const weft_node *n)
{
    return b->part == n->part && b->stage == n->stage;
}

static bool find_beginnings(work *w)
{
    weft_graph *g = w->g;
    w->n_positions = g->n_nodes;
    w->list = weft_pool_alloc(&g->pool, ((size_t)g->n_nodes + 1) * sizeof *w->list);
    w->position = weft_pool_alloc(&g->pool, ((size_t)g->n_nodes + 1) * sizeof *w->position);
    if (!w->list || !w->position)
        return false;
    int at = 0;
    memset(w->position, -1, (size_t)g->n_nodes * sizeof *w->position);
    for (weft_node *n = g->first; n; n = n->next) {
        w->position[n->id] = at++;
        if (n->block == WEFT_BLOCK_NONE || weft_node_is(n, WEFT_OP_SOURCE))
            continue;
        int i = w->n - 1;
        while (i >= 0 && (!is_of(&w->list[i], n) || w->list[i].block != n->block))
            i--;
        if (i < 0)
            w->list[w->n++] = (beginning){n, n->part, n->stage, n->block};
    }
    return true;
}

static int position_of(const work *w, const weft_node *n)
{
    return n->id < w->n_positions ? w->position[n->id] : INT32_MAX; /* an eviction: at the end */
}

/* What n reads is fetched where the `ahead`-th block before its own begins. */
static weft_node *place_for(const work *w, weft_node *n, int64_t ahead)
{
    int i = w->n - 1;
    while (i >= 0 && (!is_of(&w->list[i], n) || w->list[i].block != n->block))
        i--;
    if (i < 0)
        return n;
    weft_node *at = position_of(w, w->list[i].first) < position_of(w, n) ? w->list[i].first : n;
    for (; ahead > 0 && --i >= 0;)
        if (is_of(&w->list[i], n)) {
            at = w->list[i].first;
            ahead--;
        }
    return at;
}

/* To the place of v, behind what makes its next content. NULL after an error. */
static weft_value *evict(work *w, weft_value *next, weft_value *v)
{
    weft_graph *g = w->g;
    weft_node *of = next->node;
    const bool kept = v->kind != WEFT_STATE_STEP;
    weft_node *e = weft_add_bare(
        g, of, "evict", weft_pool_format(&g->pool, "%s.evicted", kept ? v->name : next->name), 1,
        &next, 1, &v);
    if (!e)
        return NULL;
    weft_node_unlink(g, e);
    weft_node_link(g, e, of->next);
    e->by = g->by;
    e->scope = kept ? WEFT_STEP_END : weft_value_available(next);
    e->part = of->part;
    if (kept) {
        e->phase = WEFT_UPDATE;
        e->part = WEFT_PART_UPDATE;
        e->stage = 0;
    }
    if (weft_value_every(next) > 1)
        weft_set_mark(g, e->outs[0], WEFT_MARK_EVERY, weft_value_every(next));
    next->update_of = NULL;
    e->outs[0]->update_of = v;
    v->becomes = e->outs[0];
    return e->outs[0];
}

static bool is_alike(const weft_node *a, const weft_node *b)
{
    return a->part == b->part && a->stage == b->stage && a->block == b->block;
}

/* Right behind it. */
static void put_behind(weft_graph *g, weft_node *n, weft_node *at)
{
    weft_node_unlink(g, n);
    weft_node_link(g, n, at->next);
}

/* Of v, for `first` and whoever reads `of` in the same block of the same program; of is v, or what
 * was evicted there. */
static void fetch(work *w, weft_value *v, const weft_value *of, weft_node *first,
                  const weft_use *uses, int n, int64_t ahead)
{
    weft_graph *g = w->g;
    weft_node *at = place_for(w, first, ahead + weft_get_mark(first, WEFT_MARK_PREFETCH));
    weft_node *f = weft_add_bare(g, first, "fetch",
                                 weft_pool_format(&g->pool, "%s.fetched", of->name), 1, &v, 1, &v);
    if (!f)
        return;
    f->by = g->by;
    f->part = first->part;
    if (first->part == WEFT_PART_B && first->phase == WEFT_FORWARD && first->chunk < 0)
        f->phase = WEFT_BACKWARD;
    for (int i = 0; i < n; i++)
        if (is_alike(uses[i].node, first))
            weft_node_relink(g, uses[i].node, uses[i].operand, f->outs[0]);
    if (at != first) {
        weft_node_unlink(g, f);
        weft_node_link(g, f, at);
    }
    if (of == v && position_of(w, v->node) > position_of(w, at))
        weft_node_come_before(g, v->node, f);
    else if (of != v &&
             position_of(w, at) <= position_of(w, of->node)) /* the list has both programs */
        put_behind(g, f, v->node);
}

/* Does it read v, which is evicted, where that is still there? What a forward makes is, for all of
 * it. */
static bool is_near(const weft_value *v, const weft_node *reader)
{
    return weft_node_is(reader, WEFT_OP_EVICT) || is_alike(v->node, reader) ||
           (reader->part == WEFT_PART_F && v->node->part == WEFT_PART_F);
}

/* For all who read `of`. */
static void fetch_all(work *w, weft_value *v, weft_value *of, int64_t ahead)
{
    weft_graph *g = w->g;
    int n = 0;
    weft_use *uses = weft_pool_alloc(&g->pool, ((size_t)of->n_uses + 1) * sizeof *uses);
    if (!uses)
        return;
    for (int i = 0; i < of->n_uses; i++)
        if (position_of(w, of->uses[i].node) >= 0 && (of == v || !is_near(of, of->uses[i].node)))
            uses[n++] = of->uses[i];
    for (int i = 0; i < n && !weft_graph_status(g); i++) {
        weft_node *first = uses[i].node;
        if (first->ins[uses[i].operand] != of) /* with an earlier one */
            continue;
        for (int k = i + 1; k < n; k++)
            if (is_alike(uses[k].node, first) &&
                position_of(w, uses[k].node) < position_of(w, first))
                first = uses[k].node;
        fetch(w, v, of, first, uses, n, ahead);
    }
}

/* ---- what a step makes ---- */

/* Where in far memory v lies. */
static weft_value *add_place(weft_graph *g, weft_value *v)
{
    weft_node *n = weft_add_bare(g, v->node, "state", weft_pool_format(&g->pool, "%s.far", v->name),
                                 0, NULL, 1, &v);
    if (!n)
        return NULL;
    weft_node_unlink(g, n);
    weft_node_link(g, n, g->first);
    n->by = g->by;
    n->outs[0]->kind = WEFT_STATE_STEP;
    n->scope = WEFT_STEP_BEGIN;
    n->phase = WEFT_FORWARD;
    n->part = WEFT_PART_BEGIN;
    n->chunk = -1;
    n->stage = 0;
    return n->outs[0];
}

/* The first of those that make the sum which n ends; NULL: some do in another program. */
static weft_node *find_start(const work *w, weft_node *n, weft_node *of)
{
    weft_node *start = n;
    if (n->part != of->part || n->stage != of->stage)
        return NULL;
    for (int i = 0; start && i < n->n_ins && (n == of || weft_node_is(n, WEFT_OP_ADD)); i++) {
        weft_node *other = find_start(w, n->ins[i]->node, of);
        start = !other || position_of(w, other) < position_of(w, start) ? other : start;
    }
    return start;
}

/* What the micro-batches before have summed is brought to where this one adds. */
static void fetch_sum(work *w, weft_node *n, weft_node *start, weft_value *place, int64_t ahead)
{
    weft_graph *g = w->g;
    weft_value **ins = weft_pool_alloc(&g->pool, 2 * sizeof *ins), *sum = n->outs[0];
    weft_node *f = weft_add_bare(g, n, "fetch", weft_pool_format(&g->pool, "%s.so_far", sum->name),
                                 1, &place, 1, &sum);
    if (!ins)
        weft_fail_memory(&g->error);
    if (!ins || !f)
        return;
    f->by = g->by;
    f->part = n->part;
    f->phase = WEFT_BACKWARD;
    ins[0] = n->ins[0];
    n->ins = ins;
    n->n_ins = 2;
    weft_node_relink(g, n, 1, f->outs[0]);
    weft_node_come_before(g, f, place_for(w, start, ahead));
}

static void put_made(work *w, weft_value *v, int64_t ahead)
{
    weft_graph *g = w->g;
    const bool sums = weft_node_accumulates(v->node) && g->config.sizes.micro_batches > 1;
    weft_node *start = sums ? find_start(w, v->node, v->node) : v->node;
    weft_value *place = start ? add_place(g, v) : NULL, *away = place ? evict(w, v, place) : NULL;
    if (!away)
        return;
    if (sums)
        fetch_sum(w, v->node, start, place, ahead);
    fetch_all(w, away, v, ahead);
    for (int i = 0; i < g->n_parameters; i++) {
        weft_value *p = g->parameters[i];
        p->gradient = p->gradient == v ? away : p->gradient;
        p->summed = p->summed == v ? away : p->summed;
    }
}

static bool is_stored(const weft_value *v)
{
    return weft_node_is(v->node, WEFT_OP_PARAMETER | WEFT_OP_STATE);
}

/* Of what is made a parameter's copy, at last? */
static bool copies(const weft_node *n)
{
    bool is = weft_node_is(n, WEFT_OP_PARAMETER);
    for (int i = 0; i < n->n_ins && !is; i++)
        is = copies(n->ins[i]->node);
    return is;
}

bool weft_copy_may_lie_far(const weft_value *v)
{
    bool later = false;
    for (int i = 0; i < v->n_uses; i++)
        later = later || v->uses[i].node->part > WEFT_PART_BEGIN;
    return later && v->node->part == WEFT_PART_BEGIN && !v->update_of &&
           !weft_node_is(v->node, WEFT_OP_SOURCE | WEFT_OP_FETCH | WEFT_OP_EVICT) &&
           weft_value_available(v) == WEFT_STEP_BEGIN && copies(v->node);
}

bool weft_saved_may_lie_far(const weft_graph *g, const weft_value *v)
{
    bool later = false, open = v->turn != 0;
    for (int i = 0; i < v->n_uses; i++)
        later = later || v->uses[i].node->part > WEFT_PART_F;
    for (int axis = 0; axis < g->config.mesh.n_axes; axis++)
        open = open || weft_layout_open(v->layout, axis) == WEFT_OPEN_MAX;
    return later && !open && v->node->part == WEFT_PART_F &&
           !weft_node_is(v->node, WEFT_OP_SOURCE) && weft_value_available(v) == WEFT_MICRO_BATCH;
}

/* Maxima begin with what no zeros are. */
static bool may_lie_far(const weft_graph *g, const weft_value *v)
{
    return is_stored(v) || weft_copy_may_lie_far(v) || weft_saved_may_lie_far(g, v) ||
           (weft_value_available(v) == WEFT_STEP_END && !v->update_of &&
            !(weft_node_accumulates(v->node) && (v->node->op->flags & WEFT_OP_MAX)));
}

void weft_put_far(weft_graph *g, weft_value *const *list, int n, int64_t ahead)
{
    work w = {.g = g};
    if (weft_graph_status(g) || !find_beginnings(&w))
        return;
    for (int i = 0; i < n && !weft_graph_status(g); i++)
        if (!may_lie_far(g, list[i]) || !g->has_parts)
            weft_graph_fail(
                g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                "%s cannot lie far: an ordered pass puts there parameters, state, copies of "
                "parameters, what a forward saves, and sums over micro-batches or what is made "
                "behind "
                "the last",
                list[i]->name);
        else if (list[i]->becomes && !weft_value_is_far(list[i]))
            evict(&w, list[i]->becomes, list[i]);
    for (int i = 0; i < n && !weft_graph_status(g); i++)
        if (is_stored(list[i]))
            fetch_all(&w, list[i], list[i], ahead);
        else
            put_made(&w, list[i], ahead);
}
