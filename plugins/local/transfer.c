/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives: whoever comes first posts its end, the second has its device copy, behind
 * what both queues had before. That goes on on a queue of its own, one for each that sends the
 * receiver something: what waits for its other end holds up nothing else. */
#include "local.h"

#include <string.h>

typedef enum progress {
    POSTED,    /* in the group's list */
    COPYING,   /* by the second of the two, without the lock */
    DONE,      /* or enqueued, and `event` says when it is */
    DIFFERENT, /* the two ends do not mean the same */
    FAILED     /* the second one's device */
} progress;

struct weft_request {
    member *by;
    int from, to;
    bool sends;
    const void *source; /* of who sends */
    void *target;       /* of who receives */
    int64_t count, other_count;
    weft_dtype dtype, other_dtype;
    progress at;
    weft_device_event *event; /* its queue is there; later: the copy is done. NULL: at once */
    weft_request *next_post;  /* of the group */
    weft_request *next;       /* of the member */
};

static int peer_of(const weft_request *r)
{
    return r->sends ? r->to : r->from;
}

/* ---- posting ---- */

/* The oldest post of the other end: what goes from one to the other goes in order. */
static weft_request **find_other(group *g, const weft_request *r)
{
    weft_request **at = &g->posts;
    while (*at && ((*at)->from != r->from || (*at)->to != r->to || (*at)->sends == r->sends))
        at = &(*at)->next_post;
    return at;
}

/* `queue`: the second one's, where the device makes no others. */
static weft_status copy(const local *l, const weft_request *second, weft_queue *queue,
                        const weft_request *first, weft_error *err)
{
    const weft_request *out = first->sends ? first : second, *in = first->sends ? second : first;
    const weft_device *d = l->device;
    const weft_box box =
        weft_box_of(in->target, out->source, out->count * (int64_t)weft_dtype_size(out->dtype));
    weft_queue *incoming = in->by->incoming[in->from];
    weft_queue *on = incoming ? incoming : queue;
    weft_status s = first->event ? d->await(l->device_self, on, first->event, err) : WEFT_OK;
    if (!s && incoming)
        s = d->await(l->device_self, on, second->event, err);
    if (!s && box.bytes)
        s = d->move(l->device_self, on, &box, 1, err);
    if (s || !first->event)
        return s;
    s = d->record(l->device_self, on, first->event, err);
    return s ? s : d->record(l->device_self, on, second->event, err);
}

/* Under the lock, but for the copy itself. b came first. */
static weft_status meet(const local *l, group *g, weft_request *a, weft_queue *queue,
                        weft_request *b, weft_error *err)
{
    weft_status s = WEFT_OK;
    if (a->count != b->count || a->dtype != b->dtype) {
        a->at = b->at = DIFFERENT;
        a->other_count = b->count;
        a->other_dtype = b->dtype;
        b->other_count = a->count;
        b->other_dtype = a->dtype;
    } else {
        a->at = b->at = COPYING;
        g->copying++;
        pthread_mutex_unlock(&g->lock);
        s = copy(l, a, queue, b, err);
        pthread_mutex_lock(&g->lock);
        g->copying--;
        a->at = b->at = s ? FAILED : DONE;
    }
    pthread_cond_broadcast(&g->turned);
    return s;
}

static weft_status fail_lost(const weft_request *r, weft_error *err)
{
    const group *g = r->by->group;
    if (g->gone[peer_of(r)])
        return weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE,
                         "rank %d has left the group in which rank %d %s it", g->ranks[peer_of(r)],
                         g->ranks[r->by->me], r->sends ? "sends to" : "receives from");
    return weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE,
                     "another rank has ended in the middle of a step");
}

/* Will the other end never come? */
static bool is_lost(const weft_request *r)
{
    return r->by->group->broken || r->by->group->gone[peer_of(r)];
}

static void release(const local *l, weft_request *r)
{
    if (r->event)
        l->device->event_destroy(l->device_self, r->event);
    weft_free(r);
}

static weft_status create(const local *l, const weft_request *what, weft_queue *queue,
                          weft_request **out, weft_error *err)
{
    const weft_device *d = l->device;
    weft_request *r = weft_alloc(sizeof *r);
    if (!r)
        return weft_fail_memory(err);
    *r = *what;
    weft_status s = d->record ? d->event_create(l->device_self, &r->event, err) : WEFT_OK;
    if (!s && r->event)
        s = d->record(l->device_self, queue, r->event, err);
    if (s)
        release(l, r);
    else
        *out = r;
    return s;
}

