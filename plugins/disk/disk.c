/* SPDX-License-Identifier: Apache-2.0 */
/* Far memory on a disk: a scratch file without a name, all of whose room is taken when the run
 * begins, and threads that read and write it. */
#include "disk.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/files.h>

static const char *const choices[] = {
    [DISK_AUTO] = "auto", [DISK_DIRECT] = "yes", [DISK_CACHED] = "no", NULL};

typedef struct disk {
    const weft_host *host;
    const char *dir, *read_rate, *write_rate, *slowest;
    int64_t threads;
    int direct; /* a disk_direct */
    bool verify;
    weft_far_rates rates; /* 0: not known */
    double floor;         /* bytes a second; 0: any will do */
    disk_queue queue;
    disk_queue told; /* what `counts` has told of it */
} disk;

static const weft_param params[] = {
    {.name = "dir",
     WEFT_PATH(disk, dir),
     .flags = WEFT_PARAM_PER_RANK,
     .help = "Folder on the disk; not set: the run folder. It exists, and holds as much as the "
             "plan says lies far, of each rank on the host."},
    {.name = "threads",
     WEFT_INT(disk, threads),
     .value = "2",
     .min = 1,
     .max = DISK_MOST_THREADS,
     .flags = WEFT_PARAM_PER_RANK,
     .help = "Threads that read and write; each has 1 MiB of its own."},
    {.name = "direct",
     WEFT_CHOICE(disk, direct),
     .value = "auto",
     .choices = choices,
     .flags = WEFT_PARAM_PER_RANK,
     .help = "Past the system's page cache: yes, or refused; no: what was moved is dropped from "
             "it; auto: yes where the file system can."},
    {.name = "verify",
     WEFT_BOOL(disk, verify),
     .value = "no",
     .flags = WEFT_PARAM_PER_RANK,
     .help = "Compare what is read with sums of what was written; they take 8 bytes of memory for "
             "4,096."},
    {.name = "read_rate",
     WEFT_TEXT(disk, read_rate),
     .help =
         "Bytes that the disk reads in a second, as 3 GB, for the plan; `weft disk DIR` measures "
         "both. Not set: not known."},
    {.name = "write_rate",
     WEFT_TEXT(disk, write_rate),
     .help = "Bytes that it writes in a second."},
    {.name = "slowest",
     WEFT_TEXT(disk, slowest),
     .flags = WEFT_PARAM_PER_RANK,
     .help = "Refuse a disk that writes, or reads, fewer bytes in a second than this, as 200 MB; "
             "it is measured when the run begins. Not set: any will do."},
    {.name = NULL},
};

static weft_status read_rate(const disk *self, const char *key, const char *text, double *rate,
                             weft_error *err)
{
    if (!*text || (weft_parse_bytes(text, rate) && *rate >= 1))
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(self->host->params, key),
                     "[disk] %s = %s: expected bytes a second, as 3 GB", key, text);
}

static weft_status create(void *self_, weft_error *err)
{
    disk *self = self_;
    weft_status s = read_rate(self, "read_rate", self->read_rate, &self->rates.read, err),
                w = read_rate(self, "write_rate", self->write_rate, &self->rates.write, err),
                f = read_rate(self, "slowest", self->slowest, &self->floor, err);
    self->queue.fd = -1;
    return s ? s : w ? w : f;
}

static const char *folder_of(const disk *self)
{
    const char *tmp = getenv("TMPDIR");
    return *self->dir ? self->dir : self->host->dir ? self->host->dir : tmp && *tmp ? tmp : "/tmp";
}

/* ---- the service ---- */

static weft_status move(disk *self, bool writes, int64_t where, int64_t n, char *memory,
                        weft_request **request, weft_error *err)
{
    disk_move *m = weft_alloc_zero(1, sizeof *m);
    if (!m)
        return weft_fail_memory(err);
    *m = (disk_move){.at = where, .n = n, .memory = memory, .writes = writes};
    disk_queue_add(&self->queue, m);
    *request = (weft_request *)m;
    return WEFT_OK;
}

static weft_status read_far(void *self, int64_t where, int64_t n, void *to, weft_request **request,
                            weft_error *err)
{
    return move(self, false, where, n, to, request, err);
}

/* It is only read. */
static weft_status write_far(void *self, int64_t where, int64_t n, const void *from,
                             weft_request **request, weft_error *err)
{
    return move(self, true, where, n, (char *)(uintptr_t)from, request, err);
}

static weft_status wait_far(void *self_, weft_request *request, weft_error *err)
{
    disk *self = self_;
    disk_move *m = (disk_move *)request;
    weft_status s = disk_queue_wait(&self->queue, m, err);
    weft_free(m);
    return s;
}

/* Zeros over zeros. */
static weft_status measure(disk *self, int64_t bytes, weft_error *err)
{
    enum { MOST = 64 << 20 };
    const int64_t n = bytes < MOST ? bytes : MOST;
    double seconds = 0, rate[2] = {0, 0};
    if (self->floor <= 0)
        return WEFT_OK;
    char *memory = weft_alloc_pages((size_t)n);
    weft_status s = memory ? WEFT_OK : weft_fail_memory(err);
    if (memory)
        memset(memory, 0, (size_t)n);
    for (int writes = 1; writes >= 0 && !s; writes--) {
        s = disk_queue_time(&self->queue, writes, 0, memory, n, &seconds, err);
        rate[writes] = (double)n / (seconds + 1e-9);
    }
    weft_free_aligned(memory);
    self->queue.read = self->queue.written = 0; /* that was no step's */
    self->queue.waited_s = self->queue.busy_s = 0;
    const bool slow = rate[0] < self->floor || rate[1] < self->floor;
    return s || !slow
               ? s
               : weft_fail(err, WEFT_ERR_INPUT, weft_params_where(self->host->params, "slowest"),
                           "%s writes %.0f MB and reads %.0f MB a second, and [disk] slowest "
                           "= %s; name another folder, or allow less",
                           folder_of(self), rate[1] / 1e6, rate[0] / 1e6, self->slowest);
}

