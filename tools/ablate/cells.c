/* SPDX-License-Identifier: Apache-2.0 */
/* Cells: which of them are done, and the others run, each by a process of its own. */
#include "ablate.h"

#include "folder.h"
#include "process.h"
#include "study/subject.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- which are done ---- */

static bool read_identity(const char *note, char identity[17])
{
    char *data = NULL;
    size_t size = 0;
    weft_error unsaid = {0};
    json_t *o =
        weft_read_file(note, &data, &size, &unsaid) ? NULL : json_loadb(data, size, 0, NULL);
    const char *text = json_string_value(json_object_get(o, "identity"));
    snprintf(identity, 17, "%s", text ? text : "");
    json_decref(o);
    weft_free(data);
    weft_error_release(&unsaid);
    return *identity != '\0';
}

/* As its last start has told. */
static bool is_done(const char *dir)
{
    json_t *about = NULL;
    weft_error unsaid = {0};
    weft_folder_read_about(dir, &about, &unsaid);
    const bool done = weft_about_is_done(about);
    json_decref(about);
    weft_error_release(&unsaid);
    return done;
}

/* A run that is done has metrics up to its last step. What is damaged is put aside, and made anew,
 * even if checkpoints say that nothing is left to do. */
static weft_status check_known(const ablation *a, ablate_cell *cell, weft_error *err)
{
    int64_t last = 0;
    weft_error why = {0};
    weft_status s = weft_folder_read_metrics(cell->dir, 0, &cell->lines, &why);
    weft_lines_last(cell->lines, "loss", &last);
    if (s == WEFT_ERR_MEMORY)
        s = weft_fail_memory(err);
    else if (s || last < cell->steps) {
        fprintf(stderr,
                "warning: %s s%" PRId64 ": its metrics.jsonl has %" PRId64 " of %" PRId64
                " steps, though it is done: it is put aside, and run again\n",
                a->study.variants[cell->variant].name, cell->seed, last, cell->steps);
        json_decref(cell->lines);
        cell->lines = NULL;
        cell->known = false;
        cell->changed = true;
        s = WEFT_OK;
    }
    weft_error_release(&why);
    return s;
}

static weft_status make_cell(ablation *a, ablate_cell *cell, weft_error *err)
{
    const char *name = a->study.variants[cell->variant].name;
    char before[17];
    cell->dir = weft_format("%s/%s/s%" PRId64, a->dir, name, cell->seed);
    cell->note = weft_format("%s/%s/s%" PRId64 ".json", a->dir, name, cell->seed);
    cell->out = weft_format("%s/%s/s%" PRId64 ".txt", a->dir, name, cell->seed);
    if (!cell->dir || !cell->note || !cell->out)
        return weft_fail_memory(err);
    cell->steps = json_integer_value(json_object_get(a->plans[cell->variant], "steps"));
    weft_status s = ablate_identify(a, cell, err);
    if (!s && read_identity(cell->note, before)) {
        cell->known = strcmp(before, cell->identity) == 0 && is_done(cell->dir);
        cell->changed = strcmp(before, cell->identity) != 0;
    }
    if (!s && cell->known)
        s = check_known(a, cell, err);
    cell->state = cell->known ? ABLATE_DONE : ABLATE_WAITS;
    return s;
}

weft_status ablate_make_cells(ablation *a, weft_error *err)
{
    weft_status s = WEFT_OK;
    a->n_cells = a->study.n * a->n_seeds;
    a->cells = weft_alloc_zero((size_t)a->n_cells, sizeof *a->cells);
    if (!a->cells)
        return weft_fail_memory(err);
    for (int i = 0; i < a->n_cells && !s; i++) {
        a->cells[i].variant = i / a->n_seeds;
        a->cells[i].seed = a->seeds[i % a->n_seeds];
        s = make_cell(a, &a->cells[i], err);
    }
    return s;
}

void ablate_release_cells(ablation *a)
{
    for (int i = 0; a->cells && i < a->n_cells; i++) {
        weft_free(a->cells[i].dir);
        weft_free(a->cells[i].note);
        weft_free(a->cells[i].out);
        json_decref(a->cells[i].lines);
    }
    weft_free(a->cells);
}

/* ---- a process ---- */

