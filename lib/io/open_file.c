/* SPDX-License-Identifier: Apache-2.0 */
/* The one way to files and folders that are written. */
#include "io/atomic_file.h"

#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/files.h>

/* A pipe must not keep anyone waiting, and a device is nothing to be written over. */
static bool is_regular(const struct stat *info)
{
    errno = S_ISDIR(info->st_mode) ? EISDIR : S_ISLNK(info->st_mode) ? ELOOP : ENXIO;
    return S_ISREG(info->st_mode);
}

static bool is_file(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && is_regular(&info);
}

int weft_open_to_write(const char *path, weft_write_as how)
{
    int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    flags |= how == WEFT_WRITE_NEW || how == WEFT_WRITE_AGAIN ? O_EXCL : 0;
    flags |= how == WEFT_WRITE_APPEND ? O_APPEND : 0;
    if (how == WEFT_WRITE_AGAIN && unlink(path) != 0 && errno != ENOENT)
        return -1;
    int fd = open(path, flags, 0666);
    if (fd < 0 || is_file(fd))
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static weft_status refuse(const char *path, weft_error *err)
{
    if (errno == ELOOP)
        return weft_fail(err, WEFT_ERR_INPUT, (weft_where){path, 0},
                         "cannot write: it is a symbolic link, which weft does not follow to what "
                         "it writes; remove it");
    if (errno == ENXIO)
        return weft_fail(err, WEFT_ERR_INPUT, (weft_where){path, 0},
                         "cannot write: it is a pipe, a socket or a device, and not a file");
    return weft_fail_errno(err, path, "create this file");
}

weft_status weft_create_file(const char *path, weft_write_as how, int *fd, weft_error *err)
{
    *fd = weft_open_to_write(path, how);
    return *fd >= 0 ? WEFT_OK : refuse(path, err);
}

weft_status weft_check_replaceable(const char *path, weft_error *err)
{
    struct stat info;
    return lstat(path, &info) != 0 || is_regular(&info) ? WEFT_OK : refuse(path, err);
}

/* ---- folders ---- */

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static weft_status make_dir(const char *path, weft_error *err)
{
    if (mkdir(path, 0777) == 0)
        return WEFT_OK;
    int error = errno;
    if (is_folder(path))
        return WEFT_OK;
    errno = error == EEXIST ? ENOTDIR : error; /* of mkdir, not of what was asked since */
    return weft_fail_errno(err, path, "create this folder");
}

weft_status weft_make_dirs(const char *path, weft_error *err)
{
    char *copy = weft_strdup(path);
    if (!copy)
        return weft_fail_memory(err);
    weft_status status = WEFT_OK;
    for (char *p = copy + 1; *copy && *p && status == WEFT_OK; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        status = make_dir(copy, err);
        *p = '/';
    }
    if (status == WEFT_OK)
        status = make_dir(copy, err);
    weft_free(copy);
    return status;
}

const char *weft_folder_exposed(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0 || info.st_mode & S_ISVTX)
        return NULL;
    if (info.st_mode & S_IWOTH)
        return "everyone may write in it";
    if (info.st_mode & S_IWGRP && info.st_gid != getegid())
        return "another group may write in it";
    return NULL;
}
