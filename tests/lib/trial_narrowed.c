/* SPDX-License-Identifier: Apache-2.0 */
/* What makes an activation and narrows it, at once, against what does so one after the other: the
 * same bits, in every way in which the machine runs either. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "trial_ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct example {
    const char *made, *form; /* form: "", "_amax" or "_rows" */
    weft_dtype x, q;
    int64_t rows, width;
    double special; /* an element of x */
} example;

static bool sums(const example *e)
{
    return strncmp(e->made, "add_", 4) == 0;
}

static bool is(const example *e, const char *made)
{
    return strcmp(e->made, made) == 0;
}

static bool by_rows(const example *e)
{
    return strcmp(e->form, "_rows") == 0;
}

static void add_attrs(trial *t, const example *e)
{
    trial_real(t, "eps", 1e-5);
    trial_int(t, "places", by_rows(e) ? 3 : 0);
    trial_int(t, "power_of_two", e->width % 3 == 0);
    trial_text(t, "dtype", weft_dtype_name(e->q));
}

static size_t bytes_of(const weft_tensor *t)
{
    return (size_t)weft_tensor_count(t) * weft_dtype_size(t->dtype);
}

/* Ends with -1, as trials want them. */
static const int64_t *sizes_of(const weft_tensor *t, int64_t sizes[WEFT_MAX_DIMS + 1])
{
    memcpy(sizes, t->size, (size_t)t->n_dims * sizeof *sizes);
    sizes[t->n_dims] = -1;
    return sizes;
}

/* ---- one after the other ---- */

/* By the machine's kernel; the numbers of float8 itself, which are the same everywhere, by the
 * plain one. */
static void run_member_of(const char *op, const example *e, int variant, const weft_tensor *ins,
                          int n_ins, const weft_tensor *outs, int n_outs)
{
    int64_t sizes[WEFT_MAX_DIMS + 1];
    weft_error err = {0};
    trial t = {.n_attrs = 0};
    if (strncmp(op, "float8_", 7) != 0)
        trial_init(&t, op);
    for (int i = 0; machine.ops[i] && !t.op; i++)
        for (const weft_op *const *o = machine.ops[i]; *o && !t.op; o++)
            t.op = strcmp((*o)->name, op) == 0 ? *o : NULL;
    assert_non_null(t.op);
    add_attrs(&t, e);
    for (int i = 0; i < n_ins; i++)
        memcpy(trial_in(&t, ins[i].dtype, 1, sizes_of(&ins[i], sizes))->data, ins[i].data,
               bytes_of(&ins[i]));
    for (int i = 0; i < n_outs; i++)
        trial_out(&t, outs[i].dtype, sizes_of(&outs[i], sizes));
    const weft_call call = {.op = t.op,
                            .attrs = t.attrs,
                            .n_attrs = t.n_attrs,
                            .n_ins = n_ins,
                            .n_outs = n_outs,
                            .ins = t.ins,
                            .outs = t.outs};
    if (t.kernel)
        trial_run(&t, variant, 0, false);
    else
        assert_int_equal(t.op->plain(&call, &err), WEFT_OK);
    for (int i = 0; i < n_outs; i++)
        memcpy(outs[i].data, t.outs[i].data, bytes_of(&outs[i]));
    trial_release(&t);
}

static void run_member(const char *op, const example *e, int variant, const weft_tensor *ins,
                       int n_ins, const weft_tensor *out)
{
    run_member_of(op, e, variant, ins, n_ins, out, 1);
}

/* Of silu_mul_dx, whose two results are narrowed each by its scale. */
static void run_pair(const trial *t, const example *e, int variant, const weft_tensor *outs)
{
    weft_tensor made[] = {t->ins[0], t->ins[0]};
    for (int i = 0; i < 2; i++) {
        made[i].data = weft_alloc(bytes_of(&made[i]) + 1);
        assert_non_null(made[i].data);
    }
    run_member_of("silu_mul_dx", e, variant, t->ins, 3, made, 2);
    for (int i = 0; i < 2; i++) {
        const weft_tensor narrowed[] = {made[i], t->ins[3 + i]};
        run_member("float8_amax", e, variant, &made[i], 1, &outs[2 * i + 1]);
        run_member("float8_quantise", e, variant, narrowed, 2, &outs[2 * i]);
        weft_free(made[i].data);
    }
}

/* What t's op makes, into outs. */
static void run_members(const trial *t, const example *e, int variant, const weft_tensor *outs)
{
    const int sum = sums(e);
    const weft_tensor *q = &outs[sum];
    if (is(e, "silu_mul_dx")) {
        run_pair(t, e, variant, outs);
        return;
    }
    const weft_tensor made[] = {sum ? outs[0] : t->ins[0], t->ins[1 + sum]};
    weft_tensor y = t->ins[0];
    y.data = weft_alloc(bytes_of(&y) + 1);
    assert_non_null(y.data);
    if (sum)
        run_member("add", e, variant, t->ins, 2, &outs[0]);
    if (is(e, "quantise"))
        memcpy(y.data, t->ins[0].data, bytes_of(&y));
    else
        run_member(e->made + (sum ? strlen("add_") : 0), e, variant, made, 2, &y);
    if (*e->form)
        run_member("float8_amax", e, variant, &y, 1, q + 1);
    if (by_rows(e))
        run_member("float8_scale", e, variant, q + 1, 1, q + 1);
    const weft_tensor narrowed[] = {y, by_rows(e) ? q[1] : t->ins[t->n_ins - 1]};
    run_member("float8_quantise", e, variant, narrowed, 2, q);
    weft_free(y.data);
}

