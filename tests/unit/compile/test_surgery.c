/* SPDX-License-Identifier: Apache-2.0 */
/* What passes change of a graph that is there, before placement and in the placed and joint graph:
 * the same numbers on every mesh. Totals over micro-batches, and questions. */
#include "../../lib/planned.h"
#include "../../lib/sim.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

extern const weft_plugin llama3_LTX_plugin;

/* ---- ops of the test ---- */

/* The largest element; below 0 for all that are. */
static weft_status largest(const weft_call *call, weft_error *err)
{
    double most = -INFINITY;
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->ins[0]); i++) {
        double x = weft_tensor_get(&call->ins[0], i);
        most = most > x || isnan(most) ? most : x;
    }
    weft_tensor_set(&call->outs[0], 0, most);
    return WEFT_OK;
}

static weft_status minus(const weft_call *call, weft_error *err)
{
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++)
        weft_tensor_set(&call->outs[0], i, weft_tensor_get(&call->ins[0], i) - 1000);
    return WEFT_OK;
}

static const weft_op largest_op = {.name = "largest",
                                   .summary = "the largest element",
                                   .rule = "b s e ->",
                                   .flags = WEFT_OP_MAX,
                                   .plain = largest};
static const weft_op minus_op = {
    .name = "minus", .summary = "x - 1000", .rule = "* -> *", .plain = minus};
static const weft_op *const ops[] = {&largest_op, &minus_op, NULL};

/* ---- llama3, and what a test does with its graph in a stage ---- */

static void (*change)(weft_graph *g);
static weft_pass_stage when;

static void change_in(weft_pass_stage stage, weft_graph *g)
{
    if (change && when == stage)
        change(g);
}

static void build(void *self, weft_graph *g)
{
    llama3_LTX_plugin.contributions[0].graph(self, g);
    change_in(WEFT_STAGE_GRAPH, g);
}

static void placed(void *self, weft_graph *g)
{
    (void)self;
    change_in(WEFT_STAGE_PLACED, g);
}

static void joint(void *self, weft_graph *g)
{
    (void)self;
    change_in(WEFT_STAGE_JOINT, g);
}

static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = build},
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_PLACED, .graph = placed},
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_JOINT, .graph = joint},
    {.kind = WEFT_END}};

static weft_plugin changed_model(void)
{
    weft_plugin model = llama3_LTX_plugin;
    model.contributions = contributions;
    model.ops = ops;
    return model;
}

typedef struct numbers {
    double loss, norm, most, sum;
} numbers;

static numbers run(const char *axes, const char *passes, int64_t micro, uint64_t dice)
{
    weft_plugin model = changed_model();
    planned p;
    sim m;
    const planned_spec spec = {.axes = axes,
                               .passes = passes,
                               .model = &model,
                               .batch = 8 / micro,
                               .micro = micro,
                               .dice = dice};
    weft_status s = planned_init(&p, &spec);
    if (s && dice && strstr(weft_error_text(&p.err), "must both divide")) {
        planned_release(&p); /* the dice cut heads where they cannot be */
        return (numbers){.loss = NAN};
    }
    if (s)
        fail_msg("mesh %s, passes %s: %s", axes, passes, weft_error_text(&p.err));
    sim_init(&m, p.g, 1);
    sim_run(&m);
    numbers x = {sim_scalar(&m, p.g->loss_report), sim_scalar(&m, planned_report(&p, "grad_norm")),
                 0, 0};
    if (planned_report(&p, "most"))
        x.most = sim_scalar(&m, planned_report(&p, "most"));
    if (planned_report(&p, "sum"))
        x.sum = sim_scalar(&m, planned_report(&p, "sum"));
    sim_release(&m);
    planned_release(&p);
    return x;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-11 * fabs(b);
}

static const char *const meshes[][2] = {
    {"", "ac:mode=full"},
    {"tp=2 dp_shard=2", "tp bf16 fsdp ac:mode=full"},
    {"tp=3 dp_shard=2 dp_replicate=2", "fsdp:zero=2 ac tp"},
};

/* The change in this stage, on meshes, gives the numbers `want`. */
static void same_on_meshes(weft_pass_stage stage, numbers want)
{
    when = stage;
    int rolled = 0;
    for (size_t m = 0; m < sizeof meshes / sizeof meshes[0]; m++)
        for (int64_t micro = 1; micro <= 2; micro++)
            for (uint64_t dice = 0; dice < 4; dice++) {
                numbers x = run(meshes[m][0], meshes[m][1], micro, dice);
                if (dice && isnan(x.loss))
                    continue;
                rolled += dice > 0;
                if (!near(x.loss, want.loss) || !near(x.norm, want.norm) ||
                    !near(x.most, want.most) || !near(x.sum, want.sum))
                    fail_msg("mesh %s, passes %s, stage %d, dice %d: loss %.15g norm %.15g most "
                             "%.15g sum %.15g, and %.15g %.15g %.15g %.15g before",
                             meshes[m][0], meshes[m][1], (int)stage, (int)dice, x.loss, x.norm,
                             x.most, x.sum, want.loss, want.norm, want.most, want.sum);
            }
    assert_true(rolled > 4);
}

