/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a job that others started. */
#include "base/blame.h"
#include "job.h"
#include "net/agree.h"
#include "record.h"
#include "stop.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_JOIN_S = 60 };
static const double name_s = 0.5; /* a launcher may kill the others in a second */

/* What the channel's thread and the rank's own both look at. */
typedef struct seat {
    weft_rank rank;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open; /* the plugins are there */
    bool done; /* the rank has ended by itself */
    bool lost; /* another rank has ended before its time: why */
    bool said; /* and that was said */
    weft_verdict why;
} seat;

/* The code that all ranks of the job end with: that of the rank that failed first. */
static int exit_code(weft_status mine, const weft_verdict *why)
{
    if (mine && mine != WEFT_ERR_PEER)
        return weft_cli_exit_code(mine);
    return weft_cli_exit_code(why && why->status ? (weft_status)why->status : mine);
}

/* Rank 0 speaks for all; where it is gone or hangs, everyone for himself. */
static bool speaks(int rank, const weft_verdict *why)
{
    return rank == 0 || (why && why->rank == 0 && why->status == WEFT_ERR_PEER);
}

/* Under the lock: has the rank ended by then? */
static bool await_end(seat *s, double within_s)
{
    const double until_s = weft_now() + within_s;
    struct timespec until = {.tv_sec = (time_t)until_s};
    until.tv_nsec = (long)((until_s - (double)until.tv_sec) * 1e9);
    while (!s->done && pthread_cond_timedwait(&s->changed, &s->lock, &until) == 0)
        continue;
    return s->done;
}

/* On the channel's thread: a rank has ended. This one may be in the middle of a library's call that
 * will never return; it gets some time, and is ended where it is after that. */
static void on_lost(void *ctx, const weft_verdict *why)
{
    seat *s = ctx;
    const int rank = s->rank.session.host.rank;
    pthread_mutex_lock(&s->lock);
    s->lost = true;
    s->why = *why;
    if (s->open)
        weft_rank_leave_transport(s->rank.session.plugins);
    if (!await_end(s, name_s) && speaks(rank, why)) {
        weft_error err = {0};
        s->said = true;
        weft_verdict_fail(why, &err);
        weft_cli_report(&err);
        weft_error_release(&err);
    }
    if (!await_end(s, WEFT_RANK_GRACE_S)) {
        weft_error err = {0};
        fprintf(stderr, "error: rank %d did not stop within %d s and is killed\n", rank,
                WEFT_RANK_GRACE_S);
        weft_verdict_fail(why, &err);
        weft_record_end(exit_code(WEFT_ERR_PEER, why), weft_error_text(&err));
        weft_error_release(&err);
        weft_job_end(exit_code(WEFT_ERR_PEER, why));
        _exit(exit_code(WEFT_ERR_PEER, why));
    }
    pthread_mutex_unlock(&s->lock);
}

static void set(seat *s, bool open, bool done)
{
    pthread_mutex_lock(&s->lock);
    s->open = open;
    s->done = done;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* Ranks that must be threads cannot be in several processes. */
static weft_status check_transport(const weft_rank *rank, weft_error *err)
{
    void *self;
    const weft_transport *transport =
        weft_plugins_service(rank->session.plugins, "transport", &self);
    if (!transport || transport->ranks != WEFT_RANKS_THREADS)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(rank->session.run, "plugins"),
                     "%s carries tensors between threads, and the ranks of this run are processes; "
                     "list mpi instead",
                     transport->name);
}

static weft_status read_files(const weft_cli_options *options, weft_text *files, weft_error *err)
{
    const char *ini = options->ini_text ? NULL : options->ini; /* a text everyone has already */
    weft_settings *settings = NULL;
    weft_status s = ini ? weft_settings_read(ini, &settings, err) : WEFT_OK;
    if (settings)
        s = weft_settings_pack(settings, files, err);
    weft_settings_destroy(settings);
    return s;
}

/* [weft] start_timeout, before anything is known to be right: what is wrong with the settings is
 * said later. */
static double find_patience(const weft_cli_options *options)
{
    double s = WEFT_PATIENCE_S;
    weft_settings *settings = NULL;
    const weft_params *params = NULL;
    weft_error unsaid = {0};
    if (!weft_cli_settings(options, &settings, &unsaid) &&
        !weft_settings_section(settings, "weft", weft_core_params("weft"), &params, &unsaid))
        s = weft_session_patience(params);
    weft_settings_destroy(settings);
    weft_error_release(&unsaid);
    return s;
}

/* Rank 0 alone reads the INI and what it includes: the other ranks may run where these files are
 * not, or are others. mine: whether rank 0 could. */
