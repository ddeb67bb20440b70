/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fake.h"
#include "trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weft/graph.h>
#include <weft/random.h>

extern const weft_op *const adamw_ops[], *const tp_ops[];
extern const weft_op f8_op_amax, f8_op_scale, f8_op_quantise, f8_op_history;
const weft_op *const *weft_standard_ops(void);

/* ---- building ---- */

static size_t bytes_of(const weft_tensor *t)
{
    return (size_t)weft_tensor_count(t) * weft_dtype_size(t->dtype);
}

/* Exactly so many bytes, so that the sanitizer sees what is read or written beside them; aligned as
 * the arena's values are. All ones: a NaN, should anyone read it. */
static void *exactly(size_t bytes)
{
    void *p = NULL;
    assert_int_equal(posix_memalign(&p, 64, bytes ? bytes : 1), 0);
    memset(p, 0xff, bytes);
    return p;
}

static const weft_op *find_op(const char *name)
{
    static const weft_op *const f8_ops[] = {&f8_op_amax, &f8_op_scale, &f8_op_quantise,
                                            &f8_op_history, NULL};
    const weft_op *const *const tables[] = {weft_standard_ops(), adamw_ops, tp_ops, f8_ops};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const weft_op *const *o = tables[i]; *o; o++)
            if (strcmp((*o)->name, name) == 0)
                return *o;
    return NULL;
}

void trial_init(trial *t, const char *op)
{
    memset(t, 0, sizeof *t);
    t->tolerance = 4e-6;
    t->op = find_op(op);
    for (const weft_kernel *k = cuda_kernels; k->op; k++)
        if (strcmp(k->op, op) == 0)
            t->kernel = k;
    assert_non_null(t->op);
    assert_non_null(t->kernel);
}

void trial_release(trial *t)
{
    for (int i = 0; i < t->n_ins; i++)
        free(t->ins[i].data);
    for (int i = 0; i < t->n_outs; i++)
        free(t->outs[i].data);
}

void trial_int(trial *t, const char *key, int64_t value)
{
    t->attrs[t->n_attrs++] = (weft_attr){.key = key, .kind = WEFT_ATTR_INT, .i = value};
}

void trial_real(trial *t, const char *key, double value)
{
    t->attrs[t->n_attrs++] = (weft_attr){.key = key, .kind = WEFT_ATTR_REAL, .r = value};
}

void trial_text(trial *t, const char *key, const char *value)
{
    t->attrs[t->n_attrs++] = (weft_attr){.key = key, .kind = WEFT_ATTR_TEXT, .text = value};
}

static void make(weft_tensor *t, weft_dtype dtype, const int64_t *sizes)
{
    *t = (weft_tensor){.dtype = dtype};
    for (; sizes[t->n_dims] >= 0; t->n_dims++) {
        t->size[t->n_dims] = t->whole[t->n_dims] = sizes[t->n_dims];
        t->grain[t->n_dims] = 1;
    }
    t->data = exactly(bytes_of(t));
}

static void fill(weft_tensor *t, uint64_t seed)
{
    for (int64_t i = 0; i < weft_tensor_count(t); i++)
        weft_tensor_set(t, i, weft_normal_inverse(weft_random_uniform(seed, 1, (uint64_t)i)));
}

weft_tensor *trial_in(trial *t, weft_dtype dtype, uint64_t seed, const int64_t *sizes)
{
    weft_tensor *x = &t->ins[t->n_ins++];
    make(x, dtype, sizes);
    fill(x, seed);
    return x;
}

weft_tensor *trial_out(trial *t, weft_dtype dtype, const int64_t *sizes)
{
    weft_tensor *x = &t->outs[t->n_outs++];
    make(x, dtype, sizes);
    return x;
}

void tensor_heads(weft_tensor *t, int64_t grain, int64_t lo, int64_t whole)
{
    t->grain[t->n_dims - 1] = grain;
    t->lo[t->n_dims - 1] = lo;
    t->whole[t->n_dims - 1] = whole;
}

void tensor_ints(weft_tensor *t, uint64_t seed, int64_t lo, int64_t hi)
{
    for (int64_t i = 0; i < weft_tensor_count(t); i++)
        ((int32_t *)t->data)[i] =
            (int32_t)(lo + (int64_t)(weft_random_bits(seed, 2, (uint64_t)i) % (uint64_t)(hi - lo)));
}

/* ---- running ---- */

static weft_call call_of(trial *t, bool accumulate)
{
    return (weft_call){.op = t->op,
                       .attrs = t->attrs,
                       .n_attrs = t->n_attrs,
                       .n_ins = t->n_ins,
                       .n_outs = t->n_outs,
                       .ins = t->ins,
                       .outs = t->outs,
                       .accumulate = accumulate};
}

/* What result 0 holds before an accumulating call. */
static void begin_results(trial *t, bool accumulate)
{
    for (int i = 0; i < t->n_outs; i++)
        memset(t->outs[i].data, 0xff, bytes_of(&t->outs[i]));
    if (accumulate)
        fill(&t->outs[0], 99);
}

/* Operand i of the copy is what result i becomes. */
static void lay_in_place(trial *t, weft_tensor *outs, void **kept)
{
    int fewer = t->n_ins < t->n_outs ? t->n_ins : t->n_outs;
    for (int i = 0; i < fewer; i++) {
        size_t bytes = bytes_of(&t->ins[i]);
        if (bytes != bytes_of(&t->outs[i]) || t->ins[i].dtype != t->outs[i].dtype)
            continue;
        kept[i] = exactly(bytes);
        memcpy(kept[i], t->ins[i].data, bytes);
        outs[i].data = t->ins[i].data;
    }
}

