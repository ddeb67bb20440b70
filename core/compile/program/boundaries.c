/* SPDX-License-Identifier: Apache-2.0 */
/* What a task waits for of the one before it, whose body may still run: each instruction for the
 * last one on every other queue that touches the same memory, but for what other waits imply. What
 * came before that is done by then, for streams.c joins all queues one task late. */
#include "base/array.h"
#include "compile/program/lower.h"
#include "compile/program/order.h"

#include <string.h>

/* Two tasks between which a boundary lies, as far as they differ in where they touch memory. */
typedef struct pair {
    int64_t before, after; /* micro-batches */
} pair;

typedef struct planner {
    weft_lowered *l;
    weft_access *a, *b;        /* room for those of two instructions */
    weft_clock *clock, *known; /* room for those of two programs */
    pair *pairs;               /* of the boundary at hand; room for one a task */
    weft_boundary_wait *waits; /* the same; room for any program's */
    int n_pairs, n_queues;
} planner;

static const weft_program *program_at(const weft_lowered *l, int t)
{
    return weft_lowered_program(l, l->tasks->list[t].part, l->tasks->list[t].stage);
}

static const weft_boundary *find(const weft_lowered *l, int before, int after, bool prologue)
{
    for (int i = 0; i < l->n_boundaries; i++) {
        const weft_boundary *b = &l->boundaries[i];
        if (b->before == before && b->after == after && b->prologue == prologue)
            return b;
    }
    return NULL;
}

const weft_boundary *weft_lowered_boundary(const weft_lowered *l, const weft_program *before,
                                           const weft_program *after, bool prologue)
{
    return find(l, (int)(before - l->programs), (int)(after - l->programs), prologue);
}

/* ---- pairs ---- */

static bool is_same_place(const weft_lowered *l, int64_t a, int64_t b)
{
    for (int i = 0; i < l->n_slots; i++) {
        const int *slot_of = l->slots[i].slot_of;
        if (slot_of[a > 0 ? a : 0] != slot_of[b > 0 ? b : 0])
            return false;
    }
    return true;
}

static bool is_known(const planner *p, int64_t before, int64_t after)
{
    int i = 0;
    while (i < p->n_pairs && (!is_same_place(p->l, p->pairs[i].before, before) ||
                              !is_same_place(p->l, p->pairs[i].after, after)))
        i++;
    return i < p->n_pairs;
}

/* Tasks with `ahead` - 1 others between them. */
static void add_pairs(planner *p, const weft_boundary *b, int ahead)
{
    const weft_lowered *l = p->l;
    for (int t = 0; t + ahead < l->tasks->n; t++) {
        const int64_t before = l->tasks->list[t].micro_batch,
                      after = l->tasks->list[t + ahead].micro_batch;
        if (program_at(l, t) == &l->programs[b->before] &&
            program_at(l, t + ahead) == &l->programs[b->after] && !is_known(p, before, after))
            p->pairs[p->n_pairs++] = (pair){before, after};
    }
}

/* All that the list has of this kind. Inputs have slots, too, but no instruction writes those. */
static void find_pairs(planner *p, const weft_boundary *b)
{
    const bool begins = p->l->programs[b->before].part == WEFT_PART_BEGIN;
    p->n_pairs = 0;
    if (b->prologue)
        add_pairs(p, b, 2);
    if (!b->prologue || begins)
        add_pairs(p, b, 1);
}

/* ---- waits ---- */

static bool meet(const planner *p, const weft_instruction *x, const weft_instruction *y)
{
    for (int i = 0; i < p->n_pairs; i++)
        if (weft_accesses_conflict(p->a, weft_accesses(p->l, x, p->pairs[i].before, p->a), p->b,
                                   weft_accesses(p->l, y, p->pairs[i].after, p->b)))
            return true;
    return false;
}

/* The last instruction on this queue that instruction i must still wait for; -1: none. */
static int find_conflict(const planner *p, const weft_crossing *c, int i, int queue)
{
    const int done = c->known[i].at[queue];
    for (int k = c->last[queue]; k >= c->before->n_prologue && k > done; k--) {
        const weft_instruction *other = &c->before->list[k];
        if (other->queue == queue && weft_crossing_counts(other) &&
            meet(p, other, &c->after->list[i]))
            return k;
    }
    return -1;
}

static bool is_implied(const weft_crossing *c, const int *on, int queue)
{
    for (int r = 0; r < WEFT_MOST_QUEUES; r++)
        if (r != queue && on[r] >= 0 && c->clock[on[r]].at[queue] >= on[queue])
            return true;
    return false;
}

