/* SPDX-License-Identifier: Apache-2.0 */
/* What passes and gradients need beside the builders of <weft/graph.h>: gradients as functions,
 * totals over micro-batches, surgery, and questions about values and nodes. As builders do, these
 * note errors in the graph and pass NULL on. */
#ifndef WEFT_PASS_H
#define WEFT_PASS_H

#include <weft/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- gradients as functions: inside weft_op's `differentiate` ---- */

weft_graph *weft_backward_graph(weft_backward *b);
/* Is the gradient of this operand wanted? What nobody wants need not be built, and is ignored. */
bool weft_backward_wants(const weft_backward *b, int operand);
/* An operand or result of the node as the backward has it: kept, or computed again from what was
 * kept. It must be among the op's `grad_reads`. */
weft_value *weft_backward_saved(weft_backward *b, weft_value *v);
/* A node of op `op` that makes the gradient of an operand: its result has that one's name, with a '
 * behind, its dims, and the dtype that its gradient must have (the gradient of a weight is a sum
 * over tokens, and stays in the graph's dtype). like: dims and layout of this value count, its data
 * is not read; NULL: none. The node has the attributes of the one it differentiates. */
weft_value *weft_backward_add(weft_backward *b, const char *op, int operand, int n_ins,
                              weft_value *const *ins, weft_value *like);
/* The same for n operands at once, one for each result: dxs[operands[i]] becomes result i. */
void weft_backward_add_many(weft_backward *b, const char *op, int n, const int *operands, int n_ins,
                            weft_value *const *ins, weft_value *like, weft_value **dxs);

#ifdef __cplusplus
}
#endif
#endif
