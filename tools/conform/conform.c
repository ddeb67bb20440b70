/* SPDX-License-Identifier: Apache-2.0 */
/* weft conform PLUGIN.so: everything that a plugin promises and that can be tried without its
 * author. What is found is printed as it comes. */
#include "conform.h"
#include "cli.h"
#include "probe.h"
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/files.h>

enum { MOST_KINDS = 32, MOST_LINES = 512, PLAN_S = 100 };

/* What came back. */
typedef struct tally {
    struct {
        char kind[48];
        long n;
    } counts[MOST_KINDS];
    int n_kinds, failed, skipped, more; /* more: failed, and not printed */
    char *lines[MOST_LINES];            /* printed */
    int n_lines;
} tally;

/* ---- lines ---- */

static void count(tally *t, const char *line)
{
    char *kind;
    long n = strtol(line, &kind, 10);
    int i = 0;
    kind += *kind == ' ';
    while (i < t->n_kinds && strcmp(t->counts[i].kind, kind) != 0)
        i++;
    if (i == MOST_KINDS)
        return;
    if (i == t->n_kinds)
        snprintf(t->counts[t->n_kinds++].kind, sizeof t->counts[0].kind, "%s", kind);
    t->counts[i].n += n;
}

/* "FAIL op x: shards": findings of one kind about one thing. */
static int subject(const char *line)
{
    const char *colon = strchr(line, ':');
    const char *second = colon ? strchr(colon + 1, ':') : NULL;
    return (int)(second ? second - line : (long)strlen(line));
}

/* One of this kind was printed already. */
static bool said(tally *t, const char *line)
{
    int n = subject(line);
    for (int i = 0; i < t->n_lines; i++)
        if (t->lines[i] && subject(t->lines[i]) == n && strncmp(t->lines[i], line, (size_t)n) == 0)
            return true;
    if (t->n_lines < MOST_LINES)
        t->lines[t->n_lines++] = weft_strdup(line);
    return false;
}

static void take_line(tally *t, const char *line)
{
    bool failed = strncmp(line, "FAIL ", 5) == 0;
    if (strncmp(line, "COUNT ", 6) == 0) {
        count(t, line + 6);
        return;
    }
    t->failed += failed;
    t->skipped += !failed;
    if (said(t, line)) {
        t->more += failed;
        return;
    }
    if (weft_cli_write(line, strlen(line)))
        putchar('\n');
    fflush(stdout);
}

/* ---- the work ---- */

typedef struct work {
    conform c;
    weft_search *search;
    weft_settings *settings; /* of c.ini; NULL: none */
    weft_module module;
    const char *only; /* one of `parts`; NULL: all of them */
} work;

/* A key that there is not would make every run impossible. */
static bool knows_all_set(const conform *c, const weft_plugin *plugin)
{
    bool all = true;
    for (int i = 0; i < c->set.n && !c->ini; i++) {
        const char *key = strchr(c->set.list[i].text, '.') + 1;
        const weft_param *p = plugin->params;
        while (p && p->name &&
               (strncmp(p->name, key, strlen(p->name)) != 0 || key[strlen(p->name)] != '='))
            p++;
        if (p && p->name)
            continue;
        conform_fail(c, "settings: plugin %s has no key '%.*s'; weft inspect %s lists all",
                     c->plugin, (int)strcspn(key, "="), key, c->plugin);
        all = false;
    }
    return all;
}

static const struct part {
    const char *name;
    void (*check)(const conform *c, void *module);
} parts[] = {{"ops", conform_ops},
             {"memory", conform_memory},
             {"runs", conform_runs},
             {"commands", conform_commands}};

static bool is_part(const char *name)
{
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strcmp(name, parts[i].name) == 0)
            return true;
    return false;
}

static bool cuts(const weft_plugin *plugin)
{
    bool axis = false, degree = false;
    for (const weft_contribution *k = plugin->contributions; k && k->kind != WEFT_END; k++)
        axis =
            axis || k->kind == WEFT_AXIS || (k->kind == WEFT_PASS && k->stage == WEFT_STAGE_MESH);
    for (const weft_param *p = plugin->params; p && p->name; p++)
        degree = degree || (p->type == WEFT_PARAM_INT && strcmp(p->name, "degree") == 0);
    return axis && degree;
}

/* What never comes back from a hook would keep every part. */
static void plan_once(const conform *c, void *self)
{
    const char *places[CONFORM_MOST_PLACES];
    const conform_case k = {.model = "llama3", .others = "", .ranks = 1, .threads = 1};
    conform_plan p;
    weft_error err = {0};
    (void)self;
    conform_find_places(c, &k, places);
    if (c->ini) { /* where there is nothing to find */
        conform_now(c, "plugin: create and passes");
        (void)conform_plan_init(&p, c, &k, &err); /* what is wrong the parts tell */
        conform_plan_release(&p);
    }
    weft_error_release(&err);
}

