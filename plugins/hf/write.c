/* SPDX-License-Identifier: Apache-2.0 */
/* What is written: a Hugging Face folder from a checkpoint, or a checkpoint, which holds parameters
 * alone, from such a folder. Tensors go into files box by box, in the order of the files. */
#include "hf.h"

#include <stdio.h>

/* Bytes of a box: what processors keep near; more where a box is turned, so that few read the same
 * rows of a file. */
enum { MOST = 2 << 20, MOST_TURNED = 32 << 20, ALIGNMENT = 64 };

/* Where a piece comes from. */
typedef struct origin {
    const hf_tensor *of; /* the first that it is made of; NULL: it is copied as it is */
    int64_t index;       /* of one that lies in several, which */
    char name[HF_NAME];
} origin;

typedef struct writing {
    const hf_options *o;
    const hf_source *from;
    const char *folder;
    bool ours;   /* a checkpoint */
    bool turned; /* some are */
    int n;
    weft_piece *pieces; /* [n]: the model's own, what stands there once more, then others */
    origin *origins;    /* [n] */
    int n_files;
    json_t *places;  /* Hugging Face's: of each tensor, its file */
    weft_text files; /* the manifest's */

    weft_shard *shard;
    void *buffer;
    int64_t most;     /* bytes of it */
    int piece, first; /* this one, and the first of its file */
    int64_t done;     /* bytes of it */
} writing;

/* ---- which tensors ---- */

/* A whole tensor. exact: numbers that bf16 would spoil. */
static void add_piece(writing *w, const char *name, weft_dtype is, bool exact, const int64_t *size,
                      int n_dims)
{
    const weft_dtype wanted = w->o->dtype;
    weft_piece *p = &w->pieces[w->n++];
    *p = (weft_piece){.name = name, .dtype = is, .n_dims = n_dims};
    if (wanted != WEFT_DTYPES && weft_dtype_is_float(is))
        p->dtype = exact && wanted == WEFT_BF16 && is != WEFT_BF16 ? WEFT_F32 : wanted;
    for (int d = 0; d < n_dims; d++)
        p->whole[d] = p->size[d] = size[d];
}

/* name NULL: as the table says. */
static void add_own(writing *w, const hf_tensor *t, int64_t index, const char *name)
{
    origin *from = &w->origins[w->n];
    int64_t size[WEFT_MAX_DIMS];
    const int n_dims = hf_file_shape(&w->from->model, t, w->ours, size);
    *from = (origin){.of = t, .index = index};
    hf_file_name(t, index, w->ours, from->name);
    if (name)
        snprintf(from->name, sizeof from->name, "%s", name);
    w->turned |= t->row->turned;
    add_piece(w, from->name, hf_source_dtype(w->from, t), t->row->exact, size, n_dims);
}

static weft_status list_pieces(writing *w, weft_error *err)
{
    const hf_map *map = &w->from->map;
    size_t most = (size_t)(map->n_copies + w->from->n_extras) + 1;
    for (int i = 0; i < map->n; i++)
        most += (size_t)hf_files(&map->list[i], w->ours);
    w->pieces = weft_alloc_zero(most, sizeof *w->pieces);
    w->origins = weft_alloc_zero(most, sizeof *w->origins);
    if (!w->pieces || !w->origins || !w->places)
        return weft_fail_memory(err);
    for (int i = 0; i < map->n; i += w->ours ? 1 : hf_parts(&map->list[i]))
        for (int64_t k = 0; k < hf_files(&map->list[i], w->ours); k++)
            add_own(w, &map->list[i], k, NULL);
    for (int i = 0; i < map->n_copies && !w->ours; i++)
        if (!map->copies[i].row->other)
            add_own(w, &map->list[map->copies[i].of], 0, map->copies[i].name);
    for (int i = 0; i < w->from->n_extras; i++) {
        const weft_stored *t = w->from->extras[i]; /* f16 is written as f32, which holds it */
        add_piece(w, t->name, t->dtype == WEFT_DTYPES ? WEFT_F32 : t->dtype, false, t->size,
                  t->n_dims);
    }
    return WEFT_OK;
}

