/* SPDX-License-Identifier: Apache-2.0 */
/* When instructions ran, for observers that ask. On a device that computes later the host's own
 * clock knows nothing of that: there, events are recorded around them, and read when all is done.
 */
#include "execute/run.h"

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
    if (t->made == t->capacity) {
        int more = t->capacity ? 2 * t->capacity : 256;
        timed *fresh = weft_realloc(t->list, (size_t)more * sizeof *fresh);
        if (!fresh)
            return weft_fail_memory(err);
        t->list = fresh;
        t->capacity = more;
    }
    timed *made = &t->list[t->made];
    *made = (timed){0};
    weft_status s =
        run->plan->device->timed_event_create(run->plan->device_self, &made->begin, err);
    if (s)
        return s;
    if ((s = run->plan->device->timed_event_create(run->plan->device_self, &made->end, err))) {
        run->plan->device->event_destroy(run->plan->device_self, made->begin);
        return s;
    }
    t->made++;
    return WEFT_OK;
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
