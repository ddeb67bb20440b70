/* SPDX-License-Identifier: Apache-2.0 */
/* The core's ops but for attention and products, by any machine: f32 and bf16, odd and empty
 * extents, shards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "trial_ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weft/random.h>

bool trial_left_out_of(int *n, int every)
{
    const char *whole = getenv("WEFT_LONG");
    return !(whole && *whole) && (*n)++ % every != 0;
}

bool trial_left_out(void)
{
    static int n;
    return trial_left_out_of(&n, machine.slow ? 7 : 3);
}

void trial_test_elementwise(void **state)
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
        EACH(int64_t, width, 0, 17, machine.slow ? 1000 : 3001)
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

void trial_test_casts(void **state)
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

void trial_test_bf16_rounds_to_nearest_even(void **state)
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
    for (int v = 0; machine.variant(&t, v); v++) {
        trial_run(&t, v, 0, false);
        for (int64_t i = 0; i < 4096; i++) {
            if (isnan(((const float *)x->data)[i])) /* which NaN is the machine's own choice */
                assert_true(isnan(weft_tensor_get(y, i)));
            else
                assert_int_equal(((const uint16_t *)y->data)[i],
                                 weft_f32_to_bf16(((const float *)x->data)[i]));
        }
    }
    trial_release(&t);
}

void trial_test_norms(void **state)
{
    static const struct {
        const char *op, *ins; /* x, dy: rows; w: one row; >: result's */
        char out;
    } cases[] = {{"rms_norm", "xw", 'x'},       {"rms_norm_dx", "xwx", 'x'},
                 {"rms_norm_dw", "xx", 'w'},    {"layer_norm", "xww", 'x'},
                 {"layer_norm_dx", "xwx", 'x'}, {"layer_norm_dw", "xx", 'w'},
                 {"bias_dw", "x", 'w'},         {"add_bias", "xw", 'x'}};
    int n = 0;
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        EACH(int64_t, rows, 0, 5, machine.slow ? 131 : 35)
    EACH(int64_t, width, 3, 264, 513)
    for (int types = 0; types < 4; types++) {
        if (trial_left_out_of(&n, machine.slow ? 11 : 3))
            continue;
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

void trial_test_norms_with_a_large_mean(void **state)
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

void trial_test_sums(void **state)
{
    (void)state;
    EACH(int64_t, n, 0, 1, 255, machine.slow ? 30003 : 100003)
    for (int type = 0; type < 4; type++) {
        SAMPLE;
        trial t;
        trial_init(&t, "sum");
        trial_in(&t, halves[type & 1], 1, SIZES(n));
        trial_out(&t, type >> 1 ? WEFT_F64 : WEFT_F32, SIZES(-1));
        trial_check(&t);
    }
    EACH(int64_t, n, 0, 1, machine.slow ? 30003 : 100003)
    {
        SAMPLE;
        trial t;
        trial_init(&t, "count_valid");
        tensor_ints(trial_in(&t, WEFT_I32, 1, SIZES(n)), 5, -1, 3);
        trial_out(&t, WEFT_F32, SIZES(-1));
        trial_check(&t);
    }
}

/* Where the plain kernel is the only one, it needs no trial. */
static bool has_kernel(const char *op)
{
    const weft_kernel *k = machine.kernels;
    while (k->op && strcmp(k->op, op) != 0)
        k++;
    return k->op != NULL;
}

static void test_angles(void)
{
    EACH(int64_t, pairs, 1, 21, 32, 256)
    EACH(int64_t, far, 1, 5000, 2000000)
    EACH(name, law, "", "llama3", "yarn")
    {
        SAMPLE;
        trial t;
        trial_init(&t, "angles");
        trial_int(&t, "pairs", pairs);
        trial_real(&t, "theta", 500000.0);
        trial_real(&t, "scale", 1.25);
        trial_text(&t, "law", law);
        trial_real(&t, "factor", 8.0);
        trial_real(&t, "low", 1.0);
        trial_real(&t, "high", 4.0);
        trial_int(&t, "original", 8192);
        tensor_ints(trial_in(&t, WEFT_I32, 2, SIZES(2, 11)), 3, 0, far);
        trial_out(&t, WEFT_F32, SIZES(2, 11, 2 * pairs));
        trial_check(&t);
    }
}

void trial_test_rope(void **state)
{
    (void)state;
    if (has_kernel("angles"))
        test_angles();
    EACH(name, op, "rope", "rope_dx")
    EACH(int64_t, d, 2, 38, 64, 512)
    EACH(int64_t, first, 0, 1, 8)
    for (int options = 0; options < 4; options++) {
        const int64_t pairs = (d - (d > 8 ? 2 * first : 0)) / 2;
        const weft_dtype dtype = halves[options >> 1];
        SAMPLE;
        trial t;
        trial_init(&t, op);
        trial_int(&t, "first", d > 8 ? first : 0);
        trial_int(&t, "neighbours", options & 1);
        tensor_heads(trial_in(&t, dtype, 1, SIZES(2, 11, 3 * d)), d, 0, 3 * d);
        trial_in(&t, WEFT_F32, 2, SIZES(2, 11, 2 * pairs));
        tensor_heads(trial_out(&t, dtype, SIZES(2, 11, 3 * d)), d, 0, 3 * d);
        trial_check(&t);
    }
}

void trial_test_embedding(void **state)
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

void trial_test_take(void **state)
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

void trial_test_chunk(void **state)
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

void trial_test_vocabulary(void **state)
{
    (void)state;
    EACH(int64_t, rows, 0, 1, 9)
    EACH(int64_t, width, 0, 1, 63, 513, machine.slow ? 2100 : 3001)
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

void trial_test_max_keeps_nan(void **state)
{
    (void)state;
    EACH(int64_t, place, 0, 3, 100, 512, 599)
    {
        trial t;
        trial_init(&t, "max_v");
        weft_tensor_set(trial_in(&t, WEFT_F32, 1, SIZES(1, 600)), place, NAN);
        trial_out(&t, WEFT_F32, SIZES(1));
        trial_check(&t);
    }
}

void trial_test_nll(void **state)
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
