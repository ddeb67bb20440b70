/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a file, hashed as they are and unpacked if they are gzip or zstd, of any number of
 * members or frames. */
#include "build.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

enum { RAW_BYTES = 1 << 18 };

typedef enum packing { UNKNOWN, PLAIN, GZIP, ZSTD } packing;

struct text_input {
    int fd;
    const char *path;
    packing packing;
    XXH3_state_t *hash;
    int64_t bytes; /* of the file */
    char *raw;     /* what is read but not unpacked: raw[start..end) */
    size_t start, end;
    bool at_end; /* of the file */
    bool inside; /* a member or frame is open */
    char *broken;
    z_stream gzip;
    ZSTD_DStream *zstd;
};

static void *gzip_alloc(void *self, unsigned n, unsigned size)
{
    (void)self;
    return weft_alloc_zero(n, size);
}

static void gzip_free(void *self, void *p)
{
    (void)self;
    weft_free(p);
}

static weft_status open_input(text_input **out, const char *path, packing how, weft_error *err)
{
    text_input *in = weft_alloc_zero(1, sizeof *in);
    weft_status status = WEFT_OK;
    if (!in)
        return weft_fail_memory(err);
    in->path = path;
    in->packing = how;
    in->raw = weft_alloc(RAW_BYTES);
    in->hash = XXH3_createState();
    in->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (in->fd < 0)
        status = text_fail_errno(err, WEFT_ERR_INPUT, "read", path);
    else if (!in->raw || !in->hash || XXH3_64bits_reset(in->hash) == XXH_ERROR)
        status = weft_fail_memory(err);
    if (status) {
        text_input_close(in);
        in = NULL;
    }
    *out = in;
    return status;
}

weft_status text_input_open(text_input **in, const char *path, weft_error *err)
{
    return open_input(in, path, UNKNOWN, err);
}

weft_status text_input_open_raw(text_input **in, const char *path, weft_error *err)
{
    return open_input(in, path, PLAIN, err);
}

void text_input_close(text_input *in)
{
    if (!in)
        return;
    if (in->packing == GZIP)
        inflateEnd(&in->gzip);
    ZSTD_freeDStream(in->zstd);
    XXH3_freeState(in->hash);
    if (in->fd >= 0)
        close(in->fd);
    weft_free(in->broken);
    weft_free(in->raw);
    weft_free(in);
}

/* One read of the file itself. */
static weft_status read_some(text_input *in, char *to, size_t room, size_t *n, weft_error *err)
{
    ssize_t got;
    do
        got = read(in->fd, to, room);
    while (got < 0 && errno == EINTR);
    *n = got > 0 ? (size_t)got : 0;
    if (got < 0)
        return text_fail_errno(err, WEFT_ERR_IO, "read", in->path);
    in->at_end = got == 0;
    in->bytes += got;
    if (XXH3_64bits_update(in->hash, to, *n) == XXH_ERROR)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "cannot hash %s", in->path);
    return WEFT_OK;
}

/* More raw bytes behind those that are there. */
static weft_status refill(text_input *in, weft_error *err)
{
    size_t n;
    memmove(in->raw, in->raw + in->start, in->end - in->start);
    in->end -= in->start;
    in->start = 0;
    weft_status status = read_some(in, in->raw + in->end, RAW_BYTES - in->end, &n, err);
    in->end += n;
    return status;
}

/* By the first bytes, which no UTF-8 text has. */
static weft_status find_packing(text_input *in, weft_error *err)
{
    weft_status status = WEFT_OK;
    while (!status && in->end < 4 && !in->at_end)
        status = refill(in, err);
    if (status)
        return status;
    in->packing = PLAIN;
    if (in->end >= 2 && !memcmp(in->raw, "\x1f\x8b", 2)) {
        in->gzip = (z_stream){.zalloc = gzip_alloc, .zfree = gzip_free};
        if (inflateInit2(&in->gzip, 15 + 16) != Z_OK)
            return weft_fail_memory(err);
        in->packing = GZIP;
    } else if (in->end >= 4 && !memcmp(in->raw, "\x28\xb5\x2f\xfd", 4)) {
        in->zstd = ZSTD_createDStream();
        if (!in->zstd)
            return weft_fail_memory(err);
        in->packing = ZSTD;
    }
    return WEFT_OK;
}

