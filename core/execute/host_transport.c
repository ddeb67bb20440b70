/* SPDX-License-Identifier: Apache-2.0 */
/* A transport that carries what the host may use, where the device's memory is its own: what ranks
 * send comes to the host first, and what they receive goes from there. The host waits for the
 * queue that a piece comes from; other queues go on meanwhile. The host's memory for all of it is
 * planned (compile/driver/staging.c). */
#include "execute/run.h"

/* Host memory that something is on its way through. */
typedef struct buffer {
    void *at;
    size_t bytes;
    weft_device_event *last; /* after what the device does with it; NULL: it computes at once */
} buffer;

/* A transfer, or room for one. */
typedef struct transfer {
    weft_request *inner; /* NULL: none is on its way */
    buffer through;
    void *to; /* of a receive: where it goes */
} transfer;

struct weft_host_transport {
    weft_run *run;
    const weft_transport *next;
    void *next_self;
    buffer send, recv;   /* of collectives */
    transfer *transfers; /* [the plan's places] */
    int n_transfers;
    weft_transport table;
};

typedef struct group {
    void *inner;
    size_t n;
    int me;
} group;

/* ---- buffers ---- */

static weft_status create(const weft_plan *plan, buffer *b, int64_t bytes, weft_error *err)
{
    weft_status s = WEFT_OK;
    if (weft_device_is_async(plan))
        s = plan->device->event_create(plan->device_self, &b->last, err);
    if (s || bytes == 0)
        return s;
    b->bytes = (size_t)bytes;
    return weft_device_alloc_host(plan, b->bytes, &b->at, err);
}

/* The host may write there: what the device does with it is over. */
static weft_status take(const struct weft_host_transport *h, const buffer *b, size_t bytes,
                        weft_error *err)
{
    if (bytes > b->bytes)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "%zu bytes go through the host, and %zu were planned", bytes, b->bytes);
    return weft_run_wait_for(h->run, b->last, err);
}

static void release(const weft_plan *plan, const buffer *b)
{
    if (b->at)
        weft_device_free_host(plan, b->at, b->bytes);
    if (b->last)
        plan->device->event_destroy(plan->device_self, b->last);
}

static int number_of(const weft_plan *plan, const weft_queue *queue)
{
    int i = 0;
    while (i + 1 < WEFT_MOST_QUEUES && weft_device_queue(plan, i) != queue)
        i++;
    return i;
}

/* From the device, behind what is on the queue; it is there on return. */
static weft_status fetch(const struct weft_host_transport *h, const buffer *b, const void *from,
                         size_t bytes, const weft_queue *queue, weft_error *err)
{
    const weft_plan *plan = h->run->plan;
    int on = number_of(plan, queue);
    weft_status s = take(h, b, bytes, err);
    if (s || bytes == 0)
        return s;
    s = weft_device_download(plan, on, b->at, from, bytes, err);
    if (!s && b->last)
        s = weft_device_record(plan, on, b->last, err);
    return s ? s : weft_run_wait_for(h->run, b->last, err);
}

/* To the device, before what comes behind it on the queue. */
static weft_status deliver(const struct weft_host_transport *h, const buffer *b, void *to,
                           size_t bytes, const weft_queue *queue, weft_error *err)
{
    const weft_plan *plan = h->run->plan;
    int on = number_of(plan, queue);
    if (bytes == 0)
        return WEFT_OK;
    weft_status s = weft_device_upload(plan, on, to, b->at, bytes, err);
    return s || !b->last ? s : weft_device_record(plan, on, b->last, err);
}

/* Both buffers of a collective. */
static weft_status begin(struct weft_host_transport *h, const void *send, size_t send_bytes,
                         size_t recv_bytes, const weft_queue *queue, weft_error *err)
{
    weft_status s = fetch(h, &h->send, send, send_bytes, queue, err);
    return s ? s : take(h, &h->recv, recv_bytes, err);
}

/* ---- groups ---- */

static weft_status make_group(void *self, const int *ranks, int n, int me, void **out,
                              weft_error *err)
{
    const struct weft_host_transport *h = self;
    group *g = weft_alloc(sizeof *g);
    if (!g)
        return weft_fail_memory(err);
    g->n = (size_t)n;
    g->me = me;
    weft_status s = h->next->group(h->next_self, ranks, n, me, &g->inner, err);
    if (s)
        weft_free(g);
    else
        *out = g;
    return s;
}

