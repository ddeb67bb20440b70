/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair merging. The order of ids, the order of equal counts and what a merge does to counts
 * are those of the BpeTrainer of Hugging Face's tokenizers, so that both give the same vocabulary:
 * special tokens, the 256 bytes in order of their characters, then one token a merge. A merged
 * pair's own count is left as it was: a pair that appears again later starts from there. */
#include "train.h"

#include <stdlib.h>
#include <string.h>

enum { PROGRESS_EVERY = 64 };

typedef struct training {
    const text_train_options *options;
    text_train_result *result;
    uint32_t *ids;     /* of all words, one after the other */
    size_t *starts;    /* of each word in ids */
    uint32_t *lengths; /* of each word now */
    uint64_t *counts;
    size_t n_words;
    uint32_t *token_bytes; /* by id */
    size_t token_bytes_capacity;
    text_train_pairs pairs;
} training;

static void put_character(char **to, uint32_t c)
{
    if (c < 0x80) {
        *(*to)++ = (char)c;
        return;
    }
    *(*to)++ = (char)(0xC0 | c >> 6);
    *(*to)++ = (char)(0x80 | (c & 0x3F));
}

/* ---- the start ---- */

static weft_status note_bytes(training *t, int id, uint32_t n, weft_error *err)
{
    if ((size_t)id >= t->token_bytes_capacity) {
        size_t more = t->token_bytes_capacity ? 2 * t->token_bytes_capacity : 1024;
        while (more <= (size_t)id)
            more *= 2;
        uint32_t *grown = weft_realloc(t->token_bytes, more * sizeof *grown);
        if (!grown)
            return weft_fail_memory(err);
        t->token_bytes = grown;
        t->token_bytes_capacity = more;
    }
    t->token_bytes[id] = n;
    return WEFT_OK;
}

static weft_status add_alphabet(training *t, uint32_t *id_of_byte, weft_error *err)
{
    unsigned char byte_of[0x144] = {0};
    bool used[0x144] = {0};
    for (unsigned b = 0; b < 256; b++) {
        uint32_t c = text_train_byte_character((unsigned char)b);
        byte_of[c] = (unsigned char)b;
        used[c] = true;
    }
    weft_status status = WEFT_OK;
    for (uint32_t c = 0; !status && c < 0x144; c++) {
        if (!used[c])
            continue;
        char spelling[3] = {0}, *to = spelling;
        put_character(&to, c);
        int id = 0;
        status = text_train_tokens_add(&t->result->tokens, spelling, &id, err);
        if (!status)
            status = note_bytes(t, id, 1, err);
        id_of_byte[byte_of[c]] = (uint32_t)id;
    }
    return status;
}

static weft_status add_words(training *t, const text_train_words *words, const uint32_t *id_of_byte,
                             weft_error *err)
{
    t->n_words = words->n;
    t->ids = weft_alloc(words->n_bytes * sizeof *t->ids);
    t->starts = weft_alloc(words->n * sizeof *t->starts);
    t->lengths = weft_alloc(words->n * sizeof *t->lengths);
    t->counts = weft_alloc(words->n * sizeof *t->counts);
    if (!t->ids || !t->starts || !t->lengths || !t->counts)
        return weft_fail_memory(err);
    for (size_t i = 0; i < words->n_bytes; i++)
        t->ids[i] = id_of_byte[(unsigned char)words->bytes[i]];
    weft_status status = WEFT_OK;
    for (size_t w = 0; !status && w < words->n; w++) {
        const text_train_word *word = &words->list[w];
        t->starts[w] = word->at;
        t->lengths[w] = word->n;
        t->counts[w] = word->count;
        const uint32_t *id = t->ids + word->at;
        for (uint32_t i = 0; !status && i + 1 < word->n; i++)
            status = text_train_pairs_change(&t->pairs, id[i], id[i + 1], (int64_t)word->count,
                                             (uint32_t)w, err);
    }
    return status ? status : text_train_pairs_queue(&t->pairs, err);
}

static weft_status start(training *t, const text_train_words *words, weft_error *err)
{
    uint32_t id_of_byte[256];
    weft_status status = WEFT_OK;
    for (int i = 0; !status && i < t->options->n_special; i++) {
        int id = 0;
        status = text_train_tokens_add(&t->result->tokens, t->options->special[i], &id, err);
        if (!status)
            status = note_bytes(t, id, (uint32_t)strlen(t->options->special[i]), err);
    }
    if (!status)
        status = add_alphabet(t, id_of_byte, err);
    return status ? status : add_words(t, words, id_of_byte, err);
}

/* ---- one merge ---- */

static bool may_join(const training *t, uint32_t left, uint32_t right)
{
    return !t->options->max_token ||
           t->token_bytes[left] + t->token_bytes[right] <= t->options->max_token;
}

static weft_status replace(training *t, uint32_t old_left, uint32_t old_right, uint32_t left,
                           uint32_t right, uint32_t word, weft_error *err)
{
    int64_t count = (int64_t)t->counts[word];
    weft_status status = text_train_pairs_change(&t->pairs, old_left, old_right, -count, word, err);
    return status || !may_join(t, left, right)
               ? status
               : text_train_pairs_change(&t->pairs, left, right, count, word, err);
}

