/* SPDX-License-Identifier: Apache-2.0 */
/* weft tokenize --train: count words on all threads, merge, write. */
#include "../training/train.h"
#include "../tokenizer/tiktoken.h"
#include "command.h"

#include <weft/files.h>

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const default_special[] = {"<|endoftext|>", NULL};

typedef struct counter {
    text_train_words words;
    int64_t skipped; /* words that are too long */
    const tokenize_options *o;
} counter;

typedef struct train {
    const tokenize_options *o;
    const weft_command_host *host;
    const char *const *special;
    int n_special;
    const char *pattern, *bos, *eos;
    char *path, *folder;
    bool made; /* the folder */
    tokenizer *cutter;
    tokenize_files files;
    counter *counters;
    void **own;
    text_train_result result;
} train;

/* ---- before ---- */

static size_t characters(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

static bool is_special(const train *t, const char *token)
{
    for (int i = 0; i < t->n_special; i++)
        if (!strcmp(t->special[i], token))
            return true;
    return false;
}

static weft_status check_special(train *t, weft_error *err)
{
    const tokenize_options *o = t->o;
    weft_status status = WEFT_OK;
    t->special = o->n_special ? (const char *const *)o->special : default_special;
    for (t->n_special = 0; t->special[t->n_special]; t->n_special++) {
        const char *token = t->special[t->n_special];
        if (is_special(t, token))
            status =
                weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "--special %s is given twice", token);
        if (characters(token) < 2)
            status = weft_fail(
                err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                "--special %s: one character cannot be told from text; give a longer token", token);
    }
    t->bos = o->bos ? o->bos : t->special[0];
    t->eos = o->eos ? o->eos : t->special[0];
    if (!is_special(t, t->bos) || !is_special(t, t->eos))
        status = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                           "%s %s is not one of the special tokens; name it in --special, too",
                           is_special(t, t->bos) ? "--eos" : "--bos",
                           is_special(t, t->bos) ? t->eos : t->bos);
    if (o->vocab_size < 256 + t->n_special)
        status =
            weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "--vocab-size %d is too small: %d special tokens and 256 bytes come first",
                      o->vocab_size, t->n_special);
    return status;
}

/* --out is a folder, or the file if it ends in .json. */
static weft_status find_place(train *t, weft_error *err)
{
    const char *out = t->o->out;
    size_t n = strlen(out);
    bool file = n > 5 && !strcmp(out + n - 5, ".json");
    const char *slash = file ? strrchr(out, '/') : NULL;
    t->path = file ? weft_strdup(out) : weft_format("%s/tokenizer.json", out);
    t->folder = file ? (slash ? weft_format("%.*s", (int)(slash - out), out) : weft_strdup("."))
                     : weft_strdup(out);
    if (!t->path || !t->folder)
        return weft_fail_memory(err);
    if (!t->o->overwrite && !access(t->path, F_OK))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "%s is there already; give --overwrite to write over it, or another --out",
                         t->path);
    return WEFT_OK;
}

static weft_status make_folder(train *t, weft_error *err)
{
    t->made = *t->folder && access(t->folder, F_OK);
    weft_status status = *t->folder ? weft_make_dirs(t->folder, err) : WEFT_OK;
    if (!status && *t->folder && access(t->folder, W_OK))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "cannot write to %s: %s", t->folder,
                         strerror(errno));
    return status;
}

/* A tokenizer of bytes alone, which cuts words by the pattern. */
static weft_status make_cutter(train *t, weft_error *err)
{
    text_train_words none = {0};
    text_train_options options = {0};
    text_train_result bytes = {0};
    weft_text json = {0};
    const char *pattern = t->o->pattern ? t->o->pattern : "llama3";
    t->pattern = strcmp(pattern, "gpt2") ? tokenizer_pattern(pattern) : NULL;
    text_train_files files = {.pattern = t->pattern};
    weft_status status = text_train_bpe(&none, &options, &bytes, err);
    if (!status)
        status = text_train_json(&bytes, &files, &json, err);
    if (!status)
        status = tokenizer_parse("--pattern", json.data, json.size, &t->cutter, err);
    text_train_result_release(&bytes);
    weft_text_release(&json);
    return status;
}

static weft_status prepare(train *t, weft_error *err)
{
    weft_status status = check_special(t, err);
    weft_status others[] = {find_place(t, err), make_cutter(t, err),
                            tokenize_files_find(&t->files, t->o, err)};
    for (int i = 0; i < 3; i++)
        status = status ? status : others[i];
    if (status)
        return status;
    size_t n = (size_t)t->o->threads;
    t->counters = weft_alloc_zero(n, sizeof *t->counters);
    t->own = weft_alloc_zero(n, sizeof *t->own);
    if (!t->counters || !t->own)
        return weft_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        t->counters[i].o = t->o;
        t->own[i] = &t->counters[i];
    }
    return make_folder(t, err);
}

