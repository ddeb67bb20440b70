/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the plugin hf share: a model as config.json describes it, where each parameter
 * lies in Hugging Face's files, folders of both kinds. */
#ifndef HF_HF_H
#define HF_HF_H

#include <jansson.h>
#include <limits.h>
#include <weft/store.h>
#include <weft/weft.h>

enum {
    HF_NAME = 160,           /* of a tensor, with its numbers */
    HF_PATH = PATH_MAX + 256 /* what is longer is not cut to another file's: systems refuse it */
};

/* FOLDER/NAME; returns path. */
const char *hf_path(char path[HF_PATH], const char *folder, const char *name);

/* What a folder says ends no line: '?' for control characters. */
void hf_one_line(char *text);
/* An input error of a file or a folder, in one line; NULL: of none. */
weft_status hf_refuse(weft_error *err, const char *of, const char *format, ...) WEFT_PRINTF(3, 4);

/* ---- a model ---- */

/* Where tables are asked for. */
typedef struct hf_tables {
    const weft_finder *plugins; /* NULL: in `own` alone */
    const weft_hf_model *own;   /* that of the run's model; NULL: there is none */
    const char *named;          /* the plugin that the user names; NULL: none */
} hf_tables;

/* A key of the plugin's section. */
typedef struct hf_value {
    const weft_param *param;
    char text[512]; /* a number, yes or no, a word, or numbers */
    bool said;      /* by config.json */
} hf_value;

typedef struct hf_model {
    const weft_hf_model *table;
    const weft_hf_form *form;
    hf_value *values; /* [n], as table->params */
    int n;
    int64_t context;  /* tokens of a text */
    int64_t bos, eos; /* -1: not known */
    weft_text notes;  /* lines: keys of config.json that weft does not know */
} hf_model;

/* The plugin whose table is asked for where a folder says this model_type. plugin[64] */
void hf_plugin_of(const char *type, char plugin[64]);
/* *out NULL, and no error: it has no table. */
weft_status hf_tables_find(const hf_tables *tables, const char *plugin, const weft_hf_model **out,
                           weft_error *err);
/* What can be wrong with a table, all of it at once. plugin: whose it must be. */
weft_status hf_table_check(const weft_hf_model *table, const char *plugin, weft_error *err);
/* All keys at their defaults. */
weft_status hf_model_init(hf_model *m, const weft_hf_model *table, const weft_hf_form *form,
                          weft_error *err);
void hf_model_release(hf_model *m);
void hf_print_notes(const hf_model *m, const weft_log *log);
/* key NULL: NULL. */
hf_value *hf_model_find(const hf_model *m, const char *key);
/* Its number, or whether it is yes; false: it is a word, or not there. */
bool hf_value_number(const hf_value *v, double *out);
void hf_value_set_number(hf_value *v, double x);
/* Of both conditions, either may be NULL: does the model have what is so marked? */
bool hf_model_has(const hf_model *m, const char *when, const char *unless);
/* A number of the model's; 0: none. */
int64_t hf_model_int(const hf_model *m, const char *key);
/* A number as text that reads back as it is, at its shortest. */
const char *hf_number(char buffer[32], double x);
bool hf_says_yes(const char *text);
bool hf_says_no(const char *text);
/* Lists of words with blanks between: the length of the next one, where *list then begins; 0: there
 * are no more. */
size_t hf_next_word(const char **list);
bool hf_has_word(const char *list, const char *word);
/* Lists of whole numbers: false: there are no more. */
bool hf_next_number(const char **list, int64_t *out);
/* A value as the model has it: of a list its numbers with a blank between, or what follows from
 * other keys. */
void hf_model_text(const hf_model *m, const hf_value *v, char text[512]);
/* The key of config.json that says the plugin's key; NULL: none does. */
const char *hf_key_of(const weft_hf_key *keys, const char *key);
/* The key that says how long texts may be; NULL: none does. */
const char *hf_context_key(const hf_model *m);
/* ---- JSON (json.c) ---- */

