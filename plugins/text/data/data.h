/* SPDX-License-Identifier: Apache-2.0 */
/* Training data, in the order it flows: words of the INI -> sources -> files -> documents -> tokens
 * -> token file -> samples. How files become tokens is in build.h. */
#ifndef WEFT_TEXT_DATA_H
#define WEFT_TEXT_DATA_H

#include "../tokenizer/text_tokenizer.h"

#include <weft/store.h>
#include <weft/weft.h>

typedef struct text_plugin text_plugin;

/* ---- encode.c: one thread's way to encode documents ---- */

typedef struct text_encoder {
    const text_plugin *text;
    void *scratch; /* what the tokenizer keeps for one thread */
} text_encoder;

weft_status text_encoder_init(text_encoder *e, const text_plugin *text, weft_error *err);
void text_encoder_release(text_encoder *e);
/* Appends the ids of s[0..n), a document, or with continues what lies behind a cut. */
weft_status text_encoder_add(text_encoder *e, bool continues, const char *s, size_t n,
                             int32_t **ids, size_t *n_ids, size_t *capacity, weft_error *err);

/* ---- files.c: from words of the INI to files ---- */

typedef enum text_format { TEXT_PLAIN, TEXT_JSONL, TEXT_BIN, TEXT_INDEX, TEXT_AUTO } text_format;

typedef struct text_file {
    char *path;       /* canonical, absolute */
    text_format kind; /* not TEXT_AUTO; TEXT_INDEX: the .idx of the TEXT_BIN before it */
    int64_t size, mtime_s, mtime_ns;
    uint64_t hash; /* of the contents; 0 until read or taken from the cache */
} text_file;

/* Zero-initialised is valid and empty. */
typedef struct text_files {
    text_file *list;
    size_t n, capacity;
} text_files;

/* Resolves words [first, end) of [text] key: files, folders and globs in listed order, within each
 * in byte order of names; a file matched again is taken once. Every wrong word is reported. */
weft_status text_files_find(text_files *files, const weft_params *params, const char *key,
                            int first, int end, text_format format, weft_error *err);
/* Appends; takes a copy of path. */
weft_status text_files_add(text_files *files, text_file file, weft_error *err);
void text_files_release(text_files *files);
/* Files that hold data, without indices. */
size_t text_files_count(const text_files *files);
/* Does the name end so (".txt"), or so with .gz or .zst behind it? */
bool text_is_called(const char *name, const char *end);

/* ---- bin.c: files of tokens that other programs made ---- */

/* One such file: `n_tokens` ids of `width` bytes, little-endian, from byte `data_at` on. */
typedef struct text_bin {
    const char *path;
    const char *index;                /* its .idx, NULL: none */
    int64_t data_at, n_tokens, first; /* first: number of tokens in the files before it */
    size_t width;
    bool begins; /* its documents begin with an id of their own, rather than ending with one */
} text_bin;

typedef struct text_bins {
    text_bin *list;
    size_t n;
    uint32_t vocab; /* ids must be below */
} text_bins;

/* Reads only headers. A source without such files has none. */
weft_status text_bins_open(text_bins *bins, const text_plugin *text, const text_files *files,
                           weft_error *err);
void text_bins_release(text_bins *bins);
/* Copies tokens [at, at + n), which exist. A file that has become shorter, or holds ids outside the
 * vocabulary now, is an error that names it. Thread-safe. */
weft_status text_bins_read(const text_bins *bins, int64_t at, int64_t n, int32_t *ids,
                           weft_error *err);

/* ---- cache.c, token_file.c, blocks.c: the token file ---- */

/* A mapped token file, read only. Zero-initialised is valid and empty. Tokens and offsets may be
 * damaged: text_cache_check comes before they are read. */
typedef struct text_cache {
    char *path;
    const void *map;
    size_t map_bytes;
    const uint64_t *sums; /* of each block */
    uint64_t *checked;    /* a bit a block: its sum was right; atomic */
    int64_t blocks_end;
    size_t width;       /* 2 or 4 bytes a token; 0: the tokens are in the source's own files */
    const void *tokens; /* [n_tokens] */
    int64_t n_tokens, n_documents, n_skipped, n_bytes;
    const uint64_t
        *offsets; /* [n_documents + 1]: document d is tokens offsets[d] to offsets[d + 1] */
} text_cache;

