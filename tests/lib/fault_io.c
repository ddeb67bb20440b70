/* SPDX-License-Identifier: Apache-2.0 */
#include "fault_io.h"

#include "fault_model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* ---- faults ---- */

static int fail(int error)
{
    errno = error;
    return -1;
}

typedef enum call_kind { READS, MOVES_OUT, MOVES_IN, WAITS, CHANGES, REMOVES } call_kind;

/* Locked. Counts a call; 0 or the error it has to give. halve: it may move half of its bytes. */
static int count_call(fault_fs *fs, call_kind what, bool *halve)
{
    bool now = ++fs->calls == fs->at, later = fs->calls >= fs->at;
    bool writes = what == MOVES_OUT || what == CHANGES || (what == REMOVES && fs->error == EROFS);
    if (fs->kind == FAULT_NONE || !later)
        return 0;
    fs->fired = true;
    switch (fs->kind) {
    case FAULT_CRASH:
        return EIO;
    case FAULT_ERROR:
        return now && !(fs->error == EINTR && (what == CHANGES || what == REMOVES)) ? fs->error : 0;
    case FAULT_REFUSE:
        return writes ? fs->error : 0;
    case FAULT_SHORT:
        if (halve)
            *halve = now;
        return 0;
    default:
        return 0;
    }
}

static fault_fs *enter(void *ctx)
{
    fault_fs *fs = ctx;
    pthread_mutex_lock(&fs->lock);
    return fs;
}

static int leave(fault_fs *fs, int result)
{
    int error = errno;
    pthread_mutex_unlock(&fs->lock);
    errno = error;
    return result;
}

/* ---- calls ---- */

static int put_file(fault_fs *fs, node *n, int flags)
{
    for (int fd = 0; fd < MAX_FILES; fd++) {
        if (!fs->files[fd].node) {
            fs->files[fd] = (open_file){n, flags};
            return fd;
        }
    }
    return fail(EMFILE);
}

static int open_node(fault_fs *fs, const char *path, int flags)
{
    char name[MAX_NAME];
    node *where = NULL, *n = fault_look_up(fs, path, &where, name);
    bool writes = (flags & O_ACCMODE) != O_RDONLY;
    if (n && (flags & O_CREAT) && (flags & O_EXCL))
        return fail(EEXIST);
    if (n && n->folder && (writes || (flags & O_CREAT)))
        return fail(EISDIR);
    if (n && !n->folder && (flags & O_DIRECTORY))
        return fail(ENOTDIR);
    if (!n && (!where || !(flags & O_CREAT)))
        return -1;
    if (!n) {
        n = fault_add_node(fs, false);
        change c = {.dir = where, .to = n};
        memcpy(c.name, name, sizeof c.name);
        fault_add_change(fs, &c);
    }
    if (flags & O_TRUNC)
        fault_resize(&n->now, 0);
    return put_file(fs, n, flags);
}

static int fault_open(void *ctx, const char *path, int flags, mode_t mode)
{
    (void)mode;
    fault_fs *fs = enter(ctx);
    /* A signal or a missing right may stop any open; a full disk only those that make something. */
    int error =
        count_call(fs, flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR) ? MOVES_OUT : READS, NULL);
    return leave(fs, error ? fail(error) : open_node(fs, path, flags));
}

static open_file *get_file(fault_fs *fs, int fd)
{
    if (fd >= 0 && fd < MAX_FILES && fs->files[fd].node)
        return &fs->files[fd];
    errno = EBADF;
    return NULL;
}

static int fault_close(void *ctx, int fd)
{
    fault_fs *fs = enter(ctx);
    int error = count_call(fs, READS, NULL);
    open_file *file = get_file(fs, fd);
    if (!file)
        return leave(fs, -1);
    file->node = NULL;
    return leave(fs, error ? fail(error) : 0);
}

