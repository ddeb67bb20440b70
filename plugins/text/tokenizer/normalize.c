/* SPDX-License-Identifier: Apache-2.0 */
/* Normalizers: each reads a text and leaves another in the scratch, or the same where nothing
 * changes. */
#include "engine.h"

#include <string.h>
#include <utf8proc.h>

typedef struct state {
    const tokenizer *t;
    tokenizer_scratch *s;
    const char *text;
    size_t n;
    int turn; /* which buffer is written next */
    bool moved;
    weft_error *err;
} state;

static weft_text *next_buffer(state *st)
{
    weft_text *out = &st->s->normal[st->turn];
    st->turn ^= 1;
    weft_text_clear(out);
    return out;
}

static weft_status take(state *st, const weft_text *out)
{
    if (out->out_of_memory)
        return weft_fail_memory(st->err);
    st->text = weft_text_get(out);
    st->n = out->size;
    return WEFT_OK;
}

static void add_point(weft_text *out, uint32_t c)
{
    char bytes[4];
    weft_text_add_bytes(out, bytes, unicode_put(c, bytes));
}

/* ---- NFC, NFD, NFKC, NFKD ---- */

/* Characters at the start that stay as they are, whatever follows: below `limit`, up to the last
 * that cannot combine with what comes next. */
static size_t plain_prefix(const char *text, size_t n, unsigned char limit)
{
    size_t at = 0;
    while (at < n && (unsigned char)text[at] < limit)
        at++;
    if (at < n) /* the last one may combine with what comes next */
        do
            at -= at > 0;
        while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80);
    return at;
}

static weft_status more_points(state *st, size_t n)
{
    if (n <= st->s->n_points)
        return WEFT_OK;
    n += n / 2;
    int32_t *grown =
        n > SIZE_MAX / sizeof *grown ? NULL : weft_realloc(st->s->points, n * sizeof *grown);
    if (!grown)
        return weft_fail_memory(st->err);
    st->s->points = grown;
    st->s->n_points = n;
    return WEFT_OK;
}

