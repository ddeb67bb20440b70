/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between ranks: what is altered, repeated, left out or made up on the way is noticed, and
 * who is slow holds up nobody else. WEFT_LONG=1: many more alterations. */
#include "../../lib/intruder.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { MOST = 4096, HEAD = sizeof(weft_message_head) };

static const char text[] = "a verdict, or a part of an INI";

/* Both ends of a connection, and the wire between them. */
typedef struct line {
    weft_link a, b;
    int in, out; /* what a sends comes out of `in`; what is put into `out` comes to b */
} line;

static void lay(line *l)
{
    int left[2], right[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, left), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, right), 0);
    l->a = (weft_link){.fd = left[0], .send_key = "one", .receive_key = "another"};
    l->b = (weft_link){.fd = right[0], .send_key = "another", .receive_key = "one"};
    l->in = left[1];
    l->out = right[1];
}

static void lift(line *l)
{
    weft_link_close(&l->a);
    weft_link_close(&l->b);
    close(l->in);
    close(l->out);
}

/* A message of a as it travels. */
static size_t record(line *l, uint32_t kind, const void *data, size_t n, char *bytes)
{
    size_t whole = HEAD + n + WEFT_MAC_BYTES;
    assert_true(weft_link_send(&l->a, kind, 7, data, n, 5));
    assert_true(weft_socket_receive(l->in, bytes, whole, weft_now() + 5));
    return whole;
}

static void deliver(line *l, const char *bytes, size_t n)
{
    assert_int_equal(send(l->out, bytes, n, MSG_NOSIGNAL), n);
}

/* What b makes of it. */
static bool arrives(line *l, weft_message *m, const char **why)
{
    *why = "";
    return weft_link_receive(&l->b, weft_now() + 5, MOST, m, why);
}

static void assert_well(line *l, uint32_t kind, const char *data, size_t n)
{
    weft_message m;
    const char *why;
    assert_true(arrives(l, &m, &why));
    assert_int_equal(m.kind, kind);
    assert_int_equal(m.tag, 7);
    assert_int_equal(m.n, n);
    if (n)
        assert_memory_equal(m.data, data, n);
    weft_free(m.data);
}

static void assert_noticed(line *l, const char *reason)
{
    weft_message m;
    const char *why;
    assert_false(arrives(l, &m, &why));
    assert_string_equal(why, reason);
    lift(l);
}

static const char *const altered = "its message was altered or made up on the way";
static const char *const strange = "it sent bytes that are not a message of weft";

static void test_order(void **state)
{
    (void)state;
    line l;
    char first[256], second[256], none[256];
    lay(&l);
    size_t n = record(&l, 1, text, sizeof text, first), m = record(&l, 2, text, 5, second),
           k = record(&l, 3, NULL, 0, none);
    deliver(&l, first, n);
    deliver(&l, second, m);
    deliver(&l, none, k);
    assert_well(&l, 1, text, sizeof text);
    assert_well(&l, 2, text, 5);
    assert_well(&l, 3, NULL, 0);
    deliver(&l, none, k); /* once more */
    assert_noticed(&l, altered);

    lay(&l);
    n = record(&l, 1, text, sizeof text, first);
    m = record(&l, 2, text, 5, second);
    deliver(&l, second, m); /* without the first */
    assert_noticed(&l, altered);
}

/* What b sent comes back to it. */
static void test_reflection(void **state)
{
    (void)state;
    line l;
    char bytes[256];
    lay(&l);
    assert_true(weft_link_send(&l.b, 1, 7, text, sizeof text, 5));
    size_t n = HEAD + sizeof text + WEFT_MAC_BYTES;
    assert_true(weft_socket_receive(l.out, bytes, n, weft_now() + 5));
    deliver(&l, bytes, n);
    assert_noticed(&l, altered);
}

static void test_cut_and_oversized(void **state)
{
    (void)state;
    line l;
    char bytes[256];
    lay(&l);
    size_t n = record(&l, 1, text, sizeof text, bytes);
    deliver(&l, bytes, n - 1);
    shutdown(l.out, SHUT_WR);
    assert_noticed(&l, "its connection broke without a message");
    lay(&l);
    weft_message_head head;
    record(&l, 1, text, sizeof text, bytes);
    memcpy(&head, bytes, sizeof head);
    head.bytes = MOST + 1;
    deliver(&l, (const char *)&head, sizeof head);
    assert_noticed(&l, strange);
    lay(&l);
    head.bytes = UINT64_MAX - 8; /* with head and MAC it would be small */
    deliver(&l, (const char *)&head, sizeof head);
    assert_noticed(&l, strange);
    lay(&l);
    head.magic++;
    head.bytes = 0;
    deliver(&l, (const char *)&head, sizeof head);
    assert_noticed(&l, strange);
}

