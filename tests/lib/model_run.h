/* SPDX-License-Identifier: Apache-2.0 */
/* A whole run inside a test: an INI's text to a plan, memory and programs on one rank, with
 * parameters and samples that the test sets and results that it reads. Every function fails the
 * test, with the run's own errors, if something goes wrong. Not for several threads. */
#ifndef MODEL_RUN_H
#define MODEL_RUN_H

#include "execute/run.h"
#include "read_safetensors.h"

/* Samples [samples, seq_len] that the test owns. labels NULL: none counts; positions NULL: 0, 1,
 * ...; segments NULL: one. */
typedef struct model_samples {
    const int32_t *ids, *labels, *positions, *segments;
    int64_t samples;
} model_samples;

/* Numbers of one tensor. */
typedef struct model_numbers {
    double *list; /* NULL: not there */
    int64_t n;
} model_numbers;

typedef struct model_run {
    weft_probe probe; /* first: the run knows the rest by it */
    weft_text seen;   /* the log */
    weft_log log;
    weft_error err;
    weft_settings *settings;
    weft_plugins *plugins;
    weft_host host;
    weft_plan *plan;
    weft_device device; /* the plan's */
    weft_run *run;
    weft_pool pool;
    model_samples samples;
    model_numbers
        *gradients; /* of the last step, before clipping, in the model's order of parameters */
    /* Called after every step if it is set; run->view holds its loss, norm and reports. */
    void (*after_step)(struct model_run *m, void *ctx);
    void *ctx;
} model_run;

/* plugins: the list, by blanks; data and tokenizer are the fixture `given` (for a vocabulary of
 * other than 50 ids: [given] vocab_size) unless `latents` is listed, the others those of the build
 * tree. rest: what follows in the INI, from inside [weft] on. */
void model_run_start(model_run *m, const char *plugins, const char *rest);
/* Safe in any state. */
void model_run_release(model_run *m);

/* From now on training and validation take these samples, over and over, instead of drawn ones. The
 * arrays must outlive the run. */
void model_run_feed(model_run *m, const model_samples *samples);

/* A parameter or state. The tensors of `file` called PREFIX/NAME become the parameters: every one
 * of them, in their very shapes. */
void model_run_set(model_run *m, const char *name, const weft_safetensor *values);
void model_run_set_all(model_run *m, const safetensors *file, const char *prefix);
/* Belongs to m. */
model_numbers model_run_get(model_run *m, const char *name);

/* The rest of the INI's steps, as `weft train` does them. Once per run. */
void model_run_train(model_run *m);
/* How many parameters there are, their names, and their gradients of the last step before clipping.
 */
int model_run_parameters(const model_run *m);
const char *model_run_name(const model_run *m, int i);
model_numbers model_run_gradient(const model_run *m, const char *name);

/* Validation over the samples: needs [train] eval_every. Returns the mean loss; tokens may be NULL.
 */
double model_run_evaluate(model_run *m, int64_t *tokens);
/* Logits behind place `last` of a sample: needs the plugin sample, with [sample] context = seq_len.
 */
model_numbers model_run_logits(model_run *m, int64_t sample, int64_t last);

#endif