static ssize_t fault_pread(void *ctx, int fd, void *to, size_t n, off_t at)
{
    fault_fs *fs = enter(ctx);
    bool halve = false;
    int error = count_call(fs, MOVES_IN, &halve);
    const open_file *file = get_file(fs, fd);
    if (error || !file)
        return leave(fs, error ? fail(error) : -1);
    if (file->node->folder)
        return leave(fs, fail(EISDIR));
    size_t size = file->node->now.size, from = (size_t)at < size ? (size_t)at : size;
    n = n < size - from ? n : size - from;
    n = halve && n > 1 ? n / 2 : n;
    if (n)
        memcpy(to, file->node->now.data + from, n);
    leave(fs, 0);
    return (ssize_t)n;
}

static ssize_t fault_pwrite(void *ctx, int fd, const void *from, size_t n, off_t at)
{
    fault_fs *fs = enter(ctx);
    bool halve = false;
    int error = count_call(fs, MOVES_OUT, &halve);
    const open_file *file = get_file(fs, fd);
    if (error || !file)
        return leave(fs, error ? fail(error) : -1);
    if ((file->flags & O_ACCMODE) == O_RDONLY)
        return leave(fs, fail(EBADF));
    bytes *now = &file->node->now;
    n = halve && n > 1 ? n / 2 : n;
    if ((size_t)at + n > now->size)
        fault_resize(now, (size_t)at + n);
    if (n)
        memcpy(now->data + at, from, n);
    leave(fs, 0);
    return (ssize_t)n;
}

static int fault_fsync(void *ctx, int fd)
{
    fault_fs *fs = enter(ctx);
    int error = count_call(fs, WAITS, NULL);
    const open_file *file = get_file(fs, fd);
    if (error || !file)
        return leave(fs, error ? fail(error) : -1);
    if (file->node->folder)
        fault_flush_names(fs, file->node);
    else
        fault_copy(&file->node->safe, &file->node->now);
    return leave(fs, 0);
}

static bool holds(const node *n, const node *what)
{
    bool found = n == what;
    for (size_t i = 0; n->folder && i < n->names.n && !found; i++)
        found = holds(n->names.link[i].to, what);
    return found;
}

static int rename_node(fault_fs *fs, const char *from, const char *to)
{
    change c = {0};
    c.to = fault_look_up(fs, from, &c.from, c.from_name);
    if (!c.to)
        return -1;
    node *old = fault_look_up(fs, to, &c.dir, c.name);
    if (!c.dir)
        return -1;
    if (old == c.to)
        return 0;
    if (!c.name[0] || !c.from_name[0] || holds(c.to, c.dir))
        return fail(EINVAL);
    if (old && old->folder != c.to->folder)
        return fail(old->folder ? EISDIR : ENOTDIR);
    if (old && old->names.n)
        return fail(ENOTEMPTY);
    fault_add_change(fs, &c);
    return 0;
}

static int fault_rename(void *ctx, const char *from, const char *to)
{
    fault_fs *fs = enter(ctx);
    int error = count_call(fs, CHANGES, NULL);
    return leave(fs, error ? fail(error) : rename_node(fs, from, to));
}

static int remove_node(fault_fs *fs, const char *path, bool folder)
{
    change c = {.gone = true};
    c.to = fault_look_up(fs, path, &c.dir, c.name);
    if (!c.to)
        return -1;
    if (c.to->folder != folder)
        return fail(folder ? ENOTDIR : EISDIR);
    if (c.to->names.n)
        return fail(ENOTEMPTY);
    if (!c.name[0])
        return fail(EBUSY);
    fault_add_change(fs, &c);
    return 0;
}

static int fault_unlink(void *ctx, const char *path)
{
    fault_fs *fs = enter(ctx);
    int error = count_call(fs, REMOVES, NULL);
    return leave(fs, error ? fail(error) : remove_node(fs, path, false));
}

static int fault_rmdir(void *ctx, const char *path)
{
    fault_fs *fs = enter(ctx);
    int error = count_call(fs, REMOVES, NULL);
    return leave(fs, error ? fail(error) : remove_node(fs, path, true));
}

static int make_folder(fault_fs *fs, const char *path)
{
    change c = {0};
    if (fault_look_up(fs, path, &c.dir, c.name))
        return fail(EEXIST);
    if (!c.dir)
        return -1;
    c.to = fault_add_node(fs, true);
    fault_add_change(fs, &c);
    return 0;
}

