/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for the device "cpu", in f32. A product widens tiles of both operands and sums in f32,
 * every element from the first term to the last: products of two values in 8 bits are exact, so
 * results depend neither on the CPU nor on threads. */
#include "float8.h"

#include <math.h>
#include <string.h>

enum {
    PIECE = 16384, /* elements of one piece of work */
    ROWS = 64,     /* of a tile */
    COLUMNS = 64,
    DEPTH = 256, /* terms that are widened at once */
    AT_ONCE = 4, /* rows of the inner loop */
    WIDE = 16,   /* its columns */
};

typedef float wide __attribute__((vector_size(WIDE * sizeof(float))));

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool is_half(const weft_tensor *t)
{
    return t->dtype == WEFT_F32 || t->dtype == WEFT_BF16;
}

static int threads_of(const weft_call *call)
{
    return call->threads < 1 ? 1 : call->threads;
}

static int team(const weft_call *call, int64_t pieces)
{
    int64_t most = threads_of(call);
    return (int)(pieces < 2 ? 1 : least(pieces, most));
}

static float load(const weft_tensor *t, int64_t i)
{
    return t->dtype == WEFT_BF16 ? weft_bf16_to_f32(((const uint16_t *)t->data)[i])
                                 : ((const float *)t->data)[i];
}

/* ---- amax ---- */

/* As bits, larger magnitudes are larger numbers, and a NaN is the largest. */
static uint32_t most_f32(const uint32_t *x, int64_t n)
{
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = x[i] & 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    return most;
}

static uint32_t most_bf16(const uint16_t *x, int64_t n)
{
    uint16_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        uint16_t bits = x[i] & 0x7fffu;
        most = bits > most ? bits : most;
    }
    return (uint32_t)most << 16;
}

static float amax_of(const weft_tensor *x, int64_t at, int64_t n)
{
    union {
        uint32_t u;
        float f;
    } v = {x->dtype == WEFT_BF16 ? most_bf16((const uint16_t *)x->data + at, n)
                                 : most_f32((const uint32_t *)x->data + at, n)};
    return v.f;
}

static float larger(float a, float b)
{
    return a > b || isnan(a) ? a : b;
}

/* Are the dims that are kept the first ones (all or none of them, too)? */
static bool keeps_first(const weft_call *call)
{
    int64_t places = weft_call_int(call, "places");
    return (places & (places + 1)) == 0;
}

/* The last ones? */
static bool keeps_last(const weft_call *call)
{
    int64_t all = ((int64_t)1 << call->ins[0].n_dims) - 1,
            gone = all & ~weft_call_int(call, "places");
    return gone != all && (gone & (gone + 1)) == 0;
}

static bool amax_accepts(const weft_call *call)
{
    return is_half(&call->ins[0]) && call->outs[0].dtype == WEFT_F32 &&
           (keeps_first(call) || keeps_last(call));
}

static void amax_rows(const weft_call *call, int64_t rows, int64_t n)
{
    float *out = call->outs[0].data;
#pragma omp parallel for schedule(static) num_threads(team(call, rows *n / PIECE))
    for (int64_t r = 0; r < rows; r++)
        out[r] = amax_of(&call->ins[0], r * n, n);
}

static void amax_whole(const weft_call *call, int64_t n)
{
    float *out = call->outs[0].data, most = 0;
    int64_t pieces = (n + PIECE - 1) / PIECE;
    uint32_t bits = 0;
#pragma omp parallel for schedule(static) num_threads(team(call, pieces)) reduction(max : bits)
    for (int64_t i = 0; i < pieces; i++) {
        float x = amax_of(&call->ins[0], i * PIECE, least(PIECE, n - i * PIECE));
        uint32_t mine;
        memcpy(&mine, &x, sizeof mine);
        bits = mine > bits ? mine : bits;
    }
    memcpy(&most, &bits, sizeof most);
    *out = most;
}

static void amax_columns(const weft_call *call, int64_t n, int64_t columns)
{
    float *out = call->outs[0].data;
    int64_t pieces = (columns + ROWS - 1) / ROWS;
#pragma omp parallel for schedule(static) num_threads(team(call, n *columns / PIECE))
    for (int64_t p = 0; p < pieces; p++) {
        int64_t from = p * ROWS, to = least(from + ROWS, columns);
        for (int64_t c = from; c < to; c++)
            out[c] = 0;
        for (int64_t i = 0; i < n; i++)
            for (int64_t c = from; c < to; c++)
                out[c] = larger(out[c], fabsf(load(&call->ins[0], i * columns + c)));
    }
}

