/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts alone: their bits, spans, text, prices, and the way from any layout to any other, carried
 * out on all ranks of small meshes. */
#include "../../lib/sim.h"
#include "compile/program/lower.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <weft/random.h>
/* last: it needs the headers above */
#include <cmocka.h>

static weft_mesh make_mesh(int n, const int *sizes)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    weft_mesh m = {.n_axes = n};
    for (int i = 0; i < n; i++) {
        memcpy(m.axis[i].name, names[i], 2);
        m.axis[i].size = sizes[i];
    }
    return m;
}

/* ---- chance ---- */

typedef struct dice {
    uint64_t seed, rolls;
} dice;

static int roll(dice *d, int n)
{
    return (int)(weft_random_bits(d->seed, 0, d->rolls++) % (uint64_t)n);
}

/* ---- bits ---- */

/* A layout as plain lists: what the bits stand for. */
typedef struct model {
    int n[WEFT_MAX_DIMS], list[WEFT_MAX_DIMS][WEFT_MAX_AXES];
    int dim[WEFT_MAX_AXES], open[WEFT_MAX_AXES]; /* dim: -1 none */
    bool fine[WEFT_MAX_AXES];
} model;

static void model_clear(model *m, int axis)
{
    int d = m->dim[axis], to = 0;
    for (int i = 0; d >= 0 && i < m->n[d]; i++)
        if (m->list[d][i] != axis)
            m->list[d][to++] = m->list[d][i];
    if (d >= 0)
        m->n[d] = to;
    m->dim[axis] = -1;
    m->open[axis] = 0;
    m->fine[axis] = false;
}

static void assert_is_model(weft_layout l, const model *m)
{
    weft_axes open = 0, cut = 0;
    for (int a = 0; a < WEFT_MAX_AXES; a++) {
        assert_int_equal(weft_layout_cuts(l, a), m->dim[a] >= 0);
        if (m->dim[a] >= 0)
            assert_int_equal(weft_layout_dim(l, a), m->dim[a]);
        assert_int_equal(weft_layout_fine(l, a), m->fine[a]);
        assert_int_equal(weft_layout_open(l, a), m->open[a]);
        open |= m->open[a] ? 1u << a : 0;
        cut |= m->dim[a] >= 0 ? 1u << a : 0;
    }
    for (int d = 0; d < WEFT_MAX_DIMS; d++) {
        int list[WEFT_MAX_AXES];
        assert_int_equal(weft_layout_list(l, d, list), m->n[d]);
        for (int i = 0; i < m->n[d]; i++)
            assert_int_equal(list[i], m->list[d][i]);
    }
    assert_int_equal(weft_layout_open_axes(l), open);
    assert_int_equal(weft_layout_cut_axes(l), cut);
}

static void bits_are_lists(void **state)
{
    (void)state;
    dice d = {1, 0};
    for (int round = 0; round < 200; round++) {
        weft_layout l = {0};
        model m = {.n = {0}};
        memset(m.dim, -1, sizeof m.dim);
        for (int k = 0; k < 30; k++) {
            int axis = roll(&d, WEFT_MAX_AXES), dim = roll(&d, WEFT_MAX_DIMS), what = roll(&d, 4);
            l = weft_layout_clear(l, axis);
            model_clear(&m, axis);
            if (what < 2) {
                l = weft_layout_cut(l, dim, axis, what == 1);
                m.list[dim][m.n[dim]++] = axis;
                m.dim[axis] = dim;
                m.fine[axis] = what == 1;
            } else if (what == 2) {
                l = weft_layout_set_open(l, axis, WEFT_OPEN_SUM);
                m.open[axis] = WEFT_OPEN_SUM;
            }
            assert_is_model(l, &m);
        }
        for (int a = 0; a < WEFT_MAX_AXES; a++) /* opening an axis that cuts takes it off its dim */
            l = weft_layout_set_open(l, a, WEFT_OPEN_MAX);
        assert_int_equal(weft_layout_open_axes(l), 0xff);
        for (int a = 0; a < WEFT_MAX_AXES; a++)
            l = weft_layout_clear(l, a);
        assert_true(l.bits == 0);
    }
}

