/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Lines: one field of each line is a document. */
#include "text.h"

#include <jansson.h>
#include <limits.h>
#include <string.h>

enum { READ_BYTES = 1 << 18, LINE_MAX_BYTES = 1 << 28 };

/* The lines of a file; memory grows to the longest line. */
typedef struct lines {
    int fd;
    const char *path;
    uint64_t *hash;
    int64_t *size;
    char *buffer;
    size_t start, end, capacity; /* unread bytes are buffer[start..end) */
    bool at_end;
    int number; /* of the line last given, from 1 */
} lines;

static weft_status make_room(lines *l, weft_error *err)
{
    memmove(l->buffer, l->buffer + l->start, l->end - l->start);
    l->end -= l->start;
    l->start = 0;
    if (l->capacity - l->end >= READ_BYTES / 2)
        return WEFT_OK;
    if (l->capacity >= LINE_MAX_BYTES)
        return weft_fail(err, WEFT_ERR_INPUT, (weft_where){l->path, l->number + 1},
                         "line is longer than %d MiB: is this JSON Lines, one object a line?", LINE_MAX_BYTES >> 20);
    char *grown = weft_realloc(l->buffer, 2 * l->capacity);
    if (!grown)
        return weft_fail_memory(err);
    l->buffer = grown;
    l->capacity *= 2;
    return WEFT_OK;
}

static weft_status fill(lines *l, weft_error *err)
{
    weft_status status = make_room(l, err);
    if (status)
        return status;
    size_t n;
    status = text_read_some(l->fd, l->path, l->buffer + l->end, l->capacity - l->end, &n, err);
    if (status)
        return status;
    *l->hash = weft_hash_bytes(*l->hash, l->buffer + l->end, n);
    *l->size += (int64_t)n;
    l->end += n;
    l->at_end = n == 0;
    return WEFT_OK;
}

/* The next line without its newline; *line = NULL at the end. Valid until the next call. */
static weft_status next_line(lines *l, const char **line, size_t *n, weft_error *err)
{
    size_t seen = 0;
    for (;;) {
        char *from = l->buffer + l->start;
        char *newline = memchr(from + seen, '\n', l->end - l->start - seen);
        if (newline || l->at_end) {
            *n = newline ? (size_t)(newline - from) : l->end - l->start;
            *line = newline || *n ? from : NULL;
            l->start += *n + (newline != NULL);
            l->number += l->number < INT_MAX;
            return WEFT_OK;
        }
        seen = l->end - l->start;
        weft_status status = fill(l, err);
        if (status)
            return status;
    }
}

/* "title, id and 3 more" for the message that a field is missing. */
static void add_keys(json_t *object, weft_text *text)
{
    size_t n = 0, total = json_object_size(object);
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (n == 5)
            break;
        weft_text_print(text, "%s%.40s", n ? ", " : "", key);
        n++;
    }
    if (total > n)
        weft_text_print(text, " and %zu more", total - n);
    if (!total)
        weft_text_add(text, "none");
}

static weft_status fail_field(text_build *build, json_t *root, json_t *value, weft_where at, weft_error *err)
{
    static const char *const kinds[] = {"an object", "an array", "a string", "a number", "a number", "a boolean", "a boolean", "null"};
    const char *field = build->text->field;
    if (!json_is_object(root))
        return text_document_bad(build, at, err, "the line is %s; it should be an object with a field \"%s\"", kinds[json_typeof(root)], field);
    if (value)
        return text_document_bad(build, at, err, "field \"%s\" is %s; it should be a string", field, kinds[json_typeof(value)]);
    weft_text keys = {0};
    add_keys(root, &keys);
    weft_status status =
        text_document_bad(build, at, err, "no field \"%s\"; the fields here are: %s; choose with [text] field", field, weft_text_get(&keys));
    weft_text_release(&keys);
    return status;
}

static weft_status add_json(text_build *build, const char *line, size_t n, weft_where at, weft_error *err)
{
    json_error_t problem;
    json_t *root = json_loadb(line, n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL | JSON_DECODE_ANY, &problem);
    if (!root && json_error_code(&problem) == json_error_out_of_memory)
        return weft_fail_memory(err);
    if (!root)
        return text_document_bad(build, at, err, "not JSON: %s (column %d)", problem.text, problem.column);
    json_t *value = json_object_get(root, build->text->field);
    weft_status status;
    if (!json_is_string(value)) {
        status = fail_field(build, root, value, at, err);
    } else {
        status = text_document_begin(build, err);
        if (!status)
            status = text_document_add(build, json_string_value(value), json_string_length(value), err);
        if (!status)
            status = text_document_end(build, err);
    }
    json_decref(root);
    return status;
}

static weft_status add_line(text_build *build, const char *line, size_t n, weft_where at, weft_error *err)
{
    if (at.line == 1 && n >= 3 && !memcmp(line, "\xEF\xBB\xBF", 3)) { /* a byte order mark is no JSON */
        line += 3;
        n -= 3;
    }
    size_t blank = 0;
    while (blank < n && strchr(" \t\r", line[blank]) && line[blank])
        blank++;
    if (blank == n)
        return WEFT_OK;
    size_t valid = text_utf8_valid(line, n);
    if (valid == n)
        return add_json(build, line, n, at, err);
    if (!build->text->repair_utf8)
        return text_document_bad(build, at, err, "not UTF-8 at byte %zu of the line; convert it, or set [text] invalid_utf8 = replace", valid);
    weft_text repaired = {0};
    text_utf8_repair(line, n, &repaired);
    weft_status status = repaired.out_of_memory ? weft_fail_memory(err) : add_json(build, repaired.data, repaired.size, at, err);
    weft_text_release(&repaired);
    return status;
}

weft_status text_read_jsonl(text_build *build, int fd, const char *path, uint64_t *hash, int64_t *size, weft_error *err)
{
    lines l = {.fd = fd, .path = path, .hash = hash, .size = size, .buffer = weft_alloc(READ_BYTES), .capacity = READ_BYTES};
    if (!l.buffer)
        return weft_fail_memory(err);
    const char *line = NULL;
    size_t n = 0;
    weft_status status = next_line(&l, &line, &n, err);
    while (!status && line) {
        status = add_line(build, line, n, (weft_where){path, l.number}, err);
        if (!status)
            status = next_line(&l, &line, &n, err);
    }
    weft_free(l.buffer);
    return status;
}
