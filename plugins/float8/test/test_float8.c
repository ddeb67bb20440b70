/* SPDX-License-Identifier: Apache-2.0 */
/* One linear, forward and backward, by each recipe, against PyTorch
 * (tests/golden/float8.safetensors): scales and quantised values bit by bit, products within what
 * sums in f32 allow. Plain kernels and those for the CPU. Then what no recipe may lose: a NaN, an
 * infinity, zeros. */
#include "../float8.h"
#include "read_safetensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { MOST = 64 * 64 };

static safetensors *golden;

static int open_golden(void **state)
{
    weft_error err = {0};
    const char *tree = getenv("WEFT_TREE");
    char *path = weft_format("%s/tests/golden/float8.safetensors", tree ? tree : ".");
    (void)state;
    if (safetensors_read(path, &golden, &err))
        print_error("%s\n", weft_error_text(&err));
    weft_error_release(&err);
    weft_free(path);
    return golden ? 0 : -1;
}

static int close_golden(void **state)
{
    (void)state;
    safetensors_destroy(golden);
    return 0;
}

/* "tensorwise/x.scale" and the like, as a kernel sees it. */
static weft_tensor stored(const char *recipe, const char *name)
{
    char *full = weft_format("%s%s%s", recipe, *recipe ? "/" : "", name);
    const weft_safetensor *s = safetensors_find(golden, full);
    if (!s)
        fail_msg("no tensor %s", full);
    weft_tensor t = {.data = (void *)(uintptr_t)s->data, .dtype = s->dtype, .n_dims = s->n_dims};
    for (int d = 0; d < s->n_dims; d++)
        t.size[d] = t.whole[d] = s->size[d];
    weft_free(full);
    return t;
}

/* ---- a call of an op, by its plain kernel or the CPU's ---- */

static const weft_kernel *cpu_kernel(const weft_call *call)
{
    for (const weft_kernel *k = f8_cpu_kernels; k->op; k++)
        if (strcmp(k->op, call->op->name) == 0 && k->accepts(call))
            return k;
    return NULL;
}

static void run(weft_call *call, bool plain, int threads)
{
    weft_error err = {0};
    const weft_kernel *k = plain ? NULL : cpu_kernel(call);
    call->threads = threads;
    call->workspace_bytes = k && k->workspace ? k->workspace(call) : 0;
    call->workspace = weft_alloc_aligned(64, call->workspace_bytes + 64);
    if ((k ? k->launch : call->op->plain)(call, &err))
        fail_msg("%s: %s", call->op->name, weft_error_text(&err));
    weft_free_aligned(call->workspace);
}

static void same_bits(const weft_tensor *got, const weft_tensor *want, const char *what)
{
    size_t bytes = (size_t)weft_tensor_count(want) * weft_dtype_size(want->dtype);
    assert_int_equal(got->dtype, want->dtype);
    if (memcmp(got->data, want->data, bytes) != 0)
        fail_msg("%s differs", what);
}

static weft_tensor like(const weft_tensor *t, void *data)
{
    weft_tensor r = *t;
    r.data = data;
    memset(data, 0xaa, (size_t)weft_tensor_count(t) * weft_dtype_size(t->dtype));
    return r;
}

