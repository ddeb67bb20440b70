/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes of tensors: a parameter's out of Hugging Face's tensors, and of one of theirs out of
 * parameters. */
#include "hf.h"

#include <string.h>

/* to[j][i] = from[i][j]; inlined, so that `bytes` is a constant. */
static inline void transpose(const char *from, int64_t rows, int64_t columns, char *to,
                             size_t bytes)
{
    enum { TILE = 32 };
    for (int64_t i0 = 0; i0 < rows; i0 += TILE)
        for (int64_t j0 = 0; j0 < columns; j0 += TILE)
            for (int64_t j = j0; j < j0 + TILE && j < columns; j++)
                for (int64_t i = i0; i < i0 + TILE && i < rows; i++)
                    memcpy(to + (size_t)(j * rows + i) * bytes,
                           from + (size_t)(i * columns + j) * bytes, bytes);
}

/* Elements of `bytes` bytes. */
static void turn(const void *from, int64_t rows, int64_t columns, void *to, size_t bytes)
{
    if (bytes == 2)
        transpose(from, rows, columns, to, 2);
    else if (bytes == 4)
        transpose(from, rows, columns, to, 4);
    else
        transpose(from, rows, columns, to, bytes);
}

/* ---- a parameter's ---- */

/* A box of one tensor of the files, in their order of dims. */
static weft_status read_turned(const hf_source *x, const char *name, const int64_t *lo,
                               const int64_t *size, weft_dtype dtype, void *to, weft_error *err)
{
    const int64_t at[2] = {lo[1], lo[0]}, box[2] = {size[1], size[0]};
    void *rows = weft_alloc((size_t)(box[0] * box[1]) * weft_dtype_size(dtype));
    weft_status s =
        rows ? weft_folder_read(x->folder, name, at, box, dtype, rows, err) : weft_fail_memory(err);
    if (!s)
        turn(rows, box[0], box[1], to, weft_dtype_size(dtype));
    weft_free(rows);
    return s;
}

static weft_status read_box(const hf_source *x, const hf_tensor *t, const int64_t *lo,
                            const int64_t *size, weft_dtype dtype, void *to, weft_error *err)
{
    const bool stacked = hf_is_stacked(t);
    int64_t at[WEFT_MAX_DIMS] = {0}, count = (int64_t)weft_dtype_size(dtype);
    weft_status s = WEFT_OK;
    for (int d = 0; d < t->n_dims; d++) {
        at[d] = lo[d] + (hf_parts(t) > 1 && d == t->row->along ? hf_part_begin(&x->model, t) : 0);
        count *= d < stacked ? 1 : size[d];
    }
    for (int64_t k = 0; k < (stacked ? size[0] : 1) && !s; k++) {
        char name[HF_NAME], *out = (char *)to + k * count;
        hf_source_name(x, t, stacked ? lo[0] + k : 0, name);
        s = t->row->turned
                ? read_turned(x, name, at + stacked, size + stacked, dtype, out, err)
                : weft_folder_read(x->folder, name, at + stacked, size + stacked, dtype, out, err);
    }
    return s;
}

static weft_status copies_differ(const hf_source *x, const hf_copy *copy, weft_error *err)
{
    const char *name = x->map.list[copy->of].name, *plugin = x->model.table->plugin,
               *key = copy->row->other ? hf_key_of(x->model.form->keys, copy->row->when) : NULL;
    return key ? hf_refuse(err, x->path,
                           "tensors '%s' and '%s' differ, but '%s' in config.json says that the "
                           "model has one parameter for both, and so has the plugin %s; right that "
                           "key, or take '%s' out",
                           name, copy->name, key, plugin, copy->name)
               : hf_refuse(err, x->path,
                           "tensors '%s' and '%s' differ, but the plugin %s has one parameter for "
                           "both",
                           name, copy->name, plugin);
}

