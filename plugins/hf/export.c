/* SPDX-License-Identifier: Apache-2.0 */
/* From a checkpoint to Hugging Face's files. */
#include "hf.h"

#include <stdlib.h>
#include <string.h>

/* A tensor of Hugging Face's: the first of weft's that it is made of, and, of one that lies in
 * several, which. */
typedef struct source {
    int of; /* of tensors that are not the model's: behind the map's */
    int64_t index;
} source;

typedef struct exports {
    const hf_options *o;
    hf_checkpoint *from;
    const char *folder;
    weft_piece *pieces;
    source *sources;        /* [n] */
    char (*names)[HF_NAME]; /* [n] */
    int n;
} exports;

static weft_dtype dtype_of(const exports *x, const hf_tensor *t)
{
    weft_dtype stored = weft_folder_find(x->from->folder, t->name)->dtype;
    return hf_dtype(t, x->o->dtype, stored == WEFT_DTYPES ? WEFT_F32 : stored);
}

static void add_piece(exports *x, int i, int64_t index)
{
    const hf_tensor *t = &x->from->map.list[i];
    weft_piece *p = &x->pieces[x->n];
    int64_t size[WEFT_MAX_DIMS];
    hf_file_name(t, index, x->names[x->n]);
    *p = (weft_piece){.name = x->names[x->n],
                      .dtype = dtype_of(x, t),
                      .n_dims = hf_file_shape(&x->from->model, t, size)};
    for (int d = 0; d < p->n_dims; d++)
        p->whole[d] = p->size[d] = size[d];
    x->sources[x->n++] = (source){i, index};
}

/* What the folder has once more, of parameter i. */
static void add_copies(exports *x, const weft_hf_tensor *row, int i)
{
    const hf_model *m = &x->from->model;
    const int64_t blocks = strstr(row->file, "{l}") ? hf_model_blocks(m) : 1;
    for (int64_t l = 0; l < blocks; l++)
        if (hf_is_of_layer(m, row, l)) {
            add_piece(x, i, 0);
            hf_name(x->names[x->n - 1], row->file, l, 0);
        }
}

static void list_copies(exports *x)
{
    const hf_model *m = &x->from->model;
    for (const weft_hf_tensor *row = m->form->tensors; row->name || row->file; row++) {
        const bool copied = !row->name && row->of && hf_model_has(m, row->when, row->unless);
        const hf_tensor *of = copied ? hf_map_find(&x->from->map, row->of) : NULL;
        if (of)
            add_copies(x, row, (int)(of - x->from->map.list));
    }
}

/* At most, of all rows. */
static int64_t count_copies(const exports *x)
{
    int64_t n = 0;
    for (const weft_hf_tensor *row = x->from->model.form->tensors; row->name || row->file; row++)
        n += row->name ? 0 : 1 + hf_model_blocks(&x->from->model);
    return n;
}

static weft_status list_pieces(exports *x, weft_error *err)
{
    const hf_map *map = &x->from->map;
    const hf_extras *extras = &x->from->extras;
    int64_t most = extras->n + count_copies(x) + 1;
    for (int i = 0; i < map->n; i++)
        most += hf_files(&map->list[i]);
    x->pieces = weft_alloc_zero((size_t)most, sizeof *x->pieces);
    x->sources = weft_alloc_zero((size_t)most, sizeof *x->sources);
    x->names = weft_alloc_zero((size_t)most, sizeof *x->names);
    if (!x->pieces || !x->sources || !x->names)
        return weft_fail_memory(err);
    for (int i = 0; i < map->n; i += hf_parts(&map->list[i]))
        for (int64_t k = 0; k < hf_files(&map->list[i]); k++)
            add_piece(x, i, k);
    list_copies(x);
    for (int i = 0; i < extras->n; i++) {
        x->pieces[x->n] = hf_extra_piece(extras->list[i], x->o->dtype);
        x->sources[x->n++] = (source){map->n + i, 0};
    }
    return WEFT_OK;
}

/* ---- one tensor ---- */

typedef struct target {
    weft_shard *shard;
    int at; /* of the shard's pieces */
    const weft_piece *piece;
} target;

/* What lies behind the first `n` indices of weft's tensor t, from element `first` of the target
 * on. */
static weft_status copy_block(const exports *x, const hf_tensor *t, const int64_t *index, int n,
                              int64_t first, const target *to, weft_error *err)
{
    const size_t bytes = weft_dtype_size(to->piece->dtype);
    hf_boxes b;
    hf_boxes_init(&b, t->size + n, t->n_dims - n, bytes);
    void *data = weft_alloc((size_t)hf_boxes_most(&b) * bytes);
    weft_status s = data ? WEFT_OK : weft_fail_memory(err);
    while (!s && hf_boxes_next(&b)) {
        int64_t lo[WEFT_MAX_DIMS], size[WEFT_MAX_DIMS];
        for (int d = 0; d < t->n_dims; d++) {
            lo[d] = d < n ? index[d] : b.lo[d - n];
            size[d] = d < n ? 1 : b.box[d - n];
        }
        s = weft_folder_read(x->from->folder, t->name, lo, size, to->piece->dtype, data, err);
        s = s ? s
              : weft_shard_write(to->shard, to->at, (first + b.at) * (int64_t)bytes, data,
                                 b.count * (int64_t)bytes, err);
    }
    weft_free(data);
    return s;
}

