/* SPDX-License-Identifier: Apache-2.0 */
#include "shared.h"
#include "net/agree.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include <weft/files.h>

enum { NONCE_BYTES = 16, MOST_HOST = 64 };

static void find_host(char host[MOST_HOST + 1])
{
    if (gethostname(host, MOST_HOST) != 0)
        snprintf(host, MOST_HOST, "an unknown host");
    host[MOST_HOST] = '\0';
}

/* Of rank 0: "NONCE HOST", the nonce in a file of that name. */
static weft_status write_nonce(const char *dir, weft_text *text, weft_error *err)
{
    unsigned char bytes[NONCE_BYTES];
    char host[MOST_HOST + 1];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "no random bytes: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        weft_text_print(text, "%02x", bytes[i]);
    char *path = weft_format("%s/.shared-%s", dir, weft_text_get(text));
    weft_status s = path && !text->out_of_memory
                        ? weft_write_file(path, weft_text_get(text), text->size, err)
                        : weft_fail_memory(err);
    weft_free(path);
    find_host(host);
    weft_text_print(text, " %s", host);
    return s;
}

/* A file that another rank has made under a name that nobody has asked for before: no file system
 * can have remembered that it is not there. */
static bool finds(const char *path, const char *nonce)
{
    char *text = NULL;
    size_t n = 0;
    bool same = path && weft_read_file(path, &text, &n, NULL) == WEFT_OK && n == 2 * NONCE_BYTES &&
                memcmp(text, nonce, n) == 0;
    weft_free(text);
    return same;
}

static weft_status look(const weft_rank *rank, const char *path, const weft_text *text,
                        weft_error *err)
{
    const char *dir = rank->session.host.dir;
    char host[MOST_HOST + 1], where[4096];
    if (text->size <= 2 * NONCE_BYTES + 1 || finds(path, weft_text_get(text)))
        return WEFT_OK;
    find_host(host);
    return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(rank->session.run, "dir"),
                     "rank %d on %s does not see what rank 0 on %s has written into the run "
                     "folder, %s%s%s%s: it must be one folder for all ranks, on a file system that "
                     "their hosts share",
                     rank->session.host.rank, host, weft_text_get(text) + 2 * NONCE_BYTES + 1, dir,
                     *dir == '/' ? "" : " (here in ",
                     *dir == '/'                   ? ""
                     : getcwd(where, sizeof where) ? where
                                                   : "a folder that is gone",
                     *dir == '/' ? "" : ")");
}

static bool are_processes(const weft_rank *rank)
{
    void *self;
    const weft_transport *transport =
        weft_plugins_service(rank->session.plugins, "transport", &self);
    return rank->control && transport && transport->ranks != WEFT_RANKS_THREADS;
}

weft_status weft_cli_check_shared(weft_rank *rank)
{
    const char *dir = rank->session.host.dir;
    if (!dir || !are_processes(rank))
        return WEFT_OK;
    bool first = rank->session.host.rank == 0;
    weft_text text = {0};
    weft_status s = first ? write_nonce(dir, &text, &rank->err) : WEFT_OK;
    s = weft_rank_agree(rank, "writing to the run folder", s);
    s = s ? s : weft_control_broadcast(rank->control, rank->session.host.rank, &text, &rank->err);
    char *path = weft_format("%s/.shared-%.*s", dir, 2 * NONCE_BYTES, weft_text_get(&text));
    s = s ? s
          : weft_rank_agree(rank, "looking for the run folder",
                            look(rank, path, &text, &rank->err));
    if (first && path)
        unlink(path);
    weft_free(path);
    weft_text_release(&text);
    return s;
}
