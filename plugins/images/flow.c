/* SPDX-License-Identifier: Apache-2.0 */
/* From noise to pictures by Euler's steps of rectified flow (Liu et al., "Flow straight and fast",
 * 2022): the model says which way noise lies, and each step goes a part of it back. What is between
 * two steps is whole on every rank, in f64. */
#include "images.h"

#include <math.h>
#include <string.h>

bool images_shifts(const images *m)
{
    return m->shift == IMAGES_BY_PLACES || (m->shift == IMAGES_BY_MODEL && m->model.guided);
}

/* More places need more noise to hide the same picture, so steps lie nearer to the noise (Esser et
 * al., 2024): t becomes e^mu / (e^mu + 1/t - 1), with mu on a line through two sizes. */
double images_noise_before(const images *m, int64_t i)
{
    const double places = (double)(m->model.rows * m->model.columns),
                 mu =
                     m->base_shift + (m->max_shift - m->base_shift) * (places - 256) / (4096 - 256),
                 t = (double)(m->steps - i) / (double)m->steps;
    if (i == m->steps || !images_shifts(m))
        return t;
    return exp(mu) / (exp(mu) + 1 / t - 1);
}

/* Some pictures at a time: with cfg, a row of the prompt for each and then a row of the empty text
 * for each. */
typedef struct group {
    const images *m;
    const weft_run_view *run;
    weft_batch *batch;
    int64_t rows, pictures;        /* of the batch; at a time */
    double *x, *t5, *clip, *alike; /* [rows ...], [rows] */
} group;

static void release(group *g)
{
    weft_batch_destroy(g->batch);
    weft_free(g->x);
    weft_free(g->t5);
    weft_free(g->clip);
    weft_free(g->alike);
}

/* The rows of the empty text, which stay. */
static weft_status read_empty(group *g, weft_error *err)
{
    const images_model *o = &g->m->model;
    const int64_t t5 = o->text * o->t5, clip = o->clip, first = g->pictures;
    weft_status s =
        images_read_prompt(g->m, 0, true, g->t5 + first * t5, g->clip + first * clip, err);
    for (int64_t r = first + 1; r < g->rows && !s; r++) {
        memcpy(g->t5 + r * t5, g->t5 + first * t5, (size_t)t5 * sizeof *g->t5);
        memcpy(g->clip + r * clip, g->clip + first * clip, (size_t)clip * sizeof *g->clip);
    }
    return s;
}

/* With cfg both rows of a picture are at the same place. */
static void copy_places(const group *g)
{
    const int64_t n = g->pictures * images_points(&g->m->model);
    if (g->rows > g->pictures)
        memcpy(g->x + n, g->x, (size_t)n * sizeof *g->x);
}

static weft_status init(group *g, const images *m, const weft_run_view *run, weft_error *err)
{
    const images_model *o = &m->model;
    const int64_t rows = images_rows(m);
    *g = (group){.m = m, .run = run, .rows = rows, .pictures = m->batch};
    g->x = weft_alloc((size_t)(rows * images_points(o)) * sizeof(double));
    g->t5 = weft_alloc((size_t)(rows * o->text * o->t5) * sizeof(double));
    g->clip = weft_alloc((size_t)(rows * o->clip) * sizeof(double));
    g->alike = weft_alloc((size_t)rows * sizeof(double));
    if (!g->x || !g->t5 || !g->clip || !g->alike)
        return weft_fail_memory(err);
    weft_status s = rows > m->batch ? read_empty(g, err) : WEFT_OK;
    return s ? s : weft_batch_create(run->core, WEFT_MODE_GENERATE, 1, &g->batch, err);
}

