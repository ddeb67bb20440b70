/* SPDX-License-Identifier: Apache-2.0 */
/* What optimizers share: which parameters are left. */
#include "compile/graph/graph.h"

#include <string.h>

int weft_graph_unclaimed(const weft_graph *g, bool (*pick)(const weft_value *p, void *ctx),
                         void *ctx, weft_value **list)
{
    int n = 0;
    for (int i = 0; i < g->n_parameters; i++) {
        weft_value *p = g->parameters[i];
        if (!p->gradient || p->updated_by || (pick && !pick(p, ctx)))
            continue;
        if (list)
            list[n] = p;
        n++;
    }
    return n;
}

static bool anything_updated(const weft_graph *g)
{
    for (int i = 0; i < g->n_parameters; i++)
        if (g->parameters[i]->updated_by)
            return true;
    for (int i = 0; i < g->n_states; i++)
        if (g->states[i]->updated_by)
            return true;
    return false;
}

weft_status weft_graph_check_claims(weft_graph *g)
{
    int n = weft_graph_unclaimed(g, NULL, NULL, NULL), first = 0;
    if (n == 0 || !anything_updated(g)) /* a plan of the model alone */
        return weft_graph_status(g);
    while (!g->parameters[first]->gradient || g->parameters[first]->updated_by)
        first++;
    weft_text more = {0};
    if (n > 1)
        weft_text_print(&more, " and %d more parameter%s", n - 1, n > 2 ? "s" : "");
    weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                    "no optimizer updates %s%s, though %s; list one that takes what others leave, "
                    "as adamw, behind them in [weft] plugins",
                    g->parameters[first]->name, weft_text_get(&more),
                    n > 1 ? "they have gradients" : "it has a gradient");
    weft_text_release(&more);
    return weft_graph_status(g);
}
