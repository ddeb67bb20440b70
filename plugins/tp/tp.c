/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor parallelism is a table: heads, kv_heads, ffn and vocab of parameters are cut over axis tp, the sequence of the residual stream too. Column
 * and row parallel products, sequence parallel norms, the sharded embedding and the parallel loss follow from it. */
#include "tp.h"

#include <string.h>

static const weft_param params[] = {
    {.name = "degree",
     .type = WEFT_PARAM_INT,
     .min = 1,
     .max = 1 << 16,
     .unit = "ranks",
     .flags = WEFT_PARAM_REQUIRED,
     .help = "Size of axis tp: ranks that share every product."},
    {.name = "sequence_parallel",
     .type = WEFT_PARAM_BOOL,
     .value = "yes",
     .help = "Cut the sequence of the residual stream, so that norms and sums are shared as well."},
    {.name = "loss_parallel", .type = WEFT_PARAM_BOOL, .value = "yes", .help = "Keep logits cut by vocabulary; no: every rank holds them whole."},
    {.name = NULL},
};

/* The settings are all there is to remember. */
static weft_status create(const weft_host *host, void **self, weft_error *err)
{
    (void)err;
    *self = (void *)(uintptr_t)host->params;
    return WEFT_OK;
}

static weft_status declare_axis(void *self, weft_mesh_plan *plan, weft_error *err)
{
    const weft_params *p = self;
    return weft_mesh_plan_axis(plan, "tp", weft_params_int(p, "degree"), weft_params_where(p, "degree"), err);
}

/* Are there too few key heads to cut? Then repeat_kv stands before attention, and keys are whole on every rank. */
static bool repeats_kv(const weft_graph *g)
{
    for (const weft_node *n = weft_graph_first(g); n; n = n->next)
        if (strcmp(n->op->name, "repeat_kv") == 0)
            return true;
    return false;
}

static weft_status add_table(void *self, weft_graph *g, weft_error *err)
{
    static const char *const dims[] = {"heads", "ffn", "vocab"};
    const weft_params *p = self;
    (void)err;
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++)
        weft_add_rule(g, WEFT_RULE_PARAM, NULL, dims[i], "tp");
    if (tp_repeat_kv(g, weft_params_int(p, "degree")))
        return weft_graph_status(g);
    if (!repeats_kv(g))
        weft_add_rule(g, WEFT_RULE_PARAM, NULL, "kv_heads", "tp");
    weft_add_rule(g, WEFT_RULE_ROLE, "residual", weft_params_bool(p, "sequence_parallel") ? "seq" : NULL, "tp");
    if (!weft_params_bool(p, "loss_parallel"))
        weft_add_rule(g, WEFT_RULE_ROLE, "logits", NULL, "tp");
    return weft_graph_status(g);
}

static const char *const needs[] = {"model", NULL}, *const gives_axis[] = {"axis:tp", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_MESH, .mesh = declare_axis, .gives = gives_axis},
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = add_table, .needs = needs},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(tp) = {
    WEFT_PLUGIN_HEAD,
    .name = "tp",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "tensor, sequence and loss parallelism",
    .numerics = WEFT_NUMERICS_TOLERANCE,
    .params = params,
    .contributions = contributions,
    .ops = tp_ops,
    .create = create,
};
