/* SPDX-License-Identifier: Apache-2.0 */
/* The groups of ranks that programs communicate in, one for each set of axes. */
#include "base/array.h"
#include "execute/collective.h"
#include "host/plugins.h"

#include <string.h>

weft_group *weft_groups_find(const weft_groups *g, weft_channel channel, const int *axes,
                             int n_axes)
{
    for (int i = 0; i < g->n; i++)
        if (g->list[i].channel == channel && g->list[i].n_axes == n_axes &&
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

static weft_status add_group(weft_groups *g, const int *coord, weft_channel channel,
                             const weft_step *step, weft_error *err)
{
    weft_group *made = weft_array_push(&g->list, &g->n, &g->capacity, sizeof *made);
    if (!made)
        return weft_fail_memory(err);
    made->channel = channel;
    made->n = 1;
    made->n_axes = step->n_axes;
    memcpy(made->axes, step->axes, sizeof made->axes);
    for (int k = 0; k < step->n_axes; k++)
        made->n *= g->mesh->axis[step->axes[k]].size;
    made->ranks = weft_alloc((size_t)made->n * sizeof *made->ranks);
    if (!made->ranks)
        return weft_fail_memory(err);
    for (int i = 0; i < made->n; i++) {
        made->ranks[i] = member(g->mesh, coord, made->axes, made->n_axes, i);
        if (made->ranks[i] == g->rank)
            made->me = i;
    }
    return g->transport->group(g->transport_self, made->ranks, made->n, made->me, &made->handle,
                               err);
}

/* ---- pairs ---- */

static weft_status add_pair(const weft_groups *g, weft_group *group, int from, int to,
                            weft_error *err)
{
    for (int i = 0; i < group->n_pairs; i++)
        if (group->pairs[i].from == from && group->pairs[i].to == to)
            return WEFT_OK;
    struct weft_pair *fresh =
        weft_realloc(group->pairs, (size_t)(group->n_pairs + 1) * sizeof *fresh);
    if (!fresh)
        return weft_fail_memory(err);
    group->pairs = fresh;
    group->pairs[group->n_pairs++] = (struct weft_pair){from, to};
    return g->transport->connect(g->transport_self, group->handle, from, to, err);
}

/* Who will send to whom in this step, over all of the mesh. */
static weft_status connect(const weft_groups *g, weft_channel channel, const weft_step *step,
                           weft_error *err)
{
    weft_group *group = weft_groups_find(g, channel, step->axes, step->n_axes);
    weft_status s = WEFT_OK;
    if (!g->transport->connect || (step->move != WEFT_SEND && step->move != WEFT_SHIFT))
        return WEFT_OK;
    if (step->move == WEFT_SEND)
        return add_pair(g, group, step->dim, step->to, err);
    for (int i = 0; i < group->n && !s; i++)
        s = add_pair(g, group, i, (i + 1) % group->n, err);
    return s;
}

bool weft_step_communicates(const weft_step *s)
{
    return s->move != WEFT_SLICE && s->move != WEFT_ZERO && s->move != WEFT_KEEP;
}

static weft_status add_groups_of(weft_groups *g, const weft_lowered *l, const weft_node *n,
                                 weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int k = 0; k < n->n_steps && !s; k++) {
        const weft_step *step = &n->steps[k];
        weft_channel channel = weft_channel_of(n, step);
        if (!weft_step_communicates(step))
            continue;
        if (weft_groups_find(g, channel, step->axes, step->n_axes)) {
            s = connect(g, channel, step, err);
            continue;
        }
        if (!g->transport)
            return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                             "%s must be sent between ranks (%s), and no listed plugin is "
                             "a transport; list one, as local or mpi",
                             n->outs[0]->name, weft_move_name(step->move));
        if (step->move == WEFT_SEND || step->move == WEFT_BROADCAST || step->move == WEFT_SHIFT)
            s = weft_transport_check_send(g->transport, g->transport_by, err);
        s = s ? s : add_group(g, l->coord, channel, step, err);
        s = s ? s : connect(g, channel, step, err);
    }
    return s;
}

/* Ranks of different stages run different programs; they make their groups in the graph's order. */
static weft_status add_in_order(weft_groups *g, const weft_lowered *l, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (const weft_node *n = l->graph->first; n && !s; n = n->next)
        s = add_groups_of(g, l, n, err);
    return s;
}

weft_status weft_groups_add(weft_groups *g, const weft_lowered *l, weft_error *err)
{
    if (weft_graph_stage_axis(l->graph) >= 0)
        return add_in_order(g, l, err);
    weft_status s = WEFT_OK;
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i < l->programs[a].n && !s; i++)
            if (l->programs[a].list[i].kind == WEFT_COLLECTIVE ||
                l->programs[a].list[i].kind == WEFT_POST_SEND)
                s = add_groups_of(g, l, l->programs[a].list[i].node, err);
    return s;
}

void weft_groups_release(weft_groups *g)
{
    for (int i = g->n - 1; i >= 0; i--) {
        if (g->list[i].handle)
            g->transport->ungroup(g->transport_self, g->list[i].handle);
        weft_free(g->list[i].ranks);
        weft_free(g->list[i].pairs);
    }
    weft_free(g->list);
    memset(g, 0, sizeof *g);
}