/* Parts lie one behind the other along a dim: for all indices before it, one block of each. */
static weft_status copy_parts(const exports *x, const hf_tensor *t, int64_t first_index,
                              const target *to, weft_error *err)
{
    const int stacked = hf_is_stacked(t), parts = hf_parts(t),
              n = parts > 1 ? t->row->along : stacked;
    int64_t outer = 1, at = 0, index[WEFT_MAX_DIMS] = {first_index};
    weft_status s = WEFT_OK;
    for (int d = stacked; d < n; d++)
        outer *= t->size[d];
    for (int64_t i = 0; i < outer && !s; i++) {
        int64_t rest = i;
        for (int d = n - 1; d >= stacked; d--) {
            index[d] = rest % t->size[d];
            rest /= t->size[d];
        }
        for (int k = 0; k < parts && !s; k++) {
            int64_t block = 1;
            for (int d = n; d < t[k].n_dims; d++)
                block *= t[k].size[d];
            s = copy_block(x, &t[k], index, n, at, to, err);
            at += block;
        }
    }
    return s;
}

/* Some rows of a tensor whose dims are turned: a row has a piece of each part. */
static weft_status turn_rows(const exports *x, const hf_tensor *t, int64_t index, int64_t row,
                             int64_t n, const target *to, void *rows, void *part, weft_error *err)
{
    const int stacked = hf_is_stacked(t);
    const int64_t columns = to->piece->size[1];
    int64_t at = 0;
    const size_t bytes = weft_dtype_size(to->piece->dtype);
    weft_status s = WEFT_OK;
    for (int k = 0; k < hf_parts(t) && !s; k++) {
        const int64_t whole = t[k].size[stacked], lo[3] = {index, 0, row}, size[3] = {1, whole, n};
        s = weft_folder_read(x->from->folder, t[k].name, lo + 1 - stacked, size + 1 - stacked,
                             to->piece->dtype, part, err);
        if (!s)
            hf_transpose(part, whole, n, (char *)rows + (size_t)at * bytes, columns, bytes);
        at += whole;
    }
    return s ? s
             : weft_shard_write(to->shard, to->at, row * columns * (int64_t)bytes, rows,
                                n * columns * (int64_t)bytes, err);
}

static weft_status copy_turned(const exports *x, const hf_tensor *t, int64_t index,
                               const target *to, weft_error *err)
{
    const size_t bytes = weft_dtype_size(to->piece->dtype);
    hf_boxes b;
    hf_boxes_init(&b, to->piece->size, 2, bytes);
    const int64_t most = hf_boxes_most(&b) > b.size[1] ? hf_boxes_most(&b) / b.size[1] : 1;
    void *rows = weft_alloc((size_t)(most * b.size[1]) * bytes),
         *part = weft_alloc((size_t)(most * b.size[1]) * bytes);
    weft_status s = rows && part ? WEFT_OK : weft_fail_memory(err);
    for (int64_t row = 0; row < b.size[0] && !s; row += most)
        s = turn_rows(x, t, index, row, b.size[0] - row < most ? b.size[0] - row : most, to, rows,
                      part, err);
    weft_free(rows);
    weft_free(part);
    return s;
}

static weft_status write_tensor(const exports *x, int i, weft_shard *shard, int at, weft_error *err)
{
    const target to = {shard, at, &x->pieces[i]};
    const source *from = &x->sources[i];
    if (from->of >= x->from->map.n)
        return hf_extra_write(x->from->folder, to.piece, shard, at, err);
    const hf_tensor *t = &x->from->map.list[from->of];
    return t->row->turned ? copy_turned(x, t, from->index, &to, err)
                          : copy_parts(x, t, from->index, &to, err);
}

/* ---- files ---- */

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
    const char *stem = hf_files_stem(&x->from->model);
    json_t *map = json_object();
    for (int f = 0; f < shards->n; f++)
        for (int i = shards->first[f]; i < shards->first[f + 1]; i++)
            json_object_set_new(
                map, x->pieces[i].name,
                json_sprintf("%s-%05d-of-%05d.safetensors", stem, f + 1, shards->n));
    bool whole = (int)json_object_size(map) == x->n;
    json_t *root = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)shards->bytes,
                             "weight_map", map);
    char *text = whole && root ? json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    char *path = weft_format("%s/%s.safetensors.index.json", x->folder, stem);
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
    const char *stem = hf_files_stem(&from->model);
    hf_shards shards = {0};
    weft_status s = list_pieces(&x, err);
    s = s ? s : hf_shards_init(&shards, x.pieces, x.n, o->max_shard, err);
    for (int f = 0; f < shards.n && !s; f++) {
        char *name = shards.n == 1
                         ? weft_format("%s.safetensors", stem)
                         : weft_format("%s-%05d-of-%05d.safetensors", stem, f + 1, shards.n);
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
    weft_free(x.sources);
    weft_free(x.names);
    return s;
}
