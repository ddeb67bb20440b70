/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers for files that several plugins write or read. */
#ifndef WEFT_FILES_H
#define WEFT_FILES_H

#include <weft/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Creates a folder and its parents; fine if it exists. */
weft_status weft_make_dirs(const char *path, weft_error *err);
/* Reads a whole file into fresh memory (weft_free), NUL-terminated. */
weft_status weft_read_file(const char *path, char **data, size_t *size, weft_error *err);
/* Writes a file whole or not at all: temporary file beside it, fsync, rename. */
weft_status weft_write_file(const char *path, const void *data, size_t size, weft_error *err);

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

#ifdef __cplusplus
}
#endif
#endif
