/* SPDX-License-Identifier: Apache-2.0 */
/* attention and its gradient against the plain kernels: masks of every kind, in any order of
 * memory, grouped heads, shards of heads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cpu.h"
#include "trial_attention.h"

#include <math.h>
#include <string.h>

#include <weft/random.h>

/* The kernel for few queries. */
static void check_decode(const attention_case *c)
{
    trial f;
    attention_forward(&f, c, "attention");
    trial_choose(&f, "attention_decode", "decode");
    attention_heads(trial_out(&f, c->dtype, SIZES(c->batch, c->queries, c->heads * c->d)), c,
                    false);
    trial_out(&f, WEFT_F32, SIZES(c->batch, c->queries, c->heads));
    trial_check(&f);
}

static void test_few_queries(void **state)
{
    (void)state;
    for (int m = 0; m < MASKS; m++)
        for (int64_t queries = 1; queries <= 4; queries += 3) {
            check_decode(&(attention_case){.batch = 2,
                                           .queries = queries,
                                           .keys = 150,
                                           .heads = 6,
                                           .kv_heads = 1,
                                           .d = 24,
                                           .mask = (mask)m});
            check_decode(&(attention_case){.batch = 3,
                                           .queries = queries,
                                           .keys = 64,
                                           .heads = 2,
                                           .kv_heads = 2,
                                           .d = 40,
                                           .mask = (mask)m,
                                           .dtype = WEFT_BF16});
        }
    check_decode(&(attention_case){.batch = 1,
                                   .queries = 1,
                                   .keys = 80,
                                   .heads = 3,
                                   .kv_heads = 2,
                                   .d = 8,
                                   .lo = 3,
                                   .kv_lo = 1,
                                   .whole = 8,
                                   .kv_whole = 4});
    check_decode(
        &(attention_case){.batch = 0, .queries = 1, .keys = 5, .heads = 1, .kv_heads = 1, .d = 8});
}

/* Around the sizes of tiles, each pair of a query and a key shows. */
static void test_pairs(void **state)
{
    static const int64_t sizes[] = {63, 64, 65, 127, 128, 129};
    static const mask masks[] = {MASK_CAUSAL, MASK_DOCUMENTS, MASK_NONE};
    (void)state;
    for (size_t i = 0; i < 36; i++)
        attention_check_pairs(&(attention_case){.queries = sizes[i / 6],
                                                .keys = sizes[i % 6],
                                                .heads = 2,
                                                .kv_heads = 1,
                                                .d = 16,
                                                .mask = masks[i % 3],
                                                .dtype = i % 5 ? WEFT_F32 : WEFT_BF16});
}

/* The same of the kernel for few queries: keys that are not written yet are not read. */
static void test_pairs_of_few_queries(void **state)
{
    static const int64_t sizes[] = {63, 64, 65, 127, 128, 129};
    (void)state;
    for (size_t i = 0; i < 6; i++)
        for (int64_t at = sizes[i] - 3; at <= sizes[i]; at++) {
            trial f;
            attention_case c = {.batch = 1,
                                .queries = 1,
                                .keys = sizes[i],
                                .heads = 2,
                                .kv_heads = 1,
                                .d = 64,
                                .first = at};
            attention_forward_pairs(&f, &c, "attention");
            trial_choose(&f, "attention_decode", "decode");
            attention_heads(trial_out(&f, WEFT_F32, SIZES(1, 1, 128)), &c, false);
            trial_out(&f, WEFT_F32, SIZES(1, 1, 2));
            trial_check(&f);
        }
}

/* Rows that a cache has and those that it has not. */
static void test_cache(void **state)
{
    static const int64_t starts[] = {0, 3, 5, 100};
    (void)state;
    for (int i = 0; i < 8; i++) {
        trial t;
        weft_dtype dtype = i % 2 ? WEFT_BF16 : WEFT_F32;
        trial_init(&t, "cache");
        trial_in(&t, dtype, 1, SIZES(2, 7, 12));
        trial_in(&t, dtype, 2, SIZES(2, 3, 12));
        weft_tensor *index = trial_in(&t, WEFT_I32, 1, SIZES(3));
        for (int k = 0; k < 3; k++)
            weft_tensor_set(index, k, (double)(starts[i / 2] + k));
        trial_out(&t, dtype, SIZES(2, 7, 12));
        trial_check(&t);
    }
}

