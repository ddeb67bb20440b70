/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0, or another rank, and somebody who has the token and has joined: what it says afterwards
 * is made up, comes byte by byte, is cut off, or does not come at all. */
#include "../../lib/intruder.h"
#include "execute/control_kind.h"
#include "net/agree.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weft/random.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { DATA = 16, LEFT = 18, KINDS = 32 }; /* as in control_tcp.c */

/* An honest rank of two, and the other one's end of their connection. */
typedef struct couple {
    honest one;
    int other; /* the rank of who holds the link */
    weft_link links[2], *link;
    weft_verdict why; /* that the honest one's channel told it */
    bool lost;
    pthread_mutex_t lock;
} couple;

static void note_lost(void *ctx, const weft_verdict *why)
{
    couple *c = ctx;
    pthread_mutex_lock(&c->lock);
    c->lost = true;
    c->why = *why;
    pthread_mutex_unlock(&c->lock);
}

static bool await_lost(couple *c, double limit_s)
{
    bool lost = false;
    for (double until = weft_now() + limit_s; !lost && weft_now() < until; usleep(10000)) {
        pthread_mutex_lock(&c->lock);
        lost = c->lost;
        pthread_mutex_unlock(&c->lock);
    }
    return lost;
}

/* patience_s: rank 0's, whoever that is. */
static void meet(couple *c, int other, double patience_s)
{
    char master[64];
    weft_error err = {0};
    double elsewhere_s = 1000, *honest_s = other ? &patience_s : &elsewhere_s;
    memset(c, 0, sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    c->other = other;
    c->link = &c->links[other ? 0 : 1];
    new_name(master);
    const weft_join join = {.rank = other,
                            .ranks = 2,
                            .master = master,
                            .token = token,
                            .limit_s = 10,
                            .patience_s = other ? &elsewhere_s : &patience_s};
    c->one.join = (weft_join){.rank = !other,
                              .ranks = 2,
                              .master = master,
                              .token = token,
                              .limit_s = 10,
                              .patience_s = honest_s,
                              .lost = note_lost,
                              .ctx = c};
    honest_run(&c->one);
    assert_int_equal(weft_rendezvous(&join, c->links, &err), WEFT_OK);
    honest_wait(&c->one);
    assert_int_equal(c->one.joined, WEFT_OK);
}

static void part(couple *c)
{
    weft_link_close(c->link);
    honest_release(&c->one);
    pthread_mutex_destroy(&c->lock);
}

/* ---- made up ---- */

/* Of any kind, be it a farewell, a message whose MAC is wrong ends the run. */
static void test_forged(void **state)
{
    (void)state;
    for (int other = 0; other < 2; other++)
        for (uint32_t kind = 0; kind < KINDS; kind++) {
            couple c;
            meet(&c, other, 1000);
            c.link->send_key[0] ^= 1;
            assert_true(weft_link_send(c.link, kind, 0, NULL, 0, 5));
            assert_true(await_lost(&c, 5));
            assert_int_equal(c.why.rank, other);
            assert_int_equal(c.why.status, WEFT_ERR_PEER);
            assert_non_null(strstr(c.why.text, "its message was altered or made up on the way"));
            part(&c);
        }
}

/* Bytes of a seed in place of messages, or a head that could be one and then such bytes; the
 * connection ends, or half of it, or stays: whoever reads them says whose they were, and nobody
 * waits. */
static void test_random_bytes(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        couple c;
        char bytes[3000];
        uint64_t n = 0;
        meet(&c, seed % 2, 1000);
        const size_t size = weft_random_bits(seed, 32, n++) % sizeof bytes;
        for (size_t i = 0; i < size; i++)
            bytes[i] = (char)weft_random_bits(seed, 32, n++);
        if (seed % 3 == 0) /* a head that could be one */
            memset(bytes, 0, sizeof(weft_message_head) < size ? sizeof(weft_message_head) : size);
        (void)!send(c.link->fd, bytes, size, MSG_NOSIGNAL);
        if (seed % 4 < 2)
            shutdown(c.link->fd, SHUT_WR);
        else if (size < sizeof(weft_message_head))
            shutdown(c.link->fd, SHUT_RDWR);
        const bool told = size > 4 * sizeof(weft_message_head) || seed % 4 < 2;
        if (told && !await_lost(&c, 10))
            fail_msg("seed %d: nobody is told of %d bytes", (int)seed, (int)size);
        if (told)
            assert_int_equal(c.why.rank, (int)(seed % 2));
        part(&c);
    }
}

