/* SPDX-License-Identifier: Apache-2.0 */
/* The model of a tokenizer.json: a vocabulary and merges. */
#include "json.h"

#include <string.h>

enum { IDS_MOST = 1 << 24 };

/* ---- vocabulary ---- */

static int64_t highest_id(loader *l, const json_t *vocab)
{
    const char *text;
    json_t *value;
    int64_t highest = -1;
    json_object_foreach((json_t *)vocab, text, value) {
        int64_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || id >= IDS_MOST)
            loader_bad(l, "$.model.vocab", "token \"%.60s\" must have a number from 0 to %d", text,
                       IDS_MOST - 1);
        else if (id > highest)
            highest = id;
    }
    return highest;
}

static void read_vocab(loader *l, const json_t *vocab)
{
    tokenizer *t = l->t;
    if (!json_is_object(vocab) || json_object_size(vocab) == 0) {
        loader_bad(l, "$.model.vocab", "must be an object with at least one token");
        return;
    }
    t->n_tokens = (int)(highest_id(l, vocab) + 1);
    t->tokens = weft_pool_alloc(&t->pool, ((size_t)t->n_tokens + 1) * sizeof *t->tokens);
    if (!t->tokens || !string_map_init(&t->by_text, json_object_size(vocab), &t->pool)) {
        l->no_memory = true;
        return;
    }
    if (l->n_bad)
        return;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)vocab, key, value) {
        int32_t id = (int32_t)json_integer_value(value);
        size_t n = strlen(key);
        if (t->tokens[id].text)
            loader_bad(l, "$.model.vocab", "tokens \"%.60s\" and \"%.60s\" have the same id, %d",
                       t->tokens[id].text, key, (int)id);
        const char *shown = loader_show(l, key, &n), *text = loader_copy(l, shown, n);
        t->tokens[id] = (vocab_token){.text = text, .n = (uint32_t)n};
        string_map_add(&t->by_text, text, n, id);
    }
}

/* ---- merges ---- */

/* The two texts of a merge. */
static bool read_merge(loader *l, size_t i, const json_t *value, const char *part[2], size_t n[2])
{
    if (json_is_array(value) && json_array_size(value) == 2 &&
        json_is_string(json_array_get(value, 0)) && json_is_string(json_array_get(value, 1))) {
        for (size_t k = 0; k < 2; k++) {
            n[k] = json_string_length(json_array_get(value, k));
            part[k] = loader_show(l, json_string_value(json_array_get(value, k)), &n[k]);
        }
        return true;
    }
    const char *text = json_string_value(value), *blank = text ? strchr(text, ' ') : NULL;
    if (!blank || strchr(blank + 1, ' ')) {
        loader_bad(l, loader_index(l, "$.model.merges", i), "must be \"a b\" or [\"a\", \"b\"]");
        return false;
    }
    n[0] = (size_t)(blank - text);
    n[1] = json_string_length(value) - n[0] - 1;
    part[0] = loader_show(l, text, &n[0]);
    part[1] = loader_show(l, blank + 1, &n[1]);
    return true;
}

static void add_merge(loader *l, size_t i, const json_t *value, uint32_t *rank, weft_text *joined)
{
    const char *part[2];
    size_t n[2];
    int32_t ids[2];
    const char *line = json_string_value(value);
    if (line && !strncmp(line, "#version", 8)) /* a comment of old files */
        return;
    if (!read_merge(l, i, value, part, n))
        return;
    for (int k = 0; k < 2; k++) {
        ids[k] = string_map_find(&l->t->by_text, part[k], n[k]);
        if (ids[k] < 0)
            loader_bad(l, loader_index(l, "$.model.merges", i),
                       "\"%.60s\" is not in the vocabulary", part[k]);
    }
    weft_text_clear(joined);
    weft_text_add_bytes(joined, part[0], n[0]);
    weft_text_add_bytes(joined, part[1], n[1]);
    int32_t id = string_map_find(&l->t->by_text, weft_text_get(joined), joined->size);
    if (ids[0] < 0 || ids[1] < 0)
        return;
    if (id < 0)
        loader_bad(l, loader_index(l, "$.model.merges", i),
                   "\"%.60s\", what it makes, is not in the vocabulary", weft_text_get(joined));
    else
        merge_map_set(&l->t->merges, ids[0], ids[1], (*rank)++, id);
}

