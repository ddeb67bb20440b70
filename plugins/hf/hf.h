/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the plugin hf share: a model as config.json describes it, where each parameter
 * lies in Hugging Face's files, folders of both kinds. */
#ifndef WEFT_HF_H
#define WEFT_HF_H

#include <jansson.h>
#include <weft/store.h>
#include <weft/weft.h>

/* ---- a model ---- */

typedef enum hf_family { HF_LLAMA, HF_GPT2, HF_FAMILIES } hf_family;

/* The name of weft's plugin: "llama3", "gpt2". */
const char *hf_family_plugin(hf_family family);

typedef struct hf_model {
    hf_family family;
    int64_t dim, layers, heads, kv_heads, head_dim, ffn, vocab;
    int64_t context;  /* max_position_embeddings; GPT-2: learned positions */
    int64_t bos, eos; /* -1: not known */
    double eps, theta;
    bool scaling; /* Llama 3.1's rope */
    double factor, low, high, original;
    bool tied;
    weft_text notes; /* lines: keys of config.json that weft does not know */
} hf_model;

void hf_model_release(hf_model *m);

/* ---- config.json (config.c, config_write.c) ---- */

/* Reads FOLDER/config.json; everything that is wrong at once. A folder of another kind is refused
 * by name. Release m in every case. */
weft_status hf_config_read(const char *folder, hf_model *m, weft_error *err);
/* dtype: how the tensors are stored. */
weft_status hf_config_write(const char *folder, const hf_model *m, weft_dtype dtype,
                            weft_error *err);
/* Is this a folder with a config.json? */
bool hf_is_folder(const char *folder);

/* ---- weft's settings (settings.c) ---- */

/* The model's section: "[llama3]" and its keys. */
void hf_settings_section(const hf_model *m, weft_text *ini);
/* The same for a checkpoint: {"llama3": {key: value}, ...}; NULL: out of memory. */
json_t *hf_settings_json(const hf_model *m);
/* A model from the settings that a checkpoint keeps, {section: {key: value}}. What the tensors'
 * shapes say (dim, blocks, ffn, vocabulary, positions) comes from them. */
weft_status hf_settings_read(const json_t *settings, const weft_folder *tensors, const char *where,
                             hf_model *m, weft_error *err);
/* The format service, and a whole INI to train from. */
weft_status hf_settings_minimal(const char *folder, weft_text *ini, weft_error *err);
weft_status hf_settings_train(const char *folder, weft_text *ini, weft_error *err);
/* A number as text that reads back as it is, at its shortest. */
const char *hf_number(char buffer[32], double x);

/* ---- where a parameter lies (map.c) ---- */

/* A parameter of weft's, and where Hugging Face keeps it. */
typedef struct hf_tensor {
    char name[96], hf[96];
    int n_dims;
    int64_t size[2]; /* weft's shape */
    bool transposed; /* Hugging Face has [in, out] */
    int part, parts; /* of how many that lie in one tensor of Hugging Face's, side by side along
                        `out`; 0 of 1 where it has its own */
} hf_tensor;

typedef struct hf_map {
    hf_tensor *list; /* parts of one tensor of Hugging Face's follow each other */
    int n, capacity;
} hf_map;

weft_status hf_map_create(const hf_model *m, hf_map *map, weft_error *err);
void hf_map_release(hf_map *map);
const hf_tensor *hf_map_find(const hf_map *map, const char *name);
/* The shape that Hugging Face's tensor has. */
void hf_shape(const hf_tensor *t, int64_t size[2]);

/* ---- tensors that are not the model's own (extra.c) ---- */

typedef enum hf_extra { HF_EXTRA_REFUSE, HF_EXTRA_LEAVE_OUT, HF_EXTRA_EXPORT } hf_extra;

typedef struct hf_extras {
    const weft_stored **list;
    int n, capacity;
} hf_extras;

weft_status hf_extras_add(hf_extras *x, const weft_stored *t, weft_error *err);
/* All are there: names them, forgets them, or makes sure that they can be written. where: for
 * messages. */
weft_status hf_extras_settle(hf_extras *x, hf_extra how, const char *where, weft_error *err);
void hf_extras_release(hf_extras *x);
/* What becomes of one in the other form: the same name; if it is of floats, of dtype `wanted`
 * (WEFT_DTYPES: as stored). */
weft_piece hf_extra_piece(const weft_stored *t, weft_dtype wanted);
weft_status hf_extra_write(weft_folder *folder, const weft_piece *p, weft_shard *shard, int at,
                           weft_error *err);

/* ---- a Hugging Face folder with its tensors (view.c) ---- */

typedef struct hf_view {
    hf_model model;
    hf_map map;
    weft_folder *folder;
    const char *
        *names; /* [map.n] as the files call them: with or without "model." or "transformer." */
    hf_extras extras;
} hf_view;

