/* SPDX-License-Identifier: Apache-2.0 */
/* Ids to text: a document a line. */
#include "../data/build.h"
#include "command.h"

#include <weft/files.h>

#include <jansson.h>
#include <limits.h>
#include <string.h>

enum { READ_BYTES = 1 << 16, ERRORS_SHOWN = 20 };

typedef struct decode {
    const tokenize_options *o;
    tokenizer *tokenizer;
    tokenize_output output;
    const char *path; /* of the file that is read */
    int line, n_errors;
    weft_text number; /* the open one */
    int32_t *ids;     /* of the line */
    size_t n, capacity;
    bool any, bad; /* of the line */
    weft_text text;
    weft_error *err;
} decode;

static weft_status fail(decode *d, const char *what, const char *word)
{
    d->bad = true;
    if (++d->n_errors > ERRORS_SHOWN)
        return WEFT_ERR_INPUT;
    return weft_fail(d->err, WEFT_ERR_INPUT, (weft_where){d->path, d->line}, "%s %.40s: %s",
                     d->number.size ? "id" : "the line", word, what);
}

static weft_status add_id(decode *d, int32_t id)
{
    if (d->n == d->capacity) {
        size_t capacity = d->capacity ? 2 * d->capacity : 1024;
        int32_t *grown = weft_realloc(d->ids, capacity * sizeof *grown);
        if (!grown)
            return weft_fail_memory(d->err);
        d->ids = grown;
        d->capacity = capacity;
    }
    d->ids[d->n++] = id;
    return WEFT_OK;
}

static weft_status end_number(decode *d)
{
    const char *digits = weft_text_get(&d->number);
    int64_t id = 0;
    size_t n = 0, length;
    if (!d->number.size)
        return d->number.out_of_memory ? weft_fail_memory(d->err) : WEFT_OK;
    for (; digits[n] >= '0' && digits[n] <= '9' && id <= INT32_MAX; n++)
        id = 10 * id + (digits[n] - '0');
    weft_status status;
    if (digits[n] && id <= INT32_MAX)
        status =
            fail(d, "not a number; a line holds ids, as numbers between blanks or as a JSON array",
                 digits);
    else if (id > INT32_MAX || !tokenizer_token(d->tokenizer, (int32_t)id, &length))
        status = fail(d, "the tokenizer has no such id", digits);
    else
        status = add_id(d, (int32_t)id);
    weft_text_clear(&d->number);
    return status;
}

static int add_some(const char *s, size_t n, void *text)
{
    weft_text_add_bytes(text, s, n);
    return 0;
}

/* The text may hold NULs. */
static weft_status to_json(decode *d)
{
    weft_text json = {0};
    json_t *string = json_stringn(weft_text_get(&d->text), d->text.size);
    bool ok = string && !json_dump_callback(string, add_some, &json, JSON_ENCODE_ANY);
    json_decref(string);
    weft_text_add(&json, "\n");
    weft_text_release(&d->text);
    d->text = json;
    return ok ? WEFT_OK : weft_fail_memory(d->err);
}

static weft_status end_line(decode *d)
{
    weft_status status = end_number(d);
    if (!status && d->any && !d->bad) {
        weft_text_clear(&d->text);
        status = tokenizer_decode(d->tokenizer, d->ids, d->n, &d->text, d->err);
        if (!status && d->o->json) {
            status = to_json(d);
        }
        if (!status && d->text.out_of_memory)
            status = weft_fail_memory(d->err);
        if (!status && !d->n_errors)
            status = tokenize_output_write(&d->output, d->text.data, d->text.size, d->err);
    }
    d->n = 0;
    d->any = d->bad = false;
    d->line += d->line < INT_MAX;
    return status;
}

