/* SPDX-License-Identifier: Apache-2.0 */
/* From a checkpoint to Hugging Face's files. */
#include "hf.h"

#include <string.h>

/* A tensor of Hugging Face's: the first of weft's that it is made of, and, of one that lies in
 * several, which. */
typedef struct source {
    int of;
    int64_t index;
} source;

typedef struct exports {
    hf_checkpoint *from;
    hf_output out;
    weft_dtype dtype;       /* as the user wants them */
    source *sources;        /* [n] */
    char (*names)[HF_NAME]; /* [n] */
    json_t *places;         /* of each tensor, its file */
    int n_files;
} exports;

/* ---- which tensors ---- */

static void add_piece(exports *x, int i, int64_t index)
{
    const hf_tensor *t = &x->from->map.list[i];
    const weft_dtype stored = weft_folder_find(x->from->folder, t->name)->dtype;
    const int at = x->out.n++;
    int64_t size[WEFT_MAX_DIMS];
    const int n_dims = hf_file_shape(&x->from->model, t, size);
    hf_file_name(t, index, x->names[at]);
    x->out.pieces[at] =
        hf_piece(x->names[at], hf_dtype(t, x->dtype, stored == WEFT_DTYPES ? WEFT_F32 : stored),
                 size, n_dims);
    x->sources[at] = (source){i, index};
}

static weft_status list_pieces(exports *x, weft_error *err)
{
    const hf_map *map = &x->from->map;
    size_t most = (size_t)(map->n_copies + x->from->extras.n) + 1;
    for (int i = 0; i < map->n; i++)
        most += (size_t)hf_files(&map->list[i]);
    x->out.pieces = weft_alloc_zero(most, sizeof *x->out.pieces);
    x->sources = weft_alloc_zero(most, sizeof *x->sources);
    x->names = weft_alloc_zero(most, sizeof *x->names);
    if (!x->out.pieces || !x->sources || !x->names || !x->places)
        return weft_fail_memory(err);
    for (int i = 0; i < map->n; i += hf_parts(&map->list[i]))
        for (int64_t k = 0; k < hf_files(&map->list[i]); k++)
            add_piece(x, i, k);
    for (int i = 0; i < map->n_copies; i++) {
        if (map->copies[i].row->other)
            continue;
        add_piece(x, map->copies[i].of, 0);
        memcpy(x->names[x->out.n - 1], map->copies[i].name, HF_NAME);
    }
    hf_extras_append(&x->from->extras, x->dtype, x->from->folder, &x->out);
    return WEFT_OK;
}

/* ---- a box of one ---- */

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

static weft_status read_parts(const exports *x, const hf_tensor *t, const int64_t *at,
                              const int64_t *box, weft_dtype dtype, void *to, weft_error *err)
{
    weft_status s = WEFT_OK;
    if (hf_parts(t) == 1)
        return weft_folder_read(x->from->folder, t->name, at, box, dtype, to, err);
    for (int k = 0; k < hf_parts(t) && !s; k++)
        s = read_part(x->from->folder, &t[k], hf_part_begin(&x->from->model, &t[k]), at, box, dtype,
                      to, err);
    return s;
}

static weft_status read_box(void *self, int i, const int64_t *lo, const int64_t *size, void *to,
                            weft_error *err)
{
    const exports *x = self;
    const hf_tensor *t = &x->from->map.list[x->sources[i].of];
    const weft_piece *p = &x->out.pieces[i];
    const int stacked = hf_is_stacked(t);
    const size_t width = weft_dtype_size(p->dtype);
    int64_t at[WEFT_MAX_DIMS] = {x->sources[i].index}, box[WEFT_MAX_DIMS] = {1};
    for (int d = 0; d < p->n_dims; d++) {
        const int from = t->row->turned ? p->n_dims - 1 - d : d;
        at[stacked + d] = lo[from];
        box[stacked + d] = size[from];
    }
    if (!t->row->turned)
        return read_parts(x, t, at, box, p->dtype, to, err);
    void *rows = weft_alloc((size_t)(size[0] * size[1]) * width);
    weft_status s = rows ? read_parts(x, t, at, box, p->dtype, rows, err) : weft_fail_memory(err);
    if (!s)
        hf_transpose(rows, size[1], size[0], to, width);
    weft_free(rows);
    return s;
}

/* ---- files ---- */

static weft_status note_file(void *self, const char *name, int first, int n, const weft_sums *sums,
                             weft_error *err)
{
    exports *x = self;
    bool ok = true;
    (void)sums;
    for (int i = first; i < first + n; i++)
        ok = json_object_set_new(x->places, x->out.pieces[i].name, json_string(name)) == 0 && ok;
    x->n_files++;
    return ok ? WEFT_OK : weft_fail_memory(err);
}

static weft_status write_index(const exports *x, int64_t bytes, weft_error *err)
{
    json_t *root = json_pack("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)bytes,
                             "weight_map", x->places);
    char *name = weft_format("%s.safetensors.index.json", x->out.stem);
    weft_status s = name ? hf_write_json(root, JSON_SORT_KEYS, "", x->out.folder, name, err)
                         : weft_fail_memory(err);
    weft_free(name);
    json_decref(root);
    return s;
}

weft_status hf_export(const hf_options *o, hf_checkpoint *from, const char *folder, int64_t *bytes,
                      weft_error *err)
{
    exports x = {.from = from, .dtype = o->dtype, .places = json_object()};
    x.out = (hf_output){.host = o->host,
                        .folder = folder,
                        .turned = hf_map_is_turned(&from->map),
                        .stem = hf_files_stem(&from->model),
                        .read = read_box,
                        .note = note_file,
                        .self = &x};
    weft_status s = list_pieces(&x, err);
    s = s ? s : hf_output_write(&x.out, o->max_shard, bytes, err);
    if (!s && x.n_files > 1)
        s = write_index(&x, *bytes, err);
    s = s ? s : hf_config_write(folder, &from->model, x.out.pieces[0].dtype, err);
    s = s ? s : hf_copy_files(from->manifest.path, folder, err);
    s = s ? s : hf_tokens_write(from, folder, err);
    json_decref(x.places);
    weft_free(x.out.pieces);
    weft_free(x.sources);
    weft_free(x.names);
    return s;
}
