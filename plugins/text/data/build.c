/* SPDX-License-Identifier: Apache-2.0 */
/* Reads all files and puts what the workers make of them into one stream of tokens, in the order of
 * the files. */
#include "build.h"

#include <sys/stat.h>

enum { FILES_TOLD = 20, THREADS_FROM_BYTES = 1 << 20 };

weft_status text_build_bad(text_build *build, const char *path, int line, const char *what,
                           weft_error *err)
{
    const weft_log *log = build->text->host->log;
    if (!build->text->skip_bad)
        return weft_fail(err, WEFT_ERR_INPUT, (weft_where){path, line},
                         "%s (or leave such documents out: [text] on_bad = skip)", what);
    if (build->n_skipped_here == 0 && build->n_files_told++ < FILES_TOLD) {
        char *place = line ? weft_format("%s:%d", path, line) : weft_strdup(path);
        weft_log_print(log, WEFT_LOG_WARN, "%s: skipped: %s", place ? place : path, what);
        weft_free(place);
    }
    build->n_skipped_here++;
    build->n_skipped++;
    return WEFT_OK;
}

/* A file's first skipped document has been told when it was met; here, how many followed. */
static void tell_skipped(text_build *build, const char *path)
{
    const weft_log *log = build->text->host->log;
    int64_t more = build->n_skipped_here - 1;
    build->n_skipped_here = 0;
    if (more > 0 && build->n_files_told <= FILES_TOLD)
        weft_log_print(log, WEFT_LOG_WARN, "%s: %lld more document%s skipped", path,
                       (long long)more, more > 1 ? "s are" : " is");
}

/* ---- results, in order ---- */

static weft_status begin_document(text_build *build, weft_error *err)
{
    build->mark = text_writer_count(build->tokens);
    return build->text->bos
               ? text_writer_put(build->tokens, (uint64_t)build->text->tokenizer->bos, err)
               : WEFT_OK;
}

static weft_status end_document(text_build *build, weft_error *err)
{
    weft_status status =
        build->text->eos
            ? text_writer_put(build->tokens, (uint64_t)build->text->tokenizer->eos, err)
            : WEFT_OK;
    if (!status)
        status = text_writer_put(build->offsets, (uint64_t)build->mark, err);
    build->n_documents += !status;
    return status;
}

static weft_status take_lines(text_build *build, const text_job *job, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0, from = 0; !status && i < job->n_ends; from = job->ends[i++]) {
        status = begin_document(build, err);
        if (!status)
            status = text_writer_put_ids(build->tokens, job->ids + from, job->ends[i] - from, err);
        if (!status)
            status = end_document(build, err);
    }
    return status;
}

/* An empty document leaves no tokens, and a bad one none either. */
static weft_status take_part(text_build *build, const text_job *job, weft_error *err)
{
    weft_status status = WEFT_OK;
    if (job->begin) {
        build->content = build->dropped = false;
        status = begin_document(build, err);
    }
    build->content = build->content || job->n > 0;
    build->dropped = build->dropped || job->n_bads > 0;
    if (!status && !build->dropped)
        status = text_writer_put_ids(build->tokens, job->ids, job->n_ids, err);
    if (status || !job->end)
        return status;
    if (build->content && !build->dropped)
        return end_document(build, err);
    text_writer_rewind(build->tokens, build->mark);
    return WEFT_OK;
}

/* Puts away the oldest job. A document's first fault counts. */
static weft_status take_oldest(text_build *build, bool *any, weft_error *err)
{
    text_job *job = text_workers_oldest(&build->workers);
    *any = job != NULL;
    if (!job)
        return WEFT_OK;
    weft_status status = job->status;
    if (status)
        weft_fail(err, status, WEFT_NOWHERE, "%s", weft_error_text(&job->err));
    size_t n_bads = job->n_bads;
    if (job->kind == TEXT_PLAIN) /* one document */
        n_bads = n_bads && (job->begin || !build->dropped) ? 1 : 0;
    for (size_t i = 0; !status && i < n_bads; i++)
        status = text_build_bad(build, job->path, job->bads[i].line, job->bads[i].what, err);
    if (!status)
        status = (job->kind == TEXT_JSONL ? take_lines : take_part)(build, job, err);
    build->failed = status != WEFT_OK;
    text_workers_drop(&build->workers);
    text_progress_update(&build->progress,
                         build->n_bytes + (build->in ? text_input_bytes(build->in) : 0));
    return status;
}

