/* SPDX-License-Identifier: Apache-2.0 */
/* Files to tasks: text files are cut where the tokenizer allows it, JSON Lines at lines. */
#include "../data/build.h"
#include "command.h"

#include <limits.h>
#include <string.h>

enum { READ_BYTES = 1 << 18, TASK_BYTES = 1 << 18 };

typedef struct reader {
    const tokenize_job *job;
    tokenize_ring *ring;
    tokenize_task *task; /* being filled; NULL: none */
    int64_t read;        /* of the files before */
    weft_error *err;
    /* the file */
    text_input *in;
    size_t file;
    int line;
    char *buffer; /* what no piece has yet */
    size_t n, capacity;
    size_t tried; /* plain: no cut lies before */
    bool first;   /* plain: nothing of the document is in a piece */
} reader;

static weft_status add_piece(reader *r, size_t n, int line, bool first, bool last)
{
    weft_status status = WEFT_OK;
    if (!r->task)
        status = tokenize_ring_next(r->ring, &r->task, r->err);
    if (!status)
        status = tokenize_task_add(r->task, r->buffer, n, r->err);
    if (!status)
        status = tokenize_task_end_piece(
            r->task, (tokenize_piece){.file = r->file, .line = line, .first = first, .last = last},
            r->err);
    if (status || r->task->n < TASK_BYTES)
        return status;
    r->task->read = r->read + (r->in ? text_input_bytes(r->in) : 0);
    r->task = NULL;
    return tokenize_ring_submit(r->ring, r->err);
}

static int count_lines(const char *s, size_t n)
{
    int lines = 0;
    for (const char *at = s, *end = s + n;
         (at = memchr(at, '\n', (size_t)(end - at))) && lines < INT_MAX / 2; at++)
        lines++;
    return lines;
}

static void drop(reader *r, size_t n)
{
    memmove(r->buffer, r->buffer + n, r->n - n);
    r->n -= n;
    r->tried = 0;
}

/* Text: a piece whenever enough is there and it can be cut. */
static weft_status cut_plain(reader *r, bool end)
{
    size_t cut = r->n;
    if (!end) {
        if (r->n < TASK_BYTES)
            return WEFT_OK;
        cut = tokenizer_cut(r->job->tokenizer, r->buffer, r->n, r->tried);
        if (cut == r->n) {
            r->tried = r->n - 4;
            return WEFT_OK;
        }
    }
    int line = r->line;
    r->line += r->line < INT_MAX / 2 ? count_lines(r->buffer, cut) : 0;
    weft_status status = add_piece(r, cut, line, r->first, end);
    r->first = false;
    drop(r, cut);
    return status;
}

static bool is_blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r')
            return false;
    return true;
}

/* JSON Lines: a piece for each line. */
static weft_status cut_lines(reader *r, bool end)
{
    weft_status status = WEFT_OK;
    char *buffer = r->buffer;
    size_t n = r->n, at = 0;
    while (!status && at < n) {
        char *newline = memchr(buffer + at, '\n', n - at);
        if (!newline && !end)
            break;
        size_t length = newline ? (size_t)(newline - buffer) - at : n - at, skip = 0;
        if (++r->line == 1 && length >= 3 &&
            !memcmp(buffer, "\xEF\xBB\xBF", 3)) /* a byte order mark is no JSON */
            skip = 3;
        r->buffer = buffer + at + skip;
        if (!is_blank(r->buffer, length - skip))
            status = add_piece(r, length - skip, r->line, true, true);
        at += length + (newline != NULL);
    }
    r->buffer = buffer;
    drop(r, at);
    return status;
}

static weft_status make_room(reader *r)
{
    if (r->capacity - r->n >= READ_BYTES)
        return WEFT_OK;
    size_t capacity = r->capacity ? 2 * r->capacity : 4 * (size_t)READ_BYTES;
    char *grown = weft_realloc(r->buffer, capacity);
    if (!grown)
        return weft_fail_memory(r->err);
    r->buffer = grown;
    r->capacity = capacity;
    return WEFT_OK;
}

static weft_status read_all(reader *r)
{
    bool jsonl = r->job->files->list[r->file].jsonl;
    weft_status status = WEFT_OK;
    for (size_t got = 1; !status && got;) {
        status = make_room(r);
        if (!status)
            status = text_input_read(r->in, r->buffer + r->n, READ_BYTES, &got, r->err);
        if (status)
            break;
        if (!got && text_input_broken(r->in))
            return weft_fail(r->err, WEFT_ERR_INPUT,
                             (weft_where){r->job->files->list[r->file].path, 0}, "%s",
                             text_input_broken(r->in));
        r->n += got;
        status = (jsonl ? cut_lines : cut_plain)(r, got == 0);
    }
    return status;
}

static weft_status read_file(reader *r)
{
    r->n = r->tried = 0;
    r->first = true;
    r->line = r->job->files->list[r->file].jsonl ? 0 : 1;
    weft_status status = text_input_open(&r->in, r->job->files->list[r->file].path, r->err);
    if (status)
        return status;
    status = read_all(r);
    r->read += text_input_bytes(r->in);
    text_input_close(r->in);
    r->in = NULL;
    return status;
}

weft_status tokenize_run(const tokenize_job *job, weft_error *err)
{
    reader r = {.job = job, .err = err};
    weft_status bad = WEFT_OK, status = tokenize_ring_create(job, &r.ring, err);
    for (r.file = 0; !status && r.file < job->files->n; r.file++) {
        status = read_file(&r);
        if (status == WEFT_ERR_INPUT) { /* go on: the others may be wrong too */
            tokenize_ring_fail(r.ring);
            bad = status;
            status = WEFT_OK;
        }
    }
    if (!status && r.task) {
        r.task->read = r.read;
        status = tokenize_ring_submit(r.ring, err);
    }
    if (!status)
        status = tokenize_ring_finish(r.ring, err);
    tokenize_ring_destroy(r.ring);
    weft_free(r.buffer);
    return status ? status : bad;
}
