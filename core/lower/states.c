/* SPDX-License-Identifier: Apache-2.0 */
#include "lower/lower.h"

#include <string.h>

static int64_t align64(int64_t n)
{
    return (n + 63) / 64 * 64;
}

void weft_local_tensor(const weft_graph *g, const weft_value *v, const int *coord, weft_tensor *out)
{
    memset(out, 0, sizeof *out);
    out->dtype = v->dtype;
    out->n_dims = v->n_dims;
    for (int d = 0; d < v->n_dims; d++) {
        weft_span s = weft_layout_span(&g->config.mesh, v->layout, &v->dims[d], d, coord);
        out->size[d] = s.hi - s.lo;
        out->lo[d] = s.lo;
        out->whole[d] = v->dims[d].size;
        out->grain[d] = v->dims[d].grain;
    }
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

void weft_collective_sizes(const weft_graph *g, const weft_node *n, weft_collective_space *out)
{
    const weft_value *v = n->outs[0];
    const weft_mesh *mesh = &g->config.mesh;
    weft_layout before = n->ins[0]->layout;
    int64_t width = (int64_t)weft_dtype_size(v->dtype);
    *out = (weft_collective_space){0};
    for (int i = 0; i < n->n_steps; i++) {
        const weft_step *s = &n->steps[i];
        int64_t from = weft_layout_elements(mesh, before, v->n_dims, v->dims) * width,
                to = weft_layout_elements(mesh, s->after, v->n_dims, v->dims) * width;
        weft_axes axes = 0;
        for (int k = 0; k < s->n_axes; k++)
            axes |= 1u << s->axes[k];
        int64_t count = weft_mesh_count(mesh, axes);
        if (i + 1 < n->n_steps)
            out->between = larger(out->between, align64(to));
        if (s->move == WEFT_ALL_GATHER) {
            out->send = larger(out->send, align64(from));
            out->recv = larger(out->recv, align64(from * count));
        } else if (s->move == WEFT_REDUCE_SCATTER) {
            out->send = larger(out->send, align64(to * count));
            out->recv = larger(out->recv, align64(to));
        } else if (s->move == WEFT_ALL_TO_ALL) {
            out->send = larger(out->send, align64(to * count));
            out->recv = larger(out->recv, align64(to * count));
        }
        before = s->after;
    }
}

static weft_status add(weft_states *states, const weft_graph *g, weft_value *v, weft_error *err)
{
    weft_state_entry *e = &states->list[states->n++];
    int64_t elements = weft_layout_elements(&g->config.mesh, v->layout, v->n_dims, v->dims);
    *e = (weft_state_entry){v->name, states->bytes, elements * (int64_t)weft_dtype_size(v->dtype), v};
    if ((states->bytes += align64(e->bytes)) > WEFT_MAX_BYTES)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "parameters and optimizer state are more than 2^60 bytes; choose a smaller model");
    return weft_map_set(&states->by_name, &states->pool, v->name, strlen(v->name), e) ? WEFT_OK : weft_fail_memory(err);
}

weft_status weft_states_init(weft_states *states, const weft_graph *g, const int *coord, weft_error *err)
{
    (void)coord; /* nominal chunks: the same on every rank */
    memset(states, 0, sizeof *states);
    states->list = weft_pool_alloc(&states->pool, ((size_t)(g->n_parameters + g->n_states) + 1) * sizeof *states->list);
    if (!states->list)
        return weft_fail_memory(err);
    weft_status s = WEFT_OK;
    for (int i = 0; !s && i < g->n_parameters; i++)
        s = add(states, g, g->parameters[i], err);
    for (int i = 0; !s && i < g->n_states; i++)
        s = add(states, g, g->states[i], err);
    return s;
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