static weft_status amax_launch(const weft_call *call, weft_error *err)
{
    int64_t n = weft_tensor_count(&call->ins[0]), kept = weft_tensor_count(&call->outs[0]);
    (void)err;
    if (kept == 0)
        return WEFT_OK;
    if (call->outs[0].n_dims == 0)
        amax_whole(call, n);
    else if (keeps_first(call))
        amax_rows(call, kept, n / kept);
    else
        amax_columns(call, n / kept, kept);
    return WEFT_OK;
}

/* ---- quantise ---- */

static bool quantise_accepts(const weft_call *call)
{
    return is_half(&call->ins[0]) && call->ins[1].dtype == WEFT_F32 &&
           weft_dtype_is_f8(call->outs[0].dtype) && (keeps_first(call) || keeps_last(call));
}

static uint8_t quantised(float x, float scale, bool e5m2)
{
    return weft_f32_to_f8(isinf(x) ? NAN : x * scale, e5m2);
}

/* Elements [at, at + n): each has a scale of its own, or (step 0) all the same. */
static void quantise_piece(const weft_tensor *x, const float *scale, int64_t step, int64_t at,
                           int64_t n, bool e5m2, uint8_t *out)
{
    if (x->dtype == WEFT_F32 && e5m2)
        for (int64_t i = 0; i < n; i++)
            out[i] = quantised(((const float *)x->data)[at + i], scale[i * step], true);
    else if (x->dtype == WEFT_F32)
        for (int64_t i = 0; i < n; i++)
            out[i] = quantised(((const float *)x->data)[at + i], scale[i * step], false);
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = quantised(load(x, at + i), scale[i * step], e5m2);
}

static weft_status quantise_launch(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0], *scale = &call->ins[1], *out = &call->outs[0];
    int64_t n = weft_tensor_count(x), kept = weft_tensor_count(scale);
    bool e5m2 = out->dtype == WEFT_F8E5M2, first = keeps_first(call);
    (void)err;
    if (n == 0)
        return WEFT_OK;
    /* a row has one scale, or a row of scales */
    int64_t width = first ? n / kept : kept, step = first ? 0 : 1;
    int64_t length = width < PIECE ? width : PIECE, pieces = (width + length - 1) / length;
#pragma omp parallel for schedule(static) num_threads(team(call, n / PIECE))
    for (int64_t p = 0; p < n / width * pieces; p++) {
        int64_t row = p / pieces, from = p % pieces * length;
        quantise_piece(x, (const float *)scale->data + (first ? row : from), step,
                       row * width + from, least(length, width - from), e5m2,
                       (uint8_t *)out->data + row * width + from);
    }
    return WEFT_OK;
}

/* ---- products ---- */

typedef struct tiles {
    float a[ROWS * DEPTH], b[DEPTH * COLUMNS], c[ROWS * COLUMNS];
} tiles;

static bool product_accepts(const weft_call *call)
{
    return weft_dtype_is_f8(call->ins[0].dtype) && weft_dtype_is_f8(call->ins[1].dtype) &&
           call->ins[2].dtype == WEFT_F32 && call->ins[3].dtype == WEFT_F32 &&
           is_half(&call->outs[0]);
}

static size_t product_workspace(const weft_call *call)
{
    return (size_t)threads_of(call) * sizeof(tiles);
}

static weft_status product_prepare(const weft_call *call, void **state, weft_error *err)
{
    *state = NULL;
    return f8_check_emulates(call, err);
}

/* c[row][.] += a[row][.] b for AT_ONCE rows. */
static void add_rows(const float *a, const float *b, float *c, int64_t depth)
{
    for (int j = 0; j < COLUMNS; j += WIDE) {
        wide sum[AT_ONCE];
        for (int r = 0; r < AT_ONCE; r++)
            memcpy(&sum[r], c + r * COLUMNS + j, sizeof sum[r]);
        for (int64_t k = 0; k < depth; k++) {
            wide x;
            memcpy(&x, b + k * COLUMNS + j, sizeof x);
            for (int r = 0; r < AT_ONCE; r++)
                sum[r] += a[r * DEPTH + k] * x;
        }
        for (int r = 0; r < AT_ONCE; r++)
            memcpy(c + r * COLUMNS + j, &sum[r], sizeof sum[r]);
    }
}

typedef struct job {
    const weft_call *call;
    f8_product p;
    const float *of_a, *of_b; /* what codes stand for */
} job;

