/* SPDX-License-Identifier: Apache-2.0 */
/* The service of capability "tokenizer". */
#include "text.h"

static int vocab_size(void *self)
{
    const text_plugin *text = self;
    return text->tokenizer->vocab_size;
}

/* A run whose documents have no BOS must not be prompted with one, so it has none. */
static int bos(void *self)
{
    const text_plugin *text = self;
    return text->bos ? text->tokenizer->bos : -1;
}

static int eos(void *self)
{
    const text_plugin *text = self;
    return text->eos ? text->tokenizer->eos : -1;
}

static weft_status encode(void *self, const char *s, size_t n, int32_t **ids, size_t *n_ids,
                          size_t *capacity, weft_error *err)
{
    const text_plugin *text = self;
    return text_tokenizer_encode_prompt(text->tokenizer, s, n, ids, n_ids, capacity, err);
}

static weft_status decode(void *self, const int32_t *ids, size_t n, weft_text *out, weft_error *err)
{
    const text_plugin *text = self;
    return text_tokenizer_decode(text->tokenizer, ids, n, out, err);
}

static const char *const *files(void *self)
{
    const text_plugin *text = self;
    return text_tokenizer_files(text->tokenizer);
}

const weft_tokenizer text_tokenizer_service = {
    .size = sizeof(weft_tokenizer),
    .vocab_size = vocab_size,
    .bos = bos,
    .eos = eos,
    .encode = encode,
    .decode = decode,
    .files = files,
};
