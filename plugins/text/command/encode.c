/* SPDX-License-Identifier: Apache-2.0 */
/* Text to ids, and counts. */
#include "command.h"

#include <string.h>

typedef struct counts {
    int64_t documents, tokens, bytes;
} counts;

typedef struct encode {
    const tokenize_options *o;
    const weft_command_host *host;
    tokenizer *tokenizer;
    tokenize_files files;
    tokenize_output output;
    counts *counts; /* of each file */
    int width;
    int32_t bos, eos; /* -1: none */
} encode;

/* ---- on any thread ---- */

static void add_number(weft_text *out, int32_t id, char before)
{
    char digits[12];
    int at = sizeof digits;
    uint32_t rest = (uint32_t)id;
    do
        digits[--at] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (before)
        digits[--at] = before;
    weft_text_add_bytes(out, digits + at, sizeof digits - (size_t)at);
}

static void add_text(const encode *e, weft_text *out, const tokenize_piece *piece,
                     const int32_t *ids, size_t n)
{
    char between = e->o->json ? ',' : ' ';
    if (piece->first && e->o->json)
        weft_text_add_bytes(out, "[", 1);
    for (size_t i = 0; i < n; i++)
        add_number(out, ids[i], i || !piece->first ? between : 0);
    if (piece->last)
        weft_text_add_bytes(out, e->o->json ? "]\n" : "\n", e->o->json ? 2 : 1);
}

static void add_binary(const encode *e, weft_text *out, const int32_t *ids, size_t n)
{
    if (e->width == 4) {
        weft_text_add_bytes(out, ids, n * sizeof *ids);
        return;
    }
    uint16_t some[1024];
    for (size_t i = 0; i < n;) {
        size_t m = 0;
        for (; m < 1024 && i < n; m++, i++)
            some[m] = (uint16_t)ids[i];
        weft_text_add_bytes(out, some, 2 * m);
    }
}

static weft_status add_id(tokenize_worker *w, size_t *n, int32_t id, weft_error *err)
{
    if (*n == w->ids_capacity) {
        size_t capacity = w->ids_capacity ? 2 * w->ids_capacity : 1024;
        int32_t *grown = weft_realloc(w->ids, capacity * sizeof *grown);
        if (!grown)
            return weft_fail_memory(err);
        w->ids = grown;
        w->ids_capacity = capacity;
    }
    w->ids[(*n)++] = id;
    return WEFT_OK;
}

static weft_status encode_piece(tokenize_worker *w, tokenize_task *task, size_t i, const char *text,
                                size_t n, weft_error *err)
{
    const encode *e = w->job->self;
    const tokenize_piece *piece = &task->pieces[i];
    size_t n_ids = 0;
    bool empty =
        piece->first && piece->last && !n && e->width; /* leaves no tokens in a file for training */
    weft_status status =
        piece->first && e->bos >= 0 && !empty ? add_id(w, &n_ids, e->bos, err) : WEFT_OK;
    if (!status && n)
        status = tokenizer_encode(e->tokenizer, w->scratch, text, n,
                                  (e->o->no_special ? TOKENIZER_NO_SPECIAL : 0) |
                                      (piece->first ? 0 : TOKENIZER_CONTINUES),
                                  &w->ids, &n_ids, &w->ids_capacity, err);
    if (!status && piece->last && e->eos >= 0 && !empty)
        status = add_id(w, &n_ids, e->eos, err);
    if (status)
        return status;
    task->n_ids[i] = (int64_t)n_ids;
    if (e->width)
        add_binary(e, &task->out, w->ids, n_ids);
    else if (e->o->mode == TOKENIZE_ENCODE)
        add_text(e, &task->out, piece, w->ids, n_ids);
    return WEFT_OK;
}

/* ---- on the first ---- */

static weft_status take(void *self, tokenize_task *task, weft_error *err)
{
    encode *e = self;
    for (size_t i = 0; i < task->n_pieces; i++) {
        counts *c = &e->counts[task->pieces[i].file];
        c->documents += task->pieces[i].last;
        c->tokens += task->n_ids[i];
        c->bytes += task->n_bytes[i];
    }
    return tokenize_output_write(&e->output, task->out.data, task->out.size, err);
}