/* amax, scale and quantise of x; places: the dims that keep a scale. */
static void check_narrow(const char *recipe, const char *of, const char *name, int64_t places,
                         bool power_of_two, bool plain, int threads)
{
    static float amaxes[MOST], scales[MOST];
    static uint8_t codes[MOST];
    char *with_scale = weft_format("%s.scale", name);
    weft_tensor x = stored("", of), want = stored(recipe, name), s = stored(recipe, with_scale);
    weft_tensor amax = like(&s, amaxes), scale = like(&s, scales), q = like(&want, codes);
    const weft_attr attrs[] = {
        {.key = "places", .kind = WEFT_ATTR_INT, .i = places},
        {.key = "dtype", .kind = WEFT_ATTR_TEXT, .text = weft_dtype_name(want.dtype)},
        {.key = "power_of_two", .kind = WEFT_ATTR_INT, .i = power_of_two}};
    weft_call a = {.op = &f8_op_amax, .attrs = attrs, .n_attrs = 3, .n_ins = 1, .n_outs = 1};
    a.ins = &x, a.outs = &amax;
    run(&a, plain, threads);
    weft_call b = {.op = &f8_op_scale, .attrs = attrs, .n_attrs = 3, .n_ins = 1, .n_outs = 1};
    b.ins = &amax, b.outs = &scale;
    run(&b, plain, threads);
    same_bits(&scale, &s, with_scale);
    const weft_tensor both[] = {x, scale};
    weft_call c = {.op = &f8_op_quantise, .attrs = attrs, .n_attrs = 3, .n_ins = 2, .n_outs = 1};
    c.ins = both, c.outs = &q;
    run(&c, plain, threads);
    same_bits(&q, &want, name);
    weft_free(with_scale);
}

/* Within what the sum of the magnitudes allows. */
static void check_product(const weft_op *op, const char *recipe, const char *a, const char *b,
                          const char *result, bool plain, int threads)
{
    static float values[MOST], twice[MOST];
    char *of_a = weft_format("%s.scale", a), *of_b = weft_format("%s.scale", b);
    const char *rows = strcmp(recipe, "rowwise_gw_hp") == 0 ? "rowwise" : recipe;
    const weft_tensor ins[] = {stored(rows, a), stored(recipe, b), stored(rows, of_a),
                               stored(recipe, of_b)};
    weft_tensor want = stored(recipe, result), got = like(&want, values), sum = like(&want, twice);
    weft_call call = {.op = op, .n_ins = 4, .n_outs = 1, .ins = ins, .outs = &got};
    run(&call, plain, threads);
    memcpy(twice, values, sizeof twice);
    call.outs = &sum, call.accumulate = true;
    run(&call, plain, threads);
    f8_product p = f8_product_of(&call);
    assert_int_equal(p.rows * p.columns, weft_tensor_count(&want));
    for (int64_t i = 0; i < p.rows; i++)
        for (int64_t j = 0; j < p.columns; j++) {
            double size = 0, x = weft_tensor_get(&want, i * p.columns + j);
            for (int64_t k = 0; k < p.n; k++)
                size += fabs(weft_tensor_get(&ins[0], i * p.a_row + k * p.a_step) *
                             weft_tensor_get(&ins[1], j * p.b_row + k * p.b_step));
            size /= weft_tensor_get(&ins[2], ins[2].n_dims ? i : 0) *
                    weft_tensor_get(&ins[3], ins[3].n_dims ? j : 0);
            double bound = (double)(p.n + 3) * 0x1p-24 * size + 0x1p-149;
            if (!(fabs((double)values[i * p.columns + j] - x) <= bound) ||
                !(fabs((double)twice[i * p.columns + j] - 2 * x) <= 3 * bound))
                fail_msg("%s/%s[%d, %d] is %g and %g, and PyTorch says %g", recipe, result, (int)i,
                         (int)j, (double)values[i * p.columns + j],
                         (double)twice[i * p.columns + j], x);
        }
    weft_free(of_a);
    weft_free(of_b);
}

/* ---- by recipe ---- */

enum { WHOLE = 0, ROWS = 1, COLUMNS = 2 };

