/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks leave, and what is made of it. */
#include "ranks.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- who is missing ---- */

static void nobody_waits(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\n");
    for (int r = 0; r < RANKS; r++)
        collective(f, r, f->all[r], 8);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "4 of 4 ranks, recorded since 20");
    says(f, "no rank is inside an operation\n");
    assert_int_equal(command(f, "--rank", "2"), WEFT_OK);
    says(f, "all_gather, step 7: 8 f32, 96 bytes, group 0 1 2 3\n");
    says(f, "the process lives; last in the beginning of the step, step 7");
    assert_int_equal(command(f, "--rank", "4"), WEFT_ERR_INPUT);
}

static void one_is_missing(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\n");
    for (int r = 0; r < RANKS; r++)
        collective(f, r, f->all[r], 8);
    at(f, 2, "attention", 3);
    for (int r = 0; r < RANKS; r++) {
        if (r == 2)
            continue;
        at(f, r, "redistribute", 4);
        enters(f, r, f->all[r], 16);
    }
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "not all have entered: all_gather of fsdp, block 4, forward of stage 0, micro-batch 2, "
            "step 7: 16 f32 (x)\n  entered by ranks 0, 1, 3, rank 0 at ");
    says(f, "  missing: rank 2\n    rank 2: process ");
    says(f, "last in attention of fsdp, block 3, forward of stage 0, micro-batch 2, step 7, since");
}

/* Rank 3 hangs; 2 waits for it in their pair, and 0 and 1, which came before, for both. */
static void who_waits_is_not_to_blame(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\n");
    enters(f, 0, f->all[0], 8);
    enters(f, 1, f->all[1], 8);
    usleep(2000);
    enters(f, 2, f->pair[2], 5);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "not all have entered: all_gather, step 7: 8 f32\n  entered by ranks 0, 1,");
    says(f, "missing: ranks 2, 3\n");
    says(f, "also inside operations:\n  rank 2 in all_gather, step 7: 5 f32, for rank 3\n");
    /* where 2 is the only one that is missing, and it waits itself, the other one comes first */
    enters(f, 3, f->all[3], 8);
    f->rank[3]->ring.head->written--; /* it has left nothing of it in its ring ... */
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "not all have entered: all_gather, step 7: 5 f32\n  entered by rank 2 at ");
    says(f, "  missing: rank 3\n");
}

static void a_circle_is_told(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\n");
    enters(f, 0, f->all[0], 8);
    enters(f, 1, f->pair[1], 8); /* waits for 0, which waits for 1 */
    enters(f, 2, f->all[2], 8);
    enters(f, 3, f->all[3], 8);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "  missing: rank 1\n");
    says(f, "  in a circle: rank 0 waits for rank 1, rank 1 waits for rank 0\n");
}

/* Around a ring everybody waits for the one before; who is stopped in it is named, and no circle.
 */
static void who_is_stopped_is_named(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\n");
    for (int r = 0; r < RANKS; r++)
        receives(f, r, (r + 3) % RANKS);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f,
         "  in a circle: rank 0 waits for rank 3, rank 3 waits for rank 2, rank 2 waits for rank "
         "1, rank 1 waits for rank 0\n");
    pid_t pid = stopped_process();
    becomes(f, 2, pid);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    end_process(pid);
    says(f, "\nrank 2 is stopped\n");
    says(f, "6 bf16 from rank 2\n  entered by rank 3 at ");
    says(f, "  missing: rank 2\n    rank 2: process ");
    says(f, ", the process is stopped; last in the beginning of the step");
    says_not(f, "circle");
}

/* Inside what all have entered, and with two at once. */
static void those_who_are_stopped_are_named(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\n");
    for (int r = 0; r < RANKS; r++)
        enters(f, r, f->all[r], 8);
    pid_t pid = stopped_process();
    becomes(f, 1, pid);
    becomes(f, 3, getppid());
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "\nrank 1 is stopped\n");
    pid_t other = stopped_process();
    becomes(f, 3, other);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    end_process(pid);
    end_process(other);
    says(f, "\nranks 1, 3 are stopped\n");
    says(f, "all have entered this operation, and not all have left it: all_gather");
}

/* One is killed inside an operation, and the others end because of that. */
static void who_is_gone_is_named(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\n");
    for (int r = 0; r < RANKS; r++)
        receives(f, r, (r + 1) % RANKS);
    is_gone(f, 2);
    for (int r = 0; r < RANKS; r++)
        if (r != 2) {
            f->rank[r]->ring.entries[0].state = FLIGHT_FAILED;
            ends_with(f, r, WEFT_ERR_PEER);
        }
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "\nrank 2 is gone without having ended\n");
    says(f, "entered by rank 1 at ");
    says(f, "  missing: rank 2\n");
    says(f, "    rank 0: process ");
    says(f, "it has ended with an error; last in the end of the run, step 7");
    says_not(f, "circle");
    says_not(f, "nothing has moved");
    /* where nobody is left, that says nothing */
    for (int r = 0; r < RANKS; r++) {
        f->rank[r]->ring.head->ended = 0;
        is_gone(f, r);
    }
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says_not(f, "without having ended");
    says(f, "the process is gone");
}