/* ---- byte by byte ---- */

/* A message as it travels. */
static size_t record(weft_link *link, uint32_t kind, uint64_t tag, const void *data, size_t n,
                     char *bytes)
{
    int ends[2], fd = link->fd;
    size_t whole = sizeof(weft_message_head) + n + WEFT_MAC_BYTES;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    link->fd = ends[0];
    assert_true(weft_link_send(link, kind, tag, data, n, 5));
    assert_true(weft_socket_receive(ends[1], bytes, whole, weft_now() + 5));
    link->fd = fd;
    close(ends[0]);
    close(ends[1]);
    return whole;
}

typedef struct exchange {
    pthread_t thread;
    couple *c;
    char mine[8], all[16];
    weft_status s;
} exchange;

static void *exchange_as_thread(void *arg)
{
    exchange *e = arg;
    honest *h = &e->c->one;
    e->s = weft_control_exchange(h->control, 0, e->mine, sizeof e->mine, e->all, &h->err);
    return NULL;
}

/* What comes slowly, one after the other, is what was sent; what is answered is, too. */
static void test_trickle_arrives(void **state)
{
    (void)state;
    couple c;
    meet(&c, 1, 1000);
    for (int i = 0; i < 3; i++) {
        exchange e = {.c = &c, .mine = "rank  0"};
        char bytes[256], theirs[8] = "rank 1 ";
        weft_message m;
        const char *why;
        theirs[7] = (char)i;
        assert_int_equal(pthread_create(&e.thread, NULL, exchange_as_thread, &e), 0);
        size_t n = record(c.link, DATA, WEFT_TAG_DATA, theirs, sizeof theirs, bytes);
        intruder_trickle(c.link->fd, bytes, n, 0.003);
        assert_int_equal(pthread_join(e.thread, NULL), 0);
        assert_int_equal(e.s, WEFT_OK);
        assert_memory_equal(e.all, e.mine, 8);
        assert_memory_equal(e.all + 8, theirs, 8);
        do /* asked whether it is there, too */
            assert_true(weft_link_receive(c.link, weft_now() + 5, 256, &m, &why));
        while (m.n == 0);
        assert_int_equal(m.n, sizeof e.all);
        assert_memory_equal(m.data, e.all, sizeof e.all);
        weft_free(m.data);
    }
    part(&c);
}

/* Every byte is in time, the whole is not: the limit is that of a start, not that of the exchange,
 * and one message's time is not the next one's. */
static void test_trickle_has_an_end(void **state)
{
    (void)state;
    couple c;
    char bytes[256], mine[8] = {0};
    meet(&c, 1, 1);
    weft_control_watch(c.one.control, 0)->patience_s = 1000;
    size_t n = record(c.link, DATA, WEFT_TAG_DATA, mine, sizeof mine, bytes);
    intruder_trickle(c.link->fd, bytes, n, 0.6 / (double)n);
    n = record(c.link, DATA, WEFT_TAG_DATA, mine, sizeof mine, bytes);
    double from = weft_now();
    usleep(500000);
    assert_false(await_lost(&c, 0.1)); /* the first one took its time, too */
    intruder_trickle(c.link->fd, bytes, n - 1, 3.0 / (double)n);
    assert_true(await_lost(&c, 0.1));
    assert_true(weft_now() - from < 5);
    assert_int_equal(c.why.rank, 1);
    assert_non_null(strstr(c.why.text, "its message did not come as a whole in time"));
    part(&c);
}

/* ---- nothing at all ---- */

/* From the first word on rank 0's limit counts, on all ranks. */
static void test_limit_from_the_start(void **state)
{
    (void)state;
    couple c;
    char mine = 0, all[2];
    for (int other = 0; other < 2; other++) {
        meet(&c, other, 0.4);
        double from = weft_now();
        assert_true(weft_control_watch(c.one.control, !other)->patience_s == 0.4);
        assert_int_equal(weft_control_exchange(c.one.control, !other, &mine, 1, all, &c.one.err),
                         WEFT_ERR_PEER);
        assert_true(weft_now() - from < 3);
        assert_non_null(strstr(weft_error_text(&c.one.err),
                               other ? "waiting for rank 1" : "waiting for rank 0"));
        part(&c);
    }
}

