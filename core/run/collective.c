/* SPDX-License-Identifier: Apache-2.0 */
#include "run/collective.h"

#include <string.h>

/* ---- groups ---- */

static weft_group *find_group(const weft_groups *g, const int *axes, int n_axes)
{
    for (int i = 0; i < g->n; i++)
        if (g->list[i].n_axes == n_axes && memcmp(g->list[i].axes, axes, sizeof(int) * (size_t)n_axes) == 0)
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

static weft_status add_group(weft_groups *g, const int *coord, const weft_step *step, weft_error *err)
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
    return g->transport->group(g->transport_self, made->ranks, made->n, made->me, &made->handle, err);
}

static bool communicates(const weft_step *s)
{
    return s->move != WEFT_SLICE && s->move != WEFT_ZERO;
}

weft_status weft_groups_add(weft_groups *g, const weft_lowered *l, weft_error *err)
{
    for (int a = 0; a < WEFT_ACTIONS; a++) {
        for (int i = 0; i < l->programs[a].n; i++) {
            const weft_node *n = l->programs[a].list[i].node;
            for (int k = 0; l->programs[a].list[i].kind == WEFT_COLLECTIVE && k < n->n_steps; k++) {
                if (!communicates(&n->steps[k]) || find_group(g, n->steps[k].axes, n->steps[k].n_axes))
                    continue;
                if (!g->transport)
                    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                                     "%s must be sent between ranks (%s), and no listed plugin is a transport; list one, as local or mpi",
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
        if (g->list[i].handle)
            g->transport->ungroup(g->transport_self, g->list[i].handle);
        weft_free(g->list[i].ranks);
    }
    weft_free(g->list);
    memset(g, 0, sizeof *g);
}

/* ---- copying boxes ---- */

/* A dense array of the given extents, seen as [outer, dim, inner]. */
typedef struct block {
    char *data;
    int64_t outer, size, inner; /* inner in bytes */
} block;

/* `count` entries of the middle dim, for every outer one. */
static void copy_range(const block *to, int64_t to_at, const block *from, int64_t from_at, int64_t count)
{
    if (count <= 0)
        return;
    for (int64_t o = 0; o < to->outer; o++)
        memcpy(to->data + (o * to->size + to_at) * to->inner, from->data + (o * from->size + from_at) * from->inner, (size_t)(count * to->inner));
}

/* ---- one step ---- */

typedef struct stage {
    weft_groups *groups;
    const weft_mesh *mesh;
    const int *coord;
    const weft_value *v; /* dims and dtype */
    const weft_step *step;
    weft_layout before;
    const weft_group *group;
    char *from, *to, *send, *recv;
    weft_queue *queue;
} stage;

static weft_span span_of(const stage *s, weft_layout l, int d, const int *coord)
{
    return weft_layout_span(s->mesh, l, &s->v->dims[d], d, coord);
}

/* The local part in a layout, with dim d replaced by `size` entries. */
static block as_block(const stage *s, weft_layout l, int d, char *data, int64_t size)
{
    block b = {data, 1, size, (int64_t)weft_dtype_size(s->v->dtype)};
    for (int i = 0; i < s->v->n_dims; i++) {
        weft_span sp = span_of(s, l, i, s->coord);
        if (i < d)
            b.outer *= sp.hi - sp.lo;
        else if (i > d)
            b.inner *= sp.hi - sp.lo;
    }
    return b;
}

static void member_coord(const stage *s, int i, int *coord)
{
    memcpy(coord, s->coord, sizeof(int) * WEFT_MAX_AXES);
    for (int k = s->group->n_axes - 1; k >= 0; k--) {
        int size = s->mesh->axis[s->group->axes[k]].size;
        coord[s->group->axes[k]] = i % size;
        i /= size;
    }
}

static weft_reduce reduction(const stage *s)
{
    return weft_layout_open(s->before, s->step->axes[0]) == WEFT_OPEN_MAX ? WEFT_REDUCE_MAX : WEFT_REDUCE_SUM;
}

static int64_t elements(const block *b, weft_dtype dtype)
{
    return b->outer * b->size * (b->inner / (int64_t)weft_dtype_size(dtype));
}

static weft_status all_gather(stage *s, weft_error *err)
{
    int d = s->step->dim;
    weft_span mine = span_of(s, s->before, d, s->coord), whole = span_of(s, s->step->after, d, s->coord);
    block local = as_block(s, s->before, d, s->from, mine.hi - mine.lo), send = as_block(s, s->before, d, s->send, mine.chunk);
    block out = as_block(s, s->step->after, d, s->to, whole.hi - whole.lo);
    copy_range(&send, 0, &local, 0, mine.hi - mine.lo);
    int64_t count = elements(&send, s->v->dtype);
    const weft_transport *t = s->groups->transport;
    weft_status st = t->all_gather(s->groups->transport_self, s->group->handle, s->send, s->recv, count, s->v->dtype, s->queue, err);
    for (int i = 0; i < s->group->n && !st; i++) {
        int coord[WEFT_MAX_AXES];
        member_coord(s, i, coord);
        weft_span theirs = span_of(s, s->before, d, coord);
        block piece = send;
        piece.data = s->recv + (int64_t)i * count * (int64_t)weft_dtype_size(s->v->dtype);
        copy_range(&out, theirs.lo - whole.lo, &piece, 0, theirs.hi - theirs.lo);
    }
    return st;
}

static weft_status reduce_scatter(stage *s, weft_error *err)
{
    int d = s->step->dim;
    weft_span whole = span_of(s, s->before, d, s->coord), mine = span_of(s, s->step->after, d, s->coord);
    block local = as_block(s, s->before, d, s->from, whole.hi - whole.lo), piece = as_block(s, s->before, d, s->send, mine.chunk);
    int64_t count = elements(&piece, s->v->dtype), bytes = count * (int64_t)weft_dtype_size(s->v->dtype);
    memset(s->send, 0, (size_t)(bytes * s->group->n)); /* padding is summed, too */
    for (int i = 0; i < s->group->n; i++) {
        int coord[WEFT_MAX_AXES];
        member_coord(s, i, coord);
        weft_span theirs = span_of(s, s->step->after, d, coord);
        piece.data = s->send + i * bytes;
        copy_range(&piece, 0, &local, theirs.lo - whole.lo, theirs.hi - theirs.lo);
    }
    const weft_transport *t = s->groups->transport;
    weft_status st =
        t->reduce_scatter(s->groups->transport_self, s->group->handle, s->send, s->recv, count, s->v->dtype, reduction(s), s->queue, err);
    block out = as_block(s, s->step->after, d, s->to, mine.hi - mine.lo);
    piece.data = s->recv;
    if (!st)
        copy_range(&out, 0, &piece, 0, mine.hi - mine.lo);
    return st;
}

/* Dim d becomes whole, dim e is cut instead. Both sides of a piece are nominal: [.. d chunk .. e chunk ..] in the value's order of dims. */
static weft_status all_to_all(stage *s, weft_error *err)
{
    int d = s->step->dim, e = s->step->to, lo = d < e ? d : e, hi = d < e ? e : d;
    weft_dtype dtype = s->v->dtype;
    int64_t width = (int64_t)weft_dtype_size(dtype), outer = 1, between = 1, inner = width;
    weft_span d_mine = span_of(s, s->before, d, s->coord), d_whole = span_of(s, s->step->after, d, s->coord);
    weft_span e_whole = span_of(s, s->before, e, s->coord), e_mine = span_of(s, s->step->after, e, s->coord);
    for (int i = 0; i < s->v->n_dims; i++) {
        weft_span sp = span_of(s, s->before, i, s->coord);
        if (i == d || i == e)
            continue;
        *(i < lo ? &outer : i < hi ? &between : &inner) *= sp.hi - sp.lo;
    }
    int64_t chunk[2] = {d < e ? d_mine.chunk : e_mine.chunk, d < e ? e_mine.chunk : d_mine.chunk};
    int64_t bytes = outer * chunk[0] * between * chunk[1] * inner;
    for (int pass = 0; pass < 2; pass++) { /* pack for everyone; then unpack from everyone */
        for (int m = 0; m < s->group->n; m++) {
            int coord[WEFT_MAX_AXES];
            member_coord(s, m, coord);
            weft_span d_part = pass ? span_of(s, s->before, d, coord) : d_mine, e_part = pass ? e_mine : span_of(s, s->step->after, e, coord);
            weft_span d_all = pass ? d_whole : d_mine, e_all = pass ? e_mine : e_whole; /* of the dense array on this side */
            char *dense = pass ? s->to : s->from, *piece = (pass ? s->recv : s->send) + m * bytes;
            weft_span a = d < e ? d_part : e_part, b = d < e ? e_part : d_part, a_all = d < e ? d_all : e_all, b_all = d < e ? e_all : d_all;
            for (int64_t o = 0; o < outer; o++)
                for (int64_t i = 0; i < a.hi - a.lo; i++)
                    for (int64_t k = 0; k < between; k++) {
                        int64_t at = ((o * (a_all.hi - a_all.lo) + a.lo - a_all.lo + i) * between + k) * (b_all.hi - b_all.lo) + b.lo - b_all.lo;
                        char *x = dense + at * inner, *y = piece + ((o * chunk[0] + i) * between + k) * chunk[1] * inner;
                        if (b.hi > b.lo)
                            memcpy(pass ? x : y, pass ? y : x, (size_t)((b.hi - b.lo) * inner));
                    }
        }
        if (pass)
            break;
        const weft_transport *t = s->groups->transport;
        weft_status st = t->all_to_all(s->groups->transport_self, s->group->handle, s->send, s->recv, bytes / width, dtype, s->queue, err);
        if (st)
            return st;
    }
    return WEFT_OK;
}

static int64_t local_bytes(const stage *s, weft_layout l)
{
    int64_t n = (int64_t)weft_dtype_size(s->v->dtype);
    for (int d = 0; d < s->v->n_dims; d++) {
        weft_span sp = span_of(s, l, d, s->coord);
        n *= sp.hi - sp.lo;
    }
    return n;
}

static weft_status run_step(stage *s, weft_error *err)
{
    int64_t bytes = local_bytes(s, s->before), width = (int64_t)weft_dtype_size(s->v->dtype);
    const weft_transport *t = s->groups->transport;
    switch (s->step->move) {
    case WEFT_ALL_GATHER:
        return all_gather(s, err);
    case WEFT_REDUCE_SCATTER:
        return reduce_scatter(s, err);
    case WEFT_ALL_TO_ALL:
        return all_to_all(s, err);
    case WEFT_ALL_REDUCE:
        return t->all_reduce(s->groups->transport_self, s->group->handle, s->from, s->to, bytes / width, s->v->dtype, reduction(s), s->queue, err);
    case WEFT_SLICE: {
        int d = s->step->dim;
        weft_span whole = span_of(s, s->before, d, s->coord), mine = span_of(s, s->step->after, d, s->coord);
        block from = as_block(s, s->before, d, s->from, whole.hi - whole.lo), to = as_block(s, s->step->after, d, s->to, mine.hi - mine.lo);
        copy_range(&to, 0, &from, mine.lo - whole.lo, mine.hi - mine.lo);
        return WEFT_OK;
    }
    case WEFT_ZERO:
        if (s->coord[s->step->axes[0]] == 0)
            memmove(s->to, s->from, (size_t)bytes);
        else
            memset(s->to, 0, (size_t)bytes);
        return WEFT_OK;
    }
    return WEFT_ERR_INTERNAL;
}

weft_status weft_collective(weft_groups *groups, const weft_lowered *l, const weft_instruction *in, void *workspace, weft_queue *queue,
                            weft_error *err)
{
    const weft_node *n = in->node;
    weft_collective_space space;
    weft_collective_sizes(l->graph, n, &space);
    char *w = workspace, *between[2] = {w, w + space.between};
    stage s = {.groups = groups, .mesh = &l->graph->config.mesh, .coord = l->coord, .v = n->outs[0], .before = n->ins[0]->layout, .queue = queue};
    s.send = w + 2 * space.between;
    s.recv = s.send + space.send;
    weft_status st = WEFT_OK;
    for (int i = 0; i < n->n_steps && !st; i++) {
        s.step = &n->steps[i];
        s.group = communicates(s.step) ? find_group(groups, s.step->axes, s.step->n_axes) : NULL;
        s.from = i ? between[(i - 1) % 2] : in->tensors[0].data;
        s.to = i == n->n_steps - 1 ? in->tensors[1].data : between[i % 2];
        st = run_step(&s, err);
        s.before = s.step->after;
    }
    return st;
}
