/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

weft_tensor sim_local(const weft_mesh *mesh, weft_layout layout, int n_dims, const weft_dim *dims,
                      weft_dtype dtype, int rank)
{
    weft_tensor t = {.dtype = dtype, .n_dims = n_dims};
    int coord[WEFT_MAX_AXES];
    weft_mesh_coord(mesh, rank, coord);
    for (int d = 0; d < n_dims; d++) {
        weft_span s = weft_layout_span(mesh, layout, &dims[d], d, coord);
        t.lo[d] = s.lo;
        t.size[d] = s.hi - s.lo;
        t.whole[d] = dims[d].size;
        t.grain[d] = dims[d].grain;
    }
    return t;
}

void sim_allocate(weft_tensor *t, weft_pool *pool)
{
    t->data = weft_pool_alloc(pool, (size_t)weft_tensor_count(t) * weft_dtype_size(t->dtype));
    assert_non_null(t->data);
}

/* Elements i, i + 1, ... of one and k, k + 1, ... of the other. */
static void combine(const weft_tensor *to, int64_t i, const weft_tensor *from, int64_t k, int64_t n,
                    sim_combine how)
{
    size_t size = weft_dtype_size(to->dtype);
    if (how == SIM_SET && to->dtype == from->dtype) {
        memcpy((char *)to->data + (size_t)i * size, (const char *)from->data + (size_t)k * size,
               (size_t)n * size);
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        double a = how == SIM_SET ? 0 : weft_tensor_get(to, i + j),
               b = weft_tensor_get(from, k + j);
        weft_tensor_set(to, i + j, how == SIM_MAX ? fmax(a, b) : a + b);
    }
}

int64_t sim_paste(const weft_tensor *to, const weft_tensor *from, sim_combine how)
{
    int64_t lo[WEFT_MAX_DIMS], hi[WEFT_MAX_DIMS], at[WEFT_MAX_DIMS], n = 0;
    int last = to->n_dims - 1;
    for (int d = 0; d <= last; d++) {
        int64_t end_to = to->lo[d] + to->size[d], end_from = from->lo[d] + from->size[d];
        at[d] = lo[d] = to->lo[d] > from->lo[d] ? to->lo[d] : from->lo[d];
        hi[d] = end_to < end_from ? end_to : end_from;
        if (lo[d] >= hi[d])
            return 0;
    }
    int64_t run = last < 0 ? 1 : hi[last] - lo[last];
    for (;;) {
        int64_t i = 0, k = 0;
        for (int d = 0; d <= last; d++) {
            i = i * to->size[d] + at[d] - to->lo[d];
            k = k * from->size[d] + at[d] - from->lo[d];
        }
        combine(to, i, from, k, run, how);
        n += run;
        int d = last - 1;
        for (; d >= 0 && ++at[d] == hi[d]; d--)
            at[d] = lo[d];
        if (d < 0)
            return n;
    }
}

/* ---- groups ---- */

static int coord_on(const weft_mesh *mesh, int rank, int axis)
{
    int coord[WEFT_MAX_AXES];
    weft_mesh_coord(mesh, rank, coord);
    return coord[axis];
}

static int stride_of(const weft_mesh *mesh, int axis)
{
    int stride = 1;
    for (int a = 0; a < axis; a++)
        stride *= mesh->axis[a].size;
    return stride;
}

static int group_size(const weft_mesh *mesh, const weft_step *step)
{
    int n = 1;
    for (int k = 0; k < step->n_axes; k++)
        n *= mesh->axis[step->axes[k]].size;
    return n;
}

/* Member i of the group that `rank` is in: the step's first axis is the slowest. */
static int member(const weft_mesh *mesh, const weft_step *step, int rank, int i)
{
    for (int k = step->n_axes - 1; k >= 0; k--) {
        int axis = step->axes[k], size = mesh->axis[axis].size;
        rank += (i % size - coord_on(mesh, rank, axis)) * stride_of(mesh, axis);
        i /= size;
    }
    return rank;
}

