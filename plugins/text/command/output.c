/* SPDX-License-Identifier: Apache-2.0 */
/* Where results go. */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static weft_status fail_write(const char *path, weft_error *err)
{
    int code = errno;
    bool place =
        code == ENOENT || code == EACCES || code == ENOTDIR || code == EROFS || code == EISDIR;
    return weft_fail(err, place ? WEFT_ERR_INPUT : WEFT_ERR_IO, WEFT_NOWHERE, "cannot write %s: %s",
                     path, strerror(code));
}

/* A file without a name, where the file system can: it goes with the process, however that ends. */
static int open_nameless(const char *path)
{
    if (access("/proc/self/fd", X_OK)) /* which gives it its name */
        return -1;
    const char *slash = strrchr(path, '/');
    char *folder = slash ? weft_format("%.*s/", (int)(slash - path), path) : weft_strdup(".");
    int fd = folder ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666) : -1;
    weft_free(folder);
    return fd;
}

weft_status tokenize_output_open(tokenize_output *out, const weft_command_host *host,
                                 const char *path, weft_error *err)
{
    struct stat st;
    *out = (tokenize_output){.host = host, .path = path, .fd = -1};
    if (!path)
        return WEFT_OK;
    bool there = stat(path, &st) == 0;
    if (there && S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        return fail_write(path, err);
    }
    if (there && !S_ISREG(st.st_mode)) { /* a pipe, a terminal: nothing to put into its place */
        out->fd = open(path, O_WRONLY | O_CLOEXEC);
        return out->fd < 0 ? fail_write(path, err) : WEFT_OK;
    }
    out->part = weft_format("%s.part", path);
    if (!out->part)
        return weft_fail_memory(err);
    out->fd = open_nameless(path);
    out->nameless = out->fd >= 0;
    if (!out->nameless)
        out->fd = weft_open_to_write(out->part, WEFT_WRITE_AGAIN);
    if (out->fd >= 0)
        return WEFT_OK;
    weft_status status = fail_write(path, err);
    weft_free(out->part);
    out->part = NULL;
    return status;
}

weft_status tokenize_output_write(tokenize_output *out, const void *data, size_t n, weft_error *err)
{
    if (!out->path)
        return n ? out->host->write(out->host, data, n, err) : WEFT_OK;
    for (size_t done = 0; done < n;) {
        ssize_t some = write(out->fd, (const char *)data + done, n - done);
        if (some >= 0)
            done += (size_t)some;
        else if (errno != EINTR)
            return fail_write(out->path, err);
    }
    return WEFT_OK;
}

/* What is written takes its place, whole. */
static int put_in_place(tokenize_output *out)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", out->fd);
    if (out->nameless && unlink(out->part) && errno != ENOENT)
        return -1;
    if (out->nameless && linkat(AT_FDCWD, name, AT_FDCWD, out->part, AT_SYMLINK_FOLLOW))
        return -1;
    out->nameless = false;
    return rename(out->part, out->path);
}

weft_status tokenize_output_close(tokenize_output *out, bool ok, weft_error *err)
{
    weft_status status = WEFT_OK;
    if (out->fd < 0)
        return WEFT_OK;
    if (ok && fsync(out->fd) && errno != EINVAL && errno != EROFS)
        status = fail_write(out->path, err);
    if (ok && !status && out->part && put_in_place(out))
        status = fail_write(out->path, err);
    if (close(out->fd) && ok && !status)
        status = fail_write(out->path, err);
    if ((!ok || status) && out->part && !out->nameless)
        unlink(out->part);
    weft_free(out->part);
    *out = (tokenize_output){.fd = -1};
    return status;
}
