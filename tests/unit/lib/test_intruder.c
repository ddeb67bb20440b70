/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 and those who connect to it without belonging to the run: none of them gets in, ends the
 * run, or keeps an honest rank waiting. */
#include "../../lib/intruder.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/random.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { IDLE = 300, NOBODY = 65534 };

static const weft_introduction nothing;

/* ---- who says nothing, or too slowly ---- */

static void test_idle_connections(void **state)
{
    (void)state;
    char master[64];
    honest zero;
    int fds[IDLE];
    honest_start(&zero, 0, 2, new_address(master), 20);
    for (int i = 0; i < IDLE; i++)
        fds[i] = intruder_connect(master);
    assert_let_in(&zero);
    for (int i = 0; i < IDLE; i++)
        close(fds[i]);
}

typedef struct trickler {
    pthread_t thread;
    int fd;
    weft_introduction what;
} trickler;

static void *trickle_as_thread(void *arg)
{
    const trickler *t = arg;
    intruder_trickle(t->fd, &t->what, sizeof t->what, 0.3);
    return NULL;
}

static void trickle(trickler *t, const char *master)
{
    const weft_join join = {.rank = 1, .ranks = 2, .master = "", .token = "", .limit_s = 0};
    weft_handshake h;
    weft_handshake_init(&h, &join);
    t->what = h.mine;
    t->fd = intruder_connect(master);
    assert_int_equal(pthread_create(&t->thread, NULL, trickle_as_thread, t), 0);
}

static void test_trickle_delays_nobody(void **state)
{
    (void)state;
    char master[64];
    honest zero;
    trickler list[3];
    honest_start(&zero, 0, 2, new_address(master), 20);
    for (int i = 0; i < 3; i++)
        trickle(&list[i], master);
    assert_let_in(&zero);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(list[i].thread, NULL), 0);
        close(list[i].fd);
    }
}

/* Every byte is in time, the whole is not: neither the connection's limit nor rank 0's own moves.
 */
static void test_trickle_has_an_end(void **state)
{
    (void)state;
    char master[64];
    honest zero;
    trickler t;
    double from = weft_now();
    honest_start(&zero, 0, 2, new_address(master), WEFT_HANDSHAKE_LIMIT_S + 1.5);
    trickle(&t, master);
    assert_true(intruder_is_out(t.fd, WEFT_HANDSHAKE_LIMIT_S + 1));
    assert_true(weft_now() - from > WEFT_HANDSHAKE_LIMIT_S - 1);
    trickler second;
    trickle(&second, master);
    honest_wait(&zero);
    assert_int_equal(zero.joined, WEFT_ERR_PEER);
    assert_true(zero.seconds < WEFT_HANDSHAKE_LIMIT_S + 3);
    assert_non_null(strstr(weft_error_text(&zero.err), "rank 1 of 2 did not reach rank 0"));
    assert_non_null(
        strstr(weft_error_text(&zero.err),
               "of those that connected 1 was sent away: it did not identify itself in time"));
    honest_release(&zero);
    shutdown(t.fd, SHUT_RDWR);
    assert_int_equal(pthread_join(t.thread, NULL), 0);
    assert_int_equal(pthread_join(second.thread, NULL), 0);
    close(t.fd);
    close(second.fd);
}

/* ---- who says the wrong thing ---- */

static void test_garbage(void **state)
{
    (void)state;
    char master[64];
    static const char text[300] = "GET / HTTP/1.1\r\n\r\n";
    honest zero;
    honest_start(&zero, 0, 2, new_address(master), 20);
    int cut = intruder_connect(master), web = intruder_connect(master);
    assert_int_equal(send(cut, &nothing, sizeof nothing / 2, MSG_NOSIGNAL), sizeof nothing / 2);
    close(cut);
    assert_int_equal(send(web, text, sizeof text, MSG_NOSIGNAL), sizeof text);
    assert_true(intruder_is_out(web, 2));
    close(web);
    /* what follows the introduction is taken for the proof, whatever its length */
    const weft_join join = {.rank = 1, .ranks = 2, .master = "", .token = "", .limit_s = 0};
    struct {
        weft_handshake h;
        char more[2000];
    } much = {0};
    weft_handshake_init(&much.h, &join);
    int oversized = intruder_connect(master);
    assert_int_equal(send(oversized, &much, sizeof much, MSG_NOSIGNAL), sizeof much);
    assert_true(intruder_is_out(oversized, 2));
    close(oversized);
    assert_let_in(&zero);
}

