/* SPDX-License-Identifier: Apache-2.0 */
/* Honest ranks, as threads, and those who would like to be one. Tests of the inner control channel
 * include it after <cmocka.h>'s own headers. */
#ifndef WEFT_TEST_INTRUDER_H
#define WEFT_TEST_INTRUDER_H

#include "net/handshake.h"
#include "net/rendezvous.h"
#include "net/socket.h"

#include <pthread.h>

enum { TEST_LIMIT_S = 100 }; /* of a whole program */

extern const char *const token; /* what honest ranks share */

typedef struct honest {
    weft_join join;
    weft_control *control;
    weft_error err;
    weft_status joined;
    double seconds; /* that joining took */
    pthread_t thread;
} honest;

/* master must live as long. */
void honest_start(honest *h, int rank, int ranks, const char *master, double limit_s);
/* The same for any join, which is set. */
void honest_run(honest *h);
void honest_wait(honest *h);
void honest_release(honest *h);
/* "rank 0", which waits, and rank 1 must now come together, at once. */
void assert_let_in(honest *zero);

/* A name, or an address of TCP, that nobody uses. Returns it. */
const char *new_name(char master[64]);
const char *new_address(char master[64]);

/* Connects as soon as somebody listens. */
int intruder_connect(const char *master);
/* Says that it is this rank, of this version, and takes what rank 0 answers. */
bool intruder_introduce(int fd, int rank, int ranks, const char *version, weft_handshake *h,
                        weft_proof *of_rank_0);
/* Sends n bytes, each that much later than the one before. */
void intruder_trickle(int fd, const void *data, size_t n, double every_s);
/* Has the other side closed the connection within so many seconds? What it says is skipped. */
bool intruder_is_out(int fd, double limit_s);
/* Listens and takes the first that comes; false: nobody came within 10 s. */
int impostor_accept(int listener);

#endif
