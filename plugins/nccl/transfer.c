/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives: each direction between two ranks has a communicator and a queue of its own,
 * so that what waits for its other end holds up nothing else.
 *
 * CUDA promises less: streams share hardware connections, in which what waits holds up whatever was
 * put there after it. A transfer that has begun waits no more, but an event behind it does. So the
 * event is recorded when somebody is to wait for it, or something else comes behind it: then even
 * on one connection things happen in the order in which they were enqueued, and transfers beside
 * them. */
#include "nccl.h"

#include <stdlib.h>

struct weft_request {
    group *group;
    channel *channel;
    weft_device_event *done;
    weft_request *next;
};

/* NCCL connects two ranks at their first send and receive, and the host waits in that until the
 * other one is there: two that each send first would wait for each other for ever. So both send and
 * receive a byte here, where each knows that the other does. */
static weft_status greet(group *g, const channel *c, bool sends, weft_error *err)
{
    const transport *t = g->t;
    void *byte = g->byte;
    weft_status s = byte ? WEFT_OK : t->device->alloc(t->device_self, NCCL_BYTE, &byte, err);
    if (s)
        return s;
    g->byte = byte;
    void *stream = t->device->stream(t->device_self, c->queue);
    int result = sends ? t->api.ncclSend(byte, 1, NCCL_BYTES, c->peer, c->of->handle, stream)
                       : t->api.ncclRecv(byte, 1, NCCL_BYTES, c->peer, c->of->handle, stream);
    return nccl_settle(g->t, g, c->of, result, "two ranks cannot be connected", err);
}

/* The device's own are four, and one fills memory that is new. */
static void warn_of_connections(transport *t)
{
    enum { STREAMS = 5 };
    const char *set = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    const int most = set ? atoi(set) : 0;
    t->channels++;
    if (t->warned || most <= 0 || t->channels + STREAMS <= most)
        return;
    t->warned = true;
    weft_log_print(t->host->log, WEFT_LOG_WARN,
                   "nccl: rank %d: CUDA_DEVICE_MAX_CONNECTIONS = %d is less than this run has "
                   "streams; where two sends are under way between two stages of a pipeline, ranks "
                   "may wait for each other for ever; leave it unset",
                   t->host->rank, most);
}

/* Of each group those two ranks share a color, and all others make none. */
weft_status nccl_connect(void *self, void *handle, int from, int to, weft_error *err)
{
    transport *t = self;
    group *g = handle;
    bool sends = g->me == from, takes_part = sends || g->me == to;
    comm *of = NULL;
    weft_status s = nccl_split(t, takes_part && from != to ? g->ranks[from] : -1, sends ? 0 : 1,
                               NCCL_TRANSFER_BLOCKS, &of, err);
    if (!s && of && t->registers == NCCL_REGISTERS_WINDOWS)
        s = nccl_register(t, of, err);
    if (s || !of)
        return s;
    channel *c = sends ? &g->to[to] : &g->from[from];
    c->of = of;
    c->peer = sends ? 1 : 0;
    warn_of_connections(t);
    s = t->device->queue_create(t->device_self, &c->queue, err);
    return s ? s : greet(g, c, sends, err);
}

static void drop(weft_request *r)
{
    weft_request **at = &r->group->transfers;
    while (*at && *at != r)
        at = &(*at)->next;
    if (*at)
        *at = r->next;
    if (r->channel->latest == r)
        r->channel->latest = NULL;
    if (r->done)
        r->group->t->device->event_destroy(r->group->t->device_self, r->done);
    weft_free(r);
}

void nccl_drop_transfers(group *g)
{
    while (g->transfers)
        drop(g->transfers);
}

/* Behind the last that was begun, if nothing is yet. */
static weft_status mark(const group *g, channel *c, weft_error *err)
{
    const weft_request *r = c->latest;
    c->latest = NULL;
    return r ? g->t->device->record(g->t->device_self, c->queue, r->done, err) : WEFT_OK;
}

/* The channel's queue goes on where `queue` is now. */
static weft_status follow(group *g, channel *c, weft_queue *queue, weft_error *err)
{
    const transport *t = g->t;
    weft_status s = mark(g, c, err);
    s = s ? s : t->device->record(t->device_self, queue, g->ready, err);
    return s ? s : t->device->await(t->device_self, c->queue, g->ready, err);
}

static weft_status begin(group *g, channel *c, const void *send, void *recv, size_t bytes,
                         weft_queue *queue, weft_request **out, weft_error *err)
{
    transport *t = g->t;
    weft_request *r = weft_alloc_zero(1, sizeof *r);
    if (!r)
        return weft_fail_memory(err);
    r->group = g;
    r->channel = c;
    weft_status s = t->device->event_create(t->device_self, &r->done, err);
    s = s ? s : follow(g, c, queue, err);
    if (!s && bytes) {
        void *stream = t->device->stream(t->device_self, c->queue);
        int result = recv
                         ? t->api.ncclRecv(recv, bytes, NCCL_BYTES, c->peer, c->of->handle, stream)
                         : t->api.ncclSend(send, bytes, NCCL_BYTES, c->peer, c->of->handle, stream);
        s = nccl_settle(t, g, c->of, result, recv ? "recv" : "send", err);
    }
    if (s) {
        drop(r);
        return s;
    }
    c->latest = r;
    r->next = g->transfers;
    g->transfers = r;
    *out = r;
    return WEFT_OK;
}

static weft_status fail_unconnected(const group *g, int from, int to, weft_error *err)
{
    return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                     "nccl: rank %d sends to rank %d, and they were never connected",
                     g->ranks[from], g->ranks[to]);
}

weft_status nccl_send(void *self, void *handle, int to, const void *data, int64_t count,
                      weft_dtype dtype, weft_queue *queue, weft_request **request, weft_error *err)
{
    group *g = handle;
    (void)self;
    return g->to[to].queue ? begin(g, &g->to[to], data, NULL,
                                   (size_t)count * weft_dtype_size(dtype), queue, request, err)
                           : fail_unconnected(g, g->me, to, err);
}

weft_status nccl_recv(void *self, void *handle, int from, void *data, int64_t count,
                      weft_dtype dtype, weft_queue *queue, weft_request **request, weft_error *err)
{
    group *g = handle;
    (void)self;
    return g->from[from].queue ? begin(g, &g->from[from], NULL, data,
                                       (size_t)count * weft_dtype_size(dtype), queue, request, err)
                               : fail_unconnected(g, from, g->me, err);
}

/* The host does not wait: the queue does. */
weft_status nccl_wait(void *self, weft_request *r, weft_queue *queue, weft_error *err)
{
    transport *t = self;
    weft_status s = r->channel->latest == r ? mark(r->group, r->channel, err) : WEFT_OK;
    s = s ? s : t->device->await(t->device_self, queue, r->done, err);
    drop(r);
    return s;
}
