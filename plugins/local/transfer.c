/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives: whoever comes first posts its end, the second copies. */
#include "local.h"

#include <string.h>

typedef enum progress {
    POSTED,  /* in the group's list */
    COPYING, /* by the second of the two, without the lock */
    DONE,
    DIFFERENT /* the two ends do not mean the same */
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
    weft_request *next_post; /* of the group */
    weft_request *next;      /* of the member */
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

/* Under the lock, but for the copy itself. */
static void meet(group *g, weft_request *a, weft_request *b)
{
    weft_request *out = a->sends ? a : b, *in = a->sends ? b : a;
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
        if (out->count)
            memcpy(in->target, out->source, (size_t)out->count * weft_dtype_size(out->dtype));
        pthread_mutex_lock(&g->lock);
        g->copying--;
        a->at = b->at = DONE;
    }
    pthread_cond_broadcast(&g->turned);
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

static weft_status post(const weft_request *what, weft_request **out, weft_error *err)
{
    weft_request *r = weft_alloc(sizeof *r);
    if (!r)
        return weft_fail_memory(err);
    *r = *what;
    group *g = r->by->group;
    pthread_mutex_lock(&g->lock);
    if (is_lost(r)) {
        weft_status s = fail_lost(r, err);
        pthread_mutex_unlock(&g->lock);
        weft_free(r);
        return s;
    }
    r->next = r->by->requests;
    r->by->requests = r;
    weft_request **at = find_other(g, r), *other = *at;
    if (other) {
        *at = other->next_post;
        meet(g, r, other);
    } else {
        *at = r;
    }
    pthread_mutex_unlock(&g->lock);
    *out = r;
    return WEFT_OK;
}

weft_status local_send(void *self, void *handle, int to, const void *data, int64_t count,
                       weft_dtype dtype, weft_queue *queue, weft_request **request, weft_error *err)
{
    (void)self, (void)queue;
    member *m = handle;
    return post(&(weft_request){.by = m,
                                .from = m->me,
                                .to = to,
                                .sends = true,
                                .source = data,
                                .count = count,
                                .dtype = dtype},
                request, err);
}

weft_status local_recv(void *self, void *handle, int from, void *data, int64_t count,
                       weft_dtype dtype, weft_queue *queue, weft_request **request, weft_error *err)
{
    (void)self, (void)queue;
    member *m = handle;
    return post(
        &(weft_request){
            .by = m, .from = from, .to = m->me, .target = data, .count = count, .dtype = dtype},
        request, err);
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

static void forget(weft_request *r)
{
    weft_request **at = &r->by->requests;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    weft_free(r);
}

weft_status local_wait(void *self, weft_request *r, weft_queue *queue, weft_error *err)
{
    (void)queue;
    group *g = r->by->group;
    pthread_mutex_lock(&g->lock);
    weft_status s = await(self, r, err);
    if (r->at == POSTED) {
        withdraw(g, r);
        s = s ? s : fail_lost(r, err);
    } else if (r->at == DIFFERENT) {
        s = s ? s : fail_different(r, err);
    }
    pthread_mutex_unlock(&g->lock);
    forget(r);
    return s;
}

void local_drop_requests(member *m)
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
        forget(m->requests);
}
