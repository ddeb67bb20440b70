/* SPDX-License-Identifier: Apache-2.0 */
/* Stands around a transport that carries what the host may use, where the device's memory is its
 * own: what ranks send comes to the host first, and what they receive goes from there. The host
 * waits for the queue that a piece comes from; other queues go on meanwhile. The host's memory for
 * all of it is planned. */
#include <weft/weft.h>

/* Host memory that something is on its way through. */
typedef struct buffer {
    int64_t planned; /* bytes */
    void *at;
    weft_device_event *last; /* after what the device does with it; NULL: it computes at once */
} buffer;

/* A transfer, or room for one. */
typedef struct transfer {
    weft_request *inner; /* NULL: none is on its way */
    buffer through;
    void *to; /* of a receive: where it goes */
} transfer;

typedef struct through_host {
    const weft_host *host;
    const weft_transport *next; /* NULL: it is not needed here */
    void *next_self;
    const weft_device *device;
    void *device_self;
    buffer send, recv;   /* of collectives */
    transfer *transfers; /* the plan's places */
    int n_transfers;
    bool ready; /* the buffers are there */
    weft_transport table;
} through_host;

typedef struct group {
    void *inner;
    size_t n;
    int me;
} group;

/* ---- buffers ---- */

/* Pinned, if the device has such memory. */
static weft_status allocate(const through_host *h, buffer *b, weft_error *err)
{
    const weft_device *d = h->device;
    weft_status s = d->record ? d->event_create(h->device_self, &b->last, err) : WEFT_OK;
    if (s || b->planned == 0)
        return s;
    if (d->alloc_host)
        return d->alloc_host(h->device_self, (size_t)b->planned, &b->at, err);
    b->at = weft_alloc_zero(1, (size_t)b->planned);
    return b->at ? WEFT_OK : weft_fail_memory(err);
}

static void release(const through_host *h, buffer *b)
{
    const weft_device *d = h->device;
    if (b->at && d->free_host)
        d->free_host(h->device_self, b->at, (size_t)b->planned);
    else
        weft_free(b->at);
    if (b->last)
        d->event_destroy(h->device_self, b->last);
    b->at = NULL;
    b->last = NULL;
}

static weft_status allocate_all(through_host *h, weft_error *err)
{
    if (h->ready)
        return WEFT_OK;
    h->device = h->host->service(h->host, "device", &h->device_self);
    h->ready = true;
    weft_status s = allocate(h, &h->send, err);
    s = s ? s : allocate(h, &h->recv, err);
    for (int i = 0; i < h->n_transfers && !s; i++)
        s = allocate(h, &h->transfers[i].through, err);
    return s;
}

static void release_all(through_host *h)
{
    if (!h->ready)
        return;
    release(h, &h->send);
    release(h, &h->recv);
    for (int i = 0; i < h->n_transfers; i++)
        release(h, &h->transfers[i].through);
    h->ready = false;
}

static weft_status await(const through_host *h, const buffer *b, weft_error *err)
{
    return b->last ? weft_event_wait(h->host, b->last, err) : WEFT_OK;
}

/* The host may write there: what the device does with it is over. */
static weft_status take(const through_host *h, const buffer *b, size_t bytes, weft_error *err)
{
    if (bytes > (size_t)b->planned)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "%zu bytes go through the host, and %zu were planned", bytes,
                         (size_t)b->planned);
    return await(h, b, err);
}

static weft_status record(const through_host *h, const buffer *b, weft_queue *queue,
                          weft_error *err)
{
    return b->last ? h->device->record(h->device_self, queue, b->last, err) : WEFT_OK;
}

/* From the device, behind what is on the queue; it is there on return. */
static weft_status fetch(const through_host *h, const buffer *b, const void *from, size_t bytes,
                         weft_queue *queue, weft_error *err)
{
    weft_status s = take(h, b, bytes, err);
    if (s || bytes == 0)
        return s;
    s = h->device->download(h->device_self, queue, b->at, from, bytes, err);
    s = s ? s : record(h, b, queue, err);
    return s ? s : await(h, b, err);
}

/* To the device, before what comes behind it on the queue. */
static weft_status deliver(const through_host *h, const buffer *b, void *to, size_t bytes,
                           weft_queue *queue, weft_error *err)
{
    if (bytes == 0)
        return WEFT_OK;
    weft_status s = h->device->upload(h->device_self, queue, to, b->at, bytes, err);
    return s ? s : record(h, b, queue, err);
}

