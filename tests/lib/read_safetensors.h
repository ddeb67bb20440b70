/* SPDX-License-Identifier: Apache-2.0 */
/* Reads .safetensors files, for tests alone. */
#ifndef READ_SAFETENSORS_H
#define READ_SAFETENSORS_H

#include <weft/files.h>

typedef struct safetensors safetensors;

/* Everything is checked: header, dtypes, sizes, and that the tensors fill the file without holes.
 */
weft_status safetensors_read(const char *path, safetensors **out, weft_error *err);
void safetensors_destroy(safetensors *file);

/* NULL: there is none. In the file's order. Data is aligned to its element size. All belongs to the
 * file. */
const weft_safetensor *safetensors_find(const safetensors *file, const char *name);
const weft_safetensor *safetensors_at(const safetensors *file, int i);
const char *safetensors_metadata(const safetensors *file, const char *key);

int64_t safetensor_count(const weft_safetensor *t);
double safetensor_get(const weft_safetensor *t, int64_t i);

#endif
