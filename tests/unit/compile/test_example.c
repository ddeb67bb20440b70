/* SPDX-License-Identifier: Apache-2.0 */
/* The op of the example plugin: its gradient, its fast kernels, what they accept. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../../../examples/plugin/tinylm.h"

enum { N = 1000 };

static weft_tensor vector(void *data, weft_dtype dtype)
{
    return (weft_tensor){
        .data = data, .dtype = dtype, .n_dims = 1, .size = {N}, .whole = {N}, .grain = {1}};
}

static weft_call call_of(const weft_op *op, const weft_tensor *ins, int n_ins,
                         const weft_tensor *out)
{
    return (weft_call){.op = op, .n_ins = n_ins, .n_outs = 1, .ins = ins, .outs = out};
}

/* Numbers of both signs, none so near zero that a difference would straddle it. */
static double number(uint64_t stream, int i)
{
    double u = 4 * weft_random_uniform(7, stream, (uint64_t)i) - 2;
    return fabs(u) < 0.01 ? 0.5 : u;
}

static const weft_kernel *kernel(const char *op)
{
    for (const weft_kernel *k = relu2_kernels; k->op; k++)
        if (strcmp(k->op, op) == 0)
            return k;
    fail_msg("no kernel for %s", op);
    return NULL;
}

static void test_gradient(void **state)
{
    static double x[N], dy[N], dx[N], high[N], low[N], moved[N];
    const double h = 1e-5;
    (void)state;
    for (int i = 0; i < N; i++) {
        x[i] = number(1, i);
        dy[i] = number(2, i);
        dx[i] = 3;
    }
    weft_tensor ins[] = {vector(x, WEFT_F64), vector(dy, WEFT_F64)}, out = vector(dx, WEFT_F64),
                at = vector(moved, WEFT_F64);
    weft_call call = call_of(&relu2_dx_op, ins, 2, &out);
    assert_int_equal(relu2_dx_op.plain(&call, NULL), WEFT_OK);
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < N; i++)
            moved[i] = x[i] + (side ? h : -h);
        out = vector(side ? high : low, WEFT_F64);
        call = call_of(&relu2_op, &at, 1, &out);
        assert_int_equal(relu2_op.plain(&call, NULL), WEFT_OK);
    }
    for (int i = 0; i < N; i++) {
        assert_true(fabs(high[i] - pow(fmax(x[i] + h, 0), 2)) < 1e-12);
        assert_true(fabs(dx[i] - dy[i] * (high[i] - low[i]) / (2 * h)) < 1e-8);
    }
}

static void check_fast(const weft_op *op, int n_ins)
{
    static float in[2][N], fast[N], plain[N];
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < N; i++)
            in[k][i] = (float)number(3 + (uint64_t)k, i);
    memset(fast, 0x7f, sizeof fast);
    weft_tensor ins[] = {vector(in[0], WEFT_F32), vector(in[1], WEFT_F32)},
                out = vector(fast, WEFT_F32);
    weft_call call = call_of(op, ins, n_ins, &out);
    assert_true(kernel(op->name)->accepts(&call));
    assert_int_equal(kernel(op->name)->launch(&call, NULL), WEFT_OK);
    out.data = plain;
    assert_int_equal(op->plain(&call, NULL), WEFT_OK);
    for (int i = 0; i < N; i++)
        assert_true(fabsf(fast[i] - plain[i]) <= 4e-7f * fabsf(plain[i]));
    /* INPLACE: the result may lie where operand 0 lies. */
    out.data = in[0];
    assert_int_equal(kernel(op->name)->launch(&call, NULL), WEFT_OK);
    assert_memory_equal(in[0], fast, sizeof fast);
}

static void test_fast_kernels(void **state)
{
    (void)state;
    check_fast(&relu2_op, 1);
    check_fast(&relu2_dx_op, 2);
}

static void test_accumulate(void **state)
{
    static double x[N], y[N];
    (void)state;
    for (int i = 0; i < N; i++) {
        x[i] = number(5, i);
        y[i] = 10;
    }
    weft_tensor in = vector(x, WEFT_F64), out = vector(y, WEFT_F64);
    weft_call call = call_of(&relu2_op, &in, 1, &out);
    call.accumulate = true;
    assert_int_equal(relu2_op.plain(&call, NULL), WEFT_OK);
    for (int i = 0; i < N; i++)
        assert_true(fabs(y[i] - 10 - (x[i] > 0 ? x[i] * x[i] : 0)) < 1e-12);
}

static void test_other_dtypes_are_left_to_the_plain_kernel(void **state)
{
    weft_tensor in = vector(NULL, WEFT_F32), out = vector(NULL, WEFT_BF16);
    weft_call call = call_of(&relu2_op, &in, 1, &out);
    (void)state;
    assert_false(kernel("relu2")->accepts(&call));
    in.dtype = WEFT_BF16;
    out.dtype = WEFT_F32;
    assert_false(kernel("relu2")->accepts(&call));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradient),
        cmocka_unit_test(test_fast_kernels),
        cmocka_unit_test(test_accumulate),
        cmocka_unit_test(test_other_dtypes_are_left_to_the_plain_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
