/* SPDX-License-Identifier: Apache-2.0 */
/* Races that an emulated kernel does not show by its results are found, wherever the threads run,
 * and where there is none, none is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "races.h"

#include <stdlib.h>
#include <string.h>

typedef void kernel(const void *args);
kernel emulate_race, emulate_reused, emulate_shuffle_is_no_barrier, emulate_other_warp,
    emulate_early_matrix, emulate_unwritten, emulate_unwritten_by_block, emulate_global_race,
    emulate_two_blocks_write, emulate_block_reads_of_other, emulate_atomic_and_read, emulate_right,
    emulate_allowed, emulate_copy_without_barrier, emulate_early_copy;

typedef struct wrong_args {
    int32_t *out;
} wrong_args;

enum { ORDERS = 6, ROOM = 64 * 5 };

static const char *run(kernel *k, unsigned blocks, uint64_t order)
{
    wrong_args args = {calloc(ROOM, sizeof *args.out)};
    emulate_launch launch = {.kernel = k,
                             .args = &args,
                             .args_bytes = sizeof args,
                             .grid = {blocks, 1, 1},
                             .block = {64, 1, 1},
                             .shared_bytes = 64 * sizeof(int32_t),
                             .order = order,
                             .watch = &races_watch};
    assert_non_null(args.out);
    const char *wrong = emulate_run(&launch);
    free(args.out);
    return wrong;
}

static void must_be_found(kernel *k, unsigned blocks, const char *what)
{
    for (uint64_t order = 0; order < ORDERS; order++) {
        const char *wrong = run(k, blocks, order);
        if (!wrong || !strstr(wrong, what))
            fail_msg("order %d: %s, not: %s", (int)order, wrong ? wrong : "nothing", what);
    }
}

static void test_threads_of_a_block(void **state)
{
    (void)state;
    must_be_found(emulate_race, 1, "no barrier between: byte");
    must_be_found(emulate_reused, 1, "no barrier between: byte");
    must_be_found(emulate_shuffle_is_no_barrier, 1, "no barrier between: byte");
    must_be_found(emulate_other_warp, 1, "of shared memory");
    must_be_found(emulate_early_matrix, 1, "of shared memory");
    must_be_found(emulate_copy_without_barrier, 1, "of shared memory");
    must_be_found(emulate_early_copy, 1, "of shared memory");
    must_be_found(emulate_global_race, 1, "of global memory");
}

static void test_shared_memory_that_nobody_wrote(void **state)
{
    (void)state;
    must_be_found(emulate_unwritten, 1, "never written: byte 0x14 of shared memory");
    must_be_found(emulate_unwritten_by_block, 2, "never written");
}

static void test_blocks(void **state)
{
    (void)state;
    must_be_found(emulate_two_blocks_write, 2, "two blocks write");
    must_be_found(emulate_block_reads_of_other, 2, "another block has");
    must_be_found(emulate_atomic_and_read, 1, "no barrier between");
    for (uint64_t order = 0; order < ORDERS; order++)
        assert_null(run(emulate_two_blocks_write, 1, order));
}

static void test_what_is_right(void **state)
{
    uint64_t seen = races_seen();
    (void)state;
    for (uint64_t order = 0; order < ORDERS; order++) {
        assert_null(run(emulate_right, 1, order));
        assert_null(run(emulate_allowed, 3, order));
    }
    assert_true(races_seen() > seen + 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_of_a_block),
        cmocka_unit_test(test_shared_memory_that_nobody_wrote),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_what_is_right),
    };
    return cmocka_run_group_tests_name("races", tests, NULL, NULL);
}
