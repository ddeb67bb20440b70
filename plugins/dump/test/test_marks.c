/* SPDX-License-Identifier: Apache-2.0 */
/* The pass on the joint graph of a small model on a mesh: what is asked for is marked, and sums
 * over ranks are closed first. */
#include "../../../tests/lib/standard_ops.h"
#include "../dump.h"
#include "compile/graph/graph.h"
#include "settings/settings.h"
#include "tests/lib/created.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

extern const weft_plugin dump_LTX_plugin;

typedef struct fixture {
    weft_settings *settings;
    weft_ops ops;
    weft_graph *g;
    weft_host host;
    weft_error err;
    dump *self;
} fixture;

static int setup(void **state)
{
    return (*state = calloc(1, sizeof(fixture))) ? 0 : -1;
}

static int teardown(void **state)
{
    fixture *f = *state;
    created_release(&dump_LTX_plugin, &f->host, f->self);
    weft_graph_destroy(f->g);
    weft_ops_release(&f->ops);
    weft_settings_destroy(f->settings);
    weft_error_release(&f->err);
    free(f);
    return 0;
}

static void build_model(weft_graph *g)
{
    weft_graph_dim(g, "embed", 8, 1);
    weft_graph_dim(g, "vocab", 12, 1);
    weft_init init = {.kind = WEFT_INIT_NORMAL, .std = 1};
    weft_value *x = weft_add2(g, "embedding", "x", weft_add_input(g, "ids"),
                              weft_add_parameter(g, "embed.weight", "vocab embed", init));
    x = weft_add2(g, "rms_norm", "normed", x, weft_add_parameter(g, "norm.weight", "embed", init));
    weft_add_head(g, x, weft_add_parameter(g, "head.weight", "vocab embed", init));
    weft_add_rule(g, WEFT_RULE_INPUT, NULL, "batch", "dp_shard");
}

static weft_status run_pass(fixture *f, const char *ini)
{
    f->host = (weft_host){.ranks = 2};
    assert_int_equal(weft_settings_read_text("test.ini", ini, strlen(ini), &f->settings, &f->err),
                     WEFT_OK);
    assert_int_equal(weft_settings_section(f->settings, "dump", dump_LTX_plugin.params,
                                           &f->host.params, &f->err),
                     WEFT_OK);
    assert_int_equal(created_init(&dump_LTX_plugin, &f->host, (void **)&f->self, &f->err), WEFT_OK);
    const weft_op *const *more[] = {dump_ops};
    assert_int_equal(standard_ops_init(&f->ops, more, NULL, 1, &f->err), WEFT_OK);
    weft_graph_config config = {
        .mode = WEFT_MODE_TRAIN, .ops = &f->ops, .dtype = WEFT_F32, .sizes = {4, 6, 2, 0}};
    config.mesh = (weft_mesh){1, {{.name = "dp_shard", .size = 2, .by = "fsdp"}}};
    assert_int_equal(weft_graph_create(&config, &f->g, &f->err), WEFT_OK);
    build_model(f->g);
    if (weft_graph_place(f->g) != WEFT_OK || weft_graph_differentiate(f->g) != WEFT_OK)
        fail_msg("%s", weft_error_text(weft_graph_error(f->g)));
    dump_joint(f->self, f->g);
    return weft_graph_status(f->g);
}

static const weft_value *value_of(const fixture *f, dump_group group, const char *name)
{
    for (int i = 0; i < f->self->n_targets; i++) {
        const dump_target *t = &f->self->targets[i];
        if (t->group != group || strcmp(t->name, name) != 0)
            continue;
        const weft_value *v = weft_graph_find(f->g, t->value);
        assert_non_null(v);
        assert_int_equal(v->id, t->id);
        assert_true(v->fetch);
        return v;
    }
    return NULL;
}

static void parameters_and_gradients(void **state)
{
    fixture *f = *state;
    assert_int_equal(run_pass(f, "[dump]\n"), WEFT_OK);
    if (weft_graph_verify(f->g, &f->err) != WEFT_OK)
        fail_msg("%s", weft_error_text(&f->err));
    assert_int_equal(f->self->n_targets, 6);
    weft_value *p;
    for (int i = 0; (p = weft_graph_parameter(f->g, i)); i++) {
        const weft_value *seen = value_of(f, DUMP_GRADIENTS, p->name);
        assert_ptr_equal(value_of(f, DUMP_PARAMETERS, p->name), p);
        assert_non_null(seen);
        /* Every rank has its own samples, so each gradient was an open sum; what a parameter calls
         * its gradient is the closed one. */
        assert_ptr_equal(seen, p->gradient);
        assert_int_equal(weft_layout_open_axes(seen->layout), 0);
        assert_int_equal(weft_layout_open_axes(seen->node->ins[0]->layout), 1);
    }
}

static void tokens_logits_and_names(void **state)
{
    fixture *f = *state;
    assert_int_equal(run_pass(f, "[dump]\nwhat = tokens logits\nvalues = norm*\n"), WEFT_OK);
    assert_ptr_equal(value_of(f, DUMP_VALUES, "ids"), weft_graph_find(f->g, "ids"));
    assert_ptr_equal(value_of(f, DUMP_VALUES, "labels"), weft_graph_find(f->g, "labels"));
    assert_ptr_equal(value_of(f, DUMP_VALUES, "normed"), weft_graph_find(f->g, "normed"));
    assert_ptr_equal(value_of(f, DUMP_VALUES, "norm.weight"), weft_graph_find(f->g, "norm.weight"));
    assert_null(value_of(f, DUMP_VALUES, "x"));
    int logits = 0;
    for (const weft_node *n = weft_graph_first(f->g); n; n = n->next)
        if (n->outs[0]->role && strcmp(n->outs[0]->role, "logits") == 0 &&
            n->phase == WEFT_FORWARD) {
            assert_true(n->outs[0]->fetch);
            logits++;
        }
    assert_true(logits > 0);
    for (int i = 0; i < f->self->n_targets; i++)
        assert_int_equal(f->self->targets[i].group, DUMP_VALUES);
}

static void nothing_matches(void **state)
{
    fixture *f = *state;
    assert_int_equal(run_pass(f, "[dump]\nvalues = nromed\n"), WEFT_ERR_INPUT);
    assert_non_null(strstr(weft_error_text(weft_graph_error(f->g)), "test.ini:2"));
    assert_non_null(strstr(weft_error_text(weft_graph_error(f->g)), "'nromed'"));
}

static void again(void **state)
{
    fixture *f = *state;
    assert_int_equal(run_pass(f, "[dump]\nwhat = parameters\n"), WEFT_OK);
    dump_joint(f->self, f->g);
    assert_int_equal(weft_graph_status(f->g), WEFT_OK);
    assert_int_equal(f->self->n_targets, 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(parameters_and_gradients),
                                       TEST(tokens_logits_and_names), TEST(nothing_matches),
                                       TEST(again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