/* 2 waits for 0, which waits for 1 in what both have entered. */
static void where_it_is_stopped_comes_first(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\n");
    receives(f, 2, 0);
    usleep(2000);
    enters(f, 0, f->pair[0], 8);
    enters(f, 1, f->pair[1], 8);
    pid_t pid = stopped_process();
    becomes(f, 1, pid);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    end_process(pid);
    says(f, "not all have left it: all_gather, step 7: 8 f32\n  entered by ranks 0, 1,");
}

static void an_error_of_ones_own_is_named(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\n");
    for (int r = 0; r < 3; r++)
        enters(f, r, f->all[r], 8);
    ends_with(f, 3, WEFT_ERR_RUN);
    ends_with(f, 0, WEFT_ERR_PEER);
    is_gone(f, 1); /* killed by who launched it, while it waited */
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "\nrank 3 has ended with an error of its own\n");
    says(f, "  missing: rank 3\n");
    says_not(f, "without having ended");
    says(f, "rank 1: process 1073741825 on");
}

/* Threads go together: who waited then did not end the others. */
static void threads_go_together(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\n");
    for (int r = 0; r < 3; r++)
        enters(f, r, f->all[r], 8);
    ends_with(f, 0, WEFT_ERR_PEER);
    for (int r = 1; r < RANKS; r++)
        becomes(f, r, 1 << 30);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "\nrank 3 is gone without having ended\n");
    says(f, "  missing: rank 3\n");
}

/* Nobody is inside an operation: three wait for the fourth without the transport. */
static void who_is_elsewhere_comes_first(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\n");
    for (int r = 0; r < RANKS; r++) {
        at(f, r, "adamw", 1);
        if (r != 2)
            event(f, r, WEFT_EVENT_STEP_END, (weft_run_view){.step = 7});
    }
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "no rank is inside an operation\nwhere ranks were last, who differs from most first:\n"
            "    rank 2: process ");
    says(f, "the process lives; last in adamw of fsdp, block 1, forward of stage 0, micro-batch 2, "
            "step 7, since ");
    says(f, "    rank 0: process ");
    says(f, "last in what follows the step, step 7, since ");
}

static void different_operations_are_told(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\n");
    for (int r = 0; r < RANKS; r++)
        enters(f, r, f->all[r], r == 1 ? 9 : 8);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "ranks of one group differ in its operation 1:\n    rank 0: all_gather, step 7: 8 f32\n"
            "    rank 1: all_gather, step 7: 9 f32\n");
}

static void all_have_entered(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\n");
    for (int r = 0; r < RANKS; r++)
        enters(f, r, f->all[r], 8);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "all have entered this operation, and not all have left it: all_gather");
}

static void a_record_is_missing(void **state)
{
    fixture *f = *state;
    char path[192];
    begin(f, "[flight]\n");
    for (int r = 0; r < 3; r++)
        enters(f, r, f->all[r], 8);
    snprintf(path, sizeof path, "%s/flight/%s/rank-3", f->dir, f->rank[0]->id);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "3 of 4 ranks");
    says(f, "without a record: rank 3");
}

static void transfers_are_matched(void **state)
{
    fixture *f = *state;
    weft_request *request;
    begin(f, "[flight]\n");
    at(f, 1, "redistribute", 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            wrapped()->recv(f->rank[1], f->pair[1], 0, NULL, 6, WEFT_BF16, NULL, &request, &f->err),
            WEFT_OK);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK); /* nobody waits for it yet */
    says(f, "no rank is inside an operation\n");
    weft_request *sent;
    assert_int_equal(
        wrapped()->send(f->rank[0], f->pair[0], 1, NULL, 6, WEFT_BF16, NULL, &sent, &f->err),
        WEFT_OK);
    result = WEFT_ERR_PEER; /* the second one was never sent */
    assert_int_equal(wrapped()->wait(f->rank[1], request, NULL, &f->err), WEFT_ERR_PEER);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "not all have entered: recv of fsdp, block 2, forward of stage 0, micro-batch 2, step "
            "7: 6 bf16 from rank 0 (x)");
    says(f, "  missing: rank 0\n");
    assert_int_equal(command(f, "--rank", "1"), WEFT_OK);
    says(f, "  failed  recv of fsdp");
}

static const flight_entry *entry(const fixture *f, int rank, int place)
{
    return &f->rank[rank]->ring.entries[place];
}

