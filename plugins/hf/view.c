/* SPDX-License-Identifier: Apache-2.0 */
/* A Hugging Face folder: its files are found, and its tensors are those of the model that
 * config.json describes, no more, no fewer. */
#include "hf.h"

#include <stdio.h>
#include <string.h>

/* ---- files ---- */

/* Each once: the names of an object. */
static weft_status list_files(json_t *map, const char *folder, weft_where at, json_t *files,
                              weft_error *err)
{
    const char *tensor;
    json_t *file;
    weft_status s = files ? WEFT_OK : weft_fail_memory(err);
    json_object_foreach(map, tensor, file) {
        const char *name = json_string_value(file);
        if (!name || !name[0] || strchr(name, '/') || name[0] == '.')
            return weft_fail(err, WEFT_ERR_INPUT, at,
                             "'%s' lies in '%s', which is not a file's name", tensor,
                             name ? name : "?");
        if (json_object_get(files, name))
            continue;
        if (json_object_set(files, name, file) != 0)
            return weft_fail_memory(err);
        if (!hf_has_file(folder, name))
            s = weft_fail(err, WEFT_ERR_INPUT, at, "names %s, which is not there; fetch it again",
                          name);
    }
    return s || json_object_size(files) ? s : weft_fail(err, WEFT_ERR_INPUT, at, "names no files");
}

static weft_status open_listed(hf_view *v, const char *folder, json_t *files, weft_error *err)
{
    const char *name, **names = weft_alloc(json_object_size(files) * sizeof *names);
    json_t *file;
    int n = 0;
    if (!names)
        return weft_fail_memory(err);
    json_object_foreach(files, name, file)
        names[n++] = name;
    weft_status s = weft_folder_open_files(weft_io_system(), folder, names, n, &v->folder, err);
    weft_free(names);
    return s;
}

/* What the index promises must be in the file that it names. */
static weft_status compare_index(const hf_view *v, json_t *map, weft_where at, weft_error *err)
{
    const char *tensor;
    json_t *file;
    weft_status s = WEFT_OK;
    int missing = 0;
    json_object_foreach(map, tensor, file)
        if (!weft_folder_find(v->folder, tensor) && missing++ < HF_MOST_NAMED)
            s = weft_fail(err, WEFT_ERR_INPUT, at, "says that %s has '%s', which it has not",
                          json_string_value(file), tensor);
    return s;
}

static weft_status open_indexed(hf_view *v, const char *folder, const char *index, weft_error *err)
{
    const weft_where at = {index, 0};
    json_t *root, *files = json_object();
    weft_status s = hf_read_json(index, &root, err);
    json_t *map = json_object_get(root, "weight_map");
    if (!s && !json_is_object(map))
        s = weft_fail(err, WEFT_ERR_INPUT, at, "has no 'weight_map'");
    s = s ? s : list_files(map, folder, at, files, err);
    s = s ? s : open_listed(v, folder, files, err);
    s = s ? s : compare_index(v, map, at, err);
    json_decref(root);
    json_decref(files);
    return s;
}

static weft_status open_files(hf_view *v, const char *folder, weft_error *err)
{
    char single[64], index[96];
    const char *const singles[] = {single};
    snprintf(single, sizeof single, "%s.safetensors", hf_files_stem(&v->model));
    snprintf(index, sizeof index, "%s.index.json", single);
    if (hf_has_file(folder, index)) {
        char *path = weft_format("%s/%s", folder, index);
        weft_status s = path ? open_indexed(v, folder, path, err) : weft_fail_memory(err);
        weft_free(path);
        return s;
    }
    if (hf_has_file(folder, single))
        return weft_folder_open_files(weft_io_system(), folder, singles, 1, &v->folder, err);
    if (hf_has_file(folder, "pytorch_model.bin") ||
        hf_has_file(folder, "pytorch_model.bin.index.json"))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "%s: holds pytorch_model.bin, which is a program as much as data and is "
                         "not read; save the model as safetensors "
                         "(Transformers: model.save_pretrained(FOLDER))",
                         folder);
    weft_status s = hf_refuse_metas(folder, err);
    return s ? s
             : weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s: has neither %s nor %s", folder,
                         single, index);
}

