/* SPDX-License-Identifier: Apache-2.0 */
/* attention and its gradient against the plain kernels: masks of every kind, in any order of
 * memory, grouped heads, shards of heads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "call.h"

#include <math.h>
#include <string.h>

#include <weft/random.h>

typedef enum mask {
    MASK_CAUSAL,    /* in the order of memory */
    MASK_PERMUTED,  /* index is a permutation */
    MASK_DOCUMENTS, /* three segments, one after the other, and causal */
    MASK_SCATTERED, /* segments in no order, not causal */
    MASK_NONE,      /* everything is seen */
    MASK_NOTHING,   /* segments that never match */
    MASK_LATE,      /* the queries come after all keys, as in a ring's earlier part */
    MASKS,
} mask;

typedef struct attention_case {
    int64_t batch, queries, keys, heads, kv_heads, d;
    int64_t lo, kv_lo, whole, kv_whole; /* in heads; whole 0: all are here */
    mask mask;
    weft_dtype dtype;
    double scale, tolerance;
} attention_case;

static void set(weft_tensor *t, int64_t i, int64_t x)
{
    ((int32_t *)t->data)[i] = (int32_t)x;
}

static void fill_masks(const attention_case *c, weft_tensor *iq, weft_tensor *ik, weft_tensor *sq,
                       weft_tensor *sk)
{
    int64_t m = c->queries, n = c->keys;
    for (int64_t i = 0; i < m; i++)
        set(iq, i,
            c->mask == MASK_PERMUTED ? (int64_t)weft_permute(1, 2, (uint64_t)m, (uint64_t)i)
            : c->mask == MASK_LATE   ? i + n
                                     : i);
    for (int64_t j = 0; j < n; j++)
        set(ik, j,
            c->mask == MASK_PERMUTED ? (int64_t)weft_permute(1, 2, (uint64_t)n, (uint64_t)j) : j);
    for (int64_t i = 0; i < c->batch * m; i++)
        set(sq, i,
            c->mask == MASK_DOCUMENTS   ? i % m * 3 / m
            : c->mask == MASK_SCATTERED ? (int64_t)(weft_random_bits(5, 6, (uint64_t)i) % 4)
            : c->mask == MASK_NOTHING   ? 1
                                        : 0);
    for (int64_t j = 0; j < c->batch * n; j++)
        set(sk, j,
            c->mask == MASK_DOCUMENTS   ? j % n * 3 / n
            : c->mask == MASK_SCATTERED ? (int64_t)(weft_random_bits(7, 8, (uint64_t)j) % 3)
            : c->mask == MASK_NOTHING   ? j % 2 * 2
                                        : 0);
}

static void heads(weft_tensor *t, const attention_case *c, bool kv)
{
    int64_t lo = kv ? c->kv_lo : c->lo, whole = kv ? c->kv_whole : c->whole,
            here = kv ? c->kv_heads : c->heads;
    tensor_heads(t, c->d, lo * c->d, (whole ? whole : here) * c->d);
}

static void make_forward(trial *t, const attention_case *c, const char *op)
{
    trial_init(t, op);
    trial_int(t, "causal", c->mask <= MASK_DOCUMENTS || c->mask == MASK_LATE);
    trial_real(t, "scale", c->scale);
    t->tolerance = c->tolerance > 0.0 ? c->tolerance : 2e-5;
    t->size = 1.0; /* of the operands: a gradient that is 0 comes from sums of that size */
    heads(trial_in(t, c->dtype, 1, SIZES(c->batch, c->queries, c->heads * c->d)), c, false);
    heads(trial_in(t, c->dtype, 2, SIZES(c->batch, c->keys, c->kv_heads * c->d)), c, true);
    heads(trial_in(t, c->dtype, 3, SIZES(c->batch, c->keys, c->kv_heads * c->d)), c, true);
    weft_tensor *iq = trial_in(t, WEFT_I32, 1, SIZES(c->queries)),
                *ik = trial_in(t, WEFT_I32, 1, SIZES(c->keys));
    weft_tensor *sq = trial_in(t, WEFT_I32, 1, SIZES(c->batch, c->queries)),
                *sk = trial_in(t, WEFT_I32, 1, SIZES(c->batch, c->keys));
    fill_masks(c, iq, ik, sq, sk);
}

