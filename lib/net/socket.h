/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets with time limits. No function raises SIGPIPE or waits for ever. */
#ifndef WEFT_LIB_NET_SOCKET_H
#define WEFT_LIB_NET_SOCKET_H

#include <weft/base.h>

enum { WEFT_WHY = 256 }; /* bytes of every why[] */

/* "host:port", "[v6]:port", or "@name" for a name that only this host knows. Both return a
 * descriptor that exec closes, or -1 with a reason in why. Listening is on the first of the host's
 * addresses that this machine has, and on no other; it does not block. */
int weft_socket_listen(const char *address, int backlog, char *why);
/* Adds the numbers of the address that it listens at; nothing for a name. */
void weft_socket_print_address(int listener, weft_text *text);
/* One attempt, of at most limit_s seconds. */
int weft_socket_connect(const char *address, double limit_s, char *why);
/* Is it a name, for which the kernel says who is at the other end? */
bool weft_socket_is_name(const char *address);
/* For a connection over a name: does the other process run as the same user as this one? If not,
 * why says as whom. True for all other connections. */
bool weft_socket_is_same_user(int fd, char *why);
/* For a connected socket: no delay, a peer whose host is gone is noticed within half a minute. */
void weft_socket_tune(int fd);

/* All of them take absolute times, as weft_now gives them, which hold however fast the other side
 * is. Can it be read (or written) before that time? */
bool weft_socket_await(int fd, bool write, double until);
/* The same, now. */
bool weft_socket_is_readable(int fd);
/* All n bytes, or false: the connection is of no use any more. more: something follows at once. */
bool weft_socket_send(int fd, const void *data, size_t n, bool more, double until);
bool weft_socket_receive(int fd, void *data, size_t n, double until);
/* For poll: at least one millisecond before that time, 0 after it. */
int weft_socket_ms_until(double until);

#endif
