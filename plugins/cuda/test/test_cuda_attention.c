/* SPDX-License-Identifier: Apache-2.0 */
/* attention and its gradient against the plain kernels: by matrix instructions (bf16) and without
 * (f32), masks of every kind, in any order of memory, grouped heads, shards of heads, heads of 8
 * to 256 elements. A sample; all of it with WEFT_LONG. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fake.h"
#include "trial.h"

#include <math.h>
#include <stdlib.h>
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

    fake_set_order(0);
    trial_run(&f, false);
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

static bool is_long(void)
{
    const char *whole = getenv("WEFT_LONG");
    return whole && *whole;
}

static void test_masks(void **state)
{
    (void)state;
    for (int m = 0; m < MASKS; m++)
        for (int half = is_long() ? 0 : m % 2; half < 2; half += is_long() ? 1 : 2)
            check(&(attention_case){.batch = 2,
                                    .queries = 70,
                                    .keys = 70,
                                    .heads = 2,
                                    .kv_heads = 1,
                                    .d = 16,
                                    .mask = (mask)m,
                                    .dtype = half ? WEFT_BF16 : WEFT_F32,
                                    .tolerance = half ? 8e-3 : 0});
}

static void test_head_sizes(void **state)
{
    static const int64_t sizes[] = {40, 8, 64, 128, 72, 136, 256};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i += is_long() ? 1 : 3)
        check(&(attention_case){.batch = 1,
                                .queries = 67,
                                .keys = is_long() ? 131 : 69,
                                .heads = 2,
                                .kv_heads = 2,
                                .d = sizes[i],
                                .mask = i % 2 ? MASK_DOCUMENTS : MASK_PERMUTED,
                                .dtype = WEFT_BF16,
                                .tolerance = 8e-3});
    for (int64_t d = 3; d <= 192; d *= 4)
        check(&(attention_case){.batch = 1,
                                .queries = 9,
                                .keys = 35,
                                .heads = 3,
                                .kv_heads = 1,
                                .d = d,
                                .mask = MASK_LATE});
}

static void test_shards_of_heads(void **state)
{
    (void)state;
    for (int half = 0; half < 2; half++)
        for (int64_t lo = 3; lo >= (is_long() ? 0 : 3); lo -= 3)
            check(&(attention_case){.batch = 1,
                                    .queries = 33,
                                    .keys = 65,
                                    .heads = 3,
                                    .kv_heads = 2,
                                    .d = 16,
                                    .lo = lo,
                                    .kv_lo = lo / 2,
                                    .whole = 8,
                                    .kv_whole = 4,
                                    .mask = MASK_CAUSAL,
                                    .dtype = half ? WEFT_BF16 : WEFT_F32,
                                    .tolerance = half ? 8e-3 : 0});
}

static void test_merge(void **state)
{
    (void)state;
    for (int half = 0; half < 2; half++)
        for (int64_t d = 3; d <= 264; d += 87) {
            trial t;
            weft_dtype dtype = half ? WEFT_BF16 : WEFT_F32;
            trial_init(&t, "attention_merge");
            for (uint64_t i = 0; i < 2; i++) {
                trial_in(&t, dtype, i + 1, SIZES(2, 3, 2 * d));
                weft_tensor *lse = trial_in(&t, WEFT_F32, i + 5, SIZES(2, 3, 2));
                weft_tensor_set(lse, 2 + (int64_t)i, -INFINITY);
                weft_tensor_set(lse, 5, -INFINITY);
                weft_tensor_set(lse, 7 + (int64_t)i, NAN);
            }
            trial_out(&t, dtype, SIZES(2, 3, 2 * d));
            trial_out(&t, WEFT_F32, SIZES(2, 3, 2));
            trial_check(&t);
        }
}

static void test_long(void **state)
{
    (void)state;
    for (int m = 0; m < MASKS && is_long(); m++)
        for (int64_t d = 64; d <= 256; d *= 2)
            check(&(attention_case){.batch = 2,
                                    .queries = 193,
                                    .keys = 257,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .d = d,
                                    .mask = (mask)m,
                                    .dtype = WEFT_BF16,
                                    .tolerance = 8e-3});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_head_sizes),
        cmocka_unit_test(test_shards_of_heads),
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_long),
    };
    return cmocka_run_group_tests_name("cuda_attention", tests, NULL, NULL);
}
