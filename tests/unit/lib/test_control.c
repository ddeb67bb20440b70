/* SPDX-License-Identifier: Apache-2.0 */
/* The control channel between processes, with threads as ranks that share nothing but its sockets.
 */
#include "execute/control.h"
#include "net/agree.h"
#include "net/rendezvous.h"
#include "net/socket.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANKS = 4 };

typedef struct actor {
    weft_join join;
    weft_control *control;
    weft_error err;
    weft_status joined, status;
    void (*act)(struct actor *a);
    pthread_t thread;
    int lost; /* the rank that the channel's thread named; -1: none */
} actor;

static void note_lost(void *ctx, const weft_verdict *why)
{
    ((actor *)ctx)->lost = why->rank;
}

static void *play(void *arg)
{
    actor *a = arg;
    a->joined = weft_control_join(&a->join, &a->control, &a->err);
    if (!a->joined && a->act)
        a->act(a);
    return NULL;
}

/* A name of its own for every test. */
static void cast(actor *actors, int n, const char *master, void (*act)(actor *))
{
    memset(actors, 0, (size_t)n * sizeof *actors);
    for (int i = 0; i < n; i++) {
        actors[i].join = (weft_join){.rank = i,
                                     .ranks = n,
                                     .master = master,
                                     .token = "secret of the tests",
                                     .limit_s = 20,
                                     .lost = note_lost,
                                     .ctx = &actors[i]};
        actors[i].act = act;
        actors[i].lost = -1;
    }
}

/* Not rank 0 first: whoever comes early must try again. */
static void perform(actor *actors, int n)
{
    for (int i = n - 1; i >= 0; i--)
        assert_int_equal(pthread_create(&actors[i].thread, NULL, play, &actors[i]), 0);
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_join(actors[i].thread, NULL), 0);
}

static void dismiss(actor *actors, int n)
{
    for (int i = 0; i < n; i++) {
        weft_control_destroy(actors[i].control);
        weft_error_release(&actors[i].err);
    }
}

static const char *new_name(char *name)
{
    static int count;
    snprintf(name, 64, "@weft-test-control-%ld-%d", (long)getpid(), count++);
    return name;
}

/* ---- what should work ---- */

static void exchange_much(actor *a)
{
    for (int turn = 0; turn < 50 && !a->status; turn++) {
        size_t n = turn == 7 ? 300000 : turn == 8 ? 0 : 24;
        unsigned char *mine = weft_alloc(n), *all = weft_alloc(n * RANKS);
        memset(mine, 16 * a->join.rank + turn % 16, n);
        a->status = weft_control_exchange(a->control, a->join.rank, mine, n, all, &a->err);
        for (size_t i = 0; i < n * RANKS && !a->status; i++)
            if (all[i] != 16 * (i / n) + (size_t)turn % 16)
                a->status = WEFT_ERR_INTERNAL;
        weft_free(mine);
        weft_free(all);
    }
    if (!a->status)
        a->status = weft_control_agree(a->control, a->join.rank, "ending", WEFT_OK, &a->err);
}

/* Rank 0's bytes, of any size, one text right after the other. */
static void broadcast_much(actor *a)
{
    static const size_t sizes[] = {0, 5, 300000, 1};
    for (size_t turn = 0; turn < sizeof sizes / sizeof sizes[0] && !a->status; turn++) {
        weft_text text = {0};
        weft_text_add(&text, a->join.rank ? "something else" : "");
        for (size_t i = 0; i < sizes[turn] && a->join.rank == 0; i++)
            weft_text_print(&text, "%c", 'a' + (int)(i * (turn + 3) % 26));
        a->status = weft_control_broadcast(a->control, a->join.rank, &text, &a->err);
        if (!a->status && text.size != sizes[turn])
            a->status = WEFT_ERR_INTERNAL;
        for (size_t i = 0; i < sizes[turn] && !a->status; i++)
            if (text.data[i] != 'a' + (char)(i * (turn + 3) % 26))
                a->status = WEFT_ERR_INTERNAL;
        weft_text_release(&text);
    }
}

