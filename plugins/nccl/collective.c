/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives. NCCL's own sums round bf16 at every rank and its maxima may lose a NaN; so maxima,
 * and with [nccl] sums = exact all sums, are pieces sent as they are and reduced by the device, in
 * the group's order. */
#include "nccl.h"

enum { TERMS = 32 /* that are reduced at once */ };

static size_t bytes_of(int64_t count, weft_dtype dtype)
{
    return (size_t)count * weft_dtype_size(dtype);
}

static void *stream_of(const group *g, weft_queue *queue)
{
    return g->t->device->stream(g->t->device_self, queue);
}

/* In a group of calls nothing is begun yet. */
static weft_status settle(group *g, int result, const char *what, weft_error *err)
{
    if (g->t->grouped && nccl_is_well(result))
        return WEFT_OK;
    return nccl_settle(g->t, g, g->of, result, what, err);
}

weft_status nccl_group_begin(void *self, void *handle, weft_error *err)
{
    transport *t = self;
    group *g = handle;
    int result = t->api.ncclGroupStart();
    t->grouped = nccl_is_well(result);
    return settle(g, result, "the calls of a group cannot be made", err);
}

weft_status nccl_group_end(void *self, void *handle, weft_error *err)
{
    transport *t = self;
    group *g = handle;
    t->grouped = false;
    return settle(g, t->api.ncclGroupEnd(), "the calls of a group", err);
}

static weft_status gather_bytes(group *g, const void *send, void *recv, size_t bytes,
                                weft_queue *queue, weft_error *err)
{
    return settle(
        g,
        g->t->api.ncclAllGather(send, recv, bytes, NCCL_BYTES, g->of->handle, stream_of(g, queue)),
        "all_gather", err);
}

weft_status nccl_all_gather(void *self, void *handle, const void *send, void *recv, int64_t count,
                            weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    (void)self;
    return count ? gather_bytes(handle, send, recv, bytes_of(count, dtype), queue, err) : WEFT_OK;
}

/* `bytes` of every piece, pieces being so far apart on either side. */
static weft_status swap(group *g, const char *send, size_t send_step, char *recv, size_t recv_step,
                        size_t bytes, weft_queue *queue, const char *what, weft_error *err)
{
    const nccl_api *api = &g->t->api;
    void *stream = stream_of(g, queue);
    int r = api->ncclGroupStart();
    for (int i = 0; i < g->n && nccl_is_well(r); i++) {
        r = api->ncclSend(send + (size_t)i * send_step, bytes, NCCL_BYTES, i, g->of->handle,
                          stream);
        if (nccl_is_well(r))
            r = api->ncclRecv(recv + (size_t)i * recv_step, bytes, NCCL_BYTES, i, g->of->handle,
                              stream);
    }
    int end = api->ncclGroupEnd();
    return settle(g, nccl_is_well(r) ? end : r, what, err);
}

weft_status nccl_all_to_all(void *self, void *handle, const void *send, void *recv, int64_t count,
                            weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    (void)self;
    size_t bytes = bytes_of(count, dtype);
    return bytes ? swap(handle, send, bytes, recv, bytes, bytes, queue, "all_to_all", err)
                 : WEFT_OK;
}

weft_status nccl_broadcast(void *self, void *handle, int root, void *data, int64_t count,
                           weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    group *g = handle;
    (void)self;
    if (count == 0)
        return WEFT_OK;
    return settle(g,
                  g->t->api.ncclBroadcast(data, data, bytes_of(count, dtype), NCCL_BYTES, root,
                                          g->of->handle, stream_of(g, queue)),
                  "broadcast", err);
}

/* ---- reductions by the device ---- */

void nccl_free_scratch(transport *t)
{
    if (t->scratch)
        t->device->free(t->device_self, t->scratch, NCCL_SCRATCH_BYTES);
    t->scratch = NULL;
}

/* Memory for the terms of one reduction after the other. */
typedef struct scratch {
    char *memory;
    int64_t most; /* elements of every rank that fit */
} scratch;

/* The terms lie one after another in scratch. Of more than fit into one call the first becomes the
 * sum so far: so a sum of bf16 is rounded once for every TERMS ranks. */
static weft_status reduce_terms(group *g, char *terms, void *to, int64_t count, weft_dtype dtype,
                                weft_reduce op, weft_queue *queue, weft_error *err)
{
    const transport *t = g->t;
    const size_t step = bytes_of(count, dtype);
    const void *from[TERMS];
    weft_status s = WEFT_OK;
    for (int i = 0; i < g->n && !s;) {
        int n = 0;
        if (i > 0)
            from[n++] = terms;
        while (n < TERMS && i < g->n)
            from[n++] = terms + (size_t)i++ * step;
        void *const place = i == g->n ? to : terms;
        const weft_reduction r = {.to = &place,
                                  .from = from,
                                  .n_to = 1,
                                  .n_from = n,
                                  .count = count,
                                  .dtype = dtype,
                                  .op = op};
        s = t->device->reduce(t->device_self, queue, &r, err);
    }
    return s;
}

/* The queue's own part, for nothing orders what is done on two queues; negative: there is none
 * left. */
static int part_of(transport *t, weft_queue *queue)
{
    for (int i = 0; i < NCCL_SCRATCH_QUEUES; i++) {
        if (!t->scratch_of[i])
            t->scratch_of[i] = queue;
        if (t->scratch_of[i] == queue)
            return i;
    }
    return -1;
}