/* Both buffers of a collective. */
static weft_status begin(const through_host *h, const void *send, size_t send_bytes,
                         size_t recv_bytes, weft_queue *queue, weft_error *err)
{
    weft_status s = fetch(h, &h->send, send, send_bytes, queue, err);
    return s ? s : take(h, &h->recv, recv_bytes, err);
}

/* ---- groups ---- */

static weft_status make_group(void *self, const int *ranks, int n, int me, void **out,
                              weft_error *err)
{
    through_host *h = self;
    weft_status s = allocate_all(h, err);
    group *g = s ? NULL : weft_alloc(sizeof *g);
    if (!g)
        return s ? s : weft_fail_memory(err);
    g->n = (size_t)n;
    g->me = me;
    s = h->next->group(h->next_self, ranks, n, me, &g->inner, err);
    if (s)
        weft_free(g);
    else
        *out = g;
    return s;
}

static void free_group(void *self, void *handle)
{
    const through_host *h = self;
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
    through_host *h = self;
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
    through_host *h = self;
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
    through_host *h = self;
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
    through_host *h = self;
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
    through_host *h = self;
    const group *g = handle;
    size_t bytes = size_of(n, dtype);
    weft_status s =
        g->me == root ? fetch(h, &h->send, data, bytes, queue, err) : take(h, &h->send, bytes, err);
    s = s ? s : h->next->broadcast(h->next_self, g->inner, root, h->send.at, n, dtype, queue, err);
    return s || g->me == root ? s : deliver(h, &h->send, data, bytes, queue, err);
}

/* ---- transfers ---- */

