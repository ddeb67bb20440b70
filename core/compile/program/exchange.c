/* SPDX-License-Identifier: Apache-2.0 */
/* How a collective is carried out, redistribute by redistribute and step by step: pack, a
 * collective over nominal chunks, unpack. The room that it takes, and what it sends. */
#include "base/array.h"
#include "compile/program/compiler.h"

#include <string.h>

/* The parts of an exchange while they are collected. */
typedef struct maker {
    weft_exchange x;
    int parts_capacity, boxes_capacity;
    weft_sent_piece *pieces; /* of all calls, one behind the other */
    int n_pieces, pieces_capacity;
    bool failed; /* out of memory */
    const weft_graph *g;
    const weft_mesh *mesh;
    const int *coord;
} maker;

/* A box several times, each so many bytes behind the one before. */
typedef struct times {
    int n;
    int64_t to, from;
} times;

/* ---- room ---- */

/* In bytes: two values between steps, and what is sent and received; each part aligned. */
typedef struct space {
    int64_t between, send, recv;
} space;

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Do a gather's or reduce-scatter's pieces, all of one size, lie in the whole value one behind the
 * other, so that nothing need be packed? */
static bool is_direct(const weft_mesh *mesh, const weft_step *step, weft_layout before,
                      const weft_value *v)
{
    if (step->move != WEFT_ALL_GATHER && step->move != WEFT_REDUCE_SCATTER)
        return false;
    int d = step->dim;
    for (int i = 0; i < d; i++)
        if (v->dims[i].size > 1)
            return false;
    static const int first[WEFT_MAX_AXES];
    weft_layout cut = step->move == WEFT_ALL_GATHER ? before : step->after;
    return weft_layout_span(mesh, cut, &v->dims[d], d, first).chunk *
               weft_layout_pieces(mesh, cut, d) ==
           v->dims[d].size;
}

/* One step of a value: what it sends and receives. */
static void step_sizes(const weft_graph *g, const weft_value *v, const weft_step *s,
                       weft_layout before, int64_t *send, int64_t *recv)
{
    int64_t width = (int64_t)weft_dtype_size(v->dtype);
    int64_t from = weft_layout_elements(&g->config.mesh, before, v->n_dims, v->dims) * width,
            to = weft_layout_elements(&g->config.mesh, s->after, v->n_dims, v->dims) * width;
    const int64_t count = weft_step_members(&g->config.mesh, s);
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
            is_direct(&g->config.mesh, part->steps, part->ins[0]->layout, part->outs[0]));
}

/* Side by side: what all send, what all receive. All-reduces happen where they were packed. */
static void joint_sizes(const weft_graph *g, const weft_instruction *in, int64_t alignment,
                        space *out)
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

