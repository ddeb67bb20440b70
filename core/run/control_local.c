/* SPDX-License-Identifier: Apache-2.0 */
/* The control channel of ranks that are threads: they meet, read each other's bytes, and meet again. */
#include "run/control_kind.h"

#include <string.h>

typedef struct local {
    weft_control base;
    int arrived;
    unsigned turn;
    weft_part *parts; /* by rank: what it brought to this turn */
} local;

/* Waits until all ranks are here. Under the lock. */
static bool meet(local *l)
{
    unsigned turn = l->turn;
    if (++l->arrived == l->base.ranks) {
        l->arrived = 0;
        l->turn++;
        pthread_cond_broadcast(&l->base.changed);
        return true;
    }
    while (l->turn == turn && !l->base.broken)
        pthread_cond_wait(&l->base.changed, &l->base.lock);
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

static weft_status exchange(weft_control *c, int rank, weft_control_tag tag, const void *mine, size_t n, void *all, weft_error *err)
{
    local *l = (local *)c;
    pthread_mutex_lock(&c->lock);
    l->parts[rank] = (weft_part){tag, n, mine};
    bool ok = !c->broken && meet(l) && check(l);
    for (int r = 0; ok && r < c->ranks; r++)
        memcpy((char *)all + (size_t)r * n, l->parts[r].data, n);
    ok = ok && meet(l); /* nobody's bytes go away before all have read them */
    weft_status s = ok ? WEFT_OK : weft_control_broken(c, err);
    pthread_mutex_unlock(&c->lock);
    return s;
}

static weft_status broadcast(weft_control *c, int rank, weft_text *text, weft_error *err)
{
    local *l = (local *)c;
    pthread_mutex_lock(&c->lock);
    l->parts[rank] = (weft_part){WEFT_TAG_FIRST, 0, text};
    bool ok = !c->broken && meet(l) && check(l);
    const weft_text *first = l->parts[0].data;
    if (ok && rank != 0)
        weft_text_add_bytes(text, weft_text_get(first), first->size);
    ok = ok && meet(l);
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

static void destroy(weft_control *c)
{
    weft_control_release(c);
    weft_free(((local *)c)->parts);
    weft_free(c);
}

static const weft_control_kind kind = {exchange, broadcast, leave, destroy};

weft_status weft_control_create(int ranks, weft_control **out, weft_error *err)
{
    local *l = weft_alloc_zero(1, sizeof *l);
    *out = NULL;
    if (!l || !(l->parts = weft_alloc_zero((size_t)ranks, sizeof *l->parts))) {
        weft_free(l);
        return weft_fail_memory(err);
    }
    weft_control_init(&l->base, &kind, ranks);
    *out = &l->base;
    return WEFT_OK;
}
