/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps a text file of the run's figures for Prometheus. Rank 0 alone writes. */
#include <weft/files.h>
#include <weft/weft.h>

#include <glob.h>
#include <math.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

typedef struct prometheus {
    const weft_host *host;
    double every_s, next_s; /* weft_now() when the file is due again */
    char *path;             /* NULL: nothing is written */
    char *run;              /* the label of all figures */
    double eval_loss, start_s;
    int64_t finished; /* steps */
} prometheus;

static const weft_param params[] = {
    {.name = "file",
     .type = WEFT_PARAM_PATH,
     .flags = WEFT_PARAM_PER_RANK,
     .help = "The file, whose name must end in .prom; not set: metrics.prom in the run folder."},
    {.name = "every",
     WEFT_REAL(prometheus, every_s),
     .value = "10",
     .min = 0,
     .max = 1e6,
     .unit = "seconds",
     .flags = WEFT_PARAM_PER_RANK,
     .help = "Seconds from one writing to the next, at the end of a step; 0: after every step."},
    {.name = "run",
     .type = WEFT_PARAM_STRING,
     .flags = WEFT_PARAM_PER_RANK,
     .help = "The label `run` of every figure; not set: the last part of the run folder's name."},
    {.name = NULL},
};

/* ---- the text ---- */

/* As the format wants label values: in quotes, three characters written otherwise. */
static void add_label(weft_text *text, const char *value)
{
    weft_text_add(text, "\"");
    for (const char *c = value; *c; c++) {
        if (*c == '\n')
            weft_text_add(text, "\\n");
        else if (*c == '\\' || *c == '"')
            weft_text_print(text, "\\%c", *c);
        else
            weft_text_add_utf8(text, c, 1);
    }
    weft_text_add(text, "\"");
}

static void begin_figure(weft_text *text, const char *name, const char *type, const char *help)
{
    weft_text_print(text, "# HELP weft_%s %s\n# TYPE weft_%s %s\n", name, help, name, type);
}

static void add_sample(const prometheus *p, weft_text *text, const char *name, const char *report,
                       double value)
{
    weft_text_print(text, "weft_%s{run=", name);
    add_label(text, p->run);
    if (report) {
        weft_text_add(text, ",name=");
        add_label(text, report);
    }
    weft_text_print(text, "} %.17g\n", value);
}

typedef struct figure {
    const char *name, *type, *help;
    double value;
} figure;

/* What is not known is not there. */
static void add_figures(const prometheus *p, weft_text *text, const figure *list, int n)
{
    for (int i = 0; i < n; i++) {
        if (!isfinite(list[i].value))
            continue;
        begin_figure(text, list[i].name, list[i].type, list[i].help);
        add_sample(p, text, list[i].name, NULL, list[i].value);
    }
}

static void add_reports(const prometheus *p, weft_text *text, const weft_run_view *run)
{
    bool any = false;
    for (int i = 0; i < run->n_reports; i++) {
        if (!isfinite(run->reports[i].value))
            continue;
        if (!any)
            begin_figure(text, "report", "gauge", "Scalars that plugins report, by their names.");
        any = true;
        add_sample(p, text, "report", run->reports[i].name, run->reports[i].value);
    }
}

