/* SPDX-License-Identifier: Apache-2.0 */
/* Samples as pure functions of (tokens, seq_len, seed, i).
 *
 * Training: the training tokens follow each other for ever, t_0 ... t_{T-1} t_0 ..., and window k holds seq_len ids from k * seq_len on, with the
 * next ids as labels. Windows tile that endless stream, so every token is a label once in each pass and none is ever left over; a window may reach
 * over the end of an epoch. Epoch e owns the windows that start in its pass, and shuffling permutes them.
 *
 * Validation: each token held back is a label once; the first one's id is the last training token. */
#include "text.h"

#include <string.h>

__extension__ typedef unsigned __int128 wide;

/* The first window that starts in epoch e: ceil(e * tokens / seq_len). */
static uint64_t epoch_first(wide epoch, uint64_t tokens, uint64_t seq_len)
{
    return (uint64_t)((epoch * tokens + seq_len - 1) / seq_len);
}

/* The first token of training sample i. */
static int64_t train_start(const text_plugin *text, uint64_t i)
{
    uint64_t tokens = (uint64_t)text->n_train, seq_len = (uint64_t)text->seq_len;
    if (text->shuffle) {
        uint64_t epoch = (uint64_t)((wide)i * seq_len / tokens);
        uint64_t first = epoch_first(epoch, tokens, seq_len), end = epoch_first((wide)epoch + 1, tokens, seq_len);
        i = first + weft_permute(text->seed, weft_hash_name("text shuffle") + epoch, end - first, i - first);
    }
    return (int64_t)((wide)i * seq_len % tokens);
}

/* ---- the service ---- */

static int64_t validation_tokens(const text_plugin *text)
{
    return text->cache.n_tokens - text->n_train;
}

static weft_status data_begin(void *self, int64_t seq_len, uint64_t seed, weft_error *err)
{
    text_plugin *text = self;
    weft_where at = weft_params_where(text->host->params, "path");
    if (!text->cache.map || seq_len < 1)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "text: begin(seq_len %lld) %s", (long long)seq_len,
                         text->cache.map ? "needs a positive length" : "before open");
    if (text->n_train <= seq_len) {
        const char *held = validation_tokens(text) ? " after holding back for validation" : "";
        return weft_fail(
            err, WEFT_ERR_INPUT, at,
            "too little data: %lld training tokens%s, and one window of [train] seq_len = %lld needs %lld; give more data or a shorter seq_len",
            (long long)text->n_train, held, (long long)seq_len, (long long)seq_len + 1);
    }
    text->seq_len = seq_len;
    text->seed = seed;
    return WEFT_OK;
}

static int64_t data_samples(void *self, weft_split split)
{
    const text_plugin *text = self;
    if (split == WEFT_SPLIT_TRAIN)
        return INT64_MAX;
    int64_t tokens = validation_tokens(text);
    return text->seq_len ? tokens / text->seq_len + (tokens % text->seq_len != 0) : 0;
}

/* The window of seq_len ids from token `at` on, of which `count` have a label; wraps within the first `wrap` tokens. */
static bool fill_window(const text_plugin *text, int64_t at, int64_t count, int64_t wrap, const weft_sample *out)
{
    const text_cache *cache = &text->cache;
    int32_t highest = 0;
    for (int64_t j = 0; j <= count && count > 0; j++) {
        int32_t token = text_cache_token(cache, at);
        highest = (uint32_t)token > (uint32_t)highest ? token : highest;
        if (j < count)
            out->ids[j] = token;
        if (j > 0)
            out->labels[j - 1] = token;
        if (++at == wrap)
            at = 0;
    }
    for (int64_t j = count; j < text->seq_len; j++) {
        out->ids[j] = 0;
        out->labels[j] = -1;
    }
    for (int64_t j = 0; j < text->seq_len; j++) {
        out->positions[j] = (int32_t)j;
        out->segments[j] = 0;
    }
    return (uint32_t)highest < (uint32_t)text->tokenizer->vocab_size;
}

static weft_status data_sample(void *self, weft_split split, int64_t i, const weft_sample *out, weft_error *err)
{
    const text_plugin *text = self;
    if (!text->seq_len || i < 0)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "text: sample %lld %s", (long long)i,
                         text->seq_len ? "does not exist" : "before begin");
    int64_t at, count = text->seq_len, wrap = text->n_train;
    if (split == WEFT_SPLIT_TRAIN) {
        at = train_start(text, (uint64_t)i);
    } else {
        bool beyond = i >= data_samples(self, split);                                      /* all padding: fills the last batch */
        int64_t first = beyond ? text->cache.n_tokens : text->n_train + i * text->seq_len; /* the first label */
        int64_t left = text->cache.n_tokens - first;
        count = left < count ? left : count;
        at = first - 1;
        wrap = text->cache.n_tokens; /* never read past it */
    }
    if (!fill_window(text, at, count, wrap, out))
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE,
                         "text: the token file is damaged (an id is not in the vocabulary); remove it: [text] cache%s%s",
                         text->host->cache_dir ? ", by default in " : "", text->host->cache_dir ? text->host->cache_dir : "");
    return WEFT_OK;
}

/* ---- for people ---- */

/* 4332496 as 4,332,496. */
static void add_number(weft_text *out, int64_t number)
{
    if (number >= 1000) {
        add_number(out, number / 1000);
        weft_text_print(out, ",%03d", (int)(number % 1000));
    } else {
        weft_text_print(out, "%d", (int)number);
    }
}

static void add_bytes(weft_text *out, int64_t bytes)
{
    static const char *const units[] = {"kB", "MB", "GB", "TB"};
    double size = (double)bytes / 1e3;
    int unit = 0;
    while (size >= 999.95 && unit < 3) {
        size /= 1e3;
        unit++;
    }
    if (bytes < 1000)
        weft_text_print(out, "%d bytes", (int)bytes);
    else
        weft_text_print(out, "%.1f %s", size, units[unit]);
}

static void data_describe(void *self, weft_text *out)
{
    const text_plugin *text = self;
    if (!text->cache.map) {
        weft_text_add(out, "not opened");
        return;
    }
    add_bytes(out, text->cache.n_bytes);
    weft_text_add(out, " text, ");
    add_number(out, (int64_t)text->files.n);
    weft_text_add(out, text->files.n == 1 ? " file, " : " files, ");
    add_number(out, text->cache.n_tokens);
    weft_text_print(out, " tokens, %d vocabulary, ", text->tokenizer->vocab_size);
    if (validation_tokens(text))
        weft_text_print(out, "%.3g %% held back", 100 * text->validation);
    else
        weft_text_add(out, "nothing held back");
    if (text->cache.n_skipped) {
        weft_text_add(out, ", ");
        add_number(out, text->cache.n_skipped);
        weft_text_add(out, " skipped");
    }
}

static uint64_t data_fingerprint(void *self)
{
    const text_plugin *text = self;
    return text->fingerprint;
}

const weft_data text_data_service = {
    .size = sizeof(weft_data),
    .begin = data_begin,
    .samples = data_samples,
    .sample = data_sample,
    .describe = data_describe,
    .fingerprint = data_fingerprint,
};