/* Opens config.json, the index and the files, and compares names and shapes: every tensor that is
 * missing, strange or of another shape at once. Close in every case. */
weft_status hf_view_open(hf_view *v, const char *folder, hf_extra extra, weft_error *err);
void hf_view_close(hf_view *v);
/* The box [lo, lo + size) of weft's parameter map.list[i], dense, as elements of dtype. */
weft_status hf_view_read(hf_view *v, int i, const int64_t *lo, const int64_t *size,
                         weft_dtype dtype, void *to, weft_error *err);
weft_dtype hf_view_dtype(const hf_view *v, int i);

/* to[j][i] = from[i][j], i < rows, j < columns; a row of `to` begins every `stride` elements of
 * `bytes` bytes. */
void hf_transpose(const void *from, int64_t rows, int64_t columns, void *to, int64_t stride,
                  size_t bytes);

/* ---- weft's checkpoints (checkpoint.c) ---- */

typedef struct hf_checkpoint {
    hf_model model;
    hf_map map;
    weft_folder *folder;
    char *path; /* the checkpoint's own folder */
    json_t *manifest;
    int64_t step;
    hf_extras extras;
} hf_checkpoint;

/* path: a checkpoint, or a run folder, whose latest is taken. What is read is compared with the
 * manifest's sums. Close in every case. */
weft_status hf_checkpoint_open(hf_checkpoint *c, const char *path, hf_extra extra, weft_error *err);
void hf_checkpoint_close(hf_checkpoint *c);
/* A file of a checkpoint, for its manifest. */
weft_status hf_manifest_file(json_t *files, const char *name, const weft_sums *sums,
                             weft_error *err);
/* Steals files. */
weft_status hf_manifest_write(const char *folder, const hf_model *m, json_t *files,
                              weft_error *err);

/* ---- writing (export.c, import.c, place.c) ---- */

typedef struct hf_options {
    const weft_command_host *host;
    const char *from, *to;
    weft_dtype dtype; /* WEFT_DTYPES: as stored */
    int64_t max_shard;
    bool force;
    hf_extra extra;
} hf_options;

/* Both write into an existing empty folder. *bytes: of tensors. */
weft_status hf_export(const hf_options *o, hf_checkpoint *from, const char *folder, int64_t *bytes,
                      weft_error *err);
weft_status hf_import(const hf_options *o, hf_view *from, const char *folder, int64_t *bytes,
                      weft_error *err);

/* Files of tensors, at most max_shard bytes each (or one tensor). */
typedef struct hf_shards {
    int *first; /* [n + 1]: pieces first[i] .. first[i + 1] - 1 are in file i */
    int n;
    int64_t bytes; /* of all */
} hf_shards;

weft_status hf_shards_init(hf_shards *s, const weft_piece *pieces, int n, int64_t max_shard,
                           weft_error *err);
void hf_shards_release(hf_shards *s);
/* Rows that are moved at a time. */
int64_t hf_rows_at_once(int64_t row_bytes);
void hf_show_progress(const hf_options *o, int done, int all);

/* Files are made in a folder beside TO, which takes TO's place once everything is written. */
typedef struct hf_place {
    char *to, *temporary;
} hf_place;

weft_status hf_place_begin(hf_place *p, const char *to, bool force, weft_error *err);
weft_status hf_place_commit(hf_place *p, weft_error *err);
/* Removes what was not committed. */
void hf_place_end(hf_place *p);
/* Copies the tokenizer's files and generation_config.json, as many as there are. */
weft_status hf_copy_files(const char *from, const char *to, weft_error *err);
/* Their names, NULL-ended. */
extern const char *const hf_companions[];
/* Is there a file of this name? */
bool hf_has_file(const char *folder, const char *name);

weft_status hf_copy_file(const char *from, const char *name, const char *to, const char *as,
                         weft_error *err);

/* ---- tokens that begin and end texts (tokens.c) ---- */

/* [text] bos and eos as the folder's tokenizer and Transformers use them, where they are not what
 * its tokenizer_config.json names. */
weft_status hf_tokens_settings(const char *folder, const hf_model *m, weft_text *ini,
                               weft_error *err);
/* The ids of bos and eos that c->model lacks, from the checkpoint's tokenizer. */
weft_status hf_tokens_find(hf_checkpoint *c, weft_error *err);
/* After hf_copy_files: the tokenizer as tokenizer.json, whatever it was called. Byte for byte,
 * unless Transformers would begin prompts otherwise than the run's documents begin, or end texts
 * with another token: then with the run's. */
weft_status hf_tokens_write(const hf_checkpoint *c, const char *folder, weft_error *err);

/* ---- hf.c's parts ---- */

extern const weft_command hf_convert;
extern const weft_weights hf_weights;
extern const weft_model_format hf_format;

typedef struct hf_plugin {
    const weft_host *host;
} hf_plugin;

#endif
