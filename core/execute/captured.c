/* SPDX-License-Identifier: Apache-2.0 */
/* Around a task's body. Where all that it enqueues is the same whenever it is at the same places in
 * memory, a device may keep it, and the host leaves it out from then on. What a kept task waits for
 * of others, and they of it, lies outside of it: so it has no events in common with them, and a
 * task that waits for others in the middle is not kept, for all of it would wait. */
#include "execute/streams.h"

static bool may_be_captured(const weft_run *run, const weft_program *p)
{
    return run->plan->device->begin && !run->shows_instructions && !run->check_finite &&
           weft_task_repeats(p, run->streams->boundary, run->streams->communicates);
}

/* The same for the same places in memory: those of inputs and other values that lie in slots. */
static uint64_t key_of(const weft_lowered *l, const weft_program *p, int64_t micro)
{
    return (uint64_t)l->graph->config.mode << 60 | (uint64_t)(p - l->programs) << 40 |
           (uint64_t)(weft_program_like(p, micro) + 1);
}

weft_status weft_streams_prologue(weft_run *run, const weft_lowered *l, const weft_task *task,
                                  weft_error *err)
{
    return run->streams ? weft_streams_cross(
                              run, l, weft_lowered_program(l, task->part, task->stage), true, err)
                        : WEFT_OK;
}

/* What other queues get comes behind what the first one has. */
static weft_status fork_queues(weft_run *run, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 1; i < run->streams->n_queues && !s; i++)
        if (!weft_is_transfers(i))
            s = weft_streams_order(run, WEFT_QUEUE_COMPUTE, i, err);
    return s;
}

/* The first queue waits for all others. */
static weft_status gather_queues(weft_run *run, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 1; i < run->streams->n_queues && !s; i++)
        if (!weft_is_transfers(i))
            s = weft_streams_order(run, i, WEFT_QUEUE_COMPUTE, err);
    return s;
}

weft_status weft_streams_begin(weft_run *run, const weft_lowered *l, const weft_task *task,
                               bool *replayed, weft_error *err)
{
    struct weft_streams *q = run->streams;
    const weft_program *p = weft_lowered_program(l, task->part, task->stage);
    if (!q)
        return WEFT_OK;
    weft_status s = weft_streams_cross(run, l, p, false, err);
    if (s || !may_be_captured(run, p))
        return s;
    weft_streams_tag(run, WEFT_QUEUE_COMPUTE,
                     (weft_tagged){.program = p, .micro = task->micro_batch});
    q->forks = !weft_program_is_on_first(p);
    s = q->forks ? gather_queues(run, err) : weft_streams_await(run, l, p, &p->list[0], err);
    s = s ? s : weft_device_begin(run->plan, key_of(l, p, task->micro_batch), replayed, err);
    q->captured = !s;
    return s || *replayed || !q->forks ? s : fork_queues(run, err);
}

static weft_status end_captured(weft_run *run, bool replayed, weft_error *err)
{
    struct weft_streams *q = run->streams;
    weft_status s = q->forks && !replayed ? gather_queues(run, err) : WEFT_OK;
    s = s ? s : weft_device_end(run->plan, err);
    q->captured = false;
    return s;
}

weft_status weft_streams_end(weft_run *run, const weft_lowered *l, const weft_task *task,
                             bool replayed, weft_error *err)
{
    struct weft_streams *q = run->streams;
    if (!q)
        return WEFT_OK;
    const bool captured = q->captured;
    weft_status s = captured ? end_captured(run, replayed, err) : WEFT_OK;
    q->boundary = NULL;
    if (s || (captured && q->forks)) /* all on the first queue, whatever the plan says */
        return s ? s : weft_streams_join(run, err);
    return weft_streams_pass_on(run, weft_lowered_program(l, task->part, task->stage), captured,
                                err);
}
