/* SPDX-License-Identifier: Apache-2.0 */
/* Products for the device "cpu". Blocks of both operands are widened to f32 and multiplied there,
 * and every element's terms are summed in f32 from the first to the last: however the result is cut
 * into blocks, whatever the instruction set, the bits are the same. */
#include "cpu.h"

#include <string.h>

enum {
    ROWS = 384, /* of a block of the result: a multiple of what `multiply` takes anywhere */
    COLUMNS = 512,
    DEPTH = 128, /* terms that are widened at once */
    MOST_ROWS = 12,
    MOST_COLUMNS = 32,
};

/* How a product is cut: as many blocks, nearly, for each thread. Sizes know no instruction set. */
typedef struct cut {
    int64_t rows, columns, down, across; /* of a block; blocks */
} cut;

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static cut cut_of(const f8_product *p, int threads)
{
    enum { PLENTY = 4 };
    int64_t padded = ceil_div(p->columns, MOST_COLUMNS) * MOST_COLUMNS;
    cut c = {.columns = f8_least(padded, COLUMNS), .down = ceil_div(p->rows, ROWS)};
    c.across = c.columns ? ceil_div(p->columns, c.columns) : 0;
    int64_t most = ceil_div(p->rows, MOST_ROWS);
    while (c.down < most && c.down * c.across < (int64_t)PLENTY * threads &&
           c.down * c.across % threads)
        c.down++;
    c.rows = c.down ? ceil_div(ceil_div(p->rows, c.down), MOST_ROWS) * MOST_ROWS : 0;
    c.down = c.rows ? ceil_div(p->rows, c.rows) : 0;
    return c;
}

/* Floats of a thread: a strip of a, a block of b, the block of the result. */
static int64_t floats_of(const cut *c)
{
    return (int64_t)DEPTH * MOST_ROWS + DEPTH * c->columns + c->rows * c->columns;
}

bool f8_product_accepts(const weft_call *call)
{
    return f8_is_operand(call->ins[0].dtype) && f8_is_operand(call->ins[1].dtype) &&
           call->ins[2].dtype == WEFT_F32 && call->ins[3].dtype == WEFT_F32 &&
           f8_is_half(&call->outs[0]);
}

size_t f8_product_workspace(const weft_call *call)
{
    f8_product p = f8_product_of(call);
    cut c = cut_of(&p, f8_threads(call));
    return (size_t)f8_threads(call) * (size_t)floats_of(&c) * sizeof(float);
}

weft_status f8_product_prepare(const weft_call *call, void **state, weft_error *err)
{
    *state = NULL;
    return f8_check_emulates(call, err);
}

typedef struct operand {
    const uint8_t *codes;
    const float *values;       /* what they stand for */
    int64_t n_rows, row, step; /* element (i, k) at i * row + k * step */
} operand;

typedef struct job {
    const weft_call *call;
    const f8_loops *loops;
    f8_product p;
    cut c;
    operand a, b;
} job;

/* to[k][i] for rows [from, from + width) and terms [k, k + depth); zero beyond the operand. */
static void widen(const operand *o, int64_t from, int64_t width, int64_t k, int64_t depth,
                  float *to)
{
    const uint8_t *codes = o->codes + from * o->row + k * o->step;
    const float *values = o->values;
    int64_t n = f8_least(width, o->n_rows - from), row = o->row, step = o->step;
    if (n < width)
        memset(to, 0, (size_t)(width * depth) * sizeof *to);
    if (row == 1)
        for (int64_t d = 0; d < depth; d++)
            for (int64_t i = 0; i < n; i++)
                to[d * width + i] = values[codes[i + d * step]];
    else
        for (int64_t i = 0; i < n; i++)
            for (int64_t d = 0; d < depth; d++)
                to[d * width + i] = values[codes[i * row + d]];
}

/* Terms [k, k + depth) of a block. b is widened in pieces of as many columns as are multiplied at
 * once; each lies in the nearest cache while it meets a strip of a, and b in the next one. */
static void add_terms(const job *j, float *a, float *b, float *sum, int64_t i, int64_t c, int64_t k,
                      int64_t depth)
{
    const f8_loops *loops = j->loops;
    int64_t rows = f8_least(j->c.rows, j->p.rows - i);
    int64_t columns = f8_least(j->c.columns, j->p.columns - c);
    for (int64_t q = 0; q < columns; q += loops->columns)
        widen(&j->b, c + q, loops->columns, k, depth, b + q * depth);
    for (int64_t r = 0; r < rows; r += loops->rows) {
        widen(&j->a, i + r, loops->rows, k, depth, a);
        for (int64_t q = 0; q < columns; q += loops->columns)
            loops->multiply(a, b + q * depth, sum + r * j->c.columns + q, j->c.columns, depth);
    }
}

static void put(const job *j, const float *sum, int64_t i, int64_t c)
{
    const weft_tensor *a = &j->call->ins[2], *b = &j->call->ins[3], *out = &j->call->outs[0];
    const float *of_a = a->data, *of_b = b->data;
    int64_t rows = f8_least(j->c.rows, j->p.rows - i);
    int64_t columns = f8_least(j->c.columns, j->p.columns - c);
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = ((i + r) * j->p.columns + c) * (int64_t)weft_dtype_size(out->dtype);
        j->loops->put(sum + r * j->c.columns, of_a[a->n_dims ? i + r : 0],
                      of_b + (b->n_dims ? c : 0), b->n_dims != 0, j->call->accumulate,
                      out->dtype == WEFT_BF16, columns, (char *)out->data + at);
    }
}

static void compute_block(const job *j, float *work, int64_t i, int64_t c)
{
    float *a = work, *b = a + DEPTH * MOST_ROWS, *sum = b + DEPTH * j->c.columns;
    memset(sum, 0, (size_t)(j->c.rows * j->c.columns) * sizeof *sum);
    for (int64_t k = 0; k < j->p.n; k += DEPTH)
        add_terms(j, a, b, sum, i, c, k, f8_least(DEPTH, j->p.n - k));
    put(j, sum, i, c);
}

weft_status f8_product_launch(const weft_call *call, weft_error *err)
{
    f8_product p = f8_product_of(call);
    int n_threads = f8_threads(call);
    const job j = {
        call,
        f8_loops_get(F8_AVX512),
        p,
        cut_of(&p, n_threads),
        {call->ins[0].data, weft_f8_values(call->ins[0].dtype), p.rows, p.a_row, p.a_step},
        {call->ins[1].data, weft_f8_values(call->ins[1].dtype), p.columns, p.b_row, p.b_step}};
    int64_t n = j.c.down * j.c.across, floats = floats_of(&j.c);
    if (call->workspace_bytes < f8_product_workspace(call))
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "%s: the workspace is smaller than for %d threads", call->op->name,
                         n_threads);
    n_threads = (int)f8_least(n_threads, n < 1 ? 1 : n);
    /* a share of the blocks for each piece of the workspace, whatever runs it */
#pragma omp parallel for schedule(static) num_threads(n_threads)
    for (int share = 0; share < n_threads; share++)
        for (int64_t i = share; i < n; i += n_threads)
            compute_block(&j, (float *)call->workspace + share * floats, i / j.c.across * j.c.rows,
                          i % j.c.across * j.c.columns);
    return WEFT_OK;
}
