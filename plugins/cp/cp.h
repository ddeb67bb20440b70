/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CP_H
#define CP_H

#include <weft/weft.h>

/* order.c: head-tail: a rank's shard of the sequence is one piece from the head and one from the
 * tail, so that all see about as many keys. */
void cp_balance(weft_graph *g, int64_t degree);

/* ring.c: every attention that shards travel for becomes a step for each shard, with shifts
 * between. */
void cp_expand_rings(weft_graph *g);

/* cost.c: would a ring take no longer than gathers, for this attention? flops_per_byte: what a rank
 * computes while it sends a byte. */
bool cp_ring_pays(const weft_node *attention, int64_t degree, double flops_per_byte, bool wide);

#endif
