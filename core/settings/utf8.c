/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/ini.h"

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