/* ---- counting ---- */

static weft_status add_word(void *self, const char *word, size_t n, weft_error *err)
{
    counter *c = self;
    if ((int64_t)n > c->o->max_word) {
        c->skipped++;
        return WEFT_OK;
    }
    return text_train_words_add(&c->words, word, n, 1, err);
}

static weft_status count_piece(tokenize_worker *w, tokenize_task *task, size_t i, const char *text,
                               size_t n, weft_error *err)
{
    (void)task;
    (void)i;
    return tokenizer_words(w->job->tokenizer, w->scratch, text, n, TOKENIZER_NO_SPECIAL, add_word,
                           w->own, err);
}

static weft_status take(void *self, tokenize_task *task, weft_error *err)
{
    (void)self;
    (void)task;
    (void)err;
    return WEFT_OK;
}

static weft_status count(train *t, weft_error *err)
{
    tokenize_job job = {.host = t->host,
                        .options = t->o,
                        .tokenizer = t->cutter,
                        .files = &t->files,
                        .piece = count_piece,
                        .take = take,
                        .own = t->own,
                        .doing = "counting words"};
    weft_status status = tokenize_run(&job, err);
    counter *first = &t->counters[0];
    for (int i = 1; !status && i < t->o->threads; i++) {
        first->skipped += t->counters[i].skipped;
        status = text_train_words_join(&first->words, &t->counters[i].words, err);
    }
    if (!status && !first->words.n)
        status = weft_fail(
            err, WEFT_ERR_INPUT, WEFT_NOWHERE,
            first->skipped
                ? "there is no text to train on: every word has more bytes than --max-word"
                : "there is no text to train on");
    if (!status && first->skipped)
        weft_log_print(t->host->log, WEFT_LOG_WARN,
                       "%lld words of more than %lld bytes are left out (--max-word)",
                       (long long)first->skipped, (long long)t->o->max_word);
    return status;
}

/* ---- merging ---- */

static weft_status show_merges(void *self, int tokens, int vocab_size, weft_error *err)
{
    const train *t = self;
    (void)err;
    if (t->host->terminal)
        weft_log_print(t->host->log, WEFT_LOG_INFO, "\rmerging: %d of %d ids (%d %%)", tokens,
                       vocab_size, (int)(100.0 * tokens / vocab_size));
    return WEFT_OK;
}

static weft_status merge_and_write(train *t, weft_error *err)
{
    const tokenize_options *o = t->o;
    text_train_options options = {.vocab_size = o->vocab_size,
                                  .min_frequency = (uint64_t)o->min_frequency,
                                  .max_token = (uint32_t)o->max_token,
                                  .special = t->special,
                                  .n_special = t->n_special,
                                  .progress = show_merges,
                                  .self = t};
    text_train_files files = {.path = t->path,
                              .pattern = t->pattern,
                              .special = t->special,
                              .n_special = t->n_special,
                              .bos = t->bos,
                              .eos = t->eos,
                              .max_length = o->max_length};
    weft_status status = text_train_bpe(&t->counters[0].words, &options, &t->result, err);
    if (!status)
        status = text_train_write(&t->result, &files, err);
    weft_log_print(t->host->log, WEFT_LOG_INFO, "\r");
    if (status)
        return status;
    if (t->result.tokens.n < o->vocab_size)
        weft_log_print(t->host->log, WEFT_LOG_WARN,
                       "the text gives only %d ids: no pair is left that comes %lld times",
                       t->result.tokens.n,
                       (long long)(o->min_frequency > 1 ? o->min_frequency : 1));
    weft_log_print(t->host->log, WEFT_LOG_INFO,
                   "%s: %d ids, %zu merges, from %zu distinct words; %.2f bytes a token", t->path,
                   t->result.tokens.n, t->result.n_merges, t->counters[0].words.n,
                   (double)t->result.n_bytes / (double)t->result.n_tokens);
    return WEFT_OK;
}

weft_status tokenize_train(const weft_command_host *host, const tokenize_options *o,
                           weft_error *err)
{
    train t = {.o = o, .host = host};
    weft_status status = prepare(&t, err);
    if (!status)
        status = count(&t, err);
    if (!status)
        status = merge_and_write(&t, err);
    if (status && t.made)
        rmdir(t.folder); /* only if it is empty */
    for (int i = 0; t.counters && i < o->threads; i++)
        text_train_words_release(&t.counters[i].words);
    weft_free(t.counters);
    weft_free(t.own);
    text_train_result_release(&t.result);
    tokenize_files_release(&t.files);
    tokenizer_destroy(t.cutter);
    weft_free(t.path);
    weft_free(t.folder);
    return status;
}
