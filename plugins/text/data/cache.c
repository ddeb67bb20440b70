/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the token file, or makes it: one maker at a time, under a temporary name that is locked,
 * synced and then renamed. */
#include "build.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The names of one token file. */
typedef struct names {
    char *folder, *path, *part;
    bool shut; /* the folder may not be used, and nothing was begun */
} names;

static void names_release(names *n)
{
    weft_free(n->part);
    weft_free(n->path);
    weft_free(n->folder);
}

static weft_status names_init(names *n, char *folder, const weft_text *identity, weft_error *err)
{
    *n = (names){.folder = folder};
    if (n->folder)
        n->path = weft_format(
            "%s/%016" PRIx64 ".tokens", n->folder,
            weft_hash_bytes(weft_hash_name("identity"), identity->data, identity->size));
    if (n->path)
        n->part = weft_format("%s.part", n->path);
    return n->part ? WEFT_OK : weft_fail_memory(err);
}

/* Whoever makes the file is ended where it hangs. Who waits speaks now and then, or it would be
 * taken for one that hangs itself. */
static int await_lock(int fd, const weft_log *log, const char *path)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    int rc;
    for (int turn = 0;
         (rc = flock(fd, LOCK_EX | LOCK_NB)) && (errno == EWOULDBLOCK || errno == EINTR); turn++) {
        if (turn % 10 == 0)
            weft_log_print(log, turn ? WEFT_LOG_DEBUG : WEFT_LOG_INFO,
                           "text: waiting for another process or rank that is making %s", path);
        nanosleep(&pause, NULL);
    }
    return rc;
}

/* Locks the temporary file; *fd = -1 if it got another meaning while we waited (its maker renamed
 * or removed it). */
static weft_status lock_part(names *n, const weft_log *log, int *fd, weft_error *err)
{
    *fd = weft_open_to_write(n->part, WEFT_WRITE_SHARED);
    if (*fd < 0) {
        n->shut = errno == EACCES || errno == EPERM || errno == EROFS;
        return text_fail_errno(err, WEFT_ERR_IO, "create", n->part);
    }
    const int rc = await_lock(*fd, log, n->path);
    weft_status status = WEFT_OK;
    struct stat ours, there;
    if (rc)
        status = text_fail_errno(err, WEFT_ERR_IO,
                                 "lock (set [text] cache to a folder whose file system has locks)",
                                 n->part);
    else if (fstat(*fd, &ours))
        status = text_fail_errno(err, WEFT_ERR_IO, "read", n->part);
    if (!status && !stat(n->part, &there) && ours.st_dev == there.st_dev &&
        ours.st_ino == there.st_ino)
        return WEFT_OK;
    close(*fd);
    *fd = -1;
    return status;
}

static weft_status sync_folder(const char *folder, weft_error *err)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    weft_status status = WEFT_OK;
    if (fd < 0 ||
        (fsync(fd) && errno != EINVAL)) /* some network file systems have no fsync of folders */
        status = text_fail_errno(err, WEFT_ERR_IO, "sync", folder);
    if (fd >= 0)
        close(fd);
    return status;
}

static void log_start(const text_plugin *text, const text_source *source, const char *path,
                      const char *why)
{
    bool damaged = strcmp(why, TEXT_DAMAGED) == 0;
    double bytes = 0;
    size_t n = text_files_count(&source->files);
    for (size_t i = 0; i < source->files.n; i++)
        bytes += (double)source->files.list[i].size;
    weft_log_print(text->host->log, damaged ? WEFT_LOG_WARN : WEFT_LOG_INFO,
                   "text: %s %.1f MB in %zu file%s (%s%s: %s)",
                   source->bins.n ? "checking tokens," : "tokenising", bytes / 1e6, n,
                   n == 1 ? "" : "s",
                   damaged ? "the token file is made again, " : "no token file to use",
                   damaged ? path : "", why);
}

/* Makes the token file in the locked fd and gives it its name. On failure nothing is left. */
static weft_status make(const text_plugin *text, text_source *source, int fd, const names *n,
                        const weft_text *identity, weft_error *err)
{
    weft_status status = WEFT_OK;
    if (ftruncate(fd, 0)) /* what an interrupted maker left */
        status = text_fail_errno(err, WEFT_ERR_IO, "write", n->part);
    if (!status)
        status = text_token_file_make(text, source, fd, n->part, identity, err);
    if (!status && rename(n->part, n->path))
        status = text_fail_errno(err, WEFT_ERR_IO, "rename to", n->path);
    if (status)
        unlink(n->part);
    return status ? status : sync_folder(n->folder, err);
}

