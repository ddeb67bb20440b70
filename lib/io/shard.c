/* SPDX-License-Identifier: Apache-2.0 */
#include "io/shard.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

enum { FLUSH = 8 << 20 }; /* bytes that are sent to the disk together, while others are written */

struct weft_shard {
    weft_io io;
    char *path;
    int fd; /* -1: not open */
    int n;
    int64_t data;    /* bytes before the first piece */
    int64_t *begin;  /* [n + 1] of the pieces behind that */
    int64_t *bytes;  /* [n] that a piece has */
    int64_t *filled; /* [n] of those written */
    store_summer summer;
    int64_t written,
        flushed; /* bytes of the file's beginning: in order, on their way to the disk */
    bool sharded, created, finished;
};

static weft_status write_at(weft_shard *s, const void *data, int64_t n, int64_t at, weft_error *err)
{
    weft_status status = store_write(&s->io, s->fd, s->path, data, n, at, err);
    if (status == WEFT_OK && s->written == at) {
        s->written += n;
        if (s->sharded)
            store_summer_add(&s->summer, data, n);
    }
    if (s->written - s->flushed >= FLUSH && s->io.flush) {
        s->io.flush(s->io.ctx, s->fd, s->flushed, s->written - s->flushed);
        s->flushed = s->written;
    }
    return status;
}

/* Never over a file that is there: what could not be finished is removed, and must have been ours.
 */
static weft_status create_file(weft_shard *s, const weft_text *header, weft_error *err)
{
    uint64_t length = header->size;
    s->fd = store_open(&s->io, s->path, O_RDWR | O_CREAT | O_EXCL, 0666);
    if (s->fd < 0)
        return weft_fail_errno_hint(err, s->path, "create this file", store_untouched);
    s->created = true;
    weft_status status = write_at(s, &length, sizeof length, 0, err);
    return status == WEFT_OK ? write_at(s, header->data, (int64_t)length, sizeof length, err)
                             : status;
}

static bool take_room(weft_shard *s, const weft_piece *pieces, int n)
{
    s->begin = weft_alloc_zero((size_t)n + 1, sizeof *s->begin);
    s->bytes = weft_alloc_zero((size_t)n, sizeof *s->bytes);
    s->filled = weft_alloc_zero((size_t)n, sizeof *s->filled);
    if (!s->begin || !s->bytes || !s->filled)
        return false;
    for (int i = 0; i < n; i++)
        s->bytes[i] = weft_piece_bytes(&pieces[i]);
    return true;
}

weft_status weft_shard_create(const weft_io *io, const char *path, const weft_piece *pieces, int n,
                              bool sharded, const char *const *metadata, weft_shard **out,
                              weft_error *err)
{
    weft_status status = store_check_pieces(path, pieces, n, sharded, err);
    if (status != WEFT_OK)
        return status;
    weft_text header = {0};
    weft_shard *s = weft_alloc_zero(1, sizeof *s);
    if (!s)
        return weft_fail_memory(err);
    *s = (weft_shard){.io = *io, .path = weft_strdup(path), .fd = -1, .n = n, .sharded = sharded};
    if (!s->path || !take_room(s, pieces, n))
        status = weft_fail_memory(err);
    else
        store_build_header(&header, pieces, n, sharded, metadata, s->begin);
    if (header.out_of_memory)
        status = weft_fail_memory(err);
    if (status != WEFT_OK)
        goto done;
    s->data = 8 + (int64_t)header.size;
    status = store_summer_init(&s->summer, s->data + s->begin[n], err);
    if (status == WEFT_OK)
        status = create_file(s, &header, err);
done:
    weft_text_release(&header);
    if (status == WEFT_OK)
        *out = s;
    else
        weft_shard_destroy(s);
    return status;
}

weft_status weft_shard_write(weft_shard *s, int i, int64_t at, const void *data, int64_t n,
                             weft_error *err)
{
    if (s->fd < 0 || i < 0 || i >= s->n || at < 0 || n < 0 || at > s->bytes[i] ||
        n > s->bytes[i] - at || s->filled[i] > s->bytes[i] - n)
        return weft_fail(err, WEFT_ERR_INTERNAL, (weft_where){s->path, 0},
                         "%" PRId64 " bytes at %" PRId64 " of piece %d do not belong there", n, at,
                         i);
    weft_status status = write_at(s, data, n, s->data + s->begin[i] + at, err);
    if (status == WEFT_OK)
        s->filled[i] += n;
    return status;
}

static weft_status finish(weft_shard *s, bool sums, weft_error *err)
{
    weft_where at = {s->path, 0};
    if (s->fd < 0)
        return weft_fail(err, WEFT_ERR_INTERNAL, at, "finished twice");
    for (int i = 0; i < s->n; i++) {
        if (s->filled[i] != s->bytes[i])
            return weft_fail(err, WEFT_ERR_INTERNAL, at,
                             "%" PRId64 " of %" PRId64 " bytes of piece %d were written",
                             s->filled[i], s->bytes[i], i);
    }
    weft_status status =
        sums ? store_summer_read(&s->summer, &s->io, s->fd, s->path, err) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    if (store_fsync(&s->io, s->fd) != 0)
        return weft_fail_errno_hint(err, s->path, "flush to disk", store_untouched);
    int fd = s->fd;
    s->fd = -1;
    /* Closed even where a signal came in between. */
    if (s->io.close(s->io.ctx, fd) != 0 && errno != EINTR)
        return weft_fail_errno_hint(err, s->path, "close", store_untouched);
    return WEFT_OK;
}

weft_status weft_shard_finish(weft_shard *s, weft_sums *sums, weft_error *err)
{
    weft_status status = finish(s, sums != NULL, err);
    if (status != WEFT_OK)
        return status;
    s->finished = true;
    if (sums) {
        *sums = s->summer.sums;
        s->summer.sums = (weft_sums){0};
    }
    return WEFT_OK;
}

void weft_shard_destroy(weft_shard *s)
{
    if (!s)
        return;
    if (s->fd >= 0)
        s->io.close(s->io.ctx, s->fd);
    if (s->created && !s->finished)
        s->io.unlink(s->io.ctx, s->path);
    store_summer_release(&s->summer);
    weft_free(s->path);
    weft_free(s->begin);
    weft_free(s->bytes);
    weft_free(s->filled);
    weft_free(s);
}
