/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in files: folders of safetensors files, whole or in pieces, read by boxes of global
 * tensors and written piece by piece, through a seam that tests use to lose, delay and refuse I/O.
 * Nothing here knows runs, meshes or plugins. JSON is jansson's, checksums are xxHash's (XXH3, 64
 * bits).
 *
 * A file is plain safetensors. A piece of a global tensor carries where it lies in __metadata__, as
 * PyTorch's distributed checkpoint does: "DCP_SHARDING_INFO", a JSON text {name: {"saved_offsets":
 * [..]}}, "DCP_VERSION" "1.0", "format" "pt". A file without it holds whole tensors. weft adds
 * "whole": [..] beside saved_offsets, so that a missing last piece is noticed; others leave it
 * alone. */
#ifndef WEFT_STORE_H
#define WEFT_STORE_H

#include <sys/types.h>
#include <weft/base.h>
#include <weft/mesh.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the seam ---- */

/* As the POSIX calls of these names: -1 and errno. Used from any thread. */
typedef struct weft_io {
    void *ctx;
    int (*open)(void *ctx, const char *path, int flags, mode_t mode);
    int (*close)(void *ctx, int fd);
    ssize_t (*pread)(void *ctx, int fd, void *to, size_t n, off_t at);
    ssize_t (*pwrite)(void *ctx, int fd, const void *from, size_t n, off_t at);
    int (*fsync)(void *ctx, int fd);
    int (*rename)(void *ctx, const char *from, const char *to);
    int (*unlink)(void *ctx, const char *path);
    int (*rmdir)(void *ctx, const char *path);
    int (*mkdir)(void *ctx, const char *path, mode_t mode);
    int (*size)(void *ctx, int fd, int64_t *bytes); /* of an open file */
    int (*list)(
        void *ctx, const char *path,
        char ***names); /* a folder's names but . and .., sorted, NULL-ended; weft_names_free */
    void (*flush)(void *ctx, int fd, off_t at,
                  off_t n); /* a hint: these bytes may go to disk now, nobody waits; may be NULL */
} weft_io;

void weft_names_free(char **names); /* NULL is fine */

/* The system's own. */
const weft_io *weft_io_system(void);
/* Whole-file helpers over a seam; errors name the path and what the system said. sync_dir fsyncs a
 * folder, so that its names last. */
weft_status weft_io_read_file(const weft_io *io, const char *path, char **data, size_t *size,
                              weft_error *err); /* NUL-terminated; weft_free */
weft_status weft_io_write_file(const weft_io *io, const char *path, const void *data, size_t size,
                               weft_error *err); /* and fsync; not atomic */
/* A folder's names as io->list gives them. */
weft_status weft_io_list(const weft_io *io, const char *path, char ***names, weft_error *err);
weft_status weft_io_sync_dir(const weft_io *io, const char *path, weft_error *err);
weft_status weft_io_rename(const weft_io *io, const char *from, const char *to, weft_error *err);
/* With all parents that are missing; each new name is flushed. */
weft_status weft_io_make_dirs(const weft_io *io, const char *path, weft_error *err);
/* A folder (or a file) and everything in it; links are not followed; none there is fine. */
weft_status weft_io_remove_tree(const weft_io *io, const char *path, weft_error *err);

/* ---- checksums ---- */

/* A file's bytes in chunks of `chunk`, the last one shorter: one XXH3-64 each. */
typedef struct weft_sums {
    int64_t bytes, chunk;
    int64_t n;
    uint64_t *sum; /* [n] */
} weft_sums;

enum { WEFT_SUM_CHUNK = 4 << 20 };

void weft_sums_release(weft_sums *sums);
/* Of a whole file. */
weft_status weft_sums_of_file(const weft_io *io, const char *path, weft_sums *out, weft_error *err);
/* XXH3-64 of n bytes. */
uint64_t weft_sum(const void *data, size_t n);

/* ---- writing ---- */

/* A box of a global tensor; a whole tensor: lo all 0, size equal to whole. Never empty. */
typedef struct weft_piece {
    const char *name;
    weft_dtype dtype; /* as stored */
    int n_dims;
    int64_t whole[WEFT_MAX_DIMS], lo[WEFT_MAX_DIMS], size[WEFT_MAX_DIMS];
} weft_piece;

typedef struct weft_shard weft_shard; /* one file being written */

/* Creates the file, which must not be there yet, and writes its header; n > 0, names differ.
 * "format" is "pt" unless metadata says it; metadata: more keys and values, alternating,
 * NULL-ended, or NULL. sharded: a file of a checkpoint: write the DCP keys (also where all pieces
 * are whole), and sum what is written. */
weft_status weft_shard_create(const weft_io *io, const char *path, const weft_piece *pieces, int n,
                              bool sharded, const char *const *metadata, weft_shard **out,
                              weft_error *err);
/* Bytes of a piece. */
int64_t weft_piece_bytes(const weft_piece *piece);
/* Writes n bytes of piece i's data from byte `at` on. Every byte exactly once, pieces in any order;
 * one thread at a time. */
weft_status weft_shard_write(weft_shard *shard, int i, int64_t at, const void *data, int64_t n,
                             weft_error *err);
