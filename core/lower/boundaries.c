/* SPDX-License-Identifier: Apache-2.0 */
/* What a task waits for of the one before it, whose body may still run: for each pair of queues one
 * wait, as late as memory allows. What came before that is done by then, for streams.c joins all
 * queues one task late. */
#include "lower/lower.h"
#include "lower/order.h"

/* Two tasks between which a boundary lies, as far as they differ in where they touch memory. */
typedef struct pair {
    int64_t before, after; /* micro-batches */
} pair;

typedef struct planner {
    weft_lowered *l;
    weft_access *a, *b;        /* room for those of two instructions */
    weft_clock *clock, *known; /* room for those of two programs */
    pair *pairs;               /* of the boundary at hand; room for one a task */
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

/* All that the list has of this kind. Inputs have slots, too, but no instruction writes those. */
static void find_pairs(planner *p, const weft_boundary *b)
{
    const weft_lowered *l = p->l;
    const int ahead = b->prologue ? 2 : 1;
    p->n_pairs = 0;
    for (int t = 0; t + ahead < l->tasks->n; t++) {
        const weft_task *before = &l->tasks->list[t], *after = before + ahead;
        if (program_at(l, t) != &l->programs[b->before] ||
            program_at(l, t + ahead) != &l->programs[b->after])
            continue;
        int i = 0;
        while (i < p->n_pairs && (!is_same_place(l, p->pairs[i].before, before->micro_batch) ||
                                  !is_same_place(l, p->pairs[i].after, after->micro_batch)))
            i++;
        if (i == p->n_pairs)
            p->pairs[p->n_pairs++] = (pair){before->micro_batch, after->micro_batch};
    }
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

/* Has instruction i still something to wait for on this queue? */
static bool must_wait(const planner *p, const weft_crossing *c, int i, int queue)
{
    for (int k = c->last[queue]; k >= c->before->n_prologue && k > c->known[i].at[queue]; k--) {
        const weft_instruction *other = &c->before->list[k];
        if (other->queue == queue && weft_crossing_counts(other) &&
            meet(p, other, &c->after->list[i]))
            return true;
    }
    return false;
}

/* As few waits as memory allows: of several, those that the others do not imply. */
static void plan_instruction(const planner *p, const weft_crossing *c, weft_boundary *b, int i)
{
    int *first = b->first[c->after->list[i].queue];
    bool waits[WEFT_MOST_QUEUES] = {false};
    weft_crossing_fill(c, i);
    for (int q = 0; q < p->n_queues; q++)
        waits[q] = q != c->after->list[i].queue && must_wait(p, c, i, q);
    for (int q = 0; q < p->n_queues; q++)
        first[q] = waits[q] ? i : first[q];
    for (int q = 0; q < p->n_queues; q++) {
        if (!waits[q])
            continue;
        first[q] = -1;
        weft_crossing_fill(c, i);
        if (must_wait(p, c, i, q))
            first[q] = i;
    }
    weft_crossing_fill(c, i);
}

static weft_status add(planner *p, int t, bool prologue, weft_error *err)
{
    weft_lowered *l = p->l;
    const weft_program *before = program_at(l, t), *after = program_at(l, t + (prologue ? 2 : 1));
    if (after->part == WEFT_PART_UPDATE || (prologue && !after->n_prologue) ||
        weft_lowered_boundary(l, before, after, prologue)) /* before an update the host waits */
        return WEFT_OK;
    if (l->n_boundaries == l->boundaries_capacity) {
        int more = l->boundaries_capacity ? 2 * l->boundaries_capacity : 8;
        weft_boundary *fresh = weft_realloc(l->boundaries, (size_t)more * sizeof *fresh);
        if (!fresh)
            return weft_fail_memory(err);
        l->boundaries = fresh;
        l->boundaries_capacity = more;
    }
    weft_boundary *b = &l->boundaries[l->n_boundaries++];
    *b = (weft_boundary){.before = (int)(before - l->programs),
                         .after = (int)(after - l->programs),
                         .prologue = prologue};
    for (int q = 0; q < WEFT_MOST_QUEUES; q++)
        for (int r = 0; r < WEFT_MOST_QUEUES; r++)
            b->first[q][r] = -1;
    find_pairs(p, b);
    const weft_crossing c = weft_crossing_begin(l, b, p->clock, p->known);
    for (int i = c.from; i < c.to; i++)
        plan_instruction(p, &c, b, i);
    return WEFT_OK;
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
    weft_status s = p.a && p.b && p.clock && p.known && p.pairs ? WEFT_OK : weft_fail_memory(err);
    for (int t = 0; t + 1 < l->tasks->n && !s; t++) {
        s = add(&p, t, false, err);
        if (!s && t + 2 < l->tasks->n && l->tasks->list[t + 1].part != WEFT_PART_BEGIN)
            s = add(&p, t, true, err);
    }
    weft_free(p.a);
    weft_free(p.b);
    weft_free(p.clock);
    weft_free(p.known);
    weft_free(p.pairs);
    return s;
}
