/* SPDX-License-Identifier: Apache-2.0 */
/* From [text] path to a list of files: folders are walked, globs expanded, everything in an order
 * that depends on names alone. */
#include "data.h"

#include <errno.h>
#include <fts.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct search {
    text_files *files;
    text_format format;
    weft_where where;
    bool several; /* words stand there */
    weft_error *err;
} search;

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && !strcmp(name + n - m, end);
}

bool text_is_called(const char *name, const char *end)
{
    static const char *const packed[] = {"", ".gz", ".zst", NULL};
    char all[24];
    for (int i = 0; packed[i]; i++) {
        snprintf(all, sizeof all, "%s%s", end, packed[i]);
        if (ends_with(name, all))
            return true;
    }
    return false;
}

/* The kind of a file that is named, whatever it is called. */
static text_format kind_of(text_format format, const char *name)
{
    if (format != TEXT_AUTO)
        return format;
    return text_is_called(name, ".jsonl") ? TEXT_JSONL
           : ends_with(name, ".bin")      ? TEXT_BIN
                                          : TEXT_PLAIN;
}

/* Which files of a folder are data. */
static bool is_wanted(text_format format, const char *name)
{
    bool any = format == TEXT_AUTO;
    return ((any || format == TEXT_PLAIN) && text_is_called(name, ".txt")) ||
           ((any || format == TEXT_JSONL) && text_is_called(name, ".jsonl")) ||
           ((any || format == TEXT_BIN) && ends_with(name, ".bin"));
}

static const char *wanted(text_format format)
{
    static const char *const names[] = {[TEXT_PLAIN] = "*.txt",
                                        [TEXT_JSONL] = "*.jsonl",
                                        [TEXT_BIN] = "*.bin",
                                        [TEXT_AUTO] = "*.txt, *.jsonl or *.bin"};
    return names[format];
}

static weft_status fail_path(const search *s, const char *path, int error)
{
    return weft_fail(s->err, WEFT_ERR_INPUT, s->where, "cannot read %s: %s", path, strerror(error));
}

weft_status text_files_add(text_files *files, text_file file, weft_error *err)
{
    if (files->n == files->capacity) {
        size_t capacity = files->capacity ? 2 * files->capacity : 16;
        text_file *list = weft_realloc(files->list, capacity * sizeof *list);
        if (!list)
            return weft_fail_memory(err);
        files->list = list;
        files->capacity = capacity;
    }
    file.path = weft_strdup(file.path);
    if (!file.path)
        return weft_fail_memory(err);
    files->list[files->n++] = file;
    return WEFT_OK;
}

static weft_status add_file(search *s, const char *path, const struct stat *st)
{
    if (!S_ISREG(st->st_mode))
        return weft_fail(s->err, WEFT_ERR_INPUT, s->where, "%s is neither a file nor a folder",
                         path);
    char real[PATH_MAX];
    if (!realpath(path, real))
        return fail_path(s, path, errno);
    return text_files_add(
        s->files,
        (text_file){
            .path = real,
            .kind = kind_of(
                s->format,
                path), /* of the name that was found: it may be a link to a name without suffix */
            .size = st->st_size,
            .mtime_s = st->st_mtim.tv_sec,
            .mtime_ns = st->st_mtim.tv_nsec,
        },
        s->err);
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static weft_status add_entry(search *s, FTS *tree, FTSENT *entry)
{
    bool hidden = entry->fts_level > 0 && entry->fts_name[0] == '.';
    switch (entry->fts_info) {
    case FTS_D:
        if (hidden && fts_set(tree, entry, FTS_SKIP))
            return fail_path(s, entry->fts_path, errno);
        return WEFT_OK;
    case FTS_F:
        return !hidden && is_wanted(s->format, entry->fts_name)
                   ? add_file(s, entry->fts_path, entry->fts_statp)
                   : WEFT_OK;
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        return hidden ? WEFT_OK : fail_path(s, entry->fts_path, entry->fts_errno);
    case FTS_SLNONE:
        if (hidden || !is_wanted(s->format, entry->fts_name))
            return WEFT_OK;
        return weft_fail(s->err, WEFT_ERR_INPUT, s->where, "%s is a link to nothing",
                         entry->fts_path);
    default: /* folders on the way back, sockets and pipes, links back up the tree */
        return WEFT_OK;
    }
}

static weft_status add_folder(search *s, const char *path)
{
    char *copy = weft_strdup(path); /* fts wants it writable */
    if (!copy)
        return weft_fail_memory(s->err);
    char *roots[] = {copy, NULL};
    weft_status status = WEFT_OK;
    size_t before = s->files->n;
    FTS *tree = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_name);
    if (!tree) {
        status = fail_path(s, path, errno);
        goto done;
    }
    FTSENT *entry;
    while (errno = 0, !status && (entry = fts_read(tree)))
        status = add_entry(s, tree, entry);
    if (!status && errno)
        status = fail_path(s, path, errno);
    if (!status && s->files->n == before)
        status = weft_fail(
            s->err, WEFT_ERR_INPUT, s->where,
            "folder %s holds no %s file; name the files, or give a pattern such as %s/*.md", path,
            wanted(s->format), path);
done:
    if (tree)
        fts_close(tree);
    weft_free(copy);
    return status;
}

