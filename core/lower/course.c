/* SPDX-License-Identifier: Apache-2.0 */
/* When the tasks of a rank's list run, were the rank alone: queues, what instructions wait for, and
 * where queues meet between tasks, as run/tasks.c, streams.c and captured.c have them. */
#include "lower/roofline.h"

#include <math.h>
#include <string.h>

/* The body that was enqueued last, and the prologues of two tasks at most, are still asked for. */
enum { REMEMBERED = 3 };

typedef struct clock {
    const weft_roofline *r;
    const weft_lowered *l;
    double queue[WEFT_MOST_QUEUES];
    double ends[2][WEFT_MOST_QUEUES]; /* of the last two bodies, on each queue */
    int ended;
    double ring;                       /* when what was last sent to the next rank has come there */
    int before;                        /* the task whose body that was; NONE: all are in step */
    bool before_captured;              /* so it is waited for as a whole */
    weft_task_time *times[REMEMBERED]; /* by task, modulo; of its instructions */
    const weft_course_watch *watch;
} clock;

enum { NONE = -1 };

static const weft_program *program_at(const clock *c, int task)
{
    const weft_task *t = &c->l->tasks->list[task];
    return weft_lowered_program(c->l, t->part, t->stage);
}

/* ---- queues ---- */

static int queue_of(const clock *c, int queue)
{
    return c->r->in_turn ? WEFT_QUEUE_COMPUTE : queue;
}

static double latest(const double *ends)
{
    return fmax(ends[WEFT_QUEUE_COMPUTE], ends[WEFT_QUEUE_COLLECTIVES]);
}

/* What is on the queue of transfers is waited for by itself. */
static void await_all(clock *c, const double *ends)
{
    for (int q = 0; q < WEFT_MOST_QUEUES; q++)
        c->queue[q] = fmax(c->queue[q], latest(ends));
}

static void meet(clock *c)
{
    await_all(c, c->queue);
    c->before = NONE;
}

static void pass_on(clock *c, int task, bool captured)
{
    const bool met = c->before == NONE;
    c->before = task;
    c->before_captured = captured;
    c->ended ^= 1;
    memcpy(c->ends[c->ended], c->queue, sizeof c->queue);
    if (!met)
        await_all(c, c->ends[c->ended ^ 1]);
}

/* ---- instructions ---- */

static double after_own(const weft_instruction *in, const weft_task_time *times)
{
    double time = 0;
    for (int k = 0; k < in->n_waits; k++)
        time = fmax(time, times[in->waits[k]].end);
    return time;
}

static double after_before(const clock *c, const weft_boundary *b, int i)
{
    double time = 0;
    for (int k = 0; b && k < b->n_waits; k++) {
        const int on = b->waits[k].before;
        if (b->waits[k].after == i)
            time = fmax(time, c->before_captured
                                  ? c->ends[c->ended][c->l->programs[b->before].list[on].queue]
                                  : c->times[c->before % REMEMBERED][on].end);
    }
    return time;
}

/* All ranks of a ring are alike: what this one is sent comes when what it sends is there. */
static double arrival(const weft_program *p, int i, const weft_task_time *times)
{
    for (int k = i - 1; k >= 0; k--)
        if (p->list[k].kind == WEFT_POST_SEND && p->list[k].node == p->list[i].node)
            return times[k].end;
    return 0;
}

static void run_one(clock *c, const weft_program *p, const weft_boundary *b, int i, int task)
{
    const weft_instruction *in = &p->list[i];
    weft_task_time *times = c->times[task % REMEMBERED];
    double *queue = &c->queue[queue_of(c, in->queue)], start = *queue;
    const double seconds = weft_roofline_cost(c->r, c->l, in).seconds;
    const bool shift = weft_node_shifts(in->node),
               beside = shift && in->kind == WEFT_POST_SEND && !c->r->in_turn;
    if (!c->r->in_turn)
        start = fmax(start, fmax(after_own(in, times), after_before(c, b, i)));
    if (beside)
        start = fmax(start, c->ring);
    if (shift && in->kind == WEFT_AWAIT)
        start = fmax(start, arrival(p, i, times));
    times[i] = (weft_task_time){start, start + seconds};
    if (beside)
        c->ring = times[i].end; /* its queue goes on: the wait is another instruction */
    else
        *queue = times[i].end;
    if (c->watch)
        c->watch->see(c->watch->self, task, in, &times[i]);
}

/* ---- tasks ---- */

/* NULL: all before is done. */
static const weft_boundary *cross(clock *c, const weft_program *p, bool prologue)
{
    if (c->before == NONE)
        return NULL;
    const weft_boundary *b = weft_lowered_boundary(c->l, program_at(c, c->before), p, prologue);
    if (!b)
        meet(c);
    return b;
}

static void run_prologue(clock *c, int task)
{
    const weft_program *p = program_at(c, task);
    const weft_boundary *b = p->n_prologue ? cross(c, p, true) : NULL;
    for (int i = 0; i < p->n_prologue; i++)
        run_one(c, p, b, i, task);
}

/* What is captured on several queues waits for all of them, and all for it. */
static void run_body(clock *c, int task)
{
    const weft_program *p = program_at(c, task);
    const weft_boundary *b = cross(c, p, false);
    const bool captured = c->r->captures && weft_task_repeats(p, b, c->r->captures_sent);
    const bool forks = captured && !weft_program_is_on_first(p);
    if (forks)
        await_all(c, c->queue);
    for (int i = p->n_prologue; i < p->n; i++)
        run_one(c, p, b, i, task);
    if (forks)
        meet(c);
    else
        pass_on(c, task, captured);
}

/* A stretch of the list that the host enqueues before it waits. */
static void run_tasks(clock *c, int from, int to, weft_task_time *out)
{
    const weft_task *list = c->l->tasks->list;
    if (from < to)
        run_prologue(c, from);
    for (int t = from; t < to; t++) {
        const bool makes = list[t].part == WEFT_PART_BEGIN; /* what prologues read */
        const double start = t > 0 ? out[t - 1].end : 0;
        if (t + 1 < to && !makes)
            run_prologue(c, t + 1);
        run_body(c, t);
        if (t + 1 < to && makes)
            run_prologue(c, t + 1);
        if (t + 1 == to)
            meet(c);
        out[t] = (weft_task_time){start, fmax(start, c->queue[WEFT_QUEUE_COMPUTE])};
    }
}

static bool reserve(clock *c)
{
    int longest = 1;
    bool ok = true;
    for (int i = 0; i < c->l->n_programs; i++)
        longest = c->l->programs[i].n > longest ? c->l->programs[i].n : longest;
    for (int i = 0; i < REMEMBERED && ok; i++) {
        c->times[i] = weft_alloc((size_t)longest * sizeof *c->times[i]);
        ok = c->times[i] != NULL;
    }
    return ok;
}

weft_status weft_roofline_course(const weft_roofline *r, const weft_lowered *l,
                                 const weft_course_watch *watch, weft_task_time *out,
                                 weft_error *err)
{
    clock c = {.r = r, .l = l, .before = NONE, .watch = watch};
    const weft_task_list *tasks = l->tasks;
    int update = 0;
    while (update < tasks->n && tasks->list[update].part != WEFT_PART_UPDATE)
        update++;
    const bool ok = reserve(&c);
    if (ok) {
        run_tasks(&c, 0, update, out);
        run_tasks(&c, update, tasks->n, out);
    }
    for (int i = 0; i < REMEMBERED; i++)
        weft_free(c.times[i]);
    return ok ? WEFT_OK : weft_fail_memory(err);
}
