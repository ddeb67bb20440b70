/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: what the plugin's files share. A checkpoint RUN/ckpt/step-12 holds
 *
 *     manifest.json                    it is whole if and only if this is there
 *     model-00000.safetensors          rank 0's pieces of parameters
 *     optim/optim-00000.safetensors
 *
 * and the tokenizer's files. */
#ifndef CKPT_H
#define CKPT_H

#include <jansson.h>
#include <pthread.h>
#include <weft/plugin.h>
#include <weft/store.h>

enum { CKPT_CHUNK = 512 << 10 }; /* what is written, and copied, at a time */
enum { CKPT_PATH = 4096 };

/* ---- names.c: folders of checkpoints ---- */

/* A folder that is being written, or removed, holds this file from its first moment to its last, so
 * that it can be told from one that has lost its manifest: renaming it makes a checkpoint whole,
 * and renaming it back is how its removal begins. */
#define CKPT_DRAFT "manifest.json.new"

typedef struct ckpt_entry {
    int64_t step;
    bool whole;      /* it has a manifest */
    bool unfinished; /* it was never whole, or is half removed; neither of the two: whose it is, and
                        what it is worth, is not known */
} ckpt_entry;

typedef struct ckpt_list {
    ckpt_entry *list; /* by step, oldest first */
    int n;
} ckpt_list;

/* The folder of a step in `root`; NULL when out of memory. */
char *ckpt_step_path(const char *root, int64_t step);
bool ckpt_exists(const weft_io *io, const char *path);
/* What is in a folder: everything of an entry but its step. */
ckpt_entry ckpt_look(const weft_io *io, const char *dir);
/* The step-N folders of root; none if it does not exist. */
weft_status ckpt_scan(const weft_io *io, const char *root, ckpt_list *out, weft_error *err);
void ckpt_list_release(ckpt_list *list);
/* A checkpoint's folder from what a user names: it, a run's folder, or a folder of checkpoints
 * (then the newest whole one). */
weft_status ckpt_resolve(const weft_io *io, const char *name, char **path, weft_error *err);
/* Renames a folder to one that is not there yet, FOLDER.aside-M. */
weft_status ckpt_rename_aside(const weft_io *io, const char *path, weft_error *err);
/* Does so with folders that are neither whole nor unfinished; says which. */
weft_status ckpt_set_strays_aside(const weft_io *io, const char *root, const weft_log *log,
                                  weft_error *err);
/* Renames checkpoints after `step` (and at it, if `too`), so that they are not taken for this
 * run's; *n: how many. */
weft_status ckpt_set_aside(const weft_io *io, const char *root, int64_t step, bool too, int *n,
                           weft_error *err);

/* ---- parts.c: what one rank writes ---- */

typedef struct ckpt_part {
    const weft_state_tensor *tensor;
    weft_piece piece;
    int64_t offset;  /* in bytes, from the tensor's data */
    int file, index; /* 0: model, 1: optim; which piece of it */
} ckpt_part;

typedef struct ckpt_parts {
    ckpt_part *list;
    int n, n_of[2];
    int64_t bytes;
} ckpt_parts;

typedef struct ckpt_choice {
    const weft_params *params; /* for `exclude`; NULL: nothing is excluded */
    bool model_only;
    weft_dtype dtype; /* of floats, as stored; WEFT_DTYPES: as they are */
} ckpt_choice;

bool ckpt_excluded(const weft_params *params, const char *name);
/* A parameter, or a state that goes where parameters go: what "the weights alone" are. */
bool ckpt_of_model(const weft_state_tensor *t);
weft_status ckpt_parts_init(ckpt_parts *parts, const weft_state_view *state,
                            const ckpt_choice *choice, weft_error *err);
void ckpt_parts_release(ckpt_parts *parts);

/* ---- buffer.c: a ring that pieces wait in to be written ---- */

typedef struct ckpt_buffer {
    char *data;
    int64_t capacity, head, tail; /* head and tail only grow */
} ckpt_buffer;

/* Bytes that a piece of n takes. */
int64_t ckpt_buffer_room(int64_t n);
/* A place for n bytes, and what `tail` becomes once they are written; NULL: none now. */
char *ckpt_buffer_take(ckpt_buffer *b, int64_t n, int64_t *end);

/* ---- writer.c: a thread that writes one rank's files ---- */

typedef struct ckpt_chunk {
    int part;
    int64_t at, bytes;
    const char *copy; /* in the buffer; NULL: not copied */
    int64_t end;      /* what the buffer's tail becomes when it is written */
} ckpt_chunk;

typedef struct ckpt_writer {
    const weft_io *io;
    const weft_state_view *state;
    const char *dir; /* the checkpoint's folder */
    int rank;
    const char *const *copies; /* files to be copied into it, NULL-ended; may be NULL */
    ckpt_parts parts;
    ckpt_buffer *buffer;
    ckpt_chunk *chunks;
    int64_t n_chunks, next,
        staged; /* chunks written; chunks from `next` to `staged` are in the buffer */
    bool staging, live, quit, failed;
    bool copying; /* training waits: the thread does, too, so that the copy has the memory to itself
                   */
    char *scratch; /* for what is converted, and behind it for what is read */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    weft_text record; /* the manifest's lines about the files */
    weft_error err;
} ckpt_writer;

/* Everything but io, state, dir, rank, copies, buffer and parts is made here; parts are owned by
 * the writer. */
weft_status ckpt_writer_init(ckpt_writer *w, weft_error *err);
void ckpt_writer_release(ckpt_writer *w);
/* The thread's work; the result is also in `failed` and `err`. */
weft_status ckpt_writer_run(ckpt_writer *w);
/* The state may change once this returns. */
weft_status ckpt_writer_stage(ckpt_writer *w, weft_error *err);
void ckpt_writer_quit(ckpt_writer *w);

