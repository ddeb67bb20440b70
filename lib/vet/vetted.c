/* SPDX-License-Identifier: Apache-2.0 */
/* A lock, read; and who may change the files that it is about. */
#include "vet/vetted.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/files.h>

enum { MOST_BYTES = 4 << 20 };

/* ---- who may change what ---- */

/* NULL: nobody but root and owner. */
static const char *exposed(const struct stat *info, unsigned owner)
{
    if (info->st_uid != 0 && info->st_uid != owner)
        return "it belongs to another user than the lock";
    if (S_ISDIR(info->st_mode) && (info->st_mode & S_ISVTX))
        return NULL; /* others may add to it, but not take from it */
    return info->st_mode & S_IWOTH   ? "everyone may write to it"
           : info->st_mode & S_IWGRP ? "its group may write to it"
                                     : NULL;
}

static weft_status check_path(const char *path, unsigned owner, weft_where where, weft_error *err)
{
    char part[PATH_MAX];
    struct stat info;
    if (!realpath(path, part) || stat(part, &info) != 0)
        return weft_fail(err, WEFT_ERR_INPUT, where, "%s: %s", path, strerror(errno));
    for (;;) {
        const char *why = exposed(&info, owner);
        if (why)
            return weft_fail(err, WEFT_ERR_INPUT, where,
                             "%s: a lock holds only where nobody but root and its owner may "
                             "change the file or the folders above it, but %s: %s",
                             path, part, why);
        char *slash = strrchr(part, '/');
        if (!slash || !part[1])
            return WEFT_OK;
        slash[slash == part] = '\0';
        if (stat(part, &info) != 0)
            return weft_fail(err, WEFT_ERR_INPUT, where, "%s: %s", part, strerror(errno));
    }
}

enum { FOLDERS = sizeof((weft_vetted *)0)->folders / sizeof(char *) };

/* Plugins lie together, and libraries: in a folder that was found sound the file alone is looked
 * at. */
static bool is_sound(const weft_vetted *v, const char *path)
{
    struct stat info;
    const char *slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) : 0;
    for (int i = 0; i < FOLDERS && v->folders[i]; i++)
        if (strncmp(path, v->folders[i], n) == 0 && !v->folders[i][n])
            return lstat(path, &info) == 0 && S_ISREG(info.st_mode) && !exposed(&info, v->owner);
    return false;
}

weft_status weft_vetted_check_owner(weft_vetted *v, const char *path, weft_where where,
                                    weft_error *err)
{
    const char *slash = strrchr(path, '/');
    if (is_sound(v, path))
        return WEFT_OK;
    weft_status s = check_path(path, v->owner, where, err);
    if (!s && slash)
        v->folders[v->n_folders++ % FOLDERS] =
            weft_pool_format(&v->pool, "%.*s", (int)(slash - path), path);
    return s;
}

/* ---- reading ---- */

typedef struct reading {
    weft_vetted *v;
    int line;
    weft_error *err;
} reading;

static weft_status bad(const reading *r, const char *what)
{
    return weft_fail(r->err, WEFT_ERR_INPUT, (weft_where){r->v->file, r->line},
                     "%s; write the lock again, with `weft vet`", what);
}

/* The next word, cut off the line. */
static char *take_word(char **p)
{
    char *word = *p + strspn(*p, " \t");
    size_t n = strcspn(word, " \t");
    *p = word + n + (word[n] != '\0');
    word[n] = '\0';
    return word;
}

static bool is_hex(const char *word, size_t n)
{
    return strlen(word) == n && strspn(word, "0123456789abcdef") == n;
}

static bool read_id(char **p, weft_file_id *id)
{
    const char *sha256 = take_word(p), *build_id = take_word(p);
    bool has_id = strcmp(build_id, "-") != 0;
    size_t n = strlen(build_id);
    if (!is_hex(sha256, 64) || (has_id && (n < 2 || n > 64 || !is_hex(build_id, n))))
        return false;
    snprintf(id->sha256, sizeof id->sha256, "%s", sha256);
    snprintf(id->build_id, sizeof id->build_id, "%s", has_id ? build_id : "");
    return true;
}

weft_status weft_vetted_add(weft_vetted *v, const weft_vetted_line *line, weft_error *err)
{
    if (v->n == v->capacity) {
        int more = v->capacity ? 2 * v->capacity : 32;
        weft_vetted_line *list = weft_realloc(v->lines, (size_t)more * sizeof *list);
        if (!list)
            return weft_fail_memory(err);
        v->lines = list;
        v->capacity = more;
    }
    weft_vetted_line copy = *line;
    const char **const texts[] = {&copy.name, &copy.version, &copy.abi, &copy.stamp, &copy.path};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (*texts[i] && !(*texts[i] = weft_pool_strdup(&v->pool, *texts[i])))
            return weft_fail_memory(err);
    v->lines[v->n++] = copy;
    return WEFT_OK;
}

