/* SPDX-License-Identifier: Apache-2.0 */
/* BPE training written down plainly: lists that are searched from end to end. Slow; for tests. */
#ifndef TRAIN_REFERENCE_H
#define TRAIN_REFERENCE_H

#include "training/train.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { REF_WORDS = 64, REF_LETTERS = 96, REF_TOKENS = 1024, REF_PAIRS = 20000, REF_BYTES = 512 };

typedef struct ref_word {
    int ids[REF_LETTERS], n;
    long count;
} ref_word;

typedef struct ref_pair {
    int left, right;
    long count;
    bool fresh;
} ref_pair;

typedef struct ref_entry {
    int pair;
    long count;
    bool words[REF_WORDS];
} ref_entry;

typedef struct reference {
    char tokens[REF_TOKENS][REF_BYTES];
    int bytes[REF_TOKENS], n_tokens;
    text_train_merge merges[2 * REF_TOKENS];
    int n_merges;
    ref_word words[REF_WORDS];
    int n_words;
    ref_pair pairs[REF_PAIRS];
    bool fresh[REF_PAIRS][REF_WORDS];
    int n_pairs;
    ref_entry queue[REF_PAIRS];
    int n_queue;
    int max_token;
} reference;

static inline int ref_token(reference *r, const char *token, int bytes)
{
    for (int i = 0; i < r->n_tokens; i++)
        if (!strcmp(r->tokens[i], token))
            return i;
    assert(r->n_tokens < REF_TOKENS && strlen(token) < REF_BYTES);
    memcpy(r->tokens[r->n_tokens], token, strlen(token) + 1);
    r->bytes[r->n_tokens] = bytes;
    return r->n_tokens++;
}

static inline void ref_change(reference *r, int left, int right, long change, int word)
{
    int i = 0;
    while (i < r->n_pairs && (r->pairs[i].left != left || r->pairs[i].right != right))
        i++;
    assert(i < REF_PAIRS);
    if (i == r->n_pairs)
        r->pairs[r->n_pairs++] = (ref_pair){.left = left, .right = right};
    r->pairs[i].count += change;
    if (change > 0)
        r->fresh[i][word] = r->pairs[i].fresh = true;
}

static inline void ref_queue(reference *r)
{
    for (int i = 0; i < r->n_pairs; i++) {
        if (!r->pairs[i].fresh)
            continue;
        if (r->pairs[i].count > 0) {
            assert(r->n_queue < REF_PAIRS);
            ref_entry *e = &r->queue[r->n_queue++];
            e->pair = i;
            e->count = r->pairs[i].count;
            memcpy(e->words, r->fresh[i], sizeof e->words);
        }
        memset(r->fresh[i], 0, sizeof r->fresh[i]);
        r->pairs[i].fresh = false;
    }
}

/* Every entry counts as its pair does now. -1: nothing is left. */
static inline int ref_best(const reference *r)
{
    int best = -1;
    for (int i = 0; i < r->n_queue; i++) {
        const ref_pair *p = &r->pairs[r->queue[i].pair],
                       *b = best < 0 ? NULL : &r->pairs[r->queue[best].pair];
        if (p->count <= 0)
            continue;
        if (!b || p->count > b->count ||
            (p->count == b->count &&
             (p->left < b->left || (p->left == b->left && p->right < b->right))))
            best = i;
    }
    return best;
}

static inline bool ref_fits(const reference *r, int left, int right)
{
    return !r->max_token || r->bytes[left] + r->bytes[right] <= r->max_token;
}

static inline void ref_merge_word(reference *r, int word, int left, int right, int id)
{
    ref_word *w = &r->words[word];
    for (int i = 0; i + 1 < w->n; i++) {
        if (w->ids[i] != left || w->ids[i + 1] != right)
            continue;
        if (i > 0) {
            ref_change(r, w->ids[i - 1], left, -w->count, word);
            if (ref_fits(r, w->ids[i - 1], id))
                ref_change(r, w->ids[i - 1], id, w->count, word);
        }
        w->ids[i] = id;
        for (int k = i + 1; k + 1 < w->n; k++)
            w->ids[k] = w->ids[k + 1];
        w->n--;
        if (i + 1 < w->n) {
            ref_change(r, right, w->ids[i + 1], -w->count, word);
            if (ref_fits(r, id, w->ids[i + 1]))
                ref_change(r, id, w->ids[i + 1], w->count, word);
        }
    }
}

static inline void ref_drop_repeats(reference *r)
{
    int kept = 0;
    for (int i = 0; i < r->n_merges; i++) {
        bool later = false;
        for (int k = i + 1; k < r->n_merges; k++)
            later = later || (r->merges[k].left == r->merges[i].left &&
                              r->merges[k].right == r->merges[i].right);
        if (!later)
            r->merges[kept++] = r->merges[i];
    }
    r->n_merges = kept;
}

/* words: strings of ASCII letters. */
static inline void ref_train(reference *r, const char (*words)[REF_LETTERS], const long *counts,
                             int n_words, const text_train_options *o)
{
    memset(r, 0, sizeof *r);
    r->max_token = (int)o->max_token;
    for (int i = 0; i < o->n_special; i++)
        ref_token(r, o->special[i], (int)strlen(o->special[i]));
    for (uint32_t c = 0; c < 0x144; c++) { /* the alphabet is ordered by character */
        for (int b = 0; b < 256; b++) {
            if (text_train_byte_character((unsigned char)b) != c)
                continue;
            char text[3] = {(char)c, 0, 0};
            if (c >= 0x80) {
                text[0] = (char)(0xC0 | c >> 6);
                text[1] = (char)(0x80 | (c & 0x3F));
            }
            ref_token(r, text, 1);
        }
    }
    r->n_words = n_words;
    for (int w = 0; w < n_words; w++) {
        ref_word *word = &r->words[w];
        word->count = counts[w];
        word->n = (int)strlen(words[w]);
        for (int i = 0; i < word->n; i++) {
            char text[2] = {words[w][i], 0};
            word->ids[i] = ref_token(r, text, 1);
        }
        for (int i = 0; i + 1 < word->n; i++)
            ref_change(r, word->ids[i], word->ids[i + 1], word->count, w);
    }
    ref_queue(r);
    int best;
    while (r->n_tokens < o->vocab_size && (best = ref_best(r)) >= 0) {
        ref_entry e = r->queue[best];
        ref_pair p = r->pairs[e.pair];
        if (p.count < (long)o->min_frequency)
            break;
        r->queue[best] = r->queue[--r->n_queue];
        char joined[2 * REF_BYTES];
        snprintf(joined, sizeof joined, "%s%s", r->tokens[p.left], r->tokens[p.right]);
        int id = ref_token(r, joined, r->bytes[p.left] + r->bytes[p.right]);
        r->merges[r->n_merges++] = (text_train_merge){(uint32_t)p.left, (uint32_t)p.right};
        assert(r->n_merges < 2 * REF_TOKENS);
        for (int w = 0; w < n_words; w++)
            if (e.words[w])
                ref_merge_word(r, w, p.left, p.right, id);
        ref_queue(r);
    }
    ref_drop_repeats(r);
}

#endif