/* "an object", "a number", ... */
const char *hf_json_type(const json_t *x);
/* An object in a file of its own; what is wrong is said with its line. To be released even so. */
weft_status hf_read_json(const char *path, json_t **out, weft_error *err);
/* root NULL: out of memory. end: what stands behind it. */
weft_status hf_write_json(const json_t *root, size_t flags, const char *end, const char *folder,
                          const char *name, weft_error *err);
/* A JSON value, or a word without quotes, as tables have them. */
json_t *hf_json_of(const char *text);
/* A number as text, or that of a member. NAN: neither. */
double hf_operand(const json_t *object, const char *word, size_t n);

/* ---- config.json (config.c, config_form.c, config_write.c) ---- */

/* Reads FOLDER/config.json; everything that is wrong at once. A folder of another kind is refused
 * by name. Release m in every case. */
weft_status hf_config_read(const char *folder, const hf_tables *tables, hf_model *m,
                           weft_error *err);
/* Is it a folder that is there? */
weft_status hf_folder_check(const char *folder, weft_error *err);
/* Is there a config.json? What is there instead is said. */
weft_status hf_config_check(const char *folder, weft_error *err);
/* Files of Meta's own. */
weft_status hf_refuse_metas(const char *folder, weft_error *err);
/* dtype: how the tensors are stored. */
weft_status hf_config_write(const char *folder, const hf_model *m, weft_dtype dtype,
                            weft_error *err);
/* Is this a folder with a config.json? */
bool hf_is_folder(const char *folder);
/* Of a JSON object every key may be wrong: each complaint is noted, and what is returned then is
 * good enough to go on with. */
typedef struct hf_reader {
    const char *path; /* for messages */
    json_t *object;
    hf_model *m; /* what is read */
    weft_error *err;
    weft_status status; /* the first complaint's */
} hf_reader;

void hf_complain(hf_reader *r, const char *format, ...) WEFT_PRINTF(2, 3);
/* NULL: not there, or null, which is the same. */
json_t *hf_get(const hf_reader *r, const char *key);
/* A key that may be left out, and else has one value. */
void hf_check_constant(hf_reader *r, const weft_hf_key *k);
/* The keys of an object, as the table says, into the model. */
void hf_read_keys(hf_reader *r, const weft_hf_key *keys);
/* The kind of rotary positions that config.json calls so; word NULL: the model's. NULL: it is
 * default, or not known. */
const weft_hf_rope_type *hf_rope_type(const hf_model *m, const char *word);
/* Rotary positions, in both spellings. */
void hf_read_rotary(hf_reader *r);

/* ---- weft's settings (settings.c, settings_read.c) ---- */

/* The model's section: "[llama3]" and its keys. */
void hf_settings_section(const hf_model *m, weft_text *ini);
/* The same for a checkpoint: {"llama3": {key: value}, ...}; NULL: out of memory. */
json_t *hf_settings_json(const hf_model *m);
/* A model from what a checkpoint's manifest keeps. What are words there ("auto") follows from which
 * tensors there are. Release m in every case. */
weft_status hf_settings_read(const json_t *manifest, const hf_tables *tables,
                             const weft_folder *tensors, const char *where, hf_model *m,
                             weft_error *err);
/* An INI with the folder's model. minimal: no more than that; else to train from. */
weft_status hf_settings_print(const char *folder, const hf_tables *tables, bool minimal,
                              weft_text *ini, weft_error *err);

/* ---- where a parameter lies (map.c) ---- */

/* A parameter of weft's, and where Hugging Face keeps it. */
typedef struct hf_tensor {
    const weft_hf_tensor *row; /* which says so */
    int64_t layer;             /* -1: it is of no block */
    char name[HF_NAME];
    int n_dims;
    int64_t size[WEFT_MAX_DIMS];
} hf_tensor;

/* A tensor of Hugging Face's that is a parameter once more. */
typedef struct hf_copy {
    const weft_hf_tensor *row;
    int of;
    char name[HF_NAME];
} hf_copy;