static void check_recipes(bool plain, int threads)
{
    check_narrow("tensorwise", "x", "x", WHOLE, false, plain, threads);
    check_narrow("tensorwise", "w", "w", WHOLE, false, plain, threads);
    check_narrow("tensorwise", "dy", "dy", WHOLE, false, plain, threads);
    check_product(&f8_op_linear, "tensorwise", "x", "w", "y", plain, threads);
    check_product(&f8_op_linear_dx, "tensorwise", "dy", "w", "dx", plain, threads);
    check_product(&f8_op_linear_dw, "tensorwise", "dy", "x", "dw", plain, threads);

    static const char *const of[] = {"x", "w", "dy"};
    for (int i = 0; i < 3; i++) {
        char *rows = weft_format("%s.rows", of[i]), *columns = weft_format("%s.columns", of[i]);
        check_narrow("rowwise", of[i], rows, ROWS, true, plain, threads);
        check_narrow("rowwise", of[i], columns, COLUMNS, true, plain, threads);
        weft_free(rows);
        weft_free(columns);
    }
    check_product(&f8_op_linear_rows, "rowwise", "x.rows", "w.rows", "y", plain, threads);
    check_product(&f8_op_linear_dx, "rowwise", "dy.rows", "w.columns", "dx", plain, threads);
    check_product(&f8_op_linear_dw, "rowwise", "dy.columns", "x.columns", "dw", plain, threads);

    check_narrow("rowwise_gw_hp", "w", "w", WHOLE, true, plain, threads);
    check_product(&f8_op_linear_dx, "rowwise_gw_hp", "dy.rows", "w", "dx", plain, threads);
}

static void plain_kernels(void **state)
{
    (void)state;
    check_recipes(true, 1);
}

static void cpu_kernels(void **state)
{
    (void)state;
    check_recipes(false, 1);
    check_recipes(false, 3);
}

static void histories(void **state)
{
    (void)state;
    for (int n = 0; n < 7; n++) {
        char recipe[32];
        float next[8], scale;
        snprintf(recipe, sizeof recipe, "delayed/%d", n);
        weft_tensor settings = stored(recipe, "settings"), want = stored(recipe, "next"),
                    follows = stored(recipe, "next_scale");
        const int32_t *set = settings.data;
        const weft_attr attrs[] = {
            {.key = "dtype", .kind = WEFT_ATTR_TEXT, .text = "f8e4m3"},
            {.key = "margin", .kind = WEFT_ATTR_INT, .i = set[0]},
            {.key = "interval", .kind = WEFT_ATTR_INT, .i = set[1]},
            {.key = "recent", .kind = WEFT_ATTR_INT, .i = set[3]},
        };
        float step = (float)set[2], less = 0;
        const weft_tensor ins[] = {stored(recipe, "history"),
                                   stored(recipe, "scale"),
                                   {.data = &step, .dtype = WEFT_F32},
                                   {.data = &less, .dtype = WEFT_F32},
                                   stored(recipe, "now")};
        const weft_tensor outs[] = {like(&want, next), like(&follows, &scale)};
        weft_call call = {.op = &f8_op_history, .attrs = attrs, .n_attrs = 4, .n_ins = 5};
        call.n_outs = 2, call.ins = ins, call.outs = outs;
        run(&call, true, 1);
        same_bits(&outs[0], &want, "the history");
        same_bits(&outs[1], &follows, "the scale");
    }
}

/* ---- what must not be lost ---- */

static double amax_of(float *x, int64_t rows, int64_t columns, int64_t places, bool plain)
{
    static float out[MOST];
    const weft_attr attr = {.key = "places", .kind = WEFT_ATTR_INT, .i = places};
    weft_tensor in = {.data = x, .dtype = WEFT_F32, .n_dims = 2, .size = {rows, columns}};
    weft_tensor amax = {.data = out, .dtype = WEFT_F32, .n_dims = places != 0};
    amax.size[0] = places == ROWS ? rows : columns;
    weft_call call = {.op = &f8_op_amax, .attrs = &attr, .n_attrs = 1, .n_ins = 1, .n_outs = 1};
    call.ins = &in, call.outs = &amax;
    out[0] = -1;
    run(&call, plain, 2);
    return (double)out[0];
}

