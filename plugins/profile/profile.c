/* SPDX-License-Identifier: Apache-2.0 */
/* Records which instruction of a few steps ran when, on every rank. */
#include "profile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <weft/files.h>

enum { ROWS = 12 }; /* of a table in the log */

typedef struct profile {
    const weft_host *host;
    int64_t first, last; /* steps that are recorded */
    profile_limits limits;
    profile_record record;
    bool on, done;
    double step_start;
} profile;

static const char *const measured[] = {"auto", NULL};

static const weft_param params[] = {
    {.name = "first_step",
     .type = WEFT_PARAM_INT,
     .value = "3",
     .min = 1,
     .max = 1e15,
     .unit = "steps",
     .help = "The first step to record: a run's first steps are no measure of the others."},
    {.name = "steps",
     .type = WEFT_PARAM_INT,
     .value = "2",
     .min = 1,
     .max = 1e6,
     .unit = "steps",
     .help = "How many steps to record."},
    {.name = "flops_per_s",
     .type = WEFT_PARAM_REAL,
     .value = "auto",
     .min = 1,
     .max = 1e18,
     .unit = "FLOP/s",
     .choices = measured,
     .flags = WEFT_PARAM_PER_RANK,
     .help = "The rate of products of one rank that times are held against; auto: what the device "
             "measures."},
    {.name = "bytes_per_s",
     .type = WEFT_PARAM_REAL,
     .value = "auto",
     .min = 1,
     .max = 1e18,
     .unit = "bytes/s",
     .choices = measured,
     .flags = WEFT_PARAM_PER_RANK,
     .help = "The rate at which one rank reads and writes memory; auto: measured, where the "
             "device's memory is the host's."},
    {.name = "sent_per_s",
     .type = WEFT_PARAM_REAL,
     .value = "0",
     .min = 0,
     .max = 1e18,
     .unit = "bytes/s",
     .flags = WEFT_PARAM_PER_RANK,
     .help = "The rate at which one rank sends; 0: not known."},
    {.name = NULL},
};

/* ---- tables ---- */

static bool is_sent(weft_instruction_kind kind)
{
    return kind == WEFT_COLLECTIVE || kind == WEFT_POST_SEND || kind == WEFT_POST_RECV ||
           kind == WEFT_AWAIT;
}

static weft_status fill_tables(const profile *self, profile_table *ops, profile_table *blocks,
                               weft_error *err)
{
    const profile_record *r = &self->record;
    weft_status s = WEFT_OK;
    for (int64_t i = 0; i < r->n_events && !s; i++) {
        const profile_event *e = &r->events[i];
        const profile_kind *k = &r->kinds[e->kind];
        double seconds = 1e-9 * (double)(e->end_ns - e->start_ns);
        char name[32];
        profile_block_name(k->block, name, sizeof name);
        s = profile_table_add(ops, &self->limits, k->op, seconds, k->flops, (double)k->bytes,
                              is_sent(k->kind), err);
        s = s ? s
              : profile_table_add(blocks, &self->limits, name, seconds, k->flops, (double)k->bytes,
                                  is_sent(k->kind), err);
    }
    return s;
}

/* What of the steps no instruction took: data, reports, and whatever else the host does. */
static void print_head(const profile *self, const weft_run_view *run, weft_text *text)
{
    const profile_record *r = &self->record;
    double steps = 0, instructions = 0;
    for (int i = 0; i < r->n_steps; i++)
        steps += 1e-9 * (double)(r->steps[i].end_ns - r->steps[i].start_ns);
    for (int64_t i = 0; i < r->n_events; i++)
        instructions += 1e-9 * (double)(r->events[i].end_ns - r->events[i].start_ns);
    weft_text_print(
        text, "profile: rank %d, %d step%s: %.4g ms a step, %.4g ms in %" PRId64 " instructions; ",
        run->rank, r->n_steps, r->n_steps == 1 ? "" : "s", 1000 * steps / r->n_steps,
        1000 * instructions / r->n_steps, r->n_events / r->n_steps);
    profile_limits_print(&self->limits, text);
    weft_text_add(text, "\n");
}

static weft_status say_tables(const profile *self, const weft_run_view *run, weft_error *err)
{
    profile_table ops = {0}, blocks = {0};
    weft_text text = {0};
    weft_status s = fill_tables(self, &ops, &blocks, err);
    if (!s) {
        print_head(self, run, &text);
        profile_table_print(&ops, "op", self->record.n_steps, ROWS, &text);
        profile_table_print(&blocks, "block", self->record.n_steps, ROWS, &text);
        s = text.out_of_memory ? weft_fail_memory(err) : WEFT_OK;
    }
    for (char *line = text.data; !s && line && *line;) {
        size_t n = strcspn(line, "\n");
        line[n] = '\0';
        weft_log_print(self->host->log, WEFT_LOG_INFO, "%s", line);
        line += n + 1;
    }
    weft_text_release(&text);
    profile_table_release(&ops);
    profile_table_release(&blocks);
    return s;
}

/* ---- the file ---- */

