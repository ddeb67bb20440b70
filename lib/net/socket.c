/* SPDX-License-Identifier: Apache-2.0 */
#include "net/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { CAPACITY = 8 }; /* addresses of one host that are tried */

static int refuse(char *why, const char *what, const char *reason)
{
    weft_text text = {0};
    weft_text_print(&text, "%s: %s", what, reason);
    strncpy(why, weft_text_get(&text), WEFT_WHY - 1);
    why[WEFT_WHY - 1] = '\0';
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

bool weft_socket_is_name(const char *address)
{
    return *address == '@';
}

/* Adds the address, without the port. */
static void print_address(const struct sockaddr *a, socklen_t size, weft_text *text)
{
    char host[NI_MAXHOST];
    if (getnameinfo(a, size, host, sizeof host, NULL, 0, NI_NUMERICHOST) == 0)
        weft_text_print(text, "%s%s", text->size ? ", " : "", host);
}

/* What this host could listen at. */
static void list_addresses(weft_text *text)
{
    struct ifaddrs *list;
    if (getifaddrs(&list) != 0)
        return;
    for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
        if (!i->ifa_addr || !(i->ifa_flags & IFF_UP))
            continue;
        if (i->ifa_addr->sa_family == AF_INET)
            print_address(i->ifa_addr, sizeof(struct sockaddr_in), text);
        if (i->ifa_addr->sa_family == AF_INET6)
            print_address(i->ifa_addr, sizeof(struct sockaddr_in6), text);
    }
    freeifaddrs(list);
}

/* ---- listening and connecting ---- */

static int listen_at(const endpoint *at, int backlog)
{
    const int on = 1;
    int fd = socket(at->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (at->address.ss_family != AF_UNIX)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)&at->address, at->size) == 0 && listen(fd, backlog) == 0)
        return fd;
    int code = errno;
    close(fd);
    errno = code;
    return -1;
}

/* None of the addresses is of this host. */
static int refuse_foreign(const char *address, const endpoint *list, int n, char *why)
{
    weft_text foreign = {0}, own = {0}, reason = {0};
    for (int i = 0; i < n; i++)
        print_address((const struct sockaddr *)&list[i].address, list[i].size, &foreign);
    list_addresses(&own);
    weft_text_print(&reason, "%s is not an address of this host, which has %s",
                    weft_text_get(&foreign), weft_text_get(&own));
    refuse(why, address, weft_text_get(&reason));
    weft_text_release(&foreign);
    weft_text_release(&own);
    weft_text_release(&reason);
    return -1;
}

int weft_socket_listen(const char *address, int backlog, char *why)
{
    endpoint list[CAPACITY];
    int n = find(address, list, CAPACITY, why);
    if (n < 0)
        return -1;
    for (int i = 0; i < n; i++) {
        int fd = listen_at(&list[i], backlog);
        if (fd >= 0)
            return fd;
        /* one that is taken is not passed over: the others would find whoever is there */
        if (errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT)
            return refuse(why, address, strerror(errno));
    }
    return refuse_foreign(address, list, n, why);
}

void weft_socket_print_address(int listener, weft_text *text)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at;
    if (getsockname(listener, (struct sockaddr *)&at, &n) == 0 && at.ss_family != AF_UNIX)
        print_address((const struct sockaddr *)&at, n, text);
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
    endpoint list[CAPACITY];
    int n = find(address, list, CAPACITY, why), fd = -1;
    for (int i = 0; i < n && fd < 0; i++)
        fd = connect_one(&list[i], (int)(1000 * limit_s / n) + 1);
    if (n >= 0 && fd < 0)
        refuse(why, address, strerror(errno));
    return fd;
}

bool weft_socket_is_same_user(int fd, char *why)
{
    struct sockaddr_storage at;
    struct ucred who;
    socklen_t n = sizeof at, size = sizeof who;
    if (getsockname(fd, (struct sockaddr *)&at, &n) != 0 ||
        (at.ss_family == AF_UNIX && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)) {
        refuse(why, "the other process", strerror(errno));
        return false;
    }
    if (at.ss_family != AF_UNIX || who.uid == geteuid())
        return true;
    snprintf(why, WEFT_WHY, "it runs as user %ld, and this rank as user %ld", (long)who.uid,
             (long)geteuid());
    return false;
}

void weft_socket_tune(int fd)
{
    const int on = 1, idle = 10, between = 5, tries = 3, unacknowledged_ms = 30000;
    /* Most of this does not concern local names, and they say so. */
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
}

/* ---- bytes ---- */

int weft_socket_ms_until(double until)
{
    double left = 1000 * (until - weft_now());
    return left <= 0 ? 0 : left < INT_MAX - 1 ? (int)left + 1 : INT_MAX;
}

bool weft_socket_await(int fd, bool write, double until)
{
    struct pollfd p = {.fd = fd, .events = write ? POLLOUT : POLLIN};
    int ms, ready = 0;
    while (ready == 0 && (ms = weft_socket_ms_until(until)) > 0) {
        ready = poll(&p, 1, ms);
        ready = ready < 0 && errno == EINTR ? 0 : ready;
    }
    return ready > 0;
}

bool weft_socket_is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* Has a call on a socket that does not block done nothing yet? */
static bool is_too_early(ssize_t done)
{
    return done < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK);
}

bool weft_socket_send(int fd, const void *data, size_t n, bool more, double until)
{
    const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0);
    for (const char *p = data; n > 0;) {
        if (!weft_socket_await(fd, true, until))
            return false;
        ssize_t sent = send(fd, p, n, flags);
        if (is_too_early(sent))
            continue;
        if (sent <= 0)
            return false;
        p += sent;
        n -= (size_t)sent;
    }
    return true;
}

bool weft_socket_receive(int fd, void *data, size_t n, double until)
{
    for (char *p = data; n > 0;) {
        if (!weft_socket_await(fd, false, until))
            return false;
        ssize_t got = recv(fd, p, n, MSG_DONTWAIT);
        if (is_too_early(got))
            continue;
        if (got <= 0)
            return false;
        p += got;
        n -= (size_t)got;
    }
    return true;
}
