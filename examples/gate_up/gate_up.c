/* SPDX-License-Identifier: Apache-2.0 */
/* gate_up: the two products of a gated feed-forward are one, of a weight twice as tall, whose
 * result is cut in halves. It shows an op with several results, whose dims are its own to infer. */
#include <weft/weft.h>

#include <stdio.h>
#include <string.h>

/* ---- the op: x [b s 2f] -> [b s f], [b s f] ---- */

static weft_status halves_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0];
    int64_t n = call->outs[0].size[2], rows = x->size[0] * x->size[1];
    (void)err;
    for (int r = 0; r < 2; r++) {
        const weft_tensor *y = &call->outs[r];
        for (int64_t i = 0; i < rows * n; i++) {
            double from = weft_tensor_get(x, (i / n * 2 + r) * n + i % n);
            /* only result 0 is ever added to what is there */
            bool adds = call->accumulate && r == 0;
            weft_tensor_set(y, i, adds ? weft_tensor_get(y, i) + from : from);
        }
    }
    return WEFT_OK;
}

static weft_status halves_dx_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *dx = &call->outs[0];
    int64_t n = call->ins[0].size[2], rows = dx->size[0] * dx->size[1];
    (void)err;
    for (int r = 0; r < 2; r++)
        for (int64_t i = 0; i < rows * n; i++) {
            int64_t to = (i / n * 2 + r) * n + i % n;
            double dy = weft_tensor_get(&call->ins[r], i);
            weft_tensor_set(dx, to, call->accumulate ? weft_tensor_get(dx, to) + dy : dy);
        }
    return WEFT_OK;
}

/* Half the last dim, under the name that the attribute gives: so whoever speaks of "ffn" speaks of
 * the halves, too. */
static weft_status halves_infer(weft_graph *g, weft_node *n, weft_error *err)
{
    const weft_value *x = n->ins[0];
    const weft_dim *last = &x->dims[x->n_dims - 1];
    (void)g;
    if (x->n_dims != 3 || last->size % 2 || last->grain != 1)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "halves of %s: its last dim, %lld, has no halves", x->name,
                         (long long)last->size);
    for (int r = 0; r < n->n_outs; r++) {
        weft_value *y = n->outs[r];
        y->dtype = x->dtype;
        y->n_dims = x->n_dims;
        memcpy(y->dims, x->dims, sizeof y->dims);
        y->dims[2] = (weft_dim){weft_node_text(n, "dim"), last->size / 2, 1};
    }
    return WEFT_OK;
}

/* [two], [f]: a part of a row is no part of its halves. dys: the gradients of both results; like0:
 * the dims of operand 0, of which f says nothing. */
static const weft_op halves = {
    .name = "halves",
    .attrs = "dim",
    .summary = "the first and the last half of rows",
    .rule = "b s [two] -> b s [f], b s [f]",
    .linear = "0",
    .grad = (const char *const[]){"0: halves_dx dys like0", NULL},
    .flags = WEFT_OP_HALF,
    .plain = halves_plain,
    .infer = halves_infer,
};
static const weft_op halves_dx = {
    .name = "halves_dx",
    .attrs = "dim",
    .summary = "gradient of halves",
    .rule = "b s [f], b s [f], b s [two] -> b s [two]",
    .linear = "0 1",
    .flags = WEFT_OP_HALF,
    .plain = halves_dx_plain,
};
static const weft_op *const ops[] = {&halves, &halves_dx, NULL};

/* ---- the pass ---- */

/* silu_mul(linear(x, gate), linear(x, up)) */
static bool is_gated(const weft_node *n)
{
    if (strcmp(n->op->name, "silu_mul") != 0)
        return false;
    const weft_node *gate = n->ins[0]->node, *up = n->ins[1]->node;
    return weft_node_in(gate, "linear") && weft_node_in(up, "linear") && gate->ins[0] == up->ins[0];
}

/* Earlier passes may have put casts and gathers before the product. */
static weft_init init_of(const weft_value *weight)
{
    while (weight->node->n_ins)
        weight = weight->node->ins[0];
    return weight->init;
}

static void join(weft_graph *g, weft_node *n)
{
    char name[96];
    weft_value *gate = n->ins[0], *up = n->ins[1], *x = gate->node->ins[0], *out[2];
    const weft_dim *f = &gate->dims[2];
    const weft_attr dim = {.key = "dim", .kind = WEFT_ATTR_TEXT, .text = f->name};
    const weft_init init = init_of(gate->node->ins[1]);

    weft_graph_dim(g, "gate_up", 2 * f->size, 1);
    weft_graph_at(g, gate->node);
    snprintf(name, sizeof name, "model.layers.%d.mlp.gate_up_proj.weight", n->block);
    weft_value *w = weft_add_parameter(g, name, "gate_up embed", init);
    snprintf(name, sizeof name, "b%d.gate_up", n->block);
    weft_value *both = weft_linear(g, name, x, w);
    weft_add_full(g, "halves", NULL, 1, &both, 2, out, &dim, 1);
    weft_graph_at(g, NULL);
    weft_node_set_operand(g, n, 0, out[0]);
    weft_node_set_operand(g, n, 1, out[1]);
    weft_remove(g, gate->node); /* and the weights that nobody else reads */
    weft_remove(g, up->node);
}

static void join_all(void *self, weft_graph *g)
{
    int n_found = 0;
    (void)self;
    for (weft_node *n = weft_graph_first(g); n && !weft_graph_status(g); n = n->next) {
        if (!is_gated(n))
            continue;
        join(g, n);
        n_found++;
    }
    if (n_found == 0)
        weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                        "gate_up: the model has no gated feed-forward; take gate_up off the list");
}

static const char *const needs[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = join_all, .needs = needs},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(gate_up) = {
    WEFT_PLUGIN_HEAD,
    .name = "gate_up",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "one product for gate and up of feed-forwards",
    .numerics = WEFT_NUMERICS_CHANGES,
    .contributions = contributions,
    .ops = ops,
};
