/* SPDX-License-Identifier: Apache-2.0 */
/* State beside parameters: shapes, kinds, where it lies, what becomes of it, and when. */
#include "../../lib/graph_text.h"
#include "../../lib/small_model.h"

/* What the table says of dims counts for state, too; in either stage. */
static void placed_by_the_table(void **state)
{
    (void)state;
    model m;
    begin(&m);
    weft_value *early =
        weft_add_state(m.g, "early", "embed ffn", WEFT_F64, one, WEFT_STATE_HISTORY);
    weft_value *alike = weft_add_state_like(m.g, "alike", m.w, WEFT_F32, WEFT_STATE_AVERAGE);
    weft_add_rule(m.g, WEFT_RULE_PARAM, "up", "embed", "dp"); /* not of what is called otherwise */
    differentiate(&m);
    weft_value *late = weft_add_state(m.g, "late", "ffn", WEFT_I32, zero, WEFT_STATE_BUFFER);
    weft_value *number = weft_add_state(m.g, "number", "", WEFT_F32, zero, WEFT_STATE_OPTIMIZER);
    assert_int_equal(weft_graph_status(m.g), WEFT_OK);
    assert_int_equal(early->n_dims, 2);
    assert_int_equal(early->dtype, WEFT_F64);
    assert_int_equal(early->init.kind, WEFT_INIT_ONE);
    assert_int_equal(early->kind, WEFT_STATE_HISTORY);
    assert_true(weft_layout_cuts(early->layout, 0) && !weft_layout_cuts(early->layout, 1));
    assert_true(weft_layout_cuts(m.w->layout, 1));
    assert_int_equal(alike->layout.bits, m.w->layout.bits);
    assert_int_equal(alike->kind, WEFT_STATE_AVERAGE);
    assert_int_equal(late->dims[0].size, 16);
    assert_true(weft_layout_cuts(late->layout, 0));
    assert_int_equal(number->n_dims, 0);
    assert_int_equal(number->layout.bits, 0);
    sound(&m);
    end(&m);
}

/* Kind, beginning and all come back from the graph's text. */
static void as_text(void **state)
{
    (void)state;
    model m;
    begin(&m);
    weft_add_state(m.g, "begun", "ffn", WEFT_F32, (weft_init){WEFT_INIT_TRUNC_NORMAL, 0.5, 2},
                   WEFT_STATE_BUFFER);
    weft_add_state_like(m.g, "moment", m.w, WEFT_F32, WEFT_STATE_OPTIMIZER);
    weft_add_state(m.g, "first", "", WEFT_F32, one, WEFT_STATE_OPTIMIZER);
    weft_text before = {0}, after = {0};
    weft_graph_print(m.g, WEFT_PRINT_WHOLE, &before);
    assert_non_null(strstr(weft_text_get(&before), "= state(buffer trunc_normal 0.5 2.0)"));
    assert_non_null(strstr(weft_text_get(&before), "= state(; like @up)"));
    assert_non_null(strstr(weft_text_get(&before), "= state(optimizer one)"));
    weft_graph *read;
    weft_error err = {0};
    if (weft_graph_parse(weft_text_get(&before), &m.g->config, &read, &err))
        fail_msg("%s", weft_error_text(&err));
    assert_int_equal(weft_graph_find(read, "begun")->kind, WEFT_STATE_BUFFER);
    weft_graph_print(read, WEFT_PRINT_WHOLE, &after);
    assert_string_equal(weft_text_get(&before), weft_text_get(&after));
    weft_text_release(&before);
    weft_text_release(&after);
    weft_graph_destroy(read);
    end(&m);
}

/* What only a removed node read goes with it. */
static void removed(void **state)
{
    (void)state;
    model m;
    begin(&m);
    weft_graph_at(m.g, m.w->node->next);
    weft_value *bias = weft_add_state(m.g, "bias", "embed", WEFT_F32, one, WEFT_STATE_BUFFER);
    weft_value *y = weft_bias(m.g, "moved", m.x, bias);
    weft_graph_at(m.g, NULL);
    assert_int_equal(m.g->n_states, 1);
    weft_remove(m.g, y->node);
    assert_int_equal(weft_graph_status(m.g), WEFT_OK);
    assert_int_equal(m.g->n_states, 0);
    assert_null(weft_graph_find(m.g, "bias"));
    sound(&m);
    end(&m);
}

