/* SPDX-License-Identifier: Apache-2.0 */
/* Around a task's body. Where all that it enqueues is the same whenever it is at the same places in
 * memory, a device may keep it, and the host leaves it out from then on. What a kept task waits for
 * of others, and they of it, lies outside of it: so it has no events in common with them, and a
 * task that waits for others in the middle is not kept, for all of it would wait. */
#include "execute/streams.h"

/* The same for the same places in memory: those of inputs and other values that lie in slots. */
static uint64_t key_of(const weft_lowered *l, const weft_program *p, int64_t micro)
{
    return (uint64_t)l->graph->config.mode << 60 | (uint64_t)(p - l->programs) << 40 |
           (uint64_t)(weft_program_like(p, micro) + 1);
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
    weft_status s = weft_streams_enter(run, err);
    if (s || !q || !q->walk.step.kept)
        return s;
    const bool forks = q->walk.step.forks;
    const weft_program *p = q->walk.step.program;
    weft_streams_tag(run, WEFT_QUEUE_COMPUTE,
                     (weft_tagged){.program = p, .micro = task->micro_batch});
    s = forks ? gather_queues(run, err) : weft_streams_await(run, l, p, &p->list[0], err);
    s = s ? s
          : run->plan->device->begin(run->plan->device_self, key_of(l, p, task->micro_batch),
                                     replayed, err);
    q->captured = !s;
    return s || *replayed || !forks ? s : fork_queues(run, err);
}

static weft_status end_captured(weft_run *run, bool replayed, weft_error *err)
{
    struct weft_streams *q = run->streams;
    weft_status s = q->walk.step.forks && !replayed ? gather_queues(run, err) : WEFT_OK;
    s = s ? s : run->plan->device->end(run->plan->device_self, err);
    q->captured = false;
    return s;
}

weft_status weft_streams_end(weft_run *run, bool replayed, weft_error *err)
{
    struct weft_streams *q = run->streams;
    if (!q)
        return WEFT_OK;
    weft_status s = q->captured ? end_captured(run, replayed, err) : WEFT_OK;
    if (s || q->walk.step.forks) /* all on the first queue, whatever the plan says */
        return s ? s : weft_streams_join(run, err);
    return weft_streams_pass_on(run, err);
}
