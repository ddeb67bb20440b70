/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of neighbours: a hash table of counts, and a heap whose entries are brought up to date when
 * they come to the top. */
#include "train.h"

enum { FIRST = 1 << 12 };

static size_t hash_key(uint64_t key)
{
    key *= 0x9e3779b97f4a7c15u;
    return (size_t)(key ^ key >> 32);
}

/* Makes room for one more element. */
static weft_status grow(void **list, size_t n, size_t *capacity, size_t first, size_t width,
                        weft_error *err)
{
    if (n < *capacity)
        return WEFT_OK;
    size_t more = *capacity ? 2 * *capacity : first;
    void *grown = weft_realloc(*list, more * width);
    if (!grown)
        return weft_fail_memory(err);
    *list = grown;
    *capacity = more;
    return WEFT_OK;
}

static weft_status grow_slots(text_train_pairs *pairs, weft_error *err)
{
    size_t n = pairs->n_slots ? 2 * pairs->n_slots : 2 * FIRST;
    uint32_t *slots = weft_alloc_zero(n, sizeof *slots);
    if (!slots)
        return weft_fail_memory(err);
    for (size_t i = 0; i < pairs->n; i++) {
        size_t at = hash_key(pairs->list[i].key) & (n - 1);
        while (slots[at])
            at = (at + 1) & (n - 1);
        slots[at] = (uint32_t)i + 1;
    }
    weft_free(pairs->slots);
    pairs->slots = slots;
    pairs->n_slots = n;
    return WEFT_OK;
}

static weft_status find_pair(text_train_pairs *pairs, uint64_t key, uint32_t *index,
                             weft_error *err)
{
    weft_status status = pairs->n >= pairs->n_slots / 2 ? grow_slots(pairs, err) : WEFT_OK;
    if (status)
        return status;
    size_t at = hash_key(key) & (pairs->n_slots - 1);
    for (; pairs->slots[at]; at = (at + 1) & (pairs->n_slots - 1)) {
        *index = pairs->slots[at] - 1;
        if (pairs->list[*index].key == key)
            return WEFT_OK;
    }
    if (pairs->n >= UINT32_MAX - 1)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "too many distinct pairs; train on a part of the text");
    void *list = pairs->list;
    status = grow(&list, pairs->n, &pairs->capacity, FIRST, sizeof *pairs->list, err);
    pairs->list = list;
    if (status)
        return status;
    *index = (uint32_t)pairs->n;
    pairs->list[pairs->n++] = (text_train_pair){.key = key};
    pairs->slots[at] = (uint32_t)pairs->n;
    return WEFT_OK;
}

/* Notes a word once: words come in order. */
static weft_status add_place(text_train_pairs *pairs, uint32_t index, uint32_t word,
                             weft_error *err)
{
    text_train_places *places = &pairs->list[index].fresh;
    if (places->n && places->words[places->n - 1] == word)
        return WEFT_OK;
    if (!places->n) {
        void *fresh = pairs->fresh;
        weft_status status =
            grow(&fresh, pairs->n_fresh, &pairs->fresh_capacity, FIRST, sizeof *pairs->fresh, err);
        pairs->fresh = fresh;
        if (status)
            return status;
        pairs->fresh[pairs->n_fresh++] = index;
    }
    void *words = places->words;
    weft_status status = grow(&words, places->n, &places->capacity, 2, sizeof *places->words, err);
    places->words = words;
    if (status)
        return status;
    places->words[places->n++] = word;
    return WEFT_OK;
}

weft_status text_train_pairs_change(text_train_pairs *pairs, uint32_t left, uint32_t right,
                                    int64_t change, uint32_t word, weft_error *err)
{
    uint32_t index = 0;
    weft_status status = find_pair(pairs, (uint64_t)left << 32 | right, &index, err);
    if (status)
        return status;
    pairs->list[index].count += change;
    return change > 0 ? add_place(pairs, index, word, err) : WEFT_OK;
}

/* ---- the heap: highest count first, then lowest ids ---- */

static bool goes_before(const text_train_candidate *a, const text_train_candidate *b)
{
    return a->count != b->count ? a->count > b->count : a->key < b->key;
}

static void sift_up(text_train_candidate *heap, size_t at)
{
    text_train_candidate one = heap[at];
    while (at && goes_before(&one, &heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = one;
}

static void sift_down(text_train_candidate *heap, size_t n)
{
    text_train_candidate one = heap[0];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && goes_before(&heap[child + 1], &heap[child]))
            child++;
        if (!goes_before(&heap[child], &one))
            break;
        heap[at] = heap[child];
    }
    heap[at] = one;
}

weft_status text_train_pairs_queue(text_train_pairs *pairs, weft_error *err)
{
    for (size_t i = 0; i < pairs->n_fresh; i++) {
        text_train_pair *pair = &pairs->list[pairs->fresh[i]];
        text_train_places places = pair->fresh;
        pair->fresh = (text_train_places){0};
        if (pair->count <= 0) {
            weft_free(places.words);
            continue;
        }
        void *queue = pairs->queue;
        weft_status status =
            grow(&queue, pairs->n_queue, &pairs->queue_capacity, FIRST, sizeof *pairs->queue, err);
        pairs->queue = queue;
        if (status) {
            weft_free(places.words);
            return status;
        }
        pairs->queue[pairs->n_queue] =
            (text_train_candidate){(uint64_t)pair->count, pair->key, pairs->fresh[i], places};
        sift_up(pairs->queue, pairs->n_queue++);
    }
    pairs->n_fresh = 0;
    return WEFT_OK;
}

bool text_train_pairs_take(text_train_pairs *pairs, text_train_candidate *top)
{
    while (pairs->n_queue) {
        int64_t now = pairs->list[pairs->queue[0].pair].count;
        *top = pairs->queue[0];
        if (now > 0 && top->count != (uint64_t)now) { /* it shrank since it was queued */
            pairs->queue[0].count = (uint64_t)now;
            sift_down(pairs->queue, pairs->n_queue);
            continue;
        }
        pairs->queue[0] = pairs->queue[--pairs->n_queue];
        if (pairs->n_queue)
            sift_down(pairs->queue, pairs->n_queue);
        if (now > 0)
            return true;
        weft_free(top->places.words);
    }
    return false;
}

void text_train_pairs_release(text_train_pairs *pairs)
{
    for (size_t i = 0; i < pairs->n; i++)
        weft_free(pairs->list[i].fresh.words);
    for (size_t i = 0; i < pairs->n_queue; i++)
        weft_free(pairs->queue[i].places.words);
    weft_free(pairs->list);
    weft_free(pairs->slots);
    weft_free(pairs->fresh);
    weft_free(pairs->queue);
    *pairs = (text_train_pairs){0};
}
