/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a folder's files: few files open at once, chunks compared with their sums where those
 * are known. */
#include "io/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

/* Chunks begin at whole pages of their files: memory that does, too, is copied to up to four times
 * as fast. */
enum { PAGE = 4096 };

/* ---- open files ---- */

/* Locked. Closes the file that nobody has read for longest; false: all are in use. */
static bool close_idle(weft_folder *folder)
{
    store_file *oldest = NULL;
    for (int i = 0; i < folder->n_files; i++) {
        store_file *file = &folder->files[i];
        if (file->fd >= 0 && file->users == 0 && (!oldest || file->used < oldest->used))
            oldest = file;
    }
    if (!oldest)
        return false;
    folder->io.close(folder->io.ctx, oldest->fd);
    oldest->fd = -1;
    folder->n_open--;
    return true;
}

/* Locked. */
static weft_status open_file(weft_folder *folder, store_file *file, weft_error *err)
{
    const weft_io *io = &folder->io;
    int64_t bytes = 0;
    if (folder->n_open >= STORE_OPEN_FILES)
        close_idle(folder);
    int fd = store_open(io, file->path, O_RDONLY, 0);
    while (fd < 0 && (errno == EMFILE || errno == ENFILE) && close_idle(folder))
        fd = store_open(io, file->path, O_RDONLY, 0);
    if (fd < 0)
        return weft_fail_errno_hint(err, file->path, "open", "");
    weft_status status = WEFT_OK;
    if (io->size(io->ctx, fd, &bytes) != 0)
        status = weft_fail_errno_hint(err, file->path, "ask for its size", "");
    else if (bytes != file->bytes)
        status = weft_fail(err, WEFT_ERR_INPUT, (weft_where){file->path, 0},
                           "somebody changed this file while it was being read");
    if (status != WEFT_OK) {
        io->close(io->ctx, fd);
        return status;
    }
    file->fd = fd;
    folder->n_open++;
    return WEFT_OK;
}

static weft_status read_file(weft_folder *folder, store_file *file, int64_t at, int64_t n, void *to,
                             weft_error *err)
{
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&folder->lock);
    if (file->fd < 0)
        status = open_file(folder, file, err);
    if (status == WEFT_OK) {
        file->users++;
        file->used = ++folder->clock;
    }
    pthread_mutex_unlock(&folder->lock);
    if (status != WEFT_OK)
        return status;
    status = store_read(&folder->io, file->fd, file->path, to, n, at, err);
    pthread_mutex_lock(&folder->lock);
    file->users--;
    pthread_mutex_unlock(&folder->lock);
    __atomic_add_fetch(&folder->bytes_read, n, __ATOMIC_RELAXED);
    return status;
}

/* ---- checked chunks ---- */

weft_status weft_folder_verify(weft_folder *folder, const char *name, const weft_sums *sums,
                               weft_error *err)
{
    store_file *file = NULL;
    for (int i = 0; i < folder->n_files && !file; i++)
        file = strcmp(folder->files[i].name, name) == 0 ? &folder->files[i] : NULL;
    if (!file)
        return weft_fail(err, WEFT_ERR_INPUT, (weft_where){folder->path, 0},
                         "there are checksums of %s, but no such file", name);
    weft_where at = {file->path, 0};
    if (sums->bytes != file->bytes)
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "has %" PRId64 " bytes, but had %" PRId64
                         " when it was written; restore it from a copy",
                         file->bytes, sums->bytes);
    if (sums->chunk < 1 || sums->chunk > (1 << 30) ||
        sums->n != sums->bytes / sums->chunk + (sums->bytes % sums->chunk != 0))
        return weft_fail(err, WEFT_ERR_INPUT, at, "its list of checksums does not fit its size");
    uint64_t *copy = weft_alloc((size_t)sums->n * sizeof *copy);
    if (!copy)
        return weft_fail_memory(err);
    memcpy(copy, sums->sum, (size_t)sums->n * sizeof *copy);
    pthread_mutex_lock(&folder->lock);
    for (int i = 0; i < STORE_CHUNKS; i++) {
        if (folder->chunks[i].file == file)
            folder->chunks[i].file = NULL;
    }
    weft_sums_release(&file->sums);
    file->sums = (weft_sums){sums->bytes, sums->chunk, sums->n, copy};
    file->verified = true;
    file->header_checked = false;
    pthread_mutex_unlock(&folder->lock);
    return WEFT_OK;
}

static int64_t chunk_bytes(const weft_sums *sums, int64_t index)
{
    int64_t left = sums->bytes - index * sums->chunk;
    return left < sums->chunk ? left : sums->chunk;
}

static weft_status read_chunk(weft_folder *folder, store_file *file, int64_t index, void *to,
                              weft_error *err)
{
    int64_t begin = index * file->sums.chunk, n = chunk_bytes(&file->sums, index);
    weft_status status = read_file(folder, file, begin, n, to, err);
    if (status != WEFT_OK)
        return status;
    uint64_t sum = weft_sum(to, (size_t)n);
    if (sum == file->sums.sum[index])
        return WEFT_OK;
    return weft_fail(
        err, WEFT_ERR_INPUT, (weft_where){file->path, 0},
        "bytes %" PRId64 " to %" PRId64
        " differ from the bytes that were written (checksum %016" PRIx64 ", not %016" PRIx64
        "): the file was damaged or changed; restore it from a copy, or use another checkpoint",
        begin, begin + n - 1, sum, file->sums.sum[index]);
}