/* The words of a command, in a pool. */
typedef struct command {
    weft_pool *pool;
    char **argv;
    int n;
    bool out_of_memory;
} command;

static void say(command *c, const char *word)
{
    char *own = weft_pool_strdup(c->pool, word);
    c->out_of_memory = c->out_of_memory || !own;
    c->argv[c->n++] = own;
}

__attribute__((format(printf, 2, 3))) static void set(command *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = weft_vformat(format, args);
    va_end(args);
    say(c, "-o");
    say(c, text ? text : "");
    c->out_of_memory = c->out_of_memory || !text;
    weft_free(text);
}

/* What cells are compared by, and threads where several run at once. */
static void set_for_comparison(const ablation *a, const ablate_cell *cell, command *c)
{
    const json_t *plan = a->plans[cell->variant];
    const char *hash = ablate_setting(plan, "metrics", "hash"),
               *jsonl = ablate_setting(plan, "metrics", "jsonl"),
               *threads = ablate_setting(plan, "weft", "threads");
    if (a->adds_metrics[cell->variant]) {
        say(c, "--with");
        say(c, "metrics");
    }
    if (hash && strcmp(hash, "0") == 0)
        set(c, "metrics.hash=%" PRId64, cell->steps >= 20 ? cell->steps / 10 : 1);
    if (jsonl && strcmp(jsonl, "no") == 0)
        set(c, "metrics.jsonl=yes");
    if (a->threads > 0 && threads && strcmp(threads, "auto") == 0)
        set(c, "weft.threads=%d", a->threads);
    set(c, "train.seed=%" PRId64, cell->seed);
    set(c, "weft.dir=%s", cell->dir);
}

/* Its words; all of it in the pool. NULL: out of memory. */
static char **words_of(const ablation *a, const ablate_cell *cell, weft_pool *pool)
{
    static const char *const names[] = {
        [WEFT_CLI_SET] = "-o", [WEFT_CLI_WITH] = "--with", [WEFT_CLI_WITHOUT] = "--without"};
    enum { OTHERS = 24 };
    char ranks[24];
    weft_cli_options options;
    weft_error unsaid = {0};
    if (ablate_options_of(a, cell->variant, &options, &unsaid)) {
        weft_error_release(&unsaid);
        return NULL;
    }
    const size_t most = 2 * (size_t)options.n_edits + OTHERS;
    command c = {.pool = pool, .argv = weft_pool_alloc(pool, most * sizeof *c.argv)};
    if (c.argv) {
        say(&c, "weft");
        say(&c, "train");
        say(&c, options.ini);
        for (int i = 0; i < options.n_edits; i++) {
            say(&c, names[options.edits[i].kind]);
            say(&c, options.edits[i].text);
        }
        set_for_comparison(a, cell, &c);
        snprintf(ranks, sizeof ranks, "-n%d", options.ranks);
        if (options.ranks > 0)
            say(&c, ranks);
        say(&c, "--wait"); /* for one that was left behind, and ends soon */
    }
    weft_free(options.edits);
    return c.out_of_memory ? NULL : c.argv;
}

static weft_status write_note(const ablate_cell *cell, char **argv, weft_error *err)
{
    json_t *words = json_array();
    for (int i = 0; argv[i]; i++)
        json_array_append_new(words, json_string(argv[i]));
    json_t *o = json_pack("{s:s, s:o}", "identity", cell->identity, "argv", words);
    char *text = o ? json_dumps(o, JSON_INDENT(1)) : NULL;
    weft_status s =
        text ? weft_write_file(cell->note, text, strlen(text), err) : weft_fail_memory(err);
    free(text); /* jansson's */
    json_decref(o);
    return s;
}

/* What stands there is another run's: it is kept under another name. */
static weft_status put_aside(const ablate_cell *cell, weft_error *err)
{
    struct stat info;
    if (!cell->changed || stat(cell->dir, &info) != 0)
        return WEFT_OK;
    for (int n = 1; n < 10000; n++) {
        char *to = weft_format("%s.before-%d", cell->dir, n);
        const bool free_name = to && lstat(to, &info) != 0;
        const bool moved = free_name && rename(cell->dir, to) == 0;
        weft_free(to);
        if (!to || (free_name && !moved))
            break;
        if (moved)
            return WEFT_OK;
    }
    return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "%s, of another run, cannot be renamed",
                     cell->dir);
}

