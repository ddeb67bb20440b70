/* SPDX-License-Identifier: Apache-2.0 */
/* Plain text: a file is a document. A long one is cut into parts where that does not change its ids. */
#include "build.h"

#include <string.h>

enum { PART_BYTES = 1 << 20, DOCUMENT_MAX_BYTES = 1 << 30 };

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Where to cut s[0..n): the part ends there, the next one begins *skip bytes later. 0: nowhere. Ill-formed text is cut anywhere: it is bad, or
 * repaired in any part. */
static size_t find_cut(text_cut cut, const char *s, size_t n, size_t *skip)
{
    size_t at = n;
    *skip = 0;
    if (cut == TEXT_CUT_ANYWHERE) {
        while (at > n - 4 && ((unsigned char)s[at - 1] & 0xC0) == 0x80) /* a character that may be incomplete */
            at--;
        return at > n - 4 ? at - 1 : n;
    }
    for (at = n - 2; cut != TEXT_CUT_NEVER && at > 0; at--)
        if (s[at] == ' ' && is_letter(s[at - 1]) && is_letter(s[at + 1])) {
            *skip = cut == TEXT_CUT_AT_BLANK;
            return at;
        }
    return 0;
}

/* What lies behind a part, for the next one. */
typedef struct rest {
    weft_text bytes;
    int64_t at; /* in the file */
} rest;

/* Reads into the job until it can be cut or the file ends; *n: the part, *skip: as in find_cut. */
static weft_status fill_part(text_build *build, text_job *job, const char *path, size_t *have, size_t *n, size_t *skip, bool *end, weft_error *err)
{
    weft_status status = WEFT_OK;
    size_t some;
    *n = 0;
    for (size_t room = PART_BYTES; !status && !*n && !*end; room *= 2) {
        if (room > DOCUMENT_MAX_BYTES)
            return weft_fail(err, WEFT_ERR_INPUT, (weft_where){path, 0},
                             "a document of more than %d MiB in which this tokenizer knows no place to cut; split the file, or use JSON Lines",
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
        *n = *end ? *have : find_cut(build->cut, job->data, *have, skip);
    }
    return status;
}

static weft_status read_part(text_build *build, const text_file *file, rest *r, bool first, bool *end, weft_error *err)
{
    text_job *job;
    size_t n = 0, skip = 0, have = r->bytes.size;
    weft_status status = text_build_job(build, file, &job, err);
    if (!status)
        status = text_job_reserve(job, have, err);
    if (status)
        return status;
    if (have)
        memcpy(job->data, r->bytes.data, have);
    status = fill_part(build, job, file->path, &have, &n, &skip, end, err);
    if (status)
        return status;
    weft_text_clear(&r->bytes);
    weft_text_add_bytes(&r->bytes, job->data + n + skip, have - n - skip);
    if (r->bytes.out_of_memory)
        return weft_fail_memory(err);
    job->n = n;
    job->at = r->at;
    job->begin = first;
    job->end = *end;
    r->at += (int64_t)(n + skip);
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
