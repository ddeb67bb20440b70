/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of core/host, lib/vet and lib/console share among themselves; nobody else includes
 * this. */
#ifndef WEFT_HOST_HOST_H
#define WEFT_HOST_HOST_H

#include "host/plugins.h"
#include "host/vetting.h"
#include <limits.h>
#include <sys/types.h>

/* ---- loader.c: the only file that speaks to libltdl; every call takes the one lock ---- */

/* Counted: as many exits as inits. Plugins stay mapped after the last exit. */
weft_status weft_loader_init(weft_error *err);
void weft_loader_exit(void);
/* Opens exactly this file, a real path already found trustworthy, and finds its descriptor's
 * address. fd: a sealed copy, which is opened instead and becomes the loader's; -1: none. id: of
 * what is opened. */
weft_status weft_loader_open(const char *name, const char *path, int fd, const weft_file_id *id,
                             weft_where where, const weft_plugin **out, weft_error *err);
/* What this file was when the process opened it first, which is what it goes on running whatever
 * lies there now; false: it has not been opened. */
bool weft_loader_identify(const char *path, weft_file_id *id);
/* Notes that this file is part of the process, and what it is; false: out of memory. */
bool weft_loader_note(const char *path, const weft_file_id *id);
/* Is this the inode of a sealed copy that it has opened? */
bool weft_loader_has_copy(unsigned long inode);
/* The descriptor of a plugin linked into the program; NULL: there is none. */
const weft_plugin *weft_loader_builtin(const char *name);
/* Calls each(self, name) for every plugin linked into the program. */
void weft_loader_builtins(void (*each)(void *self, const char *name), void *self);

/* ---- search.c ---- */

typedef struct weft_plugin_folder {
    const char *real; /* real path, no slash at its end */
    bool build;       /* plugin NAME lies at NAME/.libs/NAME.so */
} weft_plugin_folder;

/* Where this folder would hold the plugin, weft_free; NULL when out of memory. */
char *weft_folder_file(const weft_plugin_folder *folder, const char *name);
/* Does a real path lie in it? */
bool weft_folder_holds(const weft_plugin_folder *folder, const char *path);

/* A file opened through this search, so that one file under two names is noticed. */
typedef struct weft_opened_file {
    struct weft_opened_file *next;
    dev_t device;
    ino_t inode;
    const char *name;
} weft_opened_file;

struct weft_search {
    weft_pool pool;
    weft_plugin_folder *folders;
    int n_folders, capacity;
    int n_user; /* the first ones, named by the user: they come before builtin plugins */
    weft_opened_file *seen;
    const char **names;
    bool loader;
    bool closed;       /* nothing is opened */
    weft_locks *locks; /* NULL: none holds */
};

/* What weft_search_locate found. A wrong file (outside the trusted folders, unreadable) is an
 * error, never "missing". */
typedef enum weft_found { WEFT_FOUND_NONE, WEFT_FOUND_FILE, WEFT_FOUND_BUILTIN } weft_found;

/* *path: the real path, owned by search, for WEFT_FOUND_FILE. */
weft_status weft_search_locate(weft_search *search, const char *name, weft_where where,
                               weft_found *found, const char **path, weft_error *err);
/* Notes "no plugin NAME" with the folders searched and the nearest name. */
weft_status weft_search_missing(weft_search *search, const char *name, weft_where where,
                                weft_error *err);
enum { WEFT_PLUGIN_NAME = 49 }; /* bytes, as many as a section's name has */

/* ---- descriptor.c ---- */

/* Everything that can be said of a descriptor without running it; all errors at once. */
weft_status weft_descriptor_check(const weft_plugin *plugin, const char *name, const char *path,
                                  weft_where where, weft_error *err);

/* ---- capabilities.c ---- */

/* A need's capability without the '?' of an optional one. */
const char *weft_plain_capability(const char *need, char buffer[64], bool *optional);

/* The same of the next word of what a pass says after; NULL: there is no more. */
const char *weft_next_after(const char **list, char buffer[64], bool *optional);

/* Capabilities of the listed set: each given once, each need met in time, nothing refused is there.
 * Fills plugins->passes. */
weft_status weft_order_check(weft_plugins *plugins, weft_error *err);

#endif
