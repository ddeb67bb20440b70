/* SPDX-License-Identifier: Apache-2.0 */
/* The groups of ranks that programs communicate in, one for each set of axes. */
#include "plugin/enter.h"
#include "run/collective.h"

#include <string.h>

weft_group *weft_groups_find(const weft_groups *g, const int *axes, int n_axes)
{
    for (int i = 0; i < g->n; i++)
        if (g->list[i].n_axes == n_axes &&
            memcmp(g->list[i].axes, axes, sizeof(int) * (size_t)n_axes) == 0)
            return &g->list[i];
    return NULL;
}

/* Rank number of the member whose place in the group is i. */
static int member(const weft_mesh *mesh, const int *coord, const int *axes, int n_axes, int i)
{
    int c[WEFT_MAX_AXES], rank = 0, scale = 1;
    memcpy(c, coord, sizeof c);
    for (int k = n_axes - 1; k >= 0; k--) {
        c[axes[k]] = i % mesh->axis[axes[k]].size;
        i /= mesh->axis[axes[k]].size;
    }
    for (int a = 0; a < mesh->n_axes; a++) {
        rank += c[a] * scale;
        scale *= mesh->axis[a].size;
    }
    return rank;
}

static weft_status add_group(weft_groups *g, const int *coord, const weft_step *step,
                             weft_error *err)
{
    if (g->n == g->capacity) {
        int more = g->capacity ? 2 * g->capacity : 8;
        weft_group *fresh = weft_realloc(g->list, (size_t)more * sizeof *fresh);
        if (!fresh)
            return weft_fail_memory(err);
        g->list = fresh;
        g->capacity = more;
    }
    weft_group *made = &g->list[g->n];
    memset(made, 0, sizeof *made);
    made->n = 1;
    made->n_axes = step->n_axes;
    memcpy(made->axes, step->axes, sizeof made->axes);
    for (int k = 0; k < step->n_axes; k++)
        made->n *= g->mesh->axis[step->axes[k]].size;
    made->ranks = weft_alloc((size_t)made->n * sizeof *made->ranks);
    if (!made->ranks)
        return weft_fail_memory(err);
    g->n++;
    for (int i = 0; i < made->n; i++) {
        made->ranks[i] = member(g->mesh, coord, made->axes, made->n_axes, i);
        if (made->ranks[i] == g->rank)
            made->me = i;
    }
    const weft_entry entry = weft_enter(g->transport_by, "group", WEFT_NOWHERE, err);
    return weft_leave(&entry, g->transport->group(g->transport_self, made->ranks, made->n, made->me,
                                                  &made->handle, err));
}

bool weft_step_communicates(const weft_step *s)
{
    return s->move != WEFT_SLICE && s->move != WEFT_ZERO;
}

weft_status weft_groups_add(weft_groups *g, const weft_lowered *l, weft_error *err)
{
    for (int a = 0; a < l->n_programs; a++) {
        for (int i = 0; i < l->programs[a].n; i++) {
            const weft_node *n = l->programs[a].list[i].node;
            for (int k = 0; l->programs[a].list[i].kind == WEFT_COLLECTIVE && k < n->n_steps; k++) {
                if (!weft_step_communicates(&n->steps[k]) ||
                    weft_groups_find(g, n->steps[k].axes, n->steps[k].n_axes))
                    continue;
                if (!g->transport)
                    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                                     "%s must be sent between ranks (%s), and no listed plugin is "
                                     "a transport; list one, as local or mpi",
                                     n->outs[0]->name, weft_move_name(n->steps[k].move));
                weft_status s = add_group(g, l->coord, &n->steps[k], err);
                if (s)
                    return s;
            }
        }
    }
    return WEFT_OK;
}

void weft_groups_release(weft_groups *g)
{
    for (int i = g->n - 1; i >= 0; i--) {
        if (g->list[i].handle) {
            const weft_entry entry = weft_enter(g->transport_by, "ungroup", WEFT_NOWHERE, NULL);
            g->transport->ungroup(g->transport_self, g->list[i].handle);
            weft_leave(&entry, WEFT_OK);
        }
        weft_free(g->list[i].ranks);
    }
    weft_free(g->list);
    memset(g, 0, sizeof *g);
}
