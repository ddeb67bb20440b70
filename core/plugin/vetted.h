/* SPDX-License-Identifier: Apache-2.0 */
/* Vetted sets: a lock file says which bytes may run as plugins, and which libraries, program and
 * libweft they were vetted with. Written by `weft vet`, a line each:
 *
 *     weft-lock 1
 *     machine x86_64
 *     program SHA-256 BUILD-ID PATH
 *     plugin NAME VERSION ABI SHA-256 BUILD-ID PATH
 *     library SHA-256 BUILD-ID PATH
 *
 * '-' stands for a build-id that there is not. A name may have several plugin lines: bytes that any
 * of them knows may run. Lines that begin with # and empty ones are not read. */
#ifndef WEFT_PLUGIN_VETTED_H
#define WEFT_PLUGIN_VETTED_H

#include "plugin/plugins.h"

typedef enum weft_vetted_kind {
    WEFT_VETTED_PROGRAM,
    WEFT_VETTED_PLUGIN,
    WEFT_VETTED_LIBRARY
} weft_vetted_kind;

typedef struct weft_vetted_line {
    weft_vetted_kind kind;
    const char *name, *version, *abi; /* PLUGIN */
    weft_file_id id;
    const char *path;
    int number; /* of the line */
} weft_vetted_line;

/* A lock: one that was read, or that is to be written. Zero-initialised is valid and empty. */
typedef struct weft_vetted {
    weft_pool pool;
    /* of one that was read */
    const char *file;
    weft_where where; /* who named it; nowhere: the system */
    unsigned owner;   /* user id */
    const char *machine;
    /* of both */
    weft_vetted_line *lines;
    int n, capacity;
    const char *folder; /* the last one that nobody else may change; NULL: none yet */
    int n_checked;      /* mapped objects that were found among the lines */
} weft_vetted;

/* Reads a lock. Refused: a link, what others than its owner may change. system: what is not root's,
 * too. key: the file of a public key; without a signature FILE.minisig by it the lock is refused.
 * NULL: none is asked for. */
weft_status weft_vetted_read(const char *file, weft_where where, bool system, const char *key,
                             weft_vetted **out, weft_error *err);
/* Are these the bytes of `file` that the signature FILE.minisig beside it is of (signature.c)? */
weft_status weft_signature_check(const char *file, const char *bytes, size_t size, const char *key,
                                 weft_where at, weft_error *err);
void weft_vetted_destroy(weft_vetted *v);
/* Of one that was zero-initialised. */
void weft_vetted_release(weft_vetted *v);
/* Adds a line, and copies of its texts. */
weft_status weft_vetted_add(weft_vetted *v, const weft_vetted_line *line, weft_error *err);
/* May nobody but root and its owner change the file, or what it is found through? path: a real
 * one. */
weft_status weft_vetted_check_owner(weft_vetted *v, const char *path, weft_where where,
                                    weft_error *err);

/* ---- vetted_check.c ---- */

/* Does it hold here: this machine, no variable that puts other code into the process, and the
 * program and all that is mapped by now among its lines? */
weft_status weft_vetted_check_process(weft_vetted *v, weft_error *err);
/* The same of what has been mapped since. */
weft_status weft_vetted_check_mapped(weft_vetted *v, weft_error *err);
/* Are these the bytes of plugin `name` that it knows? path: for messages. */
weft_status weft_vetted_check_plugin(const weft_vetted *v, const char *name, const char *path,
                                     const weft_file_id *id, weft_where where, weft_error *err);

#endif
