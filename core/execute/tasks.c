/* SPDX-License-Identifier: Apache-2.0 */
/* The one way to run a rank's list of tasks. */
#include "execute/run.h"

static bool is_between(const weft_task *task, weft_part first, weft_part last)
{
    return task->part >= first && task->part <= last;
}

/* The next task at or behind i; NULL: none. */
static const weft_task *next_task(const weft_task_list *l, int *i, weft_part first, weft_part last)
{
    while (*i < l->n && !is_between(&l->list[*i], first, last))
        (*i)++;
    return *i < l->n ? &l->list[(*i)++] : NULL;
}

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

static bool has_prologue(const weft_lowered *l, const weft_task *task)
{
    const weft_program *p = weft_lowered_program(l, task->part, task->stage);
    return p->n_prologue > 0 || weft_lowered_uploads(l, p);
}

static weft_status run_prologue(weft_run *run, const weft_lowered *l, const weft_task *task,
                                weft_error *err)
{
    if (!has_prologue(l, task))
        return WEFT_OK;
    say_task(run, l, task);
    double start = weft_times_start(run);
    weft_status s = weft_execute_prologue(run, l, task, err);
    return s ? s : weft_times_add(run, l, task, start, err);
}

/* The prologue of a task, before the body of `now`. */
static weft_status begin_task(weft_run *run, const weft_lowered *l, const weft_task *task,
                              const weft_task *now, weft_error *err)
{
    weft_guard_enter(run, l, now);
    return run_prologue(run, l, task, err);
}

/* The first of all: behind all before. */
static weft_status begin_first(weft_run *run, const weft_lowered *l, const weft_task *task,
                               weft_error *err)
{
    weft_guard_enter(run, l, task);
    weft_status s = has_prologue(l, task) ? weft_streams_join(run, err) : WEFT_OK;
    return s ? s : run_prologue(run, l, task, err);
}

static weft_status run_body(weft_run *run, const weft_lowered *l, const weft_task *task,
                            const weft_task_hooks *hooks, weft_error *err)
{
    say_task(run, l, task);
    weft_status s = hooks->before ? hooks->before(hooks->self, task, err) : WEFT_OK;
    double start = weft_times_start(run);
    s = s ? s : weft_execute(run, l, task, err);
    s = s ? s : weft_times_add(run, l, task, start, err);
    return !s && hooks->after ? hooks->after(hooks->self, task, err) : s;
}

weft_status weft_run_tasks(weft_run *run, const weft_lowered *l, weft_part first, weft_part last,
                           const weft_task_hooks *hooks, weft_error *err)
{
    static const weft_task_hooks none;
    const weft_task_hooks *h = hooks ? hooks : &none;
    int i = 0;
    const weft_task *task = next_task(l->tasks, &i, first, last);
    weft_status s = task ? begin_first(run, l, task, err) : WEFT_OK;
    while (task && !s) {
        const weft_task *next = next_task(l->tasks, &i, first, last);
        bool first_makes = task->part == WEFT_PART_BEGIN; /* what prologues read */
        s = next && !first_makes ? begin_task(run, l, next, task, err) : WEFT_OK;
        s = s ? s : run_body(run, l, task, h, err);
        s = !s && next && first_makes ? run_prologue(run, l, next, err) : s;
        task = next;
    }
    s = s ? s : weft_streams_join(run, err);
    s = s ? s : weft_transfers_end(run, l, err);
    if (s)
        weft_streams_explain(run, s, err);
    weft_control_set_moment(run->plan->plugins->control, run->watch,
                            (weft_moment){.step = run->watch->now.step});
    return s;
}
