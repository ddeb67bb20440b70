/* SPDX-License-Identifier: Apache-2.0 */
/* weft train: the plan, executed. */
#include "about.h"
#include "job.h"
#include "lock.h"
#include "plugin/enter.h"
#include "run/digest.h"
#include "run/run.h"
#include "shared.h"
#include "stop.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/files.h>
#include <weft/store.h>

static weft_status write_text(const char *dir, const char *name, const weft_text *text,
                              weft_error *err)
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

/* about: who runs where; NULL: said elsewhere. */
static weft_status open_log(weft_session *session, const weft_about *about, weft_error *err)
{
    const int rank = session->host.rank;
    weft_text first = {0};
    char *path = rank ? weft_format("%s/log-%d.txt", session->host.dir, rank)
                      : weft_format("%s/log.txt", session->host.dir);
    if (about)
        weft_about_print_line(about, &first);
    weft_status s = path && !first.out_of_memory
                        ? weft_cli_log_file(&session->sink, path, weft_text_get(&first), err)
                        : weft_fail_memory(err);
    weft_free(path);
    weft_text_release(&first);
    return s;
}

/* A rank that is not the first keeps its lines only if it is told to. */
static weft_status open_own_log(weft_session *session, weft_error *err)
{
    if (session->host.rank == 0)
        return WEFT_OK;
    if (session->host.dir && weft_params_bool(session->run, "log_ranks"))
        return open_log(session, NULL, err);
    return weft_cli_log_file(&session->sink, NULL, "", err);
}

static weft_status no_folder(const weft_session *session, const char *why, weft_error *err)
{
    return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(session->run, "dir"),
                     "[weft] dir = %s cannot be the run folder: %s", session->host.dir, why);
}

/* Could the run folder be made and written? Nothing is made yet: a run that is refused leaves no
 * folder behind. */
static weft_status check_folder(const weft_session *session, weft_error *err)
{
    if (!session->host.dir)
        return WEFT_OK;
    char *path = weft_strdup(session->host.dir);
    if (!path)
        return weft_fail_memory(err);
    struct stat info;
    const char *place = path;
    while (stat(place, &info) != 0 && errno == ENOENT) { /* up to what is there */
        char *slash = strrchr(path, '/');
        if (slash)
            *slash = '\0';
        place = !slash ? "." : slash == path ? "/" : path;
        if (!slash)
            break;
    }
    weft_status s = WEFT_OK;
    if (stat(place, &info) != 0 || access(place, W_OK | X_OK) != 0)
        s = no_folder(session, strerror(errno), err);
    else if (!S_ISDIR(info.st_mode))
        s = no_folder(session, "there is a file of this name", err);
    weft_free(path);
    return s;
}

/* Refuses a folder that another run is in; one that is not there yet is locked when it is made. */
static weft_status lock_folder(const weft_session *session, int *lock, weft_error *err)
{
    struct stat info;
    weft_status s = check_folder(session, err);
    if (s || !session->host.dir || stat(session->host.dir, &info) != 0)
        return s;
    return weft_cli_lock(session->host.dir, lock, err);
}

/* Which bytes run: for the log's file, not for the terminal. */
static void note_plugins(weft_session *session)
{
    const weft_plugins *plugins = session->plugins;
    weft_text text = {0};
    const char *lock;
    for (int i = 0; (lock = weft_search_locked_by(plugins->search, i)); i++)
        weft_text_print(&text, "plugins are those that %s knows\n", lock);
    for (int i = 0; i < plugins->n; i++) {
        const weft_module *m = &plugins->list[i].module;
        weft_text_print(&text, "plugin %s %s: ", m->plugin->name, m->plugin->version);
        if (m->path)
            weft_text_print(&text, "SHA-256 %s, build-id %s, %s\n", m->id.sha256,
                            m->id.build_id[0] ? m->id.build_id : "none", m->path);
        else
            weft_text_add(&text, "built in\n");
    }
    weft_cli_log_note(&session->sink, &text);
    weft_text_release(&text);
}