/* ---- replace ---- */

/* Wraps: a norm's result is doubled for all that read it. */
static void wrap_norms(weft_graph *g)
{
    for (weft_node *n = weft_graph_first(g); n; n = n->next) {
        if (strcmp(n->op->name, "rms_norm") != 0)
            continue;
        weft_value *x = n->outs[0];
        weft_graph_at(g, n->next);
        weft_replace(g, x, weft_add2(g, "add", NULL, x, x));
        weft_graph_at(g, NULL);
        assert_int_equal(x->n_uses, g->placed && x->n_uses == 1 ? 1 : 2);
    }
}

/* Stands in: what is computed once more is read instead, and the first is gone. */
static void compute_anew(weft_graph *g)
{
    for (weft_node *n = weft_graph_first(g), *next; n; n = next) {
        next = n->next;
        if (strcmp(n->op->name, "silu_mul") != 0 || n->phase != WEFT_FORWARD ||
            strcmp(n->outs[0]->name, "anew") == 0 || strncmp(n->outs[0]->name, "anew.", 5) == 0)
            continue;
        weft_graph_at(g, next);
        weft_value *y = weft_add2(g, "silu_mul", "anew", n->ins[0], n->ins[1]);
        weft_replace(g, n->outs[0], y);
        weft_graph_at(g, NULL);
        if (n->outs[0]->n_uses == 0)
            weft_remove(g, n);
    }
}

/* Another value of another layout takes the place: every gradient's double, halved again. */
static void wrap_gradients(weft_graph *g)
{
    weft_value *half = weft_add(g, "constant", NULL, 0, NULL);
    weft_set_real(g, half, "value", 0.5);
    half->node->scope = WEFT_STEP_END;
    for (int i = 0; weft_graph_parameter(g, i); i++) {
        weft_value *dw = weft_graph_parameter(g, i)->gradient;
        weft_value *twice = weft_add2(g, "add", NULL, dw, dw);
        weft_replace(g, dw, weft_add2(g, "scale", NULL, twice, half));
        assert_ptr_not_equal(weft_graph_parameter(g, i)->gradient, dw);
    }
}

static void replaced(void **state)
{
    (void)state;
    change = NULL;
    numbers plain = run("", "", 1, 0);
    change = wrap_norms;
    when = WEFT_STAGE_GRAPH;
    numbers wrapped = run("", "", 1, 0);
    assert_false(near(wrapped.loss, plain.loss));
    same_on_meshes(WEFT_STAGE_GRAPH, wrapped);
    same_on_meshes(WEFT_STAGE_PLACED, wrapped);
    change = compute_anew;
    same_on_meshes(WEFT_STAGE_GRAPH, plain);
    same_on_meshes(WEFT_STAGE_PLACED, plain);
    change = wrap_gradients;
    same_on_meshes(WEFT_STAGE_JOINT, plain);
    change = NULL;
}

/* ---- totals ---- */

/* All below zero, so that nothing but the least number can be what a maximum begins with. */
static void total(weft_graph *g)
{
    weft_value *x = NULL;
    for (weft_node *n = weft_graph_first(g); n; n = n->next)
        if (strcmp(n->op->name, "embedding") == 0)
            x = n->outs[0];
    weft_graph_at(g, x->node->next->next);
    weft_value *low = weft_add1(g, "minus", NULL, x);
    weft_add_report(g, "most", weft_accumulate(g, weft_add1(g, "largest", NULL, low), WEFT_MAX));
    weft_value *sum = weft_add1(g, "sum", NULL, x);
    weft_add_report(g, "sum", weft_accumulate(g, sum, WEFT_SUM));
    weft_graph_at(g, NULL);
}

static void totals(void **state)
{
    (void)state;
    change = total;
    when = WEFT_STAGE_GRAPH;
    numbers want = run("", "", 1, 0);
    assert_true(want.most < -900 && want.sum != 0);
    for (int64_t micro = 1; micro <= 8; micro *= 2) {
        numbers x = run("", "", micro, 0);
        assert_true(near(x.most, want.most) && near(x.sum, want.sum));
    }
    same_on_meshes(WEFT_STAGE_GRAPH, want);
    same_on_meshes(WEFT_STAGE_PLACED, want);
    same_on_meshes(WEFT_STAGE_JOINT, want);
    change = NULL;
}

