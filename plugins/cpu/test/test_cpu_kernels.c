/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel of the cpu plugin against its op's plain kernel: f32 and bf16, odd and empty
 * extents, shards, every instruction set of this CPU, several thread counts (equal to the bit but
 * for oneDNN's products), with and without accumulation, in place where the op allows it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../../../tests/lib/standard_ops.h"
#include "cpu.h"
#include "trial_ops.h"

#include <math.h>
#include <string.h>

#include <weft/random.h>

/* ---- the table ---- */

static bool has_kernel(const char *op)
{
    for (const weft_kernel *k = cpu_kernels; k->op; k++)
        if (strcmp(k->op, op) == 0)
            return true;
    return false;
}

static void test_every_op_has_a_kernel(void **state)
{
    /* Single numbers, what lowering replaces, where maxima begin, once a step or a micro-batch,
     * what is joined for GPUs alone. */
    static const char *const plain_only[] = {
        "constant", "reciprocal", "sqrt",  "clip",  "gather",      "redistribute",
        "lowest",   "angles",     "fetch", "evict", "linear_pair", "linear_pair_dw"};
    (void)state;
    for (const weft_op *const *o = standard_ops(); *o; o++) {
        bool expected = !((*o)->flags & WEFT_OP_SOURCE);
        for (size_t i = 0; i < sizeof plain_only / sizeof *plain_only; i++)
            expected = expected && strcmp((*o)->name, plain_only[i]) != 0;
        if (has_kernel((*o)->name) != expected)
            fail_msg("%s: %s", (*o)->name, expected ? "no kernel" : "an unexpected kernel");
    }
}

static void test_f64_is_left_to_the_plain_kernels(void **state)
{
    (void)state;
    EACH(name, op, "add", "linear", "rms_norm")
    {
        trial t;
        trial_init(&t, op);
        trial_in(&t, WEFT_F64, 1, SIZES(2, 4));
        trial_in(&t, WEFT_F64, 2, SIZES(4, 4));
        trial_out(&t, WEFT_F64, SIZES(2, 4));
        weft_call call = {.op = t.op, .n_ins = 2, .n_outs = 1, .ins = t.ins, .outs = t.outs};
        assert_false(weft_kernel_accepts(t.kernel, &call));
        trial_release(&t);
    }
}

/* ---- exp ---- */

static double ulps(float got, double want)
{
    float nearest = (float)want;
    double step = fmax((double)nextafterf(nearest, INFINITY) - (double)nearest, 0x1p-149);
    return fabs((double)got - want) / step;
}

static void test_exp_is_within_two_ulp(void **state)
{
    enum { N = 400000 };
    float *x = weft_alloc(N * sizeof *x), *y = weft_alloc(N * sizeof *y);
    (void)state;
    assert_non_null(x);
    assert_non_null(y);
    for (int i = 0; i < N; i++)
        x[i] = -104.5f + 193.2f * (float)i / (float)N;
    x[0] = -INFINITY, x[1] = INFINITY, x[2] = NAN, x[3] = 0.0f, x[4] = -1e30f, x[5] = 1e30f,
    x[6] = -0.0f;
    for (int isa = CPU_ISA_GENERIC; isa <= (int)cpu_isa_get(); isa++) {
        cpu_launchers_get((cpu_isa)isa)->exp(x, y, N);
        assert_true(y[0] == 0.0f && y[1] == INFINITY && isnan(y[2]) && y[3] == 1.0f &&
                    y[4] == 0.0f && y[5] == INFINITY && y[6] == 1.0f);
        for (int i = 7; i < N; i++) {
            double want = exp((double)x[i]);
            if (want < 3.4028e38 && ulps(y[i], want) > 2.0)
                fail_msg("exp(%.9g) = %.9g, not %.9g (%s)", (double)x[i], (double)y[i], want,
                         cpu_isa_name((cpu_isa)isa));
        }
    }
    weft_free(x);
    weft_free(y);
}

/* ---- loss: exponentials of logits less their maximum ---- */

static void test_weights_of_logits_are_exponentials(void **state)
{
    enum { N = 100000, FAR = 5 };
    static const float far[FAR] = {-88.1f, -1e4f, -1e9f, -3e38f, -INFINITY};
    float *x = weft_alloc(N * sizeof *x), *y = weft_alloc(N * sizeof *y),
          *e = weft_alloc(N * sizeof *e), zero = 0.0f, one = 1.0f;
    (void)state;
    assert_non_null(x);
    assert_non_null(y);
    assert_non_null(e);
    for (int i = 0; i < N; i++)
        x[i] = i < FAR ? far[i] : -87.3f * (float)(i - FAR) / (float)(N - FAR);
    const weft_tensor row = {.data = x, .dtype = WEFT_F32, .n_dims = 2, .size = {1, N}},
                      out = {.data = y, .dtype = WEFT_F32, .n_dims = 2, .size = {1, N}},
                      ins[] = {row,
                               {.data = &zero, .dtype = WEFT_F32, .n_dims = 1, .size = {1}},
                               {.data = &one, .dtype = WEFT_F32, .n_dims = 1, .size = {1}}};
    const weft_call call = {.n_ins = 3, .n_outs = 1, .ins = ins, .outs = &out, .threads = 1};
    for (int isa = CPU_ISA_GENERIC; isa <= (int)cpu_isa_get(); isa++) {
        const cpu_launchers *launchers = cpu_launchers_get((cpu_isa)isa);
        assert_int_equal(launchers->sumexp_dx(&call, NULL), WEFT_OK);
        launchers->exp(x, e, N);
        for (int i = 0; i < N; i++)
            if (y[i] != (i < FAR ? 0.0f : e[i]))
                fail_msg("e^%.9g: %.9g, not %.9g (%s)", (double)x[i], (double)y[i],
                         i < FAR ? 0.0 : (double)e[i], cpu_isa_name((cpu_isa)isa));
    }
    weft_free(x);
    weft_free(y);
    weft_free(e);
}

/* ---- element-wise ---- */

/* ---- norms and sums over rows ---- */

/* ---- rope ---- */

/* ---- rows that move ---- */

/* ---- loss ---- */

/* ---- norms of heads, of which a row has several ---- */

static void norm_heads(const char *op, const char *ins, int64_t rows, int64_t heads, int64_t width,
                       weft_dtype dtype)
{
    const bool dw = strcmp(op, "head_norm_dw") == 0;
    trial t;
    trial_init(&t, op);
    trial_real(&t, "eps", 1e-5);
    t.tolerance = 1e-5;
    for (const char *p = ins; *p; p++) {
        weft_tensor *in = trial_in(&t, dtype, (uint64_t)(p - ins) + 1,
                                   *p == 'x' ? SIZES(1, rows, heads * width) : SIZES(width));
        if (*p == 'x')
            tensor_heads(in, width, 0, heads * width);
    }
    weft_tensor *out = trial_out(&t, dtype, dw ? SIZES(width) : SIZES(1, rows, heads * width));
    if (!dw)
        tensor_heads(out, width, 0, heads * width);
    trial_check(&t);
}

static void test_norms_of_heads(void **state)
{
    (void)state;
    for (int half = 0; half < 2; half++)
        EACH(int64_t, rows, 0, 1, 35)
    for (int64_t heads = 1; heads < 4; heads += 2) {
        const weft_dtype d = half ? WEFT_BF16 : WEFT_F32;
        norm_heads("head_norm", "xw", rows, heads, 8, d);
        norm_heads("head_norm_dx", "xwx", rows, heads, 6, d);
        norm_heads("head_norm_dw", "xxw", rows, heads, 516, d);
    }
}

/* ---- parts of heads ---- */

static void heads_of(const char *op, int64_t rows, int64_t heads, int64_t width, int64_t whole,
                     weft_dtype dtype)
{
    const bool sums = strcmp(op, "head_sum") == 0, joins = strcmp(op, "head_join") == 0,
               takes = sums || strcmp(op, "head_part") == 0;
    const int64_t in = takes ? whole : width, out = takes ? width : whole;
    trial t;
    trial_init(&t, op);
    trial_int(&t, "first", sums || joins ? 0 : (whole - width) / 2);
    trial_int(&t, "width", width);
    trial_int(&t, "whole", whole);
    tensor_heads(trial_in(&t, dtype, 1, SIZES(2, rows, heads * in)), in, 0, heads * in);
    if (joins || sums)
        trial_in(&t, dtype, 2, SIZES(2, rows, whole - width));
    if (sums)
        trial_out(&t, dtype, SIZES(2, rows, whole - width));
    else
        tensor_heads(trial_out(&t, dtype, SIZES(2, rows, heads * out)), out, 0, heads * out);
    trial_check(&t);
}

static void test_parts_of_heads(void **state)
{
    (void)state;
    EACH(name, op, "head_part", "head_place", "head_join", "head_sum")
    EACH(int64_t, rows, 0, 1, 7)
    EACH(int64_t, heads, 1, 5)
    EACH(int64_t, width, 1, 16, 513)
    for (int half = 0; half < 2; half++) {
        heads_of(op, rows, heads, width, width + 6, half ? WEFT_BF16 : WEFT_F32);
        heads_of(op, rows, heads, width, 2 * width + 520, half ? WEFT_BF16 : WEFT_F32);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_op_has_a_kernel),
        cmocka_unit_test(test_f64_is_left_to_the_plain_kernels),
        cmocka_unit_test(test_exp_is_within_two_ulp),
        cmocka_unit_test(test_weights_of_logits_are_exponentials),
        TRIAL_OPS,
        cmocka_unit_test(trial_test_narrowed),
        cmocka_unit_test(test_norms_of_heads),
        cmocka_unit_test(test_parts_of_heads),
    };
    return cmocka_run_group_tests_name("cpu_kernels", tests, NULL, NULL);
}