/* The run folder: the effective INI, the plan, the log. */
static weft_status write_folder(weft_session *session, const weft_plan *plan,
                                const weft_about *about, int *lock, weft_error *err)
{
    const char *dir = session->host.dir;
    if (!dir)
        return weft_cli_log_file(&session->sink, NULL, "", err);
    weft_text text = {0};
    char *above = weft_format("%s/..", dir);
    weft_status s = weft_make_dirs(dir, err);
    if (!s && above)
        weft_io_sync_dir(
            weft_io_system(), above,
            NULL); /* so that its name outlasts a power cut; not all folders may be opened */
    weft_free(above);
    if (!s && *lock < 0)
        s = weft_cli_lock(dir, lock, err);
    if (!s) {
        weft_settings_print(session->settings, true, false, &text);
        s = write_text(dir, "config.ini", &text, err);
    }
    if (!s) {
        weft_text_clear(&text);
        weft_plan_print(plan, &text);
        s = write_text(dir, "plan.txt", &text, err);
    }
    if (!s) {
        weft_text_clear(&text);
        weft_about_print_json(about, &text);
        s = write_text(dir, "run.json", &text, err);
    }
    s = s ? s : open_log(session, about, err);
    if (!s)
        note_plugins(session);
    const char *exposed = s ? NULL : weft_folder_exposed(dir);
    if (exposed)
        weft_log_print(session->host.log, WEFT_LOG_WARN,
                       "the run folder, %s, is not safe: %s, and so change or remove what the run "
                       "writes; chmod go-w it",
                       dir, exposed);
    weft_text_release(&text);
    return s ? no_folder(session, "see above", err) : WEFT_OK;
}

/* What is about to happen, in a few lines. */
static void announce(const weft_session *session, const weft_plan *plan, const weft_run *run)
{
    const weft_log *log = session->host.log;
    weft_text text = {0};
    weft_text_print(&text, "%.2f M parameters, %lld tokens a step, %lld steps; ",
                    (double)weft_plan_parameters(plan) / 1e6,
                    (long long)(plan->global_batch * plan->seq_len), (long long)plan->steps);
    weft_print_bytes(&text, (double)weft_plan_bytes(plan));
    weft_text_add(&text, " planned");
    weft_log_print(log, WEFT_LOG_INFO, "%s", weft_text_get(&text));
    if (weft_plan_idle(plan) > 0)
        weft_log_print(log, WEFT_LOG_WARN,
                       "%lld shares of a micro-batch have no sample, and their ranks compute "
                       "padding; a greater [train] global_batch or micro_batch "
                       "(now %lld), or fewer ranks, would not",
                       (long long)weft_plan_idle(plan), (long long)plan->micro_batch);
    weft_text_clear(&text);
    weft_text_print(&text, "%s: ", plan->device->name);
    weft_device_describe(plan, &text);
    weft_log_print(log, WEFT_LOG_INFO, "%s", weft_text_get(&text));
    weft_text_clear(&text);
    weft_text_add(&text, "data: ");
    const weft_entry entry = weft_enter_service(plan->plugins, run->data, "describe", NULL);
    if (run->data->describe)
        run->data->describe(run->data_self, &text);
    weft_leave(&entry, WEFT_OK);
    weft_log_print(log, WEFT_LOG_INFO, "%s", weft_text_get(&text));
    weft_text_release(&text);
}

static weft_status make_plan(weft_rank *rank, weft_plan **plan)
{
    const weft_session *session = &rank->session;
    const weft_plan_options options = {.rank = session->host.rank, .ranks = session->host.ranks};
    weft_status s =
        weft_plan_create(session->plugins, session->settings, &options, plan, &rank->err);
    return s ? s : weft_session_check_learns(session, *plan, &rank->err);
}

