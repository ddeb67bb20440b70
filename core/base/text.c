/* SPDX-License-Identifier: Apache-2.0 */
#include <weft/base.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void weft_text_release(weft_text *text)
{
    weft_free(text->data);
    *text = (weft_text){0};
}

void weft_text_clear(weft_text *text)
{
    text->size = 0;
    text->out_of_memory = false;
    if (text->data)
        text->data[0] = '\0';
}

/* Room for n more bytes and the NUL. */
static bool reserve(weft_text *text, size_t n)
{
    if (n >= SIZE_MAX / 2 - text->size) {
        text->out_of_memory = true;
        return false;
    }
    size_t need = text->size + n + 1;
    if (need <= text->capacity)
        return true;
    size_t capacity = 2 * text->capacity > need ? 2 * text->capacity : need;
    char *data = weft_realloc(text->data, capacity < 64 ? 64 : capacity);
    if (!data) {
        text->out_of_memory = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity < 64 ? 64 : capacity;
    return true;
}

void weft_text_add_bytes(weft_text *text, const void *bytes, size_t n)
{
    if (!reserve(text, n))
        return;
    if (n > 0)
        memcpy(text->data + text->size, bytes, n);
    text->size += n;
    text->data[text->size] = '\0';
}

void weft_text_add(weft_text *text, const char *s)
{
    if (s)
        weft_text_add_bytes(text, s, strlen(s));
}

void weft_text_print(weft_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0 || !reserve(text, (size_t)length)) {
        text->out_of_memory = true;
        return;
    }
    va_start(args, format);
    vsnprintf(text->data + text->size, (size_t)length + 1, format, args);
    va_end(args);
    text->size += (size_t)length;
}

bool weft_is_name(const char *text, const char *also)
{
    if (!text || !isalpha((unsigned char)text[0]))
        return false;
    while (isalnum((unsigned char)*text) || (*text && strchr(also, *text)))
        text++;
    return !*text;
}

const char *weft_text_get(const weft_text *text)
{
    return text->data ? text->data : "";
}

void weft_text_add_real(weft_text *text, double x)
{
    char digits[32];
    bool whole = x > -1e15 && x < 1e15 && (double)(int64_t)x == x; /* 100, not 1e+02 */
    for (int n = whole ? 15 : 1; n <= 17; n++) {
        snprintf(digits, sizeof digits, "%.*g", n, x);
        if (strtod(digits, NULL) == x)
            break;
    }
    weft_text_add(text, digits);
}