bool hf_view_has_block(const char *folder, const hf_model *m, int64_t block)
{
    hf_view v = {.model.form = m->form};
    weft_error err = {0};
    bool has = open_files(&v, folder, &err) != WEFT_OK; /* who reads them says what is wrong */
    for (const weft_hf_tensor *row = m->form->tensors; hf_is_row(row) && !has; row++)
        if (row->name && strstr(row->name, "{l}") && hf_is_of_layer(m, row, block)) {
            char name[HF_NAME];
            hf_name(name, hf_file_of(row), block, 0);
            has = weft_folder_find(v.folder, name) != NULL;
        }
    weft_error_release(&err);
    weft_folder_destroy(v.folder);
    return has;
}

/* ---- tensors ---- */

/* Files of the bare model leave the first word of the names out. */
static const char *bare_name(const hf_model *m, const char *name)
{
    const size_t n = m->form->prefix ? strlen(m->form->prefix) : 0;
    return n && strncmp(name, m->form->prefix, n) == 0 ? name + n : NULL;
}

/* Tensor i's x-th, as the files call it. */
static void name_in_files(const hf_view *v, int i, int64_t x, char name[HF_NAME])
{
    char whole[HF_NAME];
    const char *bare;
    hf_file_name(&v->map.list[i], x, whole);
    bare = v->bare ? bare_name(&v->model, whole) : NULL;
    memcpy(name, bare ? bare : whole, strlen(bare ? bare : whole) + 1);
}

static const weft_stored *find_stored(const hf_view *v, int i, int64_t x)
{
    char name[HF_NAME];
    name_in_files(v, i, x, name);
    return weft_folder_find(v->folder, name);
}

/* The first tensor that can have either name tells. */
static void find_prefix(hf_view *v)
{
    for (int i = 0; i < v->map.n; i++)
        for (int bare = 0; bare < 2; bare++) {
            char whole[HF_NAME];
            v->bare = bare;
            hf_file_name(&v->map.list[i], 0, whole);
            if (bare_name(&v->model, whole) && find_stored(v, i, 0))
                return;
        }
    v->bare = false;
}

/* A tensor may lie in the place of a later row. */
static void choose_place(hf_view *v, int i)
{
    hf_tensor *t = &v->map.list[i];
    const weft_hf_tensor *first = t->row;
    if (find_stored(v, i, 0))
        return;
    for (const weft_hf_tensor *row = first + 1; hf_is_row(row); row++) {
        if (!row->name || !row->other || strcmp(row->name, first->name) != 0)
            continue;
        t->row = row;
        if (find_stored(v, i, 0))
            return;
    }
    t->row = first;
}

/* What files have is compared with the model. */
typedef struct matching {
    hf_view *v;
    json_t *known; /* names of the model's tensors */
    int missing;
    weft_error *err;
} matching;

/* x: of tensor `want`, which. */
static weft_status is_missing(const matching *m, const hf_tensor *want, int64_t x)
{
    char name[HF_NAME], should[HF_NAME];
    int64_t size[WEFT_MAX_DIMS];
    const int n = hf_file_shape(&m->v->model, want, size);
    hf_file_name(want, x, name);
    return weft_fail(m->err, WEFT_ERR_INPUT, ((weft_where){m->v->path, 0}),
                     "tensor '%s' is missing; the plugin %s has it as %s", name,
                     m->v->model.table->plugin, hf_shape(should, size, n));
}

static weft_status check_stored(const matching *m, const hf_tensor *want, const weft_stored *t)
{
    const weft_where at = {m->v->path, 0};
    int64_t size[WEFT_MAX_DIMS];
    char is[HF_NAME], should[HF_NAME];
    const int n = hf_file_shape(&m->v->model, want, size);
    const bool f16 = t->dtype == WEFT_DTYPES && strcmp(t->type, "F16") == 0;
    if (!hf_has_shape(t, size, n))
        return weft_fail(m->err, WEFT_ERR_INPUT, at,
                         "'%s' is %s; config.json says %s, with the plugin %s ('%s' is [%s])",
                         t->name, hf_shape(is, t->size, t->n_dims), hf_shape(should, size, n),
                         m->v->model.table->plugin, want->row->name, want->row->shape);
    if (f16 || (weft_dtype_is_float(t->dtype) && !weft_dtype_is_f8(t->dtype)))
        return WEFT_OK;
    return weft_fail(m->err, WEFT_ERR_INPUT, at, "'%s' is %s; weft reads F32, BF16, F16 and F64",
                     t->name, t->type);
}

