/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/program/lower.h"

#include <string.h>

/* Places count up where the sequence is in order. More than two runs are none. */
static void count_places(const weft_graph *g, const weft_tensor *t, weft_facts *facts)
{
    const int64_t end = t->lo[0] + t->size[0];
    for (int64_t i = t->lo[0]; i < end && facts->runs <= 2; i = g->seq_ends ? g->seq_ends[i] : end)
        if (facts->runs++ < 2) {
            facts->second = i - t->lo[0];
            facts->first[facts->runs - 1] = weft_seq_place(g, i);
        }
    facts->runs = facts->runs > 2 ? 0 : facts->runs;
}

/* Of inputs of samples, whoever holds which part. */
static void find_facts(const weft_graph *g, const weft_value *v, weft_tensor *t)
{
    while (v->node->n_steps > 0)
        v = v->node->ins[0];
    if (!(v->node->op->flags & WEFT_OP_INPUT) || g->config.mode > WEFT_MODE_EVALUATE)
        return;
    t->facts.alike = g->config.one_document && strcmp(v->name, "segments") == 0;
    if (strcmp(v->name, "index") == 0)
        count_places(g, t, &t->facts);
}

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
    find_facts(g, v, out);
}

int64_t weft_seq_place(const weft_graph *g, int64_t i)
{
    return g->seq_order ? g->seq_order[i] : i;
}

uint64_t weft_global_index(const weft_tensor *t, int64_t i)
{
    uint64_t scale = 1, index;
    int d = t->n_dims - 1;
    while (d > 0 && t->size[d] == t->whole[d]) /* dims that are whole lie there as here */
        scale *= (uint64_t)t->whole[d--];
    if (d <= 0)
        return (d < 0 ? 0 : (uint64_t)t->lo[0] * scale) + (uint64_t)i;
    for (index = (uint64_t)i % scale, i /= (int64_t)scale; d >= 0; d--) {
        index += (uint64_t)(t->lo[d] + i % t->size[d]) * scale;
        i /= t->size[d];
        scale *= (uint64_t)t->whole[d];
    }
    return index;
}

int64_t weft_elements_in_row(const weft_tensor *t, int64_t i)
{
    int d = t->n_dims - 1;
    int64_t n = d < 0 ? 1 : t->size[d];
    while (d > 0 && t->size[d] == t->whole[d])
        n *= t->size[--d];
    return n - i % n;
}

int64_t weft_nominal_bytes(const weft_graph *g, const weft_value *v)
{
    return weft_layout_elements(&g->config.mesh, v->layout, v->n_dims, v->dims) *
           (int64_t)weft_dtype_size(v->dtype);
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
    const bool far = weft_value_is_far(v);
    const int64_t places = far && weft_place_is_micro(v) ? g->config.sizes.micro_batches : 1;
    int64_t *end = far ? &states->far_bytes : &states->bytes;
    *e = (weft_state_entry){v->name, *end, 0, v, far};
    if (weft_layout_held(v->layout, coord))
        e->bytes = weft_nominal_bytes(g, v);
    const int64_t bytes = weft_align(e->bytes, far ? WEFT_FAR_ALIGNMENT : states->alignment);
    if (bytes > WEFT_MAX_BYTES / places || (*end += places * bytes) > WEFT_MAX_BYTES)
        return refuse_total(states, err);
    return weft_map_set(&states->by_name, &states->pool, v->name, strlen(v->name), e)
               ? WEFT_OK
               : weft_fail_memory(err);
}

static bool is_of_step(const weft_node *n)
{
    return weft_node_is(n, WEFT_OP_STATE) && n->outs[0]->kind == WEFT_STATE_STEP;
}

weft_status weft_states_init(weft_states *states, const weft_graph *g, const int *coord,
                             bool caches, int64_t alignment, weft_error *err)
{
    memset(states, 0, sizeof *states);
    states->alignment = alignment;
    size_t most = (size_t)(g->n_parameters + g->n_states) + 1;
    for (const weft_node *n = g->first; n; n = n->next)
        most += is_of_step(n);
    states->list = weft_pool_alloc(&states->pool, most * sizeof *states->list);
    if (!states->list)
        return weft_fail_memory(err);
    weft_status s = WEFT_OK;
    for (int i = 0; !s && !caches && i < g->n_parameters; i++)
        s = add(states, g, g->parameters[i], coord, err);
    for (int i = 0; !s && i < g->n_states; i++)
        if ((g->states[i]->kind == WEFT_STATE_CACHE) == caches)
            s = add(states, g, g->states[i], coord, err);
    const int kept = states->n;
    for (const weft_node *n = g->first; n && !s && !caches; n = n->next)
        if (is_of_step(n))
            s = add(states, g, n->outs[0], coord, err);
    states->n = kept; /* the others have places alone */
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
