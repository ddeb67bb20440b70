/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients as functions: the same graph as the statements make, differences where no statement
 * would do, and what is wrong with one named. */
#include "../../lib/planned.h"
#include "../../lib/sim.h"
#include "../../lib/standard_ops.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

extern const weft_plugin llama3_LTX_plugin;

/* ---- the statements of three standard ops, said as functions ---- */

static weft_status linear_function(weft_backward *b, const weft_node *n, weft_value *const *dys,
                                   weft_value **dxs, weft_error *err)
{
    (void)err;
    if (weft_backward_wants(b, 0))
        dxs[0] =
            weft_backward_add(b, "linear_dx", 0, 2,
                              (weft_value *[]){dys[0], weft_backward_saved(b, n->ins[1])}, NULL);
    if (weft_backward_wants(b, 1))
        dxs[1] =
            weft_backward_add(b, "linear_dw", 1, 2,
                              (weft_value *[]){dys[0], weft_backward_saved(b, n->ins[0])}, NULL);
    return WEFT_OK;
}

static weft_status norm_function(weft_backward *b, const weft_node *n, weft_value *const *dys,
                                 weft_value **dxs, weft_error *err)
{
    (void)err;
    weft_value *x = weft_backward_saved(b, n->ins[0]);
    if (weft_backward_wants(b, 0))
        dxs[0] =
            weft_backward_add(b, "rms_norm_dx", 0, 3,
                              (weft_value *[]){x, weft_backward_saved(b, n->ins[1]), dys[0]}, NULL);
    if (weft_backward_wants(b, 1))
        dxs[1] = weft_backward_add(b, "rms_norm_dw", 1, 2, (weft_value *[]){x, dys[0]}, NULL);
    return WEFT_OK;
}

static weft_status silu_mul_function(weft_backward *b, const weft_node *n, weft_value *const *dys,
                                     weft_value **dxs, weft_error *err)
{
    (void)err;
    weft_value *ins[] = {weft_backward_saved(b, n->ins[0]), weft_backward_saved(b, n->ins[1]),
                         dys[0]};
    weft_backward_add_many(b, "silu_mul_dx", 2, (const int[]){0, 1}, 3, ins, NULL, dxs);
    return WEFT_OK;
}

static const struct {
    const char *name, *reads;
    weft_status (*function)(weft_backward *, const weft_node *, weft_value *const *, weft_value **,
                            weft_error *);
} forms[] = {{"linear", "0 1", linear_function},
             {"rms_norm", "all", norm_function},
             {"silu_mul", "1 0", silu_mul_function}};

static const char *const meshes[][2] = {
    {"", ""},
    {"", "ac:mode=full"},
    {"tp=2 dp_shard=2", "tp bf16 fsdp ac:mode=full"},
    {"tp=3 dp_shard=2 dp_replicate=2", "fsdp:zero=2 ac tp"},
};

static void print(const planned_spec *spec, weft_text *text)
{
    planned p;
    if (planned_init(&p, spec))
        fail_msg("mesh %s, passes %s: %s", spec->axes, spec->passes, weft_error_text(&p.err));
    weft_graph_print(p.g, WEFT_PRINT_WHOLE, text);
    planned_release(&p);
}

/* Node for node, layout for layout: so what is computed is the same to the bit. */
static void as_statements(void **state)
{
    (void)state;
    weft_ops ops;
    weft_error err = {0};
    assert_int_equal(standard_ops_init(&ops, NULL, NULL, 0, &err), WEFT_OK);
    for (size_t m = 0; m < sizeof meshes / sizeof meshes[0]; m++)
        for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
            planned_spec spec = {.axes = meshes[m][0], .passes = meshes[m][1], .micro = 2};
            weft_op op = *weft_ops_find(&ops, forms[i].name);
            weft_text statements = {0}, function = {0};
            print(&spec, &statements);
            op.grad = NULL;
            op.grad_of = "0 1";
            op.grad_reads = forms[i].reads;
            op.differentiate = forms[i].function;
            spec.instead = &op;
            print(&spec, &function);
            if (strcmp(weft_text_get(&statements), weft_text_get(&function)) != 0)
                fail_msg("mesh %s, passes %s: %s is differentiated otherwise", spec.axes,
                         spec.passes, op.name);
            weft_text_release(&statements);
            weft_text_release(&function);
        }
    weft_ops_release(&ops);
}

/* ---- a gradient of several nodes ---- */