static void free_group(void *self, void *handle)
{
    const struct weft_host_transport *h = self;
    h->next->ungroup(h->next_self, ((group *)handle)->inner);
    weft_free(handle);
}

/* ---- collectives ---- */

static size_t size_of(int64_t count, weft_dtype dtype)
{
    return (size_t)count * weft_dtype_size(dtype);
}

static weft_status all_gather(void *self, void *handle, const void *send, void *recv, int64_t n,
                              weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    struct weft_host_transport *h = self;
    const group *g = handle;
    size_t piece = size_of(n, dtype);
    weft_status s = begin(h, send, piece, g->n * piece, queue, err);
    s = s ? s
          : h->next->all_gather(h->next_self, g->inner, h->send.at, h->recv.at, n, dtype, queue,
                                err);
    return s ? s : deliver(h, &h->recv, recv, g->n * piece, queue, err);
}

static weft_status reduce_scatter(void *self, void *handle, const void *send, void *recv, int64_t n,
                                  weft_dtype dtype, weft_reduce op, weft_queue *queue,
                                  weft_error *err)
{
    struct weft_host_transport *h = self;
    const group *g = handle;
    size_t piece = size_of(n, dtype);
    weft_status s = begin(h, send, g->n * piece, piece, queue, err);
    s = s ? s
          : h->next->reduce_scatter(h->next_self, g->inner, h->send.at, h->recv.at, n, dtype, op,
                                    queue, err);
    return s ? s : deliver(h, &h->recv, recv, piece, queue, err);
}

static weft_status all_reduce(void *self, void *handle, const void *send, void *recv, int64_t n,
                              weft_dtype dtype, weft_reduce op, weft_queue *queue, weft_error *err)
{
    struct weft_host_transport *h = self;
    size_t bytes = size_of(n, dtype);
    weft_status s = begin(h, send, bytes, bytes, queue, err);
    s = s ? s
          : h->next->all_reduce(h->next_self, ((group *)handle)->inner, h->send.at, h->recv.at, n,
                                dtype, op, queue, err);
    return s ? s : deliver(h, &h->recv, recv, bytes, queue, err);
}

static weft_status all_to_all(void *self, void *handle, const void *send, void *recv, int64_t n,
                              weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    struct weft_host_transport *h = self;
    const group *g = handle;
    size_t bytes = g->n * size_of(n, dtype);
    weft_status s = begin(h, send, bytes, bytes, queue, err);
    s = s ? s
          : h->next->all_to_all(h->next_self, g->inner, h->send.at, h->recv.at, n, dtype, queue,
                                err);
    return s ? s : deliver(h, &h->recv, recv, bytes, queue, err);
}

static weft_status broadcast(void *self, void *handle, int root, void *data, int64_t n,
                             weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    struct weft_host_transport *h = self;
    const group *g = handle;
    size_t bytes = size_of(n, dtype);
    weft_status s =
        g->me == root ? fetch(h, &h->send, data, bytes, queue, err) : take(h, &h->send, bytes, err);
    s = s ? s : h->next->broadcast(h->next_self, g->inner, root, h->send.at, n, dtype, queue, err);
    return s || g->me == root ? s : deliver(h, &h->send, data, bytes, queue, err);
}

/* ---- transfers ---- */

/* One that is not in use: the plan has a place for each of its size. */
static weft_status find_free(struct weft_host_transport *h, size_t bytes, transfer **out,
                             weft_error *err)
{
    for (int i = 0; i < h->n_transfers; i++)
        if (!h->transfers[i].inner && h->transfers[i].through.bytes == bytes) {
            *out = &h->transfers[i];
            return WEFT_OK;
        }
    return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                     "more transfers of %zu bytes are on their way than were planned", bytes);
}

/* The core's requests are transfers, which nobody else looks into. */
static weft_request *as_request(transfer *t)
{
    return (weft_request *)(void *)t;
}

static weft_status connect(void *self, void *handle, int from, int to, weft_error *err)
{
    const struct weft_host_transport *h = self;
    return h->next->connect(h->next_self, ((group *)handle)->inner, from, to, err);
}

