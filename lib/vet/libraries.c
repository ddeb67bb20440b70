/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries under a lock, those that plugins are linked with and those that they open by name. The
 * dynamic linker looks for a library by its name, and has run what it finds before anybody can say
 * that it is another file. So each is opened ahead, by the path that the locks know, once its bytes
 * are what was vetted, and what it needs before it: then the linker finds the name taken and looks
 * no further. */
#include "host/host.h"
#include "vet/elf.h"
#include "vet/locks.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct opening {
    const weft_locks *locks;
    const char *of; /* who needs it, for messages */
    weft_where where;
    weft_error *err;
    const char *path; /* of the object whose needs these are */
    const struct opening *above;
} opening;

static weft_vetted *first_lock(const weft_locks *locks)
{
    return locks->of[0] ? locks->of[0] : locks->of[1];
}

static weft_status open_name(const opening *o, const char *name, const char **path);

/* What was asked for by this name must be what answers to it, or the linker would go on looking. */
static weft_status check_name(const opening *o, const weft_elf *e, const char *name)
{
    const char *own = weft_elf_soname(e);
    if (strchr(name, '/') || (own && strcmp(own, name) == 0))
        return WEFT_OK;
    return weft_fail(o->err, WEFT_ERR_INPUT, o->where,
                     "%s needs %s, and %s is called %s: it cannot be opened ahead under a lock; "
                     "link it with -Wl,-soname,%s",
                     o->of, name, o->path, own ? own : "nothing (it has no SONAME)", name);
}

/* name: what the object was asked for by; NULL: not at all. */
static weft_status open_needs(const opening *o, const char *name)
{
    const void *bytes;
    const char *needed, *path;
    size_t size;
    weft_elf e;
    weft_status s = weft_image_map(o->path, o->where, &bytes, &size, o->err);
    if (!s && !weft_elf_init(&e, bytes ? bytes : "", size))
        s = weft_fail(o->err, WEFT_ERR_INPUT, o->where, "%s: this is not a shared object", o->path);
    if (!s && name)
        s = check_name(o, &e, name);
    for (int i = 0; !s && (needed = weft_elf_needed(&e, i)); i++)
        s = open_name(o, needed, &path);
    weft_image_unmap(bytes, size);
    return s;
}

static weft_status check_file(const opening *o, const char *path)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < 2 && !s; i++) {
        weft_vetted *v = o->locks->of[i];
        s = v ? weft_vetted_check_owner(v, path, o->where, o->err) : WEFT_OK;
        s = !v || s ? s : weft_vetted_check_file(v, path, o->where, o->err);
    }
    return s;
}

static weft_status open_line(const opening *above, const weft_vetted_line *line, const char *name)
{
    opening o = *above;
    o.path = line->path;
    o.above = above;
    for (const opening *up = above; up; up = up->above)
        if (up->path && strcmp(up->path, o.path) == 0)
            return WEFT_OK; /* libraries that need each other */
    weft_status s = check_file(&o, o.path);
    s = s ? s : open_needs(&o, name);
    /* Lazy: it may call functions of the one that needs it, as UCX's libucm does, without saying
     * so. */
    if (s || dlopen(o.path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE))
        return s;
    const char *why = dlerror();
    return weft_fail(o.err, WEFT_ERR_INPUT, o.where, "%s needs %s, which cannot be opened: %s",
                     o.of, name, why ? why : o.path);
}

static bool is_asked_for(const weft_vetted_line *line, const char *name, const char *real)
{
    return line->kind == WEFT_VETTED_LIBRARY &&
           (real ? strcmp(line->path, real) == 0 : strcmp(line->name, name) == 0);
}

static weft_status open_name(const opening *o, const char *name, const char **path)
{
    weft_vetted *v = first_lock(o->locks);
    char resolved[PATH_MAX];
    const char *real = strchr(name, '/') ? realpath(name, resolved) : NULL;
    weft_vetted_line *found = NULL;
    for (int i = 0; i < v->n && !(found && found->mapped); i++) {
        weft_vetted_line *line = &v->lines[i];
        if (is_asked_for(line, name, real) &&
            (line->mapped || (!found && access(line->path, F_OK) == 0)))
            found = line;
    }
    if (!found)
        return weft_fail(o->err, WEFT_ERR_INPUT, o->where,
                         "%s needs the library %s, which %s does not know, or not here; vet again "
                         "(`weft vet`) where it is",
                         o->of, name, v->file);
    *path = found->path;
    weft_status s = found->mapped ? WEFT_OK : open_line(o, found, name);
    found->mapped = !s;
    return s;
}

weft_status weft_libraries_open(const weft_locks *locks, const char *file, const char *of,
                                weft_where where, weft_error *err)
{
    const opening o = {.locks = locks, .of = of, .where = where, .err = err, .path = file};
    return open_needs(&o, NULL);
}

weft_status weft_libraries_find(const weft_locks *locks, const char *of, const char *name,
                                const char **path, weft_error *err)
{
    const opening o = {.locks = locks, .of = of, .where = WEFT_NOWHERE, .err = err};
    weft_status s = open_name(&o, name, path);
    return s ? s : weft_locks_check_mapped(locks, err);
}

weft_status weft_library_find(const weft_host *host, const char *name, const char **path,
                              weft_error *err)
{
    const weft_plugins *plugins = host->core;
    const weft_search *search = plugins ? plugins->search : NULL;
    const char *by = weft_blame_get().plugin;
    *path = name;
    return search && search->locks
               ? weft_program_vetting.find(search->locks, by ? by : "a plugin", name, path, err)
               : WEFT_OK;
}
