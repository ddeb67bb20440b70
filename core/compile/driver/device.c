/* SPDX-License-Identifier: Apache-2.0 */
/* The device of a plan: its functions, queues by their numbers, and what holds where one is left
 * out. */
#include "compile/driver/plan.h"

weft_status weft_device_alloc_host(const weft_plan *p, size_t bytes, void **memory, weft_error *err)
{
    if (p->device->alloc_host)
        return p->device->alloc_host(p->device_self, bytes, memory, err);
    *memory = weft_alloc_zero(1, bytes);
    return *memory ? WEFT_OK : weft_fail_memory(err);
}

void weft_device_free_host(const weft_plan *p, void *memory, size_t bytes)
{
    if (p->device->free_host)
        p->device->free_host(p->device_self, memory, bytes);
    else
        weft_free(memory);
}

weft_queue *weft_device_queue(const weft_plan *p, int i)
{
    return p->device->queue && i >= 0 ? p->device->queue(p->device_self, i) : NULL;
}

weft_status weft_device_upload(const weft_plan *p, int queue, void *to, const void *from_host,
                               size_t bytes, weft_error *err)
{
    return p->device->upload(p->device_self, weft_device_queue(p, queue), to, from_host, bytes,
                             err);
}

weft_status weft_device_download(const weft_plan *p, int queue, void *to_host, const void *from,
                                 size_t bytes, weft_error *err)
{
    return p->device->download(p->device_self, weft_device_queue(p, queue), to_host, from, bytes,
                               err);
}

weft_status weft_device_move(const weft_plan *p, int queue, const weft_box *boxes, int n,
                             weft_error *err)
{
    return p->device->move(p->device_self, weft_device_queue(p, queue), boxes, n, err);
}

bool weft_device_is_async(const weft_plan *p)
{
    return p->device->record != NULL;
}

weft_status weft_device_record(const weft_plan *p, int queue, weft_device_event *event,
                               weft_error *err)
{
    return p->device->record(p->device_self, weft_device_queue(p, queue), event, err);
}

weft_status weft_device_await(const weft_plan *p, int queue, weft_device_event *event,
                              weft_error *err)
{
    return p->device->await(p->device_self, weft_device_queue(p, queue), event, err);
}

uint64_t weft_device_reached(const weft_plan *p, int queue)
{
    return p->device->reached ? p->device->reached(p->device_self, weft_device_queue(p, queue)) : 0;
}

size_t weft_device_peak_bytes(const weft_plan *p)
{
    return p->device->peak_bytes && !p->device->host_memory ? p->device->peak_bytes(p->device_self)
                                                            : 0;
}

uint64_t weft_device_adversary(const weft_plan *p)
{
    return p->device->adversary ? p->device->adversary(p->device_self) : 0;
}

bool weft_plan_captures_sent(const weft_plan *plan)
{
    void *self;
    const weft_transport *t = weft_plugins_service(plan->plugins, "transport", &self);
    return t && t->captured && t->captured(self);
}
