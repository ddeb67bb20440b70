/* SPDX-License-Identifier: Apache-2.0 */
#include "io/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static weft_status read_header(weft_folder *folder, store_file *file, weft_error *err)
{
    const weft_io *io = &folder->io;
    int fd = store_open(io, file->path, O_RDONLY, 0);
    if (fd < 0)
        return weft_fail_errno_hint(err, file->path, "open", "");
    weft_status status = WEFT_OK;
    if (io->size(io->ctx, fd, &file->bytes) != 0)
        status = weft_fail_errno_hint(err, file->path, "ask for its size", "");
    else
        status =
            store_header_read(io, fd, file->path, file->bytes, &folder->pool, &file->header, err);
    io->close(io->ctx, fd);
    return status;
}

/* Notes what is wrong with the first few files. */
static weft_status read_headers(weft_folder *folder, weft_error *err)
{
    enum { ENOUGH = 8 };
    weft_status first = WEFT_OK;
    int bad = 0;
    for (int i = 0; i < folder->n_files && bad < ENOUGH; i++) {
        weft_status status = read_header(folder, &folder->files[i], err);
        bad += status != WEFT_OK;
        first = first == WEFT_OK ? status : first;
    }
    return first;
}

static int by_name(const void *a, const void *b)
{
    const store_file *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* path NULL: the one file is called by its own path. */
static bool set_files(weft_folder *folder, const char *path, const char *const *names, int n)
{
    folder->path = weft_pool_strdup(&folder->pool, path ? path : names[0]);
    folder->files = weft_pool_alloc(&folder->pool, (size_t)n * sizeof *folder->files);
    if (!folder->path || !folder->files)
        return false;
    for (int i = 0; i < n; i++) {
        store_file *file = &folder->files[i];
        const char *slash = path ? NULL : strrchr(names[i], '/');
        file->fd = -1;
        file->name = weft_pool_strdup(&folder->pool, slash ? slash + 1 : names[i]);
        file->path = path ? weft_pool_format(&folder->pool, "%s/%s", path, names[i]) : folder->path;
        if (!file->name || !file->path)
            return false;
    }
    folder->n_files = n;
    qsort(folder->files, (size_t)n, sizeof *folder->files, by_name);
    return true;
}

static weft_status open_named(const weft_io *io, const char *path, const char *const *names, int n,
                              weft_folder **out, weft_error *err)
{
    weft_folder *folder = weft_alloc_zero(1, sizeof *folder);
    if (!folder)
        return weft_fail_memory(err);
    folder->io = *io;
    weft_status status = WEFT_OK;
    folder->has_lock = pthread_mutex_init(&folder->lock, NULL) == 0;
    if (!folder->has_lock || !set_files(folder, path, names, n))
        status = weft_fail_memory(err);
    if (status == WEFT_OK)
        status = read_headers(folder, err);
    if (status == WEFT_OK)
        status = store_merge(folder, err);
    if (status != WEFT_OK) {
        weft_folder_destroy(folder);
        return status;
    }
    *out = folder;
    return WEFT_OK;
}

static bool leaves_folder(const char *name)
{
    for (const char *p = name; p; p = strchr(p, '/')) {
        p += *p == '/';
        if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || p[2] == '\0'))
            return true;
    }
    return *name == '/' || *name == '\0';
}

weft_status weft_folder_open_files(const weft_io *io, const char *path, const char *const *files,
                                   int n, weft_folder **out, weft_error *err)
{
    weft_where at = {path, 0};
    if (n <= 0)
        return weft_fail(err, WEFT_ERR_INPUT, at, "no .safetensors file is named in it");
    for (int i = 0; i < n; i++) {
        if (leaves_folder(files[i]))
            return weft_fail(err, WEFT_ERR_INPUT, at,
                             "the file name \"%.200s\" leads out of this folder", files[i]);
    }
    return open_named(io, path, files, n, out, err);
}