/* It is asked to end when we do: after its step, and it saves. */
static weft_status start_process(ablate_cell *cell, char **argv, weft_error *err)
{
    const int out = weft_open_to_write(cell->out, WEFT_WRITE_AGAIN);
    if (out < 0)
        return weft_fail(err, WEFT_ERR_IO, (weft_where){cell->out, 0}, "cannot be written: %s",
                         strerror(errno));
    weft_status s = weft_process_start((const char *const *)argv, NULL, out, 0, &cell->pid, err);
    close(out);
    return s;
}

static weft_status start(const ablation *a, ablate_cell *cell, weft_error *err)
{
    weft_pool pool = {0};
    char *folder = weft_format("%s/%s", a->dir, a->study.variants[cell->variant].name);
    char **argv = words_of(a, cell, &pool);
    weft_status s = folder && argv ? weft_make_dirs(folder, err) : weft_fail_memory(err);
    s = s ? s : put_aside(cell, err);
    s = s ? s : write_note(cell, argv, err);
    s = s ? s : start_process(cell, argv, err);
    if (!s)
        cell->state = ABLATE_RUNS;
    weft_pool_release(&pool);
    weft_free(folder);
    return s;
}

/* ---- what is said of them ---- */

static void print_left(const ablation *a, weft_text *text)
{
    const double rate = (weft_now() - a->began_s) / (double)(a->made_steps ? a->made_steps : 1),
                 left = rate * (double)a->left_steps;
    if (a->made_steps && a->left_steps)
        weft_text_print(text, ", about %d:%02d:%02d left", (int)left / 3600, (int)left / 60 % 60,
                        (int)left % 60);
}

static int count(const ablation *a, ablate_state state)
{
    int n = 0;
    for (int i = 0; i < a->n_cells; i++)
        n += a->cells[i].state == state;
    return n;
}

