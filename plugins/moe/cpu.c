/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for the device "cpu", in f32. What becomes of a row does not depend on which other rows
 * its expert has, nor on threads: every element is one sum in one order, and rows and columns at an
 * edge go through the same loops as others do. */
#include "moe.h"

#include <string.h>

enum { ROWS = 2, COLUMNS = 4, PANEL = 32 };

static int threads_of(const weft_call *call)
{
    return call->threads < 1 ? 1 : call->threads;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Compiled for several instruction sets, of which the processor takes the best when it starts. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif

/* ---- grouped products ---- */

/* A piece of work: rows of one expert. */
typedef struct piece {
    int64_t expert, first, count;
} piece;

/* The p-th panel of a run; of no rows where it has fewer. */
static piece piece_of(const moe_run *r, int64_t p)
{
    const int64_t count = least(PANEL, r->count - p * PANEL);
    return (piece){r->expert, r->first + p * PANEL, count < 0 ? 0 : count};
}

/* sum[i][j]: rows i and j of x and w, each of n. */
CLONES static void dots(const float *const x[ROWS], const float *const w[COLUMNS], int64_t n,
                        float sum[ROWS][COLUMNS])
{
    float a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
    const float *x0 = x[0], *x1 = x[1], *w0 = w[0], *w1 = w[1], *w2 = w[2], *w3 = w[3];
#pragma omp simd reduction(+ : a, b, c, d, e, f, g, h)
    for (int64_t i = 0; i < n; i++) {
        a += x0[i] * w0[i];
        b += x0[i] * w1[i];
        c += x0[i] * w2[i];
        d += x0[i] * w3[i];
        e += x1[i] * w0[i];
        f += x1[i] * w1[i];
        g += x1[i] * w2[i];
        h += x1[i] * w3[i];
    }
    memcpy(sum[0], (float[]){a, b, c, d}, sizeof sum[0]);
    memcpy(sum[1], (float[]){e, f, g, h}, sizeof sum[1]);
}

/* Rows [row, row + ROWS) and columns [j, j + COLUMNS) of a piece; beyond its end the last again. */
static void tile(const weft_call *call, const piece *p, int64_t row, int64_t j, int64_t n,
                 int64_t m)
{
    const float *x = call->ins[0].data, *w = call->ins[1].data, *at[ROWS], *from[COLUMNS];
    float *y = call->outs[0].data, sum[ROWS][COLUMNS];
    for (int64_t i = 0; i < ROWS; i++)
        at[i] = x + (p->first + least(row + i, p->count - 1)) * n;
    for (int64_t i = 0; i < COLUMNS; i++)
        from[i] = w + (p->expert * m + least(j + i, m - 1)) * n;
    dots(at, from, n, sum);
    for (int64_t i = 0; i < ROWS && row + i < p->count; i++)
        for (int64_t k = 0; k < COLUMNS && j + k < m; k++) {
            float *to = y + (p->first + row + i) * m + j + k;
            *to = sum[i][k] + (call->accumulate ? *to : 0);
        }
}

static void forward_piece(const weft_call *call, const piece *p, int64_t n, int64_t m)
{
    for (int64_t j = 0; j < m; j += COLUMNS)
        for (int64_t row = 0; row < p->count; row += ROWS)
            tile(call, p, row, j, n, m);
}

/* y += by[0] * from + by[step] * (the next row of from) + ..., n terms, one after the other. */
CLONES static void add_rows(float *y, int64_t width, const float *from, int64_t stride,
                            const float *by, int64_t step, int64_t n)
{
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const float a = by[i * step], b = by[(i + 1) * step], c = by[(i + 2) * step],
                    d = by[(i + 3) * step];
        const float *p = from + i * stride, *q = p + stride, *r = q + stride, *s = r + stride;
#pragma omp simd
        for (int64_t e = 0; e < width; e++)
            y[e] = (((y[e] + a * p[e]) + b * q[e]) + c * r[e]) + d * s[e];
    }
    for (; i < n; i++) {
        const float a = by[i * step], *p = from + i * stride;
#pragma omp simd
        for (int64_t e = 0; e < width; e++)
            y[e] += a * p[e];
    }
}

static void dx_piece(const weft_call *call, const piece *p, int64_t n, int64_t m)
{
    const float *dy = call->ins[0].data, *w = (const float *)call->ins[1].data + p->expert * n * m;
    for (int64_t row = p->first; row < p->first + p->count; row++) {
        float *y = (float *)call->outs[0].data + row * m;
        if (!call->accumulate)
            memset(y, 0, (size_t)m * sizeof *y);
        add_rows(y, m, w, m, dy + row * n, 1, n);
    }
}

static weft_status rows_launch(const weft_call *call, bool dx)
{
    const weft_tensor *x = &call->ins[0], *counts = &call->ins[2];
    const int64_t n = moe_last(x), m = moe_last(&call->outs[0]);
    const int64_t panels = (x->size[3] + PANEL - 1) / PANEL, runs = weft_tensor_count(counts);
#pragma omp parallel for schedule(dynamic) num_threads(threads_of(call))
    for (int64_t i = 0; i < runs * panels; i++) {
        const moe_run r = moe_run_of(x, counts, i / panels);
        const piece p = piece_of(&r, i % panels);
        if (dx)
            dx_piece(call, &p, n, m);
        else
            forward_piece(call, &p, n, m);
        if (i % panels == 0 && r.behind > 0 && !call->accumulate)
            memset((float *)call->outs[0].data + (r.first + r.count) * m, 0,
                   (size_t)(r.behind * m) * sizeof(float));
    }
    return WEFT_OK;
}

static weft_status grouped_launch(const weft_call *call, weft_error *err)
{
    (void)err;
    return rows_launch(call, false);
}

