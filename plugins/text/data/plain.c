/* SPDX-License-Identifier: Apache-2.0 */
/* Plain text: a file is a document. A long one is cut into parts where that does not change its
 * ids. */
#include "build.h"

#include <string.h>

enum { PART_BYTES = 1 << 20, DOCUMENT_MAX_BYTES = 1 << 30 };

/* What lies behind a part, for the next one. */
typedef struct rest {
    weft_text bytes;
    int64_t at; /* in the file */
} rest;

/* Reads into the job until it can be cut or the file ends; *n: the part. */
static weft_status fill_part(text_build *build, text_job *job, const char *path, size_t *have,
                             size_t *n, bool *end, weft_error *err)
{
    weft_status status = WEFT_OK;
    size_t some, tried = 0;
    bool found = false;
    for (size_t room = PART_BYTES; !status && !found && !*end; room *= 2) {
        if (room > DOCUMENT_MAX_BYTES)
            return weft_fail(err, WEFT_ERR_INPUT, (weft_where){path, 0},
                             "a document of more than %d MiB in which this tokenizer knows no "
                             "place to cut; split the file, or use JSON Lines",
                             DOCUMENT_MAX_BYTES >> 20);
        if (room <= *have)
            continue;
        status = text_job_reserve(job, room, err);
        if (!status)
            status = text_input_fill(build->in, job->data + *have, room - *have, &some, err);
        if (status)
            break;
        *have += some;
        *end = *have < room;
        *n = *end ? *have : text_tokenizer_cut(build->text->tokenizer, job->data, *have, tried);
        found = *n < *have;
        tried = *have - 4;
    }
    return status;
}

static weft_status read_part(text_build *build, const text_file *file, rest *r, bool first,
                             bool *end, weft_error *err)
{
    text_job *job;
    size_t n = 0, have = r->bytes.size;
    weft_status status = text_build_job(build, file, &job, err);
    if (!status)
        status = text_job_reserve(job, have, err);
    if (status)
        return status;
    if (have)
        memcpy(job->data, r->bytes.data, have);
    status = fill_part(build, job, file->path, &have, &n, end, err);
    if (status)
        return status;
    weft_text_clear(&r->bytes);
    weft_text_add_bytes(&r->bytes, job->data + n, have - n);
    if (r->bytes.out_of_memory)
        return weft_fail_memory(err);
    job->n = n;
    job->at = r->at;
    job->begin = first;
    job->end = *end;
    r->at += (int64_t)n;
    if (*end && text_input_broken(build->in))
        status = text_job_bad(job, 0, err, "%s", text_input_broken(build->in));
    return status ? status : text_build_submit(build, err);
}

weft_status text_read_plain(text_build *build, const text_file *file, weft_error *err)
{
    rest r = {0};
    bool end = false;
    weft_status status = WEFT_OK;
    for (bool first = true; !status && !end; first = false)
        status = read_part(build, file, &r, first, &end, err);
    weft_text_release(&r.bytes);
    return status;
}
