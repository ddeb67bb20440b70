/* SPDX-License-Identifier: Apache-2.0 */
/* Pre-tokenizers: each cuts every piece that the one before left, and may change its text. Pieces
 * go depth first, so words come in order. */
#include "engine.h"

#include <string.h>

typedef struct walk {
    const tokenizer *t;
    tokenizer_scratch *s;
    weft_error *err;
} walk;

static weft_status run_step(walk *w, size_t step, const char *text, size_t n, bool first);

/* ---- from matches to pieces ---- */

/* Takes matches and what lies between them in order, and gives pieces to the next step. */
typedef struct cutter {
    walk *w;
    const splitter *how;
    size_t step;
    const char *text;
    bool first;
    bool held, previous; /* a piece is held back; the last part was a match */
    size_t start, end;   /* of the held piece */
} cutter;

static weft_status give(cutter *c, size_t start, size_t end)
{
    return start == end
               ? WEFT_OK
               : run_step(c->w, c->step + 1, c->text + start, end - start, c->first && start == 0);
}

static weft_status hold(cutter *c, size_t start, size_t end)
{
    weft_status status = c->held ? give(c, c->start, c->end) : WEFT_OK;
    c->held = true;
    c->start = start;
    c->end = end;
    return status;
}

static weft_status cut(cutter *c, size_t start, size_t end, bool match)
{
    bool joins = false;
    match = match != c->how->invert;
    switch (c->how->behaviour) {
    case SPLIT_REMOVED:
        return match ? WEFT_OK : give(c, start, end);
    case SPLIT_ISOLATED:
        return give(c, start, end);
    case SPLIT_CONTIGUOUS:
        joins = match == c->previous;
        break;
    case SPLIT_PREVIOUS:
        joins = match && !c->previous;
        break;
    case SPLIT_NEXT:
        joins = !match && c->previous;
        break;
    }
    c->previous = match;
    if (!joins || !c->held)
        return hold(c, start, end);
    c->end = end;
    return WEFT_OK;
}

static weft_status finish(cutter *c)
{
    return c->held ? give(c, c->start, c->end) : WEFT_OK;
}

/* ---- what matches ---- */

static weft_status split_pattern(cutter *c, size_t n)
{
    tokenizer_scratch *s = c->w->s;
    pattern_matches m = {.s = c->text, .n = n};
    size_t done = 0, start = 0, end = 0;
    int found;
    weft_status status = WEFT_OK;
    while (!status && (found = pattern_next(&c->how->pattern, s->match, s->context, &m, &start,
                                            &end, c->w->err)) != 0) {
        if (found < 0)
            return c->w->err ? weft_error_status(c->w->err) : WEFT_ERR_RUN;
        if (done < start)
            status = cut(c, done, start, false);
        if (!status)
            status = cut(c, start, end, true);
        done = end;
    }
    if (!status && done < n)
        status = cut(c, done, n, false);
    return status ? status : finish(c);
}

static bool matches(const splitter *how, uint32_t point, const char *at, size_t length)
{
    switch (how->kind) {
    case SPLIT_DIGITS:
        return unicode_is_numeric(point);
    case SPLIT_PUNCTUATION:
        return unicode_is_punctuation(point);
    default:
        return length == how->n_replacement && !memcmp(at, how->replacement, length);
    }
}

static weft_status split_characters(cutter *c, size_t n)
{
    size_t done = 0;
    weft_status status = WEFT_OK;
    for (size_t at = 0, length; !status && at < n; at += length) {
        uint32_t point = unicode_get(c->text + at, &length);
        if (!matches(c->how, point, c->text + at, length))
            continue;
        if (done < at)
            status = cut(c, done, at, false);
        if (!status)
            status = cut(c, at, at + length, true);
        done = at + length;
    }
    if (!status && done < n)
        status = cut(c, done, n, false);
    return status ? status : finish(c);
}

/* ---- steps that change text ---- */

static weft_status metaspace(walk *w, size_t step, const char *text, size_t n, bool first)
{
    const splitter *how = &w->t->splitters[step];
    weft_text *out = &w->s->split[step];
    weft_text_clear(out);
    bool begins =
        (n >= how->n_replacement && !memcmp(text, how->replacement, how->n_replacement)) ||
        text[0] == ' ';
    if (!begins && (how->first == PREPEND_ALWAYS || (how->first == PREPEND_FIRST && first)))
        weft_text_add_bytes(out, how->replacement, how->n_replacement);
    for (size_t at = 0; at < n;) {
        const char *blank = memchr(text + at, ' ', n - at);
        size_t end = blank ? (size_t)(blank - text) : n;
        weft_text_add_bytes(out, text + at, end - at);
        if (blank)
            weft_text_add_bytes(out, how->replacement, how->n_replacement);
        at = end + (blank != NULL);
    }
    if (out->out_of_memory)
        return weft_fail_memory(w->err);
    if (!how->split)
        return run_step(w, step + 1, out->data, out->size, first);
    cutter c = {.w = w, .how = how, .step = step, .text = out->data, .first = first};
    return split_characters(&c, out->size);
}

/* Bytes to printable characters, for the steps that follow. */
static weft_status map_bytes(walk *w, size_t step, const char *text, size_t n, bool first)
{
    weft_text *out = &w->s->split[step];
    weft_text_clear(out);
    for (size_t i = 0; i < n; i++) {
        char bytes[4];
        weft_text_add_bytes(out, bytes,
                            unicode_put(unicode_byte_alphabet[(unsigned char)text[i]], bytes));
    }
    if (out->out_of_memory)
        return weft_fail_memory(w->err);
    return run_step(w, step + 1, out->data, out->size, first);
}

static weft_status byte_level(walk *w, size_t step, const char *text, size_t n, bool first)
{
    const splitter *how = &w->t->splitters[step];
    if (how->prefix && text[0] != ' ') {
        weft_text *out = &w->s->split[step];
        weft_text_clear(out);
        weft_text_add(out, " ");
        weft_text_add_bytes(out, text, n);
        if (out->out_of_memory)
            return weft_fail_memory(w->err);
        text = out->data;
        n = out->size;
    }
    if (!how->split)
        return run_step(w, step + 1, text, n, first);
    cutter c = {.w = w, .how = how, .step = step, .text = text, .first = first};
    return split_pattern(&c, n);
}

static weft_status run_step(walk *w, size_t step, const char *text, size_t n, bool first)
{
    if (step == w->t->n_splitters)
        return w->s->word ? w->s->word(w->s->self, text, n, w->err)
                          : tokenizer_add_word(w->t, w->s, text, n, w->err);
    const splitter *how = &w->t->splitters[step];
    cutter c = {.w = w, .how = how, .step = step, .text = text, .first = first};
    switch (how->kind) {
    case SPLIT_PATTERN:
        return split_pattern(&c, n);
    case SPLIT_DIGITS:
    case SPLIT_PUNCTUATION:
        return split_characters(&c, n);
    case SPLIT_METASPACE:
        return metaspace(w, step, text, n, first);
    case SPLIT_BYTE_MAP:
        return map_bytes(w, step, text, n, first);
    case SPLIT_BYTE_LEVEL:
        return byte_level(w, step, text, n, first);
    }
    return WEFT_ERR_INTERNAL;
}

weft_status tokenizer_split(const tokenizer *t, tokenizer_scratch *s, const char *text, size_t n,
                            bool first, weft_error *err)
{
    walk w = {.t = t, .s = s, .err = err};
    return run_step(&w, 0, text, n, first);
}