/* ---- spans ---- */

static void spans_by_hand(void **state)
{
    (void)state;
    static const struct {
        int64_t size, grain;
        const char *list; /* axes, '!' behind fine ones */
        int64_t lo[12];   /* of the ranks in the order of the list; the next one's lo is its hi */
        int64_t chunk;
    } cases[] = {
        {12, 1, "a", {0, 6, 12}, 6},      {5, 1, "a", {0, 3, 5}, 3},
        {5, 1, "ac", {0, 2, 3, 5, 5}, 2}, /* nested: flat would be 2 2 1 */
        {5, 1, "b", {0, 2, 4, 5}, 2},     {3, 1, "bac", {0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3}, 1},
        {48, 4, "a", {0, 24, 48}, 24},    {20, 4, "a", {0, 12, 20}, 12}, /* 3 and 2 heads of 4 */
        {20, 4, "a!", {0, 10, 20}, 10},   {20, 4, "ac!", {0, 6, 12, 18, 20}, 6},
        {8, 4, "b", {0, 4, 8, 8}, 4},     {20, 4, "a!c!", {0, 5, 10, 15, 20}, 5},
    };
    weft_mesh m = make_mesh(3, (int[]){2, 3, 2});
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_dim dim = {"x", cases[i].size, cases[i].grain};
        weft_layout l = {0};
        int axes[3], n = 0, ranks = 1;
        for (const char *p = cases[i].list; *p; p++) {
            if (*p == '!')
                continue;
            axes[n] = *p - 'a';
            l = weft_layout_cut(l, 2, axes[n], p[1] == '!');
            ranks *= m.axis[axes[n++]].size;
        }
        for (int r = 0; r < ranks && r < 11; r++) {
            int coord[WEFT_MAX_AXES] = {0}, rest = r;
            for (int k = n - 1; k >= 0; k--) {
                coord[axes[k]] = rest % m.axis[axes[k]].size;
                rest /= m.axis[axes[k]].size;
            }
            weft_span s = weft_layout_span(&m, l, &dim, 2, coord);
            if (s.hi > s.lo)
                assert_int_equal(s.lo, cases[i].lo[r]);
            assert_int_equal(s.hi, cases[i].lo[r + 1]);
            assert_int_equal(s.chunk, cases[i].chunk);
        }
        assert_int_equal(
            weft_layout_elements(&m, l, 3, (weft_dim[]){{"u", 1, 1}, {"v", 1, 1}, dim}),
            cases[i].chunk);
    }
}

/* The spans of all ranks are a partition, and gathering the last axis of a list gives exactly the
 * shorter list's range. */
static void spans_nest(void **state)
{
    (void)state;
    dice d = {2, 0};
    for (int round = 0; round < 2000; round++) {
        int n = 1 + roll(&d, 4), sizes[4], order[4] = {0, 1, 2, 3};
        for (int i = 0; i < n; i++)
            sizes[i] = 2 + roll(&d, 3);
        weft_mesh m = make_mesh(n, sizes);
        int64_t grain = roll(&d, 2) ? 1 : 2 + roll(&d, 3);
        weft_dim dim = {"x", grain * (1 + roll(&d, 30)), grain};
        for (int i = n - 1; i > 0; i--) {
            int k = roll(&d, i + 1), t = order[i];
            order[i] = order[k];
            order[k] = t;
        }
        int n_coarse = roll(&d, n + 1), cover[128] = {0};
        weft_layout l = {0}, shorter = {0};
        for (int i = 0; i < n; i++) {
            shorter = l;
            l = weft_layout_cut(l, 0, order[i], i >= n_coarse);
        }
        int64_t largest = 0;
        for (int r = 0; r < weft_mesh_ranks(&m); r++) {
            int coord[WEFT_MAX_AXES];
            weft_mesh_coord(&m, r, coord);
            weft_span s = weft_layout_span(&m, l, &dim, 0, coord),
                      outer = weft_layout_span(&m, shorter, &dim, 0, coord);
            assert_true(s.lo <= s.hi && s.hi - s.lo <= s.chunk);
            for (int64_t x = s.lo; x < s.hi; x++)
                cover[x]++;
            if (n_coarse == n && s.lo < s.hi)
                assert_int_equal(s.lo % grain, 0);
            largest = s.hi - s.lo > largest ? s.hi - s.lo : largest;
            int last = order[n - 1], size = m.axis[last].size;
            int64_t total = 0, at = outer.lo;
            for (int k = 0; k < size; k++) {
                coord[last] = k;
                weft_span piece = weft_layout_span(&m, l, &dim, 0, coord);
                if (piece.lo < piece.hi) {
                    assert_int_equal(piece.lo, at);
                    at = piece.hi;
                }
                total += piece.hi - piece.lo;
            }
            assert_int_equal(total, outer.hi - outer.lo);
            assert_int_equal(weft_layout_elements(&m, l, 1, &dim), s.chunk);
        }
        for (int64_t x = 0; x < dim.size; x++)
            assert_int_equal(cover[x], 1);
        assert_int_equal(largest, weft_layout_elements(&m, l, 1, &dim) < dim.size
                                      ? weft_layout_elements(&m, l, 1, &dim)
                                      : dim.size);
    }
}

