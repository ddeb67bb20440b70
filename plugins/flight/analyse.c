/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for whom: of every rank that is inside an operation, or was when that failed, who of
 * its group has not entered it. A rank that is missing somewhere and is inside nothing itself is
 * who all wait for in the end. */
#include "flight.h"

#include <stdlib.h>
#include <string.h>

/* What the rank waits in, or failed in; NULL: nothing. Transfers that nobody waits for are under
 * way, and nobody's concern. */
static const flight_entry *waiting_in(const flight_rank *r)
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

static void look_at(const flight_record *l, flight_stall *s, int member)
{
    const flight_rank *mine = &l->ranks[s->rank], *theirs = &l->ranks[member];
    if (!theirs->head) {
        s->unknown[s->n_unknown++] = member;
        return;
    }
    if (member != s->rank && !has_entered(mine, s->entry, theirs)) {
        s->missing[s->n_missing++] = member;
        s->is_root = s->is_root || !waiting_in(theirs);
        return;
    }
    s->entered[s->n_entered++] = member;
    const flight_entry *other =
        flight_is_transfer(s->entry->kind) ? NULL : same_number(mine, s->entry, theirs);
    if (other && differ(other, s->entry) && s->differs < 0)
        s->differs = member;
}

static weft_status fill(const flight_record *l, flight_stall *s, weft_error *err)
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
    if (flight_is_transfer(s->entry->kind)) {
        look_at(l, s, s->rank);
        look_at(l, s, members[s->entry->peer]);
        return WEFT_OK;
    }
    for (int i = 0; i < n; i++)
        look_at(l, s, members[i]);
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

/* First where ranks differ, then where somebody is missing who waits for nobody; of these the
 * earliest. An operation that all have entered comes last. */
static int weight(const flight_stall *s)
{
    if (s->differs >= 0)
        return 0;
    if (s->n_missing && s->is_root)
        return 1;
    if (s->n_unknown)
        return 2;
    return s->n_missing ? 3 : 4;
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

weft_status flight_analyse(const flight_record *l, flight_analysis *out, weft_error *err)
{
    *out = (flight_analysis){.stalls = weft_alloc_zero((size_t)l->n, sizeof *out->stalls)};
    weft_status s = out->stalls ? WEFT_OK : weft_fail_memory(err);
    for (int r = 0; r < l->n && !s; r++) {
        const flight_entry *e = waiting_in(&l->ranks[r]);
        if (!e || is_known(l, out, r, e))
            continue;
        out->stalls[out->n] = (flight_stall){.rank = r, .entry = e};
        s = fill(l, &out->stalls[out->n++], err);
    }
    if (!s)
        qsort(out->stalls, (size_t)out->n, sizeof *out->stalls, compare);
    return s;
}

void flight_analysis_release(flight_analysis *a)
{
    for (int i = 0; i < a->n; i++) {
        weft_free(a->stalls[i].entered);
        weft_free(a->stalls[i].missing);
        weft_free(a->stalls[i].unknown);
    }
    weft_free(a->stalls);
    *a = (flight_analysis){0};
}