/* ---- mistakes ---- */

static void unknown_dim(model *m)
{
    weft_add_state(m->g, "s", "ffn width", WEFT_F32, zero, WEFT_STATE_BUFFER);
}
static void unknown_kind(model *m)
{
    weft_add_state(m->g, "s", "", WEFT_F32, zero, (weft_state_kind)77);
}
static void own_cache(model *m)
{
    weft_add_state_like(m->g, "s", m->w, WEFT_F32, WEFT_STATE_CACHE);
}
static void as_a_parameter(model *m)
{
    weft_add_state(m->g, "up", "", WEFT_F32, zero, WEFT_STATE_BUFFER);
}
static void as_a_value(model *m)
{
    weft_add_state(m->g, "u", "", WEFT_F32, zero, WEFT_STATE_BUFFER);
}
static void never_updated(model *m)
{
    differentiate(m);
    weft_value *s = weft_add_state(m->g, "s", "embed", WEFT_F32, zero, WEFT_STATE_HISTORY);
    weft_add1(m->g, "sum", NULL, s);
    weft_graph_check_updates(m->g);
}
static void never_read(model *m)
{
    weft_add_state(m->g, "s", "embed", WEFT_F32, zero, WEFT_STATE_BUFFER);
    differentiate(m);
    weft_graph_check_updates(m->g);
}
static void of_another_shape(model *m)
{
    differentiate(m);
    weft_value *s = weft_add_state(m->g, "s", "embed", WEFT_F32, zero, WEFT_STATE_HISTORY);
    weft_set_update(m->g, s, m->w->gradient);
}
static void becomes_two(model *m)
{
    differentiate(m);
    weft_value *a = weft_add_state_like(m->g, "a", m->w, WEFT_F32, WEFT_STATE_HISTORY);
    weft_value *b = weft_add_state_like(m->g, "b", m->w, WEFT_F32, WEFT_STATE_HISTORY);
    weft_set_update(m->g, a, m->w->gradient);
    weft_set_update(m->g, b, m->w->gradient);
}

static void mistakes(void **state)
{
    (void)state;
    static const struct {
        void (*make)(model *m);
        const char *words;
    } cases[] = {
        {unknown_dim, "s: dim 'width' is not declared"},
        {unknown_kind, "state 's': there is no such kind of state"},
        {own_cache, "state 's': there is no such kind of state for plugins"},
        {as_a_parameter, "state 'up': there is a value of this name already (core)"},
        {as_a_value, "state 'u': there is a value of this name already (core)"},
        {never_updated, "plugin core adds state 's' (history), which nobody updates; "},
        {never_read, "plugin core adds state 's' (buffer), which nobody updates or reads; "},
        {of_another_shape, "] cannot be the next content of f32 s ["},
        {becomes_two, "cannot become b: it becomes a already; put a node between them"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        model m;
        begin(&m);
        cases[i].make(&m);
        wants(&m, cases[i].words);
        end(&m);
    }
}

/* Gradients are looked at before the update, also if nothing but what moves a parameter reads them.
 */
static void gradients_before_the_update(void **state)
{
    (void)state;
    model m;
    begin(&m);
    differentiate(&m);
    weft_value *moved = weft_add2(m.g, "add", NULL, m.w, m.w->gradient);
    weft_set_update(m.g, m.w, moved);
    if (weft_graph_order(m.g))
        fail_msg("%s", weft_error_text(weft_graph_error(m.g)));
    weft_graph_assign_parts(m.g);
    sound(&m);
    assert_int_equal(m.w->gradient->node->scope, WEFT_STEP_END);
    assert_int_equal(m.w->gradient->node->part, WEFT_PART_STEP_END);
    assert_int_equal(moved->node->part, WEFT_PART_UPDATE);
    end(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placed_by_the_table),
        cmocka_unit_test(as_text),
        cmocka_unit_test(removed),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(gradients_before_the_update),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
