/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "call.h"
#include "graph/ops/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <weft/random.h>

/* ---- building ---- */

static size_t bytes_of(const weft_tensor *t)
{
    return (size_t)weft_tensor_count(t) * weft_dtype_size(t->dtype);
}

static void *guarded(size_t bytes)
{
    unsigned char *p = weft_alloc_aligned(64, bytes + GUARD);
    assert_non_null(p);
    memset(p, 0xff, bytes); /* NaN, should anyone read it */
    memset(p + bytes, 0x5a, GUARD);
    return p;
}

static void check_guard(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(p[bytes + i], 0x5a);
}

void trial_init(trial *t, const char *op)
{
    memset(t, 0, sizeof *t);
    t->tolerance = 4e-6;
    for (const weft_op *const *o = weft_standard_ops(); *o; o++)
        if (strcmp((*o)->name, op) == 0)
            t->op = *o;
    for (const weft_kernel *k = cpu_kernels; k->op; k++)
        if (strcmp(k->op, op) == 0 && !t->kernel)
            t->kernel = k;
    t->launcher = op;
    assert_non_null(t->op);
    assert_non_null(t->kernel);
}

void trial_choose(trial *t, const char *kernel, const char *launcher)
{
    t->kernel = NULL;
    for (const weft_kernel *k = cpu_kernels; k->op; k++)
        if (strcmp(k->name, kernel) == 0)
            t->kernel = k;
    assert_non_null(t->kernel);
    t->launcher = launcher;
}

void trial_release(trial *t)
{
    for (int i = 0; i < t->n_ins; i++)
        weft_free_aligned(t->ins[i].data);
    for (int i = 0; i < t->n_outs; i++)
        weft_free_aligned(t->outs[i].data);
}

void trial_int(trial *t, const char *key, int64_t value)
{
    t->attrs[t->n_attrs++] = (weft_attr){.key = key, .kind = WEFT_ATTR_INT, .i = value};
}

void trial_real(trial *t, const char *key, double value)
{
    t->attrs[t->n_attrs++] = (weft_attr){.key = key, .kind = WEFT_ATTR_REAL, .r = value};
}

