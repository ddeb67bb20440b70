/* SPDX-License-Identifier: Apache-2.0 */
/* Somebody where rank 0 should be: honest ranks tell it nothing of use, take nothing from it, and
 * end in time, with a word about why. */
#include "../../lib/intruder.h"
#include "net/agree.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { NOBODY = 65534, MOST_HEARD = 512 };

static const char ini[] = "[weft]\nplugin_path = /tmp/evil\nplugins = evil\n";

static int listen_there(const char *master)
{
    char why[WEFT_WHY];
    int fd = weft_socket_listen(master, 10, why);
    assert_true(fd >= 0);
    return fd;
}

/* Rank 1 has ended with this status and a text that contains `text`. */
static void assert_turned_off(honest *one, const char *text)
{
    honest_wait(one);
    assert_int_equal(one->joined, WEFT_ERR_PEER);
    assert_null(one->control);
    assert_non_null(strstr(weft_error_text(&one->err), text));
    assert_null(strstr(weft_error_text(&one->err), token));
    honest_release(one);
}

/* All that an honest rank says before it knows who is there. */
static size_t hear(int fd, char *heard)
{
    size_t n = 0;
    ssize_t got = 1;
    for (double until = weft_now() + 2; got > 0 && n < MOST_HEARD;) {
        if (!weft_socket_await(fd, false, until))
            break;
        got = recv(fd, heard + n, MOST_HEARD - n, 0);
        n += got > 0 ? (size_t)got : 0;
    }
    return n;
}

/* It says that all is well and sends an INI, and then one that is well-formed as far as that goes
 * without the token. */
static void test_sends_before_proving(void **state)
{
    (void)state;
    char master[64], heard[MOST_HEARD];
    honest one;
    int listener = listen_there(new_address(master));
    honest_start(&one, 1, 2, master, 1);
    int fd = impostor_accept(listener);
    assert_true(fd >= 0);
    weft_link link = {.fd = fd}; /* keys of zeros */
    weft_link_send(&link, WEFT_WELCOME, 0, NULL, 0, 1);
    weft_link_send(&link, 17, 2, ini, sizeof ini, 1);
    size_t n = hear(fd, heard);
    assert_int_equal(n, sizeof(weft_introduction));
    for (size_t i = 0; i + strlen(token) <= n; i++)
        assert_memory_not_equal(heard + i, token, strlen(token));
    close(fd);
    close(listener);
    assert_turned_off(&one, "rank 1 did not find rank 0 within 1 s");
}

/* Goes on from a right introduction with a proof that is made like this. */
static void pretend(const weft_handshake *h, int how, weft_proof *out)
{
    memset(out, 0, sizeof *out);
    if (how == 1)
        weft_handshake_prove(h, "", out);
    if (how == 2)
        weft_handshake_prove(h, "a guess of what they know", out);
    if (how == 3)
        memcpy(out, h->theirs.nonce, sizeof *out);
}

static void test_guessed_proofs(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        char master[64], heard[MOST_HEARD];
        const weft_join join = {.rank = 0, .ranks = 2, .master = "", .token = "", .limit_s = 0};
        honest one;
        weft_handshake h;
        weft_proof proof;
        double until = weft_now() + 5;
        int listener = listen_there(new_address(master));
        honest_start(&one, 1, 2, master, 5);
        int fd = impostor_accept(listener);
        weft_handshake_init(&h, &join);
        assert_true(weft_socket_receive(fd, &h.theirs, sizeof h.theirs, until));
        pretend(&h, how, &proof);
        assert_true(weft_socket_send(fd, &h.mine, sizeof h.mine, false, until));
        assert_true(weft_socket_send(fd, &proof, sizeof proof, false, until));
        assert_int_equal(hear(fd, heard), 0); /* not even its own proof, which could be tried out */
        close(fd);
        close(listener);
        assert_turned_off(&one, "rank 1 does not trust the process at ");
    }
}

/* It has everything from rank 1 itself, or from rank 0 at another time. */
static void test_reflection_and_replay(void **state)
{
    (void)state;
    char master[64], place[64], heard[MOST_HEARD];
    honest zero, one;
    weft_handshake old, h;
    weft_proof proof;
    double until = weft_now() + 5;
    honest_start(&zero, 0, 2, new_address(place), 10);
    int fd = intruder_connect(place);
    assert_true(intruder_introduce(fd, 1, 2, WEFT_VERSION, &old, &proof));
    close(fd);
    for (int replay = 0; replay < 2; replay++) {
        int listener = listen_there(new_address(master));
        honest_start(&one, 1, 2, master, 5);
        fd = impostor_accept(listener);
        assert_true(weft_socket_receive(fd, &h.theirs, sizeof h.theirs, until));
        h.mine = replay ? old.theirs : h.theirs;
        assert_true(weft_socket_send(fd, &h.mine, sizeof h.mine, false, until));
        assert_true(weft_socket_send(fd, &proof, sizeof proof, false, until));
        assert_int_equal(hear(fd, heard), 0);
        close(fd);
        close(listener);
        assert_turned_off(&one, "rank 1 does not trust the process at ");
    }
    assert_let_in(&zero);
}

/* ---- in time ---- */

static void test_says_nothing(void **state)
{
    (void)state;
    char master[64];
    honest one;
    int listener = listen_there(new_address(master));
    honest_start(&one, 1, 2, master, 1);
    honest_wait(&one);
    assert_true(one.seconds < 1 + WEFT_HANDSHAKE_LIMIT_S + 1);
    assert_int_equal(one.joined, WEFT_ERR_PEER);
    assert_non_null(strstr(weft_error_text(&one.err), "it does not answer"));
    honest_release(&one);
    close(listener);
}

static void *join_late(void *arg)
{
    honest_wait(arg);
    return NULL;
}

