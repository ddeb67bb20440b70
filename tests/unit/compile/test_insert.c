/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes, parameters and inputs that are added in the middle of a graph, taken out of it, and
 * parameters that are frozen. */
#include "../../lib/graph_text.h"
#include "../../lib/standard_ops.h"
#include "compile/graph/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

typedef struct model {
    weft_ops ops;
    weft_graph *g;
    weft_value *x, *u, *a, *d, *y;
} model;

static const weft_init one = {WEFT_INIT_ONE, 0, 0};

/* A block of two products, and the head. tp: ranks that cut ffn. */
static void begin(model *m, int tp)
{
    weft_error err = {0};
    assert_int_equal(standard_ops_init(&m->ops, NULL, NULL, 0, &err), WEFT_OK);
    weft_graph_config config = {
        .mode = WEFT_MODE_TRAIN, .ops = &m->ops, .dtype = WEFT_F32, .sizes = {4, 6, 1, 0}};
    if (tp > 1)
        config.mesh = (weft_mesh){.n_axes = 1, .axis = {{.name = "tp", .size = tp, .by = "tp"}}};
    assert_int_equal(weft_graph_create(&config, &m->g, &err), WEFT_OK);
    weft_graph *g = m->g;
    weft_graph_dim(g, "embed", 8, 1);
    weft_graph_dim(g, "ffn", 16, 1);
    weft_graph_dim(g, "vocab", 10, 1);
    weft_graph_set_block(g, WEFT_BLOCK_EMBEDDING);
    m->x = weft_add2(g, "embedding", "x", weft_add_input(g, "ids"),
                     weft_add_parameter(g, "table", "vocab embed", one));
    weft_graph_set_block(g, 0);
    m->u = weft_linear(g, "u", m->x, weft_add_parameter(g, "up", "ffn embed", one));
    m->a = weft_add1(g, "gelu", "a", m->u);
    m->d = weft_linear(g, "d", m->a, weft_add_parameter(g, "down", "embed ffn", one));
    m->y = weft_add2(g, "add", "y", m->x, weft_add1(g, "gelu", "e", m->d));
    weft_graph_set_block(g, WEFT_BLOCK_HEAD);
    weft_add_head(g, m->y, weft_add_parameter(g, "head", "vocab embed", one));
    weft_add_rule(g, WEFT_RULE_PARAM, NULL, "ffn", "tp");
    assert_int_equal(weft_graph_status(g), WEFT_OK);
}

static void sound(model *m)
{
    weft_error *err = weft_graph_error(m->g);
    if (weft_graph_verify(m->g, err))
        fail_msg("%s", weft_error_text(err));
}

static void end(model *m)
{
    weft_graph_destroy(m->g);
    weft_ops_release(&m->ops);
}

static bool stands_before(const weft_node *a, const weft_node *b)
{
    while (a && a != b)
        a = a->next;
    return a != NULL;
}

/* A parameter, an input that the head has made, nodes of one and of several results. */
static void every_builder(void **state)
{
    (void)state;
    model m;
    begin(&m, 1);
    weft_graph *g = m.g;
    weft_graph_at(g, m.a->node);
    weft_value *bias = weft_add_parameter(g, "bias", "ffn", (weft_init){0});
    weft_value *labels = weft_add_input(g, "labels");
    weft_value *index = weft_add_input(g, "index");
    weft_value *biased = weft_bias(g, "biased", m.u, bias), *parts[2];
    weft_attr attrs[] = {{.key = "dim", .kind = WEFT_ATTR_INT, .i = 1},
                         {.key = "n", .kind = WEFT_ATTR_INT, .i = 2}};
    weft_add_full(g, "chunk", "parts", 1, &biased, 2, parts, attrs, 2);
    weft_value *whole = weft_add_full(g, "unchunk", "whole", 2, parts, 1, NULL, attrs, 2);
    weft_graph_at(g, NULL);
    weft_node_set_operand(g, m.a->node, 0, biased);
    weft_value *last = weft_add1(g, "sum", "last", m.y);
    sound(&m);

    assert_ptr_equal(whole->node->next, m.a->node);
    assert_ptr_equal(weft_graph_last(g), last->node);
    assert_true(stands_before(labels->node, m.a->node) && stands_before(index->node, m.a->node));
    assert_int_equal(bias->node->block, 0);
    assert_int_equal(parts[1]->node->block, 0);
    assert_int_equal(labels->node->block, WEFT_BLOCK_NONE);
    assert_int_equal(last->node->block, WEFT_BLOCK_HEAD); /* where the model was */
    static const char *const order[] = {"table", "up", "bias", "down", "head"};
    for (int i = 0; i < 5; i++)
        assert_string_equal(weft_graph_parameter(g, i)->name, order[i]);
    weft_graph_place(g);
    sound(&m);
    assert_int_equal(weft_graph_differentiate(g), WEFT_OK);
    assert_non_null(bias->gradient);
    end(&m);
}

