/* SPDX-License-Identifier: Apache-2.0 */
/* A stretch of a file and the ids it becomes. */
#include "../tokenizer/utf8.h"
#include "build.h"

enum { KEEP_BYTES = 8 << 20 };

weft_status text_job_reserve(text_job *job, size_t n, weft_error *err)
{
    if (n <= job->capacity)
        return WEFT_OK;
    char *grown = weft_realloc(job->data, n);
    if (!grown)
        return weft_fail_memory(err);
    job->data = grown;
    job->capacity = n;
    return WEFT_OK;
}

weft_status text_job_bad(text_job *job, int line, weft_error *err, const char *format, ...)
{
    if (job->n_bads == job->bads_capacity) {
        size_t capacity = job->bads_capacity ? 2 * job->bads_capacity : 8;
        text_bad *grown = weft_realloc(job->bads, capacity * sizeof *grown);
        if (!grown)
            return weft_fail_memory(err);
        job->bads = grown;
        job->bads_capacity = capacity;
    }
    va_list args;
    va_start(args, format);
    char *what = weft_vformat(format, args);
    va_end(args);
    if (!what)
        return weft_fail_memory(err);
    job->bads[job->n_bads++] = (text_bad){.line = line, .what = what};
    return WEFT_OK;
}

static weft_status add_ids(text_job *job, text_encoder *encoder, const char *s, size_t n,
                           weft_error *err)
{
    return n ? text_encoder_add(encoder, !job->begin, s, n, &job->ids, &job->n_ids,
                                &job->ids_capacity, err)
             : WEFT_OK;
}

/* A part of a plain file; it ends between characters, unless it is the last. */
static weft_status run_plain(text_job *job, text_encoder *encoder, weft_error *err)
{
    size_t valid = text_utf8_valid(job->data, job->n);
    if (valid == job->n)
        return add_ids(job, encoder, job->data, job->n, err);
    if (!encoder->text->repair_utf8)
        return text_job_bad(
            job, 0, err, "not UTF-8 at byte %lld; convert it, or set [text] invalid_utf8 = replace",
            (long long)(job->at + (int64_t)valid));
    weft_text repaired = {0};
    text_utf8_repair(job->data, job->n, &repaired);
    weft_status status = repaired.out_of_memory
                             ? weft_fail_memory(err)
                             : add_ids(job, encoder, repaired.data, repaired.size, err);
    weft_text_release(&repaired);
    return status;
}

void text_job_run(text_job *job, text_encoder *encoder)
{
    job->status = (job->kind == TEXT_JSONL ? text_jsonl_run : run_plain)(job, encoder, &job->err);
}

void text_job_clear(text_job *job)
{
    for (size_t i = 0; i < job->n_bads; i++)
        weft_free(job->bads[i].what);
    job->n = job->n_ids = job->n_ends = job->n_bads = 0;
    if (job->capacity > KEEP_BYTES) {
        weft_free(job->data);
        weft_free(job->ids);
        job->data = NULL;
        job->ids = NULL;
        job->capacity = job->ids_capacity = 0;
    }
    weft_error_clear(&job->err);
    job->status = WEFT_OK;
    job->begin = job->end = job->done = false;
}

void text_job_release(text_job *job)
{
    text_job_clear(job);
    weft_free(job->bads);
    weft_free(job->ends);
    weft_free(job->ids);
    weft_free(job->data);
    weft_error_release(&job->err);
    *job = (text_job){0};
}
