/* SPDX-License-Identifier: Apache-2.0 */
#include "net/link.h"
#include "net/socket.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAGIC = 0x74666577 };

static void make_mac(const unsigned char *key, uint64_t number, const weft_message_head *head,
                     const void *data, unsigned char *out)
{
    crypto_auth_hmacsha512256_state state;
    crypto_auth_hmacsha512256_init(&state, key, WEFT_LINK_KEY_BYTES);
    crypto_auth_hmacsha512256_update(&state, (const unsigned char *)&number, sizeof number);
    crypto_auth_hmacsha512256_update(&state, (const unsigned char *)head, sizeof *head);
    crypto_auth_hmacsha512256_update(&state, data, head->bytes);
    crypto_auth_hmacsha512256_final(&state, out);
    sodium_memzero(&state, sizeof state);
}

bool weft_link_send(weft_link *link, uint32_t kind, uint64_t tag, const void *data, size_t n,
                    double limit_s)
{
    const weft_message_head head = {MAGIC, kind, tag, n};
    unsigned char mac[WEFT_MAC_BYTES];
    double until = weft_now() + limit_s;
    make_mac(link->send_key, link->n_sent++, &head, data, mac);
    return weft_socket_send(link->fd, &head, sizeof head, true, until) &&
           weft_socket_send(link->fd, data, n, true, until) &&
           weft_socket_send(link->fd, mac, sizeof mac, false, until);
}

/* ---- receiving ---- */

/* Where the next bytes of the message belong, and how many are still due there. */
static size_t find_place(weft_link *l, void **place)
{
    size_t at = l->got;
    if (at < sizeof l->head) {
        *place = (char *)&l->head + at;
        return sizeof l->head - at;
    }
    at -= sizeof l->head;
    if (at < l->head.bytes) {
        *place = (char *)l->data + at;
        return (size_t)l->head.bytes - at;
    }
    at -= (size_t)l->head.bytes;
    *place = l->mac + at;
    return sizeof l->mac - at;
}

/* The head says how much follows, if it is one. */
static bool make_room(weft_link *l, size_t most, const char **why)
{
    if (l->head.magic != MAGIC || l->head.bytes > most) {
        *why = "it sent bytes that are not a message of weft";
        return false;
    }
    if (l->head.bytes == 0)
        return true;
    l->data = weft_alloc((size_t)l->head.bytes);
    *why = "out of memory";
    return l->data != NULL;
}

static bool hand_out(weft_link *l, weft_message *out, const char **why)
{
    unsigned char due[WEFT_MAC_BYTES];
    make_mac(l->receive_key, l->n_received++, &l->head, l->data, due);
    if (sodium_memcmp(due, l->mac, sizeof due) != 0) {
        *why = "its message was altered or made up on the way";
        return false;
    }
    *out = (weft_message){l->head.kind, l->head.tag, (size_t)l->head.bytes, l->data};
    l->data = NULL;
    l->got = 0;
    l->since = 0;
    return true;
}

weft_arrival weft_link_take(weft_link *l, size_t most, weft_message *out, const char **why)
{
    void *place;
    size_t due = find_place(l, &place);
    ssize_t got = recv(l->fd, place, due, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return WEFT_ARRIVAL_PART;
    if (got <= 0) {
        *why = "its connection broke without a message";
        return WEFT_ARRIVAL_BROKEN;
    }
    if (l->got == 0)
        l->since = weft_now();
    l->got += (size_t)got;
    if (l->got == sizeof l->head && !make_room(l, most, why))
        return WEFT_ARRIVAL_BROKEN;
    if (l->got < sizeof l->head || l->got < sizeof l->head + l->head.bytes + sizeof l->mac)
        return WEFT_ARRIVAL_PART;
    return hand_out(l, out, why) ? WEFT_ARRIVAL_WHOLE : WEFT_ARRIVAL_BROKEN;
}

bool weft_link_receive(weft_link *l, double until, size_t most, weft_message *out, const char **why)
{
    weft_arrival a = WEFT_ARRIVAL_PART;
    while (a == WEFT_ARRIVAL_PART) {
        if (!weft_socket_await(l->fd, false, until)) {
            *why = "it does not answer";
            return false;
        }
        a = weft_link_take(l, most, out, why);
    }
    return a == WEFT_ARRIVAL_WHOLE;
}

void weft_link_close(weft_link *l)
{
    if (l->fd >= 0)
        close(l->fd);
    weft_free(l->data);
    sodium_memzero(l, sizeof *l);
    l->fd = -1;
}
