/* SPDX-License-Identifier: Apache-2.0 */
/* The device cpu's kernels of experts beside the plain ones: counts from none to all rows for one
 * expert, several groups, f32 and bf16, added or not, and the same bits with any number of threads
 * and whoever else is in the buffer. */
#include "../moe.h"
#include "cpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <weft/random.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { BATCHES = 2, OWNERS = 2, EXPERTS = 4, SLOTS = 300, IN = 37, OUT = 70 };

static weft_tensor make(weft_dtype dtype, int n, const int64_t *size, uint64_t seed)
{
    weft_tensor t = {.dtype = dtype, .n_dims = n};
    for (int d = 0; d < n; d++)
        t.size[d] = t.whole[d] = size[d], t.grain[d] = 1;
    const size_t bytes = (size_t)weft_tensor_count(&t) * weft_dtype_size(dtype);
    t.data = weft_alloc_aligned(64, bytes + 64);
    assert_non_null(t.data);
    memset(t.data, 0, bytes);
    for (int64_t i = 0; seed && i < weft_tensor_count(&t); i++)
        weft_tensor_set(&t, i, 2 * weft_random_uniform(seed, 1, (uint64_t)i) - 1);
    return t;
}

static weft_tensor copy(const weft_tensor *t)
{
    weft_tensor c = make(t->dtype, t->n_dims, t->size, 0);
    memcpy(c.data, t->data, (size_t)weft_tensor_count(t) * weft_dtype_size(t->dtype));
    return c;
}

static const weft_kernel *kernel_of(const weft_call *call)
{
    const weft_kernel *const tables[] = {cpu_kernels, moe_kernels};
    for (int i = 0; i < 2; i++)
        for (const weft_kernel *k = tables[i]; k->op; k++)
            if (strcmp(k->op, call->op->name) == 0 && weft_kernel_accepts(k, call))
                return k;
    fail_msg("%s: no kernel", call->op->name);
    return NULL;
}

/* How bf16 is multiplied: as f32, by dot products, by AMX. */
enum { WAYS = 3 };

static bool has_way(int way)
{
    return way == 0 || (way == 1 ? cpu_has_bf16_dots() : cpu_may_use_amx());
}

static void launch(weft_call call, int threads, int way)
{
    weft_error err = {0};
    weft_queue queue = {.threads = threads,
                        .products = way ? CPU_PRODUCTS_BF16 : CPU_PRODUCTS_F32,
                        .amx = way == 2,
                        .grain = 1};
    const weft_kernel *k = kernel_of(&call);
    call.queue = &queue, call.threads = threads;
    call.workspace_bytes = k->workspace ? k->workspace(&call) : 0;
    call.workspace = weft_alloc_aligned(64, call.workspace_bytes + 64);
    memset(call.workspace, 0xff, call.workspace_bytes); /* NaN: nothing of it may be seen */
    if (k->launch(&call, &err))
        fail_msg("%s", weft_error_text(&err));
    if (call.workspace_bytes > 0) {
        call.workspace_bytes--;
        assert_int_equal(k->launch(&call, &err), WEFT_ERR_INTERNAL);
        weft_error_release(&err);
    }
    weft_free_aligned(call.workspace);
}

static double largest(const weft_tensor *t)
{
    double most = 0;
    for (int64_t i = 0; i < weft_tensor_count(t); i++)
        most = fmax(most, fabs(weft_tensor_get(t, i)));
    return most;
}