static void test_masks(void **state)
{
    (void)state;
    for (int m = 0; m <= MASK_FULL; m++)
        for (int type = 0; type < 2; type++) {
            attention_check(&(attention_case){.batch = 2,
                                              .queries = 150,
                                              .keys = 150,
                                              .heads = 2,
                                              .kv_heads = 1,
                                              .d = 24,
                                              .mask = (mask)m,
                                              .dtype = type ? WEFT_BF16 : WEFT_F32});
            attention_check(&(attention_case){.batch = 1,
                                              .queries = 70,
                                              .keys = 131,
                                              .heads = 2,
                                              .kv_heads = 2,
                                              .d = 16,
                                              .mask = (mask)m,
                                              .dtype = type ? WEFT_BF16 : WEFT_F32});
        }
}

static void test_sizes(void **state)
{
    static const int64_t lengths[] = {0, 1, 63, 64, 65, 129}, dims[] = {1, 16, 40, 64, 128, 130};
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        attention_check(&(attention_case){.batch = 1,
                                          .queries = lengths[i],
                                          .keys = lengths[5 - i],
                                          .heads = 2,
                                          .kv_heads = 1,
                                          .d = 8,
                                          .mask = MASK_CAUSAL});
        attention_check(&(attention_case){.batch = 1,
                                          .queries = 67,
                                          .keys = 67,
                                          .heads = 1,
                                          .kv_heads = 1,
                                          .d = dims[i],
                                          .mask = MASK_CAUSAL,
                                          .scale = 0.3});
    }
    /* of two bf16 numbers that are multiplied together the second is behind the head */
    for (int64_t d = 1; d <= 33; d += 16)
        attention_check(&(attention_case){.batch = 2,
                                          .queries = 70,
                                          .keys = 67,
                                          .heads = 2,
                                          .kv_heads = 1,
                                          .d = d,
                                          .mask = MASK_CAUSAL,
                                          .dtype = WEFT_BF16});
    attention_check(
        &(attention_case){.batch = 0, .queries = 5, .keys = 5, .heads = 1, .kv_heads = 1, .d = 8});
    attention_check(&(attention_case){.batch = 1,
                                      .queries = 5,
                                      .keys = 5,
                                      .heads = 0,
                                      .kv_heads = 0,
                                      .d = 8,
                                      .whole = 4,
                                      .kv_whole = 2});
}

/* A shard of the heads may begin inside of a group, or hold fewer q heads than a whole group. */
static void test_shards_of_heads(void **state)
{
    (void)state;
    attention_check(&(attention_case){.batch = 1,
                                      .queries = 80,
                                      .keys = 80,
                                      .heads = 3,
                                      .kv_heads = 2,
                                      .d = 8,
                                      .lo = 3,
                                      .kv_lo = 1,
                                      .whole = 8,
                                      .kv_whole = 4});
    attention_check(&(attention_case){.batch = 1,
                                      .queries = 80,
                                      .keys = 80,
                                      .heads = 2,
                                      .kv_heads = 1,
                                      .d = 8,
                                      .lo = 6,
                                      .kv_lo = 1,
                                      .whole = 8,
                                      .kv_whole = 2});
    attention_check(&(attention_case){.batch = 2,
                                      .queries = 20,
                                      .keys = 20,
                                      .heads = 2,
                                      .kv_heads = 2,
                                      .d = 8,
                                      .lo = 2,
                                      .kv_lo = 0,
                                      .whole = 8,
                                      .kv_whole = 2});
}

/* More heads share their keys than are taken at once. */
static void test_large_groups(void **state)
{
    (void)state;
    attention_check(&(attention_case){.batch = 2,
                                      .queries = 70,
                                      .keys = 70,
                                      .heads = 9,
                                      .kv_heads = 1,
                                      .d = 8,
                                      .mask = MASK_CAUSAL});
    attention_check(&(attention_case){.batch = 1,
                                      .queries = 10,
                                      .keys = 10,
                                      .heads = 12,
                                      .kv_heads = 2,
                                      .d = 8,
                                      .mask = MASK_PERMUTED});
}

static void test_heads_that_are_not_here(void **state)
{
    attention_case c = {.batch = 1,
                        .queries = 4,
                        .keys = 4,
                        .heads = 2,
                        .kv_heads = 1,
                        .d = 8,
                        .lo = 6,
                        .kv_lo = 0,
                        .whole = 8,
                        .kv_whole = 2};
    trial t;
    (void)state;
    attention_forward(&t, &c, "attention");
    attention_heads(trial_out(&t, WEFT_F32, SIZES(1, 4, 16)), &c, false);
    trial_out(&t, WEFT_F32, SIZES(1, 4, 2));
    weft_call call = {.op = t.op, .n_ins = 7, .n_outs = 2, .ins = t.ins, .outs = t.outs};
    assert_false(weft_kernel_accepts(t.kernel, &call));
    trial_release(&t);
}

