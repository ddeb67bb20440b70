/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's part of a save. The rename of the manifest is the commit; only then do older checkpoints
 * go, their manifests first. */
#include "ckpt.h"

#include <errno.h>
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

static weft_status move(const ckpt *self, const char *from, const char *to, weft_error *err)
{
    if (self->io->rename(self->io->ctx, from, to) == 0)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot rename %s to %s: %s", from, to,
                     strerror(errno));
}

static weft_status write_manifest(const ckpt *self, weft_error *err)
{
    char *draft = weft_format("%s/manifest.json.new", self->pending),
         *final = weft_format("%s/manifest.json", self->pending);
    weft_status s = draft && final ? weft_io_write_file(self->io, draft, self->manifest,
                                                        self->manifest_size, err)
                                   : weft_fail_memory(err);
    s = s ? s : move(self, draft, final, err);
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

/* An export takes the place of the one before. */
static weft_status put_in_place(const ckpt *self, weft_error *err)
{
    weft_status s =
        ckpt_exists(self->io, self->dir) ? ckpt_remove(self->io, self->dir, err) : WEFT_OK;
    s = s ? s : move(self, self->pending, self->dir, err);
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

weft_status ckpt_remove(const weft_io *io, const char *dir, weft_error *err)
{
    char *manifest = weft_format("%s/manifest.json", dir);
    weft_status s = manifest ? WEFT_OK : weft_fail_memory(err);
    bool whole = !s && ckpt_exists(io, manifest);
    if (whole && io->unlink(io->ctx, manifest) != 0)
        s = weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot remove %s: %s", manifest,
                      strerror(errno));
    if (!s && whole)
        s = weft_io_sync_dir(io, dir, err);
    s = s ? s : weft_io_remove_tree(io, dir, err);
    weft_free(manifest);
    return s;
}

weft_status ckpt_prune(const weft_io *io, const char *root, int64_t newest, int64_t keep,
                       int64_t keep_every, weft_error *err)
{
    ckpt_list list;
    weft_status s = ckpt_scan(io, root, &list, err);
    bool *drop = s ? NULL : weft_alloc_zero((size_t)list.n + 1, sizeof *drop);
    if (!s && !drop)
        s = weft_fail_memory(err);
    if (!s)
        ckpt_choose_old(&list, keep, keep_every, drop);
    for (int i = 0; i < list.n && !s; i++) {
        if (list.list[i].step == newest || (list.list[i].whole && !drop[i]))
            continue;
        char *dir = ckpt_step_path(root, list.list[i].step);
        s = dir ? ckpt_remove(io, dir, err) : weft_fail_memory(err);
        weft_free(dir);
    }
    weft_free(drop);
    ckpt_list_release(&list);
    return s;
}

/* What a failed save leaves; another failure here changes nothing. */
static void clean(const ckpt *self)
{
    weft_error err = {0};
    if (self->pending && ckpt_exists(self->io, self->pending) &&
        ckpt_remove(self->io, self->pending, &err))
        weft_log_print(self->host->log, WEFT_LOG_WARN, "what the failed save left behind stays: %s",
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
    weft_error why = {0};
    if (ckpt_prune(self->io, self->root, self->state.progress.step,
                   weft_params_int(self->params, "keep"),
                   weft_params_int(self->params, "keep_every"), &why))
        weft_log_print(self->host->log, WEFT_LOG_WARN, "an old checkpoint could not be removed: %s",
                       weft_error_text(&why));
    weft_error_release(&why);
    return WEFT_OK;
}
