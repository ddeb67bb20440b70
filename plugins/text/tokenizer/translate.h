/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEFT_TEXT_TOKENIZER_TRANSLATE_H
#define WEFT_TEXT_TOKENIZER_TRANSLATE_H

#include "engine.h"

/* Appends PCRE2's expression for Oniguruma's, which is valid UTF-8. False: it has something at byte
 * *wrong_at that cannot be had exactly; *wrong says what. */
bool pattern_translate(const char *expression, size_t n, weft_text *out, const char **wrong,
                       size_t *wrong_at);

#endif