static weft_status reserve(void *self_, int64_t bytes, weft_error *err)
{
    disk *self = self_;
    disk_queue *q = &self->queue;
    const weft_where at = weft_params_where(self->host->params, "dir");
    const bool makes = !*self->dir && self->host->dir; /* nobody made the run folder so far */
    weft_status s = makes ? weft_make_dirs(folder_of(self), err) : WEFT_OK;
    s = s ? s : disk_file_open(q, folder_of(self), (disk_direct)self->direct, at, err);
    if (!s && !q->direct && self->direct == DISK_AUTO)
        weft_inform(self->host,
                    "disk: %s has no direct access: what is moved passes through the page cache, "
                    "and is dropped from it",
                    q->name);
    s = s ? s : disk_file_reserve(q, bytes, at, err);
    if (!s && self->verify &&
        !(q->sums = weft_alloc_zero((size_t)(bytes / DISK_BLOCK) + 1, sizeof *q->sums)))
        s = weft_fail_memory(err);
    s = s ? s : disk_queue_start(q, (int)self->threads, err);
    return s ? s : measure(self, bytes, err);
}

static void drain(void *self)
{
    disk_queue_drain(&((disk *)self)->queue);
}

/* What the run has measured beside what its plan was told. */
static void tell_rates(const disk *self)
{
    const disk_queue *q = &self->queue;
    const weft_far_rates *r = &self->rates;
    const double all = (double)(q->read + q->written), busy = q->busy_s;
    if (all <= 0 || busy <= 0)
        return;
    weft_inform(
        self->host,
        "disk: %.4g GB read and %.4g GB written in %.3g s at work, %.3g GB a second; waited "
        "for %.3g s",
        (double)q->read / 1e9, (double)q->written / 1e9, busy, all / busy / 1e9, q->waited_s);
    if (r->read <= 0 || r->write <= 0) {
        weft_inform(self->host, "disk: `weft disk %s` measures the rates that a plan wants",
                    folder_of(self));
        return;
    }
    const double planned = (double)q->read / r->read + (double)q->written / r->write;
    weft_inform(self->host,
                "disk: that is %.2f times the %.3g s that [disk] read_rate and write_rate promise",
                busy / planned, planned);
}

static void close_disk(void *self_)
{
    disk *self = self_;
    disk_queue_stop(&self->queue);
    tell_rates(self);
    if (self->queue.fd >= 0)
        close(self->queue.fd);
    self->queue.fd = -1;
    weft_free(self->queue.sums);
    self->queue.sums = NULL;
}

static void describe(void *self, weft_text *text)
{
    weft_text_print(text, "disk %s", *((disk *)self)->dir ? ((disk *)self)->dir : "run folder");
}

static bool rates(void *self_, weft_far_rates *out)
{
    *out = ((disk *)self_)->rates;
    return out->read > 0 && out->write > 0;
}

static int64_t buffer_bytes(void *self_, int64_t bytes)
{
    const disk *self = self_;
    return self->threads * (DISK_PIECE + DISK_BLOCK) + (self->verify ? bytes / DISK_BLOCK * 8 : 0);
}

/* Since it was asked before. */
static int counts(void *self_, weft_report *list)
{
    disk *self = self_;
    disk_queue *q = &self->queue, *told = &self->told;
    pthread_mutex_lock(&q->lock);
    list[0] = (weft_report){"disk.read_gb", (double)(q->read - told->read) / 1e9};
    list[1] = (weft_report){"disk.written_gb", (double)(q->written - told->written) / 1e9};
    list[2] = (weft_report){"disk.waited_s", q->waited_s - told->waited_s};
    list[3] = (weft_report){"disk.busy_s", q->busy_s - told->busy_s};
    told->read = q->read;
    told->written = q->written;
    told->waited_s = q->waited_s;
    told->busy_s = q->busy_s;
    pthread_mutex_unlock(&q->lock);
    return 4;
}

static const weft_far far = {.size = sizeof far,
                             .reserve = reserve,
                             .read = read_far,
                             .write = write_far,
                             .wait = wait_far,
                             .drain = drain,
                             .describe = describe,
                             .rates = rates,
                             .buffer_bytes = buffer_bytes,
                             .counts = counts};

/* Somebody must put something there, unless offload has still to choose. */
static weft_status review(void *self, weft_plan *plan, weft_error *err)
{
    const weft_node *n = weft_graph_first(weft_plan_trained(plan));
    (void)err;
    if (weft_asked(((disk *)self)->host, "offload way"))
        return WEFT_OK;
    while (n && !weft_node_is(n, WEFT_OP_FETCH | WEFT_OP_EVICT))
        n = n->next;
    if (!n)
        weft_warn(((disk *)self)->host, WEFT_NOWHERE,
                  "disk has nothing to do: no listed plugin has put anything there, as offload "
                  "does; list offload, or take disk out of [weft] plugins");
    return WEFT_OK;
}

static const weft_contribution contributions[] = {
    {.kind = WEFT_SERVICE, .service = "far", .table = &far},
    {.kind = WEFT_REVIEW, .stage = WEFT_STAGE_ORDERED, .review = review},
    {.kind = WEFT_COMMAND, .command = &disk_command},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(disk) = {
    WEFT_PLUGIN_HEAD,
    .name = "disk",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "far memory on a disk",
    .numerics = WEFT_NUMERICS_BITWISE,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(disk),
    .create = create,
    .close = close_disk,
};