/* Who does not know the token may say what it likes about itself. */
/* Whatever lies in the way of honest ranks: seed and number make it again. */
typedef struct noise {
    uint64_t seed, n;
} noise;

static uint64_t below(noise *r, uint64_t limit)
{
    return weft_random_bits(r->seed, 31, r->n++) % limit;
}

static void send_noise(noise *r, int fd, const char *master)
{
    char bytes[2 * sizeof(weft_introduction)];
    const weft_join join = {.rank = 1, .ranks = 2, .master = master, .token = "", .limit_s = 0};
    size_t size = below(r, sizeof bytes + 1);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)below(r, 256);
    if (below(r, 2)) { /* all but right */
        weft_handshake h;
        weft_handshake_init(&h, &join);
        memcpy(bytes, &h.mine, sizeof h.mine);
        bytes[below(r, sizeof h.mine)] ^= (char)(1 + below(r, 255));
        size = below(r, 2) ? size : sizeof bytes;
    }
    for (size_t at = 0, part; at < size; at += part) {
        part = below(r, 4) ? size - at : 1 + below(r, size - at);
        if (send(fd, bytes + at, part, MSG_NOSIGNAL) < 0)
            return; /* it has been sent away */
    }
}

/* Half of it is closed, all of it, all of it without a word, or it stays open. */
static void leave(noise *r, int fd)
{
    const struct linger reset = {.l_onoff = 1};
    const uint64_t how = below(r, 4);
    if (how == 0)
        shutdown(fd, SHUT_WR);
    else if (how == 1)
        shutdown(fd, SHUT_RDWR);
    else if (how == 2)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

static void test_random_bytes(void **state)
{
    enum { ROUNDS = 12, STRANGERS = 40 };
    (void)state;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        char master[64];
        honest zero;
        int fds[STRANGERS];
        noise r = {.seed = seed};
        honest_start(&zero, 0, 2, new_address(master), 20);
        for (int i = 0; i < STRANGERS; i++) {
            fds[i] = intruder_connect(master);
            send_noise(&r, fds[i], master);
            const bool stays = below(&r, 2);
            leave(&r, fds[i]);
            if (!stays) {
                close(fds[i]);
                fds[i] = -1;
            }
        }
        assert_let_in(&zero);
        for (int i = 0; i < STRANGERS; i++)
            if (fds[i] >= 0)
                close(fds[i]);
    }
}

static void test_guessed_proofs(void **state)
{
    (void)state;
    static const struct {
        int rank, ranks;
        const char *version;
    } claims[] = {{1, 2, WEFT_VERSION}, {0, 2, WEFT_VERSION},    {-1, 2, WEFT_VERSION},
                  {2, 2, WEFT_VERSION}, {1, 1000, WEFT_VERSION}, {1, 2, "9.9.9"}};
    char master[64];
    honest zero;
    honest_start(&zero, 0, 2, new_address(master), 20);
    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++) {
        int fd = intruder_connect(master);
        weft_handshake h;
        weft_proof theirs, guess;
        assert_true(intruder_introduce(fd, claims[i].rank, claims[i].ranks, claims[i].version, &h,
                                       &theirs));
        weft_handshake_prove(&h, "a guess of what they know", &guess);
        assert_true(weft_socket_send(fd, &guess, sizeof guess, false, weft_now() + 5));
        assert_true(intruder_is_out(fd, 2));
        close(fd);
    }
    assert_let_in(&zero);
}

