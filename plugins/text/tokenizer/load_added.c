/* SPDX-License-Identifier: Apache-2.0 */
/* Added tokens of a tokenizer.json. Their ids follow from the vocabulary and their order; the file
 * repeats them, and must agree. */
#include "json.h"

#include <string.h>

/* A new token's id: behind the vocabulary, or behind the added tokens if these reach further. */
static int64_t next_id(int64_t n_vocab, int64_t highest)
{
    return highest >= n_vocab || (n_vocab == 0 && highest >= 0) ? highest + 1 : n_vocab;
}

static void read_token(loader *l, const char *path, const json_t *value, added_token *a)
{
    static const char *const keys[] = {"id",     "content",    "single_word", "lstrip",
                                       "rstrip", "normalized", "special",     NULL};
    loader_only(l, path, value, keys);
    size_t n;
    const char *content = loader_text(l, path, value, "content", true, &n);
    if (content && !n)
        loader_bad(l, loader_key(l, path, "content"), "is empty");
    a->content = a->text = content ? loader_copy(l, content, n) : "";
    a->n_content = a->n = n;
    a->single_word = loader_bool(l, path, value, "single_word", true, false);
    a->lstrip = loader_bool(l, path, value, "lstrip", true, false);
    a->rstrip = loader_bool(l, path, value, "rstrip", true, false);
    a->normalized = loader_bool(l, path, value, "normalized", true, true);
    a->special = loader_bool(l, path, value, "special", true, false);
    a->id = (int32_t)loader_int(l, path, value, "id", 0, INT32_MAX - 1);
}

/* Grows the vocabulary to hold an id. */
static bool reserve_id(loader *l, int64_t id, int *capacity)
{
    tokenizer *t = l->t;
    if (id < t->n_tokens)
        return true;
    if (id >= *capacity) {
        int room = (int)id + 1024;
        vocab_token *grown = weft_pool_alloc(&t->pool, (size_t)room * sizeof *grown);
        if (!grown) {
            l->no_memory = true;
            return false;
        }
        memcpy(grown, t->tokens, (size_t)t->n_tokens * sizeof *grown);
        t->tokens = grown;
        *capacity = room;
    }
    t->n_tokens = (int)id + 1;
    return true;
}

static void place_token(loader *l, const char *path, const added_token *a, int64_t n_vocab,
                        int64_t *highest, int *capacity)
{
    tokenizer *t = l->t;
    int64_t id = string_map_find(&t->by_text, a->content, a->n_content);
    bool is_new = id < 0;
    if (is_new)
        id = next_id(n_vocab, *highest);
    if (id != a->id) {
        loader_bad(l, loader_key(l, path, "id"),
                   "is %d, but the token gets id %lld: new tokens are numbered on from the "
                   "vocabulary, in order",
                   (int)a->id, (long long)id);
        return;
    }
    if (is_new && id < t->n_tokens && t->tokens[id].text) {
        loader_bad(l, loader_key(l, path, "id"), "%d is the id of token \"%.60s\" too", (int)id,
                   t->tokens[id].text);
        return;
    }
    if (string_map_add(&t->by_added, a->content, a->n_content, a->id) != a->id ||
        (id < t->n_tokens && t->tokens[id].added)) {
        loader_bad(l, loader_key(l, path, "content"), "\"%.60s\" is there twice", a->content);
        return;
    }
    if (id > *highest)
        *highest = id;
    if (reserve_id(l, id, capacity))
        t->tokens[id] = (vocab_token){
            .text = a->content, .n = (uint32_t)a->n_content, .special = a->special, .added = true};
}

/* Text that is normalized before it is searched holds the tokens as they are after that. */
static void normalize_tokens(loader *l, added_token *list, size_t n)
{
    tokenizer_scratch *s = NULL;
    if (tokenizer_scratch_create(l->t, &s, NULL)) {
        l->no_memory = true;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const char *text;
        bool moved;
        weft_status status = tokenizer_normalize(l->t, s, list[i].content, list[i].n_content, false,
                                                 &text, &list[i].n, &moved, l->err);
        loader_note(l, status);
        if (status)
            break;
        list[i].text = loader_copy(l, text, list[i].n);
        l->t->tokens[list[i].id].text = list[i].text; /* it is decoded so too */
        l->t->tokens[list[i].id].n = (uint32_t)list[i].n;
        if (!list[i].n)
            loader_bad(l, "$.added_tokens", "nothing is left of \"%.60s\" when it is normalized",
                       list[i].content);
    }
    tokenizer_scratch_destroy(s);
}

void loader_added(loader *l, const json_t *list)
{
    tokenizer *t = l->t;
    size_t n = json_array_size(list), n_normalized = 0, n_plain = 0;
    if (list && !json_is_null(list) && !json_is_array(list))
        loader_bad(l, "$.added_tokens", "must be a list");
    added_token *plain = weft_pool_alloc(&t->pool, (n + 1) * sizeof *plain),
                *normalized = weft_pool_alloc(&t->pool, (n + 1) * sizeof *plain);
    if (!plain || !normalized || !string_map_init(&t->by_added, n, &t->pool)) {
        l->no_memory = true;
        return;
    }
    int64_t n_vocab = 0, highest = -1;
    for (int i = 0; i < t->n_tokens; i++)
        n_vocab += t->tokens[i].text != NULL;
    int capacity = t->n_tokens;
    for (size_t i = 0; i < n && !l->no_memory; i++) {
        const char *path = loader_index(l, "$.added_tokens", i);
        const json_t *value = json_array_get(list, i);
        added_token a = {0};
        int bad = l->n_bad;
        if (!json_is_object(value))
            loader_bad(l, path, "must be an object");
        else
            read_token(l, path, value, &a);
        if (l->n_bad > bad)
            continue;
        a.order = (int)i + (a.special ? 0 : 1 << 24);
        place_token(l, path, &a, n_vocab, &highest, &capacity);
        if (a.normalized)
            normalized[n_normalized++] = a;
        else
            plain[n_plain++] = a;
    }
    if (!l->n_bad && !l->no_memory && n_normalized)
        normalize_tokens(l, normalized, n_normalized);
    if (l->n_bad || l->no_memory)
        return;
    added_set_init(&t->added, plain, n_plain);
    added_set_init(&t->added_normalized, normalized, n_normalized);
}
