/* SPDX-License-Identifier: Apache-2.0 */
/* Data parallelism and sharded storage: ZeRO-1, -2, -3, FSDP, HSDP and plain replication are
 * settings of one mechanism. The batch is cut over dp_replicate and dp_shard; parameters are stored
 * cut over every axis that cuts tokens; a gather stands where a weight is used. Everything else
 * follows from placement. */
#include <weft/weft.h>

static const char *const automatic[] = {"auto", NULL};
static const char *const levels[] = {"0", "1", "2", "3", NULL};
static const char *const reshards[] = {"yes", "no", NULL};

static const char *const levels_of_gathers[] = {"no", "step", "micro_batch", NULL};
static const char *const groups[] = {"block", "none", NULL};

static const weft_param params[] = {
    {.name = "degree",
     .type = WEFT_PARAM_INT,
     .value = "auto",
     .min = 1,
     .max = 1 << 20,
     .unit = "ranks",
     .choices = automatic,
     .help = "Size of axis dp_shard: ranks that share one copy of the parameters; auto: all ranks "
             "that other axes leave."},
    {.name = "replicate",
     .type = WEFT_PARAM_INT,
     .value = "1",
     .min = 1,
     .max = 1 << 20,
     .unit = "copies",
     .help = "Size of axis dp_replicate: copies of the sharded parameters (HSDP)."},
    {.name = "zero",
     .type = WEFT_PARAM_CHOICE,
     .value = "3",
     .choices = levels,
     .help = "What is sharded: 0 nothing; 1 optimizer state (gather and reduce once a step); 2 "
             "gradients, too (reduce every micro-batch); 3 "
             "parameters, too (gather every micro-batch)."},
    {.name = "reshard",
     .type = WEFT_PARAM_INT,
     .value = "yes",
     .min = 0,
     .max = 1 << 20,
     .unit = "blocks",
     .choices = reshards,
     .help = "With zero = 3: which gathered weights are freed after the forward and gathered again "
             "in the backward: yes, all; no, none; a number, all but the last so many blocks."},
    {.name = "group",
     .type = WEFT_PARAM_CHOICE,
     .value = "block",
     .choices = groups,
     .help = "What is sent as one: block, the parameters (and gradients) of a block; none, each "
             "for itself."},
    {.name = "prefetch",
     .type = WEFT_PARAM_INT,
     .value = "1",
     .min = 0,
     .max = 1000,
     .unit = "blocks",
     .help = "With zero = 3: gather this many blocks ahead of the one that computes; more hides "
             "more of the wait and holds more memory."},
    {.name = "two_level",
     .type = WEFT_PARAM_CHOICE,
     .value = "no",
     .choices = levels_of_gathers,
     .help = "With replicate > 1: the copies share their storage, too, and parameters are gathered "
             "over dp_replicate first, then over dp_shard. step: over dp_replicate once a step; "
             "micro_batch (with zero = 3): for each micro-batch, kept for its backward, which "
             "gathers over dp_shard alone; no: every copy is stored."},
    {.name = NULL},
};

static weft_status check(const weft_params *p, weft_error *err)
{
    weft_where at = weft_params_where(p, "two_level");
    if (weft_params_is(p, "two_level", "no"))
        return WEFT_OK;
    if (weft_params_is(p, "zero", "0"))
        return weft_fail(
            err, WEFT_ERR_INPUT, at,
            "[fsdp] two_level: with zero = 0 nothing is gathered; set zero to 1, 2 or 3");
    if (weft_params_is(p, "two_level", "micro_batch") && !weft_params_is(p, "zero", "3"))
        return weft_fail(
            err, WEFT_ERR_INPUT, at,
            "[fsdp] two_level = micro_batch: with zero = %s parameters are gathered once "
            "a step; set zero = 3, or two_level = step",
            weft_params_text(p, "zero"));
    return WEFT_OK;
}

/* The settings are all there is to remember. */
static weft_status create(const weft_host *host, void **self, weft_error *err)
{
    *self = (void *)(uintptr_t)host->params;
    return check(host->params, err);
}