static void *broadcast_as_thread(void *arg)
{
    broadcast_much(arg);
    return NULL;
}

static void test_broadcast_between_threads(void **state)
{
    (void)state;
    actor actors[RANKS];
    weft_control *shared;
    weft_error err = {0};
    cast(actors, RANKS, "", NULL);
    assert_int_equal(weft_control_create(RANKS, &shared, &err), WEFT_OK);
    for (int i = 0; i < RANKS; i++) {
        actors[i].control = shared;
        assert_int_equal(pthread_create(&actors[i].thread, NULL, broadcast_as_thread, &actors[i]),
                         0);
    }
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(pthread_join(actors[i].thread, NULL), 0);
        assert_int_equal(actors[i].status, WEFT_OK);
    }
    weft_control_destroy(shared);
}

static void test_broadcast_over_a_name(void **state)
{
    (void)state;
    char name[64];
    actor actors[RANKS];
    cast(actors, RANKS, new_name(name), broadcast_much);
    perform(actors, RANKS);
    for (int i = 0; i < RANKS; i++) {
        assert_string_equal(weft_error_text(&actors[i].err), "");
        assert_int_equal(actors[i].status, WEFT_OK);
    }
    dismiss(actors, RANKS);
}

static void all_well(const char *master)
{
    actor actors[RANKS];
    cast(actors, RANKS, master, exchange_much);
    perform(actors, RANKS);
    for (int i = 0; i < RANKS; i++) {
        assert_string_equal(weft_error_text(&actors[i].err), "");
        assert_int_equal(actors[i].joined, WEFT_OK);
        assert_int_equal(actors[i].status, WEFT_OK);
    }
    dismiss(actors, RANKS);
    for (int i = 0; i < RANKS; i++)
        assert_int_equal(actors[i].lost, -1);
}

static void test_exchange_over_a_name(void **state)
{
    (void)state;
    char name[64];
    all_well(new_name(name));
}

static void test_exchange_over_tcp(void **state)
{
    (void)state;
    char why[256], master[64];
    int port = 20000 + (int)(getpid() % 10000), fd = -1;
    for (int i = 0; i < 50 && fd < 0; i++) { /* one that is free now */
        snprintf(master, sizeof master, "127.0.0.1:%d", ++port);
        fd = weft_socket_listen(master, 1, why);
    }
    assert_true(fd >= 0);
    close(fd);
    all_well(master);
}

/* ---- what fails ---- */

static void disagree(actor *a)
{
    weft_status mine = a->join.rank == 2
                           ? weft_fail(&a->err, WEFT_ERR_INPUT, WEFT_NOWHERE, "no such file")
                           : WEFT_OK;
    a->status = weft_control_agree(a->control, a->join.rank, "opening", mine, &a->err);
}

static void test_one_fails(void **state)
{
    (void)state;
    char name[64];
    actor actors[RANKS];
    weft_verdict why;
    cast(actors, RANKS, new_name(name), disagree);
    perform(actors, RANKS);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(actors[i].status, i == 2 ? WEFT_ERR_INPUT : WEFT_ERR_PEER);
        assert_string_equal(weft_error_text(&actors[i].err),
                            i == 2 ? "no such file" : "rank 2 failed in opening: no such file");
        assert_true(weft_control_verdict(actors[i].control, &why));
        assert_int_equal(why.rank, 2);
        assert_int_equal(why.status, WEFT_ERR_INPUT);
    }
    dismiss(actors, RANKS);
}

/* Rank 0 has lost the one that failed, and fails of that. */
static void fail_of_a_peer(actor *a)
{
    weft_status mine = WEFT_OK;
    if (a->join.rank == 0)
        mine = weft_fail(&a->err, WEFT_ERR_PEER, WEFT_NOWHERE, "somebody is gone");
    if (a->join.rank == 1)
        mine = weft_fail(&a->err, WEFT_ERR_RUN, WEFT_NOWHERE, "no such memory");
    a->status = weft_control_agree(a->control, a->join.rank, "opening", mine, &a->err);
}

