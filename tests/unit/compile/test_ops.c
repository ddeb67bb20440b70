/* SPDX-License-Identifier: Apache-2.0 */
/* The standard ops against what their table claims: gradients, shards, linearity, dtypes; and the
 * numbers that matter most. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../lib/opcheck.h"
#include "../../lib/standard_ops.h"

#define INT(k, x)                                                                                  \
    {                                                                                              \
        .key = k, .kind = WEFT_ATTR_INT, .i = x                                                    \
    }
#define REAL(k, x)                                                                                 \
    {                                                                                              \
        .key = k, .kind = WEFT_ATTR_REAL, .r = x                                                   \
    }
#define LAW(x)                                                                                     \
    {                                                                                              \
        .key = "law", .kind = WEFT_ATTR_TEXT, .text = x                                            \
    }

/* clang-format off */
static const opcheck_case cases[] = {
    {"constant", {NULL}, 0, {REAL("value", 0.25)}},
    {"embedding", {"i7 b=2 s=5", "f v=7 e=3"}, 0, {{0}}},
    {"embedding", {"l4 b=3 s=1", "f v=4 e=5"}, 0, {{0}}},
    {"linear", {"f b=2 s=3 k=5", "f n=4 k=5"}, 0, {{0}}},
    {"linear", {"f b=3 s=1 k=6/3", "f n=8/2 k=6/3"}, 0, {{0}}},
    {"linear", {"f b=4 k=3", "f n=5 k=3"}, 0, {{0}}},
    {"linear", {"f b=2 s=2 h=2 d=3", "f n=3 h=2 d=3"}, 0, {{0}}},
    {"linear", {"f b=2 k=3", "f h=2 d=4 k=3"}, 0, {{0}}},
    {"linear_pair", {"f b=2 s=3 k=5", "f n=4 k=5", "f n=4 k=5"}, 2, {{0}}},
    {"linear_pair", {"f b=2 k=6/3", "f n=8/2 k=6/3", "f n=8/2 k=6/3"}, 2, {{0}}},
    {"linear_pair_dw", {"f b=2 s=3 k=5", "f b=2 s=3 n=4", "f b=2 s=3 n=4"}, 2, {{0}}},
    {"linear_pair_dw", {"f b=3 h=2 d=3", "f b=3 n=8/2", "f b=3 n=8/2"}, 2, {{0}}},
    {"linear_each", {"f x=3 b=4 k=5", "f x=3 n=2 k=5"}, 0, {INT("each", 0)}},
    {"linear_each", {"f b=2 s=3 x=2 k=5", "f x=2 n=4 k=5"}, 0, {INT("each", 2)}},
    {"linear_each", {"f b=2 x=3 c=2 k=3", "f x=3 n=4 k=3"}, 0, {INT("each", 1)}},
    {"linear_each", {"f b=2 x=2 h=6/3 d=2", "f x=2 n=4/2 h=6/3 d=2"}, 0, {INT("each", 1)}},
    {"linear_each", {"f b=2 x=1 k=3", "f x=1 m=2 n=3 k=3"}, 0, {INT("each", 1)}},
    {"linear_each", {"f b=3 x=2 k=3", "f x=2 k=3"}, 0, {INT("each", 1)}},
    {"add", {"f b=2 s=3 e=4", "f b=2 s=3 e=4"}, 0, {{0}}},
    {"add", {"f e=5", "f e=5", "f e=5", "f e=5"}, 0, {{0}}},
    {"add", {"f b=3"}, 0, {{0}}},
    {"add_bias", {"f b=2 s=3 f=5", "f f=5"}, 0, {{0}}},
    {"add_bias", {"f b=2 x=2 s=3 f=5", "f f=5"}, 0, {{0}}},
    {"add_bias", {"f f=5", "f f=5"}, 0, {{0}}},
    {"scale", {"f b=2 s=3 e=4", "f"}, 0, {{0}}},
    {"scale", {"f", "f"}, 0, {{0}}},
    {"cast", {"f b=2 e=5"}, 0, {{0}}},
    {"accumulate", {"f n=4 k=3"}, 0, {{0}}},
    {"accumulate_max", {"f n=4 k=3"}, 0, {{0}}},
    {"lowest", {"f n=4 k=3"}, 0, {{0}}},
    {"take", {"f b=3 s=4 e=2", "i4 b=3"}, 0, {{0}}},
    {"cache", {"f b=2 c=5 h=6/3", "f b=2 n=3 h=6/3", "n1 n=3"}, 0, {{0}}},
    {"cache", {"f b=1 c=4 h=2", "f b=1 n=3 h=2", "n2 n=3"}, 0, {{0}}}, /* one place too many */
    {"rms_norm", {"f b=2 s=3 e=5", "f e=5"}, 0, {REAL("eps", 1e-5)}},
    {"rms_norm", {"f b=1 s=4 e=2", "f e=2"}, 0, {REAL("eps", 0.1)}},
    {"head_norm", {"f b=2 s=3 h=6/3", "f d=3"}, 0, {REAL("eps", 1e-5)}},
    {"head_norm", {"f b=1 s=4 h=8/2", "f d=2"}, 0, {REAL("eps", 0.1)}},
    {"layer_norm", {"f b=2 s=3 e=5", "f e=5", "f e=5"}, 0, {REAL("eps", 1e-5)}},
    {"layer_norm", {"f b=3 s=1 e=4", "f e=4", "f e=4"}, 0, {REAL("eps", 0.1)}},
    {"rms_norm", {"f b=2 x=2 s=3 e=5", "f e=5"}, 0, {REAL("eps", 1e-5)}},
    {"add_rms_norm", {"f b=2 s=3 e=5", "f b=2 s=3 e=5", "f e=5"}, 2, {REAL("eps", 1e-5)}},
    {"rms_norm_dx_dw", {"f b=2 s=3 e=5", "f e=5", "f b=2 s=3 e=5"}, 2, {REAL("eps", 1e-5)}},
    {"rms_norm", {"f r=6 e=5", "f e=5"}, 0, {REAL("eps", 1e-5)}},
    {"layer_norm", {"f r=4 e=5", "f e=5", "f e=5"}, 0, {REAL("eps", 1e-5)}},
    {"rope", {"f b=2 x=2 s=3 h=8/4", "f b=2 x=2 s=3 p=4"}, 0, {{0}}},
    {"embedding", {"i7 r=5", "f v=7 e=3"}, 0, {{0}}},
    {"sumexp", {"f r=3 v=4", "f r=3"}, 0, {{0}}},
    {"pick", {"f b=2 x=2 s=3 v=4", "l4 b=2 x=2 s=3"}, 0, {{0}}},
    {"rope", {"f b=2 s=3 h=8/4", "f b=2 s=3 p=4"}, 0, {INT("neighbours", 1)}},
    {"rope", {"f b=1 s=5 h=18/6", "f b=1 s=5 p=4"}, 0, {INT("first", 2)}},
    {"rope", {"f b=1 s=4 h=14/7", "f b=1 s=4 p=4"}, 0, {INT("first", 1), INT("neighbours", 1)}},
    {"head_part", {"f b=2 s=3 h=15/5"}, 0, {INT("first", 1), INT("width", 3), INT("whole", 5)}},
    {"head_part", {"f s=4 h=8/4"}, 0, {INT("first", 2), INT("width", 2), INT("whole", 4)}},
    {"head_place", {"f b=2 s=3 h=6/2"}, 0, {INT("first", 0), INT("width", 2), INT("whole", 3)}},
    {"head_join", {"f b=2 s=3 h=6/2", "f b=2 s=3 r=3"}, 0, {INT("width", 2), INT("whole", 5)}},
    {"angles", {"i50 b=2 s=3"}, 0, {INT("pairs", 3), REAL("theta", 10000), REAL("scale", 1)}},
    {"angles", {"n0 b=1 s=5"}, 0, {INT("pairs", 3), REAL("theta", 100), REAL("scale", 0.5), LAW("llama3"), REAL("factor", 8), REAL("low", 1), REAL("high", 4), REAL("original", 64)}},
    /* multi-head; grouped; cut heads; causality from a permuted index; rows that see nothing; segments; not causal */
    {"attention", {"f b=1 q=4 h=6/2", "f b=1 k=5 h=6/2", "f b=1 k=5 h=6/2", "n1 q=4", "n0 k=5", "i1 b=1 q=4", "i1 b=1 k=5"}, 2, {INT("causal", 1)}},
    {"attention", {"f b=2 q=3 h=8/2", "f b=2 k=3 h=4/2", "f b=2 k=3 h=4/2", "m3 q=3", "m3 k=3", "g b=2 q=3", "g b=2 k=3"}, 2, {{0}}},
    {"attention", {"f b=1 q=4 h=18/3", "f b=1 k=4 h=9/3", "f b=1 k=4 h=9/3", "n0 q=4", "n1 k=4", "i2 b=1 q=4", "i2 b=1 k=4"}, 2, {REAL("scale", 0.3)}},
    {"attention_merge", {"f b=2 s=3 h=6/2", "f b=2 s=3 h=3", "f b=2 s=3 h=6/2", "f b=2 s=3 h=3"}, 2, {{0}}},
    {"attention", {"f b=3 q=2 h=4/1", "f b=3 k=4 h=1/1", "f b=3 k=4 h=1/1", "n0 q=2", "n0 k=4", "i2 b=3 q=2", "i2 b=3 k=4"}, 2, {INT("causal", 0)}},
    {"full_attention", {"f b=1 q=4 h=6/2", "f b=1 k=5 h=6/2", "f b=1 k=5 h=6/2"}, 2, {{0}}},
    {"full_attention", {"f b=2 q=3 h=8/2", "f b=2 k=3 h=4/2", "f b=2 k=3 h=4/2"}, 2, {REAL("scale", 0.3)}},
    {"silu_mul", {"f b=2 s=3 f=4", "f b=2 s=3 f=4"}, 0, {{0}}},
    {"gelu", {"f b=2 s=3 f=4"}, 0, {{0}}},
    {"gelu", {"f f=7"}, 0, {INT("exact", 1)}},
    {"chunk", {"f b=2 s=18 e=3"}, 3, {INT("dim", 1), INT("n", 3)}},
    {"chunk", {"f s=12"}, 2, {INT("dim", 0), INT("n", 2)}},
    {"chunk", {"f b=2 s=4 e=2"}, 1, {INT("dim", 1), INT("n", 1)}},
    {"max_v", {"f b=2 s=3 v=4"}, 0, {{0}}},
    {"sumexp", {"f b=2 s=3 v=4", "f b=2 s=3"}, 0, {{0}}},
    {"pick", {"f b=2 s=3 v=4", "l4 b=2 s=3"}, 0, {{0}}},
    {"pick", {"f b=5 s=1 v=7", "l7 b=5 s=1"}, 0, {{0}}},
    {"nll", {"f b=2 s=5", "p b=2 s=5", "f b=2 s=5", "l3 b=2 s=5"}, 0, {{0}}},
    {"sum", {"f b=2 s=3"}, 0, {{0}}},
    {"sum", {"f"}, 0, {{0}}},
    {"count_valid", {"l2 m=2 b=3 s=4"}, 0, {{0}}},
    {"reciprocal", {"p"}, 0, {{0}}},
    {"sumsq", {"f b=2 s=3 e=5"}, 0, {{0}}},
    {"sumsq", {"f"}, 0, {{0}}},
    {"sqrt", {"p"}, 0, {{0}}},
    {"clip", {"p"}, 0, {REAL("max_norm", 0.3)}},
};
/* clang-format on */

