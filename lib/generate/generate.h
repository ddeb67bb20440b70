/* SPDX-License-Identifier: Apache-2.0 */
/* Texts continued, token by token. Internal to weft. */
#ifndef WEFT_LIB_GENERATE_GENERATE_H
#define WEFT_LIB_GENERATE_GENERATE_H

#include "generate/decoder.h"

typedef enum weft_ending {
    WEFT_ENDING_NONE,    /* not ended yet */
    WEFT_ENDING_EOS,     /* a token that ends texts */
    WEFT_ENDING_LENGTH,  /* as many tokens as were wanted, or the generator says so */
    WEFT_ENDING_CONTEXT, /* as many tokens as the model can see */
} weft_ending;

const char *weft_ending_name(weft_ending ending);

/* A prompt and what was added to it. */
typedef struct weft_continuation {
    int number; /* choices depend on it */
    int32_t *ids;
    size_t n_prompt, n, capacity;
    weft_ending ending;
} weft_continuation;

/* ids are copied. Release in every case. */
weft_status weft_continuation_init(weft_continuation *t, int number, const int32_t *ids, size_t n,
                                   weft_error *err);
void weft_continuation_release(weft_continuation *t);

/* A tokenizer and its instance. */
typedef struct weft_run_tokenizer {
    const weft_tokenizer *table; /* NULL: there is none */
    void *self;
} weft_run_tokenizer;
weft_run_tokenizer weft_run_tokenizer_find(const weft_plugins *plugins);

/* The text of the prompt, and what its continuation adds to it, as UTF-8. It is the difference of
 * two texts, since a character may have bytes in several tokens, and some tokenizers write a first
 * token otherwise than a later one. */
weft_status weft_continuation_decode(const weft_continuation *t,
                                     const weft_run_tokenizer *tokenizer, weft_text *before,
                                     weft_text *after, weft_error *err);

typedef struct weft_generation {
    int64_t most;       /* tokens to add at most; 0: the generator's business */
    const int32_t *eos; /* end a text, and are not added */
    int n_eos;
    int64_t vocab; /* only ids below this are chosen; 0: any */
    bool slides;   /* a full context goes on with its last half, instead of ending the text */
    /* After every token (t->ending is set with the last one, when there is none); NULL: nobody
     * looks. */
    weft_status (*added)(void *ctx, const weft_continuation *t, weft_error *err);
    void *ctx;
    int64_t tokens; /* out: how many were added */
} weft_generation;

/* Continues texts[0..n), n <= d->rows, together; the plan's generator chooses. All ranks together.
 */
weft_status weft_generate(weft_decoder *d, weft_generation *g, weft_continuation *texts, int n,
                          weft_error *err);

/* The texts that the plan's generator asks for, for the log and observers: for run->write_texts. */
weft_status weft_generate_asked(weft_run *run, weft_error *err);

#endif
