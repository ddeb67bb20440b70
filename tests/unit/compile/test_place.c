/* SPDX-License-Identifier: Apache-2.0 */
/* Placement and gradients: whatever the mesh, the passes and their order, the numbers are those of
 * one rank. WEFT_LONG=1: many times as many plans.
 */
#include "../../lib/parity.h"
#include "../../lib/standard_ops.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/random.h>
/* last: it needs the headers above */
#include <cmocka.h>

extern const weft_plugin gpt2_LTX_plugin;

static const char *const long_run = "WEFT_LONG";

typedef struct dice {
    uint64_t seed, rolls;
} dice;

static int roll(dice *d, int n)
{
    return (int)(weft_random_bits(d->seed, 0, d->rolls++) % (uint64_t)n);
}

/* Sizes that do not divide, empty shards, tied weights, key heads that are fewer than ranks. */
static const struct model {
    const weft_plugin *plugin;
    const char *ini;
    int64_t seq;
} models[] = {
    {NULL,
     "n_layers = 2\ndim = 12\nn_heads = 12\nn_kv_heads = 6\nhead_dim = 4\nffn_dim = 26\nvocab_size "
     "= 50\n",
     8},
    {NULL,
     "n_layers = 2\ndim = 12\nn_heads = 12\nn_kv_heads = 6\nhead_dim = 4\nffn_dim = 25\nvocab_size "
     "= 49\ntied = yes\n",
     7},
    {NULL,
     "n_layers = 2\ndim = 11\nn_heads = 6\nn_kv_heads = 6\nhead_dim = 2\nffn_dim = 23\nvocab_size "
     "= 47\nrope_scaling = yes\nrope_original = 4\n",
     9},
    {NULL,
     "n_layers = 1\ndim = 12\nn_heads = 12\nn_kv_heads = 2\nhead_dim = 4\nffn_dim = 5\nvocab_size "
     "= 31\n",
     5},
    {&gpt2_LTX_plugin,
     "n_layers = 2\ndim = 24\nn_heads = 6\nffn_dim = 26\nvocab_size = 50\nn_positions = 11\n", 8},
    {&gpt2_LTX_plugin,
     "n_layers = 1\ndim = 15\nn_heads = 5\nffn_dim = 13\nvocab_size = 17\nn_positions = 9\ntied = "
     "no\n",
     7},
};
enum { MODELS = sizeof models / sizeof models[0] };

static planned_spec spec_of(int model)
{
    return (planned_spec){.axes = "",
                          .passes = "",
                          .model = models[model].plugin,
                          .ini = models[model].ini,
                          .seq = models[model].seq};
}

/* ---- the matrix ---- */

static const char *const tps[] = {"tp", "tp:sequence_parallel=no", "tp:loss_parallel=no",
                                  "tp:sequence_parallel=no:loss_parallel=no"};
static const struct data_parallel {
    const char *pass;
    int replicate, shard;
} dps[] = {
    {"", 1, 1},
    {"fsdp:zero=0", 2, 1},
    {"fsdp:zero=1", 1, 2},
    {"fsdp:zero=2", 1, 2},
    {"fsdp:reshard=no", 1, 2},
    {"fsdp", 1, 2},
    {"fsdp", 1, 3},
    {"fsdp:zero=1", 2, 2},
    {"fsdp", 2, 2},
    {"fsdp:zero=2", 2, 2},
    {"fsdp:zero=0", 2, 2},
};
static const char *const acs[] = {"", "ac", "ac:mode=op", "ac:mode=every"};

/* The listed order is chance: any must be right; what differs is the traffic. */
static void shuffle(dice *d, const char **list, int n, char *out, size_t size)
{
    out[0] = '\0';
    for (; n > 0; n--) {
        int k = roll(d, n);
        if (*list[k])
            snprintf(out + strlen(out), size - strlen(out), "%s%s", *out ? " " : "", list[k]);
        list[k] = list[n - 1];
    }
}