/* ---- a tensor ---- */

static weft_status write_dense(writing *w, const int64_t *lo, const int64_t *size, int64_t bytes,
                               weft_error *err)
{
    const weft_piece *p = &w->pieces[w->piece];
    const origin *from = &w->origins[w->piece];
    weft_status s =
        !from->of ? weft_folder_read(w->from->folder, p->name, lo, size, p->dtype, w->buffer, err)
        : w->ours ? hf_source_read(w->from, from->of, lo, size, p->dtype, w->buffer, err)
                  : hf_source_read_file(w->from, from->of, from->index, lo, size, p->dtype,
                                        w->buffer, err);
    s = s ? s : weft_shard_write(w->shard, w->piece - w->first, w->done, w->buffer, bytes, err);
    w->done += bytes;
    return s;
}

/* A box whose dims before d are single: if it is too large, by pieces of dim d. */
static weft_status write_box(writing *w, int d, const int64_t *lo, const int64_t *size,
                             weft_error *err)
{
    const weft_piece *p = &w->pieces[w->piece];
    int64_t from[WEFT_MAX_DIMS] = {0}, box[WEFT_MAX_DIMS] = {0},
            bytes = (int64_t)weft_dtype_size(p->dtype);
    weft_status s = WEFT_OK;
    for (int k = 0; k < p->n_dims; k++) {
        from[k] = lo[k];
        bytes *= box[k] = size[k];
    }
    if (bytes <= w->most)
        return bytes ? write_dense(w, lo, size, bytes, err) : WEFT_OK;
    const int64_t row = bytes / size[d], step = row < w->most ? w->most / row : 1;
    for (int64_t at = 0; at < size[d] && !s; at += step) {
        from[d] = lo[d] + at;
        box[d] = size[d] - at < step ? size[d] - at : step;
        s = write_box(w, d + 1, from, box, err);
    }
    return s;
}

/* ---- files ---- */

int hf_end_of_file(const weft_piece *pieces, int n, int first, int64_t most)
{
    int64_t bytes = weft_piece_bytes(&pieces[first++]);
    while (first < n && (bytes += weft_piece_bytes(&pieces[first])) <= most)
        first++;
    return first;
}

static void name_file(const writing *w, int file, char name[HF_NAME])
{
    const char *stem = hf_files_stem(&w->from->model);
    if (w->ours)
        snprintf(name, HF_NAME, "model-%05d.safetensors", file);
    else if (w->n_files == 1)
        snprintf(name, HF_NAME, "%s.safetensors", stem);
    else
        snprintf(name, HF_NAME, "%s-%05d-of-%05d.safetensors", stem, file + 1, w->n_files);
}

static weft_status note_file(writing *w, const char *name, int end, const weft_sums *sums,
                             weft_error *err)
{
    bool ok = true;
    if (w->ours)
        weft_manifest_file_print(&w->files, name, sums);
    for (int i = w->first; i < end && !w->ours; i++)
        ok = json_object_set_new(w->places, w->pieces[i].name, json_string(name)) == 0 && ok;
    return ok ? WEFT_OK : weft_fail_memory(err);
}

/* Of pieces w->first .. end - 1. */
static weft_status write_file(writing *w, int file, int end, weft_error *err)
{
    weft_sums sums = {0};
    char name[HF_NAME], path[HF_PATH];
    name_file(w, file, name);
    weft_status s =
        weft_shard_create(weft_io_system(), hf_path(path, w->folder, name), w->pieces + w->first,
                          end - w->first, w->ours, NULL, &w->shard, err);
    for (w->piece = w->first; w->piece < end && !s; w->piece++) {
        const weft_piece *p = &w->pieces[w->piece];
        w->done = 0;
        s = write_box(w, 0, p->lo, p->size, err);
        if (w->o->host->terminal)
            weft_log_print(w->o->host->log, WEFT_LOG_INFO, "\r%d of %d tensors", w->piece + 1,
                           w->n);
    }
    s = s ? s : weft_shard_finish(w->shard, w->ours ? &sums : NULL, err);
    s = s ? s : note_file(w, name, end, &sums, err);
    weft_shard_destroy(w->shard);
    w->shard = NULL;
    weft_sums_release(&sums);
    return s;
}

