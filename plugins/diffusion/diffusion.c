/* SPDX-License-Identifier: Apache-2.0 */
/* What models of diffusion are built of; the list of this plugin says that its ops are there. */
#include "diffusion.h"

#define OF(op) &diffusion_##op,
static const weft_op *const ops[] = {DIFFUSION_OPS(OF) NULL};

static void begin(void *self, weft_graph *g)
{
    (void)self, (void)g;
}

static const char *const gives[] = {"diffusion", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = begin, .gives = gives},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(diffusion) = {
    WEFT_PLUGIN_HEAD,
    .name = "diffusion",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "ops of diffusion: noise, times, flows, modulation, two sequences in one",
    .numerics = WEFT_NUMERICS_BITWISE,
    .contributions = contributions,
    .ops = ops,
    .kernels = diffusion_kernels,
};
