/* SPDX-License-Identifier: Apache-2.0 */
/* Every byte of a checkpoint against its manifest. */
#include "ckpt.h"

#include <inttypes.h>
#include <string.h>

static weft_status verify_file(const weft_io *io, const ckpt_manifest *m,
                               const weft_manifest_file *f, weft_error *err)
{
    char *path = weft_format("%s/%s", m->path, f->name);
    weft_sums now = {0};
    weft_error why = {0};
    weft_status s = path ? weft_sums_of_file(io, path, &now, &why) : weft_fail_memory(&why);
    if (s)
        s = weft_fail(err, s, WEFT_NOWHERE, "%s", weft_error_text(&why));
    weft_error_release(&why);
    if (!s && now.bytes != f->sums.bytes)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "%s has %" PRId64 " bytes, %" PRId64 " were written", path, now.bytes,
                      f->sums.bytes);
    else if (!s && now.chunk != f->sums.chunk)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "%s: its sums are of chunks of %" PRId64 " bytes, not %" PRId64, path,
                      f->sums.chunk, now.chunk);
    for (int64_t i = 0; !s && i < now.n; i++)
        if (now.sum[i] != f->sums.sum[i])
            s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                          "%s is damaged: bytes %" PRId64 " to %" PRId64
                          " have another sum than when written",
                          path, i * now.chunk,
                          (i + 1 < now.n ? (i + 1) * now.chunk : now.bytes) - 1);
    weft_sums_release(&now);
    weft_free(path);
    return s;
}

static bool is_known(const ckpt_manifest *m, const char *name)
{
    for (int i = 0; i < m->base.n_files; i++)
        if (strcmp(m->base.files[i].name, name) == 0)
            return true;
    return strcmp(name, "manifest.json") == 0 || strcmp(name, "optim") == 0 ||
           strcmp(name, CKPT_DRAFT) == 0; /* a crash may bring it back beside the manifest */
}

static weft_status find_strays(const weft_io *io, const ckpt_manifest *m, const char *inside,
                               weft_error *err)
{
    char *dir = weft_format("%s/%s", m->path, inside), **names = NULL;
    weft_status found = WEFT_OK, s = dir ? WEFT_OK : weft_fail_memory(err);
    if (!s && ckpt_exists(io, dir))
        s = weft_io_list(io, dir, &names, err);
    for (int i = 0; names && names[i]; i++) {
        char *name = weft_format("%s%s", inside, names[i]);
        if (name && !is_known(m, name))
            found = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                              "%s/%s does not belong here: the manifest does not know it", m->path,
                              name);
        weft_free(name);
    }
    weft_names_free(names);
    weft_free(dir);
    return s ? s : found;
}

weft_status ckpt_find_strays(const weft_io *io, const ckpt_manifest *m, weft_error *err)
{
    weft_status s = find_strays(io, m, "", err), inside = find_strays(io, m, "optim/", err);
    return s ? s : inside;
}

weft_status ckpt_manifest_verify(const weft_io *io, const ckpt_manifest *m, bool strays,
                                 weft_error *err)
{
    weft_status worst = WEFT_OK;
    for (int i = 0; i < m->base.n_files; i++) {
        weft_status s = verify_file(io, m, &m->base.files[i], err);
        worst = worst ? worst : s;
    }
    weft_status found = strays ? ckpt_find_strays(io, m, err) : WEFT_OK;
    return worst ? worst : found;
}