enum { N_CASES = sizeof(cases) / sizeof(cases[0]) };

/* Calls visit for the use of every case and for every node of its gradient. */
static void each_use(void (*visit)(const opcheck_use *u, weft_pool *pool, void *ctx), void *ctx)
{
    opcheck_use *u = weft_alloc_zero(1, sizeof(*u));
    opcheck_grad *grads = weft_alloc_zero(OPCHECK_INS, sizeof(*grads));
    assert_non_null(u);
    assert_non_null(grads);
    for (int c = 0; c < N_CASES; c++) {
        weft_pool pool = {0};
        weft_tensor dys[OPCHECK_OUTS];
        opcheck_make(u, &cases[c], 3, &pool);
        visit(u, &pool, ctx);
        for (int r = 0; r < u->n_outs; r++)
            dys[r] = opcheck_random(&u->outs[r], 5, (uint64_t)r, &pool);
        for (const char *const *text = u->op->grad; text && *text; text++) {
            int n = opcheck_statement(u, *text, dys, grads, &pool);
            for (int k = 0; k < n; k++)
                if (!grads[k].passed_on)
                    visit(&grads[k].use, &pool, ctx);
        }
        weft_pool_release(&pool);
    }
    weft_free(grads);
    weft_free(u);
}

static void gradients_are_derivatives(void **state)
{
    (void)state;
    for (int c = 0; c < N_CASES; c++) {
        weft_pool pool = {0};
        if (opcheck_find(cases[c].op)->grad)
            opcheck_differences(&cases[c], &pool);
        weft_pool_release(&pool);
    }
}

