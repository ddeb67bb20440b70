/* SPDX-License-Identifier: Apache-2.0 */
/* newton_schulz (muon's): a stack of matrices [slots ... rows cols], each brought to singular
 * values of about 1 by steps X -> a X + (b S + c S S) X with S = X X', or X -> a X + X (b S + c S
 * S) with S = X' X where that is smaller. All in f32, bf16 at both ends. */
#include "cpu.h"
#include "sliced.h"

#include <math.h>

enum { PIECE = 16384 }; /* elements: what a sum is made of, whatever the number of threads */

typedef enum step_product { SQUARE, TWICE, APPLY, PRODUCTS } step_product;

typedef struct matrices {
    int64_t n, each; /* on this rank, of these in a slot */
    int64_t rows, cols, least;
} matrices;

typedef struct prepared {
    matrices m;
    int threads;
    cpu_sliced *product[PRODUCTS];
} prepared;

/* Where a launch works. */
typedef struct room {
    float *x, *y, *s, *p;
    double *sums;
    void *scratch;
    size_t bytes;
} room;

static matrices matrices_of(const weft_call *call)
{
    const weft_tensor *t = &call->ins[0];
    matrices m = {.each = 1, .rows = t->size[t->n_dims - 2], .cols = t->size[t->n_dims - 1]};
    for (int d = 1; d < t->n_dims - 2; d++)
        m.each *= t->size[d];
    m.n = m.rows > 0 && m.cols > 0 ? m.each * t->size[0] : 0;
    m.least = m.rows < m.cols ? m.rows : m.cols;
    return m;
}

static cpu_matmul_shape shape_of(const matrices *m, step_product which)
{
    bool wide = m->rows <= m->cols;
    cpu_matmul_shape s = {.m = m->least, .n = m->least, .k = m->least, .ab = WEFT_F32};
    s.c = WEFT_F32;
    s.a_row = s.b_row = s.c_row = m->least;
    s.a_col = s.b_col = 1;
    if (which == SQUARE) {
        s.k = wide ? m->cols : m->rows;
        s.a_row = wide ? m->cols : 1, s.a_col = wide ? 1 : m->cols;
        s.b_row = wide ? 1 : m->cols, s.b_col = wide ? m->cols : 1;
    } else if (which == APPLY) {
        s.m = m->rows, s.n = m->cols, s.add = true;
        s.a_row = wide ? m->least : m->cols;
        s.b_row = s.c_row = m->cols;
    }
    return s;
}

static int threads_of(const weft_call *call, const matrices *m)
{
    double most = (double)(m->rows > m->cols ? m->rows : m->cols), least = (double)m->least;
    return cpu_threads_for(call, 2 * most * least * least);
}

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* at NULL: how much it takes. */
static room lay_out(const matrices *m, int threads, void *at)
{
    size_t matrix = aligned((size_t)(m->rows * m->cols) * sizeof(float)),
           square = aligned((size_t)(m->least * m->least) * sizeof(float)),
           sums = aligned((size_t)((m->rows * m->cols + PIECE - 1) / PIECE) * sizeof(double)),
           most = 0;
    for (int i = 0; i < PRODUCTS; i++) {
        cpu_matmul_shape shape = shape_of(m, (step_product)i);
        size_t scratch = cpu_sliced_scratch(&shape, threads);
        most = scratch != SIZE_MAX && scratch > most ? scratch : most; /* prepare will say why */
    }
    room r = {.bytes = 2 * matrix + 2 * square + sums + most};
    char *base = at;
    if (!at)
        return r;
    r.x = (void *)base, r.y = (void *)(base + matrix);
    r.s = (void *)(base + 2 * matrix), r.p = (void *)(base + 2 * matrix + square);
    r.sums = (void *)(base + 2 * matrix + 2 * square);
    r.scratch = base + 2 * matrix + 2 * square + sums;
    return r;
}

bool cpu_newton_schulz_accepts(const weft_call *call)
{
    matrices m = matrices_of(call);
    return m.rows <= INT32_MAX / 2 && m.cols <= INT32_MAX / 2;
}

size_t cpu_newton_schulz_workspace(const weft_call *call)
{
    matrices m = matrices_of(call);
    return m.n == 0 ? 0 : lay_out(&m, threads_of(call, &m), NULL).bytes;
}

void cpu_newton_schulz_release(void *state)
{
    prepared *p = state;
    for (int i = 0; p && i < PRODUCTS; i++)
        cpu_sliced_destroy(p->product[i]);
    weft_free(p);
}

weft_status cpu_newton_schulz_prepare(const weft_call *call, void **state, weft_error *err)
{
    prepared *p = weft_alloc_zero(1, sizeof *p);
    if (!p)
        return weft_fail_memory(err);
    p->m = matrices_of(call);
    p->threads = threads_of(call, &p->m);
    weft_status status = WEFT_OK;
    for (int i = 0; i < PRODUCTS && p->m.n > 0 && status == WEFT_OK; i++) {
        cpu_matmul_shape shape = shape_of(&p->m, (step_product)i);
        status = cpu_sliced_create(&shape, p->threads, &p->product[i], err);
    }
    if (status != WEFT_OK)
        cpu_newton_schulz_release(p);
    else
        *state = p;
    return status;
}

