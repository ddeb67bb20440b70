/* SPDX-License-Identifier: Apache-2.0 */
/* What is read: a Hugging Face folder, or a checkpoint of weft's. Its tensors are those of the
 * model that config.json, or the settings, describe, no more, no fewer. */
#include "hf.h"

#include <stdio.h>
#include <string.h>

/* ---- names ---- */

/* Files of the bare model leave the first word of the names out. */
static const char *bare_name(const hf_model *m, const char *name)
{
    const size_t n = m->form->prefix ? strlen(m->form->prefix) : 0;
    return n && strncmp(name, m->form->prefix, n) == 0 ? name + n : NULL;
}

void hf_source_name(const hf_source *x, const hf_tensor *t, int64_t i, char name[HF_NAME])
{
    hf_file_name(t, i, x->ours, name);
    const char *bare = x->bare ? bare_name(&x->model, name) : NULL;
    if (bare)
        memmove(name, bare, strlen(bare) + 1);
}

static const weft_stored *find_stored(const hf_source *x, const hf_tensor *t, int64_t i)
{
    char name[HF_NAME];
    hf_source_name(x, t, i, name);
    return weft_folder_find(x->folder, name);
}

/* Files of a bare model: none of their names has the prefix. */
static bool is_bare(const hf_source *x)
{
    for (int i = 0; i < weft_folder_count(x->folder); i++)
        if (bare_name(&x->model, weft_folder_get(x->folder, i)->name))
            return false;
    return !x->ours;
}

/* A tensor may lie in the place of a later row. */
static void choose_place(const hf_source *x, hf_tensor *t)
{
    const weft_hf_tensor *first = t->row;
    for (const weft_hf_tensor *row = first; hf_is_row(row); row++) {
        if (row != first && (!row->name || !row->other || strcmp(row->name, first->name) != 0))
            continue;
        t->row = row;
        if (find_stored(x, t, 0))
            return;
    }
    t->row = first;
}

/* ---- the model's tensors ---- */

/* What is stored is compared with the model. */
typedef struct matching {
    hf_source *x;
    json_t *known; /* names of the model's tensors */
    int missing, wrong, strange;
    weft_error *err;
} matching;

/* t NULL: there is none. */
static weft_status say_wrong(const matching *m, const hf_tensor *want, int64_t i,
                             const weft_stored *t)
{
    const hf_source *x = m->x;
    char name[HF_NAME], of[HF_NAME + 8] = "", is[WEFT_SIZES_TEXT], should[WEFT_SIZES_TEXT];
    int64_t size[WEFT_MAX_DIMS];
    const int n = hf_file_shape(&x->model, want, x->ours, size);
    hf_file_name(want, i, x->ours, name);
    if (!x->ours)
        snprintf(of, sizeof of, "'%s' is ", want->row->name);
    return hf_refuse(m->err, x->path, "tensor '%s' is %s; %s %s, with the plugin %s (%s[%s])",
                     t ? t->name : name, t ? weft_sizes_print(is, t->size, t->n_dims) : "missing",
                     x->ours ? "the settings say" : "config.json says",
                     weft_sizes_print(should, size, n), x->model.table->plugin, of,
                     want->row->shape);
}

static weft_status check_stored(matching *m, const hf_tensor *want, int64_t i, const weft_stored *t)
{
    int64_t size[WEFT_MAX_DIMS];
    const int n = hf_file_shape(&m->x->model, want, m->x->ours, size);
    if (!weft_sizes_are_same(t->size, t->n_dims, size, n))
        return m->wrong++ < HF_MOST_NAMED ? say_wrong(m, want, i, t) : WEFT_ERR_INPUT;
    if (t->dtype == WEFT_DTYPES ? strcmp(t->type, "F16") == 0
                                : weft_dtype_is_float(t->dtype) && !weft_dtype_is_f8(t->dtype))
        return WEFT_OK;
    return m->strange++ < HF_MOST_NAMED
               ? hf_refuse(m->err, m->x->path,
                           "tensor '%s' is %s; weft reads F32, BF16, F16 and F64", t->name, t->type)
               : WEFT_ERR_INPUT;
}

