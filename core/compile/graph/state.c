/* SPDX-License-Identifier: Apache-2.0 */
/* State beside parameters: made, updated, and what must be true of it when all passes are done. */
#include "compile/graph/graph.h"

#include <string.h>

static const char *const kinds[WEFT_STATE_KINDS] = {"optimizer", "average", "history", "buffer",
                                                    "cache"};

const char *weft_state_kind_name(weft_state_kind kind)
{
    return kinds[kind];
}

/* ---- made ---- */

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
    return keep(g, v) ? v : NULL;
}

/* ---- updated ---- */

bool weft_same_shape(const weft_value *a, const weft_value *b)
{
    bool same = a->n_dims == b->n_dims && a->dtype == b->dtype;
    for (int d = 0; same && d < a->n_dims; d++)
        same = strcmp(a->dims[d].name, b->dims[d].name) == 0 &&
               a->dims[d].size == b->dims[d].size && a->dims[d].grain == b->dims[d].grain;
    return same;
}

void weft_fail_shapes(weft_graph *g, const weft_value *a, const char *cannot, const weft_value *b)
{
    weft_text mine = {0}, theirs = {0};
    weft_value_print_shape(a, &mine);
    weft_value_print_shape(b, &theirs);
    weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "%s %s %s %s %s: dims or dtype differ",
                    weft_dtype_name(a->dtype), weft_text_get(&mine), cannot,
                    weft_dtype_name(b->dtype), weft_text_get(&theirs));
    weft_text_release(&mine);
    weft_text_release(&theirs);
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

/* ---- when all passes are done ---- */

static weft_status check_state(weft_graph *g, const weft_value *v)
{
    if (v->updated_by || (v->kind == WEFT_STATE_BUFFER && v->n_uses > 0))
        return WEFT_OK;
    return weft_fail(&g->error, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                     "plugin %s adds state '%s' (%s), which nobody updates%s; a joint pass does it "
                     "with weft_set_update",
                     v->node->by, v->name, kinds[v->kind], v->n_uses ? "" : " or reads");
}

weft_status weft_graph_check_updates(weft_graph *g)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < g->n_states; i++) {
        weft_status one = check_state(g, g->states[i]);
        s = s ? s : one;
    }
    return s ? s : weft_graph_check_claims(g);
}
