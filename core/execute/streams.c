/* SPDX-License-Identifier: Apache-2.0 */
/* Programs on a device that computes later than it is told to: what instructions on other queues
 * wait for becomes events, and the host waits where it reads, nowhere else.
 *
 * A list of tasks begins and ends with all queues in step. In between the queues meet one task
 * late: what a task enqueues comes behind all of the tasks before the last, and of the last one's
 * body behind what the plan says (weft_boundary). What a prologue begins is enqueued before the
 * body of the task before it, and so lies before it on its queue. Nobody waits for the queue of
 * transfers in that way, but for each transfer by itself. */
#include "execute/streams.h"

/* ---- life ---- */

static int count_queues(const weft_plan *plan)
{
    int n = plan->device->n_queues;
    return n < 1 ? 1 : n > WEFT_MOST_QUEUES ? WEFT_MOST_QUEUES : n;
}

static weft_status create_events(const weft_plan *plan, weft_device_event **list, int n,
                                 weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < n && !s; i++)
        s = plan->device->event_create(plan->device_self, &list[i], err);
    return s;
}

static bool reads_inputs_beside(const weft_lowered *l)
{
    for (int a = 0; a < l->n_programs + l->n_variants; a++)
        for (int i = 0; i < l->programs[a].n; i++) {
            const weft_instruction *in = &l->programs[a].list[i];
            for (int k = 0; k < in->n_ins + in->n_outs && in->queue != WEFT_QUEUE_COMPUTE; k++)
                if (in->buffers[k] >= 0 && l->buffers[in->buffers[k]].base == WEFT_BASE_INPUT)
                    return true;
        }
    return false;
}

weft_status weft_streams_create(weft_run *run, weft_error *err)
{
    const weft_plan *plan = run->plan;
    if (!weft_device_is_async(plan))
        return WEFT_OK;
    struct weft_streams *q = run->streams = weft_alloc_zero(1, sizeof *q);
    if (!q || !(q->tags = weft_alloc_zero(WEFT_MOST_TAGS, sizeof *q->tags)))
        return weft_fail_memory(err);
    q->n_queues = count_queues(plan);
    weft_status s = create_events(plan, q->marks, q->n_queues, err);
    for (int i = 0; i < 2 && !s; i++)
        s = create_events(plan, q->ends[i], q->n_queues, err);
    for (int m = 0; m < WEFT_MODES && !s; m++) {
        const weft_lowered *l = plan->lowered[m];
        q->reads_beside[m] = l && reads_inputs_beside(l);
        if (!l || !l->n_events)
            continue;
        q->events[m] = weft_alloc_zero((size_t)l->n_events, sizeof(weft_device_event *));
        s = q->events[m] ? create_events(plan, q->events[m], l->n_events, err)
                         : weft_fail_memory(err);
    }
    return s;
}

static void destroy_events(const weft_plan *plan, weft_device_event **list, int n)
{
    for (int i = 0; list && i < n; i++)
        if (list[i])
            plan->device->event_destroy(plan->device_self, list[i]);
}

void weft_streams_destroy(weft_run *run)
{
    struct weft_streams *q = run->streams;
    if (!q)
        return;
    destroy_events(run->plan, q->marks, q->n_queues);
    for (int i = 0; i < 2; i++)
        destroy_events(run->plan, q->ends[i], q->n_queues);
    for (int m = 0; m < WEFT_MODES; m++) {
        if (q->events[m])
            destroy_events(run->plan, q->events[m], run->plan->lowered[m]->n_events);
        weft_free(q->events[m]);
    }
    weft_free(q->tags);
    weft_free(q);
    run->streams = NULL;
}

/* ---- order ---- */

weft_status weft_streams_order(weft_run *run, int from, int to, weft_error *err)
{
    struct weft_streams *q = run->streams;
    if (!q || from == to)
        return WEFT_OK;
    weft_status s = weft_device_record(run->plan, from, q->marks[from], err);
    return s ? s : weft_device_await(run->plan, to, q->marks[from], err);
}

static weft_status record_all(const weft_run *run, weft_device_event *const *events,
                              weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int from = 0; from < run->streams->n_queues && !s; from++)
        if (!weft_is_transfers(from))
            s = weft_device_record(run->plan, from, events[from], err);
    return s;
}

static weft_status await_all(const weft_run *run, weft_device_event *const *events, weft_error *err)
{
    const int n = run->streams->n_queues;
    weft_status s = WEFT_OK;
    for (int from = 0; from < n && !s; from++)
        for (int to = 0; to < n && !weft_is_transfers(from) && !s; to++)
            if (to != from)
                s = weft_device_await(run->plan, to, events[from], err);
    return s;
}

weft_status weft_streams_join(weft_run *run, weft_error *err)
{
    struct weft_streams *q = run->streams;
    if (!q)
        return WEFT_OK;
    weft_walk_meet(&q->walk);
    weft_status s = record_all(run, q->marks, err);
    return s ? s : await_all(run, q->marks, err);
}

/* What comes next waits for this body only where the plan says so, for those before in any case. */
weft_status weft_streams_leave(weft_run *run, weft_error *err)
{
    struct weft_streams *q = run->streams;
    if (!q)
        return WEFT_OK;
    q->ended ^= 1;
    weft_status s = record_all(run, q->ends[q->ended], err);
    return s || !q->walk.before ? s : await_all(run, q->ends[q->ended ^ 1], err);
}