static weft_status add_bytes(decode *d, const char *s, size_t n)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < n && (!status || status == WEFT_ERR_INPUT); i++) {
        weft_status now = WEFT_OK;
        d->any = d->any || s[i] != '\n';
        if (s[i] == '\n')
            now = end_line(d);
        else if (memchr(" \t\r,[]", s[i], 6))
            now = end_number(d);
        else if (d->number.size < 64)
            weft_text_add_bytes(&d->number, &s[i], 1);
        status = now && status != WEFT_ERR_MEMORY ? now : status;
    }
    return status;
}

/* A binary file: one document. */
static weft_status add_binary(decode *d, const unsigned char *bytes, size_t n, int width)
{
    size_t length;
    weft_status status = WEFT_OK;
    if (n % (size_t)width)
        return weft_fail(d->err, WEFT_ERR_INPUT, (weft_where){d->path, 0},
                         "%zu bytes are not a whole number of uint%d", n, 8 * width);
    for (size_t i = 0; !status && i < n; i += (size_t)width) {
        uint32_t id = 0;
        for (int k = 0; k < width; k++)
            id |= (uint32_t)bytes[i + (size_t)k] << 8 * k;
        if (id > INT32_MAX || !tokenizer_token(d->tokenizer, (int32_t)id, &length))
            return weft_fail(d->err, WEFT_ERR_INPUT, (weft_where){d->path, 0},
                             "id %u at byte %zu: the tokenizer has no such id; is this a file of "
                             "uint%d without a header?",
                             (unsigned)id, i, 8 * width);
        status = add_id(d, (int32_t)id);
    }
    d->any = true;
    return status ? status : end_line(d);
}

static weft_status read_binary(decode *d, const char *path)
{
    char *data = NULL;
    size_t n = 0;
    d->path = path;
    weft_status status = weft_read_file(path, &data, &n, d->err);
    int width = !d->o->bin_auto ? d->o->bin : tokenizer_vocab_size(d->tokenizer) > 65536 ? 4 : 2;
    if (!status)
        status = add_binary(d, (const unsigned char *)data, n, width);
    weft_free(data);
    return status;
}

static weft_status read_text(decode *d, const char *path)
{
    char buffer[READ_BYTES];
    text_input *in = NULL;
    size_t got = 1;
    weft_status bad = WEFT_OK, status = text_input_open(&in, path, d->err);
    d->path = path;
    d->line = 1;
    while (!status && got) {
        status = text_input_read(in, buffer, sizeof buffer, &got, d->err);
        if (!status && !got && text_input_broken(in))
            status = weft_fail(d->err, WEFT_ERR_INPUT, (weft_where){path, 0}, "%s",
                               text_input_broken(in));
        if (!status)
            status = got ? add_bytes(d, buffer, got) : d->any ? end_line(d) : WEFT_OK;
        if (status == WEFT_ERR_INPUT && got) {
            bad = status;
            status = WEFT_OK;
        }
    }
    text_input_close(in);
    return status ? status : bad;
}

weft_status tokenize_decode(const weft_command_host *host, const tokenize_options *o,
                            weft_error *err)
{
    decode d = {.o = o, .output = {.fd = -1}, .err = err};
    tokenize_files files = {0};
    weft_status status = tokenize_load(o, &d.tokenizer, err);
    weft_status found = tokenize_files_find(&files, o, err), bad = WEFT_OK;
    status = status ? status : found;
    if (!status)
        status = tokenize_output_open(&d.output, host, o->out, err);
    for (size_t i = 0; !status && i < files.n; i++) {
        status = (o->bin ? read_binary : read_text)(&d, files.list[i].path);
        if (status == WEFT_ERR_INPUT) {
            bad = status;
            status = WEFT_OK;
        }
    }
    status = status ? status : bad;
    if (d.n_errors > ERRORS_SHOWN)
        weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%d more ids are wrong",
                  d.n_errors - ERRORS_SHOWN);
    weft_status closed = tokenize_output_close(&d.output, !status, err);
    weft_text_release(&d.number);
    weft_text_release(&d.text);
    weft_free(d.ids);
    tokenize_files_release(&files);
    tokenizer_destroy(d.tokenizer);
    return status ? status : closed;
}