/* y = x * x + x, by elements; its gradient is two products and a sum, which no statement says. */
static weft_status bend(const weft_call *call, weft_error *err)
{
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++) {
        double x = weft_tensor_get(&call->ins[0], i), y = x * x + x;
        weft_tensor_set(&call->outs[0], i,
                        call->accumulate ? weft_tensor_get(&call->outs[0], i) + y : y);
    }
    return WEFT_OK;
}

static weft_status times(const weft_call *call, weft_error *err)
{
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++) {
        double y = weft_tensor_get(&call->ins[0], i) * weft_tensor_get(&call->ins[1], i);
        weft_tensor_set(&call->outs[0], i,
                        call->accumulate ? weft_tensor_get(&call->outs[0], i) + y : y);
    }
    return WEFT_OK;
}

static weft_status bend_gradient(weft_backward *b, const weft_node *n, weft_value *const *dys,
                                 weft_value **dxs, weft_error *err)
{
    (void)err;
    weft_graph *g = weft_backward_graph(b);
    weft_value *part = weft_add2(g, "times", NULL, weft_backward_saved(b, n->ins[0]), dys[0]);
    dxs[0] = weft_add3(g, "add", NULL, part, part, dys[0]);
    return WEFT_OK;
}

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

/* The largest gradient of a step becomes state. */
static weft_status remember(weft_backward *b, const weft_node *n, weft_value *const *dys,
                            weft_value **dxs, weft_error *err)
{
    weft_graph *g = weft_backward_graph(b);
    weft_value *most = weft_add1(g, "largest", NULL, dys[0]);
    weft_value *total = weft_accumulate(g, most, WEFT_MAX);
    weft_set_update(
        g, weft_add_state_like(g, "largest_gradient", total, WEFT_F32, WEFT_STATE_HISTORY), total);
    return bend_gradient(b, n, dys, dxs, err);
}

static weft_status (*function_now)(weft_backward *, const weft_node *, weft_value *const *,
                                   weft_value **, weft_error *);

static weft_status any_gradient(weft_backward *b, const weft_node *n, weft_value *const *dys,
                                weft_value **dxs, weft_error *err)
{
    return (function_now ? function_now : bend_gradient)(b, n, dys, dxs, err);
}

static const weft_op bend_op = {.name = "bend",
                                .summary = "x * x + x",
                                .rule = "* -> *",
                                .plain = bend,
                                .grad_of = "0",
                                .grad_reads = "0",
                                .differentiate = any_gradient};
static const weft_op times_op = {
    .name = "times", .summary = "x * y", .rule = "*, * -> *", .linear = "0, 1", .plain = times};
static const weft_op largest_op = {.name = "largest",
                                   .summary = "the largest element",
                                   .rule = "b s e ->",
                                   .flags = WEFT_OP_MAX,
                                   .plain = largest};
static const weft_op *const ops[] = {&bend_op, &times_op, &largest_op, NULL};

/* llama3, whose first residual stream is bent. */
static void build(void *self, weft_graph *g)
{
    llama3_LTX_plugin.contributions[0].graph(self, g);
    if (weft_graph_status(g))
        return;
    weft_value *x = weft_graph_first(g)->outs[0];
    for (weft_node *n = weft_graph_first(g); n; n = n->next)
        if (strcmp(n->op->name, "embedding") == 0)
            x = n->outs[0];
    weft_graph_at(g, x->node->next);
    weft_value *y = weft_add1(g, "bend", "bent", x);
    weft_graph_at(g, NULL);
    for (int i = x->n_uses - 1; i >= 0; i--)
        if (x->uses[i].node != y->node)
            weft_node_set_operand(g, x->uses[i].node, x->uses[i].operand, y);
    y->recompute = true;
}

static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = build}, {.kind = WEFT_END}};

static weft_plugin bent_model(void)
{
    weft_plugin model = llama3_LTX_plugin;
    model.contributions = contributions;
    model.ops = ops;
    return model;
}

static const weft_value *table_of(const planned *p)
{
    for (int i = 0; weft_graph_parameter(p->g, i); i++)
        if (strstr(weft_graph_parameter(p->g, i)->name, "embed"))
            return weft_graph_parameter(p->g, i);
    return NULL;
}

/* The loss with one element of the table moved. */
static double loss_at(planned *p, int64_t element, double by)
{
    sim m;
    sim_init(&m, p->g, 1);
    const weft_tensor *w = &m.parts[table_of(p)->id * m.ranks];
    weft_tensor_set(w, element, weft_tensor_get(w, element) + by);
    sim_run(&m);
    double loss = sim_scalar(&m, p->g->loss_report);
    sim_release(&m);
    return loss;
}

