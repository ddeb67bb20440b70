/* SPDX-License-Identifier: Apache-2.0 */
/* squash: what attention gives becomes x / (1 + |x|), and the exponent of the largest |x| of the
 * first block is reported for each step. It shows a gradient as a function, passes of one plugin at
 * several places of the list, a maximum over micro-batches, and a pass that asks what a rank holds.
 */
#include <weft/weft.h>

#include <math.h>
#include <string.h>

/* ---- the ops ---- */

static void put(const weft_call *call, int64_t i, double y)
{
    const weft_tensor *out = &call->outs[0];
    weft_tensor_set(out, i, call->accumulate ? weft_tensor_get(out, i) + y : y);
}

static weft_status squash(const weft_call *call, weft_error *err)
{
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++) {
        double x = weft_tensor_get(&call->ins[0], i);
        put(call, i, x / (1 + fabs(x)));
    }
    return WEFT_OK;
}

/* x -> 1 / (1 + |x|) */
static weft_status slope(const weft_call *call, weft_error *err)
{
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++)
        put(call, i, 1 / (1 + fabs(weft_tensor_get(&call->ins[0], i))));
    return WEFT_OK;
}

/* a, b -> a a b */
static weft_status weigh(const weft_call *call, weft_error *err)
{
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++) {
        double a = weft_tensor_get(&call->ins[0], i);
        put(call, i, a * a * weft_tensor_get(&call->ins[1], i));
    }
    return WEFT_OK;
}

static weft_status exponent(const weft_call *call, weft_error *err)
{
    double most = 0;
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->ins[0]); i++) {
        double x = fabs(weft_tensor_get(&call->ins[0], i));
        most = most > x || isnan(most) ? most : x;
    }
    put(call, 0, log2(most));
    return WEFT_OK;
}

/* dx = dy / (1 + |x|)^2, in two nodes. The first, which is as long as x, is made again there. */
static weft_status differentiate(weft_backward *b, const weft_node *n, weft_value *const *dys,
                                 weft_value **dxs, weft_error *err)
{
    weft_graph *g = weft_backward_graph(b);
    weft_value *falls = weft_add1(g, "squash_slope", NULL, weft_backward_saved(b, n->ins[0]));
    (void)err;
    dxs[0] = weft_backward_add(b, "squash_weigh", 0, 2, (weft_value *[]){falls, dys[0]}, NULL);
    return weft_graph_status(g);
}

static const weft_op squash_op = {
    .name = "squash",
    .summary = "x / (1 + |x|)",
    .rule = "* -> *",
    .flags = WEFT_OP_HALF,
    .plain = squash,
    .grad_of = "0",
    .grad_reads = "0",
    .differentiate = differentiate,
};
static const weft_op slope_op = {
    .name = "squash_slope",
    .summary = "1 / (1 + |x|)",
    .rule = "* -> *",
    .flags = WEFT_OP_STAT,
    .plain = slope,
};
static const weft_op weigh_op = {
    .name = "squash_weigh",
    .summary = "the first operand squared, times the second",
    .rule = "*, * -> *",
    .linear = "1",
    .flags = WEFT_OP_HALF,
    .plain = weigh,
};
static const weft_op exponent_op = {
    .name = "squash_exponent",
    .summary = "log2 of the largest |x|",
    .rule = "b s h ->",
    .flags = WEFT_OP_STAT | WEFT_OP_MAX,
    .plain = exponent,
};

/* ---- the passes ---- */

typedef struct settings {
    const weft_host *host;
    double keep;
} settings;

static const weft_param params[] = {
    {.name = "keep",
     WEFT_REAL(settings, keep),
     .value = "1e6",
     .max = 1e15,
     .unit = "bytes",
     .help = "A result of which a rank holds more is computed again in the backward."},
    {.name = NULL},
};

/* Where the plugin is listed: the results of attention go through the op. */
static void insert(void *self, weft_graph *g)
{
    (void)self;
    for (weft_node *n = weft_graph_first(g); n; n = n->next) {
        if (!weft_node_in(n, "attention"))
            continue;
        weft_graph_at(g, n->next);
        weft_replace(g, n->outs[0], weft_add1(g, "squash", NULL, n->outs[0]));
    }
}

/* Behind whoever narrows numbers, wherever that is listed: what is computed with is looked at. */
static void watch(void *self, weft_graph *g)
{
    weft_value *most = NULL;
    (void)self;
    for (weft_node *n = weft_graph_first(g); n && !most; n = n->next) {
        if (strcmp(n->op->name, "squash") != 0)
            continue;
        weft_graph_at(g, n->next);
        most = weft_add1(g, "squash_exponent", NULL, n->ins[0]);
    }
    weft_graph_at(g, NULL);
    weft_add_report(g, "squash_exponent", weft_accumulate(g, most, WEFT_MAX));
}

/* Layouts are there: how much of a result a rank holds decides whether it is kept. */
static void choose(void *self, weft_graph *g)
{
    const double keep = ((const settings *)self)->keep;
    for (weft_node *n = weft_graph_first(g); n; n = n->next)
        if (strcmp(n->op->name, "squash") == 0 &&
            (double)weft_value_part_bytes(g, n->outs[0]) > keep)
            n->outs[0]->recompute = true;
}

static const char *const needs[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = insert, .needs = needs},
    {.kind = WEFT_PASS,
     .stage = WEFT_STAGE_GRAPH,
     .modes = WEFT_IN_TRAIN,
     .graph = watch,
     .after = "low_precision?"},
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_PLACED, .graph = choose},
    {.kind = WEFT_END},
};
static const weft_op *const ops[] = {&squash_op, &slope_op, &weigh_op, &exponent_op, NULL};

WEFT_PLUGIN(squash) = {
    WEFT_PLUGIN_HEAD,
    .name = "squash",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "results of attention kept between -1 and 1",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .self_size = WEFT_SELF(settings),
    .contributions = contributions,
    .ops = ops,
};
