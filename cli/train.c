/* SPDX-License-Identifier: Apache-2.0 */
/* weft train: the plan, executed. */
#include "about.h"
#include "console/built_in.h"
#include "execute/run.h"
#include "forecast/forecast.h"
#include "generate/generate.h"
#include "launch/job.h"
#include "launch/stop.h"
#include "lock.h"
#include "net/digest.h"
#include "record.h"
#include "room.h"
#include "shared.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <weft/files.h>
#include <weft/store.h>

/* One rank's run, from the plan to the end. */
typedef struct training {
    weft_plan *plan;
    weft_run *run;
    int lock;            /* of the run folder; negative: none */
    weft_record *record; /* of this start; NULL: none */
} training;

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
static weft_status open_own_log(weft_session *session, bool steps, weft_error *err)
{
    if (session->host.rank == 0)
        return WEFT_OK;
    if (steps && session->host.dir && weft_params_bool(session->run, "log_ranks"))
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
    const bool there = stat(place, &info) == 0;
    if (there && !S_ISDIR(info.st_mode))
        s = no_folder(session, "there is a file of this name", err);
    else if (!there || access(place, W_OK | X_OK) != 0)
        s = no_folder(session, strerror(errno), err);
    weft_free(path);
    return s;
}

/* A folder that is not there yet is locked when it is made. */
static weft_status lock_folder(const weft_session *session, int *lock, weft_error *err)
{
    struct stat info;
    *lock = -1;
    weft_status s = check_folder(session, err);
    if (s || !session->host.dir || stat(session->host.dir, &info) != 0)
        return s;
    return weft_cli_lock(session->host.dir, lock, err);
}

/* What all ranks must know alike while they wait for a folder, or begin. */
static weft_status any_of(weft_rank *rank, bool mine, bool *any)
{
    const char word = mine;
    char *all = weft_alloc_zero((size_t)rank->session.host.ranks, 1);
    if (!all)
        return weft_fail_memory(&rank->err);
    all[0] = word;
    weft_status s = rank->control ? weft_control_exchange(rank->control, rank->session.host.rank,
                                                          &word, 1, all, &rank->err)
                                  : WEFT_OK;
    *any = false;
    for (int r = 0; r < rank->session.host.ranks; r++)
        *any = *any || all[r];
    weft_free(all);
    return s;
}

/* There is nothing yet that would have to be saved. */
static weft_status check_stop(weft_rank *rank)
{
    bool stop = false;
    weft_status s = any_of(rank, *weft_stop_asked() != 0, &stop);
    return s || !stop ? s
                      : weft_fail(&rank->err, WEFT_ERR_STOPPED, WEFT_NOWHERE,
                                  "stopped by a signal before the first step");
}

/* waits: until another run has left the folder. */
static weft_status take_folder(weft_rank *rank, bool waits, int *lock)
{
    const bool first = rank->session.host.rank == 0;
    const struct timespec pause = {.tv_nsec = 500000000};
    for (bool busy = true, told = false;; told = true) {
        weft_error err = {0};
        weft_status mine = first ? lock_folder(&rank->session, lock, &err) : WEFT_OK;
        weft_status s = any_of(rank, waits && *lock == WEFT_LOCK_BUSY, &busy);
        s = s || !busy ? s : check_stop(rank);
        if (!s && busy && first && !told)
            weft_log_print(rank->session.host.log, WEFT_LOG_INFO, "--wait: %s",
                           weft_error_text(&err));
        if (!s && !busy && mine)
            weft_fail(&rank->err, mine, WEFT_NOWHERE, "%s", weft_error_text(&err));
        weft_error_release(&err);
        if (s || !busy)
            return s ? s : mine;
        if (first)
            nanosleep(&pause, NULL);
    }
}