static void read_merges(loader *l, const json_t *merges)
{
    if (!json_is_array(merges)) {
        loader_bad(l, "$.model.merges", "must be a list");
        return;
    }
    if (!merge_map_init(&l->t->merges, json_array_size(merges), &l->t->pool)) {
        l->no_memory = true;
        return;
    }
    weft_text joined = {0};
    uint32_t rank = 0;
    for (size_t i = 0; i < json_array_size(merges); i++)
        add_merge(l, i, json_array_get(merges, i), &rank, &joined);
    l->no_memory = l->no_memory || joined.out_of_memory;
    weft_text_release(&joined);
}

/* ---- settings ---- */

static void refuse_affixes(loader *l, const json_t *model)
{
    static const char *const keys[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int i = 0; i < 2; i++) {
        size_t n;
        loader_text(l, "$.model", model, keys[i], false, &n);
        if (n)
            loader_bad(l, loader_key(l, "$.model", keys[i]), "is not supported unless it is empty");
    }
    const json_t *dropout = json_object_get(model, "dropout");
    if (dropout && !json_is_null(dropout) &&
        !(json_is_number(dropout) && json_number_value(dropout) == 0))
        loader_bad(l, "$.model.dropout", "is not supported: ids would depend on chance");
}

static void read_unknown(loader *l, const json_t *model)
{
    size_t n;
    const char *unknown = loader_text(l, "$.model", model, "unk_token", false, &n);
    l->t->unknown =
        unknown && l->t->by_text.slots ? string_map_find(&l->t->by_text, unknown, n) : -1;
    if (unknown && l->t->unknown < 0)
        loader_bad(l, "$.model.unk_token", "\"%.60s\" is not in the vocabulary", unknown);
}

static void find_byte_tokens(tokenizer *t)
{
    static const char digits[] = "0123456789ABCDEF";
    for (int b = 0; b < 256; b++) {
        const char text[] = {'<', '0', 'x', digits[b >> 4], digits[b & 15], '>'};
        t->byte_tokens[b] = string_map_find(&t->by_text, text, sizeof text);
    }
}

void loader_model(loader *l, const json_t *model)
{
    static const char *const keys[] = {"type",
                                       "dropout",
                                       "unk_token",
                                       "continuing_subword_prefix",
                                       "end_of_word_suffix",
                                       "fuse_unk",
                                       "byte_fallback",
                                       "ignore_merges",
                                       "vocab",
                                       "merges",
                                       NULL};
    static const char *const types[] = {"BPE", NULL};
    tokenizer *t = l->t;
    if (!json_is_object(model)) {
        loader_bad(l, "$.model", "must be an object");
        return;
    }
    if (loader_choice(l, "$.model", model, "type", types, 0) < 0)
        return;
    loader_only(l, "$.model", model, keys);
    refuse_affixes(l, model);
    t->fuse_unknown = loader_bool(l, "$.model", model, "fuse_unk", false, false);
    t->byte_fallback = loader_bool(l, "$.model", model, "byte_fallback", false, false);
    t->ignore_merges = loader_bool(l, "$.model", model, "ignore_merges", false, false);
    read_vocab(l, json_object_get(model, "vocab"));
    if (l->n_bad || l->no_memory)
        return;
    read_unknown(l, model);
    find_byte_tokens(t);
    read_merges(l, json_object_get(model, "merges"));
    if (!l->n_bad && !l->no_memory)
        tokenizer_find_parts(t);
}

/* ---- words ---- */

/* The bytes of a byte-level token; false: it has characters that no byte becomes, so no word is it.
 */
static bool token_bytes(const vocab_token *token, char *out, size_t *n)
{
    *n = 0;
    for (size_t at = 0, length; at < token->n; at += length) {
        int byte = unicode_alphabet_byte(unicode_get(token->text + at, &length));
        if (byte < 0)
            return false;
        out[(*n)++] = (char)byte;
    }
    return true;
}

void loader_words(loader *l)
{
    tokenizer *t = l->t;
    t->by_word = t->by_text;
    if (!t->byte_level)
        return;
    tokenizer_fill_bytes(t);
    if (!string_map_init(&t->by_word, (size_t)t->n_tokens, &t->pool)) {
        l->no_memory = true;
        return;
    }
    for (int32_t id = 0; id < t->n_tokens; id++) {
        const vocab_token *token = &t->tokens[id];
        if (!token->text)
            continue;
        char *bytes = weft_pool_alloc(&t->pool, token->n + 1);
        size_t n;
        if (!bytes)
            l->no_memory = true;
        else if (token_bytes(token, bytes, &n))
            string_map_add(&t->by_word, bytes, n, id);
    }
}
