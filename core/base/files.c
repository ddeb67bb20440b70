/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are read, and what the system says of files. */
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/files.h>

/* Whose doing it is that the system refused: the user's, or nobody's. */
static weft_status errno_status(int e)
{
    bool users = e == ENOENT || e == ENOTDIR || e == EISDIR || e == EACCES || e == EEXIST ||
                 e == EROFS || e == EPERM || e == ELOOP || e == ENAMETOOLONG || e == ENOTEMPTY;
    return users ? WEFT_ERR_INPUT : WEFT_ERR_IO;
}

weft_status weft_fail_errno(weft_error *err, const char *path, const char *what)
{
    return weft_fail_errno_hint(err, path, what, "");
}

weft_status weft_fail_errno_hint(weft_error *err, const char *path, const char *what,
                                 const char *hint)
{
    char buffer[128];
    int e = errno;
    if (e == ENOMEM)
        return weft_fail_memory(err);
    const char *reason = strerror_r(e, buffer, sizeof buffer);
    return weft_fail(err, errno_status(e), (weft_where){path, 0}, "cannot %s: %s%s", what, reason,
                     hint);
}

/* A pipe that whoever started this process has opened: somebody writes to it. */
static bool is_inherited(const char *path)
{
    static const char *const begins[] = {"/dev/stdin", "/dev/fd/", "/proc/self/fd/"};
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
        if (strncmp(path, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

static const char *kind_of(mode_t mode)
{
    return S_ISDIR(mode)                    ? "Is a directory"
           : S_ISFIFO(mode)                 ? "it is a named pipe, not a file"
           : S_ISCHR(mode) || S_ISBLK(mode) ? "it is a device, not a file"
           : S_ISSOCK(mode)                 ? "it is a socket, not a file"
                                            : "it is not a file";
}

static weft_status refuse(const char *path, weft_where at, weft_status status, const char *why,
                          weft_error *err)
{
    return at.file == path ? weft_fail(err, status, at, "cannot open this file: %s", why)
                           : weft_fail(err, status, at, "cannot open '%s': %s", path, why);
}

weft_status weft_open_file(const char *path, weft_where at, int *fd, weft_error *err)
{
    char buffer[128];
    struct stat info;
    /* Nobody may ever write to a pipe: it is opened without waiting, and then refused. */
    *fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    int why = *fd < 0 || fstat(*fd, &info) != 0 ? errno : 0;
    if (why == 0 && S_ISREG(info.st_mode))
        return WEFT_OK;
    if (why == 0 && S_ISFIFO(info.st_mode) && is_inherited(path) && fcntl(*fd, F_SETFL, 0) == 0)
        return WEFT_OK;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    bool there = why == 0 || (why == ENXIO && stat(path, &info) == 0); /* a socket */
    weft_status s =
        there ? refuse(path, at, WEFT_ERR_INPUT, kind_of(info.st_mode), err)
              : refuse(path, at, errno_status(why), strerror_r(why, buffer, sizeof buffer), err);
    errno = there ? EINVAL : why;
    return s;
}

weft_status weft_read_all(int fd, const char *path, size_t most, weft_text *text, weft_error *err)
{
    size_t room = 64 * 1024;
    char *chunk = weft_alloc(room);
    if (!chunk)
        return weft_fail_memory(err);
    weft_status status = WEFT_OK;
    ssize_t n = 0;
    while (text->size <= most && (n = read(fd, chunk, room)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            status = weft_fail_errno(err, path, "read this file");
            break;
        }
        weft_text_add_bytes(text, chunk, (size_t)n);
        if (text->out_of_memory) {
            status = weft_fail_memory(err);
            break;
        }
    }
    weft_free(chunk);
    return status;
}

weft_status weft_read_file(const char *path, char **data, size_t *size, weft_error *err)
{
    *data = NULL;
    *size = 0;
    int fd;
    weft_status status = weft_open_file(path, (weft_where){path, 0}, &fd, err);
    if (status != WEFT_OK)
        return status;
    weft_text text = {0};
    status = weft_read_all(fd, path, SIZE_MAX, &text, err);
    close(fd);
    if (status == WEFT_OK && !text.data)
        weft_text_add_bytes(&text, "", 0);
    if (status == WEFT_OK && !text.data)
        status = weft_fail_memory(err);
    if (status != WEFT_OK) {
        weft_text_release(&text);
        return status;
    }
    *data = text.data;
    *size = text.size;
    return WEFT_OK;
}