/* ---- reading and printing ---- */

/* Reads "x/a/b! y/c +d max+e" for dims x, y, z, w. */
static weft_layout read_layout(const char *text)
{
    weft_layout l = {0};
    char word[32];
    int used;
    for (const char *p = text; sscanf(p, " %31s%n", word, &used) == 1; p += used) {
        char *plus = strchr(word, '+');
        if (plus) {
            l = weft_layout_set_open(l, plus[1] - 'a',
                                     plus == word ? WEFT_OPEN_SUM : WEFT_OPEN_MAX);
            continue;
        }
        int d = (int)(strchr("xyzw", word[0]) - "xyzw");
        for (const char *q = word + 1; *q; q++)
            if (*q == '/')
                l = weft_layout_cut(l, d, q[1] - 'a', q[2] == '!');
    }
    return l;
}

static void layouts_print(void **state)
{
    (void)state;
    weft_mesh m = {4,
                   {{.name = "tp", .size = 2},
                    {.name = "cp", .size = 2},
                    {.name = "dp_shard", .size = 2},
                    {.name = "dp_replicate", .size = 2}}};
    weft_dim dims[] = {{"batch", 8, 1}, {"seq", 2048, 1}, {"heads", 128, 16}};
    static const struct {
        const char *layout;
        bool sizes;
        const char *want;
    } cases[] = {
        {"", false, "[batch, seq, heads]"},
        {"x/c y/b/a", false, "[batch/dp_shard, seq/cp/tp, heads]"},
        {"x/c y/b/a", true, "[batch/dp_shard 8, seq/cp/tp 2048, heads 8*16]"},
        {"z/a/c!", false, "[batch, seq, heads/tp/dp_shard!]"},
        {"x/a! +c +d", false, "[batch/tp, seq, heads] +dp_shard +dp_replicate"},
        {"max+a", false, "[batch, seq, heads] max+tp"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_text t = {0};
        weft_layout_print(&m, read_layout(cases[i].layout), 3, dims, cases[i].sizes, &t);
        assert_string_equal(weft_text_get(&t), cases[i].want);
        weft_text_release(&t);
    }
    weft_text t = {0};
    weft_layout_print(&m, read_layout("+a"), 0, NULL, true, &t);
    assert_string_equal(weft_text_get(&t), "[] +tp");
    weft_text_release(&t);
}

/* ---- steps ---- */

static void print_steps(const weft_step *steps, int n, weft_text *t)
{
    for (int i = 0; i < n; i++) {
        weft_text_print(t, "%s%s", i ? " " : "", weft_move_name(steps[i].move));
        weft_text_add(t, "[");
        for (int k = 0; k < steps[i].n_axes; k++)
            weft_text_print(t, "%s%c", k ? "," : "", 'a' + steps[i].axes[k]);
        weft_text_add(t, "]");
        if (steps[i].dim >= 0)
            weft_text_print(t, "%c", "xyzw"[steps[i].dim]);
        if (steps[i].to >= 0)
            weft_text_print(t, "%c", "xyzw"[steps[i].to]);
    }
}

static void steps_by_hand(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"x/a", "x/a", ""},
        {"x/a", "", "all_gather[a]x"},
        {"", "x/a", "slice[a]x"},
        {"+a", "", "all_reduce[a]"},
        {"+a +b", "", "all_reduce[a,b]"},
        {"+a", "x/a", "reduce_scatter[a]x"},
        {"", "+a", "zero[a]"},
        {"x/a", "y/a", "all_to_all[a]xy"},
        {"x/a", "+a", "all_gather[a]x zero[a]"},
        {"x/b/a", "x/b", "all_gather[a]x"},
        {"x/b/a", "", "all_gather[b,a]x"},
        {"+a +b", "x/b/a", "reduce_scatter[b,a]x"},
        {"+a +b", "x/b", "reduce_scatter[b]x all_reduce[a]"}, /* all_reduce sees shards */
        {"y/c +a", "x/b y/c", "slice[b]x all_reduce[a]"},
        {"x/b/a", "x/a",
         "all_gather[b,a]x slice[a]x"}, /* a true exchange: axes leave only at the end */
        {"x/a y/b", "x/b y/a", "all_gather[a]x all_to_all[b]yx slice[a]y"},
        {"x/c/a", "x/c y/a", "all_to_all[a]xy"},
        {"x/b/a", "y/b/a", "all_to_all[b,a]xy"}, /* a run of axes at once */
        {"x/c/b/a", "x/c y/b/a", "all_to_all[b,a]xy"},
        {"x/b/a", "y/a/b", "all_to_all[a]xy all_to_all[b]xy"},
        {"x/c/b/a", "y/b/a", "all_to_all[b,a]xy all_gather[c]x"},
        {"x/a!", "x/a", "all_gather[a]x slice[a]x"}, /* a cut between grains is another cut */
        {"max+a", "", "all_reduce[a]"},
        {"max+a max+b", "max+b", "all_reduce[a]"},
        {"max+a", "x/a", "reduce_scatter[a]x"},
        {"max+a", "+b", "all_reduce[a] zero[b]"},
        {"max+a", "+a", "no"},
        {"+a", "max+a", "no"},
        {"", "max+a", "no"},
        {"x/a", "max+a", "no"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_step steps[WEFT_MAX_STEPS];
        weft_text t = {0};
        int n = weft_layout_steps(read_layout(cases[i][0]), read_layout(cases[i][1]), 2, steps);
        if (n < 0)
            weft_text_add(&t, "no");
        print_steps(steps, n, &t);
        if (strcmp(weft_text_get(&t), cases[i][2]) != 0)
            fail_msg("%s -> %s: %s, not %s", cases[i][0], cases[i][1], weft_text_get(&t),
                     cases[i][2]);
        weft_text_release(&t);
    }
}

