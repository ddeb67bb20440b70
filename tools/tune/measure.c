/* SPDX-License-Identifier: Apache-2.0 */
/* weft tune --measure: ranks, threads and micro-batches on this machine, by short runs of each. All
 * run twice; the slower half is left out, and the others run again, one after the other, so that
 * what slows the machine for a while slows all of them. */
#include "measure.h"
#include "base/array.h"
#include "console/columns.h"
#include "folder.h"
#include "forecast/forecast.h"
#include "processors.h"
#include "session.h"
#include "study/steps.h"
#include "study/subject.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/store.h>

enum {
    FIRST_STEPS = 3, /* the first of them is not counted */
    FEWEST_STEPS = 5,
    MOST_STEPS = 100,
    LAST_ROUNDS = 2, /* of the few that are left */
    FEW = 3,
    MOST_WITHOUT = 16
};

/* A choice with so many threads a rank. */
typedef struct attempt {
    const tune_space *space;
    tune_result plan;
    int threads;
    double *seconds; /* of a run each: the median of its steps */
    int n, capacity;
    double median; /* of these */
    bool out;      /* it failed, or is among the slower ones */
} attempt;

typedef struct bench {
    const tune_measure *how;
    tune_space *spaces; /* of as many ranks each */
    int n_spaces;
    attempt *list;
    int n, capacity;
    char *dir;
    bool has_metrics;
    const char *without[MOST_WITHOUT]; /* listed plugins that only look on, or write */
    int n_without, threads;            /* [weft] threads; 0: auto */
    weft_pool pool;
    double longest_s; /* a process */
    bool cut;         /* --limit has ended it */
    weft_text why;    /* of the first that plugins refuse, or that failed */
    double smallest;  /* bytes, of those that need more than --memory; 0: none does */
    weft_log log;
    weft_cli_log sink;
} bench;

/* ---- what the run lists ---- */

/* It has nothing to do with what a step computes. */
static bool only_looks_on(const weft_plugin *plugin)
{
    for (const weft_contribution *c = plugin->contributions; c && c->kind; c++) {
        const bool outside = c->kind == WEFT_OBSERVER || c->kind == WEFT_COMMAND,
                   elsewhere = c->kind == WEFT_PASS && c->modes && !(c->modes & WEFT_IN_TRAIN),
                   keeps = c->kind == WEFT_SERVICE && (strcmp(c->service, "store") == 0 ||
                                                       strcmp(c->service, "generator") == 0);
        if (!outside && !elsewhere && !keeps)
            return false;
    }
    return true;
}

static weft_status check_device(const weft_session *session, weft_error *err)
{
    void *self;
    const weft_device *device = weft_plugins_service(session->plugins, "device", &self);
    if (device && !device->rates)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "--measure tries ranks and threads of a machine's processors, and the run's "
                     "device is another; leave it out: the device says what it reaches");
}

/* By --fix, or as the INI has it; below 1: auto. */
static int fixed_threads(const weft_option_values *fixed, int64_t threads)
{
    static const char key[] = "weft.threads=";
    for (int i = 0; i < fixed->n; i++)
        if (strncmp(fixed->list[i].text, key, sizeof key - 1) == 0)
            threads = strtoll(fixed->list[i].text + sizeof key - 1, NULL, 10);
    return (int)threads;
}

static weft_status read_run(bench *b, weft_error *err)
{
    weft_session session = {0};
    weft_status s = weft_session_init(&session, b->how->options, 0, NULL, true, err);
    s = s ? s : check_device(&session, err);
    for (int i = 0; !s && i < session.plugins->n; i++) {
        const weft_loaded *l = &session.plugins->list[i];
        const char *name = l->module.plugin->name;
        if (l->is_default || strcmp(name, "metrics") == 0 || !only_looks_on(l->module.plugin) ||
            b->n_without == MOST_WITHOUT)
            continue;
        b->without[b->n_without] = weft_pool_strdup(&b->pool, name);
        if (!b->without[b->n_without++])
            s = weft_fail_memory(err);
    }
    if (!s)
        b->threads = fixed_threads(b->how->fixed, weft_params_int(session.run, "threads"));
    b->has_metrics = !s && tune_find_plugin(session.plugins, "metrics");
    weft_session_release(&session);
    return s;
}

