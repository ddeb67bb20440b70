/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which places of the sequence lie in memory. */
#include "compile/graph/graph.h"

#include <string.h>

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
    if (!kept) {
        weft_fail_memory(&g->error);
        return;
    }
    memcpy(kept, order, (size_t)n * sizeof *kept);
    g->seq_order = kept;
    g->seq_order_by = g->by;
}
