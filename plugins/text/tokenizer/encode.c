/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding a document, and what a thread keeps for it. */
#include "engine.h"

#include <string.h>

#include "utf8.h"

/* ---- scratch ---- */

static void *library_alloc(PCRE2_SIZE n, void *data)
{
    (void)data;
    return weft_alloc(n);
}

static void library_free(void *p, void *data)
{
    (void)data;
    weft_free(p);
}

static bool create_matching(tokenizer_scratch *s)
{
    enum { STACK_FIRST = 32 << 10, STACK_MOST = 8 << 20 };
    pcre2_general_context *general =
        pcre2_general_context_create(library_alloc, library_free, NULL);
    if (!general)
        return false;
    s->match = pcre2_match_data_create(1, general);
    s->context = pcre2_match_context_create(general);
    s->stack = pcre2_jit_stack_create(STACK_FIRST, STACK_MOST, general);
    if (s->context && s->stack)
        pcre2_jit_stack_assign(s->context, NULL, s->stack);
    pcre2_general_context_free(general);
    return s->match && s->context && s->stack;
}

weft_status tokenizer_scratch_create(const tokenizer *t, tokenizer_scratch **out, weft_error *err)
{
    tokenizer_scratch *s = weft_alloc_zero(1, sizeof *s);
    *out = NULL;
    if (!s)
        return weft_fail_memory(err);
    s->t = t;
    s->words = weft_alloc_zero(WORD_SLOTS, sizeof *s->words);
    s->split = weft_alloc_zero(t->n_splitters + 1, sizeof *s->split);
    if (!s->words || !s->split || !create_matching(s)) {
        tokenizer_scratch_destroy(s);
        return weft_fail_memory(err);
    }
    *out = s;
    return WEFT_OK;
}

void tokenizer_scratch_destroy(tokenizer_scratch *s)
{
    if (!s)
        return;
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->context);
    pcre2_jit_stack_free(s->stack);
    for (size_t i = 0; s->split && i < s->t->n_splitters; i++)
        weft_text_release(&s->split[i]);
    weft_free(s->split);
    weft_text_release(&s->normal[0]);
    weft_text_release(&s->normal[1]);
    weft_free(s->words);
    weft_free(s->points);
    weft_free(s->symbols);
    weft_free(s->queue);
    weft_free(s);
}

/* ---- ids ---- */

static weft_status more_ids(tokenizer_scratch *s, size_t n, weft_error *err)
{
    size_t room = *s->n_ids + n + *s->capacity / 2 + 64;
    int32_t *grown =
        room > SIZE_MAX / sizeof *grown ? NULL : weft_realloc(*s->ids, room * sizeof *grown);
    if (!grown)
        return weft_fail_memory(err);
    *s->ids = grown;
    *s->capacity = room;
    return WEFT_OK;
}

weft_status tokenizer_add_ids(tokenizer_scratch *s, const int32_t *ids, size_t n, weft_error *err)
{
    if (!n)
        return WEFT_OK;
    if (*s->n_ids + n > *s->capacity) {
        weft_status status = more_ids(s, n, err);
        if (status)
            return status;
    }
    int32_t *to = *s->ids + *s->n_ids;
    for (size_t i = 0; i < n; i++)
        to[i] = ids[i];
    *s->n_ids += n;
    return WEFT_OK;
}

/* ---- words: most have been seen before ---- */

static inline size_t word_place(const uint64_t key[3], size_t n)
{
    uint64_t h = (key[0] ^ n) * 0x9E3779B97F4A7C15u;
    h = (h ^ (h >> 29) ^ key[1]) * 0xBF58476D1CE4E5B9u;
    h = (h ^ (h >> 32) ^ key[2]) * 0x94D049BB133111EBu;
    return (size_t)(h >> 40) % WORD_SLOTS;
}

