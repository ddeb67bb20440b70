/* SPDX-License-Identifier: Apache-2.0 */
/* From Hugging Face's files to a checkpoint of weft's, which holds parameters alone. */
#include "hf.h"

typedef struct imports {
    hf_view *from;
    hf_output out;
    json_t *files; /* the manifest's */
} imports;

static weft_status list_pieces(imports *x, weft_dtype dtype, weft_error *err)
{
    const hf_map *map = &x->from->map;
    const hf_extras *extras = &x->from->extras;
    hf_output *out = &x->out;
    out->pieces = weft_alloc_zero((size_t)(map->n + extras->n) + 1, sizeof *out->pieces);
    if (!out->pieces)
        return weft_fail_memory(err);
    for (; out->n < map->n; out->n++) {
        const hf_tensor *t = &map->list[out->n];
        out->pieces[out->n] = hf_piece(t->name, hf_dtype(t, dtype, hf_view_dtype(x->from, out->n)),
                                       t->size, t->n_dims);
    }
    hf_extras_append(extras, dtype, x->from->folder, out);
    return WEFT_OK;
}

static weft_status read_box(void *self, int i, const int64_t *lo, const int64_t *size, void *to,
                            weft_error *err)
{
    const imports *x = self;
    return hf_view_read(x->from, i, lo, size, x->out.pieces[i].dtype, to, err);
}

static weft_status note_file(void *self, const char *name, int first, int n, const weft_sums *sums,
                             weft_error *err)
{
    const imports *x = self;
    (void)first, (void)n;
    return hf_manifest_file(x->files, name, sums, err);
}

static weft_status note_companion(const imports *x, const char *name, weft_error *err)
{
    weft_sums sums = {0};
    char *path = weft_format("%s/%s", x->out.folder, name);
    weft_status s =
        path ? weft_sums_of_file(weft_io_system(), path, &sums, err) : weft_fail_memory(err);
    s = s ? s : hf_manifest_file(x->files, name, &sums, err);
    weft_sums_release(&sums);
    weft_free(path);
    return s;
}

static weft_status write_manifest(imports *x, const char *from, weft_error *err)
{
    json_t *files = x->files;
    weft_status s = hf_copy_files(from, x->out.folder, err);
    for (int i = 0; hf_companions[i] && !s; i++)
        if (hf_has_file(x->out.folder, hf_companions[i]))
            s = note_companion(x, hf_companions[i], err);
    if (s)
        return s;
    x->files = NULL;
    return hf_manifest_write(x->out.folder, &x->from->model, files, err);
}

weft_status hf_import(const hf_options *o, hf_view *from, const char *folder, int64_t *bytes,
                      weft_error *err)
{
    imports x = {.from = from, .files = json_array()};
    x.out = (hf_output){.host = o->host,
                        .folder = folder,
                        .ours = true,
                        .turned = hf_map_is_turned(&from->map),
                        .read = read_box,
                        .note = note_file,
                        .self = &x};
    weft_status s = x.files ? list_pieces(&x, o->dtype, err) : weft_fail_memory(err);
    s = s ? s : hf_output_write(&x.out, o->max_shard, bytes, err);
    s = s ? s : write_manifest(&x, o->from, err);
    json_decref(x.files);
    weft_free(x.out.pieces);
    return s;
}
