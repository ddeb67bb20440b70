/* SPDX-License-Identifier: Apache-2.0 */
/* Which instruction runs on which queue, and what it must wait for: on one queue order is enough;
 * between queues every conflict over memory (written by one, touched by the other) is a wait, or
 * follows from others: none can be left out.
 *
 * What a task waits for of the one before it, whose body may still run: each instruction for the
 * last one on every other queue that touches the same memory, but for what other waits imply. What
 * came before that is done by then, for streams.c joins all queues one task late. */
#include "compile/program/waits.h"
#include "base/array.h"

#include <string.h>
#include <weft/marks.h>
#include <weft/random.h>

/* ---- what is touched ---- */

static weft_access access_of(const weft_lowered *l, int buffer, int64_t micro, bool writes)
{
    if (buffer < 0) /* held elsewhere */
        return (weft_access){0, 0, WEFT_BASE_NONE, false};
    const weft_buffer *b = &l->buffers[buffer];
    int64_t lo = weft_buffer_offset(l, b, micro);
    weft_base base = b->base == WEFT_BASE_SLOT ? WEFT_BASE_ARENA : b->base;
    return (weft_access){lo, lo + b->bytes, base, writes};
}

int weft_accesses(const weft_lowered *l, const weft_instruction *in, int64_t micro,
                  weft_access *list)
{
    int n = 0;
    for (int i = 0; i < in->n_ins + in->n_outs; i++)
        list[n++] = access_of(l, in->buffers[i], micro, i >= in->n_ins);
    if (in->workspace >= 0)
        list[n++] = access_of(l, in->workspace, micro, true);
    return n;
}

int weft_most_accesses(const weft_lowered *l)
{
    int most = 0;
    for (int a = 0; a < l->n_programs + l->n_variants; a++)
        for (int i = 0; i < l->programs[a].n; i++) {
            const weft_instruction *in = &l->programs[a].list[i];
            int n = in->n_ins + in->n_outs + 1;
            most = n > most ? n : most;
        }
    return most;
}

bool weft_accesses_conflict(const weft_access *a, int n_a, const weft_access *b, int n_b)
{
    for (int i = 0; i < n_a; i++)
        for (int k = 0; k < n_b; k++)
            if ((a[i].writes || b[k].writes) && a[i].base == b[k].base && a[i].lo < b[k].hi &&
                b[k].lo < a[i].hi)
                return true;
    return false;
}

/* ---- what is known to be done ---- */

static void join(weft_clock *to, const weft_clock *other)
{
    for (int q = 0; q < WEFT_MOST_QUEUES; q++)
        to->at[q] = other->at[q] > to->at[q] ? other->at[q] : to->at[q];
}

/* The instruction before i on its queue, from `from` on; -1: none. */
static int find_last(const weft_program *p, int from, int i, int queue)
{
    int last = i - 1;
    while (last >= from && p->list[last].queue != queue)
        last--;
    return last >= from ? last : -1;
}

void weft_clock_fill(const weft_program *p, int i, weft_clock *clock)
{
    const weft_instruction *in = &p->list[i];
    int last = find_last(p, 0, i, in->queue);
    for (int q = 0; q < WEFT_MOST_QUEUES; q++)
        clock[i].at[q] = -1;
    if (last >= 0)
        join(&clock[i], &clock[last]);
    for (int k = 0; k < in->n_waits; k++)
        join(&clock[i], &clock[in->waits[k]]);
    clock[i].at[in->queue] = i;
}

weft_crossing weft_crossing_begin(const weft_lowered *l, const weft_boundary *waits,
                                  weft_clock *clock, weft_clock *known)
{
    const weft_program *before = &l->programs[waits->before], *after = &l->programs[waits->after];
    weft_crossing c = {.before = before,
                       .after = after,
                       .waits = waits,
                       .clock = clock,
                       .known = known,
                       .from = waits->prologue ? 0 : after->n_prologue,
                       .to = waits->prologue ? after->n_prologue : after->n};
    for (int i = 0; i < before->n; i++)
        weft_clock_fill(before, i, clock);
    for (int q = 0; q < WEFT_MOST_QUEUES; q++)
        c.last[q] = find_last(before, before->n_prologue, before->n, q);
    return c;
}

void weft_crossing_fill(const weft_crossing *c, int i)
{
    const weft_instruction *in = &c->after->list[i];
    int last = find_last(c->after, c->from, i, in->queue);
    weft_clock *mine = &c->known[i];
    for (int q = 0; q < WEFT_MOST_QUEUES; q++)
        mine->at[q] = -1;
    if (last >= 0)
        join(mine, &c->known[last]);
    else if (c->last[in->queue] >= 0)
        join(mine, &c->clock[c->last[in->queue]]);
    for (int k = 0; k < in->n_waits; k++)
        if (in->waits[k] >= c->from)
            join(mine, &c->known[in->waits[k]]);
    for (int k = 0; k < c->waits->n_waits; k++)
        if (c->waits->waits[k].after == i)
            join(mine, &c->clock[c->waits->waits[k].before]);
}

