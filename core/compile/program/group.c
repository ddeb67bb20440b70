/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that belong together run as one, and weights are gathered ahead of the block that
 * needs them. Only the order of nodes changes, so no number does. What belongs together says who
 * put it in: marks GROUP and PREFETCH of the node.
 *
 * - Gathers of weights: those of one block, where the first stands; with `prefetch` n, while the
 *   n-th block before it still computes.
 * - Reductions of gradients: those of one block, where the last stands; what reads them waits
 *   behind it: on a device that computes later, until the next one begins.
 * - All-reduces: of any block, up to a size; whatever is small is summed at once, however many they
 *   are.
 * - What asks for it (WEFT_GROUP_ALL): of any block, and gathers whatever they wait for. */
#include "base/array.h"
#include "compile/program/compiler.h"

#include <string.h>
#include <weft/marks.h>

enum {
    MOST_BYTES = 16 << 20,
    MOST_OF_ALL = 64 << 20, /* of what asks to be sent with all */
    ANY_LEVEL = -1,
    BEHIND_ALL = 1 << 20 /* the level of what needs a gather that stands in a set of all */
};

/* Nodes that become one instruction. */
typedef struct set {
    const weft_node *like; /* its first node */
    bool gather, emitted;
    int level;
    int n, capacity, left; /* nodes in all, still to come */
    int64_t bytes;
    weft_node **list;
} set;

typedef struct grouper {
    weft_compiler *c;
    weft_pool pool;
    set **sets; /* of this part, by first appearance */
    int n_sets;
    set **of;     /* by node id: its set */
    bool *inside; /* by node id: belongs to this part */
    bool *done;   /* by node id: stands in the new order */
    int *level;   /* by node id: how many sets of reductions of this part it needs, one after the
                     other */
    weft_node **out, **waiting, **held;
    int n_out, n_waiting, n_held;
} grouper;

static bool may_join(const weft_node *n)
{
    if (n->n_steps != 1 || n->n_ins != 1 || n->n_outs != 1)
        return false;
    if (!weft_get_mark(n, WEFT_MARK_GROUP))
        return weft_get_mark(n, WEFT_MARK_PREFETCH) && weft_is_gather(n);
    const weft_move move = n->steps[0].move;
    return weft_is_gather(n) || move == WEFT_REDUCE_SCATTER || move == WEFT_ALL_REDUCE;
}

static int open_kind(const weft_node *n)
{
    return weft_layout_open(n->ins[0]->layout, n->steps[0].axes[0]);
}

static bool with_all(const weft_node *n)
{
    return weft_get_mark(n, WEFT_MARK_GROUP) == WEFT_GROUP_ALL;
}

/* Gathers move bytes, of whatever dtype. */
static bool alike(const weft_node *a, const weft_node *b)
{
    const weft_step *s = a->steps, *t = b->steps;
    bool same_block = a->block == b->block || s->move == WEFT_ALL_REDUCE || with_all(a);
    bool same_dtype = a->outs[0]->dtype == b->outs[0]->dtype || s->move == WEFT_ALL_GATHER;
    return with_all(a) == with_all(b) && a->every == b->every && same_block && same_dtype &&
           a->phase == b->phase && s->move == t->move && s->n_axes == t->n_axes &&
           memcmp(s->axes, t->axes, sizeof(int) * (size_t)s->n_axes) == 0 &&
           open_kind(a) == open_kind(b);
}

static bool has_room(const set *s, const weft_node *n, int64_t bytes)
{
    if (with_all(n))
        return s->bytes + bytes <= MOST_OF_ALL;
    return n->steps[0].move != WEFT_ALL_REDUCE || s->bytes + bytes <= MOST_BYTES;
}

static bool add_to(grouper *g, set *s, weft_node *n)
{
    weft_node **last = weft_pool_push(&g->pool, &s->list, &s->n, &s->capacity, sizeof *last);
    if (!last)
        return false;
    *last = n;
    s->left++;
    return true;
}