static weft_status write_tensors(writing *w, weft_error *err)
{
    const int64_t most = w->o->max_shard;
    weft_status s = WEFT_OK;
    w->most = w->turned ? MOST_TURNED : MOST;
    w->buffer = weft_alloc_aligned(ALIGNMENT, (size_t)w->most);
    if (!w->buffer)
        return weft_fail_memory(err);
    for (int i = 0; i < w->n; i = hf_end_of_file(w->pieces, w->n, i, most))
        w->n_files++;
    for (int file = 0; file < w->n_files && !s; file++) {
        const int end = hf_end_of_file(w->pieces, w->n, w->first, most);
        s = write_file(w, file, end, err);
        w->first = end;
    }
    return s;
}

/* ---- what stands beside them ---- */

static weft_status write_index(const writing *w, int64_t bytes, weft_error *err)
{
    char name[HF_NAME];
    json_t *root = json_pack("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)bytes,
                             "weight_map", w->places);
    snprintf(name, sizeof name, "%s.safetensors.index.json", hf_files_stem(&w->from->model));
    weft_status s = hf_write_json(root, JSON_SORT_KEYS, "", w->folder, name, err);
    json_decref(root);
    return s;
}

static weft_status note_companion(writing *w, const char *name, weft_error *err)
{
    weft_sums sums = {0};
    char path[HF_PATH];
    weft_status s = weft_sums_of_file(weft_io_system(), hf_path(path, w->folder, name), &sums, err);
    if (!s)
        weft_manifest_file_print(&w->files, name, &sums);
    weft_sums_release(&sums);
    return s;
}

/* The tokenizer's files and generation_config.json, as many as there are. */
static weft_status copy_companions(writing *w, weft_error *err)
{
    const char *from = w->from->path,
               *list =
                   "tokenizer.json tokenizer.model tokenizer_config.json generation_config.json "
                   "special_tokens_map.json added_tokens.json merges.txt vocab.json "
                   "chat_template.jinja chat_template.json";
    weft_status s = WEFT_OK;
    for (size_t n; !s && (n = hf_next_word(&list)); list += n) {
        char name[HF_NAME];
        snprintf(name, sizeof name, "%.*s", (int)n, list);
        if (!hf_has_file(from, name))
            continue;
        s = hf_copy_file(from, name, w->folder, name, err);
        if (!s && w->ours)
            s = note_companion(w, name, err);
    }
    return s;
}

static weft_status finish_folder(const writing *w, int64_t bytes, weft_error *err)
{
    weft_status s = w->n_files > 1 ? write_index(w, bytes, err) : WEFT_OK;
    s = s ? s : hf_config_write(w->folder, &w->from->model, w->pieces[0].dtype, err);
    return s ? s : hf_tokens_write(w->from, w->folder, err);
}

weft_status hf_write(const hf_options *o, const hf_source *from, const char *folder, int *n,
                     int64_t *bytes, weft_error *err)
{
    writing w = {
        .o = o, .from = from, .folder = folder, .ours = !from->ours, .places = json_object()};
    weft_status s = list_pieces(&w, err);
    s = s ? s : write_tensors(&w, err);
    *n = w.n;
    *bytes = 0;
    for (int i = 0; i < w.n; i++)
        *bytes += weft_piece_bytes(&w.pieces[i]);
    s = s ? s : copy_companions(&w, err);
    s = s        ? s
        : w.ours ? hf_manifest_write(folder, &from->model, &w.files, err)
                 : finish_folder(&w, *bytes, err);
    json_decref(w.places);
    weft_text_release(&w.files);
    weft_free_aligned(w.buffer);
    weft_free(w.pieces);
    weft_free(w.origins);
    return s;
}
