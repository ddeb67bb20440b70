/* SPDX-License-Identifier: Apache-2.0 */
/* One run in a folder at a time: a lock of the kernel's, which goes with the process that holds it,
 * however that ends. */
#include "lock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <weft/files.h>

enum { MOST = 200 };

/* Does it name a process of this host that is gone? Who has just taken the lock has not signed yet.
 */
static bool is_gone(const char *who)
{
    char host[65] = "", its[65] = "";
    long pid = 0;
    return sscanf(who, "process %ld on %64s", &pid, its) == 2 && pid > 0 &&
           gethostname(host, sizeof host - 1) == 0 && strcmp(host, its) == 0 &&
           kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* Who holds it, as he wrote it. */
static weft_status in_use(int fd, const char *dir, const char *path, weft_error *err)
{
    char who[MOST + 1];
    ssize_t n = pread(fd, who, MOST, 0);
    who[n > 0 ? n : 0] = '\0';
    who[strcspn(who, "\n")] = '\0';
    return weft_fail(
        err, WEFT_ERR_IO, WEFT_NOWHERE,
        "a run is going on in %s: %s holds %s; wait for its end (--wait does), or choose another "
        "[weft] dir",
        dir, *who && !is_gone(who) ? who : "another process", path);
}

weft_status weft_cli_lock_sign(const char *dir, int fd, weft_error *err)
{
    char host[65] = "";
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    char *text = weft_format("process %ld on %s\n", (long)getpid(), *host ? host : "this host");
    size_t n = text ? strlen(text) : 0;
    const bool well = text && ftruncate(fd, 0) == 0 && pwrite(fd, text, n, 0) == (ssize_t)n;
    int code = errno;
    weft_free(text);
    if (!text)
        return weft_fail_memory(err);
    return well ? WEFT_OK
                : weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot write %s/lock: %s", dir,
                            strerror(code));
}

weft_status weft_cli_lock(const char *dir, int *fd, weft_error *err)
{
    char *path = weft_format("%s/lock", dir);
    if (!path)
        return weft_fail_memory(err);
    weft_status s = weft_create_file(path, WEFT_WRITE_SHARED, fd, err);
    bool busy = false;
    if (!s && flock(*fd, LOCK_EX | LOCK_NB) != 0) {
        busy = errno == EWOULDBLOCK;
        s = busy ? in_use(*fd, dir, path, err)
                 : weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot lock %s: %s", path,
                             strerror(errno));
    }
    if (s)
        weft_cli_unlock(fd);
    *fd = busy ? WEFT_LOCK_BUSY : *fd;
    weft_free(path);
    return s;
}

void weft_cli_lock_withdraw(const char *dir)
{
    char *path = weft_format("%s/lock", dir);
    if (path && unlink(path) == 0)
        rmdir(dir); /* what else is there stays, and the folder with it */
    weft_free(path);
}

void weft_cli_unlock(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}
