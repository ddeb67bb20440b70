/* SPDX-License-Identifier: Apache-2.0 */
/* How a program vets the files that it opens as plugins, and what it knows of those that are
 * nowhere. The core asks, and does not know how: a program that links the core says it, once, when
 * it is linked. */
#ifndef WEFT_HOST_VETTING_H
#define WEFT_HOST_VETTING_H

#include "host/plugins.h"

/* The locks that hold for a search. */
typedef struct weft_locks weft_locks;

typedef struct weft_vetting {
    /* What a file's bytes are; it is read and not opened as an object. */
    weft_status (*identify)(const char *path, weft_where where, weft_file_id *id, weft_error *err);
    /* The system's lock and the one that [weft] names, held against the process as it is. weft:
     * that section; NULL: only the system's. *locks NULL: there are none. */
    weft_status (*open)(const weft_params *weft, weft_locks **locks, weft_error *err);
    void (*close)(weft_locks *locks);
    /* The file of the i-th lock, from 0; NULL past the end. */
    const char *(*file)(const weft_locks *locks, int i);
    /* Copies a plugin to where nobody can change it, if every lock knows its bytes. *fd: the copy,
     * the caller's to close; -1 on an error. */
    weft_status (*take)(const weft_locks *locks, const char *name, const char *path,
                        weft_where where, int *fd, weft_file_id *id, weft_error *err);
    /* Opens all libraries that a file needs, so that nothing is looked for when it is opened. of:
     * whose file it is. */
    weft_status (*open_needs)(const weft_locks *locks, const char *file, const char *of,
                              weft_where where, weft_error *err);
    /* The vetted path of a library that plugin `of` opens by name, opened. *path lives as long as
     * the locks. */
    weft_status (*find)(const weft_locks *locks, const char *of, const char *name,
                        const char **path, weft_error *err);
    /* Holds what is part of the process by now against every lock. */
    weft_status (*check_mapped)(const weft_locks *locks, weft_error *err);
    /* What to do about a plugin that is nowhere; weft_free it. build: weft_search_build(). NULL:
     * that is not known. May be NULL. */
    char *(*advise)(const char *build, const char *name);
} weft_vetting;

/* The program's. */
extern const weft_vetting weft_program_vetting;

#endif