static void visit_shards(const opcheck_use *u, weft_pool *pool, void *ctx)
{
    *(int *)ctx += opcheck_shards(u, pool);
}

static void shards_make_the_whole(void **state)
{
    int ways = 0;
    (void)state;
    each_use(visit_shards, &ways);
    assert_true(ways > 400);
}

static void check_sum(const opcheck_use *u, int r, const weft_tensor *before,
                      const weft_tensor *after)
{
    const unsigned maximum = WEFT_OP_ACCUMULATES | WEFT_OP_MAX;
    for (int64_t i = 0; i < weft_tensor_count(before); i++) {
        double a = weft_tensor_get(before, i), b = weft_tensor_get(&u->outs[r], i);
        weft_tensor_set(before, i, (u->op->flags & maximum) != maximum ? a + b : a > b ? a : b);
    }
    opcheck_same(before, after, 1e-12, "accumulated", u->op->name);
}

static void visit_accumulate(const opcheck_use *u, weft_pool *pool, void *ctx)
{
    opcheck_use *again = weft_pool_alloc(pool, sizeof(*again));
    weft_tensor before[OPCHECK_OUTS];
    (void)ctx;
    assert_non_null(again);
    *again = *u;
    for (int r = 0; r < u->n_outs; r++) {
        again->outs[r] = opcheck_random(&u->outs[r], 31, (uint64_t)r, pool);
        before[r] = opcheck_copy(&again->outs[r], pool);
    }
    opcheck_run(again, true);
    for (int r = 0; r < u->n_outs; r++)
        if (r == 0 || u->op->flags & WEFT_OP_PAIR)
            check_sum(u, r, &before[r], &again->outs[r]);
        else
            opcheck_same(&u->outs[r], &again->outs[r], 1e-12, "not accumulated", u->op->name);
}

static void all_ops_accumulate(void **state)
{
    (void)state;
    each_use(visit_accumulate, NULL);
}

/* Operands in `from`, results in `to`: as in f64 on the same (rounded) operands, to one rounding.
 */
static void check_dtypes(const opcheck_use *u, weft_dtype from, weft_dtype to, weft_pool *pool)
{
    opcheck_use *exact = weft_pool_alloc(pool, sizeof(*exact)),
                *mixed = weft_pool_alloc(pool, sizeof(*mixed));
    assert_non_null(exact);
    assert_non_null(mixed);
    *exact = *mixed = *u;
    for (int i = 0; i < u->n_ins; i++) {
        mixed->ins[i] = opcheck_cast(&u->ins[i], from, pool);
        exact->ins[i] = opcheck_cast(&mixed->ins[i], WEFT_F64, pool);
    }
    for (int r = 0; r < u->n_outs; r++) {
        exact->outs[r] = opcheck_new(&u->outs[r], pool);
        mixed->outs[r] = opcheck_cast(&u->outs[r], to, pool);
    }
    opcheck_run(exact, false);
    opcheck_run(mixed, false);
    for (int r = 0; r < u->n_outs; r++)
        opcheck_same(&exact->outs[r], &mixed->outs[r], to == WEFT_BF16 ? 1.0 / 256 : 1e-7,
                     "mixed dtypes", u->op->name);
}

