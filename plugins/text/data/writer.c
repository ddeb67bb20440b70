/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded buffer of unsigned integers in front of a file. */
#include "build.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20 };

weft_status text_fail_errno(weft_error *err, weft_status status, const char *doing,
                            const char *path)
{
    int error = errno;
    if (error == ENOSPC || error == EDQUOT || error == EFBIG)
        return weft_fail(err, status, WEFT_NOWHERE,
                         "cannot %s %s: %s; make room, or set [text] cache to a folder with more",
                         doing, path, strerror(error));
    if (error == ELOOP && strcmp(doing, "create") == 0)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "cannot %s %s: it is a symbolic link, which weft does not follow to what "
                         "it writes; remove it",
                         doing, path);
    if (status == WEFT_ERR_IO &&
        (error == EACCES || error == EROFS || error == ENOTDIR || error == EPERM))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "cannot %s %s: %s", doing, path,
                         strerror(error));
    return weft_fail(err, status, WEFT_NOWHERE, "cannot %s %s: %s", doing, path, strerror(error));
}

weft_status text_write_at(int fd, const char *path, const void *data, size_t bytes, int64_t at,
                          weft_error *err)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pwrite(fd, (const char *)data + done, bytes - done, at + (int64_t)done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            return text_fail_errno(err, WEFT_ERR_IO, "write", path);
    }
    return WEFT_OK;
}

weft_status text_read_at(int fd, const char *path, void *data, size_t bytes, int64_t at,
                         weft_error *err)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(fd, (char *)data + done, bytes - done, at + (int64_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return text_fail_errno(err, WEFT_ERR_IO, "read back", path);
        if (n == 0)
            return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE,
                             "%s has become shorter while it was written", path);
        done += (size_t)n;
    }
    return WEFT_OK;
}

weft_status text_writer_init(text_writer *w, int fd, const char *path, int64_t base, size_t width,
                             weft_error *err)
{
    *w = (text_writer){.fd = fd, .path = path, .base = base, .width = width};
    w->buffer = weft_alloc(BUFFER_BYTES);
    return w->buffer ? WEFT_OK : weft_fail_memory(err);
}

void text_writer_release(text_writer *w)
{
    weft_free(w->buffer);
    w->buffer = NULL;
}

int64_t text_writer_count(const text_writer *w)
{
    return w->flushed + (int64_t)w->n;
}

weft_status text_writer_flush(text_writer *w, weft_error *err)
{
    weft_status status = text_write_at(w->fd, w->path, w->buffer, w->n * w->width,
                                       w->base + w->flushed * (int64_t)w->width, err);
    if (status)
        return status;
    w->flushed += (int64_t)w->n;
    w->n = 0;
    return WEFT_OK;
}

weft_status text_writer_put(text_writer *w, uint64_t element, weft_error *err)
{
    if ((w->n + 1) * w->width > BUFFER_BYTES) {
        weft_status status = text_writer_flush(w, err);
        if (status)
            return status;
    }
    if (w->width == 2)
        ((uint16_t *)(void *)w->buffer)[w->n++] = (uint16_t)element;
    else if (w->width == 4)
        ((uint32_t *)(void *)w->buffer)[w->n++] = (uint32_t)element;
    else
        ((uint64_t *)(void *)w->buffer)[w->n++] = element;
    return WEFT_OK;
}

weft_status text_writer_put_ids(text_writer *w, const int32_t *ids, size_t n, weft_error *err)
{
    while (n > 0) {
        size_t room = BUFFER_BYTES / w->width - w->n, some = n < room ? n : room;
        if (w->width == 2)
            for (size_t i = 0; i < some; i++)
                ((uint16_t *)(void *)w->buffer)[w->n + i] = (uint16_t)ids[i];
        else
            memcpy(w->buffer + w->n * w->width, ids, some * sizeof *ids);
        w->n += some;
        ids += some;
        n -= some;
        weft_status status = n > 0 ? text_writer_flush(w, err) : WEFT_OK;
        if (status)
            return status;
    }
    return WEFT_OK;
}

void text_writer_rewind(text_writer *w, int64_t count)
{
    if (count >= w->flushed) {
        w->n = (size_t)(count - w->flushed);
        return;
    }
    w->flushed = count; /* what lies behind it in the file is written over, or cut off at the end */
    w->n = 0;
}
