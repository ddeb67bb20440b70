/* SPDX-License-Identifier: Apache-2.0 */
/* How long parts of a step take, and when each instruction ran, for observers that ask. */
#include "base/array.h"
#include "execute/run.h"

#include <string.h>

/* ---- parts of a step ---- */

struct weft_times {
    bool on;     /* in this step */
    double *sum; /* [n] seconds of this rank's tasks so far: of each stage's F, B and W, and of each
                    rank's other parts */
    double *all; /* [n] of every rank */
    int n, stages; /* of the pipeline */
    int ranks, rank;
    const bool *split;    /* by stage: it has W */
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
    struct weft_times *t = run->times = weft_pool_alloc(&run->pool, sizeof *t);
    if (!t)
        return weft_fail_memory(err);
    t->stages = tasks->stages;
    t->ranks = tasks->ranks;
    t->split = tasks->split;
    t->rank = (int)(run->plan->lowered[WEFT_MODE_TRAIN]->tasks - tasks->of);
    t->n = place_of(t, WEFT_PARTS, 0);
    t->sum = weft_pool_alloc(&run->pool, (size_t)t->n * sizeof *t->sum);
    t->all = weft_pool_alloc(&run->pool, (size_t)t->n * (size_t)run->plan->ranks * sizeof *t->all);
    t->list = weft_pool_alloc(&run->pool, (size_t)t->n * sizeof *t->list);
    return run->pool.out_of_memory ? weft_fail_memory(err) : WEFT_OK;
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
    if (!t || !t->on || l->graph->config.mode != WEFT_MODE_TRAIN)
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
    weft_status s = weft_control_exchange(control, run->plan->rank, t->sum,
                                          (size_t)t->n * sizeof *t->sum, t->all, err);
    int n = 0;
    for (int p = 0, i = 0; p < WEFT_PARTS && !s; p++)
        for (int k = 0; k < (weft_part_is_micro((weft_part)p) ? t->stages : t->ranks); k++, i++) {
            double times = weft_part_is_micro((weft_part)p) ? (double)run->plan->micro_batches : 1;
            if (p != WEFT_PART_W || t->split[k])
                t->list[n++] = (weft_part_time){
                    (weft_part)p, k, slowest(t, i, control ? run->plan->ranks : 1) / times};
        }
    run->view.parts = t->list;
    run->view.n_parts = n;
    t->on = run->wants_times = false;
    return s;
}

/* ---- instructions ---- */

/* On a device that computes later the host's own clock does not know when they ran: there, events
 * are recorded around them, and read when all is done. */

/* One instruction that was enqueued. */
typedef struct timed {
    weft_instruction_view view;
    int64_t micro, step;
    weft_device_event *begin, *end; /* kept for the next that takes this place */
} timed;

struct weft_timing {
    bool events;               /* the device has such; else the host's clock */
    weft_device_event *origin; /* when this was reached ... */
    double origin_s;           /* ... by weft_now() */
    timed *list;
    int n, made, capacity;
};

weft_status weft_timing_create(weft_run *run, weft_error *err)
{
    const weft_plan *plan = run->plan;
    if (!run->shows_times)
        return WEFT_OK;
    struct weft_timing *t = run->timing = weft_alloc_zero(1, sizeof *t);
    if (!t)
        return weft_fail_memory(err);
    t->events = run->streams && plan->device->elapsed;
    return t->events ? plan->device->timed_event_create(plan->device_self, &t->origin, err)
                     : WEFT_OK;
}

void weft_timing_destroy(weft_run *run)
{
    struct weft_timing *t = run->timing;
    if (!t)
        return;
    for (int i = 0; i < t->made; i++) {
        run->plan->device->event_destroy(run->plan->device_self, t->list[i].begin);
        run->plan->device->event_destroy(run->plan->device_self, t->list[i].end);
    }
    if (t->origin)
        run->plan->device->event_destroy(run->plan->device_self, t->origin);
    weft_free(t->list);
    weft_free(t);
    run->timing = NULL;
}

static weft_status show(weft_run *run, const weft_instruction_view *view, int64_t micro,
                        double began, double ended, weft_error *err)
{
    weft_instruction_view past = *view;
    past.operands = NULL; /* another's by now */
    past.n_operands = 0;
    run->view.began_s = began;
    run->view.ended_s = ended;
    weft_status s = weft_observe_instruction(run, &past, micro, WEFT_EVENT_INSTRUCTION_TIMES, err);
    run->view.began_s = run->view.ended_s = 0;
    return s;
}

/* Of all that is recorded until it is read. */
static weft_status set_origin(weft_run *run, struct weft_timing *t, weft_error *err)
{
    weft_status s = weft_device_record(run->plan, WEFT_QUEUE_COMPUTE, t->origin, err);
    s = s ? s : weft_run_wait_for(run, t->origin, err);
    t->origin_s = weft_now();
    return s;
}

/* Room for one more, with its events. */
static weft_status make_place(weft_run *run, struct weft_timing *t, weft_error *err)
{
    if (t->n < t->made)
        return WEFT_OK;
    timed *made = weft_array_push(&t->list, &t->made, &t->capacity, sizeof *made);
    if (!made)
        return weft_fail_memory(err);
    weft_status s =
        run->plan->device->timed_event_create(run->plan->device_self, &made->begin, err);
    if (!s && (s = run->plan->device->timed_event_create(run->plan->device_self, &made->end, err)))
        run->plan->device->event_destroy(run->plan->device_self, made->begin);
    t->made -= s != WEFT_OK;
    return s;
}

weft_status weft_timing_begin(weft_run *run, const weft_instruction_view *view, int64_t micro,
                              double *began, weft_error *err)
{
    struct weft_timing *t = run->timing;
    weft_status s = WEFT_OK;
    if (!t)
        return WEFT_OK;
    *began = t->events ? 0 : weft_now();
    if (!t->events)
        return WEFT_OK;
    s = t->n == 0 ? set_origin(run, t, err) : WEFT_OK;
    s = s ? s : make_place(run, t, err);
    if (s)
        return s;
    timed *now = &t->list[t->n];
    now->view = *view;
    now->micro = micro;
    now->step = run->view.step;
    return weft_device_record(run->plan, view->queue, now->begin, err);
}

weft_status weft_timing_end(weft_run *run, const weft_instruction_view *view, int64_t micro,
                            double began, weft_error *err)
{
    struct weft_timing *t = run->timing;
    if (!t)
        return WEFT_OK;
    if (t->events)
        return weft_device_record(run->plan, view->queue, t->list[t->n++].end, err);
    return show(run, view, micro, began, weft_now(), err);
}

weft_status weft_timing_show(weft_run *run, weft_error *err)
{
    struct weft_timing *t = run->timing;
    const int64_t step = run->view.step;
    weft_status s = WEFT_OK;
    for (int i = 0; t && i < t->n && !s; i++) {
        const timed *one = &t->list[i];
        double from, to;
        s = run->plan->device->elapsed(run->plan->device_self, t->origin, one->begin, &from, err);
        s = s ? s
              : run->plan->device->elapsed(run->plan->device_self, t->origin, one->end, &to, err);
        run->view.step = one->step;
        s = s ? s : show(run, &one->view, one->micro, t->origin_s + from, t->origin_s + to, err);
    }
    run->view.step = step;
    if (t)
        t->n = 0;
    return s;
}

weft_status weft_timing_finish(weft_run *run, weft_error *err)
{
    return run->timing && run->timing->n > 0 ? weft_run_wait(run, err) : WEFT_OK;
}