/* Rank 0's own proof comes back, with its own introduction even. */
static void test_reflection(void **state)
{
    (void)state;
    char master[64];
    honest zero;
    weft_handshake h, again;
    weft_proof theirs;
    honest_start(&zero, 0, 2, new_address(master), 20);
    int fd = intruder_connect(master), other = intruder_connect(master);
    assert_true(intruder_introduce(fd, 1, 2, WEFT_VERSION, &h, &theirs));
    again = (weft_handshake){.mine = h.theirs};
    double until = weft_now() + 5;
    assert_true(weft_socket_send(other, &again.mine, sizeof again.mine, false, until));
    assert_true(weft_socket_receive(other, &again.theirs, sizeof again.theirs, until));
    assert_true(weft_socket_send(other, &theirs, sizeof theirs, false, until));
    assert_true(intruder_is_out(other, 2));
    assert_true(weft_socket_send(fd, &theirs, sizeof theirs, false, until));
    assert_true(intruder_is_out(fd, 2));
    close(fd);
    close(other);
    assert_let_in(&zero);
}

/* What an honest rank sent once is sent again. */
static void test_replay(void **state)
{
    (void)state;
    char first[64], second[64];
    honest zero;
    weft_handshake h;
    weft_proof theirs, proof;
    double until = weft_now() + 10;
    honest_start(&zero, 0, 2, new_address(first), 20);
    int fd = intruder_connect(first);
    assert_true(intruder_introduce(fd, 1, 2, WEFT_VERSION, &h, &theirs));
    weft_handshake_prove(&h, token, &proof);
    assert_true(weft_socket_send(fd, &proof, sizeof proof, false, until));
    honest_wait(&zero);
    assert_int_equal(zero.joined, WEFT_OK); /* it was good there */
    close(fd);
    honest_release(&zero);
    honest_start(&zero, 0, 2, new_address(second), 20);
    fd = intruder_connect(second);
    assert_true(weft_socket_send(fd, &h.mine, sizeof h.mine, false, until));
    assert_true(weft_socket_send(fd, &proof, sizeof proof, false, until));
    assert_true(intruder_is_out(fd, 2));
    close(fd);
    assert_let_in(&zero);
}

static void test_old_token_is_told(void **state)
{
    (void)state;
    char master[64];
    honest zero, one = {0};
    honest_start(&zero, 0, 2, new_address(master), 1);
    one.join = (weft_join){
        .rank = 1, .ranks = 2, .master = master, .token = "that of another run", .limit_s = 10};
    assert_int_equal(weft_control_join(&one.join, &one.control, &one.err), WEFT_ERR_PEER);
    honest_wait(&zero);
    assert_non_null(strstr(weft_error_text(&one.err), "rank 1 does not trust the process at "));
    assert_non_null(strstr(weft_error_text(&one.err), "its token (WEFT_TOKEN, WEFT_TOKEN_FILE)"));
    assert_int_equal(zero.joined, WEFT_ERR_PEER);
    assert_non_null(strstr(weft_error_text(&zero.err), "its token (WEFT_TOKEN, WEFT_TOKEN_FILE)"));
    honest_release(&zero);
    honest_release(&one);
}

/* ---- who belongs to us, and does not fit ---- */

/* Rank 0 of two ends with this text. */
static void assert_misfit(int rank, int ranks, const char *version, const char *text)
{
    char master[64];
    honest zero;
    weft_handshake h;
    weft_proof theirs, proof;
    weft_link link;
    weft_message m;
    const char *why;
    honest_start(&zero, 0, 2, new_address(master), 20);
    int fd = intruder_connect(master);
    double until = weft_now() + 5;
    assert_true(intruder_introduce(fd, rank, ranks, version, &h, &theirs));
    assert_true(weft_handshake_check(&h, token, &theirs));
    weft_handshake_prove(&h, token, &proof);
    weft_handshake_finish(&h, token, fd, &link);
    assert_true(weft_socket_send(fd, &proof, sizeof proof, false, until));
    assert_true(weft_link_receive(&link, until, WEFT_WHY, &m, &why));
    assert_int_equal(m.kind, WEFT_REFUSED);
    assert_int_equal(m.n, strlen(text));
    assert_memory_equal(m.data, text, m.n);
    weft_free(m.data);
    weft_link_close(&link);
    honest_wait(&zero);
    assert_int_equal(zero.joined, WEFT_ERR_INPUT);
    assert_string_equal(weft_error_text(&zero.err), text);
    honest_release(&zero);
}

