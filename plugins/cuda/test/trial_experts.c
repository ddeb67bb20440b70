/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "trial_experts.h"
#include "trial_ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* All cases, or some of each kind. */
static bool is_long(void)
{
    const char *whole = getenv("WEFT_LONG");
    return whole && *whole;
}

/* ---- routers ---- */

enum { BATCH = 2, SEQ = 7, TOKENS = BATCH * SEQ };

typedef struct routing {
    int64_t n, k, groups, keep;
} routing;

static const routing routings[] = {{1, 1, 0, 0},  {4, 4, 0, 0},   {33, 2, 0, 0},
                                   {64, 6, 8, 3}, {130, 8, 0, 0}, {1024, 3, 128, 4}};

static void begin_route(trial *t, const char *op, const routing *r, int score, bool norm)
{
    trial_init(t, op);
    trial_int(t, "k", r->k);
    trial_int(t, "score", score);
    trial_int(t, "norm", norm);
    trial_int(t, "limit_groups", r->groups);
    trial_int(t, "keep_groups", r->keep);
    trial_real(t, "eps", norm ? 1e-20 : 0);
    trial_real(t, "scale", 2.5);
    t->size = 1;
}

/* Of equals the first is chosen; what is not a number comes last, and a token may have nothing
 * else. */
static void odd_logits(weft_tensor *x)
{
    const int64_t n = x->size[2];
    for (int64_t e = 0; e < n; e++) {
        weft_tensor_set(x, 1 * n + e, 0.5);
        weft_tensor_set(x, 3 * n + e, e % 3 ? 1e30 : -1e30);
        weft_tensor_set(x, 5 * n + e, NAN);
    }
    weft_tensor_set(x, 4 * n + n / 2, NAN);
    weft_tensor_set(x, 6 * n + n / 3, INFINITY);
    weft_tensor_set(x, 8 * n + n - 1, -INFINITY);
}

void trial_test_route(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof routings / sizeof *routings; c++)
        for (int how = 0; how < 12; how++) { /* score, norm, bias */
            const routing *r = &routings[c];
            trial t;
            begin_route(&t, "route", r, how % 3, how / 3 % 2);
            odd_logits(trial_in(&t, WEFT_F32, 1, SIZES(BATCH, SEQ, r->n)));
            if (how / 6)
                trial_in(&t, WEFT_F32, 2, SIZES(r->n));
            trial_out(&t, WEFT_I32, SIZES(BATCH, SEQ, r->k));
            trial_out(&t, WEFT_F32, SIZES(BATCH, SEQ, r->k));
            trial_check(&t);
        }
}

/* Each token's experts differ. */
static void choose(weft_tensor *chosen, int64_t n)
{
    const int64_t k = chosen->size[2];
    for (int64_t i = 0; i < weft_tensor_count(chosen); i++)
        ((int32_t *)chosen->data)[i] = (int32_t)((i / k * 5 + i % k) % n);
}

void trial_test_route_dx(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof routings / sizeof *routings; c++)
        for (int how = 0; how < 6; how++) {
            const routing *r = &routings[c];
            trial t;
            begin_route(&t, "route_dx", r, how % 3, how / 3);
            trial_in(&t, WEFT_F32, 1, SIZES(BATCH, SEQ, r->n));
            choose(trial_in(&t, WEFT_I32, 2, SIZES(BATCH, SEQ, r->k)), r->n);
            trial_in(&t, WEFT_F32, 3, SIZES(BATCH, SEQ, r->k));
            trial_out(&t, WEFT_F32, SIZES(BATCH, SEQ, r->n));
            trial_check(&t);
        }
}

static void check_sums(const char *op, const routing *r, int score, bool all, int64_t seq)
{
    const bool back = strcmp(op, "router_mean_dx") == 0;
    trial t;
    begin_route(&t, op, r, score, false);
    trial_int(&t, "batch", all);
    trial_in(&t, WEFT_F32, 1, SIZES(BATCH, seq, r->n));
    if (back)
        trial_in(&t, WEFT_F32, 2, all ? SIZES(r->n) : SIZES(BATCH, r->n));
    trial_out(&t, WEFT_F32,
              back  ? SIZES(BATCH, seq, r->n)
              : all ? SIZES(r->n)
                    : SIZES(BATCH, r->n));
    trial_check(&t);
}

