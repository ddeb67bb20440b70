/* SPDX-License-Identifier: Apache-2.0 */
/* One line for the log. */
#include "data.h"

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

static const char *plural(int64_t n, const char *one, const char *many)
{
    return n == 1 ? one : many;
}

/* "web/ 70.0 %" */
static void add_share(const text_plugin *text, const text_source *source, double total,
                      weft_text *out)
{
    weft_text_print(out, ", %s%s %.1f %%",
                    weft_params_word(text->host->params, source->key, source->first),
                    source->end - source->first > 1 ? " ..." : "", 100 * source->weight / total);
}

void text_describe(void *self, weft_text *out)
{
    const text_plugin *text = self;
    int64_t bytes = 0, n_files = 0, tokens = 0, held = 0, skipped = 0, documents = 0;
    double total = 0;
    if (!text->opened) {
        weft_text_add(out, "not opened");
        return;
    }
    for (size_t i = 0; i < text->n_sources; i++) {
        const text_source *source = &text->sources[i];
        bytes += source->cache.n_bytes;
        n_files += (int64_t)text_files_count(&source->files);
        tokens += source->cache.n_tokens;
        held += source->cache.n_tokens - source->n_train;
        skipped += source->cache.n_skipped;
        documents += source->cache.n_documents;
        total += source->weight;
    }
    add_bytes(out, bytes);
    weft_text_print(out, "%s, ", text->sources[0].bins.n ? "" : " text");
    add_number(out, n_files);
    weft_text_add(out, plural(n_files, " file, ", " files, "));
    add_number(out, tokens);
    weft_text_print(out, " tokens, %d vocabulary, ", text->tokenizer->vocab_size);
    if (held)
        weft_text_print(out, "%.3g %% held back", 100 * (double)held / (double)tokens);
    else
        weft_text_add(out, "nothing held back");
    if (text->reset_attention || text->reset_positions) {
        weft_text_add(out, ", ");
        add_number(out, documents);
        weft_text_add(out, plural(documents, " document kept apart", " documents kept apart"));
    }
    for (size_t i = 0; text->mix.n > 1 && i < text->mix.n; i++)
        add_share(text, &text->sources[i], total, out);
    if (skipped) {
        weft_text_add(out, ", ");
        add_number(out, skipped);
        weft_text_add(out, " skipped");
    }
}
