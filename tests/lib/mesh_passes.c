/* SPDX-License-Identifier: Apache-2.0 */
#include "mesh_passes.h"

static void cut_sequence(void *self, weft_graph *g)
{
    (void)self;
    weft_add_rule(g, WEFT_RULE_INPUT, NULL, "seq", "cp");
    weft_add_storage(g, "cp");
}

static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = cut_sequence}, {.kind = WEFT_END}};

const weft_plugin mesh_cp = {
    WEFT_PLUGIN_HEAD,
    .name = "cp",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "sequences cut over ranks",
    .contributions = contributions,
};
