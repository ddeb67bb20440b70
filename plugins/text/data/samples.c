/* SPDX-License-Identifier: Apache-2.0 */
/* Samples as pure functions of (tokens, seq_len, seed, i).
 *
 * Training: a source's training tokens follow each other for ever, t_0 ... t_{T-1} t_0 ..., and
 * window k holds seq_len ids from k * seq_len on, with the next ids as labels. Windows tile that
 * endless stream, so every token is a label once in each pass and none is ever left over; a window
 * may reach over the end of an epoch. Epoch e owns the windows that start in its pass, and
 * shuffling permutes them.
 *
 * Validation: each token held back is a label once, source after source; the first one's id is the
 * last training token of its source. */
#include "data.h"

#include <string.h>

__extension__ typedef unsigned __int128 wide;

/* The first window that starts in epoch e: ceil(e * tokens / seq_len). */
static uint64_t epoch_first(wide epoch, uint64_t tokens, uint64_t seq_len)
{
    return (uint64_t)((epoch * tokens + seq_len - 1) / seq_len);
}

/* The first token of training sample i of source s. */
static int64_t train_start(const text_plugin *text, size_t s, uint64_t i)
{
    uint64_t tokens = (uint64_t)text->sources[s].n_train, seq_len = (uint64_t)text->seq_len;
    if (text->shuffle) {
        uint64_t epoch = (uint64_t)((wide)i * seq_len / tokens);
        uint64_t first = epoch_first(epoch, tokens, seq_len),
                 end = epoch_first((wide)epoch + 1, tokens, seq_len);
        uint64_t stream = s ? weft_random_bits(weft_hash_name("text source"), s, epoch)
                            : weft_hash_name("text shuffle") + epoch;
        i = first + weft_permute(text->seed, stream, end - first, i - first);
    }
    return (int64_t)((wide)i * seq_len % tokens);
}

/* ---- documents ---- */

/* Where document d begins, and behind the last one where the tokens end. */
static weft_status document_start(const text_cache *cache, int64_t d, int64_t *at, weft_error *err)
{
    if (d >= cache->n_documents) {
        *at = cache->n_tokens;
        return WEFT_OK;
    }
    weft_status status = text_cache_check(cache, &cache->offsets[d], sizeof *cache->offsets, err);
    *at = status ? 0 : (int64_t)cache->offsets[d];
    return status;
}

/* The document that holds token `at`. */
static weft_status find_document(const text_cache *cache, int64_t at, int64_t *document,
                                 weft_error *err)
{
    weft_status status = WEFT_OK;
    int64_t low = 0, high = cache->n_documents;
    while (!status && high - low > 1) {
        int64_t middle = low + (high - low) / 2, start;
        status = document_start(cache, middle, &start, err);
        if (start <= at)
            low = middle;
        else
            high = middle;
    }
    *document = low;
    return status;
}

/* Numbers documents from 0 in the window that begins with token `at`, and counts positions in each
 * from 0. */
static weft_status split_window(const text_plugin *text, const text_source *source, int64_t at,
                                int64_t count, int64_t wrap, const weft_sample *out,
                                weft_error *err)
{
    const text_cache *cache = &source->cache;
    int64_t document, next = 0;
    int32_t segment = 0, position = 0;
    weft_status status = find_document(cache, at, &document, err);
    if (!status)
        status = document_start(cache, document + 1, &next, err);
    for (int64_t j = 0; !status && j < count; j++, at++, position++) {
        bool again = at == wrap;
        if (again) {
            at = 0;
            document = -1;
        }
        if (again || at == next) {
            document++;
            status = document_start(cache, document + 1, &next, err);
            segment++;
            position = 0;
        }
        out->segments[j] = text->reset_attention ? segment : 0;
        out->positions[j] = text->reset_positions ? position : (int32_t)j;
    }
    return status;
}

/* ---- windows ---- */

/* Ids from token `at` on, and as labels those behind them; `count` pairs, at most wrap. Begins
 * again at 0 behind token wrap - 1. */
static weft_status read_window(const text_source *source, int64_t at, int64_t count, int64_t wrap,
                               const weft_sample *out, weft_error *err)
{
    int64_t until = wrap - at < count ? wrap - at : count,
            last = at + count < wrap ? at + count : at + count - wrap;
    weft_status status = text_source_read(source, at, until, out->ids, err);
    if (!status)
        status = text_source_read(source, 0, count - until, out->ids + until, err);
    if (!status)
        status = text_source_read(source, last, 1, out->labels + count - 1, err);
    if (!status && count > 1)
        memcpy(out->labels, out->ids + 1, (size_t)(count - 1) * sizeof *out->labels);
    return status;
}

