/* SPDX-License-Identifier: Apache-2.0 */
/* Where a conversion goes: a folder beside its target until all is written, then the target itself.
 */
#include "hf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

const char *hf_path(char path[HF_PATH], const char *folder, const char *name)
{
    snprintf(path, HF_PATH, "%s/%s", folder, name);
    return path;
}

bool hf_has_file(const char *folder, const char *name)
{
    char path[HF_PATH];
    struct stat st;
    return stat(hf_path(path, folder, name), &st) == 0;
}

/* -1: it is not there, or no folder. */
static int count_entries(const char *path)
{
    int n = 0;
    DIR *dir = opendir(path);
    if (!dir)
        return -1;
    for (struct dirent *entry; (entry = readdir(dir));)
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    return n;
}

static weft_status check_target(const char *to, bool force, weft_error *err)
{
    struct stat st;
    if (lstat(to, &st) != 0)
        return errno == ENOENT ? WEFT_OK
                               : hf_refuse(err, NULL, "cannot look at %s: %s", to, strerror(errno));
    if (S_ISLNK(st.st_mode))
        return hf_refuse(err, to, "is a symbolic link; name the folder itself, or another target");
    int n = count_entries(to);
    if (n < 0)
        return hf_refuse(err, to, "is there, and no folder; name another target");
    if (n == 0)
        return WEFT_OK;
    if (!force)
        return hf_refuse(
            err, to, "is there, and not empty; name another target, or replace it with --force");
    if (!hf_has_file(to, "config.json") && !hf_has_file(to, "manifest.json"))
        return hf_refuse(
            err, to, "holds neither config.json nor manifest.json, so --force does not replace it");
    return WEFT_OK;
}

/* Is it the folder that is open as fd? */
static bool is_open_as(const char *path, int fd)
{
    struct stat named, open;
    return stat(path, &named) == 0 && fstat(fd, &open) == 0 && named.st_dev == open.st_dev &&
           named.st_ino == open.st_ino;
}

/* The folder beside the target is made and locked: of several conversions one goes on, and the lock
 * goes with the process that holds it. Not all file systems have locks of folders. */
static weft_status take(hf_place *p, weft_error *err)
{
    weft_status s = weft_io_make_dirs(weft_io_system(), p->temporary, err);
    p->fd = open(p->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool lost = p->fd < 0 && !s && errno != ENOENT,
               busy = p->fd >= 0 && flock(p->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    p->begun = p->fd >= 0 && !busy && is_open_as(p->temporary, p->fd);
    if (s || p->begun)
        return s;
    if (lost)
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot open %s: %s", p->temporary,
                         strerror(errno));
    return weft_fail(err, WEFT_ERR_IO, (weft_where){p->to, 0},
                     "another conversion is writing it at this moment, in %s; wait for its end, "
                     "or name another target",
                     p->temporary);
}

/* What an earlier conversion left that was killed is made anew. */
static weft_status take_empty(hf_place *p, weft_error *err)
{
    weft_status s = take(p, err);
    if (s || count_entries(p->temporary) == 0)
        return s;
    s = weft_io_remove_tree(weft_io_system(), p->temporary, err);
    close(p->fd);
    p->begun = false;
    return s ? s : take(p, err);
}

weft_status hf_place_begin(hf_place *p, const char *to, bool force, weft_error *err)
{
    int n = (int)strlen(to);
    while (n > 1 && to[n - 1] == '/')
        n--;
    *p = (hf_place){.fd = -1};
    p->to = weft_pool_format(&p->pool, "%.*s", n, to);
    p->temporary = weft_pool_format(&p->pool, "%.*s.partial", n, to);
    p->old = weft_pool_format(&p->pool, "%.*s.replaced", n, to);
    p->parent = weft_pool_format(&p->pool, "%.*s/..", n, to);
    if (p->pool.out_of_memory)
        return weft_fail_memory(err);
    weft_status s = check_target(p->to, force, err); /* before anything is made, and locked again */
    s = s ? s : take_empty(p, err);
    s = s ? s : check_target(p->to, force, err);
    struct stat st;
    if (!s && lstat(p->old, &st) == 0)
        s = hf_refuse(err, p->old,
                      "is there: a conversion was killed while it took this old folder's "
                      "place; rename or remove it");
    return s;
}

weft_status hf_place_commit(hf_place *p, weft_error *err)
{
    const weft_io *io = weft_io_system();
    const bool replaces = count_entries(p->to) > 0;
    weft_status s = weft_io_sync_dir(io, p->temporary, err);
    if (!s && replaces)
        s = weft_io_rename(io, p->to, p->old, err);
    const bool moved = !s && replaces;
    s = s ? s : weft_io_rename(io, p->temporary, p->to, err);
    p->begun = s; /* what has the name now is another's */
    if (s && moved && count_entries(p->to) < 0)
        weft_io_rename(io, p->old, p->to, err);
    s = s ? s : weft_io_sync_dir(io, p->parent, err);
    return !s && replaces ? weft_io_remove_tree(io, p->old, err) : s;
}

void hf_place_end(hf_place *p)
{
    weft_error ignored = {0};
    if (p->begun && count_entries(p->temporary) >= 0)
        weft_io_remove_tree(weft_io_system(), p->temporary, &ignored);
    if (p->fd >= 0)
        close(p->fd);
    weft_error_release(&ignored);
    weft_pool_release(&p->pool);
    *p = (hf_place){.fd = -1};
}

/* ---- the files beside the tensors ---- */

weft_status hf_copy_file(const char *from, const char *name, const char *to, const char *as,
                         weft_error *err)
{
    char source[HF_PATH], target[HF_PATH], *data = NULL;
    size_t size = 0;
    weft_status s = weft_read_file(hf_path(source, from, name), &data, &size, err);
    s = s ? s : weft_write_file(hf_path(target, to, as), data, size, err);
    weft_free(data);
    return s;
}
