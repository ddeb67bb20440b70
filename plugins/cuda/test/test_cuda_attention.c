/* SPDX-License-Identifier: Apache-2.0 */
/* attention and its gradient against the plain kernels: by matrix instructions (bf16) and without
 * (f32), masks of every kind, in any order of memory, grouped heads, shards of heads, heads of 8
 * to 256 elements. A sample; all of it with WEFT_LONG. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "trial_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weft/random.h>

static bool is_long(void)
{
    const char *whole = getenv("WEFT_LONG");
    return whole && *whole;
}

static void test_masks(void **state)
{
    (void)state;
    for (int m = 0; m <= MASK_FULL; m++)
        for (int half = is_long() ? 0 : m % 2; half < 2; half += is_long() ? 1 : 2)
            attention_check(&(attention_case){.batch = is_long() ? 2 : 1,
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
        attention_check(&(attention_case){.batch = 1,
                                          .queries = 67,
                                          .keys = is_long() ? 131 : 69,
                                          .heads = 2,
                                          .kv_heads = 2,
                                          .d = sizes[i],
                                          .mask = i % 2 ? MASK_DOCUMENTS : MASK_PERMUTED,
                                          .dtype = WEFT_BF16,
                                          .tolerance = 8e-3});
    for (int64_t d = 3; d <= 192; d *= 4)
        attention_check(&(attention_case){.batch = 1,
                                          .queries = 9,
                                          .keys = 35,
                                          .heads = 3,
                                          .kv_heads = 1,
                                          .d = d,
                                          .mask = MASK_LATE});
}

/* Where cuDNN computes a part of it: steps of a ring, of the queries, of the keys, some heads of a
 * group, results that are added or in f32. */
static void test_parts(void **state)
{
    static const mask masks[] = {MASK_HALF, MASK_HALF_KEYS, MASK_LATE, MASK_CAUSAL};
    (void)state;
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++)
        for (int sums = is_long() ? 0 : 1; sums < 2; sums++)
            attention_check(&(attention_case){.batch = 2,
                                              .queries = 18,
                                              .keys = masks[m] == MASK_CAUSAL ? 18 : 21,
                                              .heads = 4,
                                              .kv_heads = 2,
                                              .d = m % 2 ? 8 : 24,
                                              .lo = 4,
                                              .kv_lo = 2,
                                              .whole = 8,
                                              .kv_whole = 4,
                                              .mask = masks[m],
                                              .sums = sums,
                                              .dtype = WEFT_BF16,
                                              .tolerance = 8e-3});
}

/* Around the sizes of tiles, each pair of a query and a key shows: bounds of bf16 would hide one
 * key of 64. */
static void test_pairs(void **state)
{
    static const int64_t sizes[] = {65, 129, 64, 63, 128, 127};
    static const mask masks[] = {MASK_CAUSAL, MASK_DOCUMENTS, MASK_NONE};
    (void)state;
    for (size_t i = 0; i < (is_long() ? 36 : 4); i++)
        attention_check_pairs(&(attention_case){.queries = sizes[i / 6],
                                                .keys = sizes[i % 6],
                                                .heads = 1,
                                                .kv_heads = 1,
                                                .d = 64,
                                                .mask = masks[i % 3],
                                                .dtype = WEFT_BF16});
    for (size_t i = 0; i < (is_long() ? 6 : 2);
         i++) /* without matrix instructions, and wide heads */
        for (int wide = 0; wide < 2; wide++)
            attention_check_pairs(&(attention_case){.queries = 33,
                                                    .keys = sizes[i],
                                                    .heads = 1,
                                                    .kv_heads = 1,
                                                    .d = wide ? 136 : 40,
                                                    .first = 30,
                                                    .dtype = wide ? WEFT_BF16 : WEFT_F32});
}

/* Parts of a split that have got nothing. */
static void test_nothing(void **state)
{
    static const int64_t extents[][4] = {{0, 5, 5, 2}, {1, 0, 70, 2}, {1, 70, 0, 2}, {1, 5, 5, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
        for (int half = 0; half < 2; half++)
            attention_check(&(attention_case){.batch = extents[i][0],
                                              .queries = extents[i][1],
                                              .keys = extents[i][2],
                                              .heads = extents[i][3],
                                              .kv_heads = extents[i][3] / 2,
                                              .d = 16,
                                              .whole = 4,
                                              .kv_whole = 2,
                                              .mask = MASK_CAUSAL,
                                              .dtype = half ? WEFT_BF16 : WEFT_F32,
                                              .tolerance = half ? 8e-3 : 0});
}

static void test_shards_of_heads(void **state)
{
    (void)state;
    for (int half = 0; half < 2; half++)
        for (int64_t lo = 3; lo >= (is_long() ? 0 : 3); lo -= 3)
            attention_check(&(attention_case){.batch = 1,
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

static void check_long(int64_t d)
{
    for (int m = 0; m < MASKS && is_long(); m++)
        attention_check(&(attention_case){.batch = 2,
                                          .queries = 193,
                                          .keys = 257,
                                          .heads = 4,
                                          .kv_heads = 2,
                                          .d = d,
                                          .mask = (mask)m,
                                          .dtype = WEFT_BF16,
                                          .tolerance = 8e-3});
}

static void test_long_64(void **state)
{
    (void)state;
    check_long(64);
}

static void test_long_128(void **state)
{
    (void)state;
    check_long(128);
}

static void test_long_256(void **state)
{
    (void)state;
    check_long(256);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks),           cmocka_unit_test(test_head_sizes),
        cmocka_unit_test(test_shards_of_heads), cmocka_unit_test(test_merge),
        cmocka_unit_test(test_nothing),         cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_parts),           cmocka_unit_test(test_long_64),
        cmocka_unit_test(test_long_128),        cmocka_unit_test(test_long_256),
    };
    return trial_main(argc, argv, "cuda_attention", tests, sizeof tests / sizeof *tests);
}
