/* SPDX-License-Identifier: Apache-2.0 */
/* `weft tokenize`: its options, and the way from files to what it prints. Files are read by the
 * first thread and cut into tasks, any thread works on a task, and the first takes the results in
 * the order of the files: what comes out does not depend on the number of threads. */
#ifndef WEFT_TEXT_COMMAND_H
#define WEFT_TEXT_COMMAND_H

#include "../tokenizer/tokenizer.h"

#include <weft/weft.h>

/* ---- options.c ---- */

typedef enum tokenize_mode {
    TOKENIZE_ENCODE,
    TOKENIZE_DECODE,
    TOKENIZE_COUNT,
    TOKENIZE_INFO,
    TOKENIZE_TRAIN
} tokenize_mode;

typedef struct tokenize_options {
    tokenize_mode mode;
    const char *tokenizer, *pattern, *out, *field, *bos, *eos;
    const char **special; /* NULL-ended */
    int n_special;
    const char **files; /* n_files; none: standard input */
    int n_files;
    bool json, no_special, replace, jsonl, plain;
    int bin; /* bytes an id in a binary file: 2 or 4; 0: text */
    bool bin_auto;
    int threads;
    int vocab_size, max_token, max_length;
    int64_t min_frequency, max_word;
    bool overwrite;
    weft_text words; /* owns what special points into */
} tokenize_options;

/* Reports every wrong word. */
weft_status tokenize_options_parse(tokenize_options *o, int threads, int argc, char **argv,
                                   weft_error *err);
void tokenize_options_release(tokenize_options *o);
extern const char tokenize_usage[];

/* ---- files.c: names to files ---- */

typedef struct tokenize_file {
    char *path;
    bool jsonl;
    int64_t size; /* 0: unknown */
} tokenize_file;

typedef struct tokenize_files {
    tokenize_file *list;
    size_t n, capacity;
    int64_t bytes;
} tokenize_files;

/* Folders are walked; every name that cannot be read is reported. No names: standard input. */
weft_status tokenize_files_find(tokenize_files *files, const tokenize_options *o, weft_error *err);
void tokenize_files_release(tokenize_files *files);

/* ---- work.c: tasks and threads ---- */

/* A document, or a part of one, cut where ids do not change. */
typedef struct tokenize_piece {
    size_t end; /* in the task's text; it starts where the one before ends */
    size_t file;
    int line; /* of its first byte */
    bool first, last;
} tokenize_piece;

typedef struct tokenize_task {
    char *text;
    size_t n, capacity;
    tokenize_piece *pieces;
    size_t n_pieces, pieces_capacity;
    int64_t read; /* bytes of all files read when it was made */
    /* results */
    weft_text out;    /* what to write */
    int64_t *n_ids;   /* of each piece */
    int64_t *n_bytes; /* of each piece's text */
    size_t n_capacity;
    weft_status status;
    weft_error err;
    bool done;
} tokenize_task;

typedef struct tokenize_job tokenize_job;

/* What one thread keeps. */
typedef struct tokenize_worker {
    tokenize_job *job;
    tokenizer_scratch *scratch;
    int32_t *ids;
    size_t ids_capacity;
    void *own; /* the job's */
} tokenize_worker;

struct tokenize_job {
    const weft_command_host *host;
    const tokenize_options *options;
    const tokenizer *tokenizer;
    const tokenize_files *files;
    /* Works on one piece, whose text is UTF-8, and fills task->n_ids[i] and out; any thread. */
    weft_status (*piece)(tokenize_worker *worker, tokenize_task *task, size_t i, const char *text,
                         size_t n, weft_error *err);
    /* Takes a finished task, in order; the first thread. */
    weft_status (*take)(void *self, tokenize_task *task, weft_error *err);
    void *self;
    void **own;        /* [options->threads] for workers, or NULL */
    const char *doing; /* for the progress bar: "tokenising" */
};

/* Reads all files to the end even if some are wrong, so that every bad place is known; after the
 * first, nothing is taken. */
weft_status tokenize_run(const tokenize_job *job, weft_error *err);

/* A ring of tasks. */
typedef struct tokenize_ring tokenize_ring;

weft_status tokenize_ring_create(const tokenize_job *job, tokenize_ring **out, weft_error *err);
void tokenize_ring_destroy(tokenize_ring *ring);
/* An empty task to fill, or NULL with an error. Takes finished ones if it must. */
weft_status tokenize_ring_next(tokenize_ring *ring, tokenize_task **task, weft_error *err);
/* What tokenize_ring_next gave is full. */
weft_status tokenize_ring_submit(tokenize_ring *ring, weft_error *err);
/* Something outside the tasks is wrong: nothing more is taken. */
void tokenize_ring_fail(tokenize_ring *ring);
weft_status tokenize_ring_finish(tokenize_ring *ring, weft_error *err);

/* ---- piece.c ---- */

/* Works on every piece of a task: JSON is read, UTF-8 checked; notes what is wrong in task->err. */
void tokenize_task_run(tokenize_worker *worker, tokenize_task *task);
weft_status tokenize_task_add(tokenize_task *task, const char *text, size_t n, weft_error *err);
weft_status tokenize_task_end_piece(tokenize_task *task, tokenize_piece piece, weft_error *err);
void tokenize_task_clear(tokenize_task *task);
void tokenize_task_release(tokenize_task *task);

/* ---- output.c ---- */

/* Standard output, or a file that appears when it is complete. */
typedef struct tokenize_output {
    const weft_command_host *host;
    const char *path;
    char *part;
    bool nameless; /* part does not exist yet */
    int fd;
} tokenize_output;

weft_status tokenize_output_open(tokenize_output *out, const weft_command_host *host,
                                 const char *path, weft_error *err);
weft_status tokenize_output_write(tokenize_output *out, const void *data, size_t n,
                                  weft_error *err);
/* Puts the file in place if ok. */
weft_status tokenize_output_close(tokenize_output *out, bool ok, weft_error *err);

/* ---- the modes ---- */

weft_status tokenize_load(const tokenize_options *o, tokenizer **out, weft_error *err); /* info.c */
weft_status tokenize_info(const weft_command_host *host, const tokenize_options *o,
                          weft_error *err);
weft_status tokenize_encode(const weft_command_host *host, const tokenize_options *o,
                            weft_error *err); /* and count */
weft_status tokenize_decode(const weft_command_host *host, const tokenize_options *o,
                            weft_error *err);
weft_status tokenize_train(const weft_command_host *host, const tokenize_options *o,
                           weft_error *err);

/* ---- command.c ---- */

extern const weft_command text_command; /* weft tokenize */

#endif