void trial_test_router_sums(void **state)
{
    (void)state;
    EACH(name, op, "router_mean", "router_share", "router_mean_dx")
    for (size_t c = 0; c < sizeof routings / sizeof *routings; c++)
        for (int how = is_long() ? 0 : (int)c % 3; how < 6; how += is_long() ? 1 : 3)
            check_sums(op, &routings[c], how % 3, how / 3, c == 2 ? 300 : SEQ);
    EACH(int64_t, tokens, 1, 3000)
    for (int back = 0; back < 2; back++) {
        trial t;
        trial_init(&t, back ? "router_z_dx" : "router_z");
        trial_in(&t, WEFT_F32, 1, SIZES(1, tokens, 5));
        if (back)
            trial_in(&t, WEFT_F32, 2, SIZES(-1));
        trial_out(&t, WEFT_F32, back ? SIZES(1, tokens, 5) : SIZES(-1));
        trial_check(&t);
    }
}

/* ---- slots ---- */

enum { SAMPLES = 4, PLACES = 310, EXPERTS = 12 };

/* B, S, J; times a balanced load. */
typedef struct grouping {
    int64_t k, batches, parts, owners;
    double room;
} grouping;

static const grouping groupings[] = {
    {2, 1, 1, 1, 0}, {2, 2, 1, 3, 0}, {3, 4, 2, 4, 0}, {1, 1, 5, 12, 1}, {2, 2, 2, 2, 0.5}};

static void begin_slots(trial *t, const char *op, const grouping *g)
{
    trial_init(t, op);
    trial_int(t, "experts", EXPERTS);
    trial_int(t, "batches", g->batches);
    trial_int(t, "parts", g->parts);
    trial_int(t, "owners", g->owners);
    trial_real(t, "room", g->room);
}

/* Half of the tokens go to expert 3, and nobody to 5. */
static void choose_skewed(weft_tensor *chosen, int64_t k)
{
    tensor_ints(chosen, 7, 0, EXPERTS);
    for (int64_t i = 0; i < weft_tensor_count(chosen); i++) {
        int32_t *x = (int32_t *)chosen->data + i;
        const int32_t first = *x & 1 ? 3 : *x;
        *x = i % k ? (x[-1] + 1) % EXPERTS : first;
        *x = *x == 5 ? 6 : *x;
    }
}

static void begin_assign(trial *t, const grouping *g)
{
    begin_slots(t, "assign", g);
    choose_skewed(trial_in(t, WEFT_I32, 1, SIZES(SAMPLES, PLACES, g->k)), g->k);
    trial_out(t, WEFT_I32, SIZES(g->batches, g->parts, EXPERTS));
    trial_out(t, WEFT_I32, SIZES(SAMPLES, PLACES, g->k));
    trial_out(t, WEFT_F32, SIZES(g->batches, g->parts));
    trial_out(t, WEFT_F32, SIZES(g->batches, g->parts));
}

void trial_test_assign(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof groupings / sizeof *groupings; c++) {
        trial t;
        begin_assign(&t, &groupings[c]);
        trial_check(&t);
    }
}

/* Slots as assign gives them. */
static void place(weft_tensor *slot, const grouping *g)
{
    trial t;
    weft_tensor outs[MOST_TENSORS];
    begin_assign(&t, g);
    trial_plain(&t, false, outs);
    for (int64_t i = 0; i < weft_tensor_count(slot); i++)
        ((int32_t *)slot->data)[i] = (int32_t)weft_tensor_get(&outs[1], i);
    trial_free_outs(&t, outs);
    trial_release(&t);
}

static int64_t slots_of(const grouping *g)
{
    const int64_t tokens = SAMPLES * PLACES / g->batches / g->parts, each = EXPERTS / g->owners,
                  worst = tokens * (g->k < each ? g->k : each),
                  some = (int64_t)(8 *
                                   ceil(g->room * (double)(tokens * g->k) / (double)g->owners / 8));
    return g->room > 0 && some < worst ? some : worst;
}

