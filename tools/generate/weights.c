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

static weft_status read_one(weft_run *run, weft_folder *folder, const weft_state_entry *e,
                            const weft_tensor *t, weft_error *err)
{
    const weft_plan *plan = run->plan;
    size_t bytes = (size_t)weft_tensor_count(t) * weft_dtype_size(t->dtype);
    if (bytes == 0)
        return WEFT_OK;
    void *data = weft_alloc(bytes);
    if (!data)
        return weft_fail_memory(err);
    weft_status s = weft_folder_read(folder, e->name, t->lo, t->size, t->dtype, data, err);
    if (!s)
        s = weft_device_upload(plan, WEFT_NOW, (char *)run->state + e->offset, data, bytes, err);
    weft_free(data);
    return s;
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
    const weft_plan *plan = run->plan;
    weft_folder *folder = NULL;
    int coord[WEFT_MAX_AXES];
    weft_mesh_coord(&plan->mesh, plan->rank, coord);
    weft_status s = open_weights(path, &folder, err);
    for (int pass = 0; pass < 2 && !s;
         pass++) /* all that is wrong is said before anything is read */
        for (int i = 0; i < plan->states.n; i++) {
            const weft_state_entry *e = &plan->states.list[i];
            weft_tensor t;
            weft_local_tensor(weft_plan_model(plan), e->value, coord, &t);
            if (pass && !e->bytes) /* another stage's */
                continue;
            weft_status one = pass ? (s ? s : read_one(run, folder, e, &t, err))
                                   : check(weft_folder_find(folder, e->name), e, &t, path, err);
            s = s ? s : one;
        }
    weft_folder_destroy(folder);
    return s;
}
