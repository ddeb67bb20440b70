/* SPDX-License-Identifier: Apache-2.0 */
/* The device of a plan: its functions, called as those of plugins are. */
#include "compile/driver/plan.h"
#include "host/enter.h"

static weft_entry enter(const weft_plan *p, const char *function, weft_error *err)
{
    return weft_enter_service(p->plugins, p->device, function, err);
}

weft_status weft_device_alloc(const weft_plan *p, size_t bytes, void **memory, weft_error *err)
{
    const weft_entry entry = enter(p, "alloc", err);
    return weft_leave(&entry, p->device->alloc(p->device_self, bytes, memory, err));
}

void weft_device_free(const weft_plan *p, void *memory, size_t bytes)
{
    const weft_entry entry = enter(p, "free", NULL);
    p->device->free(p->device_self, memory, bytes);
    weft_leave(&entry, WEFT_OK);
}

weft_status weft_device_alloc_host(const weft_plan *p, size_t bytes, void **memory, weft_error *err)
{
    if (!p->device->alloc_host) {
        *memory = weft_alloc_zero(1, bytes);
        return *memory ? WEFT_OK : weft_fail_memory(err);
    }
    const weft_entry entry = enter(p, "alloc_host", err);
    return weft_leave(&entry, p->device->alloc_host(p->device_self, bytes, memory, err));
}

void weft_device_free_host(const weft_plan *p, void *memory, size_t bytes)
{
    if (!p->device->free_host) {
        weft_free(memory);
        return;
    }
    const weft_entry entry = enter(p, "free_host", NULL);
    p->device->free_host(p->device_self, memory, bytes);
    weft_leave(&entry, WEFT_OK);
}

static weft_queue *queue_of(const weft_plan *p, int i)
{
    return i < 0 ? NULL : weft_device_queue(p, i);
}

weft_status weft_device_upload(const weft_plan *p, int queue, void *to, const void *from_host,
                               size_t bytes, weft_error *err)
{
    weft_queue *on = queue_of(p, queue);
    const weft_entry entry = enter(p, "upload", err);
    return weft_leave(&entry, p->device->upload(p->device_self, on, to, from_host, bytes, err));
}

weft_status weft_device_download(const weft_plan *p, int queue, void *to_host, const void *from,
                                 size_t bytes, weft_error *err)
{
    weft_queue *on = queue_of(p, queue);
    const weft_entry entry = enter(p, "download", err);
    return weft_leave(&entry, p->device->download(p->device_self, on, to_host, from, bytes, err));
}

weft_status weft_device_move(const weft_plan *p, int queue, const weft_box *boxes, int n,
                             weft_error *err)
{
    weft_queue *on = queue_of(p, queue);
    const weft_entry entry = enter(p, "move", err);
    return weft_leave(&entry, p->device->move(p->device_self, on, boxes, n, err));
}

bool weft_device_is_async(const weft_plan *p)
{
    return p->device->record != NULL;
}

weft_status weft_device_event_create(const weft_plan *p, weft_device_event **event, weft_error *err)
{
    const weft_entry entry = enter(p, "event_create", err);
    return weft_leave(&entry, p->device->event_create(p->device_self, event, err));
}

weft_status weft_device_timed_event_create(const weft_plan *p, weft_device_event **event,
                                           weft_error *err)
{
    const weft_entry entry = enter(p, "timed_event_create", err);
    return weft_leave(&entry, p->device->timed_event_create(p->device_self, event, err));
}

weft_status weft_device_elapsed(const weft_plan *p, weft_device_event *from, weft_device_event *to,
                                double *seconds, weft_error *err)
{
    const weft_entry entry = enter(p, "elapsed", err);
    return weft_leave(&entry, p->device->elapsed(p->device_self, from, to, seconds, err));
}

void weft_device_event_destroy(const weft_plan *p, weft_device_event *event)
{
    const weft_entry entry = enter(p, "event_destroy", NULL);
    p->device->event_destroy(p->device_self, event);
    weft_leave(&entry, WEFT_OK);
}

weft_status weft_device_record(const weft_plan *p, int queue, weft_device_event *event,
                               weft_error *err)
{
    weft_queue *on = queue_of(p, queue);
    const weft_entry entry = enter(p, "record", err);
    return weft_leave(&entry, p->device->record(p->device_self, on, event, err));
}

weft_status weft_device_await(const weft_plan *p, int queue, weft_device_event *event,
                              weft_error *err)
{
    weft_queue *on = queue_of(p, queue);
    const weft_entry entry = enter(p, "await", err);
    return weft_leave(&entry, p->device->await(p->device_self, on, event, err));
}

