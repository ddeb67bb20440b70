/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor parallelism is a table: heads, kv_heads, ffn and vocab of parameters are cut over axis tp,
 * the sequence of the residual stream too. Column and row parallel products, sequence parallel
 * norms, the sharded embedding and the parallel loss follow from it. */
#include "tp.h"

#include <string.h>

const char *const tp_dims[] = {"heads", "ffn", "vocab", NULL};

static const char *const reductions[] = {"auto", "f32", NULL};

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
    {.name = "regather",
     .type = WEFT_PARAM_BOOL,
     .value = "yes",
     .help = "With sequence_parallel: gather a block's tokens again in the backward instead of "
             "keeping them whole on every rank."},
    {.name = "loss_parallel",
     .type = WEFT_PARAM_BOOL,
     .value = "yes",
     .help = "Keep logits cut by vocabulary; no: every rank holds them whole."},
    {.name = "reduce_dtype",
     .type = WEFT_PARAM_CHOICE,
     .value = "auto",
     .choices = reductions,
     .help = "What the forward's sums over tp are made and sent in: auto: the activations' own "
             "dtype; f32: twice the bytes of bf16, rounded once."},
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
    return weft_mesh_plan_axis(plan, "tp", weft_params_int(p, "degree"),
                               weft_params_where(p, "degree"), err);
}

/* Are there too few key heads to cut? Then repeat_kv stands before attention, and keys are whole on
 * every rank. */
static bool repeats_kv(const weft_graph *g)
{
    for (const weft_node *n = weft_graph_first(g); n; n = n->next)
        if (n->op == tp_ops[0])
            return true;
    return false;
}

static weft_status add_table(void *self, weft_graph *g, weft_error *err)
{
    const weft_params *p = self;
    (void)err;
    for (const char *const *dim = tp_dims; *dim; dim++)
        weft_add_rule(g, WEFT_RULE_PARAM, NULL, *dim, "tp");
    if (weft_params_is(p, "reduce_dtype", "f32") && weft_params_int(p, "degree") > 1)
        tp_sum_wide(g, weft_params_bool(p, "sequence_parallel"));
    if (tp_repeat_kv(g, weft_params_int(p, "degree")))
        return weft_graph_status(g);
    if (!repeats_kv(g))
        weft_add_rule(g, WEFT_RULE_PARAM, NULL, "kv_heads", "tp");
    weft_add_rule(g, WEFT_RULE_ROLE, "residual",
                  weft_params_bool(p, "sequence_parallel") ? "seq" : NULL, "tp");
    if (weft_params_bool(p, "regather"))
        weft_add_regather(g, "tp");
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
