/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient statements of ops, read. The text is described in <weft/op.h>. */
#ifndef WEFT_GRAPH_GRAD_H
#define WEFT_GRAPH_GRAD_H

#include "compile/graph/graph.h"

enum { WEFT_GRAD_MAX_TARGETS = 8 };

typedef struct weft_grad {
    bool all; /* for every operand in turn */
    int n_targets, targets[WEFT_GRAD_MAX_TARGETS];
    const char *op; /* NULL: "dy" alone, pass on */
    size_t op_size;
    const char *args; /* what follows the op */
    int n_args;       /* how many of these, "dys" and "likeN" as one each */
    bool dys;         /* one of them is "dys" */
} weft_grad;

/* The next word of a statement, and its length; 0 at the end. */
const char *weft_grad_word(const char *p, size_t *n);
/* Reads a statement for a node with so many operands and results, -1: not known yet. */
weft_status weft_grad_read(const weft_op *op, const char *text, int n_ins, int n_outs,
                           weft_grad *out, weft_error *err);
/* Can this operand of the node get a gradient, by a statement or by the op's function? */
bool weft_grad_covers(const weft_node *n, int operand);
/* And one of those whose ids are marked; NULL: all are. */
bool weft_grad_covers_wanted(const weft_node *n, const bool *wanted);
/* Is the gradient of this result among the words of a statement, behind its colon? */
bool weft_grad_reads_dy(const char *words, int result);
/* May this result of an op have a gradient: is there a statement that reads it, or does the
 * function take it? */
bool weft_grad_takes(const weft_op *op, int result);
/* Does the function of the node's op say that it reads v, an operand or result of the node, or what
 * an operand was made from? */
bool weft_grad_declares(const weft_node *n, const weft_value *v);
/* The latter of these, into list; returns how many. */
int weft_grad_origins(const weft_node *n, weft_value *list[WEFT_RULE_MAX_PARTS]);

#endif
