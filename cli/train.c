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

static weft_status train(weft_session *session, weft_error *err)
{
    weft_plan *plan = NULL;
    weft_run *run = NULL;
    const weft_plan_options options = {.rank = session->host.rank, .ranks = session->host.ranks};
    weft_status s = catch_signals(err);
    s = s ? s : weft_plan_create(session->plugins, session->settings, &options, &plan, err);
    s = s ? s : write_folder(session, plan, err);
    s = s ? s : weft_plugins_open(session->plugins, err);
    s = s ? s : weft_run_create(plan, &session->host, &run, err);
    if (!s) {
        announce(session, plan, run);
        s = weft_run_train(run, &stop_requested, err);
    }
    if ((!s || s == WEFT_ERR_STOPPED) && session->host.dir)
        weft_log_print(session->host.log, WEFT_LOG_INFO, "run folder: %s", session->host.dir);
    weft_run_destroy(run);
    weft_plugins_close(session->plugins);
    weft_plan_destroy(plan);
    return s;
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
    weft_session session = {0};
    weft_error err = {0};
    int code = weft_cli_parse(&usage, argc, argv, &options);
    if (code == WEFT_CLI_GO) {
        weft_status s = weft_session_init(&session, &options, false, &err);
        if (!s)
            s = train(&session, &err);
        code = s ? weft_cli_report(&err) : 0;
    }
    weft_session_release(&session);
    weft_error_release(&err);
    weft_cli_options_release(&options);
    return code;
}
