/* SPDX-License-Identifier: Apache-2.0 */
/* The ops against a formula written down a second time, and the CPU kernels against the ops. */
#include "../adamw.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <weft/random.h>

enum { MAX = 200000 };

static const weft_op *find_op(const char *name)
{
    for (int i = 0; adamw_ops[i]; i++)
        if (strcmp(adamw_ops[i]->name, name) == 0)
            return adamw_ops[i];
    fail_msg("no op %s", name);
    return NULL;
}

static const weft_kernel *find_kernel(const char *op)
{
    for (const weft_kernel *k = adamw_cpu_kernels; k->op; k++)
        if (strcmp(k->op, op) == 0)
            return k;
    fail_msg("no kernel for %s", op);
    return NULL;
}

static weft_tensor vector(void *data, weft_dtype dtype, int64_t n)
{
    return (weft_tensor){
        .data = data, .dtype = dtype, .n_dims = 1, .size = {n}, .whole = {n}, .grain = {1}};
}

static weft_tensor scalar(void *data, weft_dtype dtype)
{
    return (weft_tensor){.data = data, .dtype = dtype};
}

static weft_attr real(const char *key, double x)
{
    return (weft_attr){.key = key, .kind = WEFT_ATTR_REAL, .r = x};
}

static double noise(uint64_t stream, int64_t i)
{
    return weft_normal_inverse(weft_random_uniform(7, stream, (uint64_t)i));
}

/* ---- scalars ---- */

static double run_scalar(const char *op, float x, const weft_attr *attrs, int n_attrs)
{
    float out = 0;
    weft_tensor in = scalar(&x, WEFT_F32), result = scalar(&out, WEFT_F32);
    weft_call call = {
        .attrs = attrs, .n_attrs = n_attrs, .n_ins = 1, .n_outs = 1, .ins = &in, .outs = &result};
    assert_int_equal(find_op(op)->plain(&call, NULL), WEFT_OK);
    return (double)out;
}

static void schedule_op(void **state)
{
    (void)state;
    const weft_attr attrs[] = {
        real("lr", 2),
        real("min_factor", 0),
        {.key = "warmup", .kind = WEFT_ATTR_INT, .i = 2},
        {.key = "decay", .kind = WEFT_ATTR_INT, .i = 8},
        {.key = "total", .kind = WEFT_ATTR_INT, .i = 10},
        {.key = "shape", .kind = WEFT_ATTR_TEXT, .text = "linear"},
    };
    assert_true(run_scalar("lr_schedule", 1, attrs, 6) == 1);
    assert_true(run_scalar("lr_schedule", 3, attrs, 6) == 2);
    assert_true(run_scalar("lr_schedule", 4, attrs, 6) == 1.75);
    assert_true(run_scalar("lr_schedule", 10, attrs, 6) == 0.25);
}

/* ---- one update ---- */

typedef struct numbers {
    float clip, lr, step;
    int threads;
} numbers;

static const weft_attr attrs[] = {
    {.key = "beta1", .kind = WEFT_ATTR_REAL, .r = 0.9},
    {.key = "beta2", .kind = WEFT_ATTR_REAL, .r = 0.95},
    {.key = "eps", .kind = WEFT_ATTR_REAL, .r = 1e-8},
    {.key = "weight_decay", .kind = WEFT_ATTR_REAL, .r = 0.1},
};

typedef weft_status (*runner)(const weft_call *call, weft_error *err);

/* In place: results lie on operands 0, 1, 2. */
static void step_with(runner run, weft_dtype dtype, int64_t n, void *p, void *m, void *v, void *g,
                      numbers *k)
{
    weft_tensor ins[] = {vector(p, dtype, n),        vector(m, dtype, n),
                         vector(v, dtype, n),        vector(g, dtype, n),
                         scalar(&k->clip, WEFT_F32), scalar(&k->lr, WEFT_F32),
                         scalar(&k->step, WEFT_F32)};
    weft_call call = {.attrs = attrs,
                      .n_attrs = 4,
                      .n_ins = 7,
                      .n_outs = 3,
                      .ins = ins,
                      .outs = ins,
                      .threads = k->threads};
    assert_int_equal(run(&call, NULL), WEFT_OK);
}

/* As the algorithm is usually written: decay, moments, unbiased moments, step. */
static void textbook(int64_t n, double *p, double *m, double *v, const double *g, double clip,
                     double lr, int step)
{
    for (int64_t i = 0; i < n; i++) {
        double gi = g[i] * clip;
        p[i] -= lr * 0.1 * p[i];
        m[i] = 0.9 * m[i] + 0.1 * gi;
        v[i] = 0.95 * v[i] + 0.05 * gi * gi;
        double m_hat = m[i] / (1 - pow(0.9, step)), v_hat = v[i] / (1 - pow(0.95, step));
        p[i] -= lr * m_hat / (sqrt(v_hat) + 1e-8);
    }
}

static void update_in_f64(void **state)
{
    (void)state;
    enum { N = 37 };
    double p[N], m[N] = {0}, v[N] = {0}, g[N], p2[N], m2[N] = {0}, v2[N] = {0};
    for (int i = 0; i < N; i++)
        p[i] = p2[i] = noise(1, i);
    for (int step = 1; step <= 12; step++) {
        numbers k = {.clip = 0.5f, .lr = 0.0625f / (float)step, .step = (float)step};
        for (int i = 0; i < N; i++)
            g[i] = noise((uint64_t)step + 10, i);
        step_with(find_op("adamw")->plain, WEFT_F64, N, p, m, v, g, &k);
        textbook(N, p2, m2, v2, g, (double)k.clip, (double)k.lr, step);
    }
    for (int i = 0; i < N; i++) {
        assert_true(fabs(p[i] - p2[i]) < 1e-14);
        assert_true(fabs(m[i] - m2[i]) < 1e-15);
        assert_true(fabs(v[i] - v2[i]) < 1e-15);
    }
}

