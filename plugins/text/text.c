/* SPDX-License-Identifier: Apache-2.0 */
/* text: training data from files or folders of text and JSON Lines, tokenised once and packed. */
#include "text.h"

#include <string.h>

static const char *const formats[] = {"auto", "text", "jsonl", NULL};
static const char *const on_bad_choices[] = {"stop", "skip", NULL};
static const char *const utf8_choices[] = {"refuse", "replace", NULL};

static const weft_param params[] = {
    {.name = "path",
     .type = WEFT_PARAM_PATH,
     .flags = WEFT_PARAM_REQUIRED | WEFT_PARAM_LIST,
     .help = "Files, folders (walked; *.txt and *.jsonl) and patterns."},
    {.name = "format",
     .type = WEFT_PARAM_CHOICE,
     .value = "auto",
     .choices = formats,
     .help = "text: a file is a document; jsonl: a line is one; auto: by the name, .jsonl or not."},
    {.name = "field", .type = WEFT_PARAM_STRING, .value = "text", .help = "The field of a JSON line that holds the text."},
    {.name = "tokenizer",
     .type = WEFT_PARAM_CHOICE,
     .value = "bytes",
     .choices = text_tokenizer_names,
     .help = "bytes: ids 0 to 255 are bytes, 256 BOS, 257 EOS."},
    {.name = "bos", .type = WEFT_PARAM_BOOL, .value = "yes", .help = "Begin each document with the BOS id."},
    {.name = "eos", .type = WEFT_PARAM_BOOL, .value = "yes", .help = "End each document with the EOS id."},
    {.name = "shuffle", .type = WEFT_PARAM_BOOL, .value = "yes", .help = "Visit the windows of an epoch in an order drawn from [train] seed."},
    {.name = "validation",
     .type = WEFT_PARAM_REAL,
     .value = "0.05",
     .min = 0,
     .max = 0.5,
     .help = "The last part of the tokens, held back for validation."},
    {.name = "on_bad",
     .type = WEFT_PARAM_CHOICE,
     .value = "stop",
     .choices = on_bad_choices,
     .help = "What to do about a document that cannot be read."},
    {.name = "invalid_utf8",
     .type = WEFT_PARAM_CHOICE,
     .value = "refuse",
     .choices = utf8_choices,
     .help = "Text that is not UTF-8 is a bad document, or each wrong part becomes U+FFFD."},
    {.name = "cache",
     .type = WEFT_PARAM_PATH,
     .flags = WEFT_PARAM_PER_RANK,
     .help = "Folder for tokenised data; not set: tokens in the user's cache folder of weft."},
    {0},
};

static void text_destroy(void *self)
{
    weft_free(self);
}

static weft_status text_create(const weft_host *host, void **self, weft_error *err)
{
    const weft_params *p = host->params;
    const char *name = weft_params_text(p, "tokenizer");
    const text_tokenizer *tokenizer = text_tokenizer_find(name);
    if (!tokenizer)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "tokenizer"), "[text] tokenizer = %s is not known; it can be bytes", name);
    if (!*weft_params_text(p, "field"))
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "field"),
                         "[text] field is empty; name the field of a JSON line that holds the text");
    text_plugin *text = weft_alloc_zero(1, sizeof *text);
    if (!text)
        return weft_fail_memory(err);
    *text = (text_plugin){
        .host = host,
        .tokenizer = tokenizer,
        .format = weft_params_is(p, "format", "auto")    ? TEXT_AUTO
                  : weft_params_is(p, "format", "jsonl") ? TEXT_JSONL
                                                         : TEXT_PLAIN,
        .field = weft_params_text(p, "field"),
        .bos = weft_params_bool(p, "bos") && tokenizer->bos >= 0,
        .eos = weft_params_bool(p, "eos") && tokenizer->eos >= 0,
        .shuffle = weft_params_bool(p, "shuffle"),
        .skip_bad = weft_params_is(p, "on_bad", "skip"),
        .repair_utf8 = weft_params_is(p, "invalid_utf8", "replace"),
        .validation = weft_params_real(p, "validation"),
    };
    *self = text;
    return WEFT_OK;
}

static void text_close(void *self)
{
    text_plugin *text = self;
    text_cache_release(&text->cache);
    text_files_release(&text->files);
    text->seq_len = 0;
}

static weft_status text_open(void *self, weft_error *err)
{
    text_plugin *text = self;
    const weft_params *p = text->host->params;
    weft_status status = text_files_find(&text->files, p, text->format, err);
    if (!status)
        status = text_cache_open(&text->cache, text, &text->files, err);
    if (!status && !text->cache.n_tokens)
        status = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "path"), "no text in %zu file%s%s", text->files.n, text->files.n == 1 ? "" : "s",
                           text->cache.n_skipped ? ": every document was skipped" : ": all empty");
    if (status) {
        text_close(text);
        return status;
    }
    int64_t held = (int64_t)((double)text->cache.n_tokens * text->validation);
    text->n_train = text->cache.n_tokens - held;
    text->fingerprint = text_fingerprint(text, &text->files);
    return WEFT_OK;
}

static const char *const gives_data[] = {"data", NULL};
static const char *const gives_tokenizer[] = {"tokenizer", NULL};

static const weft_contribution contributions[] = {
    {.kind = WEFT_SERVICE, .gives = gives_data, .service = "data", .table = &text_data_service},
    {.kind = WEFT_SERVICE, .gives = gives_tokenizer, .service = "tokenizer", .table = &text_tokenizer_service},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(text) = {
    WEFT_PLUGIN_HEAD,
    .name = "text",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "training data from files or folders of text and JSON Lines, tokenised once and packed",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .contributions = contributions,
    .create = text_create,
    .open = text_open,
    .close = text_close,
    .destroy = text_destroy,
};