typedef struct puzzle {
    weft_mesh mesh;
    int n_dims;
    weft_dim dims[4];
    weft_layout from, to;
} puzzle;

/* Any layout: every axis cuts a dim, is open or replicated, in random order. */
static weft_layout random_layout(dice *d, const puzzle *p, int kind)
{
    weft_layout l = {0};
    int start = roll(d, p->mesh.n_axes), fine_from[4];
    for (int i = 0; i < p->n_dims; i++)
        fine_from[i] = roll(d, 3);
    for (int i = 0; i < p->mesh.n_axes; i++) {
        int axis = (start + i * (p->mesh.n_axes == 4 && start % 2 ? 3 : 1)) % p->mesh.n_axes,
            what = roll(d, p->n_dims + 2), list[WEFT_MAX_AXES];
        if (what < p->n_dims) /* fine ones behind coarse ones */
            l = weft_layout_cut(l, what, axis,
                                p->dims[what].grain > 1 &&
                                    weft_layout_list(l, what, list) >= fine_from[what]);
        else if (what == p->n_dims && kind)
            l = weft_layout_set_open(l, axis, kind);
    }
    return l;
}

/* A number for a global element. */
static double element(const weft_tensor *t, int64_t local)
{
    uint64_t index = 0;
    int64_t at[WEFT_MAX_DIMS];
    for (int d = t->n_dims - 1; d >= 0; d--) {
        at[d] = local % t->size[d] + t->lo[d];
        local /= t->size[d];
    }
    for (int d = 0; d < t->n_dims; d++)
        index = index * (uint64_t)t->whole[d] + (uint64_t)at[d];
    return weft_random_uniform(7, 0, index) - 0.5;
}