static weft_status add_path(search *s, const char *path)
{
    struct stat st;
    if (stat(path, &st))
        return fail_path(s, path, errno);
    return S_ISDIR(st.st_mode) ? add_folder(s, path) : add_file(s, path, &st);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static weft_status add_glob(search *s, const char *pattern)
{
    glob_t found = {0};
    int rc = glob(pattern, GLOB_ERR | GLOB_NOSORT, NULL,
                  &found); /* sorted here: glob sorts by the locale */
    weft_status status = WEFT_OK;
    if (rc == GLOB_NOSPACE)
        status = weft_fail_memory(s->err);
    else if (rc == GLOB_NOMATCH)
        status = weft_fail(s->err, WEFT_ERR_INPUT, s->where, "no file matches %s", pattern);
    else if (rc)
        status = fail_path(s, pattern, errno);
    else
        qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_bytes);
    for (size_t i = 0; !status && i < found.gl_pathc; i++)
        status = add_path(s, found.gl_pathv[i]);
    globfree(&found);
    return status;
}

static weft_status add_word(search *s, const char *word)
{
    struct stat st;
    if (strpbrk(word, "*?[") && stat(word, &st) && errno == ENOENT)
        return add_glob(s, word);
    if (s->several && stat(word, &st) && errno == ENOENT)
        return weft_fail(s->err, WEFT_ERR_INPUT, s->where,
                         "cannot read %s: %s. Blanks stand between paths; one in a path is written "
                         "as ?, which stands for any character",
                         word, strerror(ENOENT));
    return add_path(s, word);
}

static int by_path(const void *a, const void *b)
{
    const text_file *x = *(const text_file *const *)a, *y = *(const text_file *const *)b;
    int order = strcmp(x->path, y->path);
    return order ? order : (x > y) - (x < y); /* the first of equals first */
}

/* Takes each file once, where it came first. */
static weft_status drop_repeats(text_files *files, weft_error *err)
{
    const text_file **sorted = weft_alloc(files->n * sizeof *sorted);
    if (!sorted)
        return weft_fail_memory(err);
    for (size_t i = 0; i < files->n; i++)
        sorted[i] = &files->list[i];
    qsort(sorted, files->n, sizeof *sorted, by_path);
    for (size_t i = files->n; i-- > 1;)
        if (!strcmp(sorted[i]->path, sorted[i - 1]->path))
            files->list[sorted[i] - files->list].size = -1;
    size_t kept = 0;
    for (size_t i = 0; i < files->n; i++) {
        if (files->list[i].size < 0)
            weft_free(files->list[i].path);
        else
            files->list[kept++] = files->list[i];
    }
    files->n = kept;
    weft_free(sorted);
    return WEFT_OK;
}

/* Behind every file of tokens its .idx, if it has one. */
static weft_status add_indices(text_files *files, weft_error *err)
{
    text_files all = {0};
    weft_status status = WEFT_OK;
    for (size_t i = 0; !status && i < files->n; i++) {
        const text_file *file = &files->list[i];
        struct stat st;
        status = text_files_add(&all, *file, err);
        if (status || file->kind != TEXT_BIN || !ends_with(file->path, ".bin"))
            continue;
        char *path = weft_format("%.*s.idx", (int)strlen(file->path) - 4, file->path);
        if (!path)
            status = weft_fail_memory(err);
        else if (!stat(path, &st) && S_ISREG(st.st_mode))
            status = text_files_add(&all,
                                    (text_file){.path = path,
                                                .kind = TEXT_INDEX,
                                                .size = st.st_size,
                                                .mtime_s = st.st_mtim.tv_sec,
                                                .mtime_ns = st.st_mtim.tv_nsec},
                                    err);
        weft_free(path);
    }
    text_files_release(files);
    *files = all;
    return status;
}

static weft_status check_kinds(const search *s)
{
    const text_files *files = s->files;
    for (size_t i = 1; i < files->n; i++)
        if ((files->list[i].kind == TEXT_BIN) != (files->list[0].kind == TEXT_BIN))
            return weft_fail(
                s->err, WEFT_ERR_INPUT, s->where,
                "%s is text and %s holds tokens; make them two sources with [text] mix",
                files->list[files->list[0].kind == TEXT_BIN ? i : 0].path,
                files->list[files->list[0].kind == TEXT_BIN ? 0 : i].path);
    return WEFT_OK;
}

weft_status text_files_find(text_files *files, const weft_params *params, const char *key,
                            int first, int end, text_format format, weft_error *err)
{
    search s = {.files = files,
                .format = format,
                .where = weft_params_where(params, key),
                .several = end - first > 1,
                .err = err};
    weft_status status = WEFT_OK;
    for (int i = first; i < end; i++) {
        weft_status now = add_word(&s, weft_params_word(params, key, i));
        status = status ? status : now;
    }
    if (!status && !files->n)
        status = weft_fail(err, WEFT_ERR_INPUT, s.where,
                           "[text] %s is empty; give files, folders or patterns", key);
    if (!status)
        status = drop_repeats(files, err);
    if (!status)
        status = check_kinds(&s);
    return status ? status : add_indices(files, err);
}

size_t text_files_count(const text_files *files)
{
    size_t n = 0;
    for (size_t i = 0; i < files->n; i++)
        n += files->list[i].kind != TEXT_INDEX;
    return n;
}

void text_files_release(text_files *files)
{
    for (size_t i = 0; i < files->n; i++)
        weft_free(files->list[i].path);
    weft_free(files->list);
    *files = (text_files){0};
}