static weft_status join(grouper *g, weft_node *n, int level)
{
    int64_t bytes = weft_nominal_bytes(g->c->g, n->outs[0]);
    set *s = NULL;
    for (int i = g->n_sets - 1; i >= 0 && !s; i--)
        if (g->sets[i]->level == level && alike(g->sets[i]->like, n) &&
            has_room(g->sets[i], n, bytes))
            s = g->sets[i];
    if (!s) {
        s = weft_pool_alloc(&g->pool, sizeof *s);
        if (!s)
            return weft_fail_memory(g->c->err);
        *s = (set){.like = n, .gather = weft_is_gather(n), .level = level};
        g->sets[g->n_sets++] = s;
    }
    s->bytes += bytes;
    g->of[n->id] = s;
    return add_to(g, s, n) ? WEFT_OK : weft_fail_memory(g->c->err);
}

/* Does it go on with what another node of a set has scattered: over one axis, then over the next?
 */
static bool goes_on(const grouper *g, const weft_node *n)
{
    const weft_node *before = n->ins[0]->node;
    const set *s = g->inside[before->id] ? g->of[before->id] : NULL;
    return s && s->like->steps[0].move == WEFT_REDUCE_SCATTER &&
           n->steps[0].move == WEFT_REDUCE_SCATTER;
}

static int level_of_needs(const grouper *g, const weft_node *n)
{
    int level = 0;
    for (int i = 0; i < n->n_ins; i++) {
        const weft_node *m = n->ins[i]->node;
        level = g->inside[m->id] && g->level[m->id] > level ? g->level[m->id] : level;
    }
    return level;
}

/* A reduction that needs another one stands alone: a set must be complete before anything behind it
 * runs. But those that go on with sets of one level make sets of the next. A gather may need any
 * reduction, which stands before its set; in a set of all it must not need another one of these. */
static weft_status find_sets(grouper *g, int lo, int hi)
{
    weft_status s = WEFT_OK;
    g->n_sets = 0;
    for (int p = lo; p < hi; p++)
        g->inside[g->c->order[p]->id] = true;
    for (int p = lo; p < hi && !s; p++) {
        weft_node *n = g->c->order[p];
        int level = level_of_needs(g, n);
        bool of_all = may_join(n) && weft_is_gather(n) && with_all(n) && level < BEHIND_ALL;
        bool joins = of_all || (may_join(n) && (level == 0 || goes_on(g, n)));
        g->level[n->id] = of_all ? BEHIND_ALL : joins && !weft_is_gather(n) ? level + 1 : level;
        if (joins)
            s = join(g, n, of_all ? ANY_LEVEL : level);
    }
    return s;
}

/* Is it what adds a set's reduction to the step's totals, which nothing here reads, or evicts one?
 * If that goes on beside the computation, it is done when the next one begins, and no block need
 * wait for it. */
static bool can_wait(const grouper *g, const weft_node *n)
{
    const weft_node *total = weft_node_is(n, WEFT_OP_EVICT) ? n->ins[0]->node : n;
    const weft_node *made = weft_node_accumulates(total) ? total->ins[0]->node : NULL;
    return made && g->inside[made->id] && g->of[made->id] && !g->of[made->id]->gather &&
           weft_compile_goes_beside(g->c, made);
}

static void put(grouper *g, weft_node *n)
{
    if (can_wait(g, n))
        g->held[g->n_held++] = n;
    else
        g->out[g->n_out++] = n;
    g->done[n->id] = true;
}

static void put_held(grouper *g)
{
    for (int i = 0; i < g->n_held; i++)
        g->out[g->n_out++] = g->held[i];
    g->n_held = 0;
}

static bool ready(const grouper *g, const weft_node *n)
{
    for (int i = 0; i < n->n_ins; i++)
        if (g->inside[n->ins[i]->node->id] && !g->done[n->ins[i]->node->id])
            return false;
    return true;
}

static void put_set(grouper *g, set *s);

/* What a gather needs is made from weights alone and stands before it: a cast, or a gather over
 * other axes. */
static void put_needs(grouper *g, weft_node *n)
{
    for (int i = 0; i < n->n_ins; i++) {
        weft_node *m = n->ins[i]->node;
        if (!g->inside[m->id] || g->done[m->id])
            continue;
        if (g->of[m->id]) {
            put_set(g, g->of[m->id]);
            continue;
        }
        put_needs(g, m);
        put(g, m);
    }
}

static void put_set(grouper *g, set *s)
{
    if (s->emitted)
        return;
    s->emitted = true;
    if (!s->gather)
        put_held(g);
    for (int i = 0; i < s->n; i++)
        put_needs(g, s->list[i]);
    for (int i = 0; i < s->n; i++)
        put(g, s->list[i]);
}

