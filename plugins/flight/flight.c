/* SPDX-License-Identifier: Apache-2.0 */
/* Records what each rank sends and receives, so that of a run that hangs, or has died, one can see
 * who was missing. */
#include "flight.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <weft/files.h>

static const weft_param params[] = {
    {.name = "entries",
     .type = WEFT_PARAM_INT,
     .value = "4096",
     .min = 16,
     .max = 1e8,
     .unit = "operations",
     .flags = WEFT_PARAM_PER_RANK,
     .help = "How many of a rank's last operations are kept, at 216 bytes each."},
    {.name = "keep",
     .type = WEFT_PARAM_INT,
     .value = "3",
     .min = 1,
     .max = 1e6,
     .unit = "runs",
     .flags = WEFT_PARAM_PER_RANK,
     .help = "How many records of runs in this folder are kept, this one's among them."},
    {.name = NULL},
};

/* ---- the folder ---- */

static void remove_record(const char *folder)
{
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));) {
        char *path =
            strncmp(e->d_name, "rank-", 5) == 0 ? weft_format("%s/%s", folder, e->d_name) : NULL;
        if (path)
            unlink(path);
        weft_free(path);
    }
    if (d)
        closedir(d);
    rmdir(folder);
}

static int is_kept(const struct dirent *e)
{
    return flight_is_record(e->d_name);
}

/* The oldest go; whoever cannot be removed stays. */
static void remove_old(const flight *f, const char *parent)
{
    struct dirent **list = NULL;
    int n = scandir(parent, &list, is_kept, alphasort);
    for (int i = 0; i < n; i++) {
        char *folder = i + f->keep < n ? weft_format("%s/%s", parent, list[i]->d_name) : NULL;
        if (folder && strcmp(list[i]->d_name, f->id) != 0)
            remove_record(folder);
        weft_free(folder);
        free(list[i]); /* libc's */
    }
    free(list);
}

/* ---- events ---- */

static void set_at(flight *f, const char *what)
{
    f->at.block = f->at.stage = -1;
    f->at.micro_batch = -1;
    f->at.value[0] = f->at.by[0] = f->at.part[0] = '\0';
    flight_set_text(f->at.what, sizeof f->at.what, what);
    if (!f->ring.head)
        return;
    f->ring.head->at_ns = flight_now(&f->ring);
    f->ring.head->at = f->at;
}

static weft_status on_start(flight *f, const weft_run_view *run, weft_error *err)
{
    if (!run->dir) {
        if (run->rank == 0)
            weft_log_print(f->host->log, WEFT_LOG_WARN,
                           "flight: nothing is recorded, for the run has no folder; set [weft] "
                           "dir");
        return WEFT_OK;
    }
    if (!f->next) /* one rank alone */
        return WEFT_OK;
    char *parent = weft_format("%s/flight", run->dir),
         *folder = weft_format("%s/flight/%s", run->dir, f->id),
         *path = weft_format("%s/flight/%s/rank-%d", run->dir, f->id, run->rank);
    weft_status s = parent && folder && path ? weft_make_dirs(folder, err) : weft_fail_memory(err);
    if (!s)
        s = flight_ring_create(&f->ring, path, run->rank, run->ranks, f->capacity, f->run_ns,
                               f->members, err);
    if (!s && run->rank == 0)
        remove_old(f, parent);
    weft_free(parent);
    weft_free(folder);
    weft_free(path);
    return s == WEFT_ERR_IO ? WEFT_ERR_RUN : s; /* it is not tried again */
}

static void on_instruction(flight *f, const weft_run_view *run)
{
    const weft_instruction_view *in = run->instruction;
    const weft_node *n = in->nodes[0];
    flight_place *at = &f->at;
    flight_set_text(at->what, sizeof at->what, n->op->name);
    flight_set_text(at->value, sizeof at->value, n->n_outs ? n->outs[0]->name : "");
    flight_set_text(at->by, sizeof at->by, n->by);
    flight_set_text(at->part, sizeof at->part, in->program);
    at->block = n->block;
    at->stage = n->stage;
    at->micro_batch = run->micro_batch;
    at->step = run->step;
    f->ring.head->at_ns = flight_now(&f->ring);
    f->ring.head->at = *at;
}

static weft_status observe(void *self, weft_event event, const weft_run_view *run, weft_error *err)
{
    flight *f = self;
    switch (event) {
    case WEFT_EVENT_START:
        return on_start(f, run, err);
    case WEFT_EVENT_INSTRUCTION_BEGIN:
        if (f->ring.head)
            on_instruction(f, run);
        return WEFT_OK;
    case WEFT_EVENT_STEP_BEGIN:
        f->at.step = run->step;
        set_at(f, "the beginning of the step");
        return WEFT_OK;
    case WEFT_EVENT_STEP_END:
        set_at(f, "what follows the step");
        return WEFT_OK;
    case WEFT_EVENT_STOP:
        set_at(f, "the end of the run");
        if (!f->ring.head)
            return WEFT_OK;
        f->ring.head->status = (int32_t)run->status;
        f->ring.head->ended = 1;
        if (run->rank == 0 && run->status && run->status != WEFT_ERR_STOPPED)
            weft_log_print(f->host->log, WEFT_LOG_INFO,
                           "weft flight %s says which operation not all ranks entered", run->dir);
        return WEFT_OK;
    default:
        return WEFT_OK;
    }
}

/* ---- the plugin ---- */

static weft_status create(void *self, weft_error *err)
{
    (void)err;
    flight *f = self;
    const weft_host *host = f->host;
    f->capacity = weft_params_int(host->params, "entries");
    f->keep = weft_params_int(host->params, "keep");
    return WEFT_OK;
}

/* All ranks record in the folder that the first one names, as the run that it names. */
static weft_status open_flight(void *self, weft_error *err)
{
    flight *f = self;
    const weft_host *host = f->host;
    struct {
        char id[sizeof f->id];
        int64_t run_ns;
    } mine = {.run_ns = weft_utc()}, *all;
    time_t now = (time_t)(mine.run_ns / 1000000000);
    struct tm utc;
    if (gmtime_r(&now, &utc) && strftime(mine.id, sizeof mine.id, "%Y%m%dT%H%M%SZ", &utc))
        snprintf(mine.id + 16, sizeof mine.id - 16, "-%ld", (long)getpid());
    all = weft_alloc_zero((size_t)host->ranks, sizeof mine);
    weft_status s =
        all ? host->exchange(host, &mine, sizeof mine, all, err) : weft_fail_memory(err);
    if (!s) {
        memcpy(f->id, all->id, sizeof f->id);
        f->run_ns = all->run_ns;
    }
    weft_free(all);
    return s;
}

static void destroy(void *self)
{
    flight *f = self;
    flight_ring_release(&f->ring);
}

static const weft_contribution contributions[] = {
    {.kind = WEFT_WRAP, .service = "transport?", .table = &flight_transport, .wrap = flight_wrap},
    {.kind = WEFT_OBSERVER,
     .events = WEFT_EVENT_START | WEFT_EVENT_STEP_BEGIN | WEFT_EVENT_STEP_END | WEFT_EVENT_STOP |
               WEFT_EVENT_INSTRUCTION_BEGIN,
     .observe = observe},
    {.kind = WEFT_COMMAND, .command = &flight_command},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(flight) = {
    WEFT_PLUGIN_HEAD,
    .name = "flight",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary =
        "records operations between ranks, and names the missing ranks when a run hangs or dies",
    .numerics = WEFT_NUMERICS_BITWISE,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(flight),
    .create = create,
    .open = open_flight,
    .destroy = destroy,
};
