/* SPDX-License-Identifier: Apache-2.0 */
/* Watches the run: metrics.jsonl, console lines, a progress bar on a terminal. Rank 0 alone writes.
 */
#include "metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <weft/files.h>

static const double redraw_s = 0.1;

typedef struct metrics {
    const weft_host *host;
    int64_t every, parts, hash;
    bool jsonl, bar;
    metrics_hash last; /* of the step that is made */
    weft_journal file; /* metrics.jsonl; no path: it is not written */
    char *earlier;     /* where lines go of steps that are made again */
    int64_t from;      /* steps finished before this run began */
    bool begun;        /* the file is as this run's lines need it */
    metrics_window window;
    double last_loss;
    metrics_memory memory;
    double drawn_s; /* when the bar was last drawn */
    bool drawn;
} metrics;

static const char *const bar_choices[] = {"auto", "yes", "no", NULL};

static const weft_param params[] = {
    {.name = "every",
     .type = WEFT_PARAM_INT,
     .value = "10",
     .min = 0,
     .max = 1e15,
     .unit = "steps",
     .flags = WEFT_PARAM_PER_RANK,
     .help =
         "Steps from one console line to the next, beside the first and the last step's; 0: none."},
    {.name = "jsonl",
     .type = WEFT_PARAM_BOOL,
     .value = "yes",
     .flags = WEFT_PARAM_PER_RANK,
     .help = "Append every step to metrics.jsonl in the run folder."},
    {.name = "parts",
     .type = WEFT_PARAM_INT,
     .value = "0",
     .min = 0,
     .max = 1e15,
     .unit = "steps",
     .flags = WEFT_PARAM_PER_RANK,
     .help = "Steps from one measurement of how long the parts of a step take to the next, for "
             "weft plan --times; 0: none."},
    {.name = "hash",
     .type = WEFT_PARAM_INT,
     .value = "0",
     .min = 0,
     .max = 1e15,
     .unit = "steps",
     .help = "Steps from one hash of the parameters and the other state to the next, beside the "
             "first and the last step's; the same bits have the same hash on any mesh; 0: none."},
    {.name = "bar",
     .type = WEFT_PARAM_CHOICE,
     .value = "auto",
     .choices = bar_choices,
     .flags = WEFT_PARAM_PER_RANK,
     .help = "Show a progress bar; auto: if the log goes to a terminal."},
    {.name = NULL},
};

/* ---- metrics.jsonl ---- */

/* A run that was killed may have left half a line behind. */
static weft_status end_last_line(const metrics *self, weft_error *err)
{
    char last = '\n';
    off_t size = lseek(self->file.fd, 0, SEEK_END);
    if (size <= 0 || pread(self->file.fd, &last, 1, size - 1) != 1 || last == '\n' ||
        write(self->file.fd, "\n", 1) == 1)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "%s: cannot write: %s", self->file.path,
                     strerror(errno));
}

/* Before the first line: those of steps that are made again go elsewhere. */
static weft_status begin(metrics *self, weft_error *err)
{
    bool moved = false;
    if (self->begun)
        return WEFT_OK;
    weft_status s = weft_journal_open(&self->file, err);
    s = s ? s
          : metrics_move(self->file.fd, self->file.path, self->earlier, self->from, &moved, err);
    s = s ? s : end_last_line(self, err);
    if (moved)
        weft_log_print(self->host->log, WEFT_LOG_INFO,
                       "metrics of steps after %lld, which are made again, are kept in %s",
                       (long long)self->from, self->earlier);
    self->begun = !s;
    return s;
}

static weft_status on_start(metrics *self, const weft_run_view *run, weft_error *err)
{
    if (!self->jsonl || !run->dir || self->file.path)
        return WEFT_OK;
    char *path = weft_format("%s/metrics.jsonl", run->dir);
    self->earlier = weft_format("%s/metrics.earlier.jsonl", run->dir);
    self->from = run->step;
    weft_status s =
        path && self->earlier ? weft_journal_init(&self->file, path, err) : weft_fail_memory(err);
    weft_free(path);
    return s;
}

static weft_status write_lines(metrics *self, weft_error *err)
{
    weft_status s = self->file.waiting.size ? begin(self, err) : WEFT_OK;
    s = s ? s : weft_journal_write(&self->file, err);
    if (s || !self->file.lost)
        return s;
    weft_log_print(self->host->log, WEFT_LOG_WARN,
                   "%s lacks %lld lines: it could not be written for too long", self->file.path,
                   (long long)self->file.lost);
    self->file.lost = 0;
    return WEFT_OK;
}

/* Takes the line. */
static weft_status append(metrics *self, weft_text *line, weft_error *err)
{
    weft_status s = WEFT_OK;
    if (self->file.path) {
        weft_text_add(line, "\n");
        s = weft_journal_add(&self->file, line, err);
        s = s ? s : write_lines(self, err);
    }
    weft_text_release(line);
    return s;
}

/* ---- the console ---- */

static weft_status say(const metrics *self, weft_text *text, weft_error *err)
{
    if (!text->out_of_memory)
        weft_log_print(self->host->log, WEFT_LOG_INFO, "%s", weft_text_get(text));
    weft_status status = text->out_of_memory ? weft_fail_memory(err) : WEFT_OK;
    weft_text_release(text);
    return status;
}

/* Columns of the terminal; COLUMNS overrides what the terminal says. */
static int terminal_width(void)
{
    const char *columns = getenv("COLUMNS");
    long n = columns ? strtol(columns, NULL, 10) : 0;
    struct winsize size;
    if (n > 0 && n < 10000)
        return (int)n;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 80;
}

