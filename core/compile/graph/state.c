/* SPDX-License-Identifier: Apache-2.0 */
/* State beside parameters: its kinds, and what must be true of it when all passes are done. */
#include "compile/graph/graph.h"

#include <string.h>

static const char *const kinds[WEFT_STATE_KINDS] = {"optimizer", "average", "history",
                                                    "buffer",    "cache",   "step"};

const char *weft_state_kind_name(weft_state_kind kind)
{
    return kinds[kind];
}

bool weft_same_shape(const weft_value *a, const weft_value *b)
{
    bool same = a->n_dims == b->n_dims && a->dtype == b->dtype;
    for (int d = 0; same && d < a->n_dims; d++)
        same = strcmp(a->dims[d].name, b->dims[d].name) == 0 &&
               a->dims[d].size == b->dims[d].size && a->dims[d].grain == b->dims[d].grain;
    return same;
}

bool weft_value_is_far(const weft_value *v)
{
    bool far = v->becomes && weft_node_is(v->becomes->node, WEFT_OP_EVICT);
    for (int i = 0; i < v->n_uses && !far; i++)
        far = weft_node_is(v->uses[i].node, WEFT_OP_FETCH);
    return far;
}

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
