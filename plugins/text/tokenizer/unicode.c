/* SPDX-License-Identifier: Apache-2.0 */
/* Characters and what kind they are, as Hugging Face's tokenizers has it. */
#include "engine.h"

#include <string.h>
#include <utf8proc.h>

typedef struct unicode_range {
    uint32_t first, last;
} unicode_range;

typedef struct unicode_class {
    const char *name, *base, *more;
} unicode_class;

#include "unicode_tables.h"

uint32_t unicode_get(const char *s, size_t *length)
{
    const unsigned char *u = (const unsigned char *)s;
    if (u[0] < 0x80) {
        *length = 1;
        return u[0];
    }
    if (u[0] < 0xE0) {
        *length = 2;
        return (u[0] & 0x1Fu) << 6 | (u[1] & 0x3Fu);
    }
    if (u[0] < 0xF0) {
        *length = 3;
        return (u[0] & 0x0Fu) << 12 | (u[1] & 0x3Fu) << 6 | (u[2] & 0x3Fu);
    }
    *length = 4;
    return (u[0] & 0x07u) << 18 | (u[1] & 0x3Fu) << 12 | (u[2] & 0x3Fu) << 6 | (u[3] & 0x3Fu);
}

size_t unicode_put(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

static bool in_ranges(const unicode_range *ranges, size_t n, uint32_t c)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c > ranges[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && c >= ranges[low].first;
}

#define IN(table, c) in_ranges(table, sizeof table / sizeof *table, c)

bool unicode_is_numeric(uint32_t c)
{
    return IN(unicode_numeric, c);
}

bool unicode_is_punctuation(uint32_t c)
{
    return IN(unicode_punctuation, c);
}

bool unicode_is_word(uint32_t c)
{
    return IN(unicode_word, c);
}

bool unicode_is_opaque(uint32_t c)
{
    return c >= unicode_opaque[0].first && IN(unicode_opaque, c);
}

bool unicode_is_space(uint32_t c)
{
    static const unicode_range spaces[] = {{9, 13},      {32, 32},      {133, 133},   {160, 160},
                                           {5760, 5760}, {8192, 8202},  {8232, 8233}, {8239, 8239},
                                           {8287, 8287}, {12288, 12288}};
    return IN(spaces, c);
}

int unicode_lower_case(uint32_t c, uint32_t out[2])
{
    for (size_t i = 0; c >= 0x130 && i < sizeof unicode_lower / sizeof *unicode_lower; i++)
        if (unicode_lower[i][0] == c) {
            out[0] = unicode_lower[i][1];
            out[1] = unicode_lower[i][2];
            return out[1] ? 2 : 1;
        }
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    return 1;
}

const char *unicode_find_class(const char *name, const char **more)
{
    for (size_t i = 0; i < sizeof unicode_classes / sizeof *unicode_classes; i++)
        if (!strcmp(unicode_classes[i].name, name)) {
            *more = unicode_classes[i].more;
            return unicode_classes[i].base;
        }
    return NULL;
}

/* Bytes that print stand for themselves, the others for the characters from 256 on. */
#define SELF8(b) b, b + 1, b + 2, b + 3, b + 4, b + 5, b + 6, b + 7
#define SELF4(b) b, b + 1, b + 2, b + 3

/* clang-format off */
const uint16_t unicode_byte_alphabet[256] = {
    SELF8(256), SELF8(264), SELF8(272), SELF8(280),
    288, 33, 34, 35, SELF4(36), SELF8(40), SELF8(48), SELF8(56), SELF8(64), SELF8(72), SELF8(80), SELF8(88),
    SELF8(96), SELF8(104), SELF8(112), SELF4(120), 124, 125, 126, 289,
    SELF8(290), SELF8(298), SELF8(306), SELF8(314), 322, 161, 162, 163, SELF4(164), SELF4(168), 172, 323, 174, 175,
    SELF8(176), SELF8(184), SELF8(192), SELF8(200), SELF8(208), SELF8(216), SELF8(224), SELF8(232), SELF8(240), SELF8(248),
};
/* clang-format on */

int unicode_alphabet_byte(uint32_t c)
{
    if (c < 256)
        return unicode_byte_alphabet[c] == c ? (int)c : -1;
    if (c <= 288)
        return (int)c - 256;
    if (c <= 322)
        return (int)c - 289 + 127;
    return c == 323 ? 173 : -1;
}
