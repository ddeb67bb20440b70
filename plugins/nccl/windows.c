/* SPDX-License-Identifier: Apache-2.0 */
/* Symmetric windows: NCCL maps what the ranks of a communicator have registered together, and its
 * kernels read and write there without asking. It never compares what it relies on: that a window
 * has one size on all ranks, and that each collective uses one offset from its head. So ranks
 * compare that first, and where it does not hold there are no windows. */
#include "nccl.h"

#include <string.h>

/* How a rank stands in a group. */
typedef struct stand {
    uint64_t digest; /* of the places that collectives use; 0: there are none */
    uint64_t bytes[NCCL_MOST_PIECES];
    int64_t first; /* the rank that the group begins with: which group it is */
} stand;

/* Why a group has no windows; NULL: it may. other: who differs from its first rank. */
static const char *find_reason(const stand *all, int ranks, int first, int *other)
{
    for (int r = first + 1; r < ranks; r++) {
        *other = r;
        if (all[r].first != first)
            continue;
        if (memcmp(all[r].bytes, all[first].bytes, sizeof all->bytes) != 0)
            return "have memory of different sizes";
        if (all[r].digest != all[first].digest)
            return "keep the buffers that they send at different places of their memory";
    }
    return NULL;
}

/* By rank 0, of all groups that were made together. */
static void say(const transport *t, const stand *all, int n)
{
    const char *why = NULL;
    int groups = 0, without = 0, first = 0, second = 0, ranks = t->host->ranks;
    for (int r = 0; r < ranks; r++) {
        int other = r;
        if (all[r].first != r || !all[r].digest)
            continue;
        const char *reason = find_reason(all, ranks, r, &other);
        groups++;
        without += reason != NULL;
        if (!reason || why)
            continue;
        why = reason;
        first = r;
        second = other;
    }
    if (why)
        weft_log_print(t->host->log, WEFT_LOG_INFO,
                       "nccl: %d of %d groups of %d ranks have no windows: rank %d and rank %d %s",
                       without, groups, n, first, second, why);
}

/* NCCL gives none where its ranks cannot reach each other's memory, or was told not to. */
static weft_status open_windows(transport *t, const group *g, weft_error *err)
{
    comm *c = g->of;
    bool none = false;
    weft_status s = WEFT_OK;
    for (int i = 0; i < NCCL_MOST_PIECES && !s; i++) {
        const nccl_piece *p = &t->pieces[i];
        if (!p->at)
            continue;
        int r = t->api.ncclCommWindowRegister(c->handle, p->at, p->bytes, &c->windows[i],
                                              NCCL_SYMMETRIC);
        s = nccl_settle(t, g, c, r, "a window cannot be made", err);
        none = none || (!s && !c->windows[i]);
    }
    if (none && t->host->rank == 0)
        weft_log_print(t->host->log, WEFT_LOG_INFO,
                       "nccl: NCCL makes no windows between rank 0 and the %d others of its group",
                       g->n - 1);
    return s;
}

weft_status nccl_places(void *self, void *handle, uint64_t digest, weft_error *err)
{
    transport *t = self;
    const group *g = handle;
    weft_status s = digest ? nccl_connect_all(handle, err) : WEFT_OK;
    if (s || t->registers != NCCL_REGISTERS_WINDOWS)
        return s;
    stand mine = {.digest = digest, .first = g->ranks[0]};
    stand *all = weft_alloc_zero((size_t)t->host->ranks, sizeof *all);
    if (!all)
        return weft_fail_memory(err);
    for (int i = 0; i < NCCL_MOST_PIECES; i++)
        mine.bytes[i] = t->pieces[i].at ? t->pieces[i].bytes : 0;
    int other;
    s = t->host->exchange(t->host, &mine, sizeof mine, all, err);
    if (!s && t->host->rank == 0)
        say(t, all, g->n);
    if (!s && digest && !find_reason(all, t->host->ranks, g->ranks[0], &other))
        s = open_windows(t, g, err);
    weft_free(all);
    return s;
}

/* Whoever is still in a collective would have it taken away under its hands. */
void nccl_close_windows(transport *t, int piece)
{
    if (t->registers == NCCL_REGISTERS_WINDOWS && !nccl_is_idle(t, NULL))
        nccl_abort_all(t);
    for (comm *c = t->comms; c; c = c->next) {
        if (!c->windows[piece])
            continue;
        int r = t->api.ncclCommWindowDeregister(c->handle, c->windows[piece]);
        c->windows[piece] = NULL;
        nccl_settle(t, NULL, c, r, "", NULL);
    }
}