static void check(const attention_case *c)
{
    trial f, b;
    make_forward(&f, c, "attention");
    weft_tensor *out = trial_out(&f, c->dtype, SIZES(c->batch, c->queries, c->heads * c->d));
    heads(out, c, false);
    weft_tensor *lse = trial_out(&f, WEFT_F32, SIZES(c->batch, c->queries, c->heads));

    trial_run(&f, CPU_ISA_GENERIC, 1, CPU_PRODUCTS_F32, false);
    make_forward(&b, c, "attention_dx");
    heads(trial_in(&b, c->dtype, 1, SIZES(c->batch, c->queries, c->heads * c->d)), c, false);
    trial_in(&b, WEFT_F32, 1, SIZES(c->batch, c->queries, c->heads));
    heads(trial_in(&b, c->dtype, 4, SIZES(c->batch, c->queries, c->heads * c->d)), c, false);
    memcpy(b.ins[7].data, out->data, (size_t)weft_tensor_count(out) * weft_dtype_size(out->dtype));
    memcpy(b.ins[8].data, lse->data, (size_t)weft_tensor_count(lse) * sizeof(float));
    heads(trial_out(&b, c->dtype, SIZES(c->batch, c->queries, c->heads * c->d)), c, false);
    heads(trial_out(&b, c->dtype, SIZES(c->batch, c->keys, c->kv_heads * c->d)), c, true);
    heads(trial_out(&b, c->dtype, SIZES(c->batch, c->keys, c->kv_heads * c->d)), c, true);
    trial_check(&f);
    trial_check(&b);
}

/* The kernel for few queries. */
static void check_decode(const attention_case *c)
{
    trial f;
    make_forward(&f, c, "attention");
    trial_choose(&f, "attention_decode", "decode");
    heads(trial_out(&f, c->dtype, SIZES(c->batch, c->queries, c->heads * c->d)), c, false);
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
            set(index, k, starts[i / 2] + k);
        trial_out(&t, dtype, SIZES(2, 7, 12));
        trial_check(&t);
    }
}

static void test_masks(void **state)
{
    (void)state;
    for (int m = 0; m < MASKS; m++)
        for (int type = 0; type < 2; type++) {
            check(&(attention_case){.batch = 2,
                                    .queries = 150,
                                    .keys = 150,
                                    .heads = 2,
                                    .kv_heads = 1,
                                    .d = 24,
                                    .mask = (mask)m,
                                    .dtype = type ? WEFT_BF16 : WEFT_F32});
            check(&(attention_case){.batch = 1,
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
        check(&(attention_case){.batch = 1,
                                .queries = lengths[i],
                                .keys = lengths[5 - i],
                                .heads = 2,
                                .kv_heads = 1,
                                .d = 8,
                                .mask = MASK_CAUSAL});
        check(&(attention_case){.batch = 1,
                                .queries = 67,
                                .keys = 67,
                                .heads = 1,
                                .kv_heads = 1,
                                .d = dims[i],
                                .mask = MASK_CAUSAL,
                                .scale = 0.3});
    }
    check(
        &(attention_case){.batch = 0, .queries = 5, .keys = 5, .heads = 1, .kv_heads = 1, .d = 8});
    check(&(attention_case){.batch = 1,
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
    check(&(attention_case){.batch = 1,
                            .queries = 80,
                            .keys = 80,
                            .heads = 3,
                            .kv_heads = 2,
                            .d = 8,
                            .lo = 3,
                            .kv_lo = 1,
                            .whole = 8,
                            .kv_whole = 4});
    check(&(attention_case){.batch = 1,
                            .queries = 80,
                            .keys = 80,
                            .heads = 2,
                            .kv_heads = 1,
                            .d = 8,
                            .lo = 6,
                            .kv_lo = 1,
                            .whole = 8,
                            .kv_whole = 2});
    check(&(attention_case){.batch = 2,
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
    check(&(attention_case){.batch = 2,
                            .queries = 70,
                            .keys = 70,
                            .heads = 9,
                            .kv_heads = 1,
                            .d = 8,
                            .mask = MASK_CAUSAL});
    check(&(attention_case){.batch = 1,
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
    make_forward(&t, &c, "attention");
    heads(trial_out(&t, WEFT_F32, SIZES(1, 4, 16)), &c, false);
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
    check(&(attention_case){.batch = 1,
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
    make_forward(&t, &c, "attention_dx");
    heads(trial_in(&t, WEFT_F32, 1, SIZES(1, 8, 16)), &c, false);
    trial_in(&t, WEFT_F32, 1, SIZES(1, 8, 2));
    heads(trial_in(&t, WEFT_F32, 1, SIZES(1, 8, 16)), &c, false);
    for (int i = 0; i < 3; i++)
        heads(trial_out(&t, WEFT_F32, SIZES(1, 8, i ? 8 : 16)), &c, i > 0);
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
    check(&(attention_case){
        .batch = 2, .queries = 200, .keys = 200, .heads = 6, .kv_heads = 1, .d = 48});
}

static void test_others_are_refused(void **state)
{
    attention_case c = {.batch = 1, .queries = 8, .keys = 8, .heads = 2, .kv_heads = 1, .d = 8};
    weft_queue queue = {.grain = 1};
    weft_error err = {0};
    trial t;
    (void)state;
    make_forward(&t, &c, "attention");
    heads(trial_out(&t, WEFT_F32, SIZES(1, 8, 16)), &c, false);
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
