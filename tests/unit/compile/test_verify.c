/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier: it passes what placement makes, and names the node and what is wrong with it when
 * one thing in a sound graph is broken. */
#include "../../lib/planned.h"
#include "../../lib/standard_ops.h"

#include <setjmp.h>
#include <string.h>
#include <weft/marks.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { TP, CP, DP };

static weft_value *value(weft_graph *g, const char *name)
{
    weft_value *v = weft_graph_find(g, name);
    if (!v)
        fail_msg("there is no value %s", name);
    return v;
}

static weft_value *operand(weft_graph *g, const char *name, int i)
{
    return value(g, name)->node->ins[i];
}

/* ---- one broken thing each ---- */

static void made_later(weft_graph *g)
{
    weft_node *n = value(g, "b0.n1")->node;
    weft_node_unlink(g, n);
    weft_node_link(g, n, NULL);
}
static void use_forgotten(weft_graph *g)
{
    operand(g, "b0.a", 1)->n_uses = 0;
}
static void use_invented(weft_graph *g)
{
    weft_value *v = operand(g, "b0.a", 1);
    v->uses[v->n_uses - 1].node = value(g, "b0.h")->node;
}
static void name_shared(weft_graph *g)
{
    value(g, "b0.g")->name = value(g, "b0.u")->name;
}
static void no_size(weft_graph *g)
{
    value(g, "b0.g")->dims[2].size = 0;
}
static void broken_grain(weft_graph *g)
{
    value(g, "b0.q")->dims[2].grain = 7;
}
static void other_size(weft_graph *g)
{
    value(g, "b0.a")->dims[2].size = 27;
}
static void dim_lost(weft_graph *g)
{
    value(g, "b0.a")->n_dims = 2;
}
static void operand_lost(weft_graph *g)
{
    value(g, "b0.o")->node->n_ins = 6;
}
static void not_placed(weft_graph *g)
{
    value(g, "b0.g")->placed = false;
}
static void other_result(weft_graph *g)
{
    weft_value *v = value(g, "b0.a");
    v->layout = weft_layout_clear(v->layout, TP);
}
static void other_operand(weft_graph *g)
{
    weft_value *v = operand(g, "b0.a", 1);
    v->layout = weft_layout_clear(v->layout, TP);
}
static void two_indices(weft_graph *g)
{
    weft_value *v = value(g, "b0.a");
    v->layout = weft_layout_cut(weft_layout_clear(v->layout, TP), 1, TP, false);
}
static void whole_is_cut(weft_graph *g)
{
    weft_value *v = operand(g, "b0.n1", 0);
    v->layout = weft_layout_cut(weft_layout_clear(v->layout, TP), 2, TP, false);
}
static void open_maximum(weft_graph *g)
{
    weft_value *v = operand(g, "b0.n1", 0);
    v->layout = weft_layout_set_open(v->layout, TP, WEFT_OPEN_MAX);
}
static void open_sum(weft_graph *g)
{
    weft_value *v = operand(g, "b0.a", 0);
    v->layout = weft_layout_set_open(v->layout, TP, WEFT_OPEN_SUM);
}
static void half_open(weft_graph *g)
{
    weft_value *v = operand(g, "b0.h", 1);
    v->layout = weft_layout_set_open(v->layout, TP, WEFT_OPEN_SUM);
}
static void not_contracted(weft_graph *g)
{
    weft_value *v = value(g, "b0.d");
    v->layout = weft_layout_clear(v->layout, TP);
}
static void other_order(weft_graph *g)
{
    weft_value *v = value(g, "b0.h"); /* seq/cp/tp */
    v->layout = weft_layout_clear(weft_layout_clear(v->layout, TP), CP);
    v->layout = weft_layout_cut(weft_layout_cut(v->layout, 1, TP, false), 1, CP, false);
}
static void between_grains(weft_graph *g)
{
    weft_value *v = value(g, "b0.q_rot");
    v->layout = weft_layout_cut(weft_layout_clear(v->layout, TP), 2, TP, true);
}
static void gap(weft_graph *g)
{
    value(g, "b0.a")->layout.bits = 0x81; /* place 1 of dim 0, and nobody at place 0 */
}
static void same_place_twice(weft_graph *g)
{
    value(g, "b0.a")->layout.bits = 0x8080;
}
static void no_such_dim(weft_graph *g)
{
    value(g, "b0.a")->layout.bits = 0x80 | 5 << 3;
}
static void no_such_axis(weft_graph *g)
{
    value(g, "b0.a")->layout = weft_layout_set_open(value(g, "b0.a")->layout, 6, WEFT_OPEN_SUM);
}
static void two_kinds(weft_graph *g)
{
    value(g, "b0.d")->layout.bits = WEFT_OPEN_SUM | WEFT_OPEN_MAX << 8;
}
static void other_axis(weft_graph *g)
{
    ((weft_step *)(uintptr_t)value(g, "b0.n1.r")->node->steps)->axes[0] = DP;
}
static void other_move(weft_graph *g)
{
    ((weft_step *)(uintptr_t)value(g, "b0.d.r")->node->steps)->move = WEFT_ALL_REDUCE;
}
static void no_steps(weft_graph *g)
{
    value(g, "b0.d.r")->node->n_steps = 0;
}
static void wire_rounds(weft_graph *g)
{
    value(g, "b0.d.r")->dtype = WEFT_BF16;
}
static void too_early(weft_graph *g)
{
    value(g, "b0.a")->node->scope = WEFT_STEP_BEGIN;
}
static void sum_too_early(weft_graph *g)
{
    value(g, "grad_norm")->node->scope = WEFT_MICRO_BATCH;
}
static void never(weft_graph *g)
{
    value(g, "b0.a")->node->scope = WEFT_SCOPE_NONE;
}
static void like_later(weft_graph *g)
{
    for (weft_node *n = weft_graph_first(g); n; n = n->next)
        if (n->like) {
            n->like = value(g, "grad_norm");
            return;
        }
}
static void becomes_other(weft_graph *g)
{
    for (weft_node *n = weft_graph_first(g); n; n = n->next)
        if (n->n_outs == 3 && n->outs[1]->update_of) {
            n->outs[1]->update_of = value(g, "model.norm.weight");
            return;
        }
}
/* Its sequence is cut over cp, and so goes round a ring of two. */
static void turned(weft_graph *g)
{
    weft_value *v = value(g, "b0.a");
    v->turn_dim = 1;
    v->turn = 1;
}
static void turned_operand(weft_graph *g)
{
    weft_value *v = operand(g, "b0.h", 1);
    v->turn_dim = 1;
    v->turn = 1;
}
static void turned_too_far(weft_graph *g)
{
    weft_value *v = value(g, "b0.a");
    v->turn_dim = 1;
    v->turn = 8;
}
static void born_turned(weft_graph *g)
{
    weft_value *v = value(g, "ids");
    v->turn_dim = 1;
    v->turn = 1;
}

