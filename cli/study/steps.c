/* SPDX-License-Identifier: Apache-2.0 */
/* Some steps of a run, in a process of its own: its schedule is that of all its steps. */
#include "study/steps.h"
#include "base/files.h"

#include "execute/run.h"
#include "forecast/forecast.h"
#include "launch/ranks.h"
#include "process.h"
#include "room.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

typedef struct part {
    int64_t steps;
    const char *dir;
} part;

static weft_status run_steps(weft_rank *rank, void *ctx)
{
    static const volatile sig_atomic_t never;
    const part *t = ctx;
    weft_session *session = &rank->session;
    weft_plan *plan = NULL;
    weft_run *run = NULL;
    session->host.dir = t->dir;
    const weft_plan_options options = {
        .rank = session->host.rank, .ranks = session->host.ranks, .broken = weft_plan_keep_broken};
    weft_status s =
        weft_plan_create(session->plugins, session->settings, &options, &plan, &rank->err);
    s = s ? s : weft_session_check_plan(session, plan, &rank->err);
    s = weft_rank_agree(rank, "planning", s);
    s = s ? s : weft_cli_check_room(rank, plan);
    s = s ? s : weft_rank_open(rank);
    s = s ? s : weft_rank_prepare(rank, plan, &run);
    if (!s) {
        run->stop_after = t->steps;
        s = weft_run_train(run, &never, &rank->err);
    }
    weft_run_destroy(run);
    weft_plan_destroy(plan);
    return s;
}

/* As many ranks as the mesh asks for, where nobody says how many. */
static int count_ranks(const weft_cli_options *options, weft_error *err)
{
    weft_session session;
    int ranks = 0;
    weft_status s = weft_session_init(&session, options, 0, NULL, true, err);
    s = s ? s : weft_plan_ranks(session.plugins, &ranks, err);
    weft_session_release(&session);
    return s ? 0 : ranks;
}

static _Noreturn void run_child(const weft_cli_options *given, int64_t steps, const char *dir,
                                const char *out)
{
    weft_error err = {0};
    part t = {.steps = steps, .dir = dir};
    weft_cli_options options = *given;
    const int fd = weft_open_to_write(out, WEFT_WRITE_AGAIN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_DFL); /* whatever the command does of these */
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
        _exit(1);
    options.threads = true;
    options.ranks = options.ranks ? options.ranks : count_ranks(&options, &err);
    int code =
        options.ranks ? weft_ranks_run(&options, true, run_steps, &t) : weft_cli_report(&err);
    fflush(NULL);
    _exit(code);
}

weft_status weft_steps_run(const weft_cli_options *options, int64_t steps, const char *dir,
                           int *code, weft_error *err)
{
    char *out = weft_format("%s/out.txt", dir);
    if (!out)
        return weft_fail_memory(err);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0)
        run_child(options, steps, dir, out);
    weft_free(out);
    if (child < 0)
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "no process for a run: %s",
                         strerror(errno));
    *code = weft_process_wait(child);
    return WEFT_OK;
}

weft_status weft_steps_make_dir(const char *command, char **dir, weft_error *err)
{
    const char *tmp = getenv("TMPDIR");
    *dir = weft_format("%s/weft-%s-XXXXXX", tmp && *tmp ? tmp : "/tmp", command);
    if (!*dir)
        return weft_fail_memory(err);
    if (mkdtemp(*dir))
        return WEFT_OK;
    const weft_status s = weft_fail_errno(
        err, *dir, "make this folder of scratch files, which lies in $TMPDIR or in /tmp");
    weft_free(*dir);
    *dir = NULL;
    return s;
}

void weft_steps_print_why(const char *dir, weft_text *text)
{
    char *path = weft_format("%s/out.txt", dir), *data = NULL;
    size_t size = 0;
    weft_error unsaid = {0};
    if (path && weft_read_file(path, &data, &size, &unsaid) == WEFT_OK) {
        const char *line = strstr(data, "error: ");
        line = line ? line : data;
        weft_cli_add_safely(text, line, strcspn(line, "\n"));
    }
    weft_error_release(&unsaid);
    weft_free(data);
    weft_free(path);
}
