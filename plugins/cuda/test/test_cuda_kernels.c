/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel of the cuda plugin but attention's and products, run on the host, against its op's
 * plain kernel: f32 and bf16, odd and empty extents, shards, several orders of threads (equal to
 * the bit), with and without accumulation, in place where the op allows it. A sample; all of it
 * with WEFT_LONG. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "trial_experts.h"
#include "trial_ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weft/random.h>

#include "../kernels/args.h"

static void test_sums_of_squares(void **state)
{
    (void)state;
    EACH(int64_t, n, 0, 1, 255, 30003)
    for (int type = 0; type < 6; type++) {
        SAMPLE;
        trial t;
        trial_init(&t, "sumsq");
        trial_in(&t, type % 3 == 2 ? WEFT_F64 : halves[type % 3], 1, SIZES(n));
        trial_out(&t, type / 3 ? WEFT_F64 : WEFT_F32, SIZES(-1));
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

static void test_head_norms(void **state)
{
    static const struct {
        const char *op, *ins;
    } cases[] = {{"head_norm", "xw"}, {"head_norm_dx", "xwx"}, {"head_norm_dw", "xxw"}};
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        EACH(int64_t, d, 1, 5, 64, 300)
    EACH(int64_t, tokens, 0, 3, 90)
    for (int type = 0; type < 2; type++) {
        enum { HEADS = 3 };
        trial t;
        SAMPLE;
        trial_init(&t, cases[c].op);
        trial_real(&t, "eps", 1e-6);
        t.tolerance = 1e-5;
        t.size = 1; /* of one element nothing is left of dx */
        for (const char *p = cases[c].ins; *p; p++) {
            const bool x = *p == 'x';
            weft_tensor *in =
                trial_in(&t, x ? halves[type] : WEFT_F32, (uint64_t)(p - cases[c].ins) + 1,
                         x ? SIZES(1, tokens, HEADS * d) : SIZES(d));
            if (x)
                tensor_heads(in, d, 0, HEADS * d);
        }
        if (c == 2)
            trial_out(&t, WEFT_F32, SIZES(d));
        else
            tensor_heads(trial_out(&t, halves[type], SIZES(1, tokens, HEADS * d)), d, 0, HEADS * d);
        trial_check(&t);
    }
}

/* Of heads of `whole` elements those from `first` on; what all share is behind `width`. */
static void test_parts_of_heads(void **state)
{
    static const int64_t parts[][3] = {
        {0, 6, 10}, {6, 4, 10}, {3, 2, 9}, {8, 16, 264}, {0, 128, 192}};
    enum { HEADS = 3 };
    (void)state;
    EACH(name, op, "head_part", "head_place", "head_join", "head_sum")
    for (size_t c = 0; c < sizeof parts / sizeof *parts; c++)
        for (int type = 0; type < 2; type++) {
            const bool place = strcmp(op, "head_place") == 0, join = strcmp(op, "head_join") == 0,
                       sum = strcmp(op, "head_sum") == 0;
            const int64_t *p = parts[c], shared = p[2] - p[1], in = place || join ? p[1] : p[2],
                          out = place || join ? p[2] : p[1];
            trial t;
            if ((join || sum) && p[0] > 0)
                continue;
            trial_init(&t, op);
            trial_int(&t, "first", p[0]);
            trial_int(&t, "width", p[1]);
            trial_int(&t, "whole", p[2]);
            tensor_heads(trial_in(&t, halves[type], 1, SIZES(2, 7, HEADS * in)), in, 0, HEADS * in);
            if (join || sum)
                trial_in(&t, halves[type], 2, SIZES(2, 7, shared));
            if (sum)
                trial_out(&t, halves[type], SIZES(2, 7, shared));
            else
                tensor_heads(trial_out(&t, halves[type], SIZES(2, 7, HEADS * out)), out, 0,
                             HEADS * out);
            trial_check(&t);
        }
}

/* ---- 8 bits ---- */

/* Those of [3 5 width] that places name. */
static void kept_sizes(int64_t places, int64_t width, int64_t sizes[4])
{
    const int64_t all[] = {3, 5, width};
    int n = 0;
    for (int d = 0; d < 3; d++)
        if (places >> d & 1)
            sizes[n++] = all[d];
    sizes[n] = -1;
}

static void test_amax(void **state)
{
    (void)state;
    EACH(int64_t, places, 0, 1, 3, 4, 6)
    EACH(int64_t, width, 1, 7, 2100)
    for (int special = 0; special < 3; special++) {
        SAMPLE;
        int64_t sizes[4];
        trial t;
        trial_init(&t, "float8_amax");
        trial_int(&t, "places", places);
        weft_tensor *x = trial_in(&t, halves[special & 1], 1, SIZES(3, 5, width));
        if (special)
            weft_tensor_set(x, 4 * width, special == 1 ? NAN : -INFINITY);
        kept_sizes(places, width, sizes);
        trial_out(&t, WEFT_F32, sizes);
        trial_check(&t);
    }
}

static void test_quantise(void **state)
{
    (void)state;
    EACH(name, dtype, "f8e4m3", "f8e5m2")
    EACH(int64_t, places, 0, 1, 3, 4, 6)
    EACH(int64_t, width, 1, 3, 64, 701)
    {
        SAMPLE;
        int64_t sizes[4];
        trial t;
        trial_init(&t, "float8_quantise");
        trial_int(&t, "places", places);
        trial_text(&t, "dtype", dtype);
        weft_tensor *x = trial_in(&t, halves[width == 64], 1, SIZES(3, 5, width));
        EACH(double, special, INFINITY, -INFINITY, NAN, 0.0, -0.0, 1e-8, 3e4, -1e9)
        weft_tensor_set(x, (int64_t)i_special, special);
        kept_sizes(places, width, sizes);
        weft_tensor *scale = trial_in(&t, WEFT_F32, 2, sizes);
        for (int64_t i = 0; i < weft_tensor_count(scale); i++)
            weft_tensor_set(scale, i, 50.0 * (double)(i % 60 + 1));
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

/* On a CPU the plain kernel does it. */
static void test_lowest(void **state)
{
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_BF16};
    static const int64_t widths[] = {0, 17, 1000};
    (void)state;
    for (size_t i = 0; i < 12; i++) {
        trial t;
        trial_init(&t, "lowest");
        trial_in(&t, dtypes[i & 1], 1, SIZES(3, widths[i / 4]));
        trial_out(&t, dtypes[i >> 1 & 1], SIZES(3, widths[i / 4]));
        trial_check(&t);
    }
}

/* ---- bf16 in whole words, which has forms of its own ---- */

static void in_halves(trial *t, const char *op, const char *ins, int64_t rows, int64_t width)
{
    trial_init(t, op);
    trial_real(t, "eps", 1e-5);
    for (const char *p = ins; *p; p++)
        trial_in(t, WEFT_BF16, (uint64_t)(p - ins) + 1,
                 *p == 'x' ? SIZES(1, rows, width) : SIZES(width));
}

static void test_whole_elements(void **state)
{
    static const struct {
        const char *op, *ins;
        int n_outs;
    } cases[] = {{"add", "x", 1},
                 {"add", "xx", 1},
                 {"add", "xxxxx", 1},
                 {"silu_mul", "xx", 1},
                 {"silu_mul_dx", "xxx", 2}};
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        EACH(int64_t, width, 8, 2056)
        {
            trial t;
            in_halves(&t, cases[c].op, cases[c].ins, 5, width);
            for (int i = 0; i < cases[c].n_outs; i++)
                trial_out(&t, WEFT_BF16, SIZES(1, 5, width));
            trial_check(&t);
        }
}

/* Pairs that begin at multiples of 8, all of a head and in its middle. */
static void test_whole_heads(void **state)
{
    (void)state;
    EACH(name, op, "rope", "rope_dx")
    EACH(int64_t, first, 0, 8)
    {
        enum { HEADS = 3, D = 64 };
        trial t;
        trial_init(&t, op);
        trial_int(&t, "first", first);
        trial_int(&t, "neighbours", 0);
        tensor_heads(trial_in(&t, WEFT_BF16, 1, SIZES(2, 11, HEADS * D)), D, 0, HEADS * D);
        trial_in(&t, WEFT_F32, 2, SIZES(2, 11, D - 2 * first));
        tensor_heads(trial_out(&t, WEFT_BF16, SIZES(2, 11, HEADS * D)), D, 0, HEADS * D);
        trial_check(&t);
    }
}

/* Of the widths that a block holds, and one that it does not. */
static void test_whole_rows(void **state)
{
    static const struct {
        const char *op, *ins;
        char out;
    } cases[] = {{"rms_norm", "xw", 'x'},       {"rms_norm_dx", "xwx", 'x'},
                 {"rms_norm_dw", "xx", 'w'},    {"layer_norm", "xww", 'x'},
                 {"layer_norm_dx", "xwx", 'x'}, {"layer_norm_dw", "xx", 'w'}};
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        EACH(int64_t, width, 8, 2056, 4104, 8200)
        {
            trial t;
            in_halves(&t, cases[c].op, cases[c].ins, 5, width);
            if (cases[c].out == 'x')
                trial_out(&t, WEFT_BF16, SIZES(1, 5, width));
            else
                trial_out(&t, WEFT_F32, SIZES(width));
            trial_check(&t);
        }
}

/* Norms with what stands beside them, of the widths that a block holds. */
static void test_joined_norms(void **state)
{
    (void)state;
    EACH(int64_t, width, 8, 2056, 8192)
    EACH(int64_t, rows, 5, CUDA_PARTS + 3)
    for (int op = 0; op < 2 && (rows == 5 || width == 8); op++) {
        trial t;
        in_halves(&t, op ? "rms_norm_dx_dw" : "add_rms_norm", op ? "xwx" : "xxw", rows, width);
        t.tolerance = 1e-2; /* what is normed is rounded, and not so in the plain kernel of f64 */
        trial_out(&t, WEFT_BF16, SIZES(1, rows, width));
        if (op)
            trial_out(&t, WEFT_F32, SIZES(width));
        else
            trial_out(&t, WEFT_BF16, SIZES(1, rows, width));
        trial_check(&t);
    }
}

/* More rows than parts: a block adds several, and of those that it reads at once some are none. */
static void test_many_rows(void **state)
{
    (void)state;
    EACH(name, op, "rms_norm_dw", "layer_norm_dw")
    EACH(int64_t, rows, CUDA_PARTS + 3, 2 * CUDA_PARTS + 1)
    {
        trial t;
        if (i_op != i_rows && !getenv("WEFT_LONG"))
            continue;
        in_halves(&t, op, "xx", rows, 16);
        t.tolerance = 1e-5;
        trial_out(&t, WEFT_F32, SIZES(16));
        trial_check(&t);
    }
}

/* So many that a thread reads several chunks at once. */
static void test_whole_vocabulary(void **state)
{
    enum { ROWS = 2, WIDTH = 4 * 8 * CUDA_THREADS + 16 };
    (void)state;
    EACH(name, op, "max_v", "sumexp", "sumexp_dx")
    {
        trial t;
        in_halves(&t, op, "x", ROWS, WIDTH);
        if (strcmp(op, "max_v") != 0)
            for (int64_t r = 0; r < ROWS; r++)
                weft_tensor_set(r ? &t.ins[1] : trial_in(&t, WEFT_F32, 2, SIZES(1, ROWS)), r, 6);
        if (strcmp(op, "sumexp_dx") == 0) {
            trial_in(&t, WEFT_F32, 3, SIZES(1, ROWS));
            trial_out(&t, WEFT_BF16, SIZES(1, ROWS, WIDTH));
        } else {
            trial_out(&t, WEFT_F32, SIZES(1, ROWS));
        }
        trial_check(&t);
    }
}

/* Ids that fill several pieces of the sorted tokens, and ids of which a piece has many. */
static void test_frequent_ids(void **state)
{
    enum { TOKENS = 5 * CUDA_PIECE + CUDA_THREADS + 3, ROWS = 300 };
    (void)state;
    EACH(int64_t, ids, 1, 4, ROWS + 20)
    EACH(int64_t, width, 3, 16, 2056)
    {
        trial t;
        if ((i_ids + i_width) % 2 == 1 && !getenv("WEFT_LONG"))
            continue;
        trial_init(&t, "embedding_dw");
        t.tolerance = 1e-5;
        tensor_ints(trial_in(&t, WEFT_I32, 1, SIZES(1, TOKENS)), 7, ids > 1 ? -1 : 0, ids);
        trial_in(&t, WEFT_BF16, 2, SIZES(1, TOKENS, width));
        trial_out(&t, WEFT_F32, SIZES(ROWS, width));
        trial_check(&t);
    }
}

/* Whether operands begin at multiples of 16 bytes only a launch knows: one that does not is read
 * element by element. */
static void test_operands_between_words(void **state)
{
    enum { ROWS = 4, WIDTH = 64 };
    (void)state;
    EACH(name, op, "silu_mul", "rms_norm", "rms_norm_dw", "sumexp")
    {
        const bool norm = strcmp(op, "rms_norm") == 0, dw = strcmp(op, "rms_norm_dw") == 0,
                   sum = strcmp(op, "sumexp") == 0;
        double want[ROWS * WIDTH];
        trial t;
        trial_init(&t, op);
        trial_real(&t, "eps", 1e-6);
        weft_tensor *x = trial_in(&t, WEFT_BF16, 1, SIZES(1, ROWS, WIDTH));
        if (sum)
            trial_in(&t, WEFT_F32, 2, SIZES(1, ROWS));
        else
            trial_in(&t, WEFT_BF16, 2, norm ? SIZES(WIDTH) : SIZES(1, ROWS, WIDTH));
        const weft_tensor *out = dw    ? trial_out(&t, WEFT_F32, SIZES(WIDTH))
                                 : sum ? trial_out(&t, WEFT_F32, SIZES(1, ROWS))
                                       : trial_out(&t, WEFT_BF16, SIZES(1, ROWS, WIDTH));
        trial_run(&t, 0, 0, false);
        for (int64_t i = 0; i < weft_tensor_count(out); i++)
            want[i] = weft_tensor_get(out, i);
        void *aligned = x->data;
        uint16_t *room = malloc(sizeof *room * (1 + ROWS * WIDTH));
        assert_non_null(room);
        x->data = memcpy(room + 1, aligned, sizeof *room * ROWS * WIDTH);
        trial_run(&t, 0, 0, false);
        for (int64_t i = 0; i < weft_tensor_count(out); i++)
            assert_true(fabs(weft_tensor_get(out, i) - want[i]) <= 0.01 * (1 + fabs(want[i])));
        x->data = aligned;
        free(room);
        trial_release(&t);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TRIAL_OPS,
        cmocka_unit_test(test_lowest),
        cmocka_unit_test(test_sums_of_squares),
        cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_learning_rate),
        cmocka_unit_test(test_adamw),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_shared_heads),
        cmocka_unit_test(test_head_norms),
        cmocka_unit_test(test_parts_of_heads),
        cmocka_unit_test(test_amax),
        cmocka_unit_test(test_quantise),
        cmocka_unit_test(test_scales),
        cmocka_unit_test(test_whole_elements),
        cmocka_unit_test(test_whole_heads),
        cmocka_unit_test(test_whole_rows),
        cmocka_unit_test(test_operands_between_words),
        cmocka_unit_test(test_joined_norms),
        cmocka_unit_test(trial_test_narrowed),
        cmocka_unit_test(test_many_rows),
        cmocka_unit_test(test_whole_vocabulary),
        cmocka_unit_test(test_frequent_ids),
        TRIAL_EXPERTS,
    };
    return trial_main(argc, argv, "cuda_kernels", tests, sizeof tests / sizeof *tests);
}
