/* SPDX-License-Identifier: Apache-2.0 */
/* One plugin: found, opened, its descriptor checked. */
#include "host/host.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static weft_status check_twice(weft_search *s, const char *name, const char *path, weft_where where,
                               weft_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return weft_fail(err, WEFT_ERR_IO, where, "plugin '%s': %s: %s", name, path,
                         strerror(errno));
    for (const weft_opened_file *old = s->seen; old; old = old->next) {
        if (old->device != st.st_dev || old->inode != st.st_ino)
            continue;
        if (strcmp(old->name, name) == 0)
            return WEFT_OK;
        return weft_fail(err, WEFT_ERR_INPUT, where,
                         "plugin '%s' is the same file as '%s': %s; list it once, by its own name",
                         name, old->name, path);
    }
    weft_opened_file *now = weft_pool_alloc(&s->pool, sizeof *now);
    char *copy = weft_pool_strdup(&s->pool, name);
    if (!now || !copy)
        return weft_fail_memory(err);
    *now = (weft_opened_file){s->seen, st.st_dev, st.st_ino, copy};
    s->seen = now;
    return WEFT_OK;
}

weft_status weft_module_find(weft_search *search, const char *name, weft_where where,
                             const char **path, weft_error *err)
{
    weft_found found;
    weft_status status = weft_search_locate(search, name, where, &found, path, err);
    if (status != WEFT_OK)
        return status;
    if (found == WEFT_FOUND_NONE)
        return weft_search_missing(search, name, where, err);
    return found == WEFT_FOUND_FILE ? check_twice(search, name, *path, where, err) : WEFT_OK;
}

/* Once for each file and process: ranks may be many threads. */
static weft_status identify(const char *path, weft_where where, weft_file_id *id, weft_error *err)
{
    if (weft_loader_identify(path, id))
        return WEFT_OK;
    return weft_program_vetting.identify(path, where, id, err);
}

/* Under a lock: a copy that nobody can change, and that every lock knows. */
static weft_status open_file(const weft_search *s, const char *name, const char *path,
                             weft_where where, weft_file_id *id, const weft_plugin **plugin,
                             weft_error *err)
{
    int fd = -1;
    char copy[32];
    weft_status status = s->locks
                             ? weft_program_vetting.take(s->locks, name, path, where, &fd, id, err)
                             : identify(path, where, id, err);
    if (status)
        return status;
    weft_blame before = weft_blame_set((weft_blame){.plugin = name, .hook = "constructor"});
    snprintf(copy, sizeof copy, "/proc/self/fd/%d", fd);
    if (s->locks &&
        (status = weft_program_vetting.open_needs(s->locks, copy, name, where, err)) != WEFT_OK)
        close(fd);
    else
        status = weft_loader_open(name, path, fd, id, where, plugin, err);
    weft_blame_set(before);
    return status;
}

weft_status weft_module_open(weft_search *search, const char *name, weft_where where,
                             weft_module *out, weft_error *err)
{
    const char *path;
    const weft_plugin *plugin = NULL;
    *out = (weft_module){.where = where};
    if (search->closed)
        return weft_fail(err, WEFT_ERR_INTERNAL, where, "plugin '%s' is to be found, not opened",
                         name);
    weft_status status = weft_module_find(search, name, where, &path, err);
    if (status != WEFT_OK)
        return status;
    if (path)
        status = open_file(search, name, path, where, &out->id, &plugin, err);
    else
        plugin = weft_loader_builtin(name);
    if (status != WEFT_OK)
        return status;
    status = weft_descriptor_check(plugin, name, path, where, err);
    if (status != WEFT_OK)
        return status;
    out->plugin = plugin;
    out->path = path;
    return WEFT_OK;
}
