/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of a launched job end with: mpirun's own exit code says little. Nothing secret is
 * said: whoever takes the launcher's name after its end learns an exit code. */
#include "job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* Where the launcher listens: a name that only this host knows. */
static socklen_t find_launcher(const char *name, struct sockaddr_un *at)
{
    size_t n = strnlen(name, sizeof at->sun_path - 1);
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(at->sun_path + 1, name, n);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

void weft_job_tell(int code)
{
    const char *name = getenv("WEFT_LAUNCHER");
    struct sockaddr_un at;
    const int32_t word = code;
    const struct timeval limit = {.tv_sec = 2}; /* the launcher's queue is short, and read often */
    int fd = name ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    if (fd < 0)
        return; /* somebody else started this rank, and goes by its exit code */
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    socklen_t n = find_launcher(name, &at);
    if (sendto(fd, &word, sizeof word, MSG_NOSIGNAL, (const struct sockaddr *)&at, n) < 0)
        code = 0; /* the launcher counts who is missing */
    close(fd);
}

weft_status weft_farewells_listen(int *fd, weft_error *err)
{
    struct sockaddr_un at;
    const int on = 1;
    socklen_t n = find_launcher(getenv("WEFT_LAUNCHER"), &at);
    *fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd >= 0 && setsockopt(*fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0 &&
        bind(*fd, (const struct sockaddr *)&at, n) == 0)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot listen for the ranks: %s",
                     strerror(errno));
}

/* Whoever finds the name can send something; the kernel says who did. */
static bool is_own(struct msghdr *m)
{
    const struct cmsghdr *c = CMSG_FIRSTHDR(m);
    struct ucred who;
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS ||
        c->cmsg_len < CMSG_LEN(sizeof who))
        return false;
    memcpy(&who, CMSG_DATA(c), sizeof who);
    return who.uid == getuid();
}

/* A rank's buffer for these is small: they are taken as they come. */
void weft_farewells_take(weft_farewells *c)
{
    int32_t code;
    struct iovec part = {.iov_base = &code, .iov_len = sizeof code};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
    } who;
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    for (ssize_t n = 0; n >= 0;) {
        m.msg_control = &who;
        m.msg_controllen = sizeof who;
        n = recvmsg(c->fd, &m, MSG_CMSG_CLOEXEC);
        if (n != (ssize_t)sizeof code || !is_own(&m))
            continue;
        c->n++;
        c->code = c->code ? c->code : code;
    }
}
