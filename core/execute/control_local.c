/* SPDX-License-Identifier: Apache-2.0 */
/* The control channel of ranks that are threads: they meet, read each other's bytes, and meet
 * again. */
#include "execute/control_kind.h"

#include <string.h>

typedef struct local {
    weft_control base;
    int arrived;
    bool *absent; /* by rank: not yet here */
    unsigned turn;
    weft_message_part *parts; /* by rank: what it brought to this turn */
} local;

static void nobody_is_here(local *l)
{
    l->arrived = 0;
    memset(l->absent, true, (size_t)l->base.ranks * sizeof *l->absent);
}

/* Waits until all ranks are here. Under the lock. */
static bool meet(local *l, int rank, double limit_s)
{
    unsigned turn = l->turn;
    const weft_waiting w = {weft_now(), limit_s, NULL, l->absent, l->base.ranks};
    weft_verdict why;
    l->absent[rank] = false;
    if (++l->arrived == l->base.ranks) {
        nobody_is_here(l);
        l->turn++;
        pthread_cond_broadcast(&l->base.changed);
        return true;
    }
    while (l->turn == turn && !l->base.broken)
        if (!weft_control_wait(&l->base, rank, &w, &why) && l->turn == turn && !l->base.broken)
            weft_control_break(&l->base, &why);
    return l->turn != turn;
}

/* Under the lock. All ranks come to the same result before any goes on: each looks for itself. */
static bool check(local *l)
{
    weft_verdict why;
    if (l->base.broken || weft_parts_match(l->parts, l->base.ranks, &why))
        return !l->base.broken;
    weft_control_break(&l->base, &why);
    return false;
}

static weft_status exchange(weft_control *c, int rank, weft_control_tag tag, double limit_s,
                            const void *mine, size_t n, void *all, weft_error *err)
{
    local *l = (local *)c;
    pthread_mutex_lock(&c->lock);
    l->parts[rank] = (weft_message_part){tag, n, mine};
    bool ok = !c->broken && meet(l, rank, limit_s) && check(l);
    for (int r = 0; ok && r < c->ranks; r++)
        memcpy((char *)all + (size_t)r * n, l->parts[r].data, n);
    ok = ok && meet(l, rank, limit_s); /* nobody's bytes go away before all have read them */
    weft_status s = ok ? WEFT_OK : weft_control_broken(c, err);
    pthread_mutex_unlock(&c->lock);
    return s;
}

static weft_status broadcast(weft_control *c, int rank, weft_text *text, weft_error *err)
{
    local *l = (local *)c;
    double limit_s = weft_watch_limit(weft_control_watch(c, rank));
    pthread_mutex_lock(&c->lock);
    l->parts[rank] = (weft_message_part){WEFT_TAG_FIRST, 0, text};
    bool ok = !c->broken && meet(l, rank, limit_s) && check(l);
    const weft_text *first = l->parts[0].data;
    if (ok && rank != 0)
        weft_text_add_bytes(text, weft_text_get(first), first->size);
    ok = ok && meet(l, rank, limit_s);
    weft_status s = ok ? WEFT_OK : weft_control_broken(c, err);
    pthread_mutex_unlock(&c->lock);
    return s;
}

static void leave(weft_control *c, const weft_verdict *why)
{
    pthread_mutex_lock(&c->lock);
    weft_control_break(c, why);
    pthread_mutex_unlock(&c->lock);
}

static void tell(weft_control *c, int rank, bool waits)
{
    c->waits[rank] = waits;
}

static void destroy(weft_control *c)
{
    weft_control_release(c);
    weft_free(((local *)c)->parts);
    weft_free(((local *)c)->absent);
    weft_free(c);
}

static const weft_control_kind kind = {exchange, broadcast, leave, tell, destroy};

weft_status weft_control_create(int ranks, weft_control **out, weft_error *err)
{
    local *l = weft_alloc_zero(1, sizeof *l);
    *out = NULL;
    if (!l)
        return weft_fail_memory(err);
    if (weft_control_init(&l->base, &kind, ranks, 0, ranks, err)) {
        weft_free(l);
        return WEFT_ERR_MEMORY;
    }
    l->parts = weft_alloc_zero((size_t)ranks, sizeof *l->parts);
    l->absent = weft_alloc_zero((size_t)ranks, sizeof *l->absent);
    if (!l->parts || !l->absent) {
        destroy(&l->base);
        return weft_fail_memory(err);
    }
    nobody_is_here(l);
    *out = &l->base;
    return WEFT_OK;
}
