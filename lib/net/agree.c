/* SPDX-License-Identifier: Apache-2.0 */
/* What all ranks come to know over the control channel, whatever its kind: rank 0's text, and
 * whether a phase has ended well. */
#include "net/agree.h"
#include "execute/control_kind.h"

weft_status weft_control_broadcast(weft_control *c, int rank, weft_text *text, weft_error *err)
{
    if (rank != 0)
        weft_text_clear(text);
    weft_status s = c->kind->broadcast(c, rank, text, err);
    weft_control_set_task(c, rank, weft_control_watch(c, rank)->task);
    return s || !text->out_of_memory ? s : weft_fail_memory(err);
}

/* Who failed of something of its own; else anybody who failed; -1: nobody. */
static int find_failed(const weft_verdict *all, int n)
{
    int found = -1;
    for (int r = n - 1; r >= 0; r--)
        if (all[r].status &&
            (found < 0 || all[r].status != WEFT_ERR_PEER || all[found].status == WEFT_ERR_PEER))
            found = r;
    return found;
}

static weft_status judge(weft_control *c, const weft_verdict *all, const char *phase,
                         weft_status mine, weft_error *err)
{
    const int r = find_failed(all, c->ranks);
    if (r < 0)
        return WEFT_OK;
    pthread_mutex_lock(&c->lock);
    weft_control_note(c, &all[r]);
    pthread_mutex_unlock(&c->lock);
    return mine ? mine
                : weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE, "rank %d%s%s failed in %s: %s", r,
                            *all[r].host ? " on " : "", all[r].host, phase, all[r].text);
}

weft_status weft_control_agree(weft_control *c, int rank, const char *phase, weft_status mine,
                               weft_error *err)
{
    weft_verdict v;
    weft_verdict_own(&v, c, rank, mine, weft_error_text(err));
    weft_verdict *all = weft_alloc((size_t)c->ranks * sizeof *all);
    if (!all) {
        weft_control_leave(c, rank, WEFT_ERR_MEMORY, "out of memory");
        return weft_fail_memory(err);
    }
    double limit_s = weft_watch_limit(weft_control_watch(c, rank));
    weft_doing before = weft_control_set_task(c, rank, (weft_doing){phase, NULL, -1});
    weft_status s =
        c->kind->exchange(c, rank, WEFT_TAG_AGREE, limit_s, &v, sizeof v, all, mine ? NULL : err);
    weft_control_set_task(c, rank, before);
    for (int r = 0; r < c->ranks && !s; r++)
        weft_verdict_mend(&all[r], c->ranks, r);
    s = s ? s : judge(c, all, phase, mine, err);
    weft_free(all);
    return mine ? mine : s;
}
