/* SPDX-License-Identifier: Apache-2.0 */
/* A Hugging Face folder: its files are found, and its tensors are those of the model that
 * config.json describes, no more, no fewer. */
#include "hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAMED = 20 }; /* complaints of one kind */

/* ---- files ---- */

typedef struct files {
    const char **list;
    int n, capacity;
} files;

static weft_status add_file(files *f, const char *name, weft_error *err)
{
    for (int i = f->n; i-- > 0;)
        if (strcmp(f->list[i], name) == 0)
            return WEFT_OK;
    if (f->n == f->capacity) {
        int capacity = f->capacity ? 2 * f->capacity : 16;
        const char **more = weft_realloc(f->list, (size_t)capacity * sizeof *more);
        if (!more)
            return weft_fail_memory(err);
        f->list = more;
        f->capacity = capacity;
    }
    f->list[f->n++] = name;
    return WEFT_OK;
}

static weft_status list_files(json_t *map, const char *folder, weft_where at, files *f,
                              weft_error *err)
{
    const char *tensor;
    json_t *file;
    weft_status s = WEFT_OK;
    json_object_foreach(map, tensor, file) {
        const char *name = json_string_value(file);
        if (!name || !name[0] || strchr(name, '/') || name[0] == '.')
            return weft_fail(err, WEFT_ERR_INPUT, at,
                             "'%s' lies in '%s', which is not a file's name", tensor,
                             name ? name : "?");
        int before = f->n;
        weft_status added = add_file(f, name, err);
        if (!added && f->n > before && !hf_has_file(folder, name))
            added = weft_fail(err, WEFT_ERR_INPUT, at,
                              "names %s, which is not there; fetch it again", name);
        s = s ? s : added;
    }
    if (!s && f->n == 0)
        s = weft_fail(err, WEFT_ERR_INPUT, at, "names no files");
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
        if (!weft_folder_find(v->folder, tensor) && missing++ < MOST_NAMED)
            s = weft_fail(err, WEFT_ERR_INPUT, at, "says that %s has '%s', which it has not",
                          json_string_value(file), tensor);
    return s;
}

static weft_status open_indexed(hf_view *v, const char *folder, const char *index, weft_error *err)
{
    const weft_where at = {index, 0};
    files f = {0};
    json_error_t where;
    char *data = NULL;
    size_t size = 0;
    weft_status s = weft_read_file(index, &data, &size, err);
    json_t *root = s ? NULL : json_loadb(data, size, 0, &where),
           *map = json_object_get(root, "weight_map");
    if (!s && !root)
        s = weft_fail(err, WEFT_ERR_INPUT, ((weft_where){index, where.line > 0 ? where.line : 0}),
                      "is not JSON: %s", where.text);
    else if (!s && !json_is_object(map))
        s = weft_fail(err, WEFT_ERR_INPUT, at, "has no 'weight_map'");
    s = s ? s : list_files(map, folder, at, &f, err);
    s = s ? s : weft_folder_open_files(weft_io_system(), folder, f.list, f.n, &v->folder, err);
    s = s ? s : compare_index(v, map, at, err);
    json_decref(root);
    weft_free(data);
    weft_free(f.list);
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
    if (hf_has_file(folder, "consolidated.00.pth") ||
        hf_has_file(folder, "consolidated.safetensors") || hf_has_file(folder, "params.json"))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "%s: holds Meta's own files (consolidated.*), whose q and k are in "
                         "another order; take the Hugging Face files, *.safetensors",
                         folder);
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s: has neither %s nor %s", folder, single,
                     index);
}