/* In a process of its own, since opening runs constructors. */
static void do_all(const conform *all, void *self)
{
    work *w = self;
    conform own = *all;
    const conform *c = &own;
    weft_error err = {0};
    if (c->plugin) {
        conform_now(c, "plugin: constructor");
        if (weft_module_open(w->search, c->plugin, WEFT_NOWHERE, &w->module, &err)) {
            conform_fail(c, "descriptor: %s", weft_error_text(&err));
            weft_error_release(&err);
            return;
        }
        if (!knows_all_set(c, w->module.plugin))
            return;
        own.cuts = cuts(w->module.plugin);
        own.model = weft_plugin_gives(w->module.plugin, "model");
        own.place = conform_own_place(w->module.plugin);
        if (!conform_isolate(c, PLAN_S, plan_once, NULL))
            return;
    }
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (w->only && strcmp(w->only, parts[i].name) != 0)
            continue;
        conform_now(c, "plugin: %s", parts[i].name);
        parts[i].check(c, c->plugin ? &w->module : NULL);
    }
}

static weft_status work_apart(work *w, tally *t, weft_error *err)
{
    enum { SECONDS = 3600 };
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "no pipe: %s", strerror(errno));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        w->c.out = ends[1];
        conform_isolate(&w->c, SECONDS, do_all, w);
        _exit(0);
    }
    close(ends[1]);
    FILE *in = fdopen(ends[0], "r");
    char line[2048];
    while (in && fgets(line, sizeof line, in)) {
        line[strcspn(line, "\n")] = '\0';
        take_line(t, line);
    }
    if (in)
        fclose(in);
    if (child > 0)
        weft_process_wait(child);
    return child > 0 ? WEFT_OK
                     : weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "no process: %s", strerror(errno));
}

/* ---- a place to work in ---- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    return remove(path);
}

static weft_status make_folder(char *folder, weft_error *err)
{
    weft_text text = {0};
    char path[64];
    if (!mkdtemp(folder))
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "%s: %s", folder, strerror(errno));
    for (int i = 0; i < 40; i++)
        weft_text_print(&text, "Sentence %d of a text: fox number %d jumps.\n", i, i * 7919 % 1000);
    snprintf(path, sizeof path, "%s/text.txt", folder);
    weft_status s = text.out_of_memory
                        ? weft_fail_memory(err)
                        : weft_write_file(path, weft_text_get(&text), text.size, err);
    weft_text_release(&text);
    setenv("XDG_CACHE_HOME", folder, 1);
    return s;
}

/* "dir/muon.so": its folder is where plugins are looked for first, its name is returned. */
static weft_status find_name(const char *given, char **name, weft_error *err)
{
    char real[PATH_MAX];
    size_t n = strlen(given);
    bool file = strchr(given, '/') || (n > 3 && strcmp(given + n - 3, ".so") == 0);
    *name = NULL;
    if (!file)
        return (*name = weft_strdup(given)) ? WEFT_OK : weft_fail_memory(err);
    if (!realpath(given, real))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s: %s", given, strerror(errno));
    char *slash = strrchr(real, '/'), *dot = strrchr(slash, '.');
    if (!dot || strcmp(dot, ".so") != 0)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s: a plugin's file is called NAME.so",
                         given);
    *dot = *slash = '\0';
    const char *old = getenv("WEFT_PLUGIN_PATH");
    char *path = weft_format("%s%s%s", real, old && *old ? ":" : "", old ? old : "");
    if (path)
        setenv("WEFT_PLUGIN_PATH", path, 1);
    *name = path ? weft_strdup(slash + 1) : NULL;
    weft_free(path);
    return *name ? WEFT_OK : weft_fail_memory(err);
}

static void conclude(const work *w, const tally *t)
{
    const char *what = w->c.plugin ? w->c.plugin : "the core";
    printf("checked:");
    for (int i = 0; i < t->n_kinds; i++)
        printf("%s %ld %s", i ? "," : "", t->counts[i].n, t->counts[i].kind);
    printf("%s\n", t->n_kinds ? "" : " nothing");
    if (!t->failed && !t->n_kinds)
        printf("nothing of %s could be checked\n", what);
    else if (t->failed)
        printf("%s does not conform: %d finding%s%s\n", what, t->failed, t->failed > 1 ? "s" : "",
               t->more ? "; of each kind the first is shown" : "");
    else
        printf("%s conforms%s\n", what, t->skipped ? ", but not everything could be tried" : "");
}

