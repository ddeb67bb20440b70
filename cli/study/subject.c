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

/* What it was planned from may have changed since, or be gone, or not be opened: then it has no
 * plan, and its numbers are compared all the same. */
static weft_status plan_again(weft_subject *to, weft_trust trust, weft_error *err)
{
    static const char *const unopened[] = {
        [WEFT_TRUST_ALL] = "",
        [WEFT_TRUST_FILES] = "; folders of plugins and libraries that a run folder names are not "
                             "opened: with --trust, if it is your own, they are",
        [WEFT_TRUST_NONE] = "; what a run folder names is not opened: with --trust, if it is your "
                            "own, it is"};
    char *ini = weft_format("%s/config.ini", to->name);
    const weft_cli_options options = {
        .ini = ini,
        .ini_trust = trust,
        .ranks = (int)json_array_size(json_object_get(to->about, "ranks"))};
    weft_error why = {0};
    if (!ini)
        return weft_fail_memory(err);
    if (weft_study_plan(&options, &to->plan, &why)) {
        json_decref(to->plan);
        to->plan = NULL;
        to->no_plan = weft_format("%s%s", weft_error_text(&why), unopened[trust]);
    }
    weft_error_release(&why);
    weft_free(ini);
    return to->plan || to->no_plan ? WEFT_OK : weft_fail_memory(err);
}

bool weft_about_is_done(const json_t *about)
{
    const json_t *starts = json_object_get(about, "starts"),
                 *last = json_array_get(starts, json_array_size(starts) - 1);
    const char *outcome = json_string_value(json_object_get(last, "outcome"));
    return outcome && strcmp(outcome, "done") == 0;
}

static weft_status read_run(weft_subject *to, weft_trust trust, weft_error *err)
{
    int64_t last = 0;
    to->kind = WEFT_SUBJECT_RUN;
    weft_status s = weft_folder_read_about(to->name, &to->about, err);
    s = s ? s : weft_folder_read_metrics(to->name, 0, &to->lines, err);
    s = s ? s : plan_again(to, trust, err);
    weft_lines_last(to->lines, "loss", &last);
    to->damaged = !s && weft_about_is_done(to->about) && is_there(to->name, "metrics.jsonl") &&
                  last < json_integer_value(json_object_get(to->about, "steps"));
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
    weft_status s = weft_manifest_open(weft_io_system(), m, false, &folder, err);
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

static bool is_strings(const json_t *x)
{
    json_t *value;
    const char *key;
    json_object_foreach((json_t *)(uintptr_t)x, key, value)
        if (!json_is_string(value))
            return false;
    return json_is_object(x);
}

static bool is_settings(const json_t *x)
{
    json_t *value;
    const char *key;
    json_object_foreach((json_t *)(uintptr_t)x, key, value)
        if (!is_strings(value))
            return false;
    return json_is_object(x);
}

static bool is_list(const json_t *x)
{
    size_t i;
    const json_t *value;
    json_array_foreach(x, i, value)
        if (!json_is_string(value))
            return false;
    return json_is_array(x);
}

/* Numbers, or lists of numbers. */
static bool is_counts(const json_t *x)
{
    json_t *value, *inner;
    const char *key;
    size_t i;
    json_object_foreach((json_t *)(uintptr_t)x, key, value) {
        if (!json_is_number(value) && !json_is_array(value))
            return false;
        json_array_foreach(value, i, inner)
            if (!json_is_number(inner))
                return false;
    }
    return json_is_object(x);
}

static bool is_number(const json_t *x)
{
    return json_is_number(x);
}

static bool is_string(const json_t *x)
{
    return json_is_string(x);
}

/* A plan of a file is somebody's: every member has its form. */
static weft_status check_plan(const weft_subject *s, weft_error *err)
{
    static const struct {
        const char *name;
        bool (*is)(const json_t *);
    } members[] = {
        {"settings", is_settings},    {"plugins", is_list},       {"numerics", is_strings},
        {"program", is_string},       {"ranks", is_number},       {"parameters", is_number},
        {"trained", is_number},       {"steps", is_number},       {"tokens", is_number},
        {"micro_batches", is_number}, {"flops", is_number},       {"model_flops", is_number},
        {"sent", is_number},          {"state", is_number},       {"products", is_counts},
        {"memory", is_counts},        {"collectives", is_counts}, {"passes", is_counts}};
    const json_t *version = json_object_get(s->plan, "weft_plan");
    const json_t *in_force = json_object_get(s->plan, "in_force"); /* older ones have none */
    const char *wrong = json_integer_value(version) != 1     ? "weft_plan"
                        : in_force && !is_settings(in_force) ? "in_force"
                                                             : NULL;
    for (size_t i = 0; !wrong && i < sizeof members / sizeof *members; i++)
        wrong = members[i].is(json_object_get(s->plan, members[i].name)) ? NULL : members[i].name;
    return wrong ? weft_fail(err, WEFT_ERR_INPUT, (weft_where){s->name, 0},
                             "this JSON is no plan, as weft plan --json prints it: its \"%s\" is "
                             "missing, or of another form",
                             wrong)
                 : WEFT_OK;
}

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
    else if (*is)
        s = check_plan(to, err);
    to->kind = WEFT_SUBJECT_PLAN;
    weft_free(data);
    return s;
}