/* This rank's part of a whole input. */
static void fill(const group *g, const char *name, const double *whole)
{
    weft_tensor t;
    void *data = weft_batch_input(g->batch, 0, name, &t);
    if (!data)
        return;
    t.data = data;
    for (int64_t i = 0, n = weft_tensor_count(&t); i < n; i++) {
        int64_t rest = i, at = 0, stride = 1;
        for (int d = t.n_dims - 1; d >= 0; d--) {
            at += (t.lo[d] + rest % t.size[d]) * stride;
            rest /= t.size[d];
            stride *= t.whole[d];
        }
        weft_tensor_set(&t, i, whole[at]);
    }
}

static void fill_alike(const group *g, const char *name, double x)
{
    for (int64_t r = 0; r < g->rows; r++)
        g->alike[r] = x;
    fill(g, name, g->alike);
}

/* Pictures from `first` on; a group that is not full has its last one several times. */
static weft_status begin(const group *g, int64_t first, weft_error *err)
{
    const images *m = g->m;
    const images_model *o = &m->model;
    const int64_t n = images_points(o);
    weft_status s = WEFT_OK;
    for (int64_t r = 0; r < g->pictures && !s; r++) {
        const int64_t k = first + r < m->n ? first + r : m->n - 1;
        s = images_read_prompt(m, k, false, g->t5 + r * o->text * o->t5, g->clip + r * o->clip,
                               err);
        s = s ? s : images_read_noise(m, k, g->x + r * n, err);
    }
    if (s)
        return s;
    copy_places(g);
    weft_fill_step(g->batch, g->run->step);
    fill(g, "text", g->t5);
    fill(g, "clip", g->clip);
    fill_alike(g, "guidance", m->guidance);
    return WEFT_OK;
}

/* x goes on by `part` of the way that the model says. */
static void move(const group *g, const weft_tensor *way, double part)
{
    const int64_t n = g->pictures * images_points(&g->m->model);
    const bool twice = g->rows > g->pictures;
    for (int64_t i = 0; i < n; i++) {
        double v = weft_tensor_get(way, i);
        if (twice) {
            const double empty = weft_tensor_get(way, n + i);
            v = empty + g->m->cfg * (v - empty);
        }
        g->x[i] += part * v;
    }
    copy_places(g);
}

static weft_status step(const group *g, int64_t i, bool begun, weft_error *err)
{
    weft_run *run = g->run->core;
    const double t = images_noise_before(g->m, i), next = images_noise_before(g->m, i + 1);
    weft_tensor way;
    fill(g, "image", g->x);
    fill_alike(g, "time", t);
    weft_status s = weft_run_feed(run, g->batch, err);
    if (!s && !begun)
        s = weft_run_parts(run, WEFT_MODE_GENERATE, WEFT_PART_BEGIN, WEFT_PART_BEGIN, NULL, err);
    s = s ? s : weft_run_parts(run, WEFT_MODE_GENERATE, WEFT_PART_F, WEFT_PART_STEP_END, NULL, err);
    s = s ? s
          : weft_run_value(run, WEFT_MODE_GENERATE, weft_run_output(run, WEFT_MODE_GENERATE), &way,
                           err);
    if (!s)
        move(g, &way, next - t);
    return s;
}

/* Pictures from `first` on, to where they belong. */
static void keep(const group *g, int64_t first, const weft_tensor *to)
{
    const images *m = g->m;
    const int64_t n = images_points(&m->model);
    for (int64_t r = 0; r < g->pictures && first + r < m->n && to->size[0] > 0; r++)
        for (int64_t i = 0; i < n; i++)
            weft_tensor_set(to, (first + r) * n + images_point(&m->model, i), g->x[r * n + i]);
}

weft_status images_make(const images *m, const weft_run_view *run, const weft_tensor *to,
                        weft_error *err)
{
    bool begun = false;
    group g;
    weft_status s = init(&g, m, run, err);
    for (int64_t first = 0; first < m->n && !s; first += g.pictures) {
        s = begin(&g, first, err);
        for (int64_t i = 0; i < m->steps && !s; i++, begun = true)
            s = step(&g, i, begun, err);
        if (!s)
            keep(&g, first, to);
    }
    release(&g);
    return s;
}