static void take_back(trial *t, void **kept)
{
    for (int i = 0; i < t->n_outs; i++)
        if (kept[i]) {
            size_t bytes = bytes_of(&t->ins[i]);
            memcpy(t->outs[i].data, t->ins[i].data, bytes);
            memcpy(t->ins[i].data, kept[i], bytes);
            free(kept[i]);
        }
}

void trial_run(trial *t, bool accumulate)
{
    weft_queue queue = {.driver = fake_driver(), .functions = fake_functions()};
    weft_call call = call_of(t, accumulate);
    weft_tensor outs[MOST_TENSORS];
    void *kept[MOST_TENSORS] = {NULL};
    weft_error err = {0};
    memcpy(outs, t->outs, sizeof outs);
    begin_results(t, accumulate);
    if (t->in_place && !accumulate)
        lay_in_place(t, outs, kept);
    call.outs = outs;
    call.queue = &queue;
    assert_true(weft_kernel_accepts(t->kernel, &call));
    call.workspace_bytes = t->kernel->workspace ? t->kernel->workspace(&call) : 0;
    call.workspace = exactly(call.workspace_bytes);
    weft_status status = t->kernel->launch(&call, &err);
    if (status != WEFT_OK)
        fail_msg("%s", weft_error_text(&err));
    free(call.workspace);
    take_back(t, kept);
    weft_error_release(&err);
}

/* The plain kernel's results in f64, but for those of 8 bits. */
static void run_plain(trial *t, bool accumulate, weft_tensor *results)
{
    weft_call call = call_of(t, accumulate);
    weft_error err = {0};
    begin_results(t, accumulate);
    for (int i = 0; i < t->n_outs; i++) {
        results[i] = t->outs[i];
        if (!weft_dtype_is_f8(results[i].dtype))
            results[i].dtype = WEFT_F64;
        results[i].data = exactly(bytes_of(&results[i]));
        for (int64_t j = 0; i == 0 && accumulate && j < weft_tensor_count(&results[i]); j++)
            weft_tensor_set(&results[i], j, weft_tensor_get(&t->outs[i], j));
    }
    call.outs = results;
    assert_int_equal(t->op->plain(&call, &err), WEFT_OK);
    weft_error_release(&err);
}

/* ---- comparing ---- */

static void compare(const trial *t, int result, const weft_tensor *want)
{
    const weft_tensor *got = &t->outs[result];
    double largest = t->size, relative = got->dtype == WEFT_BF16 ? 1.0 / 256 : t->tolerance;
    for (int64_t i = 0; i < weft_tensor_count(want); i++) {
        double x = fabs(weft_tensor_get(want, i));
        largest = isfinite(x) && x > largest ? x : largest;
    }
    for (int64_t i = 0; i < weft_tensor_count(want); i++) {
        double x = weft_tensor_get(got, i), y = weft_tensor_get(want, i);
        if (x == y || (isnan(x) && isnan(y)))
            continue;
        if (!(fabs(x - y) <= relative * fabs(y) + t->tolerance * largest))
            fail_msg("%s: result %d, element %lld of %lld: %.9g, plain %.9g", t->op->name, result,
                     (long long)i, (long long)weft_tensor_count(want), x, y);
    }
}

static void keep_results(const trial *t, void **data)
{
    for (int i = 0; i < t->n_outs; i++) {
        data[i] = exactly(bytes_of(&t->outs[i]));
        memcpy(data[i], t->outs[i].data, bytes_of(&t->outs[i]));
    }
}

static void check_same(const trial *t, void *const *data, const char *what)
{
    for (int i = 0; i < t->n_outs; i++)
        if (memcmp(data[i], t->outs[i].data, bytes_of(&t->outs[i])) != 0)
            fail_msg("%s: result %d depends on %s", t->op->name, i, what);
}

static bool is_long(void)
{
    const char *whole = getenv("WEFT_LONG");
    return whole && *whole;
}

static void check_orders(trial *t, bool accumulate, const weft_tensor *want)
{
    void *first[MOST_TENSORS];
    fake_set_order(0);
    trial_run(t, accumulate);
    for (int i = 0; i < t->n_outs; i++)
        compare(t, i, &want[i]);
    keep_results(t, first);
    for (uint64_t order = 1; order < (is_long() ? 3 : 2); order++) {
        fake_set_order(order);
        trial_run(t, accumulate);
        check_same(t, first, "the order of threads");
    }
    t->in_place = (t->op->flags & WEFT_OP_INPLACE) != 0;
    if (t->in_place && !accumulate) {
        trial_run(t, false);
        check_same(t, first, "lying where an operand lay");
    }
    t->in_place = false;
    for (int i = 0; i < t->n_outs; i++)
        free(first[i]);
}

void trial_check(trial *t)
{
    for (int accumulate = 0; accumulate <= (t->kernel->accumulates ? 1 : 0); accumulate++) {
        weft_tensor want[MOST_TENSORS];
        run_plain(t, accumulate, want);
        check_orders(t, accumulate, want);
        for (int i = 0; i < t->n_outs; i++)
            free(want[i].data);
    }
    trial_release(t);
}
