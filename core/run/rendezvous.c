/* SPDX-License-Identifier: Apache-2.0 */
#include "run/rendezvous.h"
#include "run/socket.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HELLO = 1, WELCOME, REFUSED };
enum { WHY = 256, MOST = 1024, LISTED = 8 };
static const double hello_limit_s = 2, welcome_extra_s = 5, first_word_s = 3;

typedef struct hello {
    int32_t rank, ranks;
    char version[16], token[128];
} hello;

static int to_ms(double seconds)
{
    return seconds > 0 ? (int)(1000 * seconds) + 1 : 0;
}

static void introduce(const weft_join *join, hello *h)
{
    memset(h, 0, sizeof *h);
    h->rank = join->rank;
    h->ranks = join->ranks;
    strncpy(h->version, WEFT_VERSION, sizeof h->version - 1);
    strncpy(h->token, join->token, sizeof h->token - 1);
}

/* ---- rank 0 ---- */

/* The ranks that have not come, as "1, 2, 5". */
static void list_missing(const int *fds, int ranks, weft_text *text)
{
    int n = 0;
    for (int r = 1; r < ranks; r++)
        if (fds[r] < 0 && n++ < LISTED)
            weft_text_print(text, "%s%d", n > 1 ? ", " : "", r);
    if (n > LISTED)
        weft_text_print(text, " and %d more", n - LISTED);
}

static void turn_away(int fd, const char *why)
{
    weft_socket_send(fd, REFUSED, 0, why, strlen(why));
    close(fd);
}

/* Somebody knocks. A stranger is turned away; one of us that does not fit ends the run before it
 * begins. */
static weft_status let_in(const weft_join *join, int fd, int *fds, weft_error *err)
{
    weft_message_head head;
    void *data;
    hello mine, h;
    introduce(join, &mine);
    weft_socket_tune(fd, hello_limit_s);
    bool heard =
        weft_socket_receive(fd, &head, &data, MOST) && head.kind == HELLO && head.bytes == sizeof h;
    if (heard)
        memcpy(&h, data, sizeof h);
    weft_free(data);
    if (!heard) {
        close(fd);
        return WEFT_OK;
    }
    if (memcmp(h.token, mine.token, sizeof h.token) != 0) {
        turn_away(fd, "this is another run: the tokens (WEFT_TOKEN) differ");
        return WEFT_OK;
    }
    weft_status s = WEFT_OK;
    if (memcmp(h.version, mine.version, sizeof h.version) != 0)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "rank %d is weft %.15s, rank 0 is weft %s",
                      (int)h.rank, h.version, mine.version);
    else if (h.ranks != join->ranks)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "rank %d was told of %d ranks, rank 0 of %d", (int)h.rank, (int)h.ranks,
                      join->ranks);
    else if (h.rank < 1 || h.rank >= join->ranks || fds[h.rank] >= 0)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "two processes say that they are rank %d",
                      (int)h.rank);
    if (s)
        turn_away(fd, weft_error_text(err));
    else
        fds[h.rank] = fd;
    return s;
}

/* Says who has not come yet, now and after ever longer waits. *next: when. */
static void say_missing(const weft_join *join, const int *fds, double since, double *next)
{
    weft_text text = {0};
    *next = weft_now() + (weft_now() - since);
    list_missing(fds, join->ranks, &text);
    if (join->log)
        weft_log_print(join->log, WEFT_LOG_INFO, "waiting for rank%s %s of %d to start",
                       strchr(weft_text_get(&text), ' ') ? "s" : "", weft_text_get(&text),
                       join->ranks);
    weft_text_release(&text);
}

