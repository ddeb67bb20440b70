/* SPDX-License-Identifier: Apache-2.0 */
/* The run's tokenizer, built in or from a file. */
#include "text_tokenizer.h"
#include "config.h"
#include "tiktoken.h"
#include "utf8.h"

#include <pthread.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct text_tokenizer_file {
    tokenizer *t;
    pthread_mutex_t lock;
    tokenizer_scratch *scratch; /* of prompts; under lock */
    char *paths[3];             /* NULL-ended */
};

/* ---- bytes: ids 0..255 are the bytes of the UTF-8 text ---- */

enum { BYTES_BOS = 256, BYTES_EOS = 257, BYTES_VOCAB = 258 };

static weft_status bytes_encode(const char *text, size_t n, int32_t **ids, size_t *n_ids,
                                size_t *capacity, weft_error *err)
{
    if (n > SIZE_MAX / sizeof(int32_t) / 2 - *n_ids)
        return weft_fail_memory(err);
    if (*n_ids + n > *capacity) {
        size_t room = *n_ids + n > 2 * *capacity ? *n_ids + n : 2 * *capacity;
        int32_t *grown = weft_realloc(*ids, room * sizeof *grown);
        if (!grown)
            return weft_fail_memory(err);
        *ids = grown;
        *capacity = room;
    }
    for (size_t i = 0; i < n; i++)
        (*ids)[*n_ids + i] = (unsigned char)text[i];
    *n_ids += n;
    return WEFT_OK;
}

static weft_status bytes_decode(const int32_t *ids, size_t n, weft_text *out, weft_error *err)
{
    for (size_t i = 0; i < n; i++) {
        char byte = (char)ids[i];
        if (ids[i] < 0 || ids[i] >= BYTES_VOCAB)
            return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                             "cannot decode id %d: tokenizer bytes has ids 0 to %d", (int)ids[i],
                             BYTES_VOCAB - 1);
        if (ids[i] < 256)
            weft_text_add_bytes(out, &byte, 1);
    }
    return out->out_of_memory ? weft_fail_memory(err) : WEFT_OK;
}

/* ---- opening ---- */

static bool is_one_of(const char *text, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (!strcasecmp(words[i], text))
            return true;
    return false;
}

static bool says_no(const weft_params *p, const char *key)
{
    static const char *const no[] = {"no", "false", "off", "0", NULL};
    return is_one_of(weft_params_text(p, key), no);
}

static bool says_yes(const weft_params *p, const char *key)
{
    static const char *const yes[] = {"yes", "true", "on", "1", NULL};
    return is_one_of(weft_params_text(p, key), yes);
}

/* The id of bos or eos: the token that the INI names, else the one of tokenizer_config.json. */
static weft_status choose_id(const tokenizer *t, const weft_params *p, const char *key,
                             const tokenizer_config *config, int *id, weft_error *err)
{
    const char *named = weft_params_text(p, key), *path = weft_params_text(p, "tokenizer");
    const tokenizer_config_token *known = !strcmp(key, "bos") ? &config->bos : &config->eos;
    *id = -1;
    if (says_no(p, key))
        return WEFT_OK;
    if (!says_yes(p, key)) {
        *id = tokenizer_find(t, named, strlen(named));
        return *id >= 0
                   ? WEFT_OK
                   : weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, key),
                               "[text] %s = %s: %s has no such token; name one, or no for none",
                               key, named, path);
    }
    if (known->state == TOKENIZER_CONFIG_NONE)
        return WEFT_OK;
    if (known->state == TOKENIZER_CONFIG_MISSING)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, key),
                         "which token is %s? There is no %s_token in %s; name it: [text] %s = "
                         "TOKEN, or no for none",
                         key, key, config->path, key);
    *id = tokenizer_find(t, known->text, strlen(known->text));
    return *id >= 0 ? WEFT_OK
                    : weft_fail(err, WEFT_ERR_INPUT, (weft_where){config->path, 0},
                                "$.%s_token: %s has no token \"%.60s\"", key, path, known->text);
}