/* outs: the results as they were. */
static void check_way(int way, weft_call call, const weft_tensor *outs, double tolerance)
{
    weft_error err = {0};
    weft_tensor plain = copy(outs), first = copy(outs);
    call.outs = &plain;
    if (call.op->plain(&call, &err))
        fail_msg("%s", weft_error_text(&err));
    call.outs = &first;
    launch(call, 1, way);
    const double bound = tolerance * fmax(1, largest(&plain));
    for (int64_t i = 0; i < weft_tensor_count(&plain); i++)
        if (!(fabs(weft_tensor_get(&first, i) - weft_tensor_get(&plain, i)) <= bound))
            fail_msg("%s: element %lld is %g, not %g", call.op->name, (long long)i,
                     weft_tensor_get(&first, i), weft_tensor_get(&plain, i));
    for (int threads = 2; threads < 5; threads++) {
        weft_tensor again = copy(outs);
        call.outs = &again;
        launch(call, threads, way);
        assert_memory_equal(again.data, first.data,
                            (size_t)weft_tensor_count(&first) * weft_dtype_size(first.dtype));
        weft_free_aligned(again.data);
    }
    weft_free_aligned(plain.data);
    weft_free_aligned(first.data);
}

static void check(weft_call call, const weft_tensor *outs, double tolerance)
{
    for (int way = 0; way < (call.ins[0].dtype == WEFT_BF16 ? WAYS : 1); way++)
        if (has_way(way))
            check_way(way, call, outs, tolerance);
}

/* ---- grouped products ---- */

static const int32_t loads[][BATCHES * EXPERTS] = {
    {70, 80, 75, 75, 10, 20, 30, 40}, /* uneven */
    {0, 0, 0, 0, 0, 0, 0, 0},         /* none */
    {300, 0, 0, 0, 0, 300, 0, 0},     /* all for one, and the buffer is full */
    {1, 0, 299, 1, 145, 0, 144, 143}, /* edges of tiles */
};

/* Rows behind those that are used are zeros, as dispatch makes them. */
static weft_tensor rows_of(weft_dtype dtype, int64_t width, const int32_t *load, uint64_t seed)
{
    const int64_t each = EXPERTS / OWNERS;
    weft_tensor t = make(dtype, 5, (int64_t[]){BATCHES, 1, OWNERS, SLOTS, width}, seed);
    for (int64_t i = 0; i < (int64_t)BATCHES * OWNERS * SLOTS; i++) {
        int64_t used = 0;
        for (int64_t x = 0; x < each; x++)
            used += load[i / SLOTS * each + x];
        for (int64_t e = 0; i % SLOTS >= used && e < width; e++)
            weft_tensor_set(&t, i * width + e, 0);
    }
    return t;
}

static void check_product(const weft_op *op, weft_dtype dtype, weft_dtype result,
                          const int32_t *load, bool add)
{
    const bool dw = op == &moe_grouped_dw, dx = op == &moe_grouped_dx;
    const int64_t w[] = {EXPERTS, OUT, IN}, counts[] = {BATCHES, 1, EXPERTS};
    weft_tensor ins[3] = {rows_of(dtype, dw || dx ? OUT : IN, load, 1),
                          dw ? rows_of(dtype, IN, load, 2) : make(dtype, 3, w, 2),
                          make(WEFT_I32, 3, counts, 0)};
    const int64_t slots[] = {BATCHES, 1, OWNERS, SLOTS, dx ? IN : OUT};
    /* what is not added to has something everywhere, behind the rows, too */
    weft_tensor out = dw    ? make(result, 3, w, 3)
                      : add ? rows_of(result, dx ? IN : OUT, load, 3)
                            : make(result, 5, slots, 3);
    const weft_attr rows = {.key = "rows", .kind = WEFT_ATTR_INT, .i = 1 << 20};
    memcpy(ins[2].data, load, sizeof *loads);
    const weft_call call = {.op = op,
                            .attrs = &rows,
                            .n_attrs = 1,
                            .n_ins = 3,
                            .n_outs = 1,
                            .ins = ins,
                            .accumulate = add};
    check(call, &out, result == WEFT_BF16 ? 1e-2 : 1e-5);
    for (int i = 0; i < 3; i++)
        weft_free_aligned(ins[i].data);
    weft_free_aligned(out.data);
}