typedef struct hf_map {
    hf_tensor *list; /* parts of one tensor of Hugging Face's follow each other */
    int n, capacity;
    json_t *places;  /* which of them has a name, or a place in files */
    hf_copy *copies; /* folders that are read may lack them */
    int n_copies;
} hf_map;

/* Not the one that ends a table. */
bool hf_is_row(const weft_hf_tensor *row);
/* Is this parameter of a block behind the last? */
bool hf_is_behind(const hf_model *m, const char *name);
/* How many blocks, with those behind the last. */
int64_t hf_model_blocks(const hf_model *m);
/* Two names for one tensor are an error. Release map in every case. */
weft_status hf_map_create(const hf_model *m, hf_map *map, weft_error *err);
void hf_map_release(hf_map *map);
const hf_tensor *hf_map_find(const hf_map *map, const char *name);
int hf_parts(const hf_tensor *t);
/* Does each index of its first dim have a tensor of its own there? */
bool hf_is_stacked(const hf_tensor *t);
/* How many tensors it lies in, in a folder or in a checkpoint (ours): there 1. */
int64_t hf_files(const hf_tensor *t, bool ours);
/* What a row's tensor is called in files, a pattern. */
static inline const char *hf_file_of(const weft_hf_tensor *row)
{
    return row->file ? row->file : row->name;
}
/* The name of the i-th of these, and the shape that each has; returns its dims. */
void hf_file_name(const hf_tensor *t, int64_t i, bool ours, char name[HF_NAME]);
int hf_file_shape(const hf_model *m, const hf_tensor *t, bool ours, int64_t size[WEFT_MAX_DIMS]);
/* Where a part begins along its dim, in the tensor that it is a part of. */
int64_t hf_part_begin(const hf_model *m, const hf_tensor *t);
/* How the folder's files of tensors are called before numbers and ".safetensors". */
const char *hf_files_stem(const hf_model *m);
/* Has block `layer` what the row says? */
bool hf_is_of_layer(const hf_model *m, const weft_hf_tensor *row, int64_t layer);
/* A pattern with its numbers. layer, index -1: not used. */
void hf_name(char name[HF_NAME], const char *pattern, int64_t layer, int64_t index);
/* Is it in none of the rows that the model has? Files may hold it, and nobody needs it. */
bool hf_is_ignored(const hf_model *m, const char *name);
/* ---- what is read (files.c, source.c, boxes.c, checkpoint.c) ---- */

/* What becomes of tensors that are not the model's own. */
typedef enum hf_extra { HF_EXTRA_REFUSE, HF_EXTRA_LEAVE_OUT, HF_EXTRA_EXPORT } hf_extra;

enum { HF_MOST_NAMED = 20, HF_MOST_COUNTED = 1 << 20 }; /* tensors of one complaint */
/* Of n complaints those that were not made: "further tensors that are missing: 3". */
void hf_say_more(weft_error *err, const char *of, int n, const char *what);

typedef struct hf_source {
    const char *path;
    bool ours; /* a checkpoint of weft's; else a Hugging Face folder */
    hf_model model;
    hf_map map;
    weft_folder *folder;
    bool bare; /* files call tensors so without the prefix */
    const weft_stored **extras;
    int n_extras;
    weft_manifest manifest; /* of a checkpoint */
} hf_source;

/* Both compare names and shapes: every tensor that is missing, strange or of another shape is said
 * at once. Close in every case. A folder: config.json, the index and the files. */
weft_status hf_folder_open(hf_source *x, const char *folder, const hf_tables *tables,
                           hf_extra extra, weft_error *err);
/* path: a checkpoint, or a run folder, whose latest is taken. What is read is compared with the
 * manifest's sums. */
weft_status hf_checkpoint_open(hf_source *x, const char *path, const hf_tables *tables,
                               hf_extra extra, weft_error *err);
