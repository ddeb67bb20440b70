/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products, by any machine: f32, bf16 and both, empty extents. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "trial_ops.h"

void trial_linear(int64_t m, int64_t n, int64_t k, weft_dtype in, weft_dtype out)
{
    trial t;
    for (int op = 0; op < 3; op++) {
        trial_init(&t, op == 0 ? "linear" : op == 1 ? "linear_dx" : "linear_dw");
        t.product = true;
        t.tolerance = 1e-5;
        trial_in(&t, in, 1, op == 2 ? SIZES(1, k, m) : SIZES(1, m, k));
        trial_in(&t, in, 2, op == 0 ? SIZES(n, k) : op == 1 ? SIZES(k, n) : SIZES(1, k, n));
        trial_out(&t, out, op == 2 ? SIZES(m, n) : SIZES(1, m, n));
        trial_check(&t);
    }
}

void trial_test_products(void **state)
{
    static const int64_t sizes[][3] = {{1, 1, 1}, {3, 17, 5}, {65, 40, 129}, {1, 70, 64},
                                       {0, 4, 4}, {4, 0, 4},  {4, 5, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        trial_linear(sizes[i][0], sizes[i][1], sizes[i][2], WEFT_F32, WEFT_F32);
        trial_linear(sizes[i][0], sizes[i][1], sizes[i][2], WEFT_BF16, WEFT_BF16);
        trial_linear(sizes[i][0], sizes[i][1], sizes[i][2], WEFT_BF16, WEFT_F32);
    }
}

/* The rows of operand 0 are [outer each inner], or [outer each] if inner is negative. */
void trial_linear_each(const int64_t *sizes, weft_dtype in, weft_dtype out)
{
    static const char *const ops[] = {"linear_each", "linear_each_dx", "linear_each_dw"};
    const int64_t o = sizes[0], e = sizes[1], i = sizes[2], n = sizes[3], k = sizes[4];
    trial t;
    for (int op = 0; op < 3; op++) {
        trial_init(&t, ops[op]);
        trial_int(&t, "each", 1);
        t.product = true;
        t.tolerance = 1e-5;
        const int64_t a = op == 0 ? k : n, b = op == 1 ? k : n;
        trial_in(&t, in, 1, i < 0 ? SIZES(o, e, a) : SIZES(o, e, i, a));
        if (op < 2)
            trial_in(&t, in, 2, SIZES(e, n, k));
        else
            trial_in(&t, in, 2, i < 0 ? SIZES(o, e, k) : SIZES(o, e, i, k));
        if (op < 2)
            trial_out(&t, out, i < 0 ? SIZES(o, e, b) : SIZES(o, e, i, b));
        else
            trial_out(&t, out, SIZES(e, n, k));
        trial_check(&t);
    }
}

void trial_test_products_of_each(void **state)
{
    static const int64_t sizes[][5] = {{1, 3, 17, 5, 9}, {5, 3, -1, 17, 6}, {2, 3, 4, 5, 7},
                                       {1, 63, 2, 3, 5}, {2, 64, -1, 5, 3}, {3, 65, -1, 2, 9},
                                       {1, 1, 33, 8, 4}, {2, 1, 1, 70, 65}, {0, 3, 4, 5, 7},
                                       {2, 0, 4, 5, 7},  {2, 3, 0, 5, 7},   {2, 3, 4, 0, 7},
                                       {2, 3, 4, 5, 0},  {0, 3, -1, 5, 7},  {3, 4, 65, 33, 40}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        trial_linear_each(sizes[i], WEFT_F32, WEFT_F32);
        trial_linear_each(sizes[i], WEFT_BF16, WEFT_F32);
        if (sizes[i][0] == 1 || sizes[i][2] < 0) /* else sums of bf16 are the plain kernel's */
            trial_linear_each(sizes[i], WEFT_BF16, WEFT_BF16);
    }
}

/* Weights of three dims: [heads head_dim embed]. */
void trial_test_products_of_many_dims(void **state)
{
    (void)state;
    trial t;
    trial_init(&t, "linear");
    t.product = true;
    trial_in(&t, WEFT_F32, 1, SIZES(2, 3, 5, 7));
    trial_in(&t, WEFT_F32, 2, SIZES(4, 6, 5, 7));
    trial_out(&t, WEFT_F32, SIZES(2, 3, 4, 6));
    trial_check(&t);
    trial_init(&t, "linear_dx");
    t.product = true;
    trial_in(&t, WEFT_F32, 1, SIZES(2, 3, 4, 6));
    trial_in(&t, WEFT_F32, 2, SIZES(4, 6, 5, 7));
    trial_out(&t, WEFT_F32, SIZES(2, 3, 5, 7));
    trial_check(&t);
    trial_init(&t, "linear_dw");
    t.product = true;
    trial_in(&t, WEFT_F32, 1, SIZES(2, 3, 4, 6));
    trial_in(&t, WEFT_F32, 2, SIZES(2, 3, 5, 7));
    trial_out(&t, WEFT_F32, SIZES(4, 6, 5, 7));
    trial_check(&t);
}