/* Which bytes run: for the log's file, not for the terminal. */
static void note_plugins(weft_session *session)
{
    const weft_plugins *plugins = session->plugins;
    weft_text text = {0};
    const char *lock;
    for (int i = 0; (lock = weft_search_locked_by(plugins->search, i)); i++)
        weft_text_print(&text, "only plugins that %s lists are opened\n", lock);
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

/* The run folder: its records, the log. One that has records is left as it is by a run that has
 * nothing left to do. */
static weft_status write_folder(weft_session *session, training *t, const weft_about *about,
                                weft_error *err)
{
    const char *dir = session->host.dir;
    if (!dir || (t->run->step >= t->plan->steps && weft_record_exists(dir)))
        return weft_cli_log_file(&session->sink, NULL, "", err);
    char *above = weft_format("%s/..", dir);
    weft_status s = weft_make_dirs(dir, err);
    if (!s && above)
        weft_io_sync_dir(
            weft_io_system(), above,
            NULL); /* so that its name outlasts a power cut; not all folders may be opened */
    weft_free(above);
    const bool is_new = t->lock < 0;
    if (!s && is_new)
        s = weft_cli_lock(dir, &t->lock, err);
    s = s ? s : weft_cli_lock_sign(dir, t->lock, err);
    s = s ? s : open_log(session, about, err);
    s = s ? s : weft_record_begin(session, t->plan, about, t->run->step, &t->record, err);
    if (!s)
        note_plugins(session);
    else if (is_new && t->lock >= 0) /* on a disk that is full */
        weft_cli_lock_withdraw(dir);
    const char *exposed = s ? NULL : weft_folder_exposed(dir);
    if (exposed)
        weft_log_print(session->host.log, WEFT_LOG_WARN,
                       "the run folder, %s, is not safe: %s, and so change or remove what the run "
                       "writes; chmod go-w it",
                       dir, exposed);
    return s == WEFT_ERR_INPUT ? no_folder(session, "see above", err) : s;
}

/* Whoever asks for evaluations of nothing would look for their losses in vain. */
static void warn_unevaluated(const weft_session *session, const weft_plan *plan,
                             const weft_run *run)
{
    if (weft_params_int(plan->train, "eval_every") > 0 &&
        run->data->samples(run->data_self, WEFT_SPLIT_VALIDATION) == 0)
        weft_warn(&session->host, weft_params_where(plan->train, "eval_every"),
                  "[train] eval_every: nothing will be evaluated, for the data has no sample for "
                  "validation");
}

/* What is about to happen, in a few lines. */
static void announce(const weft_session *session, const weft_plan *plan, const weft_run *run)
{
    const weft_log *log = session->host.log;
    weft_text text = {0};
    weft_text_print(&text, "%.2f M parameters, %lld %s a step, %lld steps; ",
                    (double)weft_plan_parameters(plan) / 1e6, (long long)plan->units, plan->unit,
                    (long long)plan->steps);
    weft_print_bytes(&text, (double)weft_plan_bytes(plan));
    weft_text_add(&text, " planned");
    weft_log_print(log, WEFT_LOG_INFO, "%s", weft_text_get(&text));
    if (weft_plan_idle(plan) > 0)
        weft_log_print(log, WEFT_LOG_WARN,
                       "shares of a micro-batch that have no sample, and whose ranks compute "
                       "padding: %lld; a greater [train] global_batch or micro_batch "
                       "(now %lld), or fewer ranks, would have none",
                       (long long)weft_plan_idle(plan), (long long)plan->micro_batch);
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
    warn_unevaluated(session, plan, run);
}

static weft_status make_plan(weft_rank *rank, weft_plan **plan)
{
    const weft_session *session = &rank->session;
    const weft_plan_options options = {.rank = session->host.rank,
                                       .ranks = session->host.ranks,
                                       .spread = WEFT_SPREAD,
                                       .broken = weft_plan_keep_broken};
    weft_status s =
        weft_plan_create(session->plugins, session->settings, &options, plan, &rank->err);
    return s ? s : weft_session_check_plan(session, *plan, &rank->err);
}

static weft_status prepare(weft_rank *rank, training *t, bool waits)
{
    weft_session *session = &rank->session;
    weft_stop_limit(weft_session_patience(session->run), "planning");
    weft_status s = make_plan(rank, &t->plan);
    weft_stop_limit(0, NULL);
    s = weft_rank_agree(rank, "planning", s);
    s = s ? s
          : weft_rank_agree(rank, "comparing the ranks",
                            weft_digest_check(t->plan, rank->control, &rank->err));
    bool first = session->host.rank == 0;
    weft_about about = {.steps = s ? 0 : t->plan->steps, .plan = t->plan};
    s = s ? s : weft_about_init(&about, rank);
    s = s ? s
          : weft_rank_agree(rank, "looking at the run folder", take_folder(rank, waits, &t->lock));
    s = s ? s : weft_cli_check_room(rank, t->plan);
    s = s ? s : weft_rank_open(rank);
    s = s ? s : weft_rank_prepare(rank, t->plan, &t->run);
    if (!s)
        t->run->write_texts = weft_generate_asked;
    if (!s && t->run->data->fingerprint)
        about.data_id = t->run->data->fingerprint(t->run->data_self);
    s = s ? s : weft_rank_agree(rank, "loading the state", weft_run_continue(t->run, &rank->err));
    s = s ? s
          : weft_rank_agree(rank, "making the run folder",
                            first ? write_folder(session, t, &about, &rank->err) : WEFT_OK);
    weft_about_release(&about);
    s = s ? s : weft_cli_check_shared(rank);
    return s ? s
             : weft_rank_agree(rank, "opening the ranks' logs",
                               open_own_log(session, t->run->step < t->plan->steps, &rank->err));
}

/* As in launch/join.c: all ranks end with the code of the one that failed first. */
static int exit_code(const weft_rank *rank, weft_status s)
{
    weft_verdict why;
    if (s == WEFT_ERR_PEER && rank->control && weft_control_verdict(rank->control, &why) &&
        why.status)
        s = (weft_status)why.status;
    return weft_cli_exit_code(s);
}

/* In run.json; why it failed, in the log, too. */
static void note_end(weft_rank *rank, training *t, weft_status s)
{
    weft_text text = {0};
    if (s && t->record) {
        weft_text_add_utc(&text, weft_utc());
        weft_text_print(&text, s == WEFT_ERR_STOPPED ? " %s\n" : " error: %s\n",
                        weft_error_text(&rank->err));
        weft_cli_log_note(&rank->session.sink, &text);
    }
    weft_text_release(&text);
    weft_record_end(exit_code(rank, s), s ? weft_error_text(&rank->err) : "all steps are done");
    weft_record_close(t->record, rank->session.host.log);
}

static weft_status train(weft_rank *rank, void *waits)
{
    weft_session *session = &rank->session;
    training t = {.lock = -1};
    weft_status s = prepare(rank, &t, *(const bool *)waits);
    if (!s && session->host.rank == 0)
        announce(session, t.plan, t.run);
    if (!s)
        t.run->saves_asked = weft_stop_saves();
    if (t.record) {
        t.run->step_made = weft_record_step;
        t.run->step_made_ctx = t.record;
    }
    s = s ? s : check_stop(rank);
    s = s ? s : weft_run_train(t.run, weft_stop_asked(), &rank->err);
    if ((!s || s == WEFT_ERR_STOPPED) && session->host.dir)
        weft_log_print(session->host.log, WEFT_LOG_INFO, "run folder: %s", session->host.dir);
    if (session->host.rank == 0)
        note_end(rank, &t, s);
    weft_run_destroy(t.run);
    weft_plan_destroy(t.plan);
    weft_cli_unlock(&t.lock);
    return s;
}

int weft_cmd_train(int argc, char **argv)
{
    bool waits = false;
    const weft_option extra[] = {
        {.name = "wait",
         .help = "wait for the end of another run in the same folder, in place of failing",
         .flag = &waits},
        {.name = NULL}};
    const weft_cli_usage usage = {
        .command = "train",
        .arguments = "run.ini",
        .max_arguments = 1,
        .summary =
            "Trains what the INI file describes. SIGINT, SIGTERM, SIGHUP and SIGUSR1 end the run "
            "after the current step, SIGUSR2 saves and goes on."
            " With ckpt listed the state is saved first, and the same command goes on from there. "
            "Exit code 0: done; 1: it failed, and may be tried again; 2: bad input; 3: stopped; 4: "
            "it "
            "would fail again.",
        .accepts = WEFT_CLI_INI | WEFT_CLI_RANKS,
        .extra = extra,
    };
    weft_cli_options options;
    weft_error err = {0};
    int code = weft_cli_parse(&usage, argc, argv, &options);
    if (code == WEFT_CLI_GO)
        code = weft_stop_take(&err) ? weft_cli_conclude(WEFT_ERR_IO, &err)
                                    : weft_job_run(argc, argv, &options, train, &waits);
    weft_error_release(&err);
    weft_cli_options_release(&options);
    return code;
}
