/* SPDX-License-Identifier: Apache-2.0 */
/* Which instruction runs on which queue, and what it must wait for: on one queue order is enough;
 * between queues every conflict over memory (written by one, touched by the other) is a wait, or
 * follows from others: none can be left out. What tasks wait for of each other is in boundaries.c.
 */
#include "compile/program/lower.h"
#include "compile/program/order.h"

#include <string.h>
#include <weft/marks.h>
#include <weft/random.h>

typedef struct queues {
    weft_clock *clock;          /* of each instruction */
    int *before;                /* of each, the one before it on its queue; -1: none */
    int last[WEFT_MOST_QUEUES]; /* of each queue, so far */
    int n;
} queues;

static weft_status add_wait(weft_lowered *l, weft_instruction *in, int on, weft_error *err)
{
    int *fresh = weft_pool_alloc(&l->pool, ((size_t)in->n_waits + 1) * sizeof *fresh);
    if (!fresh)
        return weft_fail_memory(err);
    if (in->n_waits)
        memcpy(fresh, in->waits, (size_t)in->n_waits * sizeof *fresh);
    fresh[in->n_waits++] = on;
    in->waits = fresh;
    return WEFT_OK;
}

/* For each other queue, the latest earlier instruction that conflicts and is not known to be done:
 * those before it on that queue are done then, too. on[q]: -1: none. */
static void find_conflicts(const weft_lowered *l, const weft_program *p, int i, int *on,
                           weft_access *mine, weft_access *other, const queues *c)
{
    const weft_instruction *in = &p->list[i];
    const int *done = c->clock[i].at;
    int n_mine = weft_accesses(l, in, 0, mine);
    for (int q = 0; q < c->n; q++) {
        int k = q == in->queue ? -1 : c->last[q];
        while (k > done[q] && !weft_accesses_conflict(mine, n_mine, other,
                                                      weft_accesses(l, &p->list[k], 0, other)))
            k = c->before[k];
        on[q] = k > done[q] ? k : -1;
    }
}

/* Of these, those that no other one implies. */
static weft_status plan(weft_lowered *l, weft_program *p, int i, const int *on, const queues *c,
                        weft_error *err)
{
    weft_instruction *in = &p->list[i];
    for (int q = 0; q < c->n; q++) {
        bool implied = on[q] < 0;
        for (int r = 0; r < c->n && !implied; r++)
            implied = r != q && on[r] >= 0 && c->clock[on[r]].at[q] >= on[q];
        weft_status s = implied ? WEFT_OK : add_wait(l, in, on[q], err);
        if (s)
            return s;
    }
    weft_clock_fill(p, i, c->clock);
    return WEFT_OK;
}

static bool is_sent(const weft_instruction *in)
{
    return in->kind == WEFT_COLLECTIVE || in->kind == WEFT_POST_SEND ||
           in->kind == WEFT_POST_RECV || in->kind == WEFT_AWAIT;
}

/* Moves of weights and their gradients have a queue of their own, so that they go on while a block
 * computes; and so has what stages receive, where there is a third. In the adversarial test
 * everything is spread by dice but what is sent: ranks must enter that alike, and their waits may
 * differ where their kernels do. */
static int queue_of(const weft_instruction *in, int n_queues, uint64_t seed, int a, int i)
{
    if (seed)
        return is_sent(in)
                   ? 0
                   : (int)(weft_random_bits(seed, (uint64_t)a, (uint64_t)i) % (uint64_t)n_queues);
    if (in->kind == WEFT_POST_RECV && n_queues > 2)
        return WEFT_QUEUE_TRANSFERS;
    return in->kind == WEFT_COLLECTIVE && (weft_get_mark(in->node, WEFT_MARK_GROUP) ||
                                           weft_get_mark(in->node, WEFT_MARK_PREFETCH));
}

/* Of those that are waited for. */
static void number_events(weft_lowered *l, const weft_program *p)
{
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < p->list[i].n_waits; k++) {
            weft_instruction *on = &p->list[p->list[i].waits[k]];
            if (on->event < 0)
                on->event = l->n_events++;
        }
}

static weft_status plan_program(weft_lowered *l, weft_program *p, weft_access *space, int most,
                                queues *c, uint64_t seed, weft_error *err)
{
    weft_status s = WEFT_OK;
    int on[WEFT_MOST_QUEUES], a = (int)(p - l->programs);
    for (int q = 0; q < c->n; q++)
        c->last[q] = -1;
    for (int i = 0; i < p->n && !s; i++) {
        const int queue = p->list[i].queue = queue_of(&p->list[i], c->n, seed, a, i);
        c->before[i] = c->last[queue];
        c->last[queue] = i;
        weft_clock_fill(p, i, c->clock);
        find_conflicts(l, p, i, on, space, space + most, c);
        s = plan(l, p, i, on, c, err);
    }
    number_events(l, p);
    return s;
}

weft_status weft_plan_waits(weft_lowered *l, int n_queues, uint64_t seed, weft_error *err)
{
    if (n_queues < 2) /* everything on queue 0 */
        return WEFT_OK;
    n_queues = n_queues < WEFT_MOST_QUEUES ? n_queues : WEFT_MOST_QUEUES;
    int most = weft_most_accesses(l), longest = 0;
    for (int a = 0; a < l->n_programs; a++)
        longest = l->programs[a].n > longest ? l->programs[a].n : longest;
    weft_access *space = weft_alloc(2 * (size_t)most * sizeof *space);
    queues c = {.clock = weft_alloc(((size_t)longest + 1) * sizeof *c.clock),
                .before = weft_alloc(((size_t)longest + 1) * sizeof(int)),
                .n = n_queues};
    weft_status s = space && c.clock && c.before ? WEFT_OK : weft_fail_memory(err);
    for (int a = 0; a < l->n_programs && !s; a++)
        s = plan_program(l, &l->programs[a], space, most, &c, seed, err);
    weft_free(space);
    weft_free(c.clock);
    weft_free(c.before);
    return s;
}