/* Parts of one tensor are checked with the first. */
static weft_status match_one(matching *m, int i)
{
    const hf_tensor *want = &m->v->map.list[i];
    weft_status s = WEFT_OK;
    choose_place(m->v, i);
    for (int64_t x = 0; x < hf_files(want) && !want->row->part; x++) {
        const weft_stored *t = find_stored(m->v, i, x);
        weft_status one = t                              ? check_stored(m, want, t)
                          : m->missing++ < HF_MOST_NAMED ? is_missing(m, want, x)
                                                         : WEFT_ERR_INPUT;
        if (t && json_object_set_new(m->known, t->name, json_true()) != 0)
            one = weft_fail_memory(m->err);
        s = s ? s : one;
    }
    return s;
}

static weft_status find_extras(matching *m, hf_extra extra)
{
    hf_view *v = m->v;
    weft_status s = WEFT_OK;
    for (int i = 0; i < weft_folder_count(v->folder) && !s; i++) {
        const weft_stored *t = weft_folder_get(v->folder, i);
        if (!json_object_get(m->known, t->name) && !hf_is_ignored(&v->model, t->name))
            s = hf_extras_add(&v->extras, t, m->err);
    }
    return s ? s : hf_extras_settle(&v->extras, extra, v->path, m->err);
}

static weft_status match(hf_view *v, hf_extra extra, weft_error *err)
{
    matching m = {.v = v, .known = json_object(), .err = err};
    weft_status s = m.known ? WEFT_OK : weft_fail_memory(err);
    find_prefix(v);
    for (int i = 0; i < v->map.n && m.known; i++) {
        weft_status one = match_one(&m, i);
        s = s ? s : one;
    }
    hf_say_more(m.missing, "are missing", (weft_where){v->path, 0}, err);
    weft_status extras = m.known ? find_extras(&m, extra) : s;
    json_decref(m.known);
    return s ? s : extras;
}

/* ---- the view ---- */

weft_status hf_view_open(hf_view *v, const char *folder, const hf_tables *tables, hf_extra extra,
                         weft_error *err)
{
    *v = (hf_view){.path = folder};
    weft_status s = hf_config_read(folder, tables, &v->model, err);
    s = s ? s : hf_map_create(&v->model, &v->map, err);
    s = s ? s : open_files(v, folder, err);
    return s ? s : match(v, extra, err);
}

void hf_view_close(hf_view *v)
{
    hf_extras_release(&v->extras);
    weft_folder_destroy(v->folder);
    hf_map_release(&v->map);
    hf_model_release(&v->model);
    *v = (hf_view){0};
}

/* The widest of what it lies in. */
weft_dtype hf_view_dtype(const hf_view *v, int i)
{
    weft_dtype widest = WEFT_BF16;
    for (int64_t x = 0; x < hf_files(&v->map.list[i]); x++) {
        const weft_stored *t = find_stored(v, i, x);
        if (t && t->dtype == WEFT_F64)
            widest = WEFT_F64;
        else if (t && t->dtype != WEFT_BF16 && widest == WEFT_BF16)
            widest = WEFT_F32; /* f16, too, which it holds exactly */
    }
    return widest;
}

/* Inlined, so that `bytes` is a constant. */
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

void hf_transpose(const void *from, int64_t rows, int64_t columns, void *to, size_t bytes)
{
    if (bytes == 2)
        transpose(from, rows, columns, to, 2);
    else if (bytes == 4)
        transpose(from, rows, columns, to, 4);
    else
        transpose(from, rows, columns, to, bytes);
}

