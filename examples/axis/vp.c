/* SPDX-License-Identifier: Apache-2.0 */
/* vp, a parallelism outside the tree: an axis whose ranks work on different samples, and share the
 * vocabulary's tables instead of gathering them. */
#include <weft/weft.h>

static const weft_param params[] = {
    {.name = "degree",
     .type = WEFT_PARAM_INT,
     .min = 1,
     .max = 4096,
     .unit = "ranks",
     .flags = WEFT_PARAM_REQUIRED,
     .help = "Size of axis vp."},
    {.name = NULL},
};

static void add_table(void *self, weft_graph *g)
{
    (void)self;
    weft_add_rule(g, WEFT_RULE_INPUT, NULL, "batch", "vp"); /* every rank its samples */
    weft_add_rule(g, WEFT_RULE_PARAM, NULL, "vocab", "vp"); /* and its part of embedding and head */
    weft_add_rule(g, WEFT_RULE_ROLE, "residual", "batch",
                  "vp");       /* a looked-up row goes to the rank whose sample asked */
    weft_add_storage(g, "vp"); /* with fsdp, all other parameters are stored cut over vp, too */
}

static const char *const needs[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_AXIS, .axis = "vp", .degree = "degree"},
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = add_table, .needs = needs},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(vp) = {
    WEFT_PLUGIN_HEAD,
    .name = "vp",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "vocabulary parallelism over data ranks",
    .numerics = WEFT_NUMERICS_TOLERANCE,
    .params = params,
    .contributions = contributions,
};
