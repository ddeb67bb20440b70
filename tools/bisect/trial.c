/* SPDX-License-Identifier: Apache-2.0 */
/* One run of some steps, in a process of its own: its schedule is that of all its steps. */
#include "bisect.h"

#include "execute/run.h"
#include "folder.h"
#include "forecast/forecast.h"
#include "launch/ranks.h"
#include "study/differ.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/store.h>

typedef struct trial {
    int64_t steps;
    const char *dir;
} trial;

static weft_status run_steps(weft_rank *rank, void *ctx)
{
    static const volatile sig_atomic_t never;
    const trial *t = ctx;
    weft_session *session = &rank->session;
    weft_plan *plan = NULL;
    weft_run *run = NULL;
    session->host.dir = t->dir;
    const weft_plan_options options = {
        .rank = session->host.rank, .ranks = session->host.ranks, .broken = weft_plan_keep_broken};
    weft_status s =
        weft_plan_create(session->plugins, session->settings, &options, &plan, &rank->err);
    s = s ? s : weft_session_check_learns(session, plan, &rank->err);
    s = weft_rank_agree(rank, "planning", s);
    s = s ? s
          : weft_rank_agree(rank, "opening plugins",
                            weft_plugins_open(session->plugins, &rank->err));
    s = s ? s
          : weft_rank_agree(rank, "preparing the run",
                            weft_run_create(plan, &session->host, &run, &rank->err));
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

static _Noreturn void run_child(const bisection *b, const char *ini)
{
    weft_error err = {0};
    char *out = weft_format("%s/out.txt", b->dir);
    weft_cli_edit edits[] = {{WEFT_CLI_WITH, "metrics", NULL},
                             {WEFT_CLI_SET, "metrics.hash=1", NULL},
                             {WEFT_CLI_SET, "metrics.jsonl=yes", NULL},
                             {WEFT_CLI_SET, "metrics.bar=no", NULL}};
    bool listed = false;
    const json_t *name;
    size_t i;
    json_array_foreach(json_object_get(b->a, "plugins"), i, name)
        listed = listed || strcmp(json_string_value(name), "metrics") == 0;
    weft_cli_options options = {
        .ini = ini, .edits = edits + listed, .n_edits = 4 - listed, .threads = true};
    trial t = {.steps = b->steps, .dir = b->dir};
    const int fd = out ? weft_open_to_write(out, WEFT_WRITE_AGAIN) : -1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
        _exit(1);
    options.ranks = b->ranks ? (int)b->ranks : count_ranks(&options, &err);
    int code =
        options.ranks ? weft_ranks_run(&options, true, run_steps, &t) : weft_cli_report(&err);
    fflush(NULL);
    _exit(code);
}

/* ---- good or bad ---- */

static const json_t *first_difference(const bisection *b, const json_t *lines, json_t *values)
{
    bool same;
    weft_differ_values(b->first, lines, values, &same);
    return weft_differ_parting(values);
}

void bisect_print_first(const bisection *b, const json_t *lines, weft_text *text)
{
    json_t *values = json_array();
    const json_t *o = first_difference(b, lines, values), *x = json_object_get(o, "a"),
                 *y = json_object_get(o, "b");
    if (o && json_is_number(x) && json_is_number(y))
        weft_text_print(text, "from step %d on: %s %.9g | %.9g",
                        (int)json_integer_value(json_object_get(o, "step")),
                        json_string_value(json_object_get(o, "what")), json_number_value(x),
                        json_number_value(y));
    else if (o)
        weft_text_print(text, "from step %d on: %s",
                        (int)json_integer_value(json_object_get(o, "step")),
                        json_string_value(json_object_get(o, "what")));
    json_decref(values);
}

static bool holds(const bisection *b, const json_t *lines)
{
    double x = NAN;
    for (size_t i = json_array_size(lines); i > 0 && isnan(x); i--) {
        const json_t *value = json_object_get(json_array_get(lines, i - 1), b->metric);
        if (json_is_null(value))
            return true; /* it is not finite */
        if (json_is_number(value))
            x = json_number_value(value);
    }
    const bool or_equal = b->relation[1] == '=';
    return (b->relation[0] == '>' ? x > b->limit : x < b->limit) || (or_equal && x == b->limit);
}

static bisect_outcome judge(const bisection *b, const json_t *lines)
{
    if (*b->metric)
        return holds(b, lines) ? BISECT_BAD : BISECT_GOOD;
    if (!b->first)
        return BISECT_GOOD;
    json_t *values = json_array();
    const bool apart = first_difference(b, lines, values) != NULL;
    json_decref(values);
    return apart ? BISECT_BAD : BISECT_GOOD;
}

static void add_why(const bisection *b, weft_text *why)
{
    char *path = weft_format("%s/out.txt", b->dir), *data = NULL;
    size_t size = 0;
    weft_error unsaid = {0};
    if (why && path && weft_read_file(path, &data, &size, &unsaid) == WEFT_OK) {
        const char *line = strstr(data, "error: ");
        line = line ? line : data;
        weft_cli_add_safely(why, line, strcspn(line, "\n"));
    }
    weft_error_release(&unsaid);
    weft_free(data);
    weft_free(path);
}

weft_status bisect_try(bisection *b, const bool *has, bisect_outcome *outcome, json_t **lines,
                       weft_text *why, weft_error *err)
{
    char *ini = weft_format("%s/run.ini", b->dir),
         *metrics = weft_format("%s/metrics.jsonl", b->dir),
         *saves = weft_format("%s/ckpt", b->dir);
    int state = 0;
    *outcome = BISECT_REFUSED;
    *lines = NULL;
    weft_status s =
        ini && metrics && saves ? bisect_write_ini(b, has, ini, err) : weft_fail_memory(err);
    if (!s) {
        unlink(metrics);
        s = weft_io_remove_tree(weft_io_system(), saves, err);
    }
    b->runs++;
    fflush(NULL);
    const pid_t child = s ? -1 : fork();
    if (child == 0)
        run_child(b, ini);
    if (!s && child < 0)
        s = weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "no process for a run: %s", strerror(errno));
    while (!s && waitpid(child, &state, 0) < 0 && errno == EINTR)
        ;
    if (!s && WIFEXITED(state) && WEXITSTATUS(state) == 0)
        s = weft_folder_read_metrics(b->dir, 0, lines, err);
    if (!s && *lines)
        *outcome = judge(b, *lines);
    else if (!s)
        add_why(b, why);
    weft_free(saves);
    weft_free(metrics);
    weft_free(ini);
    return s;
}
