/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for whom: of every rank that is inside an operation, or was when that failed, who of
 * its group has not entered it. Who is stopped, gone or has failed by itself is to blame wherever
 * it is; else a rank that is missing somewhere and is inside nothing itself is who all wait for in
 * the end. */
#include "flight.h"

#include <stdlib.h>
#include <string.h>

/* Transfers that nobody waits for are under way, and nobody's concern. */
const flight_entry *flight_waiting_in(const flight_rank *r)
{
    if (!r->head)
        return NULL;
    const uint64_t last = r->head->written,
                   first = last > r->head->capacity ? last - r->head->capacity : 0;
    for (uint64_t i = last; i > first; i--) {
        const flight_entry *e = flight_rank_entry(r, i);
        if (e && (e->state == FLIGHT_WAITING || e->state == FLIGHT_FAILED))
            return e;
    }
    return NULL;
}

/* Has member `place` of the group, whose record this is, entered the operation? */
static bool has_entered(const flight_rank *mine, const flight_entry *e, const flight_rank *theirs)
{
    int index = flight_rank_find_group(mine, e->group, theirs);
    if (index < 0)
        return false;
    const flight_group *g = flight_rank_group(theirs, index);
    const int me = flight_rank_group(mine, e->group)->me;
    if (e->kind == FLIGHT_SEND)
        return flight_group_received(theirs->head, g)[me] >= e->in_group;
    if (e->kind == FLIGHT_RECV)
        return flight_group_sent(theirs->head, g)[me] >= e->in_group;
    return g->entered >= e->in_group;
}

/* What that rank's operation of this number is, if its ring still has it. */
static const flight_entry *same_number(const flight_rank *mine, const flight_entry *e,
                                       const flight_rank *theirs)
{
    int index = flight_rank_find_group(mine, e->group, theirs);
    const uint64_t last = theirs->head->written,
                   first = last > theirs->head->capacity ? last - theirs->head->capacity : 0;
    for (uint64_t i = last; i > first && index >= 0; i--) {
        const flight_entry *t = flight_rank_entry(theirs, i);
        if (t && t->group == index && t->in_group == e->in_group && !flight_is_transfer(t->kind))
            return t;
    }
    return NULL;
}

static bool differ(const flight_entry *a, const flight_entry *b)
{
    return a->kind != b->kind || a->count != b->count || a->dtype != b->dtype || a->peer != b->peer;
}

/* Of those that are missing somewhere: does it keep the others? Where someone is to blame only he
 * does; and who ended because others did has waited for them. */
static bool keeps_others(const flight_record *l, const flight_analysis *a, int rank)
{
    const flight_rank *r = &l->ranks[rank];
    if (a->n_culprits)
        return a->is_culprit[rank];
    bool followed = r->fate == FLIGHT_ENDED &&
                    (r->head->status == WEFT_ERR_PEER || r->head->status == WEFT_ERR_STOPPED);
    return !followed && !flight_waiting_in(r);
}

