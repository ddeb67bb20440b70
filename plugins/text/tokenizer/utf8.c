/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 as in Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF. */
#include "utf8.h"

#include <string.h>

/* Length of the character that starts with `lead`, and the range of its second byte; 0 if none
 * does. */
static size_t character_length(unsigned char lead, unsigned char *low, unsigned char *high)
{
    *low = 0x80;
    *high = 0xBF;
    if (lead < 0x80)
        return 1;
    if (lead >= 0xC2 && lead <= 0xDF)
        return 2;
    if (lead >= 0xE0 && lead <= 0xEF) {
        if (lead == 0xE0)
            *low = 0xA0;
        if (lead == 0xED)
            *high = 0x9F;
        return 3;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        if (lead == 0xF0)
            *low = 0x90;
        if (lead == 0xF4)
            *high = 0x8F;
        return 4;
    }
    return 0;
}

/* How many bytes of a character s starts with; *length: of how many. */
static size_t character_prefix(const char *s, size_t n, size_t *length)
{
    unsigned char low, high;
    *length = character_length((unsigned char)s[0], &low, &high);
    size_t i = *length > 0;
    while (i && i < *length && i < n) {
        unsigned char c = (unsigned char)s[i];
        if (c < low || c > high)
            break;
        low = 0x80;
        high = 0xBF;
        i++;
    }
    return i;
}

size_t text_utf8_valid(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint64_t eight;
        if (n - i >= sizeof eight) { /* most text is ASCII */
            memcpy(&eight, s + i, sizeof eight);
            if (!(eight & 0x8080808080808080u)) {
                i += sizeof eight;
                continue;
            }
        }
        size_t length, have = character_prefix(s + i, n - i, &length);
        if (!have || have < length)
            break;
        i += length;
    }
    return i;
}

size_t text_utf8_bad(const char *s, size_t n, bool end)
{
    size_t length, have = character_prefix(s, n, &length);
    if (have && have == n && !end)
        return 0;
    return have ? have : 1;
}

void text_utf8_repair(const char *s, size_t n, weft_text *out)
{
    size_t i = 0;
    while (i < n) {
        size_t valid = text_utf8_valid(s + i, n - i);
        weft_text_add_bytes(out, s + i, valid);
        i += valid;
        if (i == n)
            break;
        weft_text_add_bytes(out, TEXT_UTF8_REPLACEMENT, 3);
        i += text_utf8_bad(s + i, n - i, true);
    }
}
