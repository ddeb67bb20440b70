/* SPDX-License-Identifier: Apache-2.0 */
/* Decoders of a tokenizer.json. */
#include "json.h"

#include <string.h>

static const char *const decoder_types[] = {"ByteLevel", "Replace", "ByteFallback", "Fuse", "Strip",
                                            "Metaspace", NULL};

static void read_content(loader *l, const char *path, const json_t *value, const char *key,
                         bool character, decoder *step)
{
    size_t n, length = 0;
    const char *text = loader_text(l, path, value, key, true, &n);
    if (text && n)
        unicode_get(text, &length);
    if (text && character && (n == 0 || n != length))
        loader_bad(l, loader_key(l, path, key), "must be one character");
    step->content = text ? loader_copy(l, text, n) : "";
    step->n_content = n;
}

static void read_metaspace(loader *l, const char *path, const json_t *value, decoder *step)
{
    static const char *const schemes[] = {"always", "first", "never", NULL};
    read_content(l, path, value, "replacement", true, step);
    int scheme = loader_choice(l, path, value, "prepend_scheme", schemes, PREPEND_ALWAYS);
    bool prefix = loader_bool(l, path, value, "add_prefix_space", false, true);
    loader_bool(l, path, value, "split", false, true);
    if (!prefix && json_is_string(json_object_get(value, "prepend_scheme")) &&
        scheme != PREPEND_NEVER)
        loader_bad(l, loader_key(l, path, "add_prefix_space"), "contradicts prepend_scheme");
    step->prepended = prefix && scheme != PREPEND_NEVER;
}

static void add_decoder(loader *l, const char *path, const json_t *value)
{
    static const char *const keys[][7] = {
        {"type", "add_prefix_space", "trim_offsets", "use_regex", NULL},
        {"type", "pattern", "content", NULL},
        {"type", NULL},
        {"type", NULL},
        {"type", "content", "start", "stop", NULL},
        {"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep", NULL}};
    int kind = loader_choice(l, path, value, "type", decoder_types, -1);
    if (kind < 0)
        return;
    decoder *step = &l->t->decoders[l->t->n_decoders++];
    step->kind = (decoder_kind)kind;
    loader_only(l, path, value, keys[kind]);
    if (step->kind == DECODER_REPLACE) {
        loader_pattern(l, path, value, &step->pattern);
        read_content(l, path, value, "content", false, step);
    } else if (step->kind == DECODER_STRIP) {
        read_content(l, path, value, "content", true, step);
        step->start = loader_int(l, path, value, "start", 0, INT32_MAX);
        step->stop = loader_int(l, path, value, "stop", 0, INT32_MAX);
    } else if (step->kind == DECODER_METASPACE)
        read_metaspace(l, path, value, step);
}

void loader_decoders(loader *l, const json_t *value)
{
    tokenizer *t = l->t;
    if (!value || json_is_null(value))
        return;
    t->has_decoder = true;
    t->decoders = weft_pool_alloc(&t->pool, (loader_count_steps(value, "decoders") + 1) *
                                                sizeof *t->decoders);
    if (!t->decoders)
        l->no_memory = true;
    else
        loader_each_step(l, "$.decoder", value, "decoders", add_decoder);
}