static void visit_dtypes(const opcheck_use *u, weft_pool *pool, void *ctx)
{
    (void)ctx;
    check_dtypes(u, WEFT_F32, WEFT_F32, pool);
    check_dtypes(u, WEFT_BF16, WEFT_BF16, pool);
    check_dtypes(u, WEFT_BF16, WEFT_F32, pool);
    check_dtypes(u, WEFT_F32, WEFT_BF16, pool);
}

static void all_ops_take_all_dtypes(void **state)
{
    (void)state;
    each_use(visit_dtypes, NULL);
}

/* Results lie where operands lay, as the flag allows. */
static void visit_in_place(const opcheck_use *u, weft_pool *pool, void *ctx)
{
    opcheck_use *over = weft_pool_alloc(pool, sizeof(*over));
    assert_non_null(over);
    if (!(u->op->flags & WEFT_OP_INPLACE))
        return;
    *over = *u;
    for (int i = 0; i < u->n_ins && i < u->n_outs; i++) {
        assert_int_equal(u->ins[i].dtype, u->outs[i].dtype);
        assert_int_equal(weft_tensor_count(&u->ins[i]), weft_tensor_count(&u->outs[i]));
        over->ins[i] = opcheck_copy(&u->ins[i], pool);
        over->outs[i].data = over->ins[i].data;
    }
    opcheck_run(over, false);
    for (int r = 0; r < u->n_outs; r++)
        opcheck_same(&u->outs[r], &over->outs[r], 0.0, "in place", u->op->name);
    ++*(int *)ctx;
}

static void in_place_changes_nothing(void **state)
{
    int tried = 0;
    (void)state;
    each_use(visit_in_place, &tried);
    assert_true(tried >= 10);
}

static void visit_name(const opcheck_use *u, weft_pool *pool, void *ctx)
{
    bool *seen = ctx;
    const weft_op *const *ops = standard_ops();
    (void)pool;
    for (int i = 0; ops[i]; i++)
        seen[i] = seen[i] || ops[i] == u->op;
}

static void every_op_is_tried(void **state)
{
    bool seen[128] = {false};
    const weft_op *const *ops = standard_ops();
    (void)state;
    each_use(visit_name, seen);
    for (int i = 0; ops[i]; i++) {
        assert_non_null(ops[i]->summary);
        assert_true(ops[i]->rule || ops[i]->make_rule);
        if (ops[i]->flags & (WEFT_OP_SOURCE | WEFT_OP_FETCH | WEFT_OP_EVICT) ||
            ops[i] == standard_op("redistribute") || ops[i] == standard_op("gather"))
            assert_null(ops[i]->plain);
        else if (!seen[i])
            fail_msg("no case tries %s", ops[i]->name);
    }
}

/* ---- the numbers that matter most ---- */

typedef struct fixture {
    weft_pool pool;
    opcheck_use use;
} fixture;

static fixture *start(const opcheck_case *c)
{
    fixture *f = weft_alloc_zero(1, sizeof(*f));
    assert_non_null(f);
    opcheck_make(&f->use, c, 1, &f->pool);
    return f;
}

static void finish(fixture *f)
{
    weft_pool_release(&f->pool);
    weft_free(f);
}

static void set_all(weft_tensor *t, const double *x)
{
    for (int64_t i = 0; i < weft_tensor_count(t); i++)
        weft_tensor_set(t, i, x[i]);
}

static void attention_is_safe(void **state)
{
    static const opcheck_case c = {"attention",
                                   {"f b=1 q=2 h=1/1", "f b=1 k=2 h=1/1", "f b=1 k=2 h=1/1",
                                    "n0 q=2", "n1 k=2", "i1 b=1 q=2", "i1 b=1 k=2"},
                                   2,
                                   {{0}}};
    fixture *f = start(&c);
    (void)state;
    set_all(&f->use.ins[0], (const double[]){3.0, 1e6});
    set_all(&f->use.ins[1], (const double[]){2.0, 1e9});
    opcheck_run(&f->use, false);
    /* query 0 comes before both keys; query 1 sees key 0 only, with a score that exp cannot hold */
    assert_true(weft_tensor_get(&f->use.outs[0], 0) == 0.0);
    assert_true(weft_tensor_get(&f->use.outs[1], 0) == -INFINITY);
    assert_true(weft_tensor_get(&f->use.outs[0], 1) == weft_tensor_get(&f->use.ins[2], 0));
    assert_true(weft_tensor_get(&f->use.outs[1], 1) == 2e6);
    finish(f);
}

/* What pair i of `angles` at position 1 is to be turned by, times scale. */
static void turns_by(const opcheck_case *c, int pairs, const double *angle, double scale)
{
    fixture *f = start(c);
    opcheck_run(&f->use, false);
    for (int i = 0; i < pairs; i++) {
        assert_true(fabs(weft_tensor_get(&f->use.outs[0], i) - scale * cos(angle[i])) < 1e-14);
        assert_true(fabs(weft_tensor_get(&f->use.outs[0], i + pairs) - scale * sin(angle[i])) <
                    1e-14);
    }
    finish(f);
}