/* ---- what is tried ---- */

static weft_status add_attempt(bench *b, const tune_space *space, const tune_result *plan,
                               int threads, weft_error *err)
{
    if (!weft_array_push(&b->list, &b->n, &b->capacity, sizeof *b->list))
        return weft_fail_memory(err);
    b->list[b->n - 1] = (attempt){.space = space, .plan = *plan, .threads = threads};
    return WEFT_OK;
}

/* All processors, and half of them: two threads of a core may be slower than one. */
static weft_status add_threads(bench *b, const tune_space *space, const tune_result *plan,
                               int processors, weft_error *err)
{
    const int most = b->threads > 0 ? b->threads : processors / space->ranks;
    weft_status s = add_attempt(b, space, plan, most > 0 ? most : 1, err);
    return s || b->threads > 0 || most < 2 ? s : add_attempt(b, space, plan, most / 2, err);
}

/* What the INI has, or the first; a plugin that it does not list does nothing if it can. */
static int first_value(const tune_space *space, const tune_key *k)
{
    const size_t n = strlen(k->section);
    for (int i = 0; i < space->n_with; i++)
        for (int v = 0; v < k->n; v++)
            if (strncmp(space->with[i], k->section, n) == 0 && space->with[i][n] == '@' &&
                strcmp(k->values[v], "none") == 0)
                return v;
    return k->base > 0 ? k->base : 0;
}

/* Micro-batches of all sizes. */
static weft_status add_batches(bench *b, tune_space *space, int processors, weft_error *err)
{
    tune_choice c = {{0}};
    int batch = -1;
    for (int i = 0; i < space->n_keys; i++) {
        c.at[i] = first_value(space, &space->keys[i]);
        batch = space->keys[i].kind == TUNE_BATCH ? i : batch;
    }
    const int n = batch < 0 ? 1 : space->keys[batch].n;
    weft_status s = WEFT_OK;
    for (int v = 0; v < n && !s; v++) {
        tune_result plan;
        if (batch >= 0)
            c.at[batch] = v;
        if (!tune_choice_fits(space, &c))
            continue;
        s = tune_plan(space, &c, &plan, b->why.size ? NULL : &b->why, err);
        if (s || plan.refused)
            continue;
        if (b->how->room > 0 && plan.bytes > b->how->room)
            b->smallest = b->smallest > 0 ? fmin(b->smallest, plan.bytes) : plan.bytes;
        else
            s = add_threads(b, space, &plan, processors, err);
    }
    return s;
}

static weft_status refuse_all(bench *b, weft_error *err)
{
    weft_text text = {0};
    if (b->smallest > 0) {
        weft_text_add(&text, "nothing fits: the smallest choice needs ");
        weft_print_bytes(&text, b->smallest);
        weft_text_add(&text, " a rank, and --memory has ");
        weft_print_bytes(&text, b->how->room);
    } else {
        weft_text_print(&text, "nothing can be planned: %s", weft_text_get(&b->why));
    }
    const weft_status s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s", weft_text_get(&text));
    weft_text_release(&text);
    return s;
}