static weft_status post(const local *l, const weft_request *what, weft_queue *queue,
                        weft_request **out, weft_error *err)
{
    weft_request *r = NULL;
    weft_status s = create(l, what, queue, &r, err);
    if (!r)
        return s;
    group *g = r->by->group;
    pthread_mutex_lock(&g->lock);
    if (is_lost(r)) {
        s = fail_lost(r, err);
        pthread_mutex_unlock(&g->lock);
        release(l, r);
        return s;
    }
    r->next = r->by->requests;
    r->by->requests = r;
    weft_request **at = find_other(g, r), *other = *at;
    if (other) {
        *at = other->next_post;
        s = meet(l, g, r, queue, other, err);
    } else {
        *at = r;
    }
    pthread_mutex_unlock(&g->lock);
    *out = r;
    return s;
}

weft_status local_send(void *self, void *handle, int to, const void *data, int64_t count,
                       weft_dtype dtype, weft_queue *queue, weft_request **request, weft_error *err)
{
    member *m = handle;
    return post(self,
                &(weft_request){.by = m,
                                .from = m->me,
                                .to = to,
                                .sends = true,
                                .source = data,
                                .count = count,
                                .dtype = dtype},
                queue, request, err);
}

weft_status local_recv(void *self, void *handle, int from, void *data, int64_t count,
                       weft_dtype dtype, weft_queue *queue, weft_request **request, weft_error *err)
{
    const local *l = self;
    member *m = handle;
    if (!m->incoming[from] && l->device->queue_create) {
        weft_status s = l->device->queue_create(l->device_self, &m->incoming[from], err);
        if (s)
            return s;
    }
    return post(
        self,
        &(weft_request){
            .by = m, .from = from, .to = m->me, .target = data, .count = count, .dtype = dtype},
        queue, request, err);
}

/* ---- waiting ---- */

static weft_status fail_different(const weft_request *r, weft_error *err)
{
    const group *g = r->by->group;
    int64_t sent = r->sends ? r->count : r->other_count, got = r->sends ? r->other_count : r->count;
    return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                     "local: rank %d sends %lld elements of %s to rank %d, which receives %lld of "
                     "%s",
                     g->ranks[r->from], (long long)sent,
                     weft_dtype_name(r->sends ? r->dtype : r->other_dtype), g->ranks[r->to],
                     (long long)got, weft_dtype_name(r->sends ? r->other_dtype : r->dtype));
}

static void withdraw(group *g, const weft_request *r)
{
    weft_request **at = &g->posts;
    while (*at && *at != r)
        at = &(*at)->next_post;
    if (*at)
        *at = r->next_post;
}

/* Under the lock: until the transfer is over or lost. A copy under way is waited for whatever
 * happens. */
static weft_status await(const local *l, const weft_request *r, weft_error *err)
{
    group *g = r->by->group;
    const int ranks[] = {g->ranks[r->by->me], g->ranks[peer_of(r)]};
    const bool absent[] = {false, true};
    double since = weft_now();
    weft_status s = WEFT_OK;
    while (r->at == COPYING || (r->at == POSTED && !is_lost(r) && !s)) {
        if (local_rest(g) || r->at != POSTED || is_lost(r) || s)
            continue;
        pthread_mutex_unlock(&g->lock);
        s = l->host->waiting(l->host, since, ranks, absent, 2, err);
        pthread_mutex_lock(&g->lock);
    }
    if (s)
        g->broken = true; /* nobody meets any more whom this rank has not waited for */
    return s;
}

static void forget(const local *l, weft_request *r)
{
    weft_request **at = &r->by->requests;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    release(l, r);
}

weft_status local_wait(void *self, weft_request *r, weft_queue *queue, weft_error *err)
{
    const local *l = self;
    group *g = r->by->group;
    pthread_mutex_lock(&g->lock);
    weft_status s = await(l, r, err);
    if (r->at == POSTED) {
        withdraw(g, r);
        s = s ? s : fail_lost(r, err);
    } else if (r->at == DIFFERENT) {
        s = s ? s : fail_different(r, err);
    } else if (r->at == FAILED) {
        s = s ? s : fail_lost(r, err);
    }
    pthread_mutex_unlock(&g->lock);
    if (!s && r->event)
        s = l->device->await(l->device_self, queue, r->event, err);
    forget(l, r);
    return s;
}

void local_drop_requests(const local *l, member *m)
{
    group *g = m->group;
    pthread_mutex_lock(&g->lock);
    g->gone[m->me] = true;
    for (weft_request *r = m->requests; r; r = r->next) {
        withdraw(g, r);
        while (r->at == COPYING)
            pthread_cond_wait(&g->turned, &g->lock);
    }
    pthread_cond_broadcast(&g->turned);
    pthread_mutex_unlock(&g->lock);
    while (m->requests)
        forget(l, m->requests);
}
