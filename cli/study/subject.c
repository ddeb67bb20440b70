/* SPDX-License-Identifier: Apache-2.0 */
#include "study/subject.h"

#include "folder.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/store.h>

static bool is_there(const char *folder, const char *file)
{
    char *path = weft_format("%s/%s", folder, file);
    bool there = path && access(path, F_OK) == 0;
    weft_free(path);
    return there;
}

/* ---- run folders ---- */

/* What it was planned from may have changed since, or be gone: then it has no plan, and its
 * numbers are compared all the same. */
static weft_status plan_again(weft_subject *to, weft_error *err)
{
    char *ini = weft_format("%s/config.ini", to->name);
    const weft_cli_options options = {
        .ini = ini, .ranks = (int)json_array_size(json_object_get(to->about, "ranks"))};
    weft_error why = {0};
    if (!ini)
        return weft_fail_memory(err);
    if (weft_study_plan(&options, &to->plan, &why)) {
        json_decref(to->plan);
        to->plan = NULL;
        to->no_plan = weft_strdup(weft_error_text(&why));
    }
    weft_error_release(&why);
    weft_free(ini);
    return to->plan || to->no_plan ? WEFT_OK : weft_fail_memory(err);
}

static weft_status read_run(weft_subject *to, weft_error *err)
{
    int64_t last = 0;
    to->kind = WEFT_SUBJECT_RUN;
    weft_status s = weft_folder_read_about(to->name, &to->about, err);
    s = s ? s : weft_folder_read_metrics(to->name, 0, &to->lines, err);
    s = s ? s : plan_again(to, err);
    weft_lines_last(to->lines, "loss", &last);
    to->finished = last > 0 && last >= json_integer_value(json_object_get(to->about, "steps"));
    return s;
}

/* ---- checkpoints ---- */

static weft_status hash_tensor(weft_folder *folder, const weft_stored *t, json_t *to,
                               weft_error *err)
{
    const int64_t lo[WEFT_MAX_DIMS] = {0};
    int64_t n = 1;
    weft_text words = {0};
    weft_text_print(&words, "%s [", t->type);
    for (int d = 0; d < t->n_dims; d++) {
        n *= t->size[d];
        weft_text_print(&words, "%s%" PRId64, d ? ", " : "", t->size[d]);
    }
    const size_t bytes = (size_t)n * weft_dtype_size(t->dtype);
    void *data = weft_alloc(bytes);
    weft_status s = data ? weft_folder_read(folder, t->name, lo, t->size, t->dtype, data, err)
                         : weft_fail_memory(err);
    if (!s)
        weft_text_print(&words, "] %016" PRIx64, weft_sum(data, bytes));
    if (!s && json_object_set_new(to, t->name, json_string(weft_text_get(&words))))
        s = weft_fail_memory(err);
    weft_free(data);
    weft_text_release(&words);
    return s;
}

static weft_status hash_tensors(weft_subject *to, const weft_manifest *m, weft_error *err)
{
    weft_folder *folder = NULL;
    to->tensors = json_object();
    weft_status s = weft_manifest_open(weft_io_system(), m, &folder, err);
    for (int i = 0; !s && i < weft_folder_count(folder); i++)
        s = hash_tensor(folder, weft_folder_get(folder, i), to->tensors, err);
    weft_folder_destroy(folder);
    return s;
}

/* Settings and plugins, as a plan has them: what every run has is not listed. */
static weft_status take_manifest(weft_subject *to, const weft_manifest *m, weft_error *err)
{
    json_t *names = json_array(), *plugin;
    weft_settings *built_in = NULL;
    const weft_params *weft = NULL;
    size_t i;
    weft_status s = weft_cli_built_in(&built_in, &weft, err);
    json_array_foreach(json_object_get(m->json, "plugins"), i, plugin) {
        const char *name = json_string_value(json_object_get(plugin, "name"));
        if (!s && name && !weft_params_has(weft, "defaults", name))
            json_array_append_new(names, json_string(name));
    }
    weft_settings_destroy(built_in);
    if (s) {
        json_decref(names);
        return s;
    }
    to->plan = json_pack("{s:O?, s:o, s:O?}", "settings", json_object_get(m->json, "settings"),
                         "plugins", names, "checkpoint_step", json_object_get(m->json, "step"));
    return to->plan ? WEFT_OK : weft_fail_memory(err);
}

