/* SPDX-License-Identifier: Apache-2.0 */
/* Normalizers and pre-tokenizers of a tokenizer.json. */
#include "json.h"

#include <string.h>

/* ---- sequences ---- */

static bool is_sequence(const json_t *value)
{
    const char *type = json_string_value(json_object_get(value, "type"));
    return type && !strcmp(type, "Sequence");
}

size_t loader_count_steps(const json_t *value, const char *list)
{
    if (!is_sequence(value))
        return json_is_object(value);
    size_t n = 0;
    json_t *steps = json_object_get(value, list);
    for (size_t i = 0; i < json_array_size(steps); i++)
        n += loader_count_steps(json_array_get(steps, i), list);
    return n;
}

void loader_each_step(loader *l, const char *path, const json_t *value, const char *list,
                      void (*step)(loader *, const char *, const json_t *))
{
    if (!json_is_object(value)) {
        loader_bad(l, path, "must be an object or null");
        return;
    }
    if (!is_sequence(value)) {
        step(l, path, value);
        return;
    }
    const char *const keys[] = {"type", list, NULL};
    loader_only(l, path, value, keys);
    json_t *steps = json_object_get(value, list);
    const char *below = loader_key(l, path, list);
    if (!json_is_array(steps))
        loader_bad(l, below, "must be a list");
    for (size_t i = 0; i < json_array_size(steps); i++)
        loader_each_step(l, loader_index(l, below, i), json_array_get(steps, i), list, step);
}

void loader_pattern(loader *l, const char *path, const json_t *object, pattern *p)
{
    const json_t *value = json_object_get(object, "pattern");
    const char *below = loader_key(l, path, "pattern");
    static const char *const keys[] = {"String", "Regex", NULL};
    if (!json_is_object(value) || json_object_size(value) != 1) {
        loader_bad(l, below, "must be an object with one key, String or Regex");
        return;
    }
    loader_only(l, below, value, keys);
    size_t n;
    bool plain = json_object_get(value, "String") != NULL;
    const char *key = plain ? "String" : "Regex",
               *text = loader_text(l, below, value, key, true, &n);
    if (!text)
        return;
    weft_status status = pattern_compile(p, loader_copy(l, text, n), n, plain, l->where,
                                         loader_key(l, below, key), l->err);
    loader_note(l, status);
}

/* ---- normalizers ---- */

static const char *const normalizer_types[] = {"NFC",     "NFD",     "NFKC",  "NFKD", "Lowercase",
                                               "Replace", "Prepend", "Strip", NULL};

static void add_normalizer(loader *l, const char *path, const json_t *value)
{
    static const char *const keys[][4] = {{"type", NULL},
                                          {"type", NULL},
                                          {"type", NULL},
                                          {"type", NULL},
                                          {"type", NULL},
                                          {"type", "pattern", "content", NULL},
                                          {"type", "prepend", NULL},
                                          {"type", "strip_left", "strip_right", NULL}};
    int kind = loader_choice(l, path, value, "type", normalizer_types, -1);
    if (kind < 0)
        return;
    normalizer *step = &l->t->normalizers[l->t->n_normalizers++];
    step->kind = (normalizer_kind)kind;
    loader_only(l, path, value, keys[kind]);
    const char *content = NULL;
    size_t n = 0;
    if (step->kind == NORMALIZER_REPLACE) {
        loader_pattern(l, path, value, &step->pattern);
        content = loader_text(l, path, value, "content", true, &n);
    } else if (step->kind == NORMALIZER_PREPEND)
        content = loader_text(l, path, value, "prepend", true, &n);
    else if (step->kind == NORMALIZER_STRIP) {
        step->left = loader_bool(l, path, value, "strip_left", true, false);
        step->right = loader_bool(l, path, value, "strip_right", true, false);
    }
    step->content = content ? loader_copy(l, content, n) : "";
    step->n_content = n;
}

void loader_normalizers(loader *l, const json_t *value)
{
    if (!value || json_is_null(value))
        return;
    l->t->normalizers = weft_pool_alloc(
        &l->t->pool, (loader_count_steps(value, "normalizers") + 1) * sizeof *l->t->normalizers);
    if (!l->t->normalizers)
        l->no_memory = true;
    else
        loader_each_step(l, "$.normalizer", value, "normalizers", add_normalizer);
}

/* ---- pre-tokenizers ---- */

static const char *const splitter_types[] = {"Split",     "Digits",    "Punctuation",
                                             "Metaspace", "ByteLevel", NULL};
static const char *const behaviours[] = {"Removed",        "Isolated",   "MergedWithPrevious",
                                         "MergedWithNext", "Contiguous", NULL};

