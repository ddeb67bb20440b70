/* SPDX-License-Identifier: Apache-2.0 */
#include "run/control_kind.h"

#include <stdio.h>
#include <string.h>

/* ---- for the kinds ---- */

void weft_control_init(weft_control *c, const weft_control_kind *kind, int ranks)
{
    pthread_condattr_t attributes;
    c->kind = kind;
    c->ranks = ranks;
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&c->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

void weft_control_release(weft_control *c)
{
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
}

void weft_verdict_init(weft_verdict *v, int rank, weft_status status, const char *text)
{
    memset(v, 0, sizeof *v);
    v->rank = rank;
    v->status = (int32_t)status;
    strncpy(v->text, text, sizeof v->text - 1);
}

struct timespec weft_control_deadline(double limit_s)
{
    struct timespec until;
    double whole = limit_s < 1e9 ? limit_s : 1e9;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)whole;
    until.tv_nsec += (long)((whole - (double)(time_t)whole) * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return until;
}

void weft_verdict_late(weft_verdict *v, const bool *absent, int ranks, double limit_s)
{
    int first = 0;
    while (!absent[first])
        first++;
    weft_verdict_init(v, first, WEFT_ERR_PEER, "");
    int n = snprintf(v->text, sizeof v->text, "the others have waited for it for %g s in vain",
                     limit_s);
    const char *before = "; for rank ";
    for (int r = first + 1; r < ranks && n < (int)sizeof v->text - 32; r++) {
        if (!absent[r])
            continue;
        n += snprintf(v->text + n, sizeof v->text - (size_t)n, "%s%d", before, r);
        before = ", ";
    }
    if (before[0] == ',')
        snprintf(v->text + n, sizeof v->text - (size_t)n, ", too");
}

/* What another rank failed of is not what the rank that follows it failed of. */
static void note(weft_control *c, const weft_verdict *why)
{
    if (!c->failed)
        c->why = *why;
    c->failed = true;
}

void weft_control_break(weft_control *c, const weft_verdict *why)
{
    note(c, why);
    c->broken = true;
    pthread_cond_broadcast(&c->changed);
}

weft_status weft_control_broken(const weft_control *c, weft_error *err)
{
    const char *text = c->why.text;
    return weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE, "rank %d has ended%s%s", (int)c->why.rank,
                     *text ? ": " : "", text);
}

bool weft_parts_match(const weft_part *parts, int ranks, weft_verdict *why)
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

weft_status weft_control_exchange(weft_control *c, int rank, const void *mine, size_t n, void *all,
                                  weft_error *err)
{
    return weft_control_exchange_within(c, rank, WEFT_EXCHANGE_LIMIT_S, mine, n, all, err);
}

weft_status weft_control_exchange_within(weft_control *c, int rank, double limit_s,
                                         const void *mine, size_t n, void *all, weft_error *err)
{
    return c->kind->exchange(c, rank, WEFT_TAG_DATA, limit_s, mine, n, all, err);
}

weft_status weft_control_broadcast(weft_control *c, int rank, weft_text *text, weft_error *err)
{
    if (rank != 0)
        weft_text_clear(text);
    weft_status s = c->kind->broadcast(c, rank, text, err);
    return s || !text->out_of_memory ? s : weft_fail_memory(err);
}

void weft_control_leave(weft_control *c, int rank, weft_status status, const char *why)
{
    weft_verdict v;
    weft_verdict_init(&v, rank, status, why);
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

static weft_status judge(weft_control *c, const weft_verdict *all, const char *phase,
                         weft_status mine, weft_error *err)
{
    for (int r = 0; r < c->ranks; r++) {
        if (!all[r].status)
            continue;
        pthread_mutex_lock(&c->lock);
        note(c, &all[r]);
        pthread_mutex_unlock(&c->lock);
        return mine ? mine
                    : weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE, "rank %d failed in %s: %s", r,
                                phase, all[r].text);
    }
    return WEFT_OK;
}

weft_status weft_control_agree(weft_control *c, int rank, const char *phase, weft_status mine,
                               weft_error *err)
{
    weft_verdict v;
    weft_verdict_init(&v, rank, mine, weft_error_text(err));
    weft_verdict *all = weft_alloc((size_t)c->ranks * sizeof *all);
    if (!all) {
        weft_control_leave(c, rank, WEFT_ERR_MEMORY, "out of memory");
        return weft_fail_memory(err);
    }
    weft_status s = c->kind->exchange(c, rank, WEFT_TAG_AGREE, WEFT_EXCHANGE_LIMIT_S, &v, sizeof v,
                                      all, mine ? NULL : err);
    s = s ? s : judge(c, all, phase, mine, err);
    weft_free(all);
    return mine ? mine : s;
}

weft_status weft_host_exchange(const weft_host *host, const void *mine, size_t n, void *all,
                               weft_error *err)
{
    return weft_host_exchange_within(host, WEFT_EXCHANGE_LIMIT_S, mine, n, all, err);
}

weft_status weft_host_exchange_within(const weft_host *host, double limit_s, const void *mine,
                                      size_t n, void *all, weft_error *err)
{
    const weft_plugins *plugins = host->core;
    if (plugins->control)
        return weft_control_exchange_within(plugins->control, host->rank, limit_s, mine, n, all,
                                            err);
    memcpy(all, mine, n);
    return WEFT_OK;
}
