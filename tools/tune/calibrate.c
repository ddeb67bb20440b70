/* SPDX-License-Identifier: Apache-2.0 */
/* weft tune --calibrate: a few numbers of a profile are fitted to the times of runs. Each is a
 * factor under a prior, so that what the runs do not tell stays as it was: least squares of the
 * logarithms of seconds, by times of steps and, where metrics have them, of their parts. */
#include "calibrate.h"
#include "about.h"
#include "console/columns.h"
#include "folder.h"
#include "forecast/forecast.h"
#include "forecast/profiles.h"
#include "session.h"
#include "study/subject.h"
#include "tune.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How unsure the numbers are, as the standard deviation of a factor's logarithm; 0: not fitted.
 * Those of a GPU come from data sheets and published runs; of a CPU they are guesses. */
static const struct {
    const char *name;
    double gpu, cpu;
} numbers[] = {{"bf16", 0, 1.5},          {"f32", 0, 1.5},
               {"product", 0.2, 0},       {"attention", 0.3, 1.5},
               {"k_half", 0, 1},          {"memory_reached", 0.2, 1.5},
               {"launch", 0.7, 1.5},      {"link_reached", 0.3, 1.5},
               {"net_reached", 0.3, 1.5}, {"call", 0.7, 1.5},
               {"enqueue", 0.5, 1.5},     {"step", 0.7, 1.5},
               {"thread_scaling", 0, 0.5}};
enum {
    NUMBERS = sizeof numbers / sizeof *numbers,
    SCALING = NUMBERS - 1,
    ROUNDS = 6,
    FEWEST_STEPS = 3
};

static const double row_sd = 0.05, delta = 0.05;

/* Something that was measured. */
typedef struct observation {
    int part, place; /* part -1: the step */
    double seconds, share;
    double guess, slopes[NUMBERS]; /* of the guess's logarithm */
} observation;

typedef struct known_run {
    const char *dir;
    weft_session session;
    weft_plan *plan;
    weft_roofline roofline; /* before anything is fitted */
    weft_forecast first;
    observation *list; /* the step first */
    int n, capacity;
    bool on_cpu;
    bool other_program; /* than run.json says */
    int ranks, threads;
    double before_s, after_s;
} known_run;

typedef struct fit {
    known_run *runs;
    int n;
    double x[NUMBERS], sd[NUMBERS]; /* logarithms of factors */
} fit;

/* ---- a run's plan ---- */

static bool says_nothing(const weft_session *session)
{
    void *self;
    const weft_device *device = weft_plugins_service(session->plugins, "device", &self);
    return device && !device->rates;
}

/* A CPU whose run did not say what a thread reaches: it is planned by the guess. */
static weft_status begin(known_run *run, weft_cli_options *options, weft_error *err)
{
    static weft_cli_edit edits[] = {{WEFT_CLI_WITH, "costs", NULL},
                                    {WEFT_CLI_SET, "costs.machine=cpu-thread", NULL}};
    weft_status s = weft_session_init(&run->session, options, 0, NULL, true, err);
    if (s)
        return s;
    const weft_loaded *costs = tune_find_plugin(run->session.plugins, "costs");
    run->on_cpu = says_nothing(&run->session);
    if (!run->on_cpu || (costs && weft_params_word(costs->params, "machine", 0)))
        return WEFT_OK;
    const bool listed = costs != NULL;
    options->edits = edits + listed;
    options->n_edits = 2 - listed;
    weft_session_release(&run->session);
    run->session = (weft_session){0};
    return weft_session_init(&run->session, options, 0, NULL, true, err);
}

/* An INI that was edited since, or another weft: what is predicted is not what was measured. */
static weft_status compare_program(known_run *run, const json_t *about, weft_error *err)
{
    const char *was = json_string_value(json_object_get(about, "program"));
    char now[24];
    uint64_t program;
    weft_status s = was ? weft_about_program(run->plan, &program, err) : WEFT_OK;
    if (s || !was)
        return s;
    snprintf(now, sizeof now, "%016" PRIx64, program);
    run->other_program = strcmp(was, now) != 0;
    return WEFT_OK;
}

