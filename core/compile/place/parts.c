/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of a step and which stage of a pipeline every node runs in. */
#include "compile/graph/graph.h"

const char *weft_part_name(weft_part part)
{
    static const char *const names[] = {"begin",   "forward",  "backward",
                                        "weights", "step_end", "update"};
    return names[part];
}

/* The weights' gradients of a stage run behind its backward, and so behind those of later stages
 * alone. */
static bool runs_down_stages(const weft_node *reader, const weft_node *maker)
{
    return reader->part == WEFT_PART_W && maker->part == WEFT_PART_B;
}

bool weft_node_may_read(const weft_node *reader, const weft_node *maker)
{
    if (reader->part != maker->part && !runs_down_stages(reader, maker))
        return maker->part < reader->part;
    return reader->part == WEFT_PART_F ? maker->stage <= reader->stage
                                       : maker->stage >= reader->stage;
}

/* ---- parts ---- */

void weft_graph_mark_shown(weft_graph *g)
{
    if (g->loss_report)
        g->loss_report->node->mark = 1;
    for (int i = 0; i < g->n_reports; i++)
        g->reports[i].value->node->mark = 1;
    for (int i = 0; i < g->n_parameters; i++)
        if (g->parameters[i]->gradient)
            g->parameters[i]->gradient->node->mark = 1;
}

/* Sets mark 1 on what a reported or observed number needs, and on gradients, which are looked at
 * before the update: of the nodes after the last micro-batch these run before it. */
static void mark_reported(weft_graph *g)
{
    for (weft_node *n = g->first; n; n = n->next)
        n->mark = 0;
    weft_graph_mark_shown(g);
    for (weft_node *n = g->last; n; n = n->prev) {
        for (int i = 0; i < n->n_outs; i++)
            n->mark = n->mark || n->outs[i]->fetch;
        for (int i = 0; n->mark && i < n->n_ins; i++)
            n->ins[i]->node->mark = 1;
    }
}

/* The head's chunks run forward and backward together, and so does what needs one. */
static bool runs_backward(const weft_node *n)
{
    bool backward = n->chunk >= 0 || n->phase != WEFT_FORWARD;
    for (int i = 0; i < n->n_ins; i++)
        backward = backward || n->ins[i]->node->part == WEFT_PART_B;
    return backward;
}

static weft_part part_of(const weft_graph *g, const weft_node *n)
{
    bool train = g->config.mode == WEFT_MODE_TRAIN;
    if (weft_node_is(n, WEFT_OP_EVICT) && n->outs[0]->update_of->kind == WEFT_STATE_STEP)
        return n->ins[0]->node->part; /* it makes room there */
    switch (n->scope) {
    case WEFT_MICRO_BATCH:
        return n->part == WEFT_PART_W      ? WEFT_PART_W /* somebody has put it there */
               : train && runs_backward(n) ? WEFT_PART_B
                                           : WEFT_PART_F;
    case WEFT_STEP_END:
        return !train || n->mark ? WEFT_PART_STEP_END : WEFT_PART_UPDATE;
    default:
        return WEFT_PART_BEGIN;
    }
}

/* ---- stages ---- */

/* What belongs to no block runs where it is needed first: forward in the first stage that reads it,
 * backward in the last. -1: no stage does. */
static int stage_of_readers(const weft_node *n)
{
    int stage = -1;
    for (int r = 0; r < n->n_outs; r++)
        for (int i = 0; i < n->outs[r]->n_uses; i++) {
            const weft_node *user = n->outs[r]->uses[i].node;
            if (!weft_part_is_micro(user->part) || user->stage < 0)
                continue;
            bool sooner =
                n->part != WEFT_PART_F ? user->stage > stage : user->stage < stage || stage < 0;
            stage = sooner ? user->stage : stage;
        }
    return stage;
}

/* The first of the stages where a node's results are, in the order of its part. */
static int first_stage_at(const weft_graph *g, const weft_node *n, int at)
{
    bool backward = n->part != WEFT_PART_F;
    for (int i = 0, n_stages = weft_graph_stages(g); i < n_stages; i++) {
        int stage = backward ? n_stages - 1 - i : i;
        if (weft_graph_stage_rank(g, stage) == at)
            return stage;
    }
    return -1;
}

/* Of a node without a block. What goes to another stage from where it is made is read there by a
 * send, which does not say where that is; what is read when the micro-batches are done, by none. */
static int stage_without_block(const weft_graph *g, const weft_node *n)
{
    int stage = stage_of_readers(n), axis = weft_graph_stage_axis(g);
    int at = axis >= 0 && n->n_outs ? weft_layout_at(n->outs[0]->layout, axis) : -1;
    bool elsewhere = at >= 0 && (stage < 0 || weft_graph_stage_rank(g, stage) != at);
    return elsewhere ? first_stage_at(g, n, at) : stage;
}

/* Not before what it reads is there. */
static int stage_after_operands(const weft_node *n, int last)
{
    int stage = n->stage < 0 ? n->part != WEFT_PART_F ? last : 0 : n->stage;
    for (int i = 0; i < n->n_ins; i++) {
        const weft_node *maker = n->ins[i]->node;
        if (maker->part != n->part && !runs_down_stages(n, maker))
            continue;
        bool later = n->part != WEFT_PART_F ? maker->stage < stage : maker->stage > stage;
        stage = later ? maker->stage : stage;
    }
    return stage;
}

void weft_graph_assign_parts(weft_graph *g)
{
    int last = weft_graph_stages(g) - 1;
    weft_graph_assign_every(g);
    mark_reported(g);
    for (weft_node *n = g->first; n; n = n->next)
        n->part = part_of(g, n);
    for (weft_node *n = g->last; n; n = n->prev) {
        bool of_block = n->block != WEFT_BLOCK_NONE;
        n->stage = !weft_part_is_micro(n->part) ? 0
                   : of_block                   ? weft_graph_stage_of(g, n->block)
                                                : stage_without_block(g, n);
    }
    for (weft_node *n = g->first; n; n = n->next)
        if (weft_part_is_micro(n->part))
            n->stage = stage_after_operands(n, last);
    g->has_parts = true;
}
