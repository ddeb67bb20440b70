/* SPDX-License-Identifier: Apache-2.0 */
/* A file that appears whole or not at all: written beside its place, flushed to disk, then renamed.
 * Internal to lib/io. */
#ifndef WEFT_LIB_IO_ATOMIC_FILE_H
#define WEFT_LIB_IO_ATOMIC_FILE_H

#include <weft/base.h>

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