/* As few waits as memory allows: of several, those that the others do not imply. */
static void plan_instruction(const planner *p, const weft_crossing *c, weft_boundary *b, int i)
{
    int on[WEFT_MOST_QUEUES];
    weft_crossing_fill(c, i);
    for (int q = 0; q < WEFT_MOST_QUEUES; q++)
        on[q] = q < p->n_queues && q != c->after->list[i].queue ? find_conflict(p, c, i, q) : -1;
    for (int q = 0; q < p->n_queues; q++)
        if (on[q] >= 0 && !is_implied(c, on, q))
            b->waits[b->n_waits++] = (weft_boundary_wait){.after = i, .before = on[q]};
    weft_crossing_fill(c, i);
}

/* The waits lie where they were found, which is needed again; their events are of `before`. */
static weft_status keep(weft_lowered *l, weft_boundary *b, weft_error *err)
{
    const weft_boundary_wait *found = b->waits;
    b->waits = weft_pool_alloc(&l->pool, ((size_t)b->n_waits + 1) * sizeof *b->waits);
    if (!b->waits)
        return weft_fail_memory(err);
    memcpy(b->waits, found, (size_t)b->n_waits * sizeof *found);
    for (int i = 0; i < b->n_waits; i++) {
        weft_instruction *on = &l->programs[b->before].list[b->waits[i].before];
        if (on->event < 0)
            on->event = l->n_events++;
    }
    return WEFT_OK;
}

/* Between task t and the one `ahead` behind it. */
static weft_status add(planner *p, int t, int ahead, bool prologue, weft_error *err)
{
    weft_lowered *l = p->l;
    const weft_program *before = program_at(l, t), *after = program_at(l, t + ahead);
    if (after->part == WEFT_PART_UPDATE || (prologue && !after->n_prologue) ||
        weft_lowered_boundary(l, before, after, prologue)) /* before an update the host waits */
        return WEFT_OK;
    weft_boundary *b =
        weft_array_push(&l->boundaries, &l->n_boundaries, &l->boundaries_capacity, sizeof *b);
    if (!b)
        return weft_fail_memory(err);
    *b = (weft_boundary){.before = (int)(before - l->programs),
                         .after = (int)(after - l->programs),
                         .prologue = prologue,
                         .waits = p->waits};
    find_pairs(p, b);
    const weft_crossing c = weft_crossing_begin(l, b, p->clock, p->known);
    for (int i = c.from; i < c.to; i++)
        plan_instruction(p, &c, b, i);
    return keep(l, b, err);
}

/* All that lie behind task t. */
static weft_status add_behind(planner *p, int t, weft_error *err)
{
    const weft_task_list *list = p->l->tasks;
    weft_status s = add(p, t, 1, false, err);
    if (!s && list->list[t].part == WEFT_PART_BEGIN)
        s = add(p, t, 1, true, err);
    if (!s && t + 2 < list->n && list->list[t + 1].part != WEFT_PART_BEGIN)
        s = add(p, t, 2, true, err);
    return s;
}

weft_status weft_plan_boundaries(weft_lowered *l, int n_queues, weft_error *err)
{
    if (n_queues < 2)
        return WEFT_OK;
    int longest = 0;
    size_t most = (size_t)weft_most_accesses(l) + 1;
    for (int a = 0; a < l->n_programs; a++)
        longest = l->programs[a].n > longest ? l->programs[a].n : longest;
    planner p = {.l = l, .n_queues = n_queues < WEFT_MOST_QUEUES ? n_queues : WEFT_MOST_QUEUES};
    p.a = weft_alloc(most * sizeof *p.a);
    p.b = weft_alloc(most * sizeof *p.b);
    p.clock = weft_alloc(((size_t)longest + 1) * sizeof *p.clock);
    p.known = weft_alloc(((size_t)longest + 1) * sizeof *p.known);
    p.pairs = weft_alloc(((size_t)l->tasks->n + 1) * sizeof *p.pairs);
    p.waits = weft_alloc(((size_t)longest + 1) * WEFT_MOST_QUEUES * sizeof *p.waits);
    weft_status s =
        p.a && p.b && p.clock && p.known && p.pairs && p.waits ? WEFT_OK : weft_fail_memory(err);
    for (int t = 0; t + 1 < l->tasks->n && !s; t++)
        s = add_behind(&p, t, err);
    weft_free(p.a);
    weft_free(p.b);
    weft_free(p.clock);
    weft_free(p.known);
    weft_free(p.pairs);
    weft_free(p.waits);
    return s;
}
