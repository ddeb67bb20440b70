/* SPDX-License-Identifier: Apache-2.0 */
/* From Hugging Face's files to a checkpoint of weft's, which holds parameters alone. */
#include "hf.h"

#include <string.h>

typedef struct imports {
    const hf_options *o;
    hf_view *from;
    const char *folder;
    weft_piece *pieces; /* [n]: of the map, then those that are not the model's */
    int n;
    json_t *files;
} imports;

static weft_status list_pieces(imports *x, weft_error *err)
{
    const hf_map *map = &x->from->map;
    const hf_extras *extras = &x->from->extras;
    x->n = map->n + extras->n;
    x->pieces = weft_alloc_zero((size_t)x->n + 1, sizeof *x->pieces);
    if (!x->pieces)
        return weft_fail_memory(err);
    for (int i = 0; i < map->n; i++) {
        const hf_tensor *t = &map->list[i];
        weft_piece *p = &x->pieces[i];
        *p = (weft_piece){.name = t->name,
                          .dtype = hf_dtype(t, x->o->dtype, hf_view_dtype(x->from, i)),
                          .n_dims = t->n_dims};
        for (int d = 0; d < t->n_dims; d++)
            p->whole[d] = p->size[d] = t->size[d];
    }
    for (int i = 0; i < extras->n; i++)
        x->pieces[map->n + i] = hf_extra_piece(extras->list[i], x->o->dtype);
    return WEFT_OK;
}

static weft_status write_tensor(const imports *x, int i, weft_shard *shard, int at, weft_error *err)
{
    const weft_piece *p = &x->pieces[i];
    if (i >= x->from->map.n)
        return hf_extra_write(x->from->folder, p, shard, at, err);
    const int64_t bytes = (int64_t)weft_dtype_size(p->dtype);
    hf_boxes b;
    hf_boxes_init(&b, p->size, p->n_dims, (size_t)bytes);
    void *data = weft_alloc((size_t)(hf_boxes_most(&b) * bytes));
    weft_status s = data ? WEFT_OK : weft_fail_memory(err);
    while (!s && hf_boxes_next(&b)) {
        s = hf_view_read(x->from, i, b.lo, b.box, p->dtype, data, err);
        s = s ? s : weft_shard_write(shard, at, b.at * bytes, data, b.count * bytes, err);
    }
    weft_free(data);
    return s;
}

static weft_status write_file(const imports *x, const hf_shards *shards, int file, weft_error *err)
{
    int first = shards->first[file], n = shards->first[file + 1] - first;
    weft_shard *shard = NULL;
    weft_sums sums = {0};
    char *name = weft_format("model-%05d.safetensors", file),
         *path = weft_format("%s/model-%05d.safetensors", x->folder, file);
    weft_status s = name && path ? weft_shard_create(weft_io_system(), path, x->pieces + first, n,
                                                     true, NULL, &shard, err)
                                 : weft_fail_memory(err);
    for (int i = 0; i < n && !s; i++) {
        s = write_tensor(x, first + i, shard, i, err);
        hf_show_progress(x->o, first + i + 1, x->n);
    }
    s = s ? s : weft_shard_finish(shard, &sums, err);
    s = s ? s : hf_manifest_file(x->files, name, &sums, err);
    weft_shard_destroy(shard);
    weft_sums_release(&sums);
    weft_free(name);
    weft_free(path);
    return s;
}

static weft_status note_companion(const imports *x, const char *name, weft_error *err)
{
    weft_sums sums = {0};
    char *path = weft_format("%s/%s", x->folder, name);
    weft_status s =
        path ? weft_sums_of_file(weft_io_system(), path, &sums, err) : weft_fail_memory(err);
    s = s ? s : hf_manifest_file(x->files, name, &sums, err);
    weft_sums_release(&sums);
    weft_free(path);
    return s;
}

static weft_status write_manifest(imports *x, weft_error *err)
{
    json_t *files = x->files;
    weft_status s = hf_copy_files(x->o->from, x->folder, err);
    for (int i = 0; hf_companions[i] && !s; i++)
        if (hf_has_file(x->folder, hf_companions[i]))
            s = note_companion(x, hf_companions[i], err);
    if (s)
        return s;
    x->files = NULL;
    return hf_manifest_write(x->folder, &x->from->model, files, err);
}

weft_status hf_import(const hf_options *o, hf_view *from, const char *folder, int64_t *bytes,
                      weft_error *err)
{
    imports x = {.o = o, .from = from, .folder = folder, .files = json_array()};
    hf_shards shards = {0};
    weft_status s = x.files ? list_pieces(&x, err) : weft_fail_memory(err);
    s = s ? s : hf_shards_init(&shards, x.pieces, x.n, o->max_shard, err);
    for (int f = 0; f < shards.n && !s; f++)
        s = write_file(&x, &shards, f, err);
    s = s ? s : write_manifest(&x, err);
    *bytes = shards.bytes;
    hf_shards_release(&shards);
    json_decref(x.files);
    weft_free(x.pieces);
    return s;
}
