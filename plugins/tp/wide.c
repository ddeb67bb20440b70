/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over tp in f32: a product whose result is an open sum over tp keeps f32 until the sum is
 * closed, and is narrowed behind it. */
#include "tp.h"

#include <string.h>

static const char role[] = "tp_sum";

static bool contracts(const weft_node *n, const char *dim)
{
    for (int i = 0; i < n->n_ins; i++)
        if (n->ins[i]->weight && weft_value_dim(n->ins[i], dim) >= 0)
            return weft_value_dim(n->outs[0], dim) < 0;
    return false;
}

/* A product that contracts a dim of its weight which tp cuts. */
static bool is_row_parallel(const weft_node *n)
{
    if (!weft_node_in(n, "linear") || n->outs[0]->role)
        return false;
    for (const char *const *dim = tp_dims; *dim; dim++)
        if (contracts(n, *dim))
            return true;
    return false;
}

/* The mark `wide` tells whoever narrows values later to leave this one and to narrow behind it. */
static void keep_wide(weft_graph *g, weft_value *v)
{
    weft_set_mark(g, v, WEFT_MARK_WIDE, 1);
    weft_set_role(g, v, role);
    if (v->dtype != WEFT_BF16)
        return;
    weft_value *narrow = weft_insert_at_use(g, v, "cast", ".n", NULL, NULL);
    weft_set_mark(g, narrow, WEFT_MARK_PASS_ON,
                  1); /* the gradient stays as narrow as it is: nothing is summed on its way */
    if (!narrow)
        return;
    v->dtype = WEFT_F32;
    narrow->dtype = WEFT_BF16;
    narrow->recompute = v->recompute;
}

weft_status tp_sum_wide(weft_graph *g, bool sequence)
{
    for (weft_node *n = weft_graph_first(g); n; n = n->next)
        if (is_row_parallel(n))
            keep_wide(g, n->outs[0]);
    weft_add_rule(g, WEFT_RULE_ROLE, role, sequence ? "seq" : NULL, "tp");
    return weft_graph_status(g);
}