static weft_status read_ini(weft_subject *to, const weft_cli_options *options, weft_error *err)
{
    weft_cli_options own = *options;
    to->kind = WEFT_SUBJECT_INI;
    own.ini = to->name;
    own.ini_trust = WEFT_TRUST_ALL; /* the user names it */
    return weft_study_plan(&own, &to->plan, err);
}

static weft_status read_folder(weft_subject *to, weft_trust trust, weft_error *err)
{
    char *checkpoint = NULL;
    if (is_there(to->name, "run.json"))
        return read_run(to, trust, err);
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
        return read_folder(to, options->ini_trust, err);
    weft_status s = read_plan(to, &is_plan, err);
    return s || is_plan ? s : read_ini(to, options, err);
}

/* ---- several ---- */

/* Whose an edit is, from 0; -1: everybody's. */
static int owner_of(const weft_cli_edit *edit)
{
    const bool own = edit->text[0] >= 'A' && edit->text[0] <= 'Z' && edit->text[1] == ':';
    return own ? edit->text[0] - 'A' : -1;
}

/* With the letter of one that is not there, or is no INI, an edit would do nothing. */
static weft_status check_edits(const weft_subject *list, int n, const weft_cli_options *options,
                               weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < options->n_edits; i++) {
        const char *text = options->edits[i].text;
        const int owner = owner_of(&options->edits[i]);
        if (owner >= n)
            s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                          "%.60s: there is no %c: %d are compared, A: to %c:", text, text[0], n,
                          'A' + n - 1);
        else if (owner >= 0 && list[owner].kind != WEFT_SUBJECT_INI)
            s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                          "%.60s: %s is no INI, and is taken as it is", text, list[owner].name);
    }
    return s;
}

static weft_status edits_of(const weft_cli_options *all, int n, weft_cli_options *to,
                            weft_error *err)
{
    *to = *all;
    to->n_edits = 0;
    to->edits = weft_alloc_zero((size_t)all->n_edits + 1, sizeof *to->edits);
    if (!to->edits)
        return weft_fail_memory(err);
    for (int i = 0; i < all->n_edits; i++) {
        weft_cli_edit edit = all->edits[i];
        const int owner = owner_of(&edit);
        edit.text += owner >= 0 ? 2 : 0;
        if (owner < 0 || owner == n)
            to->edits[to->n_edits++] = edit;
    }
    return WEFT_OK;
}

/* What an edit for all gets wrong, each says; it is told once. */
static void add_errors(const weft_error *from, weft_error *err)
{
    for (int i = 0; i < from->n_items; i++) {
        const char *text = from->items[i].text ? from->items[i].text : "?";
        bool told = false;
        for (int k = 0; k < err->n_items && !told; k++)
            told = err->items[k].text && strcmp(err->items[k].text, text) == 0;
        if (!told)
            weft_fail(err, from->items[i].status, WEFT_NOWHERE, "%s", text);
    }
}

weft_status weft_subjects_read(weft_subject *to, const char *const *names, int n,
                               const weft_cli_options *options, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < n; i++) {
        weft_cli_options own;
        weft_error why = {0};
        weft_status s = edits_of(options, i, &own, &why);
        s = s ? s : weft_subject_read(&to[i], names[i], &own, &why);
        add_errors(&why, err);
        weft_error_release(&why);
        weft_free(own.edits);
        status = status ? status : s;
    }
    return status ? status : check_edits(to, n, options, err);
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

double weft_median(double *list, size_t n)
{
    if (n == 0)
        return NAN;
    qsort(list, n, sizeof *list, ascending);
    return (list[n / 2] + list[(n - 1) / 2]) / 2;
}

double weft_lines_median(const json_t *lines, const char *key)
{
    const size_t n = json_array_size(lines);
    double *list = weft_alloc((n + 1) * sizeof *list), median;
    size_t count = 0;
    for (size_t i = 0; list && i < n; i++) {
        const json_t *x = json_object_get(json_array_get(lines, i), key);
        if (json_is_number(x) && (i > 0 || n == 1))
            list[count++] = json_number_value(x);
    }
    median = list ? weft_median(list, count) : NAN;
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

static bool is_figure(const json_t *x)
{
    return json_is_number(x) || json_is_null(x);
}

bool weft_lines_have(const json_t *lines, const char *key)
{
    for (size_t i = json_array_size(lines); i > 0; i--)
        if (is_figure(json_object_get(json_array_get(lines, i - 1), key)))
            return true;
    return false;
}

void weft_lines_names(const json_t *lines, weft_text *text)
{
    json_t *seen = json_object(), *value, *line;
    const char *key;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)lines, i, line)
        json_object_foreach(line, key, value)
            if (is_figure(value) && strcmp(key, "step") != 0 && !json_object_get(seen, key)) {
                weft_text_print(text, "%s%s", json_object_size(seen) ? ", " : "", key);
                json_object_set_new(seen, key, json_true());
            }
    json_decref(seen);
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