static const struct broken {
    const char *how;
    void (*make)(weft_graph *g);
    const char *words;
} broken[] = {
    {"made later", made_later, "reads a value that is made later: b0.n1"},
    {"use forgotten", use_forgotten, "b0.a = silu_mul (llama3): is not listed as a use of b0.u"},
    {"use invented", use_invented, "lists a use that does not read it"},
    {"name shared", name_shared, "shares its name with another value"},
    {"no size", no_size, "b0.g = linear (llama3): has a dim without a name or a sound size"},
    {"broken grain", broken_grain,
     "b0.q = linear (llama3): has a dim without a name or a sound size"},
    {"other size", other_size, "b0.a = silu_mul (llama3): one index has two sizes"},
    {"dim lost", dim_lost, "b0.d = linear (llama3): does not fit the index rule of its op"},
    {"operand lost", operand_lost,
     "b0.o = attention (llama3): does not fit the index rule of its op"},
    {"not placed", not_placed, "b0.g = linear (llama3): has no layout"},
    {"other result", other_result,
     "b0.a = silu_mul (llama3): its result's layout does not follow from the operands over tp"},
    {"other operand", other_operand, "b0.a = silu_mul (llama3): operands disagree over tp"},
    {"two indices", two_indices,
     "b0.a = silu_mul (llama3): its result's layout does not follow from the operands over tp"},
    {"whole is cut", whole_is_cut,
     "b0.n1 = rms_norm (llama3): an axis cuts an index that must be whole, or a value that is an "
     "open sum over it: tp"},
    {"open maximum", open_maximum, "b0.n1 = rms_norm (llama3): reads an open maximum"},
    {"open sum", open_sum,
     "b0.a = silu_mul (llama3): an axis cuts an index that must be whole, or a value that is an "
     "open sum over it: tp"},
    {"half open", half_open,
     "b0.h = add (llama3): an axis cuts an index that must be whole, or a value that is an open "
     "sum over it: tp"},
    {"not contracted", not_contracted,
     "b0.d = linear (llama3): its result's layout does not follow from the operands over tp"},
    {"other order", other_order, "b0.h = add (llama3): operands cut an index in different orders"},
    {"between grains", between_grains,
     "b0.q_rot = rope (llama3): an index is cut between grains here and at grains there"},
    {"gap", gap, "b0.a = silu_mul (llama3): has a layout that makes no sense: b0.a"},
    {"same place twice", same_place_twice, "has a layout that makes no sense: b0.a"},
    {"no such dim", no_such_dim, "has a layout that makes no sense: b0.a"},
    {"no such axis", no_such_axis, "has a layout that makes no sense: b0.a"},
    {"two kinds", two_kinds, "has a layout that makes no sense: b0.d"},
    {"other axis", other_axis,
     "b0.n1.r = redistribute (tp): has a step that does not lead where it says: all_gather"},
    {"other move", other_move,
     "b0.d.r = redistribute (tp): has a step that does not lead where it says: all_reduce"},
    {"no steps", no_steps, "b0.d.r = redistribute (tp): has steps that do not lead to its layout"},
    {"wire rounds", wire_rounds,
     "b0.d.r = redistribute (tp): changes more than the layout of b0.d"},
    {"too early", too_early, "b0.a = silu_mul (llama3): runs before its operand is known: b0.g"},
    {"sum too early", sum_too_early, "grad_norm = sqrt (adamw): runs before its operand is known"},
    {"never", never, "b0.a = silu_mul (llama3): has no scope"},
    {"like later", like_later, "takes its shape from a value that is made later: grad_norm"},
    {"becomes other", becomes_other,
     "differs in dims, dtype or layout from the state that it becomes: model.norm.weight"},
    {"turned", turned, "b0.a = silu_mul (llama3): has shards of other ranks of one index"},
    {"turned operand", turned_operand,
     "b0.h = add (llama3): has shards of other ranks of one index"},
    {"turned too far", turned_too_far,
     "b0.a = silu_mul (llama3): is passed round a ring that does not exist: b0.a"},
    {"born turned", born_turned,
     "ids = input (llama3): is passed round a ring that does not exist"},
};

