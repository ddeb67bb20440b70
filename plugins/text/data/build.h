/* SPDX-License-Identifier: Apache-2.0 */
/* From files to tokens: one thread reads files and cuts them into jobs, others turn jobs into ids,
 * and the first puts the results, in the order of the files, into the token file. So what is
 * written does not depend on the number of threads. */
#ifndef WEFT_TEXT_BUILD_H
#define WEFT_TEXT_BUILD_H

#include <pthread.h>

#include "data.h"

/* ---- writer.c: a bounded buffer in front of a file ---- */

typedef struct text_writer {
    int fd;
    const char *path;
    int64_t base;    /* where in the file element 0 lies */
    int64_t flushed; /* elements in the file */
    size_t width;    /* bytes per element: 2, 4 or 8 */
    size_t n;        /* elements in the buffer */
    char *buffer;
} text_writer;

weft_status text_writer_init(text_writer *w, int fd, const char *path, int64_t base, size_t width,
                             weft_error *err);
void text_writer_release(text_writer *w);
/* Elements written so far. */
int64_t text_writer_count(const text_writer *w);
weft_status text_writer_put(text_writer *w, uint64_t element, weft_error *err);
/* Many at once; width 2 or 4. */
weft_status text_writer_put_ids(text_writer *w, const int32_t *ids, size_t n, weft_error *err);
weft_status text_writer_flush(text_writer *w, weft_error *err);
/* Forgets all elements from `count` on. */
void text_writer_rewind(text_writer *w, int64_t count);
/* pwrite of everything, with an error that says what to do when the disk is full. */
weft_status text_write_at(int fd, const char *path, const void *data, size_t bytes, int64_t at,
                          weft_error *err);
/* pread of everything, of what was just written. */
weft_status text_read_at(int fd, const char *path, void *data, size_t bytes, int64_t at,
                         weft_error *err);

/* ---- input.c: the bytes of a file, unpacked ---- */

typedef struct text_input text_input;

/* Opens a file; gzip and zstd are known by their first bytes. */
weft_status text_input_open(text_input **in, const char *path, weft_error *err);
/* Takes its bytes as they are. */
weft_status text_input_open_raw(text_input **in, const char *path, weft_error *err);
void text_input_close(text_input *in);
/* Some unpacked bytes; *n = 0 at the end, and where packed data is broken: then text_input_broken
 * says how. */
weft_status text_input_read(text_input *in, char *to, size_t room, size_t *n, weft_error *err);
/* Reads until `room` bytes are there, or the end. */
weft_status text_input_fill(text_input *in, char *to, size_t room, size_t *n, weft_error *err);
const char *text_input_broken(const text_input *in); /* NULL: it is not */
int text_input_fd(const text_input *in);
/* Of the file's own bytes, as far as read: how many, and their hash. */
int64_t text_input_bytes(const text_input *in);
uint64_t text_input_hash(const text_input *in);

/* ---- progress.c ---- */

typedef struct text_progress {
    const weft_host *host;
    int64_t total; /* bytes */
    double start, shown;
    bool line; /* a status line stands */
} text_progress;

void text_progress_start(text_progress *p, const weft_host *host, int64_t total);
/* `done` bytes: a line now and then. */
void text_progress_update(text_progress *p, int64_t done);
/* Takes the line away; gives the seconds it took. */
double text_progress_end(text_progress *p);

/* ---- job.c: what one thread turns into ids ---- */

typedef struct text_bad {
    int line;   /* 0: none */
    char *what; /* what is wrong */
} text_bad;

/* Whole lines of a JSON Lines file, or a part of a plain one. */
typedef struct text_job {
    text_format kind;
    const char *path;
    bool begin, end; /* plain: the first, the last part of its document */
    int64_t at; /* plain: the first byte's place in the file; JSON Lines: the first line's number */
    char *data;
    size_t n, capacity;
    /* results */
    int32_t *ids;
    size_t n_ids, ids_capacity;
    size_t *ends; /* JSON Lines: where in ids each document ends */
    size_t n_ends, ends_capacity;
    text_bad *bads; /* in order of lines */
    size_t n_bads, bads_capacity;
    weft_status status;
    weft_error err;
    bool done;
} text_job;