/* Parts of one tensor are checked with the first. */
static weft_status match_one(matching *m, hf_tensor *want)
{
    const hf_source *x = m->x;
    weft_status s = WEFT_OK;
    choose_place(x, want);
    const int64_t n = x->ours || !want->row->part ? hf_files(want, x->ours) : 0;
    for (int64_t i = 0; i < n && m->missing <= HF_MOST_COUNTED; i++) {
        const weft_stored *t = find_stored(x, want, i);
        weft_status one = t                              ? check_stored(m, want, i, t)
                          : m->missing++ < HF_MOST_NAMED ? say_wrong(m, want, i, NULL)
                                                         : WEFT_ERR_INPUT;
        if (t && json_object_set_new(m->known, t->name, json_true()) != 0)
            one = weft_fail_memory(m->err);
        s = s ? s : one;
    }
    return s;
}

/* ---- tensors beside the model's own: of adapters, of further heads, a plugin's buffers ---- */

static bool is_empty(const weft_stored *t)
{
    bool is = false;
    for (int d = 0; d < t->n_dims; d++)
        is = is || t->size[d] == 0;
    return is;
}

/* They have no place in Hugging Face's form, so that who converts says what becomes of them. */
static weft_status find_extras(const matching *m, hf_extra how)
{
    hf_source *x = m->x;
    const int n = weft_folder_count(x->folder);
    weft_status s = WEFT_OK;
    if (how == HF_EXTRA_LEAVE_OUT)
        return WEFT_OK;
    x->extras = weft_alloc((size_t)n * sizeof *x->extras);
    if (!x->extras)
        return weft_fail_memory(m->err);
    for (int i = 0; i < n; i++) {
        const weft_stored *t = weft_folder_get(x->folder, i);
        if (json_object_get(m->known, t->name) || (!x->ours && hf_is_ignored(&x->model, t->name)))
            continue;
        x->extras[x->n_extras++] = t;
        if (how == HF_EXTRA_REFUSE && x->n_extras <= HF_MOST_NAMED)
            s = hf_refuse(m->err, x->path, "tensor '%s' does not belong to the model", t->name);
        else if (how == HF_EXTRA_EXPORT && t->dtype == WEFT_DTYPES && strcmp(t->type, "F16") != 0)
            s = hf_refuse(m->err, x->path, "tensor '%s' is %s, which weft does not have", t->name,
                          t->type);
        else if (how == HF_EXTRA_EXPORT && is_empty(t))
            s = hf_refuse(m->err, x->path, "tensor '%s' is empty, which weft does not write",
                          t->name);
    }
    if (how == HF_EXTRA_REFUSE)
        hf_say_more(m->err, x->path, x->n_extras, "tensors that do not belong to the model");
    return s;
}

/* ---- all of it ---- */

weft_status hf_source_match(hf_source *x, hf_extra extra, weft_error *err)
{
    matching m = {.x = x, .known = json_object(), .err = err};
    weft_status s = hf_map_create(&x->model, &x->map, err);
    if (!s && !m.known)
        s = weft_fail_memory(err);
    if (!s) {
        x->bare = is_bare(x);
        for (int i = 0; i < x->map.n; i++) {
            weft_status one = match_one(&m, &x->map.list[i]);
            s = s ? s : one;
        }
        hf_say_more(err, x->path, m.missing, "tensors that are missing");
        hf_say_more(err, x->path, m.wrong, "tensors that are of another shape");
        hf_say_more(err, x->path, m.strange, "tensors that have a type that weft does not read");
        weft_status extras = find_extras(&m, extra);
        s = s ? s : extras;
    }
    json_decref(m.known);
    return s;
}

weft_status hf_folder_open(hf_source *x, const char *folder, const hf_tables *tables,
                           hf_extra extra, weft_error *err)
{
    *x = (hf_source){.path = folder};
    weft_status s = hf_config_read(folder, tables, &x->model, err);
    s = s ? s : hf_files_open(folder, &x->model, &x->folder, err);
    return s ? s : hf_source_match(x, extra, err);
}

void hf_source_close(hf_source *x)
{
    weft_free(x->extras);
    weft_folder_destroy(x->folder);
    hf_map_release(&x->map);
    hf_model_release(&x->model);
    weft_manifest_release(&x->manifest);
    *x = (hf_source){0};
}

/* The widest of what it lies in. */
weft_dtype hf_source_dtype(const hf_source *x, const hf_tensor *t)
{
    weft_dtype widest = WEFT_BF16;
    for (int64_t i = 0; i < hf_files(t, x->ours); i++) {
        const weft_stored *stored = find_stored(x, t, i);
        if (stored && stored->dtype == WEFT_F64)
            widest = WEFT_F64;
        else if (stored && stored->dtype != WEFT_BF16 && widest == WEFT_BF16)
            widest = WEFT_F32; /* f16, too, which it holds exactly */
    }
    return widest;
}