static void test_any_bit(void **state)
{
    (void)state;
    for (size_t bit = 0; bit < 8 * (HEAD + 5 + WEFT_MAC_BYTES); bit++) {
        line l;
        char bytes[256];
        weft_message m;
        const char *why;
        lay(&l);
        size_t n = record(&l, 1, text, 5, bytes);
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
        deliver(&l, bytes, n);
        shutdown(l.out, SHUT_WR);
        assert_false(arrives(&l, &m, &why));
        lift(&l);
    }
}

/* Whatever it is: none goes by without a look at its MAC. */
static void test_any_kind(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < 64; kind++) {
        line l;
        char bytes[256];
        lay(&l);
        size_t n = record(&l, kind, text, kind % 2 ? 5 : 0, bytes);
        bytes[n - 1 - kind % WEFT_MAC_BYTES] ^= 1;
        deliver(&l, bytes, n);
        assert_noticed(&l, altered);
    }
}

/* ---- anything ---- */

static uint64_t dice; /* the same in every run */

static size_t throw(size_t sides)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(dice >> 33) % sides;
}

/* Changes, cuts, repeats, moves; leaves at most `capacity` bytes. */
static size_t spoil(char *bytes, size_t n, size_t capacity)
{
    for (size_t times = 1 + throw(3); times > 0; times--) {
        size_t at = n ? throw(n) : 0, many = n > at ? throw(n - at) + 1 : 0;
        switch (throw(5)) {
        case 0:
            n = at;
            break;
        case 1:
            bytes[at] = (char) throw(256);
            break;
        case 2:
            memmove(bytes + at, bytes + at + many, n - at - many);
            n -= many;
            break;
        case 3:
            if (n + many > capacity)
                break;
            memmove(bytes + at + many, bytes + at, n - at);
            n += many;
            break;
        case 4:
            for (size_t i = 0; i < many; i++)
                bytes[at + i] = (char) throw(256);
        }
    }
    return n;
}

/* Messages of two that follow each other, spoiled together: b takes what is as it was sent, from
 * the front, and nothing else. */
static void test_spoiled_messages(void **state)
{
    (void)state;
    int turns = getenv("WEFT_LONG") ? 100000 : 2000;
    dice = 1;
    for (int turn = 0; turn < turns; turn++) {
        line l;
        char sent[1024], bytes[2048];
        weft_message m;
        const char *why;
        lay(&l);
        size_t first = record(&l, 1, text, throw(sizeof text + 1), sent);
        size_t whole = first + record(&l, 2, text, throw(sizeof text + 1), sent + first);
        memcpy(bytes, sent, whole);
        size_t n = spoil(bytes, whole, sizeof bytes), same = 0;
        while (same < n && same < whole && bytes[same] == sent[same])
            same++;
        int due = (same >= first) + (same >= whole), got = 0;
        deliver(&l, bytes, n);
        shutdown(l.out, SHUT_WR);
        for (; arrives(&l, &m, &why); got++)
            weft_free(m.data);
        assert_int_equal(got, due);
        lift(&l);
    }
}

/* Handshakes that are spoiled anywhere never end rank 0, and never succeed. */
static void test_spoiled_handshakes(void **state)
{
    (void)state;
    int turns = getenv("WEFT_LONG") ? 10000 : 400;
    char master[64];
    honest zero;
    dice = 2;
    honest_start(&zero, 0, 2, new_address(master), 90);
    for (int turn = 0; turn < turns; turn++) {
        struct {
            weft_introduction mine;
            weft_proof proof;
            char more[200];
        } say = {0};
        weft_handshake h;
        weft_proof theirs;
        int fd = intruder_connect(master);
        if (throw(2) == 0) { /* the first thing it says */
            const weft_join join = {.rank = 1, .ranks = 2, .master = "", .token = "", .limit_s = 0};
            weft_handshake_init(&h, &join);
            say.mine = h.mine;
            size_t n = spoil((char *)&say, sizeof say.mine, sizeof say);
            send(fd, &say, n, MSG_NOSIGNAL);
        } else if (intruder_introduce(fd, 1, 2, WEFT_VERSION, &h, &theirs)) {
            weft_handshake_prove(&h, token, &say.proof);
            weft_proof right = say.proof;
            size_t n = spoil((char *)&say.proof, sizeof say.proof, sizeof say.proof + 100);
            if (n < sizeof right || memcmp(&right, &say.proof, sizeof right) != 0)
                send(fd, &say.proof, n, MSG_NOSIGNAL);
        }
        close(fd);
    }
    assert_let_in(&zero);
}

