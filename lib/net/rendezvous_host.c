/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's side of the rendezvous: all that come are heard at the same time, so that nobody who is
 * slow, or says nothing, keeps the others waiting. Who has proved nothing cannot end the run, nor
 * stay for long. */
#include "net/handshake.h"
#include "net/rendezvous.h"
#include "net/socket.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* AT_ONCE: less than VISITORS, so that who has just come is heard before it is the oldest. */
enum { VISITORS = 128, AT_ONCE = 16, LISTED = 8 };
static const double answer_limit_s = 2, first_word_s = 3;

/* Somebody who has connected, and has not proved anything yet. */
typedef struct visitor {
    int fd;
    double until;
    weft_handshake shake;
    weft_proof proof;
    bool introduced; /* so that the proof is due */
    size_t got;      /* bytes of what is due */
} visitor;

typedef struct reception {
    const weft_join *join;
    weft_link *links; /* by rank */
    int listener;
    visitor visitors[VISITORS]; /* the oldest first */
    int n_visitors;
    double say_at; /* when it is said next who is missing */
    long n_away;   /* so many were sent away, the last for this reason */
    char why_away[WEFT_WHY];
} reception;

static void note_away(reception *r, const char *why)
{
    r->n_away++;
    if (why != r->why_away)
        snprintf(r->why_away, sizeof r->why_away, "%s", why);
}

static void forget(reception *r, int i)
{
    r->n_visitors--;
    memmove(&r->visitors[i], &r->visitors[i + 1],
            (size_t)(r->n_visitors - i) * sizeof r->visitors[i]);
}

static void send_away(reception *r, int i, const char *why)
{
    close(r->visitors[i].fd);
    note_away(r, why);
    forget(r, i);
}

/* ---- who has proved that it belongs to us ---- */

static void refuse(weft_link *link, bool stopped, const char *why)
{
    size_t n = strnlen(why, WEFT_WHY);
    weft_link_send(link, stopped ? WEFT_STOPPED : WEFT_REFUSED, 0, why, n, answer_limit_s);
    weft_link_close(link);
}

/* One of us that does not fit ends the run before it begins. */
static weft_status check(const reception *r, const weft_handshake *h, weft_error *err)
{
    const weft_introduction *i = &h->theirs;
    int rank = i->rank, ranks = r->join->ranks;
    if (memcmp(i->version, h->mine.version, sizeof i->version) != 0)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "rank %d is weft %.15s, rank 0 is weft %s", rank, i->version,
                         h->mine.version);
    if (i->ranks != ranks)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "rank %d was told of %d ranks, rank 0 of %d", rank, (int)i->ranks, ranks);
    if (rank < 0 || rank >= ranks)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "a process says that it is rank %d; %d ranks are numbered from 0 to %d",
                         rank, ranks, ranks - 1);
    if (rank == 0 || r->links[rank].fd >= 0)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "two processes say that they are rank %d", rank);
    return WEFT_OK;
}

static weft_status let_in(reception *r, int i, weft_error *err)
{
    const visitor *v = &r->visitors[i];
    weft_link link;
    weft_handshake_finish(&v->shake, r->join->token, v->fd, &link);
    weft_status s = check(r, &v->shake, err);
    if (s)
        refuse(&link, false, weft_error_text(err));
    else
        r->links[v->shake.theirs.rank] = link;
    sodium_memzero(&link, sizeof link);
    if (!s && r->join->hosts)
        memcpy(r->join->hosts[v->shake.theirs.rank], v->shake.theirs.host, WEFT_HOST_BYTES - 1);
    forget(r, i);
    return s;
}

/* ---- who has not ---- */

/* The answer is small, and the first thing that is sent: it never waits. */
static bool answer(const reception *r, const visitor *v)
{
    weft_proof proof;
    weft_handshake_prove(&v->shake, r->join->token, &proof);
    double until = weft_now() + answer_limit_s;
    return weft_socket_send(v->fd, &v->shake.mine, sizeof v->shake.mine, true, until) &&
           weft_socket_send(v->fd, &proof, sizeof proof, false, until);
}