/* The last step of both: by its model and its files. */
weft_status hf_source_match(hf_source *x, hf_extra extra, weft_error *err);
void hf_source_close(hf_source *x);
/* The name of the i-th tensor that t lies in. */
void hf_source_name(const hf_source *x, const hf_tensor *t, int64_t i, char name[HF_NAME]);
weft_dtype hf_source_dtype(const hf_source *x, const hf_tensor *t);
/* The box [lo, lo + size) of t, one of map.list, out of a folder, dense, as elements of dtype.
 * Where files have it once more, the same box there must be equal. */
weft_status hf_source_read(const hf_source *x, const hf_tensor *t, const int64_t *lo,
                           const int64_t *size, weft_dtype dtype, void *to, weft_error *err);
/* Out of a checkpoint, of the tensor of Hugging Face's that t is the first part of, and of several
 * the index-th. */
weft_status hf_source_read_file(const hf_source *x, const hf_tensor *t, int64_t index,
                                const int64_t *lo, const int64_t *size, weft_dtype dtype, void *to,
                                weft_error *err);

/* Has the folder the tensors of a model at all? */
bool hf_files_are_there(const char *folder, const hf_model *m);
weft_status hf_files_open(const char *folder, const hf_model *m, weft_folder **out,
                          weft_error *err);
/* Do the files have any tensor of this block? True, too, where they cannot be read. */
bool hf_files_have_block(const char *folder, const hf_model *m, int64_t block);

/* ---- writing (write.c, checkpoint.c, place.c) ---- */

typedef struct hf_options {
    const weft_command_host *host;
    hf_tables tables;
    const char *from, *to;
    weft_dtype dtype; /* WEFT_DTYPES: as stored */
    int64_t max_shard;
    bool force;
    hf_extra extra;
} hf_options;

/* A checkpoint as a folder, or a folder as a checkpoint, into an existing empty folder. *n, *bytes:
 * of tensors there. */
weft_status hf_write(const hf_options *o, const hf_source *from, const char *folder, int *n,
                     int64_t *bytes, weft_error *err);
/* Of n pieces those from `first` on go into one file until there would be more than `most` bytes:
 * where the next one begins. */
int hf_end_of_file(const weft_piece *pieces, int n, int first, int64_t most);
/* files: as weft_manifest_file_print has them. */
weft_status hf_manifest_write(const char *folder, const hf_model *m, const weft_text *files,
                              weft_error *err);

/* Files are made in a folder beside TO, which takes TO's place once everything is written. */
typedef struct hf_place {
    weft_pool pool;
    char *to, *temporary;
    char *old, *parent; /* what TO is called while it is replaced; its folder */
    int fd;             /* of `temporary`, locked; -1: none */
    bool begun;
} hf_place;

/* One conversion at a time. End it in every case. */
weft_status hf_place_begin(hf_place *p, const char *to, bool force, weft_error *err);
weft_status hf_place_commit(hf_place *p, weft_error *err);
/* Removes what was not committed. */
void hf_place_end(hf_place *p);
/* Is there a file of this name? */
bool hf_has_file(const char *folder, const char *name);

weft_status hf_copy_file(const char *from, const char *name, const char *to, const char *as,
                         weft_error *err);

/* ---- tokens that begin and end texts (tokens.c) ---- */

/* [text] bos and eos as the folder's tokenizer and Transformers use them, where they are not what
 * its tokenizer_config.json names. */
void hf_tokens_settings(const char *folder, const hf_model *m, weft_text *ini);
/* The ids of bos and eos that c->model lacks, from the checkpoint's tokenizer. */
void hf_tokens_find(hf_source *c);
/* After the files were copied: the tokenizer as tokenizer.json, whatever it was called. Byte for
 * byte, unless Transformers would begin prompts otherwise than the run's documents begin, or end
 * texts with another token: then with the run's. */
weft_status hf_tokens_write(const hf_source *c, const char *folder, weft_error *err);

/* ---- hf.c's parts ---- */

extern const weft_command hf_convert;
extern const weft_weights hf_weights;
extern const weft_model_format hf_format;

typedef struct hf_plugin {
    const weft_host *host;
} hf_plugin;

/* The run's model's own, once that is open. */
hf_tables hf_run_tables(const weft_host *host);

#endif
