/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and its gradient by whatever machine is linked: masks of every kind, in any order of
 * memory, grouped heads, shards of heads. */
#ifndef WEFT_TEST_TRIAL_ATTENTION_H
#define WEFT_TEST_TRIAL_ATTENTION_H

#include "trial.h"

typedef enum mask {
    MASK_CAUSAL,    /* in the order of memory */
    MASK_PERMUTED,  /* index is a permutation */
    MASK_DOCUMENTS, /* three segments, one after the other, and causal */
    MASK_SCATTERED, /* segments in no order, not causal */
    MASK_NONE,      /* everything is seen */
    MASK_NOTHING,   /* segments that never match */
    MASK_LATE,      /* the queries come after all keys, as in a ring's earlier part */
    MASK_HALF,      /* of queries: those of the second half come after all keys */
    MASK_HALF_KEYS, /* the queries come between two halves of the keys */
    MASKS,
    MASK_FULL = MASKS, /* full_attention: there is nothing that could hide anything */
} mask;

typedef struct attention_case {
    int64_t batch, queries, keys, heads, kv_heads, d;
    int64_t lo, kv_lo, whole, kv_whole; /* in heads; whole 0: all are here */
    int64_t first; /* the index of the first query, where that is the order of memory */
    mask mask;
    bool sums; /* gradients of keys and values are in f32, as in a ring */
    weft_dtype dtype;
    double scale, tolerance;
} attention_case;

/* The forward's operands; op: attention or attention_dx, without documents its full_ form. */
void attention_forward(trial *t, const attention_case *c, const char *op);
/* The backward's operands, the forward's results among them as random numbers, and its results. */
void attention_backward(trial *t, const attention_case *c);
/* Says which heads a q or, kv, a k lies in. */
void attention_heads(weft_tensor *t, const attention_case *c, bool kv);
/* Both against the plain kernels. */
void attention_check(const attention_case *c);
/* The same so that each pair of a query and a key shows: scores are all 0, so that log-sum-exps
 * count what a query has seen, and every row points in a direction of its own. What nobody may see
 * is NaN or huge. Of one batch row; batch and scale are not looked at. */
void attention_check_pairs(const attention_case *c);
/* Its forward's operands. */
void attention_forward_pairs(trial *t, const attention_case *c, const char *op);

#endif