/* What a caller says in memory of its own is the graph's when the builder returns. */
static void attributes_are_copied(void **state)
{
    (void)state;
    model m;
    char key[] = "dtype", text[] = "bf16";
    const weft_attr attr = {.key = key, .kind = WEFT_ATTR_TEXT, .text = text};
    begin(&m, 1);
    weft_value *v = weft_add_full(m.g, "cast", NULL, 1, &m.d, 1, NULL, &attr, 1);
    memset(key, '?', sizeof key - 1);
    memset(text, '?', sizeof text - 1);
    assert_string_equal(weft_node_text(v->node, "dtype"), "bf16");
    end(&m);
}

/* An input that stands right where is added: it goes on standing before its readers. */
static void at_an_input(void **state)
{
    (void)state;
    model m;
    begin(&m, 1);
    weft_graph_at(m.g, weft_graph_find(m.g, "labels")->node);
    weft_value *labels = weft_add_input(m.g, "labels");
    weft_value *n = weft_add1(m.g, "count_valid", "n", labels);
    weft_add1(m.g, "reciprocal", "inverse", n);
    sound(&m);
    end(&m);
}

static void in_the_backward(void **state)
{
    (void)state;
    model m;
    begin(&m, 1);
    assert_int_equal(weft_graph_place(m.g), WEFT_OK);
    assert_int_equal(weft_graph_differentiate(m.g), WEFT_OK);
    weft_value *dx = weft_graph_find(m.g, "u'");
    assert_non_null(dx);
    weft_node *at = dx->node;
    weft_graph_at(m.g, at);
    weft_value *v = weft_add1(m.g, "gelu", NULL, weft_graph_find(m.g, "table"));
    weft_graph_at(m.g, NULL);
    weft_value *w = weft_add_before(m.g, at, "gelu", "u", ".more", 1, &v);
    sound(&m);
    for (int i = 0; i < 2; i++) {
        const weft_node *n = (i ? w : v)->node;
        assert_int_equal(n->phase, WEFT_BACKWARD);
        assert_int_equal(n->scope, WEFT_MICRO_BATCH);
        assert_int_equal(n->block, 0);
    }
    end(&m);
}

static void then_the_update_again(void **state)
{
    (void)state;
    model m;
    begin(&m, 1);
    assert_int_equal(weft_graph_place(m.g), WEFT_OK);
    assert_int_equal(weft_graph_differentiate(m.g), WEFT_OK);
    weft_graph_at(m.g, m.a->node);
    assert_int_equal(weft_add1(m.g, "gelu", NULL, m.u)->node->phase, WEFT_FORWARD);
    weft_graph_at(m.g, m.d->node);
    weft_graph_at(m.g, NULL);
    weft_value *v = weft_add1(m.g, "gelu", NULL, weft_graph_find(m.g, "down")->gradient);
    assert_int_equal(v->node->phase, WEFT_UPDATE);
    assert_ptr_equal(weft_graph_last(m.g), v->node);
    sound(&m);
    end(&m);
}

/* The first use in the graph, not the first that was added. */
static void before_all_uses(void **state)
{
    (void)state;
    model m;
    begin(&m, 1);
    weft_value *up = weft_graph_find(m.g, "up");
    weft_graph_at(m.g, m.u->node);
    weft_value *early = weft_linear(m.g, "early", m.x, up);
    weft_graph_at(m.g, NULL);
    weft_value *gathered = weft_insert_at_use(m.g, up, "gather", ".g", NULL, NULL);
    assert_non_null(gathered);
    assert_ptr_equal(gathered->node->next, early->node);
    sound(&m);
    end(&m);
}

/* What a new node reads has been moved to the layout that it needs already, but behind it. */
static void after_its_redistribute(void **state)
{
    (void)state;
    model m;
    begin(&m, 2);
    assert_int_equal(weft_graph_place(m.g), WEFT_OK);
    weft_value *closed = weft_graph_find(m.g, "d.r");
    assert_non_null(closed);
    weft_graph_at(m.g, closed->node);
    weft_value *bent = weft_add1(m.g, "gelu", "bent", m.d);
    weft_value *twice = weft_add1(m.g, "gelu", "twice", bent);
    weft_graph_at(m.g, NULL);
    sound(&m);
    assert_ptr_equal(bent->node->ins[0], closed);
    assert_true(stands_before(twice->node, m.y->node));
    end(&m);
}

/* ---- taking out ---- */

static weft_node *unread(model *m)
{
    weft_graph_at(m->g, m->d->node);
    weft_value *w = weft_add_parameter(m->g, "spare", "ffn embed", one);
    weft_value *v = weft_add2(m->g, "silu_mul", "gated", m->u, weft_linear(m->g, "gate", m->x, w));
    weft_graph_at(m->g, NULL);
    return v->node;
}

