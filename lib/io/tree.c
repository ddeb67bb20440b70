/* SPDX-License-Identifier: Apache-2.0 */
/* Folders over the seam: made so that they last, flushed, removed. */
#include "io/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

char *store_parent(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    if (n == 0)
        return weft_strdup(".");
    while (n > 1 && path[n - 1] == '/')
        n--;
    return weft_format("%.*s", (int)n, path);
}

/* Some file systems cannot flush folders (EINVAL): then there is nothing to do. */
weft_status weft_io_sync_dir(const weft_io *io, const char *path, weft_error *err)
{
    int fd = store_open(io, path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return weft_fail_errno_hint(err, path, "open this folder", "");
    weft_status status = WEFT_OK;
    if (store_fsync(io, fd) != 0 && errno != EINVAL)
        status = weft_fail_errno_hint(err, path, "flush this folder to disk", store_untouched);
    io->close(io->ctx, fd);
    return status;
}

weft_status weft_io_rename(const weft_io *io, const char *from, const char *to, weft_error *err)
{
    if (io->rename(io->ctx, from, to) == 0)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot rename %s to %s: %s", from, to,
                     strerror(errno));
}

static bool is_folder(const weft_io *io, const char *path)
{
    int fd = store_open(io, path, O_RDONLY | O_DIRECTORY, 0);
    if (fd >= 0)
        io->close(io->ctx, fd);
    return fd >= 0;
}

/* Flushes the parent too, so that a new folder's name lasts. */
static weft_status make_dir(const weft_io *io, const char *path, weft_error *err)
{
    if (io->mkdir(io->ctx, path, 0777) != 0) {
        int error = errno;
        if (is_folder(io, path))
            return WEFT_OK;
        errno = error;
        return weft_fail_errno_hint(err, path, "create this folder", store_untouched);
    }
    char *parent = store_parent(path);
    if (!parent)
        return weft_fail_memory(err);
    weft_status status = weft_io_sync_dir(io, parent, err);
    weft_free(parent);
    return status;
}

weft_status weft_io_make_dirs(const weft_io *io, const char *path, weft_error *err)
{
    char *copy = weft_strdup(path);
    if (!copy)
        return weft_fail_memory(err);
    weft_status status = WEFT_OK;
    for (char *p = copy + 1; *copy && *p && status == WEFT_OK; p++) {
        if (*p != '/' || p[-1] == '/')
            continue;
        *p = '\0';
        status = make_dir(io, copy, err);
        *p = '/';
    }
    if (status == WEFT_OK)
        status = make_dir(io, copy, err);
    weft_free(copy);
    return status;
}

static weft_status remove_at(const weft_io *io, const char *path, int depth, weft_error *err);

static weft_status remove_names(const weft_io *io, const char *path, char *const *names, int depth,
                                weft_error *err)
{
    weft_status status = WEFT_OK;
    for (; *names && status == WEFT_OK; names++) {
        char *inner = weft_format("%s/%s", path, *names);
        status = inner ? remove_at(io, inner, depth + 1, err) : weft_fail_memory(err);
        weft_free(inner);
    }
    return status;
}

/* Links are removed, not followed: unlink works on them. */
static weft_status remove_at(const weft_io *io, const char *path, int depth, weft_error *err)
{
    if (io->unlink(io->ctx, path) == 0 || errno == ENOENT)
        return WEFT_OK;
    if (errno != EISDIR && errno != EPERM)
        return weft_fail_errno_hint(err, path, "remove", "");
    if (depth > 64)
        return weft_fail(err, WEFT_ERR_INPUT, (weft_where){path, 0},
                         "folders lie too deep in each other to be removed; remove them by hand");
    char **names = NULL;
    weft_status status = weft_io_list(io, path, &names, err);
    if (status == WEFT_OK)
        status = remove_names(io, path, names, depth, err);
    weft_names_free(names);
    if (status == WEFT_OK && io->rmdir(io->ctx, path) != 0 && errno != ENOENT)
        status = weft_fail_errno_hint(err, path, "remove this folder", "");
    return status;
}

weft_status weft_io_remove_tree(const weft_io *io, const char *path, weft_error *err)
{
    return remove_at(io, path, 0, err);
}
