/* SPDX-License-Identifier: Apache-2.0 */
/* Sums made in place: add(total, y) and accumulate(y) cost nothing where the kernel that makes y
 * can add to the total's memory. */
#include "compile/program/compiler.h"

#include <string.h>

/* The graph stays as it is: ranks that lower other parts of it compare it. */
int weft_compile_total(const weft_compiler *c, const weft_node *add)
{
    return c->position[add->ins[1]->node->id] <= c->position[add->ins[0]->node->id];
}

/* Is v there for one node alone: no other reads it, nor the host? */
static bool is_between(const weft_compiler *c, const weft_value *v)
{
    return v->n_uses == 1 && !v->fetch && c->last_use[v->id] == c->position[v->uses[0].node->id];
}

/* Can a node add what it makes to memory that is there already, at no loss? */
static bool takes_sum(const weft_compiler *c, const weft_node *n)
{
    if (n->steps || (n->op->flags & WEFT_OP_SOURCE) || !n->op->plain || c->fused[n->id] ||
        c->adds[n->id] || weft_node_accumulates(n) || weft_node_is(n, WEFT_OP_ADD))
        return false;
    weft_tensor tensors[2 * WEFT_RULE_MAX_PARTS];
    weft_call call;
    weft_compile_call(c, n, false, tensors, &call);
    const weft_kernel *writes = weft_kernels_find(c->options->kernels, &call);
    call.accumulate = true;
    return !writes || weft_kernels_find(c->options->kernels, &call);
}

static bool can_add(const weft_compiler *c, const weft_value *v)
{
    return !v->result && !weft_node_is(v->node, WEFT_OP_PAIR) && is_between(c, v) &&
           takes_sum(c, v->node);
}

/* The total must be this sum's alone, and be there before y is made. */
static bool can_grow(const weft_compiler *c, const weft_value *total, const weft_value *y)
{
    const weft_node *n = total->node;
    int made = c->position[n->id], y_made = c->position[y->node->id];
    return is_between(c, total) && !(n->op->flags & WEFT_OP_SOURCE) && made < y_made &&
           weft_compiler_program(c, made) == weft_compiler_program(c, y_made) &&
           total->dtype == y->dtype;
}

static void fuse_add(weft_compiler *c, weft_node *n)
{
    if (!weft_node_is(n, WEFT_OP_ADD) || n->n_ins != 2 || n->ins[0] == n->ins[1] ||
        n->outs[0]->dtype != n->ins[0]->dtype)
        return;
    int first = weft_compile_total(c, n);
    weft_value *y = n->ins[!first], *total = n->ins[first];
    if (!can_grow(c, total, y) || !can_add(c, y) || y->node->every != n->every ||
        weft_node_otherwise(n) >= 0)
        return;
    c->fused[n->id] = true;
    c->adds[y->node->id] = true;
}

/* accumulate(x), a sum: whoever starts the chain of sums that ends in x adds to the accumulator at
 * once, if that is there by then: it may have to come from far memory. */
static void fuse_accumulate(weft_compiler *c, weft_node *n)
{
    if (!weft_node_accumulates(n) || (n->op->flags & WEFT_OP_MAX) || !c->repeats)
        return;
    weft_value *x = n->ins[0];
    while (c->fused[x->node->id] && weft_node_is(x->node, WEFT_OP_ADD) && x->n_uses == 1)
        x = x->node->ins[weft_compile_total(c, x->node)];
    const weft_node *so_far = n->n_ins > 1 ? n->ins[1]->node : NULL;
    if (x->dtype != n->outs[0]->dtype || !can_add(c, x) ||
        (so_far && c->position[so_far->id] > c->position[x->node->id]))
        return;
    c->fused[n->id] = true;
    c->adds[x->node->id] = true;
}

/* accumulate of both results of a pair, or of none. */
static void fuse_pair(weft_compiler *c, weft_node *n)
{
    bool good = c->repeats && weft_node_is(n, WEFT_OP_PAIR) && takes_sum(c, n);
    for (int r = 0; r < n->n_outs && good; r++) {
        const weft_node *sum = is_between(c, n->outs[r]) ? n->outs[r]->uses[0].node : NULL;
        good = sum && weft_node_accumulates(sum) && !(sum->op->flags & WEFT_OP_MAX) &&
               sum->n_ins == 1 && sum->outs[0]->dtype == n->outs[r]->dtype;
    }
    for (int r = 0; r < n->n_outs && good; r++)
        c->fused[n->outs[r]->uses[0].node->id] = c->adds[n->id] = true;
}

weft_status weft_compile_fuse(weft_compiler *c)
{
    for (int p = 0; p < c->n; p++)
        fuse_add(c, c->order[p]);
    for (int p = 0; p < c->n; p++) {
        fuse_pair(c, c->order[p]);
        fuse_accumulate(c, c->order[p]);
    }
    return WEFT_OK;
}
