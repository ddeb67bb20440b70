/* SPDX-License-Identifier: Apache-2.0 */
#include "run/collective.h"
#include "plugin/enter.h"

#include <string.h>

/* ---- copying boxes ---- */

/* A dense array of the given extents, seen as [outer, dim, inner]. */
typedef struct block {
    char *data;
    int64_t outer, size, inner; /* inner in bytes */
} block;

/* `count` entries of the middle dim, for every outer one. */
static void copy_range(const block *to, int64_t to_at, const block *from, int64_t from_at,
                       int64_t count)
{
    if (count <= 0)
        return;
    for (int64_t o = 0; o < to->outer; o++)
        memcpy(to->data + (o * to->size + to_at) * to->inner,
               from->data + (o * from->size + from_at) * from->inner, (size_t)(count * to->inner));
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
    return weft_layout_open(s->before, s->step->axes[0]) == WEFT_OPEN_MAX ? WEFT_REDUCE_MAX
                                                                          : WEFT_REDUCE_SUM;
}

static int64_t elements(const block *b, weft_dtype dtype)
{
    return b->outer * b->size * (b->inner / (int64_t)weft_dtype_size(dtype));
}

/* What one member sends of, or receives as, its piece: nominal. cut: the layout in which the dim is
 * cut. */
static int64_t piece_count(const stage *s, weft_layout cut)
{
    block piece =
        as_block(s, s->before, s->step->dim, NULL, span_of(s, cut, s->step->dim, s->coord).chunk);
    return elements(&piece, s->v->dtype);
}

static void pack_gather(const stage *s, char *send)
{
    int d = s->step->dim;
    weft_span mine = span_of(s, s->before, d, s->coord);
    block from = as_block(s, s->before, d, s->from, mine.hi - mine.lo),
          to = as_block(s, s->before, d, send, mine.chunk);
    copy_range(&to, 0, &from, 0, mine.hi - mine.lo);
}

/* Member i's piece lies at recv + i * stride bytes. */
static void unpack_gather(const stage *s, char *recv, int64_t stride)
{
    int d = s->step->dim;
    weft_span whole = span_of(s, s->step->after, d, s->coord);
    block to = as_block(s, s->step->after, d, s->to, whole.hi - whole.lo);
    for (int i = 0; i < s->group->n; i++) {
        int coord[WEFT_MAX_AXES];
        member_coord(s, i, coord);
        weft_span theirs = span_of(s, s->before, d, coord);
        block piece = as_block(s, s->before, d, recv + i * stride, theirs.chunk);
        copy_range(&to, theirs.lo - whole.lo, &piece, 0, theirs.hi - theirs.lo);
    }
}

static void pack_scatter(const stage *s, char *send, int64_t stride)
{
    int d = s->step->dim;
    weft_span whole = span_of(s, s->before, d, s->coord);
    block from = as_block(s, s->before, d, s->from, whole.hi - whole.lo);
    for (int i = 0; i < s->group->n; i++) {
        int coord[WEFT_MAX_AXES];
        member_coord(s, i, coord);
        weft_span theirs = span_of(s, s->step->after, d, coord);
        block piece = as_block(s, s->before, d, send + i * stride, theirs.chunk);
        if (theirs.hi - theirs.lo < theirs.chunk) /* padding is summed, too */
            memset(piece.data, 0, (size_t)(piece.outer * piece.size * piece.inner));
        copy_range(&piece, 0, &from, theirs.lo - whole.lo, theirs.hi - theirs.lo);
    }
}

static void unpack_scatter(const stage *s, char *recv)
{
    int d = s->step->dim;
    weft_span mine = span_of(s, s->step->after, d, s->coord);
    block to = as_block(s, s->step->after, d, s->to, mine.hi - mine.lo),
          piece = as_block(s, s->before, d, recv, mine.chunk);
    copy_range(&to, 0, &piece, 0, mine.hi - mine.lo);
}

static bool is_direct(const stage *s)
{
    return weft_step_is_direct(s->mesh, s->step, s->before, s->v);
}

/* Into the transport. */
static weft_entry enter(const stage *s, weft_error *err)
{
    return weft_enter(s->groups->transport_by, weft_move_name(s->step->move), WEFT_NOWHERE, err);
}

