/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Lines: one field of each line is a document. */
#include "../tokenizer/utf8.h"
#include "build.h"

#include <jansson.h>
#include <limits.h>
#include <string.h>

enum { JOB_BYTES = 1 << 18, LINE_MAX_BYTES = 1 << 28 };

/* ---- a thread's part: lines to ids ---- */

/* "title, id and 3 more" for the message that a field is missing. */
static void add_keys(json_t *object, weft_text *text)
{
    size_t n = 0, total = json_object_size(object);
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        if (n == 5)
            break;
        weft_text_print(text, "%s%.40s", n ? ", " : "", key);
        n++;
    }
    if (total > n)
        weft_text_print(text, " and %zu more", total - n);
    if (!total)
        weft_text_add(text, "none");
}

static weft_status note_field(text_job *job, const char *field, json_t *root, json_t *value,
                              int line, weft_error *err)
{
    static const char *const kinds[] = {"an object", "an array",  "a string",  "a number",
                                        "a number",  "a boolean", "a boolean", "null"};
    if (!json_is_object(root))
        return text_job_bad(job, line, err,
                            "the line is %s; it should be an object with a field \"%s\"",
                            kinds[json_typeof(root)], field);
    if (value)
        return text_job_bad(job, line, err, "field \"%s\" is %s; it should be a string", field,
                            kinds[json_typeof(value)]);
    weft_text keys = {0};
    add_keys(root, &keys);
    weft_status status = text_job_bad(
        job, line, err, "no field \"%s\"; the fields here are: %s; choose with [text] field", field,
        weft_text_get(&keys));
    weft_text_release(&keys);
    return status;
}

/* A document is what its ids are; an empty one leaves none. */
static weft_status add_document(text_job *job, text_encoder *encoder, const char *s, size_t n,
                                weft_error *err)
{
    if (!n)
        return WEFT_OK;
    if (job->n_ends == job->ends_capacity) {
        size_t capacity = job->ends_capacity ? 2 * job->ends_capacity : 64;
        size_t *grown = weft_realloc(job->ends, capacity * sizeof *grown);
        if (!grown)
            return weft_fail_memory(err);
        job->ends = grown;
        job->ends_capacity = capacity;
    }
    weft_status status =
        text_encoder_add(encoder, false, s, n, &job->ids, &job->n_ids, &job->ids_capacity, err);
    if (!status)
        job->ends[job->n_ends++] = job->n_ids;
    return status;
}

static weft_status add_json(text_job *job, text_encoder *encoder, const char *s, size_t n, int line,
                            weft_error *err)
{
    json_error_t problem;
    json_t *root =
        json_loadb(s, n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL | JSON_DECODE_ANY, &problem);
    if (!root && json_error_code(&problem) == json_error_out_of_memory)
        return weft_fail_memory(err);
    if (!root)
        return text_job_bad(job, line, err, "not JSON: %s (column %d)", problem.text,
                            problem.column);
    json_t *value = json_object_get(root, encoder->text->field);
    weft_status status =
        json_is_string(value)
            ? add_document(job, encoder, json_string_value(value), json_string_length(value), err)
            : note_field(job, encoder->text->field, root, value, line, err);
    json_decref(root);
    return status;
}

static weft_status add_line(text_job *job, text_encoder *encoder, const char *s, size_t n, int line,
                            weft_error *err)
{
    if (line == 1 && n >= 3 && !memcmp(s, "\xEF\xBB\xBF", 3)) { /* a byte order mark is no JSON */
        s += 3;
        n -= 3;
    }
    size_t blank = 0;
    while (blank < n && (s[blank] == ' ' || s[blank] == '\t' || s[blank] == '\r'))
        blank++;
    if (blank == n)
        return WEFT_OK;
    size_t valid = text_utf8_valid(s, n);
    if (valid == n)
        return add_json(job, encoder, s, n, line, err);
    if (!encoder->text->repair_utf8)
        return text_job_bad(
            job, line, err,
            "not UTF-8 at byte %zu of the line; convert it, or set [text] invalid_utf8 = replace",
            valid);
    weft_text repaired = {0};
    text_utf8_repair(s, n, &repaired);
    weft_status status = repaired.out_of_memory
                             ? weft_fail_memory(err)
                             : add_json(job, encoder, repaired.data, repaired.size, line, err);
    weft_text_release(&repaired);
    return status;
}

weft_status text_jsonl_run(text_job *job, text_encoder *encoder, weft_error *err)
{
    weft_status status = WEFT_OK;
    int64_t line = job->at;
    for (size_t at = 0; !status && at < job->n; line++) {
        const char *s = job->data + at, *newline = memchr(s, '\n', job->n - at);
        size_t n = newline ? (size_t)(newline - s) : job->n - at;
        status = add_line(job, encoder, s, n, line < INT_MAX ? (int)line : INT_MAX, err);
        at += n + (newline != NULL);
    }
    return status;
}

/* ---- reading: stretches of whole lines ---- */

static size_t count_lines(const char *s, size_t n)
{
    size_t lines = 0;
    for (const char *end = s + n, *next; (next = memchr(s, '\n', (size_t)(end - s))); s = next + 1)
        lines++;
    return lines;
}

/* Fills the job up to the end of a line, at least one: *n bytes; what is read of the next line lies
 * behind them, up to *have. */
static weft_status fill_job(text_input *in, text_job *job, const char *path, size_t *n,
                            size_t *have, bool *at_end, weft_error *err)
{
    weft_status status = WEFT_OK;
    size_t room = JOB_BYTES, some;
    for (*n = 0; !status && !*n && !*at_end; room *= 2) {
        if (room > LINE_MAX_BYTES)
            return weft_fail(err, WEFT_ERR_INPUT,
                             (weft_where){path, job->at < INT_MAX ? (int)job->at : INT_MAX},
                             "line is longer than %d MiB: is this JSON Lines, one object a line?",
                             LINE_MAX_BYTES >> 20);
        if (room <= *have)
            continue;
        status = text_job_reserve(job, room, err);
        if (!status)
            status = text_input_fill(in, job->data + *have, room - *have, &some, err);
        if (status)
            break;
        *have += some;
        *at_end = *have < room;
        const char *last = memrchr(job->data, '\n', *have);
        *n = *at_end && !text_input_broken(in) ? *have : last ? (size_t)(last + 1 - job->data) : 0;
    }
    return status;
}

weft_status text_read_jsonl(text_build *build, const text_file *file, weft_error *err)
{
    weft_text rest = {0}; /* the start of a line whose end is in the next job */
    bool at_end = false;
    int64_t line = 1;
    weft_status status = WEFT_OK;
    while (!status && !at_end) {
        text_job *job;
        size_t n = 0, have = rest.size;
        status = text_build_job(build, file, &job, err);
        if (!status)
            status = text_job_reserve(job, have, err);
        if (status)
            break;
        if (have)
            memcpy(job->data, rest.data, have);
        job->at = line;
        status = fill_job(build->in, job, file->path, &n, &have, &at_end, err);
        if (status)
            break;
        weft_text_clear(&rest);
        weft_text_add_bytes(&rest, job->data + n, have - n);
        if (rest.out_of_memory)
            status = weft_fail_memory(err);
        line += (int64_t)count_lines(job->data, n);
        job->n = n;
        if (!status && n > 0)
            status = text_build_submit(build, err);
    }
    weft_text_release(&rest);
    if (!status && text_input_broken(build->in)) {
        status = text_build_flush(build, err);
        if (!status)
            status = text_build_bad(build, file->path, line < INT_MAX ? (int)line : INT_MAX,
                                    text_input_broken(build->in), err);
    }
    return status;
}
