/* SPDX-License-Identifier: Apache-2.0 */
/* A thread writes this rank's files from where the state lies. When the state is about to change,
 * what is not written yet is copied into a buffer, and the thread goes on from there. */
#include "ckpt.h"

#include <string.h>

/* The widest dtype made of the narrowest. */
enum { CONVERTED = 4 * CKPT_CHUNK };

static int64_t bytes_in_memory(const ckpt_part *p)
{
    int64_t stored = (int64_t)weft_dtype_size(p->piece.dtype),
            here = (int64_t)weft_dtype_size(p->tensor->tensor.dtype);
    return weft_piece_bytes(&p->piece) / stored * here;
}

weft_status ckpt_writer_init(ckpt_writer *w, weft_error *err)
{
    int64_t n = 0;
    for (int i = 0; i < w->parts.n; i++)
        n += (bytes_in_memory(&w->parts.list[i]) + CKPT_CHUNK - 1) / CKPT_CHUNK;
    w->chunks = weft_alloc_zero((size_t)n + 1, sizeof *w->chunks);
    w->scratch = weft_alloc_aligned(64, CONVERTED + CKPT_CHUNK);
    if (!w->chunks || !w->scratch)
        return weft_fail_memory(err);
    for (int i = 0; i < w->parts.n; i++) {
        int64_t bytes = bytes_in_memory(&w->parts.list[i]);
        for (int64_t at = 0; at < bytes; at += CKPT_CHUNK)
            w->chunks[w->n_chunks++] = (ckpt_chunk){
                .part = i, .at = at, .bytes = bytes - at < CKPT_CHUNK ? bytes - at : CKPT_CHUNK};
    }
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    return WEFT_OK;
}

void ckpt_writer_release(ckpt_writer *w)
{
    if (w->chunks && w->scratch) {
        pthread_cond_destroy(&w->changed);
        pthread_mutex_destroy(&w->lock);
    }
    weft_free(w->chunks);
    weft_free_aligned(w->scratch);
    ckpt_parts_release(&w->parts);
    weft_text_release(&w->record);
    weft_error_release(&w->err);
    *w = (ckpt_writer){0};
}

/* ---- the thread ---- */

/* *from: where it lies, or `room`, to which it is brought. */
static weft_status read_chunk(const ckpt_writer *w, const ckpt_chunk *c, char *room,
                              const char **from, weft_error *err)
{
    const ckpt_part *p = &w->parts.list[c->part];
    const weft_tensor *x = &p->tensor->tensor;
    *from = x->data ? (const char *)x->data + p->offset + c->at : room;
    if (x->data)
        return WEFT_OK;
    weft_error why = {0};
    weft_status s = w->state->read(w->state, (int)(p->tensor - w->state->tensors),
                                   p->offset + c->at, c->bytes, room, &why);
    if (s)
        weft_fail(err, s, WEFT_NOWHERE, "%s, in saving %s", weft_error_text(&why), p->tensor->name);
    weft_error_release(&why);
    return s;
}

/* Waits until chunk i may be read; *from: where, NULL: from the state. False: the end has come. */
static bool await(ckpt_writer *w, int64_t i, const char **from)
{
    pthread_mutex_lock(&w->lock);
    while (!w->quit && (w->copying || (i >= w->staged && (w->staging || !w->state->any_thread))))
        pthread_cond_wait(&w->changed, &w->lock);
    w->live = !w->quit && i >= w->staged;
    *from = w->live ? NULL : w->chunks[i].copy;
    bool go_on = !w->quit;
    pthread_mutex_unlock(&w->lock);
    return go_on;
}