static weft_status grouped_dx_launch(const weft_call *call, weft_error *err)
{
    (void)err;
    return rows_launch(call, true);
}

/* One row of an expert's gradient: the sum over its rows, token group after token group. */
static void dw_row(const weft_call *call, int64_t expert, int64_t f, float *y)
{
    const weft_tensor *x = &call->ins[1], *counts = &call->ins[2];
    const int64_t m = moe_last(&call->ins[0]), n = moe_last(x),
                  panels = (x->size[3] + PANEL - 1) / PANEL;
    const float *dy = call->ins[0].data, *rows = x->data;
    if (!call->accumulate)
        memset(y, 0, (size_t)n * sizeof *y);
    for (int64_t i = expert; i < weft_tensor_count(counts); i += counts->size[2]) {
        const moe_run r = moe_run_of(x, counts, i);
        for (int64_t k = 0; k < panels; k++) {
            const piece p = piece_of(&r, k);
            add_rows(y, n, rows + p.first * n, n, dy + p.first * m + f, m, p.count);
        }
    }
}

static weft_status grouped_dw_launch(const weft_call *call, weft_error *err)
{
    const weft_tensor *w = &call->outs[0];
    const int64_t m = w->size[1], n = w->size[2];
    (void)err;
#pragma omp parallel for schedule(static) num_threads(threads_of(call))
    for (int64_t i = 0; i < w->size[0] * m; i++)
        dw_row(call, i / m, i % m, (float *)w->data + i * n);
    return WEFT_OK;
}

/* ---- rows to their slots, and back ---- */

static int64_t row_of(const weft_call *call, const weft_tensor *rows, int64_t element)
{
    return moe_row_of(&call->ins[1], &call->ins[2], rows,
                      weft_call_int(call, "experts") / rows->whole[2], element);
}

static size_t row_bytes(const weft_tensor *rows)
{
    return (size_t)rows->size[4] * weft_dtype_size(rows->dtype);
}

static weft_status dispatch_launch(const weft_call *call, weft_error *err)
{
    const weft_tensor *y = &call->outs[0], *chosen = &call->ins[1];
    const size_t bytes = row_bytes(y);
    const int64_t n = weft_tensor_count(chosen), k = chosen->size[2];
    (void)err;
    memset(y->data, 0, (size_t)weft_tensor_count(y) * weft_dtype_size(y->dtype));
#pragma omp parallel for schedule(static) num_threads(threads_of(call))
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = row_of(call, y, i);
        if (row >= 0)
            memcpy((char *)y->data + (size_t)row * bytes,
                   (const char *)call->ins[0].data + (size_t)(i / k) * bytes, bytes);
    }
    return WEFT_OK;
}

static weft_status combine_launch(const weft_call *call, weft_error *err)
{
    const weft_tensor *rows = &call->ins[0], *chosen = &call->ins[1], *y = &call->outs[0];
    const int64_t width = moe_last(y), k = chosen->size[2], n = weft_tensor_count(chosen) / k;
    (void)err;
#pragma omp parallel for schedule(static) num_threads(threads_of(call))
    for (int64_t token = 0; token < n; token++) {
        float *to = (float *)y->data + token * width;
        if (!call->accumulate)
            memset(to, 0, (size_t)width * sizeof *to);
        for (int64_t j = 0; j < k; j++) {
            const int64_t row = row_of(call, rows, token * k + j);
            const float *from = (const float *)rows->data + row * width;
#pragma omp simd
            for (int64_t e = 0; e < (row < 0 ? 0 : width); e++)
                to[e] += from[e];
        }
    }
    return WEFT_OK;
}

/* ---- rows times a number each ---- */

static weft_status slot_scale_launch(const weft_call *call, weft_error *err)
{
    const int64_t width = moe_last(&call->ins[0]), n = weft_tensor_count(&call->ins[1]);
    const float *x = call->ins[0].data, *w = call->ins[1].data;
    float *y = call->outs[0].data;
    (void)err;
#pragma omp parallel for schedule(static) num_threads(threads_of(call))
    for (int64_t i = 0; i < n; i++)
#pragma omp simd
        for (int64_t e = i * width; e < (i + 1) * width; e++)
            y[e] = x[e] * w[i];
    return WEFT_OK;
}

static weft_status slot_dot_launch(const weft_call *call, weft_error *err)
{
    const int64_t width = moe_last(&call->ins[0]), n = weft_tensor_count(&call->outs[0]);
    const float *a = call->ins[0].data, *b = call->ins[1].data;
    float *y = call->outs[0].data;
    (void)err;
#pragma omp parallel for schedule(static) num_threads(threads_of(call))
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t e = i * width; e < (i + 1) * width; e++)
            sum += a[e] * b[e];
        y[i] = sum;
    }
    return WEFT_OK;
}

#define KERNEL(op_, types_, adds, launch_)                                                         \
    {                                                                                              \
        .op = op_, .device = "cpu", .name = op_ "_f32", .priority = 10, .accumulates = adds,       \
        .types = types_, .launch = launch_                                                         \
    }

const weft_kernel moe_kernels[] = {KERNEL("grouped", "ffi>f", true, grouped_launch),
                                   KERNEL("grouped_dx", "ffi>f", true, grouped_dx_launch),
                                   KERNEL("grouped_dw", "ffi>f", true, grouped_dw_launch),
                                   KERNEL("dispatch", "fii>f", false, dispatch_launch),
                                   KERNEL("combine", "fii>f", true, combine_launch),
                                   KERNEL("slot_scale", "ff>f", false, slot_scale_launch),
                                   KERNEL("slot_dot", "ff>f", false, slot_dot_launch),
                                   {.op = NULL}};
