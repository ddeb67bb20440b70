/* SPDX-License-Identifier: Apache-2.0 */
/* How long the parts of a step take, in the steps for which an observer has asked. */
#include "execute/run.h"

#include <string.h>

struct weft_times {
    bool on;       /* in this step */
    double *sum;   /* [n] seconds of this rank's tasks so far: of each stage's F and B, and of each
                      rank's other parts */
    double *all;   /* [n] of every rank */
    int n, stages; /* of the pipeline */
    int ranks, rank;
    weft_part_time *list; /* [n] for observers */
};

/* Where a part's time is kept: one part behind the other. */
static int place_of(const struct weft_times *t, weft_part part, int place)
{
    int before = 0;
    for (int p = 0; p < (int)part; p++)
        before += weft_part_is_micro((weft_part)p) ? t->stages : t->ranks;
    return before + place;
}

static weft_status create(weft_run *run, weft_error *err)
{
    const weft_tasks *tasks = run->plan->tasks[WEFT_MODE_TRAIN];
    struct weft_times *t = run->times = weft_alloc_zero(1, sizeof *t);
    if (!t)
        return weft_fail_memory(err);
    t->stages = tasks->stages;
    t->ranks = tasks->ranks;
    t->rank = (int)(run->plan->lowered[WEFT_MODE_TRAIN]->tasks - tasks->of);
    t->n = place_of(t, WEFT_PARTS, 0);
    t->sum = weft_alloc((size_t)t->n * sizeof *t->sum);
    t->all = weft_alloc((size_t)t->n * (size_t)run->plan->ranks * sizeof *t->all);
    t->list = weft_alloc((size_t)t->n * sizeof *t->list);
    return t->sum && t->all && t->list ? WEFT_OK : weft_fail_memory(err);
}

void weft_times_destroy(weft_run *run)
{
    struct weft_times *t = run->times;
    if (!t)
        return;
    weft_free(t->sum);
    weft_free(t->all);
    weft_free(t->list);
    weft_free(t);
    run->times = NULL;
}

weft_status weft_times_begin(weft_run *run, weft_error *err)
{
    weft_status s = run->wants_times && !run->times ? create(run, err) : WEFT_OK;
    if (s || !run->times)
        return s;
    run->times->on = run->wants_times;
    memset(run->times->sum, 0, (size_t)run->times->n * sizeof *run->times->sum);
    return WEFT_OK;
}

static bool is_measured(const weft_run *run, const weft_lowered *l)
{
    return run->times && run->times->on && l->graph->config.mode == WEFT_MODE_TRAIN;
}

double weft_times_start(weft_run *run)
{
    run->waited_s = 0;
    return weft_now();
}

/* A task is over when the device is through with it. */
weft_status weft_times_add(weft_run *run, const weft_lowered *l, const weft_task *task,
                           double start, weft_error *err)
{
    struct weft_times *t = run->times;
    if (!is_measured(run, l))
        return WEFT_OK;
    weft_status s = weft_run_wait(run, err);
    int place = weft_part_is_micro(task->part) ? task->stage : t->rank;
    t->sum[place_of(t, task->part, place)] += weft_now() - start - run->waited_s;
    return s;
}

/* The slowest of those that do the same. */
static double slowest(const struct weft_times *t, int i, int n)
{
    double most = 0;
    for (int r = 0; r < n; r++) {
        double x = t->all[(size_t)r * (size_t)t->n + (size_t)i];
        most = x > most ? x : most;
    }
    return most;
}

weft_status weft_times_end(weft_run *run, weft_error *err)
{
    struct weft_times *t = run->times;
    if (!t || !t->on)
        return WEFT_OK;
    weft_control *control = run->plan->plugins->control;
    memcpy(t->all, t->sum, (size_t)t->n * sizeof *t->sum);
    weft_status s = control ? weft_control_exchange(control, run->plan->rank, t->sum,
                                                    (size_t)t->n * sizeof *t->sum, t->all, err)
                            : WEFT_OK;
    for (int p = 0, i = 0; p < WEFT_PARTS && !s; p++)
        for (int k = 0; k < (weft_part_is_micro((weft_part)p) ? t->stages : t->ranks); k++, i++) {
            double times = weft_part_is_micro((weft_part)p) ? (double)run->plan->micro_batches : 1;
            t->list[i] = (weft_part_time){(weft_part)p, k,
                                          slowest(t, i, control ? run->plan->ranks : 1) / times};
        }
    run->view.parts = t->list;
    run->view.n_parts = s ? 0 : t->n;
    t->on = run->wants_times = false;
    return s;
}
