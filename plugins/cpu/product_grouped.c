/* SPDX-License-Identifier: Apache-2.0 */
/* grouped and its gradients, ops of the plugin moe: products of each expert's rows with its weight.
 * Rows [batch seq groups slots width] of an expert lie together, in its group's slots, in the order
 * of experts [batch seq experts] whose counts say how many they are. That is known at the launch
 * alone, so tiles.h multiplies, of which no sum depends on how many rows there are, nor on threads.
 * The tiles of all experts are one list, of which every thread takes what comes next. */
#include "tiles.h"

#include <math.h>
#include <omp.h>
#include <string.h>

/* The rows of an expert in a part of the batch and the sequence. */
typedef struct run {
    int64_t expert, first, count; /* expert: of those here */
    int64_t behind;               /* slots behind it that no expert has */
    int64_t tiles;                /* of all runs before it */
} run;

typedef struct work {
    cpu_matmul_shape shape; /* of a run, which says m, or k of a weight's gradient */
    const cpu_gemm *gemm;
    int64_t floats; /* of each thread */
    bool dw;
    int64_t runs, experts;
    int64_t rows; /* the most of a tile */
    int threads;
    run *list;
    float *room;
} work;

static int64_t width(const weft_tensor *t)
{
    return t->size[t->n_dims - 1];
}

/* Rows that a run may have, where its memory is measured. */
enum { MOST = 1 << 20 };

static work with_room(work w)
{
    w.floats = w.gemm->floats(&w.shape);
    w.list = (run *)(void *)(w.room ? w.room + w.threads * w.floats : NULL);
    return w;
}

static work work_of(const weft_call *call)
{
    const weft_tensor *a = &call->ins[0], *counts = &call->ins[2], *c = &call->outs[0];
    work w = {.dw = strcmp(call->op->name, "grouped_dw") == 0,
              .runs = weft_tensor_count(counts),
              .experts = counts->size[2],
              .gemm = a->dtype == WEFT_BF16 ? cpu_product_gemm_own(call) : NULL,
              .threads = cpu_threads_for(call, call->op->flops(call)),
              .room = call->workspace};
    cpu_matmul_shape *s = &w.shape;
    *s = (cpu_matmul_shape){.ab = a->dtype, .c = c->dtype, .add = call->accumulate};
    s->n = s->c_row = width(c);
    s->m = s->k = MOST;
    w.gemm = w.gemm ? w.gemm : &cpu_gemm_vectors; /* oneDNN wants to know how many rows there are */
    w.rows = w.gemm->rows;
    if (w.dw) { /* dw[m, n] = dy[k, m]' x[k, n] */
        s->m = s->a_col = width(a), s->a_row = 1;
        s->b_row = s->n, s->b_col = 1;
        return with_room(w);
    }
    const bool dx = strcmp(call->op->name, "grouped_dx") == 0;
    s->k = s->a_row = width(a), s->a_col = 1;
    s->b_row = dx ? s->n : 1, s->b_col = dx ? 1 : s->k;
    return with_room(w);
}

/* A weight's gradient is a sum over runs, and rounded once. */
bool cpu_grouped_accepts(const weft_call *call)
{
    const weft_tensor *a = &call->ins[0], *b = &call->ins[1], *counts = &call->ins[2],
                      *c = &call->outs[0];
    if (call->n_ins != 3 || call->n_outs != 1 || a->n_dims != 5 || counts->n_dims != 3 ||
        counts->dtype != WEFT_I32 || a->dtype != b->dtype || !call->op->flops)
        return false;
    const bool dw = strcmp(call->op->name, "grouped_dw") == 0;
    return (a->dtype == WEFT_F32 && c->dtype == WEFT_F32) ||
           (a->dtype == WEFT_BF16 &&
            (c->dtype == WEFT_F32 ||
             (c->dtype == WEFT_BF16 && (!dw || counts->size[0] * counts->size[1] == 1))));
}

size_t cpu_grouped_workspace(const weft_call *call)
{
    const work w = work_of(call);
    return (size_t)(w.threads * w.floats) * sizeof(float) + (size_t)w.runs * sizeof(run);
}

