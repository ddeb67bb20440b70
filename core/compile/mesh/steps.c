/* SPDX-License-Identifier: Apache-2.0 */
/* The way from one layout to another: shrink first (slice, reduce_scatter), then move (all_to_all),
 * then reduce what is left, then go to other coordinates (send, broadcast), then grow (all_gather).
 * Axes join and leave a dim only at the end of its list. */
#include <weft/mesh.h>

#include <string.h>

/* A cut is an axis and whether it ignores the grain; only equal cuts are the same. */
typedef struct cut {
    int axis;
    bool fine;
} cut;

typedef struct cut_list {
    int n;
    cut at[WEFT_MAX_AXES];
} cut_list;

typedef struct walk {
    int n_dims;
    cut_list cur[WEFT_MAX_DIMS], want[WEFT_MAX_DIMS];
    int keep[WEFT_MAX_DIMS]; /* how many of cur's cuts are already right and stay */
    weft_layout from, to;
    weft_axes open;
    int at[WEFT_MAX_AXES]; /* -1: not at one coordinate */
    weft_step *steps;
    int n;
} walk;

static void read_lists(weft_layout l, int n_dims, cut_list *out)
{
    for (int d = 0; d < n_dims; d++) {
        int list[WEFT_MAX_AXES];
        out[d].n = weft_layout_list(l, d, list);
        for (int i = 0; i < out[d].n; i++)
            out[d].at[i] = (cut){list[i], weft_layout_fine(l, list[i])};
    }
}

static weft_layout current(const walk *w)
{
    weft_layout l = {0};
    for (int d = 0; d < w->n_dims; d++)
        for (int i = 0; i < w->cur[d].n; i++)
            l = weft_layout_cut(l, d, w->cur[d].at[i].axis, w->cur[d].at[i].fine);
    for (int a = 0; a < WEFT_MAX_AXES; a++)
        if (w->open >> a & 1u)
            l = weft_layout_set_open(l, a,
                                     weft_layout_open(w->from, a) ? weft_layout_open(w->from, a)
                                                                  : weft_layout_open(w->to, a));
    for (int a = 0; a < WEFT_MAX_AXES; a++)
        if (w->at[a] >= 0)
            l = weft_layout_set_at(l, a, w->at[a]);
    return l;
}

static void emit(walk *w, weft_move move, const int *axes, int n_axes, int dim, int to)
{
    if (w->n == WEFT_MAX_STEPS)
        return;
    weft_step *s = &w->steps[w->n++];
    memset(s, 0, sizeof *s);
    s->move = move;
    s->n_axes = n_axes;
    memcpy(s->axes, axes, sizeof(int) * (size_t)n_axes);
    s->dim = dim;
    s->to = to;
    s->after = current(w);
}

static bool in_use(const walk *w, int axis)
{
    for (int d = 0; d < w->n_dims; d++)
        for (int i = 0; i < w->cur[d].n; i++)
            if (w->cur[d].at[i].axis == axis)
                return true;
    return false;
}

/* A dim is ready when only its right prefix is left and it still misses cuts. */
static bool ready(const walk *w, int d)
{
    return w->cur[d].n == w->keep[d] && w->keep[d] < w->want[d].n;
}

static void push(walk *w, int d, cut c)
{
    w->cur[d].at[w->cur[d].n++] = c;
    w->keep[d]++;
}

/* A ready dim misses an axis: if it is open, reduce_scatter (all consecutive open ones at once); if
 * it is unused, slice. */
