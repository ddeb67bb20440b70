/* SPDX-License-Identifier: Apache-2.0 */
/* From a word to ids: its characters' symbols, and then the merge of lowest rank, leftmost first,
 * until none is left. */
#include "engine.h"

#include <string.h>

enum { SHORT = 48 }; /* symbols that are searched rather than queued */

int tokenizer_symbols(const tokenizer *t, const char *character, size_t n, int32_t out[4])
{
    out[0] = string_map_find(&t->by_text, character, n);
    if (out[0] >= 0)
        return 1;
    if (t->byte_fallback) {
        size_t i = 0;
        while (i < n && (out[i] = t->byte_tokens[(unsigned char)character[i]]) >= 0)
            i++;
        if (i == n)
            return (int)n;
    }
    out[0] = SYMBOL_UNKNOWN;
    return t->unknown >= 0 ? 1 : 0;
}

/* ---- symbols ---- */

static weft_status more_symbols(tokenizer_scratch *s, size_t n, weft_error *err)
{
    if (n <= s->symbols_capacity)
        return WEFT_OK;
    n += n / 2;
    symbol *grown =
        n > SIZE_MAX / sizeof *grown ? NULL : weft_realloc(s->symbols, n * sizeof *grown);
    if (!grown)
        return weft_fail_memory(err);
    s->symbols = grown;
    s->symbols_capacity = n;
    return WEFT_OK;
}

void tokenizer_fill_bytes(tokenizer *t)
{
    for (int b = 0; b < 256; b++) {
        char character[4];
        int32_t *ids = t->byte_symbols[b];
        size_t n = unicode_put(unicode_byte_alphabet[b], character);
        int n_ids = tokenizer_symbols(t, character, n, ids);
        t->byte_known[b] = string_map_find(&t->by_text, character, n) >= 0;
        for (; n_ids < 4; n_ids++)
            ids[n_ids] = SYMBOL_NONE;
    }
}

static bool is_known(const tokenizer *t, const char *at, size_t length)
{
    return t->byte_level ? t->byte_known[(unsigned char)*at]
                         : string_map_find(&t->by_text, at, length) >= 0;
}

/* Unknown characters wait for the next known one; only tokens of bytes overtake them. */
static size_t fill_symbols(const tokenizer *t, tokenizer_scratch *s, const char *word, size_t n)
{
    size_t count = 0;
    bool waiting = false;
    for (size_t at = 0, length; at < n; at += length) {
        int32_t here[4];
        const int32_t *ids = here;
        int n_ids = 0;
        if (t->byte_level) {
            length = 1;
            ids = t->byte_symbols[(unsigned char)word[at]];
            while (n_ids < 4 && ids[n_ids] != SYMBOL_NONE)
                n_ids++;
        } else {
            unicode_get(word + at, &length);
            n_ids = tokenizer_symbols(t, word + at, length, here);
        }
        if (n_ids == 1 && ids[0] == SYMBOL_UNKNOWN) {
            if (waiting && !t->fuse_unknown)
                s->symbols[count++].id = t->unknown;
            waiting = true;
            continue;
        }
        if (waiting && is_known(t, word + at, length)) {
            s->symbols[count++].id = t->unknown;
            waiting = false;
        }
        for (int i = 0; i < n_ids; i++)
            s->symbols[count++].id = ids[i];
    }
    if (waiting)
        s->symbols[count++].id = t->unknown;
    return count;
}

/* ---- merging few symbols ---- */

typedef struct few {
    int32_t ids[SHORT], joined[SHORT]; /* joined: what i and the next become, -1: nothing */
    uint32_t ranks[SHORT];
    size_t n;
} few;

static inline void look(const tokenizer *t, few *f, size_t i)
{
    const merge *m = i + 1 < f->n ? merge_map_find(&t->merges, f->ids[i], f->ids[i + 1]) : NULL;
    f->ranks[i] = m ? m->rank : UINT32_MAX;
    f->joined[i] = m ? m->id : -1;
}

static inline void join(const tokenizer *t, few *f, size_t i)
{
    f->ids[i] = f->joined[i];
    f->n--;
    memmove(f->ids + i + 1, f->ids + i + 2, (f->n - i - 1) * sizeof *f->ids);
    memmove(f->ranks + i + 1, f->ranks + i + 2, (f->n - i - 1) * sizeof *f->ranks);
    memmove(f->joined + i + 1, f->joined + i + 2, (f->n - i - 1) * sizeof *f->joined);
    look(t, f, i);
    if (i > 0)
        look(t, f, i - 1);
}

