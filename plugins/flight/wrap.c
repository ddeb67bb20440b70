/* SPDX-License-Identifier: Apache-2.0 */
/* Stands around the transport: every operation is in the ring before it is begun, and marked when
 * it is over. */
#include "flight.h"

#include <string.h>

weft_status flight_wrap(void *self, const void *next, void *next_self, weft_error *err)
{
    flight *f = self;
    (void)err;
    f->next = next;
    f->next_self = next_self;
    return WEFT_OK;
}

/* ---- groups ---- */

static weft_status make_group(void *self, const int *ranks, int n, int me, void **out,
                              weft_error *err)
{
    flight *f = self;
    flight_member *m = weft_alloc_zero(1, sizeof *m);
    int *copy = weft_alloc((size_t)n * sizeof *copy);
    if (!m || !copy) {
        weft_free(copy);
        weft_free(m);
        return weft_fail_memory(err);
    }
    memcpy(copy, ranks, (size_t)n * sizeof *copy);
    weft_status s = f->next->group(f->next_self, ranks, n, me, &m->inner, err);
    if (s) {
        weft_free(copy);
        weft_free(m);
        return s;
    }
    m->ranks = copy;
    m->n = n;
    m->me = me;
    m->index = -1;
    m->next = f->members;
    f->members = m;
    *out = m;
    return WEFT_OK;
}

static void free_group(void *self, void *group)
{
    flight *f = self;
    flight_member *m = group, **at = &f->members;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    f->next->ungroup(f->next_self, m->inner);
    weft_free(m->ranks);
    weft_free(m);
}

static weft_status connect(void *self, void *group, int from, int to, weft_error *err)
{
    const flight *f = self;
    return f->next->connect
               ? f->next->connect(f->next_self, ((flight_member *)group)->inner, from, to, err)
               : WEFT_OK;
}

static weft_status places(void *self, void *group, uint64_t digest, weft_error *err)
{
    const flight *f = self;
    return f->next->places
               ? f->next->places(f->next_self, ((flight_member *)group)->inner, digest, err)
               : WEFT_OK;
}

/* ---- entries ---- */

typedef struct operation {
    flight_kind kind;
    int peer;
    int64_t count, sent; /* sent: elements that this rank sends */
    weft_dtype dtype;
} operation;

static uint64_t count_up(const flight *f, const flight_member *m, const operation *o)
{
    flight_group *g = flight_ring_group(&f->ring, m->index);
    if (o->kind == FLIGHT_SEND)
        return ++flight_group_sent(f->ring.head, g)[o->peer];
    if (o->kind == FLIGHT_RECV)
        return ++flight_group_received(f->ring.head, g)[o->peer];
    return ++g->entered;
}

/* NULL: nothing is recorded. */
static flight_entry *enter(flight *f, const flight_member *m, const operation *o)
{
    flight_head *head = f->ring.head;
    if (!head || m->index < 0)
        return NULL;
    flight_entry *e = &f->ring.entries[head->written % head->capacity];
    int64_t now = flight_now(&f->ring);
    *e = (flight_entry){.in_group = count_up(f, m, o),
                        .group = m->index,
                        .kind = (int32_t)o->kind,
                        .dtype = (int32_t)o->dtype,
                        .state = flight_is_transfer((int)o->kind) ? FLIGHT_BEGUN : FLIGHT_WAITING,
                        .peer = o->peer,
                        .count = o->count,
                        .bytes = o->sent * (int64_t)weft_dtype_size(o->dtype),
                        .enqueued_ns = now,
                        .started_ns = now,
                        .place = f->at};
    e->number = ++head->written;
    return e;
}

static weft_status leave(const flight *f, flight_entry *e, weft_status s)
{
    if (!e || (f->grouped && !s))
        return s;
    e->ended_ns = flight_now(&f->ring);
    e->state = s ? FLIGHT_FAILED : FLIGHT_DONE;
    return s;
}

/* ---- collectives that are begun as one: all are over when that is ---- */

static weft_status group_begin(void *self, void *group, weft_error *err)
{
    flight *f = self;
    f->grouped = true;
    f->first = f->ring.head ? f->ring.head->written + 1 : 0;
    return f->next->group_begin
               ? f->next->group_begin(f->next_self, ((flight_member *)group)->inner, err)
               : WEFT_OK;
}

static weft_status group_end(void *self, void *group, weft_error *err)
{
    flight *f = self;
    weft_status s = f->next->group_end
                        ? f->next->group_end(f->next_self, ((flight_member *)group)->inner, err)
                        : WEFT_OK;
    const flight_head *head = f->ring.head;
    f->grouped = false;
    for (uint64_t i = f->first; head && i <= head->written; i++) {
        flight_entry *e = &f->ring.entries[(i - 1) % head->capacity];
        if (e->number == i && e->state == FLIGHT_WAITING)
            leave(f, e, s);
    }
    return s;
}

/* ---- collectives; what a rank sends is as in a ring, as weft plan counts it ---- */

static weft_status all_gather(void *self, void *group, const void *send, void *recv, int64_t n,
                              weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    flight *f = self;
    const flight_member *m = group;
    const operation o = {FLIGHT_ALL_GATHER, -1, n, n * (m->n - 1), dtype};
    flight_entry *e = enter(f, m, &o);
    return leave(f, e,
                 f->next->all_gather(f->next_self, m->inner, send, recv, n, dtype, queue, err));
}

