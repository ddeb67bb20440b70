/* SPDX-License-Identifier: Apache-2.0 */
#include "io/atomic_file.h"

#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/files.h>

/* Who removes what others have left takes this lock first. Not all file systems have it. */
static bool is_locked(int fd)
{
    struct stat info;
    return (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) && fstat(fd, &info) == 0 &&
           info.st_nlink > 0;
}

/* mkstemp would ignore the user's umask, so names are tried by hand; O_EXCL keeps two writers
 * apart. */
weft_status weft_atomic_file_open(weft_atomic_file *file, const char *path, weft_error *err)
{
    weft_status status = weft_check_replaceable(path, err);
    if (status)
        return status;
    for (int i = 0; i < 1000; i++) {
        char *name = weft_format("%s.tmp-%ld-%d", path, (long)getpid(), i);
        if (!name)
            return weft_fail_memory(err);
        int fd = weft_open_to_write(name, WEFT_WRITE_NEW);
        if (fd >= 0 && is_locked(fd)) {
            *file = (weft_atomic_file){path, name, fd};
            return WEFT_OK;
        }
        int error = fd >= 0 ? EEXIST : errno;
        if (fd >= 0)
            close(fd);
        weft_free(name);
        errno = error;
        if (error != EEXIST)
            return weft_fail_errno(err, path, "create this file");
    }
    return weft_fail(err, WEFT_ERR_IO, (weft_where){path, 0},
                     "too many temporary files are left beside it; remove %s.tmp-*", path);
}

weft_status weft_atomic_file_write(weft_atomic_file *file, const void *data, size_t size,
                                   weft_error *err)
{
    const char *p = data;
    while (size > 0) {
        ssize_t n = write(file->fd, p, size < (1u << 30) ? size : (1u << 30));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return weft_fail_errno(err, file->path, "write");
        p += n;
        size -= (size_t)n;
    }
    return WEFT_OK;
}

/* Without this a crash of the machine could forget the rename. Some file systems cannot flush
 * folders (EINVAL): then there is nothing to do. */
static weft_status flush_folder_of(const char *path, weft_error *err)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? weft_format("%.*s", slash == path ? 1 : (int)(slash - path), path)
                         : weft_strdup(".");
    if (!folder)
        return weft_fail_memory(err);
    weft_status status = WEFT_OK;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL))
        status = weft_fail_errno(err, folder, "flush this folder to disk");
    if (fd >= 0)
        close(fd);
    weft_free(folder);
    return status;
}

weft_status weft_atomic_file_commit(weft_atomic_file *file, weft_error *err)
{
    weft_status status = WEFT_OK;
    if (fsync(file->fd) != 0)
        status = weft_fail_errno(err, file->path, "flush to disk");
    else if (rename(file->temporary, file->path) != 0)
        status = weft_fail_errno(err, file->path, "put the finished file in its place");
    if (status) {
        weft_atomic_file_abandon(file);
        return status;
    }
    close(file->fd); /* with its lock; it is on the disk */
    file->fd = -1;
    weft_free(file->temporary);
    return flush_folder_of(file->path, err);
}

void weft_atomic_file_abandon(weft_atomic_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    unlink(file->temporary);
    weft_free(file->temporary);
    *file = (weft_atomic_file){.fd = -1};
}

weft_status weft_write_file(const char *path, const void *data, size_t size, weft_error *err)
{
    weft_atomic_file file;
    weft_status status = weft_atomic_file_open(&file, path, err);
    if (status != WEFT_OK)
        return status;
    status = weft_atomic_file_write(&file, data, size, err);
    if (status == WEFT_OK)
        return weft_atomic_file_commit(&file, err);
    weft_atomic_file_abandon(&file);
    return status;
}