/* The window of seq_len ids from token `at` on, of which `count` have a label. */
static weft_status fill_window(const text_plugin *text, const text_source *source, int64_t at,
                               int64_t count, int64_t wrap, const weft_sample *out, weft_error *err)
{
    weft_status status = count > 0 ? read_window(source, at, count, wrap, out, err) : WEFT_OK;
    for (int64_t j = 0; j < text->seq_len; j++) {
        out->positions[j] = (int32_t)j;
        out->segments[j] = 0;
    }
    if (!status && count > 0 && (text->reset_attention || text->reset_positions))
        status = split_window(text, source, at, count, wrap, out, err);
    for (int64_t j = count; j < text->seq_len; j++) {
        out->ids[j] = 0;
        out->labels[j] = -1;
        out->segments[j] = text->reset_attention ? -1 : 0; /* padding is no part of a document */
    }
    return status;
}

/* ---- the service ---- */

/* Tokens of a source that are labels in validation: all that are held back, if one is before them.
 */
static int64_t held_back(const text_source *source)
{
    return source->cache.n_tokens - source->n_train - (source->n_train == 0);
}

static int64_t validation_windows(const text_plugin *text, const text_source *source)
{
    int64_t tokens = held_back(source);
    return text->seq_len ? tokens / text->seq_len + (tokens % text->seq_len != 0) : 0;
}

static weft_status check_length(const text_plugin *text, const text_source *source, int64_t seq_len,
                                weft_error *err)
{
    weft_where at = weft_params_where(text->host->params, source->key);
    if (source->weight == 0 || source->n_train > seq_len)
        return WEFT_OK;
    return weft_fail(
        err, WEFT_ERR_INPUT, at,
        "too little data%s%s: %lld training tokens%s, and one window of [train] seq_len = %lld "
        "needs %lld; give more data or a shorter seq_len",
        text->mix.n > 1 ? " in " : "",
        text->mix.n > 1 ? weft_params_word(text->host->params, source->key, source->first) : "",
        (long long)source->n_train, held_back(source) ? " after holding back for validation" : "",
        (long long)seq_len, (long long)seq_len + 1);
}

static weft_status data_begin(void *self, int64_t seq_len, uint64_t seed, weft_error *err)
{
    text_plugin *text = self;
    weft_status status = WEFT_OK;
    if (!text->opened || seq_len < 1)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "text: begin(seq_len %lld) %s",
                         (long long)seq_len,
                         text->opened ? "needs a positive length" : "before open");
    for (size_t i = 0; i < text->n_sources; i++) {
        weft_status now = check_length(text, &text->sources[i], seq_len, err);
        status = status ? status : now;
    }
    if (status)
        return status;
    text->seq_len = seq_len;
    text->seed = seed;
    return WEFT_OK;
}

static int64_t data_samples(void *self, weft_split split)
{
    const text_plugin *text = self;
    int64_t n = 0;
    if (split == WEFT_SPLIT_TRAIN)
        return INT64_MAX;
    for (size_t i = 0; i < text->n_sources; i++)
        n += validation_windows(text, &text->sources[i]);
    return n;
}

static weft_status validation_sample(const text_plugin *text, int64_t i, const weft_sample *out,
                                     weft_error *err)
{
    const text_source *source = text->sources, *end = source + text->n_sources;
    while (source < end && i >= validation_windows(text, source))
        i -= validation_windows(text, source++);
    if (source == end) /* all padding: fills the last batch */
        return fill_window(text, text->sources, 0, 0, 1, out, err);
    int64_t tokens = source->cache.n_tokens,
            first = tokens - held_back(source) + i * text->seq_len; /* the first label */
    int64_t count = tokens - first < text->seq_len ? tokens - first : text->seq_len;
    return fill_window(text, source, first - 1, count, tokens, out, err);
}

static weft_status data_sample(void *self, weft_split split, int64_t i, const weft_sample *out,
                               weft_error *err)
{
    const text_plugin *text = self;
    if (!text->seq_len || i < 0)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "text: sample %lld %s", (long long)i,
                         text->seq_len ? "does not exist" : "before begin");
    if (split != WEFT_SPLIT_TRAIN)
        return validation_sample(text, i, out, err);
    size_t s;
    uint64_t k;
    text_mix_place(&text->mix, text->seed, (uint64_t)i, &s, &k);
    const text_source *source = &text->sources[s];
    return fill_window(text, source, train_start(text, s, k), text->seq_len, source->n_train, out,
                       err);
}

static uint64_t data_fingerprint(void *self)
{
    const text_plugin *text = self;
    return text->fingerprint;
}

static bool data_one_document(void *self)
{
    return !((const text_plugin *)self)->reset_attention;
}

const weft_data text_data_service = {
    .size = sizeof(weft_data),
    .begin = data_begin,
    .samples = data_samples,
    .sample = data_sample,
    .describe = text_describe,
    .fingerprint = data_fingerprint,
    .one_document = data_one_document,
};