static weft_status merge_short(const tokenizer *t, tokenizer_scratch *s, size_t n, weft_error *err)
{
    few f;
    f.n = n;
    for (size_t i = 0; i < n; i++)
        f.ids[i] = s->symbols[i].id;
    for (size_t i = 0; i < n; i++)
        look(t, &f, i);
    while (f.n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < f.n; i++)
            if (f.ranks[i] < f.ranks[best])
                best = i;
        if (f.joined[best] < 0)
            break;
        join(t, &f, best);
    }
    return tokenizer_add_ids(s, f.ids, f.n, err);
}

/* ---- merging many: a heap of pairs, of which those that have changed since are passed over ----
 */

static bool comes_before(const queued *a, const queued *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void sift_down(queued *heap, size_t n, size_t i)
{
    queued item = heap[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && comes_before(&heap[child + 1], &heap[child]))
            child++;
        if (!comes_before(&heap[child], &item))
            break;
        heap[i] = heap[child];
    }
    heap[i] = item;
}

/* Room is there: every merge takes one entry out and puts two in at most. */
static void push(const tokenizer *t, tokenizer_scratch *s, int64_t left, int64_t right)
{
    const merge *m = merge_map_find(&t->merges, s->symbols[left].id, s->symbols[right].id);
    if (!m)
        return;
    queued item = {m->rank, m->id, left};
    size_t i = s->n_queue++;
    for (; i > 0 && comes_before(&item, &s->queue[(i - 1) / 2]); i = (i - 1) / 2)
        s->queue[i] = s->queue[(i - 1) / 2];
    s->queue[i] = item;
}

static queued pop(tokenizer_scratch *s)
{
    queued top = s->queue[0];
    s->queue[0] = s->queue[--s->n_queue];
    if (s->n_queue)
        sift_down(s->queue, s->n_queue, 0);
    return top;
}

static weft_status more_queue(tokenizer_scratch *s, size_t n, weft_error *err)
{
    if (n <= s->queue_capacity)
        return WEFT_OK;
    queued *grown = n > SIZE_MAX / sizeof *grown ? NULL : weft_realloc(s->queue, n * sizeof *grown);
    if (!grown)
        return weft_fail_memory(err);
    s->queue = grown;
    s->queue_capacity = n;
    return WEFT_OK;
}

static void merge_at(const tokenizer *t, tokenizer_scratch *s, const queued *top)
{
    symbol *left = &s->symbols[top->at];
    if (!left->length || left->next < 0)
        return;
    symbol *right = &s->symbols[left->next];
    const merge *now = merge_map_find(&t->merges, left->id, right->id);
    if (!now || now->id != top->id)
        return;
    left->id = top->id;
    left->next = right->next;
    right->length = 0;
    if (left->next >= 0)
        s->symbols[left->next].previous = top->at;
    if (left->previous >= 0)
        push(t, s, left->previous, top->at);
    if (left->next >= 0)
        push(t, s, top->at, left->next);
}

static weft_status merge_long(const tokenizer *t, tokenizer_scratch *s, size_t n, weft_error *err)
{
    weft_status status = more_queue(s, 3 * n, err);
    if (status)
        return status;
    s->n_queue = 0;
    for (size_t i = 0; i < n; i++) {
        symbol *here = &s->symbols[i];
        here->length = 1;
        here->previous = (int64_t)i - 1;
        here->next = i + 1 < n ? (int64_t)i + 1 : -1;
    }
    for (size_t i = 0; i + 1 < n; i++)
        push(t, s, (int64_t)i, (int64_t)i + 1);
    while (s->n_queue) {
        queued top = pop(s);
        merge_at(t, s, &top);
    }
    for (int64_t i = 0; !status && i >= 0; i = s->symbols[i].next)
        status = tokenizer_add_ids(s, &s->symbols[i].id, 1, err);
    return status;
}

weft_status tokenizer_merge(const tokenizer *t, tokenizer_scratch *s, const char *word, size_t n,
                            weft_error *err)
{
    if (t->ignore_merges) {
        int32_t id = string_map_find(&t->by_word, word, n);
        if (id >= 0)
            return tokenizer_add_ids(s, &id, 1, err);
    }
    weft_status status = more_symbols(s, (t->byte_level && t->byte_fallback ? 4 : 1) * n + 1, err);
    if (status)
        return status;
    size_t count = fill_symbols(t, s, word, n);
    if (count == 0)
        return WEFT_OK;
    return count <= SHORT ? merge_short(t, s, count, err) : merge_long(t, s, count, err);
}