/* ---- manifest.c ---- */

typedef struct ckpt_manifest {
    weft_manifest base;
    const char *path; /* the checkpoint's folder */
    const json_t *root;
    weft_progress progress;
    int64_t steps;
    uint64_t data_id, tokenizer_id;
    const char *model; /* the plugin */
} ckpt_manifest;

void ckpt_manifest_write(weft_text *text, const weft_state_view *state, const weft_params *params,
                         const char *records);
/* Reads and checks it; files are not looked at. */
weft_status ckpt_manifest_read(const weft_io *io, const char *path, ckpt_manifest *out,
                               weft_error *err);
void ckpt_manifest_release(ckpt_manifest *m);
/* Names files that the manifest does not know: they are somebody else's (an error an item). */
weft_status ckpt_find_strays(const weft_io *io, const ckpt_manifest *m, weft_error *err);
/* Reads every file, names each that is wrong (an error an item); strays: also those. */
weft_status ckpt_manifest_verify(const weft_io *io, const ckpt_manifest *m, bool strays,
                                 weft_error *err);

/* ---- identity.c: may this run go on from that checkpoint? ---- */

/* Refuses another model; also another seed, seq_len, data or tokenizer, unless restart: then
 * *other_data says so. *changes receives what else differs, and is taken. */
weft_status ckpt_identity_check(const ckpt_manifest *m, const weft_state_view *state, bool restart,
                                bool *other_data, weft_text *changes, weft_error *err);

/* ---- compare.c ---- */

/* Says what differs; counts what is state: tensors and counters. plugins: whose tables say of what
 * type keys are. */
weft_status ckpt_compare(const weft_finder *plugins, const ckpt_manifest *a, const ckpt_manifest *b,
                         weft_text *text, int *differences, weft_error *err);
/* A section of a manifest, or, keys being NULL, of this run. */
typedef struct ckpt_section {
    const json_t *keys;
    const weft_state_view *state;
    const char *name;
} ckpt_section;

/* OPEN: a word that a plugin makes a number of, beside a number: shapes of tensors tell. */
typedef enum ckpt_answer { CKPT_SAME, CKPT_OPEN, CKPT_OTHER } ckpt_answer;

/* NULL: there is no such key. */
const char *ckpt_section_text(const ckpt_section *section, const char *key);
/* By the key's type, if its table is known; what does nothing in both is the same. */
ckpt_answer ckpt_same_setting(const weft_param *table, const char *key, const ckpt_section *a,
                              const ckpt_section *b);

/* ---- the service ---- */

typedef enum ckpt_phase { CKPT_IDLE, CKPT_WRITING, CKPT_COMMITTING } ckpt_phase;

typedef struct ckpt {
    const weft_host *host;
    const weft_params *params;
    const weft_io *io;
    char *root; /* DIR/ckpt; NULL: no run folder */
    double last_begin_s, elapsed_s;
    int64_t saved_step; /* -1: none */
    ckpt_buffer buffer;
    /* the save under way */
    ckpt_phase phase;
    weft_state_view state;
    char *dir;     /* where it goes */
    char *pending; /* where it is written */
    bool export;
    weft_status outcome; /* of the last save */
    weft_text why;
    double began_s, held_s; /* when it began; how long the loop waited for it */
    ckpt_writer writer;
    bool writer_made, thread_made;
    pthread_t thread;
    bool done; /* atomic: the thread's part is over */
    char *manifest;
    size_t manifest_size;
    weft_status thread_status;
    weft_error thread_err;
} ckpt;

extern const weft_store ckpt_store;
extern const weft_command ckpt_command;
extern const weft_param ckpt_params[];

/* host->exchange, for as long as [ckpt] timeout allows. */
weft_status ckpt_exchange(const weft_host *host, const void *mine, size_t n, void *all,
                          weft_error *err);
/* Agreement: every rank's status and text are known to all; the first failure is everyone's.
 * *whose: its rank, -1 if all is well. */
weft_status ckpt_agree(const weft_host *host, weft_status mine, const weft_error *why,
                       weft_text *text, int *whose, weft_error *err);

/* read.c: fills the state but what is skipped [n_tensors]; all that is read is checked. */
weft_status ckpt_read(const weft_host *host, const weft_state_view *state, weft_folder *folder,
                      const bool *skip, weft_error *err);
/* load.c */
weft_status ckpt_load(void *self, const weft_state_view *state, weft_progress *progress,
                      weft_store_found *found, weft_error *err);
/* save.c */
weft_status ckpt_begin(void *self, const weft_state_view *state, weft_error *err);
weft_status ckpt_before_update(void *self, weft_error *err);
bool ckpt_ready(void *self);
weft_status ckpt_advance(void *self, weft_error *err);
weft_status ckpt_finish(void *self, bool last, weft_error *err);
void ckpt_abandon(void *self);
/* commit.c: rank 0's part, on its thread: makes the checkpoint whole, removes old ones; or removes
 * what failed. */
weft_status ckpt_commit(ckpt *self, weft_error *err);
/* A checkpoint's folder with all that is in it. Only what is surely the plugin's is ever removed: a
 * folder that is unfinished, or whole with a manifest that has its own sum. */
weft_status ckpt_remove(const weft_io *io, const char *dir, weft_error *err);
/* Which of the whole checkpoints of `list` go, newest ones kept: drop[i]. */
void ckpt_choose_old(const ckpt_list *list, int64_t keep, int64_t keep_every, bool *drop);
weft_status ckpt_prune(const weft_io *io, const char *root, int64_t newest, int64_t keep,
                       int64_t keep_every, weft_error *err);

#endif