/* Ranks that share the processors evenly. */
static weft_status add_all(bench *b, weft_error *err)
{
    const weft_processors p = weft_cli_processors();
    const int processors = weft_processors_share(&p, 1, 1, 1), asked = b->how->options->ranks;
    weft_cli_options *options = weft_pool_alloc(&b->pool, (size_t)processors * sizeof *options);
    b->spaces = weft_alloc_zero((size_t)processors, sizeof *b->spaces);
    weft_status s = b->spaces && options ? WEFT_OK : weft_fail_memory(err);
    for (int ranks = 1; ranks <= (asked ? 1 : processors) && !s; ranks++) {
        tune_space *space = &b->spaces[b->n_spaces];
        if (processors % ranks && !asked)
            continue;
        options[b->n_spaces] = *b->how->options;
        options[b->n_spaces].ranks = asked ? asked : ranks;
        s = tune_space_init(space, &options[b->n_spaces++], b->how->fixed, err);
        s = s ? s : add_batches(b, space, processors, err);
    }
    return s || b->n > 0 ? s : refuse_all(b, err);
}

/* ---- a run ---- */

static volatile sig_atomic_t stopped;

static void stop(int number)
{
    (void)number;
    stopped = 1;
}

static void print_attempt(const attempt *a, weft_text *text)
{
    weft_text_print(text, "%d %s of %d %s, ", a->space->ranks,
                    a->space->ranks == 1 ? "rank" : "ranks", a->threads,
                    a->threads == 1 ? "thread" : "threads");
    tune_choice_print(a->space, &a->plan.choice, text);
}

static weft_status edits_of(const bench *b, const attempt *a, weft_pool *pool,
                            weft_cli_options *out, weft_error *err)
{
    static const char *const own[] = {"metrics.jsonl=yes", "metrics.every=1", "metrics.bar=no",
                                      "train.eval_every=0"};
    weft_status s = tune_choice_edits(a->space, &a->plan.choice, 0, pool, out, err);
    const char *threads = weft_pool_format(pool, "weft.threads=%d", a->threads);
    if (s || !threads)
        return s ? s : weft_fail_memory(err);
    for (int i = 0; i < b->n_without; i++)
        out->edits[out->n_edits++] = (weft_cli_edit){WEFT_CLI_WITHOUT, b->without[i], NULL};
    if (!b->has_metrics)
        out->edits[out->n_edits++] = (weft_cli_edit){WEFT_CLI_WITH, "metrics", NULL};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        out->edits[out->n_edits++] = (weft_cli_edit){WEFT_CLI_SET, own[i], NULL};
    out->edits[out->n_edits++] = (weft_cli_edit){WEFT_CLI_SET, threads, NULL};
    return WEFT_OK;
}

static void tell(bench *b, const attempt *a, const char *why)
{
    weft_text text = {0};
    print_attempt(a, &text);
    weft_text_add(&text, ": ");
    if (why)
        weft_text_add(&text, why);
    else
        weft_print_seconds(&text, a->median);
    weft_log_print(&b->log, why ? WEFT_LOG_WARN : WEFT_LOG_INFO, "%s", weft_text_get(&text));
    weft_text_release(&text);
}

static weft_status note(bench *b, attempt *a, weft_error *err)
{
    json_t *lines = NULL;
    weft_status s = weft_folder_read_metrics(b->dir, 0, &lines, err);
    const double median = s ? NAN : weft_lines_median(lines, "step_s");
    json_decref(lines);
    if (s)
        return s;
    if (!(median > 0)) {
        a->out = true;
        tell(b, a, "its metrics have no step; is the folder of scratch files, $TMPDIR, full?");
        return WEFT_OK;
    }
    double *more = weft_realloc(a->seconds, (size_t)(a->n + 1) * sizeof *more);
    if (!more)
        return weft_fail_memory(err);
    a->seconds = more;
    a->seconds[a->n++] = median;
    a->median = weft_median(a->seconds, (size_t)a->n);
    return WEFT_OK;
}

/* What is wrong with the run's input is so for all: the plan itself was good. */
static weft_status note_failure(bench *b, attempt *a, int code, weft_error *err)
{
    static const char error[] = "error: ";
    weft_text said = {0};
    a->out = true;
    weft_steps_print_why(b->dir, &said);
    const char *why = weft_text_get(&said);
    why += strncmp(why, error, sizeof error - 1) == 0 ? sizeof error - 1 : 0;
    weft_status s = WEFT_OK;
    if (code == 2)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s", why);
    else
        tell(b, a, why);
    weft_text_release(&said);
    return s;
}