static weft_status read_entry(const reading *r, weft_vetted_kind kind, char *p)
{
    weft_vetted_line line = {.kind = kind, .number = r->line};
    if (kind != WEFT_VETTED_PROGRAM)
        line.name = take_word(&p);
    if (kind == WEFT_VETTED_PLUGIN) {
        line.version = take_word(&p);
        line.abi = take_word(&p);
        if (!weft_plugin_name_ok(line.name))
            return bad(r, "no plugin can have this name");
    }
    if (!read_id(&p, &line.id))
        return bad(r, "a SHA-256 (64 hex digits) and a build-id (or -) are expected here");
    if (kind != WEFT_VETTED_PLUGIN)
        line.stamp = take_word(&p);
    line.path = p + strspn(p, " \t");
    return *line.path == '/' ? weft_vetted_add(r->v, &line, r->err)
                             : bad(r, "a path that begins with '/' is expected at the end");
}

static weft_status read_line(const reading *r, char *p)
{
    static const char *const words[] = {"program", "plugin", "library"};
    const char *word = take_word(&p);
    if (strcmp(word, "machine") == 0) {
        r->v->machine = weft_pool_strdup(&r->v->pool, take_word(&p));
        return r->v->machine ? WEFT_OK : weft_fail_memory(r->err);
    }
    for (int k = 0; k < 3; k++)
        if (strcmp(word, words[k]) == 0)
            return read_entry(r, (weft_vetted_kind)k, p);
    return bad(r, "machine, program, plugin or library is expected here");
}

static weft_status read_lines(weft_vetted *v, char *text, size_t size, weft_error *err)
{
    reading r = {.v = v, .err = err};
    weft_status first = WEFT_OK;
    if (strlen(text) != size)
        return bad(&r, "it holds a NUL byte");
    for (char *p = text, *end; *p && first != WEFT_ERR_MEMORY; p = end) {
        end = p + strcspn(p, "\n");
        end += *end == '\n' ? (*end = '\0', 1) : 0;
        r.line++;
        char *begin = p + strspn(p, " \t");
        weft_status s = WEFT_OK;
        if (r.line == 1 && strcmp(begin, WEFT_VETTED_HEAD) != 0)
            return bad(
                &r, strncmp(begin, "weft-lock ", 10) == 0
                        ? "this lock was written by another version of weft: its first line "
                          "is not '" WEFT_VETTED_HEAD "', and its lines may mean other things"
                        : "this is not a lock of plugins: its first line is not '" WEFT_VETTED_HEAD
                          "'");
        if (r.line > 1 && *begin && *begin != '#')
            s = read_line(&r, begin);
        first = first ? first : s;
    }
    if (!first && !v->machine)
        return bad(&r, "it does not name a machine");
    return first;
}

static weft_status read_file(weft_vetted *v, bool system, const char *key, weft_error *err)
{
    struct stat info;
    char *text = NULL;
    size_t size = 0;
    weft_where at = v->where.file ? v->where : (weft_where){v->file, 0};
    if (lstat(v->file, &info) != 0)
        return weft_fail(err, WEFT_ERR_INPUT, at, "lock '%s': %s", v->file, strerror(errno));
    if (!S_ISREG(info.st_mode) || info.st_size > MOST_BYTES)
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "lock '%s': this is not a regular file (links are not followed), or has "
                         "more than 4 MiB",
                         v->file);
    if (system && info.st_uid != 0)
        return weft_fail(
            err, WEFT_ERR_INPUT, at,
            "the system's lock '%s' does not belong to root; weft does not run while it is there",
            v->file);
    if (info.st_uid != 0 && info.st_uid != geteuid())
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "lock '%s' belongs to another user (%ld), who could change it and so let "
                         "anything run; take one of root's or your own",
                         v->file, (long)info.st_uid);
    v->owner = info.st_uid;
    weft_status s = check_path(v->file, v->owner, at, err);
    s = s ? s : weft_read_file(v->file, &text, &size, err);
    if (!s && key)
        s = check_path(key, v->owner, at, err);
    if (!s && key)
        s = weft_signature_check(v->file, text, size, key, at, err);
    s = s ? s : read_lines(v, text, size, err);
    weft_free(text);
    return s;
}

weft_status weft_vetted_read(const char *file, weft_where where, bool system, const char *key,
                             weft_vetted **out, weft_error *err)
{
    weft_vetted *v = weft_alloc_zero(1, sizeof *v);
    *out = NULL;
    if (!v)
        return weft_fail_memory(err);
    v->where = where;
    v->file = weft_pool_strdup(&v->pool, file);
    weft_status s = v->file ? read_file(v, system, key, err) : weft_fail_memory(err);
    if (s)
        weft_vetted_destroy(v);
    else
        *out = v;
    return s;
}

void weft_vetted_release(weft_vetted *v)
{
    weft_free(v->lines);
    weft_pool_release(&v->pool);
    *v = (weft_vetted){0};
}

void weft_vetted_destroy(weft_vetted *v)
{
    if (!v)
        return;
    weft_vetted_release(v);
    weft_free(v);
}