/* -o speaks of the plugin's own keys, where the runs are ours. */
static weft_status check_set(const conform *c, weft_error *err)
{
    size_t n = c->plugin ? strlen(c->plugin) : 0;
    if (c->set.n > CONFORM_MOST_SET)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "more than %d -o", CONFORM_MOST_SET);
    for (int i = 0; i < c->set.n && !c->ini; i++) {
        const char *text = c->set.list[i].text;
        if (n == 0 || strncmp(text, c->plugin, n) != 0 || text[n] != '.' || !strchr(text, '='))
            return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                             "-o %s: weft conform sets keys of the plugin alone, as %s.KEY=VALUE; "
                             "give a run of yours with --ini FILE",
                             text, c->plugin ? c->plugin : "PLUGIN");
    }
    return WEFT_OK;
}

/* With a run of the user's its lock and its folders count. */
static weft_status open_search(work *w, weft_error *err)
{
    weft_cli_edit edits[CONFORM_MOST_SET];
    weft_cli_options options = {.ini = w->c.ini, .edits = edits};
    if (!w->c.ini)
        return weft_search_create(NULL, &w->search, err);
    for (int i = 0; i < w->c.set.n; i++)
        edits[options.n_edits++] = (weft_cli_edit){WEFT_CLI_SET, w->c.set.list[i].text, NULL};
    weft_status s = weft_cli_settings(&options, &w->settings, err);
    return s ? s : weft_plugins_check(w->settings, &w->search, err);
}

static weft_status conform_all(const weft_cli_options *options, work *w, tally *t, weft_error *err)
{
    char folder[] = "/tmp/weft-conform-XXXXXX", *name = NULL;
    const char *path;
    weft_status s = WEFT_OK;
    if (options->n_arguments > 0)
        s = find_name(options->arguments[0], &name, err);
    w->c.plugin = name;
    s = s ? s : check_set(&w->c, err);
    s = s ? s : open_search(w, err);
    if (!s && name)
        s = weft_module_find(w->search, name, WEFT_NOWHERE, &path, err);
    s = s ? s : make_folder(folder, err);
    w->c.folder = folder;
    w->c.now = s ? NULL : conform_share(CONFORM_NOW);
    if (!s && !w->c.now)
        s = weft_fail_memory(err);
    s = s ? s : work_apart(w, t, err);
    if (!s)
        conclude(w, t);
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    weft_search_destroy(w->search);
    weft_settings_destroy(w->settings);
    weft_free(name);
    return s;
}

int weft_cmd_conform(int argc, char **argv)
{
    bool core = false;
    work w = {.c = {.ini = NULL}};
    const weft_option extra[] = {
        {.name = "core", .help = "check the core's own ops instead of a plugin", .flag = &core},
        {.name = "ini",
         .argument = "FILE",
         .help =
             "try it in this run of one rank, which lists the plugin, instead of small ones of our "
             "own: a model that needs its own settings, an op that others put into the graph",
         .text = &w.c.ini},
        {.name = "o",
         .argument = "PLUGIN.KEY=VALUE",
         .help = "set a key of the plugin, as one that must be given; with --ini any key; may be "
                 "repeated",
         .values = &w.c.set},
        {.name = "only",
         .argument = "PART",
         .help =
             "one part of the checks: ops (and kernels), memory (hooks and passes), runs, commands",
         .text = &w.only},
        {.name = "all", .help = "try every case instead of a sample", .flag = &w.c.whole},
        {0}};
    const weft_cli_usage usage = {
        .command = "conform",
        .arguments = "PLUGIN.so",
        .max_arguments = 1,
        .summary = "Check a plugin against what it declares: rules, linearity, shards, gradients, "
                   "kernels, memory, runs, commands. Takes a file or a name. Exit code 0: it "
                   "conforms, 1: it does not, and each finding is a line, or nothing could be "
                   "checked.",
        .accepts = WEFT_CLI_OPTIONAL,
        .extra = extra};
    weft_cli_options options = {0};
    weft_error err = {0};
    tally *t = weft_alloc_zero(1, sizeof *t);
    int code = weft_cli_parse(&usage, argc, argv, &options);
    if (code != WEFT_CLI_GO)
        goto done;
    conform_count_exactly(argv - 1); /* from the program's name on */
    if (!t)
        weft_fail_memory(&err);
    else if (core == (options.n_arguments > 0))
        weft_fail(
            &err, WEFT_ERR_INPUT, WEFT_NOWHERE,
            "weft conform takes PLUGIN.so, a plugin's name, or --core; see weft conform --help");
    else if (w.only && !is_part(w.only))
        weft_fail(&err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                  "--only %.40s: there are ops, memory, runs and commands", w.only);
    else
        conform_all(&options, &w, t, &err);
    code = weft_cli_report(&err);
    code = code ? code : t->failed > 0 || t->n_kinds == 0;
done:
    for (int i = 0; t && i < t->n_lines; i++)
        weft_free(t->lines[i]);
    weft_free(t);
    weft_option_values_release(&w.c.set);
    weft_error_release(&err);
    weft_cli_options_release(&options);
    return code;
}
