/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin's file as bytes: what it is, and a copy that nobody can change. */
#ifndef WEFT_PLUGIN_IMAGE_H
#define WEFT_PLUGIN_IMAGE_H

#include "plugin/plugins.h"

/* SHA-256 and build-id of bytes. */
weft_status weft_image_identify(const void *bytes, size_t size, weft_file_id *id, weft_error *err);
/* Of a file, which is read and not opened as an object. */
weft_status weft_image_identify_file(const char *path, weft_where where, weft_file_id *id,
                                     weft_error *err);
/* Copies a file, not through a link, into memory that is sealed, and says what the copy is. *fd
 * stays open: the dynamic linker knows an object by its descriptor's number. */
weft_status weft_image_seal(const char *path, weft_where where, int *fd, weft_file_id *id,
                            weft_error *err);

#endif