static void against_differences(void **state)
{
    (void)state;
    weft_plugin model = bent_model();
    planned p;
    sim m;
    const planned_spec spec = {.axes = "", .passes = "", .model = &model, .micro = 2};
    if (planned_init(&p, &spec))
        fail_msg("%s", weft_error_text(&p.err));
    sim_init(&m, p.g, 1);
    sim_run(&m);
    weft_tensor dw = sim_value(&m, table_of(&p)->gradient);
    const double h = 1e-4;
    int moved = 0;
    for (int64_t i = 0; i < weft_tensor_count(&dw); i += 37) {
        double want = (loss_at(&p, i, h) - loss_at(&p, i, -h)) / (2 * h);
        double have = weft_tensor_get(&dw, i);
        moved += fabs(want) > 1e-5;
        if (fabs(have - want) > 1e-6 + 1e-4 * fabs(want))
            fail_msg("element %d: %.9g, and by differences %.9g", (int)i, have, want);
    }
    assert_true(moved > 3);
    sim_release(&m);
    planned_release(&p);
}

static void run(const planned_spec *spec, double *loss, double *norm)
{
    planned p;
    sim m;
    if (planned_init(&p, spec))
        fail_msg("mesh %s, passes %s: %s", spec->axes, spec->passes, weft_error_text(&p.err));
    sim_init(&m, p.g, 1);
    sim_run(&m);
    *loss = sim_scalar(&m, p.g->loss_report);
    *norm = sim_scalar(&m, planned_report(&p, "grad_norm"));
    sim_release(&m);
    planned_release(&p);
}

static void the_same_on_meshes(void **state)
{
    (void)state;
    weft_plugin model = bent_model();
    double loss, norm;
    run(&(planned_spec){.axes = "", .passes = "", .model = &model, .batch = 8}, &loss, &norm);
    for (size_t m = 0; m < sizeof meshes / sizeof meshes[0]; m++)
        for (uint64_t dice = 0; dice < 3; dice++) {
            double l, n;
            run(&(planned_spec){.axes = meshes[m][0],
                                .passes = meshes[m][1],
                                .model = &model,
                                .micro = 2,
                                .dice = dice},
                &l, &n);
            if (fabs(l - loss) > 1e-12 * fabs(loss) || fabs(n - norm) > 1e-11 * norm)
                fail_msg("mesh %s, passes %s: %.15g %.15g, on one rank %.15g %.15g", meshes[m][0],
                         meshes[m][1], l, n, loss, norm);
        }
}

static double remembered(const char *axes, const char *passes, int64_t micro)
{
    weft_plugin model = bent_model();
    planned p;
    sim m;
    const planned_spec spec = {
        .axes = axes, .passes = passes, .model = &model, .batch = 8 / micro, .micro = micro};
    if (planned_init(&p, &spec))
        fail_msg("mesh %s, passes %s: %s", axes, passes, weft_error_text(&p.err));
    sim_init(&m, p.g, 1);
    sim_run(&m);
    double x = sim_scalar(&m, weft_graph_find(p.g, "largest_gradient"));
    sim_release(&m);
    planned_release(&p);
    return x;
}

static void changes_state(void **state)
{
    (void)state;
    function_now = remember;
    double want = remembered("", "", 1);
    assert_true(want > 0);
    for (size_t m = 0; m < sizeof meshes / sizeof meshes[0]; m++)
        for (int64_t micro = 1; micro <= 2; micro++) {
            double x = remembered(meshes[m][0], meshes[m][1], micro);
            if (fabs(x - want) > 1e-12 * want)
                fail_msg("mesh %s, %d micro-batches: %.15g, on one rank %.15g", meshes[m][0],
                         (int)micro, x, want);
        }
    function_now = NULL;
}

/* The maximum of a sharded value is open, and so is its total: it is closed behind the last
 * micro-batch. */
static void maxima_close_once(void **state)
{
    (void)state;
    weft_plugin model = bent_model();
    function_now = remember;
    int closed = 0;
    for (size_t m = 0; m < sizeof meshes / sizeof meshes[0]; m++) {
        planned p;
        const planned_spec spec = {
            .axes = meshes[m][0], .passes = meshes[m][1], .model = &model, .batch = 4, .micro = 2};
        if (planned_init(&p, &spec))
            fail_msg("mesh %s: %s", meshes[m][0], weft_error_text(&p.err));
        for (const weft_node *n = weft_graph_first(p.g); n; n = n->next) {
            bool total = strcmp(n->n_ins ? n->ins[0]->node->op->name : "", "accumulate_max") == 0;
            if (n->n_ins && strcmp(n->ins[0]->node->op->name, "largest") == 0 && n->steps)
                fail_msg("mesh %s, passes %s: the maximum is closed in every micro-batch",
                         meshes[m][0], meshes[m][1]);
            closed += total && n->steps;
        }
        planned_release(&p);
    }
    assert_true(closed >= 2);
    function_now = NULL;
}

