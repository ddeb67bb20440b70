/* SPDX-License-Identifier: Apache-2.0 */
/* Sources of data: the words of the INI, their files, and their tokens. */
#include "data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- words ---- */

static weft_status add_source(text_plugin *text, const char *key, int first, int end, double weight,
                              weft_error *err)
{
    if (text->n_sources == TEXT_SOURCES_MAX)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(text->host->params, key),
                         "[text] has more than %d sources", TEXT_SOURCES_MAX);
    text->sources[text->n_sources++] =
        (text_source){.key = key, .first = first, .end = end, .weight = weight};
    return WEFT_OK;
}

static int count_words(const weft_params *p, const char *key)
{
    int n = 0;
    while (weft_params_word(p, key, n))
        n++;
    return n;
}

/* A word that is a number, with or without a comma behind it, is a weight; a file of that name is
 * written ./0.5. */
static bool read_weight(const char *word, double *weight)
{
    char *end;
    if (!strchr("0123456789.+-", *word) || !strcspn(word, ",") ||
        (word[0] == '.' && word[1] == '/'))
        return false;
    *weight = strtod(word, &end);
    return end > word && (!*end || (*end == ',' && !end[1]));
}

/* "a.jsonl 0.7, folder/ b.txt 0.3": files, then their weight. */
static weft_status read_mix(text_plugin *text, weft_error *err)
{
    const weft_params *p = text->host->params;
    weft_where at = weft_params_where(p, "mix");
    weft_status status = WEFT_OK;
    int first = 0, n = count_words(p, "mix");
    for (int i = 0; !status && i < n; i++) {
        double weight;
        const char *word = weft_params_word(p, "mix", i);
        if (!read_weight(word, &weight))
            continue;
        if (i == first)
            return weft_fail(err, WEFT_ERR_INPUT, at,
                             "[text] mix has the weight %s without files before it; write files "
                             "and then their weight: %s",
                             word, "mix = web/ 0.7, books/ 0.3");
        if (!(weight > 0) || !isfinite(weight))
            return weft_fail(err, WEFT_ERR_INPUT, at,
                             "[text] mix has the weight %s; it should be more than 0", word);
        status = add_source(text, "mix", first, i, weight, err);
        first = i + 1;
    }
    if (!status && (first < n || !n))
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "[text] mix gives no weight for %s; write files and then their weight: "
                         "mix = web/ 0.7, books/ 0.3",
                         n ? weft_params_word(p, "mix", n - 1) : "any file");
    return status;
}

weft_status text_sources_init(text_plugin *text, weft_error *err)
{
    const weft_params *p = text->host->params;
    bool path = weft_params_given(p, "path"), mix = weft_params_given(p, "mix");
    if (text->host->no_data && !path && !mix)
        return WEFT_OK;
    if (!path && !mix)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "mix"),
                         "[text] path must be set: files, folders or patterns of text to train on "
                         "(or mix, for several sources with weights)");
    text->sources = weft_alloc_zero(TEXT_SOURCES_MAX, sizeof *text->sources);
    if (!text->sources)
        return weft_fail_memory(err);
    weft_status status =
        path ? add_source(text, "path", 0, count_words(p, "path"), 1, err) : read_mix(text, err);
    if (!status && weft_params_given(p, "validation_path"))
        status = add_source(text, "validation_path", 0, count_words(p, "validation_path"), 0, err);
    if (!status)
        text_mix_init(&text->mix, text->sources, text->n_sources);
    return status;
}

void text_sources_release(text_plugin *text)
{
    text_sources_close(text);
    weft_free(text->sources);
    text->sources = NULL;
    text->n_sources = 0;
}

/* ---- files and tokens ---- */

static weft_status open_source(text_source *source, const text_plugin *text, weft_error *err)
{
    weft_where at = weft_params_where(text->host->params, source->key);
    weft_status status = text_bins_open(&source->bins, text, &source->files, err);
    if (!status)
        status = text_cache_open(source, text, err);
    if (status)
        return status;
    size_t n = text_files_count(&source->files);
    if (!source->cache.n_tokens)
        return weft_fail(err, WEFT_ERR_INPUT, at, "no text in %zu file%s%s", n, n == 1 ? "" : "s",
                         source->cache.n_skipped ? ": every document was skipped" : ": all empty");
    double held = weft_params_given(text->host->params, "validation_path") &&
                          !weft_params_given(text->host->params, "validation")
                      ? 0
                      : text->validation;
    source->n_train = source->weight > 0 ? source->cache.n_tokens -
                                               (int64_t)((double)source->cache.n_tokens * held)
                                         : 0;
    return WEFT_OK;
}

weft_status text_sources_open(text_plugin *text, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < text->n_sources; i++) { /* every wrong word of all of them first */
        text_source *source = &text->sources[i];
        weft_status now = text_files_find(&source->files, text->host->params, source->key,
                                          source->first, source->end, text->format, err);
        status = status ? status : now;
    }
    for (size_t i = 0; !status && i < text->n_sources; i++)
        status = open_source(&text->sources[i], text, err);
    if (status)
        text_sources_close(text);
    return status;
}

void text_sources_close(text_plugin *text)
{
    for (size_t i = 0; i < text->n_sources; i++) {
        text_cache_release(&text->sources[i].cache);
        text_bins_release(&text->sources[i].bins);
        text_files_release(&text->sources[i].files);
    }
}

weft_status text_source_read(const text_source *source, int64_t at, int64_t n, int32_t *ids,
                             weft_error *err)
{
    const text_cache *cache = &source->cache;
    if (!cache->width)
        return text_bins_read(&source->bins, at, n, ids, err);
    weft_status status =
        text_cache_check(cache, (const char *)cache->tokens + at * (int64_t)cache->width,
                         (size_t)n * cache->width, err);
    for (int64_t i = 0; !status && i < n; i++)
        ids[i] = text_cache_token(cache, at + i);
    return status;
}
