/* SPDX-License-Identifier: Apache-2.0 */
#include "io/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char store_untouched[] = "; nothing older was touched";

/* ---- the system's own ---- */

static int system_open(void *ctx, const char *path, int flags, mode_t mode)
{
    (void)ctx;
    /* A pipe where a file should be must not keep anyone waiting: it then reads as an empty file.
     * Files do not care. A link is not followed to what is to be written. */
    int more = (flags & O_ACCMODE) == O_RDONLY ? O_NONBLOCK | O_NOCTTY : O_NOFOLLOW;
    return open(path, flags | more | O_CLOEXEC, mode);
}

static int system_close(void *ctx, int fd)
{
    (void)ctx;
    return close(fd);
}

static ssize_t system_pread(void *ctx, int fd, void *to, size_t n, off_t at)
{
    (void)ctx;
    return pread(fd, to, n, at);
}

static ssize_t system_pwrite(void *ctx, int fd, const void *from, size_t n, off_t at)
{
    (void)ctx;
    return pwrite(fd, from, n, at);
}

static int system_fsync(void *ctx, int fd)
{
    (void)ctx;
    return fsync(fd);
}

static void system_flush(void *ctx, int fd, off_t at, off_t n)
{
    (void)ctx;
    (void)sync_file_range(
        fd, at, n,
        SYNC_FILE_RANGE_WRITE); /* where it cannot be, the fsync that follows does it all */
}

static int system_rename(void *ctx, const char *from, const char *to)
{
    (void)ctx;
    return rename(from, to);
}

static int system_unlink(void *ctx, const char *path)
{
    (void)ctx;
    return unlink(path);
}

static int system_rmdir(void *ctx, const char *path)
{
    (void)ctx;
    return rmdir(path);
}

static int system_mkdir(void *ctx, const char *path, mode_t mode)
{
    (void)ctx;
    return mkdir(path, mode);
}

static int system_size(void *ctx, int fd, int64_t *bytes)
{
    (void)ctx;
    struct stat info;
    if (fstat(fd, &info) != 0)
        return -1;
    *bytes = info.st_size;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Takes room for one name more, and keeps the list NULL-ended. */
static bool add_name(char ***names, size_t n, const char *name)
{
    if ((n & (n + 1)) == 0) { /* n is 0, 1, 3, 7, ... */
        char **more = weft_realloc(*names, (2 * n + 2) * sizeof **names);
        if (!more)
            return false;
        *names = more;
    }
    (*names)[n] = weft_strdup(name);
    if (!(*names)[n])
        return false;
    (*names)[n + 1] = NULL;
    return true;
}

static int system_list(void *ctx, const char *path, char ***out)
{
    (void)ctx;
    DIR *dir = opendir(path);
    if (!dir)
        return -1;
    size_t n = 0;
    int error = 0;
    char **names = weft_alloc_zero(1, sizeof *names);
    if (!names)
        error = ENOMEM;
    while (!error) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) {
            error = errno;
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (add_name(&names, n, entry->d_name))
            n++;
        else
            error = ENOMEM;
    }
    closedir(dir);
    if (error) {
        weft_names_free(names);
        errno = error;
        return -1;
    }
    qsort(names, n, sizeof *names, by_name);
    *out = names;
    return 0;
}

void weft_names_free(char **names)
{
    for (char **name = names; name && *name; name++)
        weft_free(*name);
    weft_free(names);
}

const weft_io *weft_io_system(void)
{
    static const weft_io io = {
        .open = system_open,
        .close = system_close,
        .pread = system_pread,
        .pwrite = system_pwrite,
        .fsync = system_fsync,
        .rename = system_rename,
        .unlink = system_unlink,
        .rmdir = system_rmdir,
        .mkdir = system_mkdir,
        .size = system_size,
        .list = system_list,
        .flush = system_flush,
    };
    return &io;
}

/* ---- over any seam ---- */