static weft_status add_part(const tokenizer *t, tokenizer_scratch *s, const char *word, size_t n,
                            weft_error *err)
{
    if (n > WORD_BYTES)
        return tokenizer_merge(t, s, word, n, err);
    uint64_t key[3] = {0};
    memcpy(key, word, n);
    word_slot *slot = &s->words[word_place(key, n)];
    if (slot->n == n && slot->key[0] == key[0] && slot->key[1] == key[1] && slot->key[2] == key[2])
        return tokenizer_add_ids(s, slot->ids, slot->n_ids, err);
    size_t before = *s->n_ids;
    weft_status status = tokenizer_merge(t, s, word, n, err);
    size_t made = *s->n_ids - before;
    if (status || made > WORD_IDS)
        return status;
    memcpy(slot->key, key, sizeof key);
    if (made)
        memcpy(slot->ids, *s->ids + before, made * sizeof *slot->ids);
    slot->n = (uint8_t)n;
    slot->n_ids = (uint8_t)made;
    return WEFT_OK;
}

weft_status tokenizer_add_word(const tokenizer *t, tokenizer_scratch *s, const char *word, size_t n,
                               weft_error *err)
{
    if (!t->parts)
        return add_part(t, s, word, n, err);
    weft_status status = WEFT_OK;
    for (size_t at = 0, next; !status && at < n; at = next) {
        next = tokenizer_next_part(word, n, at + 1);
        status = add_part(t, s, word + at, next - at, err);
    }
    return status;
}

/* ---- documents ---- */

static weft_status add_token(tokenizer_scratch *s, const added_token *token, weft_error *err)
{
    return s->word ? WEFT_OK : tokenizer_add_ids(s, &token->id, 1, err);
}

/* Text between added tokens that are looked for before normalizing. first: it begins the document.
 */
static weft_status encode_between(const tokenizer *t, tokenizer_scratch *s, const char *text,
                                  size_t n, bool first, weft_error *err)
{
    const char *normal;
    size_t n_normal, done = 0, at = 0, start, end;
    const added_token *token;
    bool moved;
    if (!n)
        return WEFT_OK;
    weft_status status =
        tokenizer_normalize(t, s, text, n, first && s->continues, &normal, &n_normal, &moved, err);
    first = first && !moved;
    while (!status && added_set_next(&t->added_normalized, normal, n_normal, at, done,
                                     s->no_special, &token, &start, &end, &at)) {
        if (done < start)
            status = tokenizer_split(t, s, normal + done, start - done, first && done == 0, err);
        if (!status)
            status = add_token(s, token, err);
        done = end;
    }
    if (!status && done < n_normal)
        status = tokenizer_split(t, s, normal + done, n_normal - done, first && done == 0, err);
    return status;
}

static weft_status encode_document(const tokenizer *t, tokenizer_scratch *s, const char *text,
                                   size_t n, weft_error *err)
{
    size_t done = 0, at = 0, start, end, valid = text_utf8_valid(text, n);
    const added_token *token;
    if (valid < n)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "the text to encode is not UTF-8 at byte %zu", valid);
    weft_status status = WEFT_OK;
    while (!status &&
           added_set_next(&t->added, text, n, at, done, s->no_special, &token, &start, &end, &at)) {
        if (done < start)
            status = encode_between(t, s, text + done, start - done, done == 0, err);
        if (!status)
            status = add_token(s, token, err);
        done = end;
    }
    if (!status && done < n)
        status = encode_between(t, s, text + done, n - done, done == 0, err);
    return status;
}

weft_status tokenizer_encode(const tokenizer *t, tokenizer_scratch *s, const char *text, size_t n,
                             unsigned flags, int32_t **ids, size_t *n_ids, size_t *capacity,
                             weft_error *err)
{
    size_t before = *n_ids;
    s->ids = ids;
    s->n_ids = n_ids;
    s->capacity = capacity;
    s->word = NULL;
    s->no_special = flags & TOKENIZER_NO_SPECIAL;
    s->continues = flags & TOKENIZER_CONTINUES;
    weft_status status = encode_document(t, s, text, n, err);
    if (status)
        *n_ids = before;
    return status;
}

weft_status tokenizer_words(const tokenizer *t, tokenizer_scratch *s, const char *text, size_t n,
                            unsigned flags, tokenizer_word word, void *self, weft_error *err)
{
    s->word = word;
    s->self = self;
    s->no_special = flags & TOKENIZER_NO_SPECIAL;
    s->continues = flags & TOKENIZER_CONTINUES;
    return encode_document(t, s, text, n, err);
}
