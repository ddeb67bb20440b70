/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank says while it waits, and when it gives up. Waits begin in the past. */
#include "execute/watch.h"

#include <weft/graph.h>

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

static void keep(void *self, weft_log_level level, const char *line)
{
    weft_text_print(self, "%s%s\n", level == WEFT_LOG_WARN ? "warning: " : "", line);
}

static weft_text said;
static const weft_log sink = {keep, &said};
static const bool second[] = {false, true, false, false}, first[] = {true, false, false, false},
                  last_two[] = {false, false, true, true};

/* Of rank `rank`, in the middle of a run. */
static weft_watch running(int rank)
{
    weft_watch w;
    weft_watch_init(&w, rank);
    w.log = &sink;
    w.started = true;
    w.patient = false;
    w.limit_s = 600;
    w.now.step = 7;
    weft_text_clear(&said);
    return w;
}

/* The same wait, when it has lasted so long. */
static weft_status look_after(weft_watch *watch, double waited, const bool *absent, weft_error *err)
{
    const weft_waiting w = {
        .since = weft_now() - waited, .limit_s = weft_watch_limit(watch), .absent = absent, .n = 4};
    if (watch->since != 0)
        watch->since = w.since;
    weft_watch_is_long(watch, &w);
    return weft_watch_look(watch, &w, err);
}

static void test_says_so_at_growing_intervals(void **state)
{
    (void)state;
    static const int at[] = {1, 29, 31, 45, 59, 61, 90, 119, 121, 200, 239, 241};
    weft_watch w = running(0);
    w.task = (weft_doing){"all_gather", "fsdp", 3};
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++)
        assert_int_equal(look_after(&w, at[i], second, NULL), WEFT_OK);
    assert_string_equal(
        weft_text_get(&said),
        "warning: waiting 31 s for rank 1 in all_gather of fsdp, block 3, step 7\n"
        "warning: waiting 61 s for rank 1 in all_gather of fsdp, block 3, step 7\n"
        "warning: waiting 121 s for rank 1 in all_gather of fsdp, block 3, step 7\n"
        "warning: waiting 241 s for rank 1 in all_gather of fsdp, block 3, step 7\n");
    weft_text_release(&said);
}

static void test_a_new_wait_begins_anew(void **state)
{
    (void)state;
    weft_watch w = running(0);
    const weft_waiting long_ago = {weft_now() - 100, 600, NULL, second, 4},
                       now = {weft_now() - 10, 600, NULL, second, 4};
    assert_true(weft_watch_is_long(&w, &long_ago));
    assert_int_equal(weft_watch_look(&w, &long_ago, NULL), WEFT_OK);
    weft_text_clear(&said);
    assert_false(weft_watch_is_long(&w, &now));
    assert_int_equal(weft_watch_look(&w, &now, NULL), WEFT_OK);
    assert_string_equal(weft_text_get(&said), "");
    weft_text_release(&said);
}

static void test_one_speaks_for_all(void **state)
{
    (void)state;
    for (int rank = 0; rank < 4; rank++) {
        weft_watch w = running(rank);
        if (rank != 1)
            look_after(&w, 30, second, NULL);
        assert_int_equal(said.size > 0, rank == 0);
        w = running(rank);
        if (rank != 0)
            look_after(&w, 30, first, NULL);
        if (rank == 1)
            assert_string_equal(weft_text_get(&said),
                                "warning: rank 1: waiting 30 s for rank 0 at the end of step 7\n");
        else
            assert_int_equal(said.size, 0);
    }
    weft_text_release(&said);
}

static void test_ranks_of_a_group(void **state)
{
    (void)state;
    static const int ranks[] = {3, 5, 7, 9};
    weft_watch w = running(3);
    const weft_waiting waiting = {weft_now() - 30, 600, ranks, last_two, 4};
    assert_true(weft_watch_is_long(&w, &waiting));
    assert_int_equal(weft_watch_look(&w, &waiting, NULL), WEFT_OK);
    assert_string_equal(weft_text_get(&said),
                        "warning: rank 3: waiting 30 s for ranks 7, 9 at the end of step 7\n");
    weft_text_release(&said);
}

/* While ranks start, seconds count, and nobody gives up soon. */
static void test_start(void **state)
{
    (void)state;
    weft_watch w = running(0);
    w.started = false;
    w.patient = true;
    w.now.step = 0;
    w.task = (weft_doing){"opening plugins", NULL, -1};
    static const int at[] = {1, 2, 4, 5, 7, 1799};
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++)
        assert_int_equal(look_after(&w, at[i], last_two, NULL), WEFT_OK);
    assert_string_equal(weft_text_get(&said),
                        "waiting 4 s for ranks 2, 3 in opening plugins\n"
                        "waiting 7 s for ranks 2, 3 in opening plugins\n"
                        "warning: waiting 1799 s for ranks 2, 3 in opening plugins\n");
    assert_int_equal(look_after(&w, 1801, last_two, NULL), WEFT_ERR_PEER);
    weft_text_release(&said);
}

static void test_gives_up(void **state)
{
    (void)state;
    weft_error err = {0};
    weft_watch w = running(2);
    w.task = (weft_doing){"reduce_scatter", "fsdp", 0};
    assert_int_equal(look_after(&w, 599, last_two, &err), WEFT_OK);
    assert_int_equal(look_after(&w, 601, second, &err), WEFT_ERR_PEER);
    assert_string_equal(
        weft_error_text(&err),
        "timed out after 600 s waiting for rank 1 in reduce_scatter of fsdp, block 0, step 7");
    weft_error_release(&err);
    weft_text_release(&said);
}

static void test_limits(void **state)
{
    (void)state;
    weft_watch w = running(0);
    assert_true(weft_watch_limit(&w) == 600);
    w.patient = true;
    assert_true(weft_watch_limit(&w) == WEFT_PATIENCE_S);
    w.patience_s = 700;
    assert_true(weft_watch_limit(&w) == 700);
    w.patience_s = 20;
    assert_true(weft_watch_limit(&w) == 20);
    w.limit_s = 0;
    assert_true(weft_watch_limit(&w) == 20);
    w.patience_s = 0;
    assert_int_equal(look_after(&w, 1e6, second, NULL), WEFT_OK);
    weft_text_release(&said);
}

static void test_places_are_words(void **state)
{
    (void)state;
    static const struct {
        int block;
        const char *words;
    } cases[] = {{12, " in all_gather of fsdp, block 12"},
                 {WEFT_BLOCK_EMBEDDING, " in all_gather of fsdp, the embedding"},
                 {WEFT_BLOCK_HEAD, " in all_gather of fsdp, the head"},
                 {WEFT_BLOCK_NONE, " in all_gather of fsdp"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_text text = {0};
        weft_print_doing(&text, &(weft_doing){"all_gather", "fsdp", cases[i].block});
        assert_string_equal(weft_text_get(&text), cases[i].words);
        weft_text_release(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_says_so_at_growing_intervals),
        cmocka_unit_test(test_a_new_wait_begins_anew),
        cmocka_unit_test(test_one_speaks_for_all),
        cmocka_unit_test(test_ranks_of_a_group),
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_gives_up),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_places_are_words),
    };
    return cmocka_run_group_tests_name("watches", tests, NULL, NULL);
}
