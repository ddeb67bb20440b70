/* SPDX-License-Identifier: Apache-2.0 */
/* Texts as JSON strings, and mended where they are no UTF-8. */
#include <weft/base.h>

#include <stdint.h>
#include <string.h>

/* The length of the UTF-8 sequence that s begins with, 0 if it is not well formed (overlong,
 * surrogate, cut short). */
static size_t utf8_length(const unsigned char *s)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (s[0] < 0x80)
        return 1;
    size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    uint32_t code = s[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0u) != 0x80u)
            return 0;
        code = code << 6 | (s[i] & 0x3fu);
    }
    return code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : n;
}

static const char *json_escape(unsigned char c)
{
    switch (c) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    default:
        return NULL;
    }
}

/* The length of the sequence at p, of which n bytes are there; 0 if it is not well formed. */
static size_t sequence(const char *p, size_t n)
{
    unsigned char begin[4] = {0}; /* it may be cut short by the end */
    memcpy(begin, p, n < sizeof begin ? n : sizeof begin);
    return utf8_length(begin);
}

void weft_text_add_utf8(weft_text *text, const char *s, size_t n)
{
    for (size_t at = 0, length; at < n; at += length ? length : 1) {
        length = sequence(s + at, n - at);
        if (length)
            weft_text_add_bytes(text, s + at, length);
        else
            weft_text_add(text, "\xef\xbf\xbd");
    }
}

void weft_text_add_json_bytes(weft_text *text, const char *s, size_t n)
{
    weft_text_add(text, "\"");
    for (size_t at = 0, length; at < n; at += length ? length : 1) {
        unsigned char c = (unsigned char)s[at];
        const char *escape = json_escape(c);
        length = sequence(s + at, n - at);
        if (escape)
            weft_text_add(text, escape);
        else if (length == 0)
            weft_text_add(text, "\\ufffd");
        else if (c < 0x20)
            weft_text_print(text, "\\u%04x", c);
        else
            weft_text_add_bytes(text, s + at, length);
    }
    weft_text_add(text, "\"");
}

void weft_text_add_json(weft_text *text, const char *s)
{
    weft_text_add_json_bytes(text, s ? s : "", s ? strlen(s) : 0);
}
