/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets with time limits, and whole messages over them. No function raises SIGPIPE or waits for
 * ever. */
#ifndef WEFT_RUN_SOCKET_H
#define WEFT_RUN_SOCKET_H

#include <weft/base.h>

/* "host:port", "[v6]:port", or "@name" for a name that only this host knows. Both return a
 * descriptor that exec closes, or -1 with a reason in why[256]. Listening is on all interfaces,
 * unless the host is a loopback address. */
int weft_socket_listen(const char *address, int backlog, char *why);
/* One attempt, of at most limit_s seconds. */
int weft_socket_connect(const char *address, double limit_s, char *why);
/* For a connected socket: no delay, a peer whose host is gone is noticed within half a minute,
 * sending and receiving give up after so many seconds without progress. */
void weft_socket_tune(int fd, double limit_s);

typedef struct weft_message_head {
    uint32_t magic, kind;
    uint64_t tag, bytes;
} weft_message_head;

bool weft_socket_send(int fd, uint32_t kind, uint64_t tag, const void *data, size_t bytes);
/* The head, then *data (weft_free it; NULL for no bytes). False: the connection is of no use any
 * more. At most `most` bytes are taken. */
bool weft_socket_receive(int fd, weft_message_head *head, void **data, size_t most);

#endif