/* A redistribute that reads something else is not given to who asks for the first. */
static void forgets_moves(void **state)
{
    (void)state;
    weft_plugin model = changed_model();
    planned p;
    change = NULL;
    const planned_spec spec = {
        .axes = "tp=2", .passes = "tp", .model = &model, .placed_only = true};
    assert_int_equal(planned_init(&p, &spec), WEFT_OK);
    weft_node *moves = weft_graph_first(p.g);
    while (moves && !(moves->steps && strcmp(moves->ins[0]->node->op->name, "linear") == 0))
        moves = moves->next;
    assert_non_null(moves);
    weft_value *x = moves->ins[0];
    weft_graph_at(p.g, x->node->next);
    weft_value *y = weft_add2(p.g, "linear", "y", x->node->ins[0], x->node->ins[1]);
    weft_graph_at(p.g, NULL);
    weft_replace(p.g, x, y);
    assert_ptr_equal(moves->ins[0], y);
    const weft_value *again =
        weft_move_to(p.g, x, moves->outs[0]->layout, NULL, moves->phase, "the test", NULL);
    assert_ptr_not_equal(again->node, moves);
    assert_ptr_equal(again->node->ins[0], x);
    assert_int_equal(weft_graph_verify(p.g, &p.err), WEFT_OK);
    planned_release(&p);
}

/* ---- what is refused ---- */

static void no_change(weft_graph *g)
{
    (void)g;
}

static void refuse(weft_value *(*ask)(weft_graph *g), const char *words)
{
    weft_plugin model = changed_model();
    planned p;
    change = no_change;
    assert_int_equal(
        planned_init(
            &p,
            &(planned_spec){.axes = "tp=2", .passes = "tp", .model = &model, .placed_only = true}),
        WEFT_OK);
    assert_null(ask(p.g));
    if (!strstr(weft_error_text(weft_graph_error(p.g)), words))
        fail_msg("\"%s\" does not say \"%s\"", weft_error_text(weft_graph_error(p.g)), words);
    planned_release(&p);
}

static weft_node *of_op(weft_graph *g, const char *op)
{
    weft_node *n = weft_graph_first(g);
    while (n && strcmp(n->op->name, op) != 0)
        n = n->next;
    assert_non_null(n);
    return n;
}

static weft_value *too_late(weft_graph *g)
{
    weft_node *n = of_op(g, "silu_mul");
    weft_replace(g, n->outs[0], weft_add2(g, "silu_mul", "late", n->ins[0], n->ins[1]));
    return NULL;
}

static weft_value *other_dims(weft_graph *g)
{
    weft_replace(g, of_op(g, "silu_mul")->outs[0], of_op(g, "attention")->outs[0]);
    return NULL;
}

static weft_value *before_its_operand(weft_graph *g)
{
    weft_move_before(g, of_op(g, "silu_mul"), of_op(g, "embedding"));
    return NULL;
}

static weft_value *behind_its_reader(weft_graph *g)
{
    weft_move_before(g, of_op(g, "silu_mul"), NULL);
    return NULL;
}

static weft_value *total_of_a_total(weft_graph *g)
{
    weft_value *sum = weft_add1(g, "sum", "s", of_op(g, "silu_mul")->outs[0]);
    return weft_accumulate(g, weft_accumulate(g, sum, WEFT_SUM), WEFT_MAX);
}

static void refused(void **state)
{
    (void)state;
    refuse(too_late, "cannot be replaced by late: ");
    refuse(other_dims, " cannot be replaced by ");
    refuse(before_its_operand, " cannot stand before ");
    refuse(behind_its_reader, " cannot stand before the end: ");
    refuse(total_of_a_total, "cannot be accumulated: it is known only after the last micro-batch");
}

/* ---- moves ---- */

/* To the front as far as operands let it, and back. */
static void move_all(weft_graph *g)
{
    weft_node *n = of_op(g, "silu_mul"), *last = n->ins[0]->node, *after = n->next;
    for (weft_node *at = n->ins[1]->node; at; at = at->next)
        if (at == n->ins[0]->node)
            last = at;
    if (last == n->ins[0]->node)
        for (weft_node *at = last; at; at = at->next)
            if (at == n->ins[1]->node)
                last = at;
    weft_move_before(g, n, last->next);
    assert_ptr_equal(last->next, n);
    weft_move_before(g, n, after);
    assert_ptr_equal(n->next, after);
}