static weft_status write_file(const profile *self, const weft_run_view *run, weft_error *err)
{
    char *folder = profile_folder(run->dir), *path = profile_path(run->dir, run->rank);
    weft_text text = {0};
    weft_status s = folder && path ? weft_make_dirs(folder, err) : weft_fail_memory(err);
    if (!s) {
        profile_trace_print(&self->record, &self->limits, run->rank, run->ranks, &text);
        s = text.out_of_memory ? weft_fail_memory(err)
                               : weft_write_file(path, text.data, text.size, err);
    }
    if (!s && run->rank == 0)
        weft_log_print(self->host->log, WEFT_LOG_INFO,
                       "profile: %s/rank-*.json; weft profile %s makes one trace of all ranks",
                       folder, run->dir);
    weft_text_release(&text);
    weft_free(folder);
    weft_free(path);
    return s;
}

/* Whatever was recorded: also of a run that ends before its time. */
static weft_status finish(profile *self, const weft_run_view *run, weft_error *err)
{
    weft_status s = WEFT_OK;
    if (self->done)
        return WEFT_OK;
    self->on = false;
    self->done = true;
    if (weft_params_is(self->host->params, "flops_per_s", "auto"))
        self->limits.flops_per_s = run->peak_flops;
    if (run->rank == 0 && self->record.n_steps == 0 && run->step >= self->last)
        weft_log_print(self->host->log, WEFT_LOG_WARN,
                       "profile: nothing is recorded: the steps %" PRId64 " to %" PRId64
                       " were done before this run began",
                       self->first, self->last);
    else if (run->rank == 0 && self->record.n_steps == 0)
        weft_log_print(self->host->log, WEFT_LOG_WARN,
                       "profile: nothing is recorded: step %" PRId64 " was not reached; set "
                       "[profile] first_step",
                       self->first);
    if (self->record.n_events > 0 && run->dir)
        s = write_file(self, run, err);
    if (!s && self->record.n_steps > 0 && run->rank == 0)
        s = say_tables(self, run, err);
    profile_record_release(&self->record);
    return s == WEFT_ERR_IO ? WEFT_ERR_RUN : s; /* it is not tried again */
}

/* ---- events ---- */

static weft_status on_step_end(profile *self, const weft_run_view *run, weft_error *err)
{
    if (!self->on)
        return WEFT_OK;
    weft_status s =
        profile_record_step(&self->record, run->step, self->step_start, weft_now(), err);
    return s || run->step < self->last ? s : finish(self, run, err);
}

static weft_status observe(void *self_, weft_event event, const weft_run_view *run, weft_error *err)
{
    profile *self = self_;
    switch (event) {
    case WEFT_EVENT_INSTRUCTION_TIMES:
        return self->on ? profile_record_add(&self->record, run, run->began_s, run->ended_s, err)
                        : WEFT_OK;
    case WEFT_EVENT_STEP_BEGIN:
        if (!self->on && !self->done && run->step >= self->first && run->step <= self->last) {
            profile_record_begin(&self->record);
            self->on = true;
        }
        self->step_start = self->on ? weft_now() : 0;
        return WEFT_OK;
    case WEFT_EVENT_STEP_END:
        return on_step_end(self, run, err);
    case WEFT_EVENT_STOP:
        return finish(self, run, err);
    default:
        return WEFT_OK;
    }
}

/* ---- the plugin ---- */

static weft_status create(void *self_, weft_error *err)
{
    (void)err;
    profile *self = self_;
    const weft_host *host = self->host;
    self->first = weft_params_int(host->params, "first_step");
    self->last = self->first + weft_params_int(host->params, "steps") - 1;
    self->limits = (profile_limits){weft_params_real(host->params, "flops_per_s"),
                                    weft_params_real(host->params, "bytes_per_s"),
                                    weft_params_real(host->params, "sent_per_s")};
    return WEFT_OK;
}

/* Before the run takes its memory: what is needed for this is given back by then. */
static weft_status open_profile(void *self_, weft_error *err)
{
    profile *self = self_;
    void *device_self;
    const weft_device *device = self->host->service(self->host, "device", &device_self);
    (void)err;
    if (!self->host->no_data && device && device->host_memory &&
        weft_params_is(self->host->params, "bytes_per_s", "auto"))
        self->limits.bytes_per_s = profile_measure_memory(self->host->threads);
    return WEFT_OK;
}

static void destroy(void *self_)
{
    profile *self = self_;
    if (!self)
        return;
    profile_record_release(&self->record);
}

static const weft_contribution contributions[] = {
    {.kind = WEFT_OBSERVER,
     .events = WEFT_EVENT_STEP_BEGIN | WEFT_EVENT_STEP_END | WEFT_EVENT_STOP |
               WEFT_EVENT_INSTRUCTION_TIMES,
     .observe = observe},
    {.kind = WEFT_COMMAND, .command = &profile_command},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(profile) = {
    WEFT_PLUGIN_HEAD,
    .name = "profile",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "records when each instruction of chosen steps ran, as tables and traces",
    .numerics = WEFT_NUMERICS_BITWISE,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(profile),
    .create = create,
    .open = open_profile,
    .destroy = destroy,
};
