/* SPDX-License-Identifier: Apache-2.0 */
/* Mixtures of experts: the ops that models with experts are built of, where their rows lie, and
 * what is reported of them. */
#include "moe.h"

#define OF(op) &moe_##op,
const weft_op *const moe_ops[] = {MOE_OPS(OF) NULL};

/* Models with experts are listed behind moe: this says that their ops are there. */
static void begin(void *self, weft_graph *g)
{
    (void)self, (void)g;
}

static const char *const gives[] = {"experts", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = begin, .gives = gives},
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_TABLE, .graph = moe_place},
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_JOINT, .graph = moe_learn},
    {.kind = WEFT_END}};

WEFT_PLUGIN(moe) = {
    WEFT_PLUGIN_HEAD,
    .name = "moe",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "mixtures of experts: routing, rows in slots, grouped products, balance",
    .numerics = WEFT_NUMERICS_CHANGES,
    .contributions = contributions,
    .ops = moe_ops,
    .kernels = moe_kernels,
};