/* What a rank holds under a layout: of an open sum a share that depends on the rank, of an open
 * maximum the value less something. */
static void fill(const puzzle *p, weft_layout l, int rank, weft_tensor *t)
{
    int coord[WEFT_MAX_AXES];
    weft_mesh_coord(&p->mesh, rank, coord);
    for (int64_t i = 0; i < weft_tensor_count(t); i++) {
        double x = element(t, i), below = 0;
        for (int a = 0; a < p->mesh.n_axes; a++) {
            int n = p->mesh.axis[a].size;
            if (weft_layout_open(l, a) == WEFT_OPEN_SUM)
                x *= (1 + 2.0 * coord[a]) / (n * n); /* odd numbers: they sum to n squared */
            if (weft_layout_open(l, a) == WEFT_OPEN_MAX)
                below += (double)((coord[a] + (int)(x * 1e6 + 1e6)) % n);
        }
        weft_tensor_set(t, i, x - below);
    }
}

static weft_tensor *make_parts(const puzzle *p, weft_layout l, weft_pool *pool)
{
    int ranks = weft_mesh_ranks(&p->mesh);
    weft_tensor *parts = weft_pool_alloc(pool, (size_t)ranks * sizeof *parts);
    assert_non_null(parts);
    for (int r = 0; r < ranks; r++) {
        parts[r] = sim_local(&p->mesh, l, p->n_dims, p->dims, WEFT_F64, r);
        sim_allocate(&parts[r], pool);
    }
    return parts;
}

static void solve(const puzzle *p, int64_t *n_steps)
{
    weft_pool pool = {0};
    weft_step steps[WEFT_MAX_STEPS];
    weft_text text = {0};
    int n = weft_layout_steps(p->from, p->to, p->n_dims, steps);
    weft_tensor *now = make_parts(p, p->from, &pool);
    weft_layout before = p->from;
    assert_true(n >= 0);
    for (int r = 0; r < weft_mesh_ranks(&p->mesh); r++) {
        int coord[WEFT_MAX_AXES];
        fill(p, p->from, r, &now[r]);
        weft_mesh_coord(&p->mesh, r, coord);
        for (int64_t i = 0; !weft_layout_held(p->from, coord) && i < weft_tensor_count(&now[r]);
             i++)
            weft_tensor_set(&now[r], i, NAN); /* whoever takes it from there is found out */
    }
    for (int i = 0; i < n; i++) {
        weft_tensor *next = make_parts(p, steps[i].after, &pool);
        sim_step(&p->mesh, &steps[i], before, now, next);
        now = next;
        before = steps[i].after;
    }
    assert_true(before.bits == p->to.bits);
    weft_tensor all =
        sim_assemble(&p->mesh, p->to, p->n_dims, p->dims, now, 1e-12, "a value", &pool);
    for (int64_t i = 0; i < weft_tensor_count(&all); i++)
        if (!(fabs(weft_tensor_get(&all, i) - element(&all, i)) < 1e-12)) {
            weft_layout_print(&p->mesh, p->from, p->n_dims, p->dims, true, &text);
            weft_text_add(&text, " -> ");
            weft_layout_print(&p->mesh, p->to, p->n_dims, p->dims, true, &text);
            fail_msg("%s: element %lld", weft_text_get(&text), (long long)i);
        }
    *n_steps += n;
    weft_pool_release(&pool);
}

