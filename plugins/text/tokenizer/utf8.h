/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEFT_TEXT_UTF8_H
#define WEFT_TEXT_UTF8_H

#include <weft/base.h>

/* Bytes at the start of s[0..n) that are whole, well-formed characters. */
size_t text_utf8_valid(const char *s, size_t n);
/* s does not start with a whole character: length of the ill-formed part that one U+FFFD stands
 * for, or 0 if more bytes could complete it (never 0 at `end`). */
size_t text_utf8_bad(const char *s, size_t n, bool end);
/* Appends s with every ill-formed part replaced by U+FFFD. */
void text_utf8_repair(const char *s, size_t n, weft_text *out);
#define TEXT_UTF8_REPLACEMENT "\xEF\xBF\xBD"

#endif