/* A pair's messages are matched by their numbers, of each direction its own. */
static void each_direction_counts(void **state)
{
    fixture *f = *state;
    weft_request *request;
    begin(f, "[flight]\n");
    uint64_t first = f->rank[0]->ring.head->written;
    for (int i = 0; i < 5; i++)
        assert_int_equal((i < 3 ? wrapped()->send(f->rank[0], f->pair[0], 1, NULL, 6, WEFT_BF16,
                                                  NULL, &request, &f->err)
                                : wrapped()->recv(f->rank[0], f->pair[0], 1, NULL, 6, WEFT_BF16,
                                                  NULL, &request, &f->err)),
                         WEFT_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(entry(f, 0, (int)first + i)->in_group, i < 3 ? i + 1 : i - 2);
}

/* A transfer may be awaited long after it was begun, when the ring has others in its place. */
static void what_the_ring_has_lost_is_not_marked(void **state)
{
    enum { ENTRIES = 16 };
    fixture *f = *state;
    weft_request *request;
    begin(f, "[flight]\nentries = 16\n");
    assert_int_equal(f->rank[0]->ring.head->capacity, ENTRIES);
    uint64_t first = f->rank[0]->ring.head->written;
    assert_int_equal(
        wrapped()->send(f->rank[0], f->pair[0], 1, NULL, 6, WEFT_BF16, NULL, &request, &f->err),
        WEFT_OK);
    for (int i = 0; i < ENTRIES; i++)
        collective(f, 0, f->all[0], 8);
    const flight_entry before = *entry(f, 0, (int)first % ENTRIES);
    assert_int_equal(before.kind, FLIGHT_ALL_GATHER);
    result = WEFT_ERR_PEER;
    assert_int_equal(wrapped()->wait(f->rank[0], request, NULL, &f->err), WEFT_ERR_PEER);
    assert_memory_equal(entry(f, 0, (int)first % ENTRIES), &before, sizeof before);
}

static void ranks_are_listed_in_order(void **state)
{
    fixture *f = *state;
    weft_request *sent;
    begin(f, "[flight]\n");
    assert_int_equal(
        wrapped()->send(f->rank[0], f->all[0], 1, NULL, 6, WEFT_BF16, NULL, &sent, &f->err),
        WEFT_OK);
    receives(f, 1, 0);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "  entered by ranks 0, 1, rank 1 at ");
}

/* Who ended because of others has waited for them, and keeps nobody. */
static void who_followed_is_not_to_blame(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\n");
    enters(f, 0, f->pair[0], 8); /* the earliest, for 1 */
    ends_with(f, 1, WEFT_ERR_PEER);
    usleep(2000);
    enters(f, 2, f->pair[2], 8);
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "  missing: rank 3\n");
}

/* ---- does it move ---- */

static void a_run_that_moves_is_no_deadlock(void **state)
{
    fixture *f = *state;
    char name[] = "flight";
    char *argv[] = {name, f->dir, NULL};
    begin(f, "[flight]\n");
    for (int r = 0; r < 3; r++)
        enters(f, r, f->all[r], 8);
    pid_t pid = forked(); /* the records are shared memory */
    for (int i = 0; pid == 0; i++) {
        f->rank[3]->ring.head->at_ns += 1000;
        usleep(1000);
    }
    weft_status s = flight_command.run(&f->command, 2, argv, &f->err);
    end_process(pid);
    assert_int_equal(s, WEFT_OK);
    says(f, "\nthe run moves: step 7\n");
    says(f, "    rank 0: all_gather, step 7: 8 f32, waiting for 0.");
    says(f, "    rank 3: the beginning of the step, step 7, for 0.");
    says_not(f, "not all have entered");
    says_not(f, "circle");
    /* and now it does not */
    weft_text_clear(&f->out);
    double began = weft_now();
    assert_int_equal(flight_command.run(&f->command, 2, argv, &f->err), WEFT_OK);
    assert_true(weft_now() - began > 1.5);
    says(f, "\nnothing has moved for ");
    says(f, "  missing: rank 3\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nobody_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(one_is_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(who_waits_is_not_to_blame, setup, teardown),
        cmocka_unit_test_setup_teardown(a_circle_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_stopped_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(those_who_are_stopped_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_gone_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(where_it_is_stopped_comes_first, setup, teardown),
        cmocka_unit_test_setup_teardown(an_error_of_ones_own_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(threads_go_together, setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_elsewhere_comes_first, setup, teardown),
        cmocka_unit_test_setup_teardown(each_direction_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(what_the_ring_has_lost_is_not_marked, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_are_listed_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(who_followed_is_not_to_blame, setup, teardown),
        cmocka_unit_test_setup_teardown(a_run_that_moves_is_no_deadlock, setup, teardown),
        cmocka_unit_test_setup_teardown(different_operations_are_told, setup, teardown),
        cmocka_unit_test_setup_teardown(all_have_entered, setup, teardown),
        cmocka_unit_test_setup_teardown(a_record_is_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(transfers_are_matched, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