/* The last column stays free: a full line would make some terminals wrap. */
static weft_status draw(metrics *self, const weft_run_view *run, weft_error *err)
{
    if (!self->bar ||
        (self->drawn && run->step < run->steps && weft_now() - self->drawn_s < redraw_s))
        return WEFT_OK;
    self->drawn = true;
    self->drawn_s = weft_now();
    weft_text text = {0};
    weft_text_add(&text, "\r");
    metrics_add_bar(&text, run, &self->window, terminal_width() - 1);
    return say(self, &text, err);
}

static void erase(metrics *self)
{
    if (self->drawn)
        weft_log_print(self->host->log, WEFT_LOG_INFO, "\r");
    self->drawn = false;
}

/* ---- events ---- */

static bool wants_line(const metrics *self, const weft_run_view *run)
{
    return self->every > 0 &&
           (self->window.n == 1 || run->step == run->steps || run->step % self->every == 0);
}

static weft_status on_step_end(metrics *self, const weft_run_view *run, weft_error *err)
{
    weft_text text = {0}, json = {0};
    if (self->parts && (run->step + 1) % self->parts == 0)
        weft_run_ask(run, WEFT_ASK_TIMES);
    metrics_window_add(&self->window, run);
    self->last_loss = run->loss;
    self->memory = (metrics_memory){run->peak_bytes, run->base_bytes, run->planned_bytes};
    metrics_add_step_json(&json, run, &self->last);
    self->last.known = false;
    weft_status written = append(self, &json, err), status = WEFT_OK;
    if (wants_line(self, run)) {
        metrics_add_step_line(&text, run, &self->window,
                              self->host->terminal ? terminal_width() - 1 : INT_MAX);
        status = say(self, &text, err);
    }
    status = status ? status : draw(self, run, err);
    return written ? written : status;
}

static weft_status on_evaluate(metrics *self, const weft_run_view *run, weft_error *err)
{
    weft_text text = {0}, json = {0};
    metrics_add_eval_json(&json, run);
    weft_status written = append(self, &json, err);
    metrics_add_eval_line(&text, run);
    weft_status said = say(self, &text, err);
    return written ? written : said;
}

static weft_status on_stop(metrics *self, const weft_run_view *run, weft_error *err)
{
    weft_text text = {0};
    erase(self);
    weft_status written = write_lines(self, err);
    weft_journal_release(&self->file);
    metrics_add_summary(&text, run, &self->window, self->last_loss, &self->memory);
    weft_status said = say(self, &text, err);
    return written ? written : said;
}

static weft_status observe(void *self_, weft_event event, const weft_run_view *run, weft_error *err)
{
    metrics *self = self_;
    if (run->rank != 0)
        return WEFT_OK;
    switch (event) {
    case WEFT_EVENT_START:
        return on_start(self, run, err);
    case WEFT_EVENT_STEP_END:
        return on_step_end(self, run, err);
    case WEFT_EVENT_EVALUATE:
        return on_evaluate(self, run, err);
    case WEFT_EVENT_STOP:
        return on_stop(self, run, err);
    default:
        return WEFT_OK;
    }
}

/* ---- hashes: all ranks ---- */

static unsigned wants_updates(void *self_)
{
    const metrics *self = self_;
    return self->hash ? WEFT_EVENT_UPDATED : 0;
}

static weft_status observe_update(void *self_, weft_event event, const weft_run_view *run,
                                  weft_error *err)
{
    metrics *self = self_;
    (void)event;
    if (run->step != 1 && run->step != run->steps && run->step % self->hash != 0)
        return WEFT_OK;
    return metrics_hash_state(self->host, run, &self->last, err);
}

/* ---- the plugin ---- */

static weft_status create(void *self_, weft_error *err)
{
    (void)err;
    metrics *self = self_;
    const weft_host *host = self->host;
    self->every = weft_params_int(host->params, "every");
    self->parts = weft_params_int(host->params, "parts");
    self->hash = weft_params_int(host->params, "hash");
    self->jsonl = weft_params_bool(host->params, "jsonl");
    self->bar = weft_params_is(host->params, "bar", "yes") ||
                (weft_params_is(host->params, "bar", "auto") && host->terminal);
    self->last_loss = NAN;
    return WEFT_OK;
}

/* An error switches an observer off, so STOP may never come: what is open or drawn ends here at the
 * latest. */
static void destroy(void *self_)
{
    metrics *self = self_;
    if (!self)
        return;
    erase(self);
    weft_journal_release(&self->file);
    weft_free(self->earlier);
}

static const weft_contribution contributions[] = {
    {.kind = WEFT_OBSERVER,
     .events = WEFT_EVENT_START | WEFT_EVENT_STEP_END | WEFT_EVENT_EVALUATE | WEFT_EVENT_STOP,
     .observe = observe},
    /* Ranks wait for each other, so an error of one must end it for all. */
    {.kind = WEFT_OBSERVER,
     .events = WEFT_EVENT_UPDATED,
     .fails = true,
     .wants = wants_updates,
     .observe = observe_update},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(metrics) = {
    WEFT_PLUGIN_HEAD,
    .name = "metrics",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "metrics.jsonl, console lines and a progress bar",
    .numerics = WEFT_NUMERICS_BITWISE,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(metrics),
    .create = create,
    .destroy = destroy,
};
