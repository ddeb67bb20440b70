/* SPDX-License-Identifier: Apache-2.0 */
/* The device of a plan: its functions, called as those of plugins are. */
#include "lower/plan.h"
#include "plugin/enter.h"

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

weft_status weft_device_upload(const weft_plan *p, void *to, const void *from_host, size_t bytes,
                               weft_error *err)
{
    const weft_entry entry = enter(p, "upload", err);
    return weft_leave(&entry, p->device->upload(p->device_self, to, from_host, bytes, err));
}

weft_status weft_device_download(const weft_plan *p, void *to_host, const void *from, size_t bytes,
                                 weft_error *err)
{
    const weft_entry entry = enter(p, "download", err);
    return weft_leave(&entry, p->device->download(p->device_self, to_host, from, bytes, err));
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

size_t weft_device_library_bytes(const weft_plan *p)
{
    const weft_entry entry = enter(p, "library_bytes", NULL);
    size_t bytes = p->device->library_bytes ? p->device->library_bytes(p->device_self) : 0;
    weft_leave(&entry, WEFT_OK);
    return bytes;
}

void weft_device_describe(const weft_plan *p, weft_text *text)
{
    const weft_entry entry = enter(p, "describe", NULL);
    if (p->device->describe)
        p->device->describe(p->device_self, text);
    weft_leave(&entry, WEFT_OK);
}