/* Frequency by frequency, long waves slowed by 8, short ones kept. */
static void angles_are_llama3s(void **state)
{
    static const opcheck_case c = {"angles",
                                   {"n1 b=1 s=1"},
                                   0,
                                   {INT("pairs", 3), REAL("theta", 500000), REAL("scale", 1),
                                    LAW("llama3"), REAL("factor", 8), REAL("low", 1),
                                    REAL("high", 4), REAL("original", 8192)}};
    const double angle[3] = {1.0, 1.0 / cbrt(500000.0), /* wave of 499 positions: kept */
                             1.0 / cbrt(2.5e11) / 8.0}; /* of 39582, beyond 8192: slowed */
    (void)state;
    turns_by(&c, 3, angle, 1);
}

static void angles_blend_between(void **state)
{
    /* one frequency, 1: with original = 2 pi * 2.5 it turns 2.5 times, half way between low 1 and
     * high 4 */
    static const opcheck_case c = {"angles",
                                   {"n1 b=1 s=1"},
                                   0,
                                   {INT("pairs", 1), REAL("theta", 10000), REAL("scale", 1),
                                    LAW("llama3"), REAL("factor", 8), REAL("low", 1),
                                    REAL("high", 4), REAL("original", 15.707963267948966)}};
    const double angle[1] = {0.5 + 0.5 / 8};
    (void)state;
    turns_by(&c, 1, angle, 1);
}

/* DeepSeek-V3's: pair 10 is the last that turns 32 times in 4096 positions, pair 23 the first that
 * turns less than once: pairs up to 10 are kept, from 23 on slowed by 40, between in a line. */
static void angles_are_yarns(void **state)
{
    static const opcheck_case c = {"angles",
                                   {"n1 b=1 s=1"},
                                   0,
                                   {INT("pairs", 32), REAL("theta", 10000), REAL("scale", 1.5),
                                    LAW("yarn"), REAL("factor", 40), REAL("low", 1),
                                    REAL("high", 32), REAL("original", 4096)}};
    double angle[32];
    (void)state;
    for (int i = 0; i < 32; i++) {
        const double kept = i <= 10 ? 1 : i >= 23 ? 0 : (23 - i) / 13.0;
        angle[i] = pow(10000, -i / 32.0) * (kept + (1 - kept) / 40);
    }
    turns_by(&c, 32, angle, 1.5);
}

/* Elements 1 to 4 turn, by a quarter and by half a turn. */
static void rope_turns_what_it_is_told(void **state)
{
    static const opcheck_case c[] = {
        {"rope", {"f b=1 s=1 h=6/6", "f b=1 s=1 p=4"}, 0, {INT("first", 1)}},
        {"rope", {"f b=1 s=1 h=6/6", "f b=1 s=1 p=4"}, 0, {INT("first", 1), INT("neighbours", 1)}}};
    static const double x[] = {9, 1, 2, 3, 4, 8}, turn[] = {0, -1, 1, 0},
                        y[2][6] = {{9, -3, -2, 1, -4, 8}, {9, -2, 1, -3, -4, 8}};
    (void)state;
    for (int k = 0; k < 2; k++) {
        fixture *f = start(&c[k]);
        set_all(&f->use.ins[0], x);
        set_all(&f->use.ins[1], turn);
        opcheck_run(&f->use, false);
        for (int i = 0; i < 6; i++)
            assert_true(weft_tensor_get(&f->use.outs[0], i) == y[k][i]);
        finish(f);
    }
}

/* A head of 2, 4 and 4 elements by three axes, at 3, 5 and 2: what PyTorch makes of 1 to 10 as
 * diffusers turns FLUX's heads, with one table of all axes. */
static void parts_of_heads_turn_by_axes_of_their_own(void **state)
{
    static const opcheck_case angles[] =
        {{"angles", {"n0 b=1 s=1"}, 0, {INT("pairs", 1), REAL("theta", 10000), REAL("scale", 1)}},
         {"angles", {"n0 b=1 s=1"}, 0, {INT("pairs", 2), REAL("theta", 10000), REAL("scale", 1)}}},
                              rope[] = {{"rope",
                                         {"f b=1 s=1 h=10/10", "f b=1 s=1 p=2"},
                                         0,
                                         {INT("neighbours", 1)}},
                                        {"rope",
                                         {"f b=1 s=1 h=10/10", "f b=1 s=1 p=4"},
                                         0,
                                         {INT("first", 2), INT("neighbours", 1)}},
                                        {"rope",
                                         {"f b=1 s=1 h=10/10", "f b=1 s=1 p=4"},
                                         0,
                                         {INT("first", 6), INT("neighbours", 1)}}};
    static const double x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, at[] = {3, 5, 2},
                        y[] = {-1.27223251272018,   -1.8388649851410237, 4.686683655042232,
                               -1.7421240821365103, 4.693876286350761,   6.242397408723189,
                               -10.18740727043545,  3.0359072954026325,  8.798213393065868,
                               10.177988066905776};
    fixture *a[3], *r[3];
    (void)state;
    for (int k = 0; k < 3; k++) {
        a[k] = start(&angles[k > 0]);
        r[k] = start(&rope[k]);
        set_all(&a[k]->use.ins[0], &at[k]);
        opcheck_run(&a[k]->use, false);
        if (k == 0)
            set_all(&r[k]->use.ins[0], x);
        else
            r[k]->use.ins[0] = r[k - 1]->use.outs[0];
        r[k]->use.ins[1] = a[k]->use.outs[0];
        opcheck_run(&r[k]->use, false);
    }
    for (int i = 0; i < 10; i++)
        assert_true(fabs(weft_tensor_get(&r[2]->use.outs[0], i) - y[i]) < 1e-12);
    for (int k = 0; k < 3; k++) {
        finish(a[k]);
        finish(r[k]);
    }
}