static void written(ckpt_writer *w, int64_t i)
{
    pthread_mutex_lock(&w->lock);
    if (!w->live)
        w->buffer->tail = w->chunks[i].end;
    w->live = false;
    w->next = i + 1;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static const void *convert(ckpt_writer *w, const ckpt_part *p, const void *from, int64_t n)
{
    weft_tensor a = {
        .data = (void *)from, .dtype = p->tensor->tensor.dtype, .n_dims = 1, .size = {n}};
    weft_tensor b = {.data = w->scratch, .dtype = p->piece.dtype, .n_dims = 1, .size = {n}};
    for (int64_t i = 0; i < n; i++)
        weft_tensor_set(&b, i, weft_tensor_get(&a, i));
    return w->scratch;
}

static weft_status write_chunk(ckpt_writer *w, weft_shard *const *shards, const ckpt_chunk *c,
                               const void *from, weft_error *err)
{
    const ckpt_part *p = &w->parts.list[c->part];
    int64_t wide = (int64_t)weft_dtype_size(p->tensor->tensor.dtype),
            narrow = (int64_t)weft_dtype_size(p->piece.dtype);
    if (p->tensor->tensor.dtype != p->piece.dtype)
        from = convert(w, p, from, c->bytes / wide);
    return weft_shard_write(shards[p->file], p->index, c->at / wide * narrow, from,
                            c->bytes / wide * narrow, err);
}

static weft_status create_shard(ckpt_writer *w, int file, const char *name, weft_shard **out,
                                weft_error *err)
{
    weft_piece *pieces = weft_alloc_zero((size_t)w->parts.n_of[file], sizeof *pieces);
    char *path = weft_format("%s/%s", w->dir, name);
    weft_status s = pieces && path ? WEFT_OK : weft_fail_memory(err);
    for (int i = 0, k = 0; i < w->parts.n && !s; i++)
        if (w->parts.list[i].file == file)
            pieces[k++] = w->parts.list[i].piece;
    s = s ? s : weft_shard_create(w->io, path, pieces, w->parts.n_of[file], true, NULL, out, err);
    weft_free(pieces);
    weft_free(path);
    return s;
}

static weft_status write_shards(ckpt_writer *w, weft_error *err)
{
    static const char *const formats[] = {"model-%05d.safetensors", "optim/optim-%05d.safetensors"};
    weft_shard *shards[2] = {NULL, NULL};
    char name[2][64];
    weft_status s = WEFT_OK;
    for (int f = 0; f < 2 && !s; f++) {
        snprintf(name[f], sizeof name[f], formats[f], w->rank);
        if (w->parts.n_of[f])
            s = create_shard(w, f, name[f], &shards[f], err);
    }
    const char *from;
    for (int64_t i = 0; i < w->n_chunks && !s; i++) {
        if (!await(w, i, &from))
            s = weft_fail(err, WEFT_ERR_STOPPED, WEFT_NOWHERE, "given up");
        else if (!from)
            s = read_chunk(w, &w->chunks[i], w->scratch + CONVERTED, &from, err);
        s = s ? s : write_chunk(w, shards, &w->chunks[i], from, err);
        if (!s)
            written(w, i);
    }
    for (int f = 0; f < 2; f++) {
        weft_sums sums = {0};
        if (!s && shards[f])
            s = weft_shard_finish(shards[f], &sums, err);
        if (!s && shards[f])
            weft_manifest_file_print(&w->record, name[f], &sums);
        weft_sums_release(&sums);
        weft_shard_destroy(shards[f]);
    }
    return s;
}

/* Byte for byte, under its own name. */
static weft_status copy_file(ckpt_writer *w, const char *from, weft_error *err)
{
    const char *slash = strrchr(from, '/'), *name = slash ? slash + 1 : from;
    char *to = weft_format("%s/%s", w->dir, name), *data = NULL;
    size_t n = 0;
    weft_sums sums = {0};
    weft_status s = to ? weft_io_read_file(w->io, from, &data, &n, err) : weft_fail_memory(err);
    s = s ? s : weft_io_write_file(w->io, to, data, n, err);
    s = s ? s : weft_sums_of_file(w->io, to, &sums, err);
    if (!s)
        weft_manifest_file_print(&w->record, name, &sums);
    weft_sums_release(&sums);
    weft_free(data);
    weft_free(to);
    return s;
}

weft_status ckpt_writer_run(ckpt_writer *w)
{
    weft_status s = write_shards(w, &w->err);
    for (int i = 0; w->copies && w->copies[i] && !s; i++)
        s = copy_file(w, w->copies[i], &w->err);
    if (!s && w->record.out_of_memory)
        s = weft_fail_memory(&w->err);
    pthread_mutex_lock(&w->lock);
    w->failed = s != WEFT_OK;
    w->live = false;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return s;
}

/* ---- the rank's own thread ---- */

static weft_status copy(ckpt_writer *w, char *to, const ckpt_chunk *c, weft_error *err)
{
    const char *from;
    weft_status s = read_chunk(w, c, to, &from, err);
    if (!s && from != to)
        memcpy(to, from, (size_t)c->bytes);
    return s;
}

weft_status ckpt_writer_stage(ckpt_writer *w, weft_error *err)
{
    weft_status s = WEFT_OK;
    pthread_mutex_lock(&w->lock);
    bool first = !w->staging;
    w->staging = w->copying = true;
    while (w->live && !w->failed)
        pthread_cond_wait(&w->changed, &w->lock);
    if (first)
        w->staged = w->next;
    while (w->staged < w->n_chunks && !w->failed && !s) {
        ckpt_chunk *c = &w->chunks[w->staged];
        char *to = ckpt_buffer_take(w->buffer, c->bytes, &c->end);
        if (!to) { /* what is there goes to the file first */
            w->copying = false;
            pthread_cond_broadcast(&w->changed);
            pthread_cond_wait(&w->changed, &w->lock);
            w->copying = true;
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        s = copy(w, to, c, err);
        pthread_mutex_lock(&w->lock);
        c->copy = to;
        w->staged += !s;
    }
    w->copying = false;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return s;
}

void ckpt_writer_quit(ckpt_writer *w)
{
    pthread_mutex_lock(&w->lock);
    w->quit = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}
