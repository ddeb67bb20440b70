/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_INTERNAL_H
#define STORE_INTERNAL_H

#include "base/files.h"
#include <weft/store.h>

#include <pthread.h>
#include <xxhash.h>

/* ---- io.c ---- */

/* All n bytes, through short transfers and EINTR. */
weft_status store_read(const weft_io *io, int fd, const char *path, void *to, int64_t n, int64_t at,
                       weft_error *err);
weft_status store_write(const weft_io *io, int fd, const char *path, const void *from, int64_t n,
                        int64_t at, weft_error *err);
int store_open(const weft_io *io, const char *path, int flags, mode_t mode);
int store_fsync(const weft_io *io, int fd);
/* What comes before the last slash; "." and "/" as one would expect. weft_free. */
char *store_parent(const char *path);

extern const char store_untouched[]; /* the hint of failed writes */

/* ---- types.c ---- */

/* An element type by the name that files use. */
typedef struct store_type {
    const char *name;
    int bits;
    weft_dtype dtype; /* WEFT_DTYPES: weft has none */
    bool half;        /* F16, which is read as other floats */
} store_type;

const char *store_type_name(weft_dtype dtype);
const store_type *store_type_find(const char *name); /* NULL: never heard of */
bool store_converts(const store_type *from, weft_dtype to);
void store_convert(const store_type *from, weft_dtype dtype, const void *data, void *to, int64_t n);

/* ---- sums.c ---- */

/* Checksums of a file while its bytes pass by in order. */
typedef struct store_summer {
    XXH3_state_t *state;
    int64_t at; /* bytes seen */
    weft_sums sums;
} store_summer;

weft_status store_summer_init(store_summer *summer, int64_t bytes, weft_error *err);
void store_summer_release(store_summer *summer);
void store_summer_add(store_summer *summer, const void *data, int64_t n);
/* Adds what is missing from the file. */
weft_status store_summer_read(store_summer *summer, const weft_io *io, int fd, const char *path,
                              weft_error *err);

/* ---- box.c ---- */

/* Elements; false: too many to count. */
bool store_volume(int n_dims, const int64_t *size, int64_t *volume);
bool store_boxes_meet(int n_dims, const int64_t *lo_a, const int64_t *size_a, const int64_t *lo_b,
                      const int64_t *size_b);

/* ---- header.c ---- */

/* A tensor of one file. */
typedef struct store_entry {
    const char *name, *type_name;
    const store_type *type; /* NULL: unknown */
    int n_dims;
    int64_t lo[WEFT_MAX_DIMS], size[WEFT_MAX_DIMS];
    int64_t whole[WEFT_MAX_DIMS]; /* what the whole tensor must at least have */
    int64_t begin, end;           /* in the file's data */
} store_entry;

typedef struct store_header {
    int64_t data;         /* where the data starts */
    store_entry *entries; /* in file order; pool memory like their names */
    int n;
    const char **metadata; /* alternating, NULL-ended; pool memory */
} store_header;

/* Reads and checks the header of an open file of `bytes`. */
weft_status store_header_read(const weft_io *io, int fd, const char *path, int64_t bytes,
                              weft_pool *pool, store_header *out, weft_error *err);
/* The same of its JSON text alone. */
weft_status store_header_parse(const char *path, const char *json, size_t length,
                               int64_t data_bytes, weft_pool *pool, store_header *out,
                               weft_error *err);

/* ---- folder.c ---- */

typedef struct store_file {
    const char *name, *path; /* in the folder; to open it */
    int64_t bytes;
    store_header header;
    int fd, users; /* -1: not open now */
    uint64_t used; /* when last */
    weft_sums sums;
    bool verified, header_checked;
} store_file;

/* A box of a tensor in a file. */
typedef struct store_part {
    const store_entry *entry;
    store_file *file;
} store_part;

typedef struct store_tensor {
    weft_stored stored;
    const store_type *type;
    const store_part *parts; /* [stored.n_pieces] */
} store_tensor;

/* A checked chunk of a file. */
typedef struct store_chunk {
    const store_file *file;
    int64_t index, room; /* bytes of data */
    uint64_t used;
    uint8_t *data; /* NULL: free */
} store_chunk;

enum { STORE_CHUNKS = 8, STORE_OPEN_FILES = 64 };

struct weft_folder {
    weft_io io;
    weft_pool pool;
    const char *path;
    store_file *files; /* [n_files] by name; pool memory */
    int n_files;
    store_tensor *tensors; /* [n_tensors] by name; pool memory */
    int n_tensors;
    int64_t bytes_read; /* atomic */

    pthread_mutex_t lock; /* of all below, and of files' fd, users, used, header_checked */
    bool has_lock;
    uint64_t clock;
    int n_open;
    store_chunk chunks[STORE_CHUNKS];
};

/* merge.c: the tensors of all files, checked against each other. */
weft_status store_merge(weft_folder *folder, weft_error *err);

/* fetch.c: bytes of a file, checked where its sums are known. */
weft_status store_fetch(weft_folder *folder, store_file *file, int64_t at, int64_t n, void *to,
                        weft_error *err);

#endif
