/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that the kernels of attention execute, counted by the emulator, against those that
 * they tell a plan and those of the op. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "emulate.h"
#include "trial_attention.h"

enum { TILE = 64 };

typedef struct counted {
    double executed, told, op;
} counted;

static counted count(trial *t)
{
    const weft_call call = {.op = t->op,
                            .attrs = t->attrs,
                            .n_attrs = t->n_attrs,
                            .n_ins = t->n_ins,
                            .n_outs = t->n_outs,
                            .ins = t->ins,
                            .outs = t->outs};
    counted c = {-emulate_flops(), t->kernel->work(&call).flops, t->op->flops(&call)};
    trial_run(t, 0, 0, false);
    c.executed += emulate_flops();
    trial_release(t);
    return c;
}

static counted count_op(bool gradient, int64_t d, mask m, int64_t rows)
{
    const attention_case c = {
        .batch = 1,
        .queries = rows,
        .keys = rows,
        .heads = 4,
        .kv_heads = 2,
        .d = d,
        .mask = m,
        .dtype = WEFT_BF16,
    };
    trial t;
    if (gradient) {
        attention_backward(&t, &c);
        return count(&t);
    }
    attention_forward(&t, &c, "attention");
    attention_heads(trial_out(&t, c.dtype, SIZES(c.batch, c.queries, c.heads * c.d)), &c, false);
    trial_out(&t, WEFT_F32, SIZES(c.batch, c.queries, c.heads));
    return count(&t);
}

/* Where all is seen and tiles are full. */
static void test_products(void **state)
{
    static const struct {
        int64_t d, width; /* of a head, and of the kernel */
        double gradient;  /* products that it executes for the op's five */
    } cases[] = {{64, 64, 7}, {128, 128, 7}, {256, 256, 9}, {40, 64, 7}, {96, 128, 7}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double wider = (double)cases[i].width / (double)cases[i].d;
        const counted f = count_op(false, cases[i].d, MASK_NONE, 2 * TILE),
                      b = count_op(true, cases[i].d, MASK_NONE, 2 * TILE);
        assert_true(f.op > 0 && b.op > 0);
        assert_float_equal(f.executed / f.op, wider, 1e-6);
        assert_float_equal(b.executed / b.op, wider * cases[i].gradient / 5, 1e-6);
        assert_float_equal(f.told, f.executed, 1);
        assert_float_equal(b.told, b.executed, 1);
    }
}

/* Tiles that nothing is seen of are skipped: of n x n there are n (n + 1) / 2. */
static void test_causal(void **state)
{
    enum { TILES = 5 };
    (void)state;
    for (int gradient = 0; gradient < 2; gradient++) {
        const counted c = count_op(gradient, 64, MASK_CAUSAL, TILES * TILE);
        assert_float_equal(c.executed / c.told, (TILES + 1) / (2.0 * TILES), 1e-6);
    }
}

/* Without matrix instructions the op's own count holds. */
static void test_others(void **state)
{
    const counted odd = count_op(true, 12, MASK_NONE, TILE);
    (void)state;
    assert_float_equal(odd.executed, 0, 0);
    assert_float_equal(odd.told, 0, 0);
}

enum { TOKENS = 100, WIDTH = 16, MANY = 50000 };

/* One operand or result: logits, a number or an id a token, a table, its rows, its gradient. */
static void put_tensor(trial *t, char what, int64_t ids, bool result)
{
    const int64_t *sizes = what == 'l'                  ? SIZES(TOKENS, ids)
                           : what == 't' || what == 'g' ? SIZES(ids, WIDTH)
                           : what == 'r'                ? SIZES(TOKENS, WIDTH)
                                                        : SIZES(TOKENS);
    const weft_dtype dtype = what == 'i'                  ? WEFT_I32
                             : what == 'n' || what == 'g' ? WEFT_F32
                                                          : WEFT_BF16;
    if (result)
        trial_out(t, dtype, sizes);
    else
        trial_in(t, dtype, 1, sizes);
}

static weft_kernel_work told_of(const char *op, const char *tensors, int64_t ids, bool accumulate)
{
    trial t;
    trial_init(&t, op);
    for (const char *c = tensors; c[1]; c++)
        put_tensor(&t, *c, ids, false);
    put_tensor(&t, tensors[strlen(tensors) - 1], ids, true);
    const weft_call call = {.op = t.op,
                            .n_ins = t.n_ins,
                            .n_outs = t.n_outs,
                            .ins = t.ins,
                            .outs = t.outs,
                            .accumulate = accumulate};
    const weft_kernel_work work = t.kernel->work(&call);
    trial_release(&t);
    return work;
}

/* Those that reach for few elements: bytes by hand, of which few grow with the number of ids. */
static void test_few(void **state)
{
    static const struct {
        const char *op, *tensors;
        bool accumulate;
        double fixed, an_id, before; /* bytes; the last two for each id that there is */
    } cases[] = {
        {"pick", "lin", false, TOKENS * (4 + 4 + 32), 0, 0},
        {"pick_dx", "inl", true, TOKENS * (4 + 4 + 2 * 32), 0, 0},
        {"pick_dx", "inl", false, TOKENS * (4 + 4), TOKENS * 2, 0},
        {"embedding", "itr", false, TOKENS * (4 + 2 * 2 * WIDTH), 0, 0},
        {"embedding", "itr", true, TOKENS * (4 + 3 * 2 * WIDTH), 0, 0},
        {"embedding_dw", "irg", true, TOKENS * (4 + 2 * WIDTH + 2 * 4 * WIDTH), 0, 0},
        {"embedding_dw", "irg", false, TOKENS * (4 + 2 * WIDTH + 2 * 4 * WIDTH), 0, 4 * WIDTH},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double bytes[2], before[2];
        for (int n = 0; n < 2; n++) {
            const weft_kernel_work work =
                told_of(cases[i].op, cases[i].tensors, (n + 1) * MANY, cases[i].accumulate);
            assert_true(work.launches > 0);
            before[n] = work.before;
            bytes[n] = work.bytes - work.before;
        }
        assert_float_equal(before[1] - before[0], MANY * cases[i].before, 1);
        assert_float_equal(bytes[1] - bytes[0], MANY * cases[i].an_id, 1);
        /* what sorts and joins has a workspace beside it */
        const double rest = bytes[0] - MANY * cases[i].an_id - cases[i].fixed;
        assert_true(cases[i].tensors[2] == 'g' ? rest > 0 && rest < cases[i].fixed : rest == 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_causal),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_few),
    };
    return trial_main(argc, argv, "cuda_work", tests, sizeof tests / sizeof *tests);
}
