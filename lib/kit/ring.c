/* SPDX-License-Identifier: Apache-2.0 */
/* For passes: steps in the place of a node that shards travel for. */
#include "compile/graph/graph.h"

#include <string.h>

int weft_node_index(weft_graph *g, const weft_node *n, int i, const char *index)
{
    weft_rule rule;
    if (weft_node_find_rule(g, n, true, &rule, &g->error))
        return -1;
    for (int l = 0; l < rule.n_letters; l++)
        if (strcmp(rule.name[l], index) == 0)
            return weft_rule_dim(i < n->n_ins ? &rule.in[i] : &rule.out[i - n->n_ins], l);
    return -1;
}

/* As `like` in everything but its maker. */
static void describe(weft_value *v, const weft_value *like)
{
    weft_value_shape_as(v, like);
    v->layout = like->layout;
    v->placed = true;
    v->trains = like->trains;
    v->turn = like->turn;
    v->turn_dim = like->turn_dim;
}

weft_node *weft_add_bare(weft_graph *g, weft_node *of, const char *op, const char *name, int n_ins,
                         weft_value *const *ins, int n_outs, weft_value *const *likes)
{
    weft_node_spec spec = {.op = weft_ops_find(g->config.ops, op),
                           .name = name,
                           .n_ins = n_ins,
                           .ins = ins,
                           .n_outs = n_outs,
                           .scope = of->scope};
    if (!spec.op)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "op %s is to be computed with op '%s', which does not exist", of->op->name,
                        op);
    if (spec.op == of->op) {
        spec.attrs = of->attrs;
        spec.n_attrs = of->n_attrs;
    }
    const weft_spot spot = g->spot;
    g->spot = (weft_spot){of, of->block, of->chunk, of->phase, of->scope};
    weft_node *n = weft_node_new(g, &spec);
    g->spot = spot;
    if (!n)
        return NULL;
    n->stage = of->stage;
    n->by = of->by;
    for (int i = 0; i < n_outs; i++)
        describe(n->outs[i], likes[i]);
    return n;
}

bool weft_node_set_shift(weft_graph *g, weft_node *n, int d)
{
    const weft_value *from = n->ins[0];
    weft_step *step = weft_pool_alloc(&g->pool, sizeof *step);
    if (!step)
        return false;
    *step = (weft_step){.move = WEFT_SHIFT, .dim = d, .to = -1, .after = from->layout};
    step->n_axes = weft_layout_list(from->layout, d, step->axes);
    n->outs[0]->turn_dim = d;
    n->outs[0]->turn = (from->turn + 1) % weft_step_members(&g->config.mesh, step);
    n->steps = step;
    n->n_steps = 1;
    return true;
}

void weft_swap_makers(weft_value *a, weft_value *b)
{
    weft_node *node = a->node;
    const int result = a->result;
    a->node = b->node;
    a->result = b->result;
    b->node = node;
    b->result = result;
    a->node->outs[a->result] = a;
    b->node->outs[b->result] = b;
}
