/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a tokenizer.json: every value has a path, and everything wrong is noted with it. */
#ifndef WEFT_TEXT_TOKENIZER_JSON_H
#define WEFT_TEXT_TOKENIZER_JSON_H

#include <jansson.h>

#include "engine.h"

typedef struct loader {
    tokenizer *t;
    weft_where where;
    weft_error *err;
    weft_pool paths;
    int n_bad; /* at most LOADER_ERRORS are told */
    bool no_memory;
    char hidden[4]; /* the character that stands for NUL; "": none does */
} loader;

/* Notes an error at a path. */
void loader_bad(loader *l, const char *path, const char *format, ...) WEFT_PRINTF(3, 4);
/* What was noted elsewhere. */
void loader_note(loader *l, weft_status status);
/* path.key or path[i]; in the loader's memory. */
const char *loader_key(loader *l, const char *path, const char *key);
const char *loader_index(loader *l, const char *path, size_t i);
/* Notes every key of object that is not in the list, which NULL ends. */
void loader_only(loader *l, const char *path, const json_t *object, const char *const *keys);
/* A value that must be of this kind; what it is not is noted. Missing or null: `otherwise` (texts:
 * NULL), noted if `required`. */
bool loader_bool(loader *l, const char *path, const json_t *object, const char *key, bool required,
                 bool otherwise);
const char *loader_text(loader *l, const char *path, const json_t *object, const char *key,
                        bool required, size_t *n);
int64_t loader_int(loader *l, const char *path, const json_t *object, const char *key, int64_t low,
                   int64_t high);
/* The place of a text in a list of choices, which NULL ends; -1: it is none of them, which is
 * noted. */
int loader_choice(loader *l, const char *path, const json_t *object, const char *key,
                  const char *const *choices, int otherwise);
/* Jansson takes no NUL in keys, so NULs hide behind a character that json does not use. False: all
 * of them are used, or there is no NUL. */
bool loader_hide(loader *l, char *json, size_t n);
/* A text of the file with its NULs; the text itself if it has none. */
const char *loader_show(loader *l, const char *text, size_t *n);
/* A copy in the tokenizer's memory. */
const char *loader_copy(loader *l, const char *text, size_t n);

/* load_model.c */
void loader_model(loader *l, const json_t *model);
/* Sets the words of the model: after the pre-tokenizers, and before added tokens. */
void loader_words(loader *l);
/* load_added.c: after everything else. */
void loader_added(loader *l, const json_t *list);
/* load_steps.c, load_decoders.c */
void loader_normalizers(loader *l, const json_t *value);
void loader_splitters(loader *l, const json_t *value);
void loader_decoders(loader *l, const json_t *value);
/* Steps in value, which may be a Sequence: how many, and each in turn. `list`: the key of a
 * Sequence's steps. */
size_t loader_count_steps(const json_t *value, const char *list);
void loader_each_step(loader *l, const char *path, const json_t *value, const char *list,
                      void (*step)(loader *, const char *, const json_t *));
/* {"String": ...} or {"Regex": ...} under "pattern". */
void loader_pattern(loader *l, const char *path, const json_t *object, pattern *p);

#endif