static void products_agree(void **state)
{
    static const weft_op *const ops[] = {&moe_grouped, &moe_grouped_dx, &moe_grouped_dw};
    (void)state;
    for (int o = 0; o < 3; o++)
        for (size_t l = 0; l < sizeof loads / sizeof *loads; l++)
            for (int add = 0; add < 2; add++) {
                check_product(ops[o], WEFT_F32, WEFT_F32, loads[l], add);
                check_product(ops[o], WEFT_BF16, WEFT_F32, loads[l], add);
                if (ops[o] != &moe_grouped_dw)
                    check_product(ops[o], WEFT_BF16, WEFT_BF16, loads[l], add);
            }
}

/* A gradient of bf16 that is a sum over groups is rounded once: the plain kernel has it. */
static void sums_are_rounded_once(void **state)
{
    weft_tensor ins[3] = {make(WEFT_BF16, 5, (int64_t[]){2, 1, 1, 4, 3}, 0),
                          make(WEFT_BF16, 5, (int64_t[]){2, 1, 1, 4, 3}, 0),
                          make(WEFT_I32, 3, (int64_t[]){2, 1, 2}, 0)},
                out = make(WEFT_BF16, 3, (int64_t[]){2, 3, 3}, 0);
    const weft_call call = {
        .op = &moe_grouped_dw, .n_ins = 3, .n_outs = 1, .ins = ins, .outs = &out};
    (void)state;
    assert_false(cpu_grouped_accepts(&call));
    ins[0].size[0] = ins[1].size[0] = ins[2].size[0] = 1;
    assert_true(cpu_grouped_accepts(&call));
    for (int i = 0; i < 3; i++)
        weft_free_aligned(ins[i].data);
    weft_free_aligned(out.data);
}

/* What becomes of an expert's row is the same bits however many others it has. */
static void check_rows(weft_dtype dtype, int way)
{
    enum { ROWS = 290 };
    weft_tensor x = make(dtype, 5, (int64_t[]){1, 1, 1, ROWS, IN}, 1),
                w = make(dtype, 3, (int64_t[]){1, OUT, IN}, 2),
                counts = make(WEFT_I32, 3, (int64_t[]){1, 1, 1}, 0), all, some;
    const weft_attr rows = {.key = "rows", .kind = WEFT_ATTR_INT, .i = 1 << 20};
    weft_call call = {.op = &moe_grouped, .attrs = &rows, .n_attrs = 1, .n_ins = 3, .n_outs = 1};
    all = make(dtype, 5, (int64_t[]){1, 1, 1, ROWS, OUT}, 0), some = copy(&all);
    call.ins = (weft_tensor[]){x, w, counts};
    *(int32_t *)counts.data = ROWS, call.outs = &all;
    launch(call, 2, way);
    for (int32_t n = 1; n < ROWS; n += 17) {
        *(int32_t *)counts.data = n, call.outs = &some;
        launch(call, 2, way);
        assert_memory_equal(some.data, all.data, (size_t)n * OUT * weft_dtype_size(dtype));
    }
    weft_free_aligned(x.data), weft_free_aligned(w.data), weft_free_aligned(counts.data);
    weft_free_aligned(all.data), weft_free_aligned(some.data);
}

static void rows_do_not_see_each_other(void **state)
{
    (void)state;
    check_rows(WEFT_F32, 0);
    for (int way = 0; way < WAYS; way++)
        if (has_way(way))
            check_rows(WEFT_BF16, way);
}

/* ---- what moves rows ---- */

enum { PLACES = 50, CHOSEN = 2, WIDE = 700 };

static const weft_attr groups[] = {
    {.key = "experts", .kind = WEFT_ATTR_INT, .i = EXPERTS},
    {.key = "batches", .kind = WEFT_ATTR_INT, .i = BATCHES},
    {.key = "parts", .kind = WEFT_ATTR_INT, .i = 1},
    {.key = "owners", .kind = WEFT_ATTR_INT, .i = OWNERS},
    {.key = "room", .kind = WEFT_ATTR_REAL, .r = 1}, /* some find no slot */
};