static void everything_broken_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        planned p;
        weft_error err = {0};
        planned_spec spec = {.axes = "tp=2 cp=2 dp_shard=2", .passes = "tp cp fsdp"};
        assert_int_equal(planned_init(&p, &spec), WEFT_OK);
        assert_int_equal(weft_graph_verify(p.g, &err), WEFT_OK);
        broken[i].make(p.g);
        if (weft_graph_verify(p.g, &err) != WEFT_ERR_INTERNAL)
            fail_msg("%s: not found", broken[i].how);
        bool said = false;
        for (int k = 0; k < err.n_items; k++)
            said = said || strstr(err.items[k].text, broken[i].words);
        for (int k = 0; !said && k < err.n_items; k++)
            print_message("  %s\n", err.items[k].text);
        if (!said)
            fail_msg("%s: nobody says \"%s\"", broken[i].how, broken[i].words);
        weft_error_release(&err);
        planned_release(&p);
    }
}

/* ---- before placement: what a pass may get wrong ---- */

static void model_of(weft_graph *g)
{
    weft_graph_dim(g, "embed", 8, 1);
    weft_graph_dim(g, "ffn", 16, 1);
    weft_graph_dim(g, "vocab", 10, 1);
}

static weft_value *tokens(weft_graph *g)
{
    return weft_add2(g, "embedding", "x", weft_add_input(g, "ids"),
                     weft_add_parameter(g, "table", "vocab embed", (weft_init){0}));
}

static void adds_two_sizes(weft_graph *g)
{
    weft_value *x = tokens(g);
    weft_add2(g, "add", "y", x,
              weft_linear(g, "u", x, weft_add_parameter(g, "up", "ffn embed", (weft_init){0})));
}
static void one_operand(weft_graph *g)
{
    weft_add1(g, "silu_mul", "y", tokens(g));
}
static void nothing_in_common(weft_graph *g)
{
    weft_linear(g, "y", tokens(g), weft_add_parameter(g, "w", "ffn vocab", (weft_init){0}));
}
static void unknown_op(weft_graph *g)
{
    weft_add1(g, "conv9", "y", tokens(g));
}
static void unknown_dim(weft_graph *g)
{
    weft_add_parameter(g, "w", "ffn width", (weft_init){0});
}
static void unknown_input(weft_graph *g)
{
    weft_add_input(g, "colours");
}
static void twice(weft_graph *g)
{
    weft_add_parameter(g, "w", "ffn embed", (weft_init){0});
    weft_add_parameter(g, "w", "ffn embed", (weft_init){0});
}
static void other_sizes(weft_graph *g)
{
    weft_graph_dim(g, "embed", 9, 1);
}
static void passes_null_on(weft_graph *g)
{
    weft_value *x = weft_add1(g, "gelu", "a", weft_add1(g, "conv9", "y", tokens(g)));
    weft_set_role(g, x, "residual");
    weft_set_int(g, x, "key", 1);
    weft_add_head(g, x, NULL);
    assert_null(x);
}