/* One attempt to make it; cache stays empty if another maker was faster. */
static weft_status make_locked(text_source *source, const text_plugin *text, names *n,
                               const weft_text *identity, weft_error *err)
{
    int fd;
    const char *why;
    weft_status status = lock_part(n, text->host->log, &fd, err);
    if (status || fd < 0)
        return status;
    status = text_token_file_map(&source->cache, n->path, identity, &source->files, &why,
                                 err); /* made since we looked? */
    if (!status && !why) {
        unlink(n->part);
    } else if (!status) {
        log_start(text, source, n->path, why);
        status = make(text, source, fd, n, identity, err);
    }
    close(fd);
    return status;
}

/* Once a run, not for every source and rank. */
static void warn_exposed(const text_plugin *text, const text_source *source, const names *n)
{
    const char *how =
        source == text->sources && text->host->rank == 0 ? weft_folder_exposed(n->folder) : NULL;
    if (how)
        weft_log_print(
            text->host->log, WEFT_LOG_WARN,
            "text: the folder of token files, %s, is not safe: %s, and so change what is "
            "trained on; chmod go-w it, or set [text] cache",
            n->folder, how);
}

static weft_status open_in(text_source *source, const text_plugin *text, names *n,
                           const weft_text *identity, weft_error *err)
{
    enum {
        ATTEMPTS = 100
    }; /* each lost only to a maker that finished or failed, or to files that change all the time */
    const char *why = NULL;
    text_cache *cache = &source->cache;
    weft_status status = WEFT_OK;
    for (int i = 0; !status && !cache->map && i < ATTEMPTS; i++) {
        status = weft_make_dirs(n->folder, err);
        n->shut = status && status != WEFT_ERR_MEMORY;
        if (status)
            break;
        status = text_token_file_map(cache, n->path, identity, &source->files, &why, err);
        n->shut = status == WEFT_ERR_INPUT;
        if (status || !why)
            break;
        status = make_locked(source, text, n, identity, err);
    }
    if (!status && !cache->map)
        status = weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot use the token file %s: %s",
                           n->path, why);
    return status;
}

/* [text] cache, or weft's cache folder; NULL with *known: out of memory. */
static char *first_folder(const text_plugin *text, bool *known)
{
    const char *given = weft_params_text(text->host->params, "cache");
    *known = *given || text->host->cache_dir;
    return *given   ? weft_strdup(given)
           : *known ? weft_format("%s/tokens", text->host->cache_dir)
                    : NULL;
}

/* In the run folder, which is there to be written; why the other folder is not is said once. */
static weft_status open_in_run(text_source *source, const text_plugin *text, const char *why,
                               names *n, const weft_text *identity, weft_error *err)
{
    const weft_host *host = text->host;
    names_release(n);
    weft_status status = names_init(n, weft_format("%s/tokens", host->dir), identity, err);
    if (!status && source == text->sources && host->rank == 0)
        weft_log_print(host->log, WEFT_LOG_WARN,
                       "text: weft's cache folder cannot be used (%s); tokens are kept in the run "
                       "folder, %s",
                       why, n->folder);
    return status ? status : open_in(source, text, n, identity, err);
}

weft_status text_cache_open(text_source *source, const text_plugin *text, weft_error *err)
{
    weft_text identity = {0};
    weft_error why = {0};
    names n = {0};
    bool known, own = !*weft_params_text(text->host->params, "cache") && text->host->dir;
    char *folder = first_folder(text, &known);
    weft_status status = text_identity(text, &source->files, &identity, &why);
    if (!status && known)
        status = names_init(&n, folder, &identity, &why);
    else
        weft_free(folder);
    if (!status && known)
        status = open_in(source, text, &n, &identity, &why);
    else if (!status)
        status = weft_fail(&why, WEFT_ERR_INPUT, WEFT_NOWHERE,
                           "no folder for tokens is known (HOME is not set); set [text] cache");
    if (status && own && (n.shut || !known))
        status = open_in_run(source, text, weft_error_text(&why), &n, &identity, err);
    else if (status == WEFT_ERR_MEMORY)
        weft_fail_memory(err);
    else
        weft_error_move(err, &why, WEFT_OK, WEFT_NOWHERE, "%s", "");
    if (status && n.shut)
        weft_fail(err, status, weft_params_where(text->host->params, "cache"),
                  "tokens need a folder; set [text] cache to one that you may read and write");
    if (!status)
        warn_exposed(text, source, &n);
    names_release(&n);
    weft_error_release(&why);
    weft_text_release(&identity);
    return status;
}