/* One that is not in use: the plan has a place for each of its size. */
static weft_status find_free(through_host *h, size_t bytes, transfer **out, weft_error *err)
{
    for (int i = 0; i < h->n_transfers; i++)
        if (!h->transfers[i].inner && (size_t)h->transfers[i].through.planned == bytes) {
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
    const through_host *h = self;
    return h->next->connect(h->next_self, ((group *)handle)->inner, from, to, err);
}

static weft_status send(void *self, void *handle, int to, const void *data, int64_t n,
                        weft_dtype dtype, weft_queue *queue, weft_request **request,
                        weft_error *err)
{
    through_host *h = self;
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
    through_host *h = self;
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
    through_host *h = self;
    transfer *t = (transfer *)(void *)request;
    weft_request *inner = t->inner;
    t->inner = NULL;
    weft_status s = h->next->wait(h->next_self, inner, queue, err);
    if (s)
        return s;
    if (t->to)
        return deliver(h, &t->through, t->to, (size_t)t->through.planned, queue, err);
    return t->through.last ? h->device->await(h->device_self, queue, t->through.last, err)
                           : WEFT_OK;
}

/* ---- what the transport need not know ---- */

/* Memory of the device, which nothing is sent from. */
static weft_status add_memory(void *self, void *memory, size_t bytes, weft_error *err)
{
    (void)self, (void)memory, (void)bytes, (void)err;
    return WEFT_OK;
}

static void remove_memory(void *self, void *memory, size_t bytes)
{
    (void)self, (void)memory, (void)bytes;
}

/* ---- the plan ---- */

static void widen(buffer *b, int64_t bytes)
{
    b->planned = bytes > b->planned ? bytes : b->planned;
}

static int count(const through_host *h, int64_t bytes)
{
    int found = 0;
    for (int i = 0; i < h->n_transfers; i++)
        found += h->transfers[i].through.planned == bytes;
    return found;
}

static weft_status add_transfers(through_host *h, int64_t bytes, int n, weft_error *err)
{
    if (n <= 0)
        return WEFT_OK;
    transfer *fresh = weft_realloc(h->transfers, (size_t)(h->n_transfers + n) * sizeof *fresh);
    if (!fresh)
        return weft_fail_memory(err);
    h->transfers = fresh;
    while (n-- > 0)
        h->transfers[h->n_transfers++] = (transfer){.through.planned = bytes};
    return WEFT_OK;
}

static weft_status add_call(through_host *h, const weft_planned_call *c, weft_error *err)
{
    const int64_t piece = (int64_t)size_of(c->count, c->dtype), all = piece * c->members;
    const weft_move move = c->move;
    if (move == WEFT_SEND)
        return add_transfers(h, piece, c->at_once - count(h, piece), err);
    widen(&h->send, move == WEFT_REDUCE_SCATTER || move == WEFT_ALL_TO_ALL ? all : piece);
    if (move != WEFT_BROADCAST)
        widen(&h->recv, move == WEFT_ALL_GATHER || move == WEFT_ALL_TO_ALL ? all : piece);
    return WEFT_OK;
}

static void forget_plan(through_host *h)
{
    release_all(h);
    weft_free(h->transfers);
    h->transfers = NULL;
    h->n_transfers = 0;
    h->send = h->recv = (buffer){0};
}

static weft_status plan(void *self, const weft_planned_call *calls, int n, int64_t *host_bytes,
                        weft_error *err)
{
    through_host *h = self;
    int64_t inner = 0;
    forget_plan(h);
    weft_status s = h->next->plan ? h->next->plan(h->next_self, calls, n, &inner, err) : WEFT_OK;
    for (int i = 0; i < n && !s; i++)
        s = add_call(h, &calls[i], err);
    *host_bytes = inner + h->send.planned + h->recv.planned;
    for (int i = 0; i < h->n_transfers; i++)
        *host_bytes += h->transfers[i].through.planned;
    return s;
}

/* ---- the wrap ---- */

/* `check`, `leave` and the like go past it. It does not allow what needs the host to be captured.
 */
static const weft_transport table = {
    .size = sizeof table,
    .device_memory = true,
    .group = make_group,
    .ungroup = free_group,
    .connect = connect,
    .add_memory = add_memory,
    .remove_memory = remove_memory,
    .plan = plan,
    .all_gather = all_gather,
    .reduce_scatter = reduce_scatter,
    .all_reduce = all_reduce,
    .all_to_all = all_to_all,
    .send = send,
    .recv = recv,
    .wait = wait,
    .broadcast = broadcast,
};

/* The host may use what a device that computes at once keeps in its memory. */
static bool is_needed(const through_host *h, const weft_transport *next, const weft_device *device)
{
    return device && h->host->ranks > 1 && !next->device_memory &&
           !(device->host_memory && !device->record);
}

static const void *around(void *self, const void *service, const weft_device *device)
{
    through_host *h = self;
    const weft_transport *next = service;
    if (!is_needed(h, next, device))
        return NULL;
    h->table = table;
    h->table.name = next->name;
    h->table.ranks = next->ranks;
    h->table.ordered = next->ordered;
    if (!next->connect)
        h->table.connect = NULL;
    if (!next->send) {
        h->table.send = NULL;
        h->table.recv = NULL;
        h->table.wait = NULL;
        h->table.broadcast = NULL;
    }
    return &h->table;
}

static weft_status wrap(void *self, const void *next, void *next_self, weft_error *err)
{
    through_host *h = self;
    (void)err;
    h->next = next;
    h->next_self = next_self;
    return WEFT_OK;
}

/* ---- life ---- */

static weft_status open_through_host(void *self, weft_error *err)
{
    const through_host *h = self;
    (void)err;
    void *device_self;
    const weft_device *device = h->host->service(h->host, "device", &device_self);
    if (h->next && h->host->rank == 0)
        weft_log_print(h->host->log, WEFT_LOG_WARN,
                       "%s carries what lies in the host's memory: what ranks send each other goes "
                       "from %s's memory to the host and back, and the host waits for it",
                       h->next->name, device->name);
    return WEFT_OK;
}

static void close_through_host(void *self)
{
    release_all(self);
}

static void destroy(void *self)
{
    through_host *h = self;
    weft_free(h->transfers);
}

static const weft_contribution contributions[] = {
    {.kind = WEFT_WRAP, .service = "transport?", .table = &table, .around = around, .wrap = wrap},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(through_host) = {
    WEFT_PLUGIN_HEAD,
    .name = "through_host",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "brings what ranks send to the host, where the transport carries nothing else",
    .numerics = WEFT_NUMERICS_BITWISE,
    .contributions = contributions,
    .self_size = WEFT_SELF(through_host),
    .open = open_through_host,
    .close = close_through_host,
    .destroy = destroy,
};