static void reported_twice(weft_graph *g)
{
    weft_value *n = weft_add1(g, "sum", "n", tokens(g));
    weft_add_report(g, "r", n);
    weft_add_report(g, "r", n);
}
static void reports_many(weft_graph *g)
{
    weft_add_report(g, "r", tokens(g));
}
static void state_twice(weft_graph *g)
{
    weft_value *w = weft_add_parameter(g, "w", "ffn embed", (weft_init){0});
    weft_add_state_like(g, "m", w, WEFT_F32, WEFT_STATE_OPTIMIZER);
    weft_add_state_like(g, "m", w, WEFT_F32, WEFT_STATE_OPTIMIZER);
}
static void updates_tokens(weft_graph *g)
{
    weft_value *x = tokens(g);
    weft_set_update(g, x, x);
}
static void updates_early(weft_graph *g)
{
    weft_value *w = weft_add_parameter(g, "w", "ffn embed", (weft_init){0});
    weft_set_update(g, w, w);
}
static void updates_twice(weft_graph *g)
{
    weft_value *x = tokens(g), *w = weft_graph_find(g, "table");
    weft_add_head(g, x, w);
    assert_int_equal(weft_graph_place(g), WEFT_OK);
    assert_int_equal(weft_graph_differentiate(g), WEFT_OK);
    weft_set_update(g, w, w->gradient);
    assert_int_equal(weft_graph_status(g), WEFT_OK);
    weft_set_update(g, w, w->gradient);
}
/* What could not be made is NULL, and nobody complains of it again. */
static void no_results(weft_graph *g)
{
    weft_value *x = tokens(g), *outs[3] = {x, x, x};
    weft_add_many(g, "conv9", NULL, 1, &x, 3, outs);
    for (int i = 0; i < 3; i++)
        assert_null(outs[i]);
    weft_add_input(g, "colours");
    weft_add_state_like(g, "x", x, WEFT_F32, WEFT_STATE_OPTIMIZER);
    weft_add_report(g, "r", x);
    weft_set_update(g, x, x);
    weft_add_many(g, "silu_mul", NULL, 2, outs, 3, outs);
    assert_int_equal(weft_graph_error(g)->n_items, 1);
}
/* One pass makes a value, and is done; another breaks it. */
static void made_integer(weft_graph *g)
{
    weft_value *x = tokens(g);
    assert_int_equal(weft_graph_verify(g, weft_graph_error(g)), WEFT_OK);
    x->dtype = WEFT_BF16;
    assert_int_equal(weft_graph_verify(g, weft_graph_error(g)), WEFT_OK);
    x->dtype = WEFT_I32;
}
static void made_number(weft_graph *g)
{
    tokens(g);
    assert_int_equal(weft_graph_verify(g, weft_graph_error(g)), WEFT_OK);
    weft_add_input(g, "ids")->dtype = WEFT_F32;
}
static void no_dtype(weft_graph *g)
{
    tokens(g)->dtype = WEFT_DTYPES;
}
static void prefetches_gelu(weft_graph *g)
{
    weft_set_mark(g, weft_add1(g, "gelu", "y", tokens(g)), WEFT_MARK_PREFETCH, 1);
}
static void no_such_mark(weft_graph *g)
{
    weft_set_mark(g, tokens(g), WEFT_MARKS, 1);
}
static void twice_wide(weft_graph *g)
{
    weft_set_mark(g, tokens(g), WEFT_MARK_WIDE, 2);
}
/* Also where it is set as an attribute. */
static void passes_gelu_on(weft_graph *g)
{
    weft_set_int(g, weft_add1(g, "gelu", "y", tokens(g)), "pass_on", 1);
}
static void wide_text(weft_graph *g)
{
    weft_set_text(g, tokens(g), "wide", "yes");
}
static void once_a_step(weft_graph *g)
{
    weft_value *y = weft_add1(g, "gelu", "y", weft_add1(g, "gelu", "h", tokens(g)));
    y->node->scope = WEFT_STEP_BEGIN;
}