/* The set that is needed now, and those that the next blocks will need. */
static void put_gathers(grouper *g, set *s)
{
    int64_t ahead = weft_get_mark(s->like, WEFT_MARK_PREFETCH);
    int i = 0;
    put_set(g, s);
    if (ahead == 0)
        return;
    while (g->sets[i] != s)
        i++;
    for (int block = s->like->block; ++i < g->n_sets && ahead >= 0;) {
        if (!g->sets[i]->gather || with_all(g->sets[i]->like))
            continue;
        ahead -= g->sets[i]->like->block != block;
        block = g->sets[i]->like->block;
        if (ahead >= 0)
            put_set(g, g->sets[i]);
    }
}

/* A node of a set stands for the whole set. */
static bool put_if_ready(grouper *g, weft_node *n)
{
    set *s = g->of[n->id];
    for (int i = 0; s && i < s->n; i++)
        if (!ready(g, s->list[i]))
            return false;
    if (!ready(g, n))
        return false;
    if (s)
        put_set(g, s);
    else
        put(g, n);
    return true;
}

/* Those that waited for what is done now, in their order; a set comes behind its last node, so what
 * reads its first may have waited for longer. */
static void put_waiting(grouper *g)
{
    bool moved = true;
    while (moved) {
        int left = 0;
        moved = false;
        for (int i = 0; i < g->n_waiting; i++) {
            weft_node *n = g->waiting[i];
            if (g->done[n->id]) /* a set that was put needed it */
                continue;
            if (put_if_ready(g, n))
                moved = moved || g->of[n->id];
            else
                g->waiting[left++] = n;
        }
        g->n_waiting = left;
    }
}

static void visit(grouper *g, weft_node *n)
{
    set *s = g->of[n->id];
    if (s && s->gather && s->like == n)
        put_gathers(g, s);
    if (g->done[n->id])
        return;
    if (s && --s->left > 0)
        return;
    if (!put_if_ready(g, n))
        g->waiting[g->n_waiting++] = n;
    else if (s)
        put_waiting(g);
}

static weft_status regroup(grouper *g, int lo, int hi)
{
    weft_compiler *c = g->c;
    weft_status s = find_sets(g, lo, hi);
    g->n_out = g->n_waiting = g->n_held = 0;
    for (int p = lo; p < hi && !s; p++)
        visit(g, c->order[p]);
    put_held(g);
    if (!s && g->n_out != hi - lo)
        s = weft_fail(c->err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                      "grouping collectives has lost %d nodes", hi - lo - g->n_out);
    for (int p = lo; p < hi && !s; p++) {
        weft_node *n = c->order[p] = g->out[p - lo];
        const set *of = g->of[n->id];
        bool behind = of && of->list[0] != n && weft_get_mark(n, WEFT_MARK_GROUP);
        c->position[n->id] = behind ? c->position[of->list[0]->id] : p;
    }
    for (int p = lo; p < hi; p++)
        g->inside[c->order[p]->id] = false;
    return s;
}

weft_status weft_compile_group(weft_compiler *c)
{
    size_t nodes = (size_t)c->g->n_nodes + 1;
    grouper g = {.c = c};
    g.sets = weft_pool_alloc(&g.pool, nodes * sizeof *g.sets);
    g.of = weft_pool_alloc(&g.pool, nodes * sizeof *g.of);
    g.inside = weft_pool_alloc(&g.pool, nodes * sizeof *g.inside);
    g.done = weft_pool_alloc(&g.pool, nodes * sizeof *g.done);
    g.level = weft_pool_alloc(&g.pool, nodes * sizeof *g.level);
    g.out = weft_pool_alloc(&g.pool, nodes * sizeof *g.out);
    g.waiting = weft_pool_alloc(&g.pool, nodes * sizeof *g.waiting);
    g.held = weft_pool_alloc(&g.pool, nodes * sizeof *g.held);
    weft_status s = g.pool.out_of_memory ? weft_fail_memory(c->err) : WEFT_OK;
    for (int i = 0; i < c->l->n_programs && !s; i++)
        s = regroup(&g, c->l->programs[i].from, c->l->programs[i].to);
    weft_pool_release(&g.pool);
    return s;
}