static void add_counts(const encode *e, weft_text *out, const char *name, counts c)
{
    double each = c.tokens ? (double)c.bytes / (double)c.tokens : 0;
    if (e->o->json) {
        weft_text_add(out, "{\"file\": ");
        weft_text_add_json(out, name);
        weft_text_print(
            out,
            ", \"documents\": %lld, \"tokens\": %lld, \"bytes\": %lld, \"bytes_per_token\": %.4f}",
            (long long)c.documents, (long long)c.tokens, (long long)c.bytes, each);
        return;
    }
    weft_text_print(out, "%12lld %14lld %14lld %7.3f  %s\n", (long long)c.documents,
                    (long long)c.tokens, (long long)c.bytes, each, name);
}

static counts add_up(const encode *e)
{
    counts all = {0};
    for (size_t i = 0; i < e->files.n; i++) {
        all.documents += e->counts[i].documents;
        all.tokens += e->counts[i].tokens;
        all.bytes += e->counts[i].bytes;
    }
    return all;
}

static weft_status print_counts(const encode *e, weft_error *err)
{
    weft_text out = {0};
    bool json = e->o->json;
    weft_text_add(&out, json ? "{\"files\": ["
                             : "   documents         tokens          bytes  b/token  file\n");
    for (size_t i = 0; i < e->files.n; i++) {
        weft_text_add(&out, json && i ? ",\n " : "");
        add_counts(e, &out, e->files.list[i].path, e->counts[i]);
    }
    if (json)
        weft_text_add(&out, "],\n \"total\": ");
    if (json || e->files.n > 1)
        add_counts(e, &out, json ? "" : "all", add_up(e));
    if (json)
        weft_text_add(&out, "}\n");
    weft_status status = out.out_of_memory ? weft_fail_memory(err)
                                           : e->host->write(e->host, out.data, out.size, err);
    weft_text_release(&out);
    return status;
}

static weft_status find_token(const encode *e, const char *option, const char *token, int32_t *id,
                              weft_error *err)
{
    *id = token ? tokenizer_find(e->tokenizer, token, strlen(token)) : -1;
    if (*id >= 0 || !token)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "%s %s: %s has no such token; --info lists the special ones", option, token,
                     e->o->tokenizer);
}

static weft_status prepare(encode *e, weft_error *err)
{
    const tokenize_options *o = e->o;
    weft_status status = tokenize_load(o, &e->tokenizer, err);
    weft_status files = tokenize_files_find(&e->files, o, err);
    status = status ? status : files;
    if (status)
        return status;
    status = find_token(e, "--bos", o->bos, &e->bos, err);
    weft_status eos = find_token(e, "--eos", o->eos, &e->eos, err);
    status = status ? status : eos;
    int size = tokenizer_vocab_size(e->tokenizer);
    e->width = o->bin_auto ? (size > 65536 ? 4 : 2) : o->bin;
    if (e->width == 2 && size > 65536)
        status = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                           "--bin uint16: %d ids do not fit; give --bin uint32", size);
    e->counts = weft_alloc_zero(e->files.n, sizeof *e->counts);
    if (!e->counts)
        return weft_fail_memory(err);
    return status ? status : tokenize_output_open(&e->output, e->host, o->out, err);
}

weft_status tokenize_encode(const weft_command_host *host, const tokenize_options *o,
                            weft_error *err)
{
    encode e = {.o = o, .host = host, .output = {.fd = -1}};
    weft_status status = prepare(&e, err);
    if (!status) {
        tokenize_job job = {.host = host,
                            .options = o,
                            .tokenizer = e.tokenizer,
                            .files = &e.files,
                            .piece = encode_piece,
                            .take = take,
                            .self = &e,
                            .doing = "tokenising"};
        status = tokenize_run(&job, err);
    }
    weft_status closed = tokenize_output_close(&e.output, !status, err);
    status = status ? status : closed;
    if (!status && o->mode == TOKENIZE_COUNT)
        status = print_counts(&e, err);
    if (!status && o->out) {
        counts all = add_up(&e);
        weft_log_print(host->log, WEFT_LOG_INFO,
                       "%s: %lld tokens%s of %lld documents, %lld bytes of text", o->out,
                       (long long)all.tokens,
                       e.width == 2 ? " (uint16)"
                       : e.width    ? " (uint32)"
                                    : "",
                       (long long)all.documents, (long long)all.bytes);
    }
    weft_free(e.counts);
    tokenize_files_release(&e.files);
    tokenizer_destroy(e.tokenizer);
    return status;
}