static weft_status all_gather(stage *s, weft_error *err)
{
    int64_t count = piece_count(s, s->before);
    const weft_transport *t = s->groups->transport;
    bool direct = is_direct(s);
    char *send = direct ? s->from : s->send, *recv = direct ? s->to : s->recv;
    if (!direct)
        pack_gather(s, send);
    const weft_entry entry = enter(s, err);
    weft_status st =
        weft_leave(&entry, t->all_gather(s->groups->transport_self, s->group->handle, send, recv,
                                         count, s->v->dtype, s->queue, err));
    if (!st && !direct)
        unpack_gather(s, recv, count * (int64_t)weft_dtype_size(s->v->dtype));
    return st;
}

static weft_status reduce_scatter(stage *s, weft_error *err)
{
    int64_t count = piece_count(s, s->step->after);
    const weft_transport *t = s->groups->transport;
    bool direct = is_direct(s);
    char *send = direct ? s->from : s->send, *recv = direct ? s->to : s->recv;
    if (!direct)
        pack_scatter(s, send, count * (int64_t)weft_dtype_size(s->v->dtype));
    const weft_entry entry = enter(s, err);
    weft_status st = weft_leave(
        &entry, t->reduce_scatter(s->groups->transport_self, s->group->handle, send, recv, count,
                                  s->v->dtype, reduction(s), s->queue, err));
    if (!st && !direct)
        unpack_scatter(s, recv);
    return st;
}

/* Dim d becomes whole, dim e is cut instead. Both sides of a piece are nominal: [.. d chunk .. e
 * chunk ..] in the value's order of dims. */
static weft_status all_to_all(stage *s, weft_error *err)
{
    int d = s->step->dim, e = s->step->to, lo = d < e ? d : e, hi = d < e ? e : d;
    weft_dtype dtype = s->v->dtype;
    int64_t width = (int64_t)weft_dtype_size(dtype), outer = 1, between = 1, inner = width;
    weft_span d_mine = span_of(s, s->before, d, s->coord),
              d_whole = span_of(s, s->step->after, d, s->coord);
    weft_span e_whole = span_of(s, s->before, e, s->coord),
              e_mine = span_of(s, s->step->after, e, s->coord);
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
            weft_span d_part = pass ? span_of(s, s->before, d, coord) : d_mine,
                      e_part = pass ? e_mine : span_of(s, s->step->after, e, coord);
            weft_span d_all = pass ? d_whole : d_mine,
                      e_all = pass ? e_mine : e_whole; /* of the dense array on this side */
            char *dense = pass ? s->to : s->from, *piece = (pass ? s->recv : s->send) + m * bytes;
            weft_span a = d < e ? d_part : e_part, b = d < e ? e_part : d_part,
                      a_all = d < e ? d_all : e_all, b_all = d < e ? e_all : d_all;
            for (int64_t o = 0; o < outer; o++)
                for (int64_t i = 0; i < a.hi - a.lo; i++)
                    for (int64_t k = 0; k < between; k++) {
                        int64_t at =
                            ((o * (a_all.hi - a_all.lo) + a.lo - a_all.lo + i) * between + k) *
                                (b_all.hi - b_all.lo) +
                            b.lo - b_all.lo;
                        char *x = dense + at * inner,
                             *y = piece + ((o * chunk[0] + i) * between + k) * chunk[1] * inner;
                        if (b.hi > b.lo)
                            memcpy(pass ? x : y, pass ? y : x, (size_t)((b.hi - b.lo) * inner));
                    }
        }
        if (pass)
            break;
        const weft_transport *t = s->groups->transport;
        const weft_entry entry = enter(s, err);
        weft_status st =
            weft_leave(&entry, t->all_to_all(s->groups->transport_self, s->group->handle, s->send,
                                             s->recv, bytes / width, dtype, s->queue, err));
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

static weft_status all_reduce(const stage *s, int64_t count, weft_error *err)
{
    const weft_transport *t = s->groups->transport;
    const weft_entry entry = enter(s, err);
    return weft_leave(&entry,
                      t->all_reduce(s->groups->transport_self, s->group->handle, s->from, s->to,
                                    count, s->v->dtype, reduction(s), s->queue, err));
}

