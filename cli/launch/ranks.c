/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks.h"
#include "base/blame.h"
#include "console/crash.h"
#include "stop.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_THREADS = 1024, MAX_SHOWN = 8 };

/* All ranks, as threads that end one by one. */
struct weft_crew {
    weft_rank *ranks;
    int n, ended;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

weft_status weft_rank_open(weft_rank *rank)
{
    weft_stop_limit(weft_session_patience(rank->session.run), "opening plugins");
    weft_status s = weft_plugins_open(rank->session.plugins, &rank->err);
    weft_stop_limit(0, NULL);
    return weft_rank_agree(rank, "opening plugins", s);
}

weft_status weft_rank_prepare(weft_rank *rank, weft_plan *plan, weft_run **run)
{
    weft_stop_limit(weft_session_patience(rank->session.run), "preparing the run");
    weft_status s = weft_run_create(plan, &rank->session.host, run, &rank->err);
    weft_stop_limit(0, NULL);
    if (!s)
        weft_session_limit(&rank->session, (*run)->watch);
    return weft_rank_agree(rank, "preparing the run", s);
}

void weft_rank_leave_transport(const weft_plugins *plugins)
{
    void *self;
    const weft_transport *transport = weft_plugins_service(plugins, "transport", &self);
    if (transport && transport->leave)
        transport->leave(self);
}

/* Wakes whoever waits for this rank. */
static void leave(weft_rank *rank)
{
    weft_control_leave(rank->control, rank->session.host.rank, rank->status,
                       weft_error_text(&rank->err));
    weft_rank_leave_transport(rank->session.plugins);
}

static int report_one(const weft_rank *rank)
{
    return weft_cli_conclude(rank->status, &rank->err);
}

/* The first rank that has something of its own to say; else whom all have waited for; else anybody.
 */
static int report(const weft_rank *ranks, int n)
{
    weft_verdict why;
    for (int i = 0; i < n; i++)
        if (ranks[i].ended && ranks[i].status && weft_error_status(&ranks[i].err) != WEFT_ERR_PEER)
            return report_one(&ranks[i]);
    if (ranks[0].control && weft_control_verdict(ranks[0].control, &why) && why.late) {
        weft_error err = {0};
        weft_verdict_fail(&why, &err);
        int code = weft_cli_report(&err);
        weft_error_release(&err);
        return code;
    }
    for (int i = 0; i < n; i++)
        if (ranks[i].ended && ranks[i].status)
            return report_one(&ranks[i]);
    return 0;
}

/* How long the others may take to end; one that was waited for long enough gets little more. */
static double patience(const weft_rank *rank)
{
    weft_verdict why;
    double limit_s = weft_control_watch(rank->control, rank->session.host.rank)->limit_s;
    if (limit_s <= 0)
        return 1e9;
    bool late = weft_control_verdict(rank->control, &why) && why.late;
    return late && limit_s > WEFT_RANK_GRACE_S ? WEFT_RANK_GRACE_S : limit_s;
}

/* Whose code those are in that have not ended. */
static void show_hung(const struct weft_crew *c)
{
    for (int i = 0, shown = 0; i < c->n && shown < MAX_SHOWN; i++)
        if (!c->ranks[i].ended) {
            weft_crash_show(c->ranks[i].thread);
            shown++;
        }
}

/* This rank has failed: the others should end, too. A thread that hangs ends with the process only.
 */
static void await_others(struct weft_crew *c, const weft_rank *rank)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)patience(rank);
    while (c->ended < c->n && pthread_cond_timedwait(&c->changed, &c->lock, &until) == 0)
        continue;
    if (c->ended == c->n)
        return;
    show_hung(c);
    _exit(report(c->ranks, c->n));
}

/* Under the lock. */
static void note_end(weft_rank *rank)
{
    rank->ended = true;
    rank->crew->ended++;
    pthread_cond_broadcast(&rank->crew->changed);
}