/* Hidden ones are somebody's scratch. */
static bool is_tensor_file(const char *name)
{
    const char suffix[] = ".safetensors";
    size_t n = strlen(name), m = sizeof suffix - 1;
    return name[0] != '.' && n > m && strcmp(name + n - m, suffix) == 0;
}

static weft_status open_listed(const weft_io *io, const char *path, weft_folder **out,
                               weft_error *err)
{
    char **all = NULL;
    weft_status status = weft_io_list(io, path, &all, err);
    if (status != WEFT_OK)
        return status;
    int n = 0, n_all = 0;
    while (all[n_all])
        n_all++;
    const char **names = weft_alloc((size_t)(n_all + 1) * sizeof *names);
    for (int i = 0; i < n_all && names; i++) {
        if (is_tensor_file(all[i]))
            names[n++] = all[i];
    }
    if (!names)
        status = weft_fail_memory(err);
    else if (n == 0)
        status = weft_fail(err, WEFT_ERR_INPUT, (weft_where){path, 0},
                           "there is no .safetensors file in this folder");
    else
        status = open_named(io, path, names, n, out, err);
    weft_free(names);
    weft_names_free(all);
    return status;
}

weft_status weft_folder_open(const weft_io *io, const char *path, weft_folder **out,
                             weft_error *err)
{
    int fd = store_open(io, path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0 && errno == ENOTDIR)
        return open_named(io, NULL, &path, 1, out, err);
    if (fd < 0)
        return weft_fail_errno_hint(err, path, "open", "");
    io->close(io->ctx, fd);
    return open_listed(io, path, out, err);
}

void weft_folder_destroy(weft_folder *folder)
{
    if (!folder)
        return;
    for (int i = 0; i < folder->n_files; i++) {
        if (folder->files[i].fd >= 0)
            folder->io.close(folder->io.ctx, folder->files[i].fd);
        weft_sums_release(&folder->files[i].sums);
    }
    for (int i = 0; i < STORE_CHUNKS; i++)
        weft_free(folder->chunks[i].data);
    if (folder->has_lock)
        pthread_mutex_destroy(&folder->lock);
    weft_pool_release(&folder->pool);
    weft_free(folder);
}

int weft_folder_count(const weft_folder *folder)
{
    return folder->n_tensors;
}

const weft_stored *weft_folder_get(const weft_folder *folder, int i)
{
    return &folder->tensors[i].stored;
}

static int compare_name(const void *name, const void *tensor)
{
    const store_tensor *t = tensor;
    return strcmp(name, t->stored.name);
}

const weft_stored *weft_folder_find(const weft_folder *folder, const char *name)
{
    const store_tensor *t =
        bsearch(name, folder->tensors, (size_t)folder->n_tensors, sizeof *t, compare_name);
    return t ? &t->stored : NULL;
}

bool weft_sizes_are_same(const int64_t *a, int n_a, const int64_t *b, int n_b)
{
    return n_a == n_b && memcmp(a, b, (size_t)n_a * sizeof *a) == 0;
}

const char *weft_sizes_print(char text[WEFT_SIZES_TEXT], const int64_t *size, int n)
{
    size_t used = 0;
    for (int d = 0; d < n; d++)
        used += (size_t)snprintf(text + used, WEFT_SIZES_TEXT - used, "%s%lld", d ? ", " : "[",
                                 (long long)size[d]);
    snprintf(text + used, WEFT_SIZES_TEXT - used, n ? "]" : "[]");
    return text;
}

const char *weft_folder_metadata(const weft_folder *folder, const char *key)
{
    for (int i = 0; i < folder->n_files; i++) {
        for (const char **pair = folder->files[i].header.metadata; *pair; pair += 2) {
            if (strcmp(pair[0], key) == 0)
                return pair[1];
        }
    }
    return NULL;
}

int64_t weft_folder_bytes_read(const weft_folder *folder)
{
    return __atomic_load_n(&folder->bytes_read, __ATOMIC_RELAXED);
}
