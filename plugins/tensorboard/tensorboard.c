/* SPDX-License-Identifier: Apache-2.0 */
/* Writes an event file for TensorBoard. Rank 0 alone writes. */
#include "tensorboard.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <weft/files.h>

enum { MOST_SCALARS = 64 };

typedef struct tensorboard {
    const weft_host *host;
    int64_t every;
    weft_journal file; /* no path: nothing is written */
    char *folder;
    int64_t first; /* the first step that is logged */
    bool settings; /* the file has the run's settings, and will have its end */
} tensorboard;

static const weft_param params[] = {
    {.name = "every",
     .type = WEFT_PARAM_INT,
     .value = "1",
     .min = 1,
     .max = 1e15,
     .unit = "steps",
     .flags = WEFT_PARAM_PER_RANK,
     .help = "Steps from one that is logged to the next, beside the first and the last."},
    {.name = "folder",
     .type = WEFT_PARAM_PATH,
     .flags = WEFT_PARAM_PER_RANK,
     .help = "Where the event files are; not set: tb in the run folder."},
    {.name = NULL},
};

/* ---- the file ---- */

static double wall_s(void)
{
    return 1e-9 * (double)weft_utc();
}

/* Whole records in one piece: a reader never waits for the rest of one. */
static weft_status write_out(tensorboard *t, weft_text *text, weft_error *err)
{
    weft_status s = weft_journal_add(&t->file, text, err);
    weft_text_release(text);
    if (!s && t->file.waiting.size && t->file.fd < 0)
        s = weft_make_dirs(t->folder, err);
    return s ? s : weft_journal_write(&t->file, err);
}

/* Files are read in the order of their names, which begin with a time. */
static weft_status name_file(tensorboard *t, const char *dir, weft_error *err)
{
    const char *given = weft_params_text(t->host->params, "folder");
    char host[65] = "", *path;
    t->folder = *given ? weft_strdup(given) : weft_format("%s/tb", dir);
    if (!t->folder)
        return weft_fail_memory(err);
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    path = weft_format("%s/events.out.tfevents.%010lld.%s.%ld.0", t->folder,
                       (long long)(weft_utc() / 1000000000), *host ? host : "host", (long)getpid());
    weft_status s = path ? weft_journal_init(&t->file, path, err) : weft_fail_memory(err);
    weft_free(path);
    return s;
}

/* Markdown shows as it is what is indented by four. */
static void add_indented(weft_text *out, const char *text)
{
    while (*text) {
        const int size = (int)strcspn(text, "\n");
        weft_text_print(out, "    %.*s\n", size, text);
        text += size + (text[size] == '\n');
    }
}

/* The settings as the run folder records them; a run without one has no record. */
static weft_status add_record_of_settings(tensorboard *t, const char *dir, weft_text *out,
                                          weft_error *err)
{
    char *path = dir ? weft_format("%s/config.ini", dir) : NULL, *ini = NULL;
    weft_text markdown = {0};
    weft_pool pool = {0};
    weft_error unread = {0};
    tensorboard_setting *list;
    size_t size;
    int n;
    weft_status s = dir && !path ? weft_fail_memory(err) : WEFT_OK;
    if (s || !dir)
        return s;
    if (weft_read_file(path, &ini, &size, &unread)) {
        weft_log_print(t->host->log, WEFT_LOG_WARN,
                       "tensorboard: the page HParams will not know this run's settings: %s",
                       weft_error_text(&unread));
    } else if (!tensorboard_read_settings(ini, &pool, &list, &n)) {
        s = weft_fail_memory(err);
    } else {
        tensorboard_add_hparams(out, wall_s(), list, n);
        add_indented(&markdown, ini);
        tensorboard_add_text(out, wall_s(), "config.ini", &markdown);
        t->settings = true;
    }
    out->out_of_memory = out->out_of_memory || markdown.out_of_memory;
    weft_text_release(&markdown);
    weft_error_release(&unread);
    weft_pool_release(&pool);
    weft_free(ini);
    weft_free(path);
    return s;
}

/* What a checkpoint was before is made again: TensorBoard forgets what files have of it. */
static weft_status on_start(tensorboard *t, const weft_run_view *run, weft_error *err)
{
    weft_text text = {0};
    t->first = run->step + 1;
    if (!run->dir && !*weft_params_text(t->host->params, "folder")) {
        weft_log_print(t->host->log, WEFT_LOG_WARN,
                       "tensorboard: nothing is written, for the run has no folder; set [weft] dir "
                       "or [tensorboard] folder");
        return WEFT_OK;
    }
    weft_status s = name_file(t, run->dir, err);
    if (s)
        return s;
    tensorboard_add_version(&text, wall_s());
    tensorboard_add_start(&text, wall_s(), t->first);
    s = add_record_of_settings(t, run->dir, &text, err);
    if (!s)
        return write_out(t, &text, err);
    weft_text_release(&text);
    return s;
}

