/* SPDX-License-Identifier: Apache-2.0 */
/* weft ablate: variants of a run over several seeds, and what difference each makes. */
#include "ablate.h"

#include "lock.h"
#include "processors.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_SEEDS = 1000 };

/* ---- what is asked for ---- */

/* "3": 1, 2, 3; "7,11,13": these. */
static weft_status read_seeds(ablation *a, const char *text, weft_error *err)
{
    const bool list = strchr(text, ',') != NULL;
    const char *at = text;
    char *end;
    for (;; at = end + 1) {
        errno = 0;
        const long long x = strtoll(at, &end, 10);
        if (end == at || errno || x < (list ? 0 : 1) || (!list && x > MOST_SEEDS) ||
            a->n_seeds == MOST_SEEDS || (*end && (*end != ',' || !list)) || *at == ' ')
            break;
        for (int i = 0; i < a->n_seeds && list; i++)
            if (a->seeds[i] == x)
                return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                                 "--seeds %.60s: %lld is there twice", text, x);
        for (long long i = 1; i <= x && !list; i++)
            a->seeds[a->n_seeds++] = i;
        if (list)
            a->seeds[a->n_seeds++] = x;
        if (!*end)
            return WEFT_OK;
    }
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "--seeds %.60s: give how many (3: seeds 1, 2 and 3), from 1 to %d, or which "
                     "(7,11,13)",
                     text, MOST_SEEDS);
}

/* "studies/norms.txt": studies/norms. */
static char *folder_of(const char *file)
{
    char *dir = weft_strdup(file), *slash = dir ? strrchr(dir, '/') : NULL,
         *dot = dir ? strrchr(slash ? slash : dir, '.') : NULL;
    if (dot && dot != dir && dot != slash + 1)
        *dot = '\0';
    else if (dir) {
        weft_free(dir);
        dir = weft_format("%s.study", file);
    }
    return dir;
}

static void share_threads(ablation *a, int64_t jobs)
{
    const weft_processors p = weft_cli_processors();
    const int all = weft_processors_share(&p, 1, 1, 1);
    a->jobs = jobs < all ? (int)jobs : all;
    if (jobs > all)
        fprintf(stderr, "-j %" PRId64 ": there are %d processors, so no more run at once\n", jobs,
                all);
}

/* Runs at once, and their ranks, share the processors. */
static void limit_threads(ablation *a)
{
    const weft_processors p = weft_cli_processors();
    int ranks = 1;
    for (int i = 0; i < a->study.n; i++) {
        const int own = (int)json_integer_value(json_object_get(a->plans[i], "ranks"));
        ranks = own > ranks ? own : ranks;
    }
    const int n = a->jobs * ranks;
    a->threads = a->jobs > 1 ? weft_processors_share(&p, n, n, n) : 0;
}

/* ---- the study's folder ---- */

static bool is_empty(const char *path)
{
    DIR *d = opendir(path);
    bool empty = true;
    for (const struct dirent *e; d && (e = readdir(d));)
        empty = empty && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0);
    if (d)
        closedir(d);
    return empty;
}

static weft_status not_ours(const ablation *a, const char *why, weft_error *err)
{
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "%s cannot be this study's folder: %s; --out FOLDER takes another", a->dir,
                     why);
}