static void cross_entropy_adds_up(void **state)
{
    static const opcheck_case c[] = {
        {"max_v", {"f b=1 s=2 v=3"}, 0, {{0}}},
        {"sumexp", {"f b=1 s=2 v=3", "f b=1 s=2"}, 0, {{0}}},
        {"pick", {"f b=1 s=2 v=3", "l3 b=1 s=2"}, 0, {{0}}},
        {"nll", {"f b=1 s=2", "f b=1 s=2", "f b=1 s=2", "l3 b=1 s=2"}, 0, {{0}}}};
    static const double logits[] = {1000.0, 1001.0, 1002.0, -5.0, 5.0, 0.0}, labels[] = {1, -1};
    fixture *max = start(&c[0]), *sum = start(&c[1]), *pick = start(&c[2]), *nll = start(&c[3]);
    (void)state;
    set_all(&max->use.ins[0], logits);
    set_all(&pick->use.ins[1], labels);
    opcheck_run(&max->use, false);
    sum->use.ins[0] = pick->use.ins[0] = max->use.ins[0];
    sum->use.ins[1] = max->use.outs[0];
    opcheck_run(&sum->use, false);
    opcheck_run(&pick->use, false);
    nll->use.ins[0] = max->use.outs[0];
    nll->use.ins[1] = sum->use.outs[0];
    nll->use.ins[2] = pick->use.outs[0];
    nll->use.ins[3] = pick->use.ins[1];
    opcheck_run(&nll->use, false);
    assert_true(fabs(weft_tensor_get(&nll->use.outs[0], 0) - log(exp(-1.0) + 1.0 + exp(1.0))) <
                1e-12);
    assert_true(weft_tensor_get(&nll->use.outs[0], 1) == 0.0);
    finish(max);
    finish(sum);
    finish(pick);
    finish(nll);
}

static void small_numbers(void **state)
{
    static const opcheck_case one = {"reciprocal", {"f"}, 0, {{0}}},
                              exact = {"gelu", {"f e=2"}, 0, {INT("exact", 1)}};
    fixture *f = start(&one);
    (void)state;
    set_all(&f->use.ins[0], (const double[]){0.0});
    opcheck_run(&f->use, false);
    assert_true(weft_tensor_get(&f->use.outs[0], 0) == 1.0);
    set_all(&f->use.ins[0], (const double[]){4.0});
    opcheck_run(&f->use, false);
    assert_true(weft_tensor_get(&f->use.outs[0], 0) == 0.25);
    finish(f);
    f = start(&exact);
    set_all(&f->use.ins[0], (const double[]){1.0, -40.0});
    opcheck_run(&f->use, false);
    assert_true(fabs(weft_tensor_get(&f->use.outs[0], 0) - 0.84134474606854293) < 1e-15);
    assert_true(fabs(weft_tensor_get(&f->use.outs[0], 1)) < 1e-300);
    finish(f);
}

static void chunks_take_every_nth_place(void **state)
{
    static const opcheck_case c = {"chunk", {"n0 s=6"}, 3, {INT("dim", 0), INT("n", 3)}};
    fixture *f = start(&c);
    (void)state;
    for (int part = 0; part < 3; part++) {
        assert_int_equal(f->use.outs[part].size[0], 2);
        assert_int_equal((int)weft_tensor_get(&f->use.outs[part], 0), part);
        assert_int_equal((int)weft_tensor_get(&f->use.outs[part], 1), part + 3);
    }
    finish(f);
}

static void bf16_rounds_once(void **state)
{
    uint16_t bits = 0;
    weft_tensor t = {.data = &bits, .dtype = WEFT_BF16};
    (void)state;
    weft_tensor_set(&t, 0, 1.0 + 1.0 / 256); /* a tie: to even */
    assert_true(weft_tensor_get(&t, 0) == 1.0);
    weft_tensor_set(&t, 0, 1.0 + 1.0 / 256 + 0x1p-40); /* just above it, but not in f32 */
    assert_true(weft_tensor_get(&t, 0) == 1.0 + 1.0 / 128);
    weft_tensor_set(&t, 0, -(1.0 + 3.0 / 256 - 0x1p-40));
    assert_true(weft_tensor_get(&t, 0) == -(1.0 + 1.0 / 128));
    weft_tensor_set(&t, 0, NAN);
    assert_true(isnan(weft_tensor_get(&t, 0)));
    weft_tensor_set(&t, 0, -INFINITY);
    assert_true(weft_tensor_get(&t, 0) == -INFINITY);
}

/* ---- refusals ---- */