/* What is no number, as Prometheus wants it: labels of a figure that is 1. */
static void add_info(const prometheus *p, weft_text *text, const weft_run_view *run)
{
    char host[65] = "";
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    begin_figure(text, "info", "gauge", "1; labels say what runs, and where.");
    weft_text_add(text, "weft_info{run=");
    add_label(text, p->run);
    weft_text_add(text, ",version=\"" WEFT_VERSION "\",host=");
    add_label(text, host);
    weft_text_add(text, ",dir=");
    add_label(text, run->dir ? run->dir : "");
    weft_text_print(text, ",pid=\"%ld\"} 1\n", (long)getpid());
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

static void print(const prometheus *p, const weft_run_view *run, bool running, weft_text *text)
{
    const double mfu = ratio(run->flops, run->step_s * run->peak_flops);
    const weft_saves *saves = run->saves;
    const bool samples = strcmp(run->unit, "samples") == 0;
    const figure list[] = {
        {"running", "gauge", "1 while the run goes on, 0 when it has ended.", running},
        {"failed", "gauge", "1 if the run has ended with an error.",
         run->status != WEFT_OK && run->status != WEFT_ERR_STOPPED},
        {"step", "gauge", "The last step that is finished.", (double)p->finished},
        {"steps", "gauge", "Steps of the run in all.", (double)run->steps},
        {"ranks", "gauge", "Ranks of the run.", run->ranks},
        {"last_step_timestamp_seconds", "gauge", "When the last step was finished.",
         1e-9 * (double)weft_utc()},
        {"loss", "gauge",
         samples ? "Mean loss of the last step." : "Mean loss per token of the last step.",
         run->loss},
        {"grad_norm", "gauge", "Norm of all gradients before clipping.", run->grad_norm},
        {"validation_loss", "gauge",
         samples ? "Mean loss of the last validation."
                 : "Mean loss per token of the last validation.",
         p->eval_loss},
        {"skipped_updates_total", "counter",
         "Updates left out since the start of training: the step was not finite.",
         (double)run->skipped},
        {"skipped_updates_in_a_row", "gauge", "Of these, those of the last steps.",
         (double)run->in_a_row},
        {"waits_total", "counter",
         "How often rank 0 has waited for others for so long that the log says so.",
         (double)run->waits},
        {"start_timestamp_seconds", "gauge", "When this process began to train.", p->start_s},
        {"last_checkpoint_timestamp_seconds", "gauge", "When the newest checkpoint was made.",
         saves && saves->time_ns ? 1e-9 * (double)saves->time_ns : NAN},
        {"last_checkpoint_step", "gauge", "The step that it is of.",
         saves && saves->time_ns ? (double)saves->step : NAN},
        {"failed_saves_total", "counter", "Checkpoints that this process could not make.",
         saves ? (double)saves->failed : NAN},
        {"checkpoint_wait_seconds_total", "counter",
         "How long training has waited for checkpoints of this process.",
         saves ? saves->held_s : NAN},
        {"slowest_rank", "gauge",
         "The rank that took longest for what it does itself, in the step before.",
         run->slowest_s > 0 ? run->slowest_rank : NAN},
        {"slowest_rank_seconds", "gauge", "How long that took, without sending and waiting.",
         run->slowest_s > 0 ? run->slowest_s : NAN},
        {"median_rank_seconds", "gauge", "The same of the median of all ranks.",
         run->slowest_s > 0 ? run->median_s : NAN},
        {samples ? "samples_total" : "tokens_total", "counter",
         samples ? "Samples since the start of training."
                 : "Tokens with a label since the start of training.",
         (double)run->total_tokens},
        {samples ? "samples_per_second" : "tokens_per_second", "gauge",
         samples ? "Samples of the last step by its time, all ranks."
                 : "Tokens of the last step by its time, all ranks.",
         ratio((double)run->tokens, run->step_s)},
        {"step_seconds", "gauge", "Time of the last step.", run->step_s},
        {"data_seconds", "gauge", "Of it, waiting for data.", run->data_s},
        {"mfu_ratio", "gauge", "Operations of the model by the device's measured rate.",
         mfu > 1 ? 1 : mfu},
        {"peak_bytes", "gauge", "High-water mark of the process of rank 0.",
         (double)run->peak_bytes},
        {"planned_bytes", "gauge", "Memory of rank 0 as planned.", (double)run->planned_bytes},
    };
    add_info(p, text, run);
    add_figures(p, text, list, sizeof list / sizeof list[0]);
    add_reports(p, text, run);
}

/* Whole or not at all: whoever reads it finds the figures of one step. */
static weft_status write_file(const prometheus *p, const weft_run_view *run, bool running,
                              weft_error *err)
{
    weft_text text = {0};
    print(p, run, running, &text);
    weft_status s = text.out_of_memory ? weft_fail_memory(err)
                                       : weft_write_file(p->path, text.data, text.size, err);
    weft_text_release(&text);
    return s;
}

/* ---- events ---- */

static const char *last_part(const char *dir)
{
    const char *slash = dir ? strrchr(dir, '/') : NULL;
    return !dir ? "" : slash && slash[1] ? slash + 1 : dir;
}

/* What a process that was killed has left of this file; who writes one still holds its lock. */
static void remove_left(const char *path)
{
    glob_t left = {0};
    char *pattern = weft_format("%s.tmp-*", path);
    if (pattern && glob(pattern, GLOB_NOSORT, NULL, &left) == 0)
        for (size_t i = 0; i < left.gl_pathc; i++) {
            const int fd = weft_open_to_write(left.gl_pathv[i], WEFT_WRITE_SHARED);
            if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
                unlink(left.gl_pathv[i]);
            if (fd >= 0)
                close(fd);
        }
    globfree(&left);
    weft_free(pattern);
}

static weft_status on_start(prometheus *p, const weft_run_view *run, weft_error *err)
{
    const char *file = weft_params_text(p->host->params, "file"),
               *name = weft_params_text(p->host->params, "run");
    if (!*file && !run->dir) {
        weft_log_print(p->host->log, WEFT_LOG_WARN,
                       "prometheus: nothing is written, for the run has no folder; set [weft] dir "
                       "or [prometheus] file");
        return WEFT_OK;
    }
    p->start_s = 1e-9 * (double)weft_utc();
    p->finished = run->step;
    p->path = *file ? weft_strdup(file) : weft_format("%s/metrics.prom", run->dir);
    p->run = weft_strdup(*name ? name : last_part(run->dir));
    if (!p->path || !p->run)
        return weft_fail_memory(err);
    remove_left(p->path);
    return WEFT_OK;
}

static weft_status on_step_end(prometheus *p, const weft_run_view *run, weft_error *err)
{
    p->finished = run->step;
    if (run->step < run->steps && weft_now() < p->next_s)
        return WEFT_OK;
    weft_status s = write_file(p, run, true, err);
    p->next_s = s ? 0 : weft_now() + p->every_s;
    return s;
}

static weft_status observe(void *self, weft_event event, const weft_run_view *run, weft_error *err)
{
    prometheus *p = self;
    if (run->rank != 0)
        return WEFT_OK;
    if (event == WEFT_EVENT_START)
        return on_start(p, run, err);
    if (!p->path)
        return WEFT_OK;
    if (event == WEFT_EVENT_EVALUATE)
        p->eval_loss = run->eval_loss;
    if (event == WEFT_EVENT_STEP_END)
        return on_step_end(p, run, err);
    return event == WEFT_EVENT_STOP ? write_file(p, run, false, err) : WEFT_OK;
}

/* ---- the plugin ---- */

static void destroy(void *self)
{
    prometheus *p = self;
    weft_free(p->path);
    weft_free(p->run);
}

/* Others are not read by the collector, which would be noticed late. */
static weft_status check_file(const weft_host *host, weft_error *err)
{
    const char *file = weft_params_text(host->params, "file"), *end = strrchr(file, '.');
    if (!*file || (end && strcmp(end, ".prom") == 0))
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(host->params, "file"),
                     "[prometheus] file = %s must end in .prom: the collector of text files reads "
                     "no others",
                     file);
}

static weft_status create(void *self, weft_error *err)
{
    prometheus *p = self;
    p->eval_loss = NAN;
    return check_file(p->host, err);
}

static const weft_contribution contributions[] = {
    {.kind = WEFT_OBSERVER,
     .events = WEFT_EVENT_START | WEFT_EVENT_STEP_END | WEFT_EVENT_EVALUATE | WEFT_EVENT_STOP,
     .observe = observe},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(prometheus) = {
    WEFT_PLUGIN_HEAD,
    .name = "prometheus",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "keeps a text file of the run's figures for Prometheus",
    .numerics = WEFT_NUMERICS_BITWISE,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(prometheus),
    .create = create,
    .destroy = destroy,
};