static weft_status read_checkpoint(weft_subject *to, const char *path, weft_error *err)
{
    weft_manifest m;
    to->kind = WEFT_SUBJECT_CHECKPOINT;
    weft_status s = weft_manifest_read(weft_io_system(), path, &m, err);
    s = s ? s : take_manifest(to, &m, err);
    s = s ? s : hash_tensors(to, &m, err);
    weft_manifest_release(&m);
    return s;
}

/* ---- files ---- */

static weft_status read_plan(weft_subject *to, bool *is, weft_error *err)
{
    char *data = NULL;
    size_t size = 0;
    json_error_t why;
    weft_status s = weft_read_file(to->name, &data, &size, err);
    *is = !s && data[strspn(data, " \t\n\r")] == '{';
    if (*is && !(to->plan = json_loadb(data, size, 0, &why)))
        s = weft_fail(err, WEFT_ERR_INPUT, (weft_where){to->name, why.line}, "no JSON: %s",
                      why.text);
    else if (*is && (!json_is_object(json_object_get(to->plan, "settings")) ||
                     json_integer_value(json_object_get(to->plan, "weft_plan")) != 1))
        s = weft_fail(err, WEFT_ERR_INPUT, (weft_where){to->name, 0},
                      "this JSON is no plan, as weft plan --json prints it");
    to->kind = WEFT_SUBJECT_PLAN;
    weft_free(data);
    return s;
}

static weft_status read_ini(weft_subject *to, const weft_cli_options *options, weft_error *err)
{
    weft_cli_options own = *options;
    to->kind = WEFT_SUBJECT_INI;
    own.ini = to->name;
    return weft_study_plan(&own, &to->plan, err);
}

static weft_status read_folder(weft_subject *to, weft_error *err)
{
    char *checkpoint = NULL;
    if (is_there(to->name, "run.json"))
        return read_run(to, err);
    weft_status s = weft_checkpoint_find(weft_io_system(), to->name, &checkpoint, err);
    if (!s && !checkpoint)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "%s is neither a run folder, which has a run.json, nor a checkpoint, which "
                      "has a manifest.json",
                      to->name);
    s = s ? s : read_checkpoint(to, checkpoint, err);
    weft_free(checkpoint);
    return s;
}

weft_status weft_subject_read(weft_subject *to, const char *name, const weft_cli_options *options,
                              weft_error *err)
{
    struct stat info;
    bool is_plan = false;
    *to = (weft_subject){.name = name};
    if (stat(name, &info) == 0 && S_ISDIR(info.st_mode))
        return read_folder(to, err);
    weft_status s = read_plan(to, &is_plan, err);
    return s || is_plan ? s : read_ini(to, options, err);
}

void weft_subject_release(weft_subject *subject)
{
    json_decref(subject->plan);
    json_decref(subject->about);
    json_decref(subject->lines);
    json_decref(subject->tensors);
    weft_free(subject->no_plan);
    *subject = (weft_subject){0};
}

/* ---- series ---- */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double weft_lines_median(const json_t *lines, const char *key)
{
    const size_t n = json_array_size(lines);
    double *list = weft_alloc((n + 1) * sizeof *list), median = NAN;
    size_t count = 0;
    for (size_t i = 0; list && i < n; i++) {
        const json_t *x = json_object_get(json_array_get(lines, i), key);
        if (json_is_number(x) && (i > 0 || n == 1))
            list[count++] = json_number_value(x);
    }
    if (count) {
        qsort(list, count, sizeof *list, ascending);
        median = (list[count / 2] + list[(count - 1) / 2]) / 2;
    }
    weft_free(list);
    return median;
}

double weft_lines_last(const json_t *lines, const char *key, int64_t *step)
{
    for (size_t i = json_array_size(lines); i > 0; i--) {
        const json_t *line = json_array_get(lines, i - 1), *x = json_object_get(line, key);
        if (!x)
            continue;
        if (step)
            *step = json_integer_value(json_object_get(line, "step"));
        return json_is_number(x) ? json_number_value(x) : NAN;
    }
    return NAN;
}

double weft_lines_most(const json_t *lines, const char *key)
{
    double most = NAN;
    size_t i;
    const json_t *line;
    json_array_foreach(lines, i, line)
        if (json_is_number(json_object_get(line, key)))
            most =
                fmax(isnan(most) ? -INFINITY : most, json_number_value(json_object_get(line, key)));
    return most;
}