/* ---- too slow ---- */

static void test_limit_of_a_whole_message(void **state)
{
    (void)state;
    line l;
    char bytes[256];
    weft_message m;
    const char *why;
    lay(&l);
    record(&l, 1, text, sizeof text, bytes);
    double from = weft_now(), until = from + 0.5;
    for (size_t i = 0; i < 3; i++) /* never long without one */
        deliver(&l, bytes + i, 1);
    assert_false(weft_link_receive(&l.b, until, MOST, &m, &why));
    assert_string_equal(why, "it does not answer");
    assert_true(weft_now() - from < 2);
    lift(&l);
    /* somebody who does not read */
    char *much = weft_alloc_zero(1, 1 << 24);
    lay(&l);
    from = weft_now();
    assert_false(weft_link_send(&l.a, 1, 7, much, 1 << 24, 0.5));
    assert_true(weft_now() - from < 2);
    weft_free(much);
    lift(&l);
}

/* A rank whose message does not come to its end does not hide what another one says. */
static void test_one_trickles_after_joining(void **state)
{
    (void)state;
    enum { RANKS = 4 };
    char master[64], mine = 0, all[RANKS];
    honest list[RANKS - 1];
    const weft_join join = {
        .rank = 3, .ranks = RANKS, .master = new_name(master), .token = token, .limit_s = 10};
    weft_link link;
    weft_error err = {0};
    for (int i = 0; i < RANKS - 1; i++)
        honest_start(&list[i], i, RANKS, master, 10);
    assert_int_equal(weft_rendezvous(&join, &link, &err), WEFT_OK);
    for (int i = 0; i < RANKS - 1; i++)
        honest_wait(&list[i]);
    assert_int_equal(send(link.fd, "wf", 2, MSG_NOSIGNAL), 2);
    usleep(200000); /* rank 0 has read that */
    double from = weft_now();
    weft_control_leave(list[2].control, 2, WEFT_ERR_RUN, "the loss is NaN");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            weft_control_exchange_within(list[i].control, i, 20, &mine, 1, all, &list[i].err),
            WEFT_ERR_PEER);
        assert_string_equal(weft_error_text(&list[i].err), "rank 2 has ended: the loss is NaN");
    }
    assert_true(weft_now() - from < 5);
    weft_link_close(&link);
    for (int i = 0; i < RANKS - 1; i++)
        honest_release(&list[i]);
}

/* In the long run only: the limit is a minute. */
static void test_a_message_without_end(void **state)
{
    (void)state;
    char master[64], mine = 0, all[2];
    honest zero;
    const weft_join join = {
        .rank = 1, .ranks = 2, .master = new_name(master), .token = token, .limit_s = 10};
    weft_link link;
    weft_error err = {0};
    if (!getenv("WEFT_LONG"))
        return;
    honest_start(&zero, 0, 2, master, 10);
    assert_int_equal(weft_rendezvous(&join, &link, &err), WEFT_OK);
    honest_wait(&zero);
    assert_int_equal(send(link.fd, "wf", 2, MSG_NOSIGNAL), 2);
    double from = weft_now();
    assert_int_equal(weft_control_exchange(zero.control, 0, &mine, 1, all, &zero.err),
                     WEFT_ERR_PEER);
    assert_non_null(strstr(weft_error_text(&zero.err), "its message did not come as a whole"));
    assert_true(weft_now() - from < 70);
    weft_link_close(&link);
    honest_release(&zero);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_reflection),
        cmocka_unit_test(test_cut_and_oversized),
        cmocka_unit_test(test_any_bit),
        cmocka_unit_test(test_any_kind),
        cmocka_unit_test(test_spoiled_messages),
        cmocka_unit_test(test_spoiled_handshakes),
        cmocka_unit_test(test_limit_of_a_whole_message),
        cmocka_unit_test(test_one_trickles_after_joining),
        cmocka_unit_test(test_a_message_without_end),
    };
    alarm(getenv("WEFT_LONG") ? 6 * TEST_LIMIT_S : TEST_LIMIT_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
