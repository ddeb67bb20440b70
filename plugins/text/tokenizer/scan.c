/* SPDX-License-Identifier: Apache-2.0 */
/* The expressions of GPT-2, Llama 3 and Qwen by hand, for text in ASCII: exactly what PCRE2 finds,
 * or 0 as soon as a character that matters is not ASCII. Each of them matches at every position. */
#include "engine.h"

#include <string.h>

enum {
    LETTER = 1,
    DIGIT = 2,
    NEWLINE = 4,
    BLANK = 8,
    OTHER = 16,
    WIDE = 32,
    SPACE = NEWLINE | BLANK
};

/* clang-format off */
static const unsigned char kinds[256] = {
    [0 ... 8] = OTHER, [9] = BLANK, [10] = NEWLINE, [11 ... 12] = BLANK, [13] = NEWLINE, [14 ... 31] = OTHER, [' '] = BLANK,
    ['!' ... '/'] = OTHER, ['0' ... '9'] = DIGIT, [':' ... '@'] = OTHER, ['A' ... 'Z'] = LETTER, ['[' ... '`'] = OTHER,
    ['a' ... 'z'] = LETTER, ['{' ... 127] = OTHER, [128 ... 255] = WIDE,
};
/* clang-format on */

static inline unsigned kind(const char *s, size_t n, size_t at)
{
    return at < n ? kinds[(unsigned char)s[at]] : 0;
}

/* The end of the run of these kinds; 0 if a character outside ASCII ends it. */
static inline size_t run(const char *s, size_t n, size_t at, unsigned which)
{
    while (at < n && (kinds[(unsigned char)s[at]] & which))
        at++;
    return at < n && kinds[(unsigned char)s[at]] == WIDE ? 0 : at;
}

/* \s+(?!\S)|\s+ from a space on, without newlines having a say. */
static size_t spaces(const char *s, size_t n, size_t at)
{
    size_t end = run(s, n, at, SPACE);
    if (!end || end == n || end - at == 1)
        return end;
    return end - 1;
}

/* Length of 's 't 're 've 'm 'll 'd at the apostrophe; 0: none. fold: in either case. *wide: cannot
 * be told. */
static size_t contraction(const char *s, size_t n, size_t at, char fold, bool *wide)
{
    if (n - at < 2)
        return 0;
    unsigned char a = (unsigned char)s[at + 1], b = n - at > 2 ? (unsigned char)s[at + 2] : 0;
    if (a >= 128) {
        *wide = fold != 0;
        return 0;
    }
    a = kinds[a] == LETTER ? (unsigned char)(a | fold) : a;
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    b = kinds[b] == LETTER ? (unsigned char)(b | fold) : b;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

static size_t scan_gpt2(const char *s, size_t n, size_t at)
{
    bool wide = false;
    if (s[at] == '\'') {
        size_t length = contraction(s, n, at, 0, &wide);
        if (length)
            return at + length;
    }
    size_t from = at + (s[at] == ' ');
    unsigned k = kind(s, n, from);
    if (k & (LETTER | DIGIT | OTHER))
        return run(s, n, from, k);
    if (k == WIDE)
        return 0;
    return spaces(s, n, at);
}

/* digits: the most in one word. */
static inline size_t scan_llama3(const char *s, size_t n, size_t at, size_t digits)
{
    unsigned k = kind(s, n, at);
    if (k == LETTER)
        return run(s, n, at, LETTER);
    if (k == WIDE)
        return 0;
    if (k == DIGIT) {
        size_t end = at + 1;
        while (end < n && end - at < digits && kind(s, n, end) == DIGIT)
            end++;
        return end - at < digits && kind(s, n, end) == WIDE ? 0 : end;
    }
    if (s[at] == '\'') {
        bool wide = false;
        size_t length = contraction(s, n, at, 0x20, &wide);
        if (length || wide)
            return wide ? 0 : at + length;
    }
    unsigned next = kind(s, n, at + 1);
    if (k != NEWLINE && next == LETTER)
        return run(s, n, at + 1, LETTER);
    if (next == WIDE)
        return 0;
    size_t from = at + (s[at] == ' ');
    if (kind(s, n, from) == OTHER) {
        size_t end = run(s, n, from, OTHER);
        while (end && end < n && kind(s, n, end) == NEWLINE)
            end++;
        return end;
    }
    size_t end = run(s, n, at, SPACE);
    for (size_t i = end; i > at; i--)
        if (kind(s, n, i - 1) == NEWLINE)
            return i;
    return end ? spaces(s, n, at) : 0;
}

static size_t scan_llama3_3(const char *s, size_t n, size_t at)
{
    return scan_llama3(s, n, at, 3);
}

static size_t scan_llama3_1(const char *s, size_t n, size_t at)
{
    return scan_llama3(s, n, at, 1);
}

#define TAIL " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

size_t (*pattern_find_scan(const char *expression))(const char *s, size_t n, size_t at)
{
    static const struct {
        const char *expression;
        size_t (*scan)(const char *s, size_t n, size_t at);
    } known[] = {
        {pattern_gpt2, scan_gpt2},
        {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
         scan_gpt2},
        {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" TAIL,
         scan_llama3_3},
        {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| "
         "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
         scan_llama3_3},
        {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" TAIL, scan_llama3_1},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].expression, expression))
            return known[i].scan;
    return NULL;
}