static void test_one_fails_of_the_other(void **state)
{
    (void)state;
    char name[64];
    actor actors[3];
    weft_verdict why;
    cast(actors, 3, new_name(name), fail_of_a_peer);
    perform(actors, 3);
    for (int i = 0; i < 3; i++) {
        assert_true(weft_control_verdict(actors[i].control, &why));
        assert_int_equal(why.rank, 1);
        assert_int_equal(why.status, WEFT_ERR_RUN);
    }
    assert_string_equal(weft_error_text(&actors[2].err),
                        "rank 1 failed in opening: no such memory");
    dismiss(actors, 3);
}

/* One rank has failed on its way to where the others already are. */
static void part(actor *a)
{
    char mine = 0, all[RANKS];
    if (a->join.rank == 1)
        disagree(a);
    else if (a->join.rank == 2)
        a->status = weft_control_agree(
            a->control, 2, "opening",
            weft_fail(&a->err, WEFT_ERR_INPUT, WEFT_NOWHERE, "no such file"), &a->err);
    else
        a->status = weft_control_exchange(a->control, a->join.rank, &mine, 1, all, &a->err);
}

static void test_at_different_points(void **state)
{
    (void)state;
    char name[64];
    actor actors[RANKS];
    cast(actors, RANKS, new_name(name), part);
    perform(actors, RANKS);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(actors[i].status, i == 2 ? WEFT_ERR_INPUT : WEFT_ERR_PEER);
        assert_non_null(strstr(weft_error_text(&actors[i].err), "no such file"));
    }
    dismiss(actors, RANKS);
}

/* Ranks 2 and 3 do nothing. */
static void wait_for_two(actor *a)
{
    char mine = 0, all[RANKS];
    a->status = a->join.rank < 2 ? weft_control_exchange_within(a->control, a->join.rank, 0.2,
                                                                &mine, 1, all, &a->err)
                                 : WEFT_OK;
}

static void *wait_as_thread(void *arg)
{
    wait_for_two(arg);
    return NULL;
}

static void check_late(const actor *actors)
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(actors[i].status, WEFT_ERR_PEER);
        assert_string_equal(weft_error_text(&actors[i].err),
                            "timed out after 0.2 s waiting for ranks 2, 3");
    }
}

static void test_ranks_hang(void **state)
{
    (void)state;
    char name[64];
    actor actors[RANKS];
    cast(actors, RANKS, new_name(name), wait_for_two);
    perform(actors, RANKS);
    check_late(actors);
    dismiss(actors, RANKS);
}

/* All but rank 0 meet; the limit is that of the settings. */
static void wait_for_first(actor *a)
{
    char mine = 0, all[RANKS];
    weft_watch *watch = weft_control_watch(a->control, a->join.rank);
    watch->limit_s = 0.2;
    watch->patient = false;
    watch->now.step = 5;
    if (a->join.rank > 0)
        a->status = weft_control_exchange(a->control, a->join.rank, &mine, 1, all, &a->err);
}

/* The others hear of rank 0 only, and it does not answer; it is told what has become of it. */
static void test_rank_0_hangs(void **state)
{
    (void)state;
    char name[64];
    actor actors[RANKS];
    weft_verdict why = {0};
    cast(actors, RANKS, new_name(name), wait_for_first);
    perform(actors, RANKS);
    for (int i = 1; i < RANKS; i++) {
        assert_int_equal(actors[i].status, WEFT_ERR_PEER);
        assert_string_equal(weft_error_text(&actors[i].err),
                            "timed out after 1.2 s waiting for rank 0 at the end of step 5");
    }
    for (int i = 0; i < 100 && !weft_control_verdict(actors[0].control, &why); i++)
        usleep(20000);
    assert_int_equal(why.rank, 0);
    assert_true(why.late);
    dismiss(actors, RANKS);
}

