/* SPDX-License-Identifier: Apache-2.0 */
/* The terms of a loss, reported each by its name; lib/kit adds them. */
#include "compile/graph/graph.h"

#include <stdio.h>
#include <string.h>

static bool is_first(const weft_graph *g, int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(g->terms[k]->name, g->terms[i]->name) == 0)
            return false;
    return true;
}

bool weft_loss_has_terms(const weft_graph *g)
{
    for (int i = 1; i < g->n_terms; i++)
        if (is_first(g, i))
            return true;
    return false;
}

/* All of this name together. */
static weft_value *whole_term(weft_graph *g, const char *name)
{
    weft_value **list = weft_pool_alloc(&g->pool, (size_t)g->n_terms * sizeof *list);
    int n = 0;
    for (int i = 0; list && i < g->n_terms; i++)
        if (strcmp(g->terms[i]->name, name) == 0)
            list[n++] = g->terms[i]->value;
    return n == 1 ? list[0] : weft_add(g, "add", NULL, n, list);
}

weft_status weft_loss_report(weft_graph *g)
{
    for (int i = 0; i < g->n_terms && weft_loss_has_terms(g); i++) {
        if (!is_first(g, i))
            continue;
        char name[WEFT_LOSS_NAME + 8];
        snprintf(name, sizeof name, "loss.%s", g->terms[i]->name);
        weft_value *total = weft_accumulate(g, whole_term(g, g->terms[i]->name), WEFT_SUM);
        if (weft_graph_status(g))
            break;
        weft_graph_report(g, name, total);
    }
    return weft_graph_status(g);
}