/* Who holds it sends it from where it will be. */
static weft_status broadcast(const stage *s, int64_t count, weft_error *err)
{
    const weft_transport *t = s->groups->transport;
    if (s->coord[s->step->axes[0]] == s->step->dim)
        memmove(s->to, s->from, (size_t)count * weft_dtype_size(s->v->dtype));
    const weft_entry entry = enter(s, err);
    return weft_leave(&entry, t->broadcast(s->groups->transport_self, s->group->handle,
                                           s->step->dim, s->to, count, s->v->dtype, s->queue, err));
}

static weft_status run_step(stage *s, weft_error *err)
{
    int64_t bytes = local_bytes(s, s->before), width = (int64_t)weft_dtype_size(s->v->dtype);
    switch (s->step->move) {
    case WEFT_ALL_GATHER:
        return all_gather(s, err);
    case WEFT_REDUCE_SCATTER:
        return reduce_scatter(s, err);
    case WEFT_ALL_TO_ALL:
        return all_to_all(s, err);
    case WEFT_ALL_REDUCE:
        return all_reduce(s, bytes / width, err);
    case WEFT_SLICE: {
        int d = s->step->dim;
        weft_span whole = span_of(s, s->before, d, s->coord),
                  mine = span_of(s, s->step->after, d, s->coord);
        block from = as_block(s, s->before, d, s->from, whole.hi - whole.lo),
              to = as_block(s, s->step->after, d, s->to, mine.hi - mine.lo);
        copy_range(&to, 0, &from, mine.lo - whole.lo, mine.hi - mine.lo);
        return WEFT_OK;
    }
    case WEFT_BROADCAST:
        return broadcast(s, bytes / width, err);
    case WEFT_KEEP:
        memmove(s->to, s->from, (size_t)bytes);
        return WEFT_OK;
    case WEFT_SEND: /* begun and awaited, not carried out as a step */
        break;
    case WEFT_ZERO:
        if (s->coord[s->step->axes[0]] == (s->step->dim > 0 ? s->step->dim : 0))
            memmove(s->to, s->from, (size_t)bytes);
        else
            memset(s->to, 0, (size_t)bytes);
        return WEFT_OK;
    }
    return WEFT_ERR_INTERNAL;
}

/* ---- several as one ---- */

/* Part i of an instruction whose parts are sent side by side. */
static stage part_of(const stage *common, const weft_instruction *in, int i)
{
    stage s = *common;
    s.v = in->parts[i]->outs[0];
    s.step = in->parts[i]->steps;
    s.before = in->parts[i]->ins[0]->layout;
    s.from = in->tensors[i].data;
    s.to = in->tensors[in->n_ins + i].data;
    return s;
}

static int64_t part_bytes(const stage *s)
{
    if (s->step->move == WEFT_ALL_REDUCE)
        return local_bytes(s, s->before);
    return piece_count(s, s->step->move == WEFT_ALL_GATHER ? s->before : s->step->after) *
           (int64_t)weft_dtype_size(s->v->dtype);
}

static void pack_part(const stage *s, int64_t at, int64_t stride)
{
    char *send = s->send + at;
    if (s->step->move == WEFT_ALL_GATHER)
        pack_gather(s, send);
    else if (s->step->move == WEFT_REDUCE_SCATTER)
        pack_scatter(s, send, stride);
    else
        memcpy(send, s->from, (size_t)local_bytes(s, s->before));
}

static void unpack_part(const stage *s, int64_t at, int64_t stride)
{
    char *recv = (s->step->move == WEFT_ALL_REDUCE ? s->send : s->recv) + at;
    if (s->step->move == WEFT_ALL_GATHER)
        unpack_gather(s, recv, stride);
    else if (s->step->move == WEFT_REDUCE_SCATTER)
        unpack_scatter(s, recv);
    else
        memcpy(s->to, recv, (size_t)local_bytes(s, s->before));
}

