/* SPDX-License-Identifier: Apache-2.0 */
/* For passes: state beside parameters, what it and parameters become, and what is made only in some
 * steps. */
#include "kit/shapes.h"

#include <string.h>
#include <weft/marks.h>

static weft_value *add_state(weft_graph *g, const char *name, weft_dtype dtype,
                             weft_state_kind kind)
{
    if (weft_graph_status(g))
        return NULL;
    if ((int)kind < 0 || kind >= WEFT_STATE_CACHE)
        return weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                               "state '%s': there is no such kind of state for plugins", name);
    const weft_value *there = weft_graph_find(g, name);
    if (there)
        return weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                               "state '%s': there is a value of this name already (%s)", name,
                               there->node->by);
    weft_value *v = weft_source_new(g, "state", name, WEFT_STEP_BEGIN);
    if (!v)
        return NULL;
    v->dtype = dtype;
    v->kind = kind;
    return v;
}

static bool keep(weft_graph *g, weft_value *v)
{
    return weft_graph_push(g, (void ***)&g->states, &g->n_states, &g->states_capacity, v);
}

weft_value *weft_add_state(weft_graph *g, const char *name, const char *shape, weft_dtype dtype,
                           weft_init init, weft_state_kind kind)
{
    weft_value *v = add_state(g, name, dtype, kind);
    if (!v || weft_source_shape(g, v, shape))
        return NULL;
    v->init = init;
    return keep(g, v) ? weft_source_finish(g, v) : NULL;
}

weft_value *weft_add_state_like(weft_graph *g, const char *name, weft_value *of, weft_dtype dtype,
                                weft_state_kind kind)
{
    weft_value *v = of ? add_state(g, name, dtype, kind) : NULL;
    if (!v)
        return NULL;
    v->n_dims = of->n_dims;
    memcpy(v->dims, of->dims, sizeof of->dims);
    v->layout = of->layout;
    for (int a = 0; a < WEFT_MAX_AXES; a++)
        if (weft_layout_open(v->layout, a))
            v->layout = weft_layout_clear(v->layout, a); /* what is kept is whole */
    v->store_axes = of->store_axes;
    v->placed = of->placed;
    v->node->like = of->placed ? NULL : of; /* placed when that is */
    of->shapes = of->shapes || !of->placed;
    return keep(g, v) ? v : NULL;
}

/* Is v in most steps what the state is to become already? */
static bool goes_on(const weft_value *state, const weft_value *v)
{
    const int kept = weft_node_otherwise(v->node);
    return state->becomes && kept >= 0 &&
           weft_value_before_moves(v->node->ins[kept]) == weft_value_before_moves(state->becomes);
}

static weft_status check_update(weft_graph *g, const weft_value *state, const weft_value *v)
{
    if (!weft_node_is(state->node, WEFT_OP_PARAMETER | WEFT_OP_STATE))
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s cannot be updated: it is neither a parameter nor state", state->name);
    else if (!g->loss_report && !g->differentiating)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s cannot be updated yet; let a joint pass or a gradient function do it",
                        state->name);
    else if (state->updated_by && !goes_on(state, v))
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s is updated twice, first by %s; only one plugin may do it, once",
                        state->name, state->updated_by);
    return weft_graph_status(g);
}

void weft_set_update(weft_graph *g, weft_value *state, weft_value *v)
{
    if (!state || !v || weft_graph_status(g) || check_update(g, state, v))
        return;
    if (weft_value_available(v) == WEFT_MICRO_BATCH) {
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s cannot become %s: it differs between micro-batches, so that only the "
                        "last would count; weft_accumulate combines them",
                        v->name, state->name);
        return;
    }
    if (!weft_same_shape(v, state)) {
        weft_fail_shapes(g, v, "cannot be the next content of", state);
        return;
    }
    weft_value *stored =
        weft_move_to(g, v, state->layout, NULL, WEFT_UPDATE, "what it becomes", NULL);
    if (!stored)
        return;
    if (stored->update_of) {
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s cannot become %s: it becomes %s already; put a node between them",
                        v->name, state->name, stored->update_of->name);
        return;
    }
    if (state->becomes)
        state->becomes->update_of = NULL;
    stored->update_of = state;
    state->becomes = stored;
    state->updated_by = state->updated_by ? state->updated_by : g->by;
}

static const char *find_fault(const weft_value *v, int64_t steps, weft_value *otherwise,
                              int *operand)
{
    const weft_node *n = v->node;
    *operand = -1;
    if (steps < 1)
        return "the least is 1, every step";
    if (n->scope == WEFT_MICRO_BATCH || weft_node_accumulates(n) || weft_node_is(n, WEFT_OP_SOURCE))
        return "only what runs once a step can be left out of some; a state keeps what it makes";
    for (int i = 0; i < n->n_ins && otherwise; i++)
        if (weft_value_before_moves(n->ins[i]) == weft_value_before_moves(otherwise))
            *operand = i;
    if (otherwise && (*operand < 0 || n->n_outs > 1 || !weft_same_shape(n->ins[*operand], v)))
        return "what it is in the others must be an operand of the node, like its one result";
    return NULL;
}

void weft_set_every(weft_graph *g, weft_value *v, int64_t steps, weft_value *otherwise)
{
    int operand;
    if (!v || weft_graph_status(g) || g->config.mode != WEFT_MODE_TRAIN)
        return;
    const char *fault = find_fault(v, steps, otherwise, &operand);
    if (fault) {
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s cannot be made every %lld steps: %s", v->name, (long long)steps, fault);
        return;
    }
    weft_set_mark(g, v, WEFT_MARK_EVERY, steps);
    weft_set_mark(g, v, WEFT_MARK_OTHERWISE, operand + 1);
}
