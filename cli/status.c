/* SPDX-License-Identifier: Apache-2.0 */
/* weft status DIR: how far a run is, and whether it goes on. */
#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 256 << 10, WINDOW = 20 };
static const double stale_steps = 3, stale_least_s = 5;

typedef struct standing {
    const char *state;         /* "running", "starting", "stale"; "finished", "stopped", "failed",
                                  "crashed",         "lost" */
    const char *outcome, *why; /* as the run itself has told; NULL: it has not ended */
    int64_t exit_code;         /* -1: not known */
    const char *host, *job, *version, *started;
    int64_t pid, step, steps, saved; /* saved: the newest checkpoint; 0: none */
    int64_t skipped;                 /* updates that were left out */
    int ranks, hosts;
    double loss, rate, step_s, left_s, step_age_s, saved_age_s; /* NaN: not known */
    bool known, alive;                                          /* is its process? */
    const char *rate_key;                                       /* tokens_per_s, samples_per_s */
} standing;

/* ---- what there is ---- */

static double number_of(const json_t *object, const char *key)
{
    const json_t *x = json_object_get(object, key);
    return json_is_number(x) ? json_number_value(x) : NAN;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of the last steps. */
static double median_of(const json_t *lines, const char *key)
{
    double list[WINDOW];
    size_t n = 0;
    for (size_t i = json_array_size(lines); i > 0 && n < WINDOW; i--) {
        double x = number_of(json_array_get(lines, i - 1), key);
        if (!isnan(x))
            list[n++] = x;
    }
    qsort(list, n, sizeof *list, compare);
    return n ? list[n / 2] : NAN;
}

static void take_metrics(const json_t *lines, standing *s)
{
    const json_t *last = NULL, *newest = json_array_get(lines, json_array_size(lines) - 1);
    for (size_t i = json_array_size(lines); i > 0 && !last; i--)
        if (json_object_get(json_array_get(lines, i - 1), "loss"))
            last = json_array_get(lines, i - 1);
    if (!last)
        return;
    int64_t at = weft_folder_time(json_string_value(json_object_get(newest, "time")));
    s->step = json_integer_value(json_object_get(last, "step"));
    s->skipped = json_integer_value(json_object_get(last, "skipped"));
    s->loss = number_of(last, "loss");
    s->rate_key = weft_lines_rate(lines);
    s->rate = median_of(lines, s->rate_key);
    s->step_s = median_of(lines, "step_s");
    s->left_s = (double)(s->steps - s->step) * s->step_s;
    s->step_age_s = at ? 1e-9 * (double)(weft_utc() - at) : NAN;
}

/* What the run has noted itself, be there metrics or not, and however full the disk. */
static void take_progress(const json_t *progress, const json_t *about, standing *s)
{
    const json_t *starts = json_object_get(about, "starts"),
                 *last = json_array_get(starts, json_array_size(starts) - 1);
    if (last && !json_equal(json_object_get(progress, "start"), json_object_get(last, "start")))
        progress = last; /* a start that did not come so far */
    const json_t *code = json_object_get(progress, "exit_code"),
                 *step = json_object_get(progress, "step");
    const int64_t at = weft_folder_time(json_string_value(json_object_get(progress, "time")));
    s->outcome = json_string_value(json_object_get(progress, "outcome"));
    s->why = json_string_value(json_object_get(progress, "why"));
    s->exit_code = json_is_integer(code) ? json_integer_value(code) : -1;
    if (json_is_integer(step))
        s->step = json_integer_value(step);
    if (at)
        s->step_age_s = 1e-9 * (double)(weft_utc() - at);
    if (json_is_integer(json_object_get(progress, "skipped")))
        s->skipped = json_integer_value(json_object_get(progress, "skipped"));
    if (json_is_number(json_object_get(progress, "loss")))
        s->loss = number_of(progress, "loss");
    if (isnan(s->rate)) {
        s->rate_key = weft_lines_rate(progress);
        s->rate = number_of(progress, s->rate_key);
    }
    s->step_s = isnan(s->step_s) ? number_of(progress, "step_s") : s->step_s;
    s->left_s = (double)(s->steps - s->step) * s->step_s;
}

static void take_about(const json_t *about, standing *s)
{
    const json_t *ranks = json_object_get(about, "ranks"), *first = json_array_get(ranks, 0);
    char here[65] = "";
    const char *before = "";
    s->host = json_string_value(json_object_get(first, "host"));
    s->pid = json_integer_value(json_object_get(first, "pid"));
    s->job = json_string_value(json_object_get(about, "job"));
    s->version = json_string_value(json_object_get(about, "version"));
    s->started = json_string_value(json_object_get(about, "started"));
    s->steps = json_integer_value(json_object_get(about, "steps"));
    s->ranks = (int)json_array_size(ranks);
    for (int r = 0; r < s->ranks; r++) {
        const char *host =
            json_string_value(json_object_get(json_array_get(ranks, (size_t)r), "host"));
        s->hosts += host && strcmp(host, before) != 0;
        before = host ? host : before;
    }
    s->known = s->host && gethostname(here, sizeof here - 1) == 0 && strcmp(here, s->host) == 0;
    s->alive = s->known && s->pid > 0 && (kill((pid_t)s->pid, 0) == 0 || errno == EPERM);
}

static weft_status take_checkpoint(const char *dir, standing *s, weft_error *err)
{
    char *root = weft_format("%s/ckpt", dir);
    struct stat info;
    int64_t step;
    int end;
    DIR *d = root ? opendir(root) : NULL;
    weft_status status = root ? WEFT_OK : weft_fail_memory(err);
    for (const struct dirent *e; d && !status && (e = readdir(d));) {
        end = 0;
        if (sscanf(e->d_name, "step-%" SCNd64 "%n", &step, &end) != 1 || e->d_name[end] ||
            step < s->saved)
            continue;
        char *path = weft_format("%s/%s/manifest.json", root, e->d_name);
        if (!path)
            status = weft_fail_memory(err);
        else if (stat(path, &info) == 0) {
            s->saved = step;
            s->saved_age_s =
                1e-9 * (double)(weft_utc() - (int64_t)info.st_mtim.tv_sec * 1000000000 -
                                info.st_mtim.tv_nsec);
        }
        weft_free(path);
    }
    if (d)
        closedir(d);
    weft_free(root);
    return status;
}

/* Of a process on another host only its traces are known. */
static const char *state_of(const standing *s)
{
    double patience = stale_steps * s->step_s;
    patience = patience > stale_least_s ? patience : stale_least_s;
    if (s->outcome)
        return strcmp(s->outcome, "done") == 0 ? "finished" : s->outcome;
    if (s->known && !s->alive)
        return s->step >= s->steps && s->steps > 0 ? "finished" : "lost";
    if (s->step >= s->steps && s->steps > 0)
        return "finished";
    if (s->step == 0)
        return "starting";
    return s->step_age_s > patience ? "stale" : "running";
}

/* ---- words ---- */

static void add_seconds(weft_text *text, double s)
{
    if (isnan(s))
        weft_text_add(text, "?");
    else if (s < 100)
        weft_text_print(text, "%.1f s", s);
    else
        weft_text_print(text, "%" PRId64 ":%02d:%02d", (int64_t)s / 3600,
                        (int)((int64_t)s / 60 % 60), (int)((int64_t)s % 60));
}

/* Before its last step. */
static bool is_over(const standing *s)
{
    return strcmp(s->state, "stopped") == 0 || strcmp(s->state, "failed") == 0 ||
           strcmp(s->state, "crashed") == 0 || strcmp(s->state, "lost") == 0;
}

static void print(const char *dir, const standing *s, weft_text *text)
{
    weft_text_print(text, "%s: %s, step %" PRId64 " of %" PRId64, dir, s->state, s->step, s->steps);
    if (s->steps > 0)
        weft_text_print(text, " (%.1f %%)", 100 * (double)s->step / (double)s->steps);
    if (!isnan(s->loss))
        weft_text_print(text, ", loss %.4f", s->loss);
    weft_text_add(text, "\n");
    if (is_over(s))
        weft_text_print(text, "  ended       %s%s\n", s->why ? s->why : WEFT_FOLDER_LOST,
                        s->exit_code == 4 ? "; it would fail again" : "");
    if (s->step > 0) {
        weft_text_print(text, "  rate        %.4g %.*s/s, %.4g s a step; left ", s->rate,
                        (int)strcspn(s->rate_key, "_"), s->rate_key, s->step_s);
        add_seconds(text, s->left_s);
        weft_text_add(text, "\n  last step   ");
        add_seconds(text, s->step_age_s);
        weft_text_add(text, " ago\n");
    }
    if (s->skipped > 0)
        weft_text_print(text, "  skipped     %" PRId64 " update%s: the step was not finite\n",
                        s->skipped, s->skipped == 1 ? "" : "s");
    if (s->saved > 0) {
        weft_text_print(text, "  checkpoint  step %" PRId64 ", ", s->saved);
        add_seconds(text, s->saved_age_s);
        weft_text_add(text, " ago\n");
    } else {
        weft_text_add(text, "  checkpoint  none\n");
    }
    weft_text_print(text,
                    "  process     %" PRId64 " on %s%s, %d rank%s on %d host%s%s%s; weft %s, "
                    "since %s\n",
                    s->pid, s->host ? s->host : "?",
                    !s->known  ? " (another host)"
                    : s->alive ? ""
                               : " (it is gone)",
                    s->ranks, s->ranks == 1 ? "" : "s", s->hosts, s->hosts == 1 ? "" : "s",
                    s->job ? ", job " : "", s->job ? s->job : "", s->version ? s->version : "?",
                    s->started ? s->started : "?");
}

static json_t *real(double x)
{
    return isnan(x) || isinf(x) ? json_null() : json_real(x);
}

static weft_status print_json(const standing *s, weft_text *text, weft_error *err)
{
    json_t *o = json_pack(
        "{s:s, s:s?, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s?, s:I, s:o, s:s?, "
        "s:i, "
        "s:i, s:s?, "
        "s:s?}",
        "state", s->state, "why", is_over(s) ? s->why : NULL, "exit_code",
        s->exit_code >= 0 ? json_integer(s->exit_code) : json_null(), "step", (json_int_t)s->step,
        "steps", (json_int_t)s->steps, "skipped", (json_int_t)s->skipped, "loss", real(s->loss),
        s->rate_key, real(s->rate), "step_s", real(s->step_s), "left_s", real(s->left_s),
        "step_age_s", real(s->step_age_s), "checkpoint_step",
        s->saved ? json_integer(s->saved) : json_null(), "checkpoint_age_s", real(s->saved_age_s),
        "host", s->host, "pid", (json_int_t)s->pid, "alive",
        s->known ? json_boolean(s->alive) : json_null(), "job", s->job, "ranks", s->ranks, "hosts",
        s->hosts, "version", s->version, "started", s->started);
    char *words = o ? json_dumps(o, JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9)) : NULL;
    if (words)
        weft_text_print(text, "%s\n", words);
    free(words); /* jansson's */
    json_decref(o);
    return words ? WEFT_OK : weft_fail_memory(err);
}

