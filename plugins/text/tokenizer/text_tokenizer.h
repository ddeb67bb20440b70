/* SPDX-License-Identifier: Apache-2.0 */
/* The seam for tokenizers: what a run's ids are made by. */
#ifndef WEFT_TEXT_TEXT_TOKENIZER_H
#define WEFT_TEXT_TEXT_TOKENIZER_H

#include <weft/weft.h>

typedef struct text_tokenizer_file text_tokenizer_file;

/* What a run's ids are made by: "bytes" or a file. Immutable once open, so threads share it. */
typedef struct text_tokenizer {
    char *name;                /* keys the cache: differs where ids differ */
    int vocab_size, bos, eos;  /* bos, eos: -1 for none */
    text_tokenizer_file *file; /* NULL: bytes */
} text_tokenizer;

/* What [text] tokenizer, bos and eos say. Everything wrong with the file is reported. */
weft_status text_tokenizer_open(text_tokenizer **out, const weft_params *params, weft_error *err);
void text_tokenizer_close(text_tokenizer *t);
/* What one thread needs to encode. */
weft_status text_tokenizer_begin(const text_tokenizer *t, void **scratch, weft_error *err);
void text_tokenizer_end(void *scratch);
/* Appends the ids of a document of valid UTF-8, without BOS and EOS, to *ids, a weft_realloc'ed
 * array. Special tokens that stand in it are text like any other. continues: text is what lies
 * behind a cut. */
weft_status text_tokenizer_encode(const text_tokenizer *t, void *scratch, bool continues,
                                  const char *text, size_t n, int32_t **ids, size_t *n_ids,
                                  size_t *capacity, weft_error *err);
/* The last place >= from, and > 0, where text[0..n) may be cut so that the ids of both parts are
 * those of the whole; n: none is known. */
size_t text_tokenizer_cut(const text_tokenizer *t, const char *text, size_t n, size_t from);
/* A prompt's ids, from any thread: special tokens that stand in it are what they mean. */
weft_status text_tokenizer_encode_prompt(const text_tokenizer *t, const char *text, size_t n,
                                         int32_t **ids, size_t *n_ids, size_t *capacity,
                                         weft_error *err);
weft_status text_tokenizer_decode(const text_tokenizer *t, const int32_t *ids, size_t n,
                                  weft_text *out, weft_error *err);
/* The files that it was read from, NULL-ended; NULL: none. */
const char *const *text_tokenizer_files(const text_tokenizer *t);

#endif
