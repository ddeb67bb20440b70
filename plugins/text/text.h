/* SPDX-License-Identifier: Apache-2.0 */
/* The text plugin's own interfaces, in the order data flows: path list -> files -> documents -> tokens -> cache file -> samples. */
#ifndef WEFT_TEXT_TEXT_H
#define WEFT_TEXT_TEXT_H

#include <weft/weft.h>

typedef struct text_plugin text_plugin;

/* ---- tokenizer.c: the seam for tokenizers ---- */

/* Stateless and thread-safe. encode gets valid UTF-8, a document in pieces that end between characters, and never BOS or EOS. */
typedef struct text_tokenizer {
    const char *name;         /* as in the INI; also keys the cache: change it when ids change */
    int vocab_size, bos, eos; /* bos, eos: -1 for none */
    /* Appends to *ids, a weft_realloc'ed array. */
    weft_status (*encode)(const char *text, size_t n, int32_t **ids, size_t *n_ids, size_t *capacity, weft_error *err);
    /* Appends the bytes of one id; special ids have none. False: no such id. */
    bool (*decode)(int32_t id, weft_text *text);
} text_tokenizer;

/* NULL if no tokenizer is called so. */
const text_tokenizer *text_tokenizer_find(const char *name);
/* The names, NULL-ended: the choices of [text] tokenizer. */
extern const char *const text_tokenizer_names[];
/* The service of capability "tokenizer"; self is the plugin's instance. */
extern const weft_tokenizer text_tokenizer_service;

/* ---- utf8.c ---- */

/* Bytes at the start of s[0..n) that are whole, well-formed characters. */
size_t text_utf8_valid(const char *s, size_t n);
/* s does not start with a whole character: length of the ill-formed part that one U+FFFD stands for, or 0 if more bytes could complete it (never 0 at
 * `end`). */
size_t text_utf8_bad(const char *s, size_t n, bool end);
/* Appends s with every ill-formed part replaced by U+FFFD. */
void text_utf8_repair(const char *s, size_t n, weft_text *out);
#define TEXT_UTF8_REPLACEMENT "\xEF\xBF\xBD"

/* ---- files.c: from the path list to files ---- */

typedef enum text_format { TEXT_AUTO, TEXT_PLAIN, TEXT_JSONL } text_format;

typedef struct text_file {
    char *path; /* canonical, absolute */
    bool jsonl;
    int64_t size, mtime_s, mtime_ns;
    uint64_t hash; /* of the contents; 0 until read or taken from the cache */
} text_file;

/* Zero-initialised is valid and empty. */
typedef struct text_files {
    text_file *list;
    size_t n, capacity;
} text_files;

/* Resolves [text] path: files, folders and globs in listed order, within each in byte order of names; a file matched again is taken once. Every wrong
 * word is reported. */
weft_status text_files_find(text_files *files, const weft_params *params, text_format format, weft_error *err);
void text_files_release(text_files *files);

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

weft_status text_writer_init(text_writer *w, int fd, const char *path, int64_t base, size_t width, weft_error *err);
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
weft_status text_write_at(int fd, const char *path, const void *data, size_t bytes, int64_t at, weft_error *err);

/* ---- build.c: files to tokens ---- */

/* Where tokens and document offsets go while the cache is made. */
typedef struct text_build {
    const text_plugin *text;
    text_writer *tokens, *offsets;
    int64_t n_documents, n_skipped, n_bytes;
    int64_t mark; /* first token of the open document */
    bool content; /* the open document has any */
    int32_t *ids; /* scratch */
    size_t capacity;
} text_build;

/* Reads all files; also fills their size, time and hash, as they were read. */
weft_status text_build_run(text_build *build, text_files *files, weft_error *err);
void text_build_release(text_build *build);

/* One document at a time: begin, add..., and then end or drop. An empty document leaves no tokens. */
weft_status text_document_begin(text_build *build, weft_error *err);
weft_status text_document_add(text_build *build, const char *text, size_t n, weft_error *err);
weft_status text_document_end(text_build *build, weft_error *err);
void text_document_drop(text_build *build);
/* A document cannot be used: an error, or with on_bad = skip a count and WEFT_OK. */
weft_status text_document_bad(text_build *build, weft_where at, weft_error *err, const char *format, ...) WEFT_PRINTF(4, 5);

/* The two formats: read all of fd and hash every byte of it into *hash, *size. plain.c, jsonl.c. */
weft_status text_read_plain(text_build *build, int fd, const char *path, uint64_t *hash, int64_t *size, weft_error *err);
weft_status text_read_jsonl(text_build *build, int fd, const char *path, uint64_t *hash, int64_t *size, weft_error *err);
/* One read(2) that goes on after interruptions; *n = 0 at the end. */
weft_status text_read_some(int fd, const char *path, char *to, size_t room, size_t *n, weft_error *err);

/* ---- identity.c: what a token file was made from ---- */

/* Every setting that decides the tokens, and every file's path: two token files with equal texts differ only by their files' contents. Holds NULs. */
weft_status text_identity(const text_plugin *text, const text_files *files, weft_text *out, weft_error *err);
/* Which data a run sees: contents and settings, but neither paths nor times. */
uint64_t text_fingerprint(const text_plugin *text, const text_files *files);

/* ---- cache.c, token_file.c: the token file ---- */

/* A mapped token file, read only. Zero-initialised is valid and empty. */
typedef struct text_cache {
    const void *map;
    size_t map_bytes;
    size_t width;       /* 2 or 4 bytes a token */
    const void *tokens; /* [n_tokens] */
    int64_t n_tokens, n_documents, n_skipped, n_bytes;
    const uint64_t *offsets; /* [n_documents + 1]: document d is tokens offsets[d] to offsets[d + 1] */
} text_cache;

/* Maps the token file of these files and settings; makes it first if it is missing, damaged or older than its files. Any number of processes and
 * threads may do so at once. Fills files' hashes. */
weft_status text_cache_open(text_cache *cache, const text_plugin *text, text_files *files, weft_error *err);
void text_cache_release(text_cache *cache);

/* Maps an existing token file. *why: NULL, or why it cannot be used (a static text); cache is left empty then. */
weft_status text_token_file_map(text_cache *cache, const char *path, const weft_text *identity, text_files *files, const char **why, weft_error *err);
/* Makes one in fd (open for reading and writing, empty, called `path`), complete and on disk. */
weft_status text_token_file_make(const text_plugin *text, int fd, const char *path, const weft_text *identity, text_files *files, weft_error *err);

static inline int32_t text_cache_token(const text_cache *cache, int64_t i)
{
    return cache->width == 2 ? ((const uint16_t *)cache->tokens)[i] : (int32_t)((const uint32_t *)cache->tokens)[i];
}

/* ---- samples.c: tokens to samples ---- */

/* The service of capability "data"; self is the plugin's instance. */
extern const weft_data text_data_service;

/* ---- text.c ---- */

struct text_plugin {
    const weft_host *host;
    const text_tokenizer *tokenizer;
    text_format format;
    const char *field;
    bool bos, eos, shuffle, skip_bad, repair_utf8;
    double validation;
    /* from open to close */
    text_files files;
    text_cache cache;
    uint64_t fingerprint;
    int64_t n_train; /* tokens [0, n_train) train, the rest is held back */
    /* from begin */
    int64_t seq_len; /* 0 before */
    uint64_t seed;
};

/* A weft_error for a failed system call: "cannot <doing> <path>: <reason>", with advice if the disk is full. Reads errno. */
weft_status text_fail_errno(weft_error *err, weft_status status, const char *doing, const char *path);

#endif
