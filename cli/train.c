/* SPDX-License-Identifier: Apache-2.0 */
/* weft train: the plan, executed. */
#include "plugin/crash.h"
#include "run/run.h"
#include "session.h"

#include <stdio.h>
#include <string.h>
#include <weft/files.h>

static volatile sig_atomic_t stop_requested;

static void request_stop(int signal)
{
    (void)signal;
    stop_requested = 1;
}

static weft_status catch_signals(weft_error *err)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGUSR1};
    struct sigaction action = {.sa_handler = request_stop, .sa_flags = SA_RESTART | SA_RESETHAND}; /* a second one kills */
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (sigaction(signals[i], &action, NULL) != 0)
            return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot catch signal %d", signals[i]);
    return weft_crash_install(err);
}

static weft_status write_text(const char *dir, const char *name, const weft_text *text, weft_error *err)
{
    char *path = weft_format("%s/%s", dir, name);
    if (!path || text->out_of_memory) {
        weft_free(path);
        return weft_fail_memory(err);
    }
    weft_status s = weft_write_file(path, weft_text_get(text), text->size, err);
    weft_free(path);
    return s;
}

static weft_status open_log(weft_session *session, weft_error *err)
{
    char *path = weft_format("%s/log.txt", session->host.dir);
    weft_status s = path ? weft_cli_log_file(&session->sink, path, err) : weft_fail_memory(err);
    weft_free(path);
    return s;
}

/* The run folder: the effective INI, the plan, the log. */
static weft_status write_folder(weft_session *session, const weft_plan *plan, weft_error *err)
{
    const char *dir = session->host.dir;
    if (!dir)
        return WEFT_OK;
    weft_text text = {0};
    weft_status s = weft_make_dirs(dir, err);
    if (!s) {
        weft_settings_print(session->settings, true, false, &text);
        s = write_text(dir, "config.ini", &text, err);
    }
    if (!s) {
        weft_text_clear(&text);
        weft_plan_print(plan, &text);
        s = write_text(dir, "plan.txt", &text, err);
    }
    s = s ? s : open_log(session, err);
    weft_text_release(&text);
    return s;
}

/* What is about to happen, in a few lines. */
static void announce(const weft_session *session, const weft_plan *plan, const weft_run *run)
{
    const weft_log *log = session->host.log;
    weft_text text = {0};
    weft_text_print(&text, "%.2f M parameters, %lld tokens a step, %lld steps; ", (double)weft_plan_parameters(plan) / 1e6,
                    (long long)(plan->global_batch * plan->seq_len), (long long)plan->steps);
    weft_print_bytes(&text, (double)weft_plan_bytes(plan));
    weft_text_add(&text, " planned");
    weft_log_print(log, WEFT_LOG_INFO, "%s", weft_text_get(&text));
    weft_text_clear(&text);
    weft_text_print(&text, "%s: ", plan->device->name);
    if (plan->device->describe)
        plan->device->describe(plan->device_self, &text);
    weft_log_print(log, WEFT_LOG_INFO, "%s", weft_text_get(&text));
    weft_text_clear(&text);
    weft_text_add(&text, "data: ");
    if (run->data->describe)
        run->data->describe(run->data_self, &text);
    weft_log_print(log, WEFT_LOG_INFO, "%s", weft_text_get(&text));
    weft_text_release(&text);
}

/* One rank of the run; its session is created and belongs to its thread from here on. */
typedef struct rank_job {
    weft_session session;
    weft_control *control; /* NULL: one rank */
    weft_error err;
    weft_status status;
    pthread_t thread;
    bool started;
} rank_job;

/* After every phase all ranks know whether all may go on, so that one rank's failure is every rank's clear end. */
static weft_status agree(rank_job *job, const char *phase, weft_status s)
{
    return job->control ? weft_control_agree(job->control, job->session.host.rank, phase, s, &job->err) : s;
}

static weft_status prepare(rank_job *job, weft_plan **plan, weft_run **run)
{
    weft_session *session = &job->session;
    const weft_plan_options options = {.rank = session->host.rank, .ranks = session->host.ranks};
    weft_status s = agree(job, "planning", weft_plan_create(session->plugins, session->settings, &options, plan, &job->err));
    s = s ? s : agree(job, "making the run folder", session->host.rank == 0 ? write_folder(session, *plan, &job->err) : WEFT_OK);
    s = s ? s : agree(job, "opening plugins", weft_plugins_open(session->plugins, &job->err));
    return s ? s : agree(job, "preparing the run", weft_run_create(*plan, &session->host, run, &job->err));
}

