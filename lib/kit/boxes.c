/* SPDX-License-Identifier: Apache-2.0 */
/* What devices do with memory, done by the host. */
#include <weft/device.h>

#include <math.h>
#include <string.h>

/* ---- boxes ---- */

static void move_run(char *to, const char *from, int64_t bytes)
{
    if (from)
        memmove(to, from, (size_t)bytes);
    else
        memset(to, 0, (size_t)bytes);
}

static void move_plane(const weft_box *b, char *to, const char *from)
{
    for (int64_t i = 0; i < b->n[2]; i++)
        for (int64_t k = 0; k < b->n[3]; k++)
            move_run(to + i * b->to_stride[2] + k * b->to_stride[3],
                     from ? from + i * b->from_stride[2] + k * b->from_stride[3] : NULL, b->bytes);
}

static void move(const weft_box *b)
{
    char *to = b->to;
    const char *from = b->from;
    for (int64_t i = 0; i < b->n[0]; i++)
        for (int64_t k = 0; k < b->n[1]; k++)
            move_plane(b, to + i * b->to_stride[0] + k * b->to_stride[1],
                       from ? from + i * b->from_stride[0] + k * b->from_stride[1] : NULL);
}

void weft_boxes_move(const weft_box *boxes, int n)
{
    for (int i = 0; i < n; i++)
        if (boxes[i].bytes > 0)
            move(&boxes[i]);
}

/* ---- reductions ---- */

enum { PIECE = 2048 }; /* elements at a time */

bool weft_reduction_takes(weft_dtype dtype)
{
    return weft_dtype_is_float(dtype) && !weft_dtype_is_f8(dtype);
}

/* A NaN stays, wherever it comes from. */
static double larger(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

static void combine_f64(const weft_reduction *r, int64_t at, int64_t n, double *out)
{
    memcpy(out, (const double *)r->from[0] + at, (size_t)n * sizeof *out);
    for (int k = 1; k < r->n_from; k++) {
        const double *x = (const double *)r->from[k] + at;
        if (r->op == WEFT_REDUCE_SUM)
            for (int64_t i = 0; i < n; i++)
                out[i] += x[i];
        else
            for (int64_t i = 0; i < n; i++)
                out[i] = larger(out[i], x[i]);
    }
}

static void combine_f32(const weft_reduction *r, int64_t at, int64_t n, float *out)
{
    memcpy(out, (const float *)r->from[0] + at, (size_t)n * sizeof *out);
    for (int k = 1; k < r->n_from; k++) {
        const float *x = (const float *)r->from[k] + at;
        if (r->op == WEFT_REDUCE_SUM)
            for (int64_t i = 0; i < n; i++)
                out[i] += x[i];
        else
            for (int64_t i = 0; i < n; i++)
                out[i] = (float)larger(out[i], x[i]);
    }
}

static void combine_bf16(const weft_reduction *r, int64_t at, int64_t n, uint16_t *out)
{
    float wide[PIECE];
    for (int k = 0; k < r->n_from; k++) {
        const uint16_t *x = (const uint16_t *)r->from[k] + at;
        for (int64_t i = 0; i < n; i++) {
            float y = weft_bf16_to_f32(x[i]);
            wide[i] = k == 0                     ? y
                      : r->op == WEFT_REDUCE_SUM ? wide[i] + y
                                                 : (float)larger(wide[i], y);
        }
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = weft_f32_to_bf16(wide[i]);
}

/* A piece is made aside: one of `to` may be one of `from`. */
void weft_reduction_run(const weft_reduction *r)
{
    double piece[PIECE];
    size_t width = weft_dtype_size(r->dtype);
    for (int64_t at = 0; at < r->count; at += PIECE) {
        int64_t n = r->count - at < PIECE ? r->count - at : PIECE;
        if (r->dtype == WEFT_F64)
            combine_f64(r, at, n, piece);
        else if (r->dtype == WEFT_F32)
            combine_f32(r, at, n, (float *)(void *)piece);
        else
            combine_bf16(r, at, n, (uint16_t *)(void *)piece);
        for (int k = 0; k < r->n_to; k++)
            memcpy((char *)r->to[k] + (size_t)at * width, piece, (size_t)n * width);
    }
}
