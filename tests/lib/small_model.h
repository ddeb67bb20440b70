/* SPDX-License-Identifier: Apache-2.0 */
/* A graph of an embedding, two products and a head, on 2 x 2 ranks: tp cuts ffn, dp the batch. */
#ifndef SMALL_MODEL_H
#define SMALL_MODEL_H

#include "compile/graph/graph.h"
#include "standard_ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

static const weft_init one = {WEFT_INIT_ONE, 0, 0}, zero = {WEFT_INIT_ZERO, 0, 0};

typedef struct model {
    weft_ops ops;
    weft_graph *g;
    weft_value *x, *w;
} model;

static inline void begin(model *m)
{
    weft_error err = {0};
    assert_int_equal(standard_ops_init(&m->ops, NULL, NULL, 0, &err), WEFT_OK);
    weft_graph_config config = {
        .mode = WEFT_MODE_TRAIN, .ops = &m->ops, .dtype = WEFT_F32, .sizes = {4, 6, 2, 0}};
    config.mesh = (weft_mesh){
        .n_axes = 2,
        .axis = {{.name = "tp", .size = 2, .by = "tp"}, {.name = "dp", .size = 2, .by = "dp"}}};
    assert_int_equal(weft_graph_create(&config, &m->g, &err), WEFT_OK);
    weft_graph *g = m->g;
    weft_graph_dim(g, "embed", 8, 1);
    weft_graph_dim(g, "ffn", 16, 1);
    weft_graph_dim(g, "vocab", 10, 1);
    m->x = weft_add2(g, "embedding", "x", weft_add_input(g, "ids"),
                     weft_add_parameter(g, "table", "vocab embed", one));
    m->w = weft_add_parameter(g, "up", "ffn embed", one);
    weft_value *h = weft_add1(g, "gelu", NULL, weft_linear(g, "u", m->x, m->w));
    weft_value *y = weft_linear(g, "y", h, weft_add_parameter(g, "down", "embed ffn", one));
    weft_add_head(g, y, weft_add_parameter(g, "head", "vocab embed", one));
    weft_add_rule(g, WEFT_RULE_PARAM, NULL, "ffn", "tp");
    weft_add_rule(g, WEFT_RULE_INPUT, NULL, "batch", "dp");
    assert_int_equal(weft_graph_status(g), WEFT_OK);
}

static inline void differentiate(model *m)
{
    if (weft_graph_place(m->g) || weft_graph_differentiate(m->g))
        fail_msg("%s", weft_error_text(weft_graph_error(m->g)));
}

static inline void end(model *m)
{
    weft_graph_destroy(m->g);
    weft_ops_release(&m->ops);
}

static inline void sound(const model *m)
{
    if (weft_graph_verify(m->g, weft_graph_error(m->g)))
        fail_msg("%s", weft_error_text(weft_graph_error(m->g)));
}

/* An error that has these words must be there. */
static inline void wants(const model *m, const char *words)
{
    if (!strstr(weft_error_text(weft_graph_error(m->g)), words))
        fail_msg("'%s' is not in: %s", words, weft_error_text(weft_graph_error(m->g)));
}

#endif
