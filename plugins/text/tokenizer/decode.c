/* SPDX-License-Identifier: Apache-2.0 */
/* From ids to text: the tokens' texts in a row, through the decoder's steps. */
#include "engine.h"

#include <string.h>

#include "utf8.h"

/* Texts in a row: text i ends at ends[i]. */
typedef struct pieces {
    weft_text text;
    size_t *ends;
    size_t n, capacity;
} pieces;

typedef struct decoding {
    const tokenizer *t;
    pieces in, out;
    pcre2_match_data *match;
    bool bytes; /* leave bytes that are not UTF-8 as they are */
    weft_error *err;
} decoding;

/* What was added to p->text since the last piece becomes one. */
static weft_status end_piece(pieces *p, weft_error *err)
{
    if (p->n == p->capacity) {
        size_t room = 2 * p->capacity + 64;
        size_t *grown =
            room > SIZE_MAX / sizeof *grown ? NULL : weft_realloc(p->ends, room * sizeof *grown);
        if (!grown)
            return weft_fail_memory(err);
        p->ends = grown;
        p->capacity = room;
    }
    p->ends[p->n++] = p->text.size;
    return p->text.out_of_memory ? weft_fail_memory(err) : WEFT_OK;
}

static const char *get_piece(const pieces *p, size_t i, size_t *n)
{
    size_t start = i ? p->ends[i - 1] : 0;
    *n = p->ends[i] - start;
    return weft_text_get(&p->text) + start;
}

static void add_repaired(decoding *d, const char *text, size_t n)
{
    if (d->bytes)
        weft_text_add_bytes(&d->out.text, text, n);
    else
        text_utf8_repair(text, n, &d->out.text);
}

/* ---- steps: from d->in to d->out ---- */

/* A token with a character that no byte becomes (an added one) stands for itself. */
static void add_byte_level(const char *text, size_t n, weft_text *out)
{
    size_t before = out->size;
    for (size_t at = 0, length; at < n; at += length) {
        int byte = unicode_alphabet_byte(unicode_get(text + at, &length));
        if (byte < 0) {
            out->size = before;
            weft_text_add_bytes(out, text, n);
            return;
        }
        char c = (char)byte;
        weft_text_add_bytes(out, &c, 1);
    }
}

static weft_status byte_level(decoding *d)
{
    weft_text all = {0};
    for (size_t i = 0; i < d->in.n; i++) {
        size_t n;
        const char *text = get_piece(&d->in, i, &n);
        add_byte_level(text, n, &all);
    }
    add_repaired(d, weft_text_get(&all), all.size);
    d->out.text.out_of_memory = d->out.text.out_of_memory || all.out_of_memory;
    weft_text_release(&all);
    return end_piece(&d->out, d->err);
}

static weft_status replace(decoding *d, const decoder *step)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; !status && i < d->in.n; i++) {
        pattern_matches m = {0};
        size_t done = 0, start = 0, end = 0;
        int found = 0;
        m.s = get_piece(&d->in, i, &m.n);
        bool possible = m.n && (!step->pattern.code || text_utf8_valid(m.s, m.n) == m.n);
        while (possible && (found = pattern_next(&step->pattern, d->match, NULL, &m, &start, &end,
                                                 d->err)) > 0) {
            weft_text_add_bytes(&d->out.text, m.s + done, start - done);
            weft_text_add_bytes(&d->out.text, step->content, step->n_content);
            done = end;
        }
        if (found < 0)
            return WEFT_ERR_INPUT;
        weft_text_add_bytes(&d->out.text, m.s + done, m.n - done);
        status = end_piece(&d->out, d->err);
    }
    return status;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte of a token <0x..>; -1: it is another. A plus sign counts as a digit's absence there, so
 * it does here. */