/* Locked. */
static store_chunk *find_chunk(weft_folder *folder, const store_file *file, int64_t index)
{
    for (int i = 0; i < STORE_CHUNKS; i++) {
        store_chunk *c = &folder->chunks[i];
        if (c->data && c->file == file && c->index == index) {
            c->used = ++folder->clock;
            return c;
        }
    }
    return NULL;
}

/* Locked. */
static store_chunk *find_oldest(weft_folder *folder)
{
    store_chunk *oldest = &folder->chunks[0];
    for (int i = 1; i < STORE_CHUNKS; i++)
        oldest = folder->chunks[i].used < oldest->used ? &folder->chunks[i] : oldest;
    return oldest;
}

/* Room for a chunk: that of the oldest, if it is as large. */
static uint8_t *take_room(weft_folder *folder, int64_t bytes)
{
    pthread_mutex_lock(&folder->lock);
    store_chunk *oldest = find_oldest(folder), was = *oldest;
    *oldest = (store_chunk){0};
    pthread_mutex_unlock(&folder->lock);
    if (was.data && was.room == bytes)
        return was.data;
    weft_free(was.data);
    return weft_alloc_aligned(PAGE, (size_t)bytes);
}

/* Takes data over, unless another thread was faster. */
static void keep_chunk(weft_folder *folder, const store_file *file, int64_t index, uint8_t *data)
{
    pthread_mutex_lock(&folder->lock);
    uint8_t *drop = data;
    if (!find_chunk(folder, file, index)) {
        store_chunk *oldest = find_oldest(folder);
        drop = oldest->data;
        *oldest = (store_chunk){file, index, chunk_bytes(&file->sums, 0), ++folder->clock, data};
    }
    pthread_mutex_unlock(&folder->lock);
    weft_free(drop);
}

/* What was read to its end is the first to be replaced: its memory is near still. */
static bool copy_kept(weft_folder *folder, const store_file *file, int64_t index, int64_t at,
                      int64_t n, void *to)
{
    pthread_mutex_lock(&folder->lock);
    store_chunk *c = find_chunk(folder, file, index);
    if (c)
        memcpy(to, c->data + at, (size_t)n);
    if (c && at + n == chunk_bytes(&file->sums, index))
        c->used = 0;
    pthread_mutex_unlock(&folder->lock);
    return c != NULL;
}

/* n bytes from byte `at` of a chunk on. What is wanted whole need not be kept. */
static weft_status fetch_chunk(weft_folder *folder, store_file *file, int64_t index, int64_t at,
                               int64_t n, void *to, weft_error *err)
{
    int64_t bytes = chunk_bytes(&file->sums, index);
    if (copy_kept(folder, file, index, at, n, to))
        return WEFT_OK;
    if (n == bytes)
        return read_chunk(folder, file, index, to, err);
    uint8_t *data = take_room(folder, chunk_bytes(&file->sums, 0));
    if (!data)
        return weft_fail_memory(err);
    weft_status status = read_chunk(folder, file, index, data, err);
    if (status != WEFT_OK) {
        weft_free(data);
        return status;
    }
    memcpy(to, data + at, (size_t)n);
    keep_chunk(folder, file, index, data);
    return WEFT_OK;
}

static weft_status fetch_checked(weft_folder *folder, store_file *file, int64_t at, int64_t n,
                                 void *to, weft_error *err)
{
    uint8_t *p = to;
    while (n > 0) {
        int64_t index = at / file->sums.chunk, inner = at % file->sums.chunk;
        int64_t left = chunk_bytes(&file->sums, index) - inner;
        int64_t take = left < n ? left : n;
        weft_status status = fetch_chunk(folder, file, index, inner, take, p, err);
        if (status != WEFT_OK)
            return status;
        at += take;
        p += take;
        n -= take;
    }
    return WEFT_OK;
}

/* The header said where the tensors lie: it is compared before the first of them is believed. */
static weft_status check_header(weft_folder *folder, store_file *file, weft_error *err)
{
    uint8_t byte = 0;
    pthread_mutex_lock(&folder->lock);
    bool checked = file->header_checked;
    pthread_mutex_unlock(&folder->lock);
    for (int64_t at = 0; at < file->header.data && !checked; at += file->sums.chunk) {
        weft_status status = fetch_checked(folder, file, at, 1, &byte, err);
        if (status != WEFT_OK)
            return status;
    }
    pthread_mutex_lock(&folder->lock);
    file->header_checked = true;
    pthread_mutex_unlock(&folder->lock);
    return WEFT_OK;
}

weft_status store_fetch(weft_folder *folder, store_file *file, int64_t at, int64_t n, void *to,
                        weft_error *err)
{
    if (!file->verified)
        return read_file(folder, file, at, n, to, err);
    weft_status status = check_header(folder, file, err);
    return status == WEFT_OK ? fetch_checked(folder, file, at, n, to, err) : status;
}
