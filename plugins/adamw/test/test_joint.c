/* SPDX-License-Identifier: Apache-2.0 */
/* The pass on the joint graph of a small model on a mesh: what it adds is placed, verified and
 * closes its norm once. */
#include "../../../tests/lib/standard_ops.h"
#include "../adamw.h"
#include "compile/graph/graph.h"
#include "console/settings.h"
#include "tests/lib/created.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

extern const weft_plugin adamw_LTX_plugin;

enum { NORMS = 70 }; /* more squares than one node may have operands */

typedef struct fixture {
    weft_settings *settings;
    weft_ops ops;
    weft_graph *g;
    weft_host host;
    weft_log log;
    weft_text lines;
    weft_error err;
    void *self;
} fixture;

static void keep_line(void *self, weft_log_level level, const char *line)
{
    (void)level;
    weft_text_print(self, "%s\n", line);
}

static void gather_at_use(weft_graph *g, weft_value *v, void *ctx)
{
    (void)ctx;
    weft_insert_at_use(g, v, "gather", ".g", NULL, NULL);
}

static void build_model(weft_graph *g)
{
    weft_graph_dim(g, "embed", 8, 1);
    weft_graph_dim(g, "vocab", 12, 1);
    weft_init init = {.kind = WEFT_INIT_NORMAL, .std = 1};
    weft_value *x = weft_add2(g, "embedding", "x", weft_add_input(g, "ids"),
                              weft_add_parameter(g, "embed.weight", "vocab embed", init));
    for (int i = 0; i < NORMS; i++) {
        char name[32] = "norm.";
        name[5] = (char)('a' + i / 26);
        name[6] = (char)('a' + i % 26);
        x = weft_add2(g, "rms_norm", NULL, x, weft_add_parameter(g, name, "embed", init));
    }
    weft_add_head(g, x, weft_add_parameter(g, "head.weight", "vocab embed", init));
    weft_add_rule(g, WEFT_RULE_PARAM, NULL, "vocab", "tp");
    weft_add_rule(g, WEFT_RULE_INPUT, NULL, "batch", "dp_shard");
    weft_add_storage(g, "dp_shard");
    weft_each_use_edge(g, gather_at_use, NULL);
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    *state = f;
    return f ? 0 : -1;
}

static int teardown(void **state)
{
    fixture *f = *state;
    created_release(&adamw_LTX_plugin, &f->host, f->self);
    weft_graph_destroy(f->g);
    weft_ops_release(&f->ops);
    weft_settings_destroy(f->settings);
    weft_error_release(&f->err);
    weft_text_release(&f->lines);
    free(f);
    return 0;
}

/* The graph as the pass finds it. */
static void begin(fixture *f, const char *ini)
{
    f->log = (weft_log){keep_line, &f->lines};
    f->host = (weft_host){.log = &f->log, .ranks = 4};
    assert_int_equal(weft_settings_read_text("test.ini", ini, strlen(ini), &f->settings, &f->err),
                     WEFT_OK);
    assert_int_equal(weft_settings_override(f->settings, "train.steps=100", &f->err), WEFT_OK);
    assert_int_equal(weft_settings_section(f->settings, "adamw", adamw_LTX_plugin.params,
                                           &f->host.params, &f->err),
                     WEFT_OK);
    assert_int_equal(weft_settings_section(f->settings, "train", weft_core_params("train"),
                                           &f->host.train, &f->err),
                     WEFT_OK);
    assert_int_equal(created_init(&adamw_LTX_plugin, &f->host, &f->self, &f->err), WEFT_OK);

    const weft_op *const *more[] = {adamw_ops};
    assert_int_equal(standard_ops_init(&f->ops, more, NULL, 1, &f->err), WEFT_OK);
    weft_graph_config config = {
        .mode = WEFT_MODE_TRAIN, .ops = &f->ops, .dtype = WEFT_F32, .sizes = {4, 6, 2, 0}};
    config.mesh = (weft_mesh){
        2, {{.name = "tp", .size = 2, .by = "tp"}, {.name = "dp_shard", .size = 2, .by = "fsdp"}}};
    assert_int_equal(weft_graph_create(&config, &f->g, &f->err), WEFT_OK);
    build_model(f->g);
    if (weft_graph_place(f->g) != WEFT_OK || weft_graph_differentiate(f->g) != WEFT_OK)
        fail_msg("%s", weft_error_text(weft_graph_error(f->g)));
    adamw_rate(f->self, f->g);
    assert_int_equal(weft_graph_status(f->g), WEFT_OK);
}

static int count_op(const weft_graph *g, const char *op)
{
    int n = 0;
    for (const weft_node *node = weft_graph_first(g); node; node = node->next)
        n += strcmp(node->op->name, op) == 0;
    return n;
}

static const weft_node *find_node(const weft_graph *g, const char *op)
{
    for (const weft_node *n = weft_graph_first(g); n; n = n->next)
        if (strcmp(n->op->name, op) == 0)
            return n;
    fail_msg("no node of op %s", op);
    return NULL;
}

