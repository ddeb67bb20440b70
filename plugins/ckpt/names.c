/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of checkpoints and their names. */
#include "ckpt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

char *ckpt_step_path(const char *root, int64_t step)
{
    return weft_format("%s/step-%lld", root, (long long)step);
}

bool ckpt_exists(const weft_io *io, const char *path)
{
    int fd = io->open(io->ctx, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd >= 0)
        io->close(io->ctx, fd);
    return fd >= 0;
}

static bool exists_in(const weft_io *io, const char *dir, const char *name)
{
    char *path = weft_format("%s/%s", dir, name);
    /* One that may not be opened is there: whoever takes it for missing would remove a whole
     * checkpoint. */
    bool there = path && (ckpt_exists(io, path) || (errno != ENOENT && errno != ENOTDIR));
    weft_free(path);
    return there;
}

/* Nothing at all, as when a save ended right at its beginning. */
static bool is_empty(const weft_io *io, const char *dir)
{
    char **names = NULL, *optim = weft_format("%s/optim", dir);
    bool empty = optim && weft_io_list(io, dir, &names, NULL) == WEFT_OK;
    if (empty && names[0] && !names[1] && strcmp(names[0], "optim") == 0) {
        weft_names_free(names);
        names = NULL;
        empty = weft_io_list(io, optim, &names, NULL) == WEFT_OK;
    }
    empty = empty && !names[0];
    weft_names_free(names);
    weft_free(optim);
    return empty;
}

ckpt_entry ckpt_look(const weft_io *io, const char *dir)
{
    ckpt_entry e = {.whole = exists_in(io, dir, "manifest.json")};
    e.unfinished = !e.whole && (exists_in(io, dir, CKPT_DRAFT) || is_empty(io, dir));
    return e;
}

static int by_step(const void *a, const void *b)
{
    const ckpt_entry *x = a, *y = b;
    return (x->step > y->step) - (x->step < y->step);
}

weft_status ckpt_scan(const weft_io *io, const char *root, ckpt_list *out, weft_error *err)
{
    char **names;
    *out = (ckpt_list){0};
    if (!ckpt_exists(io, root) && errno == ENOENT)
        return WEFT_OK;
    weft_status s = weft_io_list(io, root, &names, err);
    if (s)
        return s;
    int n = 0;
    while (names[n])
        n++;
    out->list = weft_alloc_zero((size_t)n + 1, sizeof *out->list);
    for (int i = 0; i < n && out->list; i++) {
        int64_t step;
        if (!weft_checkpoint_step(names[i], &step))
            continue;
        char *dir = weft_format("%s/%s", root, names[i]);
        ckpt_entry *e = &out->list[out->n++];
        *e = dir ? ckpt_look(io, dir) : (ckpt_entry){0};
        e->step = step;
        weft_free(dir);
        s = dir ? s : weft_fail_memory(err);
    }
    weft_names_free(names);
    if (!out->list)
        return weft_fail_memory(err);
    qsort(out->list, (size_t)out->n, sizeof *out->list, by_step);
    return s;
}

void ckpt_list_release(ckpt_list *list)
{
    weft_free(list->list);
    *list = (ckpt_list){0};
}

weft_status ckpt_resolve(const weft_io *io, const char *name, char **path, weft_error *err)
{
    *path = NULL;
    if (!ckpt_exists(io, name))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s: %s", name, strerror(errno));
    weft_status s = weft_checkpoint_find(io, name, path, err);
    if (!s && !*path)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "%s holds no checkpoint: neither a manifest.json, nor a whole step-N or "
                      "ckpt/step-N in it",
                      name);
    return s;
}

weft_status ckpt_rename_aside(const weft_io *io, const char *path, weft_error *err)
{
    for (int i = 1;; i++) {
        char *to = weft_format("%s.aside-%d", path, i);
        if (!to)
            return weft_fail_memory(err);
        bool taken = ckpt_exists(io, to);
        int code = taken ? 0 : io->rename(io->ctx, path, to);
        weft_free(to);
        if (taken)
            continue;
        return code == 0 ? WEFT_OK
                         : weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot rename %s: %s", path,
                                     strerror(errno));
    }
}

weft_status ckpt_set_strays_aside(const weft_io *io, const char *root, const weft_log *log,
                                  weft_error *err)
{
    ckpt_list list;
    int n = 0;
    weft_status s = ckpt_scan(io, root, &list, err);
    for (int i = 0; i < list.n && !s; i++) {
        if (list.list[i].whole || list.list[i].unfinished)
            continue;
        char *path = ckpt_step_path(root, list.list[i].step);
        s = path ? ckpt_rename_aside(io, path, err) : weft_fail_memory(err);
        if (!s)
            weft_log_print(
                log, WEFT_LOG_WARN,
                "%s has files but no manifest.json, so it is not a checkpoint: renamed to "
                "step-N.aside-M, never removed",
                path);
        n += !s;
        weft_free(path);
    }
    if (!s && n)
        s = weft_io_sync_dir(io, root, err);
    ckpt_list_release(&list);
    return s;
}

weft_status ckpt_set_aside(const weft_io *io, const char *root, int64_t step, bool too, int *n,
                           weft_error *err)
{
    ckpt_list list;
    *n = 0;
    weft_status s = ckpt_scan(io, root, &list, err);
    for (int i = list.n - 1; i >= 0 && !s; i--) {
        if (!list.list[i].whole || list.list[i].step < step || (list.list[i].step == step && !too))
            continue;
        char *path = ckpt_step_path(root, list.list[i].step);
        s = path ? ckpt_rename_aside(io, path, err) : weft_fail_memory(err);
        *n += !s;
        weft_free(path);
    }
    if (!s && *n)
        s = weft_io_sync_dir(io, root, err);
    ckpt_list_release(&list);
    return s;
}