static weft_status receive_all(const weft_join *join, int listener, int *fds, weft_error *err)
{
    const double since = weft_now(), until = since + join->limit_s;
    double next = since + first_word_s;
    weft_status s = WEFT_OK;
    for (int missing = join->ranks - 1; missing > 0 && !s;) {
        struct pollfd p = {.fd = listener, .events = POLLIN};
        double now = weft_now(), wake = next < until ? next : until;
        int ready = now < until ? poll(&p, 1, to_ms(wake - now)) : 0;
        if (ready == 0 && weft_now() < until) {
            say_missing(join, fds, since, &next);
            continue;
        }
        int fd = ready > 0 ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (ready == 0) {
            weft_text text = {0};
            list_missing(fds, join->ranks, &text);
            s = weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE,
                          "rank%s %s of %d did not come to rank 0 (%s) within %.3g s",
                          missing > 1 ? "s" : "", weft_text_get(&text), join->ranks, join->master,
                          join->limit_s);
            weft_text_release(&text);
        } else if (fd >= 0) {
            s = let_in(join, fd, fds, err);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            s = weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "rank 0 cannot accept connections: %s",
                          strerror(errno));
        }
        missing = 0;
        for (int r = 1; r < join->ranks; r++)
            missing += fds[r] < 0;
    }
    return s;
}

static weft_status host(const weft_join *join, int *fds, weft_error *err)
{
    char why[WHY];
    int listener = weft_socket_listen(join->master, join->ranks, why);
    for (int r = 0; r < join->ranks; r++)
        fds[r] = -1;
    if (listener < 0)
        return weft_fail(
            err, WEFT_ERR_INPUT, WEFT_NOWHERE,
            "rank 0 cannot listen for the others: %s; WEFT_MASTER=host:port sets another place",
            why);
    weft_status s = receive_all(join, listener, fds, err);
    close(listener);
    for (int r = 1; r < join->ranks; r++) {
        if (fds[r] < 0)
            continue;
        if (!s) {
            weft_socket_send(fds[r], WELCOME, 0, NULL, 0);
        } else {
            turn_away(fds[r], weft_error_text(err));
            fds[r] = -1;
        }
    }
    return s;
}

/* ---- the others ---- */

typedef enum answer { IN, OUT, NOTHING } answer;

/* why[WHY]: rank 0's reason for OUT. */
static answer knock(const weft_join *join, int fd, double until, char *why)
{
    hello h;
    weft_message_head head;
    void *data = NULL;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    introduce(join, &h);
    weft_socket_tune(fd, hello_limit_s);
    strncpy(why, "it closed the connection", WHY - 1);
    if (!weft_socket_send(fd, HELLO, 0, &h, sizeof h))
        return NOTHING;
    int ready;
    do
        ready = poll(&p, 1, to_ms(until - weft_now()));
    while (ready < 0 && errno == EINTR && weft_now() < until);
    if (ready == 0)
        strncpy(why, "it does not answer", WHY - 1);
    if (ready <= 0 || !weft_socket_receive(fd, &head, &data, MOST))
        return NOTHING;
    size_t n = head.bytes < WHY ? (size_t)head.bytes : WHY - 1;
    if (head.kind == REFUSED && n) {
        memcpy(why, data, n);
        why[n] = '\0';
    }
    weft_free(data);
    return head.kind == WELCOME ? IN : head.kind == REFUSED ? OUT : NOTHING;
}

static weft_status visit(const weft_join *join, int *fd, weft_error *err)
{
    char why[WHY] = "";
    double until = weft_now() + join->limit_s;
    do {
        double left = until - weft_now();
        *fd = weft_socket_connect(join->master, left > 1 ? left : 1, why);
        answer a = *fd >= 0 ? knock(join, *fd, until + welcome_extra_s, why) : NOTHING;
        if (a == IN)
            return WEFT_OK;
        if (*fd >= 0)
            close(*fd);
        *fd = -1;
        if (a == OUT)
            return weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE,
                             "rank %d was turned away by rank 0: %s", join->rank, why);
        poll(NULL, 0, 50);
    } while (weft_now() < until);
    return weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE,
                     "rank %d did not find rank 0 within %.3g s: %s", join->rank, join->limit_s,
                     why);
}

weft_status weft_rendezvous(const weft_join *join, int *fds, weft_error *err)
{
    hello h;
    if (strlen(join->token) >= sizeof h.token)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "the token (WEFT_TOKEN) has more than %zu characters", sizeof h.token - 1);
    return join->rank == 0 ? host(join, fds, err) : visit(join, fds, err);
}
