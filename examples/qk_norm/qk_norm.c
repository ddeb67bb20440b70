/* SPDX-License-Identifier: Apache-2.0 */
/* qk_norm, a change to a model that it knows nothing of: queries and keys are divided by their root
 * mean square, head by head, and scaled by a weight, before they are rotated. It shows how a pass
 * adds parameters and nodes in the middle of a graph. */
#include <weft/weft.h>

#include <stdio.h>
#include <string.h>

/* ---- the pass ---- */

/* The node in whose place queries or keys are normed: that which rotates them, if there is one
 * between the product and attention. */
static weft_node *reader_of(weft_node *attention, int operand, int *which)
{
    *which = operand;
    for (weft_node *n = attention->ins[operand]->node; n->n_ins; n = n->ins[0]->node) {
        if (weft_node_in(n, "linear"))
            break;
        if (weft_node_in(n, "rope")) {
            *which = 0;
            return n;
        }
    }
    return attention;
}

/* Everything between the two calls of weft_graph_at stands before the reader, in its block. */
static void add_norm(weft_graph *g, weft_node *attention, int operand, double eps)
{
    int which;
    char name[96];
    weft_node *reader = reader_of(attention, operand, &which);
    const char *letter = operand == 0 ? "q" : "k";
    weft_value *x = reader->ins[which];
    weft_graph_dim(g, "head_dim", x->dims[2].grain, 1);

    weft_graph_at(g, reader);
    snprintf(name, sizeof name, "model.layers.%d.self_attn.%s_norm.weight", reader->block, letter);
    weft_value *w = weft_add_parameter(g, name, "head_dim", (weft_init){WEFT_INIT_ONE, 0, 0});
    snprintf(name, sizeof name, "b%d.%s_norm", reader->block, letter);
    weft_value *y = weft_add2(g, "head_norm", name, x, w);
    weft_set_real(g, y, "eps", eps);
    weft_graph_at(g, NULL);

    weft_node_set_operand(g, reader, which, y);
}

typedef struct qk_norm {
    const weft_host *host;
    double eps;
} qk_norm;

static void add_norms(void *self, weft_graph *g)
{
    const qk_norm *m = self;
    int n_found = 0;
    for (weft_node *n = weft_graph_first(g); n && !weft_graph_status(g); n = n->next) {
        if (!weft_node_in(n, "attention"))
            continue;
        add_norm(g, n, 0, m->eps);
        add_norm(g, n, 1, m->eps);
        n_found++;
    }
    if (n_found == 0)
        weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                        "qk_norm: the model has no attention; take qk_norm off the list");
}

/* ---- the descriptor ---- */

static const weft_param params[] = {
    {.name = "eps",
     WEFT_REAL(qk_norm, eps),
     .value = "1e-6",
     .min = 0,
     .max = 1,
     .help = "Added to the mean square."},
    {.name = NULL},
};

static const char *const needs[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = add_norms, .needs = needs},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(qk_norm) = {
    WEFT_PLUGIN_HEAD,
    .name = "qk_norm",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "queries and keys normed before attention, as in Qwen3",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .self_size = WEFT_SELF(qk_norm),
    .contributions = contributions,
};
