/* SPDX-License-Identifier: Apache-2.0 */
/* weft report DIR: what the run folder has, and the plan made once more, as one page that needs
 * nothing else. */
#include "report.h"
#include "about.h"
#include "folder.h"
#include "forecast/forecast.h"
#include "session.h"
#include "templates.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/files.h>

enum { POINTS = 1500 };

/* ---- metrics ---- */

/* Of long runs the mean of neighbouring steps. */
static void add_point(json_t *to, const json_t *lines, size_t from, size_t until, const char *key)
{
    double all = 0;
    int n = 0;
    for (size_t i = from; i < until; i++) {
        const json_t *x = json_object_get(json_array_get(lines, i), key);
        if (json_is_number(x)) {
            all += json_number_value(x);
            n++;
        }
    }
    json_array_append_new(to, n ? json_real(all / n) : json_null());
}

static json_t *series_of(const json_t *lines, const char *const *keys, const char *const *names)
{
    json_t *out = json_object();
    const size_t n = json_array_size(lines), every = n / POINTS + 1;
    for (int k = 0; keys[k]; k++) {
        json_t *list = json_array();
        for (size_t i = 0; i < n; i += every) {
            const size_t until = i + every < n ? i + every : n;
            if (strcmp(keys[k], "step") == 0) /* of a group the last */
                json_array_append(list, json_object_get(json_array_get(lines, until - 1), "step"));
            else
                add_point(list, lines, i, until, keys[k]);
        }
        json_object_set_new(out, names[k], list);
    }
    return out;
}

static weft_status add_metrics(json_t *page, const char *dir, weft_error *err)
{
    static const char *const names[] = {"step", "loss", "grad_norm", "lr", "rate", NULL};
    const char *keys[] = {"step", "loss", "grad_norm", "lr", NULL, NULL};
    static const char *const eval_keys[] = {"step", "eval_loss", NULL};
    static const char *const eval_names[] = {"step", "loss", NULL};
    json_t *lines, *steps = json_array(), *evaluations = json_array(), *line;
    size_t i;
    weft_status s = weft_folder_read_metrics(dir, 0, &lines, err);
    json_array_foreach(lines, i, line)
        json_array_append(json_object_get(line, "eval_loss") ? evaluations : steps, line);
    keys[4] = weft_lines_rate(steps);
    const json_t *last = json_array_get(steps, json_array_size(steps) - 1);
    if (!s &&
        (json_object_set_new(page, "step",
                             json_integer(json_integer_value(json_object_get(last, "step")))) ||
         json_object_set_new(page, "metrics", series_of(steps, keys, names)) ||
         json_object_set_new(page, "unit", json_string(weft_lines_unit(steps))) ||
         json_object_set_new(page, "evaluations", series_of(evaluations, eval_keys, eval_names))))
        s = weft_fail_memory(err);
    json_decref(evaluations);
    json_decref(steps);
    json_decref(lines);
    return s;
}

/* ---- files ---- */

static weft_status add_file(json_t *page, const char *dir, const char *name, const char *key,
                            weft_error *err)
{
    char *path = weft_format("%s/%s", dir, name), *data = NULL;
    weft_text clean = {0};
    size_t size;
    weft_status s = path ? weft_read_file(path, &data, &size, err) : weft_fail_memory(err);
    if (!s) {
        weft_text_add_utf8(&clean, data, size);
        if (json_object_set_new(page, key, json_string(weft_text_get(&clean))))
            s = weft_fail_memory(err);
    }
    weft_text_release(&clean);
    weft_free(data);
    weft_free(path);
    return s;
}

/* "plugin NAME VERSION: SHA-256 HEX, build-id HEX, PATH", as train notes them in log.txt; the last
 * of a name counts. */
static void add_plugin(json_t *rows, const char *line, size_t n)
{
    char name[128], version[64], sum[96] = "", path[1024] = "";
    size_t i;
    json_t *row;
    char words[2048];
    if (n >= sizeof words)
        return;
    memcpy(words, line, n);
    words[n] = '\0';
    int got = sscanf(words, "plugin %127s %63[^:]: SHA-256 %95[^,], build-id %*[^,], %1023[^\n]",
                     name, version, sum, path);
    if (got < 2 || (got < 4 && !strstr(words, ": built in")))
        return;
    json_array_foreach(rows, i, row)
        if (strcmp(json_string_value(json_array_get(row, 0)), name) == 0)
            json_array_remove(rows, i--);
    json_array_append_new(rows,
                          json_pack("[s,s,s,s]", name, version, sum, got < 4 ? "built in" : path));
}

static weft_status add_plugins(json_t *page, const char *dir, weft_error *err)
{
    char *path = weft_format("%s/log.txt", dir), *data = NULL;
    json_t *rows = json_array();
    size_t size;
    weft_status s = path ? weft_read_file(path, &data, &size, err) : weft_fail_memory(err);
    for (const char *at = data; !s && at && *at;) {
        const size_t n = strcspn(at, "\n");
        if (strncmp(at, "plugin ", 7) == 0)
            add_plugin(rows, at, n);
        at += n + (at[n] == '\n');
    }
    if (json_object_set_new(page, "plugins", rows) && !s)
        s = weft_fail_memory(err);
    weft_free(data);
    weft_free(path);
    return s;
}