static void test_threads_hang(void **state)
{
    (void)state;
    actor actors[RANKS];
    weft_control *shared;
    weft_error err = {0};
    cast(actors, RANKS, "", NULL);
    assert_int_equal(weft_control_create(RANKS, &shared, &err), WEFT_OK);
    for (int i = 0; i < RANKS; i++) {
        actors[i].control = shared;
        assert_int_equal(pthread_create(&actors[i].thread, NULL, wait_as_thread, &actors[i]), 0);
    }
    for (int i = 0; i < RANKS; i++)
        assert_int_equal(pthread_join(actors[i].thread, NULL), 0);
    check_late(actors);
    for (int i = 0; i < RANKS; i++)
        weft_error_release(&actors[i].err);
    weft_control_destroy(shared);
}

/* Rank `victim` is gone without a word: its end of the connection is closed, as the kernel does for
 * a process that was killed. */
static int victim;

static void drop_out(actor *a)
{
    char mine = 0, all[RANKS];
    if (a->join.rank != victim) {
        a->status = weft_control_exchange(a->control, a->join.rank, &mine, 1, all, &a->err);
        return;
    }
    a->status = WEFT_ERR_PEER;
}

/* Joins by hand, and breaks the connection. */
static void *join_and_die(void *arg)
{
    const actor *a = arg;
    weft_link link = {.fd = -1};
    weft_error err = {0};
    if (weft_rendezvous(&a->join, &link, &err) == WEFT_OK)
        weft_link_close(&link);
    weft_error_release(&err);
    return NULL;
}

static void test_a_rank_dies(void **state)
{
    (void)state;
    char name[64];
    actor actors[RANKS];
    victim = 3;
    cast(actors, RANKS, new_name(name), drop_out);
    for (int i = 0; i < RANKS; i++)
        assert_int_equal(
            pthread_create(&actors[i].thread, NULL, i == victim ? join_and_die : play, &actors[i]),
            0);
    for (int i = 0; i < RANKS; i++)
        assert_int_equal(pthread_join(actors[i].thread, NULL), 0);
    for (int i = 0; i < RANKS; i++) {
        if (i == victim)
            continue;
        assert_int_equal(actors[i].status, WEFT_ERR_PEER);
        assert_non_null(strstr(weft_error_text(&actors[i].err), "rank 3 has ended"));
    }
    dismiss(actors, RANKS);
}

static void leave_early(actor *a)
{
    char mine = 0, all[RANKS];
    if (a->join.rank == victim)
        weft_control_leave(a->control, victim, WEFT_ERR_RUN, "the loss is NaN");
    else
        a->status = weft_control_exchange(a->control, a->join.rank, &mine, 1, all, &a->err);
}

static void test_a_rank_leaves(void **state)
{
    (void)state;
    for (victim = 0; victim < 2; victim++) {
        char name[64];
        actor actors[RANKS];
        cast(actors, RANKS, new_name(name), leave_early);
        perform(actors, RANKS);
        for (int i = 0; i < RANKS; i++) {
            if (i == victim)
                continue;
            assert_int_equal(actors[i].status, WEFT_ERR_PEER);
            assert_non_null(strstr(weft_error_text(&actors[i].err),
                                   victim ? "rank 1 has ended: the loss is NaN"
                                          : "rank 0 has ended: the loss is NaN"));
        }
        dismiss(actors, RANKS);
    }
}

static void test_a_rank_is_missing(void **state)
{
    (void)state;
    char name[64];
    actor actors[3];
    cast(actors, 3, new_name(name), exchange_much);
    for (int i = 0; i < 3; i++) {
        actors[i].join.ranks = 5;
        actors[i].join.limit_s = 0.5;
    }
    perform(actors, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(actors[i].joined, WEFT_ERR_PEER);
        assert_non_null(
            strstr(weft_error_text(&actors[i].err), "ranks 3, 4 of 5 did not reach rank 0"));
        assert_null(actors[i].control);
    }
    dismiss(actors, 3);
}

static void keep_line(void *self, weft_log_level level, const char *line)
{
    (void)level;
    weft_text_print(self, "%s\n", line);
}