/* Gathers move bytes: their parts may differ in dtype. */
static weft_status exchange_parts(const stage *s, int64_t bytes, weft_error *err)
{
    const weft_transport *t = s->groups->transport;
    int64_t count = bytes / (int64_t)weft_dtype_size(s->v->dtype);
    void *self = s->groups->transport_self, *group = s->group->handle;
    const weft_entry entry = enter(s, err);
    if (s->step->move == WEFT_ALL_GATHER)
        return weft_leave(
            &entry, t->all_gather(self, group, s->send, s->recv, bytes, WEFT_U8, s->queue, err));
    if (s->step->move == WEFT_REDUCE_SCATTER)
        return weft_leave(&entry, t->reduce_scatter(self, group, s->send, s->recv, count,
                                                    s->v->dtype, reduction(s), s->queue, err));
    return weft_leave(&entry, t->all_reduce(self, group, s->send, s->send, count, s->v->dtype,
                                            reduction(s), s->queue, err));
}

/* The parts that are sent side by side: visit(part, where its bytes begin, bytes of all). Returns
 * the bytes of all. */
static int64_t each_packed(const stage *common, const weft_graph *g, const weft_instruction *in,
                           void (*visit)(const stage *part, int64_t at, int64_t all), int64_t all)
{
    int64_t at = 0;
    for (int i = 0; i < in->n_ins; i++) {
        if (weft_part_goes_alone(g, in->parts[i]))
            continue;
        stage s = part_of(common, in, i);
        if (visit)
            visit(&s, at, all);
        at += part_bytes(&s);
    }
    return at;
}

/* For whoever must be told in what this rank waits. */
static weft_doing set_task(const weft_groups *groups, const weft_node *n, const weft_step *step)
{
    return weft_control_set_task(groups->control, groups->rank,
                                 (weft_doing){weft_move_name(step->move), n->by, n->block});
}

static weft_status run_parts(stage *common, const weft_graph *g, const weft_instruction *in,
                             weft_error *err)
{
    const weft_step *step = in->node->steps;
    weft_status st = WEFT_OK;
    common->group =
        weft_groups_find(common->groups, WEFT_CHANNEL_COLLECTIVES, step->axes, step->n_axes);
    for (int i = 0; i < in->n_ins && !st; i++) {
        stage s = part_of(common, in, i);
        if (weft_part_goes_alone(g, in->parts[i]))
            st = run_step(&s, err);
    }
    int64_t bytes = each_packed(common, g, in, NULL, 0);
    if (st || !bytes)
        return st;
    each_packed(common, g, in, pack_part, bytes);
    stage first = part_of(common, in, 0);
    st = exchange_parts(&first, bytes, err);
    if (!st)
        each_packed(common, g, in, unpack_part, bytes);
    return st;
}

weft_status weft_collective(weft_groups *groups, const weft_lowered *l, const weft_instruction *in,
                            void *workspace, weft_queue *queue, weft_error *err)
{
    const weft_node *n = in->node;
    weft_collective_space space;
    weft_collective_sizes(l->graph, in, &space);
    char *w = workspace, *between[2] = {w, w + space.between};
    stage s = {.groups = groups,
               .mesh = &l->graph->config.mesh,
               .coord = l->coord,
               .v = n->outs[0],
               .before = n->ins[0]->layout,
               .queue = queue};
    s.send = w + 2 * space.between;
    s.recv = s.send + space.send;
    const weft_doing before = set_task(groups, n, n->steps);
    weft_status st = WEFT_OK;
    if (in->parts)
        st = run_parts(&s, l->graph, in, err);
    for (int i = 0; i < n->n_steps && !in->parts && !st; i++) {
        s.step = &n->steps[i];
        set_task(groups, n, s.step);
        s.group =
            weft_step_communicates(s.step)
                ? weft_groups_find(groups, WEFT_CHANNEL_COLLECTIVES, s.step->axes, s.step->n_axes)
                : NULL;
        s.from = i ? between[(i - 1) % 2] : in->tensors[0].data;
        s.to = i == n->n_steps - 1 ? in->tensors[1].data : between[i % 2];
        st = run_step(&s, err);
        s.before = s.step->after;
    }
    weft_control_set_task(groups->control, groups->rank, before);
    return st;
}