static weft_status add_about(json_t *page, const char *dir, int *ranks, weft_error *err)
{
    json_t *about;
    weft_status s = weft_folder_read_about(dir, &about, err);
    if (s)
        return s;
    static const char *const keys[] = {"version", "started", "job", "steps"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        json_object_set(page, keys[i], json_object_get(about, keys[i]));
    const json_t *list = json_object_get(about, "ranks");
    const char *host = json_string_value(json_object_get(json_array_get(list, 0), "host"));
    *ranks = (int)json_array_size(list);
    char *words = weft_format("%d rank%s, the first on %s", *ranks, *ranks == 1 ? "" : "s",
                              host ? host : "?");
    if (!words || json_object_set_new(page, "dir", json_string(dir)) ||
        json_object_set_new(page, "ranks", json_string(words)))
        s = weft_fail_memory(err);
    weft_free(words);
    json_decref(about);
    return s;
}

/* ---- the plan ---- */

static weft_status plan_again(json_t *page, const char *ini, int ranks, weft_error *err)
{
    const weft_cli_options options = {.ini = ini, .ranks = ranks};
    const weft_plan_options how = {
        .ranks = ranks, .train_only = true, .broken = weft_plan_keep_broken};
    weft_session session = {0};
    weft_plan *plan = NULL;
    weft_status s = weft_session_init(&session, &options, 0, NULL, true, err);
    s = s ? s : weft_plan_create(session.plugins, session.settings, &how, &plan, err);
    s = s ? s : weft_page_add_plan(page, plan, err);
    weft_plan_destroy(plan);
    weft_session_release(&session);
    return s;
}

/* A plugin may be gone since: the page says so, and shows the rest. */
static weft_status add_plan(json_t *page, const char *dir, int ranks, weft_error *err)
{
    char *ini = weft_format("%s/config.ini", dir);
    weft_error why = {0};
    if (!ini)
        return weft_fail_memory(err);
    json_object_set_new(page, "collectives", json_array());
    if (plan_again(page, ini, ranks, &why)) {
        char *words = weft_format("The run cannot be planned once more: %s", weft_error_text(&why));
        json_object_del(page, "memory");
        json_object_set_new(page, "no_plan", json_string(words ? words : ""));
        weft_free(words);
    }
    weft_error_release(&why);
    weft_free(ini);
    return WEFT_OK;
}

/* ---- the page ---- */

/* Nothing in the data may end the script that it lies in. */
static weft_status fill_in(const json_t *page, weft_text *out, weft_error *err)
{
    static const char mark[] = "@DATA@";
    const char *at = strstr(weft_template_report_html, mark);
    char *data =
        at ? json_dumps(page, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(7)) : NULL;
    if (!data)
        return weft_fail_memory(err);
    weft_text_add_bytes(out, weft_template_report_html, (size_t)(at - weft_template_report_html));
    for (const char *c = data; *c; c++)
        if (*c == '<')
            weft_text_add(out, "\\u003c");
        else
            weft_text_add_bytes(out, c, 1);
    weft_text_add(out, at + sizeof mark - 1);
    free(data); /* jansson's */
    return out->out_of_memory ? weft_fail_memory(err) : WEFT_OK;
}

static weft_status report(const char *dir, const char *path, weft_error *err)
{
    json_t *page = json_object();
    weft_text text = {0};
    int ranks = 1;
    weft_status s = page ? add_about(page, dir, &ranks, err) : weft_fail_memory(err);
    s = s ? s : add_metrics(page, dir, err);
    s = s ? s : add_file(page, dir, "config.ini", "config", err);
    s = s ? s : add_file(page, dir, "plan.txt", "plan", err);
    s = s ? s : add_plugins(page, dir, err);
    s = s ? s : add_plan(page, dir, ranks, err);
    s = s ? s : fill_in(page, &text, err);
    s = s ? s : weft_write_file(path, weft_text_get(&text), text.size, err);
    weft_text_release(&text);
    json_decref(page);
    return s;
}

int weft_cmd_report(int argc, char **argv)
{
    const char *out = NULL;
    const weft_option extra[] = {{.name = "out",
                                  .argument = "FILE",
                                  .help = "where to (default DIR/report.html)",
                                  .text = &out},
                                 {.name = NULL}};
    const weft_cli_usage usage = {
        .command = "report",
        .arguments = "DIR",
        .max_arguments = 1,
        .summary = "Writes the run in this folder as one HTML page: loss and rate, memory over a "
                   "step, pipeline and collectives, plugins, configuration.",
        .extra = extra,
    };
    weft_cli_options options;
    weft_error err = {0};
    weft_text text = {0};
    int code = weft_cli_parse(&usage, argc, argv, &options);
    if (code == WEFT_CLI_GO) {
        char *path = out ? weft_strdup(out) : weft_format("%s/report.html", options.arguments[0]);
        weft_status s = path ? report(options.arguments[0], path, &err) : weft_fail_memory(&err);
        weft_text_print(&text, "%s\n", path ? path : "");
        code = s ? weft_cli_conclude(s, &err) : weft_cli_print(&text);
        weft_free(path);
    }
    weft_text_release(&text);
    weft_error_release(&err);
    weft_cli_options_release(&options);
    return code;
}
