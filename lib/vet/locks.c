/* SPDX-License-Identifier: Apache-2.0 */
/* What the core asks before it opens a plugin: the system's lock, the run's, and bytes. */
#include "vet/locks.h"
#include "vet/known.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

/* A lock that holds for the whole system; it need not be there. */
#ifndef WEFT_SYSTEM_LOCK
#define WEFT_SYSTEM_LOCK "/etc/weft/plugins.lock"
#endif
/* Who must have signed it; it need not be there either. */
#ifndef WEFT_SYSTEM_KEY
#define WEFT_SYSTEM_KEY "/etc/weft/plugins.key"
#endif

static weft_status add_lock(weft_locks *l, int i, const char *file, const char *key, weft_where at,
                            weft_error *err)
{
    weft_status status = weft_vetted_read(file, at, i == 0, key, &l->of[i], err);
    status = status ? status : weft_vetted_check_process(l->of[i], err);
    return status ? status : weft_vetted_check_mapped(l->of[i], err);
}

static bool is_absent(const char *path)
{
    struct stat st;
    return lstat(path, &st) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

static weft_status add_system_lock(weft_locks *l, weft_error *err)
{
    const char *key = is_absent(WEFT_SYSTEM_KEY) ? NULL : WEFT_SYSTEM_KEY;
    if (is_absent(WEFT_SYSTEM_LOCK))
        return WEFT_OK;
    return add_lock(l, 0, WEFT_SYSTEM_LOCK, key, WEFT_NOWHERE, err);
}

/* The run's own. */
static weft_status add_run_lock(weft_locks *l, const weft_params *weft, weft_error *err)
{
    const char *lock = weft_params_text(weft, "lock"), *key = weft_params_text(weft, "lock_key");
    if (!*lock && *key)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(weft, "lock_key"),
                         "[weft] lock_key is the key that a lock is signed with, and there is no "
                         "lock; name one, or take this out");
    return *lock ? add_lock(l, 1, lock, *key ? key : NULL, weft_params_where(weft, "lock"), err)
                 : WEFT_OK;
}

static void close_locks(weft_locks *locks)
{
    for (int i = 0; i < 2; i++)
        weft_vetted_destroy(locks->of[i]);
    weft_free(locks);
}

static weft_status open_locks(const weft_params *weft, weft_locks **out, weft_error *err)
{
    weft_locks *l = weft_alloc_zero(1, sizeof *l);
    *out = NULL;
    if (!l)
        return weft_fail_memory(err);
    weft_status status = add_system_lock(l, err);
    if (!status && weft)
        status = add_run_lock(l, weft, err);
    if (!status && (l->of[0] || l->of[1]))
        *out = l;
    else
        close_locks(l);
    return status;
}

static const char *file_of(const weft_locks *locks, int i)
{
    for (int k = 0; k < 2; k++)
        if (locks->of[k] && i-- == 0)
            return locks->of[k]->file;
    return NULL;
}

static weft_status take(const weft_locks *locks, const char *name, const char *path,
                        weft_where where, int *fd, weft_file_id *id, weft_error *err)
{
    weft_status status = WEFT_OK;
    *fd = -1;
    for (int i = 0; i < 2 && !status; i++)
        if (locks->of[i])
            status = weft_vetted_check_owner(locks->of[i], path, where, err);
    status = status ? status : weft_image_seal(path, where, fd, id, err);
    for (int i = 0; i < 2 && !status; i++)
        if (locks->of[i])
            status = weft_vetted_check_plugin(locks->of[i], name, path, id, where, err);
    if (status && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return status;
}

weft_status weft_locks_check_mapped(const weft_locks *locks, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < 2 && !s; i++)
        s = locks->of[i] ? weft_vetted_check_mapped(locks->of[i], err) : WEFT_OK;
    return s;
}

const weft_vetting weft_program_vetting = {
    .identify = weft_image_identify_file,
    .open = open_locks,
    .close = close_locks,
    .file = file_of,
    .take = take,
    .open_needs = weft_libraries_open,
    .find = weft_libraries_find,
    .check_mapped = weft_locks_check_mapped,
    .advise = weft_known_advise,
};