int store_open(const weft_io *io, const char *path, int flags, mode_t mode)
{
    int fd = 0;
    do
        fd = io->open(io->ctx, path, flags, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

int store_fsync(const weft_io *io, int fd)
{
    int result = 0;
    do
        result = io->fsync(io->ctx, fd);
    while (result != 0 && errno == EINTR);
    return result;
}

/* The most that one call moves. */
static size_t one_call(int64_t n)
{
    return n < (1 << 30) ? (size_t)n : (size_t)1 << 30;
}

weft_status store_read(const weft_io *io, int fd, const char *path, void *to, int64_t n, int64_t at,
                       weft_error *err)
{
    char *p = to;
    while (n > 0) {
        ssize_t got = io->pread(io->ctx, fd, p, one_call(n), at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return weft_fail_errno_hint(err, path, "read", "");
        if (got == 0)
            return weft_fail(err, WEFT_ERR_INPUT, (weft_where){path, 0},
                             "ends at byte %lld, %lld bytes too early: it was cut off",
                             (long long)at, (long long)n);
        p += got;
        at += got;
        n -= got;
    }
    return WEFT_OK;
}

weft_status store_write(const weft_io *io, int fd, const char *path, const void *from, int64_t n,
                        int64_t at, weft_error *err)
{
    const char *p = from;
    while (n > 0) {
        ssize_t put = io->pwrite(io->ctx, fd, p, one_call(n), at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put == 0)
            errno = ENOSPC;
        if (put <= 0)
            return weft_fail_errno_hint(err, path, "write", store_untouched);
        p += put;
        at += put;
        n -= put;
    }
    return WEFT_OK;
}

static weft_status read_whole(const weft_io *io, int fd, const char *path, char **data,
                              size_t *size, weft_error *err)
{
    int64_t bytes = 0;
    if (io->size(io->ctx, fd, &bytes) != 0)
        return weft_fail_errno_hint(err, path, "ask for its size", "");
    char *p = weft_alloc((size_t)bytes + 1);
    if (!p)
        return weft_fail_memory(err);
    weft_status status = store_read(io, fd, path, p, bytes, 0, err);
    if (status != WEFT_OK) {
        weft_free(p);
        return status;
    }
    p[bytes] = '\0';
    *data = p;
    *size = (size_t)bytes;
    return WEFT_OK;
}

weft_status weft_io_read_file(const weft_io *io, const char *path, char **data, size_t *size,
                              weft_error *err)
{
    int fd = store_open(io, path, O_RDONLY, 0);
    if (fd < 0)
        return weft_fail_errno_hint(err, path, "open", "");
    weft_status status = read_whole(io, fd, path, data, size, err);
    io->close(io->ctx, fd);
    return status;
}

weft_status weft_io_write_file(const weft_io *io, const char *path, const void *data, size_t size,
                               weft_error *err)
{
    /* What stands there is replaced, never written into: it may be a link. */
    bool free = io->unlink(io->ctx, path) == 0 || errno == ENOENT;
    int fd = free ? store_open(io, path, O_WRONLY | O_CREAT | O_EXCL, 0666) : -1;
    if (fd < 0)
        return weft_fail_errno_hint(err, path, "create this file", store_untouched);
    weft_status status = store_write(io, fd, path, data, (int64_t)size, 0, err);
    if (status == WEFT_OK && store_fsync(io, fd) != 0)
        status = weft_fail_errno_hint(err, path, "flush to disk", store_untouched);
    /* Closed even where a signal came in between. */
    if (io->close(io->ctx, fd) != 0 && errno != EINTR && status == WEFT_OK)
        status = weft_fail_errno_hint(err, path, "close", store_untouched);
    return status;
}

weft_status weft_io_list(const weft_io *io, const char *path, char ***names, weft_error *err)
{
    if (io->list(io->ctx, path, names) != 0)
        return weft_fail_errno_hint(err, path, "list this folder", "");
    return WEFT_OK;
}