/* ---- at once ---- */

static void make(trial *t, const example *e)
{
    char op[64];
    const bool pair = is(e, "silu_mul_dx"), silu = pair || is(e, "silu_mul"),
               norm = !silu && !is(e, "quantise");
    snprintf(op, sizeof op, "float8_%s%s", e->made, e->form);
    trial_init(t, op);
    t->launcher = t->op->name;
    add_attrs(t, e);
    weft_tensor *x = trial_in(t, e->x, 1, SIZES(2, e->rows, e->width));
    if (e->special != 0 && e->rows > 0)
        weft_tensor_set(x, e->width / 2, e->special);
    if (sums(e) || silu)
        trial_in(t, e->x, 2, SIZES(2, e->rows, e->width));
    if (pair)
        trial_in(t, e->x, 3, SIZES(2, e->rows, e->width));
    if (norm)
        trial_in(t, WEFT_F32, 3, SIZES(e->width));
    if (!by_rows(e))
        weft_tensor_set(trial_in(t, WEFT_F32, 4, SIZES(-1)), 0, 300.0);
    if (pair) {
        weft_tensor_set(trial_in(t, WEFT_F32, 5, SIZES(-1)), 0, 20.0);
        trial_out(t, e->q, SIZES(2, e->rows, e->width));
        trial_out(t, WEFT_F32, SIZES(-1));
    }
    if (sums(e))
        trial_out(t, e->x, SIZES(2, e->rows, e->width));
    trial_out(t, e->q, SIZES(2, e->rows, e->width));
    if (by_rows(e))
        trial_out(t, WEFT_F32, SIZES(2, e->rows));
    else if (*e->form)
        trial_out(t, WEFT_F32, SIZES(-1));
}

static bool is_taken(trial *t)
{
    weft_call call = {.op = t->op,
                      .attrs = t->attrs,
                      .n_attrs = t->n_attrs,
                      .n_ins = t->n_ins,
                      .n_outs = t->n_outs,
                      .ins = t->ins,
                      .outs = t->outs};
    machine.address(t, 0, 0, &call);
    return weft_kernel_accepts(t->kernel, &call);
}

/* The first element that differs, or -1. A NaN is one, of whatever sign. */
static int64_t find_other(const weft_tensor *a, const weft_tensor *b)
{
    for (int64_t i = 0; i < weft_tensor_count(a); i++) {
        const double x = weft_tensor_get(a, i), y = weft_tensor_get(b, i);
        if (isnan(x) != isnan(y) || (!isnan(x) && (x != y || signbit(x) != signbit(y))))
            return i;
    }
    return -1;
}

static void compare_variant(trial *t, const example *e, int variant)
{
    weft_tensor want[MOST_TENSORS];
    for (int i = 0; i < t->n_outs; i++) {
        want[i] = t->outs[i];
        want[i].data = weft_alloc(bytes_of(&want[i]) + 1);
        assert_non_null(want[i].data);
    }
    run_members(t, e, variant, want);
    for (int r = 0; r < machine.repeats(t); r++) {
        trial_run(t, variant, r, false); /* with guards behind results */
        for (int i = 0; i < t->n_outs; i++)
            if (find_other(&want[i], &t->outs[i]) >= 0)
                fail_msg("%s, %s, %lld rows of %lld: result %d, element %lld is not what members "
                         "make",
                         t->op->name, machine.variant(t, variant), (long long)e->rows,
                         (long long)e->width, i, (long long)find_other(&want[i], &t->outs[i]));
    }
    for (int i = 0; i < t->n_outs; i++)
        weft_free(want[i].data);
}

/* Returns whether the machine has a kernel for it. */
static bool compare(const example *e)
{
    trial t;
    make(&t, e);
    const bool taken = is_taken(&t);
    for (int v = 0; taken && machine.variant(&t, v); v++)
        compare_variant(&t, e, v);
    trial_release(&t);
    return taken;
}

static void compare_all(const char *made, const char *form)
{
    int taken = 0;
    EACH(int64_t, width, 1, 8, 520, 701, 2056, 8192)
    EACH(int64_t, rows, 0, 1, 9)
    EACH(double, special, 0, INFINITY, NAN)
    if ((!machine.slow || rows * width < 10000) && (special == 0 || width < 2000)) {
        const weft_dtype q = width == 520 ? WEFT_F8E5M2 : WEFT_F8E4M3;
        const example e = {made, form, halves[width % 8 == 0], q, rows, width, special};
        taken += compare(&e);
    }
    assert_true(taken >= 6);
}

void trial_test_narrowed(void **state)
{
    (void)state;
    EACH(name, made, "rms_norm", "add_rms_norm", "silu_mul", "quantise")
    EACH(name, form, "", "_amax", "_rows")
    if (*form || strcmp(made, "quantise") != 0) /* which alone is not joined */
        compare_all(made, form);
    compare_all("silu_mul_dx", "_amax");
}
