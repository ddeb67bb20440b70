/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers side by side, gradients replaced, one norm of all of them. */
#include "../../lib/small_model.h"
#include "../../lib/standard_ops.h"

#include <math.h>

static int count_op(const model *m, const char *op)
{
    int n = 0;
    for (const weft_node *node = weft_graph_first(m->g); node; node = node->next)
        n += strcmp(node->op->name, op) == 0;
    return n;
}

/* An optimizer that takes what `pick` says: descent with a step of 1, as far as the graph sees. */
static void optimize(model *m, const char *by, bool (*pick)(const weft_value *, void *))
{
    weft_value *list[8];
    m->g->by = by;
    int n = weft_graph_unclaimed(m->g, pick, NULL, list);
    for (int i = 0; i < n; i++)
        weft_set_update(m->g, list[i], weft_add2(m->g, "add", NULL, list[i], list[i]->gradient));
    m->g->by = "core";
}

static bool of_ffn(const weft_value *p, void *ctx)
{
    (void)ctx;
    return weft_value_dim(p, "ffn") >= 0;
}

static void whoever_is_first(void **state)
{
    (void)state;
    model m;
    weft_value *list[8];
    begin(&m);
    weft_freeze(m.g, weft_graph_find(m.g, "head"));
    differentiate(&m);
    assert_int_equal(weft_graph_unclaimed(m.g, NULL, NULL, NULL), 3);
    optimize(&m, "one", of_ffn);
    assert_string_equal(m.w->updated_by, "one");
    assert_int_equal(weft_graph_unclaimed(m.g, of_ffn, NULL, NULL), 0);
    assert_int_equal(weft_graph_unclaimed(m.g, NULL, NULL, list), 1);
    assert_string_equal(list[0]->name, "table");
    optimize(&m, "other", NULL);
    assert_string_equal(list[0]->updated_by, "other");
    assert_ptr_equal(list[0]->becomes->update_of, list[0]);
    assert_int_equal(weft_graph_check_updates(m.g), WEFT_OK);
    sound(&m);
    end(&m);
}

static void nobody_takes_the_rest(void **state)
{
    (void)state;
    model m;
    begin(&m);
    differentiate(&m);
    assert_int_equal(weft_graph_check_updates(m.g), WEFT_OK); /* a plan of the model alone */
    optimize(&m, "one", of_ffn);
    assert_int_equal(weft_graph_check_updates(m.g), WEFT_ERR_INPUT);
    wants(&m, "no optimizer updates table and 1 more parameter, though they have gradients; list");
    end(&m);
}

static void one_norm(void **state)
{
    (void)state;
    model m;
    begin(&m);
    differentiate(&m);
    weft_value *x = weft_add1(m.g, "gelu", NULL, m.w->gradient);
    weft_graph_at(m.g, x->node);
    weft_value *clip = weft_gradient_clip(m.g, 0.5), *norm = weft_gradient_norm(m.g);
    weft_graph_at(m.g, NULL);
    assert_ptr_equal(clip->node->ins[0], norm);
    assert_ptr_equal(weft_gradient_clip(m.g, 0.5), clip);
    assert_true(weft_gradient_clip(m.g, 0.25) != clip);
    assert_ptr_equal(weft_gradient_norm(m.g), norm);
    assert_int_equal(count_op(&m, "sumsq"), 4);
    assert_int_equal(count_op(&m, "sqrt"), 1);
    assert_int_equal(count_op(&m, "clip"), 2);
    assert_int_equal(m.g->n_reports, 1);
    assert_string_equal(m.g->reports[0].name, "grad_norm");
    sound(&m);
    end(&m);
}

/* Wherever a rank holds of a gradient, its replacement lies there too, and the norm reads it. */
static void transforms(void **state)
{
    (void)state;
    model m;
    begin(&m);
    differentiate(&m);
    weft_value *was = m.w->gradient;
    weft_value *v = weft_add1(m.g, "gelu", "changed",
                              weft_move_to(m.g, was, (weft_layout){0}, NULL, WEFT_UPDATE, "", ""));
    weft_set_gradient(m.g, m.w, v);
    assert_true(m.w->gradient != was);
    assert_int_equal(m.w->gradient->layout.bits, was->layout.bits);
    assert_ptr_equal(m.w->gradient->node->ins[0], v);
    assert_ptr_equal(m.w->summed, was);
    weft_set_gradient(m.g, m.w, weft_add1(m.g, "gelu", "again", m.w->gradient));
    weft_gradient_norm(m.g);
    int squared = 0;
    for (int i = 0; i < m.w->gradient->n_uses; i++)
        squared += strcmp(m.w->gradient->uses[i].node->op->name, "sumsq") == 0;
    assert_int_equal(squared, 1);
    assert_string_equal(m.w->gradient->name, "again");
    sound(&m);
    end(&m);
}

