/* SPDX-License-Identifier: Apache-2.0 */
/* How a model lies in Hugging Face's folders. A plugin that is a model says it in tables, as the
 * service "hf_model"; the plugin hf reads and writes such folders by them and knows no model. A
 * folder can then be trained from, converted both ways, and written text with.
 *
 *     static const weft_hf_tensor tensors[] = {
 *         {"model.embed_tokens.weight", .shape = "vocab_size dim"},
 *         {"model.layers.{l}.mlp.experts.up_proj.weight", "n_experts ffn_dim dim",
 *          .file = "model.layers.{l}.mlp.experts.{x}.up_proj.weight"},
 *         {"lm_head.weight", "vocab_size dim", .unless = "tied"}, {0}};
 *     static const weft_hf_key keys[] = {
 *         {"hidden_size", .key = "dim"}, {"hidden_act", .is = "silu"}, {0}};
 *     static const weft_hf_form form = {.type = "toy", .architecture = "ToyForCausalLM",
 *         .prefix = "model.", .layers = "n_layers", .tensors = tensors, .keys = keys};
 *     static const weft_hf_form *const forms[] = {&form, NULL};
 *     static const weft_hf_model hf = {sizeof hf, "toy", params, forms};
 *     ...
 *     {.kind = WEFT_SERVICE, .service = "hf_model", .table = &hf},
 *
 * What is called a key here is one of the plugin's own section. */
#ifndef WEFT_HF_H
#define WEFT_HF_H

#include <weft/params.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A parameter or a buffer, in every block if its name has {l}. Those of a block stand together; the
 * table's order is that of files. */
typedef struct weft_hf_tensor {
    const char *name;  /* the run's; {l}: the block's number. NULL: files may hold `file`, which
                          nobody needs; there {l} is any number, or '*' any text, once */
    const char *shape; /* the run's: a word for each dim, a product of keys, numbers and sums of
                          these: "n_heads*head_dim dim", "n_heads*(a_dim+b_dim)" */
    const char *file;  /* as the folder calls it; NULL: the same. {x}: it lies in as many tensors as
                          its first dim is long, which do not have that dim */
    bool turned;       /* the folder's tensor has its two dims the other way round */
    /* parts > 1: it is the part-th of so many that make one tensor of the folder's, one behind the
     * other along dim `along` of the run's. They stand together, in order. */
    int part, parts, along;
    const char *when, *unless; /* only where this key is on, or not 0; is off, or 0. NULL: always */
    const char *from, *until;  /* only blocks from the number on that the key says, or below it */
    /* Only every so many blocks as the key says, the last of them, but none whose numbers are in
     * the LIST that the key `except` says. others: only blocks that these two leave out. */
    const char *every, *except;
    bool others;
    bool other; /* where else a tensor of an earlier row may lie, or, with `of`, lie once more:
                   read, never written */
    /* The key that says how many blocks of this row's kind there are. NULL: the form's `layers`.
     * Rows of one kind stand together. */
    const char *blocks;
    bool exact; /* `convert --dtype bf16` leaves it f32 */
    /* Without a name: files have this parameter there once more, and so it is written; files that
     * are read may lack it, or have the same numbers. NULL: it is neither read nor written. */
    const char *of;
} weft_hf_tensor;

/* What one key of config.json says. Keys that no row names are hf's: some are refused unless they
 * are off, those that nobody knows are told to the user. */
typedef struct weft_hf_key {
    const char *name; /* in config.json, or of its object of rotary positions */
    const char *key; /* the plugin's, of one row, whose type and range its parameters say; of a LIST
                        the file has an array of whole numbers. NULL: none */
    /* Where it is left out: a number, true, false, or an expression, sums of products and quotients
     * of numbers and of keys of config.json above, "4*n_embd", "hidden_size/num_attention_heads".
     * NULL: it is required. */
    const char *standard;
    /* No key: the one value that the model has, "false", "1", "silu". Others are refused; it is
     * written. also: another word for it, which is read. */
    const char *is, *also;
    bool unwritten; /* it is read and never written. Without key and `is`: whatever it says is fine
                     */
    const char *null;    /* what null says, the key's value then and when it is written */
    const char *written; /* no key: written like this, and whatever is read is fine */
    /* What it must be beside keys of config.json above: a divisor of what such an expression comes
     * to, "n_experts" or "kept*n_experts/n_groups", rounded down; less; no more than each of these,
     * with blanks between. */
    const char *divides, *below, *most;
    /* No key: where it is said, it is what this comes to, "a_dim+b_dim". One that is written is
     * another key of config.json above. */
    const char *same;
    int64_t multiple; /* it, or each number of a LIST, is a multiple of this; else `why` is said */
    const char *why;
    bool whole;      /* of a key that is REAL: a whole number in config.json */
    bool context;    /* it says for how many tokens a text may be */
    const char *old; /* what other versions of Transformers call it: read, and written beside it */
    /* The key's number is this many times config.json's: a number, or a key of config.json above.
     */
    const char *by;
} weft_hf_key;

/* A kind of rotary positions beside "default". */
typedef struct weft_hf_rope_type {
    const char *type;        /* rope_type in config.json. NULL ends a table */
    const char *key, *value; /* the key whose value chooses it: "rope_scaling", "yes" */
    const weft_hf_key *keys; /* of the object; ended by an empty one */
    double above;            /* theta is greater than this. 0: whatever it is */
} weft_hf_rope_type;

typedef struct weft_hf_rope {
    const char *theta;              /* the key */
    double standard;                /* where config.json does not say it */
    const weft_hf_rope_type *types; /* NULL: default alone */
} weft_hf_rope;

/* One kind of folder. */
typedef struct weft_hf_form {
    const char *type;          /* model_type in config.json; of diffusers' _class_name */
    const char *architecture;  /* what stands there in architectures */
    const char *when, *unless; /* a run's model has this form only where this key is on, or not 0;
                                  where these, by blanks, are off, or 0. NULL: always */
    const char *prefix;        /* of names; files of the bare model leave it out. NULL: none */
    const char *layers;        /* the key that says how many blocks there are */
    const char *behind;  /* and that for how many behind these, which folders may have or not, as
                            those of multi-token prediction; they have every row of a block. NULL:
                            none */
    const char *with;    /* what an INI lists before the model, by blanks: "moe" */
    const char *warning; /* of folders that Transformers 4 or earlier wrote. NULL: none */
    const weft_hf_tensor *tensors; /* these two are ended by an empty row */
    const weft_hf_key *keys;
    const weft_hf_rope *rope; /* NULL: it has no rotary positions */
    bool diffusers;           /* such a folder is diffusers', not Transformers' */
    const char *data;         /* what an INI lists for data. NULL: "text" */
    /* What a LIST is that the settings leave empty, by other keys' numbers. One that config.json
     * has is of as many numbers, with the same sum. NULL: it stays empty. */
    void (*derive)(const char *key, int64_t (*get)(const void *model, const char *key),
                   const void *model, char text[64]);
} weft_hf_form;

/* The service. A folder is looked for by its model_type: in the plugin that hf knows for it, else
 * in the plugin of that name, with '_' for '-'. */
typedef struct weft_hf_model {
    size_t size;
    const char *plugin;               /* its own name */
    const weft_param *params;         /* the plugin's */
    const weft_hf_form *const *forms; /* NULL-ended. A run is written in the first that it has */
} weft_hf_model;

#ifdef __cplusplus
}
#endif
#endif