static void test_misfits(void **state)
{
    (void)state;
    assert_misfit(-1, 2, WEFT_VERSION,
                  "a process says that it is rank -1; 2 ranks are numbered from 0 to 1");
    assert_misfit(2, 2, WEFT_VERSION,
                  "a process says that it is rank 2; 2 ranks are numbered from 0 to 1");
    assert_misfit(1, 3, WEFT_VERSION, "rank 1 was told of 3 ranks, rank 0 of 2");
    assert_misfit(1, 2, "9.9.9", "rank 1 is weft 9.9.9, rank 0 is weft " WEFT_VERSION);
}

static void test_duplicate(void **state)
{
    (void)state;
    char master[64];
    honest list[3];
    new_address(master);
    honest_start(&list[0], 0, 3, master, 20);
    for (int i = 1; i < 3; i++)
        honest_start(&list[i], 1, 3, master, 1);
    for (int i = 0; i < 3; i++)
        honest_wait(&list[i]);
    assert_int_equal(list[0].joined, WEFT_ERR_INPUT);
    assert_string_equal(weft_error_text(&list[0].err), "two processes say that they are rank 1");
    for (int i = 1; i < 3; i++)
        assert_non_null(strstr(weft_error_text(&list[i].err),
                               "rank 1 was turned away by rank 0: two processes say that they are "
                               "rank 1"));
    for (int i = 0; i < 3; i++)
        honest_release(&list[i]);
}

/* ---- who is somebody else ---- */

/* Another user, who knows the token even, goes through the handshake at a name. Returns its pid. */
static pid_t join_as_nobody(const char *master)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    weft_link link;
    weft_error err = {0};
    const weft_join join = {.rank = 1, .ranks = 2, .master = master, .token = token, .limit_s = 1};
    if (setuid(NOBODY) != 0)
        _exit(3);
    weft_status s = weft_rendezvous(&join, &link, &err);
    bool told = strstr(weft_error_text(&err), "it runs as user 0, and this rank as user 65534");
    _exit(s == WEFT_OK ? 1 : told ? 0 : 2);
}

/* One who does not look at who rank 0 is. */
static pid_t push_as_nobody(const char *master)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    weft_handshake h;
    weft_proof theirs;
    char why[WEFT_WHY];
    int fd = setuid(NOBODY) == 0 ? weft_socket_connect(master, 1, why) : -1;
    _exit(fd < 0 ? 3 : intruder_introduce(fd, 1, 2, WEFT_VERSION, &h, &theirs) ? 1 : 0);
}

static void test_other_user(void **state)
{
    (void)state;
    char master[64];
    honest zero;
    int status, pushed;
    if (geteuid() != 0)
        return;
    honest_start(&zero, 0, 2, new_name(master), 20);
    close(intruder_connect(master)); /* it listens */
    pid_t child = join_as_nobody(master), other = push_as_nobody(master);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(waitpid(other, &pushed, 0), other);
    assert_true(WIFEXITED(status) && WIFEXITED(pushed));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(WEXITSTATUS(pushed), 0);
    assert_let_in(&zero);
    /* nobody else comes */
    honest_start(&zero, 0, 2, new_name(master), 1);
    int fd = intruder_connect(master);
    assert_int_equal(send(fd, &nothing, sizeof nothing, MSG_NOSIGNAL), sizeof nothing);
    assert_true(intruder_is_out(fd, 1));
    close(fd);
    other = push_as_nobody(master);
    assert_int_equal(waitpid(other, &pushed, 0), other);
    honest_wait(&zero);
    assert_non_null(
        strstr(weft_error_text(&zero.err), "it runs as user 65534, and this rank as user 0"));
    honest_release(&zero);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_connections),   cmocka_unit_test(test_trickle_delays_nobody),
        cmocka_unit_test(test_trickle_has_an_end), cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_random_bytes),       cmocka_unit_test(test_guessed_proofs),
        cmocka_unit_test(test_reflection),         cmocka_unit_test(test_replay),
        cmocka_unit_test(test_old_token_is_told),  cmocka_unit_test(test_misfits),
        cmocka_unit_test(test_duplicate),          cmocka_unit_test(test_other_user),
    };
    alarm(TEST_LIMIT_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