/* to = u x + v y, element by element. */
static void mix(int threads, int64_t n, float u, const float *x, float v, const float *y, float *to)
{
#pragma omp parallel for simd schedule(static) num_threads(threads)
    for (int64_t i = 0; i < n; i++)
        to[i] = u * x[i] + v * y[i];
}

/* Widens, and divides by the norm. */
static void begin(const prepared *p, const weft_tensor *from, int64_t at, double least,
                  const room *r)
{
    const int64_t n = p->m.rows * p->m.cols, pieces = (n + PIECE - 1) / PIECE;
    const float *wide = (const float *)from->data + at;
    const uint16_t *narrow = (const uint16_t *)from->data + at;
    const bool half = from->dtype == WEFT_BF16;
#pragma omp parallel for schedule(static) num_threads(p->threads)
    for (int64_t i = 0; i < pieces; i++) {
        const int64_t lo = i * PIECE, hi = lo + PIECE < n ? lo + PIECE : n;
        double sum = 0;
        for (int64_t k = lo; k < hi; k++)
            r->x[k] = half ? weft_bf16_to_f32(narrow[k]) : wide[k];
#pragma omp simd reduction(+ : sum)
        for (int64_t k = lo; k < hi; k++)
            sum += (double)r->x[k] * (double)r->x[k];
        r->sums[i] = sum;
    }
    double sum = 0;
    for (int64_t i = 0; i < pieces; i++)
        sum += r->sums[i];
    mix(p->threads, n, (float)(1 / fmax(sqrt(sum), least)), r->x, 0, r->x, r->x);
}

static weft_status iterate(const prepared *p, const weft_call *call, room *r, weft_error *err)
{
    const int64_t n = p->m.rows * p->m.cols, square = p->m.least * p->m.least;
    const bool wide = p->m.rows <= p->m.cols;
    const float a = (float)weft_call_real(call, "a"), b = (float)weft_call_real(call, "b"),
                c = (float)weft_call_real(call, "c");
    weft_status s = cpu_sliced_run(p->product[SQUARE], r->x, r->x, r->s, r->scratch, err);
    if (s == WEFT_OK)
        s = cpu_sliced_run(p->product[TWICE], r->s, r->s, r->p, r->scratch, err);
    if (s != WEFT_OK)
        return s;
    mix(p->threads, square, b, r->s, c, r->p, r->p);
    mix(p->threads, n, a, r->x, 0, r->x, r->y);
    s = cpu_sliced_run(p->product[APPLY], wide ? r->p : r->x, wide ? r->x : r->p, r->y, r->scratch,
                       err);
    float *was = r->x;
    r->x = r->y, r->y = was;
    return s;
}

static void finish(const prepared *p, const weft_tensor *to, int64_t at, const float *x)
{
    const int64_t n = p->m.rows * p->m.cols;
    float *wide = (float *)to->data + at;
    uint16_t *narrow = (uint16_t *)to->data + at;
    const bool half = to->dtype == WEFT_BF16;
#pragma omp parallel for schedule(static) num_threads(p->threads)
    for (int64_t i = 0; i < n; i++)
        if (half)
            narrow[i] = weft_f32_to_bf16(x ? x[i] : 0);
        else
            wide[i] = x ? x[i] : 0;
}

/* Matrix j is in slot (first + j) mod slots. */
static bool is_empty(const weft_call *call, int64_t slot)
{
    int64_t slots = call->ins[0].whole[0], first = weft_call_int(call, "first");
    return (slot - first + slots) % slots >= weft_call_int(call, "matrices");
}

weft_status cpu_newton_schulz_launch(const weft_call *call, weft_error *err)
{
    const prepared *p = call->state;
    const matrices m = matrices_of(call);
    if (m.n != p->m.n || m.rows != p->m.rows || m.cols != p->m.cols ||
        p->threads != threads_of(call, &m))
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "%s: prepared for another size, or for %d threads and not for %d",
                         call->op->name, p->threads, threads_of(call, &m));
    weft_status s = cpu_check_workspace(call, cpu_newton_schulz_workspace(call), err);
    for (int64_t i = 0; i < m.n && s == WEFT_OK; i++) {
        const int64_t at = i * m.rows * m.cols;
        room r = lay_out(&m, p->threads, call->workspace);
        bool empty = is_empty(call, call->ins[0].lo[0] + i / m.each);
        if (!empty)
            begin(p, &call->ins[0], at, weft_call_real(call, "eps"), &r);
        for (int64_t step = empty ? 0 : weft_call_int(call, "steps"); step > 0 && s == WEFT_OK;
             step--)
            s = iterate(p, call, &r, err);
        finish(p, &call->outs[0], at, empty ? NULL : r.x);
    }
    return s;
}