static weft_status send(void *self, void *handle, int to, const void *data, int64_t n,
                        weft_dtype dtype, weft_queue *queue, weft_request **request,
                        weft_error *err)
{
    struct weft_host_transport *h = self;
    transfer *t;
    weft_status s = find_free(h, size_of(n, dtype), &t, err);
    s = s ? s : fetch(h, &t->through, data, size_of(n, dtype), queue, err);
    if (s)
        return s;
    t->to = NULL;
    *request = as_request(t);
    return h->next->send(h->next_self, ((group *)handle)->inner, to, t->through.at, n, dtype, queue,
                         &t->inner, err);
}

static weft_status recv(void *self, void *handle, int from, void *data, int64_t n, weft_dtype dtype,
                        weft_queue *queue, weft_request **request, weft_error *err)
{
    struct weft_host_transport *h = self;
    transfer *t;
    weft_status s = find_free(h, size_of(n, dtype), &t, err);
    s = s ? s : take(h, &t->through, size_of(n, dtype), err);
    if (s)
        return s;
    t->to = data;
    *request = as_request(t);
    return h->next->recv(h->next_self, ((group *)handle)->inner, from, t->through.at, n, dtype,
                         queue, &t->inner, err);
}

/* What is received goes on by `queue`, behind all that has used the memory there: the plan sees to
 * that. What was sent has left its memory: `queue` may write there. */
static weft_status wait(void *self, weft_request *request, weft_queue *queue, weft_error *err)
{
    struct weft_host_transport *h = self;
    transfer *t = (transfer *)(void *)request;
    weft_request *inner = t->inner;
    t->inner = NULL;
    weft_status s = h->next->wait(h->next_self, inner, queue, err);
    if (s)
        return s;
    if (t->to)
        return deliver(h, &t->through, t->to, t->through.bytes, queue, err);
    const weft_plan *plan = h->run->plan;
    return t->through.last ? weft_device_await(plan, number_of(plan, queue), t->through.last, err)
                           : WEFT_OK;
}

/* ---- life ---- */

static weft_transport table_of(const weft_transport *next)
{
    weft_transport t = {.size = sizeof t,
                        .name = next->name,
                        .ranks = next->ranks,
                        .device_memory = true,
                        .ordered = next->ordered,
                        .group = make_group,
                        .ungroup = free_group,
                        .all_gather = all_gather,
                        .reduce_scatter = reduce_scatter,
                        .all_reduce = all_reduce,
                        .all_to_all = all_to_all};
    if (next->send) {
        t.send = send;
        t.recv = recv;
        t.wait = wait;
        t.broadcast = broadcast;
    }
    if (next->connect)
        t.connect = connect;
    return t;
}

static weft_status create_buffers(struct weft_host_transport *h, weft_error *err)
{
    const weft_plan *plan = h->run->plan;
    const weft_staging *planned = &plan->staging;
    h->transfers = weft_alloc_zero((size_t)planned->n_places + 1, sizeof *h->transfers);
    weft_status s = h->transfers ? WEFT_OK : weft_fail_memory(err);
    h->n_transfers = s ? 0 : planned->n_places;
    s = s ? s : create(plan, &h->send, planned->send, err);
    s = s ? s : create(plan, &h->recv, planned->recv, err);
    for (int i = 0; i < h->n_transfers && !s; i++)
        s = create(plan, &h->transfers[i].through, planned->places[i], err);
    return s;
}

weft_status weft_host_transport_create(weft_run *run, weft_error *err)
{
    weft_groups *g = &run->groups;
    struct weft_host_transport *h = run->host_transport = weft_alloc_zero(1, sizeof *h);
    if (!h)
        return weft_fail_memory(err);
    h->run = run;
    h->next = g->transport;
    h->next_self = g->transport_self;
    h->table = table_of(h->next);
    g->transport = &h->table;
    g->transport_self = h;
    if (run->plan->rank == 0)
        weft_log_print(run->log, WEFT_LOG_WARN,
                       "%s carries what lies in the host's memory: what ranks send each other goes "
                       "from %s's memory to the host and back, and the host waits for it",
                       h->next->name, run->plan->device->name);
    return create_buffers(h, err);
}

void weft_host_transport_destroy(weft_run *run)
{
    struct weft_host_transport *h = run->host_transport;
    if (!h)
        return;
    weft_streams_drain(run);
    release(run->plan, &h->send);
    release(run->plan, &h->recv);
    for (int i = 0; i < h->n_transfers; i++)
        release(run->plan, &h->transfers[i].through);
    weft_free(h->transfers);
    weft_free(h);
    run->host_transport = NULL;
}
