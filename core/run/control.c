/* SPDX-License-Identifier: Apache-2.0 */
#include "run/control.h"

#include <pthread.h>
#include <string.h>

enum { MESSAGE = 512 };

struct weft_control {
    pthread_mutex_t lock;
    pthread_cond_t turned;
    int ranks, arrived, left;
    unsigned turn;
    const void **mine; /* by rank: what it brought to this turn */
};

weft_status weft_control_create(int ranks, weft_control **out, weft_error *err)
{
    weft_control *c = weft_alloc_zero(1, sizeof *c);
    *out = c;
    if (!c || !(c->mine = weft_alloc_zero((size_t)ranks, sizeof *c->mine))) {
        weft_free(c);
        *out = NULL;
        return weft_fail_memory(err);
    }
    c->ranks = ranks;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->turned, NULL);
    return WEFT_OK;
}

void weft_control_destroy(weft_control *c)
{
    if (!c)
        return;
    pthread_cond_destroy(&c->turned);
    pthread_mutex_destroy(&c->lock);
    weft_free(c->mine);
    weft_free(c);
}

/* Waits until all ranks are here. Under the lock. */
static bool meet(weft_control *c)
{
    unsigned turn = c->turn;
    if (++c->arrived == c->ranks) {
        c->arrived = 0;
        c->turn++;
        pthread_cond_broadcast(&c->turned);
        return true;
    }
    while (c->turn == turn && !c->left)
        pthread_cond_wait(&c->turned, &c->lock);
    return c->turn != turn;
}

weft_status weft_control_exchange(weft_control *c, int rank, const void *mine, size_t n, void *all, weft_error *err)
{
    pthread_mutex_lock(&c->lock);
    c->mine[rank] = mine;
    bool ok = !c->left && meet(c);
    for (int r = 0; ok && r < c->ranks; r++)
        memcpy((char *)all + (size_t)r * n, c->mine[r], n);
    ok = ok && meet(c); /* nobody's bytes go away before all have read them */
    pthread_mutex_unlock(&c->lock);
    return ok ? WEFT_OK : weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE, "another rank has ended; rank %d ends, too", rank);
}

void weft_control_leave(weft_control *c, int rank)
{
    (void)rank;
    pthread_mutex_lock(&c->lock);
    c->left++;
    pthread_cond_broadcast(&c->turned);
    pthread_mutex_unlock(&c->lock);
}

typedef struct verdict {
    weft_status status;
    char text[MESSAGE];
} verdict;

weft_status weft_control_agree(weft_control *c, int rank, const char *phase, weft_status mine, weft_error *err)
{
    verdict v = {.status = mine};
    strncpy(v.text, weft_error_text(err), sizeof v.text - 1);
    verdict *all = weft_alloc((size_t)c->ranks * sizeof *all);
    if (!all) {
        weft_control_leave(c, rank);
        return weft_fail_memory(err);
    }
    weft_status s = weft_control_exchange(c, rank, &v, sizeof v, all, err);
    for (int r = 0; !s && r < c->ranks; r++) {
        if (!all[r].status)
            continue;
        s = WEFT_ERR_PEER;
        if (!mine)
            weft_fail(err, s, WEFT_NOWHERE, "rank %d failed in %s: %s", r, phase, all[r].text);
    }
    weft_free(all);
    return mine ? mine : s;
}

weft_status weft_host_exchange(const weft_host *host, const void *mine, size_t n, void *all, weft_error *err)
{
    const weft_plugins *plugins = host->core;
    if (plugins->control)
        return weft_control_exchange(plugins->control, host->rank, mine, n, all, err);
    memcpy(all, mine, n);
    return WEFT_OK;
}