static void maxima(void **state)
{
    (void)state;
    float x[6] = {1, -3, 2, 0, -0.0f, 2.5f};
    for (int plain = 0; plain < 2; plain++)
        for (int64_t places = 0; places < 3; places++) {
            x[1] = -3, x[3] = 0;
            assert_true(amax_of(x, 2, 3, places, plain) == (places == COLUMNS ? 1 : 3));
            assert_true(amax_of(x, 0, 3, places, plain) == (places == ROWS ? -1 : 0)); /* empty */
            x[0] = places == COLUMNS ? INFINITY : 1, x[1] = -INFINITY;
            assert_true(isinf(amax_of(x, 2, 3, places, plain)));
            x[0] = NAN; /* whatever comes behind it */
            assert_true(isnan(amax_of(x, 2, 3, places, plain)));
            x[0] = 1, x[places == ROWS ? 2 : 3] = NAN;
            assert_true(isnan(amax_of(x, 2, 3, places, plain)));
            x[2] = 2;
        }
}

/* Wherever it lies: kernels share out long rows. */
static void maxima_of_long_rows(void **state)
{
    enum { N = 2 * 16384 + 5 };
    static const int64_t places_of_it[] = {0, 16383, 16384, 32767, 32768, N - 1};
    static float x[N];
    (void)state;
    for (size_t i = 0; i < sizeof places_of_it / sizeof places_of_it[0]; i++) {
        x[places_of_it[i]] = -7;
        for (int64_t places = 0; places < 3; places++)
            assert_true(amax_of(x, places == COLUMNS ? N : 1, places == COLUMNS ? 1 : N, places,
                                false) == 7);
        x[places_of_it[i]] = 0;
    }
}

static void infinities(void **state)
{
    (void)state;
    float x[4] = {INFINITY, -INFINITY, NAN, 1e30f}, scale = 1;
    for (int k = 0; k < 4; k++) {
        uint8_t codes[4];
        weft_dtype dtype = k & 1 ? WEFT_F8E4M3 : WEFT_F8E5M2;
        const weft_attr attr = {
            .key = "dtype", .kind = WEFT_ATTR_TEXT, .text = weft_dtype_name(dtype)};
        const weft_tensor ins[] = {{.data = x, .dtype = WEFT_F32, .n_dims = 1, .size = {4}},
                                   {.data = &scale, .dtype = WEFT_F32}};
        weft_tensor q = {.data = codes, .dtype = dtype, .n_dims = 1, .size = {4}};
        weft_call call = {.op = &f8_op_quantise, .attrs = &attr, .n_attrs = 1, .n_ins = 2};
        call.n_outs = 1, call.ins = ins, call.outs = &q;
        run(&call, k > 1, 1);
        for (int i = 0; i < 3; i++)
            assert_true(isnan(weft_tensor_get(&q, i)));
        assert_true(weft_tensor_get(&q, 3) == weft_dtype_max(dtype));
    }
}

static void scales(void **state)
{
    (void)state;
    assert_true(weft_f8_scale_of(0, WEFT_F8E4M3, false, 0) == (float)(448 / 1e-12));
    assert_true(weft_f8_scale_of(448, WEFT_F8E4M3, false, 3) == 0.125f);
    assert_true(weft_f8_scale_of(INFINITY, WEFT_F8E5M2, true, 0) == 0);
    assert_true(isnan(weft_f8_scale_of(NAN, WEFT_F8E4M3, true, 0)));
    assert_true(weft_f8_scale_of(448 / 1.5, WEFT_F8E4M3, true, 0) == 1);
    assert_true(weft_f8_scale_of(448, WEFT_F8E4M3, true, 0) == 1);
    assert_true(weft_f8_scale_of(449, WEFT_F8E4M3, true, 0) == 0.5f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_kernels),
        cmocka_unit_test(cpu_kernels),
        cmocka_unit_test(histories),
        cmocka_unit_test(maxima),
        cmocka_unit_test(maxima_of_long_rows),
        cmocka_unit_test(infinities),
        cmocka_unit_test(scales),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
