/* SPDX-License-Identifier: Apache-2.0 */
/* The names of all plugins that there are, from file names alone. */
#include "host/internal.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
    if (list->n + 1 >= list->capacity) {
        int capacity = list->capacity ? 2 * list->capacity : 32;
        const char **more = weft_realloc(list->names, (size_t)capacity * sizeof *more);
        list->failed = !more;
        if (!more)
            return;
        list->names = more;
        list->capacity = capacity;
    }
    char *copy = weft_pool_strdup(&list->search->pool, name);
    list->failed = !copy;
    if (copy)
        list->names[list->n++] = copy;
}

static void add_entry(name_list *list, const weft_folder *f, const char *entry)
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

static void scan_folder(name_list *list, const weft_folder *f)
{
    DIR *dir = opendir(f->real);
    if (!dir)
        return; /* a folder that cannot be listed may still be opened from by name */
    for (struct dirent *entry; (entry = readdir(dir));)
        add_entry(list, f, entry->d_name);
    closedir(dir);
}

const char *weft_search_folder(const weft_search *search, int i)
{
    return i >= 0 && i < search->n_folders ? search->folders[i].real : NULL;
}

const char *weft_search_copy(weft_search *search, const char *name, int i)
{
    struct stat st;
    for (int k = 0; k < search->n_folders; k++) {
        char *path = weft_folder_file(&search->folders[k], name);
        if (!path)
            return NULL;
        bool counts = stat(path, &st) == 0 && S_ISREG(st.st_mode) && i-- == 0;
        const char *found = counts ? weft_pool_strdup(&search->pool, path) : NULL;
        weft_free(path);
        if (counts)
            return found;
    }
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
    if (list.failed || list.n == 0) {
        weft_free(list.names);
        return list.failed ? NULL : none;
    }
    qsort(list.names, (size_t)list.n, sizeof *list.names, compare_names);
    list.names[list.n] = NULL;
    search->names = list.names;
    return search->names;
}
