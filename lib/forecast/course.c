/* SPDX-License-Identifier: Apache-2.0 */
/* When the tasks of a rank's list run, were the rank alone: queues, what instructions wait for, and
 * where queues meet between tasks. */
#include "forecast/course.h"

#include <limits.h>
#include <math.h>
#include <string.h>

typedef weft_course course;

/* ---- queues ---- */

static int queue_of(const course *c, int queue)
{
    return c->r->in_turn ? WEFT_QUEUE_COMPUTE : queue;
}

static double latest(const double *ends)
{
    return fmax(fmax(ends[WEFT_QUEUE_COMPUTE], ends[WEFT_QUEUE_COLLECTIVES]),
                ends[WEFT_QUEUE_PIECES]);
}

/* What is on the queue of transfers is waited for by itself. */
static void await_all(course *c, const double *ends)
{
    for (int q = 0; q < WEFT_MOST_QUEUES; q++)
        c->queue[q] = fmax(c->queue[q], latest(ends));
}

static void pass_on(course *c)
{
    c->ended ^= 1;
    memcpy(c->ends[c->ended], c->queue, sizeof c->queue);
    if (c->walk.before)
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

static double after_before(const course *c, const weft_boundary *b, int i)
{
    double time = 0;
    for (int k = 0; b && k < b->n_waits; k++) {
        const int on = b->waits[k].before;
        if (b->waits[k].after == i)
            time = fmax(time, c->times[c->walk.before_index % WEFT_REMEMBERED][on].end);
    }
    return time;
}

/* Where what is sent is handed over to the transport: behind all of in's queue. */
static double hand_over(course *c, const weft_instruction *in)
{
    const int on = queue_of(c, c->r->transfers ? WEFT_QUEUE_TRANSFERS : in->queue);
    c->queue[on] = fmax(c->queue[on], c->queue[queue_of(c, in->queue)]);
    return c->queue[on];
}

/* All ranks of a ring are alike: what this one is sent comes when what it sends is there. That goes
 * on beside the queues, one after the other. A rank sends by the transfer behind the one that it
 * receives by, and awaits both at once. */
static weft_task_time shift_on(course *c, const weft_instruction *in, double seconds)
{
    double *arrives = &c->arrives[in->transfer - 1];
    const double start = fmax(fmax(hand_over(c, in), *arrives), c->ring);
    *arrives = c->ring = start + seconds;
    return (weft_task_time){start, c->ring};
}

bool weft_course_is_far(const weft_instruction *in)
{
    return in->kind == WEFT_FETCH || in->kind == WEFT_EVICT;
}

bool weft_course_sums(const weft_instruction *in)
{
    return in->kind == WEFT_FETCH && in->node->ins[0]->kind == WEFT_STATE_STEP;
}

/* Has the disk nothing to do with it? */
static bool begins_sum(const course *c, const weft_instruction *in)
{
    return weft_course_sums(in) && !c->summed[in->transfer];
}

/* One transfer after the other, both ways: it is one disk. */
static weft_task_time far_on(course *c, const weft_instruction *in, double start, double seconds)
{
    start = fmax(start, c->far);
    c->arrives[in->transfer] = c->far = start + seconds;
    return (weft_task_time){start, c->far};
}

/* Zeros, from no disk. */
static weft_task_time begin_sum(course *c, const weft_instruction *in, double start)
{
    weft_instruction zeros = *in;
    zeros.kind = WEFT_ZERO_FILL;
    zeros.n_ins = 0;
    zeros.tensors = &in->tensors[in->n_ins];
    const double end = start + weft_roofline_cost(c->r, c->l, &zeros).seconds;
    c->summed[in->transfer] = true;
    c->arrives[in->transfer] = c->queue[queue_of(c, in->queue)] = end;
    return (weft_task_time){start, end};
}

static bool goes_beside(const course *c, const weft_instruction *in)
{
    if (weft_course_is_far(in))
        return true;
    return weft_node_shifts(in->node) && in->kind == WEFT_POST_SEND && !c->r->in_turn;
}

/* Later than `start` if others make it wait. false: it is not known how long. */
static bool await_others(course *c, const weft_instruction *in, double *start)
{
    double all = -1, before = 0;
    if (!c->pipeline)
        return true;
    if (weft_course_passes_on(in) && in->kind != WEFT_POST_RECV) {
        if (!weft_pipeline_has_place(c, in) && !weft_pipeline_await(c, in->transfer, &all))
            return false;
    } else if (in->kind == WEFT_COLLECTIVE &&
               (before = weft_roofline_before_stages(c->r, c->l, in)) >= 0) {
        if (!weft_pipeline_meet(c, *start + before, &all))
            return false;
        all -= before;
    }
    if (all > *start && queue_of(c, in->queue) == WEFT_QUEUE_COMPUTE)
        c->stood += all - *start;
    *start = fmax(*start, all);
    return true;
}

/* What is sent on another queue takes multiprocessors, and memory's rate, from what is computed. */
static void slow_down(course *c, const weft_instruction *in, double seconds)
{
    if (in->kind == WEFT_COLLECTIVE && queue_of(c, in->queue) != WEFT_QUEUE_COMPUTE)
        c->queue[WEFT_QUEUE_COMPUTE] += c->r->rates.beside * seconds;
}

/* Where it stands on its queue; but what goes on beside that, until it has come. */
static weft_task_time pass_queue(course *c, const weft_instruction *in, double seconds,
                                 double start, weft_task_time *on_queue)
{
    if (begins_sum(c, in))
        return *on_queue = begin_sum(c, in, start);
    const bool beside = goes_beside(c, in);
    const double end = beside ? start : start + seconds;
    c->queue[queue_of(c, in->queue)] = end;
    slow_down(c, in, seconds);
    *on_queue = (weft_task_time){start, end};
    if (weft_course_is_far(in))
        return far_on(c, in, start, seconds);
    if (beside)
        return shift_on(c, in, seconds);
    if (weft_node_shifts(in->node) && in->kind == WEFT_POST_RECV)
        c->arrives[in->transfer] = end; /* not before */
    else if (c->pipeline && weft_course_passes_on(in) && in->kind != WEFT_AWAIT)
        weft_pipeline_post(c, in, in->kind == WEFT_POST_SEND ? hand_over(c, in) : start);
    return *on_queue;
}

/* The host waits until it has what it sends on, or what it has received. */
static bool holds_host(const course *c, const weft_instruction *in)
{
    return c->r->through_host &&
           (in->kind == WEFT_COLLECTIVE || in->kind == WEFT_POST_SEND || in->kind == WEFT_AWAIT);
}

static bool run_one(course *c, const weft_program *p, int i, int task)
{
    const weft_instruction *in = &p->list[i];
    weft_task_time *times = c->times[task % WEFT_REMEMBERED];
    if (c->enqueued <= i) { /* and not again, when it goes on behind a wait for others */
        c->host += i < c->span.from    ? c->host_s[p - c->l->programs][i]
                   : i == c->span.from ? c->r->rates.enqueue_s
                                       : 0;
        c->enqueued = i + 1;
    }
    double start = c->queue[queue_of(c, in->queue)];
    if (!c->r->in_turn)
        start = fmax(start, fmax(after_own(in, times), after_before(c, c->walk.step.boundary, i)));
    if (in->kind == WEFT_ARRIVE || (weft_node_shifts(in->node) && in->kind == WEFT_AWAIT))
        start = fmax(start, c->arrives[in->transfer]);
    const double ready = start;
    start = fmax(start, c->host);
    if (!await_others(c, in, &start))
        return false;
    if (queue_of(c, in->queue) == WEFT_QUEUE_COMPUTE && !c->r->through_host)
        c->starved += fmax(0, c->host - ready);
    const weft_task_time seen =
        pass_queue(c, in, c->seconds[p - c->l->programs][i], start, &times[i]);
    if (holds_host(c, in))
        c->host = times[i].end;
    if (c->watch)
        c->watch->see(c->watch->self, task, in, &seen);
    return true;
}

/* ---- tasks ---- */

static void begin_micro_batch(course *c, const weft_walk_step *s)
{
    if (s->kind != WEFT_WALK_BODY || s->program->part != WEFT_PART_F ||
        c->r->rates.micro_batch_s <= 0)
        return;
    c->host = fmax(c->host, latest(c->queue)) + c->r->rates.micro_batch_s;
}

static void enter(course *c, const weft_walk_step *s)
{
    const bool body = s->kind == WEFT_WALK_BODY;
    if (s->meets)
        await_all(c, c->queue);
    c->at = c->enqueued = body ? s->program->n_prologue : 0;
    c->span = body ? weft_walk_captured(&c->walk, c->at) : (weft_captured){INT_MAX, INT_MAX, false};
    begin_micro_batch(c, s);
    c->entered = true;
}

/* What is kept on several queues waits for all of them, and all for it. */
static void pass_span(course *c, int next)
{
    const bool ends = next == c->span.to;
    if (ends && c->span.forks)
        await_all(c, c->queue);
    for (int i = c->span.from; i < next && ends && c->span.forks; i++)
        c->times[c->walk.step.index % WEFT_REMEMBERED][i].end = c->queue[WEFT_QUEUE_COMPUTE];
    if (ends)
        c->span = weft_walk_captured(&c->walk, next);
    if (c->span.forks && next == c->span.from)
        await_all(c, c->queue);
}

/* false: it waits for another rank in the middle. */
static bool run_some(course *c, const weft_walk_step *s)
{
    const bool body = s->kind == WEFT_WALK_BODY;
    const int end = body ? s->program->n : s->program->n_prologue;
    if (!c->entered)
        enter(c, s);
    for (; c->at < end; c->at++) {
        pass_span(c, c->at);
        if (!run_one(c, s->program, c->at, s->index))
            return false;
    }
    pass_span(c, end);
    if (body)
        pass_on(c);
    return true;
}

/* Where the host waits, all that was sent is over. false: nobody knows when. */
static bool end_task(course *c, const weft_walk_step *s)
{
    const double start = s->index > 0 ? c->out[s->index - 1].end : 0;
    if (s->last)
        await_all(c, c->queue);
    for (int i = 0; s->last && c->pipeline && i < c->l->n_transfers; i++)
        for (double over = 0; over >= 0;) {
            if (!weft_pipeline_await(c, i, &over))
                return false;
            c->queue[WEFT_QUEUE_COMPUTE] = fmax(c->queue[WEFT_QUEUE_COMPUTE], over);
        }
    if (s->last) {
        await_all(c, c->queue);
        c->host = fmax(c->host, c->queue[WEFT_QUEUE_COMPUTE]);
    }
    const double end = fmax(start, c->queue[WEFT_QUEUE_COMPUTE]);
    c->out[s->index] = (weft_task_time){fmin(start + c->stood, end), end};
    c->stood = 0;
    return true;
}

bool weft_course_is_through(const weft_course *c)
{
    return c->through;
}

bool weft_course_advance(weft_course *c)
{
    const int64_t made = c->made;
    const int at = c->at;
    while (!c->through) {
        const weft_walk_step *s = &c->walk.step;
        if (!c->begun && !weft_walk_next(&c->walk)) {
            c->through = true;
            break;
        }
        c->begun = true;
        if (!(s->kind == WEFT_WALK_OVER ? end_task(c, s) : run_some(c, s)))
            break;
        c->begun = c->entered = false;
        c->made++;
    }
    return c->made != made || c->at != at;
}

/* ---- life ---- */

/* What each instruction takes, and the host to enqueue it, is the same in every task. */
static bool find_seconds(weft_course *c)
{
    const weft_lowered *l = c->l;
    const int n = l->n_programs + l->n_variants;
    c->seconds = weft_alloc_zero((size_t)n + 1, sizeof *c->seconds);
    c->host_s = weft_alloc_zero((size_t)n + 1, sizeof *c->host_s);
    bool ok = c->seconds && c->host_s;
    for (int a = 0; a < n && ok; a++) {
        const weft_program *p = &l->programs[a];
        c->seconds[a] = weft_alloc(((size_t)p->n + 1) * sizeof **c->seconds);
        c->host_s[a] = weft_alloc(((size_t)p->n + 1) * sizeof **c->host_s);
        ok = c->seconds[a] && c->host_s[a];
        for (int i = 0; i < p->n && ok; i++) {
            c->seconds[a][i] = weft_roofline_cost(c->r, l, &p->list[i]).seconds;
            c->host_s[a][i] = weft_roofline_enqueue(c->r, l, &p->list[i]);
        }
    }
    return ok;
}

weft_status weft_course_begin(weft_course *c, weft_error *err)
{
    int longest = 1;
    bool ok = true;
    weft_walk_init(&c->walk, c->l, WEFT_PART_BEGIN, WEFT_PART_UPDATE);
    c->walk.runs = c->r->runs;
    c->walk.keeps = c->r->captures;
    c->walk.communicates = c->r->captures_sent;
    c->arrives = weft_alloc_zero((size_t)c->l->n_transfers + 1, sizeof *c->arrives);
    c->summed = weft_alloc_zero((size_t)c->l->n_transfers + 1, sizeof *c->summed);
    for (int i = 0; i < c->l->n_programs + c->l->n_variants; i++)
        longest = c->l->programs[i].n > longest ? c->l->programs[i].n : longest;
    for (int i = 0; i < WEFT_REMEMBERED && ok; i++) {
        c->times[i] = weft_alloc((size_t)longest * sizeof *c->times[i]);
        ok = c->times[i] != NULL;
    }
    ok = ok && find_seconds(c);
    return ok && c->arrives && c->summed ? WEFT_OK : weft_fail_memory(err);
}

void weft_course_end(weft_course *c)
{
    for (int a = 0; a < c->l->n_programs + c->l->n_variants; a++) {
        if (c->seconds)
            weft_free(c->seconds[a]);
        if (c->host_s)
            weft_free(c->host_s[a]);
    }
    weft_free(c->seconds);
    weft_free(c->host_s);
    weft_free(c->arrives);
    weft_free(c->summed);
    for (int i = 0; i < WEFT_REMEMBERED; i++)
        weft_free(c->times[i]);
}

weft_status weft_roofline_course(const weft_roofline *r, const weft_lowered *l,
                                 const weft_course_watch *watch, weft_task_time *out,
                                 weft_error *err)
{
    weft_course c = {.r = r, .l = l, .watch = watch, .out = out};
    weft_status s = weft_course_begin(&c, err);
    if (!s)
        weft_course_advance(&c);
    weft_course_end(&c);
    return s;
}
