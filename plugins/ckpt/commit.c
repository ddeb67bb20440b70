/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's part of a save. The rename of the manifest is the commit; only then do older checkpoints
 * go. */
#include "ckpt.h"

#include <fcntl.h>
#include <string.h>

static weft_status sync_in(const ckpt *self, const char *inside, weft_error *err)
{
    char *path = weft_format("%s/%s", self->pending, inside);
    weft_status s = path ? WEFT_OK : weft_fail_memory(err);
    if (!s && ckpt_exists(self->io, path))
        s = weft_io_sync_dir(self->io, path, err);
    weft_free(path);
    return s;
}

static weft_status write_manifest(const ckpt *self, weft_error *err)
{
    char *draft = weft_format("%s/" CKPT_DRAFT, self->pending),
         *final = weft_format("%s/manifest.json", self->pending);
    weft_status s = draft && final ? weft_io_write_file(self->io, draft, self->manifest,
                                                        self->manifest_size, err)
                                   : weft_fail_memory(err);
    s = s ? s : weft_io_rename(self->io, draft, final, err);
    weft_free(draft);
    weft_free(final);
    return s;
}

/* The folders above, so that their names last: an unsynced parent would lose a synced child. */
static weft_status sync_above(const ckpt *self, weft_error *err)
{
    weft_status s = self->export ? WEFT_OK : weft_io_sync_dir(self->io, self->root, err);
    return s ? s : weft_io_sync_dir(self->io, self->host->dir, err);
}

/* An export takes the place of the one before; what else has its name is set aside. */
static weft_status put_in_place(const ckpt *self, weft_error *err)
{
    weft_error why = {0};
    weft_status s = WEFT_OK;
    if (ckpt_exists(self->io, self->dir) && ckpt_remove(self->io, self->dir, &why)) {
        weft_log_print(self->host->log, WEFT_LOG_WARN, "%s; it is renamed to %s.aside-M",
                       weft_error_text(&why), self->dir);
        s = ckpt_rename_aside(self->io, self->dir, err);
    }
    weft_error_release(&why);
    s = s ? s : weft_io_rename(self->io, self->pending, self->dir, err);
    return s ? s : weft_io_sync_dir(self->io, self->host->dir, err);
}

void ckpt_choose_old(const ckpt_list *list, int64_t keep, int64_t keep_every, bool *drop)
{
    int64_t newer = 0;
    for (int i = list->n - 1; i >= 0; i--) {
        bool marked = keep_every > 0 && list->list[i].step % keep_every == 0;
        drop[i] = list->list[i].whole && keep > 0 && newer >= keep && !marked;
        newer += list->list[i].whole;
    }
}

/* Is dir a folder itself, and not a link to one? What it leads to is not the run's. */
static bool is_folder(const weft_io *io, const char *dir)
{
    int fd = io->open(io->ctx, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd >= 0)
        io->close(io->ctx, fd);
    return fd >= 0;
}

/* May it be removed? Then it is unfinished from here on. Who has put files of his own into it keeps
 * them, and it. */
static weft_status take_back(const weft_io *io, const char *dir, weft_error *err)
{
    ckpt_entry e = ckpt_look(io, dir);
    if (!is_folder(io, dir) || (!e.whole && !e.unfinished))
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE,
                         "%s is left alone: it is not a folder with a manifest.json", dir);
    if (e.unfinished)
        return WEFT_OK;
    ckpt_manifest m;
    char *from = weft_format("%s/manifest.json", dir), *to = weft_format("%s/" CKPT_DRAFT, dir);
    weft_status s = ckpt_manifest_read(io, dir, &m, err);
    s = s ? s : ckpt_find_strays(io, &m, err);
    s = s || (from && to) ? s : weft_fail_memory(err);
    s = s ? s : weft_io_rename(io, from, to, err);
    s = s ? s : weft_io_sync_dir(io, dir, err);
    ckpt_manifest_release(&m);
    weft_free(from);
    weft_free(to);
    return s;
}

weft_status ckpt_remove(const weft_io *io, const char *dir, weft_error *err)
{
    char **names = NULL;
    weft_status s = take_back(io, dir, err);
    s = s ? s : weft_io_list(io, dir, &names, err);
    for (int i = 0; !s && names[i]; i++) {
        if (strcmp(names[i], CKPT_DRAFT) == 0)
            continue; /* goes last: until then it can be told what this is */
        char *path = weft_format("%s/%s", dir, names[i]);
        s = path ? weft_io_remove_tree(io, path, err) : weft_fail_memory(err);
        weft_free(path);
    }
    weft_names_free(names);
    return s ? s : weft_io_remove_tree(io, dir, err);
}

weft_status ckpt_prune(const weft_io *io, const char *root, int64_t newest, int64_t keep,
                       int64_t keep_every, weft_error *err)
{
    ckpt_list list;
    weft_status worst = WEFT_OK, s = ckpt_scan(io, root, &list, err);
    bool *drop = s ? NULL : weft_alloc_zero((size_t)list.n + 1, sizeof *drop);
    if (!s && !drop)
        s = weft_fail_memory(err);
    if (!s)
        ckpt_choose_old(&list, keep, keep_every, drop);
    for (int i = 0; i < list.n && !s; i++) {
        if (list.list[i].step == newest || !(drop[i] || list.list[i].unfinished))
            continue;
        char *dir = ckpt_step_path(root, list.list[i].step);
        weft_status now = dir ? ckpt_remove(io, dir, err) : weft_fail_memory(err);
        worst = worst ? worst : now;
        weft_free(dir);
    }
    weft_free(drop);
    ckpt_list_release(&list);
    return s ? s : worst;
}

/* What a failed save leaves; another failure here changes nothing. */
static void clean(const ckpt *self)
{
    weft_error err = {0};
    if (self->pending && ckpt_exists(self->io, self->pending) &&
        ckpt_remove(self->io, self->pending, &err))
        weft_log_print(self->host->log, WEFT_LOG_WARN,
                       "the files of the failed save could not be removed: %s",
                       weft_error_text(&err));
    weft_error_release(&err);
}

weft_status ckpt_commit(ckpt *self, weft_error *err)
{
    weft_status s = WEFT_OK;
    if (!self->manifest) {
        clean(self);
        return WEFT_OK;
    }
    s = self->export ? WEFT_OK : sync_in(self, "optim", err);
    s = s ? s : sync_in(self, "", err);
    s = s ? s : write_manifest(self, err);
    if (s) {
        clean(self);
        return s;
    }
    s = sync_in(self, "", err);
    s = s ? s : sync_above(self, err);
    if (s || self->export)
        return s ? s : put_in_place(self, err);
    if (self->state.progress.in_a_row > 0)
        return WEFT_OK; /* what makes steps not finite may be in this checkpoint already */
    weft_error why = {0};
    if (ckpt_prune(self->io, self->root, self->state.progress.step,
                   weft_params_int(self->params, "keep"),
                   weft_params_int(self->params, "keep_every"), &why))
        weft_log_print(self->host->log, WEFT_LOG_WARN, "an old checkpoint could not be removed: %s",
                       weft_error_text(&why));
    weft_error_release(&why);
    return WEFT_OK;
}
