/* SPDX-License-Identifier: Apache-2.0 */
/* Built-in tokenizers, and the tokenizer service over the chosen one. */
#include "text.h"

#include <string.h>

/* ---- bytes: ids 0..255 are the bytes of the UTF-8 text ---- */

enum { BYTES_BOS = 256, BYTES_EOS = 257, BYTES_VOCAB = 258 };

static weft_status bytes_encode(const char *text, size_t n, int32_t **ids, size_t *n_ids, size_t *capacity, weft_error *err)
{
    if (n > SIZE_MAX / sizeof(int32_t) / 2 - *n_ids)
        return weft_fail_memory(err);
    if (*n_ids + n > *capacity) {
        size_t room = *n_ids + n > 2 * *capacity ? *n_ids + n : 2 * *capacity;
        int32_t *grown = weft_realloc(*ids, room * sizeof *grown);
        if (!grown)
            return weft_fail_memory(err);
        *ids = grown;
        *capacity = room;
    }
    for (size_t i = 0; i < n; i++)
        (*ids)[*n_ids + i] = (unsigned char)text[i];
    *n_ids += n;
    return WEFT_OK;
}

static bool bytes_decode(int32_t id, weft_text *text)
{
    if (id < 0 || id >= BYTES_VOCAB)
        return false;
    char byte = (char)id;
    if (id < 256)
        weft_text_add_bytes(text, &byte, 1);
    return true;
}

static const text_tokenizer bytes_tokenizer = {
    .name = "bytes",
    .vocab_size = BYTES_VOCAB,
    .bos = BYTES_BOS,
    .eos = BYTES_EOS,
    .encode = bytes_encode,
    .decode = bytes_decode,
};

/* ---- all of them ---- */

const char *const text_tokenizer_names[] = {"bytes", NULL};
static const text_tokenizer *const tokenizers[] = {&bytes_tokenizer, NULL};

const text_tokenizer *text_tokenizer_find(const char *name)
{
    for (int i = 0; tokenizers[i]; i++)
        if (!strcmp(tokenizers[i]->name, name))
            return tokenizers[i];
    return NULL;
}

/* ---- the service ---- */

static int service_vocab_size(void *self)
{
    const text_plugin *text = self;
    return text->tokenizer->vocab_size;
}

/* A run whose documents have no BOS must not be prompted with one, so it has none. */
static int service_bos(void *self)
{
    const text_plugin *text = self;
    return text->bos ? text->tokenizer->bos : -1;
}

static int service_eos(void *self)
{
    const text_plugin *text = self;
    return text->eos ? text->tokenizer->eos : -1;
}

static weft_status service_encode(void *self, const char *s, size_t n, int32_t **ids, size_t *n_ids, size_t *capacity, weft_error *err)
{
    const text_plugin *text = self;
    size_t valid = text_utf8_valid(s, n);
    if (valid < n)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "the text to encode is not UTF-8 at byte %zu", valid);
    return text->tokenizer->encode(s, n, ids, n_ids, capacity, err);
}

static weft_status service_decode(void *self, const int32_t *ids, size_t n, weft_text *out, weft_error *err)
{
    const text_plugin *text = self;
    for (size_t i = 0; i < n; i++)
        if (!text->tokenizer->decode(ids[i], out))
            return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "cannot decode id %d: tokenizer %s has ids 0 to %d", (int)ids[i],
                             text->tokenizer->name, text->tokenizer->vocab_size - 1);
    return out->out_of_memory ? weft_fail_memory(err) : WEFT_OK;
}

const weft_tokenizer text_tokenizer_service = {
    .size = sizeof(weft_tokenizer),
    .vocab_size = service_vocab_size,
    .bos = service_bos,
    .eos = service_eos,
    .encode = service_encode,
    .decode = service_decode,
};
