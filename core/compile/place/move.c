/* SPDX-License-Identifier: Apache-2.0 */
/* Redistributes: what one costs, and putting one in. */
#include "compile/graph/graph.h"

#include <math.h>
#include <string.h>

weft_scope weft_value_available(const weft_value *v)
{
    return weft_node_accumulates(v->node) ? WEFT_STEP_END : v->node->scope;
}

double weft_move_price(const weft_graph *g, const weft_value *v, int axis, unsigned from,
                       unsigned to)
{
    static const double local =
        1e-3; /* a move without communication is free, but not as good as none */
    if (from == to)
        return 0;
    if (to == WEFT_OPEN_SUM)
        return from == 0 ? local : INFINITY;
    if (to == WEFT_OPEN_MAX)
        return INFINITY;
    double n = g->config.mesh.axis[axis].size, bytes = (double)weft_dtype_size(v->dtype);
    for (int d = 0; d < v->n_dims; d++)
        bytes *= (double)v->dims[d].size;
    bytes /=
        (double)weft_mesh_count(&g->config.mesh, weft_layout_cut_axes(v->layout) & ~(1u << axis));
    double ways = from == 0 ? 0 : from & 0x80u ? (to ? 1 / n : 1) : (to ? 1 : 2);
    return local + ways * bytes * (n - 1) / n;
}

/* The plugins that declared the axes that the steps run over, joined by '+'. */
static const char *owners(weft_graph *g, const weft_step *steps, int n)
{
    weft_axes seen = 0;
    weft_text text = {0};
    const char *last = NULL;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < steps[i].n_axes; k++) {
            int a = steps[i].axes[k];
            const char *by = g->config.mesh.axis[a].by ? g->config.mesh.axis[a].by : "core";
            if (!(seen >> a & 1u) && (!last || strcmp(last, by) != 0))
                weft_text_print(&text, "%s%s", text.size ? "+" : "", by);
            seen |= 1u << a;
            last = by;
        }
    }
    if (text.out_of_memory)
        weft_fail_memory(&g->error);
    const char *by = text.out_of_memory ? NULL : weft_pool_strdup(&g->pool, weft_text_get(&text));
    weft_text_release(&text);
    return by;
}

/* Does the step bring a value from one coordinate of an axis to others? */
static bool travels(const weft_step *s)
{
    return s->move == WEFT_SEND || s->move == WEFT_BROADCAST;
}

/* Nothing but gathers over axes whose plugin would rather gather again than keep? */
static bool gathers_again(const weft_graph *g, const weft_node *n)
{
    for (int i = 0; i < n->n_steps; i++)
        for (int k = 0; k < n->steps[i].n_axes; k++)
            if (n->steps[i].move != WEFT_ALL_GATHER || !(g->regather >> n->steps[i].axes[k] & 1u))
                return false;
    return n->phase == WEFT_FORWARD && n->block >= 0;
}

/* Where the node of a move stands that does not travel: with whoever asks for it, unless that is
 * another stage. */
static int block_of_move(const weft_graph *g, const weft_value *v, weft_layout to,
                         const weft_node *user)
{
    int axis = weft_graph_stage_axis(g), at = axis < 0 ? -1 : weft_layout_at(to, axis);
    if (v->node->block == WEFT_BLOCK_NONE || !user ||
        (at >= 0 && weft_graph_block_rank(g, user->block) != at))
        return v->node->block;
    return user->block;
}

/* The stage that a value of a micro-batch comes to with one step: the next of another rank, in the
 * forward; before it, in the backward. */
static int stage_behind(const weft_graph *g, const weft_value *v, weft_phase phase)
{
    int step = phase == WEFT_BACKWARD ? -1 : 1, stage = v->node->stage + step;
    while (stage >= 0 && stage < weft_graph_stages(g) &&
           weft_graph_stage_rank(g, stage) == weft_graph_stage_rank(g, v->node->stage))
        stage += step;
    return stage;
}

/* A send of a micro-batch goes to the neighbour: what is farther away gets there through those
 * between, so that all transfers of two ranks are in one order on both. */
static weft_layout next_hop(const weft_graph *g, const weft_value *v, weft_layout to,
                            weft_phase phase)
{
    if (weft_value_available(v) != WEFT_MICRO_BATCH)
        return to;
    int stage = stage_behind(g, v, phase);
    return stage < 0
               ? to
               : weft_layout_set_at(to, weft_graph_stage_axis(g), weft_graph_stage_rank(g, stage));
}

/* What the node of a step that travels is told; each is a node of its own. */
static weft_status settle_travel(weft_graph *g, weft_node *n, const weft_value *v, weft_phase phase,
                                 const char *why)
{
    bool micro = n->scope == WEFT_MICRO_BATCH;
    n->chunk = -1;
    n->outs[0]->recompute = false; /* what was received is never sent again */
    if (n->steps[0].move == WEFT_BROADCAST) {
        n->block = WEFT_BLOCK_NONE;
        if (micro && g->config.mode == WEFT_MODE_TRAIN)
            weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                            "%s of stage %d would be sent to all stages in every micro-batch, for "
                            "%s; let that belong to a block",
                            v->name, v->node->stage, why);
        n->scope = micro ? WEFT_STEP_END : n->scope;
        return weft_graph_status(g);
    }
    if (!micro)
        return WEFT_OK;
    n->stage = stage_behind(g, v, phase);
    n->block = weft_graph_block_in(g, n->stage);
    if (n->stage < 0 || n->block == WEFT_BLOCK_NONE)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s of stage %d cannot be read by %s: it would have to be sent from the "
                        "%s stage on",
                        v->name, v->node->stage, why, n->stage < 0 ? "first" : "last");
    return weft_graph_status(g);
}