/* ---- planning ---- */

/* Two tasks between which a boundary lies, as far as they differ in where they touch memory. */
typedef struct pair {
    int64_t before, after; /* micro-batches */
} pair;

typedef struct planner {
    weft_lowered *l;
    weft_pool pool;            /* of what follows */
    weft_access *a, *b;        /* room for those of two instructions */
    weft_clock *clock, *known; /* room for those of two programs */
    int *before;               /* by instruction of one: the one before it on its queue; -1: none */
    pair *pairs;               /* of the boundary at hand; room for one a task */
    weft_boundary_wait *waits; /* the same; room for any program's */
    int last[WEFT_MOST_QUEUES]; /* of each queue, so far */
    int n_pairs, n_queues;
    unsigned runs; /* the kind of step */
} planner;

static weft_status begin(planner *p, weft_lowered *l, int n_queues, weft_error *err)
{
    size_t most = (size_t)weft_most_accesses(l) + 1, longest = 1;
    for (int a = 0; a < l->n_programs + l->n_variants; a++)
        longest = (size_t)l->programs[a].n > longest ? (size_t)l->programs[a].n : longest;
    *p = (planner){.l = l, .n_queues = n_queues < WEFT_MOST_QUEUES ? n_queues : WEFT_MOST_QUEUES};
    p->a = weft_pool_alloc(&p->pool, most * sizeof *p->a);
    p->b = weft_pool_alloc(&p->pool, most * sizeof *p->b);
    p->clock = weft_pool_alloc(&p->pool, longest * sizeof *p->clock);
    p->known = weft_pool_alloc(&p->pool, longest * sizeof *p->known);
    p->before = weft_pool_alloc(&p->pool, longest * sizeof *p->before);
    p->pairs = weft_pool_alloc(&p->pool, ((size_t)l->tasks->n + 1) * sizeof *p->pairs);
    p->waits = weft_pool_alloc(&p->pool, longest * WEFT_MOST_QUEUES * sizeof *p->waits);
    return p->pool.out_of_memory ? weft_fail_memory(err) : WEFT_OK;
}

/* Of several instructions to wait for, one a queue (-1: none): does the one on this queue follow
 * from another? */
static bool is_implied(const weft_clock *clock, const int *on, int queue)
{
    for (int r = 0; r < WEFT_MOST_QUEUES; r++)
        if (r != queue && on[r] >= 0 && clock[on[r]].at[queue] >= on[queue])
            return true;
    return false;
}

static void record(weft_lowered *l, weft_instruction *on)
{
    if (on->event < 0)
        on->event = l->n_events++;
}

/* ---- inside of programs ---- */

/* The latest earlier instruction on this queue that conflicts and is not known to be done: those
 * before it there are done then, too. -1: none. */
static int find_earlier(const planner *c, const weft_program *p, int i, int n_mine, int queue)
{
    const int done = c->clock[i].at[queue];
    int k = queue == p->list[i].queue ? -1 : c->last[queue];
    while (k > done &&
           !weft_accesses_conflict(c->a, n_mine, c->b, weft_accesses(c->l, &p->list[k], 0, c->b)))
        k = c->before[k];
    return k > done ? k : -1;
}

/* As few waits as memory allows: of several, those that the others do not imply. */
static void plan_instruction(const planner *c, weft_program *p, int i)
{
    weft_instruction *in = &p->list[i];
    int on[WEFT_MOST_QUEUES];
    weft_clock_fill(p, i, c->clock);
    const int n_mine = weft_accesses(c->l, in, 0, c->a);
    for (int q = 0; q < WEFT_MOST_QUEUES; q++)
        on[q] = q < c->n_queues ? find_earlier(c, p, i, n_mine, q) : -1;
    for (int q = 0; q < c->n_queues; q++)
        if (on[q] >= 0 && !is_implied(c->clock, on, q)) {
            in->waits[in->n_waits++] = on[q];
            record(c->l, &p->list[on[q]]);
        }
    weft_clock_fill(p, i, c->clock);
}

static bool is_sent(const weft_instruction *in)
{
    return in->kind == WEFT_COLLECTIVE || in->kind == WEFT_POST_SEND ||
           in->kind == WEFT_POST_RECV || in->kind == WEFT_AWAIT;
}

/* Moves of weights and their gradients have a queue of their own, and what goes to the host's
 * memory and back with them, so that they go on while a block computes; and so has what stages
 * receive, where there is a third. In the adversarial test everything is spread by dice but what is
 * sent: ranks must enter that alike, and their waits may differ where their kernels do. */
