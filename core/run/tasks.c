/* SPDX-License-Identifier: Apache-2.0 */
/* The one way to run a rank's list of tasks. */
#include "run/run.h"

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
    run->watch->part = weft_part_name(task->part);
    run->watch->stage = task->stage;
    run->watch->micro_batch = task->micro_batch;
}

/* The prologue of a task, before the body of `now`. */
static weft_status begin_task(weft_run *run, const weft_lowered *l, const weft_task *task,
                              const weft_task *now, weft_error *err)
{
    weft_guard_enter(run, l, now);
    return weft_execute_prologue(run, l, task, err);
}

weft_status weft_run_tasks(weft_run *run, const weft_lowered *l, weft_part first, weft_part last,
                           const weft_task_hooks *hooks, weft_error *err)
{
    static const weft_task_hooks none;
    const weft_task_hooks *h = hooks ? hooks : &none;
    int i = 0;
    const weft_task *task = next_task(l->tasks, &i, first, last);
    weft_status s = task ? begin_task(run, l, task, task, err) : WEFT_OK;
    while (task && !s) {
        const weft_task *next = next_task(l->tasks, &i, first, last);
        s = next ? begin_task(run, l, next, task, err) : WEFT_OK;
        say_task(run, l, task);
        s = !s && h->before ? h->before(h->self, task, err) : s;
        double start = weft_times_start(run);
        s = s ? s : weft_execute(run, l, task, err);
        s = s ? s : weft_times_add(run, l, task, start, err);
        s = !s && h->after ? h->after(h->self, task, err) : s;
        task = next;
    }
    s = s ? s : weft_transfers_end(run, l, err);
    run->watch->part = NULL;
    return s;
}
