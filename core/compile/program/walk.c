/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a list, and where queues meet in it. Uploads wait for nobody. */
#include "compile/program/walk.h"

#include <weft/random.h>

/* A prologue stands before the body of the task before it; behind it, if that makes what prologues
 * read. The host waits behind a stretch of the list. */
enum { FIRST, AHEAD, BODY, BEHIND, OVER, PHASES };
enum { NONE = -1 };

/* Is what it enqueues the same at the same places in memory? communicates: of collectives, too. */
static bool repeats(const weft_instruction *in, bool communicates)
{
    switch (in->kind) {
    case WEFT_ZERO_FILL:
    case WEFT_COPY:
        return !in->fetch;
    case WEFT_COMPUTE:
        return in->kernel && !in->fetch;
    case WEFT_COLLECTIVE:
        return communicates && !in->fetch;
    case WEFT_OBSERVE:
    case WEFT_POST_SEND:
    case WEFT_POST_RECV:
    case WEFT_AWAIT:
    case WEFT_FETCH:
    case WEFT_EVICT:
    case WEFT_ARRIVE:
        break;
    }
    return false;
}

/* On the first queue alone nothing in the middle of a span waits for others, nor others for it. */
static bool goes_on(const weft_instruction *list, int from, int i)
{
    bool alone = list[i].queue == WEFT_QUEUE_COMPUTE;
    for (int k = 0; k < list[i].n_waits && i > from; k++)
        alone = alone && list[i].waits[k] >= from;
    return alone && (i == from || (list[i - 1].event < 0 && !list[i].crosses));
}

weft_captured weft_walk_captured(const weft_walk *w, int from)
{
    enum { LEAST = 3 }; /* fewer cost the host no more one by one */
    const weft_program *p = w->step.program;
    const bool all = w->communicates;
    for (; w->keeps && from < p->n; from++) {
        int alone = from, to = from;
        bool forks = false;
        for (; to < p->n && (all || alone == to) && repeats(&p->list[to], all); to++) {
            forks = forks || (all && p->list[to].queue != WEFT_QUEUE_COMPUTE);
            alone += alone == to && goes_on(p->list, from, to);
        }
        to = forks ? to : alone;
        if (to - from >= LEAST)
            return (weft_captured){from, to, forks};
    }
    return (weft_captured){p->n, p->n, false};
}

uint64_t weft_walk_key(const weft_walk *w, int from)
{
    const int64_t what[] = {w->l->graph->config.mode, w->step.program - w->l->programs, from,
                            weft_program_like(w->step.program, w->step.task->micro_batch)};
    return weft_hash_bytes(0, what, sizeof what);
}

static int next_task(const weft_walk *w, int i)
{
    const weft_task_list *t = w->l->tasks;
    for (i++; i < t->n; i++)
        if (t->list[i].part >= w->first && t->list[i].part <= w->last)
            return i;
    return NONE;
}

void weft_walk_init(weft_walk *w, const weft_lowered *l, weft_part first, weft_part last)
{
    *w = (weft_walk){.l = l, .first = first, .last = last, .runs = WEFT_ALL_PERIODS, .fresh = true};
    w->task = next_task(w, NONE);
}

void weft_walk_meet(weft_walk *w)
{
    w->before = NULL;
    w->step.boundary = NULL;
    w->step.meets = false;
}

static bool is_update(const weft_walk *w, int task)
{
    return w->l->tasks->list[task].part == WEFT_PART_UPDATE;
}

/* Of those that the host enqueues before it waits. */
static bool is_last(const weft_walk *w)
{
    const int next = next_task(w, w->task);
    return next == NONE || (is_update(w, next) && !is_update(w, w->task));
}

/* Whose instructions come now; NONE: nobody's. */
static int task_of(const weft_walk *w, int phase)
{
    const bool makes = w->l->tasks->list[w->task].part == WEFT_PART_BEGIN;
    switch (phase) {
    case FIRST:
        return w->fresh ? w->task : NONE;
    case AHEAD:
        return makes || is_last(w) ? NONE : next_task(w, w->task);
    case BEHIND:
        return makes && !is_last(w) ? next_task(w, w->task) : NONE;
    default:
        return w->task;
    }
}

static void leave(weft_walk *w)
{
    const weft_walk_step *s = &w->step;
    if (s->kind == WEFT_WALK_BODY && s->program) {
        w->before = s->program;
        w->before_index = s->index;
    }
    if (s->kind == WEFT_WALK_OVER)
        w->fresh = s->last;
    if (s->last)
        w->before = NULL;
}

static void enter(weft_walk *w, weft_walk_step *s)
{
    const bool prologue = s->kind == WEFT_WALK_PROLOGUE;
    if (w->before && (!prologue || s->program->n_prologue)) {
        s->boundary = weft_lowered_boundary(w->l, w->before, s->program, prologue);
        s->meets = !s->boundary;
    }
    if (s->meets)
        w->before = NULL;
}

static bool has_prologue(const weft_lowered *l, const weft_program *p)
{
    return p->n_prologue > 0 || weft_lowered_uploads(l, p);
}

/* False: nothing comes in this phase. */
static bool begin_step(weft_walk *w, int phase)
{
    const int task = task_of(w, phase);
    if (task == NONE)
        return false;
    const weft_task *t = &w->l->tasks->list[task];
    w->step = (weft_walk_step){
        .kind = phase == BODY   ? WEFT_WALK_BODY
                : phase == OVER ? WEFT_WALK_OVER
                                : WEFT_WALK_PROLOGUE,
        .index = task,
        .task = t,
        .program = weft_lowered_pick(w->l, t, w->runs),
        .last = phase == OVER && is_last(w),
    };
    if (w->step.kind == WEFT_WALK_PROLOGUE && !has_prologue(w->l, w->step.program))
        return false;
    if (phase != OVER)
        enter(w, &w->step);
    return true;
}

bool weft_walk_next(weft_walk *w)
{
    leave(w);
    while (w->task != NONE) {
        const int phase = w->phase;
        const bool there = begin_step(w, phase);
        w->phase = (phase + 1) % PHASES;
        if (phase == OVER)
            w->task = next_task(w, w->task);
        if (there)
            return true;
    }
    return false;
}
