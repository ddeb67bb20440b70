/* SPDX-License-Identifier: Apache-2.0 */
/* Rank files to a tokenizer. */
#include "tiktoken.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { ERRORS_SHOWN = 10, ID_MAX = 1 << 28 };

/* ---- patterns by name ---- */

static const struct {
    const char *name, *text;
} patterns[] = {
    {"gpt2", "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
    {"llama3", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
               "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    {"qwen2", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
              "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    {"o200k", "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}"
              "\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
              "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}"
              "\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
              "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
};

enum { N_PATTERNS = sizeof patterns / sizeof *patterns };

const char *tokenizer_pattern(const char *name)
{
    for (int i = 0; i < N_PATTERNS; i++)
        if (!strcmp(patterns[i].name, name))
            return patterns[i].text;
    return name;
}

const char *tokenizer_pattern_names(void)
{
    return "gpt2, llama3, qwen2, o200k";
}

/* ---- lines ---- */

/* One read of a file. Tokens lie in `bytes`, one after the other. */
typedef struct ranks {
    const char *path;
    int line, n_bad;
    char *bytes;
    size_t n_bytes;
    tokenizer_entry *list;
    size_t n, capacity;
    weft_error *err;
} ranks;

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Appends the bytes of s to `to`; -1: not base64. It needs 3 bytes of room for every 4 characters.
 */
static long base64_decode(const char *s, size_t n, char *to)
{
    if (n == 0 || n % 4)
        return -1;
    size_t padding = (s[n - 1] == '=') + (s[n - 1] == '=' && s[n - 2] == '=');
    long out = 0;
    for (size_t i = 0; i < n; i += 4) {
        uint32_t bits = 0;
        for (size_t k = 0; k < 4; k++) {
            int v = i + k >= n - padding ? 0 : base64_value(s[i + k]);
            if (v < 0)
                return -1;
            bits = bits << 6 | (uint32_t)v;
        }
        size_t bytes = i + 4 == n ? 3 - padding : 3;
        if (bytes < 3 && bits & ((1u << 8 * (3 - bytes)) - 1))
            return -1;
        for (size_t k = 0; k < bytes; k++)
            to[out++] = (char)(bits >> (16 - 8 * k));
    }
    return out;
}

static weft_status fail_line(ranks *r, const char *what)
{
    r->n_bad++;
    if (r->n_bad > ERRORS_SHOWN)
        return WEFT_ERR_INPUT;
    return weft_fail(r->err, WEFT_ERR_INPUT, (weft_where){r->path, r->line},
                     "%s; a line of a rank file is a token in base64, a blank, and its rank", what);
}

static weft_status add_entry(ranks *r, const char *text, size_t n, int32_t id)
{
    if (r->n == r->capacity) {
        size_t capacity = r->capacity ? 2 * r->capacity : 4096;
        tokenizer_entry *list = weft_realloc(r->list, capacity * sizeof *list);
        if (!list)
            return weft_fail_memory(r->err);
        r->list = list;
        r->capacity = capacity;
    }
    r->list[r->n++] = (tokenizer_entry){text, n, id};
    return WEFT_OK;
}

static weft_status read_line(ranks *r, const char *line, size_t n)
{
    if (n && line[n - 1] == '\r')
        n--;
    if (!n)
        return WEFT_OK;
    const char *blank = memchr(line, ' ', n);
    if (!blank)
        return fail_line(r, "no blank here");
    char *token = r->bytes + r->n_bytes;
    long bytes = base64_decode(line, (size_t)(blank - line), token);
    if (bytes < 0)
        return fail_line(r, "the token is not base64");
    int64_t rank = 0;
    const char *at = blank + 1;
    for (; at < line + n && *at >= '0' && *at <= '9' && rank < ID_MAX; at++)
        rank = 10 * rank + (*at - '0');
    if (at == blank + 1 || at < line + n || rank >= ID_MAX)
        return fail_line(r, "the rank is not a number below 2^28");
    r->n_bytes += (size_t)bytes;
    return add_entry(r, token, (size_t)bytes, (int32_t)rank);
}

static weft_status read_lines(ranks *r, const char *data, size_t n)
{
    weft_status status = WEFT_OK;
    for (size_t at = 0; at < n && status != WEFT_ERR_MEMORY;) {
        const char *end = memchr(data + at, '\n', n - at);
        size_t length = end ? (size_t)(end - data) - at : n - at;
        r->line += r->line < INT_MAX;
        weft_status now = read_line(r, data + at, length);
        status = now ? now : status;
        at += length + 1;
    }
    if (r->n_bad > ERRORS_SHOWN)
        return weft_fail(r->err, WEFT_ERR_INPUT, (weft_where){r->path, 0},
                         "%d more lines are wrong", r->n_bad - ERRORS_SHOWN);
    return status;
}

bool tokenizer_is_rank_file(const char *data, size_t n)
{
    size_t at = 0;
    while (at < n && (base64_value(data[at]) >= 0 || data[at] == '='))
        at++;
    return at >= 4 && at + 1 < n && data[at] == ' ' && data[at + 1] >= '0' && data[at + 1] <= '9';
}

/* ---- special tokens ---- */

static int32_t next_id(const tokenizer_entry *list, size_t n, int32_t next)
{
    for (size_t i = 0; i < n; i++)
        next = list[i].id >= next ? list[i].id + 1 : next;
    return next;
}

/* "NAME=ID" where ID is a number; else the whole is the name. */
static void parse_special(const char *text, tokenizer_entry *entry)
{
    const char *equals = strrchr(text, '=');
    *entry = (tokenizer_entry){text, strlen(text), -1};
    if (!equals || equals == text || !equals[1] ||
        strspn(equals + 1, "0123456789") != strlen(equals + 1))
        return;
    errno = 0;
    long id = strtol(equals + 1, NULL, 10);
    if (!errno && id < ID_MAX)
        *entry = (tokenizer_entry){text, (size_t)(equals - text), (int32_t)id};
}

static weft_status make_special(const ranks *r, const char *const *names, tokenizer_entry **out,
                                size_t *n, weft_error *err)
{
    *n = 0;
    while (names && names[*n])
        ++*n;
    *out = weft_alloc_zero(*n + 1, sizeof **out);
    if (!*out)
        return weft_fail_memory(err);
    for (size_t i = 0; i < *n; i++)
        parse_special(names[i], &(*out)[i]);
    int32_t next = next_id(*out, *n, next_id(r->list, r->n, 0));
    for (size_t i = 0; i < *n; i++)
        if ((*out)[i].id < 0)
            (*out)[i].id = next++;
    return WEFT_OK;
}

/* ---- all ---- */

weft_status tokenizer_load_ranks(const char *path, const char *pattern, const char *const *special,
                                 tokenizer **out, weft_error *err)
{
    char *data = NULL;
    size_t n = 0, n_special = 0;
    tokenizer_entry *entries = NULL;
    ranks r = {.path = path, .err = err};
    weft_status status = weft_read_file(path, &data, &n, err);
    if (status)
        return status;
    r.bytes = weft_alloc(n + 1); /* base64 is longer than what it stands for */
    status = r.bytes ? read_lines(&r, data, n) : weft_fail_memory(err);
    if (!status && !r.n)
        status = weft_fail(
            err, WEFT_ERR_INPUT, (weft_where){path, 0},
            "no token in it; a line of a rank file is a token in base64, a blank, and its rank");
    if (!status)
        status = make_special(&r, special, &entries, &n_special, err);
    if (!status)
        status = tokenizer_from_ranks(path, tokenizer_pattern(pattern), r.list, r.n, entries,
                                      n_special, out, err);
    weft_free(entries);
    weft_free(r.list);
    weft_free(r.bytes);
    weft_free(data);
    return status;
}