weft_status weft_device_poll(const weft_plan *p, weft_device_event *event, bool *done,
                             weft_error *err)
{
    const weft_entry entry = enter(p, "poll", err);
    return weft_leave(&entry, p->device->poll(p->device_self, event, done, err));
}

weft_status weft_device_begin(const weft_plan *p, uint64_t key, bool *replayed, weft_error *err)
{
    const weft_entry entry = enter(p, "begin", err);
    return weft_leave(&entry, p->device->begin(p->device_self, key, replayed, err));
}

weft_status weft_device_end(const weft_plan *p, weft_error *err)
{
    const weft_entry entry = enter(p, "end", err);
    return weft_leave(&entry, p->device->end(p->device_self, err));
}

void weft_device_forget(const weft_plan *p)
{
    if (!p->device->forget)
        return;
    const weft_entry entry = enter(p, "forget", NULL);
    p->device->forget(p->device_self);
    weft_leave(&entry, WEFT_OK);
}

void weft_device_tag(const weft_plan *p, int queue, uint64_t tag)
{
    if (!p->device->tag)
        return;
    weft_queue *on = queue_of(p, queue);
    const weft_entry entry = enter(p, "tag", NULL);
    p->device->tag(p->device_self, on, tag);
    weft_leave(&entry, WEFT_OK);
}

uint64_t weft_device_reached(const weft_plan *p, int queue)
{
    if (!p->device->reached)
        return 0;
    weft_queue *on = queue_of(p, queue);
    const weft_entry entry = enter(p, "reached", NULL);
    uint64_t tag = p->device->reached(p->device_self, on);
    weft_leave(&entry, WEFT_OK);
    return tag;
}

size_t weft_device_peak_bytes(const weft_plan *p)
{
    if (!p->device->peak_bytes || p->device->host_memory)
        return 0;
    const weft_entry entry = enter(p, "peak_bytes", NULL);
    size_t bytes = p->device->peak_bytes(p->device_self);
    weft_leave(&entry, WEFT_OK);
    return bytes;
}

weft_status weft_device_wait(const weft_plan *p, weft_error *err)
{
    const weft_entry entry = enter(p, "wait", err);
    return weft_leave(&entry, p->device->wait(p->device_self, err));
}

weft_queue *weft_device_queue(const weft_plan *p, int i)
{
    const weft_entry entry = enter(p, "queue", NULL);
    weft_queue *queue = p->device->queue ? p->device->queue(p->device_self, i) : NULL;
    weft_leave(&entry, WEFT_OK);
    return queue;
}

uint64_t weft_device_adversary(const weft_plan *p)
{
    const weft_entry entry = enter(p, "adversary", NULL);
    uint64_t seed = p->device->adversary ? p->device->adversary(p->device_self) : 0;
    weft_leave(&entry, WEFT_OK);
    return seed;
}

double weft_device_peak(const weft_plan *p, weft_dtype dtype, double reached)
{
    const weft_entry entry = enter(p, "peak", NULL);
    double rate = p->device->peak ? p->device->peak(p->device_self, dtype, reached) : 0;
    weft_leave(&entry, WEFT_OK);
    return rate;
}

size_t weft_device_library_bytes(const weft_plan *p, int64_t captured)
{
    const weft_entry entry = enter(p, "library_bytes", NULL);
    size_t bytes =
        p->device->library_bytes ? p->device->library_bytes(p->device_self, captured) : 0;
    weft_leave(&entry, WEFT_OK);
    return bytes;
}

bool weft_device_find_rates(const weft_plan *p, weft_device_rates *rates)
{
    *rates = (weft_device_rates){0};
    if (!p->device->rates)
        return false;
    const weft_entry entry = enter(p, "rates", NULL);
    bool known = p->device->rates(p->device_self, rates);
    weft_leave(&entry, WEFT_OK);
    return known;
}

int weft_device_sharers(const weft_plan *p, const weft_device_rates *rates)
{
    void *self;
    const weft_transport *t = weft_plugins_service(p->plugins, "transport", &self);
    return rates->one_a_process && t && t->ranks == WEFT_RANKS_THREADS ? p->ranks : 1;
}

void weft_device_describe(const weft_plan *p, weft_text *text)
{
    const weft_entry entry = enter(p, "describe", NULL);
    if (p->device->describe)
        p->device->describe(p->device_self, text);
    weft_leave(&entry, WEFT_OK);
}

bool weft_plan_captures_sent(const weft_plan *plan)
{
    void *self;
    const weft_transport *t = weft_plugins_service(plan->plugins, "transport", &self);
    if (!t || !t->captured || weft_plan_is_staged(plan))
        return false;
    const weft_entry entry = weft_enter_service(plan->plugins, t, "captured", NULL);
    const bool may = t->captured(self);
    weft_leave(&entry, WEFT_OK);
    return may;
}
