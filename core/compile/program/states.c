/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/program/lower.h"

#include <string.h>

void weft_local_tensor(const weft_graph *g, const weft_value *v, const int *coord, weft_tensor *out)
{
    int whose[WEFT_MAX_AXES];
    weft_layout_turn(&g->config.mesh, v->layout, v->turn_dim, v->turn, coord, whose);
    memset(out, 0, sizeof *out);
    out->dtype = v->dtype;
    out->n_dims = v->n_dims;
    for (int d = 0; d < v->n_dims; d++) {
        weft_span s = weft_layout_span(&g->config.mesh, v->layout, &v->dims[d], d, whose);
        out->size[d] = s.hi - s.lo;
        out->lo[d] = s.lo;
        out->whole[d] = v->dims[d].size;
        out->grain[d] = v->dims[d].grain;
    }
}

int64_t weft_seq_place(const weft_graph *g, int64_t i)
{
    return g->seq_order ? g->seq_order[i] : i;
}

uint64_t weft_global_index(const weft_tensor *t, int64_t i)
{
    uint64_t index = 0, scale = 1;
    for (int d = t->n_dims - 1; d >= 0; d--) {
        index += (uint64_t)(t->lo[d] + i % t->size[d]) * scale;
        i /= t->size[d];
        scale *= (uint64_t)t->whole[d];
    }
    return index;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t weft_nominal_bytes(const weft_graph *g, const weft_value *v)
{
    return weft_layout_elements(&g->config.mesh, v->layout, v->n_dims, v->dims) *
           (int64_t)weft_dtype_size(v->dtype);
}

bool weft_step_is_direct(const weft_mesh *mesh, const weft_step *step, weft_layout before,
                         const weft_value *v)
{
    if (step->move != WEFT_ALL_GATHER && step->move != WEFT_REDUCE_SCATTER)
        return false;
    int d = step->dim;
    for (int i = 0; i < d; i++)
        if (v->dims[i].size > 1)
            return false;
    static const int first[WEFT_MAX_AXES];
    int list[WEFT_MAX_AXES];
    weft_layout cut = step->move == WEFT_ALL_GATHER ? before : step->after;
    int64_t pieces = 1;
    for (int i = weft_layout_list(cut, d, list) - 1; i >= 0; i--)
        pieces *= mesh->axis[list[i]].size;
    return weft_layout_span(mesh, cut, &v->dims[d], d, first).chunk * pieces == v->dims[d].size;
}

/* One step of a value: what it sends and receives. */
static void step_sizes(const weft_graph *g, const weft_value *v, const weft_step *s,
                       weft_layout before, int64_t *send, int64_t *recv)
{
    int64_t width = (int64_t)weft_dtype_size(v->dtype);
    int64_t from = weft_layout_elements(&g->config.mesh, before, v->n_dims, v->dims) * width,
            to = weft_layout_elements(&g->config.mesh, s->after, v->n_dims, v->dims) * width;
    weft_axes axes = 0;
    for (int k = 0; k < s->n_axes; k++)
        axes |= 1u << s->axes[k];
    int64_t count = weft_mesh_count(&g->config.mesh, axes);
    *send = *recv = 0;
    if (s->move == WEFT_ALL_GATHER) {
        *send = from;
        *recv = from * count;
    } else if (s->move == WEFT_REDUCE_SCATTER) {
        *send = to * count;
        *recv = to;
    } else if (s->move == WEFT_ALL_TO_ALL) {
        *send = *recv = to * count;
    }
}

bool weft_part_goes_alone(const weft_graph *g, const weft_node *part)
{
    enum { LARGE = 1 << 20 };
    const weft_value *v = part->steps->move == WEFT_ALL_GATHER ? part->outs[0] : part->ins[0];
    return weft_nominal_bytes(g, v) >= LARGE &&
           (part->steps->move == WEFT_ALL_REDUCE ||
            weft_step_is_direct(&g->config.mesh, part->steps, part->ins[0]->layout, part->outs[0]));
}

/* Side by side: what all send, what all receive. All-reduces happen where they were packed. */
static void joint_sizes(const weft_graph *g, const weft_instruction *in, int64_t alignment,
                        weft_collective_space *out)
{
    for (int i = 0; i < in->n_ins; i++) {
        const weft_node *n = in->parts[i];
        const weft_value *v = n->outs[0];
        int64_t send, recv;
        if (weft_part_goes_alone(g, n))
            continue;
        step_sizes(g, v, n->steps, n->ins[0]->layout, &send, &recv);
        if (n->steps->move == WEFT_ALL_REDUCE)
            send = weft_nominal_bytes(g, v);
        out->send += send;
        out->recv += recv;
    }
    out->send = weft_align(out->send, alignment);
    out->recv = weft_align(out->recv, alignment);
}

void weft_collective_sizes(const weft_graph *g, const weft_instruction *in, int64_t alignment,
                           weft_collective_space *out)
{
    const weft_node *n = in->node;
    const weft_value *v = n->outs[0];
    weft_layout before = n->ins[0]->layout;
    *out = (weft_collective_space){0};
    if (in->parts) {
        joint_sizes(g, in, alignment, out);
        return;
    }
    for (int i = 0; i < n->n_steps; before = n->steps[i++].after) {
        int64_t send, recv, width = (int64_t)weft_dtype_size(v->dtype);
        step_sizes(g, v, &n->steps[i], before, &send, &recv);
        if (weft_step_is_direct(&g->config.mesh, &n->steps[i], before, v))
            send = recv = 0;
        if (i + 1 < n->n_steps)
            out->between = larger(
                out->between, weft_align(weft_layout_elements(&g->config.mesh, n->steps[i].after,
                                                              v->n_dims, v->dims) *
                                             width,
                                         alignment));
        out->send = larger(out->send, weft_align(send, alignment));
        out->recv = larger(out->recv, weft_align(recv, alignment));
    }
}

static weft_status refuse_total(const weft_states *states, weft_error *err)
{
    const weft_state_entry *largest = &states->list[0];
    for (int i = 1; i < states->n; i++)
        largest = states->list[i].bytes > largest->bytes ? &states->list[i] : largest;
    weft_text shape = {0};
    weft_value_print_shape(largest->value, &shape);
    weft_status s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                              "parameters and optimizer state are more than 2^60 bytes; choose a "
                              "smaller model; the largest is %s",
                              weft_text_get(&shape));
    weft_text_release(&shape);
    return s;
}

