/* SPDX-License-Identifier: Apache-2.0 */
/* Where plugins are: an ordered list of folders, and from a name to one trustworthy real path. */
#include "base/array.h"
#include "host/host.h"
#include "host/vetting.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/files.h>

#ifndef WEFT_PLUGIN_DIR
#define WEFT_PLUGIN_DIR "/usr/local/lib/weft/plugins"
#endif

bool weft_plugin_name_ok(const char *name)
{
    return weft_is_name(name, "_") && strlen(name) <= WEFT_PLUGIN_NAME;
}

/* ---- folders ---- */

static weft_status add_folder(weft_search *s, const char *real, bool build, weft_error *err)
{
    for (int i = 0; i < s->n_folders; i++)
        if (s->folders[i].build == build && strcmp(s->folders[i].real, real) == 0)
            return WEFT_OK;
    char *copy = weft_pool_strdup(&s->pool, real);
    weft_plugin_folder *f =
        copy ? weft_array_push(&s->folders, &s->n_folders, &s->capacity, sizeof *f) : NULL;
    if (!f)
        return weft_fail_memory(err);
    *f = (weft_plugin_folder){copy, build};
    return WEFT_OK;
}

/* A folder that the user named: it must be there. */
static weft_status add_user_folder(weft_search *s, const char *path, const char *source,
                                   weft_where at, weft_error *err)
{
    char real[PATH_MAX];
    struct stat st;
    if (!realpath(path, real) || stat(real, &st) != 0)
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "%s: plugin folder '%s': %s; create it or take it out of %s", source, path,
                         strerror(errno), source);
    if (!S_ISDIR(st.st_mode))
        return weft_fail(
            err, WEFT_ERR_INPUT, at,
            "%s: '%s' is not a folder; name the folder that holds the plugins' .so files", source,
            path);
    return add_folder(s, real, false, err);
}

static weft_status add_environment(weft_search *s, weft_error *err)
{
    const char *list = getenv("WEFT_PLUGIN_PATH");
    weft_status status = WEFT_OK;
    while (list && *list) {
        size_t n = strcspn(list, ":");
        if (n > 0) {
            char *path = weft_format("%.*s", (int)n, list);
            if (!path)
                return weft_fail_memory(err);
            weft_status added = add_user_folder(s, path, "WEFT_PLUGIN_PATH", WEFT_NOWHERE, err);
            status = status ? status : added;
            weft_free(path);
        }
        list += n + (list[n] == ':');
    }
    return status;
}

bool weft_folder_holds(const weft_plugin_folder *f, const char *path)
{
    size_t n = strlen(f->real);
    return strncmp(path, f->real, n) == 0 && (path[n] == '/' || (n == 1 && path[0] == '/'));
}

/* Is this folder the top of the tree that the program was built in? A marker of somebody else's, or
 * one that was made elsewhere and linked here, is none. */
