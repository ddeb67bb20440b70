/* SPDX-License-Identifier: Apache-2.0 */
/* Training of a byte-level BPE vocabulary: words are counted, pairs merged by count, and the result
 * written as files that Hugging Face's tokenizers read. Equal counts are decided by ids, so that
 * the result depends on the words and their counts alone. */
#ifndef WEFT_TEXT_TRAIN_H
#define WEFT_TEXT_TRAIN_H

#include <weft/base.h>

/* ---- count.c: distinct words and how often they came ---- */

typedef struct text_train_word {
    size_t at; /* in bytes */
    uint32_t n, hash;
    uint64_t count;
} text_train_word;

/* Not thread-safe: one per thread, joined at the end. Zero-initialised is valid and empty. */
typedef struct text_train_words {
    text_train_word *list;
    size_t n, capacity;
    uint32_t *slots; /* index into list + 1; 0: free */
    size_t n_slots;  /* a power of two, or 0 */
    char *bytes;
    size_t n_bytes, bytes_capacity;
} text_train_words;

weft_status text_train_words_add(text_train_words *words, const char *word, size_t n,
                                 uint64_t count, weft_error *err);
/* Adds all words of `from`, which becomes empty. */
weft_status text_train_words_join(text_train_words *words, text_train_words *from, weft_error *err);
void text_train_words_release(text_train_words *words);

/* ---- tokens.c: the vocabulary while it grows ---- */

/* A token as the files spell it: each byte as the character that stands for it. Zero-initialised is
 * valid and empty. */
typedef struct text_train_tokens {
    char **list; /* by id */
    int n, capacity;
    int *slots; /* id + 1; 0: free */
    size_t n_slots;
} text_train_tokens;

/* The id of a token, which is added if it is new. */
weft_status text_train_tokens_add(text_train_tokens *tokens, const char *token, int *id,
                                  weft_error *err);
void text_train_tokens_release(text_train_tokens *tokens);
/* The character that stands for a byte: printable ones for themselves, the others, in order, from
 * U+0100 on. */
uint32_t text_train_byte_character(unsigned char byte);

/* ---- pairs.c: counts of neighbours, and the queue of what to merge next ---- */

typedef struct text_train_places {
    uint32_t *words;
    size_t n, capacity;
} text_train_places;

typedef struct text_train_pair {
    uint64_t key; /* left id << 32 | right id */
    int64_t count;
    text_train_places fresh; /* words where it appeared since it was last queued */
} text_train_pair;

typedef struct text_train_candidate {
    uint64_t count, key;
    uint32_t pair;
    text_train_places places;
} text_train_candidate;

/* Zero-initialised is valid and empty. */
typedef struct text_train_pairs {
    text_train_pair *list;
    size_t n, capacity;
    uint32_t *slots;
    size_t n_slots;
    uint32_t *fresh; /* pairs with fresh places */
    size_t n_fresh, fresh_capacity;
    text_train_candidate *queue; /* a heap */
    size_t n_queue, queue_capacity;
} text_train_pairs;

/* Changes a pair's count. Where it grew, the word is noted. */
weft_status text_train_pairs_change(text_train_pairs *pairs, uint32_t left, uint32_t right,
                                    int64_t change, uint32_t word, weft_error *err);
/* Queues every pair that has fresh places. */
weft_status text_train_pairs_queue(text_train_pairs *pairs, weft_error *err);
/* Takes the pair with the highest count, of equals the lowest ids. False: none is left. The places
 * are the caller's. */
bool text_train_pairs_take(text_train_pairs *pairs, text_train_candidate *top);
void text_train_pairs_release(text_train_pairs *pairs);

/* ---- bpe.c: merging ---- */

typedef struct text_train_options {
    int vocab_size;         /* special tokens and the 256 bytes included */
    uint64_t min_frequency; /* rarer pairs are not merged */
    uint32_t max_token;     /* the longest token in bytes; 0: any */
    const char *const *special;
    int n_special;
    /* Called now and then; may be NULL. An error ends the training. */
    weft_status (*progress)(void *self, int tokens, int vocab_size, weft_error *err);
    void *self;
} text_train_options;

typedef struct text_train_merge {
    uint32_t left, right;
} text_train_merge;

typedef struct text_train_result {
    text_train_tokens tokens;
    text_train_merge *merges; /* in order of rank */
    size_t n_merges, merges_capacity;
    uint64_t n_tokens, n_bytes; /* of the words that were trained on */
} text_train_result;

weft_status text_train_bpe(const text_train_words *words, const text_train_options *options,
                           text_train_result *result, weft_error *err);
void text_train_result_release(text_train_result *result);

/* ---- write.c: the files ---- */

typedef struct text_train_files {
    const char *path;    /* of tokenizer.json; tokenizer_config.json is written beside it */
    const char *pattern; /* the expression that cuts words; NULL: GPT-2's, by its own name */
    const char *const *special;
    int n_special;
    const char *bos, *eos; /* of special; NULL: none */
    int64_t max_length;    /* model_max_length; 0: not stated */
} text_train_files;

/* The text of tokenizer.json. */
weft_status text_train_json(const text_train_result *result, const text_train_files *files,
                            weft_text *out, weft_error *err);
weft_status text_train_write(const text_train_result *result, const text_train_files *files,
                             weft_error *err);

#endif
