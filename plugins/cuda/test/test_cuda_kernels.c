/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel of the cuda plugin but attention's and products, run on the host, against its op's
 * plain kernel: f32 and bf16, odd and empty extents, shards, several orders of threads (equal to
 * the bit), with and without accumulation, in place where the op allows it. A sample; all of it
 * with WEFT_LONG. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weft/random.h>

#define EACH(type, x, ...)                                                                         \
    for (size_t i_##x = 0; i_##x < sizeof((const type[]){__VA_ARGS__}) / sizeof(type); i_##x++)    \
        for (type x = ((const type[]){__VA_ARGS__})[i_##x], *once_##x = &x; once_##x;              \
             once_##x = NULL)

typedef const char *name; /* EACH declares a pointer too */

static const weft_dtype halves[2] = {WEFT_F32, WEFT_BF16};

/* Of many like it, every seventh is enough where time is short. */
static bool left_out(void)
{
    static int n;
    const char *whole = getenv("WEFT_LONG");
    return !(whole && *whole) && n++ % 7 != 0;
}

#define SAMPLE                                                                                     \
    if (left_out())                                                                                \
    continue

static void test_elementwise(void **state)
{
    static const struct {
        const char *op;
        int n_ins, n_outs;
        bool scalar, exact;
    } cases[] = {{"add", 2, 1, false, false},         {"add", 5, 1, false, false},
                 {"accumulate", 1, 1, false, false},  {"accumulate_max", 1, 1, false, false},
                 {"cast", 1, 1, false, false},        {"silu_mul", 2, 1, false, false},
                 {"silu_mul_dx", 3, 2, false, false}, {"gelu", 1, 1, false, false},
                 {"gelu", 1, 1, false, true},         {"gelu_dx", 2, 1, false, false},
                 {"gelu_dx", 2, 1, false, true},      {"scale", 2, 1, true, false},
                 {"broadcast", 1, 1, true, false}};
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        EACH(int64_t, width, 0, 17, 1000)
    for (int types = 0; types < 4; types++) {
        SAMPLE;
        trial t;
        trial_init(&t, cases[c].op);
        trial_int(&t, "exact", cases[c].exact);
        for (int i = 0; i < cases[c].n_ins; i++) {
            bool scalar = cases[c].scalar && i == cases[c].n_ins - 1;
            trial_in(&t,
                     i == 0 && !scalar  ? halves[types & 1]
                     : i % 2 && !scalar ? halves[types >> 1]
                                        : WEFT_F32,
                     (uint64_t)i + 1, scalar ? SIZES(-1) : SIZES(3, width));
        }
        for (int i = 0; i < cases[c].n_outs; i++)
            trial_out(&t, halves[types & 1], SIZES(3, width));
        trial_check(&t);
    }
}

static void test_casts(void **state)
{
    (void)state;
    for (int types = 0; types < 4; types++) {
        trial t;
        trial_init(&t, "cast");
        weft_tensor *x = trial_in(&t, halves[types & 1], 1, SIZES(1000));
        EACH(double, special, INFINITY, -INFINITY, NAN, 0.0, 1e-40, 3.38e38)
        weft_tensor_set(x, (int64_t)i_special, special);
        trial_out(&t, halves[types >> 1], SIZES(1000));
        trial_check(&t);
    }
}

static void test_bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    trial t;
    trial_init(&t, "cast");
    weft_tensor *x = trial_in(&t, WEFT_F32, 1, SIZES(4096));
    weft_tensor *y = trial_out(&t, WEFT_BF16, SIZES(4096));
    for (uint32_t i = 0; i < 4096; i++) {
        uint32_t bits = i < 2048 ? 0x3f800000u + i * 0x1000u : (uint32_t)weft_random_bits(3, 4, i);
        memcpy((float *)x->data + i, &bits, sizeof bits);
    }
    trial_run(&t, false);
    for (int i = 0; i < 4096; i++)
        assert_int_equal(((const uint16_t *)y->data)[i],
                         weft_f32_to_bf16(((const float *)x->data)[i]));
    trial_release(&t);
}

static void test_norms(void **state)
{
    static const struct {
        const char *op, *ins; /* x, dy: rows; w: one row; >: result's */
        char out;
    } cases[] = {{"rms_norm", "xw", 'x'},       {"rms_norm_dx", "xwx", 'x'},
                 {"rms_norm_dw", "xx", 'w'},    {"layer_norm", "xww", 'x'},
                 {"layer_norm_dx", "xwx", 'x'}, {"layer_norm_dw", "xx", 'w'},
                 {"bias_dw", "x", 'w'},         {"add_bias", "xw", 'x'}};
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        EACH(int64_t, rows, 0, 5, 131)
    EACH(int64_t, width, 3, 264, 513)
    for (int types = 0; types < 4; types++) {
        SAMPLE;
        trial t;
        trial_init(&t, cases[c].op);
        trial_real(&t, "eps", 1e-5);
        t.tolerance = 1e-5;
        for (const char *p = cases[c].ins; *p; p++)
            trial_in(&t, *p == 'x' ? halves[types & 1] : halves[types >> 1],
                     (uint64_t)(p - cases[c].ins) + 1,
                     *p == 'x' ? SIZES(1, rows, width) : SIZES(width));
        if (cases[c].out == 'x')
            trial_out(&t, halves[types & 1], SIZES(1, rows, width));
        else
            trial_out(&t, halves[types >> 1], SIZES(width));
        trial_check(&t);
    }
}

static void test_norms_with_a_large_mean(void **state)
{
    (void)state;
    trial t;
    trial_init(&t, "layer_norm");
    trial_real(&t, "eps", 1e-5);
    t.tolerance = 1e-4; /* x itself is rounded at 100 */
    weft_tensor *x = trial_in(&t, WEFT_F32, 1, SIZES(3, 4, 700));
    for (int64_t i = 0; i < weft_tensor_count(x); i++)
        weft_tensor_set(x, i, weft_tensor_get(x, i) + 100.0);
    trial_in(&t, WEFT_F32, 2, SIZES(700));
    trial_in(&t, WEFT_F32, 3, SIZES(700));
    trial_out(&t, WEFT_F32, SIZES(3, 4, 700));
    trial_check(&t);
}

static void test_sums(void **state)
{
    (void)state;
    EACH(int64_t, n, 0, 1, 255, 30003)
    for (int type = 0; type < 4; type++) {
        SAMPLE;
        trial t;
        trial_init(&t, "sum");
        trial_in(&t, halves[type & 1], 1, SIZES(n));
        trial_out(&t, type >> 1 ? WEFT_F64 : WEFT_F32, SIZES(-1));
        trial_check(&t);
    }
    EACH(int64_t, n, 0, 1, 255, 30003)
    for (int type = 0; type < 6; type++) {
        SAMPLE;
        trial t;
        trial_init(&t, "sumsq");
        trial_in(&t, type % 3 == 2 ? WEFT_F64 : halves[type % 3], 1, SIZES(n));
        trial_out(&t, type / 3 ? WEFT_F64 : WEFT_F32, SIZES(-1));
        trial_check(&t);
    }
    EACH(int64_t, n, 0, 1, 30003)
    {
        SAMPLE;
        trial t;
        trial_init(&t, "count_valid");
        tensor_ints(trial_in(&t, WEFT_I32, 1, SIZES(n)), 5, -1, 3);
        trial_out(&t, WEFT_F32, SIZES(-1));
        trial_check(&t);
    }
}

static void test_rope(void **state)
{
    (void)state;
    EACH(name, op, "rope", "rope_dx")
    EACH(int64_t, d, 2, 64, 512)
    EACH(int64_t, far, 1, 5000, 2000000)
    for (int options = 0; options < 4; options++) {
        SAMPLE;
        trial t;
        trial_init(&t, op);
        trial_real(&t, "theta", 500000.0);
        trial_real(&t, "factor", options & 1 ? 8.0 : 0.0);
        trial_real(&t, "low", 1.0);
        trial_real(&t, "high", 4.0);
        trial_int(&t, "original", 8192);
        tensor_heads(trial_in(&t, halves[options >> 1], 1, SIZES(2, 11, 3 * d)), d, 0, 3 * d);
        tensor_ints(trial_in(&t, WEFT_I32, 2, SIZES(2, 11)), 3, 0, far);
        tensor_heads(trial_out(&t, halves[options >> 1], SIZES(2, 11, 3 * d)), d, 0, 3 * d);
        trial_check(&t);
    }
}

static void test_embedding(void **state)
{
    (void)state;
    EACH(int64_t, tokens, 0, 150)
    EACH(int64_t, width, 1, 530)
    EACH(int64_t, lo, 0, 20)
    for (int types = 0; types < 4; types++) {
        SAMPLE;
        trial t;
        trial_init(&t, "embedding");
        tensor_ints(trial_in(&t, WEFT_I32, 1, SIZES(1, tokens)), 7, -2, 60);
        trial_in(&t, halves[types & 1], 2, SIZES(31, width))->lo[0] = lo;
        trial_out(&t, halves[types >> 1], SIZES(1, tokens, width));
        trial_check(&t);
        if (types >> 1)
            continue;
        trial_init(&t, "embedding_dw");
        tensor_ints(trial_in(&t, WEFT_I32, 1, SIZES(1, tokens)), 7, -2, 60);
        trial_in(&t, halves[types & 1], 2, SIZES(1, tokens, width));
        trial_out(&t, WEFT_F32, SIZES(31, width))->lo[0] = lo;
        trial_check(&t);
    }
}

static void test_take(void **state)
{
    (void)state;
    EACH(int64_t, batch, 0, 5)
    for (int type = 0; type < 2; type++) {
        SAMPLE;
        trial t;
        trial_init(&t, "take");
        trial_in(&t, halves[type], 1, SIZES(batch, 7, 530));
        tensor_ints(trial_in(&t, WEFT_I32, 2, SIZES(batch)), 3, -2, 9);
        trial_out(&t, halves[type], SIZES(batch, 530));
        trial_check(&t);
    }
}

static void test_chunk(void **state)
{
    (void)state;
    EACH(int, dim, 0, 1, 2)
    EACH(int64_t, places, 0, 5)
    for (int type = 0; type < 2; type++) {
        enum { PARTS = 3 };
        int64_t whole[4] = {2, 4, 6, -1}, part[4] = {2, 4, 6, -1};
        part[dim] = places;
        whole[dim] = PARTS * places;
        trial t;
        trial_init(&t, "chunk");
        trial_int(&t, "dim", dim);
        trial_in(&t, halves[type], 1, whole)->lo[dim] = 6;
        for (int i = 0; i < PARTS; i++)
            trial_out(&t, halves[type], part)->lo[dim] = 2;
        trial_check(&t);
        trial_init(&t, "unchunk");
        trial_int(&t, "dim", dim);
        for (int i = 0; i < PARTS; i++)
            trial_in(&t, halves[type], (uint64_t)i + 1, part)->lo[dim] = 2;
        trial_out(&t, halves[type], whole)->lo[dim] = 6;
        trial_check(&t);
    }
}

/* Logits with equal, infinite and far apart elements. */
static weft_tensor *logits(trial *t, weft_dtype dtype, int64_t rows, int64_t width, int64_t lo)
{
    weft_tensor *x = trial_in(t, dtype, 1, SIZES(1, rows, width));
    x->lo[2] = lo;
    x->whole[2] = lo + width + 10;
    for (int64_t i = 0; i < weft_tensor_count(x); i++)
        weft_tensor_set(x, i,
                        i % 97 == 5   ? -INFINITY
                        : i % 31 == 0 ? -80.0
                                      : 4.0 * weft_tensor_get(x, i));
    return x;
}

static void row_maximum(weft_tensor *max, const weft_tensor *x)
{
    int64_t rows = x->size[1], width = x->size[2];
    for (int64_t r = 0; r < rows; r++) {
        double most = width ? weft_tensor_get(x, r * width) : -INFINITY;
        for (int64_t v = 1; v < width; v++)
            most = fmax(most, weft_tensor_get(x, r * width + v));
        weft_tensor_set(max, r, most);
    }
}

static void test_vocabulary(void **state)
{
    (void)state;
    EACH(int64_t, rows, 0, 1, 9)
    EACH(int64_t, width, 0, 1, 63, 513, 2100)
    EACH(int64_t, lo, 0, 100)
    for (int type = 0; type < 2; type++) {
        SAMPLE;
        trial t;
        trial_init(&t, "max_v");
        logits(&t, halves[type], rows, width, lo);
        trial_out(&t, WEFT_F32, SIZES(1, rows));
        trial_check(&t);

        trial_init(&t, "sumexp");
        weft_tensor *x = logits(&t, halves[type], rows, width, lo);
        row_maximum(trial_in(&t, WEFT_F32, 2, SIZES(1, rows)), x);
        trial_out(&t, WEFT_F32, SIZES(1, rows));
        trial_check(&t);

        trial_init(&t, "sumexp_dx");
        x = logits(&t, halves[type], rows, width, lo);
        row_maximum(trial_in(&t, WEFT_F32, 2, SIZES(1, rows)), x);
        trial_in(&t, WEFT_F32, 3, SIZES(1, rows));
        trial_out(&t, halves[type], SIZES(1, rows, width));
        trial_check(&t);

        trial_init(&t, "pick");
        logits(&t, halves[type], rows, width, lo);
        tensor_ints(trial_in(&t, WEFT_I32, 2, SIZES(1, rows)), 3, -1, lo + width + 10);
        trial_out(&t, WEFT_F32, SIZES(1, rows));
        trial_check(&t);

        trial_init(&t, "pick_dx");
        tensor_ints(trial_in(&t, WEFT_I32, 2, SIZES(1, rows)), 3, -1, lo + width + 10);
        trial_in(&t, WEFT_F32, 3, SIZES(1, rows));
        trial_out(&t, halves[type], SIZES(1, rows, width))->lo[2] = lo;
        trial_check(&t);
    }
}

static void test_max_keeps_nan(void **state)
{
    (void)state;
    EACH(int64_t, place, 0, 100, 599)
    {
        trial t;
        trial_init(&t, "max_v");
        weft_tensor_set(trial_in(&t, WEFT_F32, 1, SIZES(1, 600)), place, NAN);
        trial_out(&t, WEFT_F32, SIZES(1));
        trial_check(&t);
    }
}

static void test_nll(void **state)
{
    static const struct {
        const char *op, *ins; /* f number, e positive number, i label */
    } cases[] = {{"nll", "fefi"}, {"nll_de", "eif"}, {"nll_dt", "if"}};
    (void)state;
    for (size_t c = 0; c < 3; c++)
        EACH(int64_t, n, 0, 1, 1000)
        {
            trial t;
            trial_init(&t, cases[c].op);
            for (const char *p = cases[c].ins; *p; p++) {
                weft_tensor *x = trial_in(&t, *p == 'i' ? WEFT_I32 : WEFT_F32,
                                          (uint64_t)(p - cases[c].ins) + 1, SIZES(1, n));
                if (*p == 'i')
                    tensor_ints(x, 3, -1, 5);
                for (int64_t i = 0; *p == 'e' && i < n; i++)
                    weft_tensor_set(x, i, 1.0 + fabs(weft_tensor_get(x, i)));
            }
            trial_out(&t, WEFT_F32, SIZES(1, n));
            trial_check(&t);
        }
}

/* ---- single numbers, the update ---- */

static void test_scalars(void **state)
{
    static const double xs[] = {-3.0, 0.0, 0.25, 1.0, 7.5, 1e6, NAN};
    (void)state;
    EACH(name, op, "reciprocal", "sqrt", "clip")
    for (size_t i = 0; i < sizeof xs / sizeof *xs; i++)
        for (int type = 0; type < 2; type++) {
            if (strcmp(op, "sqrt") == 0 && xs[i] < 0)
                continue;
            trial t;
            trial_init(&t, op);
            trial_real(&t, "max_norm", i % 2 ? 1.5 : 0.0);
            weft_tensor_set(trial_in(&t, type ? WEFT_F64 : WEFT_F32, 1, SIZES(-1)), 0, xs[i]);
            trial_out(&t, WEFT_F32, SIZES(-1));
            trial_check(&t);
        }
    trial t;
    trial_init(&t, "constant");
    trial_real(&t, "value", 0.1);
    trial_out(&t, WEFT_F32, SIZES(-1));
    trial_check(&t);
}

static void test_learning_rate(void **state)
{
    (void)state;
    EACH(name, shape, "constant", "linear", "sqrt", "cosine")
    EACH(double, step, 1, 10, 11, 60, 99, 100, 120)
    {
        SAMPLE;
        trial t;
        trial_init(&t, "lr_schedule");
        trial_real(&t, "lr", 3e-4);
        trial_real(&t, "min_factor", 0.1);
        trial_int(&t, "warmup", 10);
        trial_int(&t, "decay", strcmp(shape, "constant") == 0 ? 0 : 80);
        trial_int(&t, "total", 100);
        trial_text(&t, "shape", shape);
        weft_tensor_set(trial_in(&t, WEFT_F32, 1, SIZES(-1)), 0, step);
        trial_out(&t, WEFT_F32, SIZES(-1));
        trial_check(&t);
    }
}

static void test_adamw(void **state)
{
    (void)state;
    EACH(int64_t, n, 0, 5, 1003)
    EACH(double, step, 1, 1000)
    for (int types = 0; types < 4; types++) {
        SAMPLE;
        trial t;
        trial_init(&t, "adamw");
        t.tolerance = 1e-5;
        trial_real(&t, "beta1", 0.9);
        trial_real(&t, "beta2", 0.95);
        trial_real(&t, "eps", 1e-8);
        trial_real(&t, "weight_decay", 0.1);
        for (int i = 0; i < 4; i++)
            trial_in(&t, i == 3 ? halves[types & 1] : halves[types >> 1], (uint64_t)i + 1,
                     SIZES(n));
        for (int64_t i = 0; i < n; i++) /* squares */
            weft_tensor_set(&t.ins[2], i, fabs(weft_tensor_get(&t.ins[2], i)));
        weft_tensor_set(trial_in(&t, WEFT_F32, 1, SIZES(-1)), 0, 0.5);
        weft_tensor_set(trial_in(&t, WEFT_F32, 1, SIZES(-1)), 0, 1e-2);
        weft_tensor_set(trial_in(&t, WEFT_F32, 1, SIZES(-1)), 0, step);
        for (int i = 0; i < 3; i++)
            trial_out(&t, halves[types >> 1], SIZES(n));
        trial_check(&t);
    }
}

/* ---- rows that an index names, shared heads ---- */

static void test_cache(void **state)
{
    (void)state;
    EACH(int64_t, n, 0, 1, 5)
    EACH(int64_t, width, 3, 264)
    for (int type = 0; type < 2; type++) {
        SAMPLE;
        trial t;
        trial_init(&t, "cache");
        trial_in(&t, halves[type], 1, SIZES(2, 7, width));
        trial_in(&t, halves[type], 2, SIZES(2, n, width));
        tensor_ints(trial_in(&t, WEFT_I32, 3, SIZES(n)), 3, -1, 8);
        trial_out(&t, halves[type], SIZES(2, 7, width));
        trial_check(&t);
    }
}

static void test_shared_heads(void **state)
{
    (void)state;
    EACH(int64_t, d, 3, 64)
    EACH(int64_t, lo, 0, 2, 3)
    for (int type = 0; type < 2; type++) {
        enum { HEADS = 12, KV = 3, HERE = 5 };
        trial t;
        trial_init(&t, "repeat_kv");
        tensor_heads(trial_in(&t, halves[type], 1, SIZES(2, 3, KV * d)), d, 0, KV * d);
        tensor_heads(trial_in(&t, halves[type], 2, SIZES(2, 3, HERE * d)), d, lo * d, HEADS * d);
        tensor_heads(trial_out(&t, halves[type], SIZES(2, 3, HERE * d)), d, lo * d, HEADS * d);
        trial_check(&t);
        trial_init(&t, "repeat_kv_dx");
        tensor_heads(trial_in(&t, halves[type], 1, SIZES(2, 3, HERE * d)), d, lo * d, HEADS * d);
        tensor_heads(trial_in(&t, halves[type], 2, SIZES(2, 3, KV * d)), d, 0, KV * d);
        tensor_heads(trial_out(&t, halves[type], SIZES(2, 3, KV * d)), d, 0, KV * d);
        trial_check(&t);
    }
}

/* ---- 8 bits ---- */

static void test_amax(void **state)
{
    (void)state;
    EACH(int64_t, places, 0, 1, 3)
    EACH(int64_t, width, 1, 7, 2100)
    for (int special = 0; special < 3; special++) {
        SAMPLE;
        trial t;
        trial_init(&t, "float8_amax");
        trial_int(&t, "places", places);
        weft_tensor *x = trial_in(&t, halves[special & 1], 1, SIZES(3, 5, width));
        if (special)
            weft_tensor_set(x, 4 * width, special == 1 ? NAN : -INFINITY);
        trial_out(&t, WEFT_F32, places == 0 ? SIZES(-1) : places == 1 ? SIZES(3) : SIZES(3, 5));
        trial_check(&t);
    }
}

static void test_quantise(void **state)
{
    (void)state;
    EACH(name, dtype, "f8e4m3", "f8e5m2")
    EACH(int64_t, places, 0, 1, 3)
    EACH(int64_t, width, 1, 3, 64, 701)
    {
        SAMPLE;
        trial t;
        trial_init(&t, "float8_quantise");
        trial_int(&t, "places", places);
        trial_text(&t, "dtype", dtype);
        weft_tensor *x = trial_in(&t, halves[width == 64], 1, SIZES(3, 5, width));
        EACH(double, special, INFINITY, -INFINITY, NAN, 0.0, -0.0, 1e-8, 3e4, -1e9)
        weft_tensor_set(x, (int64_t)i_special, special);
        weft_tensor *scale = trial_in(&t, WEFT_F32, 2,
                                      places == 0   ? SIZES(-1)
                                      : places == 1 ? SIZES(3)
                                                    : SIZES(3, 5));
        for (int64_t i = 0; i < weft_tensor_count(scale); i++)
            weft_tensor_set(scale, i, 50.0 * (double)(i + 1));
        trial_out(&t, weft_dtype_find(dtype), SIZES(3, 5, width));
        t.tolerance = 0; /* to the bit */
        trial_check(&t);
    }
}

static void test_scales(void **state)
{
    (void)state;
    EACH(name, dtype, "f8e4m3", "f8e5m2")
    for (int power = 0; power < 2; power++) {
        trial t;
        trial_init(&t, "float8_scale");
        trial_int(&t, "power_of_two", power);
        trial_text(&t, "dtype", dtype);
        weft_tensor *x = trial_in(&t, WEFT_F32, 1, SIZES(7));
        EACH(double, special, INFINITY, NAN, 0.0, 1e-30, 448, 3.3, 1e30)
        weft_tensor_set(x, (int64_t)i_special, special);
        trial_out(&t, WEFT_F32, SIZES(7));
        trial_check(&t);
        for (int recent = 0; recent < 2; recent++) {
            trial_init(&t, "float8_history");
            trial_int(&t, "power_of_two", power);
            trial_int(&t, "margin", 1);
            trial_int(&t, "interval", 2);
            trial_int(&t, "recent", recent);
            trial_text(&t, "dtype", dtype);
            trial_in(&t, WEFT_F32, 1, SIZES(5));
            trial_in(&t, WEFT_F32, 2, SIZES(-1));
            weft_tensor_set(trial_in(&t, WEFT_F32, 3, SIZES(-1)), 0, 4 + recent * power);
            for (uint64_t i = 0; i < 3; i++)
                weft_tensor_set(trial_in(&t, WEFT_F32, 1, SIZES(-1)), 0, 0.25 * (double)i);
            trial_out(&t, WEFT_F32, SIZES(5));
            trial_out(&t, WEFT_F32, SIZES(-1));
            trial_check(&t);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_casts),
        cmocka_unit_test(test_bf16_rounds_to_nearest_even),
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_norms_with_a_large_mean),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_take),
        cmocka_unit_test(test_chunk),
        cmocka_unit_test(test_vocabulary),
        cmocka_unit_test(test_max_keeps_nan),
        cmocka_unit_test(test_nll),
        cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_learning_rate),
        cmocka_unit_test(test_adamw),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_shared_heads),
        cmocka_unit_test(test_amax),
        cmocka_unit_test(test_quantise),
        cmocka_unit_test(test_scales),
    };
    return cmocka_run_group_tests_name("cuda_kernels", tests, NULL, NULL);
}
