/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer from tokenizer.json, and what can be asked of it. */
#include "json.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

void tokenizer_destroy(tokenizer *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_normalizers; i++)
        pattern_release(&t->normalizers[i].pattern);
    for (size_t i = 0; i < t->n_splitters; i++)
        pattern_release(&t->splitters[i].pattern);
    for (size_t i = 0; i < t->n_decoders; i++)
        pattern_release(&t->decoders[i].pattern);
    weft_pool_release(&t->pool);
    weft_free(t->name);
    weft_free(t);
}

static void read_all(loader *l, const json_t *root)
{
    static const char *const keys[] = {
        "version",       "truncation",     "padding", "added_tokens", "normalizer",
        "pre_tokenizer", "post_processor", "decoder", "model",        NULL};
    if (!json_is_object(root)) {
        loader_bad(l, "$", "must be an object");
        return;
    }
    loader_only(l, "$", root, keys);
    size_t n;
    const char *version = loader_text(l, "$", root, "version", false, &n);
    if (version && strcmp(version, "1.0"))
        loader_bad(l, "$.version", "%.20s is not known; 1.0 is", version);
    loader_normalizers(l, json_object_get(root, "normalizer"));
    loader_splitters(l, json_object_get(root, "pre_tokenizer"));
    loader_decoders(l, json_object_get(root, "decoder"));
    int before = l->n_bad;
    loader_model(l, json_object_get(root, "model"));
    if (l->n_bad > before || l->no_memory)
        return;
    loader_words(l);
    if (!l->no_memory)
        loader_added(l, json_object_get(root, "added_tokens"));
}

weft_status tokenizer_create(const char *name, const void *data, size_t n, tokenizer **out,
                             weft_error *err)
{
    tokenizer *t = weft_alloc_zero(1, sizeof *t);
    *out = t;
    if (!t || !(t->name = weft_strdup(name))) {
        weft_free(t);
        *out = NULL;
        return weft_fail_memory(err);
    }
    t->hash = XXH3_64bits(data, n);
    t->unknown = -1;
    return WEFT_OK;
}

static weft_status parse(loader *l, const char *json, size_t n, json_t **root)
{
    json_error_t wrong;
    char *copy = NULL;
    if (memmem(json, n, "\\u0000", 6)) {
        copy = weft_alloc(n);
        if (!copy)
            return weft_fail_memory(l->err);
        memcpy(copy, json, n);
        loader_hide(l, copy, n);
    }
    *root = json_loadb(copy ? copy : json, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &wrong);
    weft_free(copy);
    if (*root)
        return WEFT_OK;
    if (json_error_code(&wrong) == json_error_out_of_memory)
        return weft_fail_memory(l->err);
    return weft_fail(l->err, WEFT_ERR_INPUT,
                     (weft_where){l->where.file, wrong.line > 0 ? wrong.line : 0}, "not JSON: %s",
                     wrong.text);
}

weft_status tokenizer_parse(const char *name, const char *json, size_t n, tokenizer **out,
                            weft_error *err)
{
    loader l = {.where = {name, 0}, .err = err};
    json_t *root = NULL;
    *out = NULL;
    weft_status status = tokenizer_create(name, json, n, &l.t, err);
    if (!status)
        status = parse(&l, json, n, &root);
    if (!status) {
        read_all(&l, root);
        if (l.no_memory)
            status = weft_fail_memory(err);
        else if (l.n_bad)
            status = WEFT_ERR_INPUT;
    }
    json_decref(root);
    weft_pool_release(&l.paths);
    if (status)
        tokenizer_destroy(l.t);
    else
        *out = l.t;
    return status;
}

weft_status tokenizer_load(const char *path, tokenizer **out, weft_error *err)
{
    char *data;
    size_t n;
    *out = NULL;
    weft_status status = weft_read_file(path, &data, &n, err);
    if (status)
        return status;
    status = tokenizer_parse(path, data, n, out, err);
    weft_free(data);
    return status;
}

/* ---- questions ---- */

int tokenizer_vocab_size(const tokenizer *t)
{
    return t->n_tokens;
}

const char *tokenizer_token(const tokenizer *t, int32_t id, size_t *n)
{
    *n = 0;
    if (id < 0 || id >= t->n_tokens || !t->tokens[id].text)
        return NULL;
    *n = t->tokens[id].n;
    return t->tokens[id].text;
}

int32_t tokenizer_find(const tokenizer *t, const char *text, size_t n)
{
    int32_t id = string_map_find(&t->by_added, text, n);
    return id >= 0 ? id : string_map_find(&t->by_text, text, n);
}

bool tokenizer_is_special(const tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->n_tokens && t->tokens[id].special;
}

uint64_t tokenizer_hash(const tokenizer *t)
{
    return t->hash;
}
