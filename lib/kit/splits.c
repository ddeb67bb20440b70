/* SPDX-License-Identifier: Apache-2.0 */
/* For passes that cut tokens into pieces: which nodes pieces go through apart. */
#include "compile/graph/graph.h"

#include <string.h>

enum { NONE = -1, SEVERAL = -2 };

/* The index of every dim of this name, if these are one index; NONE: it has no such dim. */
static int index_of(const weft_value *v, const weft_rule_part *part, const char *dim)
{
    int index = NONE;
    for (int d = 0; d < v->n_dims; d++) {
        if (strcmp(v->dims[d].name, dim) != 0)
            continue;
        const bool one = index == NONE && !part->whole[d] && !part->more[d];
        index = one ? part->letter[d] : SEVERAL;
    }
    return index;
}

/* Every result has the index, and as this dim. */
static bool is_in_all(const weft_node *n, const weft_rule *rule, int index, const char *dim)
{
    for (int i = 0; i < n->n_outs; i++)
        if (index_of(n->outs[i], &rule->out[i], dim) != index)
            return false;
    return n->n_outs > 0;
}

bool weft_node_splits(weft_graph *g, const weft_node *n, const char *dim)
{
    weft_rule rule;
    int index = NONE;
    if (n->like || (n->op->flags & WEFT_OP_SOURCE) ||
        weft_node_find_rule(g, n, true, &rule, &g->error))
        return false;
    for (int i = 0; i < n->n_ins; i++) {
        const int here = index_of(n->ins[i], &rule.in[i], dim);
        if (here == SEVERAL ||
            (here != NONE && (n->ins[i]->weight || (index != NONE && here != index))))
            return false;
        index = here == NONE ? index : here;
    }
    for (int i = 0; i < n->n_ins && index != NONE; i++) /* as another dim it would stay whole */
        if (index_of(n->ins[i], &rule.in[i], dim) == NONE && weft_rule_dim(&rule.in[i], index) >= 0)
            return false;
    if (index != NONE && weft_node_rings(n) && strcmp(rule.name[index], n->op->ring->index) == 0)
        return false; /* it stands for places of queries and of keys */
    return index != NONE && !(rule.whole >> index & 1u) && is_in_all(n, &rule, index, dim);
}