static void check_move(const weft_op *op, weft_dtype dtype, int n_ins, weft_tensor *ins,
                       weft_tensor out, bool add)
{
    const weft_call call = {.op = op,
                            .attrs = groups,
                            .n_attrs = 5,
                            .n_ins = n_ins,
                            .n_outs = 1,
                            .ins = ins,
                            .accumulate = add};
    check(call, &out, dtype == WEFT_BF16 ? 1e-2 : 1e-5);
    weft_free_aligned(out.data);
}

static void moves_agree_in(weft_dtype d)
{
    const moe_groups m = moe_groups_of(EXPERTS, BATCHES, 1, OWNERS, 1, BATCHES, PLACES, CHOSEN);
    const int64_t choices[] = {BATCHES, PLACES, CHOSEN}, tokens[] = {BATCHES, PLACES, WIDE},
                  slots[] = {BATCHES, 1, OWNERS, m.slots, WIDE};
    weft_tensor chosen = make(WEFT_I32, 3, choices, 0), slot = make(WEFT_I32, 3, choices, 0),
                counts = make(WEFT_I32, 3, (int64_t[]){BATCHES, 1, EXPERTS}, 0),
                refused = make(WEFT_F32, 2, (int64_t[]){BATCHES, 1}, 0), most = copy(&refused),
                x = make(d, 3, tokens, 1), rows = make(d, 5, slots, 2),
                weights = make(d, 3, choices, 3), w = make(d, 4, slots, 4);
    weft_error err = {0};
    for (int64_t i = 0; i < weft_tensor_count(&chosen); i++)
        ((int32_t *)chosen.data)[i] = i / CHOSEN % 3 ? (int32_t)(i % 2) : (int32_t)(2 + i % 2);
    const weft_call assign = {.op = &moe_assign,
                              .attrs = groups,
                              .n_attrs = 5,
                              .n_ins = 1,
                              .n_outs = 4,
                              .ins = &chosen,
                              .outs = (weft_tensor[]){counts, slot, refused, most}};
    assert_int_equal(moe_assign.plain(&assign, &err), WEFT_OK);
    assert_true(weft_tensor_get(&refused, 0) > 0);
    check_move(&moe_dispatch, d, 3, (weft_tensor[]){x, chosen, slot}, make(d, 5, slots, 9), false);
    check_move(&moe_spread, d, 3, (weft_tensor[]){weights, chosen, slot}, make(d, 4, slots, 9),
               false);
    check_move(&moe_collect, d, 3, (weft_tensor[]){w, chosen, slot}, make(d, 3, choices, 9), false);
    for (int add = 0; d != WEFT_F64 && add < 2; add++) {
        check_move(&moe_combine, d, 3, (weft_tensor[]){rows, chosen, slot}, make(d, 3, tokens, 9),
                   add);
        check_move(&moe_slot_scale, d, 2, (weft_tensor[]){rows, w}, make(d, 5, slots, 9), add);
        check_move(&moe_slot_dot, d, 2, (weft_tensor[]){rows, rows}, make(d, 4, slots, 9), add);
    }
    const weft_tensor all[] = {chosen, slot, counts, refused, most, x, rows, weights, w};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        weft_free_aligned(all[i].data);
}

static void moves_agree(void **state)
{
    (void)state;
    moves_agree_in(WEFT_F32);
    moves_agree_in(WEFT_BF16);
    moves_agree_in(WEFT_F64);
}

/* ---- routing ---- */

