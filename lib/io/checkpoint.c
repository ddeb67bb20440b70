/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoint is meant by a folder's name. */
#include "io/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* One that may not be opened is there: whoever reads it hears why. */
static bool has_manifest(const weft_io *io, const char *folder)
{
    char *path = weft_format("%s/manifest.json", folder);
    int fd = path ? store_open(io, path, O_RDONLY, 0) : -1;
    bool there = path && (fd >= 0 || (errno != ENOENT && errno != ENOTDIR));
    if (fd >= 0)
        io->close(io->ctx, fd);
    weft_free(path);
    return there;
}

bool weft_checkpoint_step(const char *name, int64_t *step)
{
    char *end;
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9')
        return false;
    errno = 0;
    *step = strtoll(name + 5, &end, 10);
    return !*end && !errno;
}

/* *path stays NULL where there is none, or no such folder. */
static weft_status find_newest(const weft_io *io, const char *root, char **path, weft_error *err)
{
    char **names;
    int64_t step, newest = -1;
    weft_status s = WEFT_OK;
    if (io->list(io->ctx, root, &names) != 0)
        return errno == ENOENT || errno == ENOTDIR ? WEFT_OK
                                                   : weft_fail_errno_hint(err, root, "list", "");
    for (char **name = names; *name && !s; name++) {
        if (!weft_checkpoint_step(*name, &step) || step <= newest)
            continue;
        char *folder = weft_format("%s/%s", root, *name);
        s = folder ? WEFT_OK : weft_fail_memory(err);
        if (!s && has_manifest(io, folder)) {
            weft_free(*path);
            *path = folder;
            newest = step;
        } else {
            weft_free(folder);
        }
    }
    weft_names_free(names);
    return s;
}

weft_status weft_checkpoint_find(const weft_io *io, const char *folder, char **path,
                                 weft_error *err)
{
    *path = NULL;
    if (has_manifest(io, folder))
        return (*path = weft_strdup(folder)) ? WEFT_OK : weft_fail_memory(err);
    char *inner = weft_format("%s/ckpt", folder);
    weft_status s = inner ? find_newest(io, inner, path, err) : weft_fail_memory(err);
    if (!s && !*path)
        s = find_newest(io, folder, path, err);
    weft_free(inner);
    if (s) {
        weft_free(*path);
        *path = NULL;
    }
    return s;
}
