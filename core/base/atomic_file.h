/* SPDX-License-Identifier: Apache-2.0 */
/* A file that appears whole or not at all: written beside its place, flushed to disk, then renamed.
 * Internal to core. */
#ifndef WEFT_BASE_ATOMIC_FILE_H
#define WEFT_BASE_ATOMIC_FILE_H

#include <weft/base.h>

/* Whose doing it is that the system refused: the user's (WEFT_ERR_INPUT), or nobody's
 * (WEFT_ERR_IO). */
weft_status weft_errno_status(int e);
/* "PATH: cannot WHAT: " and the reason in errno. A path that does not exist, is of the wrong kind
 * or may not be used is the user's to put right (WEFT_ERR_INPUT), all else WEFT_ERR_IO. */
weft_status weft_fail_errno(weft_error *err, const char *path, const char *what);
/* The same with a hint behind the reason. */
weft_status weft_fail_errno_hint(weft_error *err, const char *path, const char *what,
                                 const char *hint);

/* Is what has this name, if anything, a file? A rename would put one in place of a device, a pipe
 * or a link just as well. open_file.c */
weft_status weft_check_replaceable(const char *path, weft_error *err);

typedef struct weft_atomic_file {
    const char *path; /* borrowed */
    char *temporary;
    int fd;
} weft_atomic_file;

weft_status weft_atomic_file_open(weft_atomic_file *file, const char *path, weft_error *err);
weft_status weft_atomic_file_write(weft_atomic_file *file, const void *data, size_t size,
                                   weft_error *err);
/* Puts the file in its place. Either of these two must follow a successful open, exactly once. */
weft_status weft_atomic_file_commit(weft_atomic_file *file, weft_error *err);
void weft_atomic_file_abandon(weft_atomic_file *file);

#endif