static double clip_of(float norm, double max_norm)
{
    float out = 0;
    const weft_attr attr = {.key = "max_norm", .kind = WEFT_ATTR_REAL, .r = max_norm};
    weft_tensor in = {.data = &norm, .dtype = WEFT_F32}, result = {.data = &out, .dtype = WEFT_F32};
    weft_call call = {
        .attrs = &attr, .n_attrs = 1, .n_ins = 1, .n_outs = 1, .ins = &in, .outs = &result};
    assert_int_equal(standard_op("clip")->plain(&call, NULL), WEFT_OK);
    return (double)out;
}

static void clip_factors(void **state)
{
    (void)state;
    assert_true(clip_of(0.5f, 1) == 1);
    assert_float_equal(clip_of(4, 1), 0.25, 1e-6);
    assert_true(clip_of(4, 0) == 1);
    assert_true(isnan(clip_of(NAN, 1)));
    assert_true(clip_of(INFINITY, 1) == 0);
}

/* ---- mistakes ---- */

static void too_early(model *m)
{
    weft_gradient_norm(m->g);
}
static void replaced_too_early(model *m)
{
    weft_set_gradient(m->g, m->w, m->w);
}
static void behind_the_norm(model *m)
{
    differentiate(m);
    m->g->by = "adamw";
    weft_gradient_norm(m->g);
    m->g->by = "noise";
    weft_set_gradient(m->g, m->w, weft_add1(m->g, "gelu", NULL, m->w->gradient));
}
static void behind_the_update(model *m)
{
    differentiate(m);
    optimize(m, "sgd", of_ffn);
    m->g->by = "noise";
    weft_set_gradient(m->g, m->w, weft_add1(m->g, "gelu", NULL, m->w->gradient));
}
static void of_another_shape(model *m)
{
    differentiate(m);
    weft_set_gradient(m->g, m->w, weft_graph_find(m->g, "table")->gradient);
}
static void of_a_micro_batch(model *m)
{
    differentiate(m);
    weft_set_gradient(m->g, m->w, weft_add2(m->g, "scale", NULL, m->w, weft_graph_loss(m->g)));
}
static void of_a_frozen_one(model *m)
{
    weft_freeze(m->g, m->w);
    differentiate(m);
    weft_set_gradient(m->g, m->w, m->w);
}
static void of_no_parameter(model *m)
{
    differentiate(m);
    weft_set_gradient(m->g, weft_graph_find(m->g, "u"), m->w->gradient);
}

static void mistakes(void **state)
{
    (void)state;
    static const struct {
        void (*make)(model *m);
        const char *words;
    } cases[] = {
        {too_early, "weft_gradient_norm: there are no gradients yet; let a joint pass ask"},
        {replaced_too_early, "weft_set_gradient: there are no gradients yet"},
        {behind_the_norm, "noise cannot replace the gradient of up any more: adamw has read the "
                          "norm of all gradients; list noise before adamw"},
        {behind_the_update, "noise cannot replace the gradient of up any more: sgd has updated it; "
                            "list noise before sgd"},
        {of_a_micro_batch, "cannot be the gradient of up: it differs between micro-batches, "},
        {of_another_shape, "] cannot be a gradient in the place of f32 up'"},
        {of_a_frozen_one, "up has no gradient to be replaced"},
        {of_no_parameter, "u is not a parameter: it has no gradient"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        model m;
        begin(&m);
        cases[i].make(&m);
        wants(&m, cases[i].words);
        assert_int_equal(weft_graph_error(m.g)->n_items, 1);
        end(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_is_first), cmocka_unit_test(nobody_takes_the_rest),
        cmocka_unit_test(one_norm),         cmocka_unit_test(transforms),
        cmocka_unit_test(clip_factors),     cmocka_unit_test(mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
