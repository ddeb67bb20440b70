/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers for files that several plugins write or read. */
#ifndef WEFT_FILES_H
#define WEFT_FILES_H

#include <weft/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How weft_open_to_write takes what has the name already. */
typedef enum weft_write_as {
    WEFT_WRITE_NEW,    /* nothing may: EEXIST */
    WEFT_WRITE_AGAIN,  /* what stands there is an unfinished one of ours: it is removed first */
    WEFT_WRITE_SHARED, /* it is used as it is: a lock */
    WEFT_WRITE_APPEND  /* it is written on at its end */
} weft_write_as;

/* Opens a file for reading and writing, or makes it. All that weft writes is opened here: links are
 * not followed, so that nobody who may write in the same folder chooses which file it is; what is
 * no file is refused. -1 and errno: ELOOP for a link. The parents may be links. */
int weft_open_to_write(const char *path, weft_write_as how);
/* The same with an error: "PATH: cannot create: it is a symbolic link ...". */
weft_status weft_create_file(const char *path, weft_write_as how, int *fd, weft_error *err);
/* What others may do in a folder that would change what weft writes there, as "everyone may write
 * in it"; NULL: nothing, or there is no such folder. */
const char *weft_folder_exposed(const char *path);
/* Creates a folder and its parents; fine if it exists. */
weft_status weft_make_dirs(const char *path, weft_error *err);
/* Opens a file for reading, and nothing else: a folder, a device or a named pipe, which nobody
 * might ever write to, is refused; a pipe that the process was started with (/dev/stdin, /dev/fd/N)
 * is fine. at: what names the file; {path, 0}: the file itself. On failure *fd is -1, and errno
 * is the system's or EINVAL. */
weft_status weft_open_file(const char *path, weft_where at, int *fd, weft_error *err);
/* Reads a whole file into fresh memory (weft_free), NUL-terminated. Opened as by
 * weft_open_file. */
weft_status weft_read_file(const char *path, char **data, size_t *size, weft_error *err);
/* Writes a file whole or not at all: temporary file beside it (PATH.tmp-*, under an flock for as
 * long as it is written), fsync, rename. A link, a device, a
 * pipe or a folder of that name stays what it is, and is an input error. */
weft_status weft_write_file(const char *path, const void *data, size_t size, weft_error *err);

/* A file that grows by whole records, as an observer's. What cannot be written, because the disk is
 * full, waits in memory and is written before what comes next; nothing stands half in the file.
 * Zero-initialised is valid, and has no path. */
typedef struct weft_journal {
    int fd; /* -1: not open yet; of use only where there is a path */
    char *path;
    weft_text waiting;
    int64_t lost; /* how often there was no room to wait */
} weft_journal;

enum { WEFT_JOURNAL_BYTES = 1 << 20 }; /* that may wait */

/* Nothing is opened. */
weft_status weft_journal_init(weft_journal *journal, const char *path, weft_error *err);
/* What waits still is lost. */
void weft_journal_release(weft_journal *journal);
/* Opens the file, or makes it; fine if that was done. */
weft_status weft_journal_open(weft_journal *journal, weft_error *err);
/* One or several whole records, which wait; they are only counted where too many do. */
weft_status weft_journal_add(weft_journal *journal, const weft_text *records, weft_error *err);
/* Writes what waits; opens the file if need be. After an error it waits still, and WEFT_ERR_IO says
 * that trying again may help. */
weft_status weft_journal_write(weft_journal *journal, weft_error *err);

/* One tensor for weft_write_safetensors. dtype F32, F64, BF16, I32, U8. */
typedef struct weft_safetensor {
    const char *name;
    weft_dtype dtype;
    int n_dims;
    int64_t size[6];
    const void *data;
} weft_safetensor;

/* Writes tensors as one .safetensors file, whole or not at all. metadata: alternating keys and
 * values, NULL-ended; may be NULL. */
weft_status weft_write_safetensors(const char *path, const weft_safetensor *tensors, int n,
                                   const char *const *metadata, weft_error *err);

/* ---- what the host allows ---- */

/* root of these: "", or a folder with files as /proc and /sys have. */

/* One group; folder: where its files are. */
typedef void weft_visit_group(void *ctx, const char *folder, bool version_1);
/* All control groups that this process is in and that a controller, as "cpu", may have limits for:
 * from each up to its root. One that cannot be seen, or has no files, is visited, too. */
void weft_visit_groups(const char *root, const char *controller, weft_visit_group *visit,
                       void *ctx);

/* Bytes of the host's memory that this process may still take; SIZE_MAX: nobody says. */
typedef struct weft_host_room {
    size_t machine;     /* what is unused, or easily given back, and swap */
    size_t group;       /* of the control group that leaves least */
    size_t group_limit; /* what that group may have in all */
    uint64_t group_id;  /* of one host, the same number is the same group */
} weft_host_room;
weft_host_room weft_find_host_room(const char *root);

#ifdef __cplusplus
}
#endif
#endif
