/* SPDX-License-Identifier: Apache-2.0 */
/* What a plugin keeps from step to step: is it stored as the parameters are that it is like? */
#include "conform.h"

#include <string.h>

static bool are_alike(const weft_value *a, const weft_value *b)
{
    bool alike = a->n_dims == b->n_dims && a->n_dims > 1;
    for (int d = 0; alike && d < a->n_dims; d++)
        alike = strcmp(a->dims[d].name, b->dims[d].name) == 0 && a->dims[d].size == b->dims[d].size;
    return alike;
}

/* A parameter of its dims, of which ranks store a part each; NULL: none. */
static const weft_value *find_like(const weft_graph *g, const weft_value *state)
{
    for (int i = 0; i < g->n_parameters; i++)
        if (are_alike(g->parameters[i], state) && g->parameters[i]->store_axes)
            return g->parameters[i];
    return NULL;
}

void conform_check_states(const conform *c, const weft_graph *g)
{
    for (int i = 0; i < g->n_states; i++) {
        const weft_value *v = g->states[i], *like = find_like(g, v);
        if (strcmp(v->node->by, c->plugin) != 0)
            continue;
        conform_now(c, "state %s: storage", v->name);
        if (like && !v->store_axes)
            conform_fail(c,
                         "state: storage: %s has the dims of %s, of which each rank stores a part, "
                         "and every rank holds all of it; weft_add_state_like gives state the "
                         "storage of a parameter",
                         v->name, like->name);
        conform_count(c, "states", 1);
    }
}
