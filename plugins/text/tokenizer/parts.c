/* SPDX-License-Identifier: Apache-2.0 */
/* Vocabularies in the manner of SentencePiece write a blank as U+2581 and know no words: a document
 * is one. But if no merge joins a token that begins with U+2581 to one that ends otherwise, then
 * whatever is merged on either side of "x\u2581", nothing ever crosses it: symbols that end there
 * end in x, or are the byte or the unknown token for it, and those that begin there begin with
 * U+2581, since a merge makes the text of both. So the parts are words of their own, and can be
 * remembered. */
#include "engine.h"

#include <string.h>

static const char blank[] = "\xE2\x96\x81";
enum { BLANK = sizeof blank - 1 };

static bool begins(const vocab_token *token)
{
    return token->n >= BLANK && !memcmp(token->text, blank, BLANK);
}

static bool ends(const vocab_token *token)
{
    return token->n >= BLANK && !memcmp(token->text + token->n - BLANK, blank, BLANK);
}

/* Every character leaves a symbol, and only U+2581 one that ends with it. */
static bool symbols_allow(const tokenizer *t)
{
    bool bytes = t->byte_fallback;
    for (int b = 0; b < 256; b++)
        bytes = bytes && t->byte_tokens[b] >= 0;
    return string_map_find(&t->by_text, blank, BLANK) >= 0 && (bytes || t->unknown >= 0) &&
           (t->unknown < 0 || !ends(&t->tokens[t->unknown]));
}

void tokenizer_find_parts(tokenizer *t)
{
    t->parts = !t->byte_level && !t->ignore_merges && symbols_allow(t);
    for (size_t i = 0; t->parts && i <= t->merges.mask; i++) {
        const merge *m = &t->merges.slots[i];
        if (m->id >= 0 && !ends(&t->tokens[m->pair >> 32]) &&
            begins(&t->tokens[m->pair & UINT32_MAX]))
            t->parts = false;
    }
}

size_t tokenizer_next_part(const char *word, size_t n, size_t at)
{
    const char *found;
    for (; at < n && (found = memmem(word + at, n - at, blank, BLANK));
         at = (size_t)(found - word) + BLANK) {
        size_t place = (size_t)(found - word);
        if (place < BLANK || memcmp(found - BLANK, blank, BLANK) != 0)
            return place;
    }
    return n;
}