/* Notes what is wrong and reads the rest, so that size and hash are the whole file's. */
static weft_status break_off(text_input *in, const char *what, weft_error *err)
{
    const char *name = in->packing == GZIP ? "gzip" : "zstd";
    in->broken = weft_format("broken %s data near byte %lld: %s", name,
                             (long long)(in->bytes - (int64_t)(in->end - in->start)), what);
    weft_status status = in->broken ? WEFT_OK : weft_fail_memory(err);
    size_t n = 1;
    while (!status && n > 0)
        status = read_some(in, in->raw, RAW_BYTES, &n, err);
    in->start = in->end = 0;
    return status;
}

/* Unpacks once; *n bytes were made, *what is set if the data is wrong. */
static weft_status inflate_some(text_input *in, char *to, size_t room, size_t *n, const char **what,
                                weft_error *err)
{
    z_stream *z = &in->gzip;
    z->next_in = (Bytef *)in->raw + in->start;
    z->avail_in = (uInt)(in->end - in->start);
    z->next_out = (Bytef *)to;
    z->avail_out = room > 1 << 30 ? 1u << 30 : (uInt)room;
    uInt given = z->avail_out;
    int rc = inflate(z, Z_NO_FLUSH);
    *n = given - z->avail_out;
    in->inside = rc != Z_STREAM_END;
    in->start = in->end - z->avail_in;
    if (rc == Z_MEM_ERROR)
        return weft_fail_memory(err);
    if (rc == Z_STREAM_END)
        rc = inflateReset(z);
    if (rc != Z_OK && rc != Z_BUF_ERROR)
        *what = z->msg ? z->msg : "it makes no sense";
    return WEFT_OK;
}

static weft_status unzstd_some(text_input *in, char *to, size_t room, size_t *n, const char **what,
                               weft_error *err)
{
    ZSTD_inBuffer from = {in->raw, in->end, in->start};
    ZSTD_outBuffer out = {to, room, 0};
    size_t rc = ZSTD_decompressStream(in->zstd, &out, &from);
    *n = out.pos;
    in->start = from.pos;
    if (ZSTD_getErrorCode(rc) == ZSTD_error_memory_allocation)
        return weft_fail_memory(err);
    if (ZSTD_isError(rc))
        *what = ZSTD_getErrorName(rc);
    in->inside = rc != 0;
    return WEFT_OK;
}

static weft_status unpack(text_input *in, char *to, size_t room, size_t *n, weft_error *err)
{
    weft_status status = WEFT_OK;
    const char *what = NULL;
    *n = 0;
    while (!status && !what && !*n && !in->broken) {
        if (in->start == in->end && !in->at_end) {
            status = refill(in, err);
            continue;
        }
        if (in->start == in->end && !in->inside)
            return WEFT_OK;
        size_t before = in->start;
        status = (in->packing == GZIP ? inflate_some : unzstd_some)(in, to, room, n, &what, err);
        if (!status && !what && !*n && in->start == before && in->inside) { /* it wants more */
            if (in->at_end)
                what = "the file ends in the middle of it";
            else
                status = refill(in, err);
        }
    }
    if (status || !what)
        return status;
    *n = 0;
    return break_off(in, what, err);
}

weft_status text_input_read(text_input *in, char *to, size_t room, size_t *n, weft_error *err)
{
    *n = 0;
    weft_status status = in->packing == UNKNOWN ? find_packing(in, err) : WEFT_OK;
    if (status || in->broken)
        return status;
    if (in->packing != PLAIN)
        return unpack(in, to, room, n, err);
    if (in->start == in->end)
        return read_some(in, to, room, n, err);
    *n = in->end - in->start < room ? in->end - in->start : room;
    memcpy(to, in->raw + in->start, *n);
    in->start += *n;
    return WEFT_OK;
}

weft_status text_input_fill(text_input *in, char *to, size_t room, size_t *n, weft_error *err)
{
    weft_status status = WEFT_OK;
    size_t some = 1;
    for (*n = 0; !status && some > 0 && *n < room; *n += some)
        status = text_input_read(in, to + *n, room - *n, &some, err);
    return status;
}

const char *text_input_broken(const text_input *in)
{
    return in->broken;
}

int text_input_fd(const text_input *in)
{
    return in->fd;
}

int64_t text_input_bytes(const text_input *in)
{
    return in->bytes;
}

uint64_t text_input_hash(const text_input *in)
{
    return XXH3_64bits_digest(in->hash);
}
