/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of autodiff share. */
#ifndef WEFT_AUTODIFF_AUTODIFF_H
#define WEFT_AUTODIFF_AUTODIFF_H

#include "compile/graph/graph.h"

typedef struct weft_parts {
    weft_value **list;
    int n, capacity;
} weft_parts;

struct weft_backward {
    weft_graph *g;
    int n_values;          /* of the forward */
    bool *needs;           /* by value id: its gradient is wanted */
    weft_parts *of;        /* by value id: contributions to its gradient */
    weft_value **copies;   /* by value id: the recomputed copy */
    const weft_node *node; /* whose gradient a function is building */
};

/* ---- autodiff_sum.c ---- */

/* One more contribution to the gradient of x. */
bool weft_backward_add_part(weft_backward *b, weft_value *x, weft_value *part);
/* A gradient's dtype; that of a weight is a sum over tokens and stays wide. */
weft_dtype weft_backward_dtype(const weft_backward *b, const weft_value *x);
/* New nodes belong to the block, chunk and plugin of `source`: the node that they differentiate. */
void weft_backward_stand_at(weft_graph *g, const weft_node *source, weft_phase phase);
/* A node that makes (part of) the gradients of `targets`, as many as it has results; spec has its
 * operands and what else it needs. */
weft_node *weft_backward_make(weft_backward *b, const char *op, size_t op_size,
                              weft_value *const *targets, const weft_node *source,
                              weft_node_spec spec);
/* A forward value as the backward sees it: kept, or computed again from what was kept. */
weft_value *weft_backward_recall(weft_backward *b, weft_value *v);
/* The sum over the step's micro-batches of v, which is x or its gradient. */
weft_node *weft_backward_accumulate(weft_backward *b, weft_value *v, weft_value *x,
                                    const weft_node *source);
/* The sum of all contributions to the gradient of x, in the cuts of x. */
weft_value *weft_backward_total(weft_backward *b, weft_value *x);

/* ---- autodiff_function.c ---- */

/* Adds what n contributes to the gradients of its operands, by the function that its op has for
 * it. */
weft_status weft_backward_call(weft_backward *b, weft_node *n, weft_value *const *dys);

#endif