weft_status text_build_job(text_build *build, const text_file *file, text_job **job,
                           weft_error *err)
{
    weft_status status = WEFT_OK;
    bool any = true;
    while (!status && any && !(*job = text_workers_free(&build->workers)))
        status = take_oldest(build, &any, err);
    if (status)
        return status;
    (*job)->kind = file->kind;
    (*job)->path = file->path;
    return WEFT_OK;
}

weft_status text_build_submit(text_build *build, weft_error *err)
{
    bool any;
    text_workers_submit(&build->workers);
    return build->workers.n_threads ? WEFT_OK : take_oldest(build, &any, err);
}

weft_status text_build_flush(text_build *build, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (bool any = true; !status && any && !build->failed;)
        status = take_oldest(build, &any, err);
    return status;
}

/* ---- files ---- */

static bool same_file_state(const struct stat *a, const struct stat *b)
{
    return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static weft_status read_open_file(text_build *build, text_file *file, weft_error *err)
{
    typedef weft_status (*reader)(text_build *, const text_file *, weft_error *);
    static const reader readers[] = {[TEXT_PLAIN] = text_read_plain,
                                     [TEXT_JSONL] = text_read_jsonl,
                                     [TEXT_BIN] = text_read_bin,
                                     [TEXT_INDEX] = text_read_index};
    struct stat before, after;
    if (fstat(text_input_fd(build->in), &before))
        return text_fail_errno(err, WEFT_ERR_IO, "read", file->path);
    weft_error late = {0}; /* what jobs before say comes first */
    weft_status read = readers[file->kind](build, file, &late),
                status = text_build_flush(build, err);
    if (!status && read)
        status = weft_fail(err, read, WEFT_NOWHERE, "%s", weft_error_text(&late));
    weft_error_release(&late);
    if (!status && fstat(text_input_fd(build->in), &after))
        status = text_fail_errno(err, WEFT_ERR_IO, "read", file->path);
    int64_t size = text_input_bytes(build->in);
    if (!status && (size != before.st_size || !same_file_state(&before, &after)))
        status = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                           "%s changed while it was read (%lld bytes, then %lld read); start again "
                           "when it is complete",
                           file->path, (long long)before.st_size, (long long)size);
    if (status)
        return status;
    file->size = size;
    file->mtime_s = before.st_mtim.tv_sec;
    file->mtime_ns = before.st_mtim.tv_nsec;
    file->hash = text_input_hash(build->in);
    return WEFT_OK;
}

static weft_status read_file(text_build *build, text_file *file, weft_error *err)
{
    bool raw = file->kind == TEXT_BIN || file->kind == TEXT_INDEX;
    weft_status status = (raw ? text_input_open_raw : text_input_open)(&build->in, file->path, err);
    if (status)
        return status;
    status = read_open_file(build, file, err);
    tell_skipped(build, file->path);
    text_input_close(build->in);
    build->in = NULL;
    build->n_bytes += status ? 0 : file->size;
    return status;
}

weft_status text_build_run(text_build *build, text_files *files, weft_error *err)
{
    const weft_host *host = build->text->host;
    int64_t total = 0;
    for (size_t i = 0; i < files->n; i++)
        total += files->list[i].size;
    text_progress_start(&build->progress, host, total);
    weft_status status =
        text_workers_init(&build->workers, build->text,
                          total < THREADS_FROM_BYTES || !build->tokens ? 1 : host->threads, err);
    for (size_t i = 0; !status && i < files->n; i++)
        status = read_file(build, &files->list[i], err);
    if (!status && build->tokens)
        build->n_tokens = text_writer_count(build->tokens);
    if (!status)
        status = text_writer_put(build->offsets, (uint64_t)build->n_tokens, err);
    text_workers_release(&build->workers);
    double took = text_progress_end(&build->progress);
    if (build->n_files_told > FILES_TOLD)
        weft_log_print(host->log, WEFT_LOG_WARN, "text: documents of %d more files are skipped",
                       build->n_files_told - FILES_TOLD);
    if (!status && took > 1)
        weft_log_print(host->log, WEFT_LOG_INFO,
                       "text: %.1f MB are %lld tokens, made in %.1f s (%.1f MB/s)",
                       (double)build->n_bytes / 1e6, (long long)build->n_tokens, took,
                       (double)build->n_bytes / 1e6 / took);
    return status;
}