static weft_status plan_run(known_run *run, weft_trust trust, const json_t *about, weft_error *err)
{
    char *ini = weft_format("%s/config.ini", run->dir);
    const int ranks = (int)json_array_size(json_object_get(about, "ranks"));
    weft_cli_options options = {.ini = ini, .ini_trust = trust, .ranks = ranks, .silent = true};
    const weft_plan_options how = {.ranks = ranks, .train_only = true};
    weft_status s = ini ? begin(run, &options, err) : weft_fail_memory(err);
    s = s ? s
          : weft_plan_create(run->session.plugins, run->session.settings, &how, &run->plan, err);
    if (!s && !weft_plan_roofline(run->plan, &run->roofline))
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "%s: its device does not say what it reaches", run->dir);
    s = s ? s : compare_program(run, about, err);
    s = s ? s : weft_plan_forecast(run->plan, &run->roofline, &run->first, err);
    run->ranks = ranks;
    run->threads = run->session.host.threads > 0 ? run->session.host.threads : 1;
    weft_free(ini);
    return s;
}

/* ---- what was measured ---- */

static weft_status observe(known_run *run, int part, int place, double seconds, double share,
                           weft_error *err)
{
    observation *more = weft_realloc(run->list, (size_t)(run->n + 1) * sizeof *more);
    if (!more)
        return weft_fail_memory(err);
    run->list = more;
    run->list[run->n++] =
        (observation){.part = part, .place = place, .seconds = seconds, .share = share};
    return WEFT_OK;
}

/* Parts count by their share of the step. */
static weft_status observe_parts(known_run *run, const char *name, const char *text,
                                 weft_error *err)
{
    const weft_tasks *tasks = run->plan->tasks[WEFT_MODE_TRAIN];
    const double step = run->list[0].seconds;
    weft_costs costs;
    weft_status s = weft_costs_init(&costs, tasks->ranks, tasks->stages, err);
    if (s)
        return s;
    costs.split = tasks->split;
    s = weft_costs_parse(&costs, name, text, err);
    for (int p = 0; p < WEFT_PARTS && !s; p++) {
        const bool micro = weft_part_is_micro((weft_part)p);
        const double times = micro ? (double)run->plan->micro_batches : 1;
        for (int i = 0; i < (micro ? costs.stages : costs.ranks) && !s; i++)
            if (costs.seconds[p][i] > 0 && run->first.costs.seconds[p][i] > 0)
                s = observe(run, p, i, costs.seconds[p][i],
                            fmin(1, times * costs.seconds[p][i] / step), err);
    }
    weft_costs_release(&costs);
    return s;
}

static weft_status measure(known_run *run, weft_error *err)
{
    json_t *lines = NULL;
    char *path = weft_format("%s/metrics.jsonl", run->dir), *text = NULL;
    size_t size = 0;
    weft_status s =
        path ? weft_folder_read_metrics(run->dir, 0, &lines, err) : weft_fail_memory(err);
    const double step = s ? NAN : weft_lines_median(lines, "step_s");
    int steps = 0;
    for (size_t i = 0; i < json_array_size(lines); i++)
        steps += json_is_number(json_object_get(json_array_get(lines, i), "step_s"));
    if (!s && !(step > 1e-9 && step < 1e9))
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "%s has no step_s in its metrics.jsonl that can be the seconds of a step; "
                      "list metrics, "
                      "with jsonl = yes, in the run, and leave the file as it is written",
                      run->dir);
    if (!s && steps < FEWEST_STEPS)
        s = weft_fail(
            err, WEFT_ERR_INPUT, WEFT_NOWHERE,
            "%s has %d step%s in its metrics.jsonl, and the first warms up; at least %d are needed",
            run->dir, steps, steps == 1 ? "" : "s", FEWEST_STEPS);
    s = s ? s : observe(run, -1, 0, step, 1, err);
    s = s ? s : weft_read_file(path, &text, &size, err);
    if (!s && strstr(text, "\"parts\""))
        s = observe_parts(run, path, text, err);
    json_decref(lines);
    weft_free(text);
    weft_free(path);
    return s;
}

