/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of wrapped devices: see wrap.h. */
#include "host/wrap.h"

static weft_status alloc(void *self, size_t bytes, void **memory, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, alloc));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "alloc", err);
    return weft_leave(&entry, t->alloc(l->self, bytes, memory, err));
}

static void free_memory(void *self, void *memory, size_t bytes)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, free));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "free", NULL);
    t->free(l->self, memory, bytes);
    weft_leave(&entry, WEFT_OK);
}

static weft_status upload(void *self, weft_queue *queue, void *to, const void *from_host,
                          size_t bytes, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, upload));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "upload", err);
    return weft_leave(&entry, t->upload(l->self, queue, to, from_host, bytes, err));
}

static weft_status download(void *self, weft_queue *queue, void *to_host, const void *from,
                            size_t bytes, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, download));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "download", err);
    return weft_leave(&entry, t->download(l->self, queue, to_host, from, bytes, err));
}

static weft_status alloc_host(void *self, size_t bytes, void **memory, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, alloc_host));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "alloc_host", err);
    return weft_leave(&entry, t->alloc_host(l->self, bytes, memory, err));
}

static void free_host(void *self, void *memory, size_t bytes)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, free_host));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "free_host", NULL);
    t->free_host(l->self, memory, bytes);
    weft_leave(&entry, WEFT_OK);
}

static weft_status move(void *self, weft_queue *queue, const weft_box *boxes, int n,
                        weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, move));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "move", err);
    return weft_leave(&entry, t->move(l->self, queue, boxes, n, err));
}

static weft_status reduce(void *self, weft_queue *queue, const weft_reduction *r, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, reduce));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "reduce", err);
    return weft_leave(&entry, t->reduce(l->self, queue, r, err));
}

static weft_status timed_event_create(void *self, weft_device_event **event, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, timed_event_create));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "timed_event_create", err);
    return weft_leave(&entry, t->timed_event_create(l->self, event, err));
}

static weft_status elapsed(void *self, weft_device_event *from, weft_device_event *to,
                           double *seconds, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, elapsed));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "elapsed", err);
    return weft_leave(&entry, t->elapsed(l->self, from, to, seconds, err));
}

static weft_status event_create(void *self, weft_device_event **event, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, event_create));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "event_create", err);
    return weft_leave(&entry, t->event_create(l->self, event, err));
}

static void event_destroy(void *self, weft_device_event *event)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, event_destroy));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "event_destroy", NULL);
    t->event_destroy(l->self, event);
    weft_leave(&entry, WEFT_OK);
}

static weft_status record(void *self, weft_queue *queue, weft_device_event *event, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, record));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "record", err);
    return weft_leave(&entry, t->record(l->self, queue, event, err));
}

static weft_status await(void *self, weft_queue *queue, weft_device_event *event, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, await));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "await", err);
    return weft_leave(&entry, t->await(l->self, queue, event, err));
}

static weft_status poll(void *self, weft_device_event *event, bool *done, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, poll));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "poll", err);
    return weft_leave(&entry, t->poll(l->self, event, done, err));
}

static void *stream(void *self, weft_queue *of)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, stream));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "stream", NULL);
    void *answer = t->stream(l->self, of);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

static weft_status queue_create(void *self, weft_queue **made, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, queue_create));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "queue_create", err);
    return weft_leave(&entry, t->queue_create(l->self, made, err));
}

static void queue_destroy(void *self, weft_queue *made)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, queue_destroy));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "queue_destroy", NULL);
    t->queue_destroy(l->self, made);
    weft_leave(&entry, WEFT_OK);
}

static weft_status begin(void *self, uint64_t key, bool *replayed, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, begin));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "begin", err);
    return weft_leave(&entry, t->begin(l->self, key, replayed, err));
}

static weft_status end(void *self, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, end));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "end", err);
    return weft_leave(&entry, t->end(l->self, err));
}

static void forget(void *self)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, forget));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "forget", NULL);
    t->forget(l->self);
    weft_leave(&entry, WEFT_OK);
}

static weft_status settle(void *self, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, settle));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "settle", err);
    return weft_leave(&entry, t->settle(l->self, err));
}

static void tag(void *self, weft_queue *queue, uint64_t number)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, tag));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "tag", NULL);
    t->tag(l->self, queue, number);
    weft_leave(&entry, WEFT_OK);
}

static uint64_t reached(void *self, weft_queue *queue)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, reached));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "reached", NULL);
    uint64_t answer = t->reached(l->self, queue);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

static size_t peak_bytes(void *self)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, peak_bytes));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "peak_bytes", NULL);
    size_t answer = t->peak_bytes(l->self);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

static weft_queue *queue(void *self, int i)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, queue));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "queue", NULL);
    weft_queue *answer = t->queue(l->self, i);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

static int threads(void *self)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, threads));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "threads", NULL);
    int answer = t->threads(l->self);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

static weft_status wait(void *self, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, wait));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "wait", err);
    return weft_leave(&entry, t->wait(l->self, err));
}

static bool plain(void *self)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, plain));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "plain", NULL);
    bool answer = t->plain(l->self);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

static bool exportable(void *self)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, exportable));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "exportable", NULL);
    bool answer = t->exportable(l->self);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

static uint64_t adversary(void *self)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, adversary));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "adversary", NULL);
    uint64_t answer = t->adversary(l->self);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

static double peak(void *self, weft_dtype dtype, double reached)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, peak));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "peak", NULL);
    double answer = t->peak(l->self, dtype, reached);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

static void describe(void *self, weft_text *text)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, describe));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "describe", NULL);
    t->describe(l->self, text);
    weft_leave(&entry, WEFT_OK);
}

static size_t library_bytes(void *self, int64_t captured)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, library_bytes));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "library_bytes", NULL);
    size_t answer = t->library_bytes(l->self, captured);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

static bool rates(void *self, weft_device_rates *out)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, rates));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "rates", NULL);
    bool answer = t->rates(l->self, out);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

const weft_device weft_forward_device = {
    .alloc = alloc,
    .free = free_memory,
    .upload = upload,
    .alloc_host = alloc_host,
    .free_host = free_host,
    .download = download,
    .move = move,
    .reduce = reduce,
    .event_create = event_create,
    .timed_event_create = timed_event_create,
    .elapsed = elapsed,
    .event_destroy = event_destroy,
    .record = record,
    .await = await,
    .poll = poll,
    .stream = stream,
    .queue_create = queue_create,
    .queue_destroy = queue_destroy,
    .begin = begin,
    .end = end,
    .forget = forget,
    .settle = settle,
    .tag = tag,
    .reached = reached,
    .peak_bytes = peak_bytes,
    .queue = queue,
    .threads = threads,
    .wait = wait,
    .plain = plain,
    .exportable = exportable,
    .adversary = adversary,
    .peak = peak,
    .describe = describe,
    .library_bytes = library_bytes,
    .rates = rates,
};