static void check_one(dice *d, int model, int t, const char *tp, const struct data_parallel *dp,
                      int c)
{
    char axes[96], passes[160];
    static const int micros[] = {1, 2, 3, 6};
    planned_spec spec = spec_of(model);
    const char *list[] = {t > 1 ? tp : "", dp->pass, c > 1 ? "cp" : "", acs[roll(d, 4)],
                          roll(d, 2) ? "bf16" : ""};
    snprintf(axes, sizeof axes, "tp=%d cp=%d dp_shard=%d dp_replicate=%d", t, c, dp->shard,
             dp->replicate);
    shuffle(d, list, 5, passes, sizeof passes);
    spec.micro = micros[roll(d, 4)];
    spec.batch = 12 / spec.micro;
    spec.axes = axes;
    spec.passes = passes;
    parity_must(&spec, 1);
}

/* 12 heads and 6 key heads are not cut in 4; 6 and 6 are, unevenly; 2 are repeated. */
static bool takes(int model, int t)
{
    return t != 4 || model > 1;
}

static void the_matrix(void **state)
{
    (void)state;
    static const int degrees[] = {1, 2, 3, 4};
    int rounds = getenv(long_run) ? 10 : 1;
    int plans = 0;
    dice d = {5, 0};
    for (int round = 0; round < rounds; round++)
        for (int model = 0; model < MODELS; model++)
            for (int t = 0; t < 4; t++)
                for (int k = 0; k < (t ? 4 : 1) && takes(model, degrees[t]); k++)
                    for (size_t i = 0; i < sizeof dps / sizeof dps[0]; i++)
                        for (int c = 1; c <= 2; c++)
                            if (rounds > 1 || (model + t + k + (int)i + c) % 4 == 1) {
                                check_one(&d, model, degrees[t], tps[k], &dps[i], c);
                                plans++;
                            }
    print_message("the matrix: %d plans\n", plans);
}

/* All subsets and orders of five passes on one mesh. */
static void permute(const char *const *list, unsigned left, const char *before)
{
    planned_spec spec = {.axes = "tp=2 cp=2 dp_shard=2",
                         .passes = before,
                         .ini = planned_tiny,
                         .micro = 2,
                         .batch = 2};
    parity_must(&spec, 1);
    for (int i = 0; i < 5; i++) {
        char now[96];
        if (!(left >> i & 1u))
            continue;
        snprintf(now, sizeof now, "%s%s%s", before, *before ? " " : "", list[i]);
        permute(list, left & ~(1u << i), now);
    }
}

static void all_orders(void **state)
{
    (void)state;
    static const char *const list[] = {"bf16", "tp", "cp", "fsdp", "ac"};
    permute(list, 0x1f, "");
}