static bool shrink(walk *w)
{
    for (int d = 0; d < w->n_dims; d++) {
        if (!ready(w, d))
            continue;
        int run[WEFT_MAX_AXES], n = 0;
        while (ready(w, d) && (w->open >> w->want[d].at[w->keep[d]].axis & 1u)) {
            cut c = w->want[d].at[w->keep[d]];
            run[n++] = c.axis;
            w->open &= ~(1u << c.axis);
            push(w, d, c);
        }
        if (n > 0) {
            emit(w, WEFT_REDUCE_SCATTER, run, n, d, -1);
            return true;
        }
        cut c = w->want[d].at[w->keep[d]];
        if (in_use(w, c.axis))
            continue;
        push(w, d, c);
        emit(w, WEFT_SLICE, &c.axis, 1, d, -1);
        return true;
    }
    return false;
}

/* How many of the last axes of dim d, which must shrink, are the next ones of dim e, in order. */
static int last_of_both(const walk *w, int d, int e)
{
    int n = w->cur[d].n - w->keep[d];
    if (n > w->want[e].n - w->keep[e])
        n = w->want[e].n - w->keep[e];
    for (int same = 0; n > 0; n--, same = 0) {
        while (same < n &&
               w->cur[d].at[w->cur[d].n - n + same].axis == w->want[e].at[w->keep[e] + same].axis)
            same++;
        if (same == n)
            break;
    }
    return n > 0 ? n : 0;
}

/* The last axes of a dim that must shrink are the next ones of a ready dim: they go at once. */
static bool exchange(walk *w)
{
    for (int d = 0; d < w->n_dims; d++)
        for (int e = 0; e < w->n_dims; e++) {
            int n = e != d && ready(w, e) ? last_of_both(w, d, e) : 0, run[WEFT_MAX_AXES];
            if (n == 0)
                continue;
            w->cur[d].n -= n;
            for (int i = 0; i < n; i++) {
                run[i] = w->want[e].at[w->keep[e]].axis;
                push(w, e, w->want[e].at[w->keep[e]]);
            }
            emit(w, WEFT_ALL_TO_ALL, run, n, d, e);
            return true;
        }
    return false;
}

/* Open axes that must close without a dim: one all_reduce over all of them. */
static bool reduce(walk *w)
{
    weft_axes rest = w->open & ~weft_layout_open_axes(w->to) & ~weft_layout_cut_axes(w->to);
    if (!rest)
        return false;
    int axes[WEFT_MAX_AXES], n = 0;
    for (int a = 0; a < WEFT_MAX_AXES; a++)
        if (rest >> a & 1u)
            axes[n++] = a;
    w->open &= ~rest;
    emit(w, WEFT_ALL_REDUCE, axes, n, -1, -1);
    return true;
}

/* An axis on which the value must be held elsewhere. What becomes an open sum is not sent. */
static bool travel(walk *w)
{
    for (int a = 0; a < WEFT_MAX_AXES; a++) {
        int from = w->at[a], to = weft_layout_at(w->to, a);
        if (from == to || (from >= 0 && weft_layout_open(w->to, a)))
            continue;
        w->at[a] = to;
        emit(w, from < 0 ? WEFT_KEEP : to < 0 ? WEFT_BROADCAST : WEFT_SEND, &a, 1, from, to);
        return true;
    }
    return false;
}

static bool grow(walk *w)
{
    for (int d = 0; d < w->n_dims; d++) {
        int n = w->cur[d].n - w->keep[d], run[WEFT_MAX_AXES];
        if (n <= 0)
            continue;
        for (int i = 0; i < n; i++)
            run[i] = w->cur[d].at[w->keep[d] + i].axis;
        w->cur[d].n = w->keep[d];
        emit(w, WEFT_ALL_GATHER, run, n, d, -1);
        return true;
    }
    return false;
}

/* What is at one coordinate of an axis is not cut by it on the way. */
static bool cuts_what_is_at(weft_layout from, weft_layout to)
{
    for (int a = 0; a < WEFT_MAX_AXES; a++)
        if ((weft_layout_at(from, a) >= 0 && weft_layout_cuts(to, a)) ||
            (weft_layout_at(to, a) >= 0 && weft_layout_cuts(from, a)))
            return true;
    return false;
}