static int queue_of(const weft_instruction *in, int n_queues, uint64_t seed, int a, int i)
{
    if (seed)
        return is_sent(in)
                   ? 0
                   : (int)(weft_random_bits(seed, (uint64_t)a, (uint64_t)i) % (uint64_t)n_queues);
    if (in->kind == WEFT_POST_RECV && n_queues > 2)
        return WEFT_QUEUE_TRANSFERS;
    if (in->kind == WEFT_COLLECTIVE && weft_get_mark(in->node, WEFT_MARK_BESIDE))
        return n_queues > WEFT_QUEUE_PIECES ? WEFT_QUEUE_PIECES : WEFT_QUEUE_COLLECTIVES;
    return in->kind == WEFT_FETCH || in->kind == WEFT_EVICT ||
           (in->kind == WEFT_COLLECTIVE && (weft_get_mark(in->node, WEFT_MARK_GROUP) ||
                                            weft_get_mark(in->node, WEFT_MARK_PREFETCH)));
}

static void plan_program(planner *c, weft_program *p, uint64_t seed)
{
    const int a = (int)(p - c->l->programs);
    for (int q = 0; q < c->n_queues; q++)
        c->last[q] = -1;
    for (int i = 0; i < p->n; i++) {
        const int queue = p->list[i].queue = queue_of(&p->list[i], c->n_queues, seed, a, i);
        c->before[i] = c->last[queue];
        c->last[queue] = i;
        plan_instruction(c, p, i);
    }
}

weft_status weft_plan_waits(weft_lowered *l, int n_queues, uint64_t seed, weft_error *err)
{
    if (n_queues < 2) /* everything on queue 0 */
        return WEFT_OK;
    planner p;
    weft_status s = begin(&p, l, n_queues, err);
    for (int a = 0; a < l->n_programs + l->n_variants && !s; a++)
        plan_program(&p, &l->programs[a], seed);
    weft_pool_release(&p.pool);
    return s;
}

/* ---- boundaries ---- */

static const weft_program *program_at(const planner *p, int t)
{
    return weft_lowered_pick(p->l, &p->l->tasks->list[t], p->runs);
}

const weft_boundary *weft_lowered_boundary(const weft_lowered *l, const weft_program *before,
                                           const weft_program *after, bool prologue)
{
    const int from = (int)(before - l->programs), to = (int)(after - l->programs);
    for (int i = 0; i < l->n_boundaries; i++) {
        const weft_boundary *b = &l->boundaries[i];
        if (b->before == from && b->after == to && b->prologue == prologue)
            return b;
    }
    return NULL;
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
        if (program_at(p, t) == &l->programs[b->before] &&
            program_at(p, t + ahead) == &l->programs[b->after] && !is_known(p, before, after))
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

/* ---- between tasks ---- */

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

static void plan_crossing(const planner *p, const weft_crossing *c, weft_boundary *b, int i)
{
    int on[WEFT_MOST_QUEUES];
    weft_crossing_fill(c, i);
    for (int q = 0; q < WEFT_MOST_QUEUES; q++)
        on[q] = q < p->n_queues && q != c->after->list[i].queue ? find_conflict(p, c, i, q) : -1;
    for (int q = 0; q < p->n_queues; q++)
        if (on[q] >= 0 && !is_implied(c->clock, on, q)) {
            b->waits[b->n_waits++] = (weft_boundary_wait){.after = i, .before = on[q]};
            record(p->l, &p->l->programs[b->before].list[on[q]]);
            c->after->list[i].crosses = true;
        }
    weft_crossing_fill(c, i);
}

/* Between task t and the one `ahead` behind it. */
static weft_status add_boundary(planner *p, int t, int ahead, bool prologue, weft_error *err)
{
    weft_lowered *l = p->l;
    const weft_program *before = program_at(p, t), *after = program_at(p, t + ahead);
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
        plan_crossing(p, &c, b, i);
    b->waits = weft_pool_alloc(&l->pool, (size_t)b->n_waits * sizeof *b->waits);
    if (!b->waits)
        return weft_fail_memory(err);
    memcpy(b->waits, p->waits, (size_t)b->n_waits * sizeof *b->waits);
    return WEFT_OK;
}

/* All that lie behind task t. */
static weft_status add_behind(planner *p, int t, weft_error *err)
{
    const weft_task_list *list = p->l->tasks;
    weft_status s = add_boundary(p, t, 1, false, err);
    if (!s && list->list[t].part == WEFT_PART_BEGIN)
        s = add_boundary(p, t, 1, true, err);
    if (!s && t + 2 < list->n && list->list[t + 1].part != WEFT_PART_BEGIN)
        s = add_boundary(p, t, 2, true, err);
    return s;
}

weft_status weft_plan_boundaries(weft_lowered *l, int n_queues, weft_error *err)
{
    if (n_queues < 2)
        return WEFT_OK;
    planner p;
    weft_status s = begin(&p, l, n_queues, err);
    for (int runs = -1; !s && (runs = weft_lowered_next_runs(l, runs)) >= 0;) {
        p.runs = (unsigned)runs;
        for (int t = 0; t + 1 < l->tasks->n && !s; t++)
            s = add_behind(&p, t, err);
    }
    weft_pool_release(&p.pool);
    return s;
}
