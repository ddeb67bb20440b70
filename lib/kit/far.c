/* SPDX-License-Identifier: Apache-2.0 */
/* For passes: parameters and state that lie in far memory. */
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
    if (!w->list || !w->position) {
        weft_fail_memory(&g->error);
        return false;
    }
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

/* Behind what makes its next content. */
static void evict(work *w, weft_value *v)
{
    weft_graph *g = w->g;
    weft_value *next = v->becomes;
    weft_node *of = next->node;
    weft_node *e = weft_add_bare(g, of, "evict", weft_pool_format(&g->pool, "%s.evicted", v->name),
                                 1, &next, 1, &v);
    if (!e)
        return;
    weft_node_unlink(g, e);
    weft_node_link(g, e, of->next);
    e->by = g->by;
    e->scope = WEFT_STEP_END;
    e->phase = WEFT_UPDATE;
    e->part = WEFT_PART_UPDATE;
    e->stage = 0;
    if (weft_value_every(next) > 1)
        weft_set_mark(g, e->outs[0], WEFT_MARK_EVERY, weft_value_every(next));
    next->update_of = NULL;
    e->outs[0]->update_of = v;
    v->becomes = e->outs[0];
}

static bool is_alike(const weft_node *a, const weft_node *b)
{
    return a->part == b->part && a->stage == b->stage && a->block == b->block;
}

/* For `first` and whoever reads v in the same block of the same program. */
static void fetch(work *w, weft_value *v, weft_node *first, const weft_use *uses, int n,
                  int64_t ahead)
{
    weft_graph *g = w->g;
    weft_node *at = place_for(w, first, ahead + weft_get_mark(first, WEFT_MARK_PREFETCH));
    weft_node *f = weft_add_bare(g, first, "fetch",
                                 weft_pool_format(&g->pool, "%s.fetched", v->name), 1, &v, 1, &v);
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
    weft_node_come_before(g, v->node, f);
}

static void fetch_all(work *w, weft_value *v, int64_t ahead)
{
    weft_graph *g = w->g;
    int n = 0;
    weft_use *uses = weft_pool_alloc(&g->pool, ((size_t)v->n_uses + 1) * sizeof *uses);
    if (!uses) {
        weft_fail_memory(&g->error);
        return;
    }
    for (int i = 0; i < v->n_uses; i++)
        if (position_of(w, v->uses[i].node) >= 0)
            uses[n++] = v->uses[i];
    for (int i = 0; i < n && !weft_graph_status(g); i++) {
        weft_node *first = uses[i].node;
        if (first->ins[uses[i].operand] != v) /* with an earlier one */
            continue;
        for (int k = i + 1; k < n; k++)
            if (is_alike(uses[k].node, first) &&
                position_of(w, uses[k].node) < position_of(w, first))
                first = uses[k].node;
        fetch(w, v, first, uses, n, ahead);
    }
}

void weft_put_far(weft_graph *g, weft_value *const *list, int n, int64_t ahead)
{
    work w = {.g = g};
    if (weft_graph_status(g) || !find_beginnings(&w))
        return;
    for (int i = 0; i < n && !weft_graph_status(g); i++)
        if (!weft_node_is(list[i]->node, WEFT_OP_PARAMETER | WEFT_OP_STATE) || !g->has_parts)
            weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                            "%s cannot lie far: an ordered pass puts parameters and state there",
                            list[i]->name);
        else if (list[i]->becomes && !weft_value_is_far(list[i]))
            evict(&w, list[i]);
    for (int i = 0; i < n && !weft_graph_status(g); i++)
        fetch_all(&w, list[i], ahead);
}