static weft_status reduce_scatter(void *self, void *group, const void *send, void *recv, int64_t n,
                                  weft_dtype dtype, weft_reduce op, weft_queue *queue,
                                  weft_error *err)
{
    flight *f = self;
    const flight_member *m = group;
    const operation o = {FLIGHT_REDUCE_SCATTER, -1, n, n * (m->n - 1), dtype};
    flight_entry *e = enter(f, m, &o);
    return leave(
        f, e,
        f->next->reduce_scatter(f->next_self, m->inner, send, recv, n, dtype, op, queue, err));
}

static weft_status all_reduce(void *self, void *group, const void *send, void *recv, int64_t n,
                              weft_dtype dtype, weft_reduce op, weft_queue *queue, weft_error *err)
{
    flight *f = self;
    const flight_member *m = group;
    const operation o = {FLIGHT_ALL_REDUCE, -1, n, 2 * ((n + m->n - 1) / m->n) * (m->n - 1), dtype};
    flight_entry *e = enter(f, m, &o);
    return leave(f, e,
                 f->next->all_reduce(f->next_self, m->inner, send, recv, n, dtype, op, queue, err));
}

static weft_status all_to_all(void *self, void *group, const void *send, void *recv, int64_t n,
                              weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    flight *f = self;
    const flight_member *m = group;
    const operation o = {FLIGHT_ALL_TO_ALL, -1, n, n * (m->n - 1), dtype};
    flight_entry *e = enter(f, m, &o);
    return leave(f, e,
                 f->next->all_to_all(f->next_self, m->inner, send, recv, n, dtype, queue, err));
}

static weft_status broadcast(void *self, void *group, int root, void *data, int64_t n,
                             weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    flight *f = self;
    const flight_member *m = group;
    const operation o = {FLIGHT_BROADCAST, root, n, m->me == root ? n * (m->n - 1) : 0, dtype};
    flight_entry *e = enter(f, m, &o);
    return leave(f, e,
                 f->next->broadcast(f->next_self, m->inner, root, data, n, dtype, queue, err));
}

/* ---- transfers: begun here, awaited there ---- */

/* Requests are the transport's, and may be at the place of one that is over. */
static void remember(flight *f, weft_request *request, const flight_entry *e)
{
    int i = 0;
    while (i < f->n_pending && f->pending[i].request != request)
        i++;
    if (i == FLIGHT_PENDING)
        return;
    f->n_pending = i == f->n_pending ? i + 1 : f->n_pending;
    f->pending[i] = (flight_pending){request, e->number};
}

/* Its entry, if the ring still has it. */
static flight_entry *recall(flight *f, const weft_request *request)
{
    for (int i = 0; i < f->n_pending; i++)
        if (f->pending[i].request == request) {
            uint64_t number = f->pending[i].number;
            f->pending[i] = f->pending[--f->n_pending];
            flight_entry *e = &f->ring.entries[(number - 1) % f->ring.head->capacity];
            return e->number == number ? e : NULL;
        }
    return NULL;
}

static weft_status began(flight *f, flight_entry *e, weft_status s, weft_request *request)
{
    if (e && s)
        return leave(f, e, s);
    if (e)
        remember(f, request, e);
    return s;
}

static weft_status send(void *self, void *group, int to, const void *data, int64_t n,
                        weft_dtype dtype, weft_queue *queue, weft_request **request,
                        weft_error *err)
{
    flight *f = self;
    const flight_member *m = group;
    const operation o = {FLIGHT_SEND, to, n, n, dtype};
    flight_entry *e = enter(f, m, &o);
    weft_status s = f->next->send(f->next_self, m->inner, to, data, n, dtype, queue, request, err);
    return began(f, e, s, s ? NULL : *request);
}

static weft_status recv(void *self, void *group, int from, void *data, int64_t n, weft_dtype dtype,
                        weft_queue *queue, weft_request **request, weft_error *err)
{
    flight *f = self;
    const flight_member *m = group;
    const operation o = {FLIGHT_RECV, from, n, 0, dtype};
    flight_entry *e = enter(f, m, &o);
    weft_status s =
        f->next->recv(f->next_self, m->inner, from, data, n, dtype, queue, request, err);
    return began(f, e, s, s ? NULL : *request);
}

static weft_status wait(void *self, weft_request *request, weft_queue *queue, weft_error *err)
{
    flight *f = self;
    flight_entry *e = f->ring.head ? recall(f, request) : NULL;
    if (e) {
        e->started_ns = flight_now(&f->ring);
        e->state = FLIGHT_WAITING;
    }
    return leave(f, e, f->next->wait(f->next_self, request, queue, err));
}

const weft_transport flight_transport = {
    .size = sizeof(weft_transport),
    .group = make_group,
    .ungroup = free_group,
    .connect = connect,
    .places = places,
    .group_begin = group_begin,
    .group_end = group_end,
    .all_gather = all_gather,
    .reduce_scatter = reduce_scatter,
    .all_reduce = all_reduce,
    .all_to_all = all_to_all,
    .send = send,
    .recv = recv,
    .wait = wait,
    .broadcast = broadcast,
};
