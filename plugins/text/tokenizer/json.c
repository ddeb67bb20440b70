/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

#include <stdio.h>
#include <string.h>

enum { LOADER_ERRORS = 20 };

void loader_bad(loader *l, const char *path, const char *format, ...)
{
    if (++l->n_bad > LOADER_ERRORS)
        return;
    va_list args;
    va_start(args, format);
    char *text = weft_vformat(format, args);
    va_end(args);
    if (text)
        weft_fail(l->err, WEFT_ERR_INPUT, l->where, "%s: %s", path, text);
    else
        weft_fail_memory(l->err);
    weft_free(text);
    if (l->n_bad == LOADER_ERRORS)
        weft_fail(l->err, WEFT_ERR_INPUT, l->where,
                  "more is wrong; only the first %d places are told", LOADER_ERRORS);
}

void loader_note(loader *l, weft_status status)
{
    if (status == WEFT_ERR_MEMORY)
        l->no_memory = true;
    else
        l->n_bad += status != WEFT_OK;
}

static const char *path_or_nothing(loader *l, const char *path)
{
    l->no_memory = l->no_memory || !path;
    return path ? path : "?";
}

const char *loader_key(loader *l, const char *path, const char *key)
{
    return path_or_nothing(l, weft_pool_format(&l->paths, "%s.%s", path, key));
}

const char *loader_index(loader *l, const char *path, size_t i)
{
    return path_or_nothing(l, weft_pool_format(&l->paths, "%s[%zu]", path, i));
}

const char *loader_copy(loader *l, const char *text, size_t n)
{
    char *copy = weft_pool_alloc(&l->t->pool, n + 1);
    if (copy)
        memcpy(copy, text, n);
    l->no_memory = l->no_memory || !copy;
    return copy ? copy : text; /* n bytes in any case; loading fails then */
}

/* Noncharacters: no text means anything by them. */
static bool choose_hidden(loader *l, const char *json, size_t n)
{
    for (unsigned c = 0xFDD0; c < 0xFDE0; c++) {
        char small[8], large[8];
        snprintf(small, sizeof small, "\\u%04x", c);
        snprintf(large, sizeof large, "\\u%04X", c);
        size_t length = unicode_put(c, l->hidden);
        if (!memmem(json, n, l->hidden, length) && !memmem(json, n, small, 6) &&
            !memmem(json, n, large, 6))
            return true;
    }
    l->hidden[0] = '\0';
    return false;
}

bool loader_hide(loader *l, char *json, size_t n)
{
    static const char escape[] = "\\u0000";
    char *at = json, *end = json + n;
    while ((at = memmem(at, (size_t)(end - at), escape, 6))) {
        size_t slashes = 0;
        while (at - slashes > json && at[-(ptrdiff_t)slashes - 1] == '\\')
            slashes++;
        if (slashes % 2 == 0) { /* else the slash is itself escaped */
            if (!l->hidden[0] && !choose_hidden(l, json, n))
                return false;
            static const char digits[] = "0123456789abcdef";
            at[2] = 'f', at[3] = at[4] = 'd', at[5] = digits[l->hidden[2] & 15];
        }
        at += 2;
    }
    return l->hidden[0] != '\0';
}

const char *loader_show(loader *l, const char *text, size_t *n)
{
    if (!l->hidden[0] || !memmem(text, *n, l->hidden, 3))
        return text;
    char *copy = weft_pool_alloc(&l->paths, *n + 1);
    if (!copy) {
        l->no_memory = true;
        *n = 0;
        return "";
    }
    size_t to = 0;
    for (size_t at = 0; at < *n; to++) {
        bool nul = *n - at >= 3 && !memcmp(text + at, l->hidden, 3);
        copy[to] = nul ? '\0' : text[at];
        at += nul ? 3 : 1;
    }
    *n = to;
    return copy;
}

void loader_only(loader *l, const char *path, const json_t *object, const char *const *keys)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        int i = 0;
        while (keys[i] && strcmp(keys[i], key))
            i++;
        if (!keys[i])
            loader_bad(l, loader_key(l, path, key), "this key is not known here");
    }
}

/* NULL: missing or null. */
static const json_t *find(loader *l, const char *path, const json_t *object, const char *key,
                          bool required)
{
    const json_t *value = json_object_get(object, key);
    if (value && !json_is_null(value))
        return value;
    if (required)
        loader_bad(l, loader_key(l, path, key), "is missing");
    return NULL;
}

bool loader_bool(loader *l, const char *path, const json_t *object, const char *key, bool required,
                 bool otherwise)
{
    const json_t *value = find(l, path, object, key, required);
    if (value && !json_is_boolean(value))
        loader_bad(l, loader_key(l, path, key), "must be true or false");
    return value ? json_is_true(value) : otherwise;
}

const char *loader_text(loader *l, const char *path, const json_t *object, const char *key,
                        bool required, size_t *n)
{
    const json_t *value = find(l, path, object, key, required);
    *n = 0;
    if (!value)
        return NULL;
    if (!json_is_string(value)) {
        loader_bad(l, loader_key(l, path, key), "must be a text");
        return NULL;
    }
    *n = json_string_length(value);
    return loader_show(l, json_string_value(value), n);
}

int64_t loader_int(loader *l, const char *path, const json_t *object, const char *key, int64_t low,
                   int64_t high)
{
    const json_t *value = find(l, path, object, key, true);
    int64_t number = value && json_is_integer(value) ? json_integer_value(value) : low;
    if (value && (!json_is_integer(value) || number < low || number > high))
        loader_bad(l, loader_key(l, path, key), "must be a whole number from %lld to %lld",
                   (long long)low, (long long)high);
    return number < low ? low : number > high ? high : number;
}

int loader_choice(loader *l, const char *path, const json_t *object, const char *key,
                  const char *const *choices, int otherwise)
{
    size_t n;
    const char *text = loader_text(l, path, object, key, otherwise < 0, &n);
    if (!text)
        return otherwise;
    for (int i = 0; choices[i]; i++)
        if (!strcmp(choices[i], text))
            return i;
    weft_text all = {0};
    for (int i = 0; choices[i]; i++)
        weft_text_print(&all, "%s%s", i ? ", " : "", choices[i]);
    loader_bad(l, loader_key(l, path, key), "%.60s is not supported; it can be %s", text,
               weft_text_get(&all));
    weft_text_release(&all);
    return -1;
}