/* What only it read goes with it; what others read stays. */
static void with_all_it_read(void **state)
{
    (void)state;
    model m;
    begin(&m, 1);
    int before = m.u->n_uses;
    weft_node *n = unread(&m), *next = n->next;
    weft_remove(m.g, n);
    sound(&m);
    assert_ptr_equal(n->next, next);
    assert_int_equal(m.u->n_uses, before);
    assert_null(weft_graph_find(m.g, "spare"));
    assert_null(weft_graph_find(m.g, "gate"));
    assert_non_null(weft_graph_find(m.g, "up"));
    assert_string_equal(weft_graph_parameter(m.g, 3)->name, "head");
    assert_null(weft_graph_parameter(m.g, 4));
    n = unread(&m); /* the names are free */
    assert_string_equal(n->ins[1]->node->ins[1]->name, "spare");
    weft_remove(m.g, n);
    weft_graph_place(m.g);
    sound(&m);
    assert_int_equal(weft_graph_differentiate(m.g), WEFT_OK);
    end(&m);
}

/* What is added next stands where that stood. */
static void while_adding_there(void **state)
{
    (void)state;
    model m;
    begin(&m, 1);
    weft_node *n = unread(&m), *next = n->next;
    weft_graph_at(m.g, n);
    weft_remove(m.g, n);
    assert_ptr_equal(weft_add1(m.g, "gelu", NULL, m.u)->node->next, next);
    sound(&m);
    end(&m);
}

static void takes_a_read_one(model *m)
{
    weft_remove(m->g, m->d->node);
}
static void takes_the_loss(model *m)
{
    weft_remove(m->g, weft_graph_loss(m->g)->node);
}
static void takes_a_gradient(model *m)
{
    weft_graph_place(m->g);
    weft_graph_differentiate(m->g);
    weft_remove(m->g, weft_graph_find(m->g, "up")->gradient->node);
}
static void freezes_a_product(model *m)
{
    weft_freeze(m->g, m->d);
}
static void freezes_too_late(model *m)
{
    weft_graph_place(m->g);
    weft_graph_differentiate(m->g);
    weft_freeze(m->g, weft_graph_find(m->g, "up"));
}
static void freezes_all(model *m)
{
    weft_value *p;
    for (int i = 0; (p = weft_graph_parameter(m->g, i)); i++)
        weft_freeze(m->g, p);
    weft_graph_place(m->g);
    weft_graph_differentiate(m->g);
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        void (*make)(model *m);
        const char *words;
    } cases[] = {
        {takes_a_read_one, "d cannot be removed: e needs it; let that read something else first"},
        {takes_the_loss, "loss cannot be removed: the run needs it"},
        {takes_a_gradient, "up'.2 cannot be removed: up needs it"},
        {freezes_a_product, "d cannot be frozen: it is not a parameter"},
        {freezes_too_late, "up cannot be frozen any more: its gradient is in the graph; freeze it "
                           "in a graph pass"},
        {freezes_all, "every parameter is frozen; nothing is left to train"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        model m;
        begin(&m, 1);
        cases[i].make(&m);
        assert_int_not_equal(weft_graph_status(m.g), WEFT_OK);
        const char *said = weft_error_text(weft_graph_error(m.g));
        if (!strstr(said, cases[i].words))
            fail_msg("\"%s\", not \"%s\"", said, cases[i].words);
        end(&m);
    }
}

/* ---- freezing ---- */

/* No gradient, nor anything that only its gradient would need: nothing stands before `up`. */
static void frozen(void **state)
{
    (void)state;
    model m;
    weft_error err = {0};
    weft_graph *again;
    weft_text text[2] = {{0}};
    begin(&m, 2);
    weft_freeze(m.g, weft_graph_find(m.g, "table"));
    weft_freeze(m.g, weft_graph_find(m.g, "down"));
    assert_int_equal(weft_graph_place(m.g), WEFT_OK);
    assert_int_equal(weft_graph_differentiate(m.g), WEFT_OK);
    sound(&m);
    assert_null(weft_graph_find(m.g, "table")->gradient);
    assert_null(weft_graph_find(m.g, "down")->gradient);
    assert_non_null(weft_graph_find(m.g, "up")->gradient);
    assert_non_null(weft_graph_find(m.g, "a'"));
    assert_null(weft_graph_find(m.g, "down'"));
    assert_null(weft_graph_find(m.g, "x'"));

    weft_graph_print(m.g, WEFT_PRINT_WHOLE, &text[0]);
    if (weft_graph_parse(weft_text_get(&text[0]), &m.g->config, &again, &err))
        fail_msg("%s", weft_error_text(&err));
    assert_true(weft_graph_find(again, "down")->frozen && !weft_graph_find(again, "up")->frozen);
    weft_graph_print(again, WEFT_PRINT_WHOLE, &text[1]);
    assert_string_equal(weft_text_get(&text[0]), weft_text_get(&text[1]));
    weft_text_release(&text[0]);
    weft_text_release(&text[1]);
    weft_graph_destroy(again);
    end(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_builder),
        cmocka_unit_test(at_an_input),
        cmocka_unit_test(attributes_are_copied),
        cmocka_unit_test(in_the_backward),
        cmocka_unit_test(then_the_update_again),
        cmocka_unit_test(before_all_uses),
        cmocka_unit_test(after_its_redistribute),
        cmocka_unit_test(with_all_it_read),
        cmocka_unit_test(while_adding_there),
        cmocka_unit_test(refusals),
        cmocka_unit_test(frozen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
