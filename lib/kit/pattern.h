/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that say by a pattern which others they do the work of: weft_op.pattern, read. */
#ifndef WEFT_KIT_PATTERN_H
#define WEFT_KIT_PATTERN_H

#include "compile/graph/graph.h"

enum {
    WEFT_PATTERN_MEMBERS = 6,
    WEFT_PATTERN_NAMES = 16,
    WEFT_PATTERN_INS = 8,
    WEFT_PATTERN_OUTS = 4
};

typedef struct weft_member {
    const weft_op *op;
    int n_ins, n_outs;
    int8_t in[WEFT_PATTERN_INS], out[WEFT_PATTERN_OUTS]; /* numbers of names */
} weft_member;

/* Names are numbered: first operands, then results, then what is between. */
typedef struct weft_pattern {
    const weft_op *op;
    int n_ins, n_outs, n_names, n;
    weft_member member[WEFT_PATTERN_MEMBERS];
} weft_pattern;

/* Fails with WEFT_ERR_INPUT where it cannot be read, or speaks of what there is not. */
weft_status weft_pattern_read(const weft_ops *ops, const weft_op *op, weft_pattern *p,
                              weft_error *err);

/* surgery.c: do the run, reports or state read v, whoever else does? */
bool weft_value_is_root(const weft_graph *g, const weft_value *v);

#endif
