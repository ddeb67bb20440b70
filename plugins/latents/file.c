/* SPDX-License-Identifier: Apache-2.0 */
/* A file: tensors [n ...], each a row for every sample. */
#include "latents.h"

#include <stdio.h>
#include <string.h>

const char *const latents_names[LATENTS_KINDS] = {"latents", "t5", "clip", "noise", "time"};
const int latents_dims[LATENTS_KINDS] = {3, 2, 1, 3, 0};

struct latents_file {
    char *path;
    weft_folder *folder; /* of one file; or NULL, and */
    latents_tar *tar;
    int64_t n;
    latents_sizes sizes;
};

static bool ends_in(const char *path, const char *end)
{
    const size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

static weft_status look_at(latents_file *f, weft_where at, weft_error *err)
{
    weft_status s = WEFT_OK;
    f->n = -1;
    for (int k = 0; k < LATENTS_KINDS; k++) {
        const weft_stored *t = weft_folder_find(f->folder, latents_names[k]);
        if (!t)
            continue;
        if (t->n_dims != latents_dims[k] + 1) {
            s = weft_fail(err, WEFT_ERR_INPUT, at,
                          "[latents] %s: %s has %d dims, and must have %d: the samples and %d of "
                          "each",
                          f->path, latents_names[k], t->n_dims, latents_dims[k] + 1,
                          latents_dims[k]);
            continue;
        }
        if (f->n >= 0 && f->n != t->size[0])
            s = weft_fail(err, WEFT_ERR_INPUT, at,
                          "[latents] %s: %s is of %lld samples, others of %lld", f->path,
                          latents_names[k], (long long)t->size[0], (long long)f->n);
        if (t->dtype != WEFT_F32 && t->dtype != WEFT_F64 && t->dtype != WEFT_BF16 &&
            strcmp(t->type, "F16") != 0)
            s = weft_fail(err, WEFT_ERR_INPUT, at,
                          "[latents] %s: %s is %s; F16, BF16, F32 and F64 are read", f->path,
                          latents_names[k], t->type);
        f->n = t->size[0];
        f->sizes.there[k] = true;
        for (int d = 0; d < latents_dims[k]; d++)
            f->sizes.size[k][d] = t->size[d + 1];
    }
    if (f->n < 1)
        s = weft_fail(err, WEFT_ERR_INPUT, at,
                      "[latents] %s has no sample; it must have the tensors latents [n channels "
                      "height width], t5 [n tokens width] and clip [n width]",
                      f->path);
    return s;
}

/* Whatever is wrong with a file, the settings name it. */
static weft_status open_folder(latents_file *f, weft_where at, weft_error *err)
{
    weft_error why = {0};
    weft_status s = weft_folder_open(weft_io_system(), f->path, &f->folder, &why);
    if (s)
        s = weft_fail(err, WEFT_ERR_INPUT, at, "[latents] %s", weft_error_text(&why));
    weft_error_release(&why);
    return s ? s : look_at(f, at, err);
}

weft_status latents_open(const char *path, weft_where at, latents_file **out, weft_error *err)
{
    weft_status s = WEFT_OK;
    latents_file *f = weft_alloc_zero(1, sizeof *f);
    *out = NULL;
    if (!f || !(f->path = weft_format("%s", path)))
        s = weft_fail_memory(err);
    else if (ends_in(path, ".tar"))
        s = latents_tar_open(path, at, &f->tar, &f->n, &f->sizes, err);
    else if (!ends_in(path, ".safetensors"))
        s = weft_fail(err, WEFT_ERR_INPUT, at,
                      "[latents] %s is neither a .safetensors file nor a .tar of .npy files%s",
                      path,
                      ends_in(path, ".pt") || ends_in(path, ".pth") || ends_in(path, ".pkl")
                          ? "; pickle would run whatever it says: save it as safetensors"
                          : "");
    else
        s = open_folder(f, at, err);
    if (s)
        latents_close(f);
    else
        *out = f;
    return s;
}

void latents_close(latents_file *f)
{
    if (!f)
        return;
    weft_folder_destroy(f->folder);
    latents_tar_close(f->tar);
    weft_free(f->path);
    weft_free(f);
}

const char *latents_path(const latents_file *f)
{
    return f->path;
}

int64_t latents_count(const latents_file *f)
{
    return f->n;
}

const latents_sizes *latents_sizes_of(const latents_file *f)
{
    return &f->sizes;
}

weft_status latents_read(latents_file *f, int kind, int64_t i, float *to, weft_error *err)
{
    int64_t lo[WEFT_MAX_DIMS] = {i}, size[WEFT_MAX_DIMS] = {1};
    if (f->tar)
        return latents_tar_read(f->tar, kind, i, to, err);
    for (int d = 0; d < latents_dims[kind]; d++)
        size[d + 1] = f->sizes.size[kind][d];
    return weft_folder_read(f->folder, latents_names[kind], lo, size, WEFT_F32, to, err);
}
