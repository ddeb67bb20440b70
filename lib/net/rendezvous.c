/* SPDX-License-Identifier: Apache-2.0 */
#include "net/rendezvous.h"
#include "net/handshake.h"
#include "net/socket.h"
#include "net/token.h"

#include <math.h>
#include <poll.h>
#include <sodium.h>
#include <string.h>
#include <unistd.h>

enum { WELCOME_EXTRA_S = 5, RETRY_MS = 50 };

typedef enum answer { IN, OUT, MISTRUSTED, STOPPED, NOTHING } answer;
static const double connect_limit_s = 2, say_limit_s = 1, least_shake_s = 1;

bool weft_rendezvous_is_stopped(const weft_join *join)
{
    return join->stop && *join->stop;
}

weft_status weft_rendezvous_fail_stopped(const char *who, weft_error *err)
{
    return weft_fail(err, WEFT_ERR_STOPPED, WEFT_NOWHERE,
                     "stopped by a signal while waiting for %s", who);
}

static answer say(answer a, char *why, const char *text, size_t n)
{
    n = n < WEFT_WHY ? n : WEFT_WHY - 1;
    memcpy(why, text, n);
    why[n] = '\0';
    return a;
}

static answer say_text(answer a, char *why, const char *text)
{
    return say(a, why, text, strlen(text));
}

/* Is that rank 0? Nothing that it says counts before. IN: so it is, and knows who this is. */
static answer shake_hands(const weft_join *join, int fd, weft_link *link, char *why)
{
    weft_handshake h;
    weft_proof proof;
    double until = weft_now() + fmin(WEFT_HANDSHAKE_LIMIT_S, fmax(join->limit_s, least_shake_s));
    if (!weft_socket_is_same_user(fd, why))
        return MISTRUSTED;
    weft_handshake_init(&h, join);
    if (!weft_socket_send(fd, &h.mine, sizeof h.mine, false, until) ||
        !weft_socket_receive(fd, &h.theirs, sizeof h.theirs, until))
        return say_text(NOTHING, why, "it does not answer");
    if (!weft_handshake_is_introduction(&h.theirs))
        return say_text(NOTHING, why,
                        "the program that listens there is not weft, or a weft of another version");
    if (!weft_socket_receive(fd, &proof, sizeof proof, until))
        return say_text(NOTHING, why, "it did not prove its identity");
    if (!weft_handshake_check(&h, join->token, &proof))
        return say_text(MISTRUSTED, why,
                        "its token (WEFT_TOKEN, WEFT_TOKEN_FILE) is not that of this rank");
    weft_handshake_prove(&h, join->token, &proof);
    if (!weft_socket_send(fd, &proof, sizeof proof, false, until))
        return say_text(NOTHING, why, "it closed the connection");
    weft_handshake_finish(&h, join->token, fd, link);
    return IN;
}

/* Until rank 0 says something, or this rank is to end, which rank 0 is told then. */
static answer await_welcome(const weft_join *join, weft_link *link, double until)
{
    while (weft_now() < until && !weft_rendezvous_is_stopped(join))
        if (weft_socket_await(link->fd, false, fmin(until, weft_now() + weft_stop_look_s)))
            return IN;
    if (!weft_rendezvous_is_stopped(join))
        return IN;
    weft_link_send(link, WEFT_STOPPED, 0, NULL, 0, say_limit_s);
    weft_link_close(link);
    return STOPPED;
}

static answer knock(const weft_join *join, double until, weft_link *link, char *why)
{
    weft_message m;
    const char *broken;
    int fd = weft_socket_connect(join->master, connect_limit_s, why);
    if (fd < 0)
        return NOTHING;
    weft_socket_tune(fd);
    answer a = shake_hands(join, fd, link, why);
    if (a != IN) {
        close(fd);
        return a;
    }
    until += WELCOME_EXTRA_S;
    if ((a = await_welcome(join, link, until)) != IN)
        return a;
    const size_t hosts = (size_t)join->ranks * sizeof *join->hosts;
    if (!weft_link_receive(link, until, hosts > WEFT_WHY ? hosts : WEFT_WHY, &m, &broken)) {
        weft_link_close(link);
        return say_text(NOTHING, why, broken);
    }
    if (m.kind == WEFT_REFUSED)
        a = say(OUT, why, m.n ? m.data : "", m.n);
    else if (m.kind == WEFT_STOPPED)
        a = STOPPED;
    else if (m.kind != WEFT_WELCOME)
        a = say_text(NOTHING, why, "it refused this rank");
    else if (join->hosts && m.n == hosts)
        memcpy(join->hosts, m.data, hosts);
    if (a == IN && join->patience_s)
        *join->patience_s = (double)m.tag / WEFT_PATIENCE_UNIT;
    weft_free(m.data);
    if (a != IN)
        weft_link_close(link);
    return a;
}

/* All ranks but 0. */
static weft_status visit(const weft_join *join, weft_link *link, weft_error *err)
{
    char why[WEFT_WHY] = "";
    double until = weft_now() + join->limit_s;
    do {
        switch (knock(join, until, link, why)) {
        case IN:
            return WEFT_OK;
        case OUT:
            return weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE,
                             "rank %d was turned away by rank 0: %s", join->rank, why);
        case MISTRUSTED:
            return weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE,
                             "rank %d does not trust the process at %s: %s", join->rank,
                             join->master, why);
        case STOPPED:
            return weft_rendezvous_fail_stopped("rank 0", err);
        case NOTHING:
            poll(NULL, 0, RETRY_MS);
        }
    } while (weft_now() < until && !weft_rendezvous_is_stopped(join));
    if (weft_rendezvous_is_stopped(join))
        return weft_rendezvous_fail_stopped("rank 0", err);
    return weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE,
                     "rank %d did not find rank 0 within %.3g s: %s", join->rank, join->limit_s,
                     why);
}

weft_status weft_rendezvous(const weft_join *join, weft_link *links, weft_error *err)
{
    weft_status s = weft_token_check(join, err);
    if (s)
        return s;
    if (sodium_init() < 0)
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "libsodium finds no random numbers");
    return join->rank == 0 ? weft_rendezvous_host(join, links, err) : visit(join, links, err);
}
