/* SPDX-License-Identifier: Apache-2.0 */
/* What of a backward can wait: the gradients of weights, which only the step's totals read. It goes
 * to part W, together with what is made for it alone. Nothing that W does is sent, reads a weight
 * or is read in B. What B makes for it is held until then, so the cut is where little crosses it.
 */
#include "compile/graph/graph.h"

#include <weft/pass.h>

typedef struct cutter {
    weft_graph *g;
    const bool *split; /* by stage */
    bool all;          /* it waits for what is computed again, too */
    int axis;          /* of stages; -1: none */
} cutter;

static bool is_late(const weft_node *n)
{
    return n->mark;
}

/* Steps that bring something over from another rank of the pipeline, or around a ring, are read by
 * those who wait. */
static bool travels(const weft_node *n)
{
    for (int i = 0; i < n->n_steps; i++)
        if (n->steps[i].move == WEFT_SEND || n->steps[i].move == WEFT_BROADCAST ||
            n->steps[i].move == WEFT_SHIFT)
            return true;
    return false;
}

static bool touches_weights(const weft_node *n)
{
    bool weights = false;
    for (int i = 0; i < n->n_ins; i++)
        weights = weights || n->ins[i]->weight;
    for (int i = 0; i < n->n_outs; i++)
        weights = weights || n->outs[i]->weight || n->outs[i]->update_of;
    return weights;
}

/* By itself: a node of a split stage's own backward, or a total of such, and no part of a head that
 * is computed in chunks. */
static bool may_wait(const cutter *c, const weft_node *n)
{
    const weft_node *of = weft_node_accumulates(n) ? n->ins[0]->node : n;
    if (n->part != WEFT_PART_B || !c->split[n->stage] || n->chunk >= 0 || n->n_outs == 0 ||
        of->phase == WEFT_FORWARD)
        return false;
    if (c->axis >= 0 && weft_layout_at(n->outs[0]->layout, c->axis) < 0)
        return false;
    return !travels(n) && !touches_weights(n) && !(n->op->flags & WEFT_OP_SOURCE);
}

/* Is all that it makes read late, or a total? */
static bool is_read_late(const weft_node *n)
{
    int uses = 0;
    for (int r = 0; r < n->n_outs; r++)
        for (int i = 0; i < n->outs[r]->n_uses; i++, uses++)
            if (!is_late(n->outs[r]->uses[i].node) && !weft_node_accumulates(n))
                return false;
    return uses > 0;
}

/* ---- what is held ---- */

static bool is_made_in_b(const weft_value *v)
{
    return v->node->part == WEFT_PART_B && !is_late(v->node);
}

static bool others_hold(const weft_node *n, const weft_value *v)
{
    for (int i = 0; i < v->n_uses; i++)
        if (v->uses[i].node != n && is_late(v->uses[i].node))
            return true;
    return false;
}

static bool is_given(const weft_value *v)
{
    return v->weight || weft_node_is(v->node, WEFT_OP_INPUT) || v->node->scope != WEFT_MICRO_BATCH;
}

/* What is held for n alone, if it is late, is no more than what would be for its readers. */
static bool pays(const cutter *c, const weft_node *n)
{
    int64_t operands = 0, results = 0;
    for (int i = 0; i < n->n_ins; i++) {
        const weft_value *v = n->ins[i];
        if (!is_given(v) && !is_late(v->node) && !others_hold(n, v))
            operands += weft_value_part_bytes(c->g, v);
    }
    for (int i = 0; i < n->n_outs; i++)
        results += weft_value_part_bytes(c->g, n->outs[i]);
    return results >= operands;
}

/* Is v made of what the forward has kept, and no larger? Then it takes that one's place. */
static bool stands_for_kept(const cutter *c, const weft_value *v)
{
    int64_t kept = 0;
    for (int i = 0; i < v->node->n_ins; i++) {
        const weft_value *from = v->node->ins[i];
        if (is_made_in_b(from) && !from->weight)
            return false;
        kept += is_given(from) ? 0 : weft_value_part_bytes(c->g, from);
    }
    return weft_value_part_bytes(c->g, v) <= kept;
}

/* Would it need what the backward computes again to be held? */
static bool holds_more(const cutter *c, const weft_node *n)
{
    for (int i = 0; i < n->n_ins && !c->all; i++) {
        const weft_value *v = n->ins[i];
        if (v->node->phase == WEFT_RECOMPUTE && is_made_in_b(v) && !v->weight &&
            !stands_for_kept(c, v))
            return true;
    }
    return false;
}

/* ---- the cut ---- */

static void mark_candidates(const cutter *c)
{
    for (weft_node *n = c->g->last; n; n = n->prev)
        n->mark = may_wait(c, n) && is_read_late(n);
}

/* From the last to the first, so that readers are settled. true: something else may hold alone now
 * what it held with others. */
static bool choose(const cutter *c)
{
    bool changed = false;
    for (weft_node *n = c->g->last; n; n = n->prev) {
        if (!n->mark || weft_node_accumulates(n))
            continue;
        n->mark =
            is_read_late(n) && !holds_more(c, n) && (weft_node_is(n, WEFT_OP_MATMUL) || pays(c, n));
        changed = changed || !n->mark;
    }
    return changed;
}

bool weft_splits_all(const weft_graph *g)
{
    return g->waits_all;
}

void weft_split_backward(weft_graph *g, const bool *split, bool all)
{
    const cutter c = {g, split, all, weft_graph_stage_axis(g)};
    if (weft_graph_status(g))
        return;
    if (!g->has_parts) {
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "a backward is split in the ordered stage: nodes have no parts before");
        return;
    }
    g->waits_all = all;
    mark_candidates(&c);
    while (choose(&c))
        continue;
    for (weft_node *n = g->first; n; n = n->next) {
        if (n->mark && weft_node_accumulates(n)) /* a total of what B makes is one of B's */
            n->mark = is_late(n->ins[0]->node);
        n->part = n->mark ? WEFT_PART_W : n->part;
    }
}
