/* SPDX-License-Identifier: Apache-2.0 */
/* Distinct words and their counts: an open hash table over one array of words and one of bytes. */
#include "train.h"

#include <string.h>

enum { FIRST_SLOTS = 1 << 12, FIRST_BYTES = 1 << 16 };

/* FNV-1a, eight bytes at a time, and a finish: words are short. */
static uint32_t hash_word(const char *s, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u ^ n;
    for (; n >= 8; s += 8, n -= 8) {
        uint64_t eight;
        memcpy(&eight, s, 8);
        h = (h ^ eight) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    uint64_t rest = 0;
    memcpy(&rest, s, n);
    h = (h ^ rest) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9u;
    return (uint32_t)(h >> 32);
}

static weft_status grow_slots(text_train_words *words, weft_error *err)
{
    size_t n = words->n_slots ? 2 * words->n_slots : FIRST_SLOTS;
    uint32_t *slots = weft_alloc_zero(n, sizeof *slots);
    if (!slots)
        return weft_fail_memory(err);
    for (size_t i = 0; i < words->n; i++) {
        size_t at = words->list[i].hash & (n - 1);
        while (slots[at])
            at = (at + 1) & (n - 1);
        slots[at] = (uint32_t)i + 1;
    }
    weft_free(words->slots);
    words->slots = slots;
    words->n_slots = n;
    return WEFT_OK;
}

static weft_status grow_list(text_train_words *words, weft_error *err)
{
    if (words->n < words->capacity)
        return WEFT_OK;
    size_t capacity = words->capacity ? 2 * words->capacity : FIRST_SLOTS / 2;
    text_train_word *list = weft_realloc(words->list, capacity * sizeof *list);
    if (!list)
        return weft_fail_memory(err);
    words->list = list;
    words->capacity = capacity;
    return WEFT_OK;
}

static weft_status grow_bytes(text_train_words *words, size_t n, weft_error *err)
{
    if (n <= words->bytes_capacity - words->n_bytes)
        return WEFT_OK;
    size_t capacity = words->bytes_capacity ? 2 * words->bytes_capacity : FIRST_BYTES;
    while (capacity - words->n_bytes < n)
        capacity *= 2;
    char *bytes = weft_realloc(words->bytes, capacity);
    if (!bytes)
        return weft_fail_memory(err);
    words->bytes = bytes;
    words->bytes_capacity = capacity;
    return WEFT_OK;
}

weft_status text_train_words_add(text_train_words *words, const char *word, size_t n,
                                 uint64_t count, weft_error *err)
{
    weft_status status = words->n >= words->n_slots / 2 ? grow_slots(words, err) : WEFT_OK;
    if (status)
        return status;
    uint32_t hash = hash_word(word, n);
    size_t at = hash & (words->n_slots - 1);
    for (; words->slots[at]; at = (at + 1) & (words->n_slots - 1)) {
        text_train_word *w = &words->list[words->slots[at] - 1];
        if (w->hash == hash && w->n == n && !memcmp(words->bytes + w->at, word, n)) {
            w->count += count;
            return WEFT_OK;
        }
    }
    if (n > UINT32_MAX || words->n >= UINT32_MAX - 1)
        return weft_fail(
            err, WEFT_ERR_INPUT, WEFT_NOWHERE,
            "too many distinct words, or one longer than 4 GiB; train on a part of the text");
    status = grow_list(words, err);
    if (!status)
        status = grow_bytes(words, n, err);
    if (status)
        return status;
    memcpy(words->bytes + words->n_bytes, word, n);
    words->list[words->n++] =
        (text_train_word){.at = words->n_bytes, .n = (uint32_t)n, .hash = hash, .count = count};
    words->n_bytes += n;
    words->slots[at] = (uint32_t)words->n;
    return WEFT_OK;
}

weft_status text_train_words_join(text_train_words *words, text_train_words *from, weft_error *err)
{
    weft_status status = WEFT_OK;
    if (!words->n) {
        text_train_words_release(words);
        *words = *from;
        *from = (text_train_words){0};
    }
    for (size_t i = 0; !status && i < from->n; i++)
        status = text_train_words_add(words, from->bytes + from->list[i].at, from->list[i].n,
                                      from->list[i].count, err);
    text_train_words_release(from);
    return status;
}

void text_train_words_release(text_train_words *words)
{
    weft_free(words->list);
    weft_free(words->slots);
    weft_free(words->bytes);
    *words = (text_train_words){0};
}
