/* SPDX-License-Identifier: Apache-2.0 */
/* The one way to run a rank's list of tasks. */
#include "execute/streams.h"

/* For whoever must be told in what this rank of a pipeline waits. */
static void say_task(weft_run *run, const weft_lowered *l, const weft_task *task)
{
    if (weft_graph_stages(l->graph) < 2)
        return;
    weft_control_set_moment(run->plan->plugins->control, run->watch,
                            (weft_moment){.step = run->watch->now.step,
                                          .part = weft_part_name(task->part),
                                          .stage = task->stage,
                                          .micro_batch = task->micro_batch});
}

static weft_status run_prologue(weft_run *run, const weft_lowered *l, const weft_task *task,
                                weft_error *err)
{
    say_task(run, l, task);
    double start = weft_times_start(run);
    weft_status s = weft_execute_prologue(run, l, task, err);
    return s ? s : weft_times_add(run, l, task, start, err);
}

static weft_status run_body(weft_run *run, const weft_lowered *l, const weft_task *task,
                            const weft_task_hooks *hooks, weft_error *err)
{
    say_task(run, l, task);
    run->view.micro_batch = task->micro_batch;
    weft_status s = hooks->before ? hooks->before(hooks->self, task, err) : WEFT_OK;
    double start = weft_times_start(run);
    s = s ? s : weft_execute(run, l, task, err);
    s = s ? s : weft_times_add(run, l, task, start, err);
    return !s && hooks->after ? hooks->after(hooks->self, task, err) : s;
}

weft_status weft_run_parts(weft_run *run, weft_mode mode, weft_part first, weft_part last,
                           const weft_task_hooks *hooks, weft_error *err)
{
    const weft_lowered *l = run->plan->lowered[mode];
    static const weft_task_hooks none;
    weft_walk alone, *w = weft_streams_walk(run, &alone);
    weft_walk_init(w, l, first, last);
    w->runs = weft_lowered_runs(l, run->view.step);
    w->keeps = run->plan->device->begin && !run->shows_instructions;
    w->communicates = run->streams && weft_plan_captures_sent(run->plan);
    bool going = weft_walk_next(w);
    /* what is sent early is behind all before, as bodies are since the last list's end */
    weft_status s =
        going && w->step.kind == WEFT_WALK_PROLOGUE ? weft_streams_join(run, err) : WEFT_OK;
    for (; !s && going; going = weft_walk_next(w)) {
        if (w->step.kind == WEFT_WALK_PROLOGUE)
            s = run_prologue(run, l, w->step.task, err);
        else if (w->step.kind == WEFT_WALK_BODY)
            s = run_body(run, l, w->step.task, hooks ? hooks : &none, err);
    }
    s = s ? s : weft_streams_join(run, err);
    s = s ? s : weft_transfers_end(run, l, err);
    if (s)
        weft_streams_explain(run, s, err);
    weft_control_set_moment(run->plan->plugins->control, run->watch,
                            (weft_moment){.step = run->watch->now.step});
    return s;
}
