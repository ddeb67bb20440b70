/* SPDX-License-Identifier: Apache-2.0 */
/* The variants before they run: plans, what is wrong with them, and by what a finished cell is
 * known again. */
#include "ablate.h"

#include "console/columns.h"
#include "processors.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <weft/store.h>

const char *ablate_setting(const json_t *plan, const char *section, const char *key)
{
    return json_string_value(
        json_object_get(json_object_get(json_object_get(plan, "settings"), section), key));
}

bool ablate_lists(const json_t *plan, const char *plugin)
{
    size_t i;
    const json_t *name;
    json_array_foreach(json_object_get(plan, "plugins"), i, name)
        if (strcmp(json_string_value(name), plugin) == 0)
            return true;
    return false;
}

/* ---- edits ---- */

weft_status ablate_options_of(const ablation *a, int variant, weft_cli_options *to, weft_error *err)
{
    const ablate_variant *v = &a->study.variants[variant];
    *to = *a->options;
    to->n_edits = 0;
    to->edits = weft_alloc_zero((size_t)(a->options->n_edits + v->n_edits) + 8, sizeof *to->edits);
    if (!to->edits)
        return weft_fail_memory(err);
    for (int i = 0; i < a->options->n_edits; i++)
        to->edits[to->n_edits++] = a->options->edits[i];
    for (int i = 0; i < v->n_edits; i++)
        to->edits[to->n_edits++] = v->edits[i];
    if (v->ranks > 0)
        to->ranks = (int)v->ranks;
    return WEFT_OK;
}

/* ---- plans ---- */

/* What cells are compared by is metrics' own. */
static weft_status plan_with_metrics(weft_cli_options *options, json_t **plan, bool *adds,
                                     weft_error *err)
{
    weft_status s = weft_study_plan(options, plan, err);
    *adds = !s && !ablate_lists(*plan, "metrics");
    if (!*adds)
        return s;
    json_decref(*plan);
    options->edits[options->n_edits++] = (weft_cli_edit){WEFT_CLI_WITH, "metrics", NULL};
    return weft_study_plan(options, plan, err);
}

static double available_bytes(void)
{
    char line[256];
    double kib = INFINITY;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lf", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return 1024 * kib;
}

static double bytes_of(const json_t *plan)
{
    return (double)json_integer_value(json_object_get(json_object_get(plan, "memory"), "total")) *
           (double)json_integer_value(json_object_get(plan, "ranks"));
}

/* Ranks are threads of this host unless a transport says otherwise, which plans do not. */
static weft_status check_memory(const ablation *a, const json_t *plan, weft_error *err)
{
    const double need = bytes_of(plan) * a->jobs, have = available_bytes();
    if (need <= have || ablate_lists(plan, "mpi") || ablate_lists(plan, "ucx") ||
        ablate_lists(plan, "cuda"))
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "it is planned with %.4g GiB on %d rank%s, %d at once (-j), and this host has "
                     "%.4g GiB left",
                     bytes_of(plan) / (1 << 30),
                     (int)json_integer_value(json_object_get(plan, "ranks")),
                     json_integer_value(json_object_get(plan, "ranks")) == 1 ? "" : "s", a->jobs,
                     have / (1 << 30));
}

static weft_status plan_one(ablation *a, int variant, weft_error *err)
{
    const ablate_variant *v = &a->study.variants[variant];
    weft_cli_options options;
    weft_error why = {0};
    weft_status s = ablate_options_of(a, variant, &options, &why);
    s = s ? s : plan_with_metrics(&options, &a->plans[variant], &a->adds_metrics[variant], &why);
    s = s ? s : check_memory(a, a->plans[variant], &why);
    for (int i = 0; i < why.n_items; i++)
        weft_fail(err, why.items[i].status, (weft_where){a->study.file, v->line}, "%s: %s", v->name,
                  why.items[i].text ? why.items[i].text : "?");
    weft_free(options.edits);
    weft_error_release(&why);
    return s;
}

