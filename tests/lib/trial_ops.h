/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the core's ops by whatever machine is linked. */
#ifndef WEFT_TEST_TRIAL_OPS_H
#define WEFT_TEST_TRIAL_OPS_H

#include "trial.h"

#define EACH(type, x, ...)                                                                         \
    for (size_t i_##x = 0; i_##x < sizeof((const type[]){__VA_ARGS__}) / sizeof(type); i_##x++)    \
        for (type x = ((const type[]){__VA_ARGS__})[i_##x], *once_##x = &x; once_##x;              \
             once_##x = NULL)

typedef const char *name; /* EACH declares a pointer too */

static const weft_dtype halves[2] = {WEFT_F32, WEFT_BF16};

/* Of many like it, every third is enough where time is short, or the seventh where the machine is
 * slow. */
bool trial_left_out(void);
bool trial_left_out_of(int *n, int every); /* n: a count of the test's own */
#define SAMPLE                                                                                     \
    if (trial_left_out())                                                                          \
    continue

void trial_test_elementwise(void **state), trial_test_casts(void **state),
    trial_test_bf16_rounds_to_nearest_even(void **state), trial_test_norms(void **state),
    trial_test_norms_with_a_large_mean(void **state), trial_test_sums(void **state),
    trial_test_rope(void **state), trial_test_embedding(void **state),
    trial_test_take(void **state), trial_test_chunk(void **state),
    trial_test_vocabulary(void **state), trial_test_max_keeps_nan(void **state),
    trial_test_nll(void **state);

/* What float8 joins, to the bits of its members; not in the list below, for not all machines have
 * float8's kernels. */
void trial_test_narrowed(void **state);

#define TRIAL_OPS                                                                                  \
    cmocka_unit_test(trial_test_elementwise), cmocka_unit_test(trial_test_casts),                  \
        cmocka_unit_test(trial_test_bf16_rounds_to_nearest_even),                                  \
        cmocka_unit_test(trial_test_norms), cmocka_unit_test(trial_test_norms_with_a_large_mean),  \
        cmocka_unit_test(trial_test_sums), cmocka_unit_test(trial_test_rope),                      \
        cmocka_unit_test(trial_test_embedding), cmocka_unit_test(trial_test_take),                 \
        cmocka_unit_test(trial_test_chunk), cmocka_unit_test(trial_test_vocabulary),               \
        cmocka_unit_test(trial_test_max_keeps_nan), cmocka_unit_test(trial_test_nll)

/* ---- trial_products.c ---- */

/* linear, linear_dx and linear_dw of these extents. */
void trial_linear(int64_t m, int64_t n, int64_t k, weft_dtype in, weft_dtype out);
void trial_test_products(void **state), trial_test_products_of_many_dims(void **state),
    trial_test_products_of_each(void **state);
/* linear_each and its gradients: outer, each, inner (below 0: there is no such dim), n, k. */
void trial_linear_each(const int64_t *sizes, weft_dtype in, weft_dtype out);

#define TRIAL_PRODUCTS                                                                             \
    cmocka_unit_test(trial_test_products), cmocka_unit_test(trial_test_products_of_many_dims),     \
        cmocka_unit_test(trial_test_products_of_each)

#endif
