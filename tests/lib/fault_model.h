/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of fault_io.h: files and names as they are and as they would be after a crash. */
#ifndef FAULT_MODEL_H
#define FAULT_MODEL_H

#include "fault_io.h"

#include <pthread.h>

enum { MAX_FILES = 256, MAX_NAME = 256, BLOCK = 64 };

typedef struct bytes {
    uint8_t *data;
    size_t size;
} bytes;

typedef struct node node;

typedef struct link {
    char name[MAX_NAME];
    node *to;
} link;

typedef struct links {
    link *link;
    size_t n;
} links;

/* A file or a folder, as it is and as it would be after a crash. */
struct node {
    node *next; /* all there ever were */
    bool folder;
    bytes now, safe;
    links names, safe_names;
};

/* A change of names that is not flushed: `to` appears as name in dir (and disappears as from_name
 * in from), or, gone set, disappears from there. */
typedef struct change {
    struct change *next;
    node *dir, *from, *to;
    char name[MAX_NAME], from_name[MAX_NAME];
    bool gone;
} change;

typedef struct open_file {
    node *node;
    int flags;
} open_file;

struct fault_fs {
    weft_io io;
    pthread_mutex_t lock;
    node *nodes, *root;
    change *changes, *newest; /* oldest first */
    open_file files[MAX_FILES];
    fault_kind kind;
    long at, calls;
    int error;
    bool fired;
    uint64_t random;
};

void *fault_take(void *old, size_t n); /* aborts: a test without memory may stop */
void fault_resize(bytes *b, size_t n);
void fault_copy(bytes *to, const bytes *from);
node *fault_add_node(fault_fs *fs, bool folder);
link *fault_find_link(const links *names, const char *name);
/* Happens now; lasts when its folder is flushed. */
void fault_add_change(fault_fs *fs, const change *what);
/* All changes of names in this folder happen for good, oldest first. */
void fault_flush_names(fault_fs *fs, const node *dir);
/* What lies there, or NULL and errno; where: its folder if that exists; name: the last one, "" for
 * the root. */
node *fault_look_up(fault_fs *fs, const char *path, node **where, char name[MAX_NAME]);
/* The next start, locked: as fault_fs_reboot and fault_fs_sync_all say. */
void fault_lose(fault_fs *fs, uint64_t seed);
void fault_keep(fault_fs *fs);
void fault_free_all(fault_fs *fs);

#endif
