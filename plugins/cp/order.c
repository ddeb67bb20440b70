/* SPDX-License-Identifier: Apache-2.0 */
/* Under causality a place at the end of the sequence sees all others, one at the head only itself.
 * So shards of like size are not of like work, unless each has of both. */
#include "cp.h"

/* Rank r's places: the next of the head, then the last of the tail that nobody has. With equal
 * shards these are chunks r and 2 * degree - 1 - r of 2 * degree. */
static void fill(int32_t *order, int64_t seq, int64_t degree)
{
    int64_t chunk = (seq + degree - 1) / degree, head = 0, tail = seq, at = 0;
    for (int64_t r = 0; r < degree; r++) {
        int64_t size = at + chunk <= seq ? chunk : seq - at, of_head = (size + 1) / 2,
                of_tail = size - of_head;
        tail -= of_tail;
        for (int64_t i = 0; i < of_head; i++)
            order[at++] = (int32_t)head++;
        for (int64_t i = 0; i < of_tail; i++)
            order[at++] = (int32_t)(tail + i);
    }
}

void cp_balance(weft_graph *g, int64_t degree)
{
    int64_t seq = weft_graph_seq_len(g);
    int32_t *order = weft_alloc((size_t)seq * sizeof *order);
    if (!order) {
        weft_fail_memory(weft_graph_error(g));
        return;
    }
    fill(order, seq, degree);
    weft_set_seq_order(g, order, seq);
    weft_free(order);
}
