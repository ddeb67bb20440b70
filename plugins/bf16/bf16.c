/* SPDX-License-Identifier: Apache-2.0 */
/* bf16 for what works on tokens: activations are stored in it, weights are cast to it where a
 * product or a table reads them. Norms, softmax and the loss compute in f32 inside; statistics,
 * parameters, gradients of parameters and the optimizer stay f32. Independent of any mesh. */
#include <weft/weft.h>

#include <string.h>

static bool reads_half_weight(const weft_use *use, void *ctx)
{
    (void)ctx;
    return (use->node->op->flags & WEFT_OP_HALF_WEIGHT) &&
           !weft_get_mark(use->node, WEFT_MARK_EXACT);
}

static void cast_weight(weft_graph *g, weft_value *v, void *ctx)
{
    if (v->dtype == WEFT_F32)
        weft_cast_at_use(g, v, WEFT_BF16, ".c", reads_half_weight, ctx);
}

static bool is_half(const weft_value *v)
{
    return v->dtype == WEFT_BF16 || weft_dtype_is_f8(v->dtype);
}

/* Narrowness begins where a weight is read in bf16 (products, tables) and flows along with the
 * tokens: what is made from f32 statistics alone, as the loss, stays f32. */
static bool is_narrow(const weft_node *n)
{
    if (!(n->op->flags & WEFT_OP_HALF) || weft_get_mark(n, WEFT_MARK_EXACT))
        return false;
    if (n->op->flags & WEFT_OP_HALF_WEIGHT)
        return true;
    for (int i = 0; i < n->n_ins; i++)
        if (is_half(n->ins[i]) && !n->ins[i]->weight)
            return true;
    return false;
}

static bool is_use_of(const weft_use *use, void *node)
{
    return use->node == node;
}

/* A product that is marked `exact` reads tokens that are narrow already as f32. */
static void widen_operands(weft_graph *g, weft_node *n)
{
    for (int i = 0; i < n->n_ins && weft_get_mark(n, WEFT_MARK_EXACT); i++)
        if (n->ins[i]->dtype == WEFT_BF16)
            weft_cast_at_use(g, n->ins[i], WEFT_F32, ".x", is_use_of, n);
}

/* A sum over ranks that shall be closed first (the mark `wide`) is narrowed behind it. Of an op
 * that also gives statistics, only the first result is narrowed. */
static void narrow_results(weft_graph *g, weft_node *n)
{
    if (is_narrow(n) && weft_get_mark(n, WEFT_MARK_WIDE)) {
        weft_narrow_at_use(g, n->outs[0]);
        return;
    }
    int count = n->op->flags & WEFT_OP_STAT ? 1 : n->n_outs;
    for (int i = 0; i < count && is_narrow(n); i++)
        if (n->outs[i]->dtype == WEFT_F32 && !n->outs[i]->weight)
            n->outs[i]->dtype = WEFT_BF16;
}

static weft_status create(void *self, weft_error *err)
{
    const weft_host *host = self;
    if (weft_params_is(host->train, "dtype", "f64"))
        return weft_fail(
            err, WEFT_ERR_INPUT, weft_params_where(host->train, "dtype"),
            "bf16 needs [train] dtype = f32; leave bf16 out of [weft] plugins to train in f64");
    return WEFT_OK;
}

/* Parameters that are gathered before they are made narrow travel in twice the bytes. */
static void check_gathers(const weft_host *host, const weft_graph *g)
{
    const weft_node *n = weft_graph_first(g);
    while (n && !weft_node_is(n, WEFT_OP_GATHER))
        n = n->next;
    if (n)
        weft_warn(host, WEFT_NOWHERE,
                  "bf16 is listed behind %s: parameters are gathered in f32, twice the "
                  "bytes of bf16; list bf16 before %s",
                  n->by, n->by);
}

static void run(void *self, weft_graph *g)
{
    check_gathers(self, g);
    for (weft_node *n = weft_graph_first(g); n; n = n->next) {
        widen_operands(g, n);
        narrow_results(g, n);
    }
    weft_each_use_edge(g, cast_weight, NULL);
}

static const char *const needs[] = {"model", NULL}, *const gives[] = {"low_precision", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = run, .needs = needs, .gives = gives},
    {.kind = WEFT_END}};

WEFT_PLUGIN(bf16) = {
    WEFT_PLUGIN_HEAD,
    .name = "bf16",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "activations and weight copies in bf16; sums, statistics and optimizer in f32",
    .numerics = WEFT_NUMERICS_CHANGES,
    .contributions = contributions,
    .create = create,
};
