/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of an op against what it claims: uses of ops on small tensors, their gradients by the
 * statements in `grad`, and their shards by the rule. Failures are cmocka's. All memory comes from
 * the pool of the check. */
#ifndef WEFT_TESTS_OPCHECK_H
#define WEFT_TESTS_OPCHECK_H

#include <weft/graph.h>

#include "compile/graph/rule.h"

enum { OPCHECK_INS = 12, OPCHECK_OUTS = 8, OPCHECK_ATTRS = 8 };

/* An operand is written "f batch=2 seq=3 heads=8/4": a kind, then dims name=size[/grain]. Kinds: f
 * normal numbers, p positive ones; integers: iN below N, lN from -1 to N - 1, nK K, K + 1, ... , mN
 * (a permutation of 0..N-1), g growing segment numbers. */
typedef struct opcheck_case {
    const char *op;
    const char *ins[OPCHECK_INS];
    int n_outs; /* 0: one */
    weft_attr attrs[OPCHECK_ATTRS];
} opcheck_case;

/* A use of an op on whole tensors, computed. `like`, if there is one, is ins[n_ins]. */
typedef struct opcheck_use {
    const weft_op *op;
    const weft_attr *attrs;
    int n_attrs, n_ins, n_outs;
    bool like;
    weft_tensor ins[OPCHECK_INS], outs[OPCHECK_OUTS];
    weft_dim in_dims[OPCHECK_INS][WEFT_MAX_DIMS], out_dims[OPCHECK_OUTS][WEFT_MAX_DIMS];
    weft_rule rule;
} opcheck_use;

/* One statement of a gradient carried out: which operands it is for, and the node; passed_on: no
 * node, dy itself. */
typedef struct opcheck_grad {
    int n_targets, target[OPCHECK_INS];
    bool passed_on;
    opcheck_use use;
} opcheck_grad;

const weft_op *opcheck_find(const char *name);
/* Builds the case's operands from `seed`, infers the results (f64) and computes them. */
void opcheck_make(opcheck_use *u, const opcheck_case *c, uint64_t seed, weft_pool *pool);
/* Infers and allocates the results of a use whose op, attributes and operands are set; shape: as
 * the default inference would, or the op's own. */
weft_status opcheck_infer(opcheck_use *u, weft_pool *pool, weft_error *err);
void opcheck_run(opcheck_use *u, bool accumulate);

/* A tensor of the same extents and dtype with memory of its own: zero, a copy, or normal numbers.
 */
weft_tensor opcheck_new(const weft_tensor *like, weft_pool *pool);
weft_tensor opcheck_copy(const weft_tensor *t, weft_pool *pool);
weft_tensor opcheck_random(const weft_tensor *like, uint64_t seed, uint64_t stream,
                           weft_pool *pool);
/* The same in another dtype, if it is a float. */
weft_tensor opcheck_cast(const weft_tensor *t, weft_dtype dtype, weft_pool *pool);
/* Places [lo, hi) of dim d as a shard. */
weft_tensor opcheck_slice(const weft_tensor *t, int d, int64_t lo, int64_t hi, weft_pool *pool);
/* Fails unless a and b agree to `tolerance` of the largest element. */
void opcheck_same(const weft_tensor *a, const weft_tensor *b, double tolerance, const char *what,
                  const char *op);

/* Carries out statement `text` for gradients dys[] of the results; grads[] takes up to OPCHECK_INS;
 * returns how many. */
int opcheck_statement(const opcheck_use *u, const char *text, const weft_tensor *dys,
                      opcheck_grad *grads, weft_pool *pool);

/* Every gradient against fourth-order central differences. */
void opcheck_differences(const opcheck_case *c, weft_pool *pool);
/* Every index that may be cut, in 2 and 3 shards; every linear group, in 2 and 3 terms: combined,
 * they must give the whole. Returns how many ways. */
int opcheck_shards(const opcheck_use *u, weft_pool *pool);

#endif