static weft_status find_scratch(group *g, weft_dtype dtype, weft_queue *queue, scratch *out,
                                weft_error *err)
{
    transport *t = g->t;
    const size_t bytes = NCCL_SCRATCH_BYTES / NCCL_SCRATCH_QUEUES;
    /* terms begin where the device wants tensors to begin */
    const size_t grain = 256;
    const int part = part_of(t, queue);
    out->most = (int64_t)(bytes / (size_t)g->n / grain * grain / weft_dtype_size(dtype));
    if (part < 0 || !out->most || !t->scratch)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "nccl: %d ranks reduce on more than %d queues, or are more than it can do",
                         g->n, NCCL_SCRATCH_QUEUES);
    out->memory = t->scratch + (size_t)part * bytes;
    return WEFT_OK;
}

/* NCCL connects the ranks of a communicator when they first do something together, and not for
 * gathers what it needs for sums, nor for either that each sends to each, as exact sums do. */
weft_status nccl_connect_all(group *g, weft_error *err)
{
    transport *t = g->t;
    weft_queue *queue = t->device->queue(t->device_self, 0);
    void *memory = t->scratch;
    scratch room = {0};
    weft_status s =
        memory ? WEFT_OK : t->device->alloc(t->device_self, NCCL_SCRATCH_BYTES, &memory, err);
    t->scratch = memory;
    s = s ? s : find_scratch(g, WEFT_F32, queue, &room, err);
    s = s ? s : gather_bytes(g, room.memory, room.memory, 1, queue, err);
    if (!s && t->exact)
        s = swap(g, room.memory, 1, room.memory + g->n, 1, 1, queue, "each to each", err);
    return s ? s
             : settle(g,
                      t->api.ncclAllReduce(room.memory, room.memory, 1, NCCL_F32, NCCL_SUM,
                                           g->of->handle, stream_of(g, queue)),
                      "all_reduce", err);
}

/* What the device reduces must have come before: calls so far are begun. */
static weft_status step_out(group *g, bool *grouped, weft_error *err)
{
    *grouped = g->t->grouped;
    return *grouped ? nccl_group_end(g->t, g, err) : WEFT_OK;
}

static weft_status exact_all_reduce(group *g, const char *send, char *recv, int64_t count,
                                    weft_dtype dtype, weft_reduce op, weft_queue *queue,
                                    weft_error *err)
{
    scratch terms = {0};
    bool grouped;
    weft_status s = step_out(g, &grouped, err);
    s = s ? s : find_scratch(g, dtype, queue, &terms, err);
    for (int64_t at = 0, n; at < count && !s; at += n) {
        n = count - at < terms.most ? count - at : terms.most;
        s = gather_bytes(g, send + bytes_of(at, dtype), terms.memory, bytes_of(n, dtype), queue,
                         err);
        s = s ? s
              : reduce_terms(g, terms.memory, recv + bytes_of(at, dtype), n, dtype, op, queue, err);
    }
    return s || !grouped ? s : nccl_group_begin(g->t, g, err);
}

static weft_status exact_reduce_scatter(group *g, const char *send, char *recv, int64_t count,
                                        weft_dtype dtype, weft_reduce op, weft_queue *queue,
                                        weft_error *err)
{
    scratch terms = {0};
    bool grouped;
    weft_status s = step_out(g, &grouped, err);
    s = s ? s : find_scratch(g, dtype, queue, &terms, err);
    for (int64_t at = 0, n; at < count && !s; at += n) {
        n = count - at < terms.most ? count - at : terms.most;
        s = swap(g, send + bytes_of(at, dtype), bytes_of(count, dtype), terms.memory,
                 bytes_of(n, dtype), bytes_of(n, dtype), queue, "reduce_scatter", err);
        s = s ? s
              : reduce_terms(g, terms.memory, recv + bytes_of(at, dtype), n, dtype, op, queue, err);
    }
    return s || !grouped ? s : nccl_group_begin(g->t, g, err);
}

/* ---- reductions by NCCL ---- */

/* NCCL's number of a dtype that it sums; negative: the device does. */
static int sum_type(const group *g, weft_dtype dtype, weft_reduce op)
{
    if (op != WEFT_REDUCE_SUM || g->t->exact)
        return -1;
    return dtype == WEFT_F32    ? NCCL_F32
           : dtype == WEFT_F64  ? NCCL_F64
           : dtype == WEFT_BF16 ? NCCL_BF16
                                : -1;
}

weft_status nccl_reduce_scatter(void *self, void *handle, const void *send, void *recv,
                                int64_t count, weft_dtype dtype, weft_reduce op, weft_queue *queue,
                                weft_error *err)
{
    group *g = handle;
    int type = sum_type(g, dtype, op);
    (void)self;
    if (count == 0)
        return WEFT_OK;
    if (type < 0)
        return exact_reduce_scatter(g, send, recv, count, dtype, op, queue, err);
    return settle(g,
                  g->t->api.ncclReduceScatter(send, recv, (size_t)count, type, NCCL_SUM,
                                              g->of->handle, stream_of(g, queue)),
                  "reduce_scatter", err);
}

weft_status nccl_all_reduce(void *self, void *handle, const void *send, void *recv, int64_t count,
                            weft_dtype dtype, weft_reduce op, weft_queue *queue, weft_error *err)
{
    group *g = handle;
    int type = sum_type(g, dtype, op);
    (void)self;
    if (count == 0)
        return WEFT_OK;
    if (type < 0)
        return exact_all_reduce(g, send, recv, count, dtype, op, queue, err);
    return settle(g,
                  g->t->api.ncclAllReduce(send, recv, (size_t)count, type, NCCL_SUM, g->of->handle,
                                          stream_of(g, queue)),
                  "all_reduce", err);
}