/* Wakes whoever waits for this rank. */
static void leave(rank_job *job)
{
    void *self;
    const weft_transport *transport = weft_plugins_service(job->session.plugins, "transport", &self);
    weft_control_leave(job->control, job->session.host.rank);
    if (transport && transport->leave)
        transport->leave(self);
}

static void *run_rank(void *arg)
{
    rank_job *job = arg;
    weft_plan *plan = NULL;
    weft_run *run = NULL;
    weft_crash_set_rank(job->session.host.rank);
    weft_status s = prepare(job, &plan, &run);
    if (!s) {
        if (job->session.host.rank == 0)
            announce(&job->session, plan, run);
        s = weft_run_train(run, &stop_requested, &job->err);
    }
    if (s && job->control)
        leave(job);
    if ((!s || s == WEFT_ERR_STOPPED) && job->session.host.dir)
        weft_log_print(job->session.host.log, WEFT_LOG_INFO, "run folder: %s", job->session.host.dir);
    weft_run_destroy(run);
    weft_plugins_close(job->session.plugins);
    weft_plan_destroy(plan);
    job->status = s;
    return NULL;
}

/* The first rank that has something of its own to say. */
static int report(const rank_job *jobs, int n)
{
    for (int i = 0; i < n; i++)
        if (jobs[i].status && weft_error_status(&jobs[i].err) != WEFT_ERR_PEER)
            return weft_cli_report(&jobs[i].err);
    for (int i = 0; i < n; i++)
        if (jobs[i].status)
            return weft_cli_report(&jobs[i].err);
    return 0;
}

static weft_status start_threads(rank_job *jobs, int n)
{
    for (int i = 1; i < n; i++) {
        int code = pthread_create(&jobs[i].thread, NULL, run_rank, &jobs[i]);
        if (code) {
            weft_control_leave(jobs[0].control, i);
            return jobs[i].status = weft_fail(&jobs[i].err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot start a thread for rank %d: %s", i, strerror(code));
        }
        jobs[i].started = true;
    }
    return WEFT_OK;
}

/* Ranks as threads; rank 0 is this one. */
static int train(rank_job *jobs, int n, const weft_cli_options *options)
{
    weft_control *control = NULL;
    weft_error *err = &jobs[0].err;
    weft_status s = catch_signals(err);
    if (!s && n > 1)
        s = weft_control_create(n, &control, err);
    for (int i = 0; i < n && !s; i++) {
        jobs[i].control = control;
        s = jobs[i].status = weft_session_init(&jobs[i].session, options, i, control, i > 0, &jobs[i].err);
    }
    jobs[0].status = jobs[0].status ? jobs[0].status : s;
    if (!s) {
        start_threads(jobs, n);
        run_rank(&jobs[0]);
    }
    for (int i = 1; i < n; i++)
        if (jobs[i].started)
            pthread_join(jobs[i].thread, NULL);
    int code = report(jobs, n);
    for (int i = n - 1; i >= 0; i--) {
        weft_session_release(&jobs[i].session);
        weft_error_release(&jobs[i].err);
    }
    weft_control_destroy(control);
    return code;
}

int weft_cmd_train(int argc, char **argv)
{
    const weft_cli_usage usage = {
        .command = "train",
        .arguments = "run.ini",
        .max_arguments = 1,
        .summary = "Trains what the INI file describes. SIGINT and SIGTERM end the run after the current step.",
        .accepts = WEFT_CLI_INI | WEFT_CLI_RANKS,
    };
    weft_cli_options options;
    int code = weft_cli_parse(&usage, argc, argv, &options);
    if (code == WEFT_CLI_GO) {
        int n = options.ranks > 0 ? options.ranks : 1;
        rank_job *jobs = weft_alloc_zero((size_t)n, sizeof *jobs);
        code = jobs ? train(jobs, n, &options) : 1;
        weft_free(jobs);
    }
    weft_cli_options_release(&options);
    return code;
}