static void refused(const opcheck_case *c, const char *text)
{
    fixture *f = weft_alloc_zero(1, sizeof(*f));
    weft_error err = {0};
    assert_non_null(f);
    for (int i = 0; c->ins[i]; i++) { /* operands one by one: add would not take them together */
        opcheck_use *one = weft_pool_alloc(&f->pool, sizeof(*one));
        opcheck_case single = {.op = "add", .ins = {c->ins[i]}};
        assert_non_null(one);
        opcheck_make(one, &single, 1, &f->pool);
        f->use.ins[i] = one->ins[0];
        memcpy(f->use.in_dims[i], one->in_dims[0], sizeof(one->in_dims[0]));
        f->use.n_ins++;
    }
    f->use.op = opcheck_find(c->op);
    f->use.n_outs = c->n_outs ? c->n_outs : 1;
    f->use.attrs = c->attrs;
    while (c->attrs[f->use.n_attrs].key)
        f->use.n_attrs++;
    assert_int_not_equal(opcheck_infer(&f->use, &f->pool, &err), WEFT_OK);
    if (!strstr(weft_error_text(&err), text))
        fail_msg("\"%s\" does not say \"%s\"", weft_error_text(&err), text);
    weft_error_release(&err);
    finish(f);
}

static void nonsense_is_refused(void **state)
{
    static const opcheck_case c[] = {
        {"linear", {"f b=2 k=3", "f n=3 m=3"}, 0, {{0}}},
        {"linear", {"f b=2 k=3", "f n=3 k=4"}, 0, {{0}}},
        {"linear", {"f k=3 b=2", "f n=3 k=3"}, 0, {{0}}},
        {"linear", {"f b=2 b=2 k=3", "f n=3 k=3"}, 0, {{0}}},
        {"chunk", {"f b=2 s=7"}, 3, {INT("dim", 1), INT("n", 3)}},
        {"chunk", {"f b=2 s=6"}, 3, {INT("dim", 2), INT("n", 3)}},
        {"chunk", {"f b=2 s=6"}, 3, {INT("dim", 1), INT("n", 2)}},
        {"rope", {"f b=1 s=2 h=6/3", "f b=1 s=2 p=4"}, 0, {{0}}},
        {"attention",
         {"f b=1 q=2 h=8/2", "f b=1 k=2 h=6/2", "f b=1 k=2 h=6/2", "n0 q=2", "n0 k=2", "i1 b=1 q=2",
          "i1 b=1 k=2"},
         2,
         {{0}}},
        {"head_part", {"f b=2 h=6/3"}, 0, {INT("first", 2), INT("width", 2), INT("whole", 3)}},
        {"head_part", {"f b=2 h=6/3"}, 0, {INT("width", 2), INT("whole", 4)}},
        {"head_join", {"f b=2 h=6/3", "f b=2 r=3"}, 0, {INT("width", 3), INT("whole", 5)}},
        {"cast", {"f e=2"}, 0, {{.key = "dtype", .kind = WEFT_ATTR_TEXT, .text = "f8"}}},
        {"rms_norm", {"f b=2 e=3", "f b=2 e=3"}, 0, {{0}}},
        {"linear_each", {"f x=2 b=2 k=3", "f x=2 n=3 k=3"}, 0, {{0}}},
        {"linear_each", {"f b=2 x=2 k=3", "f x=2 n=3 k=3"}, 0, {INT("each", 3)}},
        {"linear_each", {"f b=2 x=2 k=3", "f n=3 x=2 k=3"}, 0, {INT("each", 1)}},
        {"linear_each", {"f b=2 k=3 x=2", "f x=2 n=3 k=3"}, 0, {INT("each", 2)}},
        {"linear_each", {"f b=2 x=2 k=3", "f x=2 n=3 m=3"}, 0, {INT("each", 1)}},
        {"linear_each", {"f b=2 x=2 k=3", "f x=2 k=3 n=3"}, 0, {INT("each", 1)}},
        {"linear_each", {"f b=2 x=2 k=3", "f x=3 n=3 k=3"}, 0, {INT("each", 1)}},
        {"linear_each", {"f b=2 x=2 k=3", "f x=2 n=3 k=4"}, 0, {INT("each", 1)}},
        {"linear_each_dx", {"f b=2 x=2 n=3", "f x=2 k=3 n=3"}, 0, {INT("each", 1)}},
        {"linear_each_dw", {"f b=2 x=2 n=3", "f x=2 b=2 k=3"}, 0, {INT("each", 1)}},
        {"linear_each_dw", {"f b=2 x=2 n=3", "f k=2 x=2 b=2"}, 0, {INT("each", 1)}},
    };
    (void)state;
    refused(&c[0], "no dim name in common");
    refused(&c[1], "two sizes");
    refused(&c[2], "last of both");
    refused(&c[3], "occurs twice");
    refused(&c[4], "cannot be cut into 3 equal parts");
    refused(&c[5], "no dim 2");
    refused(&c[6], "n = 2, but there are 3 parts");
    refused(&c[7], "heads of 3 elements, of which 4 from 0 on are to turn");
    refused(&c[8], "multiple of the kv heads");
    refused(&c[9], "2 elements from 2 on of heads of 3");
    refused(&c[10], "but its heads have 3");
    refused(&c[11], "2 elements stand behind those of each head, but");
    refused(&c[12], "no dtype is called \"f8\"");
    refused(&c[13], "operand 1 has 2 dims, not 1");
    refused(&c[14], "attribute `each` names no dim of the first");
    refused(&c[15], "attribute `each` names no dim of the first");
    refused(&c[16], "must be the first of the weight");
    refused(&c[17], "must stand before those that are contracted");
    refused(&c[18], "no dim name in common but the one that is kept");
    refused(&c[19], "must be the last of both");
    refused(&c[20], "two sizes");
    refused(&c[21], "two sizes");
    refused(&c[22], "must stand together, in the same order");
    refused(&c[23], "must stand at one place in both");
    refused(&c[24], "must stand together, in the same order");
}