static weft_status run_once(bench *b, attempt *a, int64_t steps, weft_error *err)
{
    weft_pool pool = {0};
    weft_cli_options options;
    int code = 1;
    char *metrics = weft_format("%s/metrics.jsonl", b->dir);
    const double from = weft_now();
    weft_status s = metrics ? edits_of(b, a, &pool, &options, err) : weft_fail_memory(err);
    if (!s) {
        unlink(metrics);
        s = weft_steps_run(&options, steps, b->dir, &code, err);
    }
    b->longest_s = fmax(b->longest_s, weft_now() - from);
    b->cut = b->cut || stopped;
    if (stopped)
        a->out = a->n == 0;
    else if (!s && code)
        s = note_failure(b, a, code, err);
    else if (!s)
        s = note(b, a, err);
    if (!s && !a->out && !stopped)
        tell(b, a, NULL);
    weft_pool_release(&pool);
    weft_free(metrics);
    return s;
}

/* ---- rounds ---- */

/* Of few runs the least: what else runs on the machine makes them slower, and never faster. */
static double judged(const attempt *a)
{
    return a->n < 3 ? a->seconds[0] : a->median;
}

static int faster(const void *a_, const void *b_)
{
    const attempt *a = a_, *b = b_;
    if (a->n == 0 || b->n == 0)
        return (a->n == 0) - (b->n == 0);
    return (judged(a) > judged(b)) - (judged(a) < judged(b));
}

/* Of those that were run before so many as take some seconds. */
static int64_t steps_of(const attempt *a)
{
    const double some_s = 2, steps = a->n ? some_s / a->median : FIRST_STEPS;
    return a->n < 2 ? FIRST_STEPS : (int64_t)fmin(fmax(steps, FEWEST_STEPS), MOST_STEPS);
}

/* The first `alive` once more. */
static weft_status run_round(bench *b, int alive, weft_error *err)
{
    const double limit_s = b->how->limit_s;
    weft_status s = WEFT_OK;
    for (int i = 0; i < alive && !s && !b->cut; i++) {
        b->cut = limit_s > 0 && i + b->list[i].n > 0 &&
                 weft_now() - b->how->from_s + b->longest_s > limit_s;
        b->cut = b->cut || stopped;
        if (!b->cut && !b->list[i].out)
            s = run_once(b, &b->list[i], steps_of(&b->list[i]), err);
    }
    qsort(b->list, (size_t)b->n, sizeof *b->list, faster);
    return s;
}

static weft_status run_all(bench *b, weft_error *err)
{
    int alive = b->n;
    weft_status s = run_round(b, alive, err);
    if (!s && !b->cut)
        s = run_round(b, alive, err);
    while (!s && !b->cut && alive > FEW) {
        alive = alive / 2 > FEW ? alive / 2 : FEW;
        s = run_round(b, alive, err);
    }
    for (int i = 0; i < LAST_ROUNDS && !s && !b->cut; i++)
        s = run_round(b, alive, err);
    if (!s && b->list[0].n == 0 && stopped)
        return weft_fail(err, WEFT_ERR_STOPPED, WEFT_NOWHERE, "stopped before any choice was run");
    if (!s && b->list[0].n == 0)
        s = weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE,
                      "no choice could be run: the warnings say why");
    return s;
}

/* ---- what is printed ---- */