static int fallback_byte(const char *text, size_t n)
{
    if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    int high = text[3] == '+' ? 0 : hex(text[3]), low = hex(text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Bytes in a row are a text if they are UTF-8, else each is a U+FFFD. */
static weft_status end_bytes(decoding *d, weft_text *run)
{
    weft_status status = WEFT_OK;
    const char *bytes = weft_text_get(run);
    if (run->size && (d->bytes || text_utf8_valid(bytes, run->size) == run->size)) {
        weft_text_add_bytes(&d->out.text, bytes, run->size);
        status = end_piece(&d->out, d->err);
    } else
        for (size_t i = 0; !status && i < run->size; i++) {
            weft_text_add_bytes(&d->out.text, TEXT_UTF8_REPLACEMENT, 3);
            status = end_piece(&d->out, d->err);
        }
    weft_text_clear(run);
    return status;
}

static weft_status byte_fallback(decoding *d)
{
    weft_text run = {0};
    weft_status status = WEFT_OK;
    for (size_t i = 0; !status && i < d->in.n; i++) {
        size_t n;
        const char *text = get_piece(&d->in, i, &n);
        int byte = fallback_byte(text, n);
        if (byte >= 0) {
            char c = (char)byte;
            weft_text_add_bytes(&run, &c, 1);
            continue;
        }
        status = end_bytes(d, &run);
        weft_text_add_bytes(&d->out.text, text, n);
        status = status ? status : end_piece(&d->out, d->err);
    }
    if (!status)
        status = run.out_of_memory ? weft_fail_memory(d->err) : end_bytes(d, &run);
    weft_text_release(&run);
    return status;
}

static weft_status fuse(decoding *d)
{
    weft_text_add_bytes(&d->out.text, weft_text_get(&d->in.text), d->in.text.size);
    return end_piece(&d->out, d->err);
}

static bool has(const decoder *step, const char *at, size_t n)
{
    return n >= step->n_content && !memcmp(at, step->content, step->n_content);
}

static weft_status strip(decoding *d, const decoder *step)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; !status && i < d->in.n; i++) {
        size_t n, width = step->n_content;
        const char *text = get_piece(&d->in, i, &n);
        for (int64_t k = 0; k < step->start && has(step, text, n); k++) {
            text += width;
            n -= width;
        }
        for (int64_t k = 0; k < step->stop && n >= width && has(step, text + n - width, width); k++)
            n -= width;
        weft_text_add_bytes(&d->out.text, text, n);
        status = end_piece(&d->out, d->err);
    }
    return status;
}

/* The first token's blanks were put there by the encoder. */
static weft_status metaspace(decoding *d, const decoder *step)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; !status && i < d->in.n; i++) {
        size_t n;
        const char *text = get_piece(&d->in, i, &n);
        for (size_t at = 0; at < n;) {
            if (!has(step, text + at, n - at)) {
                weft_text_add_bytes(&d->out.text, text + at++, 1);
                continue;
            }
            if (i > 0 || !step->prepended)
                weft_text_add(&d->out.text, " ");
            at += step->n_content;
        }
        status = end_piece(&d->out, d->err);
    }
    return status;
}

static weft_status run_step(decoding *d, const decoder *step)
{
    weft_text_clear(&d->out.text);
    d->out.n = 0;
    weft_status status = WEFT_OK;
    switch (step->kind) {
    case DECODER_BYTE_LEVEL:
        status = byte_level(d);
        break;
    case DECODER_REPLACE:
        status = replace(d, step);
        break;
    case DECODER_BYTE_FALLBACK:
        status = byte_fallback(d);
        break;
    case DECODER_FUSE:
        status = fuse(d);
        break;
    case DECODER_STRIP:
        status = strip(d, step);
        break;
    case DECODER_METASPACE:
        status = metaspace(d, step);
        break;
    }
    pieces swap = d->in;
    d->in = d->out;
    d->out = swap;
    return status;
}

/* ---- the whole ---- */

static weft_status take_tokens(decoding *d, const int32_t *ids, size_t n)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; !status && i < n; i++) {
        size_t length;
        const char *text = tokenizer_token(d->t, ids[i], &length);
        if (ids[i] < 0 || ids[i] >= d->t->n_tokens)
            return weft_fail(d->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                             "cannot decode id %d: %s has ids 0 to %d", (int)ids[i], d->t->name,
                             d->t->n_tokens - 1);
        if (!text) /* models can choose ids that no token has */
            continue;
        if (d->in.n && !d->t->has_decoder) /* nobody says how tokens join */
            weft_text_add(&d->in.text, " ");
        weft_text_add_bytes(&d->in.text, text, length);
        status = end_piece(&d->in, d->err);
    }
    return status;
}

static weft_status decode(const tokenizer *t, const int32_t *ids, size_t n, bool bytes,
                          weft_text *text, weft_error *err)
{
    decoding d = {.t = t, .bytes = bytes, .err = err};
    weft_status status = take_tokens(&d, ids, n);
    if (!status && t->n_decoders && !(d.match = pcre2_match_data_create(1, NULL)))
        status = weft_fail_memory(err);
    for (size_t i = 0; !status && i < t->n_decoders; i++)
        status = run_step(&d, &t->decoders[i]);
    if (!status && t->raw && !bytes)
        text_utf8_repair(weft_text_get(&d.in.text), d.in.text.size, text);
    else if (!status)
        weft_text_add_bytes(text, weft_text_get(&d.in.text), d.in.text.size);
    if (!status && text->out_of_memory)
        status = weft_fail_memory(err);
    pcre2_match_data_free(d.match);
    weft_text_release(&d.in.text);
    weft_text_release(&d.out.text);
    weft_free(d.in.ends);
    weft_free(d.out.ends);
    return status;
}

weft_status tokenizer_decode(const tokenizer *t, const int32_t *ids, size_t n, weft_text *text,
                             weft_error *err)
{
    return decode(t, ids, n, false, text, err);
}

weft_status tokenizer_decode_bytes(const tokenizer *t, const int32_t *ids, size_t n,
                                   weft_text *text, weft_error *err)
{
    return decode(t, ids, n, true, text, err);
}