static weft_status read_run(known_run *run, weft_trust trust, weft_error *err)
{
    json_t *about = NULL;
    weft_status s = weft_folder_read_about(run->dir, &about, err);
    s = s ? s : plan_run(run, trust, about, err);
    s = s ? s : measure(run, err);
    json_decref(about);
    return s;
}

/* ---- the fit ---- */

/* So many threads, of which more or less is had than before: the power is what is fitted, as it is.
 */
static void scale_threads(weft_device_rates *r, double power, int threads)
{
    const double times = pow(threads, power);
    weft_rates_scale(r, "bf16", times);
    weft_rates_scale(r, "f32", times);
    weft_rates_scale(r, "memory_reached", times);
}

static weft_status predict(const known_run *run, const double *x, weft_forecast *f, weft_error *err)
{
    weft_roofline r = run->roofline;
    for (int k = 0; k < NUMBERS; k++)
        if (!weft_rates_scale(&r.rates, numbers[k].name, exp(x[k])))
            scale_threads(&r.rates, x[k], run->threads);
    return weft_plan_forecast_like(run->plan, &r, &run->first, f, err);
}

static double guess_of(const weft_forecast *f, const observation *o)
{
    return o->part < 0 ? f->step_s : f->costs.seconds[o->part][o->place];
}

/* Around x. */
static weft_status linearise(const fit *all, known_run *run, weft_error *err)
{
    weft_forecast f;
    weft_status s = predict(run, all->x, &f, err);
    if (s)
        return s;
    for (int i = 0; i < run->n; i++)
        run->list[i].guess = guess_of(&f, &run->list[i]);
    run->after_s = f.step_s;
    weft_forecast_release(run->plan, &f);
    for (int k = 0; k < NUMBERS && !s; k++) {
        double x[NUMBERS];
        memcpy(x, all->x, sizeof x);
        x[k] += delta;
        if (all->sd[k] <= 0)
            continue;
        s = predict(run, x, &f, err);
        for (int i = 0; i < run->n && !s; i++)
            run->list[i].slopes[k] = log(guess_of(&f, &run->list[i]) / run->list[i].guess) / delta;
        if (!s)
            weft_forecast_release(run->plan, &f);
    }
    return s;
}

/* The normal equations: of a symmetric matrix that priors make positive. */
static void solve(double a[NUMBERS][NUMBERS], double *b)
{
    for (int i = 0; i < NUMBERS; i++)
        for (int k = i + 1; k < NUMBERS; k++) {
            const double factor = a[k][i] / a[i][i];
            for (int j = i; j < NUMBERS; j++)
                a[k][j] -= factor * a[i][j];
            b[k] -= factor * b[i];
        }
    for (int i = NUMBERS - 1; i >= 0; i--) {
        for (int k = i + 1; k < NUMBERS; k++)
            b[i] -= a[i][k] * b[k];
        b[i] /= a[i][i];
    }
}

static void add_row(const observation *o, double a[NUMBERS][NUMBERS], double *b)
{
    const double off = log(o->seconds / o->guess),
                 weight = o->share / (row_sd * row_sd) / fmax(1, fabs(off) / 0.3);
    for (int j = 0; j < NUMBERS; j++) {
        b[j] += weight * o->slopes[j] * off;
        for (int k = 0; k < NUMBERS; k++)
            a[j][k] += weight * o->slopes[j] * o->slopes[k];
    }
}