static void make(weft_tensor *t, weft_dtype dtype, const int64_t *sizes)
{
    *t = (weft_tensor){.dtype = dtype};
    for (; sizes[t->n_dims] >= 0; t->n_dims++) {
        t->size[t->n_dims] = t->whole[t->n_dims] = sizes[t->n_dims];
        t->grain[t->n_dims] = 1;
    }
    t->data = guarded(bytes_of(t));
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

static cpu_launch *vector_launch(const cpu_launchers *table, const char *op)
{
#define FIND(name)                                                                                 \
    if (strcmp(op, #name) == 0)                                                                    \
        return table->name;
    CPU_VECTOR_OPS(FIND)
#undef FIND
    return NULL;
}

void trial_run(trial *t, cpu_isa isa, int threads, cpu_products products, bool accumulate)
{
    /* All threads take part, however little there is to do. */
    weft_queue queue = {.threads = threads, .products = products, .grain = 1};
    weft_call call = call_of(t, accumulate);
    weft_error err = {0};
    begin_results(t, accumulate);
    call.queue = &queue;
    call.threads = threads;
    assert_true(weft_kernel_accepts(t->kernel, &call));
    size_t bytes = t->kernel->workspace ? t->kernel->workspace(&call) : 0;
    void *workspace = guarded(bytes);
    if (t->kernel->prepare)
        assert_int_equal(t->kernel->prepare(&call, &call.state, &err), WEFT_OK);
    call.workspace = workspace;
    call.workspace_bytes = bytes;
    cpu_launch *launch = vector_launch(cpu_launchers_get(isa), t->launcher);
    weft_status status = (launch ? launch : t->kernel->launch)(&call, &err);
    if (status != WEFT_OK)
        fail_msg("%s", weft_error_text(&err));
    if (t->kernel->release)
        t->kernel->release(call.state);
    check_guard(workspace, bytes);
    for (int i = 0; i < t->n_outs; i++)
        check_guard(t->outs[i].data, bytes_of(&t->outs[i]));
    weft_free_aligned(workspace);
    weft_error_release(&err);
}

/* The plain kernel's results in f64. */
static void run_plain(trial *t, bool accumulate, weft_tensor *results)
{
    weft_call call = call_of(t, accumulate);
    weft_error err = {0};
    begin_results(t, accumulate);
    for (int i = 0; i < t->n_outs; i++) {
        results[i] = t->outs[i];
        results[i].dtype = WEFT_F64;
        results[i].data = guarded(bytes_of(&results[i]));
        for (int64_t j = 0; i == 0 && accumulate && j < weft_tensor_count(&results[i]); j++)
            weft_tensor_set(&results[i], j, weft_tensor_get(&t->outs[i], j));
    }
    call.outs = results;
    assert_int_equal(t->op->plain(&call, &err), WEFT_OK);
    weft_error_release(&err);
}

/* ---- comparing ---- */

static void compare(const trial *t, int result, const weft_tensor *want, const char *what)
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
            fail_msg("%s, %s: result %d, element %lld of %lld: %.9g, plain %.9g", t->op->name, what,
                     result, (long long)i, (long long)weft_tensor_count(want), x, y);
    }
}

typedef struct copies {
    void *data[MOST_TENSORS];
} copies;

static copies copy_results(const trial *t)
{
    copies c = {{NULL}};
    for (int i = 0; i < t->n_outs; i++) {
        c.data[i] = weft_alloc(bytes_of(&t->outs[i]));
        assert_non_null(c.data[i]);
        memcpy(c.data[i], t->outs[i].data, bytes_of(&t->outs[i]));
    }
    return c;
}

static void check_same(const trial *t, copies c, const char *what)
{
    for (int i = 0; i < t->n_outs; i++)
        if (memcmp(c.data[i], t->outs[i].data, bytes_of(&t->outs[i])) != 0)
            fail_msg("%s: result %d depends on %s", t->op->name, i, what);
}

static void free_copies(const trial *t, copies c)
{
    for (int i = 0; i < t->n_outs; i++)
        weft_free(c.data[i]);
}

/* A result may lie where its operand lay. */
static void check_in_place(trial *t, cpu_isa isa, copies c)
{
    size_t bytes = bytes_of(&t->outs[0]);
    if (!(t->op->flags & WEFT_OP_INPLACE) || t->ins[0].dtype != t->outs[0].dtype ||
        bytes_of(&t->ins[0]) != bytes)
        return;
    weft_queue queue = {.threads = 2};
    weft_call call = call_of(t, false);
    weft_tensor outs[MOST_TENSORS];
    memcpy(outs, t->outs, sizeof outs);
    void *operand = weft_alloc(bytes);
    assert_non_null(operand);
    memcpy(operand, t->ins[0].data, bytes);
    outs[0].data = t->ins[0].data;
    call.outs = outs;
    call.queue = &queue;
    call.threads = queue.threads;
    assert_int_equal(vector_launch(cpu_launchers_get(isa), t->launcher)(&call, NULL), WEFT_OK);
    assert_memory_equal(c.data[0], outs[0].data, bytes);
    memcpy(t->ins[0].data, operand, bytes);
    weft_free(operand);
}

static void check_vector(trial *t, bool accumulate, const weft_tensor *want)
{
    static const int threads[] = {2, 7};
    for (int isa = CPU_ISA_GENERIC; isa <= (int)cpu_isa_get(); isa++) {
        trial_run(t, (cpu_isa)isa, 1, CPU_PRODUCTS_F32, accumulate);
        for (int i = 0; i < t->n_outs; i++)
            compare(t, i, &want[i], cpu_isa_name((cpu_isa)isa));
        copies one = copy_results(t);
        if (!accumulate)
            check_in_place(t, (cpu_isa)isa, one);
        for (size_t n = 0; n < sizeof threads / sizeof *threads; n++) {
            trial_run(t, (cpu_isa)isa, threads[n], CPU_PRODUCTS_F32, accumulate);
            check_same(t, one, "the thread count");
        }
        free_copies(t, one);
    }
}

static void check_product(trial *t, bool accumulate, const weft_tensor *want)
{
    for (int products = CPU_PRODUCTS_F32;
         products <= (cpu_can_bf16() ? CPU_PRODUCTS_BF16 : CPU_PRODUCTS_F32); products++)
        for (int threads = 1; threads <= 3; threads++) {
            trial_run(t, CPU_ISA_AVX512, threads, (cpu_products)products, accumulate);
            compare(t, 0, &want[0],
                    products == CPU_PRODUCTS_BF16 ? "bf16 products" : "f32 products");
            copies first = copy_results(t);
            trial_run(t, CPU_ISA_AVX512, threads, (cpu_products)products, accumulate);
            check_same(t, first, "the run");
            free_copies(t, first);
        }
}

void trial_check(trial *t)
{
    for (int accumulate = 0; accumulate <= (t->kernel->accumulates ? 1 : 0); accumulate++) {
        weft_tensor want[MOST_TENSORS];
        run_plain(t, accumulate, want);
        (t->product ? check_product : check_vector)(t, accumulate, want);
        for (int i = 0; i < t->n_outs; i++)
            weft_free_aligned(want[i].data);
    }
    trial_release(t);
}