static bool is_build_tree(const char *folder, uid_t owner)
{
    char line[PATH_MAX + 1] = "", path[PATH_MAX + 16];
    struct stat st;
    snprintf(path, sizeof path, "%s/.weft-build", folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    ssize_t n = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == owner
                    ? read(fd, line, sizeof line - 1)
                    : 0;
    close(fd);
    return n > 1 && line[n - 1] == '\n' && (line[n - 1] = '\0', strcmp(line, folder) == 0);
}

/* The real path of the build tree's plugins, if the running program lies in that tree: it runs
 * where it was built. configure leaves a file .weft-build at the top of the tree, whose one line is
 * the tree's real path: so no path is compiled in, and a build gives the same bytes wherever it is
 * made. */
static bool find_build_folder(char plugins[PATH_MAX])
{
    char program[PATH_MAX], path[PATH_MAX + 16], *slash;
    struct stat st;
    if (!realpath("/proc/self/exe", program) || stat(program, &st) != 0)
        return false;
    while ((slash = strrchr(program, '/')) && slash > program) {
        *slash = '\0';
        if (!is_build_tree(program, st.st_uid))
            continue;
        snprintf(path, sizeof path, "%s/plugins", program);
        return realpath(path, plugins) != NULL;
    }
    return false;
}

/* An uninstalled program never sees installed plugins: they may be those of another build. */
static weft_status add_own_folders(weft_search *s, weft_error *err)
{
    char real[PATH_MAX];
    if (find_build_folder(real))
        return add_folder(s, real, true, err);
    if (realpath(WEFT_PLUGIN_DIR, real))
        return add_folder(s, real, false, err);
    return WEFT_OK;
}

const char *weft_search_locked_by(const weft_search *search, int i)
{
    return search->locks ? weft_program_vetting.file(search->locks, i) : NULL;
}

weft_status weft_search_check_mapped(const weft_search *search, weft_error *err)
{
    return search->locks ? weft_program_vetting.check_mapped(search->locks, err) : WEFT_OK;
}

/* User folders: `extra`, or NULL: those of [weft] plugin_path. */
static weft_status create(const char *const *extra, const weft_params *weft, bool closed,
                          weft_search **out, weft_error *err)
{
    const char *path;
    *out = NULL;
    weft_search *s = weft_alloc_zero(1, sizeof *s);
    if (!s)
        return weft_fail_memory(err);
    s->closed = closed;
    weft_status status = weft_loader_init(err);
    if (status != WEFT_OK)
        goto fail;
    s->loader = true;
    for (int i = 0; (path = extra ? extra[i] : weft_params_word(weft, "plugin_path", i)); i++) {
        const weft_where at = extra ? WEFT_NOWHERE : weft_params_word_where(weft, "plugin_path", i);
        weft_status added = add_user_folder(s, path, "[weft] plugin_path", at, err);
        status = status ? status : added;
    }
    weft_status added = add_environment(s, err);
    status = status ? status : added;
    s->n_user = s->n_folders;
    if (status == WEFT_OK)
        status = add_own_folders(s, err);
    weft_status locked = closed ? WEFT_OK : weft_program_vetting.open(weft, &s->locks, err);
    status = status ? status : locked;
    if (status != WEFT_OK)
        goto fail;
    *out = s;
    return WEFT_OK;

fail:
    weft_search_destroy(s);
    return status;
}

weft_status weft_search_create(const char *const *extra, weft_search **out, weft_error *err)
{
    return create(extra, NULL, false, out, err);
}

weft_status weft_search_create_for(const weft_params *weft, bool closed, weft_search **out,
                                   weft_error *err)
{
    return create(NULL, weft, closed, out, err);
}

void weft_search_destroy(weft_search *search)
{
    if (!search)
        return;
    if (search->loader)
        weft_loader_exit();
    if (search->locks)
        weft_program_vetting.close(search->locks);
    weft_free(search->folders);
    weft_free(search->names);
    weft_pool_release(&search->pool);
    weft_free(search);
}

/* ---- from a name to a file ---- */

char *weft_folder_file(const weft_plugin_folder *f, const char *name)
{
    return f->build ? weft_format("%s/%s/.libs/%s.so", f->real, name, name)
                    : weft_format("%s/%s.so", f->real, name);
}

static bool is_trusted(const weft_search *s, const char *real)
{
    for (int i = 0; i < s->n_folders; i++)
        if (weft_folder_holds(&s->folders[i], real))
            return true;
    return false;
}

/* *real stays NULL if this folder does not have the plugin. */
static weft_status locate_in(weft_search *s, const weft_plugin_folder *f, const char *name,
                             weft_where where, const char **real, weft_error *err)
{
    weft_status status = WEFT_OK;
    char resolved[PATH_MAX];
    struct stat st;
    char *path = weft_folder_file(f, name);
    if (!path)
        return weft_fail_memory(err);
    if (lstat(path, &st) != 0 && (errno == ENOENT || errno == ENOTDIR))
        goto done;
    if (!realpath(path, resolved) || stat(resolved, &st) != 0)
        status = weft_fail(err, WEFT_ERR_INPUT, where, "plugin '%s': %s cannot be resolved: %s",
                           name, path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        status =
            weft_fail(err, WEFT_ERR_INPUT, where, "plugin '%s': %s is not a file", name, resolved);
    else if (!is_trusted(s, resolved))
        status = weft_fail(err, WEFT_ERR_INPUT, where,
                           "plugin '%s': %s leads to %s, outside the plugin folders; copy the file "
                           "into one, or add its folder to [weft] plugin_path",
                           name, path, resolved);
    else if (!(*real = weft_pool_strdup(&s->pool, resolved)))
        status = weft_fail_memory(err);
done:
    weft_free(path);
    return status;
}

weft_status weft_search_locate(weft_search *search, const char *name, weft_where where,
                               weft_found *found, const char **path, weft_error *err)
{
    *found = WEFT_FOUND_NONE;
    *path = NULL;
    if (!weft_plugin_name_ok(name))
        return weft_fail(err, WEFT_ERR_INPUT, where,
                         "'%s' is not a plugin name: write letters, digits and '_', a letter "
                         "first, without folder and .so",
                         name);
    for (int i = 0; i <= search->n_folders; i++) {
        if (i == search->n_user && weft_loader_builtin(name)) {
            *found = WEFT_FOUND_BUILTIN;
            return WEFT_OK;
        }
        if (i == search->n_folders)
            break;
        weft_status status = locate_in(search, &search->folders[i], name, where, path, err);
        if (status != WEFT_OK)
            return status;
        if (*path) {
            *found = WEFT_FOUND_FILE;
            return WEFT_OK;
        }
    }
    return WEFT_OK;
}

/* ---- the names of all plugins that there are, from file names alone ---- */

typedef struct name_list {
    weft_search *search;
    const char **names;
    int n, capacity;
    bool failed;
} name_list;

static void add_name(void *self, const char *name)
{
    name_list *list = self;
    if (list->failed)
        return;
    for (int i = 0; i < list->n; i++)
        if (strcmp(list->names[i], name) == 0)
            return;
    char *copy = weft_pool_strdup(&list->search->pool, name);
    const char **next =
        copy ? weft_array_push(&list->names, &list->n, &list->capacity, sizeof *next) : NULL;
    list->failed = !next;
    if (next)
        *next = copy;
}

static void add_entry(name_list *list, const weft_plugin_folder *f, const char *entry)
{
    size_t n = strlen(entry);
    char name[WEFT_PLUGIN_NAME + 1];
    if (!f->build && (n <= 3 || strcmp(entry + n - 3, ".so") != 0))
        return;
    size_t keep = f->build ? n : n - 3;
    if (keep >= sizeof name)
        return;
    memcpy(name, entry, keep);
    name[keep] = '\0';
    if (!weft_plugin_name_ok(name))
        return;
    char *path = weft_folder_file(f, name);
    struct stat st;
    list->failed = list->failed || !path;
    if (path && stat(path, &st) == 0 && S_ISREG(st.st_mode))
        add_name(list, name);
    weft_free(path);
}

static void scan_folder(name_list *list, const weft_plugin_folder *f)
{
    DIR *dir = opendir(f->real);
    if (!dir)
        return; /* a folder that cannot be listed may still be opened from by name */
    for (struct dirent *entry; (entry = readdir(dir));)
        add_entry(list, f, entry->d_name);
    closedir(dir);
}

const char *weft_search_build(const weft_search *search)
{
    for (int i = 0; i < search->n_folders; i++)
        if (search->folders[i].build)
            return search->folders[i].real;
    return NULL;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *const *weft_search_names(weft_search *search)
{
    static const char *const none[] = {NULL};
    if (search->names)
        return search->names;
    name_list list = {.search = search};
    for (int i = 0; i < search->n_folders; i++)
        scan_folder(&list, &search->folders[i]);
    weft_loader_builtins(add_name, &list);
    if (!list.failed && list.n == 0)
        return none;
    const int n = list.n;
    if (list.failed || !weft_array_push(&list.names, &list.n, &list.capacity, sizeof *list.names)) {
        weft_free(list.names);
        return NULL;
    }
    qsort(list.names, (size_t)n, sizeof *list.names, compare_names); /* NULL stays behind them */
    search->names = list.names;
    return search->names;
}

/* ---- one that is nowhere ---- */

weft_status weft_search_missing(weft_search *search, const char *name, weft_where where,
                                weft_error *err)
{
    const char *const *names = weft_search_names(search);
    int n = 0;
    if (!names)
        return weft_fail_memory(err);
    while (names[n])
        n++;
    const char *near = weft_nearest(name, names, n);
    weft_text folders = {0};
    for (int i = 0; i < search->n_folders; i++)
        weft_text_print(&folders, "%s%s", i ? ", " : "", search->folders[i].real);
    const char *searched =
        search->n_folders ? weft_text_get(&folders) : "any folder: there is none to look in";
    char *advice = weft_program_vetting.advise
                       ? weft_program_vetting.advise(weft_search_build(search), name)
                       : NULL;
    weft_status status =
        advice ? weft_fail(err, WEFT_ERR_INPUT, where, "no plugin '%s' in %s; %s", name, searched,
                           advice)
        : near
            ? weft_fail(err, WEFT_ERR_INPUT, where, "no plugin '%s' in %s; did you mean '%s'?",
                        name, searched, near)
            : weft_fail(err, WEFT_ERR_INPUT, where,
                        "no plugin '%s' in %s; `weft plugins` lists what there is", name, searched);
    weft_free(advice);
    weft_text_release(&folders);
    return status;
}