static void test_trickles(void **state)
{
    (void)state;
    char master[64];
    const weft_join join = {.rank = 0, .ranks = 2, .master = "", .token = "", .limit_s = 0};
    honest one;
    weft_handshake h;
    pthread_t waiter;
    int listener = listen_there(new_address(master));
    weft_handshake_init(&h, &join);
    honest_start(&one, 1, 2, master, 1);
    int fd = impostor_accept(listener);
    assert_int_equal(pthread_create(&waiter, NULL, join_late, &one), 0);
    intruder_trickle(fd, &h.mine, sizeof h.mine, 0.3); /* ends when rank 1 does */
    close(fd);
    close(listener);
    assert_int_equal(pthread_join(waiter, NULL), 0);
    assert_true(one.seconds < 1 + WEFT_HANDSHAKE_LIMIT_S + 1);
    assert_int_equal(one.joined, WEFT_ERR_PEER);
    honest_release(&one);
}

/* ---- between the two ---- */

typedef struct relay {
    int from, to;
    size_t alter_at; /* this byte of what passes */
} relay;

static void *pass_on(void *arg)
{
    relay *r = arg;
    unsigned char bytes[4096];
    size_t passed = 0;
    for (ssize_t n; (n = recv(r->from, bytes, sizeof bytes, 0)) > 0; passed += (size_t)n) {
        if (r->alter_at >= passed && r->alter_at < passed + (size_t)n)
            bytes[r->alter_at - passed] ^= 1;
        if (send(r->to, bytes, (size_t)n, MSG_NOSIGNAL) != n)
            break;
    }
    shutdown(r->to, SHUT_WR);
    return NULL;
}

static void *broadcast(void *arg)
{
    honest *h = arg;
    weft_text text = {0};
    weft_text_add(&text, h->join.rank == 0 ? "[weft]\nplugins = cpu\n" : "");
    if (!h->joined)
        h->joined = weft_control_broadcast(h->control, h->join.rank, &text, &h->err);
    weft_text_release(&text);
    return NULL;
}

/* Rank 1 meets rank 0 by way of somebody who passes everything on, but for one byte from rank 0. */
static void relayed(size_t alter_at, honest *zero, honest *one)
{
    char inner[64], outer[64];
    pthread_t threads[4];
    int listener = listen_there(new_address(outer));
    honest_start(zero, 0, 2, new_address(inner), 8);
    honest_start(one, 1, 2, outer, 1);
    int guest = impostor_accept(listener), host = intruder_connect(inner);
    relay up = {guest, host, SIZE_MAX}, down = {host, guest, alter_at};
    close(listener);
    assert_int_equal(pthread_create(&threads[0], NULL, pass_on, &up), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, pass_on, &down), 0);
    honest_wait(one);
    if (one->joined) { /* rank 0 need not wait for it */
        honest again;
        honest_start(&again, 1, 2, inner, 1);
        honest_wait(&again);
        honest_release(&again);
    }
    honest_wait(zero);
    assert_int_equal(pthread_create(&threads[2], NULL, broadcast, zero), 0);
    assert_int_equal(pthread_create(&threads[3], NULL, broadcast, one), 0);
    for (int i = 2; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    weft_control_destroy(zero->control);
    weft_control_destroy(one->control);
    zero->control = one->control = NULL;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    close(guest);
    close(host);
}

static void test_relay(void **state)
{
    (void)state;
    enum {
        CHALLENGE = sizeof(weft_introduction) + sizeof(weft_proof),
        WELCOME = sizeof(weft_message_head) + 2 * WEFT_HOST_BYTES + WEFT_MAC_BYTES
    };
    honest zero, one;
    relayed(SIZE_MAX, &zero, &one);
    assert_int_equal(zero.joined, WEFT_OK);
    assert_int_equal(one.joined, WEFT_OK); /* whoever changes nothing is no more than a wire */
    honest_release(&zero);
    honest_release(&one);
    /* the ranks that rank 0 was told of; its proof; a character of the INI */
    static const size_t places[] = {8, CHALLENGE - 1,
                                    CHALLENGE + WELCOME + sizeof(weft_message_head) + 3};
    for (int i = 0; i < 3; i++) {
        relayed(places[i], &zero, &one);
        assert_int_equal(one.joined, WEFT_ERR_PEER);
        assert_non_null(strstr(weft_error_text(&one.err),
                               i < 2 ? "does not trust the process at "
                                     : "its message was altered or made up on the way"));
        honest_release(&zero);
        honest_release(&one);
    }
}

/* ---- another user's ---- */

static void test_other_user(void **state)
{
    (void)state;
    char master[64];
    honest one;
    int ends[2], status;
    char ready = 0;
    if (geteuid() != 0)
        return;
    new_name(master);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        char why[WEFT_WHY];
        int listener = setuid(NOBODY) == 0 ? weft_socket_listen(master, 1, why) : -1;
        if (listener < 0 || write(ends[1], &ready, 1) != 1)
            _exit(2);
        int fd = impostor_accept(listener);
        _exit(fd >= 0 && recv(fd, &ready, 1, 0) <= 0 ? 0 : 1); /* it hears nothing */
    }
    assert_int_equal(read(ends[0], &ready, 1), 1);
    honest_start(&one, 1, 2, master, 5);
    assert_turned_off(&one, "it runs as user 65534, and this rank as user 0");
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sends_before_proving),
        cmocka_unit_test(test_guessed_proofs),
        cmocka_unit_test(test_reflection_and_replay),
        cmocka_unit_test(test_says_nothing),
        cmocka_unit_test(test_trickles),
        cmocka_unit_test(test_relay),
        cmocka_unit_test(test_other_user),
    };
    alarm(TEST_LIMIT_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
