/* SPDX-License-Identifier: Apache-2.0 */
/* The groups of ranks that programs communicate in, one for each set of axes. */
#include "base/array.h"
#include "execute/collective.h"
#include "host/plugins.h"

#include <string.h>
#include <weft/random.h>

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
    made->n = weft_step_members(g->mesh, step);
    made->n_axes = step->n_axes;
    memcpy(made->axes, step->axes, sizeof made->axes);
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

/* ---- places ---- */

/* Where the collectives of a group find what they send and put what they receive, as a number: for
 * transports that can do more where all members use the same places. */

static uint64_t add_number(uint64_t hash, int64_t number)
{
    return weft_hash_bytes(hash, &number, sizeof number);
}

/* Which piece of memory, and how far behind its head: in a slot, for every micro-batch. */
static uint64_t add_place(uint64_t hash, const weft_lowered *l, const weft_instruction *in,
                          weft_place p)
{
    int buffer = p.of == WEFT_PLACE_WORKSPACE ? in->workspace : in->buffers[p.of];
    if (buffer < 0)
        return add_number(hash, WEFT_BASE_NONE);
    const weft_buffer *b = &l->buffers[buffer];
    const bool slots = b->base == WEFT_BASE_SLOT || b->base == WEFT_BASE_INPUT;
    const int64_t n = slots ? l->graph->config.sizes.micro_batches : 1;
    hash = add_number(hash, b->base == WEFT_BASE_SLOT ? WEFT_BASE_ARENA : b->base);
    for (int64_t micro = 0; micro < n; micro++)
        hash = add_number(hash, weft_buffer_offset(l, b, micro) + p.at);
    return hash;
}

static uint64_t add_instruction(uint64_t hash, const weft_groups *g, const weft_group *of,
                                const weft_lowered *l, const weft_instruction *in)
{
    for (int i = 0; i < in->exchange->n_parts; i++) {
        const weft_exchange_part *p = &in->exchange->parts[i];
        if (!p->sends || p->count == 0 ||
            weft_groups_find(g, WEFT_CHANNEL_COLLECTIVES, p->step->axes, p->step->n_axes) != of)
            continue;
        hash = add_number(hash, 1 + (int64_t)p->step->move);
        hash = add_place(add_place(hash, l, in, p->send), l, in, p->recv);
    }
    return hash;
}

static uint64_t digest_of(const weft_groups *g, const weft_group *of, const weft_lowered *l,
                          uint64_t hash)
{
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i < l->programs[a].n; i++)
            if (l->programs[a].list[i].kind == WEFT_COLLECTIVE)
                hash = add_instruction(hash, g, of, l, &l->programs[a].list[i]);
    return hash;
}

weft_status weft_groups_tell_places(const weft_groups *g, weft_lowered *const lowered[WEFT_MODES],
                                    weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < g->n && !s && g->transport->places; i++) {
        uint64_t hash = 0;
        for (int m = 0; m < WEFT_MODES; m++)
            hash = lowered[m] ? digest_of(g, &g->list[i], lowered[m], hash) : hash;
        s = g->transport->places(g->transport_self, g->list[i].handle, hash, err);
    }
    return s;
}