bool hf_view_has_block(const char *folder, const hf_model *m, int64_t block)
{
    hf_view v = {.model.form = m->form};
    weft_error err = {0};
    bool has = open_files(&v, folder, &err) != WEFT_OK; /* who reads them says what is wrong */
    for (const weft_hf_tensor *row = m->form->tensors; (row->name || row->file) && !has; row++)
        if (row->name && strstr(row->name, "{l}") && hf_is_of_layer(m, row, block)) {
            char name[HF_NAME];
            hf_name(name, row->file ? row->file : row->name, block, 0);
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
    bare = v->bare[i] ? bare_name(&v->model, whole) : NULL;
    memcpy(name, bare ? bare : whole, strlen(bare ? bare : whole) + 1);
}

static const weft_stored *find_stored(const hf_view *v, int i, int64_t x)
{
    char name[HF_NAME];
    name_in_files(v, i, x, name);
    return weft_folder_find(v->folder, name);
}

/* Under its name or without the prefix, in this row's place. */
static bool is_there(hf_view *v, int i)
{
    for (int bare = 0; bare < 2; bare++) {
        v->bare[i] = bare;
        if (find_stored(v, i, 0))
            return true;
    }
    v->bare[i] = false;
    return false;
}

/* A tensor may lie in the place of a later row. */
static void choose_place(hf_view *v, int i)
{
    hf_tensor *t = &v->map.list[i];
    const weft_hf_tensor *first = t->row;
    if (is_there(v, i))
        return;
    for (const weft_hf_tensor *row = first + 1; row->name || row->file; row++) {
        if (!row->name || !row->other || strcmp(row->name, first->name) != 0)
            continue;
        t->row = row;
        if (is_there(v, i))
            return;
    }
    t->row = first;
}

static weft_status wrong_shape(const hf_view *v, const weft_stored *t, const hf_tensor *want,
                               const char *folder, weft_error *err)
{
    weft_text text = {0};
    int64_t size[WEFT_MAX_DIMS];
    int n = hf_file_shape(&v->model, want, size);
    weft_text_print(&text, "'%s' is ", t->name);
    hf_print_shape(&text, t->size, t->n_dims);
    weft_text_add(&text, "; config.json says ");
    hf_print_shape(&text, size, n);
    weft_status s = weft_fail(err, WEFT_ERR_INPUT, ((weft_where){folder, 0}),
                              "%s, with the plugin %s ('%s' is [%s])", weft_text_get(&text),
                              v->model.table->plugin, want->row->name, want->row->shape);
    weft_text_release(&text);
    return s;
}

static weft_status is_missing(const hf_view *v, int i, int64_t x, const char *folder,
                              weft_error *err)
{
    char name[HF_NAME];
    weft_text text = {0};
    int64_t size[WEFT_MAX_DIMS];
    hf_file_name(&v->map.list[i], x, name);
    hf_print_shape(&text, size, hf_file_shape(&v->model, &v->map.list[i], size));
    weft_status s = weft_fail(err, WEFT_ERR_INPUT, ((weft_where){folder, 0}),
                              "tensor '%s' is missing; the plugin %s has it as %s", name,
                              v->model.table->plugin, weft_text_get(&text));
    weft_text_release(&text);
    return s;
}

static weft_status check_stored(const hf_view *v, const hf_tensor *want, const weft_stored *t,
                                const char *folder, weft_error *err)
{
    int64_t size[WEFT_MAX_DIMS];
    const int n = hf_file_shape(&v->model, want, size);
    bool fits = t->n_dims == n;
    for (int d = 0; d < n && fits; d++)
        fits = t->size[d] == size[d];
    if (!fits)
        return want->row->part ? WEFT_ERR_INPUT : wrong_shape(v, t, want, folder, err);
    const bool f16 = t->dtype == WEFT_DTYPES && strcmp(t->type, "F16") == 0;
    if (f16 || (weft_dtype_is_float(t->dtype) && !weft_dtype_is_f8(t->dtype)))
        return WEFT_OK;
    return want->row->part
               ? WEFT_ERR_INPUT
               : weft_fail(err, WEFT_ERR_INPUT, ((weft_where){folder, 0}),
                           "'%s' is %s; weft reads F32, BF16, F16 and F64", t->name, t->type);
}

static weft_status match_one(hf_view *v, int i, const char *folder, int *missing, weft_error *err)
{
    const hf_tensor *want = &v->map.list[i];
    weft_status s = WEFT_OK;
    choose_place(v, i);
    for (int64_t x = 0; x < hf_files(want); x++) {
        const weft_stored *t = find_stored(v, i, x);
        weft_status one = t ? check_stored(v, want, t, folder, err) : WEFT_ERR_INPUT;
        if (!t && want->row->part == 0 && (*missing)++ < MOST_NAMED)
            one = is_missing(v, i, x, folder, err);
        s = s ? s : one;
    }
    return s;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names of all tensors that are the model's, sorted. */
static weft_status list_known(const hf_view *v, const char ***out, size_t *n, weft_error *err)
{
    int64_t all = 1;
    for (int i = 0; i < v->map.n; i++)
        all += hf_files(&v->map.list[i]);
    const char **list = weft_alloc((size_t)all * sizeof *list);
    *out = list;
    *n = 0;
    if (!list)
        return weft_fail_memory(err);
    for (int i = 0; i < v->map.n; i++)
        for (int64_t x = 0; x < hf_files(&v->map.list[i]); x++) {
            const weft_stored *t = find_stored(v, i, x);
            if (t)
                list[(*n)++] = t->name;
        }
    qsort(list, *n, sizeof *list, compare_texts);
    return WEFT_OK;
}

static weft_status find_extras(hf_view *v, weft_error *err)
{
    const char **known;
    size_t n;
    weft_status s = list_known(v, &known, &n, err);
    for (int i = 0; i < weft_folder_count(v->folder) && !s; i++) {
        const weft_stored *t = weft_folder_get(v->folder, i);
        if (!bsearch(&t->name, known, n, sizeof *known, compare_texts) &&
            !hf_is_ignored(&v->model, t->name))
            s = hf_extras_add(&v->extras, t, err);
    }
    weft_free(known);
    return s;
}

static weft_status match(hf_view *v, const char *folder, hf_extra extra, weft_error *err)
{
    weft_status s = WEFT_OK;
    int missing = 0;
    v->bare = weft_alloc_zero((size_t)v->map.n + 1, sizeof *v->bare);
    if (!v->bare)
        return weft_fail_memory(err);
    for (int i = 0; i < v->map.n; i++) {
        weft_status one = match_one(v, i, folder, &missing, err);
        s = s ? s : one;
    }
    if (missing > MOST_NAMED)
        weft_fail(err, WEFT_ERR_INPUT, ((weft_where){folder, 0}), "%d more tensors are missing",
                  missing - MOST_NAMED);
    weft_status extras = find_extras(v, err);
    extras = extras ? extras : hf_extras_settle(&v->extras, extra, folder, err);
    return s ? s : extras;
}

/* ---- the view ---- */

weft_status hf_view_open(hf_view *v, const char *folder, const hf_tables *tables, hf_extra extra,
                         weft_error *err)
{
    *v = (hf_view){0};
    weft_status s = hf_config_read(folder, tables, &v->model, err);
    s = s ? s : hf_map_create(&v->model, &v->map, err);
    s = s ? s : open_files(v, folder, err);
    return s ? s : match(v, folder, extra, err);
}

void hf_view_close(hf_view *v)
{
    hf_extras_release(&v->extras);
    weft_folder_destroy(v->folder);
    weft_free(v->bare);
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

void hf_transpose(const void *from, int64_t rows, int64_t columns, void *to, int64_t stride,
                  size_t bytes)
{
    enum { TILE = 32 };
    const char *source = from;
    char *target = to;
    for (int64_t i0 = 0; i0 < rows; i0 += TILE)
        for (int64_t j0 = 0; j0 < columns; j0 += TILE)
            for (int64_t j = j0; j < j0 + TILE && j < columns; j++)
                for (int64_t i = i0; i < i0 + TILE && i < rows; i++)
                    memcpy(target + (size_t)(j * stride + i) * bytes,
                           source + (size_t)(i * columns + j) * bytes, bytes);
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
        hf_transpose(rows, box[0], box[1], to, box[0], weft_dtype_size(dtype));
    weft_free(rows);
    return s;
}

weft_status hf_view_read(hf_view *v, int i, const int64_t *lo, const int64_t *size,
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
