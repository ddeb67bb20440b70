/* SPDX-License-Identifier: Apache-2.0 */
/* Context parallelism: the sequence of all inputs is cut over axis cp. Attention, which alone reads
 * other places, gathers keys and values, or lets them travel round the ranks; everything else
 * follows from placement. */
#include "cp.h"

static const char *const attentions[] = {"auto", "ring", "gather", NULL},
                         *const balances[] = {"head_tail", "none", NULL},
                         *const reductions[] = {"auto", "f32", NULL};

static const weft_param params[] = {
    {.name = "degree",
     .type = WEFT_PARAM_INT,
     .min = 1,
     .max = 1 << 16,
     .unit = "ranks",
     .flags = WEFT_PARAM_REQUIRED,
     .help = "Size of axis cp: ranks that share each sequence."},
    {.name = "attention",
     .type = WEFT_PARAM_CHOICE,
     .value = "auto",
     .choices = attentions,
     .help = "ring: keys and values travel from rank to rank while attention computes, two shards "
             "of them on each; gather: every rank gathers them whole; auto: what takes less time "
             "by the plan."},
    {.name = "balance",
     .type = WEFT_PARAM_CHOICE,
     .value = "head_tail",
     .choices = balances,
     .help = "head_tail: every rank has a piece of the head of the sequence and one of its tail, "
             "so that causal attention is as much work for all; none: pieces in order."},
    {.name = "reduce_dtype",
     .type = WEFT_PARAM_CHOICE,
     .value = "auto",
     .choices = reductions,
     .help = "What gathered keys' and values' gradients are made and reduced in: auto: the "
             "activations' own dtype; f32. In a ring they are always f32."},
    {.name = "flops_per_byte",
     .type = WEFT_PARAM_REAL,
     .value = "100",
     .min = 0,
     .max = 1e9,
     .help = "For attention = auto: operations that a rank computes while it sends one byte."},
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
    weft_status s = weft_mesh_plan_axis(plan, "cp", weft_params_int(p, "degree"),
                                        weft_params_where(p, "degree"), err);
    return s ? s : weft_mesh_plan_cuts(plan, "cp", "seq", err);
}

static bool rings(const weft_params *p, const weft_node *attention)
{
    if (!attention->op->ring || weft_params_is(p, "attention", "gather"))
        return false;
    return weft_params_is(p, "attention", "ring") ||
           cp_ring_pays(attention, weft_params_int(p, "degree"),
                        weft_params_real(p, "flops_per_byte"),
                        weft_params_is(p, "reduce_dtype", "f32"));
}

static void set_attention(weft_graph *g, const weft_params *p, weft_node *n)
{
    if (rings(p, n))
        weft_set_int(g, n->outs[0], "ring", 1);
    for (int i = 1; i <= 2 && weft_params_is(p, "reduce_dtype", "f32"); i++)
        weft_set_mark(g, n->ins[i], WEFT_MARK_WIDE_GRADIENT, 1);
}

static weft_status cut_sequence(void *self, weft_graph *g, weft_error *err)
{
    const weft_params *p = self;
    weft_mode mode = weft_graph_mode(g);
    (void)err;
    weft_add_storage(g, "cp"); /* in every mode alike */
    if ((mode != WEFT_MODE_TRAIN && mode != WEFT_MODE_EVALUATE) ||
        weft_mesh_find(weft_graph_mesh(g), "cp") < 0)
        return weft_graph_status(g);
    weft_add_rule(g, WEFT_RULE_INPUT, NULL, "seq", "cp");
    weft_add_regather(g, "cp");
    for (weft_node *n = weft_graph_first(g); n && !weft_graph_status(g); n = n->next)
        if (weft_node_in(n, "attention"))
            set_attention(g, p, n);
    if (weft_params_is(p, "balance", "head_tail"))
        cp_balance(g, weft_params_int(p, "degree"));
    return weft_graph_status(g);
}

static weft_status make_steps(void *self, weft_graph *g, weft_error *err)
{
    (void)self, (void)err;
    cp_expand_rings(g);
    return weft_graph_status(g);
}

static const char *const needs[] = {"model", NULL}, *const gives_axis[] = {"axis:cp", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_MESH, .mesh = declare_axis, .gives = gives_axis},
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = cut_sequence, .needs = needs},
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_CLOSED, .graph = make_steps},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(cp) = {
    WEFT_PLUGIN_HEAD,
    .name = "cp",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "context parallelism: rings, or gathers, of keys and values",
    .numerics = WEFT_NUMERICS_TOLERANCE,
    .params = params,
    .contributions = contributions,
    .create = create,
};