weft_status ablate_plan_all(ablation *a, weft_error *err)
{
    weft_status status = WEFT_OK;
    a->plans = weft_alloc_zero((size_t)a->study.n, sizeof *a->plans);
    a->adds_metrics = weft_alloc_zero((size_t)a->study.n, sizeof *a->adds_metrics);
    if (!a->plans || !a->adds_metrics)
        return weft_fail_memory(err);
    for (int i = 0; i < a->study.n; i++) {
        weft_status s = a->study.variants[i].wrong ? WEFT_ERR_INPUT : plan_one(a, i, err);
        status = status ? status : s;
    }
    return status;
}

/* ---- by what a cell is known again ---- */

/* A file, or the files of a folder: sizes and times tell whether they are the same. */
static void stamp(json_t *to, const char *path, int depth)
{
    struct stat info;
    char words[80];
    if (stat(path, &info) != 0)
        return;
    if (S_ISREG(info.st_mode)) {
        snprintf(words, sizeof words, "%lld %lld.%09ld", (long long)info.st_size,
                 (long long)info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
        json_object_set_new(to, path, json_string(words));
    }
    DIR *d = S_ISDIR(info.st_mode) && depth < 3 ? opendir(path) : NULL;
    for (const struct dirent *e; d && (e = readdir(d));) {
        char *inner = e->d_name[0] != '.' ? weft_format("%s/%s", path, e->d_name) : NULL;
        if (inner)
            stamp(to, inner, depth + 1);
        weft_free(inner);
    }
    if (d)
        closedir(d);
}

static void stamp_words(json_t *to, const char *text)
{
    char *copy = weft_strdup(text), *rest = NULL;
    for (char *word = copy ? strtok_r(copy, " ", &rest) : NULL; word;
         word = strtok_r(NULL, " ", &rest))
        if (strchr(word, '/') || strchr(word, '.'))
            stamp(to, word, 0);
    weft_free(copy);
}

static json_t *files_of(const json_t *settings)
{
    json_t *files = json_object(), *keys, *value;
    const char *section, *key;
    json_object_foreach((json_t *)(uintptr_t)settings, section, keys)
        json_object_foreach(keys, key, value)
            if (json_is_string(value) && strcmp(key, "lock") != 0)
                stamp_words(files, json_string_value(value));
    return files;
}

weft_status ablate_identify(const ablation *a, ablate_cell *cell, weft_error *err)
{
    const json_t *plan = a->plans[cell->variant];
    char seed[32];
    json_t *settings = json_deep_copy(json_object_get(plan, "settings"));
    snprintf(seed, sizeof seed, "%" PRId64, cell->seed);
    json_object_del(settings, "weft"); /* which threads, what is logged: nothing that is computed */
    json_object_set_new(json_object_get(settings, "train"), "seed", json_string(seed));
    json_t *files = files_of(settings);
    json_t *all =
        json_pack("{s:s, s:O, s:O, s:O, s:o, s:o}", "version", WEFT_VERSION, "program",
                  json_object_get(plan, "program"), "plugins", json_object_get(plan, "plugins"),
                  "ranks", json_object_get(plan, "ranks"), "settings", settings, "files", files);
    char *words = all ? json_dumps(all, JSON_SORT_KEYS | JSON_COMPACT) : NULL;
    if (words)
        snprintf(cell->identity, sizeof cell->identity, "%016" PRIx64,
                 weft_sum(words, strlen(words)));
    weft_status s = words ? WEFT_OK : weft_fail_memory(err);
    free(words); /* jansson's */
    json_decref(all);
    return s;
}

/* ---- what --plan prints ---- */

/* Checkpoints that are left when a cell is done, in bytes. */
static double disk_of(const json_t *plan)
{
    if (!ablate_lists(plan, "ckpt"))
        return 0;
    const char *every = ablate_setting(plan, "ckpt", "every"),
               *keep = ablate_setting(plan, "ckpt", "keep"),
               *last = ablate_setting(plan, "ckpt", "last");
    const double steps = (double)json_integer_value(json_object_get(plan, "steps"));
    const double rate = every ? strtod(every, NULL) : 0, most = keep ? strtod(keep, NULL) : 0;
    double n = rate > 0 ? floor(steps / rate) : 0;
    if (last && strcmp(last, "yes") == 0 && !(rate > 0 && fmod(steps, rate) == 0))
        n++;
    n = most > 0 && n > most ? most : n;
    return n * (double)json_integer_value(json_object_get(plan, "state"));
}

static void add_bytes(weft_columns *c, double bytes)
{
    if (bytes > 0)
        weft_print_bytes(&c->cells, bytes);
    else
        weft_text_add(&c->cells, "-");
    weft_columns_next(c);
}

void ablate_print_plan(const ablation *a, weft_text *text)
{
    static const char *const heads[] = {"variant",       "program",     "ranks",
                                        "parameters",    "trained",     "GFLOP a step",
                                        "memory a rank", "sent a step", "disk"};
    weft_columns c;
    double disk = 0;
    weft_columns_init(&c, "llrrrrrrr");
    for (int i = 0; i < c.n; i++)
        weft_columns_add(&c, heads[i]);
    for (int i = 0; i < a->study.n; i++) {
        const json_t *p = a->plans[i];
        static const char *const counts[] = {"ranks", "parameters", "trained"};
        weft_columns_add(&c, a->study.variants[i].name);
        weft_columns_add(&c, json_string_value(json_object_get(p, "program")));
        for (int k = 0; k < 3; k++) {
            weft_text_print(&c.cells, "%lld",
                            (long long)json_integer_value(json_object_get(p, counts[k])));
            weft_columns_next(&c);
        }
        weft_text_print(&c.cells, "%.4g", 1e-9 * json_number_value(json_object_get(p, "flops")));
        weft_columns_next(&c);
        add_bytes(
            &c, (double)json_integer_value(json_object_get(json_object_get(p, "memory"), "total")));
        add_bytes(&c, (double)json_integer_value(json_object_get(p, "sent")));
        add_bytes(&c, disk_of(p) * a->n_seeds);
        disk += disk_of(p) * a->n_seeds;
    }
    weft_columns_print(&c, text);
    weft_columns_release(&c);
    weft_text_print(text, "%d cells: %d variants, %d seed%s; checkpoints that are kept take ",
                    a->study.n * a->n_seeds, a->study.n, a->n_seeds, a->n_seeds == 1 ? "" : "s");
    weft_print_bytes(text, disk);
    weft_text_add(text, "\n");
}

/* ---- warnings ---- */

static void warn_of(const ablation *a, int variant, const char *edit, weft_text *text)
{
    char section[64], key[64];
    const char *other, *const plugin = section;
    json_t *keys;
    const json_t *plan = a->plans[variant];
    if (sscanf(edit, " %63[^. ] . %63[^= ]", section, key) != 2 || !ablate_lists(plan, plugin) ||
        !ablate_setting(plan, section, "lr"))
        return;
    json_object_foreach(json_object_get(plan, "settings"), other, keys)
        if (strcmp(other, section) != 0 && json_object_get(keys, "lr") &&
            json_object_get(keys, key))
            weft_text_print(text,
                            "warning: %s:%d: %s: [%s] %s = %s, and [%s] %s = %s beside it: two "
                            "optimizers, each with its own\n",
                            a->study.file, a->study.variants[variant].line,
                            a->study.variants[variant].name, section, key,
                            ablate_setting(plan, section, key), other, key,
                            ablate_setting(plan, other, key));
}

void ablate_warn(const ablation *a, weft_text *text)
{
    for (int i = 0; i < a->study.n; i++)
        for (int k = 0; k < a->study.variants[i].n_edits; k++)
            if (a->study.variants[i].edits[k].kind == WEFT_CLI_SET)
                warn_of(a, i, a->study.variants[i].edits[k].text, text);
}
