/* SPDX-License-Identifier: Apache-2.0 */
/* For who writes text, which is written part by part: what looks at earlier places (weft_op.cached)
 * finds the keys and values of the parts before in caches. Models know nothing of it. A place that
 * is not yet written has an index beyond that of every query, so causality hides it; padding in
 * front of a short prompt has a segment of its own. */
#include "compile/graph/graph.h"

#include <string.h>
#include <weft/pass.h>

/* The state that x, [batch seq heads], is written into. */
static weft_value *add_cache(weft_graph *g, const weft_node *reader, const char *suffix,
                             weft_value *x)
{
    const weft_dim *context = weft_map_get(&g->dims, "context", 7);
    char *name = weft_pool_format(&g->pool, "%s.%s", reader->outs[0]->name, suffix);
    if (!name)
        return NULL;
    weft_node_spec spec = {.op = weft_ops_find(g->config.ops, "state"),
                           .name = name,
                           .n_outs = 1,
                           .like = x,
                           .scope = WEFT_STEP_BEGIN};
    weft_node *n = weft_node_new(g, &spec);
    if (!n)
        return NULL;
    weft_value *v = n->outs[0];
    v->kind = WEFT_STATE_CACHE;
    weft_value_shape_as(v, x);
    v->dims[1] = *context;
    return weft_graph_push(g, (void ***)&g->states, &g->n_states, &g->states_capacity, v) ? v
                                                                                          : NULL;
}

static void cache_operand(weft_graph *g, weft_node *n, int operand, const char *suffix)
{
    const weft_cached *how = n->op->cached;
    weft_value *x = n->ins[operand], *state = add_cache(g, n, suffix, x);
    weft_value *all = weft_add3(g, how->write, NULL, state, x, n->ins[how->index]);
    if (!all)
        return;
    all->update_of = state;
    weft_node_set_operand(g, n, operand, all);
}

static void cache_node(weft_graph *g, weft_node *n)
{
    const weft_cached *how = n->op->cached;
    if (n->ins[how->keys]->n_dims != 3 ||
        (weft_node_has(n, "causal") && !weft_node_int(n, "causal"))) {
        weft_graph_fail(
            g, WEFT_ERR_INPUT, WEFT_NOWHERE,
            "%s cannot read from a cache: it is not causal; text is written without one",
            n->outs[0]->name);
        return;
    }
    weft_value *index = weft_add_input(g, "cached_index"),
               *segments = weft_add_input(g, "cached_segments");
    cache_operand(g, n, how->keys, "keys");
    cache_operand(g, n, how->values, "values");
    weft_node_set_operand(g, n, how->index_keys, index);
    weft_node_set_operand(g, n, how->segments_keys, segments);
}

void weft_add_caches(weft_graph *g)
{
    for (weft_node *n = g->config.places ? g->first : NULL; n && !weft_graph_status(g);
         n = n->next) {
        if (!n->op->cached)
            continue;
        g->spot.before = n;
        g->spot.block = n->block;
        cache_node(g, n);
        g->spot.before = NULL;
        g->spot.block = WEFT_BLOCK_NONE;
    }
}
