/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors into files, box by box, in the order of the files. */
#include "hf.h"

/* Bytes of a box: what processors keep near; more where a box is turned, so that few read the same
 * rows of a file. */
enum { MOST = 2 << 20, MOST_TURNED = 32 << 20, ALIGNMENT = 64 };

/* ---- how tensors are shared out between files ---- */

weft_status hf_shards_init(hf_shards *s, const weft_piece *pieces, int n, int64_t max_shard,
                           weft_error *err)
{
    int64_t here = 0;
    *s = (hf_shards){.first = weft_alloc_zero((size_t)n + 2, sizeof *s->first)};
    if (!s->first)
        return weft_fail_memory(err);
    for (int i = 0; i < n; i++) {
        int64_t bytes = weft_piece_bytes(&pieces[i]);
        if (i == 0 || here + bytes > max_shard) {
            s->first[s->n++] = i;
            here = 0;
        }
        here += bytes;
        s->bytes += bytes;
    }
    s->first[s->n] = n;
    return WEFT_OK;
}

void hf_shards_release(hf_shards *s)
{
    weft_free(s->first);
    *s = (hf_shards){0};
}

/* ---- a tensor ---- */

typedef struct writing {
    const hf_output *out;
    weft_shard *shard;
    void *buffer;
    int64_t most;  /* bytes of it */
    int piece, at; /* of all, of the file's */
    int64_t done;  /* bytes of it */
} writing;

static weft_status write_dense(writing *w, const int64_t *lo, const int64_t *size, int64_t bytes,
                               weft_error *err)
{
    const hf_output *o = w->out;
    const weft_piece *p = &o->pieces[w->piece];
    weft_status s = w->piece < o->own
                        ? o->read(o->self, w->piece, lo, size, w->buffer, err)
                        : weft_folder_read(o->extras, p->name, lo, size, p->dtype, w->buffer, err);
    s = s ? s : weft_shard_write(w->shard, w->at, w->done, w->buffer, bytes, err);
    w->done += bytes;
    return s;
}

/* A box whose dims before d are single: if it is too large, by pieces of dim d. */
static weft_status write_box(writing *w, int d, const int64_t *lo, const int64_t *size,
                             weft_error *err)
{
    const weft_piece *p = &w->out->pieces[w->piece];
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

static char *name_of(const hf_output *out, int file, int n)
{
    return out->ours ? weft_format("model-%05d.safetensors", file)
           : n == 1  ? weft_format("%s.safetensors", out->stem)
                     : weft_format("%s-%05d-of-%05d.safetensors", out->stem, file + 1, n);
}

static weft_status write_file(const hf_output *o, const hf_shards *shards, int file, writing w,
                              weft_error *err)
{
    const int first = shards->first[file], n = shards->first[file + 1] - first;
    weft_sums sums = {0};
    char *name = name_of(o, file, shards->n),
         *path = name ? weft_format("%s/%s", o->folder, name) : NULL;
    weft_status s = path ? weft_shard_create(weft_io_system(), path, o->pieces + first, n, o->ours,
                                             NULL, &w.shard, err)
                         : weft_fail_memory(err);
    for (int i = 0; i < n && !s; i++) {
        w.piece = first + i;
        w.at = i;
        w.done = 0;
        s = write_box(&w, 0, o->pieces[first + i].lo, o->pieces[first + i].size, err);
        if (o->host->terminal)
            weft_log_print(o->host->log, WEFT_LOG_INFO, "\r%d of %d tensors", first + i + 1, o->n);
    }
    s = s ? s : weft_shard_finish(w.shard, o->ours ? &sums : NULL, err);
    s = s ? s : o->note(o->self, name, first, n, &sums, err);
    weft_shard_destroy(w.shard);
    weft_sums_release(&sums);
    weft_free(name);
    weft_free(path);
    return s;
}

weft_status hf_output_write(const hf_output *out, int64_t max_shard, int64_t *bytes,
                            weft_error *err)
{
    hf_shards shards;
    const int64_t most = out->turned ? MOST_TURNED : MOST;
    writing w = {.out = out, .buffer = weft_alloc_aligned(ALIGNMENT, (size_t)most), .most = most};
    weft_status s = w.buffer ? WEFT_OK : weft_fail_memory(err);
    s = s ? s : hf_shards_init(&shards, out->pieces, out->n, max_shard, err);
    if (!s) {
        for (int f = 0; f < shards.n && !s; f++)
            s = write_file(out, &shards, f, w, err);
        *bytes = shards.bytes;
        hf_shards_release(&shards);
    }
    weft_free_aligned(w.buffer);
    return s;
}
