/* SPDX-License-Identifier: Apache-2.0 */
#include "fault_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *fault_take(void *old, size_t n)
{
    void *p = realloc(old, n ? n : 1);
    if (!p)
        abort();
    return p;
}

void fault_resize(bytes *b, size_t n)
{
    b->data = fault_take(b->data, n);
    if (n > b->size)
        memset(b->data + b->size, 0, n - b->size);
    b->size = n;
}

void fault_copy(bytes *to, const bytes *from)
{
    fault_resize(to, from->size);
    if (from->size)
        memcpy(to->data, from->data, from->size);
}

node *fault_add_node(fault_fs *fs, bool folder)
{
    node *n = fault_take(NULL, sizeof *n);
    *n = (node){.next = fs->nodes, .folder = folder};
    fs->nodes = n;
    return n;
}

/* ---- names ---- */

link *fault_find_link(const links *names, const char *name)
{
    for (size_t i = 0; i < names->n; i++) {
        if (strcmp(names->link[i].name, name) == 0)
            return &names->link[i];
    }
    return NULL;
}

static void set_link(links *names, const char *name, node *to)
{
    link *l = fault_find_link(names, name);
    if (!l) {
        names->link = fault_take(names->link, (names->n + 1) * sizeof *l);
        l = &names->link[names->n++];
        snprintf(l->name, sizeof l->name, "%s", name);
    }
    l->to = to;
}

static void drop_link(links *names, const char *name, const node *to)
{
    link *l = fault_find_link(names, name);
    if (l && l->to == to)
        *l = names->link[--names->n];
}

static void copy_links(links *to, const links *from)
{
    to->n = from->n;
    to->link = fault_take(to->link, from->n * sizeof *to->link);
    if (from->n)
        memcpy(to->link, from->link, from->n * sizeof *to->link);
}

static void apply(const change *c, bool safe)
{
    links *names = safe ? &c->dir->safe_names : &c->dir->names;
    if (c->gone) {
        drop_link(names, c->name, c->to);
        return;
    }
    if (c->from)
        drop_link(safe ? &c->from->safe_names : &c->from->names, c->from_name, c->to);
    set_link(names, c->name, c->to);
}

void fault_add_change(fault_fs *fs, const change *what)
{
    change *c = fault_take(NULL, sizeof *c);
    *c = *what;
    c->next = NULL;
    *(fs->newest ? &fs->newest->next : &fs->changes) = c;
    fs->newest = c;
    apply(c, false);
}

void fault_flush_names(fault_fs *fs, const node *dir)
{
    fs->newest = NULL;
    for (change **c = &fs->changes; *c;) {
        change *this = *c;
        if (this->dir != dir) {
            fs->newest = this;
            c = &this->next;
            continue;
        }
        apply(this, true);
        *c = this->next;
        free(this);
    }
}

/* The folder of a path and the last name in it; NULL and errno. */
static node *walk(fault_fs *fs, const char *path, char name[MAX_NAME])
{
    node *at = fs->root;
    name[0] = '\0';
    while (*path) {
        size_t n = strcspn(path, "/");
        bool step = n > 0 && !(n == 1 && path[0] == '.');
        if (step && name[0]) {
            const link *l = fault_find_link(&at->names, name);
            errno = !l ? ENOENT : ENOTDIR;
            if (!l || !l->to->folder)
                return NULL;
            at = l->to;
        }
        if (n >= MAX_NAME) {
            errno = ENAMETOOLONG;
            return NULL;
        }
        if (step)
            snprintf(name, MAX_NAME, "%.*s", (int)n, path);
        path += n;
        path += *path == '/';
    }
    return at;
}

node *fault_look_up(fault_fs *fs, const char *path, node **where, char name[MAX_NAME])
{
    *where = walk(fs, path, name);
    if (!*where)
        return NULL;
    if (!name[0])
        return fs->root;
    const link *l = fault_find_link(&(*where)->names, name);
    errno = ENOENT;
    return l ? l->to : NULL;
}

/* ---- a crash ---- */

/* splitmix64 */
static uint64_t draw(fault_fs *fs)
{
    uint64_t z = fs->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Some of what was not flushed is there. */
static void damage(fault_fs *fs, node *n)
{
    uint64_t fate = draw(fs) % 4;
    bytes before = n->safe;
    if (fate == 0)
        return;
    n->safe = (bytes){0};
    fault_copy(&n->safe, fate == 1 ? &n->now : &before);
    if (fate > 1)
        fault_resize(&n->safe, fate == 2 ? n->now.size : draw(fs) % (n->now.size + 1));
    for (size_t at = 0; fate > 1 && at < n->safe.size; at += BLOCK) {
        size_t room = n->safe.size - at < BLOCK ? n->safe.size - at : BLOCK;
        size_t written = n->now.size > at ? n->now.size - at : 0;
        bool same = written >= room && before.size >= at + room &&
                    memcmp(before.data + at, n->now.data + at, room) == 0;
        uint64_t how = same ? 0 : draw(fs) % 4;
        if (how == 1 && written)
            memcpy(n->safe.data + at, n->now.data + at, written < room ? written : room);
        for (size_t i = 0; how > 1 && i < room; i++)
            n->safe.data[at + i] = how == 2 ? 0 : (uint8_t)draw(fs);
    }
    free(before.data);
}

static bool is_flushed(const node *n)
{
    return n->now.size == n->safe.size &&
           (n->now.size == 0 || memcmp(n->now.data, n->safe.data, n->now.size) == 0);
}

void fault_lose(fault_fs *fs, uint64_t seed)
{
    fs->random = seed;
    while (fs->changes) {
        change *c = fs->changes;
        if (seed && draw(fs) % 2)
            apply(c, true);
        fs->changes = c->next;
        free(c);
    }
    fs->newest = NULL;
    for (node *n = fs->nodes; n; n = n->next) {
        if (seed && !is_flushed(n))
            damage(fs, n);
        fault_copy(&n->now, &n->safe);
        copy_links(&n->names, &n->safe_names);
    }
}

void fault_keep(fault_fs *fs)
{
    for (node *n = fs->nodes; n; n = n->next) {
        fault_flush_names(fs, n);
        fault_copy(&n->safe, &n->now);
        copy_links(&n->safe_names, &n->names);
    }
}

void fault_free_all(fault_fs *fs)
{
    while (fs->changes) {
        change *c = fs->changes;
        fs->changes = c->next;
        free(c);
    }
    fs->newest = NULL;
    while (fs->nodes) {
        node *n = fs->nodes;
        fs->nodes = n->next;
        free(n->now.data);
        free(n->safe.data);
        free(n->names.link);
        free(n->safe_names.link);
        free(n);
    }
}
