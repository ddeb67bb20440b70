/* SPDX-License-Identifier: Apache-2.0 */
/* What the emulator sees of kernels that are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "emulate.h"

#include <string.h>

typedef void kernel(const void *args);
kernel emulate_divergent, emulate_two_places, emulate_left_warp, emulate_race, emulate_right,
    emulate_hasty_copy, emulate_left_copy;

typedef struct wrong_args {
    int32_t *out;
} wrong_args;

static const char *run(kernel *k, int32_t *out, uint64_t order)
{
    wrong_args args = {out};
    emulate_launch launch = {
        .kernel = k, .args = &args, .grid = {1, 1, 1}, .block = {64, 1, 1}, .order = order};
    memset(out, 0, 64 * sizeof *out);
    return emulate_run(&launch);
}

static void test_barriers_that_not_all_reach(void **state)
{
    int32_t out[64];
    (void)state;
    for (uint64_t order = 0; order < 3; order++) {
        const char *wrong = run(emulate_divergent, out, order);
        assert_non_null(wrong);
        assert_non_null(strstr(wrong, "do not meet"));
        assert_non_null(strstr(wrong, "wrong.cc"));
        assert_non_null(run(emulate_two_places, out, order));
        assert_non_null(run(emulate_left_warp, out, order));
    }
}

static void test_a_race_shows_in_another_order(void **state)
{
    int32_t first[64], other[64];
    (void)state;
    assert_null(run(emulate_race, first, 0));
    assert_null(run(emulate_race, other, 1));
    assert_memory_not_equal(first, other, sizeof first);
}

static void test_after_a_wrong_kernel_a_right_one_runs(void **state)
{
    int32_t out[64];
    (void)state;
    assert_non_null(run(emulate_divergent, out, 0));
    for (uint64_t order = 0; order < 5; order++) {
        assert_null(run(emulate_right, out, order));
        for (int i = 0; i < 64; i++)
            assert_int_equal(out[i], 63 - i);
    }
}

static void test_copies_are_waited_for(void **state)
{
    _Alignas(16) int32_t out[68] = {0};
    (void)state;
    for (uint64_t order = 0; order < 3; order++) {
        assert_null(run(emulate_hasty_copy, out, order));
        for (int i = 0; i < 64; i++)
            assert_int_equal(out[i], -1); /* and not 0, as out[64] */
        const char *wrong = run(emulate_left_copy, out, order);
        assert_non_null(wrong);
        assert_non_null(strstr(wrong, "before what it copies is there"));
    }
}

static void test_blocks_are_whole_warps(void **state)
{
    emulate_launch launch = {.kernel = emulate_right, .grid = {1, 1, 1}, .block = {33, 1, 1}};
    (void)state;
    assert_non_null(emulate_run(&launch));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_barriers_that_not_all_reach),
        cmocka_unit_test(test_a_race_shows_in_another_order),
        cmocka_unit_test(test_after_a_wrong_kernel_a_right_one_runs),
        cmocka_unit_test(test_copies_are_waited_for),
        cmocka_unit_test(test_blocks_are_whole_warps),
    };
    return cmocka_run_group_tests_name("emulate", tests, NULL, NULL);
}