static weft_status declare_axes(void *self, weft_mesh_plan *plan, weft_error *err)
{
    const weft_params *p = self;
    int64_t degree = weft_params_is(p, "degree", "auto") ? 0 : weft_params_int(p, "degree");
    weft_status s =
        weft_mesh_plan_axis(plan, "dp_shard", degree, weft_params_where(p, "degree"), err);
    s = s ? s
          : weft_mesh_plan_axis(plan, "dp_replicate", weft_params_int(p, "replicate"),
                                weft_params_where(p, "replicate"), err);
    s = s ? s : weft_mesh_plan_cuts(plan, "dp_shard", "batch", err);
    return s ? s : weft_mesh_plan_cuts(plan, "dp_replicate", "batch", err);
}

/* The last blocks of the forward are the first of the backward: to free what they gathered saves
 * little and costs a gather. */
static bool gathers_again(const weft_params *p, const weft_graph *g, int block)
{
    if (weft_params_is(p, "reshard", "yes") || weft_params_is(p, "reshard", "no"))
        return weft_params_is(p, "reshard", "yes");
    return block < weft_graph_blocks(g) - weft_params_int(p, "reshard");
}

static void set_marks(weft_graph *g, const weft_params *p, weft_value *gathered)
{
    if (weft_params_is(p, "group", "block"))
        weft_set_mark(g, gathered, WEFT_MARK_GROUP, WEFT_GROUP_BLOCK);
    if (gathered->node->scope == WEFT_MICRO_BATCH && weft_params_int(p, "prefetch") > 0)
        weft_set_mark(g, gathered, WEFT_MARK_PREFETCH, weft_params_int(p, "prefetch"));
}

/* Over dp_replicate, whose links are the slower ones: what is left is a shard of dp_shard. */
static weft_value *gather_copies(weft_graph *g, const weft_params *p, weft_value *v)
{
    weft_value *gathered = weft_insert_at_use(g, v, "gather", ".g", NULL, NULL);
    if (!gathered)
        return NULL;
    bool every = weft_params_is(p, "two_level", "micro_batch");
    gathered->node->scope = every ? WEFT_MICRO_BATCH : WEFT_STEP_BEGIN;
    weft_set_text(g, gathered, "axes", "dp_replicate");
    set_marks(g, p, gathered);
    return gathered;
}

static void gather_at_use(weft_graph *g, weft_value *v, void *ctx)
{
    const weft_params *p = ctx;
    if (!weft_params_is(p, "two_level", "no"))
        v = gather_copies(g, p, v);
    if (!v)
        return;
    weft_value *gathered = weft_insert_at_use(g, v, "gather", ".g", NULL, NULL);
    if (!gathered)
        return;
    bool every = weft_params_is(p, "zero", "3");
    gathered->node->scope = every ? WEFT_MICRO_BATCH : WEFT_STEP_BEGIN;
    bool head =
        gathered->node->block == WEFT_BLOCK_HEAD; /* whose forward and backward run side by side */
    gathered->recompute = every && gathers_again(p, g, gathered->node->block) && !head;
    if (weft_params_is(p, "zero", "2"))
        weft_set_mark(g, gathered, WEFT_MARK_REDUCE_EACH, 1);
    set_marks(g, p, gathered);
}

static weft_status shard(void *self, weft_graph *g, weft_error *err)
{
    const weft_params *p = self;
    (void)err;
    weft_add_rule(g, WEFT_RULE_INPUT, NULL, "batch", "dp_replicate");
    weft_add_rule(g, WEFT_RULE_INPUT, NULL, "batch", "dp_shard");
    if (weft_params_is(p, "zero", "0"))
        return weft_graph_status(g);
    weft_add_storage(g, "dp_shard");
    if (!weft_params_is(p, "two_level", "no"))
        weft_add_storage(g, "dp_replicate");
    weft_each_use_edge(g, gather_at_use, self);
    return weft_graph_status(g);
}

static const char *const needs[] = {"model", NULL},
                         *const gives_axis[] = {"axis:dp_shard", "axis:dp_replicate", NULL},
                         *const gives_gathered[] = {"gathered", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_MESH, .mesh = declare_axes, .gives = gives_axis},
    {.kind = WEFT_PASS,
     .stage = WEFT_STAGE_GRAPH,
     .graph = shard,
     .needs = needs,
     .gives = gives_gathered},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(fsdp) = {
    WEFT_PLUGIN_HEAD,
    .name = "fsdp",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "data parallelism with sharded parameters, gradients and optimizer state",
    .numerics = WEFT_NUMERICS_TOLERANCE,
    .params = params,
    .contributions = contributions,
    .create = create,
};