static void check_moves(const grouping *g, const char *op, weft_dtype dtype, int64_t width)
{
    const bool there = strcmp(op, "dispatch") == 0 || strcmp(op, "spread") == 0,
               numbers = strcmp(op, "spread") == 0 || strcmp(op, "collect") == 0;
    const int64_t slots = slots_of(g), last = numbers ? -1 : width,
                  rows[] = {g->batches, g->parts, g->owners, slots, last, -1},
                  few[] = {SAMPLES, PLACES, numbers ? g->k : width, -1};
    trial t;
    begin_slots(&t, op, g);
    trial_in(&t, dtype, 1, there ? few : rows);
    choose_skewed(trial_in(&t, WEFT_I32, 2, SIZES(SAMPLES, PLACES, g->k)), g->k);
    place(trial_in(&t, WEFT_I32, 3, SIZES(SAMPLES, PLACES, g->k)), g);
    trial_out(&t, dtype, there ? rows : few);
    trial_check(&t);
}

void trial_test_moved_rows(void **state)
{
    (void)state;
    EACH(name, op, "dispatch", "combine", "spread", "collect")
    for (size_t c = 0; c < sizeof groupings / sizeof *groupings; c++)
        for (int type = is_long() ? 0 : (int)c % 2; type < 2; type += is_long() ? 1 : 2)
            check_moves(&groupings[c], op, halves[type], c & 1 ? 16 : 3);
}

void trial_test_scaled_rows(void **state)
{
    (void)state;
    EACH(name, op, "slot_scale", "slot_dot")
    EACH(int64_t, width, 0, 3, 2056)
    for (int type = 0; type < 2; type++) {
        trial t;
        trial_init(&t, op);
        trial_in(&t, halves[type], 1, SIZES(1, 2, 3, 2, width));
        if (strcmp(op, "slot_dot") == 0) {
            trial_in(&t, halves[type], 2, SIZES(1, 2, 3, 2, width));
            trial_out(&t, WEFT_F32, SIZES(1, 2, 3, 2));
        } else {
            trial_in(&t, WEFT_F32, 2, SIZES(1, 2, 3, 2));
            trial_out(&t, halves[type], SIZES(1, 2, 3, 2, width));
        }
        t.tolerance = 1e-5;
        trial_check(&t);
    }
}

/* ---- loads, single numbers ---- */

static void check_numbers(const char *op, int n_ins, const int64_t *in, const int64_t *more,
                          const int64_t *out)
{
    trial t;
    trial_init(&t, op);
    trial_real(&t, "scale", 0.25);
    trial_real(&t, "rate", 1e-3);
    trial_int(&t, "recentre", n_ins == 2 && more[0] == 300);
    for (int i = 0; i < n_ins; i++)
        trial_in(&t, WEFT_F32, (uint64_t)i + 1, i ? more : in);
    trial_out(&t, WEFT_F32, out);
    trial_check(&t);
}

void trial_test_loads(void **state)
{
    (void)state;
    EACH(int64_t, n, 1, 12, 300)
    {
        trial t;
        trial_init(&t, "expert_load");
        tensor_ints(trial_in(&t, WEFT_I32, 1, SIZES(2, 3, n)), 3, 0, 1000);
        trial_out(&t, WEFT_F32, SIZES(n));
        trial_check(&t);
        check_numbers("load_peak", 1, SIZES(n), NULL, SIZES(-1));
        check_numbers("largest", 1, SIZES(n), NULL, SIZES(-1));
        check_numbers("bias_step", 2, SIZES(n), SIZES(n), SIZES(n));
        check_numbers("balance", 2, SIZES(2, n), SIZES(2, n), SIZES(-1));
        check_numbers("balance_dp", 2, SIZES(-1), SIZES(2, n), SIZES(2, n));
    }
    EACH(int, list, 1, 7)
    {
        check_numbers("scalar_sum", list, SIZES(-1), SIZES(-1), SIZES(-1));
        check_numbers("scalar_max", list, SIZES(-1), SIZES(-1), SIZES(-1));
    }
}