/* Axes on the common front of both lists of a dim stay where they are. */
static void assert_fronts_stay(const puzzle *p)
{
    weft_step steps[WEFT_MAX_STEPS];
    weft_axes stays = 0;
    for (int d = 0; d < p->n_dims; d++) {
        int a[WEFT_MAX_AXES], b[WEFT_MAX_AXES], n = weft_layout_list(p->from, d, a),
                                                k = weft_layout_list(p->to, d, b);
        for (int i = 0; i < n && i < k && a[i] == b[i] &&
                        weft_layout_fine(p->from, a[i]) == weft_layout_fine(p->to, a[i]);
             i++)
            stays |= 1u << a[i];
    }
    int n = weft_layout_steps(p->from, p->to, p->n_dims, steps);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < steps[i].n_axes; k++)
            assert_false(stays >> steps[i].axes[k] & 1u);
}

/* On one axis: held by all, or at one coordinate, or open. */
static weft_layout random_place(dice *d, const puzzle *p, weft_layout l, int axis, int kind)
{
    l = weft_layout_clear(l, axis);
    switch (roll(d, kind == WEFT_OPEN_SUM ? 4 : 3)) {
    case 0:
        return l;
    case 3:
        return weft_layout_set_open(l, axis, kind);
    default:
        return weft_layout_set_at(l, axis, roll(d, p->mesh.axis[axis].size));
    }
}

static void any_layout_becomes_any_other(void **state)
{
    (void)state;
    static const struct {
        int n, sizes[4], rounds;
    } meshes[] = {{3, {2, 3, 2}, 1500}, {2, {3, 4}, 300}, {4, {2, 2, 2, 3}, 500}, {1, {5}, 100}};
    static const int sizes[] = {1, 2, 3, 5, 7, 8, 11, 12};
    dice d = {3, 0};
    int64_t n_steps = 0, n_pairs = 0;
    for (size_t m = 0; m < sizeof meshes / sizeof meshes[0]; m++) {
        for (int i = 0; i < meshes[m].rounds; i++) {
            puzzle p = {.mesh = make_mesh(meshes[m].n, meshes[m].sizes), .n_dims = 1 + roll(&d, 3)};
            for (int k = 0; k < p.n_dims; k++) {
                int64_t grain = roll(&d, 3) ? 1 : 2 + roll(&d, 2);
                p.dims[k] =
                    (weft_dim){"xyzw" + k, grain * sizes[roll(&d, grain > 1 ? 5 : 8)], grain};
            }
            int kind = 1 + (roll(&d, 4) == 0);
            p.from = random_layout(&d, &p, kind);
            p.to = random_layout(&d, &p, kind);
            weft_axes to_max = kind == WEFT_OPEN_MAX
                                   ? weft_layout_open_axes(p.to) & ~weft_layout_open_axes(p.from)
                                   : 0;
            for (int a = 0; a < p.mesh.n_axes; a++) /* a maximum cannot be opened, only kept */
                if (to_max >> a & 1u)
                    p.to = weft_layout_clear(p.to, a);
            if (roll(&d, 2)) {
                int axis = roll(&d, p.mesh.n_axes);
                p.from = random_place(&d, &p, p.from, axis, kind);
                p.to = random_place(&d, &p, p.to, axis, kind);
            }
            solve(&p, &n_steps);
            assert_fronts_stay(&p);
            n_pairs++;
        }
    }
    assert_true(n_pairs >= 1500 && n_steps > 2 * n_pairs);
}

/* The longest way that eight axes can have fits in the array. */
static void eight_axes_fit(void **state)
{
    (void)state;
    dice d = {4, 0};
    puzzle p = {.mesh = make_mesh(8, (int[]){2, 2, 2, 2, 2, 2, 2, 2}), .n_dims = 4};
    int most = 0;
    for (int k = 0; k < 4; k++)
        p.dims[k] = (weft_dim){"xyzw" + k, 256, 1};
    for (int i = 0; i < 20000; i++) {
        weft_step steps[WEFT_MAX_STEPS];
        p.from = random_layout(&d, &p, WEFT_OPEN_SUM);
        p.to = random_layout(&d, &p, WEFT_OPEN_SUM);
        int n = weft_layout_steps(p.from, p.to, p.n_dims, steps);
        assert_true(n >= 0 && n <= WEFT_MAX_STEPS);
        if (n)
            assert_true(steps[n - 1].after.bits == p.to.bits);
        else
            assert_true(p.from.bits == p.to.bits);
        most = n > most ? n : most;
    }
    assert_true(most >= 8);
}

