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
    says(f, "nobody waits");
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
    says(f, "others that wait:\n  rank 2 in all_gather, step 7: 5 f32, for rank 3\n");
    /* where 2 is the only one that is missing, and it waits itself, the other one comes first */
    enters(f, 3, f->all[3], 8);
    f->rank[3]->ring.head->written--; /* it has left nothing of it in its ring ... */
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "not all have entered: all_gather, step 7: 5 f32\n  entered by rank 2,");
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
    says(f, "which wait for others in a circle");
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
    says(f, "nobody waits");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nobody_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(one_is_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(who_waits_is_not_to_blame, setup, teardown),
        cmocka_unit_test_setup_teardown(a_circle_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(different_operations_are_told, setup, teardown),
        cmocka_unit_test_setup_teardown(all_have_entered, setup, teardown),
        cmocka_unit_test_setup_teardown(a_record_is_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(transfers_are_matched, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