/* A process that is stopped does not say so; this one may be in a library that waits for it. */
static void test_silence(void **state)
{
    (void)state;
    couple c;
    for (int other = 0; other < 2; other++) {
        meet(&c, other, 0.3);
        double from = weft_now();
        assert_true(await_lost(&c, 5));
        assert_true(weft_now() - from > 1.5); /* who waits for it speaks first */
        assert_int_equal(c.why.rank, other);
        assert_true(c.why.late);
        assert_non_null(strstr(c.why.text, other ? "in which rank 1 did not answer"
                                                 : "in which rank 0 did not answer"));
        part(&c);
    }
}

/* Who computes for long answers nevertheless. */
static void test_busy_ranks_answer(void **state)
{
    (void)state;
    char master[64];
    double patience_s = 0.2, other_s = 1000;
    honest zero, one;
    weft_verdict why;
    new_name(master);
    zero.join = (weft_join){
        .ranks = 2, .master = master, .token = token, .limit_s = 10, .patience_s = &patience_s};
    one.join = zero.join;
    one.join.rank = 1;
    one.join.patience_s = &other_s;
    honest_run(&zero);
    honest_run(&one);
    honest_wait(&zero);
    honest_wait(&one);
    weft_control_watch(one.control, 1)->patience_s = 1000; /* it does not ask by itself */
    usleep(3000000); /* longer than who does not answer is given */
    assert_false(weft_control_verdict(zero.control, &why));
    assert_false(weft_control_verdict(one.control, &why));
    honest_release(&one);
    honest_release(&zero);
}

/* ---- verdicts ---- */

static size_t count(const char *text, char c)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == c;
    return n;
}

/* Nothing in it ends, and there is no such rank. */
static weft_verdict endless(void)
{
    weft_verdict v = {.rank = 1000000, .status = WEFT_ERR_RUN};
    memset(v.text, '$', sizeof v.text);
    memset(v.host, '%', sizeof v.host);
    return v;
}

static void assert_ended(const char *text)
{
    assert_int_equal(count(text, '$'), sizeof((weft_verdict *)NULL)->text - 1);
    assert_int_equal(count(text, '%'), WEFT_HOST_BYTES - 1);
    assert_non_null(strstr(text, "rank 1 on %"));
}

static void test_verdict_without_end(void **state)
{
    (void)state;
    const weft_verdict v = endless();
    couple c;
    char mine = 0, all[2];
    meet(&c, 1, 1000); /* as its part of an agreement */
    assert_true(weft_link_send(c.link, DATA, WEFT_TAG_AGREE, &v, sizeof v, 5));
    assert_int_equal(weft_control_agree(c.one.control, 0, "planning", WEFT_OK, &c.one.err),
                     WEFT_ERR_PEER);
    assert_ended(weft_error_text(&c.one.err));
    part(&c);
    meet(&c, 1, 1000); /* where rank 0 is at another point */
    assert_true(weft_link_send(c.link, DATA, WEFT_TAG_AGREE, &v, sizeof v, 5));
    assert_int_equal(weft_control_exchange(c.one.control, 0, &mine, 1, all, &c.one.err),
                     WEFT_ERR_PEER);
    assert_ended(weft_error_text(&c.one.err));
    part(&c);
    for (int other = 0; other < 2; other++) { /* by itself */
        meet(&c, other, 1000);
        assert_true(weft_link_send(c.link, LEFT, 0, &v, sizeof v, 5));
        assert_true(await_lost(&c, 5));
        assert_int_equal(c.why.rank, other);
        assert_int_equal(count(c.why.text, '$'), sizeof c.why.text - 1);
        part(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forged),
        cmocka_unit_test(test_random_bytes),
        cmocka_unit_test(test_trickle_arrives),
        cmocka_unit_test(test_trickle_has_an_end),
        cmocka_unit_test(test_limit_from_the_start),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_busy_ranks_answer),
        cmocka_unit_test(test_verdict_without_end),
    };
    alarm(TEST_LIMIT_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