static void routing_agrees(void **state)
{
    enum { TOKENS = 700, CHOICES = 12, BEST = 3 };
    (void)state;
    for (int64_t score = MOE_SOFTMAX; score <= MOE_SOFTMAX_CHOSEN; score++) {
        const weft_attr attrs[] = {{.key = "k", .kind = WEFT_ATTR_INT, .i = BEST},
                                   {.key = "score", .kind = WEFT_ATTR_INT, .i = score},
                                   {.key = "norm", .kind = WEFT_ATTR_INT, .i = 1},
                                   {.key = "eps", .kind = WEFT_ATTR_REAL, .r = 1e-20},
                                   {.key = "scale", .kind = WEFT_ATTR_REAL, .r = 2.5},
                                   {.key = "limit_groups", .kind = WEFT_ATTR_INT, .i = 4},
                                   {.key = "keep_groups", .kind = WEFT_ATTR_INT, .i = 2}};
        weft_tensor logits = make(WEFT_F32, 3, (int64_t[]){1, TOKENS, CHOICES}, 1), chosen[4],
                    weights[4], d[4], dy = make(WEFT_F32, 3, (int64_t[]){1, TOKENS, BEST}, 2);
        for (int threads = 0; threads < 4; threads++) { /* 0: plain */
            weft_error err = {0};
            chosen[threads] = make(WEFT_I32, 3, dy.size, 0);
            weights[threads] = make(WEFT_F32, 3, dy.size, 0);
            d[threads] = make(WEFT_F32, 3, logits.size, 0);
            const weft_call there = {.op = &moe_route,
                                     .attrs = attrs,
                                     .n_attrs = 7,
                                     .n_ins = 1,
                                     .n_outs = 2,
                                     .ins = &logits,
                                     .outs = (weft_tensor[]){chosen[threads], weights[threads]}},
                            back = {.op = &moe_route_dx,
                                    .attrs = attrs,
                                    .n_attrs = 7,
                                    .n_ins = 3,
                                    .n_outs = 1,
                                    .ins = (weft_tensor[]){logits, chosen[threads], dy},
                                    .outs = &d[threads]};
            if (threads == 0) {
                assert_int_equal(moe_route.plain(&there, &err), WEFT_OK);
                assert_int_equal(moe_route_dx.plain(&back, &err), WEFT_OK);
                continue;
            }
            launch(there, threads, 0);
            launch(back, threads, 0);
            assert_memory_equal(chosen[threads].data, chosen[0].data, TOKENS * BEST * 4);
            assert_memory_equal(weights[threads].data, weights[0].data, TOKENS * BEST * 4);
            assert_memory_equal(d[threads].data, d[0].data, TOKENS * CHOICES * 4);
        }
        for (int i = 0; i < 4; i++) {
            weft_free_aligned(chosen[i].data);
            weft_free_aligned(weights[i].data);
            weft_free_aligned(d[i].data);
        }
        weft_free_aligned(logits.data);
        weft_free_aligned(dy.data);
    }
}

/* ---- from no skew to one pair of experts for all tokens, in whole numbers ---- */

enum { BATCH = 4, SEQ = 14, ALL = BATCH * SEQ, MANY = 8, NARROW = 5, SKEWS = 8 };

static int32_t expert_of(int skew, int64_t token, int64_t j)
{
    const bool one = token * (SKEWS - 1) < skew * ALL;
    return (int32_t)(one ? j : (token + 3 * j) % MANY);
}

static double small(int64_t i)
{
    return (double)(i * 7 % 5 - 2);
}