/* The last line of what it has said that is an error, else its last. */
static void print_why(const ablate_cell *cell, weft_text *text)
{
    char *data = NULL, *rest = NULL, *why = NULL;
    size_t size = 0;
    weft_error unsaid = {0};
    if (weft_read_file(cell->out, &data, &size, &unsaid) == WEFT_OK)
        for (char *line = strtok_r(data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
            if (!why || strncmp(why, "error: ", 7) != 0 || strncmp(line, "error: ", 7) == 0)
                why = line;
    if (why)
        weft_cli_add_safely(text, why, strlen(why));
    weft_free(data);
    weft_error_release(&unsaid);
}

static void tell(const ablation *a, const ablate_cell *cell, int code, const weft_log *log)
{
    weft_text text = {0};
    weft_text_print(&text, "%s s%" PRId64 ": ", a->study.variants[cell->variant].name, cell->seed);
    if (cell->state == ABLATE_DONE)
        weft_text_add(&text, "done");
    else if (cell->state == ABLATE_STOPPED)
        weft_text_add(&text, "stopped");
    else {
        weft_text_print(&text, "failed with %d, ", code);
        print_why(cell, &text);
    }
    weft_text_print(&text, " (%d of %d", count(a, ABLATE_DONE), a->n_cells);
    print_left(a, &text);
    weft_text_add(&text, ")");
    weft_log_print(log, cell->state == ABLATE_FAILED ? WEFT_LOG_WARN : WEFT_LOG_INFO, "%s",
                   weft_text_get(&text));
    weft_text_release(&text);
}

/* On a terminal: which run, and how far they are. */
static void draw(const ablation *a, const weft_log *log)
{
    weft_text text = {0};
    weft_text_add(&text, "\r");
    for (int i = 0; i < a->n_cells; i++) {
        const ablate_cell *cell = &a->cells[i];
        json_t *progress = NULL;
        weft_error unsaid = {0};
        if (cell->state != ABLATE_RUNS)
            continue;
        weft_folder_read_progress(cell->dir, &progress, &unsaid);
        weft_text_print(&text, "%s s%" PRId64 " %" PRId64 "/%" PRId64 "  ",
                        a->study.variants[cell->variant].name, cell->seed,
                        (int64_t)json_integer_value(json_object_get(progress, "step")),
                        cell->steps);
        json_decref(progress);
        weft_error_release(&unsaid);
    }
    weft_text_print(&text, "%d of %d done", count(a, ABLATE_DONE), a->n_cells);
    print_left(a, &text);
    weft_log_print(log, WEFT_LOG_INFO, "%.78s", weft_text_get(&text));
    weft_text_release(&text);
}

/* ---- all of them ---- */

static volatile sig_atomic_t asked; /* to stop */

static void ask(int number)
{
    (void)number;
    asked = 1;
}

static void note_end(ablation *a, ablate_cell *cell, int state, const weft_log *log)
{
    const int code = weft_process_code(state);
    cell->pid = 0;
    cell->state = code == 0                                    ? ABLATE_DONE
                  : code == 3 || (asked && WIFSIGNALED(state)) ? ABLATE_STOPPED
                                                               : ABLATE_FAILED;
    a->left_steps -= cell->steps;
    a->made_steps += cell->steps;
    tell(a, cell, code, log);
}

/* Those that have ended; how many run still. */
static int reap(ablation *a, const weft_log *log)
{
    int running = 0, state;
    for (int i = 0; i < a->n_cells; i++) {
        ablate_cell *cell = &a->cells[i];
        if (cell->state != ABLATE_RUNS)
            continue;
        if (waitpid(cell->pid, &state, WNOHANG) == cell->pid)
            note_end(a, cell, state, log);
        else
            running++;
    }
    return running;
}

static void stop_all(const ablation *a)
{
    for (int i = 0; i < a->n_cells; i++)
        if (a->cells[i].state == ABLATE_RUNS)
            kill(a->cells[i].pid, SIGTERM);
}

static ablate_cell *next_cell(ablation *a)
{
    for (int seed = 0; seed < a->n_seeds; seed++) /* all variants of a seed before the next seed */
        for (int v = 0; v < a->study.n; v++)
            if (a->cells[v * a->n_seeds + seed].state == ABLATE_WAITS)
                return &a->cells[v * a->n_seeds + seed];
    return NULL;
}

/* Of the baseline's cells that are done: without the metric that is asked for nothing can be held
 * against them. */
static weft_status check_metric(ablation *a, weft_error *err)
{
    weft_status s = WEFT_OK;
    weft_text names = {0};
    for (int i = 0; i < a->n_seeds && !s && a->metric; i++) {
        ablate_cell *cell = &a->cells[i];
        if (cell->state != ABLATE_DONE || cell->lines)
            continue;
        s = weft_folder_read_metrics(cell->dir, 0, &cell->lines, err);
    }
    for (int i = 0; i < a->n_seeds && !s && a->metric; i++) {
        const json_t *lines = a->cells[i].lines;
        if (lines && !ablate_has(a, lines) && json_array_size(lines) > 0) {
            weft_lines_names(lines, &names);
            s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                          "--metric %.60s: %s has no such figure in its metrics.jsonl; it has %s",
                          a->metric, a->study.variants[0].name, weft_text_get(&names));
        }
    }
    weft_text_release(&names);
    return s;
}

weft_status ablate_run_cells(ablation *a, int *failed, bool *stopped, weft_error *err)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    const struct sigaction action = {.sa_handler = ask};
    weft_cli_log sink;
    const weft_log log = weft_cli_log_init(&sink, WEFT_LOG_INFO);
    weft_status s = WEFT_OK;
    bool told = false;
    sink.early = false;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    a->began_s = weft_now();
    for (int i = 0; i < a->n_cells; i++)
        a->left_steps += a->cells[i].state == ABLATE_DONE ? 0 : a->cells[i].steps;
    for (int turn = 0;; turn++) {
        int running = reap(a, &log);
        s = s ? s : check_metric(a, err);
        ablate_cell *next = s || asked ? NULL : next_cell(a);
        if (next && running < a->jobs) {
            s = start(a, next, err);
            continue;
        }
        if ((s || asked) && !told)
            stop_all(a);
        told = told || s || asked;
        if (!running)
            break;
        if (weft_cli_terminal() && turn % 100 == 0)
            draw(a, &log);
        nanosleep(&pause, NULL);
    }
    weft_log_print(&log, WEFT_LOG_INFO, "\r");
    weft_cli_log_release(&sink);
    *failed = count(a, ABLATE_FAILED);
    *stopped = asked != 0;
    return s;
}