/* ---- scalars ---- */

static double ratio(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

static double gib(size_t bytes)
{
    return (double)bytes / (1 << 30);
}

static int add_reports(const weft_run_view *run, tensorboard_scalar *list, int n)
{
    for (int i = 0; i < run->n_reports && n < MOST_SCALARS; i++)
        if (strcmp(run->reports[i].name, "grad_norm") != 0)
            list[n++] = (tensorboard_scalar){run->reports[i].name, run->reports[i].value};
    return n;
}

static weft_status on_step_end(tensorboard *t, const weft_run_view *run, weft_error *err)
{
    weft_text text = {0};
    if (!t->file.path)
        return WEFT_OK;
    if (run->step % t->every != 0 && run->step != t->first && run->step != run->steps)
        return write_out(t, &text, err); /* what waits */
    const double rate = ratio(run->flops, run->step_s), mfu = 100 * ratio(rate, run->peak_flops);
    const bool samples = strcmp(run->unit, "samples") == 0;
    tensorboard_scalar list[MOST_SCALARS] = {
        {"loss_metrics/global_avg_loss", run->loss},
        {"grad_norm", run->grad_norm},
        {samples ? "throughput(samples/s)" : "throughput(tps)",
         ratio((double)run->tokens, run->step_s) / run->ranks},
        {"tflops", rate / 1e12},
        {"mfu(%)", mfu > 100 ? 100 : mfu},
        {"time_metrics/end_to_end(s)", run->step_s},
        {"time_metrics/data_loading(s)", run->data_s},
        {"time_metrics/data_loading(%)", 100 * ratio(run->data_s, run->step_s)},
        {samples ? "n_samples_seen" : "n_tokens_seen", (double)run->total_tokens},
        {"memory/process_peak(GiB)", gib(run->peak_bytes)},
        {"memory/planned(GiB)", gib(run->planned_bytes)},
    };
    int n = 0;
    while (list[n].tag)
        n++;
    n = add_reports(run, list, n);
    tensorboard_add_scalars(&text, wall_s(), run->step, list, n);
    return write_out(t, &text, err);
}

static weft_status on_evaluate(tensorboard *t, const weft_run_view *run, weft_error *err)
{
    const tensorboard_scalar loss = {"validation_metrics/loss", run->eval_loss};
    weft_text text = {0};
    if (!t->file.path)
        return WEFT_OK;
    tensorboard_add_scalars(&text, wall_s(), run->step, &loss, 1);
    return write_out(t, &text, err);
}

static weft_status on_stop(tensorboard *t, const weft_run_view *run, weft_error *err)
{
    weft_text text = {0};
    if (t->settings)
        tensorboard_add_end(&text, wall_s(), !run->status);
    weft_status s = t->file.path ? write_out(t, &text, err) : WEFT_OK;
    weft_journal_release(&t->file);
    return s;
}

static weft_status observe(void *self, weft_event event, const weft_run_view *run, weft_error *err)
{
    tensorboard *t = self;
    if (run->rank != 0)
        return WEFT_OK;
    switch (event) {
    case WEFT_EVENT_START:
        return on_start(t, run, err);
    case WEFT_EVENT_STEP_END:
        return on_step_end(t, run, err);
    case WEFT_EVENT_EVALUATE:
        return on_evaluate(t, run, err);
    case WEFT_EVENT_STOP:
        return on_stop(t, run, err);
    default:
        return WEFT_OK;
    }
}

/* ---- the plugin ---- */

static weft_status create(void *self, weft_error *err)
{
    (void)err;
    tensorboard *t = self;
    const weft_host *host = t->host;
    t->every = weft_params_int(host->params, "every");
    return WEFT_OK;
}

static void destroy(void *self)
{
    tensorboard *t = self;
    weft_journal_release(&t->file);
    weft_free(t->folder);
}

static const weft_contribution contributions[] = {
    {.kind = WEFT_OBSERVER,
     .events = WEFT_EVENT_START | WEFT_EVENT_STEP_END | WEFT_EVENT_EVALUATE | WEFT_EVENT_STOP,
     .observe = observe},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(tensorboard) = {
    WEFT_PLUGIN_HEAD,
    .name = "tensorboard",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "writes event files for TensorBoard",
    .numerics = WEFT_NUMERICS_BITWISE,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(tensorboard),
    .create = create,
    .destroy = destroy,
};