static void check_workload(int skew, int64_t batches, int64_t parts, int64_t owners, double room)
{
    const moe_groups m = moe_groups_of(MANY, batches, parts, owners, room, BATCH, SEQ, CHOSEN);
    const weft_attr attrs[] = {{.key = "experts", .kind = WEFT_ATTR_INT, .i = MANY},
                               {.key = "batches", .kind = WEFT_ATTR_INT, .i = batches},
                               {.key = "parts", .kind = WEFT_ATTR_INT, .i = parts},
                               {.key = "owners", .kind = WEFT_ATTR_INT, .i = owners},
                               {.key = "room", .kind = WEFT_ATTR_REAL, .r = room},
                               {.key = "rows", .kind = WEFT_ATTR_INT, .i = 1 << 20}};
    const int64_t choices[] = {BATCH, SEQ, CHOSEN}, group[] = {batches, parts, MANY},
                  slots[] = {batches, parts, owners, m.slots, NARROW};
    weft_tensor chosen = make(WEFT_I32, 3, choices, 0), counts = make(WEFT_I32, 3, group, 0),
                slot = make(WEFT_I32, 3, choices, 0), refused = make(WEFT_F32, 2, group, 0),
                most = make(WEFT_F32, 2, group, 0),
                x = make(WEFT_F32, 3, (int64_t[]){BATCH, SEQ, NARROW}, 0), y = copy(&x),
                w = make(WEFT_F32, 3, (int64_t[]){MANY, NARROW, NARROW}, 0),
                sent = make(WEFT_F32, 5, slots, 0), rows = make(WEFT_F32, 5, slots, 0);
    int64_t wanted[MANY] = {0}, used = 0;
    weft_error err = {0};
    for (int64_t i = 0; i < ALL * CHOSEN; i++)
        wanted[((int32_t *)chosen.data)[i] = expert_of(skew, i / CHOSEN, i % CHOSEN)]++;
    for (int64_t i = 0; i < weft_tensor_count(&x); i++)
        weft_tensor_set(&x, i, small(i));
    for (int64_t i = 0; i < weft_tensor_count(&w); i++)
        weft_tensor_set(&w, i, small(i + i / 11));
    weft_call call = {.attrs = attrs, .n_attrs = 6, .n_ins = 1, .n_outs = 4};
    call.op = &moe_assign, call.ins = &chosen;
    call.outs = (weft_tensor[]){counts, slot, refused, most};
    assert_int_equal(moe_assign.plain(&call, &err), WEFT_OK);
    call.n_ins = 3, call.n_outs = 1;
    call.op = &moe_dispatch, call.ins = (weft_tensor[]){x, chosen, slot}, call.outs = &sent;
    launch(call, 2, 0);
    call.op = &moe_grouped, call.ins = (weft_tensor[]){sent, w, counts}, call.outs = &rows;
    launch(call, 2, 0);
    call.op = &moe_combine, call.ins = (weft_tensor[]){rows, chosen, slot}, call.outs = &y;
    launch(call, 2, 0);

    double lost = 0;
    for (int64_t i = 0; i < weft_tensor_count(&refused); i++)
        lost += weft_tensor_get(&refused, i);
    for (int64_t i = 0; i < weft_tensor_count(&counts); i++) {
        used += ((int32_t *)counts.data)[i];
        wanted[i % MANY] -= ((int32_t *)counts.data)[i];
    }
    assert_int_equal(used + (int64_t)lost, ALL * CHOSEN);
    for (int64_t e = 0; room == 0 && e < MANY; e++)
        assert_int_equal(wanted[e], 0);
    for (int64_t i = 0; i < weft_tensor_count(&y); i++) {
        double sum = 0;
        for (int64_t j = 0; j < CHOSEN; j++) {
            const int64_t choice = i / NARROW * CHOSEN + j, e = ((int32_t *)chosen.data)[choice];
            for (int64_t p = 0; ((int32_t *)slot.data)[choice] >= 0 && p < NARROW; p++)
                sum += weft_tensor_get(&x, i / NARROW * NARROW + p) *
                       weft_tensor_get(&w, (e * NARROW + i % NARROW) * NARROW + p);
        }
        assert_true(weft_tensor_get(&y, i) == sum);
    }
    const weft_tensor all[] = {chosen, counts, slot, refused, most, x, y, w, sent, rows};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        weft_free_aligned(all[i].data);
}

static void workloads_are_exact(void **state)
{
    (void)state;
    for (int skew = 0; skew < SKEWS; skew++)
        for (int room = 0; room < 2; room++) {
            check_workload(skew, 1, 1, 1, room);
            check_workload(skew, 2, 1, 2, room);
            check_workload(skew, 4, 2, 8, room);
            check_workload(skew, 1, 7, 4, room);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_agree),
        cmocka_unit_test(sums_are_rounded_once),
        cmocka_unit_test(rows_do_not_see_each_other),
        cmocka_unit_test(moves_agree),
        cmocka_unit_test(routing_agrees),
        cmocka_unit_test(workloads_are_exact),
    };
    return cmocka_run_group_tests_name("grouped", tests, NULL, NULL);
}
