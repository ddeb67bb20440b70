/* SPDX-License-Identifier: Apache-2.0 */
/* Which block is in which stage of a pipeline, and so at which coordinate of the axis of stages its
 * values are held. Placement chooses nothing on that axis: it asks here. */
#include "compile/graph/graph.h"

int weft_graph_stages(const weft_graph *g)
{
    int n = 1;
    for (int i = 0; i < g->stages_capacity; i++)
        n = g->stages[i] >= n ? g->stages[i] + 1 : n;
    return n;
}

int weft_graph_stage_of(const weft_graph *g, int block)
{
    int i = block - WEFT_FIRST_BLOCK;
    return i < g->stages_capacity ? g->stages[i] : 0;
}

int weft_graph_stage_axis(const weft_graph *g)
{
    return g->stages_by ? weft_mesh_find(&g->config.mesh, g->stages_axis) : -1;
}

int weft_graph_stage_rank(const weft_graph *g, int stage)
{
    int a = weft_graph_stage_axis(g);
    if (a >= 0 && stage < g->stage_ranks_capacity && g->stage_ranks[stage] >= 0)
        return g->stage_ranks[stage];
    return a < 0 ? 0 : stage % g->config.mesh.axis[a].size;
}

int weft_graph_block_rank(const weft_graph *g, int block)
{
    if (weft_graph_stage_axis(g) < 0 || block == WEFT_BLOCK_NONE)
        return -1;
    return weft_graph_stage_rank(g, weft_graph_stage_of(g, block));
}

int weft_graph_block_in(const weft_graph *g, int stage)
{
    static const int ends[] = {WEFT_BLOCK_EMBEDDING, WEFT_BLOCK_HEAD};
    for (int b = 0; b < weft_graph_blocks(g); b++)
        if (weft_graph_stage_of(g, b) == stage)
            return b;
    for (int i = 0; i < 2; i++)
        if (weft_graph_stage_of(g, ends[i]) == stage)
            return ends[i];
    return WEFT_BLOCK_NONE;
}

/* The axis of stages says where a value is, and cuts nothing. */
static void check_table(weft_graph *g)
{
    int axis = weft_graph_stage_axis(g);
    for (int i = 0; i < g->n_table && axis >= 0; i++)
        if (g->table[i]->axis == axis)
            weft_graph_fail(g, WEFT_ERR_INPUT, g->table[i]->where,
                            "%s: axis %s holds the stages of a pipeline and cuts nothing; take the "
                            "rule out",
                            g->table[i]->text ? "[mesh] rule" : g->table[i]->by, g->stages_axis);
    for (int i = 0; i < g->n_storage && axis >= 0; i++)
        if (g->storage[i] == axis)
            weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                            "%s: nothing can be stored over axis %s, which holds the stages of a "
                            "pipeline",
                            g->storage_by[i], g->stages_axis);
}

weft_status weft_graph_check_stages(weft_graph *g)
{
    check_table(g);
    for (int s = 0, n = weft_graph_stages(g); s < n && g->stages_by; s++)
        if (weft_graph_block_in(g, s) == WEFT_BLOCK_NONE)
            weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                            "stage %d of the %d that plugin %s makes has no block", s, n,
                            g->stages_by);
    return weft_graph_status(g);
}

/* ---- what is made from weights alone ---- */

/* Who reads copies of one kind: ranks of a loop, or stages where a rank may have the first and the
 * last. -1: values of no block. */
static int home_of(const weft_graph *g, int block)
{
    const int rank = weft_graph_block_rank(g, block);
    return rank < 0 || !g->stage_ranks ? rank : weft_graph_stage_of(g, block);
}

/* A node like n for those who read its results in another stage. */
static weft_node *copy_for(weft_graph *g, weft_node *n, int block)
{
    const char *by = g->by;
    weft_spot spot = g->spot;
    g->by = n->by;
    g->spot = (weft_spot){n->next, block, -1, n->phase, WEFT_SCOPE_NONE};
    weft_node *copy = weft_node_copy(g, n, weft_graph_name(g, n->outs[0]->name), n->ins);
    g->spot = spot;
    g->by = by;
    for (int r = 0; copy && r < n->n_outs; r++) {
        const weft_value *from = n->outs[r];
        weft_value *to = copy->outs[r];
        to->role = from->role;
        to->recompute = from->recompute;
        to->fetch = from->fetch;
    }
    return copy;
}

/* The readers of n's results at a home go over to a copy. */
static void hand_over(weft_graph *g, weft_node *n, int home, weft_node *copy)
{
    for (int r = 0; r < n->n_outs; r++)
        for (int i = n->outs[r]->n_uses - 1; i >= 0; i--) {
            const weft_use use = n->outs[r]->uses[i];
            if (home_of(g, use.node->block) == home)
                weft_node_relink(g, use.node, use.operand, copy->outs[r]);
        }
}

/* The first reader whose home is neither none nor `home`; NULL: there is none. */
static const weft_node *reader_elsewhere(const weft_graph *g, const weft_node *n, int home)
{
    for (int r = 0; r < n->n_outs; r++)
        for (int i = 0; i < n->outs[r]->n_uses; i++) {
            const weft_node *user = n->outs[r]->uses[i].node;
            int other = home_of(g, user->block);
            if (other >= 0 && other != home)
                return user;
        }
    return NULL;
}

weft_status weft_graph_copy_weights(weft_graph *g)
{
    if (weft_graph_stage_axis(g) < 0)
        return WEFT_OK;
    for (weft_node *n = g->last; n && !weft_graph_status(g); n = n->prev) {
        const weft_node *user;
        const bool of_weights = n->n_ins > 0 && n->n_outs > 0 && n->outs[0]->weight;
        if (!of_weights || n->block == WEFT_BLOCK_NONE)
            continue;
        while ((user = reader_elsewhere(g, n, home_of(g, n->block)))) {
            weft_node *copy = copy_for(g, n, user->block);
            if (!copy)
                break;
            hand_over(g, n, home_of(g, user->block), copy);
        }
    }
    return weft_graph_status(g);
}