/* ---- steps ---- */

static void assert_same_box(const weft_tensor *a, const weft_tensor *b, int but, int but_too)
{
    for (int d = 0; d < a->n_dims; d++) {
        if (d == but || d == but_too)
            continue;
        assert_int_equal(a->lo[d], b->lo[d]);
        assert_int_equal(a->size[d], b->size[d]);
    }
}

/* The parts of a group lie one behind the other along `dim`, in the order of the group, and
 * together make `whole`: no reorder is needed. */
static void assert_in_order(const weft_mesh *mesh, const weft_step *step, int rank,
                            const weft_tensor *parts, const weft_tensor *whole, int dim)
{
    int64_t at = whole->lo[dim];
    for (int i = 0; i < group_size(mesh, step); i++) {
        const weft_tensor *part = &parts[member(mesh, step, rank, i)];
        if (part->size[dim])
            assert_int_equal(part->lo[dim], at);
        at += part->size[dim];
    }
    assert_int_equal(at, whole->lo[dim] + whole->size[dim]);
}

static void reduce(const weft_mesh *mesh, const weft_step *step, weft_layout before, int rank,
                   const weft_tensor *from, const weft_tensor *to)
{
    int kind = weft_layout_open(before, step->axes[0]);
    for (int k = 0; k < step->n_axes; k++)
        assert_int_equal(weft_layout_open(before, step->axes[k]), kind);
    assert_true(kind != 0);
    for (int i = 0; i < group_size(mesh, step); i++) {
        const weft_tensor *part = &from[member(mesh, step, rank, i)];
        assert_same_box(part, &from[rank], -1, -1);
        int64_t n = sim_paste(&to[rank], part,
                              i == 0                  ? SIM_SET
                              : kind == WEFT_OPEN_MAX ? SIM_MAX
                                                      : SIM_ADD);
        assert_int_equal(n, weft_tensor_count(&to[rank]));
    }
}

static void zero(const weft_mesh *mesh, const weft_step *step, int rank, const weft_tensor *from,
                 const weft_tensor *to)
{
    size_t bytes = (size_t)weft_tensor_count(&to[rank]) * weft_dtype_size(to[rank].dtype);
    assert_int_equal(step->n_axes, 1);
    assert_same_box(&from[rank], &to[rank], -1, -1);
    if (coord_on(mesh, rank, step->axes[0]) == (step->dim < 0 ? 0 : step->dim))
        memcpy(to[rank].data, from[rank].data, bytes);
    else
        memset(to[rank].data, 0, bytes);
}

/* What is held at one coordinate of the axis comes to another, or to all. */
static void take(const weft_mesh *mesh, const weft_step *step, int rank, const weft_tensor *from,
                 const weft_tensor *to)
{
    int here = coord_on(mesh, rank, step->axes[0]);
    bool wants = step->move == WEFT_BROADCAST || here == step->to;
    assert_int_equal(step->n_axes, 1);
    if (!wants)
        return;
    int source =
        step->move == WEFT_KEEP ? rank : rank + (step->dim - here) * stride_of(mesh, step->axes[0]);
    assert_same_box(&from[source], &to[rank], -1, -1);
    assert_int_equal(sim_paste(&to[rank], &from[source], SIM_SET), weft_tensor_count(&to[rank]));
}

static void gather(const weft_mesh *mesh, const weft_step *step, int rank, const weft_tensor *from,
                   const weft_tensor *to)
{
    int64_t n = 0;
    int cut = step->move == WEFT_ALL_TO_ALL ? step->to : -1;
    for (int i = 0; i < group_size(mesh, step); i++) {
        const weft_tensor *part = &from[member(mesh, step, rank, i)];
        assert_same_box(part, &to[rank], step->dim, cut);
        n += sim_paste(&to[rank], part, SIM_SET);
    }
    assert_int_equal(n, weft_tensor_count(&to[rank]));
    assert_in_order(mesh, step, rank, from, &to[rank], step->dim);
    if (cut >= 0)
        assert_in_order(mesh, step, rank, to, &from[rank], cut);
}

