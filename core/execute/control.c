/* SPDX-License-Identifier: Apache-2.0 */
#include "execute/control_kind.h"

#include <errno.h>
#include <string.h>

enum { MOST_EXTRA_S = 60 };
static const double look_s = 0.5; /* how often a rank that waits looks at its watch */

/* ---- for the kinds ---- */

static void free_tables(weft_control *c)
{
    weft_free(c->watches);
    weft_free(c->waits);
    weft_free(c->suspects);
}

weft_status weft_control_init(weft_control *c, const weft_control_kind *kind, int ranks, int first,
                              int n, weft_error *err)
{
    pthread_condattr_t attributes;
    c->kind = kind;
    c->ranks = ranks;
    c->first = first;
    c->watches = weft_alloc_zero((size_t)n, sizeof *c->watches);
    c->waits = weft_alloc_zero((size_t)ranks, sizeof *c->waits);
    c->suspects = weft_alloc_zero((size_t)ranks, sizeof *c->suspects);
    if (!c->watches || !c->waits || !c->suspects) {
        free_tables(c);
        return weft_fail_memory(err);
    }
    for (int i = 0; i < n; i++)
        weft_watch_init(&c->watches[i], first + i);
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&c->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return WEFT_OK;
}

void weft_control_release(weft_control *c)
{
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free_tables(c);
}

void weft_verdict_init(weft_verdict *v, int rank, weft_status status, const char *text)
{
    memset(v, 0, sizeof *v);
    v->rank = rank;
    v->status = (int32_t)status;
    strncpy(v->text, text, sizeof v->text - 1);
}

void weft_verdict_mend(weft_verdict *v, int ranks, int sender)
{
    v->text[sizeof v->text - 1] = '\0';
    v->host[sizeof v->host - 1] = '\0';
    if (v->rank < 0 || v->rank >= ranks)
        v->rank = sender;
}

void weft_verdict_own(weft_verdict *v, weft_control *c, int rank, weft_status status,
                      const char *text)
{
    const weft_host_name *hosts = weft_control_watch(c, rank)->hosts;
    weft_verdict_init(v, rank, status, text);
    if (hosts)
        memcpy(v->host, hosts[rank], sizeof v->host);
}

static struct timespec deadline(double in_s)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(in_s * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return until;
}

static int rank_of(const weft_waiting *w, int i)
{
    return w->ranks ? w->ranks[i] : i;
}

/* Others gave up waiting for these. */
static void verdict_late(weft_verdict *v, const weft_waiting *w, const char *text)
{
    int i = 0;
    while (!w->absent[i])
        i++;
    weft_verdict_init(v, rank_of(w, i), WEFT_ERR_PEER, text);
    v->late = true;
}

/* Of those who are waited for, the ones that do not wait for others themselves. */
static bool find_suspects(weft_control *c, const weft_waiting *w)
{
    bool any = false;
    for (int i = 0; i < w->n; i++) {
        c->suspects[i] = w->absent[i] && !c->waits[rank_of(w, i)];
        any = any || c->suspects[i];
    }
    return any;
}

static void set_told(weft_control *c, int rank, bool told)
{
    weft_watch *watch = weft_control_watch(c, rank);
    if (watch->told != told)
        c->kind->tell(c, rank, told);
    watch->told = told;
}

double weft_control_extra(double limit_s)
{
    double extra = limit_s / 4;
    return extra < 1 ? 1 : extra < MOST_EXTRA_S ? extra : MOST_EXTRA_S;
}

/* Under the lock. False: the limit has passed, and *why says so. Where all who are waited for wait
 * themselves, one of those whom they wait for hangs, and others find it; a circle is left alone a
 * little longer. */
static bool look(weft_control *c, int rank, const weft_waiting *w, weft_verdict *why)
{
    weft_watch *watch = weft_control_watch(c, rank);
    weft_waiting seen = *w;
    weft_error err = {0};
    set_told(c, rank, weft_watch_is_long(watch, w));
    if (find_suspects(c, w))
        seen.absent = c->suspects;
    else if (weft_now() - w->since < w->limit_s + weft_control_extra(w->limit_s))
        return true;
    if (!weft_watch_look(watch, &seen, &err))
        return true;
    verdict_late(why, &seen, weft_error_text(&err));
    weft_error_release(&err);
    return false;
}

bool weft_control_wait(weft_control *c, int rank, const weft_waiting *w, weft_verdict *why)
{
    double left = w->since + w->limit_s - weft_now(),
           next = look_s < w->limit_s / 8 ? look_s : w->limit_s / 8;
    struct timespec until = deadline(left > next ? next : left > 0.01 ? left : 0.01);
    if (pthread_cond_timedwait(&c->changed, &c->lock, &until) != ETIMEDOUT)
        return true;
    return look(c, rank, w, why);
}

void weft_control_note(weft_control *c, const weft_verdict *why)
{
    if (!c->failed)
        c->why = *why;
    c->failed = true;
}

