/* SPDX-License-Identifier: Apache-2.0 */
/* The line reader that feeds inih.
 *
 * Builds of inih differ: most cut lines at 200 bytes and names at 49 without a word, many give no
 * line numbers, and old ones leave comments on continuation lines. So we read and check the lines,
 * and hand inih lines that every build reads alike: no comments, no blank lines, and a long value
 * as several short continuation lines. Each piece of a value goes between two guards ('|'), so that
 * inih strips nothing from it and takes it for nothing else. inih calls the handler before it asks
 * for the next line: the reader's counter is the line. */
#include "settings/ini.h"

#include <ini.h>
#include <string.h>

#define GUARD '|'

typedef struct reader {
    weft_pool *pool;
    weft_error *err;
    weft_status status;
    int n_errors, n_keys;
    const char *name, *text; /* text: what is still to be read */
    size_t size;
    int line;
    enum {
        NO_VALUE,
        IN_VALUE,
        LOST_VALUE
    } above;          /* what an indented line continues; LOST: a line that was wrong */
    bool skip;        /* in a section whose header was wrong */
    const char *rest; /* of the current line's value: not handed out yet */
    size_t n_rest;
    bool continues;  /* the piece inih holds continues the entry's last line ... */
    bool new_line;   /* ... or begins one more line of that entry */
    weft_text piece; /* the line's value so far */
    weft_ini_entry *first, *last;
    weft_ini_line *last_line;
} reader;

static weft_where here(const reader *r)
{
    return (weft_where){r->name, r->line};
}

WEFT_PRINTF(2, 3) static void wrong(reader *r, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    r->status = weft_vfail(r->err, WEFT_ERR_INPUT, here(r), format, args);
    va_end(args);
    if (++r->n_errors == WEFT_INI_ERRORS) {
        weft_fail(r->err, WEFT_ERR_INPUT, here(r),
                  "too many errors; the rest of the file was not read");
        r->size = 0;
    }
}

