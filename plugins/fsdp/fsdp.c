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

typedef struct fsdp {
    const weft_host *host;
    int64_t degree, replicate, reshard, prefetch;
    int zero, group, two_level;
} fsdp;

/* What the words of the keys are in the fields. */
enum { RESHARD_YES = -1, RESHARD_NO = -2 }; /* else but so many blocks */
enum { GROUP_BLOCK, GROUP_NONE };
enum { TWO_LEVEL_NO, TWO_LEVEL_STEP, TWO_LEVEL_MICRO_BATCH };

static const weft_param params[] = {
    {.name = "degree",
     WEFT_INT(fsdp, degree),
     .tune = "auto",
     .value = "auto",
     .min = 1,
     .max = 1 << 20,
     .unit = "ranks",
     .choices = automatic,
     .help = "Size of axis dp_shard: ranks that share one copy of the parameters; auto: all ranks "
             "that other axes leave."},
    {.name = "replicate",
     WEFT_INT(fsdp, replicate),
     .tune = "ranks",
     .value = "1",
     .min = 1,
     .max = 1 << 20,
     .unit = "copies",
     .help = "Size of axis dp_replicate: copies of the sharded parameters (HSDP)."},
    {.name = "zero",
     WEFT_CHOICE(fsdp, zero),
     .tune = "1 2 3",
     .value = "3",
     .choices = levels,
     .help = "What is sharded: 0 nothing; 1 optimizer state (gather and reduce once a step); 2 "
             "gradients, too (reduce every micro-batch); 3 "
             "parameters, too (gather every micro-batch)."},
    {.name = "reshard",
     WEFT_INT(fsdp, reshard),
     .tune = "yes no",
     .value = "yes",
     .min = 0,
     .max = 1 << 20,
     .unit = "blocks",
     .choices = reshards,
     .when = "zero=3",
     .help = "Which gathered weights are freed after the forward and gathered again in the "
             "backward: yes, all; no, none; a number, all but the last so many blocks."},
    {.name = "group",
     WEFT_CHOICE(fsdp, group),
     .value = "block",
     .choices = groups,
     .when = "zero!=0",
     .help = "What is sent as one: block, the parameters (and gradients) of a block; none, each "
             "for itself."},
    {.name = "prefetch",
     WEFT_INT(fsdp, prefetch),
     .value = "1",
     .min = 0,
     .max = 1000,
     .unit = "blocks",
     .when = "zero=3",
     .help = "Gather this many blocks ahead of the one that computes; more hides more of the wait "
             "and holds more memory."},
    {.name = "two_level",
     WEFT_CHOICE(fsdp, two_level),
     .value = "no",
     .choices = levels_of_gathers,
     .when = "replicate!=1",
     .help = "The copies share their storage, too, and parameters are gathered "
             "over dp_replicate first, then over dp_shard. step: over dp_replicate once a step; "
             "micro_batch (with zero = 3): for each micro-batch, kept for its backward, which "
             "gathers over dp_shard alone; no: every copy is stored."},
    {.name = NULL},
};

static weft_status create(void *self, weft_error *err)
{
    const fsdp *p = self;
    weft_where at = weft_params_where(p->host->params, "two_level");
    if (p->two_level && p->zero == 0)
        return weft_fail(
            err, WEFT_ERR_INPUT, at,
            "[fsdp] two_level: with zero = 0 nothing is gathered; set zero to 1, 2 or 3");
    if (p->two_level == TWO_LEVEL_MICRO_BATCH && p->zero < 3)
        return weft_fail(
            err, WEFT_ERR_INPUT, at,
            "[fsdp] two_level = micro_batch: with zero = %d parameters are gathered once "
            "a step; set zero = 3, or two_level = step",
            p->zero);
    return WEFT_OK;
}

/* The last blocks of the forward are the first of the backward: to free what they gathered saves
 * little and costs a gather. The head's forward and backward run side by side. */
static bool gathers_again(const fsdp *p, const weft_graph *g, int block)
{
    if (p->zero < 3 || block == WEFT_BLOCK_HEAD || p->reshard == RESHARD_NO)
        return false;
    return p->reshard == RESHARD_YES || block < weft_graph_blocks(g) - p->reshard;
}

/* A gather where v is used; each: in every micro-batch, else once a step. */
static weft_value *gather(weft_graph *g, const fsdp *p, weft_value *v, bool each)
{
    weft_value *gathered = weft_insert_at_use(g, v, "gather", ".g", NULL, NULL);
    weft_set_scope(g, gathered, each ? WEFT_MICRO_BATCH : WEFT_STEP_BEGIN);
    if (p->group == GROUP_BLOCK)
        weft_set_mark(g, gathered, WEFT_MARK_GROUP, WEFT_GROUP_BLOCK);
    if (each && p->prefetch)
        weft_set_mark(g, gathered, WEFT_MARK_PREFETCH, p->prefetch);
    return gathered;
}

static void gather_at_use(weft_graph *g, weft_value *v, void *self)
{
    const fsdp *p = self;
    if (p->two_level) { /* over the slower links first: what is left is a shard of dp_shard */
        v = gather(g, p, v, p->two_level == TWO_LEVEL_MICRO_BATCH);
        weft_set_text(g, v, "axes", "dp_replicate");
    }
    weft_value *gathered = v ? gather(g, p, v, p->zero == 3) : NULL;
    if (!gathered)
        return;
    weft_set_recompute(g, gathered, gathers_again(p, g, gathered->node->block));
    if (p->zero == 2)
        weft_set_mark(g, gathered, WEFT_MARK_REDUCE_EACH, 1);
}

static void shard(void *self, weft_graph *g)
{
    const fsdp *p = self;
    weft_add_rule(g, WEFT_RULE_INPUT, NULL, "batch", "dp_replicate");
    weft_add_rule(g, WEFT_RULE_INPUT, NULL, "batch", "dp_shard");
    if (p->zero == 0)
        return;
    weft_add_storage(g, "dp_shard");
    if (p->two_level)
        weft_add_storage(g, "dp_replicate");
    weft_each_use_edge(g, gather_at_use, self);
}

static const char *const needs[] = {"model", NULL}, *const gives[] = {"gathered", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_AXIS, .axis = "dp_shard", .degree = "degree", .cuts = "batch"},
    {.kind = WEFT_AXIS, .axis = "dp_replicate", .degree = "replicate", .cuts = "batch"},
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = shard, .needs = needs, .gives = gives},
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
    .self_size = WEFT_SELF(fsdp),
    .create = create,
};