static weft_status merge_word(training *t, uint32_t word, text_train_merge pair, uint32_t id,
                              weft_error *err)
{
    uint32_t *ids = t->ids + t->starts[word], n = t->lengths[word], to = 0;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < n; to++) {
        if (status || ids[i] != pair.left || i + 1 == n || ids[i + 1] != pair.right) {
            ids[to] = ids[i++];
            continue;
        }
        if (to > 0)
            status = replace(t, ids[to - 1], pair.left, ids[to - 1], id, word, err);
        i += 2;
        if (!status && i < n)
            status = replace(t, pair.right, ids[i], id, ids[i], word, err);
        ids[to] = id;
    }
    t->lengths[word] = to;
    return status;
}

/* The id of left and right joined. */
static weft_status join_tokens(training *t, text_train_merge pair, int *id, weft_error *err)
{
    char *joined =
        weft_format("%s%s", t->result->tokens.list[pair.left], t->result->tokens.list[pair.right]);
    if (!joined)
        return weft_fail_memory(err);
    weft_status status = text_train_tokens_add(&t->result->tokens, joined, id, err);
    weft_free(joined);
    return status ? status
                  : note_bytes(t, *id, t->token_bytes[pair.left] + t->token_bytes[pair.right], err);
}

static weft_status note_merge(text_train_result *result, text_train_merge pair, weft_error *err)
{
    if (result->n_merges == result->merges_capacity) {
        size_t capacity = result->merges_capacity ? 2 * result->merges_capacity : 1024;
        text_train_merge *merges = weft_realloc(result->merges, capacity * sizeof *merges);
        if (!merges)
            return weft_fail_memory(err);
        result->merges = merges;
        result->merges_capacity = capacity;
    }
    result->merges[result->n_merges++] = pair;
    return WEFT_OK;
}

static weft_status merge(training *t, const text_train_candidate *top, weft_error *err)
{
    text_train_merge pair = {(uint32_t)(top->key >> 32), (uint32_t)top->key};
    int id = 0;
    weft_status status = join_tokens(t, pair, &id, err);
    if (!status)
        status = note_merge(t->result, pair, err);
    for (size_t i = 0; !status && i < top->places.n; i++)
        status = merge_word(t, top->places.words[i], pair, (uint32_t)id, err);
    return status ? status : text_train_pairs_queue(&t->pairs, err);
}

/* ---- the end ---- */

typedef struct ranked {
    uint64_t key;
    size_t rank;
} ranked;

static int by_key(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* A pair merged twice counts where it came last. */
static weft_status drop_repeats(text_train_result *result, weft_error *err)
{
    ranked *sorted = weft_alloc(result->n_merges * sizeof *sorted);
    bool *drop = weft_alloc_zero(result->n_merges, sizeof *drop);
    weft_status status = sorted && drop ? WEFT_OK : weft_fail_memory(err);
    if (status)
        goto done;
    for (size_t i = 0; i < result->n_merges; i++)
        sorted[i] = (ranked){(uint64_t)result->merges[i].left << 32 | result->merges[i].right, i};
    qsort(sorted, result->n_merges, sizeof *sorted, by_key);
    for (size_t i = 0; i + 1 < result->n_merges; i++)
        drop[sorted[i].rank] = sorted[i].key == sorted[i + 1].key;
    size_t kept = 0;
    for (size_t i = 0; i < result->n_merges; i++)
        if (!drop[i])
            result->merges[kept++] = result->merges[i];
    result->n_merges = kept;
done:
    weft_free(sorted);
    weft_free(drop);
    return status;
}

static weft_status merge_all(training *t, weft_error *err)
{
    const text_train_options *o = t->options;
    weft_status status = WEFT_OK;
    text_train_candidate top;
    for (size_t step = 0;
         !status && t->result->tokens.n < o->vocab_size && text_train_pairs_take(&t->pairs, &top);
         step++) {
        bool enough = top.count >= o->min_frequency;
        if (enough)
            status = merge(t, &top, err);
        weft_free(top.places.words);
        if (!enough)
            break;
        if (!status && o->progress && step % PROGRESS_EVERY == 0)
            status = o->progress(o->self, t->result->tokens.n, o->vocab_size, err);
    }
    return status;
}

weft_status text_train_bpe(const text_train_words *words, const text_train_options *options,
                           text_train_result *result, weft_error *err)
{
    training t = {.options = options, .result = result};
    weft_status status = start(&t, words, err);
    if (!status)
        status = merge_all(&t, err);
    if (!status)
        status = drop_repeats(result, err);
    for (size_t w = 0; !status && w < t.n_words; w++) {
        result->n_tokens += t.counts[w] * t.lengths[w];
        result->n_bytes += t.counts[w] * words->list[w].n;
    }
    weft_free(t.ids);
    weft_free(t.starts);
    weft_free(t.lengths);
    weft_free(t.counts);
    weft_free(t.token_bytes);
    text_train_pairs_release(&t.pairs);
    if (status)
        text_train_result_release(result);
    return status;
}

void text_train_result_release(text_train_result *result)
{
    text_train_tokens_release(&result->tokens);
    weft_free(result->merges);
    *result = (text_train_result){0};
}
