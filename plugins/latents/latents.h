/* SPDX-License-Identifier: Apache-2.0 */
/* Files of latents and embeddings that were computed before. */
#ifndef LATENTS_H
#define LATENTS_H

#include <weft/weft.h>

/* What a sample has; in files [n ...] by these names. */
enum { LATENTS_IMAGE, LATENTS_TEXT, LATENTS_CLIP, LATENTS_NOISE, LATENTS_TIME, LATENTS_KINDS };
extern const char *const latents_names[LATENTS_KINDS];
extern const int latents_dims[LATENTS_KINDS]; /* of a sample's */

enum { LATENTS_MOST_DIMS = 3 };

/* Sizes of a sample's, as a file has them; 0: it has none of a kind. */
typedef struct latents_sizes {
    int64_t size[LATENTS_KINDS][LATENTS_MOST_DIMS];
    bool there[LATENTS_KINDS];
} latents_sizes;

typedef struct latents_file latents_file;

/* Opens a .safetensors file, or a .tar of .npy files. at: what names it. */
weft_status latents_open(const char *path, weft_where at, latents_file **out, weft_error *err);
void latents_close(latents_file *file); /* NULL is fine */
const char *latents_path(const latents_file *file);
int64_t latents_count(const latents_file *file);
const latents_sizes *latents_sizes_of(const latents_file *file);
/* Sample i's, dense, as f32. Thread-safe. */
weft_status latents_read(latents_file *file, int kind, int64_t i, float *to, weft_error *err);

/* ---- shards of tar ---- */

typedef struct latents_tar latents_tar;
weft_status latents_tar_open(const char *path, weft_where at, latents_tar **out, int64_t *n,
                             latents_sizes *sizes, weft_error *err);
void latents_tar_close(latents_tar *tar);
weft_status latents_tar_read(latents_tar *tar, int kind, int64_t i, float *to, weft_error *err);

static inline int64_t latents_elements(const latents_sizes *s, int kind)
{
    int64_t n = 1;
    for (int d = 0; d < latents_dims[kind]; d++)
        n *= s->size[kind][d];
    return n;
}

#endif
