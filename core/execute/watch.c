/* SPDX-License-Identifier: Apache-2.0 */
#include "execute/watch.h"

#include <weft/graph.h>

enum { LISTED = 8 };
static const double first_s = 30, first_at_start_s = 3, never_s = 1e9;

void weft_watch_init(weft_watch *watch, int rank)
{
    *watch = (weft_watch){
        .rank = rank, .limit_s = WEFT_PATIENCE_S, .patience_s = WEFT_PATIENCE_S, .patient = true};
}

double weft_watch_limit(const weft_watch *watch)
{
    double limit_s = watch->patient ? watch->patience_s : watch->limit_s;
    return limit_s > 0 ? limit_s : never_s;
}

static int rank_of(const weft_waiting *w, int i)
{
    return w->ranks ? w->ranks[i] : i;
}

/* " 1", ", 2 on node2"; before: how many stand there */
static void print_one(weft_text *text, const weft_host_name *hosts, int rank, int before)
{
    weft_text_print(text, "%s %d", before ? "," : "", rank);
    if (hosts && *hosts[rank])
        weft_text_print(text, " on %s", hosts[rank]);
}

/* "rank 1", "ranks 2, 3 on node2" */
static void print_absent(const weft_waiting *w, const weft_host_name *hosts, weft_text *text)
{
    int n = 0, listed = 0;
    for (int i = 0; i < w->n; i++)
        n += w->absent[i];
    weft_text_add(text, n == 1 ? "rank" : "ranks");
    for (int i = 0; i < w->n && listed < LISTED; i++)
        if (w->absent[i])
            print_one(text, hosts, rank_of(w, i), listed++);
    if (n > listed)
        weft_text_print(text, " and %d more", n - listed);
}

void weft_print_doing(weft_text *text, const weft_doing *t)
{
    if (!t->what)
        return;
    weft_text_print(text, " in %s", t->what);
    if (t->by && *t->by)
        weft_text_print(text, " of %s", t->by);
    weft_text_add(text, weft_block_describe(", ", t->block).text);
}

void weft_print_moment(weft_text *text, const weft_moment *m)
{
    if (m->part && m->micro_batch >= 0)
        weft_text_print(text, ", %s of stage %d, micro-batch %lld", m->part, m->stage,
                        (long long)m->micro_batch + 1);
    else if (m->part)
        weft_text_print(text, ", %s", m->part);
    if (m->step > 0)
        weft_text_print(text, ", step %lld", (long long)m->step);
}

/* " in all_gather of fsdp, block 3, step 7" */
static void print_task(const weft_watch *watch, weft_text *text)
{
    weft_blame blame = weft_blame_get();
    weft_doing t = watch->task.what ? watch->task : (weft_doing){blame.hook, blame.plugin, -1};
    if (!t.what) {
        if (watch->now.step > 0)
            weft_text_print(text, " at the end of step %lld", (long long)watch->now.step);
        return;
    }
    weft_print_doing(text, &t);
    weft_print_moment(text, &watch->now);
}

/* Of those who wait for the same the first speaks for all. */
static bool speaks(const weft_watch *watch, const weft_waiting *w)
{
    for (int i = 0; i < w->n; i++)
        if (!w->absent[i] && rank_of(w, i) < watch->rank)
            return false;
    return watch->log != NULL;
}

static void say(const weft_watch *watch, const weft_waiting *w, double waited)
{
    weft_text text = {0};
    if (watch->rank > 0)
        weft_text_print(&text, "rank %d: ", watch->rank);
    weft_text_print(&text, "waiting %.0f s for ", waited);
    print_absent(w, watch->hosts, &text);
    print_task(watch, &text);
    weft_log_print(watch->log, waited < first_s ? WEFT_LOG_INFO : WEFT_LOG_WARN, "%s",
                   weft_text_get(&text));
    weft_text_release(&text);
}

static weft_status give_up(const weft_watch *watch, const weft_waiting *w, weft_error *err)
{
    weft_text text = {0};
    print_absent(w, watch->hosts, &text);
    print_task(watch, &text);
    weft_status s =
        weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE, "timed out after %g s waiting for %s",
                  w->limit_s, weft_text_get(&text));
    weft_text_release(&text);
    return s;
}

bool weft_watch_is_long(weft_watch *watch, const weft_waiting *w)
{
    double word_s = watch->started ? first_s : first_at_start_s;
    if (watch->since != w->since) { /* a new wait */
        watch->since = w->since;
        watch->next_s = word_s;
    }
    return weft_now() - w->since >= 0.8 * (word_s < w->limit_s ? word_s : w->limit_s);
}

weft_status weft_watch_look(weft_watch *watch, const weft_waiting *w, weft_error *err)
{
    double waited = weft_now() - w->since;
    if (waited >= w->limit_s)
        return give_up(watch, w, err);
    if (waited < watch->next_s)
        return WEFT_OK;
    watch->waits += watch->started && w->since > watch->counted;
    watch->counted = w->since;
    watch->next_s *= 2;
    if (speaks(watch, w))
        say(watch, w, waited);
    return WEFT_OK;
}