/* One that is there is this study's, of this INI and with this baseline, or empty. */
static weft_status check_folder(const ablation *a, weft_error *err)
{
    struct stat info;
    char *path = weft_format("%s/study.json", a->dir), *data = NULL, *why = NULL;
    size_t size;
    weft_error unsaid = {0};
    weft_status s = path ? WEFT_OK : weft_fail_memory(err);
    const bool there = !s && lstat(a->dir, &info) == 0;
    if (there && stat(a->dir, &info) == 0 && !S_ISDIR(info.st_mode))
        s = not_ours(a, "it is no folder", err);
    else if (there && weft_read_file(path, &data, &size, &unsaid) == WEFT_OK) {
        json_t *o = json_loadb(data, size, 0, NULL);
        const char *ini = json_string_value(json_object_get(o, "ini")),
                   *base = json_string_value(json_object_get(o, "baseline"));
        if (!ini || !base)
            s = not_ours(a, "its study.json is none", err);
        else if (strcmp(ini, a->options->ini) != 0 || strcmp(base, a->study.variants[0].name) != 0)
            why = weft_format("it has a study of %s with the baseline %s", ini, base);
        if (why)
            s = not_ours(a, why, err);
        json_decref(o);
    } else if (there && !is_empty(a->dir))
        s = not_ours(a, "it has no study.json, and is not empty", err);
    weft_error_release(&unsaid);
    weft_free(data);
    weft_free(why);
    weft_free(path);
    return s;
}

static weft_status make_folder(const ablation *a, int *lock, weft_error *err)
{
    char *path = weft_format("%s/study.json", a->dir), *text = NULL;
    json_t *o = json_pack("{s:s, s:s, s:s, s:s}", "study", a->study.file, "ini", a->options->ini,
                          "baseline", a->study.variants[0].name, "version", WEFT_VERSION);
    weft_error why = {0};
    weft_status s = path && o ? weft_make_dirs(a->dir, err) : weft_fail_memory(err);
    if (!s && (s = weft_cli_lock(a->dir, lock, &why)) != WEFT_OK)
        s = *lock == WEFT_LOCK_BUSY
                ? weft_fail(err, s, WEFT_NOWHERE,
                            "another weft ablate is at work in %s; wait for its end, or take "
                            "another folder with --out",
                            a->dir)
                : weft_fail(err, s, WEFT_NOWHERE, "%s", weft_error_text(&why));
    weft_error_release(&why);
    if (!s && !(text = json_dumps(o, JSON_INDENT(1) | JSON_PRESERVE_ORDER)))
        s = weft_fail_memory(err);
    s = s ? s : weft_write_file(path, text, strlen(text), err);
    free(text); /* jansson's */
    json_decref(o);
    weft_free(path);
    return s;
}

/* ---- the command ---- */

static weft_status check_edits(const ablation *a, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < a->options->n_edits; i++) {
        const char *own = ablate_own_setting(&a->options->edits[i]);
        if (own)
            s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                          "-o %s: ablate gives every cell its own; --seeds says which seeds, and "
                          "--out takes another folder",
                          own);
    }
    return s;
}

static weft_status prepare(ablation *a, const char *seeds, int64_t jobs, weft_error *err)
{
    if (a->options->n_arguments != 2)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "ablate takes an INI and a study: weft ablate base.ini study.txt");
    weft_status s = read_seeds(a, seeds, err);
    weft_status own = check_edits(a, err);
    weft_status read = ablate_study_read(&a->study, a->options->arguments[1], err);
    s = s ? s : own ? own : read;
    if (a->study.n == 0)
        return s;
    share_threads(a, jobs);
    weft_status planned = ablate_plan_all(a, err); /* of lines that were read: all errors at once */
    s = s ? s : check_folder(a, err);
    s = s ? s : planned;
    if (!s)
        limit_threads(a);
    return s;
}

static int conclude(ablation *a, int failed, bool stopped, weft_error *err)
{
    weft_text text = {0};
    weft_status s = ablate_read_cells(a, err);
    s = s ? s : ablate_write_tables(a, err);
    if (!s) {
        ablate_print_table(a, &text);
        weft_text_print(&text, "%s/table.csv, runs.csv, index.html\n", a->dir);
    }
    int code = s ? weft_cli_conclude(s, err) : weft_cli_print(&text);
    if (!code && failed)
        fprintf(stderr, "%d of %d cells failed; the same command tries them again\n", failed,
                a->n_cells);
    if (!code && stopped)
        fprintf(stderr, "stopped; the same command goes on\n");
    weft_text_release(&text);
    return code ? code : stopped ? 3 : failed ? 1 : 0;
}