static void find_space(const weft_graph *g, const weft_instruction *in, int64_t alignment,
                       space *out)
{
    const weft_node *n = in->node;
    const weft_value *v = n->outs[0];
    weft_layout before = n->ins[0]->layout;
    *out = (space){0};
    if (in->parts) {
        joint_sizes(g, in, alignment, out);
        return;
    }
    for (int i = 0; i < n->n_steps; before = n->steps[i++].after) {
        int64_t send, recv, width = (int64_t)weft_dtype_size(v->dtype);
        step_sizes(g, v, &n->steps[i], before, &send, &recv);
        if (is_direct(&g->config.mesh, &n->steps[i], before, v))
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

/* ---- boxes ---- */

static void add_part(maker *m, weft_exchange_part part)
{
    weft_exchange *x = &m->x;
    weft_exchange_part *fresh =
        weft_array_push(&x->parts, &x->n_parts, &m->parts_capacity, sizeof *fresh);
    m->failed = m->failed || !fresh;
    part.first = x->n_boxes;
    if (fresh)
        *fresh = part;
}

/* The boxes that follow come behind everything before. */
static void begin_boxes(maker *m, const weft_step *step)
{
    const weft_exchange *x = &m->x;
    bool empty = x->n_parts && !x->parts[x->n_parts - 1].sends && !x->parts[x->n_parts - 1].n;
    if (!empty)
        add_part(m, (weft_exchange_part){.step = step});
}

static bool same_but_place(const weft_box *a, const weft_box *b)
{
    for (int d = 1; d < WEFT_BOX_DIMS; d++)
        if (a->n[d] != b->n[d] || a->to_stride[d] != b->to_stride[d] ||
            a->from_stride[d] != b->from_stride[d])
            return false;
    return a->bytes == b->bytes;
}

/* Boxes that differ in their places alone, each as far from the one before as that from its own,
 * are one: of members of a group nearly all are. The first dim is kept for this. */
static bool joins(weft_place_box *last, const weft_place_box *next)
{
    weft_box *b = &last->box;
    bool zeros = last->from.of == WEFT_PLACE_ZEROS;
    if (last->to.of != next->to.of || last->from.of != next->from.of ||
        !same_but_place(b, &next->box))
        return false;
    int64_t to = next->to.at - last->to.at, from = zeros ? 0 : next->from.at - last->from.at;
    if (b->n[0] > 1 && (to != b->n[0] * b->to_stride[0] || from != b->n[0] * b->from_stride[0]))
        return false;
    if (b->n[0] == 1) {
        b->to_stride[0] = to;
        b->from_stride[0] = from;
    }
    b->n[0]++;
    return true;
}

/* box: without places, and its first dim is free. */
static void add_boxes(maker *m, weft_place to, weft_place from, weft_box box, times t)
{
    weft_exchange *x = &m->x;
    for (int d = 1; d < WEFT_BOX_DIMS; d++)
        if (box.n[d] <= 0)
            return;
    if (box.bytes <= 0 || m->failed)
        return;
    box.n[0] = t.n;
    box.to_stride[0] = t.n > 1 ? t.to : 0;
    box.from_stride[0] = t.n > 1 ? t.from : 0;
    const weft_place_box next = {to, from, box};
    weft_exchange_part *part = &x->parts[x->n_parts - 1];
    if (part->n && t.n == 1 && joins(&x->boxes[x->n_boxes - 1], &next))
        return;
    weft_place_box *fresh =
        weft_array_push(&x->boxes, &x->n_boxes, &m->boxes_capacity, sizeof *fresh);
    m->failed = !fresh;
    if (!fresh)
        return;
    *fresh = next;
    part->n++;
}

/* Into memory of the program's own, without parts that do nothing. */
static weft_status keep_exchange(weft_compiler *c, maker *m, const weft_instruction *in,
                                 weft_exchange **out)
{
    weft_exchange *x = &m->x;
    int n = 0;
    for (int i = 0; i < x->n_parts; i++)
        if (x->parts[i].sends || x->parts[i].n)
            x->parts[n++] = x->parts[i];
    x->n_parts = n;
    weft_exchange *kept = *out = weft_pool_alloc(&c->l->pool, sizeof *kept);
    if (!kept)
        return weft_fail_memory(c->err);
    *kept = *x;
    weft_sent_piece *pieces =
        weft_pool_alloc(&c->l->pool, ((size_t)m->n_pieces + 1) * sizeof *pieces);
    weft_sent *sent = weft_pool_alloc(&c->l->pool, ((size_t)n + 1) * sizeof *sent);
    kept->parts = weft_pool_alloc(&c->l->pool, ((size_t)n + 1) * sizeof *kept->parts);
    kept->boxes = weft_pool_alloc(&c->l->pool, ((size_t)x->n_boxes + 1) * sizeof *kept->boxes);
    if (!kept->parts || !kept->boxes || !pieces || !sent)
        return weft_fail_memory(c->err);
    if (m->n_pieces)
        memcpy(pieces, m->pieces, (size_t)m->n_pieces * sizeof *pieces);
    for (int i = n - 1, end = m->n_pieces; i >= 0; i--) {
        weft_exchange_part *part = &x->parts[i];
        if (!part->sends)
            continue;
        sent[i] = (weft_sent){.nodes = in->parts ? in->parts : &in->node,
                              .n_nodes = in->parts ? in->n_ins : 1,
                              .step = part->step,
                              .pieces = pieces + part->first_piece,
                              .n_pieces = end - part->first_piece};
        part->sent = &sent[i];
        end = part->first_piece;
    }
    if (n)
        memcpy(kept->parts, x->parts, (size_t)n * sizeof *kept->parts);
    if (x->n_boxes)
        memcpy(kept->boxes, x->boxes, (size_t)x->n_boxes * sizeof *kept->boxes);
    return WEFT_OK;
}

weft_box weft_box_of(void *to, const void *from, int64_t bytes)
{
    weft_box b = {.to = to, .from = from, .bytes = bytes};
    for (int d = 0; d < WEFT_BOX_DIMS; d++)
        b.n[d] = 1;
    return b;
}

static const times once = {1, 0, 0};

static weft_place behind(weft_place p, int64_t bytes)
{
    return (weft_place){p.of, p.at + bytes};
}

/* Runs that touch on both sides are one. */
static weft_box box_of(int64_t n, int64_t bytes, int64_t to_stride, int64_t from_stride)
{
    weft_box b = weft_box_of(NULL, NULL, bytes);
    if (to_stride == bytes && from_stride == bytes) {
        b.bytes *= n;
        return b;
    }
    b.n[WEFT_BOX_DIMS - 1] = n;
    b.to_stride[WEFT_BOX_DIMS - 1] = n > 1 ? to_stride : 0;
    b.from_stride[WEFT_BOX_DIMS - 1] = n > 1 ? from_stride : 0;
    return b;
}

/* ---- arrays ---- */

/* A dense array of the given extents, seen as [outer, dim, inner]. */
typedef struct block {
    weft_place at;
    int64_t outer, size, inner; /* inner in bytes */
} block;

static const weft_place zeros = {WEFT_PLACE_ZEROS, 0};

/* `count` entries of the middle dim, for every outer one. */
static void copy_ranges(maker *m, const block *to, int64_t to_at, const block *from,
                        int64_t from_at, int64_t count, times t)
{
    if (count > 0)
        add_boxes(
            m, behind(to->at, to_at * to->inner), behind(from->at, from_at * from->inner),
            box_of(to->outer, count * to->inner, to->size * to->inner, from->size * from->inner),
            t);
}

static void copy_range(maker *m, const block *to, int64_t to_at, const block *from, int64_t from_at,
                       int64_t count)
{
    copy_ranges(m, to, to_at, from, from_at, count, once);
}

static void clear_ranges(maker *m, const block *to, int64_t at, int64_t count, times t)
{
    if (count > 0)
        add_boxes(m, behind(to->at, at * to->inner), zeros,
                  box_of(to->outer, count * to->inner, to->size * to->inner, to->size * to->inner),
                  t);
}

static void copy_all(maker *m, weft_place to, weft_place from, int64_t bytes)
{
    add_boxes(m, to, from, weft_box_of(NULL, NULL, bytes), once);
}

/* ---- one step ---- */

typedef struct stage {
    maker *m;
    const weft_value *v;  /* dims and dtype */
    const weft_value *of; /* what is sent */
    const weft_step *step;
    weft_layout before;
    weft_place from, to, send, recv;
} stage;

static weft_span span_of(const stage *s, weft_layout l, int d, const int *coord)
{
    return weft_layout_span(s->m->mesh, l, &s->v->dims[d], d, coord);
}

/* The local part in a layout, with dim d replaced by `size` entries. */
static block as_block(const stage *s, weft_layout l, int d, weft_place at, int64_t size)
{
    block b = {at, 1, size, (int64_t)weft_dtype_size(s->v->dtype)};
    for (int i = 0; i < s->v->n_dims; i++) {
        weft_span sp = span_of(s, l, i, s->m->coord);
        if (i < d)
            b.outer *= sp.hi - sp.lo;
        else if (i > d)
            b.inner *= sp.hi - sp.lo;
    }
    return b;
}

static int64_t local_bytes(const stage *s, weft_layout l)
{
    int64_t n = (int64_t)weft_dtype_size(s->v->dtype);
    for (int d = 0; d < s->v->n_dims; d++) {
        weft_span sp = span_of(s, l, d, s->m->coord);
        n *= sp.hi - sp.lo;
    }
    return n;
}

static void member_coord(const stage *s, int i, int *coord)
{
    memcpy(coord, s->m->coord, sizeof(int) * WEFT_MAX_AXES);
    for (int k = s->step->n_axes - 1; k >= 0; k--) {
        int size = s->m->mesh->axis[s->step->axes[k]].size;
        coord[s->step->axes[k]] = i % size;
        i /= size;
    }
}

/* Are a step's axes the innermost that cut this dim, in their order? Then its members' spans follow
 * each other: no span begins further behind the one before than a chunk. */
static bool is_innermost(const stage *s, weft_layout l, int d)
{
    int list[WEFT_MAX_AXES], n = weft_layout_list(l, d, list), k = s->step->n_axes;
    return n >= k && memcmp(list + n - k, s->step->axes, sizeof *list * (size_t)k) == 0;
}

static weft_span span_of_member(const stage *s, weft_layout l, int d, int i)
{
    int coord[WEFT_MAX_AXES];
    member_coord(s, i, coord);
    return span_of(s, l, d, coord);
}

/* Members of one kind, from `first` on: all with whole chunks, or all with nothing, or one. */
typedef struct row {
    int first, n;
    weft_span span; /* of the first */
} row;

static bool is_alike(const row *r, weft_span other, int i)
{
    int64_t size = r->span.hi - r->span.lo;
    return other.hi - other.lo == size && (size == 0 || size == r->span.chunk) &&
           other.lo == r->span.lo + (i - r->first) * size;
}

/* By formula, not by looking at each: there may be a million. */
static row row_from(const stage *s, weft_layout l, int d, int first)
{
    row r = {first, 1, span_of_member(s, l, d, first)};
    if (!is_innermost(s, l, d))
        return r;
    for (int lo = first, hi = weft_step_members(s->m->mesh, s->step) - 1; lo < hi;) {
        int mid = lo + (hi - lo + 1) / 2;
        if (is_alike(&r, span_of_member(s, l, d, mid), mid))
            lo = mid;
        else
            hi = mid - 1;
        r.n = lo - first + 1;
    }
    return r;
}

/* Of a gather and a reduce-scatter: the layout in which the dim is cut. */
static weft_layout cut_of(const stage *s)
{
    return s->step->move == WEFT_ALL_GATHER ? s->before : s->step->after;
}

/* What one member sends of, or receives as, its piece: nominal. */
static int64_t piece_count(const stage *s)
{
    const int64_t chunk = span_of(s, cut_of(s), s->step->dim, s->m->coord).chunk;
    const block piece = as_block(s, s->before, s->step->dim, zeros, chunk);
    return piece.outer * chunk * (piece.inner / (int64_t)weft_dtype_size(s->v->dtype));
}

/* Between this member's part of the cut value, dense, and its piece, nominal. */
static void move_mine(const stage *s, weft_place dense, weft_place nominal, bool pack)
{
    const int d = s->step->dim;
    const weft_span mine = span_of(s, cut_of(s), d, s->m->coord);
    const int64_t n = mine.hi - mine.lo;
    const block part = as_block(s, s->before, d, dense, n),
                piece = as_block(s, s->before, d, nominal, mine.chunk);
    copy_range(s->m, pack ? &piece : &part, 0, pack ? &part : &piece, 0, n);
}

/* Between the whole value and the pieces of all members, `stride` bytes one behind the other.
 * Padding is summed, too. */
static void move_all(const stage *s, weft_layout whole, weft_place dense, weft_place pieces,
                     int64_t stride, bool pack)
{
    const int d = s->step->dim;
    const weft_span all = span_of(s, whole, d, s->m->coord);
    const block value = as_block(s, whole, d, dense, all.hi - all.lo);
    for (int i = 0, n = weft_step_members(s->m->mesh, s->step); i < n;) {
        const row r = row_from(s, cut_of(s), d, i);
        const block piece = as_block(s, s->before, d, behind(pieces, i * stride), r.span.chunk);
        const int64_t at = r.span.lo - all.lo, size = r.span.hi - r.span.lo,
                      next = r.span.chunk * value.inner;
        if (pack) {
            copy_ranges(s->m, &piece, 0, &value, at, size, (times){r.n, stride, next});
            clear_ranges(s->m, &piece, size, r.span.chunk - size, (times){r.n, stride, 0});
        } else {
            copy_ranges(s->m, &value, at, &piece, 0, size, (times){r.n, next, stride});
        }
        i += r.n;
    }
}

/* What is sent of a part, `at` bytes behind where sending begins; of all, `stride` bytes for each
 * member. All-reduces happen where they were packed. */
static void pack_part(const stage *s, int64_t at, int64_t stride)
{
    const weft_place to = behind(s->send, at);
    if (s->step->move == WEFT_ALL_GATHER)
        move_mine(s, s->from, to, true);
    else if (s->step->move == WEFT_REDUCE_SCATTER)
        move_all(s, s->before, s->from, to, stride, true);
    else
        copy_all(s->m, to, s->from, local_bytes(s, s->before));
}

static void unpack_part(const stage *s, int64_t at, int64_t stride)
{
    const weft_place from = behind(s->recv, at);
    if (s->step->move == WEFT_ALL_GATHER)
        move_all(s, s->step->after, s->to, from, stride, false);
    else if (s->step->move == WEFT_REDUCE_SCATTER)
        move_mine(s, s->to, from, false);
    else
        copy_all(s->m, s->to, behind(s->send, at), local_bytes(s, s->before));
}

/* Of the call that comes next, from element `at` on. */
static void add_piece(const stage *s, const weft_value *of, int64_t at, int64_t count)
{
    maker *m = s->m;
    weft_sent_piece *piece =
        weft_array_push(&m->pieces, &m->n_pieces, &m->pieces_capacity, sizeof *piece);
    weft_value before = *s->v;
    m->failed = m->failed || !piece;
    if (!piece)
        return;
    before.layout = s->before;
    *piece = (weft_sent_piece){.value = of, .at = at, .count = count};
    weft_local_tensor(m->g, &before, m->coord, &piece->tensor);
}

static void add_call_of(const stage *s, weft_place send, weft_place recv, int64_t count,
                        weft_dtype dtype, int first_piece)
{
    bool max = weft_layout_open(s->before, s->step->axes[0]) == WEFT_OPEN_MAX;
    add_part(s->m, (weft_exchange_part){.step = s->step,
                                        .sends = true,
                                        .send = send,
                                        .recv = recv,
                                        .count = count,
                                        .dtype = dtype,
                                        .op = max ? WEFT_REDUCE_MAX : WEFT_REDUCE_SUM,
                                        .first_piece = first_piece});
}

/* Of one value alone. */
static void add_call(const stage *s, weft_place send, weft_place recv, int64_t count)
{
    const int first = s->m->n_pieces;
    add_piece(s, s->of, 0, count);
    add_call_of(s, send, recv, count, s->v->dtype, first);
}

/* An all_gather or a reduce_scatter. */
static void move_pieces(const stage *s)
{
    const int64_t count = piece_count(s), stride = count * (int64_t)weft_dtype_size(s->v->dtype);
    if (is_direct(s->m->mesh, s->step, s->before, s->v)) {
        add_call(s, s->from, s->to, count);
        return;
    }
    begin_boxes(s->m, s->step);
    pack_part(s, 0, stride);
    add_call(s, s->send, s->recv, count);
    begin_boxes(s->m, s->step);
    unpack_part(s, 0, stride);
}

/* ---- all_to_all ---- */

/* Dim d becomes whole, dim e is cut instead. Both sides of a piece are nominal: [.. d chunk .. e
 * chunk ..] in the value's order of dims. */
typedef struct turn {
    int64_t outer, between, inner; /* inner in bytes */
    int64_t chunk[2];              /* of the two dims, in the value's order */
    int64_t piece;                 /* bytes */
} turn;

static turn turn_of(const stage *s)
{
    int d = s->step->dim, e = s->step->to, lo = d < e ? d : e, hi = d < e ? e : d;
    turn t = {1, 1, (int64_t)weft_dtype_size(s->v->dtype), {0, 0}, 0};
    for (int i = 0; i < s->v->n_dims; i++) {
        weft_span sp = span_of(s, s->before, i, s->m->coord);
        if (i != d && i != e)
            *(i < lo ? &t.outer : i < hi ? &t.between : &t.inner) *= sp.hi - sp.lo;
    }
    t.chunk[d > e] = span_of(s, s->before, d, s->m->coord).chunk;
    t.chunk[d < e] = span_of(s, s->step->after, e, s->m->coord).chunk;
    t.piece = t.outer * t.chunk[0] * t.between * t.chunk[1] * t.inner;
    return t;
}

/* The parts of a dense array, of which these two dims are [all.lo, all.hi), that pieces hold. They
 * follow each other in dim `cut` of the two. */
static void turn_pieces(const stage *s, const turn *t, const weft_span part[2],
                        const weft_span all[2], weft_place dense, weft_place piece, bool unpack,
                        int n_pieces, int cut)
{
    int64_t n[2] = {part[0].hi - part[0].lo, part[1].hi - part[1].lo},
            size[2] = {all[0].hi - all[0].lo, all[1].hi - all[1].lo};
    int64_t at =
        ((part[0].lo - all[0].lo) * t->between * size[1] + part[1].lo - all[1].lo) * t->inner;
    const int64_t dense_stride[] = {size[0] * t->between * size[1] * t->inner,
                                    t->between * size[1] * t->inner, size[1] * t->inner},
                  piece_stride[] = {t->chunk[0] * t->between * t->chunk[1] * t->inner,
                                    t->between * t->chunk[1] * t->inner, t->chunk[1] * t->inner},
                  counts[] = {t->outer, n[0], t->between},
                  next = (cut ? 1 : t->between * size[1]) * t->inner * n[cut];
    weft_box b = weft_box_of(NULL, NULL, n[1] * t->inner);
    for (int i = 0; i < 3; i++) {
        b.n[i + 1] = counts[i];
        b.to_stride[i + 1] = unpack ? dense_stride[i] : piece_stride[i];
        b.from_stride[i + 1] = unpack ? piece_stride[i] : dense_stride[i];
    }
    add_boxes(s->m, unpack ? behind(dense, at) : piece, unpack ? piece : behind(dense, at), b,
              (times){n_pieces, unpack ? next : t->piece, unpack ? t->piece : next});
}

/* Packs for everyone, or unpacks from everyone. */
static void turn_all(const stage *s, const turn *t, bool unpack)
{
    int d = s->step->dim, e = s->step->to;
    weft_layout of_d = s->before, of_e = s->step->after;
    for (int i = 0, n = weft_step_members(s->m->mesh, s->step); i < n;) {
        row r = unpack ? row_from(s, of_d, d, i) : row_from(s, of_e, e, i);
        weft_span part[2], all[2]; /* of both dims, in the value's order */
        part[d > e] = unpack ? r.span : span_of(s, of_d, d, s->m->coord);
        part[d < e] = unpack ? span_of(s, of_e, e, s->m->coord) : r.span;
        all[d > e] = span_of(s, unpack ? of_e : of_d, d, s->m->coord);
        all[d < e] = span_of(s, unpack ? of_e : of_d, e, s->m->coord);
        turn_pieces(s, t, part, all, unpack ? s->to : s->from,
                    behind(unpack ? s->recv : s->send, i * t->piece), unpack, r.n,
                    unpack ? d > e : d < e);
        i += r.n;
    }
}

static void all_to_all(const stage *s)
{
    const turn t = turn_of(s);
    begin_boxes(s->m, s->step);
    turn_all(s, &t, false);
    add_call(s, s->send, s->recv, t.piece / (int64_t)weft_dtype_size(s->v->dtype));
    begin_boxes(s->m, s->step);
    turn_all(s, &t, true);
}

/* ---- steps without pieces ---- */

static void slice(const stage *s)
{
    int d = s->step->dim;
    weft_span whole = span_of(s, s->before, d, s->m->coord),
              mine = span_of(s, s->step->after, d, s->m->coord);
    block from = as_block(s, s->before, d, s->from, whole.hi - whole.lo),
          to = as_block(s, s->step->after, d, s->to, mine.hi - mine.lo);
    copy_range(s->m, &to, 0, &from, mine.lo - whole.lo, mine.hi - mine.lo);
}

static void add_step(const stage *s)
{
    int64_t bytes = local_bytes(s, s->before), width = (int64_t)weft_dtype_size(s->v->dtype);
    int here = s->m->coord[s->step->axes[0]];
    switch (s->step->move) {
    case WEFT_ALL_GATHER:
    case WEFT_REDUCE_SCATTER:
        move_pieces(s);
        break;
    case WEFT_ALL_TO_ALL:
        all_to_all(s);
        break;
    case WEFT_ALL_REDUCE:
        add_call(s, s->from, s->to, bytes / width);
        break;
    case WEFT_SLICE:
        begin_boxes(s->m, s->step);
        slice(s);
        break;
    case WEFT_BROADCAST: /* who holds it sends it from where it will be */
        begin_boxes(s->m, s->step);
        if (here == s->step->dim)
            copy_all(s->m, s->to, s->from, bytes);
        add_call(s, s->to, s->to, bytes / width);
        break;
    case WEFT_KEEP: /* others may have had a part in the step before */
        begin_boxes(s->m, s->step);
        if (here == s->step->to)
            copy_all(s->m, s->to, s->from, bytes);
        break;
    case WEFT_ZERO:
        begin_boxes(s->m, s->step);
        copy_all(s->m, s->to, here == (s->step->dim > 0 ? s->step->dim : 0) ? s->from : zeros,
                 bytes);
        break;
    case WEFT_SEND: /* these are begun and awaited, not carried out as a step */
    case WEFT_SHIFT:
        break;
    }
}

/* ---- several as one ---- */

/* Part i of an instruction whose parts are sent side by side. */
static stage part_of(maker *m, const weft_instruction *in, int i, weft_place send, weft_place recv)
{
    return (stage){.m = m,
                   .v = in->parts[i]->outs[0],
                   .of = in->parts[i]->ins[0],
                   .step = in->parts[i]->steps,
                   .before = in->parts[i]->ins[0]->layout,
                   .from = {i, 0},
                   .to = {in->n_ins + i, 0},
                   .send = send,
                   .recv = recv};
}

static int64_t part_bytes(const stage *s)
{
    return s->step->move == WEFT_ALL_REDUCE
               ? local_bytes(s, s->before)
               : piece_count(s) * (int64_t)weft_dtype_size(s->v->dtype);
}

/* Gathers move bytes: their parts may differ in dtype. */
static weft_dtype sent_dtype(const stage *s)
{
    return s->step->move == WEFT_ALL_GATHER ? WEFT_U8 : s->v->dtype;
}

static void note_part(const stage *s, int64_t at, int64_t all)
{
    const int64_t width = (int64_t)weft_dtype_size(sent_dtype(s));
    (void)all;
    add_piece(s, s->of, at / width, part_bytes(s) / width);
}

/* The parts that are sent side by side: visit(part, where its bytes begin, bytes of all). Returns
 * the bytes of all. */
static int64_t each_packed(maker *m, const weft_instruction *in, weft_place send, weft_place recv,
                           void (*visit)(const stage *part, int64_t at, int64_t all), int64_t all)
{
    int64_t at = 0;
    for (int i = 0; i < in->n_ins; i++) {
        if (weft_part_goes_alone(m->g, in->parts[i]))
            continue;
        const stage s = part_of(m, in, i, send, recv);
        if (visit)
            visit(&s, at, all);
        at += part_bytes(&s);
    }
    return at;
}

static void add_parts(maker *m, const weft_instruction *in, weft_place send, weft_place recv)
{
    const stage first = part_of(m, in, 0, send, recv);
    const int64_t bytes = each_packed(m, in, send, recv, NULL, 0);
    if (bytes) { /* first, so that nothing stands between the calls */
        begin_boxes(m, first.step);
        each_packed(m, in, send, recv, pack_part, bytes);
    }
    for (int i = 0; i < in->n_ins; i++) {
        const stage s = part_of(m, in, i, send, recv);
        if (weft_part_goes_alone(m->g, in->parts[i]))
            add_step(&s);
    }
    if (!bytes)
        return;
    const int first_piece = m->n_pieces;
    each_packed(m, in, send, recv, note_part, bytes);
    add_call_of(&first, send, first.step->move == WEFT_ALL_REDUCE ? send : recv,
                bytes / (int64_t)weft_dtype_size(sent_dtype(&first)), sent_dtype(&first),
                first_piece);
    begin_boxes(m, first.step);
    each_packed(m, in, send, recv, unpack_part, bytes);
}

static void add_steps(maker *m, const weft_instruction *in, int64_t between, weft_place send,
                      weft_place recv)
{
    const weft_node *n = in->node;
    stage s = {.m = m,
               .v = n->outs[0],
               .of = n->ins[0],
               .before = n->ins[0]->layout,
               .send = send,
               .recv = recv};
    const weft_place places[2] = {{WEFT_PLACE_WORKSPACE, 0}, {WEFT_PLACE_WORKSPACE, between}};
    for (int i = 0; i < n->n_steps; i++) {
        s.step = &n->steps[i];
        s.from = i ? places[(i - 1) % 2] : (weft_place){0, 0};
        s.to = i == n->n_steps - 1 ? (weft_place){1, 0} : places[i % 2];
        add_step(&s);
        s.before = s.step->after;
    }
}

weft_status weft_compile_exchange(weft_compiler *c, weft_instruction *in, int64_t *workspace)
{
    maker m = {.g = c->g, .mesh = &c->g->config.mesh, .coord = c->l->coord};
    space room;
    find_space(c->g, in, c->l->alignment, &room);
    const weft_place send = {WEFT_PLACE_WORKSPACE, 2 * room.between},
                     recv = behind(send, room.send);
    if (in->parts)
        add_parts(&m, in, send, recv);
    else
        add_steps(&m, in, room.between, send, recv);
    *workspace = 2 * room.between + room.send + room.recv;
    weft_status s = m.failed ? weft_fail_memory(c->err) : keep_exchange(c, &m, in, &in->exchange);
    weft_free(m.pieces);
    weft_free(m.x.parts);
    weft_free(m.x.boxes);
    return s;
}
