/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin's file as bytes: what it is, and a copy that nobody can change. */
#ifndef WEFT_LIB_VET_IMAGE_H
#define WEFT_LIB_VET_IMAGE_H

#include "host/plugins.h"

/* SHA-256 and build-id of bytes. */
weft_status weft_image_identify(const void *bytes, size_t size, weft_file_id *id, weft_error *err);
/* Of a file, which is read and not opened as an object. */
weft_status weft_image_identify_file(const char *path, weft_where where, weft_file_id *id,
                                     weft_error *err);
/* Which file it is, and since when it is as it is: device, inode, size and the time of its last
 * change, which nobody but root can set back. "-": the file cannot be looked at. */
enum { WEFT_STAMP = 80 };
void weft_image_stamp(const char *path, char stamp[WEFT_STAMP]);
/* A file as it lies there, in memory; *size bytes. weft_image_unmap in every case. */
weft_status weft_image_map(const char *path, weft_where where, const void **bytes, size_t *size,
                           weft_error *err);
void weft_image_unmap(const void *bytes, size_t size); /* NULL is fine */
/* Copies a file, not through a link, into memory that is sealed, and says what the copy is. *fd
 * stays open: the dynamic linker knows an object by its descriptor's number. */
weft_status weft_image_seal(const char *path, weft_where where, int *fd, weft_file_id *id,
                            weft_error *err);

#endif
