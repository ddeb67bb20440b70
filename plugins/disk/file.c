/* SPDX-License-Identifier: Apache-2.0 */
/* The scratch file: without a name, past the page cache where that can be, all of its room taken.
 */
#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <weft/files.h>

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

weft_status disk_file_open(disk_queue *q, const char *dir, disk_direct direct, weft_where at,
                           weft_error *err)
{
    q->io = weft_io_system();
    q->name = dir;
    q->fd = direct == DISK_CACHED ? -1 : open_scratch(dir, O_DIRECT);
    if (q->fd >= 0 && !reads_directly(q->fd)) {
        close(q->fd);
        q->fd = -1;
    }
    q->direct = q->fd >= 0;
    if (q->fd < 0)
        q->fd = open_scratch(dir, 0);
    if (q->fd < 0)
        return weft_fail(err, WEFT_ERR_INPUT, at, "%s: cannot hold a scratch file: %s", dir,
                         strerror(errno));
    if (direct == DISK_DIRECT && !q->direct)
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "[disk] direct = yes: %s: the file system has no direct access; say auto",
                         dir);
    return WEFT_OK;
}

static weft_status refuse_room(const disk_queue *q, int64_t bytes, int why, weft_where at,
                               weft_error *err)
{
    struct statvfs fs;
    weft_text needs = {0}, has = {0};
    weft_print_bytes(&needs, (double)bytes);
    if (fstatvfs(q->fd, &fs) == 0)
        weft_print_bytes(&has, (double)fs.f_bavail * (double)fs.f_frsize);
    weft_status s = weft_fail(err, WEFT_ERR_INPUT, at,
                              "%s cannot hold a scratch file of %s: %s; it has %s free", q->name,
                              weft_text_get(&needs), strerror(why),
                              has.size ? weft_text_get(&has) : "an unknown number of bytes");
    weft_text_release(&needs);
    weft_text_release(&has);
    return s;
}

weft_status disk_file_reserve(const disk_queue *q, int64_t bytes, weft_where at, weft_error *err)
{
    struct statvfs fs;
    int why = 0;
    if (fallocate(q->fd, 0, 0, bytes) == 0)
        return WEFT_OK;
    why = errno;
    if (why == EOPNOTSUPP || why == ENOSYS) {
        why = fstatvfs(q->fd, &fs) ? errno : 0;
        if (!why && fs.f_blocks && (double)fs.f_bavail * (double)fs.f_frsize < (double)bytes)
            why = ENOSPC;
        if (!why && ftruncate(q->fd, bytes))
            why = errno;
    }
    return why ? refuse_room(q, bytes, why, at, err) : WEFT_OK;
}