/* a as [row][k], b as [k][column]; what is beyond the operands is zero. */
static void widen(const job *j, tiles *t, int64_t i, int64_t rows, int64_t c, int64_t columns,
                  int64_t k, int64_t depth)
{
    const uint8_t *a = j->call->ins[0].data, *b = j->call->ins[1].data;
    const f8_product *p = &j->p;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t d = 0; d < depth; d++)
            t->a[r * DEPTH + d] = j->of_a[a[(i + r) * p->a_row + (k + d) * p->a_step]];
    for (int64_t r = rows; r < (rows + AT_ONCE - 1) / AT_ONCE * AT_ONCE; r++)
        memset(t->a + r * DEPTH, 0, (size_t)depth * sizeof *t->a);
    for (int64_t d = 0; d < depth; d++) {
        for (int64_t q = 0; q < columns; q++)
            t->b[d * COLUMNS + q] = j->of_b[b[(c + q) * p->b_row + (k + d) * p->b_step]];
        for (int64_t q = columns; q < COLUMNS; q++)
            t->b[d * COLUMNS + q] = 0;
    }
}

static void put(const job *j, const tiles *t, int64_t i, int64_t rows, int64_t c, int64_t columns)
{
    const weft_call *call = j->call;
    const weft_tensor *a = &call->ins[2], *b = &call->ins[3], *out = &call->outs[0];
    const float *of_a = a->data, *of_b = b->data;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t q = 0; q < columns; q++) {
            int64_t at = (i + r) * j->p.columns + c + q;
            float y =
                t->c[r * COLUMNS + q] / of_a[a->n_dims ? i + r : 0] / of_b[b->n_dims ? c + q : 0];
            y += call->accumulate ? load(out, at) : 0;
            if (out->dtype == WEFT_BF16)
                ((uint16_t *)out->data)[at] = weft_f32_to_bf16(y);
            else
                ((float *)out->data)[at] = y;
        }
}

static void compute_tile(const job *j, tiles *t, int64_t i, int64_t c)
{
    int64_t rows = least(ROWS, j->p.rows - i), columns = least(COLUMNS, j->p.columns - c);
    memset(t->c, 0, sizeof t->c);
    for (int64_t k = 0; k < j->p.n; k += DEPTH) {
        int64_t depth = least(DEPTH, j->p.n - k);
        widen(j, t, i, rows, c, columns, k, depth);
        for (int64_t r = 0; r < rows; r += AT_ONCE)
            add_rows(t->a + r * DEPTH, t->b, t->c + r * COLUMNS, depth);
    }
    put(j, t, i, rows, c, columns);
}

static weft_status product_launch(const weft_call *call, weft_error *err)
{
    const job j = {call, f8_product_of(call), weft_f8_values(call->ins[0].dtype),
                   weft_f8_values(call->ins[1].dtype)};
    int n_threads = threads_of(call);
    int64_t across = (j.p.columns + COLUMNS - 1) / COLUMNS;
    int64_t n = (j.p.rows + ROWS - 1) / ROWS * across;
    if (call->workspace_bytes < product_workspace(call))
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "%s: the workspace is smaller than for %d threads", call->op->name,
                         n_threads);
    n_threads = (int)least(n_threads, n < 1 ? 1 : n);
    /* a share of the tiles for each piece of the workspace, whatever runs it */
#pragma omp parallel for schedule(static) num_threads(n_threads)
    for (int share = 0; share < n_threads; share++)
        for (int64_t i = share; i < n; i += n_threads)
            compute_tile(&j, (tiles *)call->workspace + share, i / across * ROWS,
                         i % across * COLUMNS);
    return WEFT_OK;
}

#define PRODUCT(name_)                                                                             \
    {                                                                                              \
        .op = name_, .device = "cpu", .name = "float8_widened", .priority = 10,                    \
        .accumulates = true, .accepts = product_accepts, .workspace = product_workspace,           \
        .prepare = product_prepare, .launch = product_launch                                       \
    }

const weft_kernel f8_cpu_kernels[] = {
    {.op = "float8_amax",
     .device = "cpu",
     .name = "float8_amax_f32",
     .priority = 10,
     .accepts = amax_accepts,
     .launch = amax_launch},
    {.op = "float8_quantise",
     .device = "cpu",
     .name = "float8_quantise_f32",
     .priority = 10,
     .accepts = quantise_accepts,
     .launch = quantise_launch},
    PRODUCT("float8_linear"),
    PRODUCT("float8_linear_rows"),
    PRODUCT("float8_linear_dx"),
    PRODUCT("float8_linear_dw"),
    {.op = NULL},
};
