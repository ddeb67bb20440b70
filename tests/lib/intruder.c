/* SPDX-License-Identifier: Apache-2.0 */
#include "intruder.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
/* last: it needs the headers above */
#include <cmocka.h>

const char *const token = "what all honest ranks know";

static void *join_as_thread(void *arg)
{
    honest *h = arg;
    double from = weft_now();
    h->joined = weft_control_join(&h->join, &h->control, &h->err);
    h->seconds = weft_now() - from;
    return NULL;
}

void honest_run(honest *h)
{
    *h = (honest){.join = h->join};
    assert_int_equal(pthread_create(&h->thread, NULL, join_as_thread, h), 0);
}

void honest_start(honest *h, int rank, int ranks, const char *master, double limit_s)
{
    h->join = (weft_join){
        .rank = rank, .ranks = ranks, .master = master, .token = token, .limit_s = limit_s};
    honest_run(h);
}

void honest_wait(honest *h)
{
    assert_int_equal(pthread_join(h->thread, NULL), 0);
}

void honest_release(honest *h)
{
    weft_control_destroy(h->control);
    weft_error_release(&h->err);
}

void assert_let_in(honest *zero)
{
    honest one;
    honest_start(&one, 1, zero->join.ranks, zero->join.master, 10);
    honest_wait(&one);
    honest_wait(zero);
    assert_string_equal(weft_error_text(&one.err), "");
    assert_string_equal(weft_error_text(&zero->err), "");
    assert_int_equal(one.joined, WEFT_OK);
    assert_int_equal(zero->joined, WEFT_OK);
    assert_true(one.seconds < 3);
    honest_release(&one);
    honest_release(zero);
}

const char *new_name(char master[64])
{
    static int count;
    snprintf(master, 64, "@weft-test-intruder-%ld-%d", (long)getpid(), count++);
    return master;
}

const char *new_address(char master[64])
{
    static int port;
    char why[WEFT_WHY];
    int fd = -1;
    port = port ? port : 30000 + (int)(getpid() % 2500);
    for (int i = 0; i < 50 && fd < 0; i++) {
        snprintf(master, 64, "127.0.0.1:%d", ++port);
        fd = weft_socket_listen(master, 1, why);
    }
    assert_true(fd >= 0);
    close(fd);
    return master;
}

int intruder_connect(const char *master)
{
    char why[WEFT_WHY];
    int fd = -1;
    for (double until = weft_now() + 10; fd < 0 && weft_now() < until;) {
        fd = weft_socket_connect(master, 1, why);
        if (fd < 0)
            usleep(10000);
    }
    assert_true(fd >= 0);
    return fd;
}

bool intruder_introduce(int fd, int rank, int ranks, const char *version, weft_handshake *h,
                        weft_proof *of_rank_0)
{
    const weft_join join = {.rank = rank, .ranks = ranks, .master = "", .token = "", .limit_s = 0};
    double until = weft_now() + 10;
    weft_handshake_init(h, &join);
    memset(h->mine.version, 0, sizeof h->mine.version);
    memcpy(h->mine.version, version, strlen(version));
    return weft_socket_send(fd, &h->mine, sizeof h->mine, false, until) &&
           weft_socket_receive(fd, &h->theirs, sizeof h->theirs, until) &&
           weft_socket_receive(fd, of_rank_0, sizeof *of_rank_0, until);
}

void intruder_trickle(int fd, const void *data, size_t n, double every_s)
{
    const char *bytes = data;
    for (size_t i = 0; i < n; i++) {
        if (send(fd, bytes + i, 1, MSG_NOSIGNAL) != 1)
            return;
        usleep((useconds_t)(1e6 * every_s));
    }
}

bool intruder_is_out(int fd, double limit_s)
{
    char bytes[256];
    for (double until = weft_now() + limit_s; weft_socket_await(fd, false, until);)
        if (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) <= 0)
            return true;
    return false;
}

int impostor_accept(int listener)
{
    return weft_socket_await(listener, false, weft_now() + 10)
               ? accept4(listener, NULL, NULL, SOCK_CLOEXEC)
               : -1;
}