static void shards_that_do_not_divide_are_refused(void **state)
{
    static const opcheck_case c = {"chunk", {"f s=6"}, 3, {INT("dim", 0), INT("n", 3)}};
    fixture *f = start(&c);
    weft_error err = {0};
    (void)state;
    f->use.ins[0] = opcheck_slice(&f->use.ins[0], 0, 2, 4, &f->pool);
    weft_call call = {.op = f->use.op,
                      .attrs = f->use.attrs,
                      .n_attrs = f->use.n_attrs,
                      .n_ins = 1,
                      .n_outs = 3,
                      .ins = f->use.ins,
                      .outs = f->use.outs};
    assert_int_equal(f->use.op->plain(&call, &err), WEFT_ERR_INTERNAL);
    assert_non_null(strstr(weft_error_text(&err), "cannot be cut into 3 equal parts"));
    weft_error_release(&err);
    finish(f);
}

/* Kernels that need a row of memory say so when there is none. */
static void visit_memory(const opcheck_use *u, weft_pool *pool, void *ctx)
{
    weft_error err = {0};
    weft_call call = {.op = u->op,
                      .attrs = u->attrs,
                      .n_attrs = u->n_attrs,
                      .n_ins = u->n_ins,
                      .n_outs = u->n_outs,
                      .ins = u->ins,
                      .outs = u->outs};
    long needed;
    (void)pool;
    weft_alloc_fail_at(0);
    assert_int_equal(u->op->plain(&call, NULL), WEFT_OK);
    needed = weft_alloc_count();
    assert_true(needed <= 1);
    weft_alloc_fail_at(1);
    assert_int_equal(u->op->plain(&call, needed ? NULL : &err), needed ? WEFT_ERR_MEMORY : WEFT_OK);
    weft_alloc_fail_at(0);
    *(long *)ctx += needed;
    weft_error_release(&err);
}

static void out_of_memory_is_an_error(void **state)
{
    long needed = 0;
    (void)state;
    each_use(visit_memory, &needed);
    assert_true(needed > 0);
}

static void flops_count_products(void **state)
{
    static const opcheck_case c[] = {
        {"linear", {"f b=2 s=3 k=5", "f n=4 k=5"}, 0, {{0}}},
        {"attention",
         {"f b=2 q=3 h=8/2", "f b=2 k=5 h=4/2", "f b=2 k=5 h=4/2", "n0 q=3", "n0 k=5", "g b=2 q=3",
          "g b=2 k=5"},
         2,
         {{0}}},
        {"linear_each", {"f b=2 x=3 c=2 k=5", "f x=3 n=4 k=5"}, 0, {INT("each", 1)}},
    };
    static const double want[] = {2.0 * 6 * 5 * 4, 4.0 * 2 * 3 * 5 * 8, 2.0 * 12 * 5 * 4},
                        back[] = {2.0 * 6 * 5 * 4, 10.0 * 2 * 3 * 5 * 8, 2.0 * 12 * 5 * 4};
    opcheck_grad *g = weft_alloc_zero(OPCHECK_INS, sizeof(*g));
    (void)state;
    assert_non_null(g);
    for (int k = 0; k < 3; k++) {
        fixture *f = start(&c[k]);
        weft_call call = {.op = f->use.op,
                          .attrs = f->use.attrs,
                          .n_attrs = f->use.n_attrs,
                          .n_ins = f->use.n_ins,
                          .n_outs = f->use.n_outs,
                          .ins = f->use.ins,
                          .outs = f->use.outs};
        assert_true(f->use.op->flops(&call) == want[k]);
        for (const char *const *text = f->use.op->grad; *text; text++) {
            opcheck_statement(&f->use, *text, f->use.outs, g, &f->pool);
            call = (weft_call){.op = g->use.op,
                               .attrs = g->use.attrs,
                               .n_attrs = g->use.n_attrs,
                               .n_ins = g->use.n_ins,
                               .n_outs = g->use.n_outs,
                               .ins = g->use.ins,
                               .outs = g->use.outs};
            assert_true(g->use.op->flops(&call) == back[k]);
        }
        finish(f);
    }
    weft_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_derivatives),
        cmocka_unit_test(shards_make_the_whole),
        cmocka_unit_test(all_ops_accumulate),
        cmocka_unit_test(all_ops_take_all_dtypes),
        cmocka_unit_test(in_place_changes_nothing),
        cmocka_unit_test(every_op_is_tried),
        cmocka_unit_test(attention_is_safe),
        cmocka_unit_test(angles_are_llama3s),
        cmocka_unit_test(angles_blend_between),
        cmocka_unit_test(angles_are_yarns),
        cmocka_unit_test(rope_turns_what_it_is_told),
        cmocka_unit_test(parts_of_heads_turn_by_axes_of_their_own),
        cmocka_unit_test(cross_entropy_adds_up),
        cmocka_unit_test(small_numbers),
        cmocka_unit_test(chunks_take_every_nth_place),
        cmocka_unit_test(bf16_rounds_once),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(shards_that_do_not_divide_are_refused),
        cmocka_unit_test(out_of_memory_is_an_error),
        cmocka_unit_test(flops_count_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
