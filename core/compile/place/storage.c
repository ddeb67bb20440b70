/* SPDX-License-Identifier: Apache-2.0 */
/* The gather of a parameter from its storage. */
#include "compile/graph/graph.h"

void weft_place_replace(weft_graph *g, weft_value *v, weft_value *by)
{
    for (int i = v->n_uses - 1; i >= 0; i--) {
        weft_use use = v->uses[i];
        if (use.node != by->node)
            weft_node_relink(g, use.node, use.operand, by);
    }
    weft_graph_replace_root(g, v, by);
}

void weft_store_as_trained(const weft_graph *g, weft_value *v)
{
    const weft_value *there =
        g->config.training ? weft_graph_find(g->config.training, v->name) : NULL;
    if (!there || !weft_node_is(there->node, WEFT_OP_PARAMETER | WEFT_OP_STATE) ||
        !weft_same_shape(there, v))
        return;
    v->layout = there->layout;
    v->store_axes = there->store_axes;
}

static weft_axes stored_axes(const weft_value *v)
{
    while (v->node->n_ins)
        v = v->node->ins[0];
    return v->store_axes;
}

/* The gather of a parameter from its storage: the storage axes come off, or those of them that it
 * names. */
weft_status weft_place_gather(weft_graph *g, weft_node *n)
{
    int axis = weft_graph_stage_axis(g), at = weft_graph_block_rank(g, n->block);
    weft_value *v = n->ins[0], *out = n->outs[0];
    g->gathered_by = g->n_storage ? n->by : NULL;
    if (at >= 0 && weft_layout_at(v->layout, axis) != at) { /* another stage's parameter */
        v = weft_move_to(g, v, weft_layout_set_at(v->layout, axis, at), n, n->phase, "its gather",
                         NULL);
        if (!v)
            return weft_graph_status(g);
        weft_node_relink(g, n, 0, v);
    }
    out->layout = v->layout;
    weft_axes stored = stored_axes(v);
    for (int a = 0; a < g->config.mesh.n_axes; a++)
        if ((stored >> a & 1u) && weft_gathers_over(g, n, a))
            out->layout = weft_layout_clear(out->layout, a);
    weft_step steps[WEFT_MAX_STEPS];
    n->n_steps = weft_layout_steps(v->layout, out->layout, v->n_dims, steps);
    out->placed = true;
    if (n->n_steps == 0) {
        weft_place_replace(g, out, v);
        weft_node_unlink(g, n);
        return WEFT_OK;
    }
    n->steps = weft_move_keep(g, steps, n->n_steps);
    n->op = weft_ops_find(g->config.ops, "redistribute");
    return weft_graph_status(g);
}
