/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer from tokens and their ranks: the pair whose join has the lowest rank is merged first,
 * however the two came about. */
#include "engine.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static weft_status rank_tokens(tokenizer *t, const tokenizer_entry *list, size_t n, bool special,
                               weft_error *err)
{
    for (size_t i = 0; i < n; i++) {
        vocab_token *to = &t->tokens[list[i].id];
        char *copy = to->text || !list[i].n ? NULL : weft_pool_alloc(&t->pool, list[i].n + 1);
        if (to->text || !list[i].n)
            return weft_fail(err, WEFT_ERR_INPUT, (weft_where){t->name, 0},
                             to->text ? "two tokens have id %d" : "token %d is empty",
                             (int)list[i].id);
        if (!copy)
            return weft_fail_memory(err);
        memcpy(copy, list[i].text, list[i].n);
        *to = (vocab_token){
            .text = copy, .n = (uint32_t)list[i].n, .special = special, .added = special};
        if (string_map_add(special ? &t->by_added : &t->by_text, copy, list[i].n, list[i].id) !=
            list[i].id)
            return weft_fail(err, WEFT_ERR_INPUT, (weft_where){t->name, 0},
                             "token %d is there twice", (int)list[i].id);
    }
    return WEFT_OK;
}

/* Every way to make each token of two others. */
static size_t rank_merges(tokenizer *t, bool count)
{
    size_t n = 0;
    for (int32_t id = 0; id < t->n_tokens; id++) {
        const vocab_token *token = &t->tokens[id];
        for (uint32_t k = 1; token->text && !token->added && k < token->n; k++) {
            int32_t left = string_map_find(&t->by_text, token->text, k);
            int32_t right =
                left < 0 ? -1 : string_map_find(&t->by_text, token->text + k, token->n - k);
            if (right >= 0 && !count)
                merge_map_set(&t->merges, left, right, (uint32_t)id, id);
            n += right >= 0;
        }
    }
    return n;
}

static weft_status rank_bytes(tokenizer *t, weft_error *err)
{
    for (int b = 0; b < 256; b++) {
        char byte = (char)b;
        int32_t *ids = t->byte_symbols[b];
        ids[0] = string_map_find(&t->by_text, &byte, 1);
        ids[1] = ids[2] = ids[3] = SYMBOL_NONE;
        t->byte_known[b] = true;
        if (ids[0] < 0)
            return weft_fail(err, WEFT_ERR_INPUT, (weft_where){t->name, 0},
                             "byte 0x%02X is not a token; all 256 must be", (unsigned)b);
    }
    return WEFT_OK;
}

static weft_status rank_special(tokenizer *t, const tokenizer_entry *special, size_t n,
                                weft_error *err)
{
    added_token *list = weft_pool_alloc(&t->pool, (n + 1) * sizeof *list);
    if (!list)
        return weft_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        const vocab_token *token = &t->tokens[special[i].id];
        list[i] = (added_token){.content = token->text,
                                .n_content = token->n,
                                .text = token->text,
                                .n = token->n,
                                .id = special[i].id,
                                .special = true};
        list[i].order = (int)i;
    }
    added_set_init(&t->added, list, n);
    return WEFT_OK;
}

static weft_status fill_ranks(tokenizer *t, const char *expression, const tokenizer_entry *tokens,
                              size_t n_tokens, const tokenizer_entry *special, size_t n_special,
                              weft_error *err)
{
    enum { IDS_MOST = 1 << 24 };
    for (size_t i = 0; i < n_tokens + n_special; i++) {
        int32_t id = i < n_tokens ? tokens[i].id : special[i - n_tokens].id;
        if (id < 0 || id >= IDS_MOST)
            return weft_fail(err, WEFT_ERR_INPUT, (weft_where){t->name, 0},
                             "id %d is not from 0 to %d", (int)id, IDS_MOST - 1);
        t->n_tokens = id >= t->n_tokens ? id + 1 : t->n_tokens;
    }
    t->tokens = weft_pool_alloc(&t->pool, ((size_t)t->n_tokens + 1) * sizeof *t->tokens);
    t->splitters = weft_pool_alloc(&t->pool, sizeof *t->splitters);
    if (!t->tokens || !t->splitters || !string_map_init(&t->by_text, n_tokens, &t->pool) ||
        !string_map_init(&t->by_added, n_special, &t->pool))
        return weft_fail_memory(err);
    weft_status status = rank_tokens(t, tokens, n_tokens, false, err);
    status = status ? status : rank_tokens(t, special, n_special, true, err);
    status = status ? status : rank_bytes(t, err);
    status = status ? status : rank_special(t, special, n_special, err);
    if (status)
        return status;
    if (!merge_map_init(&t->merges, rank_merges(t, true), &t->pool))
        return weft_fail_memory(err);
    rank_merges(t, false);
    t->by_word = t->by_text;
    t->raw = t->byte_level = t->ignore_merges = t->has_decoder = true;
    t->n_splitters = 1;
    t->splitters[0] = (splitter){.kind = SPLIT_PATTERN, .behaviour = SPLIT_ISOLATED};
    size_t n = strlen(expression);
    char *copy = weft_pool_strdup(&t->pool, expression);
    return copy ? pattern_compile(&t->splitters[0].pattern, copy, n, false,
                                  (weft_where){t->name, 0}, "the pattern", err)
                : weft_fail_memory(err);
}

weft_status tokenizer_from_ranks(const char *name, const char *expression,
                                 const tokenizer_entry *tokens, size_t n_tokens,
                                 const tokenizer_entry *special, size_t n_special, tokenizer **out,
                                 weft_error *err)
{
    tokenizer *t;
    *out = NULL;
    weft_status status = tokenizer_create(name, expression, strlen(expression), &t, err);
    if (status)
        return status;
    status = fill_ranks(t, expression, tokens, n_tokens, special, n_special, err);
    if (status) {
        tokenizer_destroy(t);
        return status;
    }
    for (int32_t id = 0; id < t->n_tokens; id++)
        if (t->tokens[id].text)
            t->hash = XXH3_64bits_withSeed(t->tokens[id].text, t->tokens[id].n,
                                           t->hash * 31 + (uint64_t)id * 2 + t->tokens[id].special);
    *out = t;
    return WEFT_OK;
}
