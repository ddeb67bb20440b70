/* SPDX-License-Identifier: Apache-2.0 */
/* text: training data from files or folders of text and JSON Lines, tokenised once and packed. */
#include "text.h"
#include "command/command.h"

#include <string.h>

static const char *const formats[] = {"auto", "text", "jsonl", "bin", NULL};
static const char *const dtypes[] = {"auto", "uint16", "uint32", NULL};
static const char *const resets[] = {"attention", "positions", NULL};
static const char *const on_bad_choices[] = {"stop", "skip", NULL};
static const char *const utf8_choices[] = {"refuse", "replace", NULL};

static const weft_param params[] = {
    {.name = "path",
     .type = WEFT_PARAM_PATH,
     .flags = WEFT_PARAM_LIST,
     .help = "Files, folders (walked; *.txt, *.jsonl, also .gz and .zst, and *.bin) and patterns. "
             "This or mix is needed."},
    {.name = "mix",
     .type = WEFT_PARAM_STRING,
     .flags = WEFT_PARAM_LIST | WEFT_PARAM_FILE,
     .refuses = "text.path",
     .help = "Several sources instead of path: files and then their weight, as in web/ 0.7, books/ "
             "0.3."},
    {.name = "validation_path",
     .type = WEFT_PARAM_PATH,
     .flags = WEFT_PARAM_LIST,
     .help = "Files that are for validation only; then nothing is held back of the others unless "
             "validation is given."},
    {.name = "format",
     .type = WEFT_PARAM_CHOICE,
     .value = "auto",
     .choices = formats,
     .help = "text: a file is a document; jsonl: a line is one; bin: a file holds tokens; auto: by "
             "the name."},
    {.name = "bin_dtype",
     .type = WEFT_PARAM_CHOICE,
     .value = "auto",
     .choices = dtypes,
     .help = "Tokens in .bin files that have neither header nor .idx; auto: uint16 if the "
             "vocabulary fits."},
    {.name = "field",
     .type = WEFT_PARAM_STRING,
     .value = "text",
     .help = "The field of a JSON line that holds the text."},
    {.name = "tokenizer",
     .type = WEFT_PARAM_PATH,
     .value = "bytes",
     .help = "A tokenizer.json or a rank file; bytes: ids 0 to 255 are bytes, 256 BOS, 257 EOS."},
    {.name = "pattern",
     .type = WEFT_PARAM_STRING,
     .help = "For a rank file: how words are cut, by name (gpt2, llama3, qwen2, o200k) or an "
             "expression."},
    {.name = "special",
     .type = WEFT_PARAM_STRING,
     .flags = WEFT_PARAM_LIST,
     .help = "For a rank file: its special tokens, as NAME=ID; without =ID the next free one."},
    {.name = "bos",
     .type = WEFT_PARAM_STRING,
     .value = "yes",
     .help = "Begin each document with this token; yes: the tokenizer's own BOS, no: with none."},
    {.name = "eos",
     .type = WEFT_PARAM_STRING,
     .value = "yes",
     .help = "End each document with this token; yes: the tokenizer's own EOS, no: with none."},
    {.name = "reset",
     .type = WEFT_PARAM_CHOICE,
     .flags = WEFT_PARAM_LIST,
     .choices = resets,
     .help = "What begins anew with each document in a sample: attention does not cross documents, "
             "positions count from 0."},
    {.name = "shuffle",
     .type = WEFT_PARAM_BOOL,
     .value = "yes",
     .help = "Visit the windows of an epoch in an order drawn from [train] seed."},
    {.name = "validation",
     .type = WEFT_PARAM_REAL,
     .value = "0.05",
     .min = 0,
     .max = 0.5,
     .help = "The last part of the tokens of every source, held back for validation."},
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
    text_plugin *text = self;
    text_sources_release(text);
    text_tokenizer_close(text->tokenizer);
}

static bool resets_what(const weft_params *p, const char *what)
{
    const char *word;
    for (int i = 0; (word = weft_params_word(p, "reset", i)); i++)
        if (!strcmp(word, what))
            return true;
    return false;
}

static weft_status text_create(void *self, weft_error *err)
{
    text_plugin *text = self;
    const weft_host *host = text->host;
    const weft_params *p = host->params;
    if (!*weft_params_text(p, "field"))
        return weft_fail(
            err, WEFT_ERR_INPUT, weft_params_where(p, "field"),
            "[text] field is empty; name the field of a JSON line that holds the text");
    *text = (text_plugin){
        .host = host,
        .format = weft_params_is(p, "format", "auto")    ? TEXT_AUTO
                  : weft_params_is(p, "format", "jsonl") ? TEXT_JSONL
                  : weft_params_is(p, "format", "bin")   ? TEXT_BIN
                                                         : TEXT_PLAIN,
        .field = weft_params_text(p, "field"),
        .shuffle = weft_params_bool(p, "shuffle"),
        .skip_bad = weft_params_is(p, "on_bad", "skip"),
        .repair_utf8 = weft_params_is(p, "invalid_utf8", "replace"),
        .reset_attention = resets_what(p, "attention"),
        .reset_positions = resets_what(p, "positions"),
        .bin_width = weft_params_is(p, "bin_dtype", "uint16")   ? 2
                     : weft_params_is(p, "bin_dtype", "uint32") ? 4
                                                                : 0,
        .validation = weft_params_real(p, "validation"),
    };
    weft_status status = text_tokenizer_open(&text->tokenizer, p, err);
    if (!status) {
        text->bos = text->tokenizer->bos >= 0;
        text->eos = text->tokenizer->eos >= 0;
        status = text_sources_init(text, err);
    }
    return status;
}

static void text_close(void *self)
{
    text_plugin *text = self;
    text_sources_close(text);
    text->opened = false;
    text->seq_len = 0;
}

static weft_status text_open(void *self, weft_error *err)
{
    text_plugin *text = self;
    if (text->host->no_data)
        return WEFT_OK;
    weft_status status = text_sources_open(text, err);
    if (status)
        return status;
    text->opened = true;
    text->fingerprint = text_fingerprint(text);
    return WEFT_OK;
}

static const weft_contribution contributions[] = {
    {.kind = WEFT_SERVICE, .service = "data", .table = &text_data_service},
    {.kind = WEFT_SERVICE, .service = "tokenizer", .table = &text_tokenizer_service},
    {.kind = WEFT_COMMAND, .command = &text_command},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(text) = {
    WEFT_PLUGIN_HEAD,
    .name = "text",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary =
        "training data from files or folders of text and JSON Lines, tokenised once and packed",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(text_plugin),
    .create = text_create,
    .open = text_open,
    .close = text_close,
    .destroy = text_destroy,
};