/* Makes room for n bytes of data. */
weft_status text_job_reserve(text_job *job, size_t n, weft_error *err);
/* Turns data into ids; fills the results. On any thread, with its encoder. */
void text_job_run(text_job *job, text_encoder *encoder);
/* Empty again, with its memory unless that is large. */
void text_job_clear(text_job *job);
void text_job_release(text_job *job);
/* Notes a bad document. */
weft_status text_job_bad(text_job *job, int line, weft_error *err, const char *format, ...)
    WEFT_PRINTF(4, 5);
/* The documents of job's lines: jsonl.c. */
weft_status text_jsonl_run(text_job *job, text_encoder *encoder, weft_error *err);

/* ---- workers.c: jobs in a ring ---- */

typedef struct text_workers {
    text_job *ring;
    size_t n_ring, n_threads;       /* n_threads 0: the caller works */
    uint64_t filled, taken, merged; /* jobs so far */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t *threads;
    text_encoder *encoders; /* one a thread, one at least */
    bool quit;
} text_workers;

/* threads: 1 makes none. */
weft_status text_workers_init(text_workers *w, const text_plugin *text, int threads,
                              weft_error *err);
void text_workers_release(text_workers *w);
/* The next job to fill; NULL if the oldest must be taken first. */
text_job *text_workers_free(text_workers *w);
/* The job that text_workers_free gave is filled. */
void text_workers_submit(text_workers *w);
/* The oldest job, done; waits for it. NULL: none is left. Give it back with text_workers_drop. */
text_job *text_workers_oldest(text_workers *w);
void text_workers_drop(text_workers *w);

/* ---- build.c: files to tokens ---- */

/* Where tokens and document offsets go while the token file is made. */
typedef struct text_build {
    const text_plugin *text;
    const text_source *source;
    text_writer *tokens, *offsets; /* tokens NULL: they stay where they are */
    int64_t n_tokens, n_documents, n_skipped, n_bytes;
    int64_t n_skipped_here; /* in the file that is read */
    int n_files_told;       /* files with skipped documents */
    text_workers workers;
    text_progress progress;
    text_input *in; /* the file that is read */
    int64_t mark;   /* plain: first token of the open document */
    bool content, dropped;
    bool failed; /* what comes later does not count */
} text_build;

/* Reads all files; also fills their size, time and hash, as they were read. */
weft_status text_build_run(text_build *build, text_files *files, weft_error *err);
/* A job to fill, for the file at hand. */
weft_status text_build_job(text_build *build, const text_file *file, text_job **job,
                           weft_error *err);
weft_status text_build_submit(text_build *build, weft_error *err);
/* Puts away all that was submitted. */
weft_status text_build_flush(text_build *build, weft_error *err);
/* A document cannot be used: an error, or with on_bad = skip a count and WEFT_OK. */
weft_status text_build_bad(text_build *build, const char *path, int line, const char *what,
                           weft_error *err);

/* The kinds of files: plain.c, jsonl.c, bin_scan.c. */
weft_status text_read_plain(text_build *build, const text_file *file, weft_error *err);
weft_status text_read_jsonl(text_build *build, const text_file *file, weft_error *err);
/* Hashes, checks every id and finds documents. */
weft_status text_read_bin(text_build *build, const text_file *file, weft_error *err);
weft_status text_read_index(text_build *build, const text_file *file, weft_error *err);

/* ---- blocks.c: checksums over a token file's tokens and offsets ---- */

enum {
    TEXT_BLOCKS_AT = 4096, /* where in the file the first block begins */
    TEXT_BLOCK =
        256 << 10, /* small, as a shuffled run reads all of one for its first sample there */
};

/* Blocks in [TEXT_BLOCKS_AT, end), the last one shorter. */
int64_t text_blocks_count(int64_t end);
/* A bit a block, none checked. NULL: out of memory. */
uint64_t *text_blocks_alloc(int64_t end);
/* Do all blocks of a mapped file have these sums? */
bool text_blocks_match(const char *map, int64_t end, const uint64_t *sums);

/* ---- token_file.c ---- */

#define TEXT_DAMAGED "it is damaged"

/* Maps an existing token file. *why: NULL, or why it cannot be used (a static text); cache is left
 * empty then. */
weft_status text_token_file_map(text_cache *cache, const char *path, const weft_text *identity,
                                text_files *files, const char **why, weft_error *err);
/* Makes one in fd (open for reading and writing, empty, called `path`), complete and on disk. */
weft_status text_token_file_make(const text_plugin *text, text_source *source, int fd,
                                 const char *path, const weft_text *identity, weft_error *err);

#endif
