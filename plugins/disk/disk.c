/* SPDX-License-Identifier: Apache-2.0 */
/* Far memory on a disk: a scratch file without a name, all of whose room is taken when the run
 * begins, and threads that read and write it. */
#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <weft/files.h>

static const char *const choices[] = {"auto", "yes", "no", NULL};

enum { DIRECT_AUTO, DIRECT_YES, DIRECT_NO };

typedef struct disk {
    const weft_host *host;
    const char *dir, *read_rate, *write_rate, *slowest;
    int64_t threads;
    int direct;
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
     .help = "Bytes that the disk reads in a second, as 3 GB, for the plan; not set: not known."},
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
                     "[disk] %s = %s: it is bytes a second, as 3 GB", key, text);
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
    return *self->dir ? self->dir : self->host->dir ? self->host->dir : "/tmp";
}

static weft_where at(const disk *self)
{
    return weft_params_where(self->host->params, "dir");
}

/* ---- the file ---- */

/* Where the file system has no files without a name, one loses it at once. */
static int open_named(const char *dir)
{
    char *path = weft_format("%s/.weft-far-%ld-%lld", dir, (long)getpid(), (long long)weft_utc());
    int fd = path ? weft_open_to_write(path, WEFT_WRITE_NEW) : -1;
    if (fd >= 0)
        unlink(path);
    weft_free(path);
    return fd;
}

static int open_scratch(const char *dir, int direct)
{
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC | direct, S_IRUSR | S_IWUSR);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT) || direct)
        return fd;
    fd = open_named(dir);
    if (fd >= 0)
        fchmod(fd, S_IRUSR | S_IWUSR);
    return fd;
}

/* May it be read so? Some file systems say so only then. */
static bool reads_directly(int fd)
{
    char *room = weft_alloc(2 * DISK_BLOCK);
    const bool grown = room && ftruncate(fd, DISK_BLOCK) == 0;
    char *aligned = room ? room + (DISK_BLOCK - (uintptr_t)room % DISK_BLOCK) : NULL;
    const bool reads = grown && pread(fd, aligned, DISK_BLOCK, 0) == DISK_BLOCK;
    weft_free(room);
    return reads;
}

static weft_status open_file(disk *self, weft_error *err)
{
    disk_queue *q = &self->queue;
    const char *dir = folder_of(self);
    weft_status s = *self->dir ? WEFT_OK : weft_make_dirs(dir, err);
    if (s)
        return s;
    if (self->direct != DIRECT_NO) {
        q->fd = open_scratch(dir, O_DIRECT);
        if (q->fd >= 0 && !reads_directly(q->fd)) {
            close(q->fd);
            q->fd = -1;
        }
        q->direct = q->fd >= 0;
    }
    if (self->direct == DIRECT_YES && q->fd < 0)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(self->host->params, "direct"),
                         "[disk] direct = yes: %s: the file system has no direct access; say auto",
                         dir);
    if (q->fd < 0)
        q->fd = open_scratch(dir, 0);
    if (q->fd < 0)
        return weft_fail(err, WEFT_ERR_INPUT, at(self), "%s: cannot hold a scratch file: %s", dir,
                         strerror(errno));
    if (!q->direct && self->direct == DIRECT_AUTO)
        weft_inform(self->host,
                    "disk: %s has no direct access: what is moved passes through the page cache, "
                    "and is dropped from it",
                    dir);
    return WEFT_OK;
}

static weft_status refuse_room(const disk *self, int64_t bytes, int why, weft_error *err)
{
    struct statvfs fs;
    weft_text needs = {0}, has = {0};
    weft_print_bytes(&needs, (double)bytes);
    if (fstatvfs(self->queue.fd, &fs) == 0)
        weft_print_bytes(&has, (double)fs.f_bavail * (double)fs.f_frsize);
    weft_status s = weft_fail(err, WEFT_ERR_INPUT, at(self),
                              "%s cannot hold the %s that lie far on a rank: %s; it has %s free",
                              folder_of(self), weft_text_get(&needs), strerror(why),
                              has.size ? weft_text_get(&has) : "an unknown number of bytes");
    weft_text_release(&needs);
    weft_text_release(&has);
    return s;
}

/* All of it now, so that no later write finds the disk full. */
static weft_status take_room(const disk *self, int64_t bytes, weft_error *err)
{
    struct statvfs fs;
    int why = 0;
    if (fallocate(self->queue.fd, 0, 0, bytes) == 0)
        return WEFT_OK;
    why = errno;
    if (why == EOPNOTSUPP || why == ENOSYS) {
        why = fstatvfs(self->queue.fd, &fs) ? errno : 0;
        if (!why && (double)fs.f_bavail * (double)fs.f_frsize < (double)bytes)
            why = ENOSPC;
        if (!why && ftruncate(self->queue.fd, bytes))
            why = errno;
    }
    return why ? refuse_room(self, bytes, why, err) : WEFT_OK;
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

static weft_status once(disk *self, bool writes, char *memory, int64_t n, double *rate,
                        weft_error *err)
{
    weft_request *request = NULL;
    const double since = weft_now();
    weft_status s = move(self, writes, 0, n, memory, &request, err);
    s = s ? s : wait_far(self, request, err);
    *rate = (double)n / (weft_now() - since + 1e-9);
    return s;
}

/* Zeros over zeros. */
static weft_status measure(disk *self, int64_t bytes, weft_error *err)
{
    enum { MOST = 64 << 20 };
    const int64_t n = bytes < MOST ? bytes : MOST;
    double rate[2] = {0, 0};
    if (self->floor <= 0)
        return WEFT_OK;
    char *memory = weft_alloc_zero(1, (size_t)n);
    weft_status s = memory ? WEFT_OK : weft_fail_memory(err);
    for (int writes = 1; writes >= 0 && !s; writes--)
        s = once(self, writes, memory, n, &rate[writes], err);
    weft_free(memory);
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
    q->io = weft_io_system();
    q->name = folder_of(self);
    weft_status s = open_file(self, err);
    s = s ? s : take_room(self, bytes, err);
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

static void close_disk(void *self_)
{
    disk *self = self_;
    disk_queue_stop(&self->queue);
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
    told->read = q->read;
    told->written = q->written;
    told->waited_s = q->waited_s;
    pthread_mutex_unlock(&q->lock);
    return 3;
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

static const weft_contribution contributions[] = {
    {.kind = WEFT_SERVICE, .service = "far", .table = &far},
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
