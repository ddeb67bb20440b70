/* SPDX-License-Identifier: Apache-2.0 */
/* Vetted sets: a lock file says which bytes may run as plugins, and which libraries, program and
 * libweft they were vetted with. Written by `weft vet`, a line each:
 *
 *     weft-lock 2
 *     machine x86_64
 *     program SHA-256 BUILD-ID STAMP PATH
 *     plugin NAME VERSION ABI SHA-256 BUILD-ID PATH
 *     library NAME SHA-256 BUILD-ID STAMP PATH
 *
 * A library's NAME is what others ask for it by. A STAMP (image.h) says which file was read: while
 * it is that one, it is not read again. '-' stands for a build-id or a stamp that there is not. A
 * name may have several lines: bytes that any of them knows may run. Lines that begin with # and
 * empty ones are not read. */
#ifndef WEFT_LIB_VET_VETTED_H
#define WEFT_LIB_VET_VETTED_H

#include "vet/image.h"

/* The first line; another number whenever the lines below it mean something else. */
#define WEFT_VETTED_HEAD "weft-lock 2"

typedef enum weft_vetted_kind {
    WEFT_VETTED_PROGRAM,
    WEFT_VETTED_PLUGIN,
    WEFT_VETTED_LIBRARY
} weft_vetted_kind;

typedef struct weft_vetted_line {
    weft_vetted_kind kind;
    const char *name;          /* PLUGIN, LIBRARY */
    const char *version, *abi; /* PLUGIN */
    weft_file_id id;
    const char *stamp; /* PROGRAM, LIBRARY */
    const char *path;
    int number;         /* of the line */
    bool sound, mapped; /* its file is what was vetted; and is part of the process */
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
    const char *folders[4]; /* the last ones that nobody else may change; NULL: none yet */
    int n_folders;          /* ever */
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

/* Does it hold here: this machine, and no variable that puts other code into the process? */
weft_status weft_vetted_check_process(const weft_vetted *v, weft_error *err);
/* Is every file that the process may execute something of one of its lines, or the sealed copy of
 * one? */
weft_status weft_vetted_check_mapped(weft_vetted *v, weft_error *err);
/* Is what lies at a real path the program or a library as it was vetted? It is read unless it is
 * the very file that was. */
weft_status weft_vetted_check_file(weft_vetted *v, const char *path, weft_where where,
                                   weft_error *err);
/* Are these the bytes of plugin `name` that it knows? path: for messages. */
weft_status weft_vetted_check_plugin(const weft_vetted *v, const char *name, const char *path,
                                     const weft_file_id *id, weft_where where, weft_error *err);

#endif