static void add_row(weft_columns *c, const attempt *a, int number)
{
    weft_text_print(&c->cells, "%5d", number);
    weft_columns_next(c);
    weft_print_seconds(&c->cells, judged(a));
    weft_columns_next(c);
    weft_text_print(&c->cells, "%d: ", a->n);
    weft_print_seconds(&c->cells, a->seconds[0]);
    if (a->n > 1) {
        weft_text_add(&c->cells, " to ");
        weft_print_seconds(&c->cells, a->seconds[a->n - 1]);
    }
    weft_columns_next(c);
    weft_text_print(&c->cells, "%.0f", a->plan.tokens_s * a->plan.step_s / judged(a));
    weft_columns_next(c);
    weft_print_bytes(&c->cells, a->plan.bytes);
    weft_columns_next(c);
    weft_text_print(&c->cells, "%d", a->space->ranks);
    weft_columns_next(c);
    weft_text_print(&c->cells, "%d", a->threads);
    weft_columns_next(c);
    tune_choice_print(a->space, &a->plan.choice, &c->cells);
    weft_columns_next(c);
}

static void print_table(const bench *b, weft_text *text)
{
    static const char *const heads[] = {"    #",  "step",  "runs",    "tokens/s",
                                        "memory", "ranks", "threads", "settings"};
    weft_columns c;
    weft_columns_init(&c, "rrlrrrrl");
    const char *unit = b->list[0].plan.unit;
    for (int i = 0; i < c.n; i++)
        weft_columns_add(&c,
                         i == 3 && unit && strcmp(unit, "samples") == 0 ? "samples/s" : heads[i]);
    for (int i = 0; i < b->n && i < b->how->top && b->list[i].n; i++)
        add_row(&c, &b->list[i], i + 1);
    weft_columns_print(&c, text);
    weft_columns_release(&c);
    int run = 0;
    for (int i = 0; i < b->n; i++)
        run += b->list[i].n > 0;
    weft_text_print(text, "%d of %d choices were run on this machine; %s\n", run, b->n,
                    stopped  ? "a signal has ended that: the others were not"
                    : b->cut ? "--limit has ended that: the faster ones might have run again"
                             : "the faster ones several times, one after the other");
}

static weft_status write_best(const bench *b, const char *path, weft_text *out, weft_error *err)
{
    const attempt *best = &b->list[0];
    weft_text text = {0};
    weft_text_print(&text, "; weft tune %s --measure: a step took ", b->how->options->ini);
    weft_print_seconds(&text, judged(best));
    weft_text_print(&text, " on this machine; run it as weft train %s -n %d\n", path,
                    best->space->ranks);
    weft_status s = tune_print_ini(best->space, &best->plan.choice, best->threads, &text, err);
    s = s ? s : tune_write_file(path, &text, out, err);
    weft_text_release(&text);
    return s;
}

/* ---- the whole ---- */

static void release(bench *b)
{
    weft_error unsaid = {0};
    if (b->dir)
        weft_io_remove_tree(weft_io_system(), b->dir, &unsaid);
    weft_error_release(&unsaid);
    for (int i = 0; i < b->n; i++)
        weft_free(b->list[i].seconds);
    for (int i = 0; i < b->n_spaces; i++)
        tune_space_release(&b->spaces[i]);
    weft_free(b->list);
    weft_free(b->spaces);
    weft_free(b->dir);
    weft_text_release(&b->why);
    weft_pool_release(&b->pool);
    weft_cli_log_release(&b->sink);
}

weft_status tune_measure_run(const tune_measure *how, weft_text *text, weft_error *err)
{
    const struct sigaction action = {.sa_handler = stop};
    bench b = {.how = how};
    b.log = weft_cli_log_init(&b.sink, WEFT_LOG_INFO);
    b.sink.early = false;
    weft_status s = read_run(&b, err);
    s = s ? s : add_all(&b, err);
    s = s ? s : weft_steps_make_dir("tune", &b.dir, err);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    s = s ? s : run_all(&b, err);
    if (!s)
        print_table(&b, text);
    if (!s && how->write)
        s = write_best(&b, how->write, text, err);
    release(&b);
    return s;
}
