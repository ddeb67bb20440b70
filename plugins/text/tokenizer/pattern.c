/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions that text is split by: compiled by PCRE2, for UTF-8, just in time. */
#include "tiktoken.h"
#include "translate.h"

#include <string.h>

const char pattern_gpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static void *library_alloc(PCRE2_SIZE n, void *data)
{
    (void)data;
    return weft_alloc(n);
}

static void library_free(void *p, void *data)
{
    (void)data;
    weft_free(p);
}

static weft_status compile(pattern *p, const weft_text *text, weft_where where, const char *at,
                           weft_error *err)
{
    int code = 0;
    PCRE2_SIZE offset = 0;
    weft_status status = WEFT_OK;
    pcre2_general_context *general =
        pcre2_general_context_create(library_alloc, library_free, NULL);
    pcre2_compile_context *context = general ? pcre2_compile_context_create(general) : NULL;
    if (!context || pcre2_set_newline(context, PCRE2_NEWLINE_LF)) {
        status = weft_fail_memory(err);
        goto out;
    }
    p->code = pcre2_compile((PCRE2_SPTR)weft_text_get(text), text->size,
                            PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &code, &offset, context);
    if (!p->code && code == PCRE2_ERROR_HEAP_FAILED)
        status = weft_fail_memory(err);
    else if (!p->code) {
        PCRE2_UCHAR message[160];
        pcre2_get_error_message(code, message, sizeof message);
        status = weft_fail(err, WEFT_ERR_INPUT, where, "%s: the expression cannot be compiled: %s",
                           at, (const char *)message);
    } else if ((code = pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE)) == PCRE2_ERROR_NOMEMORY)
        status = weft_fail_memory(err); /* without a compiler it interprets */
out:
    pcre2_compile_context_free(context);
    pcre2_general_context_free(general);
    return status;
}

weft_status pattern_compile(pattern *p, const char *expression, size_t n, bool plain,
                            weft_where where, const char *at, weft_error *err)
{
    *p = (pattern){0};
    if (plain) {
        p->literal = expression;
        p->n_literal = n;
        return n ? WEFT_OK
                 : weft_fail(err, WEFT_ERR_INPUT, where, "%s: an empty text cannot be looked for",
                             at);
    }
    weft_text text = {0};
    const char *wrong;
    size_t wrong_at;
    weft_status status = WEFT_OK;
    if (!pattern_translate(expression, n, &text, &wrong, &wrong_at))
        status = weft_fail(err, WEFT_ERR_INPUT, where,
                           "%s: at byte %zu of the expression: %s is not supported: %.40s", at,
                           wrong_at, wrong, expression + wrong_at);
    else if (text.out_of_memory)
        status = weft_fail_memory(err);
    else
        status = compile(p, &text, where, at, err);
    weft_text_release(&text);
    if (status || strlen(expression) != n)
        return status;
    p->scan = pattern_find_scan(expression);
    p->known = p->scan || !strcmp(expression, tokenizer_pattern("o200k"));
    return status;
}

void pattern_release(pattern *p)
{
    pcre2_code_free(p->code);
    p->code = NULL;
}

/* ---- going over matches, as Oniguruma's binding does: an empty match right behind a match does
 * not count ---- */

static int next_literal(const pattern *p, pattern_matches *m, size_t *start, size_t *end)
{
    const char *found =
        m->next < m->n ? memmem(m->s + m->next, m->n - m->next, p->literal, p->n_literal) : NULL;
    if (!found)
        return 0;
    *start = (size_t)(found - m->s);
    *end = m->next = *start + p->n_literal;
    return 1;
}

static weft_status match_failed(int code, weft_error *err)
{
    if (code == PCRE2_ERROR_NOMEMORY)
        return weft_fail_memory(err);
    PCRE2_UCHAR message[160];
    pcre2_get_error_message(code, message, sizeof message);
    bool limit = code == PCRE2_ERROR_MATCHLIMIT || code == PCRE2_ERROR_DEPTHLIMIT ||
                 code == PCRE2_ERROR_HEAPLIMIT || code == PCRE2_ERROR_JIT_STACKLIMIT;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "the tokenizer's expression cannot split this text: %s%s",
                     (const char *)message,
                     limit ? "; it tries too many ways to match: repeats within repeats, as (a+)+, "
                             "are what makes it"
                           : "");
}

int pattern_next(const pattern *p, pcre2_match_data *data, pcre2_match_context *context,
                 pattern_matches *m, size_t *start, size_t *end, weft_error *err)
{
    if (!p->code)
        return next_literal(p, m, start, end);
    while (m->next <= m->n) {
        size_t known = p->scan && m->next < m->n ? p->scan(m->s, m->n, m->next) : 0;
        if (known) {
            *start = m->next;
            *end = m->next = m->last_end = known;
            m->any = true;
            return 1;
        }
        int found = pcre2_match(p->code, (PCRE2_SPTR)m->s, m->n, m->next, PCRE2_NO_UTF_CHECK, data,
                                context);
        if (found == PCRE2_ERROR_NOMATCH)
            return 0;
        if (found < 0) {
            match_failed(found, err);
            return -1;
        }
        const PCRE2_SIZE *at = pcre2_get_ovector_pointer(data);
        *start = at[0];
        *end = at[1];
        if (at[0] == at[1] && m->any && m->last_end == at[1]) {
            size_t length = 1;
            if (m->next < m->n)
                unicode_get(m->s + m->next, &length);
            m->next += length;
            continue;
        }
        m->next = m->last_end = at[1];
        m->any = true;
        return 1;
    }
    return 0;
}
