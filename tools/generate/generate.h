/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `weft generate` share. */
#ifndef WEFT_TOOLS_GENERATE_H
#define WEFT_TOOLS_GENERATE_H

#include "cli.h"
#include "generate/generate.h"

/* What the command line says. */
typedef struct generate_wishes {
    weft_option_values prompts, ids;
    const char *prompts_file, *temperature, *top_p;
    int64_t most, top_k, seed, context, batch; /* negative: not given */
    bool greedy, no_cache, json, untrained;
    const char *out; /* where latents of pictures are written; NULL: texts are written */
    const char *guidance, *cfg, *empty, *samples;
    int64_t steps;
} generate_wishes;

enum { GENERATE_MOST_AXES = 16 };

/* An axis of several ranks, of a plugin that is to write on one (axes.c). */
typedef struct generate_axis {
    char *plugin;
    char *set; /* its degree, as an edit: "tp.degree=1"; NULL: no setting is known to hold it */
    bool out;  /* the plugin is left out */
    char *why; /* NULL: as the plan says */
} generate_axis;

typedef struct generate_axes {
    generate_axis list[GENERATE_MOST_AXES];
    int n;
} generate_axes;

/* Where the model comes from (source.c). */
typedef struct generate_source {
    const char *name;     /* what was given */
    char *origin;         /* what stands for the INI file in messages; NULL: name does */
    char *folder;         /* a checkpoint or a model folder; NULL: none */
    bool checkpoint;      /* one of ours */
    char *ini;            /* the INI's text; NULL: `name` is a file */
    char *lock[2];        /* the run's own lock and its key, as edits; NULL: none */
    weft_cli_edit *edits; /* these, then those given */
    int n_edits;
    weft_cli_edit *late; /* behind that which lists images: what is set of it */
    int n_late;
    bool lists_text;     /* it lists the plugin text */
    bool wants_text;     /* it does not, and has files for it */
    char *own_tokenizer; /* the checkpoint's copy of its tokenizer, as an edit; NULL: it has none */
    bool sample, images; /* it lists the plugins of these names */
    bool lists_store,
        lists_weights;  /* plugins that would load a checkpoint or weights themselves: ckpt, hf */
    bool weights;       /* parameters come from the plugin that gives `weights` */
    generate_axes axes; /* of a checkpoint, where there is only one rank */
    int32_t *eos;       /* of generation_config.json */
    int n_eos;
} generate_source;

/* path: an INI file, a run folder, a checkpoint, a folder of checkpoints, or a folder of another
 * program. options: -o, --with and --without. Release in every
 * case. */
weft_status generate_source_find(generate_source *s, const char *path,
                                 const weft_cli_options *options, const generate_wishes *w,
                                 weft_error *err);
void generate_source_release(generate_source *s);

/* The options of a session that writes text: those given, and what the wishes and the source add.
 * Both belong to *out; release it. */
typedef struct generate_options {
    weft_cli_options options;
    weft_text words; /* what edits point into */
} generate_options;
weft_status generate_options_init(generate_options *out, const weft_cli_options *given,
                                  const generate_wishes *w, const generate_source *s,
                                  weft_error *err);
void generate_options_release(generate_options *o);

/* The axes of a checkpoint's settings, as these options change them. Release in every case. */
weft_status generate_axes_find(generate_axes *a, const weft_cli_options *options, weft_error *err);
/* Leaves plugins out that cannot be had with axes of one rank, and logs which and why. */
weft_status generate_axes_settle(generate_source *s, const weft_cli_options *given,
                                 const generate_wishes *w, weft_error *err);
void generate_axes_release(generate_axes *a);

/* Prompts as ids (texts.c). */
typedef struct generate_texts {
    weft_continuation *list;
    int n;
    weft_run_tokenizer tokenizer; /* table NULL: ids in and out */
} generate_texts;

/* tokenizer's table NULL: wishes->ids. Release in every case. */
weft_status generate_texts_init(generate_texts *t, const generate_wishes *w,
                                const weft_run_tokenizer *tokenizer, weft_error *err);
void generate_texts_release(generate_texts *t);
/* Prints what has not been printed of a text yet: its beginning with the first call, whole
 * characters alone until it has ended. *printed: bytes. */
weft_status generate_print_more(const generate_texts *t, const weft_continuation *c,
                                size_t *printed, weft_error *err);
/* One line of JSON. */
weft_status generate_print_json(const generate_texts *t, const weft_continuation *c,
                                weft_error *err);

/* ---- weights.c ---- */

/* All that is wrong with the folder's tensors is said before anything is read. */
weft_status generate_read_weights(weft_run *run, const char *path, weft_error *err);
/* Parameters from the service `weights`. */
weft_status generate_take_weights(weft_run *run, weft_error *err);

#endif