/* There is something from a visitor. It may be gone from the list afterwards. */
static weft_status hear(reception *r, int i, weft_error *err)
{
    visitor *v = &r->visitors[i];
    char *place = v->introduced ? (char *)&v->proof : (char *)&v->shake.theirs;
    size_t due = v->introduced ? sizeof v->proof : sizeof v->shake.theirs;
    ssize_t got = recv(v->fd, place + v->got, due - v->got, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK))
        return WEFT_OK;
    if (got <= 0) {
        send_away(r, i,
                  v->introduced ? "it left when it had seen rank 0's proof; its token "
                                  "(WEFT_TOKEN, WEFT_TOKEN_FILE) may be another"
                                : "it left without a word");
        return WEFT_OK;
    }
    v->got += (size_t)got;
    if (v->got < due)
        return WEFT_OK;
    v->got = 0;
    if (v->introduced) {
        if (weft_handshake_check(&v->shake, r->join->token, &v->proof))
            return let_in(r, i, err);
        send_away(r, i, "its token (WEFT_TOKEN, WEFT_TOKEN_FILE) is another");
    } else if (!weft_handshake_is_introduction(&v->shake.theirs)) {
        send_away(r, i, "it is not weft, or a weft of another version");
    } else if (!answer(r, v)) {
        send_away(r, i, "it does not listen");
    } else {
        v->introduced = true;
    }
    return WEFT_OK;
}

static void greet(reception *r, int fd)
{
    char why[WEFT_WHY];
    if (!weft_socket_is_same_user(fd, why)) {
        close(fd);
        note_away(r, why);
        return;
    }
    if (r->n_visitors == VISITORS)
        send_away(r, 0, "too many connections came at the same time");
    visitor *v = &r->visitors[r->n_visitors++];
    *v = (visitor){.fd = fd, .until = weft_now() + WEFT_HANDSHAKE_LIMIT_S};
    weft_handshake_init(&v->shake, r->join);
    weft_socket_tune(fd);
}

/* Is that the fault of one connection, or none at all? */
static bool is_passing(int code)
{
    static const int codes[] = {EAGAIN,   EWOULDBLOCK, EINTR,       ECONNABORTED, EPROTO,
                                ENETDOWN, EHOSTDOWN,   ENOPROTOOPT, ENETUNREACH,  EHOSTUNREACH};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (code == codes[i])
            return true;
    return false;
}

static weft_status open_door(reception *r, weft_error *err)
{
    for (int n = 0; n < AT_ONCE; n++) {
        int fd = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            greet(r, fd);
        else if (is_passing(errno))
            return WEFT_OK;
        else if ((errno == EMFILE || errno == ENFILE) && r->n_visitors > 0)
            send_away(r, 0, "too many connections came at the same time");
        else
            return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "rank 0 cannot accept connections: %s",
                             strerror(errno));
    }
    return WEFT_OK;
}

/* ---- until all are there ---- */

static int count_missing(const reception *r)
{
    int missing = 0;
    for (int rank = 1; rank < r->join->ranks; rank++)
        missing += r->links[rank].fd < 0;
    return missing;
}

/* The ranks that have not come, as "1, 2, 5". */
static void list_missing(const reception *r, weft_text *who)
{
    int n = 0;
    for (int rank = 1; rank < r->join->ranks; rank++)
        if (r->links[rank].fd < 0 && n++ < LISTED)
            weft_text_print(who, "%s%d", n > 1 ? ", " : "", rank);
    if (n > LISTED)
        weft_text_print(who, " and %d more", n - LISTED);
}

/* Says who has not come yet, now and after ever longer waits. */
static void say_missing(reception *r, double since)
{
    weft_text who = {0};
    r->say_at = weft_now() + (weft_now() - since);
    list_missing(r, &who);
    if (r->join->log)
        weft_log_print(r->join->log, WEFT_LOG_INFO, "waiting for rank%s %s of %d to start",
                       count_missing(r) > 1 ? "s" : "", weft_text_get(&who), r->join->ranks);
    weft_text_release(&who);
}

static weft_status fail_missing(const reception *r, weft_error *err)
{
    weft_text who = {0}, place = {0}, away = {0};
    list_missing(r, &who);
    /* a host's name is often that of its loopback address in its own table, as on Debian */
    weft_socket_print_address(r->listener, &place);
    bool is_other = place.size > 0 && !strstr(r->join->master, weft_text_get(&place));
    if (r->n_away > 0)
        weft_text_print(&away, "; of those that connected %ld %s sent away%s: %s", r->n_away,
                        r->n_away > 1 ? "were" : "was", r->n_away > 1 ? ", the last one" : "",
                        r->why_away);
    weft_status s =
        weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE,
                  "rank%s %s of %d did not reach rank 0 (%s%s%s) within %.3g s%s",
                  count_missing(r) > 1 ? "s" : "", weft_text_get(&who), r->join->ranks,
                  r->join->master, is_other ? ", here " : "", is_other ? weft_text_get(&place) : "",
                  r->join->limit_s, weft_text_get(&away));
    weft_text_release(&who);
    weft_text_release(&place);
    weft_text_release(&away);
    return s;
}

