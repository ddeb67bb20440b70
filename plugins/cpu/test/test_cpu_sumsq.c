/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of squares against the plain op, and against an exact one. */
#include "../../../tests/lib/standard_ops.h"
#include "cpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <weft/random.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { MAX = 200000 };
static const int64_t counts[] = {0,    1,    2,    15,    16,    17,     63, 1000,
                                 8191, 8192, 8193, 16383, 16385, 100003, MAX};
enum { N_COUNTS = sizeof counts / sizeof counts[0] };

static const weft_kernel *find_kernel(void)
{
    const weft_kernel *k = cpu_kernels;
    while (k->op && strcmp(k->op, "sumsq") != 0)
        k++;
    assert_non_null(k->op);
    return k;
}

static weft_tensor vector(void *data, weft_dtype dtype, int64_t n)
{
    return (weft_tensor){
        .data = data, .dtype = dtype, .n_dims = 1, .size = {n}, .whole = {n}, .grain = {1}};
}

static float *fill(void)
{
    float *x = malloc(MAX * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < MAX; i++)
        x[i] = (float)weft_normal_inverse(weft_random_uniform(7, 9, (uint64_t)i));
    return x;
}

static double squares(bool plain, weft_tensor *x, weft_dtype out_type, double start,
                      bool accumulate, int threads)
{
    union {
        float f;
        double d;
    } out;
    weft_tensor result = (weft_tensor){.data = &out, .dtype = out_type};
    weft_tensor_set(&result, 0, start);
    weft_call call = {.n_ins = 1,
                      .n_outs = 1,
                      .ins = x,
                      .outs = &result,
                      .accumulate = accumulate,
                      .threads = threads};
    const weft_kernel *kernel = find_kernel();
    call.workspace_bytes = kernel->workspace(&call);
    call.workspace = weft_alloc_aligned(64, call.workspace_bytes + 64);
    assert_non_null(call.workspace);
    assert_int_equal(plain ? standard_op("sumsq")->plain(&call, NULL) : kernel->launch(&call, NULL),
                     WEFT_OK);
    weft_free_aligned(call.workspace);
    return weft_tensor_get(&result, 0);
}

/* A square of a float is exact in a double; what each addition rounds off is added in the end. No
 * long double, which valgrind makes a double of. */
static double exact_squares(const float *x, int64_t n)
{
    double sum = 0, lost = 0;
    for (int64_t i = 0; i < n; i++) {
        double square = (double)x[i] * (double)x[i], next = sum + square;
        lost += sum >= square ? sum - next + square : square - next + sum;
        sum = next;
    }
    return sum + lost;
}

static void sumsq_kernel(void **state)
{
    (void)state;
    float *data = fill();
    for (int c = 0; c < N_COUNTS; c++) {
        weft_tensor x = vector(data, WEFT_F32, counts[c]);
        double exact = exact_squares(data, counts[c]),
               plain = squares(true, &x, WEFT_F64, 5, false, 2),
               got = squares(false, &x, WEFT_F64, 5, false, 2);
        assert_true(fabs(got - exact) <= 1e-14 * exact);
        assert_true(fabs(plain - exact) <= (double)counts[c] * 0x1p-53 *
                                               exact); /* one long sum: the bound grows with it */
        assert_true(squares(true, &x, WEFT_F64, 5, true, 2) == plain + 5);
        assert_true(squares(false, &x, WEFT_F64, 5, true, 2) == got + 5);
        assert_true(squares(false, &x, WEFT_F32, 0, false, 2) == (double)(float)got);
    }
    free(data);
}

static void sumsq_kernel_any_threads(void **state)
{
    (void)state;
    float *data = fill();
    weft_tensor x = vector(data, WEFT_F32, MAX);
    double one = squares(false, &x, WEFT_F64, 0, false, 1);
    for (int threads = 2; threads <= 5; threads++)
        assert_true(squares(false, &x, WEFT_F64, 0, false, threads) == one);
    free(data);
}

static void who_is_accepted(void **state)
{
    (void)state;
    weft_tensor x = vector(NULL, WEFT_F32, 4);
    weft_call call = {.n_ins = 1, .ins = &x};
    assert_true(find_kernel()->accepts(&call));
    x = vector(NULL, WEFT_F64, 4);
    assert_false(find_kernel()->accepts(&call));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sumsq_kernel),
        cmocka_unit_test(who_is_accepted),
        cmocka_unit_test(sumsq_kernel_any_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