/* Large scores: only the difference to the row's maximum counts. Scores of some hundred are exact
 * to 2e-5, and so is lse. */
static void test_large_scores(void **state)
{
    (void)state;
    attention_check(&(attention_case){.batch = 1,
                                      .queries = 70,
                                      .keys = 70,
                                      .heads = 1,
                                      .kv_heads = 1,
                                      .d = 16,
                                      .mask = MASK_CAUSAL,
                                      .scale = 40.0,
                                      .tolerance = 3e-4});
}

/* The thread counts of these tests take both ways through the gradient, which must not differ in a
 * bit. */
static void test_both_walks_are_taken(void **state)
{
    attention_case c = {.batch = 1, .queries = 8, .keys = 8, .heads = 2, .kv_heads = 1, .d = 8};
    weft_queue queue = {.grain = 1};
    cpu_attention a;
    trial t;
    (void)state;
    attention_forward(&t, &c, "attention_dx");
    attention_heads(trial_in(&t, WEFT_F32, 1, SIZES(1, 8, 16)), &c, false);
    trial_in(&t, WEFT_F32, 1, SIZES(1, 8, 2));
    attention_heads(trial_in(&t, WEFT_F32, 1, SIZES(1, 8, 16)), &c, false);
    for (int i = 0; i < 3; i++)
        attention_heads(trial_out(&t, WEFT_F32, SIZES(1, 8, i ? 8 : 16)), &c, i > 0);
    weft_call call = {.op = t.op,
                      .n_ins = 10,
                      .n_outs = 3,
                      .ins = t.ins,
                      .outs = t.outs,
                      .queue = &queue,
                      .threads = 1};
    assert_true(cpu_attention_read(&call, true, &a));
    assert_true(a.one_pass);
    call.threads = 7;
    assert_true(cpu_attention_read(&call, true, &a));
    assert_false(a.one_pass);
    trial_release(&t);
}

/* Long enough that threads have tiles of their own at sizes that no tile divides; what is written
 * past the workspace is seen. */
static void test_long(void **state)
{
    (void)state;
    attention_check(&(attention_case){
        .batch = 2, .queries = 200, .keys = 200, .heads = 6, .kv_heads = 1, .d = 48});
}

static void test_others_are_refused(void **state)
{
    attention_case c = {.batch = 1, .queries = 8, .keys = 8, .heads = 2, .kv_heads = 1, .d = 8};
    weft_queue queue = {.grain = 1};
    weft_error err = {0};
    trial t;
    (void)state;
    attention_forward(&t, &c, "attention");
    attention_heads(trial_out(&t, WEFT_F32, SIZES(1, 8, 16)), &c, false);
    trial_out(&t, WEFT_F32, SIZES(1, 8, 2));
    weft_call call = {.op = t.op,
                      .n_ins = 7,
                      .n_outs = 2,
                      .ins = t.ins,
                      .outs = t.outs,
                      .queue = &queue,
                      .threads = 2};
    call.workspace_bytes = t.kernel->workspace(&call);
    call.workspace = weft_alloc_aligned(64, call.workspace_bytes);
    assert_int_equal(t.kernel->prepare(&call, &call.state, &err), WEFT_OK);
    assert_int_equal(t.kernel->launch(&call, &err), WEFT_OK);
    call.threads = 3;
    assert_int_equal(t.kernel->launch(&call, &err), WEFT_ERR_INTERNAL);
    assert_non_null(strstr(weft_error_text(&err), "for 2 threads and not for 3"));
    weft_error_clear(&err);
    call.threads = 2;
    call.workspace_bytes--;
    assert_int_equal(t.kernel->launch(&call, &err), WEFT_ERR_INTERNAL);
    assert_non_null(strstr(weft_error_text(&err), "bytes of workspace"));
    t.kernel->release(call.state);
    weft_free_aligned(call.workspace);
    weft_error_release(&err);
    trial_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_few_queries),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_pairs_of_few_queries),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_shards_of_heads),
        cmocka_unit_test(test_large_groups),
        cmocka_unit_test(test_heads_that_are_not_here),
        cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_both_walks_are_taken),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_others_are_refused),
    };
    return cmocka_run_group_tests_name("cpu_attention", tests, NULL, NULL);
}