/* A step of Gauss and Newton, held to a factor of e, for slopes change on the way. */
static void improve(fit *all)
{
    double a[NUMBERS][NUMBERS] = {{0}}, b[NUMBERS];
    for (int k = 0; k < NUMBERS; k++) {
        const double sd = all->sd[k] > 0 ? all->sd[k] : 1e-9;
        a[k][k] = 1 / (sd * sd);
        b[k] = -all->x[k] / (sd * sd);
    }
    for (int r = 0; r < all->n; r++)
        for (int i = 0; i < all->runs[r].n; i++)
            if (all->runs[r].list[i].guess > 0)
                add_row(&all->runs[r].list[i], a, b);
    solve(a, b);
    for (int k = 0; k < NUMBERS; k++)
        all->x[k] += all->sd[k] > 0 ? fmax(-1, fmin(1, b[k])) : 0;
}

/* Of runs with as many threads each nothing says what more of them reach. */
static bool threads_differ(const fit *all)
{
    for (int i = 1; i < all->n; i++)
        if (all->runs[i].threads != all->runs[0].threads)
            return true;
    return false;
}

static weft_status fit_all(fit *all, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int k = 0; k < NUMBERS; k++)
        all->sd[k] = all->runs[0].on_cpu ? numbers[k].cpu : numbers[k].gpu;
    if (!threads_differ(all))
        all->sd[SCALING] = 0;
    for (int round = 0; round <= ROUNDS && !s; round++) {
        for (int i = 0; i < all->n && !s; i++) {
            s = linearise(all, &all->runs[i], err);
            if (round == 0)
                all->runs[i].before_s = all->runs[i].after_s;
        }
        if (!s && round < ROUNDS)
            improve(all);
    }
    return s;
}

/* Numbers of a machine are of one device. */
static weft_status check_alike(const fit *all, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 1; i < all->n; i++)
        if (all->runs[i].on_cpu != all->runs[0].on_cpu ||
            strcmp(all->runs[i].roofline.rates.name, all->runs[0].roofline.rates.name) != 0)
            s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                          "%s ran on another device than %s (%s, %s); calibrate each by itself",
                          all->runs[i].dir, all->runs[0].dir, all->runs[i].roofline.rates.name,
                          all->runs[0].roofline.rates.name);
    return s;
}

/* ---- what is printed ---- */

/* What is written, of a thread where threads count. */
static weft_device_rates rates_of(const fit *all)
{
    weft_device_rates r = all->runs[0].roofline.rates;
    const int threads = all->runs[0].on_cpu ? all->runs[0].threads : 1;
    scale_threads(&r, -r.thread_scaling, threads);
    for (int k = 0; k < NUMBERS; k++)
        if (!weft_rates_scale(&r, numbers[k].name, exp(all->x[k])))
            r.thread_scaling = fmin(1, fmax(0, r.thread_scaling + all->x[k]));
    r.memory_bytes = r.memory_bytes > 0 ? r.memory_bytes : 1;
    return r;
}

static double median_off(const fit *all, bool before, double *list)
{
    for (int i = 0; i < all->n; i++)
        list[i] = fabs((before ? all->runs[i].before_s : all->runs[i].after_s) /
                           all->runs[i].list[0].seconds -
                       1);
    return weft_median(list, (size_t)all->n);
}

static void print_runs(const fit *all, weft_text *text)
{
    static const char *const heads[] = {"run",       "ranks", "threads", "step",
                                        "predicted", "now",   "off"};
    weft_columns c;
    weft_columns_init(&c, "lrrrrrr");
    for (int i = 0; i < c.n; i++)
        weft_columns_add(&c, heads[i]);
    for (int i = 0; i < all->n; i++) {
        const known_run *r = &all->runs[i];
        const double seconds[] = {r->list[0].seconds, r->before_s, r->after_s};
        weft_columns_add(&c, r->dir);
        weft_text_print(&c.cells, "%d", r->ranks);
        weft_columns_next(&c);
        weft_text_print(&c.cells, "%d", r->threads);
        weft_columns_next(&c);
        for (int k = 0; k < 3; k++) {
            weft_print_seconds(&c.cells, seconds[k]);
            weft_columns_next(&c);
        }
        weft_text_print(&c.cells, "%+.1f %%", 100 * (r->after_s / r->list[0].seconds - 1));
        weft_columns_next(&c);
    }
    weft_columns_print(&c, text);
    weft_columns_release(&c);
}