static int run(ablation *a, bool plan, weft_error *err)
{
    int lock = -1, failed = 0;
    bool stopped = false;
    weft_text text = {0};
    ablate_warn(a, &text);
    weft_cli_write_error(&text);
    weft_text_clear(&text);
    if (plan) {
        ablate_print_plan(a, &text);
        const int code = weft_cli_print(&text);
        weft_text_release(&text);
        return code;
    }
    weft_status s = make_folder(a, &lock, err);
    s = s ? s : ablate_make_cells(a, err);
    s = s ? s : ablate_run_cells(a, &failed, &stopped, err);
    const int code = s ? weft_cli_conclude(s, err) : conclude(a, failed, stopped, err);
    weft_cli_unlock(&lock);
    return code;
}

static void release(ablation *a)
{
    ablate_release_cells(a);
    for (int i = 0; a->plans && i < a->study.n; i++)
        json_decref(a->plans[i]);
    weft_free((void *)a->plans);
    weft_free(a->adds_metrics);
    ablate_study_release(&a->study);
}

int weft_cmd_ablate(int argc, char **argv)
{
    const char *seeds = "3", *out = NULL, *metric = NULL;
    int64_t jobs = 1;
    bool plan = false;
    const weft_option extra[] = {
        {.name = "seeds",
         .argument = "N|LIST",
         .help = "how many seeds (default 3: 1, 2 and 3), or which: 7,11,13",
         .text = &seeds},
        {.name = "j",
         .argument = "JOBS",
         .help = "so many runs at once (default 1); they share the processors",
         .number = &jobs,
         .min = 1,
         .max = 1024},
        {.name = "plan", .help = "plan all variants, and run none", .flag = &plan},
        {.name = "out",
         .argument = "FOLDER",
         .help = "where to (default: the study's name without its ending)",
         .text = &out},
        {.name = "metric",
         .argument = "NAME",
         .help = "compare this of metrics.jsonl (default: the validation loss if all have one; "
                 "loss.head where some losses have several terms; else the loss)",
         .text = &metric},
        {.name = NULL}};
    const weft_cli_usage usage = {
        .command = "ablate",
        .arguments = "base.ini study.txt",
        .max_arguments = 2,
        .summary =
            "Runs the variants of a study over several seeds, and says what difference each "
            "makes, seed by seed. A line of the study is a name and what one would type: "
            "--with, --without, -o, -n; the first is the baseline. The same command goes "
            "on. Exit code 0: all cells are done; 1: some failed, or another ablate is at work "
            "in the folder; 2: bad input, nothing was started; 3: stopped.",
        .accepts = WEFT_CLI_INI | WEFT_CLI_RANKS,
        .extra = extra,
    };
    weft_cli_options options;
    weft_error err = {0};
    weft_text said = {0}; /* what several variants are warned of is said once */
    int code = weft_cli_parse(&usage, argc, argv, &options);
    options.said = &said;
    if (code == WEFT_CLI_GO) {
        ablation *a = weft_alloc_zero(1, sizeof *a);
        char *dir = options.n_arguments < 2 ? NULL
                    : out                   ? weft_strdup(out)
                                            : folder_of(options.arguments[1]);
        weft_status s = a && (dir || options.n_arguments < 2) ? WEFT_OK : weft_fail_memory(&err);
        if (!s) {
            *a = (ablation){.options = &options, .dir = dir, .metric = metric};
            s = prepare(a, seeds, jobs, &err);
            code = s ? weft_cli_report(&err) : run(a, plan, &err);
            release(a);
        } else {
            code = weft_cli_report(&err);
        }
        weft_free(dir);
        weft_free(a);
    }
    weft_error_release(&err);
    weft_cli_options_release(&options);
    weft_text_release(&said);
    return code;
}