/* The words of [text] special, NULL-ended. */
static weft_status read_special(const weft_params *p, const char ***out, weft_error *err)
{
    int n = 0;
    while (weft_params_word(p, "special", n))
        n++;
    *out = weft_alloc_zero((size_t)n + 1, sizeof **out);
    if (!*out)
        return weft_fail_memory(err);
    for (int i = 0; i < n; i++)
        (*out)[i] = weft_params_word(p, "special", i);
    return WEFT_OK;
}

static weft_status load_file(text_tokenizer_file *file, const char *path, const weft_params *p,
                             weft_error *err)
{
    const char **special, *pattern = weft_params_text(p, "pattern");
    weft_status status = read_special(p, &special, err);
    if (status)
        return status;
    const tokenizer_choice choice = {.pattern = *pattern ? pattern : NULL,
                                     .special = special,
                                     .pattern_key = "[text] pattern",
                                     .special_key = "special"};
    status = tokenizer_open(&choice, path, &file->t, err);
    weft_free(special);
    return status;
}

static weft_status open_file(text_tokenizer *t, const char *path, const weft_params *p,
                             weft_error *err)
{
    text_tokenizer_file *file = t->file;
    tokenizer_config config = {0};
    if (access(path, F_OK))
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "tokenizer"),
                         "[text] tokenizer = %s: there is no such file; give a tokenizer.json or a "
                         "rank file, or bytes; `weft tokenize --train --vocab-size 4096 --out %s "
                         "TEXT` makes one from a text",
                         path, path);
    weft_status status = load_file(file, path, p, err);
    if (status)
        return status;
    status = tokenizer_config_read(&config, path, err);
    weft_status bos = status ? status : choose_id(file->t, p, "bos", &config, &t->bos, err);
    weft_status eos = status ? status : choose_id(file->t, p, "eos", &config, &t->eos, err);
    status = bos ? bos : eos;
    if (!status) {
        t->vocab_size = tokenizer_vocab_size(file->t);
        t->name = weft_format("tokenizer.json %016llx bos %d eos %d",
                              (unsigned long long)tokenizer_hash(file->t), t->bos, t->eos);
        file->paths[1] = config.found ? weft_strdup(config.path) : NULL;
        if (!t->name || (config.found && !file->paths[1]))
            status = weft_fail_memory(err);
    }
    tokenizer_config_release(&config);
    return status;
}

static weft_status open_any_file(text_tokenizer *t, const weft_params *p, weft_error *err)
{
    text_tokenizer_file *file = weft_alloc_zero(1, sizeof *file);
    if (!file || pthread_mutex_init(&file->lock, NULL)) {
        weft_free(file);
        return weft_fail_memory(err);
    }
    t->file = file;
    file->paths[0] = tokenizer_path(weft_params_text(p, "tokenizer"));
    return file->paths[0] ? open_file(t, file->paths[0], p, err) : weft_fail_memory(err);
}

static weft_status open_bytes(text_tokenizer *t, const weft_params *p, weft_error *err)
{
    static const char *const keys[] = {"bos", "eos"}, *const ranks[] = {"pattern", "special"};
    *t = (text_tokenizer){.name = weft_strdup("bytes"),
                          .vocab_size = BYTES_VOCAB,
                          .bos = BYTES_BOS,
                          .eos = BYTES_EOS};
    weft_status status = t->name ? WEFT_OK : weft_fail_memory(err);
    for (int i = 0; i < 2; i++) {
        if (says_no(p, keys[i]))
            *(i ? &t->eos : &t->bos) = -1;
        else if (!says_yes(p, keys[i]))
            status = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, keys[i]),
                               "[text] %s = %s: tokenizer bytes has no such token; say yes or no",
                               keys[i], weft_params_text(p, keys[i]));
        if (*weft_params_text(p, ranks[i]))
            status = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, ranks[i]),
                               "[text] %s is for rank files; tokenizer bytes has none: name the "
                               "file, [text] tokenizer = FILE.tiktoken",
                               ranks[i]);
    }
    return status;
}

