/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of wrapped devices: see wrap.h. */
#include "plugin/wrap.h"

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

static weft_status upload(void *self, void *to, const void *from_host, size_t bytes,
                          weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, upload));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "upload", err);
    return weft_leave(&entry, t->upload(l->self, to, from_host, bytes, err));
}

static weft_status download(void *self, void *to_host, const void *from, size_t bytes,
                            weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, download));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "download", err);
    return weft_leave(&entry, t->download(l->self, to_host, from, bytes, err));
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

static size_t library_bytes(void *self)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_device, library_bytes));
    const weft_device *t = l->table;
    const weft_entry entry = weft_link_enter(l, "library_bytes", NULL);
    size_t answer = t->library_bytes(l->self);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

const weft_device weft_forward_device = {
    .alloc = alloc,
    .free = free_memory,
    .upload = upload,
    .download = download,
    .queue = queue,
    .threads = threads,
    .wait = wait,
    .plain = plain,
    .adversary = adversary,
    .peak = peak,
    .describe = describe,
    .library_bytes = library_bytes,
};