/* ---- prices ---- */

/* Bytes that a rank sends, from the nominal chunks alone. */
static void bytes_by_hand(void **state)
{
    (void)state;
    weft_mesh m = make_mesh(3, (int[]){2, 3, 4});
    static const struct {
        int64_t x, y;
        const char *from, *to;
        int64_t elements;
    } cases[] = {
        {24, 6, "x/a", "", 24 * 6 / 2},
        {24, 6, "x/c", "", 24 * 6 * 3 / 4},
        {24, 6, "x/c/a", "", 24 * 6 * 7 / 8},
        {24, 6, "x/a y/b", "y/b", 24 * 2 / 2},
        {24, 6, "+c", "", 2 * 24 * 6 * 3 / 4},
        {24, 6, "y/b +c", "y/b", 2 * 24 * 2 * 3 / 4},
        {24, 6, "+c", "x/c", 24 * 6 * 3 / 4},
        {24, 6, "+a +c", "x/c/a", 24 * 6 * 7 / 8},
        {24, 6, "x/a", "y/a", 24 * 6 / 2 / 2},
        {24, 12, "x/c", "y/c", 24 * 12 / 4 * 3 / 4},
        {24, 6, "", "x/a", 0},
        {24, 6, "", "+a", 0},
        {7, 1, "x/c", "", 2 * 3}, /* padded: every rank sends its chunk of 2 to three others */
        {7, 1, "+c", "x/c", 2 * 3},
        {5, 3, "x/a", "y/a", 3 * 2}, /* 3 of 5 by 2 of 3 go to the other */
        {5, 1, "+c", "", 2 * 2 * 3}, /* a reduce-scatter and an all-gather of chunks of 2 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_dim dims[] = {{"x", cases[i].x, 1}, {"y", cases[i].y, 1}};
        weft_step steps[WEFT_MAX_STEPS];
        weft_layout from = read_layout(cases[i].from);
        assert_int_equal(weft_layout_steps(from, read_layout(cases[i].to), 2, steps), 1);
        int64_t got = weft_step_bytes(&m, &steps[0], from, 2, dims, WEFT_BF16);
        if (got != 2 * cases[i].elements)
            fail_msg("%s -> %s of %lld x %lld: %lld bytes, not %lld", cases[i].from, cases[i].to,
                     (long long)cases[i].x, (long long)cases[i].y, (long long)got,
                     (long long)(2 * cases[i].elements));
        assert_int_equal(weft_step_bytes(&m, &steps[0], from, 2, dims, WEFT_F64),
                         8 * cases[i].elements);
    }
}

/* Of every part of values of up to four dims, element by element: row after row of the whole. */
static void elements_have_their_place_in_the_whole(void **state)
{
    (void)state;
    dice d = {.seed = 5};
    for (int round = 0; round < 500; round++) {
        weft_tensor t = {.n_dims = roll(&d, 5)};
        int64_t n = 1;
        for (int k = 0; k < t.n_dims; k++) {
            t.whole[k] = 1 + roll(&d, 4);
            t.lo[k] = roll(&d, 2) ? roll(&d, (int)t.whole[k]) : 0;
            t.size[k] = roll(&d, 2) && t.lo[k] + 1 < t.whole[k] ? 1 : t.whole[k] - t.lo[k];
            n *= t.size[k];
        }
        for (int64_t i = 0; i < n; i++) {
            int64_t want = 0, rest = i, inner = n;
            for (int k = 0; k < t.n_dims; k++) {
                inner /= t.size[k];
                want = want * t.whole[k] + t.lo[k] + rest / inner;
                rest %= inner;
            }
            assert_int_equal(weft_global_index(&t, i), want);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_lists),
        cmocka_unit_test(spans_by_hand),
        cmocka_unit_test(spans_nest),
        cmocka_unit_test(layouts_print),
        cmocka_unit_test(steps_by_hand),
        cmocka_unit_test(any_layout_becomes_any_other),
        cmocka_unit_test(eight_axes_fit),
        cmocka_unit_test(bytes_by_hand),
        cmocka_unit_test(elements_have_their_place_in_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