static weft_status fail_stopped(const reception *r, weft_error *err)
{
    weft_text who = {0};
    weft_text_add(&who, count_missing(r) > 1 ? "ranks " : "rank ");
    list_missing(r, &who);
    weft_status s = weft_rendezvous_fail_stopped(weft_text_get(&who), err);
    weft_text_release(&who);
    return s;
}

/* One of us says something, which is not its turn: it was asked to end, or has ended. */
static weft_status hear_member(reception *r, int rank, weft_error *err)
{
    weft_message m = {0};
    const char *why;
    bool said = weft_link_receive(&r->links[rank], weft_now() + answer_limit_s, WEFT_WHY, &m, &why);
    bool stopped = said && m.kind == WEFT_STOPPED;
    weft_free(m.data);
    weft_link_close(&r->links[rank]);
    return stopped ? fail_stopped(r, err)
                   : weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE,
                               "rank %d has ended before all ranks had come", rank);
}

static weft_status look_at_members(reception *r, weft_error *err)
{
    weft_status s = weft_rendezvous_is_stopped(r->join) ? fail_stopped(r, err) : WEFT_OK;
    for (int rank = 1; rank < r->join->ranks && !s; rank++)
        if (r->links[rank].fd >= 0 && weft_socket_is_readable(r->links[rank].fd))
            s = hear_member(r, rank, err);
    return s;
}

/* Waits until somebody comes, says something, or has had its time. */
static weft_status attend(reception *r, double until, weft_error *err)
{
    struct pollfd list[VISITORS + 1];
    int n = r->n_visitors;
    for (int i = 0; i < n; i++)
        list[i] = (struct pollfd){.fd = r->visitors[i].fd, .events = POLLIN};
    list[n] = (struct pollfd){.fd = r->listener, .events = POLLIN};
    if (n > 0 && r->visitors[0].until < until)
        until = r->visitors[0].until;
    int ready = poll(list, (nfds_t)n + 1, weft_socket_ms_until(until));
    if (ready < 0)
        return errno == EINTR ? WEFT_OK
                              : weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE,
                                          "rank 0 cannot wait for the others: %s", strerror(errno));
    weft_status s = WEFT_OK;
    for (int i = n - 1; i >= 0 && !s; i--) /* backwards: some of them go */
        if (list[i].revents)
            s = hear(r, i, err);
    while (!s && r->n_visitors > 0 && r->visitors[0].until <= weft_now())
        send_away(r, 0, "it did not identify itself in time");
    return !s && list[n].revents ? open_door(r, err) : s;
}

static weft_status receive_all(reception *r, weft_error *err)
{
    const double since = weft_now(), until = since + r->join->limit_s;
    weft_status s = WEFT_OK;
    r->say_at = since + first_word_s;
    while (!s && count_missing(r) > 0) {
        double look = fmin(weft_now() + weft_stop_look_s, fmin(r->say_at, until));
        s = weft_now() < until ? attend(r, look, err) : fail_missing(r, err);
        s = s ? s : look_at_members(r, err);
        if (!s && count_missing(r) > 0 && weft_now() >= r->say_at)
            say_missing(r, since);
    }
    while (r->n_visitors > 0)
        send_away(r, 0, "all are there");
    return s;
}

weft_status weft_rendezvous_host(const weft_join *join, weft_link *links, weft_error *err)
{
    char why[WEFT_WHY];
    reception *r = weft_alloc_zero(1, sizeof *r);
    if (!r)
        return weft_fail_memory(err);
    *r = (reception){.join = join, .links = links};
    if (join->hosts && gethostname(join->hosts[0], WEFT_HOST_BYTES - 1) != 0)
        *join->hosts[0] = '\0';
    for (int rank = 0; rank < join->ranks; rank++)
        links[rank] = (weft_link){.fd = -1};
    weft_status s;
    r->listener = weft_socket_listen(join->master, join->ranks + VISITORS, why);
    if (r->listener < 0) {
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "rank 0 cannot listen for the others: %s; WEFT_MASTER=host:port sets another "
                      "place",
                      why);
        weft_free(r);
        return s;
    }
    s = receive_all(r, err);
    const uint64_t patience =
        (uint64_t)ceil((join->patience_s ? *join->patience_s : 0) * WEFT_PATIENCE_UNIT);
    close(r->listener);
    weft_free(r);
    for (int rank = 1; rank < join->ranks; rank++) {
        if (links[rank].fd < 0)
            continue;
        if (!s)
            weft_link_send(&links[rank], WEFT_WELCOME, patience, join->hosts,
                           join->hosts ? (size_t)join->ranks * sizeof *join->hosts : 0,
                           answer_limit_s);
        else
            refuse(&links[rank], s == WEFT_ERR_STOPPED, weft_error_text(err));
    }
    return s;
}