/* All is written (sums NULL: not wanted): fsync, close, and the sums of the whole file (computed as
 * it was written where it is sharded and writes were in the file's order, that is pieces of wider
 * elements first, else read back). The name lasts once its folder is flushed, too:
 * weft_io_sync_dir. */
weft_status weft_shard_finish(weft_shard *shard, weft_sums *sums, weft_error *err);
/* Closes (and removes an unfinished file). NULL is fine. */
void weft_shard_destroy(weft_shard *shard);

/* ---- reading ---- */

/* A global tensor of a folder. */
typedef struct weft_stored {
    const char *name;
    weft_dtype dtype; /* WEFT_DTYPES: one that weft does not have */
    int n_dims;
    int64_t size[WEFT_MAX_DIMS];
    int n_pieces;     /* how many boxes it lies in */
    const char *type; /* the dtype as the file calls it: "BF16" */
} weft_stored;

/* Are these sizes the same? */
bool weft_sizes_are_same(const int64_t *a, int n_a, const int64_t *b, int n_b);
enum { WEFT_SIZES_TEXT = 24 * WEFT_MAX_DIMS };
/* "[16, 4]"; returns text. */
const char *weft_sizes_print(char text[WEFT_SIZES_TEXT], const int64_t *size, int n);

typedef struct weft_folder weft_folder;

/* Opens a .safetensors file, or all such files directly in a folder. Headers are checked against
 * the files' sizes and each other: pieces of a tensor must agree in dtype and tile it without a
 * hole or an overlap. An unknown dtype is an error only when that tensor is read. */
weft_status weft_folder_open(const weft_io *io, const char *path, weft_folder **out,
                             weft_error *err);
/* The same for the named files alone (paths relative to the folder). */
weft_status weft_folder_open_files(const weft_io *io, const char *path, const char *const *files,
                                   int n, weft_folder **out, weft_error *err);
void weft_folder_destroy(weft_folder *folder); /* NULL is fine */
/* Its tensors: how many, number i, by name (NULL: none). They live as long as the folder. */
int weft_folder_count(const weft_folder *folder);
const weft_stored *weft_folder_get(const weft_folder *folder, int i); /* by name, sorted */
const weft_stored *weft_folder_find(const weft_folder *folder, const char *name);
/* The first file's metadata value of this key; NULL: none. */
const char *weft_folder_metadata(const weft_folder *folder, const char *key);
/* From now on every chunk of `file` (relative path) that a read touches, and those of its header,
 * are read whole and compared; sums is copied. Not while another thread reads. */
weft_status weft_folder_verify(weft_folder *folder, const char *file, const weft_sums *sums,
                               weft_error *err);
/* Reads the box [lo, lo + size) of a tensor, dense and row-major, into `to`, as elements of `dtype`
 * (floats, F16 too, convert to floats; exact where it is equal). Thread-safe. */
weft_status weft_folder_read(weft_folder *folder, const char *name, const int64_t *lo,
                             const int64_t *size, weft_dtype dtype, void *to, weft_error *err);
/* Bytes read from files since it was opened (headers not counted). */
int64_t weft_folder_bytes_read(const weft_folder *folder);

/* ---- a checkpoint's manifest.json: its files and their sums ---- */

/* Is this the name of a checkpoint's folder, "step-12"? */
bool weft_checkpoint_step(const char *name, int64_t *step);
/* The checkpoint that is meant by a folder: itself, if it has a manifest, else the newest whole one
 * in FOLDER/ckpt, else in FOLDER. *path NULL: there is none; weft_free. */
weft_status weft_checkpoint_find(const weft_io *io, const char *folder, char **path,
                                 weft_error *err);
/* The 16 hex digits that a sum is written as. */
bool weft_sum_parse(const char *text, uint64_t *sum);

#define WEFT_MANIFEST_FORMAT "weft checkpoint 1"

typedef struct weft_manifest_file {
    const char *name; /* relative to the checkpoint */
    weft_sums sums;
} weft_manifest_file;

typedef struct weft_manifest {
    char *path; /* the checkpoint's folder */
    void *json; /* all that it says: a json_t of jansson's */
    weft_manifest_file *files;
    int n_files;
    int64_t bytes; /* of all files */
} weft_manifest;

/* Adds a file to a list of them, which is to become the member "files". */
void weft_manifest_file_print(weft_text *text, const char *name, const weft_sums *sums);
/* Adds the last member, the sum of all text before it, and ends the object. */
void weft_manifest_seal(weft_text *text);
/* Reads and checks PATH/manifest.json; files are not looked at. Whatever is wrong with it is
 * damage: WEFT_ERR_IO. To be released even so. */
weft_status weft_manifest_read(const weft_io *io, const char *path, weft_manifest *out,
                               weft_error *err);
void weft_manifest_release(weft_manifest *manifest);
/* Opens its .safetensors files; all that is read of them is compared with the sums. model: those
 * beside the manifest alone, which hold the model, and nothing of an optimizer's. */
weft_status weft_manifest_open(const weft_io *io, const weft_manifest *manifest, bool model,
                               weft_folder **out, weft_error *err);

#ifdef __cplusplus
}
#endif
#endif