static void no_accumulation(void **state)
{
    (void)state;
    float x = 0;
    numbers k = {1, 1, 1, 1};
    weft_tensor ins[] = {vector(&x, WEFT_F32, 1),   vector(&x, WEFT_F32, 1),
                         vector(&x, WEFT_F32, 1),   vector(&x, WEFT_F32, 1),
                         scalar(&k.clip, WEFT_F32), scalar(&k.lr, WEFT_F32),
                         scalar(&k.step, WEFT_F32)};
    weft_call call = {.attrs = attrs,
                      .n_attrs = 4,
                      .n_ins = 7,
                      .n_outs = 3,
                      .ins = ins,
                      .outs = ins,
                      .accumulate = true};
    assert_int_equal(find_op("adamw")->plain(&call, NULL), WEFT_ERR_INTERNAL);
    call.accumulate = false;
    ins[3].size[0] = 2;
    assert_int_equal(find_op("adamw")->plain(&call, NULL), WEFT_ERR_INTERNAL);
    assert_int_equal(find_kernel("adamw")->launch(&call, NULL), WEFT_ERR_INTERNAL);
}

/* ---- kernels ---- */

static const int64_t counts[] = {0,    1,    2,    15,    16,    17,     63, 1000,
                                 8191, 8192, 8193, 16383, 16385, 100003, MAX};
enum { N_COUNTS = sizeof counts / sizeof counts[0] };

static float *fill(uint64_t stream, bool squared)
{
    float *x = malloc(MAX * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < MAX; i++) {
        double e = noise(stream, i);
        x[i] = (float)(squared ? e * e * 1e-4 : e);
    }
    return x;
}

static float *copy_of(const float *from, int64_t n)
{
    float *x = malloc(((size_t)n + 1) * sizeof *x);
    assert_non_null(x);
    memcpy(x, from, (size_t)n * sizeof *x);
    return x;
}

/* How far an f32 kernel may be from the plain op: every term passes at most eight roundings of
 * 2^-24 in the two together, so the bound is that times the sum of the terms' sizes. The update's
 * third term carries the error of the moments, relative to their terms. */
static void check_update(const float *const old[4], float *const want[3], float *const got[3],
                         int64_t i, const numbers *k)
{
    double u = 8 * 0x1p-24, g = fabs((double)k->clip * (double)old[3][i]);
    double m = 0.9 * fabs((double)old[1][i]) + 0.1 * g, v = 0.95 * (double)old[2][i] + 0.05 * g * g;
    double t = (double)k->step, rate = (double)k->lr / (1 - pow(0.9, t)),
           root = 1 / sqrt(1 - pow(0.95, t));
    double p = fabs((double)old[0][i]) + 2 * rate * m / (sqrt(v) * root + 1e-8);
    const double size[3] = {p, m, v};
    for (int r = 0; r < 3; r++)
        if (!(fabs((double)want[r][i] - (double)got[r][i]) <= u * size[r]))
            fail_msg("result %d, element %lld: %.9g, not %.9g", r, (long long)i, (double)got[r][i],
                     (double)want[r][i]);
}

static void adamw_kernel(void **state)
{
    (void)state;
    float *old[4] = {fill(1, false), fill(2, false), fill(3, true), fill(4, false)};
    numbers k = {.clip = 0.37f, .lr = 1e-2f, .step = 3};
    for (int c = 0; c < N_COUNTS; c++) {
        float *want[3], *got[3];
        int64_t n = counts[c];
        for (int r = 0; r < 3; r++) {
            want[r] = copy_of(old[r], n);
            got[r] = copy_of(old[r], n);
        }
        step_with(find_op("adamw")->plain, WEFT_F32, n, want[0], want[1], want[2], old[3], &k);
        step_with(find_kernel("adamw")->launch, WEFT_F32, n, got[0], got[1], got[2], old[3], &k);
        for (int64_t i = 0; i < n; i++)
            check_update((const float *const *)old, want, got, i, &k);
        for (int r = 0; r < 3; r++) {
            free(want[r]);
            free(got[r]);
        }
    }
    for (int i = 0; i < 4; i++)
        free(old[i]);
}

static void adamw_kernel_any_threads(void **state)
{
    (void)state;
    float *p = fill(1, false), *m = fill(2, false), *v = fill(3, true), *g = fill(4, false);
    float *p1 = copy_of(p, MAX), *m1 = copy_of(m, MAX), *v1 = copy_of(v, MAX);
    numbers k = {.clip = 1, .lr = 1e-3f, .step = 100};
    k.threads = 1;
    step_with(find_kernel("adamw")->launch, WEFT_F32, MAX, p, m, v, g, &k);
    k.threads = 3;
    step_with(find_kernel("adamw")->launch, WEFT_F32, MAX, p1, m1, v1, g, &k);
    assert_memory_equal(p, p1, MAX * sizeof *p);
    assert_memory_equal(m, m1, MAX * sizeof *m);
    assert_memory_equal(v, v1, MAX * sizeof *v);
    free(p), free(m), free(v), free(g), free(p1), free(m1), free(v1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedule_op),
        cmocka_unit_test(update_in_f64),
        cmocka_unit_test(no_accumulation),
        cmocka_unit_test(adamw_kernel),
        cmocka_unit_test(adamw_kernel_any_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
