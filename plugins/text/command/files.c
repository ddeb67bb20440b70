/* SPDX-License-Identifier: Apache-2.0 */
/* Names on the command line to files. */
#include "../data/data.h"
#include "command.h"

#include <errno.h>
#include <fts.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

static weft_status add(tokenize_files *files, const tokenize_options *o, const char *path,
                       int64_t size, weft_error *err)
{
    if (o->out && same_file(o->out, path))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "--out %s is %s, which is read; name another file", o->out, path);
    if (files->n == files->capacity) {
        size_t capacity = files->capacity ? 2 * files->capacity : 16;
        tokenize_file *list = weft_realloc(files->list, capacity * sizeof *list);
        if (!list)
            return weft_fail_memory(err);
        files->list = list;
        files->capacity = capacity;
    }
    char *copy = weft_strdup(path);
    if (!copy)
        return weft_fail_memory(err);
    files->list[files->n++] =
        (tokenize_file){.path = copy,
                        .jsonl = o->jsonl || (!o->plain && text_is_called(path, ".jsonl")),
                        .size = size};
    files->bytes += size;
    return WEFT_OK;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static weft_status add_entry(tokenize_files *files, const tokenize_options *o, FTS *tree,
                             FTSENT *entry, weft_error *err)
{
    bool hidden = entry->fts_level > 0 && entry->fts_name[0] == '.';
    const char *name = entry->fts_name;
    switch (entry->fts_info) {
    case FTS_D:
        if (hidden)
            fts_set(tree, entry, FTS_SKIP);
        return WEFT_OK;
    case FTS_F:
        if (hidden || (!text_is_called(name, ".txt") && !text_is_called(name, ".jsonl")))
            return WEFT_OK;
        return add(files, o, entry->fts_path, entry->fts_statp->st_size, err);
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "cannot read %s: %s", entry->fts_path,
                         strerror(entry->fts_errno));
    default:
        return WEFT_OK;
    }
}

static weft_status add_folder(tokenize_files *files, const tokenize_options *o, const char *path,
                              weft_error *err)
{
    size_t before = files->n;
    char *copy = weft_strdup(path); /* fts wants it writable */
    if (!copy)
        return weft_fail_memory(err);
    char *roots[] = {copy, NULL};
    FTS *tree = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_name);
    weft_status status = tree ? WEFT_OK
                              : weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "cannot read %s: %s",
                                          path, strerror(errno));
    FTSENT *entry;
    while (!status && (errno = 0, entry = fts_read(tree)))
        status = add_entry(files, o, tree, entry, err);
    if (!status && errno)
        status = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "cannot read %s: %s", path,
                           strerror(errno));
    if (!status && files->n == before)
        status = weft_fail(
            err, WEFT_ERR_INPUT, WEFT_NOWHERE,
            "folder %s holds no *.txt or *.jsonl file (or .gz, .zst of them); name the files",
            path);
    if (tree)
        fts_close(tree);
    weft_free(copy);
    return status;
}

static weft_status add_name(tokenize_files *files, const tokenize_options *o, const char *name,
                            weft_error *err)
{
    struct stat st;
    if (!strcmp(name, "-"))
        return add(files, o, "/dev/stdin", 0, err);
    if (stat(name, &st))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "cannot read %s: %s", name,
                         strerror(errno));
    if (S_ISDIR(st.st_mode))
        return add_folder(files, o, name, err);
    if (access(name, R_OK))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "cannot read %s: %s", name,
                         strerror(errno));
    return add(files, o, name, S_ISREG(st.st_mode) ? st.st_size : 0, err);
}

weft_status tokenize_files_find(tokenize_files *files, const tokenize_options *o, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < o->n_files; i++) {
        weft_status now = add_name(files, o, o->files[i], err);
        status = status ? status : now;
    }
    return status || o->n_files ? status : add_name(files, o, "-", err);
}

void tokenize_files_release(tokenize_files *files)
{
    for (size_t i = 0; i < files->n; i++)
        weft_free(files->list[i].path);
    weft_free(files->list);
    *files = (tokenize_files){0};
}
