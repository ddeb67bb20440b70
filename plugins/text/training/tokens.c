/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens by id and by spelling. */
#include "train.h"

#include <string.h>

static size_t hash_token(const char *s)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return (size_t)(h ^ h >> 29);
}

static weft_status grow(text_train_tokens *tokens, weft_error *err)
{
    if (tokens->n < tokens->capacity)
        return WEFT_OK;
    int capacity = tokens->capacity ? 2 * tokens->capacity : 512;
    size_t n_slots = 2 * (size_t)capacity;
    char **list = weft_realloc(tokens->list, (size_t)capacity * sizeof *list);
    if (!list)
        return weft_fail_memory(err);
    tokens->list = list;
    int *slots = weft_alloc_zero(n_slots, sizeof *slots);
    if (!slots)
        return weft_fail_memory(err);
    for (int i = 0; i < tokens->n; i++) {
        size_t at = hash_token(list[i]) & (n_slots - 1);
        while (slots[at])
            at = (at + 1) & (n_slots - 1);
        slots[at] = i + 1;
    }
    weft_free(tokens->slots);
    tokens->slots = slots;
    tokens->n_slots = n_slots;
    tokens->capacity = capacity;
    return WEFT_OK;
}

weft_status text_train_tokens_add(text_train_tokens *tokens, const char *token, int *id,
                                  weft_error *err)
{
    weft_status status = grow(tokens, err);
    if (status)
        return status;
    size_t at = hash_token(token) & (tokens->n_slots - 1);
    for (; tokens->slots[at]; at = (at + 1) & (tokens->n_slots - 1)) {
        *id = tokens->slots[at] - 1;
        if (!strcmp(tokens->list[*id], token))
            return WEFT_OK;
    }
    char *copy = weft_strdup(token);
    if (!copy)
        return weft_fail_memory(err);
    *id = tokens->n;
    tokens->list[tokens->n++] = copy;
    tokens->slots[at] = tokens->n;
    return WEFT_OK;
}

void text_train_tokens_release(text_train_tokens *tokens)
{
    for (int i = 0; i < tokens->n; i++)
        weft_free(tokens->list[i]);
    weft_free(tokens->list);
    weft_free(tokens->slots);
    *tokens = (text_train_tokens){0};
}

static bool stands_for_itself(unsigned c)
{
    return (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF);
}

uint32_t text_train_byte_character(unsigned char byte)
{
    if (stands_for_itself(byte))
        return byte;
    uint32_t before = 0;
    for (unsigned c = 0; c < byte; c++)
        before += !stands_for_itself(c);
    return 0x100 + before;
}