static int fault_mkdir(void *ctx, const char *path, mode_t mode)
{
    (void)mode;
    fault_fs *fs = enter(ctx);
    int error = count_call(fs, CHANGES, NULL);
    return leave(fs, error ? fail(error) : make_folder(fs, path));
}

static int fault_size(void *ctx, int fd, int64_t *size)
{
    fault_fs *fs = enter(ctx);
    int error = count_call(fs, READS, NULL);
    const open_file *file = get_file(fs, fd);
    if (error || !file)
        return leave(fs, error ? fail(error) : -1);
    *size = (int64_t)file->node->now.size;
    return leave(fs, 0);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_names(fault_fs *fs, const char *path, char ***out)
{
    char name[MAX_NAME];
    node *where = NULL;
    const node *n = fault_look_up(fs, path, &where, name);
    if (!n)
        return -1;
    if (!n->folder)
        return fail(ENOTDIR);
    char **names = weft_alloc_zero(n->names.n + 1, sizeof *names);
    for (size_t i = 0; names && i < n->names.n; i++) {
        names[i] = weft_strdup(n->names.link[i].name);
        if (!names[i]) {
            weft_names_free(names);
            names = NULL;
        }
    }
    if (!names)
        return fail(ENOMEM);
    qsort(names, n->names.n, sizeof *names, by_name);
    *out = names;
    return 0;
}

static int fault_list(void *ctx, const char *path, char ***names)
{
    fault_fs *fs = enter(ctx);
    int error = count_call(fs, READS, NULL);
    return leave(fs, error ? fail(error) : list_names(fs, path, names));
}

/* ---- what a test does with it ---- */

fault_fs *fault_fs_create(void)
{
    fault_fs *fs = fault_take(NULL, sizeof *fs);
    *fs = (fault_fs){.io = {.ctx = fs,
                            .open = fault_open,
                            .close = fault_close,
                            .pread = fault_pread,
                            .pwrite = fault_pwrite,
                            .fsync = fault_fsync,
                            .rename = fault_rename,
                            .unlink = fault_unlink,
                            .rmdir = fault_rmdir,
                            .mkdir = fault_mkdir,
                            .size = fault_size,
                            .list = fault_list}};
    pthread_mutex_init(&fs->lock, NULL);
    fs->root = fault_add_node(fs, true);
    return fs;
}

void fault_fs_destroy(fault_fs *fs)
{
    if (!fs)
        return;
    fault_free_all(fs);
    pthread_mutex_destroy(&fs->lock);
    free(fs);
}

const weft_io *fault_fs_io(fault_fs *fs)
{
    return &fs->io;
}

void fault_fs_arm(fault_fs *fs, fault_kind kind, long n, int error)
{
    enter(fs);
    fs->kind = kind;
    fs->at = n;
    fs->error = error;
    fs->calls = 0;
    fs->fired = false;
    leave(fs, 0);
}

long fault_fs_calls(fault_fs *fs)
{
    enter(fs);
    long calls = fs->calls;
    leave(fs, 0);
    return calls;
}

bool fault_fs_fired(fault_fs *fs)
{
    enter(fs);
    bool fired = fs->fired;
    leave(fs, 0);
    return fired;
}

int fault_fs_open_files(fault_fs *fs)
{
    enter(fs);
    int n = 0;
    for (int fd = 0; fd < MAX_FILES; fd++)
        n += fs->files[fd].node != NULL;
    leave(fs, 0);
    return n;
}

void fault_fs_reboot(fault_fs *fs, uint64_t seed)
{
    enter(fs);
    fault_lose(fs, seed);
    memset(fs->files, 0, sizeof fs->files);
    fs->kind = FAULT_NONE;
    fs->calls = 0;
    fs->fired = false;
    leave(fs, 0);
}

void fault_fs_sync_all(fault_fs *fs)
{
    enter(fs);
    fault_keep(fs);
    leave(fs, 0);
}
