/* SPDX-License-Identifier: Apache-2.0 */
/* Where a conversion goes: a folder beside its target until all is written, then the target itself.
 */
#include "hf.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

const char *const hf_companions[] = {"tokenizer.json",
                                     "tokenizer.model",
                                     "tokenizer_config.json",
                                     "generation_config.json",
                                     "special_tokens_map.json",
                                     "added_tokens.json",
                                     "merges.txt",
                                     "vocab.json",
                                     "chat_template.jinja",
                                     "chat_template.json",
                                     NULL};

bool hf_has_file(const char *folder, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof path && stat(path, &st) == 0;
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
    int n = count_entries(to);
    if (n < 0)
        return hf_refuse(err, to, "it exists, and is not a folder; name another target");
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

static weft_status check_replaced(const char *to, weft_error *err)
{
    char *old = weft_format("%s.replaced", to);
    weft_status s = old ? WEFT_OK : weft_fail_memory(err);
    if (old && count_entries(old) >= 0)
        s = hf_refuse(err, old,
                      "is there: a conversion was killed while it took this old folder's "
                      "place; rename or remove it");
    weft_free(old);
    return s;
}

weft_status hf_place_begin(hf_place *p, const char *to, bool force, weft_error *err)
{
    const weft_io *io = weft_io_system();
    size_t n = strlen(to);
    *p = (hf_place){0};
    while (n > 1 && to[n - 1] == '/')
        n--;
    p->to = weft_format("%.*s", (int)n, to);
    char *temporary = p->to ? weft_format("%s.partial", p->to) : NULL;
    if (!temporary)
        return weft_fail_memory(err);
    weft_status s = check_target(p->to, force, err);
    if (!s)
        s = check_replaced(p->to, err);
    /* What an earlier conversion left that was killed. */
    if (!s && count_entries(temporary) >= 0)
        s = weft_io_remove_tree(io, temporary, err);
    if (s) {
        weft_free(temporary);
        return s;
    }
    p->temporary = temporary; /* from here on, hf_place_end removes it */
    return weft_io_make_dirs(io, temporary, err);
}

static weft_status move(const weft_io *io, const char *from, const char *to, weft_error *err)
{
    if (io->rename(io->ctx, from, to) == 0)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot rename %s to %s: %s", from, to,
                     strerror(errno));
}

weft_status hf_place_commit(hf_place *p, weft_error *err)
{
    const weft_io *io = weft_io_system();
    bool replaces = count_entries(p->to) > 0;
    char *old = weft_format("%s.replaced", p->to), *parent = weft_format("%s/..", p->to);
    weft_status s = old && parent ? weft_io_sync_dir(io, p->temporary, err) : weft_fail_memory(err);
    if (!s && replaces)
        s = move(io, p->to, old, err);
    bool moved = !s && replaces;
    s = s ? s : move(io, p->temporary, p->to, err);
    if (s && moved && count_entries(p->to) < 0)
        move(io, old, p->to, err);
    s = s ? s : weft_io_sync_dir(io, parent, err);
    if (!s && replaces)
        s = weft_io_remove_tree(io, old, err);
    weft_free(old);
    weft_free(parent);
    return s;
}

void hf_place_end(hf_place *p)
{
    weft_error ignored = {0};
    if (p->temporary && count_entries(p->temporary) >= 0)
        weft_io_remove_tree(weft_io_system(), p->temporary, &ignored);
    weft_error_release(&ignored);
    weft_free(p->temporary);
    weft_free(p->to);
    *p = (hf_place){0};
}

/* ---- the files beside the tensors ---- */

weft_status hf_copy_file(const char *from, const char *name, const char *to, const char *as,
                         weft_error *err)
{
    char *source = weft_format("%s/%s", from, name), *target = weft_format("%s/%s", to, as),
         *data = NULL;
    size_t size = 0;
    weft_status s =
        source && target ? weft_read_file(source, &data, &size, err) : weft_fail_memory(err);
    s = s ? s : weft_write_file(target, data, size, err);
    weft_free(data);
    weft_free(source);
    weft_free(target);
    return s;
}

weft_status hf_copy_files(const char *from, const char *to, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; hf_companions[i] && !s; i++)
        if (hf_has_file(from, hf_companions[i]))
            s = hf_copy_file(from, hf_companions[i], to, hf_companions[i], err);
    return s;
}