/* Text without opaque characters. */
static weft_status normalize_part(state *st, const char *text, size_t n, utf8proc_option_t options,
                                  weft_text *out)
{
    weft_status status = more_points(st, n + 32);
    if (status || n == 0)
        return status;
    utf8proc_ssize_t points =
        utf8proc_decompose((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, st->s->points,
                           (utf8proc_ssize_t)st->s->n_points, options);
    if (points > (utf8proc_ssize_t)st->s->n_points) {
        status = more_points(st, (size_t)points);
        if (status)
            return status;
        points = utf8proc_decompose((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n,
                                    st->s->points, (utf8proc_ssize_t)st->s->n_points, options);
    }
    if (points >= 0)
        points = utf8proc_normalize_utf32(st->s->points, points, options);
    if (points < 0)
        return weft_fail(st->err, WEFT_ERR_INPUT, WEFT_NOWHERE, "the text cannot be normalized: %s",
                         utf8proc_errmsg(points));
    for (utf8proc_ssize_t i = 0; i < points; i++)
        add_point(out, (uint32_t)st->s->points[i]);
    return WEFT_OK;
}

/* A part that ends before an ASCII character, which nothing before it combines with. */
static weft_status normalize_parts(state *st, const char *text, size_t n, utf8proc_option_t options,
                                   weft_text *out)
{
    size_t from = 0;
    for (size_t at = 0, length; at < n; at += length) {
        if (!unicode_is_opaque(unicode_get(text + at, &length)))
            continue;
        weft_status status = normalize_part(st, text + from, at - from, options, out);
        if (status)
            return status;
        weft_text_add_bytes(out, text + at, length);
        from = at + length;
    }
    return normalize_part(st, text + from, n - from, options, out);
}

static weft_status normalize_form(state *st, normalizer_kind kind)
{
    static const utf8proc_option_t options[] = {
        UTF8PROC_STABLE | UTF8PROC_COMPOSE, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
        UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
        UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
    unsigned char limit = kind == NORMALIZER_NFC ? 0xCC : 0x80; /* below U+0300 all is composed */
    const char *text = st->text, *end = text + st->n;
    size_t plain = plain_prefix(text, st->n, limit);
    if (plain == st->n)
        return WEFT_OK;
    weft_text *out = next_buffer(st);
    for (;;) {
        weft_text_add_bytes(out, text, plain);
        text += plain;
        if (text == end)
            return take(st, out);
        size_t part = 1;
        while (text + part < end && (unsigned char)text[part] >= 0x80)
            part++;
        weft_status status = normalize_parts(st, text, part, options[kind], out);
        if (status)
            return status;
        text += part;
        plain = plain_prefix(text, (size_t)(end - text), limit);
    }
}

/* ---- the others ---- */

static weft_status lower_case(state *st)
{
    weft_text *out = next_buffer(st);
    for (size_t at = 0, length; at < st->n; at += length) {
        uint32_t lower[2], c = unicode_get(st->text + at, &length);
        if (c < 128) {
            char low = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
            weft_text_add_bytes(out, &low, 1);
            continue;
        }
        int n = unicode_lower_case(c, lower);
        for (int i = 0; i < n; i++)
            add_point(out, lower[i]);
    }
    return take(st, out);
}

static weft_status replace(state *st, const normalizer *step)
{
    pattern_matches m = {.s = st->text, .n = st->n};
    size_t done = 0, start = 0, end = 0;
    weft_text *out = NULL;
    int found = 0;
    while (st->n && (found = pattern_next(&step->pattern, st->s->match, st->s->context, &m, &start,
                                          &end, st->err)) > 0) {
        if (!out)
            out = next_buffer(st);
        if (start == 0 && end > 0 && step->n_content == 0)
            st->moved = true;
        weft_text_add_bytes(out, st->text + done, start - done);
        weft_text_add_bytes(out, step->content, step->n_content);
        done = end;
    }
    if (found < 0)
        return weft_error_status(st->err) ? weft_error_status(st->err) : WEFT_ERR_MEMORY;
    if (!out)
        return WEFT_OK;
    weft_text_add_bytes(out, st->text + done, st->n - done);
    return take(st, out);
}

static weft_status prepend(state *st, const normalizer *step)
{
    if (!st->n)
        return WEFT_OK;
    weft_text *out = next_buffer(st);
    weft_text_add_bytes(out, step->content, step->n_content);
    weft_text_add_bytes(out, st->text, st->n);
    return take(st, out);
}

static void strip(state *st, const normalizer *step)
{
    size_t length;
    while (step->left && st->n && unicode_is_space(unicode_get(st->text, &length))) {
        st->text += length;
        st->n -= length;
        st->moved = true;
    }
    while (step->right && st->n) {
        size_t at = st->n - 1;
        while (((unsigned char)st->text[at] & 0xC0) == 0x80)
            at--;
        if (!unicode_is_space(unicode_get(st->text + at, &length)))
            break;
        st->n = at;
    }
}

weft_status tokenizer_normalize(const tokenizer *t, tokenizer_scratch *s, const char *text,
                                size_t n, bool continues, const char **out, size_t *n_out,
                                bool *moved, weft_error *err)
{
    state st = {.t = t, .s = s, .text = text, .n = n, .err = err};
    weft_status status = WEFT_OK;
    for (size_t i = 0; !status && i < t->n_normalizers; i++) {
        const normalizer *step = &t->normalizers[i];
        switch (step->kind) {
        case NORMALIZER_NFC:
        case NORMALIZER_NFD:
        case NORMALIZER_NFKC:
        case NORMALIZER_NFKD:
            status = normalize_form(&st, step->kind);
            break;
        case NORMALIZER_LOWERCASE:
            status = lower_case(&st);
            break;
        case NORMALIZER_REPLACE:
            status = replace(&st, step);
            break;
        case NORMALIZER_PREPEND:
            status = continues ? WEFT_OK : prepend(&st, step);
            break;
        case NORMALIZER_STRIP:
            strip(&st, step);
            break;
        }
    }
    *out = st.text;
    *n_out = st.n;
    *moved = st.moved;
    return status;
}