static void no_memory(reader *r)
{
    r->status = weft_fail_memory(r->err);
    r->size = 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static void trim(const char **s, size_t *n)
{
    while (*n > 0 && is_blank((*s)[0]))
        (*s)++, (*n)--;
    while (*n > 0 && is_blank((*s)[*n - 1]))
        (*n)--;
}

/* The length of a line up to its comment: ';' or '#' as its first character, ';' behind a blank. */
static size_t without_comment(const char *s, size_t n)
{
    size_t start = 0;

    while (start < n && is_blank(s[start]))
        start++;
    if (start < n && s[start] == '#')
        return start;
    for (size_t i = start; i < n; i++)
        if (s[i] == ';' && (i == start || is_blank(s[i - 1])))
            return i;
    return n;
}

/* Bytes of the UTF-8 sequence at s, 0 if it is none: no overlong forms, no surrogates, nothing
 * above U+10FFFF. */
static size_t sequence(const unsigned char *s, size_t left)
{
    unsigned char low = 0x80, high = 0xbf;
    size_t n;

    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (n > left)
        return 0;
    if (s[0] == 0xe0)
        low = 0xa0;
    else if (s[0] == 0xed)
        high = 0x9f;
    else if (s[0] == 0xf0)
        low = 0x90;
    else if (s[0] == 0xf4)
        high = 0x8f;
    if (s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

size_t weft_ini_bad_byte(const char *text, size_t size)
{
    const unsigned char *s = (const unsigned char *)text;

    for (size_t i = 0; i < size;) {
        size_t n = sequence(s + i, size - i);

        if (n == 0 || (s[i] < 0x20 && s[i] != '\t') || s[i] == 0x7f)
            return i + 1;
        i += n;
    }
    return 0;
}

/* ---- entries ---- */

static weft_ini_entry *add_entry(reader *r, const char *section, const char *key)
{
    weft_ini_entry *entry = weft_pool_alloc(r->pool, sizeof(*entry));

    if (!entry)
        return NULL;
    entry->section = weft_pool_strdup(r->pool, section);
    entry->key = key ? weft_pool_strdup(r->pool, key) : NULL;
    entry->where = here(r);
    if (!entry->section || (key && !entry->key))
        return NULL;
    if (r->last)
        r->last->next = entry;
    else
        r->first = entry;
    r->last = entry;
    r->last_line = NULL;
    return entry;
}

static bool add_line(reader *r)
{
    weft_ini_line *line = weft_pool_alloc(r->pool, sizeof(*line));

    if (!line || r->piece.out_of_memory)
        return false;
    line->text = weft_pool_strdup(r->pool, weft_text_get(&r->piece));
    line->where = here(r);
    if (!line->text)
        return false;
    if (r->last_line)
        r->last_line->next = line;
    else
        r->last->lines = line;
    r->last_line = line;
    return true;
}

static bool is_include(const char *section, const char *key)
{
    return strcmp(key, "include") == 0 && (section[0] == '\0' || strcmp(section, "weft") == 0);
}

static void check_twice(reader *r, const char *section, const char *key)
{
    if (is_include(section, key))
        return;
    for (const weft_ini_entry *e = r->first; e; e = e->next) {
        if (e->key && strcmp(e->key, key) == 0 && strcmp(e->section, section) == 0) {
            wrong(r, "[%s] %s is set twice, first in line %d; keep one", section, key,
                  e->where.line);
            return;
        }
    }
}

static void begin_entry(reader *r, const char *section, const char *key)
{
    if (section[0] == '\0' && !is_include(section, key))
        wrong(r,
              "'%s' stands before the first section; put it below a line as [train] (only 'include "
              "= FILE' may stand here)",
              key);
    check_twice(r, section, key);
    if (++r->n_keys > WEFT_INI_KEYS) {
        wrong(r, "more than %d keys in one file", WEFT_INI_KEYS);
        r->size = 0;
    }
    if (!add_entry(r, section, key))
        no_memory(r);
}

/* inih's handler, for one piece of a value. Always 1: errors are noted in the reader. */
static int take_piece(reader *r, const char *section, const char *key, const char *value)
{
    size_t n = value ? strlen(value) : 0;

    if (n < 2 || value[0] != GUARD || value[n - 1] != GUARD) {
        r->status = weft_fail(r->err, WEFT_ERR_INTERNAL, here(r),
                              "inih gave '%s' for [%s] %s, which it was not given",
                              value ? value : "", section, key);
        return 1;
    }
    if (!r->continues) {
        weft_text_clear(&r->piece);
        if (!r->new_line)
            begin_entry(r, section, key);
    }
    if (!r->last || r->status == WEFT_ERR_MEMORY)
        return 1;
    weft_text_add_bytes(&r->piece, value + 1, n - 2);
    if (r->n_rest == 0 && !add_line(r))
        no_memory(r);
    return 1;
}

#if INI_HANDLER_LINENO
static int handle(void *user, const char *section, const char *key, const char *value, int line)
{
    (void)line; /* counts the lines we made */
    return take_piece(user, section, key, value);
}
#else
static int handle(void *user, const char *section, const char *key, const char *value)
{
    return take_piece(user, section, key, value);
}
#endif

/* ---- lines ---- */

/* A line handed to inih, built in its buffer. */
typedef struct output {
    char *data;
    size_t size, capacity;
} output;

static void put(output *out, const char *s, size_t n)
{
    if (n > out->capacity - out->size)
        n = out->capacity - out->size; /* cannot be: give_line checks the capacity once */
    memcpy(out->data + out->size, s, n);
    out->size += n;
}

/* As much of the value as fits. */
static void put_piece(reader *r, output *out)
{
    const char guard = GUARD;
    size_t room = out->capacity - out->size - 3; /* two guards and the line's end */
    size_t n = r->n_rest < room ? r->n_rest : room;

    put(out, &guard, 1);
    put(out, r->rest, n);
    put(out, &guard, 1);
    put(out, "\n", 1);
    r->rest += n;
    r->n_rest -= n;
}

static bool is_name(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') ||
              (s[i] >= '0' && s[i] <= '9') || strchr("_-.", s[i])))
            return false;
    return n > 0;
}

/* What a message shows of text that may be long. */
static int shown(size_t n)
{
    return n > 60 ? 60 : (int)n;
}

/* "[name]". False: nothing for inih. */
static bool section_line(reader *r, const char *s, size_t n, output *out)
{
    const char *end = memchr(s, ']', n);
    const char *name = s + 1, *behind = end ? end + 1 : s + n;
    size_t n_name = end ? (size_t)(end - name) : 0, n_behind = (size_t)(s + n - behind);
    char text[WEFT_INI_NAME + 1];

    r->above = LOST_VALUE;
    r->skip = true;
    trim(&behind, &n_behind);
    if (!end) {
        wrong(r, "section '%.*s' has no closing ']'", shown(n), s);
    } else if (n_behind > 0) {
        wrong(r, "'%.*s' behind [%.*s]; a section's line holds nothing else", shown(n_behind),
              behind, shown(n_name), name);
    } else if (n_name > WEFT_INI_NAME) {
        wrong(r, "section name [%.*s...] has %zu bytes; at most %d", shown(n_name), name, n_name,
              WEFT_INI_NAME);
    } else if (!is_name(name, n_name)) {
        wrong(r,
              "[%.*s] is not a section name; names are made of letters, digits, '_', '-' and '.'",
              shown(n_name), name);
    } else {
        memcpy(text, name, n_name);
        text[n_name] = '\0';
        if (!add_entry(r, text, NULL)) {
            no_memory(r);
            return false;
        }
        r->skip = false;
        r->above = NO_VALUE;
        put(out, "[", 1);
        put(out, name, n_name);
        put(out, "]\n", 2);
        return true;
    }
    return false;
}

/* "key = value". False: nothing for inih. */
static bool pair_line(reader *r, const char *s, size_t n, output *out)
{
    const char *equals = memchr(s, '=', n);
    const char *key = s, *value = equals ? equals + 1 : s;
    size_t n_key = equals ? (size_t)(equals - s) : n,
           n_value = equals ? (size_t)(s + n - value) : 0;

    r->above = LOST_VALUE;
    trim(&key, &n_key);
    trim(&value, &n_value);
    if (!equals) {
        wrong(r,
              "'%.*s' has no '='; write 'key = value' (a line that continues a list is indented)",
              shown(n), s);
    } else if (n_key == 0) {
        wrong(r, "no key before '='; write 'key = value'");
    } else if (n_key > WEFT_INI_NAME) {
        wrong(r, "key '%.*s...' has %zu bytes; at most %d", shown(n_key), key, n_key,
              WEFT_INI_NAME);
    } else if (!is_name(key, n_key)) {
        wrong(r,
              "'%.*s' is not a key; keys are made of letters, digits, '_', '-' and '.', and '=' "
              "follows",
              shown(n_key), key);
    } else if (!r->skip) {
        r->above = IN_VALUE;
        r->new_line = r->continues = false;
        r->rest = value;
        r->n_rest = n_value;
        put(out, key, n_key);
        put(out, " = ", 3);
        put_piece(r, out);
        return true;
    }
    return false;
}

static bool use_line(reader *r, const char *s, size_t n, output *out)
{
    bool indented = n > 0 && is_blank(s[0]);
    size_t bad = weft_ini_bad_byte(s, n);

    if (bad > 0) {
        unsigned char byte = (unsigned char)s[bad - 1];

        if (byte == 0)
            wrong(r, "NUL in byte %zu of the line; is this a text file?", bad);
        else if (byte < 0x80)
            wrong(r, "control character 0x%02x in byte %zu of the line", byte, bad);
        else
            wrong(r, "byte %zu of the line (0x%02x) is not UTF-8; save the file as UTF-8", bad,
                  byte);
        return false;
    }
    n = without_comment(s, n);
    trim(&s, &n);
    if (n == 0 || (indented && r->above == LOST_VALUE))
        return false;
    if (indented && r->above == IN_VALUE) {
        r->new_line = true;
        r->continues = false;
        r->rest = s;
        r->n_rest = n;
        put(out, " ", 1);
        put_piece(r, out);
        return true;
    }
    return s[0] == '[' ? section_line(r, s, n, out) : pair_line(r, s, n, out);
}

/* Takes the next physical line off the text. False: there is none. */
static bool next_line(reader *r, const char **s, size_t *n)
{
    const char *end;

    if (r->size == 0)
        return false;
    r->line++;
    *s = r->text;
    end = memchr(r->text, '\n', r->size);
    *n = end ? (size_t)(end - r->text) : r->size;
    r->text += *n + (end ? 1 : 0);
    r->size -= *n + (end ? 1 : 0);
    if (*n > 0 && (*s)[*n - 1] == '\r')
        (*n)--;
    return true;
}

/* inih's reader: as fgets, but of the lines described above. */
static char *give_line(char *buffer, int size, void *stream)
{
    reader *r = stream;
    output out = {buffer, 0, size > 0 ? (size_t)size - 1 : 0};
    const char *s;
    size_t n;
    bool given = false;

    if (size < 2 * (WEFT_INI_NAME + 8)) {
        r->status = weft_fail(r->err, WEFT_ERR_INTERNAL, here(r),
                              "this build of inih reads lines of %d bytes only", size);
        return NULL;
    }
    if (r->n_rest > 0) {
        r->continues = true;
        put(&out, " ", 1);
        put_piece(r, &out);
        given = true;
    }
    while (!given && next_line(r, &s, &n)) {
        if (n > WEFT_INI_LINE)
            wrong(r, "the line has %zu bytes; at most %d. A list may go on in indented lines", n,
                  WEFT_INI_LINE);
        else
            given = use_line(r, s, n, &out);
    }
    buffer[out.size] = '\0';
    return given ? buffer : NULL;
}

weft_status weft_ini_parse(weft_pool *pool, const char *name, const char *text, size_t size,
                           weft_ini_entry **out, weft_error *err)
{
    reader r = {.pool = pool, .err = err, .name = name, .text = text, .size = size};
    int result;

    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        r.text += 3;
        r.size -= 3;
    }
    result = ini_parse_stream(give_line, &r, handle, &r);
    if (result == -2)
        r.status = weft_fail_memory(err);
    else if (result != 0 && r.status == WEFT_OK)
        r.status = weft_fail(err, WEFT_ERR_INTERNAL, (weft_where){name, 0},
                             "inih refused the file (%d)", result);
    weft_text_release(&r.piece);
    *out = r.first;
    return r.status;
}