/* What another stage holds has no bytes. */
static weft_status add(weft_states *states, const weft_graph *g, weft_value *v, const int *coord,
                       weft_error *err)
{
    weft_state_entry *e = &states->list[states->n++];
    *e = (weft_state_entry){v->name, states->bytes, 0, v};
    if (weft_layout_held(v->layout, coord))
        e->bytes = weft_nominal_bytes(g, v);
    if ((states->bytes += weft_align(e->bytes, states->alignment)) > WEFT_MAX_BYTES)
        return refuse_total(states, err);
    return weft_map_set(&states->by_name, &states->pool, v->name, strlen(v->name), e)
               ? WEFT_OK
               : weft_fail_memory(err);
}

/* Parameters and what a checkpoint holds beside them, or caches. */
static weft_status init(weft_states *states, const weft_graph *g, const int *coord, bool caches,
                        int64_t alignment, weft_error *err)
{
    memset(states, 0, sizeof *states);
    states->alignment = alignment;
    states->list = weft_pool_alloc(&states->pool, ((size_t)(g->n_parameters + g->n_states) + 1) *
                                                      sizeof *states->list);
    if (!states->list)
        return weft_fail_memory(err);
    weft_status s = WEFT_OK;
    for (int i = 0; !s && !caches && i < g->n_parameters; i++)
        s = add(states, g, g->parameters[i], coord, err);
    for (int i = 0; !s && i < g->n_states; i++)
        if ((g->states[i]->kind == WEFT_STATE_CACHE) == caches)
            s = add(states, g, g->states[i], coord, err);
    return s;
}

weft_status weft_states_init(weft_states *states, const weft_graph *g, const int *coord,
                             int64_t alignment, weft_error *err)
{
    return init(states, g, coord, false, alignment, err);
}

weft_status weft_caches_init(weft_states *caches, const weft_graph *g, const int *coord,
                             int64_t alignment, weft_error *err)
{
    return init(caches, g, coord, true, alignment, err);
}

void weft_states_release(weft_states *states)
{
    weft_pool_release(&states->pool);
    memset(states, 0, sizeof *states);
}

const weft_state_entry *weft_states_find(const weft_states *states, const char *name)
{
    return weft_map_get(&states->by_name, name, strlen(name));
}
