/* SPDX-License-Identifier: Apache-2.0 */
/* Whole messages between two ranks that have proved to each other who they are. Each carries a MAC
 * of its content and its number: one that was altered, made up, repeated or left out on the way
 * ends the connection. They are not encrypted. */
#ifndef WEFT_LIB_NET_LINK_H
#define WEFT_LIB_NET_LINK_H

#include <weft/base.h>

enum { WEFT_MAC_BYTES = 32, WEFT_LINK_KEY_BYTES = 32 };

typedef struct weft_message_head {
    uint32_t magic, kind;
    uint64_t tag, bytes;
} weft_message_head;

/* Sending and receiving may go on at the same time, in two threads. */
typedef struct weft_link {
    int fd; /* -1: none, or no more */
    unsigned char send_key[WEFT_LINK_KEY_BYTES], receive_key[WEFT_LINK_KEY_BYTES];
    uint64_t n_sent, n_received;
    /* the message that is on its way in */
    double since; /* when its first byte came, by weft_now; 0: none has */
    size_t got;   /* bytes of head, data and mac */
    weft_message_head head;
    unsigned char mac[WEFT_MAC_BYTES];
    void *data;
} weft_link;

typedef struct weft_message {
    uint32_t kind;
    uint64_t tag;
    size_t n;
    void *data; /* weft_free it; NULL for no bytes */
} weft_message;

typedef enum weft_arrival {
    WEFT_ARRIVAL_PART,
    WEFT_ARRIVAL_WHOLE,
    WEFT_ARRIVAL_BROKEN
} weft_arrival;

/* All of it within limit_s seconds, however the other side reads; false: the connection is of no
 * use any more. */
bool weft_link_send(weft_link *link, uint32_t kind, uint64_t tag, const void *data, size_t n,
                    double limit_s);
/* Takes what there is, without waiting for more; call it when there is something. BROKEN: the
 * connection is of no use any more, *why says why. A message has at most `most` bytes. */
weft_arrival weft_link_take(weft_link *link, size_t most, weft_message *out, const char **why);
/* Waits for a message until that time. */
bool weft_link_receive(weft_link *link, double until, size_t most, weft_message *out,
                       const char **why);
/* Closes it, forgets its keys and what has come of a message. */
void weft_link_close(weft_link *link);

#endif