weft_walk *weft_streams_walk(weft_run *run, weft_walk *alone)
{
    return run->streams ? &run->streams->walk : alone;
}

static weft_status await_event(weft_run *run, const weft_lowered *l, int queue,
                               const weft_instruction *on, weft_error *err)
{
    return weft_device_await(run->plan, queue,
                             run->streams->events[l->graph->config.mode][on->event], err);
}

weft_status weft_streams_enter(weft_run *run, weft_error *err)
{
    if (!run->streams)
        return WEFT_OK;
    run->streams->crossed = 0;
    return run->streams->walk.step.meets ? weft_streams_join(run, err) : WEFT_OK;
}

/* What comes before instruction `to` of the walk's step, for what it must of the task before. */
static weft_status await_boundary(weft_run *run, const weft_lowered *l, int queue, int to,
                                  weft_error *err)
{
    struct weft_streams *q = run->streams;
    const weft_boundary *b = q->walk.step.boundary;
    weft_status s = WEFT_OK;
    for (; b && q->crossed < b->n_waits && b->waits[q->crossed].after < to && !s; q->crossed++)
        s = await_event(run, l, queue, &q->walk.before->list[b->waits[q->crossed].before], err);
    return s;
}

/* in, for those of its own task from `from` to `to`. */
static weft_status await_own(weft_run *run, const weft_lowered *l, const weft_program *p,
                             const weft_instruction *in, int from, int to, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < in->n_waits && !s; i++)
        if (in->waits[i] >= from && in->waits[i] < to)
            s = await_event(run, l, in->queue, &p->list[in->waits[i]], err);
    return s;
}

weft_status weft_streams_before(weft_run *run, const weft_lowered *l, const weft_program *p,
                                const weft_instruction *in, int64_t micro, weft_error *err)
{
    const struct weft_streams *q = run->streams;
    if (!q)
        return WEFT_OK;
    if (q->kept.to) /* for all else its span has waited */
        return await_own(run, l, p, in, q->kept.from, p->n, err);
    weft_status s = await_boundary(run, l, in->queue, (int)(in - p->list) + 1, err);
    s = s ? s : await_own(run, l, p, in, 0, p->n, err);
    weft_streams_tag(run, in->queue, (weft_tagged){.in = in, .program = p, .micro = micro});
    return s;
}

weft_status weft_streams_after(weft_run *run, const weft_lowered *l, const weft_instruction *in,
                               weft_error *err)
{
    if (!run->streams || in->event < 0)
        return WEFT_OK;
    return weft_device_record(run->plan, in->queue,
                              run->streams->events[l->graph->config.mode][in->event], err);
}

int weft_streams_transfers(const weft_run *run, const weft_instruction *in)
{
    return run->streams && run->streams->n_queues > WEFT_QUEUE_TRANSFERS ? WEFT_QUEUE_TRANSFERS
                                                                         : in->queue;
}

weft_status weft_streams_uploaded(weft_run *run, const weft_lowered *l, weft_error *err)
{
    const struct weft_streams *q = run->streams;
    return q && q->reads_beside[l->graph->config.mode] ? weft_streams_join(run, err) : WEFT_OK;
}

/* ---- spans that the device keeps: what they wait for, and who for them, lies outside ---- */

/* The first queue waits for all others; forks: what they get comes behind what it has. */
static weft_status gather_queues(weft_run *run, bool forks, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 1; i < run->streams->n_queues && !s && run->streams->kept.forks; i++)
        if (!weft_is_transfers(i))
            s = weft_streams_order(run, forks ? WEFT_QUEUE_COMPUTE : i,
                                   forks ? i : WEFT_QUEUE_COMPUTE, err);
    return s;
}

weft_status weft_streams_begin(weft_run *run, const weft_lowered *l, const weft_task *task,
                               int from, int *to, bool *replayed, weft_error *err)
{
    struct weft_streams *q = run->streams;
    if (!q || !q->walk.keeps)
        return WEFT_OK;
    const weft_program *p = q->walk.step.program;
    const weft_captured span = weft_walk_captured(&q->walk, from);
    *to = span.from > from ? span.from : span.to;
    if (span.from > from)
        return WEFT_OK;
    weft_streams_tag(run, WEFT_QUEUE_COMPUTE,
                     (weft_tagged){.program = p, .micro = task->micro_batch});
    weft_status s = await_boundary(run, l, WEFT_QUEUE_COMPUTE, *to, err);
    for (int i = from; i < *to && !s; i++)
        s = await_own(run, l, p, &p->list[i], 0, from, err);
    q->kept = span;
    s = s ? s : gather_queues(run, false, err);
    s = s ? s
          : run->plan->device->begin(run->plan->device_self, weft_walk_key(&q->walk, from),
                                     replayed, err);
    return s || *replayed ? s : gather_queues(run, true, err);
}

weft_status weft_streams_end(weft_run *run, const weft_lowered *l, bool replayed, weft_error *err)
{
    struct weft_streams *q = run->streams;
    if (!q || !q->kept.to)
        return WEFT_OK;
    weft_status s = replayed ? WEFT_OK : gather_queues(run, false, err);
    s = s ? s : run->plan->device->end(run->plan->device_self, err);
    s = s ? s : gather_queues(run, true, err);
    for (int i = q->kept.from; i < q->kept.to && !s; i++) /* outside, for those behind it */
        s = weft_streams_after(run, l, &q->walk.step.program->list[i], err);
    q->kept = (weft_captured){0};
    return s;
}
