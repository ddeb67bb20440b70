/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers from files: text to ids and back, exactly as Hugging Face's `tokenizers` does it with
 * the same tokenizer.json. It knows neither the plugin nor its settings.
 *
 * A tokenizer is immutable once loaded, so threads share it. What a thread keeps while it encodes
 * is a tokenizer_scratch of its own. */
#ifndef WEFT_TEXT_TOKENIZER_H
#define WEFT_TEXT_TOKENIZER_H

#include <weft/weft.h>

typedef struct tokenizer tokenizer;

/* ---- loading ---- */

/* Reads tokenizer.json. Everything that is wrong or not supported is noted with its JSON path
 * ("x.json: $.decoder.type: ..."), then it fails with WEFT_ERR_INPUT. Warnings do not exist: what
 * is accepted is exact. */
weft_status tokenizer_load(const char *path, tokenizer **out, weft_error *err);
/* The same from memory; name stands in messages. */
weft_status tokenizer_parse(const char *name, const char *json, size_t n, tokenizer **out,
                            weft_error *err);
void tokenizer_destroy(tokenizer *t);

typedef struct tokenizer_entry {
    const char *text; /* bytes, may hold NULs; need not end in one */
    size_t n;
    int32_t id;
} tokenizer_entry;

/* A byte-level tokenizer from a rank file (tiktoken): words are split by `pattern`, a word that is
 * a token is that token, else the adjacent pair whose join has the lowest id is merged first. All
 * 256 bytes must be tokens. `special` ones are found in text as special tokens of a tokenizer.json.
 */
weft_status tokenizer_from_ranks(const char *name, const char *pattern,
                                 const tokenizer_entry *tokens, size_t n_tokens,
                                 const tokenizer_entry *special, size_t n_special, tokenizer **out,
                                 weft_error *err);

/* ---- vocabulary ---- */

/* 1 + the highest id; some ids below may be unused. */
int tokenizer_vocab_size(const tokenizer *t);
/* How the file writes token `id` (byte-level tokens in their printable alphabet; tokens of a rank
 * file as bytes); NULL: no such id. NUL-ended. */
const char *tokenizer_token(const tokenizer *t, int32_t id, size_t *n);
/* The id of a token as the file writes it, added tokens included; -1: none. */
int32_t tokenizer_find(const tokenizer *t, const char *token, size_t n);
/* True for an added token that is marked special. */
bool tokenizer_is_special(const tokenizer *t, int32_t id);
/* Hash of the file's bytes: two tokenizers with equal hashes give equal ids. */
uint64_t tokenizer_hash(const tokenizer *t);

/* ---- encoding ---- */

typedef struct tokenizer_scratch tokenizer_scratch;

/* Buffers and a bounded cache of words, for one thread at a time and one tokenizer. It may outlive
 * neither. */
weft_status tokenizer_scratch_create(const tokenizer *t, tokenizer_scratch **out, weft_error *err);
void tokenizer_scratch_destroy(tokenizer_scratch *s);

enum {
    TOKENIZER_NO_SPECIAL = 1, /* special tokens in the text are text like any other (for data that
                                 is not trusted, and for training) */
    TOKENIZER_CONTINUES = 2,  /* the text is what lies behind a place that tokenizer_cut found */
};

/* Appends the ids of a whole document (or of a part that tokenizer_cut allows) to *ids, a
 * weft_realloc'ed array. Text that is not UTF-8 is refused, with the first wrong byte. Adds neither
 * BOS nor EOS: it is encode(text, add_special_tokens=False), with TOKENIZER_NO_SPECIAL that of
 * encode_special_tokens=True. On an error *n_ids is as it was. */
weft_status tokenizer_encode(const tokenizer *t, tokenizer_scratch *s, const char *text, size_t n,
                             unsigned flags, int32_t **ids, size_t *n_ids, size_t *capacity,
                             weft_error *err);

/* What the model gets: calls `word` for every word of the document in order, after normalising and
 * splitting; added tokens found in the text are left out. Byte-level tokenizers give raw bytes,
 * others UTF-8. For training new merges. Valid during the call only. */
typedef weft_status (*tokenizer_word)(void *self, const char *word, size_t n, weft_error *err);
weft_status tokenizer_words(const tokenizer *t, tokenizer_scratch *s, const char *text, size_t n,
                            unsigned flags, tokenizer_word word, void *self, weft_error *err);

/* cut.c. The last place >= from, and > 0, where text[0..n) may be cut so that the ids of both
 * parts, one after the other, are those of the whole, whatever the other flags (TOKENIZER_CONTINUES
 * is for the second part); n if none is known. Never inside a character. The text may go on behind
 * n.
 */
size_t tokenizer_cut(const tokenizer *t, const char *text, size_t n, size_t from);

/* ---- decoding ---- */

/* Appends decode(ids, skip_special_tokens=False) to *text. Ids below the vocabulary's size that no
 * token has are left out, others refused. Where bytes do not make UTF-8 there is U+FFFD, as there.
 */
weft_status tokenizer_decode(const tokenizer *t, const int32_t *ids, size_t n, weft_text *text,
                             weft_error *err);
/* As tokenizer_decode, but byte-level and byte-fallback tokens give their bytes even where these
 * are not UTF-8. */
weft_status tokenizer_decode_bytes(const tokenizer *t, const int32_t *ids, size_t n,
                                   weft_text *text, weft_error *err);

#endif
