/* SPDX-License-Identifier: Apache-2.0 */
/* Rank files, as tiktoken keeps them: a line holds a token in base64 and its rank, which is its id.
 * The pattern that cuts words and the special tokens stand outside the file. And files of either
 * kind. */
#ifndef WEFT_TEXT_TIKTOKEN_H
#define WEFT_TEXT_TIKTOKEN_H

#include "tokenizer.h"

/* special: NULL-ended names, NULL for none. "NAME=ID" gives the id too; others get the ids after
 * the last one in use, in order. Every wrong line is reported, up to a limit. pattern: an
 * expression or the name of one. */
weft_status tokenizer_load_ranks(const char *path, const char *pattern, const char *const *special,
                                 tokenizer **out, weft_error *err);

/* The expression called so ("gpt2", "llama3", ...), or the text itself if none is. */
const char *tokenizer_pattern(const char *name);
/* "gpt2, llama3, ...": for messages. */
const char *tokenizer_pattern_names(void);

/* True if the first line of the file looks like a rank file's. */
bool tokenizer_is_rank_file(const char *data, size_t n);

/* open.c. What goes with a file; the keys are how messages call it. */
typedef struct tokenizer_choice {
    const char *pattern;        /* NULL: none */
    const char *const *special; /* as for tokenizer_load_ranks */
    const char *pattern_key, *special_key;
} tokenizer_choice;

/* The file itself, or tokenizer.json in a folder. NULL: out of memory. */
char *tokenizer_path(const char *given);
/* A tokenizer.json or a rank file, by what it holds. */
weft_status tokenizer_open(const tokenizer_choice *c, const char *path, tokenizer **out,
                           weft_error *err);

#endif
