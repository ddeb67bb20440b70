/* SPDX-License-Identifier: Apache-2.0 */
/* Where results go. */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static weft_status fail_write(const char *path, weft_error *err)
{
    int code = errno;
    bool place = code == ENOENT || code == EACCES || code == ENOTDIR || code == EROFS || code == EISDIR;
    return weft_fail(err, place ? WEFT_ERR_INPUT : WEFT_ERR_IO, WEFT_NOWHERE, "cannot write %s: %s", path, strerror(code));
}

weft_status tokenize_output_open(tokenize_output *out, const weft_command_host *host, const char *path, weft_error *err)
{
    *out = (tokenize_output){.host = host, .path = path, .fd = -1};
    if (!path)
        return WEFT_OK;
    out->part = weft_format("%s.part", path);
    if (!out->part)
        return weft_fail_memory(err);
    out->fd = open(out->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
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

weft_status tokenize_output_close(tokenize_output *out, bool ok, weft_error *err)
{
    weft_status status = WEFT_OK;
    if (out->fd < 0)
        return WEFT_OK;
    if (ok && fsync(out->fd) && errno != EINVAL && errno != EROFS)
        status = fail_write(out->path, err);
    if (close(out->fd) && ok && !status)
        status = fail_write(out->path, err);
    if (ok && !status && rename(out->part, out->path))
        status = fail_write(out->path, err);
    if (!ok || status)
        unlink(out->part);
    weft_free(out->part);
    *out = (tokenize_output){.fd = -1};
    return status;
}
