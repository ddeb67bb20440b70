/* SPDX-License-Identifier: Apache-2.0 */
/* From a checkpoint to Hugging Face's files. */
#include "hf.h"

#include <stdlib.h>
#include <string.h>

/* One tensor of Hugging Face's, and the first of weft's that it is made of. */
typedef struct exports {
    const hf_options *o;
    hf_checkpoint *from;
    const char *folder;
    weft_piece *pieces;
    int *source; /* [n]; of tensors that are not the model's: behind the map's */
    int n;
} exports;

static weft_dtype dtype_of(const exports *x, const hf_tensor *t)
{
    weft_dtype stored = weft_folder_find(x->from->folder, t->name)->dtype;
    return x->o->dtype != WEFT_DTYPES ? x->o->dtype : stored == WEFT_DTYPES ? WEFT_F32 : stored;
}

static weft_status list_pieces(exports *x, weft_error *err)
{
    const hf_map *map = &x->from->map;
    const hf_extras *extras = &x->from->extras;
    const size_t most = (size_t)map->n + (size_t)extras->n;
    x->pieces = weft_alloc_zero(most, sizeof *x->pieces);
    x->source = weft_alloc_zero(most, sizeof *x->source);
    if (!x->pieces || !x->source)
        return weft_fail_memory(err);
    for (int i = 0; i < map->n; i += map->list[i].parts) {
        const hf_tensor *t = &map->list[i];
        weft_piece *p = &x->pieces[x->n];
        *p = (weft_piece){.name = t->hf, .dtype = dtype_of(x, t), .n_dims = t->n_dims};
        int64_t size[2];
        hf_shape(t, size);
        for (int d = 0; d < t->n_dims; d++)
            p->whole[d] = p->size[d] = size[d];
        x->source[x->n++] = i;
    }
    for (int i = 0; i < extras->n; i++) {
        x->pieces[x->n] = hf_extra_piece(extras->list[i], x->o->dtype);
        x->source[x->n++] = map->n + i;
    }
    return WEFT_OK;
}

/* Rows [row, row + n) of piece i into `rows`; `part` has room for one part of them. */
static weft_status make_rows(const exports *x, int i, int64_t row, int64_t n, void *rows,
                             void *part, weft_error *err)
{
    const hf_tensor *t = &x->from->map.list[x->source[i]];
    const weft_piece *p = &x->pieces[i];
    size_t bytes = weft_dtype_size(p->dtype);
    if (!t->transposed) { /* side by side along the first dim: one part after the other */
        const hf_tensor *of = &t[row / t->size[0]];
        const int64_t lo[2] = {row % t->size[0], 0}, size[2] = {n, t->size[1]};
        return weft_folder_read(x->from->folder, of->name, lo, size, p->dtype, rows, err);
    }
    weft_status s = WEFT_OK;
    for (int k = 0; k < t->parts && !s; k++) {
        const int64_t lo[2] = {0, row}, size[2] = {t->size[0], n};
        s = weft_folder_read(x->from->folder, t[k].name, lo, size, p->dtype, part, err);
        if (!s)
            hf_transpose(part, size[0], n, (char *)rows + (size_t)(k * t->size[0]) * bytes,
                         p->size[1], bytes);
    }
    return s;
}

static weft_status write_tensor(const exports *x, int i, weft_shard *shard, int at, weft_error *err)
{
    const weft_piece *p = &x->pieces[i];
    if (x->source[i] >= x->from->map.n)
        return hf_extra_write(x->from->folder, p, shard, at, err);
    const hf_tensor *t = &x->from->map.list[x->source[i]];
    int64_t row_bytes = (p->n_dims > 1 ? p->size[1] : 1) * (int64_t)weft_dtype_size(p->dtype),
            most = hf_rows_at_once(row_bytes);
    int64_t edge = t->transposed ? p->size[0] : t->size[0]; /* no read goes over it */
    most = most < edge ? most : edge;
    void *rows = weft_alloc((size_t)(most * row_bytes)),
         *part = weft_alloc((size_t)(most * row_bytes));
    weft_status s = rows && part ? WEFT_OK : weft_fail_memory(err);
    for (int64_t row = 0; row < p->size[0] && !s;) {
        int64_t left = edge - row % edge, n = most < left ? most : left;
        s = make_rows(x, i, row, n, rows, part, err);
        s = s ? s : weft_shard_write(shard, at, row * row_bytes, rows, n * row_bytes, err);
        row += n;
    }
    weft_free(rows);
    weft_free(part);
    return s;
}

static weft_status write_file(const exports *x, const hf_shards *shards, int file, const char *name,
                              weft_error *err)
{
    int first = shards->first[file], n = shards->first[file + 1] - first;
    weft_shard *shard = NULL;
    weft_sums sums = {0};
    char *path = weft_format("%s/%s", x->folder, name);
    weft_status s = path ? weft_shard_create(weft_io_system(), path, x->pieces + first, n, false,
                                             NULL, &shard, err)
                         : weft_fail_memory(err);
    for (int i = 0; i < n && !s; i++) {
        s = write_tensor(x, first + i, shard, i, err);
        hf_show_progress(x->o, first + i + 1, x->n);
    }
    s = s ? s : weft_shard_finish(shard, &sums, err);
    weft_shard_destroy(shard);
    weft_sums_release(&sums);
    weft_free(path);
    return s;
}

static weft_status write_index(const exports *x, const hf_shards *shards, weft_error *err)
{
    json_t *map = json_object();
    for (int f = 0; f < shards->n; f++)
        for (int i = shards->first[f]; i < shards->first[f + 1]; i++)
            json_object_set_new(map, x->pieces[i].name,
                                json_sprintf("model-%05d-of-%05d.safetensors", f + 1, shards->n));
    bool whole = (int)json_object_size(map) == x->n;
    json_t *root = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)shards->bytes,
                             "weight_map", map);
    char *text = whole && root ? json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    char *path = weft_format("%s/model.safetensors.index.json", x->folder);
    weft_status s =
        text && path ? weft_write_file(path, text, strlen(text), err) : weft_fail_memory(err);
    weft_free(path);
    free(text);
    json_decref(root);
    return s;
}

weft_status hf_export(const hf_options *o, hf_checkpoint *from, const char *folder, int64_t *bytes,
                      weft_error *err)
{
    exports x = {.o = o, .from = from, .folder = folder};
    hf_shards shards = {0};
    weft_status s = list_pieces(&x, err);
    s = s ? s : hf_shards_init(&shards, x.pieces, x.n, o->max_shard, err);
    for (int f = 0; f < shards.n && !s; f++) {
        char *name = shards.n == 1 ? weft_strdup("model.safetensors")
                                   : weft_format("model-%05d-of-%05d.safetensors", f + 1, shards.n);
        s = name ? write_file(&x, &shards, f, name, err) : weft_fail_memory(err);
        weft_free(name);
    }
    if (!s && shards.n > 1)
        s = write_index(&x, &shards, err);
    s = s ? s : hf_config_write(folder, &from->model, x.pieces[0].dtype, err);
    s = s ? s : hf_copy_files(from->path, folder, err);
    s = s ? s : hf_tokens_write(from, folder, err);
    *bytes = shards.bytes;
    hf_shards_release(&shards);
    weft_free(x.pieces);
    weft_free(x.source);
    return s;
}