static void look_at(const flight_record *l, const flight_analysis *a, flight_stall *s, int member)
{
    const flight_rank *mine = &l->ranks[s->rank], *theirs = &l->ranks[member];
    if (!theirs->head) {
        s->unknown[s->n_unknown++] = member;
        return;
    }
    if (member != s->rank && !has_entered(mine, s->entry, theirs)) {
        s->missing[s->n_missing++] = member;
        s->is_root = s->is_root || keeps_others(l, a, member);
        return;
    }
    s->entered[s->n_entered++] = member;
    s->has_culprit = s->has_culprit || a->is_culprit[member];
    const flight_entry *other =
        flight_is_transfer(s->entry->kind) ? NULL : same_number(mine, s->entry, theirs);
    if (other && differ(other, s->entry) && s->differs < 0)
        s->differs = member;
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static weft_status fill(const flight_record *l, const flight_analysis *a, flight_stall *s,
                        weft_error *err)
{
    const flight_rank *mine = &l->ranks[s->rank];
    const int n = flight_rank_group(mine, s->entry->group)->n;
    const int32_t *members = flight_rank_members(mine, s->entry->group);
    s->differs = -1;
    s->entered = weft_alloc((size_t)n * sizeof *s->entered);
    s->missing = weft_alloc((size_t)n * sizeof *s->missing);
    s->unknown = weft_alloc((size_t)n * sizeof *s->unknown);
    if (!s->entered || !s->missing || !s->unknown)
        return weft_fail_memory(err);
    const bool transfer = flight_is_transfer(s->entry->kind);
    for (int i = 0; i < n; i++)
        if (!transfer || members[i] == s->rank || i == s->entry->peer)
            look_at(l, a, s, members[i]);
    qsort(s->entered, (size_t)s->n_entered, sizeof *s->entered, by_number);
    qsort(s->missing, (size_t)s->n_missing, sizeof *s->missing, by_number);
    qsort(s->unknown, (size_t)s->n_unknown, sizeof *s->unknown, by_number);
    return WEFT_OK;
}

/* Of those in the same operation one speaks for all. */
static bool is_known(const flight_record *l, const flight_analysis *a, int rank,
                     const flight_entry *e)
{
    for (int i = 0; i < a->n && !flight_is_transfer(e->kind); i++) {
        const flight_stall *s = &a->stalls[i];
        const flight_rank *first = &l->ranks[s->rank];
        if (s->entry->in_group == e->in_group && !flight_is_transfer(s->entry->kind) &&
            flight_rank_find_group(first, s->entry->group, &l->ranks[rank]) == e->group)
            return true;
    }
    return false;
}

/* First where ranks differ, then where somebody is missing who keeps the others, or is inside and
 * to blame; of these the earliest. An operation that all have entered comes last. */
static int weight(const flight_stall *s)
{
    if (s->differs >= 0)
        return 0;
    if (s->n_missing && s->is_root)
        return 1;
    if (s->has_culprit)
        return 2;
    if (s->n_unknown)
        return 3;
    return s->n_missing ? 4 : 5;
}

static int compare(const void *a, const void *b)
{
    const flight_stall *x = a, *y = b;
    if (weight(x) != weight(y))
        return weight(x) - weight(y);
    if (x->entry->started_ns != y->entry->started_ns)
        return x->entry->started_ns < y->entry->started_ns ? -1 : 1;
    return x->rank - y->rank;
}

/* ---- who is to blame ---- */

static bool is_down(const flight_rank *r)
{
    return r->head && (r->fate == FLIGHT_STOPPED || r->fate == FLIGHT_GONE);
}

/* An error that is neither another rank's nor one of an operation with others. */
static bool failed_by_itself(const flight_rank *r)
{
    return r->head && r->fate == FLIGHT_ENDED && r->head->status != WEFT_OK &&
           r->head->status != WEFT_ERR_PEER && r->head->status != WEFT_ERR_STOPPED &&
           !flight_waiting_in(r);
}

/* Ranks that are threads of one process go together. */
static bool shares_its_end(const flight_record *l, int rank)
{
    const flight_head *mine = l->ranks[rank].head;
    for (int i = 0; i < l->n; i++) {
        const flight_head *h = l->ranks[i].head;
        if (i != rank && is_down(&l->ranks[i]) && h->pid == mine->pid &&
            h->process_start == mine->process_start && strcmp(h->host, mine->host) == 0)
            return true;
    }
    return false;
}

/* Who launched the ranks may kill those that wait, once one has failed. */
static bool is_to_blame(const flight_record *l, int rank, bool some_failed)
{
    const flight_rank *r = &l->ranks[rank];
    if (!is_down(r))
        return failed_by_itself(r);
    if (!flight_waiting_in(r))
        return true;
    return !shares_its_end(l, rank) && !(some_failed && r->fate == FLIGHT_GONE);
}

/* Where all are, nobody is. */
static weft_status find_culprits(const flight_record *l, flight_analysis *a, weft_error *err)
{
    bool some_failed = false;
    a->is_culprit = weft_alloc_zero((size_t)l->n, sizeof *a->is_culprit);
    if (!a->is_culprit)
        return weft_fail_memory(err);
    for (int r = 0; r < l->n; r++)
        some_failed = some_failed || failed_by_itself(&l->ranks[r]);
    for (int r = 0; r < l->n; r++) {
        a->is_culprit[r] = is_to_blame(l, r, some_failed);
        a->n_culprits += a->is_culprit[r];
    }
    if (a->n_culprits < l->here)
        return WEFT_OK;
    memset(a->is_culprit, 0, (size_t)l->n * sizeof *a->is_culprit);
    a->n_culprits = 0;
    return WEFT_OK;
}

/* ---- circles ---- */

/* A rank that this one, which lives, waits for, and which lives and waits itself; -1: none. */
static int waits_for(const flight_record *l, int rank)
{
    const flight_rank *r = &l->ranks[rank];
    const flight_entry *e = flight_waiting_in(r);
    const int n = flight_rank_group(r, e->group)->n;
    const int32_t *members = flight_rank_members(r, e->group);
    for (int i = 0; i < n; i++) {
        const flight_rank *other = &l->ranks[members[i]];
        const flight_entry *theirs = flight_waiting_in(other);
        if (members[i] == rank || (flight_is_transfer(e->kind) && i != e->peer) || !theirs ||
            theirs->state != FLIGHT_WAITING || has_entered(r, e, other))
            continue;
        if (flight_may_run(other))
            return members[i];
    }
    return -1;
}

/* From rank to rank until one comes again: from there on it is the circle. */
static weft_status find_circle(const flight_record *l, int rank, flight_analysis *a,
                               weft_error *err)
{
    int *path = weft_alloc((size_t)l->n * sizeof *path), n = 0, from = 0, r = rank;
    if (!path)
        return weft_fail_memory(err);
    while (r >= 0) {
        for (from = 0; from < n && path[from] != r; from++)
            continue;
        if (from < n)
            break;
        path[n++] = r;
        r = waits_for(l, r);
    }
    a->n_circle = r >= 0 ? n - from : 0;
    memmove(path, path + from, (size_t)a->n_circle * sizeof *path);
    a->circle = path;
    return WEFT_OK;
}

/* ---- all of it ---- */

static weft_status find_stalls(const flight_record *l, flight_analysis *a, weft_error *err)
{
    weft_status s = WEFT_OK;
    a->stalls = weft_alloc_zero((size_t)l->n, sizeof *a->stalls);
    if (!a->stalls)
        return weft_fail_memory(err);
    for (int r = 0; r < l->n && !s; r++) {
        const flight_entry *e = flight_waiting_in(&l->ranks[r]);
        if (!e || is_known(l, a, r, e))
            continue;
        a->stalls[a->n] = (flight_stall){.rank = r, .entry = e};
        s = fill(l, a, &a->stalls[a->n++], err);
    }
    if (!s)
        qsort(a->stalls, (size_t)a->n, sizeof *a->stalls, compare);
    return s;
}

weft_status flight_analyse(const flight_record *l, flight_analysis *out, weft_error *err)
{
    *out = (flight_analysis){0};
    weft_status s = find_culprits(l, out, err);
    s = s ? s : find_stalls(l, out, err);
    if (s || out->n == 0 || out->n_culprits)
        return s;
    const flight_stall *first = &out->stalls[0];
    bool stuck = first->n_missing && !first->is_root && first->differs < 0 &&
                 first->entry->state == FLIGHT_WAITING;
    return stuck ? find_circle(l, first->rank, out, err) : WEFT_OK;
}

void flight_analysis_release(flight_analysis *a)
{
    for (int i = 0; a->stalls && i < a->n; i++) {
        weft_free(a->stalls[i].entered);
        weft_free(a->stalls[i].missing);
        weft_free(a->stalls[i].unknown);
    }
    weft_free(a->stalls);
    weft_free(a->is_culprit);
    weft_free(a->circle);
    *a = (flight_analysis){0};
}