void weft_control_break(weft_control *c, const weft_verdict *why)
{
    weft_control_note(c, why);
    c->broken = true;
    pthread_cond_broadcast(&c->changed);
}

weft_status weft_verdict_fail(const weft_verdict *why, weft_error *err)
{
    if (why->late)
        return weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE, "%s", why->text);
    return weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE, "rank %d%s%s has ended%s%s", (int)why->rank,
                     *why->host ? " on " : "", why->host, *why->text ? ": " : "", why->text);
}

weft_status weft_control_broken(const weft_control *c, weft_error *err)
{
    return weft_verdict_fail(&c->why, err);
}

bool weft_parts_match(const weft_message_part *parts, int ranks, weft_verdict *why)
{
    int other = -1;
    for (int r = 1; r < ranks && other < 0; r++)
        if (parts[r].tag != parts[0].tag || parts[r].n != parts[0].n)
            other = r;
    if (other < 0)
        return true;
    for (int r = 0; r < ranks; r++) {
        if (parts[r].tag != WEFT_TAG_AGREE || parts[r].n != sizeof *why)
            continue;
        memcpy(why, parts[r].data, sizeof *why);
        weft_verdict_mend(why, ranks, r);
        if (why->status)
            return false;
    }
    weft_verdict_init(why, other, WEFT_ERR_INTERNAL,
                      "it is at another point of the run than rank 0");
    return false;
}

/* ---- for everyone ---- */

void weft_control_destroy(weft_control *c)
{
    if (c)
        c->kind->destroy(c);
}

weft_watch *weft_control_watch(weft_control *c, int rank)
{
    return &c->watches[rank - c->first];
}

weft_status weft_control_exchange(weft_control *c, int rank, const void *mine, size_t n, void *all,
                                  weft_error *err)
{
    const double limit_s = c ? weft_watch_limit(weft_control_watch(c, rank)) : 0;
    return weft_control_exchange_within(c, rank, limit_s, mine, n, all, err);
}

weft_doing weft_control_set_task(weft_control *c, int rank, weft_doing task)
{
    weft_doing before = {NULL, NULL, -1};
    if (!c)
        return before;
    weft_watch *watch = weft_control_watch(c, rank);
    before = watch->task;
    pthread_mutex_lock(&c->lock); /* the channel's thread may look at it */
    watch->task = task;
    if (watch->told) /* whatever it has waited for is over */
        set_told(c, rank, false);
    pthread_mutex_unlock(&c->lock);
    return before;
}

void weft_control_set_moment(weft_control *c, weft_watch *watch, weft_moment now)
{
    if (c)
        pthread_mutex_lock(&c->lock);
    watch->now = now;
    if (c)
        pthread_mutex_unlock(&c->lock);
}

weft_status weft_control_exchange_within(weft_control *c, int rank, double limit_s,
                                         const void *mine, size_t n, void *all, weft_error *err)
{
    if (!c) {
        memcpy(all, mine, n);
        return WEFT_OK;
    }
    weft_status s = c->kind->exchange(c, rank, WEFT_TAG_DATA, limit_s, mine, n, all, err);
    weft_control_set_task(c, rank, weft_control_watch(c, rank)->task);
    return s;
}

void weft_control_leave(weft_control *c, int rank, weft_status status, const char *why)
{
    weft_verdict v;
    weft_verdict_own(&v, c, rank, status, why);
    c->kind->leave(c, &v);
}

bool weft_control_verdict(weft_control *c, weft_verdict *out)
{
    pthread_mutex_lock(&c->lock);
    bool failed = c->failed;
    *out = c->why;
    pthread_mutex_unlock(&c->lock);
    return failed;
}

weft_status weft_host_exchange(const weft_host *host, const void *mine, size_t n, void *all,
                               weft_error *err)
{
    const weft_plugins *plugins = host->core;
    return weft_control_exchange(plugins->control, host->rank, mine, n, all, err);
}

weft_status weft_host_exchange_within(const weft_host *host, double limit_s, const void *mine,
                                      size_t n, void *all, weft_error *err)
{
    const weft_plugins *plugins = host->core;
    return weft_control_exchange_within(plugins->control, host->rank, limit_s, mine, n, all, err);
}

weft_status weft_host_waiting(const weft_host *host, double since, const int *ranks,
                              const bool *absent, int n, weft_error *err)
{
    weft_control *c = ((const weft_plugins *)host->core)->control;
    weft_verdict why;
    if (!c)
        return WEFT_OK;
    const weft_waiting w = {since, weft_watch_limit(weft_control_watch(c, host->rank)), ranks,
                            absent, n};
    pthread_mutex_lock(&c->lock);
    bool go_on = look(c, host->rank, &w, &why);
    pthread_mutex_unlock(&c->lock);
    if (go_on)
        return WEFT_OK;
    c->kind->leave(c, &why);
    return weft_verdict_fail(&why, err);
}