/* A box of one tensor of the files, in their order of dims. */
static weft_status read_turned(hf_view *v, const char *name, const int64_t *lo, const int64_t *size,
                               weft_dtype dtype, void *to, weft_error *err)
{
    const int64_t at[2] = {lo[1], lo[0]}, box[2] = {size[1], size[0]};
    void *rows = weft_alloc((size_t)(box[0] * box[1]) * weft_dtype_size(dtype));
    if (!rows)
        return weft_fail_memory(err);
    weft_status s = weft_folder_read(v->folder, name, at, box, dtype, rows, err);
    if (!s)
        hf_transpose(rows, box[0], box[1], to, weft_dtype_size(dtype));
    weft_free(rows);
    return s;
}

static weft_status read_box(hf_view *v, int i, const int64_t *lo, const int64_t *size,
                            weft_dtype dtype, void *to, weft_error *err)
{
    const hf_tensor *t = &v->map.list[i];
    const bool stacked = hf_is_stacked(t);
    int64_t at[WEFT_MAX_DIMS] = {0}, count = (int64_t)weft_dtype_size(dtype);
    weft_status s = WEFT_OK;
    for (int d = 0; d < t->n_dims; d++) {
        at[d] = lo[d] + (hf_parts(t) > 1 && d == t->row->along ? hf_part_begin(&v->model, t) : 0);
        count *= d < stacked ? 1 : size[d];
    }
    for (int64_t k = 0; k < (stacked ? size[0] : 1) && !s; k++) {
        char name[HF_NAME], *out = (char *)to + k * count;
        name_in_files(v, i, stacked ? lo[0] + k : 0, name);
        s = t->row->turned
                ? read_turned(v, name, at + stacked, size + stacked, dtype, out, err)
                : weft_folder_read(v->folder, name, at + stacked, size + stacked, dtype, out, err);
    }
    return s;
}

static weft_status copies_differ(const hf_view *v, const hf_copy *copy, weft_error *err)
{
    const char *name = v->map.list[copy->of].name, *plugin = v->model.table->plugin,
               *key = copy->row->other ? hf_key_of(v->model.form->keys, copy->row->when) : NULL;
    const weft_where at = {v->path, 0};
    return key ? weft_fail(err, WEFT_ERR_INPUT, at,
                           "tensors '%s' and '%s' differ, but '%s' in config.json says that the "
                           "model has one parameter for both, and so has the plugin %s; right that "
                           "key, or take '%s' out",
                           name, copy->name, key, plugin, copy->name)
               : weft_fail(err, WEFT_ERR_INPUT, at,
                           "tensors '%s' and '%s' differ, but the plugin %s has one parameter for "
                           "both",
                           name, copy->name, plugin);
}

/* A copy that files do not have is fine: nobody reads it. */
static weft_status compare_copy(hf_view *v, const hf_copy *copy, const int64_t *lo,
                                const int64_t *size, weft_dtype dtype, const void *data,
                                weft_error *err)
{
    const hf_tensor *of = &v->map.list[copy->of];
    const weft_stored *t = weft_folder_find(v->folder, copy->name);
    size_t bytes = weft_dtype_size(dtype);
    for (int d = 0; d < of->n_dims; d++)
        bytes *= (size_t)size[d];
    if (!t)
        return WEFT_OK;
    bool same = hf_has_shape(t, of->size, of->n_dims);
    void *again = same ? weft_alloc(bytes) : NULL;
    weft_status s = !same   ? WEFT_OK
                    : again ? weft_folder_read(v->folder, copy->name, lo, size, dtype, again, err)
                            : weft_fail_memory(err);
    same = same && (s || memcmp(again, data, bytes) == 0);
    weft_free(again);
    return same ? s : copies_differ(v, copy, err);
}

weft_status hf_view_read(hf_view *v, int i, const int64_t *lo, const int64_t *size,
                         weft_dtype dtype, void *to, weft_error *err)
{
    weft_status s = read_box(v, i, lo, size, dtype, to, err);
    for (int k = 0; k < v->map.n_copies && !s; k++)
        if (v->map.copies[k].of == i)
            s = compare_copy(v, &v->map.copies[k], lo, size, dtype, to, err);
    return s;
}
