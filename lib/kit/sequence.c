/* SPDX-License-Identifier: Apache-2.0 */
/* The sequence: what cuts it, and the order in which its places lie in memory. */
#include "compile/graph/graph.h"

#include <string.h>

bool weft_is_sequence(const char *dim)
{
    const size_t n = strlen(dim);
    return strcmp(dim, "seq") == 0 || (n > 4 && strcmp(dim + n - 4, "_seq") == 0);
}

static bool speaks_of(weft_rule_of of, const char *pattern, const weft_value *v)
{
    return of == WEFT_RULE_INPUT ? weft_node_is(v->node, WEFT_OP_INPUT)
                                 : v->role && strcmp(v->role, pattern) == 0;
}

void weft_add_rule_seq(weft_graph *g, weft_rule_of of, const char *pattern, const char *axis)
{
    const char *cut[WEFT_MAX_DIMS];
    int n_cut = 0;
    for (const weft_node *n = weft_graph_first(g); n; n = n->next)
        for (int d = 0; n->n_outs && d < n->outs[0]->n_dims && n_cut < WEFT_MAX_DIMS; d++) {
            const char *dim = n->outs[0]->dims[d].name;
            bool stays = !weft_is_sequence(dim) || !speaks_of(of, pattern, n->outs[0]);
            for (int i = 0; i < n_cut && !stays; i++)
                stays = strcmp(cut[i], dim) == 0;
            if (stays)
                continue;
            cut[n_cut++] = dim;
            weft_add_rule(g, of, pattern, dim, axis);
        }
    if (n_cut == 0)
        weft_add_rule(g, of, pattern, "seq", axis);
}

static bool is_permutation(weft_graph *g, const int32_t *order, int64_t n)
{
    bool *seen = weft_alloc_zero((size_t)n + 1, sizeof *seen), all = seen != NULL;
    for (int64_t i = 0; i < n && all; i++) {
        all = order[i] >= 0 && order[i] < n && !seen[order[i]];
        if (all)
            seen[order[i]] = true;
    }
    if (!seen)
        weft_fail_memory(&g->error);
    weft_free(seen);
    return all;
}

void weft_set_seq_order(weft_graph *g, const int32_t *order, int64_t n)
{
    int64_t seq = weft_graph_seq_len(g);
    if (weft_graph_status(g))
        return;
    if (g->placed || weft_graph_writes(g) || g->seq_order) {
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        g->seq_order ? "the order of the sequence is set already, by %s"
                                     : "the order of the sequence is set before placement, in "
                                       "graphs that train or validate%s",
                        g->seq_order ? g->seq_order_by : "");
        return;
    }
    if (n != seq || !is_permutation(g, order, n)) {
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "an order of the sequence has each of the %lld places once",
                        (long long)seq);
        return;
    }
    int32_t *kept = weft_pool_alloc(&g->pool, (size_t)n * sizeof *kept);
    int32_t *ends = weft_pool_alloc(&g->pool, (size_t)n * sizeof *ends);
    if (!kept || !ends) {
        weft_fail_memory(&g->error);
        return;
    }
    memcpy(kept, order, (size_t)n * sizeof *kept);
    for (int64_t i = n - 1; i >= 0; i--)
        ends[i] = i + 1 < n && order[i + 1] == order[i] + 1 ? ends[i + 1] : (int32_t)(i + 1);
    g->seq_order = kept;
    g->seq_ends = ends;
    g->seq_order_by = g->by;
}