static void larger_meshes(void **state)
{
    (void)state;
    static const struct {
        const char *axes, *passes;
        int model;
    } cases[] = {
        {"tp=2 cp=3 dp_shard=2 dp_replicate=2", "bf16 tp cp fsdp ac", 0},
        {"tp=3 cp=2 dp_shard=2 dp_replicate=2", "tp ac cp fsdp:zero=2 bf16", 0},
        {"tp=4 cp=3 dp_shard=2", "cp fsdp bf16 tp", 3},
        {"tp=12 dp_shard=2", "tp fsdp:zero=1", 3},
        {"tp=6 cp=2 dp_shard=2", "tp cp fsdp", 0},
        {"tp=5 cp=4", "tp cp", 5},
        {"cp=4 dp_shard=6", "cp fsdp ac", 1},
        {"dp_shard=24", "fsdp", 2},
        {"dp_shard=2 tp=3 dp_replicate=2 cp=2", "tp fsdp cp", 0}, /* nested the other way round */
        {"cp=2 dp_replicate=2 tp=2 dp_shard=3", "fsdp:zero=1 tp cp bf16", 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        planned_spec spec = spec_of(cases[i].model);
        spec.axes = cases[i].axes;
        spec.passes = cases[i].passes;
        spec.batch = 12;
        parity_must(&spec, 1);
    }
}

/* Moments and parameters of the first steps are where the next ones look for them. */
static void three_steps(void **state)
{
    (void)state;
    static const char *const passes[] = {"tp cp fsdp", "bf16 tp fsdp:zero=1 cp ac",
                                         "fsdp:zero=2 tp cp"};
    for (int i = 0; i < 3; i++)
        parity_must(&(planned_spec){.axes = "tp=2 cp=2 dp_shard=2",
                                    .passes = passes[i],
                                    .ini = planned_tiny,
                                    .micro = 2,
                                    .batch = 2},
                    3);
}

/* The head in parts of the sequence, with every cut of it. */
static void chunks(void **state)
{
    (void)state;
    static const struct {
        const char *axes, *passes;
        int64_t chunk;
    } cases[] = {
        {"", "", 8},
        {"", "", 4},
        {"tp=2", "tp", 8},
        {"cp=2", "cp", 16},
        {"tp=2 cp=2 dp_shard=2", "tp cp fsdp ac", 16},
        {"dp_shard=4", "fsdp", 4},
        {"cp=2", "bf16 cp", 4},
        {"tp=3 cp=2", "tp cp", 8},
        {"cp=3", "cp", 8},
        {"tp=2 cp=4", "tp:loss_parallel=no cp", 16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        planned_spec spec = {.axes = cases[i].axes,
                             .passes = cases[i].passes,
                             .ini = planned_tiny,
                             .chunk = cases[i].chunk};
        planned p;
        assert_int_equal(planned_init(&p, &spec), WEFT_OK);
        assert_non_null(weft_graph_find(p.g, "head.logits.1"));
        planned_release(&p);
        parity_must(&spec, 1);
    }
}

/* ---- any choice of layouts gives the same numbers ---- */

static const struct {
    const char *axes, *passes;
    int model;
} random_plans[] = {
    {"tp=2 dp_shard=2", "tp fsdp ac", 0},
    {"tp=3 cp=2", "tp:sequence_parallel=no cp ac", 1},
    {"tp=2 cp=2 dp_shard=2", "bf16 tp cp fsdp:reshard=no", 2},
    {"dp_shard=3 tp=2", "fsdp:zero=1 tp:loss_parallel=no", 0},
    {"tp=2 dp_shard=2", "tp fsdp:zero=2 bf16", 4},
    {"cp=2 dp_replicate=3", "cp fsdp:zero=0", 5},
    {"tp=2 cp=2", "tp cp", 3},
    {"tp=2 dp_shard=2", "", 2}, /* no table: an axis may do anything to anything */
    {"tp=2 dp_shard=3", "fsdp bf16 ac", 4},
};

static void random_placement(void **state)
{
    (void)state;
    int done = 0, each = getenv(long_run) ? 300 : 12;
    for (size_t i = 0; i < sizeof random_plans / sizeof random_plans[0]; i++) {
        for (int k = 1; k <= each; k++) {
            weft_text why = {0};
            planned_spec spec = spec_of(random_plans[i].model);
            spec.axes = random_plans[i].axes;
            spec.passes = random_plans[i].passes;
            spec.dice = (uint64_t)k;
            weft_status s = parity_check(&spec, 1, &why);
            if (s)
                fail_msg("%s, %s, dice %d: %s", spec.axes, spec.passes, k, weft_text_get(&why));
            weft_text_release(&why);
        }
        done += each;
    }
    print_message("random plans: %d\n", done);
}

static const weft_op *op_of(const char *name)
{
    weft_ops ops;
    weft_error err = {0};
    assert_int_equal(standard_ops_init(&ops, NULL, NULL, 0, &err), WEFT_OK);
    const weft_op *op = weft_ops_find(&ops, name);
    assert_non_null(op);
    weft_ops_release(&ops);
    return op;
}

/* True if this plan of a model with a wrong op is noticed. */
static bool noticed(const weft_op *wrong, int k)
{
    planned p;
    parity_result r;
    const char *what;
    planned_spec spec = spec_of(2); /* no heads to be refused for, no table that forbids anything */
    spec.axes = "tp=2 dp_shard=2";
    spec.dice = (uint64_t)k;
    spec.instead = wrong;
    bool found = false;
    if (planned_init(&p, &spec) == WEFT_OK) {
        parity_run(&p, 1, NULL, INFINITY, &r);
        found = !(parity_worst(&r, parity_reference(&spec, 1), &what) < 1e-10);
        parity_release(&r);
    }
    planned_release(&p);
    return found;
}

/* A rule that claims too much is found by the same random plans. */
static void wrong_marks(void **state)
{
    (void)state;
    static const struct {
        const char *op, *rule, *linear;
    } wrong[] = {
        {"rms_norm", NULL, "0"},
        {"silu_mul", NULL, "0"},
        {"nll", NULL, "1"},
        {"rms_norm", "b s e, e -> b s e", NULL},
        {"attention", "b q h, b k h, b k h, q, k, b q, b k -> b q h, b q h", NULL},
        {"linear_dx", NULL, "0 1"},
        {"scale", NULL, "0 1"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        weft_op op = *op_of(wrong[i].op);
        int k = 1;
        op.rule = wrong[i].rule ? wrong[i].rule : op.rule;
        op.linear = wrong[i].linear ? wrong[i].linear : op.linear;
        while (k < 300 && !noticed(&op, k))
            k++;
        if (k == 300)
            fail_msg("%s with rule \"%s\", linear \"%s\" is not noticed", op.name, op.rule,
                     op.linear);
        print_message("%s: noticed by plan %d\n", op.name, k);
    }
}

/* ---- what the tests are worth: one redistribute does nothing, and something notices ---- */

static bool norm_weights(const weft_node *n)
{
    return n->scope == WEFT_STEP_END && strstr(n->ins[0]->name, "layernorm.weight'") &&
           n->steps[0].move == WEFT_ALL_REDUCE;
}
static bool zeros(const weft_node *n)
{
    return n->n_steps == 1 && n->steps[0].move == WEFT_ZERO;
}
static bool count_of_tokens(const weft_node *n)
{
    return strcmp(n->ins[0]->name, "tokens") == 0;
}
static bool keys_over_cp(const weft_node *n)
{
    return n->phase == WEFT_BACKWARD && strcmp(n->by, "cp") == 0 &&
           strstr(n->ins[0]->name, "k_rot");
}
static void mutations(void **state)
{
    (void)state;
    static const struct {
        const char *axes, *passes;
        bool (*stuck)(const weft_node *);
    } cases[] = {
        {"tp=2 dp_shard=2", "tp fsdp", norm_weights},
        {"tp=2 dp_shard=2", "tp fsdp", zeros},
        {"tp=2", "tp:sequence_parallel=no", zeros},
        {"tp=2 dp_shard=2", "tp fsdp", count_of_tokens},
        {"cp=2 dp_shard=2", "cp fsdp", keys_over_cp},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        planned_spec spec = {.axes = cases[i].axes,
                             .passes = cases[i].passes,
                             .ini = planned_tiny,
                             .micro = 2,
                             .batch = 2};
        planned p;
        parity_result r;
        const char *what;
        int hit = 0;
        assert_int_equal(planned_init(&p, &spec), WEFT_OK);
        for (const weft_node *n = weft_graph_first(p.g); n; n = n->next)
            hit += n->steps && cases[i].stuck(n);
        if (!hit)
            fail_msg("%s, %s: there is nothing to break", spec.axes, spec.passes);
        parity_run(&p, 1, cases[i].stuck, INFINITY, &r);
        if (parity_worst(&r, parity_reference(&spec, 1), &what) < 1e-9)
            fail_msg("%s, %s: nobody noticed %d redistributes that did nothing", spec.axes,
                     spec.passes, hit);
        parity_release(&r);
        planned_release(&p);
    }
}

/* ---- other modes, refusals ---- */

static double mode_value(const planned_spec *spec, int which, weft_tensor *t, weft_pool *pool)
{
    planned p;
    sim m;
    if (planned_init(&p, spec))
        fail_msg("%s: %s", spec->axes, weft_error_text(&p.err));
    sim_init(&m, p.g, 1);
    sim_run(&m);
    double x = 0;
    if (which < 2) {
        x = sim_scalar(&m, which ? p.g->tokens : p.g->loss_sum);
    } else {
        *t = sim_value(&m, p.g->logits);
        const void *from = t->data;
        sim_allocate(t, pool);
        memcpy(t->data, from, (size_t)weft_tensor_count(t) * sizeof(double));
    }
    sim_release(&m);
    planned_release(&p);
    return x;
}

static void evaluate_and_generate(void **state)
{
    (void)state;
    for (int model = 0; model < MODELS; model++) {
        weft_pool pool = {0};
        weft_tensor want, got;
        planned_spec one = spec_of(model), many = one;
        one.placed_only = many.placed_only = true;
        many.axes = model == 3 ? "tp=4 cp=2" : "tp=2 cp=2 dp_shard=2";
        many.passes = model % 2 ? "tp cp fsdp ac" : "bf16 fsdp:zero=1 tp cp";
        one.mode = many.mode = WEFT_MODE_EVALUATE;
        for (int which = 0; which < 2; which++) {
            double a = mode_value(&one, which, NULL, NULL),
                   b = mode_value(&many, which, NULL, NULL);
            assert_true(a > 0 && fabs(a - b) < 1e-12 * a);
        }
        one.mode = many.mode = WEFT_MODE_GENERATE;
        mode_value(&one, 2, &want, &pool);
        mode_value(&many, 2, &got, &pool);
        assert_int_equal(weft_tensor_count(&want), weft_tensor_count(&got));
        for (int64_t i = 0; i < weft_tensor_count(&want); i++)
            assert_true(fabs(weft_tensor_get(&want, i) - weft_tensor_get(&got, i)) < 1e-12);
        weft_pool_release(&pool);
    }
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *axes, *passes, *words;
    } cases[] = {
        {"tp=4", "tp",
         "tp: b0.o = attention: heads 12 and kv_heads 6 must both divide by tp = 4; the nearest "
         "degree that works is 3"},
        {"tp=5", "tp",
         "tp: b0.o = attention: heads 12 and kv_heads 6 must both divide by tp = 5; the nearest "
         "degree that works is 6"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        planned p;
        planned_spec spec = {.axes = cases[i].axes, .passes = cases[i].passes};
        assert_int_equal(planned_init(&p, &spec), WEFT_ERR_INPUT);
        assert_string_equal(weft_error_text(&p.err), cases[i].words);
        planned_release(&p);
    }
}

static void print(const planned_spec *spec, weft_text *text)
{
    planned p;
    if (planned_init(&p, spec))
        fail_msg("%s", weft_error_text(&p.err));
    weft_graph_print(p.g, true, text);
    planned_release(&p);
}

/* Every rank plans for itself: they must come to the same plan. */
static void planning_repeats(void **state)
{
    (void)state;
    planned_spec spec = {
        .axes = "tp=2 cp=2 dp_shard=2", .passes = "bf16 tp cp fsdp ac", .ini = planned_tiny};
    weft_text a = {0}, b = {0};
    print(&spec, &a);
    print(&spec, &b);
    assert_string_equal(weft_text_get(&a), weft_text_get(&b));
    weft_text_release(&a);
    weft_text_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_matrix),
        cmocka_unit_test(all_orders),
        cmocka_unit_test(larger_meshes),
        cmocka_unit_test(three_steps),
        cmocka_unit_test(chunks),
        cmocka_unit_test(random_placement),
        cmocka_unit_test(wrong_marks),
        cmocka_unit_test(mutations),
        cmocka_unit_test(evaluate_and_generate),
        cmocka_unit_test(refusals),
        cmocka_unit_test(planning_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