static void *run_rank(void *arg)
{
    weft_rank *rank = arg;
    struct weft_crew *c = rank->crew;
    weft_blame_set_rank(rank->session.host.rank);
    rank->status = rank->body(rank, rank->ctx);
    if (rank->status && rank->control)
        leave(rank);
    weft_plugins_close(rank->session.plugins);
    pthread_mutex_lock(&c->lock);
    note_end(rank);
    if (rank->status && rank->control)
        await_others(c, rank);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static void start_threads(weft_rank *ranks, int n)
{
    for (int i = 1; i < n; i++) {
        int code = pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]);
        if (code) {
            ranks[i].status = weft_fail(&ranks[i].err, WEFT_ERR_IO, WEFT_NOWHERE,
                                        "cannot start a thread for rank %d: %s", i, strerror(code));
            weft_control_leave(ranks[0].control, i, ranks[i].status,
                               weft_error_text(&ranks[i].err));
            pthread_mutex_lock(&ranks[0].crew->lock);
            for (int k = i; k < n; k++)
                note_end(&ranks[k]);
            pthread_mutex_unlock(&ranks[0].crew->lock);
            return;
        }
        ranks[i].started = true;
    }
}

/* A transport between processes has nobody to talk to here. */
static weft_status check_transport(weft_rank *rank)
{
    void *self;
    const weft_transport *transport =
        weft_plugins_service(rank->session.plugins, "transport", &self);
    if (!transport || (transport->ranks & WEFT_RANKS_THREADS))
        return WEFT_OK;
    return weft_fail(
        &rank->err, WEFT_ERR_INPUT, weft_params_where(rank->session.run, "plugins"),
        "%s carries tensors between processes, and the ranks of this run are threads of "
        "one; list local instead",
        transport->name);
}

static void init_crew(struct weft_crew *c, weft_rank *ranks, int n)
{
    pthread_condattr_t attributes;
    *c = (struct weft_crew){.ranks = ranks, .n = n};
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    for (int i = 0; i < n; i++)
        ranks[i].crew = c;
}

static int run(weft_rank *ranks, int n, const weft_cli_options *options, bool quiet,
               weft_status (*body)(weft_rank *, void *), void *ctx)
{
    struct weft_crew crew;
    weft_control *control = NULL;
    init_crew(&crew, ranks, n);
    ranks[0].thread = pthread_self();
    weft_status s = n > 1 ? weft_control_create(n, &control, &ranks[0].err) : WEFT_OK;
    ranks[0].status = s;
    for (int i = 0; i < n && !s; i++) {
        ranks[i].control = control;
        ranks[i].body = body;
        ranks[i].ctx = ctx;
        s = ranks[i].status = weft_session_init(&ranks[i].session, options, i, control,
                                                quiet || i > 0, &ranks[i].err);
        if (!s && n > 1)
            s = ranks[i].status = check_transport(&ranks[i]);
    }
    if (!s) {
        start_threads(ranks, n);
        run_rank(&ranks[0]);
    }
    for (int i = 1; i < n; i++)
        if (ranks[i].started)
            pthread_join(ranks[i].thread, NULL);
    for (int i = 0; i < n; i++)
        ranks[i].ended = true;
    int code = report(ranks, n);
    for (int i = n - 1; i >= 0; i--) {
        weft_session_release(&ranks[i].session);
        weft_error_release(&ranks[i].err);
    }
    weft_control_destroy(control);
    pthread_cond_destroy(&crew.changed);
    pthread_mutex_destroy(&crew.lock);
    return code;
}

int weft_ranks_run(const weft_cli_options *options, bool quiet,
                   weft_status (*body)(weft_rank *, void *), void *ctx)
{
    int n = options->ranks > 0 ? options->ranks : 1;
    weft_error err = {0};
    weft_rank *ranks = NULL;
    if (n > MAX_THREADS)
        weft_fail(
            &err, WEFT_ERR_INPUT, WEFT_NOWHERE,
            "-n %d: at most %d ranks can be threads of one process; weft plan takes any number", n,
            MAX_THREADS);
    else if (!(ranks = weft_alloc_zero((size_t)n, sizeof *ranks)))
        weft_fail_memory(&err);
    if (!ranks) {
        int failed = weft_cli_report(&err);
        weft_error_release(&err);
        return failed;
    }
    int code = run(ranks, n, options, quiet, body, ctx);
    weft_free(ranks);
    return code;
}