/* Rank 0 says for whom it waits, before it gives up. */
static void test_rank_0_waits(void **state)
{
    (void)state;
    char name[64];
    actor actors[2];
    weft_text said = {0};
    const weft_log log = {keep_line, &said};
    cast(actors, 2, new_name(name), NULL);
    for (int i = 0; i < 2; i++) {
        actors[i].join.ranks = 4;
        actors[i].join.limit_s = 3.3;
    }
    actors[0].join.log = &log;
    perform(actors, 2);
    assert_int_equal(actors[0].joined, WEFT_ERR_PEER);
    assert_string_equal(weft_text_get(&said), "waiting for ranks 2, 3 of 4 to start\n");
    weft_text_release(&said);
    dismiss(actors, 2);
}

static void test_rank_0_is_missing(void **state)
{
    (void)state;
    char name[64];
    actor actors[2];
    cast(actors, 2, new_name(name), NULL);
    actors[1].join.limit_s = 0.3;
    play(&actors[1]);
    assert_int_equal(actors[1].joined, WEFT_ERR_PEER);
    assert_non_null(
        strstr(weft_error_text(&actors[1].err), "rank 1 did not find rank 0 within 0.3 s"));
    dismiss(actors, 2);
}

/* A stranger is turned away and does not hurt those who belong together. */
static void test_wrong_token(void **state)
{
    (void)state;
    char name[64];
    actor actors[3];
    cast(actors, 3, new_name(name), disagree);
    actors[0].join.ranks = actors[1].join.ranks = actors[2].join.ranks = 2;
    actors[2].join.rank = 1;
    actors[2].join.token = "guess";
    actors[2].join.limit_s = 1;
    perform(actors, 3);
    assert_int_equal(actors[0].status, WEFT_OK);
    assert_int_equal(actors[1].status, WEFT_OK);
    assert_int_equal(actors[2].joined, WEFT_ERR_PEER);
    assert_null(strstr(weft_error_text(&actors[2].err), "secret of"));
    dismiss(actors, 3);
}

static void test_ranks_that_do_not_fit(void **state)
{
    (void)state;
    char name[64];
    actor actors[3];
    cast(actors, 3, new_name(name), NULL);
    actors[2].join.ranks = 4;
    actors[1].join.limit_s = 1; /* it may come when rank 0 has given up */
    perform(actors, 3);
    assert_int_equal(actors[0].joined, WEFT_ERR_INPUT);
    assert_string_equal(weft_error_text(&actors[0].err), "rank 2 was told of 4 ranks, rank 0 of 3");
    assert_non_null(strstr(weft_error_text(&actors[2].err), "rank 2 was told of 4 ranks"));
    dismiss(actors, 3);
}

static void test_bad_address(void **state)
{
    (void)state;
    const char *const bad[] = {"localhost", ":1", "127.0.0.1:", "@", "no.such.host.invalid:1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        actor one[2];
        cast(one, 2, bad[i], NULL);
        play(&one[0]);
        assert_int_equal(one[0].joined, WEFT_ERR_INPUT);
        dismiss(one, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exchange_over_a_name),
        cmocka_unit_test(test_exchange_over_tcp),
        cmocka_unit_test(test_one_fails),
        cmocka_unit_test(test_one_fails_of_the_other),
        cmocka_unit_test(test_at_different_points),
        cmocka_unit_test(test_a_rank_dies),
        cmocka_unit_test(test_a_rank_leaves),
        cmocka_unit_test(test_a_rank_is_missing),
        cmocka_unit_test(test_rank_0_waits),
        cmocka_unit_test(test_rank_0_is_missing),
        cmocka_unit_test(test_wrong_token),
        cmocka_unit_test(test_ranks_that_do_not_fit),
        cmocka_unit_test(test_bad_address),
        cmocka_unit_test(test_broadcast_between_threads),
        cmocka_unit_test(test_broadcast_over_a_name),
        cmocka_unit_test(test_ranks_hang),
        cmocka_unit_test(test_rank_0_hangs),
        cmocka_unit_test(test_threads_hang),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