static void builders_are_checked(void **state)
{
    (void)state;
    static const struct {
        void (*make)(weft_graph *g);
        const char *words;
    } cases[] = {
        {adds_two_sizes, "y = add (core): one index has two sizes: *2"},
        {one_operand, "index rule"},
        {nothing_in_common,
         "linear of x [ batch seq embed ] and w [ ffn vocab ]: no dim name in common"},
        {unknown_op, "there is no op 'conv9'"},
        {unknown_dim, "w: dim 'width' is not declared"},
        {unknown_input, "there is no input called 'colours'"},
        {twice, "parameter 'w' is added twice"},
        {other_sizes, "dim 'embed' is declared as 8 and as 9"},
        {passes_null_on, "there is no op 'conv9'"},
        {reported_twice, "report 'r' is there already (core); choose another name"},
        {reports_many, "report 'r': x has 3 dims; a report is one number"},
        {state_twice, "state 'm': there is a value of this name already (core)"},
        {updates_tokens, "x cannot be updated: it is neither a parameter nor state"},
        {updates_early, "w cannot be updated yet; let a joint pass or a gradient function do it"},
        {updates_twice, "table is updated twice, first by core; only one plugin may do it, once"},
        {no_results, "there is no op 'conv9'"},
        {made_integer, "x = embedding (core): was not an integer, and is now i32"},
        {made_number, "ids = input (core): was i32, and is now f32"},
        {no_dtype, "x = embedding (core): has an unknown dtype: x"},
        {prefetches_gelu,
         "y = gelu (core): the mark 'prefetch' is not for this op, but for gathers"},
        {no_such_mark, "there is no mark 14 for x"},
        {twice_wide, "x = embedding (core): the mark 'wide' has a value that makes no sense"},
        {passes_gelu_on, "y = gelu (core): the mark 'pass_on' is not for this op, but for casts"},
        {wide_text, "x = embedding (core): the mark 'wide' is a whole number"},
        {once_a_step, "y = gelu (core): runs before its operand is known: h"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_ops ops;
        weft_graph *g;
        weft_error err = {0};
        assert_int_equal(standard_ops_init(&ops, NULL, NULL, 0, &err), WEFT_OK);
        weft_graph_config config = {
            .mode = WEFT_MODE_TRAIN, .ops = &ops, .dtype = WEFT_F32, .sizes = {4, 6, 1, 0}};
        assert_int_equal(weft_graph_create(&config, &g, &err), WEFT_OK);
        model_of(g);
        cases[i].make(g);
        assert_int_not_equal(weft_graph_verify(g, weft_graph_error(g)), WEFT_OK);
        bool said = false;
        for (int k = 0; k < weft_graph_error(g)->n_items; k++)
            said = said || strstr(weft_graph_error(g)->items[k].text, cases[i].words);
        if (!said)
            fail_msg("\"%s\", not \"%s\"", weft_error_text(weft_graph_error(g)), cases[i].words);
        weft_graph_destroy(g);
        weft_ops_release(&ops);
        weft_error_release(&err);
    }
}

/* Every allocation fails once: an error, never a crash or half a graph that passes for one. */
static void memory_fails(void **state)
{
    (void)state;
    planned p;
    planned_spec spec = {
        .axes = "tp=2 dp_shard=2",
        .passes = "bf16 tp fsdp ac",
        .ini = "n_layers = 1\ndim = 8\nn_heads = 2\nn_kv_heads = 2\nvocab_size = 10\n"};
    weft_alloc_fail_at(0);
    assert_int_equal(planned_init(&p, &spec), WEFT_OK);
    long n = weft_alloc_count();
    planned_release(&p);
    assert_true(n > 50);
    for (long k = 1; k <= n; k++) {
        weft_alloc_fail_at(k);
        weft_status s = planned_init(&p, &spec);
        weft_alloc_fail_at(0);
        if (s == WEFT_OK) /* a log line or a message may be lost */
            assert_int_equal(weft_graph_verify(p.g, &p.err), WEFT_OK);
        planned_release(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(everything_broken_is_named),
                                       cmocka_unit_test(builders_are_checked),
                                       cmocka_unit_test(memory_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