/* A way that travels is a node for what is before, one for each send, one for what is behind. */
static weft_value *move_in_parts(weft_graph *g, weft_value *v, const weft_step *steps, int n_steps,
                                 weft_node *user, weft_phase phase, const char *why, const char *by)
{
    weft_layout before = v->layout;
    int i = 0;
    while (!travels(&steps[i]))
        before = steps[i++].after;
    bool hops = steps[i].move == WEFT_SEND;
    weft_layout last = steps[n_steps - 1].after;
    v = weft_move_to(g, v, before, user, phase, why, by);
    v = v ? weft_move_to(g, v, hops ? next_hop(g, v, steps[i].after, phase) : steps[i].after, user,
                         phase, why, by)
          : NULL;
    return v ? weft_move_to(g, v, last, user, phase, why, by) : NULL;
}

static bool is_one_hop(const weft_graph *g, const weft_value *v, const weft_step *s,
                       weft_phase phase)
{
    return s->move == WEFT_BROADCAST || next_hop(g, v, s->after, phase).bits == s->after.bits;
}

/* Would it have all stages meet in a micro-batch? Each is at another task then: they would wait for
 * each other for ever. */
static bool has_stages_meet(const weft_graph *g, const weft_value *v, const weft_step *steps, int n)
{
    int axis = weft_graph_stage_axis(g);
    if (axis < 0 || g->config.mode != WEFT_MODE_TRAIN ||
        weft_value_available(v) != WEFT_MICRO_BATCH)
        return false;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < steps[i].n_axes; k++)
            if (steps[i].axes[k] == axis && steps[i].move == WEFT_ALL_REDUCE)
                return true;
    return false;
}

const weft_step *weft_move_keep(weft_graph *g, const weft_step *steps, int n)
{
    weft_step *kept = weft_pool_alloc(&g->pool, (size_t)n * sizeof *kept);
    return kept ? memcpy(kept, steps, (size_t)n * sizeof *kept) : NULL;
}

/* What a move is found by. */
typedef struct moved_key {
    uint64_t layout;
    int64_t id, phase;
} moved_key;

weft_value *weft_move_to(weft_graph *g, weft_value *v, weft_layout to, weft_node *user,
                         weft_phase phase, const char *why, const char *by)
{
    if (v->layout.bits == to.bits)
        return v;
    const moved_key key = {to.bits, v->id, phase};
    weft_value *known = weft_map_get(&g->moved, &key, sizeof key);
    if (known) {
        if (g->spot.before)
            weft_node_come_before(g, known->node, user);
        return known;
    }
    weft_step steps[WEFT_MAX_STEPS];
    int n_steps = weft_layout_steps(v->layout, to, v->n_dims, steps);
    for (int i = 0; i < n_steps; i++)
        if (travels(&steps[i]) && (n_steps > 1 || !is_one_hop(g, v, &steps[i], phase)))
            return move_in_parts(g, v, steps, n_steps, user, phase, why, by);
    char *name = weft_pool_format(&g->pool, "%s.r", v->name);
    if (n_steps < 0)
        return weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                               "%s cannot change its layout for %s", v->name, why);
    if (has_stages_meet(g, v, steps, n_steps))
        return weft_graph_fail(
            g, WEFT_ERR_INPUT, WEFT_NOWHERE,
            "%s is a sum over stages of a pipeline, and would be summed in every micro-batch, for "
            "%s; a block cannot read it there: let the terms of the sum belong to one block, or "
            "add it up over micro-batches",
            v->name, why);
    const weft_step *kept = weft_move_keep(g, steps, n_steps);
    if (!kept || !name)
        return NULL;
    weft_spot spot = g->spot;
    g->spot.before = user;
    g->spot.phase = phase;
    weft_node *n =
        weft_node_new(g, &(weft_node_spec){.op = weft_ops_find(g->config.ops, "redistribute"),
                                           .name = name,
                                           .n_ins = 1,
                                           .ins = &v,
                                           .n_outs = 1});
    g->spot = spot;
    if (!n)
        return NULL;
    weft_value *r = n->outs[0];
    weft_value_shape_as(r, v);
    r->layout = to;
    r->placed = true;
    n->steps = kept;
    n->n_steps = n_steps;
    n->scope = weft_value_available(v);
    n->stage = v->node->stage;
    n->block = block_of_move(g, v, to, user);
    n->chunk = user && v->node->chunk < 0 && !v->weight
                   ? user->chunk
                   : v->node->chunk; /* for a part of the head: when that runs */
    n->by = by && *by ? by : owners(g, steps, n_steps);
    n->why = weft_pool_strdup(&g->pool, why);
    /* What belongs to no block serves all of them, and stays. */
    bool short_lived = n->scope == WEFT_MICRO_BATCH && n->block != WEFT_BLOCK_NONE && !v->weight;
    r->recompute =
        short_lived && ((user && user->n_outs && user->outs[0]->recompute) || gathers_again(g, n));
    if (travels(&steps[0]) && settle_travel(g, n, v, phase, why))
        return NULL;
    bool noted = n->by && n->why && weft_map_set(&g->moved, &g->pool, &key, sizeof key, r);
    return noted ? r : NULL;
}

bool weft_move_forget(weft_graph *g, weft_value *moved)
{
    const weft_node *n = moved->node;
    const moved_key key = {moved->layout.bits, n->n_ins ? n->ins[0]->id : -1, n->phase};
    if (n->n_ins == 0 || weft_map_get(&g->moved, &key, sizeof key) != moved)
        return true;
    return weft_map_set(&g->moved, &g->pool, &key, sizeof key, NULL);
}