/* A copy that files do not have is fine: nobody reads it. */
static weft_status compare_copy(const hf_source *x, const hf_copy *copy, const int64_t *lo,
                                const int64_t *size, weft_dtype dtype, const void *data,
                                weft_error *err)
{
    const hf_tensor *of = &x->map.list[copy->of];
    const weft_stored *t = weft_folder_find(x->folder, copy->name);
    size_t bytes = weft_dtype_size(dtype);
    if (!t)
        return WEFT_OK;
    if (!weft_sizes_are_same(t->size, t->n_dims, of->size, of->n_dims))
        return copies_differ(x, copy, err);
    for (int d = 0; d < of->n_dims; d++)
        bytes *= (size_t)size[d];
    void *again = weft_alloc(bytes);
    weft_status s = again ? weft_folder_read(x->folder, copy->name, lo, size, dtype, again, err)
                          : weft_fail_memory(err);
    if (!s && memcmp(again, data, bytes) != 0)
        s = copies_differ(x, copy, err);
    weft_free(again);
    return s;
}

weft_status hf_source_read(const hf_source *x, const hf_tensor *t, const int64_t *lo,
                           const int64_t *size, weft_dtype dtype, void *to, weft_error *err)
{
    weft_status s = read_box(x, t, lo, size, dtype, to, err);
    for (int k = 0; k < x->map.n_copies && !s; k++)
        if (&x->map.list[x->map.copies[k].of] == t)
            s = compare_copy(x, &x->map.copies[k], lo, size, dtype, to, err);
    return s;
}

/* ---- of Hugging Face's tensors, out of a checkpoint ---- */

/* What part t, which begins at `begin` along dim `along`, has of the box of all parts. */
static weft_status read_part(weft_folder *folder, const hf_tensor *t, int64_t begin,
                             const int64_t *at, const int64_t *box, weft_dtype dtype, char *to,
                             weft_error *err)
{
    const int along = t->row->along;
    const int64_t end = begin + t->size[along], last = at[along] + box[along],
                  first = at[along] > begin ? at[along] : begin,
                  n = (last < end ? last : end) - first;
    int64_t lo[WEFT_MAX_DIMS], size[WEFT_MAX_DIMS], outer = 1,
                                                    inner = (int64_t)weft_dtype_size(dtype);
    if (n <= 0)
        return WEFT_OK;
    for (int d = 0; d < t->n_dims; d++) {
        lo[d] = d == along ? first - begin : at[d];
        size[d] = d == along ? n : box[d];
        outer *= d < along ? box[d] : 1;
        inner *= d > along ? box[d] : 1;
    }
    to += (first - at[along]) * inner;
    if (outer == 1 || n == box[along])
        return weft_folder_read(folder, t->name, lo, size, dtype, to, err);
    char *part = weft_alloc((size_t)(outer * n * inner));
    weft_status s = part ? weft_folder_read(folder, t->name, lo, size, dtype, part, err)
                         : weft_fail_memory(err);
    for (int64_t i = 0; i < outer && !s; i++)
        memcpy(to + i * box[along] * inner, part + i * n * inner, (size_t)(n * inner));
    weft_free(part);
    return s;
}

static weft_status read_parts(const hf_source *x, const hf_tensor *t, const int64_t *at,
                              const int64_t *box, weft_dtype dtype, void *to, weft_error *err)
{
    weft_status s = WEFT_OK;
    if (hf_parts(t) == 1)
        return weft_folder_read(x->folder, t->name, at, box, dtype, to, err);
    for (int k = 0; k < hf_parts(t) && !s; k++)
        s = read_part(x->folder, &t[k], hf_part_begin(&x->model, &t[k]), at, box, dtype, to, err);
    return s;
}

weft_status hf_source_read_file(const hf_source *x, const hf_tensor *t, int64_t index,
                                const int64_t *lo, const int64_t *size, weft_dtype dtype, void *to,
                                weft_error *err)
{
    const int stacked = hf_is_stacked(t), n_dims = t->n_dims - stacked;
    const size_t width = weft_dtype_size(dtype);
    int64_t at[WEFT_MAX_DIMS] = {index}, box[WEFT_MAX_DIMS] = {1};
    for (int d = 0; d < n_dims; d++) {
        const int from = t->row->turned ? n_dims - 1 - d : d;
        at[stacked + d] = lo[from];
        box[stacked + d] = size[from];
    }
    if (!t->row->turned)
        return read_parts(x, t, at, box, dtype, to, err);
    void *rows = weft_alloc((size_t)(size[0] * size[1]) * width);
    weft_status s = rows ? read_parts(x, t, at, box, dtype, rows, err) : weft_fail_memory(err);
    if (!s)
        turn(rows, size[1], size[0], to, width);
    weft_free(rows);
    return s;
}