static void moved(void **state)
{
    (void)state;
    change = NULL;
    numbers plain = run("", "", 1, 0);
    change = move_all;
    same_on_meshes(WEFT_STAGE_GRAPH, plain);
    same_on_meshes(WEFT_STAGE_PLACED, plain);
    change = NULL;
}

/* ---- questions ---- */

static void asked(void **state)
{
    (void)state;
    weft_plugin model = changed_model();
    planned p;
    weft_cost cost;
    change = NULL;
    assert_int_equal(planned_init(&p, &(planned_spec){.axes = "tp=2 dp_shard=2",
                                                      .passes = "tp fsdp",
                                                      .model = &model,
                                                      .placed_only = true}),
                     WEFT_OK);
    weft_graph *g = p.g;
    const weft_node *n = of_op(g, "silu_mul");
    const weft_value *y = n->outs[0]; /* [batch 4/dp_shard, seq 8, ffn 26/tp] of f32 */
    assert_int_equal(weft_value_bytes(g, y), 4 * 4 * 8 * 26);
    assert_int_equal(weft_value_part_bytes(g, y), 4 * 2 * 8 * 13);
    weft_node_cost(g, n, &cost);
    assert_int_equal(cost.read, 2 * 4 * 2 * 8 * 13);
    assert_int_equal(cost.written, 4 * 2 * 8 * 13);
    assert_true(cost.flops >= 2 * 8 * 13 && cost.sent == 0);
    const weft_node *product = y->uses[0].node; /* [16 tokens, 13] by [13, 12] */
    weft_node_cost(g, product, &cost);
    assert_true(cost.flops == 2.0 * 16 * 13 * 12);

    int64_t sent = 0;
    for (const weft_node *m = weft_graph_first(g); m; m = m->next) {
        weft_node_cost(g, m, &cost);
        int64_t by_axis = 0;
        for (int a = 0; a < WEFT_MAX_AXES; a++)
            by_axis += cost.by_axis[a];
        assert_int_equal(by_axis, cost.sent);
        if (m->steps && m->ins[0]->weight) /* fsdp's gathers */
            assert_true(cost.by_axis[0] == 0 && cost.by_axis[1] > 0);
        sent += cost.sent;
    }
    assert_true(sent > 0);
    planned_release(&p);
}

/* What is to be computed again is not read, but what it is made from. */
static void mark_read(bool *read, const weft_value *v)
{
    read[v->id] = read[v->id] || !v->recompute;
    for (int i = 0; v->recompute && i < v->node->n_ins; i++)
        mark_read(read, v->node->ins[i]);
}

/* What is said before the backward is what the backward does. */
static void read_by_gradients(void **state)
{
    (void)state;
    planned p;
    weft_value *list[2 * WEFT_RULE_MAX_PARTS];
    assert_int_equal(
        planned_init(&p, &(planned_spec){.axes = "tp=2", .passes = "tp", .placed_only = true}),
        WEFT_OK);
    weft_graph *g = p.g;
    int n_values = weft_graph_values(g);
    bool *wanted = weft_alloc_zero((size_t)n_values, sizeof *wanted);
    bool *read = weft_alloc_zero((size_t)n_values, sizeof *read);
    assert_true(wanted && read);
    assert_int_equal(weft_gradient_wanted(g, wanted), WEFT_OK);
    for (const weft_node *n = weft_graph_first(g); n; n = n->next)
        for (int i = weft_gradient_reads(n, wanted, list) - 1; i >= 0; i--)
            mark_read(read, list[i]);
    const weft_node *last = weft_graph_last(g);
    assert_int_equal(weft_graph_differentiate(g), WEFT_OK);
    int n_read = 0;
    for (const weft_node *n = weft_graph_first(g); n != last->next; n = n->next)
        for (int r = 0; r < n->n_outs; r++) {
            bool is = false;
            for (int k = 0; k < n->outs[r]->n_uses; k++)
                is = is || n->outs[r]->uses[k].node->phase == WEFT_BACKWARD ||
                     n->outs[r]->uses[k].node->phase == WEFT_RECOMPUTE;
            if (n->outs[r] == g->loss)
                continue;
            if (is != read[n->outs[r]->id])
                fail_msg("%s is %sread by the backward", n->outs[r]->name, is ? "" : "not ");
            n_read += is;
        }
    assert_true(n_read > 20);
    weft_free(wanted);
    weft_free(read);
    planned_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(replaced),
                                       cmocka_unit_test(forgets_moves),
                                       cmocka_unit_test(totals),
                                       cmocka_unit_test(refused),
                                       cmocka_unit_test(moved),
                                       cmocka_unit_test(asked),
                                       cmocka_unit_test(read_by_gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