weft_status text_tokenizer_open(text_tokenizer **out, const weft_params *p, weft_error *err)
{
    text_tokenizer *t = weft_alloc_zero(1, sizeof *t);
    *out = NULL;
    if (!t)
        return weft_fail_memory(err);
    weft_status status =
        (weft_params_is(p, "tokenizer", "bytes") ? open_bytes : open_any_file)(t, p, err);
    if (status)
        text_tokenizer_close(t);
    else
        *out = t;
    return status;
}

void text_tokenizer_close(text_tokenizer *t)
{
    if (!t)
        return;
    if (t->file) {
        tokenizer_scratch_destroy(t->file->scratch);
        tokenizer_destroy(t->file->t);
        pthread_mutex_destroy(&t->file->lock);
        for (int i = 0; t->file->paths[i]; i++)
            weft_free(t->file->paths[i]);
        weft_free(t->file);
    }
    weft_free(t->name);
    weft_free(t);
}

/* ---- one thread's way to use it ---- */

weft_status text_tokenizer_begin(const text_tokenizer *t, void **scratch, weft_error *err)
{
    tokenizer_scratch *s = NULL;
    weft_status status = t->file ? tokenizer_scratch_create(t->file->t, &s, err) : WEFT_OK;
    *scratch = s;
    return status;
}

void text_tokenizer_end(void *scratch)
{
    tokenizer_scratch_destroy(scratch);
}

weft_status text_tokenizer_encode(const text_tokenizer *t, void *scratch, bool continues,
                                  const char *s, size_t n, int32_t **ids, size_t *n_ids,
                                  size_t *capacity, weft_error *err)
{
    if (t->file)
        return tokenizer_encode(t->file->t, scratch, s, n,
                                TOKENIZER_NO_SPECIAL | (continues ? TOKENIZER_CONTINUES : 0), ids,
                                n_ids, capacity, err);
    return bytes_encode(s, n, ids, n_ids, capacity, err);
}

/* Ill-formed text has no characters to keep whole: it is bad, or repaired in any part. */
size_t text_tokenizer_cut(const text_tokenizer *t, const char *s, size_t n, size_t from)
{
    if (t->file)
        return tokenizer_cut(t->file->t, s, n, from);
    size_t at = n;
    while (at > from + 1 && at > n - 4 &&
           ((unsigned char)s[--at] & 0xC0) == 0x80) /* the last character may be incomplete */
        ;
    return at > from ? at : n;
}

/* ---- prompts and the way back ---- */

weft_status text_tokenizer_encode_prompt(const text_tokenizer *t, const char *s, size_t n,
                                         int32_t **ids, size_t *n_ids, size_t *capacity,
                                         weft_error *err)
{
    size_t valid = text_utf8_valid(s, n);
    if (valid < n)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "the text to encode is not UTF-8 at byte %zu", valid);
    if (!t->file)
        return bytes_encode(s, n, ids, n_ids, capacity, err);
    text_tokenizer_file *file = t->file;
    pthread_mutex_lock(&file->lock);
    weft_status status =
        file->scratch ? WEFT_OK : tokenizer_scratch_create(file->t, &file->scratch, err);
    if (!status)
        status = tokenizer_encode(file->t, file->scratch, s, n, 0, ids, n_ids, capacity, err);
    pthread_mutex_unlock(&file->lock);
    return status;
}

weft_status text_tokenizer_decode(const text_tokenizer *t, const int32_t *ids, size_t n,
                                  weft_text *out, weft_error *err)
{
    return t->file ? tokenizer_decode(t->file->t, ids, n, out, err)
                   : bytes_decode(ids, n, out, err);
}

const char *const *text_tokenizer_files(const text_tokenizer *t)
{
    return t->file ? (const char *const *)t->file->paths : NULL;
}