int weft_layout_steps(weft_layout from, weft_layout to, int n_dims, weft_step steps[WEFT_MAX_STEPS])
{
    if (cuts_what_is_at(from, to))
        return -1;
    walk w = {.n_dims = n_dims,
              .from = from,
              .to = to,
              .open = weft_layout_open_axes(from),
              .steps = steps};
    for (int a = 0; a < WEFT_MAX_AXES; a++)
        w.at[a] = weft_layout_at(from, a);
    read_lists(from, n_dims, w.cur);
    read_lists(to, n_dims, w.want);
    for (int d = 0; d < n_dims; d++)
        while (w.keep[d] < w.cur[d].n && w.keep[d] < w.want[d].n &&
               w.cur[d].at[w.keep[d]].axis == w.want[d].at[w.keep[d]].axis &&
               w.cur[d].at[w.keep[d]].fine == w.want[d].at[w.keep[d]].fine)
            w.keep[d]++;
    while (shrink(&w) || exchange(&w) || reduce(&w) || travel(&w) || grow(&w)) {
    }
    for (int a = 0; a < WEFT_MAX_AXES; a++) {
        int kind = weft_layout_open(to, a);
        if (kind == 0 || weft_layout_open(from, a) == kind)
            continue;
        if (kind == WEFT_OPEN_MAX || weft_layout_open(from, a))
            return -1;
        int at = w.at[a];
        w.open |= 1u << a;
        w.at[a] = -1;
        emit(&w, WEFT_ZERO, &a, 1, at, -1);
    }
    return current(&w).bits == to.bits ? w.n : -1;
}

const char *weft_move_name(weft_move move)
{
    static const char *const names[] = {"all_gather", "reduce_scatter", "all_reduce", "all_to_all",
                                        "slice",      "zero",           "send",       "broadcast",
                                        "keep",       "shift"};
    return names[move];
}

int weft_step_members(const weft_mesh *mesh, const weft_step *step)
{
    int n = 1;
    for (int k = 0; k < step->n_axes; k++)
        n *= mesh->axis[step->axes[k]].size;
    return n;
}

/* Elements of what one rank sends another in an all_to_all: its chunk, cut also where the result
 * is. */
static int64_t piece(const weft_mesh *mesh, const weft_step *step, weft_layout before, int n_dims,
                     const weft_dim *dims)
{
    static const int origin[WEFT_MAX_AXES];
    int64_t total = 1;
    for (int d = 0; d < n_dims; d++)
        total *=
            weft_layout_span(mesh, d == step->to ? step->after : before, &dims[d], d, origin).chunk;
    return total;
}

int64_t weft_step_bytes(const weft_mesh *mesh, const weft_step *step, weft_layout before,
                        int n_dims, const weft_dim *dims, weft_dtype dtype)
{
    int64_t n = weft_step_members(mesh, step), width = (int64_t)weft_dtype_size(dtype);
    switch (step->move) {
    case WEFT_ALL_GATHER:
        return weft_layout_elements(mesh, before, n_dims, dims) * (n - 1) * width;
    case WEFT_REDUCE_SCATTER:
        return weft_layout_elements(mesh, step->after, n_dims, dims) * (n - 1) * width;
    case WEFT_ALL_TO_ALL:
        return piece(mesh, step, before, n_dims, dims) * (n - 1) * width;
    case WEFT_ALL_REDUCE:
        return 2 * ((weft_layout_elements(mesh, before, n_dims, dims) + n - 1) / n) * (n - 1) *
               width;
    case WEFT_SEND:
    case WEFT_SHIFT:
        return weft_layout_elements(mesh, before, n_dims, dims) * width;
    case WEFT_BROADCAST: /* down a tree, every rank but the first is sent it once */
        return weft_layout_elements(mesh, before, n_dims, dims) * width;
    case WEFT_SLICE:
    case WEFT_ZERO:
    case WEFT_KEEP:
        break;
    }
    return 0;
}
