/* SPDX-License-Identifier: Apache-2.0 */
/* Plain text: a file is a document. */
#include "text.h"

#include <string.h>

enum { READ_BYTES = 1 << 18 };

/* Where reading stands. */
typedef struct plain {
    text_build *build;
    const char *path;
    int64_t at;   /* bytes of the file before buffer[0] */
    bool dropped; /* the document is bad: only the hash is still wanted */
    size_t n;     /* bytes in the buffer */
    char *buffer;
} plain;

/* Adds what the buffer holds and keeps the start of a character that is not complete yet. */
static weft_status add_buffer(plain *p, bool end, weft_error *err)
{
    size_t used = 0;
    weft_status status = WEFT_OK;
    while (!status && !p->dropped && used < p->n) {
        size_t valid = text_utf8_valid(p->buffer + used, p->n - used);
        status = text_document_add(p->build, p->buffer + used, valid, err);
        used += valid;
        if (status || used == p->n)
            break;
        size_t bad = text_utf8_bad(p->buffer + used, p->n - used, end);
        if (!bad)
            break;
        if (p->build->text->repair_utf8) {
            status = text_document_add(p->build, TEXT_UTF8_REPLACEMENT, 3, err);
        } else {
            status =
                text_document_bad(p->build, (weft_where){p->path, 0}, err, "not UTF-8 at byte %lld; convert it, or set [text] invalid_utf8 = replace",
                                  (long long)(p->at + (int64_t)used));
            p->dropped = true;
        }
        used += bad;
    }
    if (p->dropped)
        used = p->n;
    p->at += (int64_t)used;
    p->n -= used;
    memmove(p->buffer, p->buffer + used, p->n);
    return status;
}

weft_status text_read_plain(text_build *build, int fd, const char *path, uint64_t *hash, int64_t *size, weft_error *err)
{
    plain p = {.build = build, .path = path, .buffer = weft_alloc(READ_BYTES)};
    if (!p.buffer)
        return weft_fail_memory(err);
    size_t n = 1;
    weft_status status = text_document_begin(build, err);
    while (!status && n > 0) {
        status = text_read_some(fd, path, p.buffer + p.n, READ_BYTES - p.n, &n, err);
        if (status)
            break;
        *hash = weft_hash_bytes(*hash, p.buffer + p.n, n);
        *size += (int64_t)n;
        p.n += n;
        status = add_buffer(&p, n == 0, err);
    }
    if (!status && p.dropped)
        text_document_drop(build);
    else if (!status)
        status = text_document_end(build, err);
    weft_free(p.buffer);
    return status;
}