static void print_numbers(const fit *all, weft_text *text)
{
    weft_text_add(text, "numbers, times:");
    for (int k = 0; k < NUMBERS; k++)
        if (fabs(all->x[k]) > 0.01 && strcmp(numbers[k].name, "thread_scaling") != 0)
            weft_text_print(text, " %s %.3g", numbers[k].name, exp(all->x[k]));
    if (all->runs[0].on_cpu)
        weft_text_print(text, "; thread_scaling %.2f%s", rates_of(all).thread_scaling,
                        threads_differ(all) ? "" : ", a guess: all runs have as many threads");
    weft_text_add(text, "\n");
}

static weft_status print_all(const fit *all, weft_text *text, weft_error *err)
{
    double *list = weft_alloc((size_t)all->n * sizeof *list);
    if (!list)
        return weft_fail_memory(err);
    print_runs(all, text);
    for (int i = 0; i < all->n; i++)
        if (all->runs[i].other_program)
            weft_text_print(text,
                            "%s ran another program than its config.ini makes now: that was "
                            "edited, or another weft made the run\n",
                            all->runs[i].dir);
    weft_text_print(text, "median error of these runs' steps: %.1f %%, before %.1f %%\n",
                    100 * median_off(all, false, list), 100 * median_off(all, true, list));
    print_numbers(all, text);
    weft_free(list);
    return WEFT_OK;
}

/* Numbers by which a known run is predicted at half or twice its time are nobody's. */
static weft_status check_close(const fit *all, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < all->n; i++) {
        const known_run *r = &all->runs[i];
        if (fabs(log(r->after_s / r->list[0].seconds)) > log(2))
            s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                          "%s took %.3g s a step, and the numbers that fit best say %.3g s: it ran "
                          "beside other work, or its files were changed; leave it out. No file was "
                          "written",
                          r->dir, r->list[0].seconds, r->after_s);
    }
    return s;
}

static weft_status write_profile(const fit *all, const char *path, weft_text *out, weft_error *err)
{
    weft_text text = {0};
    const weft_device_rates rates = rates_of(all);
    weft_text_add(&text, "; weft tune --calibrate");
    for (int i = 0; i < all->n; i++)
        weft_text_print(&text, " %s", all->runs[i].dir);
    weft_text_add(&text, "\n; ");
    if (all->runs[0].on_cpu)
        weft_text_print(&text,
                        "numbers of a thread; list the plugin costs, with [costs] machine = "
                        "%s\n",
                        path);
    else
        weft_text_print(&text, "weft plan run.ini --gpu %s\n", path);
    weft_rates_print(&rates, &text);
    weft_status s = tune_write_file(path, &text, out, err);
    weft_text_release(&text);
    return s;
}

/* ---- the whole ---- */

static void release(fit *all)
{
    for (int i = 0; i < all->n; i++) {
        known_run *r = &all->runs[i];
        if (r->first.ranks)
            weft_forecast_release(r->plan, &r->first);
        weft_plan_destroy(r->plan);
        weft_session_release(&r->session);
        weft_free(r->list);
    }
    weft_free(all->runs);
}

weft_status tune_calibrate(const char *const *dirs, int n, weft_trust trust, const char *write,
                           weft_text *text, weft_error *err)
{
    fit all = {.runs = weft_alloc_zero((size_t)n, sizeof *all.runs)};
    weft_status s = all.runs ? WEFT_OK : weft_fail_memory(err);
    for (int i = 0; i < n && all.runs; i++) { /* all that is wrong at once */
        all.runs[i].dir = dirs[i];
        all.n++;
        const weft_status one = read_run(&all.runs[i], trust, err);
        s = s ? s : one;
    }
    s = s ? s : check_alike(&all, err);
    s = s ? s : fit_all(&all, err);
    s = s ? s : print_all(&all, text, err);
    if (!s && write)
        s = check_close(&all, err);
    if (!s && write)
        s = write_profile(&all, write, text, err);
    release(&all);
    return s;
}