/* Compares the blocks that hold n bytes from `at` on, which lie in the map, with their sums, each
 * once. Thread-safe. */
weft_status text_cache_check(const text_cache *cache, const void *at, size_t n, weft_error *err);

static inline int32_t text_cache_token(const text_cache *cache, int64_t i)
{
    return cache->width == 2 ? ((const uint16_t *)cache->tokens)[i]
                             : (int32_t)((const uint32_t *)cache->tokens)[i];
}

/* ---- source.c ---- */

/* Data that is drawn from with a weight of its own. */
typedef struct text_source {
    const char *key; /* the parameter that names it: "path", "mix", "validation_path" */
    int first, end;  /* its words */
    double weight;   /* > 0; 0: for validation only */
    text_files files;
    text_bins bins;
    text_cache cache;
    int64_t n_train; /* tokens [0, n_train) train, the rest is held back */
} text_source;

/* Reads the INI's words: which sources there are. Opens nothing. */
weft_status text_sources_init(text_plugin *text, weft_error *err);
/* Finds files, makes or maps token files. */
weft_status text_sources_open(text_plugin *text, weft_error *err);
void text_sources_close(text_plugin *text);
void text_sources_release(text_plugin *text);
/* Copies tokens [at, at + n), which exist. */
weft_status text_source_read(const text_source *source, int64_t at, int64_t n, int32_t *ids,
                             weft_error *err);

/* Maps the token file of a source; makes it first if it is missing, damaged or older than its
 * files. Any number of processes and threads may do so at once. Fills files' hashes. */
weft_status text_cache_open(text_source *source, const text_plugin *text, weft_error *err);
void text_cache_release(text_cache *cache);

/* ---- identity.c: what a token file was made from ---- */

/* Every setting that decides the tokens, and every file's path: two token files with equal texts
 * differ only by their files' contents. Holds NULs. */
weft_status text_identity(const text_plugin *text, const text_files *files, weft_text *out,
                          weft_error *err);
/* Which data a run sees: contents and settings, but neither paths nor times. */
uint64_t text_fingerprint(const text_plugin *text);

/* ---- mix.c: which source a sample comes from ---- */

enum { TEXT_SOURCES_MAX = 64, TEXT_MIX_BLOCK = 4096 };

/* Shares in units of 2^-48; they and everything that follows are integers, so they are the same on
 * every machine. */
typedef struct text_mix {
    size_t n;      /* sources that train; they come first in the list */
    size_t filler; /* the heaviest: gets what the others leave of a block */
    uint64_t share[TEXT_SOURCES_MAX];
} text_mix;

void text_mix_init(text_mix *mix, const text_source *sources, size_t n);
/* Training sample i is sample *k of source *s. */
void text_mix_place(const text_mix *mix, uint64_t seed, uint64_t i, size_t *s, uint64_t *k);

/* ---- samples.c: tokens to samples ---- */

/* The service of capability "data"; self is the plugin's instance. */
extern const weft_data text_data_service;

/* ---- describe.c: for people ---- */

void text_describe(void *self, weft_text *out);

/* ---- what the plugin is told, and holds ---- */

struct text_plugin {
    const weft_host *host;
    text_tokenizer *tokenizer;
    text_format format;
    const char *field;
    bool bos, eos, shuffle, skip_bad, repair_utf8, reset_attention, reset_positions;
    size_t bin_width; /* of files of tokens without header; 0: by the vocabulary */
    double validation;
    text_source *sources;
    size_t n_sources;
    text_mix mix;
    /* from open to close */
    bool opened;
    uint64_t fingerprint;
    /* from begin */
    int64_t seq_len; /* 0 before */
    uint64_t seed;
};

/* A weft_error for a failed system call: "cannot <doing> <path>: <reason>", with advice if the disk
 * is full. Reads errno. */
weft_status text_fail_errno(weft_error *err, weft_status status, const char *doing,
                            const char *path);

#endif