static weft_status prepare(weft_rank *rank, weft_plan **plan, weft_run **run, int *lock)
{
    weft_session *session = &rank->session;
    weft_status s = weft_rank_agree(rank, "planning", make_plan(rank, plan));
    s = s ? s
          : weft_rank_agree(rank, "comparing the ranks",
                            weft_digest_check(*plan, rank->control, &rank->err));
    bool first = session->host.rank == 0;
    weft_about about = {.steps = s ? 0 : (*plan)->steps};
    s = s ? s : weft_about_init(&about, rank);
    s = s ? s
          : weft_rank_agree(rank, "looking at the run folder",
                            first ? lock_folder(session, lock, &rank->err) : WEFT_OK);
    s = s ? s
          : weft_rank_agree(rank, "opening plugins",
                            weft_plugins_open(session->plugins, &rank->err));
    s = s ? s
          : weft_rank_agree(rank, "preparing the run",
                            weft_run_create(*plan, &session->host, run, &rank->err));
    s = s ? s : weft_rank_agree(rank, "loading the state", weft_run_continue(*run, &rank->err));
    s = s ? s
          : weft_rank_agree(rank, "making the run folder",
                            first ? write_folder(session, *plan, &about, lock, &rank->err)
                                  : WEFT_OK);
    weft_about_release(&about);
    s = s ? s : weft_cli_check_shared(rank);
    return s ? s
             : weft_rank_agree(rank, "opening the ranks' logs", open_own_log(session, &rank->err));
}

/* There is nothing yet that would have to be saved. */
static weft_status check_stop(weft_rank *rank)
{
    const char mine = *weft_stop_asked() != 0;
    bool stop = mine;
    char *all = weft_alloc_zero((size_t)rank->session.host.ranks, 1);
    if (!all)
        return weft_fail_memory(&rank->err);
    weft_status s = rank->control ? weft_control_exchange(rank->control, rank->session.host.rank,
                                                          &mine, 1, all, &rank->err)
                                  : WEFT_OK;
    for (int r = 0; r < rank->session.host.ranks; r++)
        stop = stop || all[r];
    weft_free(all);
    return s || !stop ? s
                      : weft_fail(&rank->err, WEFT_ERR_STOPPED, WEFT_NOWHERE,
                                  "stopped by a signal before the first step");
}

static weft_status train(weft_rank *rank, void *ctx)
{
    weft_session *session = &rank->session;
    weft_plan *plan = NULL;
    weft_run *run = NULL;
    int lock = -1;
    (void)ctx;
    weft_status s = prepare(rank, &plan, &run, &lock);
    if (!s && session->host.rank == 0)
        announce(session, plan, run);
    if (!s)
        run->saves_asked = weft_stop_saves();
    s = s ? s : check_stop(rank);
    s = s ? s : weft_run_train(run, weft_stop_asked(), &rank->err);
    if ((!s || s == WEFT_ERR_STOPPED) && session->host.dir)
        weft_log_print(session->host.log, WEFT_LOG_INFO, "run folder: %s", session->host.dir);
    weft_run_destroy(run);
    weft_plan_destroy(plan);
    weft_cli_unlock(&lock);
    return s;
}

int weft_cmd_train(int argc, char **argv)
{
    const weft_cli_usage usage = {
        .command = "train",
        .arguments = "run.ini",
        .max_arguments = 1,
        .summary =
            "Trains what the INI file describes. SIGINT, SIGTERM, SIGHUP and SIGUSR1 end the run "
            "after the current step, SIGUSR2 saves and goes on."
            " With ckpt listed the state is saved first, and the same command goes on from there.",
        .accepts = WEFT_CLI_INI | WEFT_CLI_RANKS,
    };
    weft_cli_options options;
    weft_error err = {0};
    int code = weft_cli_parse(&usage, argc, argv, &options);
    if (code == WEFT_CLI_GO)
        code = weft_stop_take(&err) ? weft_cli_conclude(WEFT_ERR_IO, &err)
                                    : weft_job_run(argc, argv, &options, train, NULL);
    weft_error_release(&err);
    weft_cli_options_release(&options);
    return code;
}
