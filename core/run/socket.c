/* SPDX-License-Identifier: Apache-2.0 */
#include "run/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

enum { WHY = 256, MAGIC = 0x74666577 };

static int refuse(char *why, const char *what, const char *reason)
{
    weft_text text = {0};
    weft_text_print(&text, "%s: %s", what, reason);
    strncpy(why, weft_text_get(&text), WHY - 1);
    why[WHY - 1] = '\0';
    weft_text_release(&text);
    return -1;
}

/* ---- addresses ---- */

typedef struct endpoint {
    struct sockaddr_storage address;
    socklen_t size;
} endpoint;

/* A name in the kernel's table, not in the file system: nothing is left behind, and no port can be
 * taken. */
static int find_name(const char *name, endpoint *out, char *why)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    size_t n = strlen(name);
    if (n == 0 || n > sizeof at.sun_path - 1)
        return refuse(why, name, "a name has 1 to 100 characters");
    memcpy(at.sun_path + 1, name, n);
    memcpy(&out->address, &at, sizeof at);
    out->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
    return 1;
}

/* "host:port" into its parts; host[256]. */
static const char *split(const char *address, char *host)
{
    const char *colon = strrchr(address, ':'), *from = address, *to = colon;
    if (colon && *address == '[' && colon[-1] == ']') {
        from++;
        to--;
    }
    if (!colon || to <= from || to - from > 255 || !colon[1])
        return NULL;
    memcpy(host, from, (size_t)(to - from));
    host[to - from] = '\0';
    return colon + 1;
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24) == 127;
    return a->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

static void set_any(endpoint *e)
{
    if (e->address.ss_family == AF_INET)
        ((struct sockaddr_in *)(void *)&e->address)->sin_addr.s_addr = htonl(INADDR_ANY);
    else
        ((struct sockaddr_in6 *)(void *)&e->address)->sin6_addr = in6addr_any;
}

/* Fills at most `capacity` endpoints; returns how many, -1 for none. */
static int find(const char *address, endpoint *out, int capacity, char *why)
{
    char host[256];
    if (*address == '@')
        return find_name(address + 1, out, why);
    const char *port = split(address, host);
    if (!port)
        return refuse(why, address, "an address is written host:port");
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list;
    int code = getaddrinfo(host, port, &hints, &list);
    if (code)
        return refuse(why, host, code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
    int n = 0;
    for (const struct addrinfo *a = list; a && n < capacity; a = a->ai_next) {
        memcpy(&out[n].address, a->ai_addr, a->ai_addrlen);
        out[n++].size = a->ai_addrlen;
    }
    freeaddrinfo(list);
    return n;
}

/* ---- listening and connecting ---- */

int weft_socket_listen(const char *address, int backlog, char *why)
{
    endpoint at;
    int on = 1;
    if (find(address, &at, 1, why) < 0)
        return -1;
    if (at.address.ss_family != AF_UNIX && !is_loopback((const struct sockaddr *)&at.address))
        set_any(
            &at); /* the name may be of an interface that this host knows under another address */
    int fd = socket(at.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return refuse(why, address, strerror(errno));
    if (at.address.ss_family != AF_UNIX)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)&at.address, at.size) == 0 && listen(fd, backlog) == 0)
        return fd;
    refuse(why, address, strerror(errno));
    close(fd);
    return -1;
}

static int connect_one(const endpoint *to, int limit_ms)
{
    int fd = socket(to->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), code = 0;
    socklen_t size = sizeof code;
    if (fd < 0)
        return -1;
    if (connect(fd, (const struct sockaddr *)&to->address, to->size) != 0) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        code = errno;
        if (code == EINPROGRESS &&
            (poll(&p, 1, limit_ms) != 1 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0))
            code = ETIMEDOUT;
    }
    if (!code && fcntl(fd, F_SETFL, 0) == 0)
        return fd;
    close(fd);
    errno = code;
    return -1;
}

int weft_socket_connect(const char *address, double limit_s, char *why)
{
    endpoint list[8];
    int n = find(address, list, 8, why), fd = -1;
    for (int i = 0; i < n && fd < 0; i++)
        fd = connect_one(&list[i], (int)(1000 * limit_s / n) + 1);
    if (n >= 0 && fd < 0)
        refuse(why, address, strerror(errno));
    return fd;
}

void weft_socket_tune(int fd, double limit_s)
{
    const int on = 1, idle = 10, between = 5, tries = 3, unacknowledged_ms = 30000;
    struct timeval limit = {.tv_sec = (time_t)limit_s,
                            .tv_usec = (suseconds_t)(1e6 * (limit_s - (double)(time_t)limit_s))};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    /* What follows does not concern local names, and they say so. */
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
}

/* ---- messages ---- */

static bool send_all(int fd, const void *data, size_t n, int flags)
{
    for (const char *p = data; n > 0;) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL | flags);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        p += sent;
        n -= (size_t)sent;
    }
    return true;
}

static bool receive_all(int fd, void *data, size_t n)
{
    for (char *p = data; n > 0;) {
        ssize_t got = recv(fd, p, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        p += got;
        n -= (size_t)got;
    }
    return true;
}

bool weft_socket_send(int fd, uint32_t kind, uint64_t tag, const void *data, size_t bytes)
{
    const weft_message_head head = {MAGIC, kind, tag, bytes};
    return send_all(fd, &head, sizeof head, bytes ? MSG_MORE : 0) && send_all(fd, data, bytes, 0);
}

bool weft_socket_receive(int fd, weft_message_head *head, void **data, size_t most)
{
    *data = NULL;
    if (!receive_all(fd, head, sizeof *head) || head->magic != MAGIC || head->bytes > most)
        return false;
    if (head->bytes == 0)
        return true;
    *data = weft_alloc((size_t)head->bytes);
    if (*data && receive_all(fd, *data, (size_t)head->bytes))
        return true;
    weft_free(*data);
    *data = NULL;
    return false;
}