/* *well: it goes on, or is done. */
static weft_status find(const char *dir, bool json, weft_text *text, bool *well, weft_error *err)
{
    standing s = {.exit_code = -1,
                  .loss = NAN,
                  .rate = NAN,
                  .step_s = NAN,
                  .left_s = NAN,
                  .step_age_s = NAN,
                  .saved_age_s = NAN};
    json_t *about = NULL, *lines = NULL, *progress = NULL;
    weft_status status = weft_folder_read_about(dir, &about, err);
    status = status ? status : weft_folder_read_progress(dir, &progress, err);
    status = status ? status : weft_folder_read_metrics(dir, MOST, &lines, err);
    status = status ? status : take_checkpoint(dir, &s, err);
    if (!status) {
        take_about(about, &s);
        take_metrics(lines, &s);
        take_progress(progress, about, &s);
        s.state = state_of(&s);
        *well = !is_over(&s) && strcmp(s.state, "stale") != 0;
        if (json)
            status = print_json(&s, text, err);
        else
            print(dir, &s, text);
    }
    json_decref(progress);
    json_decref(lines);
    json_decref(about);
    return status;
}

int weft_cmd_status(int argc, char **argv)
{
    bool json = false;
    const weft_option extra[] = {{.name = "json", .help = "print one JSON object", .flag = &json},
                                 {.name = NULL}};
    const weft_cli_usage usage = {
        .command = "status",
        .arguments = "DIR",
        .max_arguments = 1,
        .summary =
            "Says how far the run in this folder is, and whether it goes on. Exit code 1: it "
            "is stale, or has ended before its last step.",
        .extra = extra,
    };
    weft_cli_options options;
    weft_error err = {0};
    weft_text text = {0};
    bool well = false;
    int code = weft_cli_parse(&usage, argc, argv, &options);
    if (code == WEFT_CLI_GO) {
        weft_status s = find(options.arguments[0], json, &text, &well, &err);
        code = s ? weft_cli_conclude(s, &err) : weft_cli_print(&text);
        code = code ? code : !well;
    }
    weft_text_release(&text);
    weft_error_release(&err);
    weft_cli_options_release(&options);
    return code;
}