void sim_step(const weft_mesh *mesh, const weft_step *step, weft_layout before,
              const weft_tensor *from, const weft_tensor *to)
{
    for (int r = 0; r < weft_mesh_ranks(mesh); r++) {
        switch (step->move) {
        case WEFT_ALL_GATHER:
        case WEFT_ALL_TO_ALL:
            gather(mesh, step, r, from, to);
            break;
        case WEFT_REDUCE_SCATTER:
            assert_in_order(mesh, step, r, to, &from[r], step->dim);
            assert_same_box(&from[r], &to[r], step->dim, -1);
            reduce(mesh, step, before, r, from, to);
            break;
        case WEFT_ALL_REDUCE:
            assert_same_box(&from[r], &to[r], -1, -1);
            reduce(mesh, step, before, r, from, to);
            break;
        case WEFT_SLICE:
            assert_int_equal(sim_paste(&to[r], &from[r], SIM_SET), weft_tensor_count(&to[r]));
            break;
        case WEFT_ZERO:
            zero(mesh, step, r, from, to);
            break;
        case WEFT_SEND:
        case WEFT_BROADCAST:
        case WEFT_KEEP:
            take(mesh, step, r, from, to);
            break;
        case WEFT_SHIFT:
            fail_msg("a shift is no step between layouts");
            break;
        }
    }
}

/* ---- whole tensors ---- */

/* The first rank that must hold the same as `rank`: coordinate 0 on every axis over which the value
 * is replicated. */
static int first_replica(const weft_mesh *mesh, weft_layout layout, int rank)
{
    for (int a = 0; a < mesh->n_axes; a++)
        if (weft_layout_byte(layout, a) == 0)
            rank -= coord_on(mesh, rank, a) * stride_of(mesh, a);
    return rank;
}

static void assert_replica(const weft_tensor *a, const weft_tensor *b, double tolerance,
                           const char *name)
{
    double largest = 0;
    assert_same_box(a, b, -1, -1);
    if (isinf(tolerance))
        return;
    for (int64_t i = 0; i < weft_tensor_count(a); i++)
        largest = fmax(largest, fabs(weft_tensor_get(a, i)));
    for (int64_t i = 0; i < weft_tensor_count(a); i++) {
        double x = weft_tensor_get(a, i),
               y = weft_tensor_get(b, i); /* of nothing the most is -inf */
        if (x != y && !(fabs(x - y) <= tolerance * (largest + 1e-30)))
            fail_msg("replicas of %s differ: %.17g and %.17g", name, x, y);
    }
}

weft_tensor sim_assemble(const weft_mesh *mesh, weft_layout layout, int n_dims,
                         const weft_dim *dims, const weft_tensor *parts, double tolerance,
                         const char *name, weft_pool *pool)
{
    weft_tensor all = {.dtype = WEFT_F64, .n_dims = n_dims};
    sim_combine how = SIM_SET;
    for (int d = 0; d < n_dims; d++)
        all.size[d] = all.whole[d] = dims[d].size;
    for (int a = 0; a < mesh->n_axes; a++)
        if (weft_layout_open(layout, a))
            how = weft_layout_open(layout, a) == WEFT_OPEN_MAX ? SIM_MAX : SIM_ADD;
    sim_allocate(&all, pool);
    for (int64_t i = 0; how == SIM_MAX && i < weft_tensor_count(&all); i++)
        weft_tensor_set(&all, i, -INFINITY);
    for (int r = 0; r < weft_mesh_ranks(mesh); r++) {
        int first = first_replica(mesh, layout, r), coord[WEFT_MAX_AXES];
        weft_mesh_coord(mesh, r, coord);
        if (!weft_layout_held(layout, coord))
            continue;
        if (first == r)
            sim_paste(&all, &parts[r], how);
        else
            assert_replica(&parts[first], &parts[r], tolerance, name);
    }
    return all;
}