static void read_split(loader *l, const char *path, const json_t *value, splitter *step)
{
    static const char *const keys[] = {"type", "pattern", "behavior", "invert", NULL};
    loader_only(l, path, value, keys);
    loader_pattern(l, path, value, &step->pattern);
    int behaviour = loader_choice(l, path, value, "behavior", behaviours, -1);
    step->behaviour = behaviour < 0 ? SPLIT_ISOLATED : (split_behaviour)behaviour;
    step->invert = loader_bool(l, path, value, "invert", true, false);
}

static void read_digits(loader *l, const char *path, const json_t *value, splitter *step)
{
    static const char *const keys[] = {"type", "individual_digits", NULL};
    loader_only(l, path, value, keys);
    step->behaviour = loader_bool(l, path, value, "individual_digits", true, false)
                          ? SPLIT_ISOLATED
                          : SPLIT_CONTIGUOUS;
}

static void read_punctuation(loader *l, const char *path, const json_t *value, splitter *step)
{
    static const char *const keys[] = {"type", "behavior", NULL};
    loader_only(l, path, value, keys);
    int behaviour = loader_choice(l, path, value, "behavior", behaviours, SPLIT_ISOLATED);
    step->behaviour = behaviour < 0 ? SPLIT_ISOLATED : (split_behaviour)behaviour;
}

static void read_metaspace(loader *l, const char *path, const json_t *value, splitter *step)
{
    static const char *const keys[] = {
        "type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep", NULL};
    static const char *const schemes[] = {"always", "first", "never", NULL};
    loader_only(l, path, value, keys);
    size_t n = 0, length = 0;
    const char *replacement = loader_text(l, path, value, "replacement", true, &n);
    if (replacement && n)
        unicode_get(replacement, &length);
    if (replacement && (n == 0 || n != length))
        loader_bad(l, loader_key(l, path, "replacement"), "must be one character");
    else if (replacement)
        memcpy(step->replacement, replacement, n);
    step->n_replacement = n < sizeof step->replacement ? n : 0;
    int scheme = loader_choice(l, path, value, "prepend_scheme", schemes, PREPEND_ALWAYS);
    bool prefix = loader_bool(l, path, value, "add_prefix_space", false, true);
    step->first = scheme < 0 ? PREPEND_ALWAYS : (prepend_scheme)scheme;
    if (!prefix && json_is_string(json_object_get(value, "prepend_scheme")) &&
        scheme != PREPEND_NEVER)
        loader_bad(l, loader_key(l, path, "add_prefix_space"), "contradicts prepend_scheme");
    if (!prefix)
        step->first = PREPEND_NEVER;
    step->split = loader_bool(l, path, value, "split", false, true);
    step->behaviour = SPLIT_NEXT;
}

static void read_byte_level(loader *l, const char *path, const json_t *value, splitter *step)
{
    static const char *const keys[] = {"type", "add_prefix_space", "trim_offsets", "use_regex",
                                       NULL};
    loader_only(l, path, value, keys);
    step->prefix = loader_bool(l, path, value, "add_prefix_space", true, true);
    loader_bool(l, path, value, "trim_offsets", true,
                true); /* where tokens lie in the text is not told */
    step->split = loader_bool(l, path, value, "use_regex", false, true);
    step->behaviour = SPLIT_ISOLATED;
    weft_status status = pattern_compile(&step->pattern, pattern_gpt2, strlen(pattern_gpt2), false,
                                         l->where, path, l->err);
    loader_note(l, status);
    l->t->splitters[l->t->n_splitters++].kind = SPLIT_BYTE_MAP;
}

static void add_splitter(loader *l, const char *path, const json_t *value)
{
    static void (*const read[])(loader *, const char *, const json_t *, splitter *) = {
        read_split, read_digits, read_punctuation, read_metaspace, read_byte_level};
    int kind = loader_choice(l, path, value, "type", splitter_types, -1);
    if (kind < 0)
        return;
    splitter *step = &l->t->splitters[l->t->n_splitters++];
    step->kind = (split_kind)kind;
    read[kind](l, path, value, step);
}

void loader_splitters(loader *l, const json_t *value)
{
    tokenizer *t = l->t;
    if (!value || json_is_null(value))
        return;
    t->splitters = weft_pool_alloc(&t->pool, (2 * loader_count_steps(value, "pretokenizers") + 1) *
                                                 sizeof *t->splitters);
    if (!t->splitters) {
        l->no_memory = true;
        return;
    }
    loader_each_step(l, "$.pre_tokenizer", value, "pretokenizers", add_splitter);
    /* Bytes that go straight to the model need not become characters. */
    if (t->n_splitters && t->splitters[t->n_splitters - 1].kind == SPLIT_BYTE_MAP) {
        t->n_splitters--;
        t->byte_level = true;
    }
}
