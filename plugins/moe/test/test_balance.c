/* SPDX-License-Identifier: Apache-2.0 */
/* The bias at its published rate: scores that send most tokens to a few experts are evened within
 * 300 steps, and a bias that is even already stays so. */
#include "../moe.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <weft/random.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { TOKENS = 1024, EXPERTS = 16, K = 2, STEPS = 300, LAST = 20 };

static double logits[TOKENS * EXPERTS], bias[EXPERTS], load[EXPERTS], weights[TOKENS * K];
static int32_t chosen[TOKENS * K];

static weft_tensor tensor(void *data, weft_dtype dtype, int n, const int64_t *size)
{
    weft_tensor t = {.data = data, .dtype = dtype, .n_dims = n};
    for (int d = 0; d < n; d++) {
        t.size[d] = t.whole[d] = size[d];
        t.grain[d] = 1;
    }
    return t;
}

static void launch(const weft_op *op, const weft_tensor ins[2], const weft_tensor *outs, int n_outs)
{
    static const weft_attr attrs[] = {{.key = "k", .kind = WEFT_ATTR_INT, .i = K},
                                      {.key = "score", .kind = WEFT_ATTR_INT, .i = MOE_SIGMOID},
                                      {.key = "norm", .kind = WEFT_ATTR_INT, .i = 1},
                                      {.key = "scale", .kind = WEFT_ATTR_REAL, .r = 1},
                                      {.key = "rate", .kind = WEFT_ATTR_REAL, .r = 1e-3}};
    weft_error err = {0};
    const weft_call call = {.op = op,
                            .attrs = attrs,
                            .n_attrs = (int)(sizeof attrs / sizeof *attrs),
                            .n_ins = 2,
                            .n_outs = n_outs,
                            .ins = ins,
                            .outs = outs};
    if (op->plain(&call, &err))
        fail_msg("%s", weft_error_text(&err));
}

/* Choices by the bias, their load, the next bias; the largest load over the mean. */
static double step(void)
{
    const weft_tensor of_bias = tensor(bias, WEFT_F64, 1, (int64_t[]){EXPERTS}),
                      of_load = tensor(load, WEFT_F64, 1, (int64_t[]){EXPERTS});
    const weft_tensor routes[] = {tensor(logits, WEFT_F64, 3, (int64_t[]){1, TOKENS, EXPERTS}),
                                  of_bias};
    const weft_tensor routed[] = {tensor(chosen, WEFT_I32, 3, (int64_t[]){1, TOKENS, K}),
                                  tensor(weights, WEFT_F64, 3, (int64_t[]){1, TOKENS, K})};
    double most = 0;
    launch(&moe_route, routes, routed, 2);
    for (int x = 0; x < EXPERTS; x++)
        load[x] = 0;
    for (int i = 0; i < TOKENS * K; i++)
        load[chosen[i]]++;
    for (int x = 0; x < EXPERTS; x++)
        most = fmax(most, load[x]);
    launch(&moe_bias_step, (weft_tensor[]){of_bias, of_load}, &of_bias, 1);
    return most * EXPERTS / (TOKENS * K);
}

/* About normal, of width 1. */
static double noise(uint64_t i)
{
    double sum = 0;
    for (uint64_t k = 0; k < 12; k++)
        sum += weft_random_uniform(1, 2, 12 * i + k);
    return sum - 6;
}

static void test_bias_evens_load(void **state)
{
    double first = 0, last = 0;
    (void)state;
    for (int i = 0; i < TOKENS * EXPERTS; i++)
        logits[i] = 0.4 * noise((uint64_t)i) + 0.4 * (i % EXPERTS % 5 == 0);
    for (int n = 0; n < STEPS; n++) {
        const double most = step();
        first = n == 0 ? most : first;
        last += n < STEPS - LAST ? 0 : most / LAST;
    }
    print_message("the largest load over the mean: %.2f, then %.3f\n", first, last);
    assert_true(first > 2);
    assert_true(last < 1.2);
}

/* One expert too many and one too few move against each other, and none that has its share. */
static void test_step_is_the_sign(void **state)
{
    const weft_tensor of_bias = tensor(bias, WEFT_F64, 1, (int64_t[]){EXPERTS}),
                      of_load = tensor(load, WEFT_F64, 1, (int64_t[]){EXPERTS});
    (void)state;
    for (int x = 0; x < EXPERTS; x++)
        bias[x] = 0, load[x] = 100;
    load[3] = 101, load[4] = 99;
    launch(&moe_bias_step, (weft_tensor[]){of_bias, of_load}, &of_bias, 1);
    for (int x = 0; x < EXPERTS; x++)
        assert_true(bias[x] == (x == 3 ? -1e-3 : x == 4 ? 1e-3 : 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bias_evens_load),
        cmocka_unit_test(test_step_is_the_sign),
    };
    return cmocka_run_group_tests_name("balance", tests, NULL, NULL);
}