/* Rows a[0] and, of a weight's gradient, b have. */
static const weft_tensor *rows_of(const weft_call *call)
{
    return &call->ins[0];
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How many tiles all runs are. No count is believed to be more than there are slots. */
static int64_t list_runs(const weft_call *call, work *w)
{
    const weft_tensor *counts = &call->ins[2], *rows = rows_of(call);
    const int64_t each = counts->whole[2] / rows->whole[2], slots = rows->size[3];
    int64_t tiles = 0, at = 0, end = 0;
    cpu_matmul_shape s = w->shape;
    for (int64_t i = 0; i < w->runs; i++) {
        const int64_t group = i / w->experts, expert = i % w->experts;
        const int32_t wanted = ((const int32_t *)counts->data)[i];
        if (expert % each == 0) {
            at = (group * rows->size[2] + expert / each) * slots;
            end = at + slots;
        }
        s.m = least(wanted < 0 ? 0 : wanted, end - at);
        w->list[i] = (run){.expert = expert, .first = at, .count = s.m, .tiles = tiles};
        at += s.m;
        w->list[i].behind = expert % each == each - 1 ? end - at : 0;
        tiles += w->dw || s.m * s.n == 0 ? 0 : cpu_tiles_count(w->gemm, &s, w->rows);
    }
    return tiles;
}

static char *element(const weft_tensor *t, int64_t i)
{
    return (char *)t->data + i * (int64_t)weft_dtype_size(t->dtype);
}

static void clear(const weft_tensor *t, int64_t from, int64_t n)
{
    memset(element(t, from), 0, (size_t)n * weft_dtype_size(t->dtype));
}

static float *room_of(const work *w)
{
    return w->room + omp_get_thread_num() * w->floats;
}

/* ---- rows by weight ---- */

/* The run that the t-th tile is of: the last that begins there or before, and has some. */
static const run *run_at(const work *w, int64_t t)
{
    int64_t from = 0, to = w->runs;
    while (to - from > 1) {
        const int64_t middle = (from + to) / 2;
        *(w->list[middle].tiles <= t ? &from : &to) = middle;
    }
    return &w->list[from];
}

static void multiply_rows(const weft_call *call, const work *w, int64_t t)
{
    const run *r = run_at(w, t);
    cpu_matmul_shape s = w->shape;
    s.m = r->count;
    w->gemm->tile(&s, element(&call->ins[0], r->first * s.k),
                  element(&call->ins[1], r->expert * s.k * s.n),
                  element(&call->outs[0], r->first * s.n),
                  cpu_tiles_at(w->gemm, &s, w->rows, t - r->tiles), room_of(w));
}

static void launch_rows(const weft_call *call, const work *w, int64_t tiles)
{
    const int64_t n = w->shape.n;
#pragma omp parallel num_threads(w->threads)
    {
#pragma omp for schedule(static) nowait
        for (int64_t i = 0; i < (call->accumulate ? 0 : w->runs); i++)
            clear(&call->outs[0], (w->list[i].first + w->list[i].count) * n, w->list[i].behind * n);
#pragma omp for schedule(dynamic)
        for (int64_t t = 0; t < tiles; t++)
            multiply_rows(call, w, t);
    }
}

/* ---- the gradient of the weights ---- */

/* The sum over an expert's runs, one after the other. */
static void multiply_weight(const weft_call *call, const work *w, int64_t expert, cpu_tile tile)
{
    const weft_tensor *dw = &call->outs[0];
    cpu_matmul_shape s = w->shape;
    const int64_t at = expert * s.m * s.n;
    for (int64_t i = expert; i < w->runs; i += w->experts) {
        const run *r = &w->list[i];
        s.k = r->count;
        if (r->count == 0)
            continue;
        w->gemm->tile(&s, element(&call->ins[0], r->first * s.m),
                      element(&call->ins[1], r->first * s.n), element(dw, at), tile, room_of(w));
        s.add = true;
    }
    for (int64_t i = tile.i; i < tile.i + tile.m && !s.add; i++)
        clear(dw, at + i * s.n + tile.j, tile.n);
}

static void launch_weight(const weft_call *call, const work *w)
{
    const int64_t each = cpu_tiles_count(w->gemm, &w->shape, w->rows);
#pragma omp parallel for schedule(dynamic) num_threads(w->threads)
    for (int64_t t = 0; t < w->experts * each; t++)
        multiply_weight(call, w, t / each, cpu_tiles_at(w->gemm, &w->shape, w->rows, t % each));
}

weft_status cpu_grouped_launch(const weft_call *call, weft_error *err)
{
    work w = work_of(call);
    const weft_tensor *y = &call->outs[0];
    weft_status status = cpu_check_workspace(call, cpu_grouped_workspace(call), err);
    if (status || weft_tensor_count(y) == 0)
        return status;
    const bool nothing = w.runs == 0 || (!w.dw && w.shape.k == 0);
    if (nothing && !call->accumulate)
        clear(y, 0, weft_tensor_count(y));
    if (nothing)
        return WEFT_OK;
    int64_t tiles = list_runs(call, &w);
    w.rows = cpu_tiles_rows(
        w.gemm, w.dw ? w.experts * cpu_tiles_count(w.gemm, &w.shape, w.rows) : tiles, w.threads);
    if (w.rows < w.gemm->rows)
        tiles = list_runs(call, &w);
    if (w.dw)
        launch_weight(call, &w);
    else
        launch_rows(call, &w, tiles);
    return WEFT_OK;
}