static void every_parameter_is_updated(void **state)
{
    fixture *f = *state;
    begin(f, "[adamw]\nno_decay = norm.* embed.*\n");
    adamw_joint(f->self, f->g);
    if (weft_graph_status(f->g) != WEFT_OK)
        fail_msg("%s %s", weft_error_text(&f->err), weft_error_text(weft_graph_error(f->g)));
    if (weft_graph_verify(f->g, &f->err) != WEFT_OK)
        fail_msg("%s", weft_error_text(&f->err));
    assert_int_equal(count_op(f->g, "adamw"), NORMS + 2);
    assert_int_equal(count_op(f->g, "sumsq"), NORMS + 2);
    int updates = 0;
    for (const weft_node *n = weft_graph_first(f->g); n; n = n->next) {
        if (strcmp(n->op->name, "adamw") != 0)
            continue;
        const char *name = n->ins[0]->name;
        for (int i = 0; i < 3; i++)
            updates += n->outs[i]->update_of == n->ins[i];
        /* Of the three kinds only the head is a matrix that nobody excludes. */
        assert_true(weft_node_real(n, "weight_decay") ==
                    (strcmp(name, "head.weight") == 0 ? 0.1 : 0));
        assert_int_equal(weft_layout_open_axes(n->ins[3]->layout), 0);
        assert_int_equal(n->ins[3]->layout.bits, n->ins[0]->layout.bits);
    }
    assert_int_equal(updates, 3 * (NORMS + 2));
    assert_non_null(weft_graph_find(f->g, "head.weight.exp_avg"));
    assert_non_null(weft_graph_find(f->g, "head.weight.exp_avg_sq"));
    assert_int_equal(f->g->n_reports, 2);
    assert_string_equal(f->g->reports[0].name, "grad_norm");
    assert_string_equal(f->g->reports[1].name, "lr");
}

/* Without patterns. */
static void assert_decay(fixture *f, const char *ini, double of_matrices, double of_vectors)
{
    begin(f, ini);
    adamw_joint(f->self, f->g);
    assert_int_equal(weft_graph_status(f->g), WEFT_OK);
    for (const weft_node *n = weft_graph_first(f->g); n; n = n->next)
        if (strcmp(n->op->name, "adamw") == 0)
            assert_true(weft_node_real(n, "weight_decay") ==
                        (n->ins[0]->n_dims == 2 ? of_matrices : of_vectors));
}

static void vectors_do_not_decay(void **state)
{
    assert_decay(*state, "[adamw]\n", 0.1, 0);
}

static void unless_all_decay(void **state)
{
    assert_decay(*state, "[adamw]\ndecay = all\n", 0.1, 0.1);
}

/* Of a matrix that a model leaves out of it. */
static void assert_marked(fixture *f, const char *ini, double decay)
{
    begin(f, ini);
    weft_set_mark(f->g, weft_graph_find(f->g, "head.weight"), WEFT_MARK_NO_DECAY, 1);
    adamw_joint(f->self, f->g);
    assert_int_equal(weft_graph_status(f->g), WEFT_OK);
    for (const weft_node *n = weft_graph_first(f->g); n; n = n->next)
        if (strcmp(n->op->name, "adamw") == 0 && strcmp(n->ins[0]->name, "head.weight") == 0)
            assert_true(weft_node_real(n, "weight_decay") == decay);
}

static void what_is_marked_does_not_decay(void **state)
{
    assert_marked(*state, "[adamw]\n", 0);
}

static void unless_all_do(void **state)
{
    assert_marked(*state, "[adamw]\ndecay = all\n", 0.1);
}

static void the_norm_is_closed_once(void **state)
{
    fixture *f = *state;
    begin(f, "[adamw]\nmax_norm = 0\n");
    adamw_joint(f->self, f->g);
    assert_int_equal(weft_graph_status(f->g), WEFT_OK);
    const weft_node *root = find_node(f->g, "sqrt"), *closing = root->ins[0]->node;
    assert_int_equal(root->ins[0]->layout.bits, 0);
    assert_int_equal(weft_layout_open_axes(closing->ins[0]->layout), 3); /* tp and dp_shard ... */
    assert_int_equal(closing->n_steps, 1); /* ... in one go, and nowhere below */
    assert_int_equal(closing->steps[0].move, WEFT_ALL_REDUCE);
    int below = 0;
    for (const weft_node *n = weft_graph_first(f->g); n != closing; n = n->next)
        if (strcmp(n->op->name, "sumsq") == 0)
            for (int i = 0; i < n->outs[0]->n_uses; i++)
                for (int k = 0; k < n->outs[0]->uses[i].node->n_steps; k++)
                    below += n->outs[0]->uses[i].node->steps[k].move == WEFT_ALL_REDUCE;
    assert_int_equal(below, 0);
    assert_string_equal(f->g->reports[0].name, "grad_norm");
}

static void patterns_must_match(void **state)
{
    fixture *f = *state;
    begin(f, "[adamw]\nno_decay = embed.* nrom.*\n");
    adamw_joint(f->self, f->g);
    assert_int_equal(weft_graph_status(f->g), WEFT_ERR_INPUT);
    assert_non_null(strstr(weft_error_text(weft_graph_error(f->g)), "test.ini:2"));
    assert_non_null(strstr(weft_error_text(weft_graph_error(f->g)), "'nrom.*'"));
    assert_null(strstr(weft_error_text(weft_graph_error(f->g)), "'embed.*'"));
    assert_int_equal(count_op(f->g, "adamw"), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(every_parameter_is_updated),
                                       TEST(vectors_do_not_decay),
                                       TEST(what_is_marked_does_not_decay),
                                       TEST(unless_all_do),
                                       TEST(unless_all_decay),
                                       TEST(the_norm_is_closed_once),
                                       TEST(patterns_must_match)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