/* ---- what is wrong ---- */

#define WRONG(name)                                                                                \
    static weft_status name(weft_backward *b, const weft_node *n, weft_value *const *dys,          \
                            weft_value **dxs, weft_error *err)

WRONG(reads_the_result)
{
    (void)err;
    dxs[0] = weft_add2(weft_backward_graph(b), "times", NULL, weft_backward_saved(b, n->outs[0]),
                       dys[0]);
    return WEFT_OK;
}

WRONG(reads_it_unasked)
{
    (void)err;
    dxs[0] = weft_add2(weft_backward_graph(b), "times", NULL, n->outs[0], dys[0]);
    return WEFT_OK;
}

WRONG(wrong_dims)
{
    (void)err, (void)n;
    dxs[0] = weft_add1(weft_backward_graph(b), "sum", NULL, dys[0]);
    return WEFT_OK;
}

WRONG(wrong_dtype)
{
    (void)err, (void)n;
    weft_graph *g = weft_backward_graph(b);
    dxs[0] = weft_add_full(g, "cast", NULL, 1, &dys[0], 1, NULL,
                           &(weft_attr){.key = "dtype", .kind = WEFT_ATTR_TEXT, .text = "bf16"}, 1);
    return WEFT_OK;
}

WRONG(without_words)
{
    (void)b, (void)n, (void)dys, (void)dxs, (void)err;
    return WEFT_ERR_RUN;
}

WRONG(gives_nothing)
{
    (void)b, (void)n, (void)dys, (void)dxs, (void)err;
    return WEFT_OK;
}

WRONG(wrong_operand)
{
    (void)dxs, (void)err;
    weft_backward_add(b, "times", 2, 2, (weft_value *[]){n->ins[0], dys[0]}, NULL);
    return WEFT_OK;
}

WRONG(operand_is_null)
{
    (void)n, (void)err;
    dxs[0] = weft_backward_add(b, "times", 0, 2, (weft_value *[]){dys[0], NULL}, NULL);
    return WEFT_OK;
}

WRONG(unknown_op)
{
    (void)n, (void)err;
    dxs[0] = weft_backward_add(b, "bend_dx", 0, 1, &dys[0], NULL);
    return WEFT_OK;
}

static void wrong_ones(void **state)
{
    (void)state;
    static const struct {
        weft_status (*function)(weft_backward *, const weft_node *, weft_value *const *,
                                weft_value **, weft_error *);
        const char *words;
    } cases[] = {
        {reads_the_result, "it reads bent, which is not among the grad_reads of op bend"},
        {reads_it_unasked, "it reads bent, which is to be computed again: ask weft_backward_saved"},
        {wrong_dims, "its gradient for operand 0 is "},
        {wrong_dtype, "is bf16 and should be f32: make it with weft_backward_add, or cast it"},
        {without_words, "failed in differentiate of op bend without a message"},
        {unknown_op, "the gradient of bend needs op 'bend_dx', which does not exist"},
        {gives_nothing, "it leaves dxs[0] NULL, and the gradient of operand 0, "},
        {wrong_operand, "it adds times for operand 2, and there are 1, from 0"},
        {operand_is_null, "operand 1 of the times that it adds is NULL"},
    };
    static const char whose[] = "weft, op bend, in the gradient (differentiate) of bent: ";
    weft_plugin model = bent_model();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        planned p;
        function_now = cases[i].function;
        assert_true(planned_init(&p, &(planned_spec){.axes = "", .passes = "", .model = &model}));
        weft_error *err = weft_graph_error(p.g);
        if (!strstr(weft_error_text(err), cases[i].words))
            fail_msg("case %d: %s", (int)i, weft_error_text(err));
        for (int k = 0; k < err->n_items; k++)
            assert_memory_equal(err->items[k].text, whose, strlen(whose));
        planned_release(&p);
        function_now = NULL;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_statements),      cmocka_unit_test(against_differences),
        cmocka_unit_test(the_same_on_meshes), cmocka_unit_test(changes_state),
        cmocka_unit_test(maxima_close_once),  cmocka_unit_test(wrong_ones)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
