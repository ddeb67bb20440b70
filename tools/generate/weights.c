/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of a checkpoint, or of any folder of .safetensors files with their names. */
#include "execute/run.h"
#include "generate.h"

#include <errno.h>
#include <fcntl.h>
#include <weft/store.h>

static weft_status check(const weft_stored *stored, const weft_state_entry *e, const weft_tensor *t,
                         const char *path, weft_error *err)
{
    if (!stored)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "the model has a parameter '%s', which %s has not", e->name, path);
    bool same = stored->n_dims == t->n_dims;
    for (int d = 0; same && d < t->n_dims; d++)
        same = stored->size[d] == t->whole[d];
    return same ? WEFT_OK
                : weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                            "'%s' has another shape in %s than in this model", e->name, path);
}

static weft_status read_box(void *folder, const weft_state_tensor *t, const int64_t *lo,
                            const int64_t *size, void *to, weft_error *err)
{
    return weft_folder_read(folder, t->name, lo, size, t->tensor.dtype, to, err);
}

static bool is_there(const weft_io *io, const char *path)
{
    int fd = io->open(io->ctx, path, O_RDONLY, 0);
    if (fd >= 0)
        io->close(io->ctx, fd);
    return fd >= 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* A checkpoint of weft's knows the sums of its files, and what is read of them is compared; other
 * folders know none. */
static weft_status open_weights(const char *path, weft_folder **out, weft_error *err)
{
    const weft_io *io = weft_io_system();
    char *name = weft_format("%s/manifest.json", path);
    if (!name)
        return weft_fail_memory(err);
    bool known = is_there(io, name);
    weft_free(name);
    if (!known)
        return weft_folder_open(io, path, out, err);
    weft_manifest manifest;
    weft_status s = weft_manifest_read(io, path, &manifest, err);
    s = s ? s : weft_manifest_open(io, &manifest, out, err);
    weft_manifest_release(&manifest);
    return s;
}

weft_status generate_read_weights(weft_run *run, const char *path, weft_error *err)
{
    const weft_states *states = &run->plan->states;
    weft_folder *folder = NULL;
    weft_state_tensor *tensors;
    weft_state_view view;
    weft_status s = weft_run_state(run, NULL, &view, &tensors, err);
    s = s ? s : open_weights(path, &folder, err);
    for (int i = 0, n = s ? 0 : states->n; i < n; i++) {
        const weft_state_entry *e = &states->list[i];
        weft_status one =
            check(weft_folder_find(folder, e->name), e, &tensors[i].tensor, path, err);
        s = s ? s : one;
    }
    for (int i = 0; i < states->n && !s; i++)
        s = weft_state_fill(&view, i, read_box, folder, err);
    weft_folder_destroy(folder);
    weft_free(tensors);
    return s;
}
