/* SPDX-License-Identifier: Apache-2.0 */
/* Reads all files and turns their documents into one stream of tokens. */
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 16, SKIPS_LOGGED = 5 };

weft_status text_read_some(int fd, const char *path, char *to, size_t room, size_t *n, weft_error *err)
{
    ssize_t got;
    do
        got = read(fd, to, room);
    while (got < 0 && errno == EINTR);
    *n = got > 0 ? (size_t)got : 0;
    return got < 0 ? text_fail_errno(err, WEFT_ERR_IO, "read", path) : WEFT_OK;
}

/* ---- documents ---- */

weft_status text_document_begin(text_build *build, weft_error *err)
{
    build->mark = text_writer_count(build->tokens);
    build->content = false;
    return build->text->bos ? text_writer_put(build->tokens, (uint64_t)build->text->tokenizer->bos, err) : WEFT_OK;
}

static weft_status add_piece(text_build *build, const char *s, size_t n, weft_error *err)
{
    size_t n_ids = 0;
    weft_status status = build->text->tokenizer->encode(s, n, &build->ids, &n_ids, &build->capacity, err);
    return status ? status : text_writer_put_ids(build->tokens, build->ids, n_ids, err);
}

weft_status text_document_add(text_build *build, const char *s, size_t n, weft_error *err)
{
    build->content = build->content || n > 0;
    weft_status status = WEFT_OK;
    while (!status && n > 0) {
        size_t piece = n;
        if (n > PIECE)
            piece = text_utf8_valid(s, PIECE); /* back to the end of a character */
        status = add_piece(build, s, piece, err);
        s += piece;
        n -= piece;
    }
    return status;
}

void text_document_drop(text_build *build)
{
    text_writer_rewind(build->tokens, build->mark);
}

weft_status text_document_end(text_build *build, weft_error *err)
{
    if (!build->content) {
        text_document_drop(build);
        return WEFT_OK;
    }
    weft_status status = build->text->eos ? text_writer_put(build->tokens, (uint64_t)build->text->tokenizer->eos, err) : WEFT_OK;
    if (!status)
        status = text_writer_put(build->offsets, (uint64_t)build->mark, err);
    build->n_documents += !status;
    return status;
}

weft_status text_document_bad(text_build *build, weft_where at, weft_error *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *what = weft_vformat(format, args);
    va_end(args);
    if (!what)
        return weft_fail_memory(err);
    weft_status status = WEFT_OK;
    const weft_log *log = build->text->host->log;
    if (!build->text->skip_bad)
        status = weft_fail(err, WEFT_ERR_INPUT, at, "%s (or leave such documents out: [text] on_bad = skip)", what);
    else if (build->n_skipped < SKIPS_LOGGED && at.line)
        weft_log_print(log, WEFT_LOG_WARN, "%s:%d: skipped: %s", at.file, at.line, what);
    else if (build->n_skipped < SKIPS_LOGGED)
        weft_log_print(log, WEFT_LOG_WARN, "%s: skipped: %s", at.file, what);
    else if (build->n_skipped == SKIPS_LOGGED)
        weft_log_print(log, WEFT_LOG_WARN, "more documents are skipped; only their number follows");
    build->n_skipped++;
    weft_free(what);
    return status;
}

/* ---- files ---- */

static bool same_file_state(const struct stat *a, const struct stat *b)
{
    return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static weft_status read_file(text_build *build, text_file *file, weft_error *err)
{
    struct stat before, after;
    uint64_t hash = weft_hash_name("contents");
    int64_t size = 0;
    int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return text_fail_errno(err, WEFT_ERR_INPUT, "read", file->path);
    weft_status status = WEFT_OK;
    if (fstat(fd, &before))
        status = text_fail_errno(err, WEFT_ERR_IO, "read", file->path);
    if (!status)
        status = (file->jsonl ? text_read_jsonl : text_read_plain)(build, fd, file->path, &hash, &size, err);
    if (!status && fstat(fd, &after))
        status = text_fail_errno(err, WEFT_ERR_IO, "read", file->path);
    if (!status && (size != before.st_size || !same_file_state(&before, &after)))
        status =
            weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s changed while it was read (%lld bytes, then %lld read); start again when it is complete",
                      file->path, (long long)before.st_size, (long long)size);
    close(fd);
    if (status)
        return status;
    file->size = size;
    file->mtime_s = before.st_mtim.tv_sec;
    file->mtime_ns = before.st_mtim.tv_nsec;
    file->hash = hash;
    build->n_bytes += size;
    return WEFT_OK;
}

weft_status text_build_run(text_build *build, text_files *files, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; !status && i < files->n; i++)
        status = read_file(build, &files->list[i], err);
    if (!status)
        status = text_writer_put(build->offsets, (uint64_t)text_writer_count(build->tokens), err);
    return status;
}

void text_build_release(text_build *build)
{
    weft_free(build->ids);
    build->ids = NULL;
    build->capacity = 0;
}