/* A bias that is stored in parts: which load is whose. */
static void check_part_of_bias(void)
{
    trial t;
    trial_init(&t, "bias_step");
    trial_real(&t, "rate", 1e-2);
    trial_int(&t, "recentre", 1);
    tensor_heads(trial_in(&t, WEFT_F32, 1, SIZES(4)), 1, 8, 12);
    trial_in(&t, WEFT_F32, 2, SIZES(12));
    tensor_heads(trial_out(&t, WEFT_F32, SIZES(4)), 1, 8, 12);
    trial_check(&t);
}

/* ---- grouped products ---- */

enum { GROUPS = 2, OWNERS = 2, FOR_EACH = 2, SLOTS = 300, RUNS = GROUPS * OWNERS * FOR_EACH };

static const int32_t loads[][RUNS] = {
    {70, 80, 75, 75, 10, 20, 30, 40}, /* uneven */
    {0, 0, 0, 0, 0, 0, 0, 0},         /* none */
    {300, 0, 0, 0, 0, 300, 0, 0},     /* all for one, and the buffer is full */
    {1, 0, 299, 1, 145, 0, 144, 143}, /* edges of tiles */
    {64, 64, 128, 129, 127, 65, 63, 1},
};

/* Of x the rows behind those in use hold what nobody may see. */
static void check_groups(int64_t groups, const char *op, const int32_t *load, weft_dtype dtype,
                         weft_dtype result, int64_t in, int64_t out)
{
    enum { EXPERTS_HERE = OWNERS * FOR_EACH };
    const bool dw = strcmp(op, "grouped_dw") == 0, dx = strcmp(op, "grouped_dx") == 0;
    trial t;
    trial_init(&t, op);
    trial_int(&t, "rows", 1000);
    t.tolerance = 1e-5;
    t.alone = result == WEFT_BF16;
    trial_in(&t, dtype, 1, SIZES(groups, 1, OWNERS, SLOTS, dw || dx ? out : in));
    if (dw)
        trial_in(&t, dtype, 2, SIZES(groups, 1, OWNERS, SLOTS, in));
    else
        trial_in(&t, dtype, 2, SIZES(EXPERTS_HERE, out, in));
    memcpy(trial_in(&t, WEFT_I32, 3, SIZES(groups, 1, EXPERTS_HERE))->data, load,
           (size_t)groups * EXPERTS_HERE * sizeof *load);
    if (dw)
        trial_out(&t, result, SIZES(EXPERTS_HERE, out, in));
    else
        trial_out(&t, result, SIZES(groups, 1, OWNERS, SLOTS, dx ? in : out));
    trial_check(&t);
}

static void check_grouped(const char *op, const int32_t *load, weft_dtype dtype, weft_dtype result,
                          int64_t in, int64_t out)
{
    check_groups(GROUPS, op, load, dtype, result, in, out);
}

void trial_test_grouped(void **state)
{
    static const int64_t widths[][2] = {{37, 70}, {40, 136}};
    int n = 0;
    (void)state;
    EACH(name, op, "grouped", "grouped_dx", "grouped_dw")
    for (size_t c = 0; c < sizeof loads / sizeof *loads; c++)
        for (int type = 0; type < 6; type++) { /* odd widths or whole words; f32, bf16, both */
            const weft_dtype dtype = type % 3 ? WEFT_BF16 : WEFT_F32,
                             result = type % 3 == 1 ? WEFT_BF16 : WEFT_F32;
            if (trial_left_out_of(&n, 13))
                continue;
            check_grouped(op, loads[c], dtype, result, widths[type / 3][0], widths[type / 3][1]);
        }
}

/* What a sample may leave out: every kernel, and what is empty. */
void trial_test_grouped_edges(void **state)
{
    (void)state;
    EACH(name, op, "grouped", "grouped_dx", "grouped_dw")
    {
        check_grouped(op, loads[3], WEFT_BF16, WEFT_F32, 136, 40);
        check_grouped(op, loads[4], WEFT_F32, WEFT_F32, 33, 65);
        check_grouped(op, loads[0], WEFT_F32, WEFT_F32, 0, 8);
        check_groups(0, op, loads[0], WEFT_BF16, WEFT_F32, 8, 8); /* a rank without a sample */
    }
    check_part_of_bias();
}
