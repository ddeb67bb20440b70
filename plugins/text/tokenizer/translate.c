/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrites an expression for PCRE2. Tokenizer files are written for Oniguruma (Ruby's syntax),
 * whose tables of characters are newer: classes become PCRE2's own plus what that lacks, and
 * whatever the two read differently is refused. */
#include "translate.h"

#include <string.h>

#define SPACES                                                                                     \
    "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}"    \
    "\\x{205F}\\x{3000}"
#define NO_SPACES                                                                                  \
    "\\x{0}-\\x{8}\\x{E}-\\x{1F}\\x{21}-\\x{84}\\x{86}-\\x{9F}\\x{A1}-\\x{167F}\\x{1681}-\\x{"     \
    "1FFF}\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}"                                                  \
    "\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}\\x{3001}-\\x{10FFFF}"

typedef struct translation {
    const char *at, *end;
    weft_text *out;
    const char *wrong; /* what cannot be had; NULL: all is well */
    const char *wrong_at;
    bool fold[64]; /* groups: is case ignored? */
    int depth;
    char before;   /* the literal letter before this, 0: something else */
    bool repeated; /* the last thing was a repetition */
    bool atom;     /* there is something to repeat */
} translation;

static void refuse(translation *t, const char *at, const char *what)
{
    if (!t->wrong) {
        t->wrong = what;
        t->wrong_at = at;
    }
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static void put_code(translation *t, uint32_t c)
{
    weft_text_print(t->out, "\\x{%X}", c);
}

/* Some pairs of letters fold to one character (ss to sharp s), so ignoring case there means more
 * than PCRE2 does. */
static void put_literal(translation *t, const char *at, uint32_t c)
{
    if (t->fold[t->depth]) {
        static const char *const pairs[] = {"ss", "ff", "fi", "fl", "st"};
        char low = c < 128 && is_letter((char)c) ? (char)(c | 0x20) : 0;
        for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
            if (low && t->before == pairs[i][0] && low == pairs[i][1])
                refuse(t, at, "these letters where case is ignored");
        if (c >= 128)
            refuse(t, at, "characters outside ASCII where case is ignored");
        t->before = low;
    }
    put_code(t, c);
}

/* ---- classes ---- */

/* What stands in brackets for the class name; *negated where it cannot stand there with others. */
static void put_class(translation *t, const char *at, const char *name)
{
    const char *more, *base = unicode_find_class(name, &more);
    if (!base)
        refuse(t, at, "this class of characters");
    if (t->fold[t->depth])
        refuse(t, at, "classes of characters where case is ignored");
    if (!base || t->wrong)
        return;
    weft_text_add(t->out, base);
    weft_text_add(t->out, more);
}

/* After \p or \P: {name}, {^name}. */
static void read_property(translation *t, char name[16], bool *negated)
{
    const char *from = t->at - 2;
    size_t n = 0;
    if (t->at == t->end || *t->at++ != '{') {
        refuse(t, from, "this escape");
        return;
    }
    if (t->at < t->end && *t->at == '^') {
        *negated = !*negated;
        t->at++;
    }
    while (t->at < t->end && *t->at != '}' && n < 15)
        name[n++] = *t->at++;
    name[n] = '\0';
    if (t->at == t->end || *t->at != '}' || !strcmp(name, "word"))
        refuse(t, from, "this class of characters");
    else
        t->at++;
}

static bool read_hex(translation *t, size_t digits, uint32_t *c)
{
    *c = 0;
    for (size_t i = 0; i < digits; i++, t->at++) {
        if (t->at == t->end)
            return false;
        char d = *t->at;
        if (!is_digit(d) && !((d | 0x20) >= 'a' && (d | 0x20) <= 'f'))
            return false;
        *c = *c * 16 + (uint32_t)(is_digit(d) ? d - '0' : (d | 0x20) - 'a' + 10);
    }
    return true;
}

/* \x{...}, after the x. */
static bool read_braced(translation *t, uint32_t *c)
{
    size_t digits = 0;
    t->at++;
    while (t->at + digits < t->end && t->at[digits] != '}')
        digits++;
    if (digits < 1 || digits > 6 || !read_hex(t, digits, c) || t->at == t->end)
        return false;
    t->at++;
    return true;
}

/* An escape that is one character. */
static bool read_escape(translation *t, char e, uint32_t *c)
{
    static const char names[] = "nrtfvae", values[] = "\n\r\t\f\v\a\x1B";
    const char *at = e ? strchr(names, e) : NULL;
    if (at) {
        *c = (unsigned char)values[at - names];
        return true;
    }
    if (e == 'x' && t->at < t->end && *t->at == '{')
        return read_braced(t, c) && *c <= 0x10FFFF && (*c < 0xD800 || *c > 0xDFFF);
    if (e == 'x')
        return read_hex(t, 2, c) && *c < 0x80;
    if (e == 'u')
        return read_hex(t, 4, c) && (*c < 0xD800 || *c > 0xDFFF);
    *c = (unsigned char)e;
    return e && (unsigned char)e < 0x80 && !is_letter(e) && !is_digit(e);
}

/* One escape inside brackets. */
static void class_escape(translation *t)
{
    const char *from = t->at++;
    char e = t->at < t->end ? *t->at++ : '\0', name[16] = "";
    bool negated = e == 'P';
    uint32_t c;
    if (e == 'p' || e == 'P') {
        read_property(t, name, &negated);
        if (negated)
            refuse(t, from, "a negated class in brackets");
        put_class(t, from, name);
    } else if (e == 's' || e == 'S')
        weft_text_add(t->out, e == 's' ? SPACES : NO_SPACES);
    else if (e == 'd' || e == 'w')
        put_class(t, from, e == 'd' ? "Nd" : "word");
    else if (read_escape(t, e, &c))
        put_code(t, c);
    else
        refuse(t, from, "this escape in brackets");
}

static void translate_brackets(translation *t)
{
    const char *from = t->at++;
    weft_text_add(t->out, "[");
    if (t->at < t->end && *t->at == '^') {
        weft_text_add(t->out, "^");
        t->at++;
    }
    if (t->at < t->end && *t->at == ']')
        refuse(t, from, "] as the first character in brackets");
    while (!t->wrong && t->at < t->end && *t->at != ']') {
        size_t length;
        if (*t->at == '\\')
            class_escape(t);
        else if (*t->at == '[')
            refuse(t, t->at, "brackets in brackets");
        else if (*t->at == '&' && t->at + 1 < t->end && t->at[1] == '&')
            refuse(t, t->at, "&& in brackets");
        else if (*t->at == '-') {
            weft_text_add(
                t->out, t->at == from + 1 || t->at + 1 == t->end || t->at[1] == ']' ? "\\-" : "-");
            t->at++;
        } else {
            uint32_t c = unicode_get(t->at, &length);
            if (c >= 128 && t->fold[t->depth])
                refuse(t, t->at, "characters outside ASCII where case is ignored");
            put_code(t, c);
            t->at += length;
        }
    }
    if (t->at == t->end)
        refuse(t, from, "brackets without an end");
    else
        t->at++;
    weft_text_add(t->out, "]");
}

/* ---- outside brackets ---- */

static void put_boundary(translation *t, const char *at, bool there)
{
    static const char *const parts[2][4] = {{"(?:(?<=[", "])(?=[", "])|(?<![", "])(?!["},
                                            {"(?:(?<=[", "])(?![", "])|(?<![", "])(?=["}};
    for (int i = 0; i < 4; i++) {
        weft_text_add(t->out, parts[there][i]);
        put_class(t, at, "word");
    }
    weft_text_add(t->out, "]))");
}

static void put_outer_class(translation *t, const char *at, const char *name, bool negated)
{
    weft_text_add(t->out, negated ? "[^" : "[");
    put_class(t, at, name);
    weft_text_add(t->out, "]");
}

static void translate_escape(translation *t)
{
    const char *from = t->at++;
    char e = t->at < t->end ? *t->at++ : '\0', name[16] = "";
    bool negated = e == 'P' || e == 'S' || e == 'W' || e == 'D';
    uint32_t c;
    t->atom = true;
    if (e == 'p' || e == 'P') {
        read_property(t, name, &negated);
        put_outer_class(t, from, name, negated);
    } else if (e == 's' || e == 'S')
        weft_text_add(t->out, negated ? "[^" SPACES "]" : "[" SPACES "]");
    else if (e == 'd' || e == 'D' || e == 'w' || e == 'W')
        put_outer_class(t, from, (e | 0x20) == 'd' ? "Nd" : "word", negated);
    else if (e == 'b' || e == 'B') {
        put_boundary(t, from, e == 'b');
        t->atom = false;
    } else if (e == 'A' || e == 'z' || e == 'Z') {
        weft_text_add_bytes(t->out, from, 2);
        t->atom = false;
    } else if (read_escape(t, e, &c))
        put_literal(t, from, c);
    else
        refuse(t, from, "this escape");
}

static void translate_group(translation *t)
{
    static const char *const openings[] = {"(?:",  "(?=",  "(?!",  "(?>",
                                           "(?<=", "(?<!", "(?i:", "(?-i:"};
    const char *from = t->at;
    size_t left = (size_t)(t->end - t->at), n = 0;
    bool fold = t->fold[t->depth];
    if (left > 1 && from[1] != '?' && from[1] != '*')
        n = 1;
    for (size_t i = 0; !n && i < sizeof openings / sizeof *openings; i++) {
        size_t length = strlen(openings[i]);
        if (left >= length && !memcmp(from, openings[i], length)) {
            n = length;
            fold = i == 6 || (i != 7 && fold);
        }
    }
    if (!n || t->depth == 63) {
        refuse(t, from, n ? "more than 63 groups in groups" : "this kind of group");
        return;
    }
    weft_text_add(t->out, n == 1 ? "(?:" : "");
    weft_text_add_bytes(t->out, from, n == 1 ? 0 : n);
    t->fold[++t->depth] = fold;
    t->at += n;
    t->atom = false;
}

static void end_group(translation *t)
{
    if (t->depth == 0)
        refuse(t, t->at, "a ) without its (");
    else
        t->depth--;
    weft_text_add(t->out, ")");
    t->at++;
    t->atom = true;
}

/* {n}, {n,}, {,m}, {n,m}; false: the brace is a character. */
static bool translate_braces(translation *t)
{
    const char *p = t->at + 1;
    bool low = false, high = false, comma = false;
    for (; p < t->end && is_digit(*p); p++)
        low = true;
    if (p < t->end && *p == ',') {
        comma = true;
        for (p++; p < t->end && is_digit(*p); p++)
            high = true;
    }
    if (p == t->end || *p != '}' || !(low || high))
        return false;
    weft_text_add(t->out, low ? "{" : "{0");
    weft_text_add_bytes(t->out, t->at + 1, (size_t)(p - t->at));
    if (p + 1 < t->end && (p[1] == '+' || (p[1] == '?' && !comma)))
        refuse(t, p + 1, "a repetition of a repetition");
    t->at = p + 1;
    if (t->at < t->end && *t->at == '?') {
        weft_text_add(t->out, "?");
        t->at++;
    }
    return true;
}

/* True if there was one. */
static bool translate_repetition(translation *t)
{
    const char *from = t->at;
    if (*from == '{') {
        if (!t->atom)
            return false;
        if (!translate_braces(t))
            return false;
    } else if (*from == '*' || *from == '+' || *from == '?') {
        weft_text_add_bytes(t->out, t->at++, 1);
        if (t->at < t->end && (*t->at == '?' || *t->at == '+'))
            weft_text_add_bytes(t->out, t->at++, 1);
    } else
        return false;
    if (t->repeated)
        refuse(t, from, "a repetition of a repetition");
    else if (!t->atom)
        refuse(t, from, "a repetition of nothing");
    t->repeated = true;
    t->before = 0;
    return true;
}

static void translate_one(translation *t)
{
    size_t length;
    if (translate_repetition(t))
        return;
    char c = *t->at, before = t->before;
    t->repeated = false;
    t->before = 0;
    if (c == '[') {
        translate_brackets(t);
        t->atom = true;
    } else if (c == '\\')
        translate_escape(t);
    else if (c == '(')
        translate_group(t);
    else if (c == ')')
        end_group(t);
    else if (c == '|' || c == '^' || c == '$') {
        weft_text_add(t->out, c == '|' ? "|" : c == '^' ? "(?m:^)" : "(?m:$)");
        t->at++;
        t->atom = false;
    } else if (c == '.') {
        weft_text_add(t->out, ".");
        t->at++;
        t->atom = true;
    } else {
        t->before = before;
        put_literal(t, t->at, unicode_get(t->at, &length));
        t->at += length;
        t->atom = true;
    }
}

bool pattern_translate(const char *expression, size_t n, weft_text *out, const char **wrong,
                       size_t *wrong_at)
{
    translation t = {.at = expression, .end = expression + n, .out = out};
    if (n >= 4 && !memcmp(expression, "(?i)", 4)) {
        weft_text_add(out, "(?i)");
        t.fold[0] = true;
        t.at += 4;
    }
    while (!t.wrong && t.at < t.end)
        translate_one(&t);
    if (!t.wrong && t.depth > 0)
        refuse(&t, t.end, "a ( without its )");
    *wrong = t.wrong;
    *wrong_at = t.wrong ? (size_t)(t.wrong_at - expression) : 0;
    return !t.wrong;
}
