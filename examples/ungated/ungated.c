/* SPDX-License-Identifier: Apache-2.0 */
/* ungated: feed-forwards without a gate, gelu(up) instead of silu(gate) * up. It shows how a pass
 * takes nodes and parameters out of a model. */
#include <weft/weft.h>

#include <string.h>

/* Who read the gated product reads the other; then nobody needs the gate, its product and weight.
 */
static void open_gate(weft_graph *g, weft_node *n)
{
    weft_value *old = n->outs[0];
    weft_value *y = weft_add_before(g, n, "gelu", old->name, ".ungated", 1, &n->ins[1]);
    for (int i = y ? old->n_uses - 1 : -1; i >= 0; i--)
        weft_node_set_operand(g, old->uses[i].node, old->uses[i].operand, y);
    weft_remove(g, n);
}

static void open_gates(void *self, weft_graph *g)
{
    int n_found = 0;
    (void)self;
    for (weft_node *n = weft_graph_first(g); n && !weft_graph_status(g); n = n->next) {
        if (strcmp(n->op->name, "silu_mul") != 0)
            continue;
        open_gate(g, n); /* n->next still leads on */
        n_found++;
    }
    if (n_found == 0)
        weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                        "ungated: the model has no gated feed-forward; take ungated off the list");
}

static const char *const needs[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = open_gates, .needs = needs},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(ungated) = {
    WEFT_PLUGIN_HEAD,
    .name = "ungated",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "feed-forwards without a gate",
    .numerics = WEFT_NUMERICS_CHANGES,
    .contributions = contributions,
};