static weft_status share_files(weft_control *control, int rank, weft_status mine, weft_text *files,
                               weft_error *err)
{
    weft_status s = weft_control_agree(control, rank, "reading the INI file", mine, err);
    return s ? s : weft_control_broadcast(control, rank, files, err);
}

static weft_status prepare(seat *s, const weft_cli_options *options, int rank)
{
    weft_rank *r = &s->rank;
    weft_status status =
        weft_session_init(&r->session, options, rank, r->control, rank > 0, &r->err);
    status = status ? status : check_transport(r, &r->err);
    r->session.host.rank = rank; /* also if there is no session */
    status = weft_rank_agree(r, "reading its settings", status);
    if (!status)
        set(s, true, false);
    return status;
}

/* What a rank was doing when another ended matters to nobody. why: NULL: nobody has ended before
 * its time. */
static void report(seat *s, int rank, const weft_verdict *why)
{
    if (why && s->rank.status == WEFT_ERR_PEER && (why->rank != rank || why->late)) {
        weft_error_clear(&s->rank.err);
        weft_verdict_fail(why, &s->rank.err);
    }
    bool alone = !s->rank.control && s->rank.status != WEFT_ERR_STOPPED;
    if (s->said && s->rank.status == WEFT_ERR_PEER)
        return;
    if (alone || speaks(rank, why))
        weft_cli_conclude(s->rank.status, &s->rank.err);
}

/* status: of what came before. */
static weft_status run(seat *s, const weft_cli_options *options, int rank, weft_status status)
{
    weft_rank *r = &s->rank;
    weft_blame_set_rank(rank);
    r->session.host.rank = rank;
    r->status = status ? status : prepare(s, options, rank);
    r->status = r->status ? r->status : r->body(r, r->ctx);
    if (r->status &&
        r->status != WEFT_ERR_STOPPED) { /* all stop after the same step and end well */
        weft_control_leave(r->control, rank, r->status, weft_error_text(&r->err));
        if (s->open)
            weft_rank_leave_transport(r->session.plugins);
    }
    weft_plugins_close(r->session.plugins);
    weft_verdict why; /* ranks meet once more to close what they share */
    if (!r->status && weft_control_verdict(r->control, &why))
        r->status = weft_verdict_fail(&why, &r->err);
    set(s, false, true);
    return r->status;
}

static void init_seat(seat *s)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

int weft_job_join(const weft_job *job, const weft_cli_options *options,
                  weft_status (*body)(weft_rank *, void *), void *ctx)
{
    seat s = {.rank = {.body = body, .ctx = ctx}};
    weft_cli_options mine = *options;
    weft_verdict why;
    init_seat(&s);
    mine.ranks = job->ranks;
    mine.local_ranks = job->local_ranks;
    weft_cli_log sink;
    const weft_log log = weft_cli_log_init(&sink, WEFT_LOG_INFO);
    weft_text files = {0};
    weft_error unread = {0}; /* only rank 0's counts: the others may not have the files */
    weft_status status = read_files(options, &files, job->rank ? &unread : &s.rank.err);
    const weft_status read = job->rank ? WEFT_OK : status;
    mine.files = files.size ? &files : NULL;
    double patience_s = status ? WEFT_PATIENCE_S : find_patience(&mine);
    const weft_join join = {.rank = job->rank,
                            .ranks = job->ranks,
                            .master = job->master,
                            .token = job->token,
                            .limit_s = patience_s > 0 ? fmin(patience_s, MOST_JOIN_S) : MOST_JOIN_S,
                            .patience_s = &patience_s,
                            .stop = weft_stop_asked(),
                            .log = &log,
                            .lost = on_lost,
                            .ctx = &s};
    status = weft_control_join(&join, &s.rank.control, &s.rank.err);
    weft_cli_log_release(&sink);
    bool joined = status == WEFT_OK;
    if (joined)
        status = share_files(s.rank.control, job->rank, read, &files, &s.rank.err);
    mine.files = files.size ? &files : NULL;
    if (joined)
        status = run(&s, &mine, job->rank, status);
    bool failed = joined && weft_control_verdict(s.rank.control, &why);
    if (status)
        report(&s, job->rank, failed ? &why : NULL);
    int code = status ? exit_code(status, failed ? &why : NULL) : 0;
    weft_control_destroy(s.rank.control);
    weft_session_release(&s.rank.session);
    weft_error_release(&s.rank.err);
    weft_error_release(&unread);
    weft_text_release(&files);
    pthread_cond_destroy(&s.changed);
    pthread_mutex_destroy(&s.lock);
    return code;
}
