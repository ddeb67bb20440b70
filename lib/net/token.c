/* SPDX-License-Identifier: Apache-2.0 */
#include "net/token.h"
#include "net/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEAST = 16, MOST = 4096 };

/* Nobody but this user may know what is in it. */
static weft_status check_file(int fd, const char *path, weft_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "WEFT_TOKEN_FILE: %s: %s", path,
                         strerror(errno));
    if (!S_ISREG(st.st_mode))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "WEFT_TOKEN_FILE: %s is not a regular file", path);
    if (st.st_uid != geteuid())
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "WEFT_TOKEN_FILE: %s belongs to user %ld, and this process runs as user "
                         "%ld; use a file of that user's own",
                         path, (long)st.st_uid, (long)geteuid());
    if (st.st_mode & (S_IRWXG | S_IRWXO))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "WEFT_TOKEN_FILE: others may open %s (mode %03o); chmod 600 it, and use a "
                         "new token if somebody may have read this one",
                         path, (unsigned)st.st_mode & 07777);
    return WEFT_OK;
}

/* A copy that is neither swapped nor in a core dump, as far as the system allows. */
static weft_status copy(const char *text, char **out, weft_error *err)
{
    size_t bytes = strlen(text) + 1;
    *out = sodium_init() < 0 ? NULL : sodium_malloc(bytes);
    if (!*out)
        return weft_fail_memory(err);
    memcpy(*out, text, bytes);
    return WEFT_OK;
}

static weft_status read_text(int fd, const char *path, char *text, weft_error *err)
{
    size_t n = 0;
    ssize_t got;
    while ((got = read(fd, text + n, MOST + 1 - n)) != 0 && n <= MOST) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "WEFT_TOKEN_FILE: %s: %s", path,
                             strerror(errno));
        n += (size_t)got;
    }
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        n--;
    text[n] = '\0';
    if (n == 0 || n > MOST || strlen(text) != n || strchr(text, '\n'))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "WEFT_TOKEN_FILE: %s should hold one line of 1 to %d characters", path,
                         (int)MOST);
    return WEFT_OK;
}

static weft_status read_file(const char *path, char **out, weft_error *err)
{
    /* not blocking: a FIFO would wait for a writer */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "WEFT_TOKEN_FILE: %s: %s", path,
                         strerror(errno));
    char *text = NULL;
    weft_status s = check_file(fd, path, err);
    if (!s) {
        text = weft_alloc_zero(MOST + 2, 1);
        s = text ? read_text(fd, path, text, err) : weft_fail_memory(err);
    }
    *out = NULL;
    s = s ? s : copy(text, out, err);
    if (text)
        sodium_memzero(text, MOST + 2);
    weft_free(text);
    close(fd);
    return s;
}

/* The user's own, for all of his runs; NULL: he has none. */
static char *find_own(void)
{
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    char *path = xdg && *xdg == '/'     ? weft_format("%s/weft/token", xdg)
                 : home && *home == '/' ? weft_format("%s/.config/weft/token", home)
                                        : NULL;
    if (path && access(path, F_OK) == 0)
        return path;
    weft_free(path);
    return NULL;
}

static weft_status read_own(char **out, weft_error *err)
{
    char *path = find_own();
    if (path) {
        weft_status s = read_file(path, out, err);
        weft_free(path);
        return s;
    }
    return copy("", out, err);
}

weft_status weft_token_read(char **out, weft_error *err)
{
    const char *token = getenv("WEFT_TOKEN"), *path = getenv("WEFT_TOKEN_FILE");
    bool has_token = token && *token, has_path = path && *path;
    *out = NULL;
    if (has_token && has_path)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "WEFT_TOKEN and WEFT_TOKEN_FILE are both set; set one of them");
    if (has_path)
        return read_file(path, out, err);
    if (!has_token)
        return read_own(out, err);
    return copy(token, out, err);
}

void weft_token_forget(void)
{
    char *token = getenv("WEFT_TOKEN");
    if (token)
        sodium_memzero(token, strlen(token));
    unsetenv("WEFT_TOKEN");
}

void weft_token_destroy(char *token)
{
    sodium_free(token);
}

weft_status weft_token_check(const weft_join *join, weft_error *err)
{
    static const char advice[] =
        "set WEFT_TOKEN to the same random text for all ranks, or WEFT_TOKEN_FILE to a file of "
        "mode 600 that holds it, or make one for all runs, on every host: (umask 077; mkdir -p "
        "~/.config/weft; head -c 32 /dev/urandom | base64 >~/.config/weft/token)";
    size_t n = strlen(join->token);
    if (weft_socket_is_name(join->master) || n >= LEAST)
        return WEFT_OK;
    if (n == 0)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "the ranks meet over TCP (%s), which strangers may reach, and rank %d has "
                         "no token to tell the run's ranks from them; %s",
                         join->master, join->rank, advice);
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "the token of rank %d has %zu characters, and over TCP (%s) it needs at least "
                     "%d, since a short one can be guessed; %s",
                     join->rank, n, join->master, (int)LEAST, advice);
}
