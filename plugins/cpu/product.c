/* SPDX-License-Identifier: Apache-2.0 */
/* linear, linear_dx, linear_dw: matrix products by oneDNN. Where the CPU has no bf16 products, bf16
 * operands are widened block by block and multiplied in f32, so that the extra memory stays small.
 */
#include "cpu.h"
#include "sliced.h"

#include <math.h>
#include <omp.h>
#include <string.h>

/* About how many rows and columns of c an f32 product of widened operands has, of which a thread
 * computes one at a time; how many threads do at most, for each has widened copies of its own; up
 * to how many terms a sum is short. */
enum { BLOCK = 512, MOST_WORKERS = 16, SHORT_SUM = 256 };

typedef struct product {
    cpu_matmul_shape shape; /* of the whole */
    int threads;
    bool widened;     /* by blocks */
    size_t workspace; /* bytes */
    cpu_sliced *direct;
    int workers;                           /* threads that share the blocks */
    cpu_matmul *block[MOST_WORKERS][2][2]; /* [worker][rest of m][rest of n]; f32 on widened
                                              operands */
} product;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- from call to shape ---- */

static int64_t extent(const weft_tensor *t, int from, int to)
{
    int64_t n = 1;
    for (int d = from; d < to; d++)
        n *= t->size[d];
    return n;
}

/* How many dims the operands share: what both have and the result has not. */
static int shared_dims(const weft_call *call)
{
    return (call->ins[0].n_dims + call->ins[1].n_dims - call->outs[0].n_dims) / 2;
}

static cpu_matmul_shape shape_of(const weft_call *call)
{
    const weft_tensor *a = &call->ins[0], *b = &call->ins[1];
    int shared = shared_dims(call);
    cpu_matmul_shape s = {.ab = a->dtype, .c = call->outs[0].dtype, .add = call->accumulate};
    if (strcmp(call->op->name, "linear") == 0) { /* y[m, n] = x[m, k] w[n, k]' */
        s.m = extent(a, 0, a->n_dims - shared), s.k = extent(a, a->n_dims - shared, a->n_dims),
        s.n = extent(b, 0, b->n_dims - shared);
        s.a_row = s.k, s.a_col = 1, s.b_row = 1, s.b_col = s.k;
    } else if (strcmp(call->op->name, "linear_dx") == 0) { /* dx[m, n] = dy[m, k] w[k, n] */
        s.m = extent(a, 0, a->n_dims - shared), s.k = extent(b, 0, shared),
        s.n = extent(b, shared, b->n_dims);
        s.a_row = s.k, s.a_col = 1, s.b_row = s.n, s.b_col = 1;
    } else { /* dw[m, n] = dy[k, m]' x[k, n] */
        s.k = extent(a, 0, shared), s.m = extent(a, shared, a->n_dims),
        s.n = extent(b, shared, b->n_dims);
        s.a_row = 1, s.a_col = s.m, s.b_row = s.n, s.b_col = 1;
    }
    s.c_row = s.n;
    return s;
}

/* oneDNN counts rows, columns and strides in ints, in places, and rounds them up: it divides by
 * zero beyond. */
static bool fits_onednn(const cpu_matmul_shape *s)
{
    const int64_t extents[] = {s->m, s->n, s->k, s->a_row, s->a_col, s->b_row, s->b_col, s->c_row};
    for (size_t i = 0; i < sizeof extents / sizeof extents[0]; i++)
        if (extents[i] > INT32_MAX / 2)
            return false;
    return true;
}

static bool is_half(weft_dtype dtype)
{
    return dtype == WEFT_F32 || dtype == WEFT_BF16;
}

bool cpu_product_accepts(const weft_call *call)
{
    if (call->n_ins != 2 || call->n_outs != 1 || weft_call_has_lengths(call))
        return false;
    const weft_tensor *all[3] = {&call->ins[0], &call->ins[1], &call->outs[0]};
    int shared = shared_dims(call);
    if (shared < 1 || shared > all[0]->n_dims || shared > all[1]->n_dims ||
        all[0]->dtype != all[1]->dtype)
        return false;
    cpu_matmul_shape s = shape_of(call);
    if (!fits_onednn(&s))
        return false;
    return all[0]->dtype == WEFT_F32 ? all[2]->dtype == WEFT_F32
                                     : all[0]->dtype == WEFT_BF16 && is_half(all[2]->dtype);
}

static bool empty(const cpu_matmul_shape *s)
{
    return s->m == 0 || s->n == 0 || s->k == 0;
}

/* ---- f32 blocks of a bf16 product ---- */

/* The block product of c[m, n]; a and b are dense copies of the block that keep the operand's
 * orientation. */
static cpu_matmul_shape block_shape(const cpu_matmul_shape *s, int64_t m, int64_t n)
{
    cpu_matmul_shape b = *s;
    b.m = m, b.n = n, b.ab = b.c = WEFT_F32;
    b.a_row = s->a_col == 1 ? s->k : 1, b.a_col = s->a_col == 1 ? 1 : m;
    b.b_row = s->b_col == 1 ? n : 1, b.b_col = s->b_col == 1 ? 1 : s->k;
    b.c_row = s->c == WEFT_F32 ? s->c_row : n;
    b.add = s->add && s->c == WEFT_F32;
    return b;
}

/* Blocks are about equal: a rest of half a block would run at half the rate. In 16s, for vectors.
 */
static int64_t cut(int64_t size, int64_t block)
{
    int64_t n = (size + block / 2) / block;
    int64_t length = (size + (n > 1 ? n : 1) - 1) / (n > 1 ? n : 1);
    return min64(size, (length + 15) / 16 * 16);
}

static int64_t rows_of(const cpu_matmul_shape *s)
{
    return cut(s->m, BLOCK);
}

/* Of sums that are soon done, reading and writing c takes its share: longer rows are faster. */
static int64_t columns_of(const cpu_matmul_shape *s)
{
    return cut(s->n, s->k <= SHORT_SUM ? 2 * BLOCK : BLOCK);
}

/* Of whole blocks, and of what is left; 0: there is none. */
static void extents(int64_t size, int64_t length, int64_t out[2])
{
    out[0] = length;
    out[1] = size % length;
}

static int64_t pieces(int64_t size, int64_t length)
{
    return (size + length - 1) / length;
}

static int64_t blocks_of(const cpu_matmul_shape *s)
{
    return pieces(s->m, rows_of(s)) * pieces(s->n, columns_of(s));
}

static int workers_of(const cpu_matmul_shape *s, int threads)
{
    return (int)min64(min64(threads, MOST_WORKERS), blocks_of(s));
}

/* What one worker has. */
typedef struct staging {
    size_t b, c, scratch; /* offsets; a's is 0 */
} staging;

static size_t align64(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

static staging staging_of(const cpu_matmul_shape *s)
{
    size_t m = (size_t)rows_of(s), n = (size_t)columns_of(s), k = (size_t)s->k;
    staging at = {.b = align64(m * k * 4)};
    at.c = at.b + align64(k * n * 4);
    at.scratch = at.c + (s->c == WEFT_F32 ? 0 : align64(m * n * 4));
    return at;
}

/* Of one worker. */
static size_t block_workspace(const cpu_matmul_shape *s)
{
    int64_t m[2], n[2];
    size_t most = 0;
    extents(s->m, rows_of(s), m);
    extents(s->n, columns_of(s), n);
    for (int i = 0; i < 4; i++) {
        if (m[i >> 1] == 0 || n[i & 1] == 0)
            continue;
        cpu_matmul_shape b = block_shape(s, m[i >> 1], n[i & 1]);
        size_t bytes = cpu_matmul_scratch(&b, 1);
        if (bytes != SIZE_MAX && bytes > most)
            most = bytes;
    }
    return staging_of(s).scratch + align64(most);
}

/* bf16 operands are multiplied as they are, or widened. */
static bool is_widened(const weft_call *call, const cpu_matmul_shape *s)
{
    return s->ab == WEFT_BF16 && (!call->queue || call->queue->products == CPU_PRODUCTS_F32);
}

/* With few rows, as a text is written, a product is reading weights: a byte takes as long as some
 * five operations. Where other processes want the cores, each meeting of threads may cost a time
 * slice, so small products have none. */
static int threads_of(const weft_call *call, const cpu_matmul_shape *s)
{
    double m = (double)s->m, n = (double)s->n, k = (double)s->k;
    double bytes = (m * k + k * n) * (double)weft_dtype_size(s->ab);
    return cpu_threads_for(call, fmax(2 * m * n * k, 5 * bytes));
}

size_t cpu_product_workspace(const weft_call *call)
{
    cpu_matmul_shape s = shape_of(call);
    if (empty(&s)) /* of which oneDNN wants to know nothing */
        return 0;
    if (is_widened(call, &s))
        return (size_t)workers_of(&s, threads_of(call, &s)) * block_workspace(&s);
    size_t bytes = cpu_sliced_scratch(&s, threads_of(call, &s));
    return bytes == SIZE_MAX ? 0 : bytes; /* prepare will say why */
}

/* ---- prepare ---- */

static weft_status prepare_blocks(product *p, weft_error *err)
{
    int64_t m[2], n[2];
    extents(p->shape.m, rows_of(&p->shape), m);
    extents(p->shape.n, columns_of(&p->shape), n);
    p->workers = workers_of(&p->shape, p->threads);
    for (int i = 0; i < 4 * p->workers; i++) {
        int worker = i / 4, rest_m = i >> 1 & 1, rest_n = i & 1;
        if (m[rest_m] == 0 || n[rest_n] == 0)
            continue;
        cpu_matmul_shape b = block_shape(&p->shape, m[rest_m], n[rest_n]);
        weft_status status = cpu_matmul_create(&b, 1, &p->block[worker][rest_m][rest_n], err);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

weft_status cpu_product_prepare(const weft_call *call, void **state, weft_error *err)
{
    product *p = weft_alloc_zero(1, sizeof *p);
    if (!p)
        return weft_fail_memory(err);
    p->shape = shape_of(call);
    p->threads = threads_of(call, &p->shape);
    p->widened = is_widened(call, &p->shape);
    p->workspace = cpu_product_workspace(call);
    weft_status status = WEFT_OK;
    if (!empty(&p->shape))
        status = p->widened ? prepare_blocks(p, err)
                            : cpu_sliced_create(&p->shape, p->threads, &p->direct, err);
    if (status != WEFT_OK) {
        cpu_product_release(p);
        return status;
    }
    *state = p;
    return WEFT_OK;
}

void cpu_product_release(void *state)
{
    product *p = state;
    if (!p)
        return;
    cpu_sliced_destroy(p->direct);
    for (int i = 0; i < 4 * p->workers; i++)
        cpu_matmul_destroy(p->block[i / 4][i >> 1 & 1][i & 1]);
    weft_free(p);
}

/* ---- launch ---- */

/* Widens `lines` runs of `length` elements, `stride` apart, to dense f32. */
static void widen(const uint16_t *from, int64_t stride, float *to, int64_t lines, int64_t length)
{
    for (int64_t i = 0; i < lines; i++) {
        const uint16_t *f = from + i * stride;
        float *t = to + i * length;
#pragma omp simd
        for (int64_t j = 0; j < length; j++)
            t[j] = weft_bf16_to_f32(f[j]);
    }
}

static void narrow_block(const float *from, uint16_t *to, int64_t stride, int64_t m, int64_t n,
                         bool add)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            uint16_t *t = &to[i * stride + j];
            *t = weft_f32_to_bf16(from[i * n + j] + (add ? weft_bf16_to_f32(*t) : 0.0f));
        }
}

static void widen_a(const cpu_matmul_shape *s, const uint16_t *a, int64_t i, int64_t m, float *to)
{
    if (s->a_col == 1)
        widen(a + i * s->a_row, s->a_row, to, m, s->k);
    else
        widen(a + i, s->a_col, to, s->k, m);
}

static void widen_b(const cpu_matmul_shape *s, const uint16_t *b, int64_t j, int64_t n, float *to)
{
    if (s->b_col == 1)
        widen(b + j, s->b_row, to, s->k, n);
    else
        widen(b + j * s->b_col, s->b_col, to, n, s->k);
}

/* The block of c at (i, j); its columns of b are widened already. */
static weft_status run_block(const product *p, const weft_call *call, int worker, char *work,
                             int64_t i, int64_t j)
{
    const cpu_matmul_shape *s = &p->shape;
    const staging at = staging_of(s);
    int64_t m = min64(rows_of(s), s->m - i), n = min64(columns_of(s), s->n - j);
    int64_t to = i * s->c_row + j;
    bool f32 = s->c == WEFT_F32;
    char *c = call->outs[0].data;
    void *result = f32 ? (void *)(c + to * 4) : (void *)(work + at.c);
    widen_a(s, call->ins[0].data, i, m, (float *)(void *)work);
    cpu_matmul *matmul = p->block[worker][m < rows_of(s)][n < columns_of(s)];
    weft_status status = cpu_matmul_run(matmul, work, work + at.b, result, work + at.scratch, NULL);
    if (!status && !f32)
        narrow_block(result, (uint16_t *)(void *)c + to, s->c_row, m, n, s->add);
    return status;
}

/* Blocks are cut alike for any number of threads, and each is one thread's, so sums do not depend
 * on how many there are. */
static weft_status launch_blocks(const product *p, const weft_call *call, weft_error *err)
{
    const cpu_matmul_shape *s = &p->shape;
    int64_t rows = pieces(s->m, rows_of(s)), n_blocks = blocks_of(s);
    size_t each = p->workspace / (size_t)p->workers;
    weft_status status = WEFT_OK;
#pragma omp parallel num_threads(p->workers) if (p->workers > 1)
    {
        int worker = omp_get_thread_num();
        char *work = (char *)call->workspace + (size_t)worker * each;
        int64_t widened = -1; /* which columns of b */
#pragma omp for schedule(dynamic)
        for (int64_t t = 0; t < n_blocks; t++) {
            int64_t i = t % rows * rows_of(s), j = t / rows * columns_of(s);
            if (j != widened)
                widen_b(s, call->ins[1].data, j, min64(columns_of(s), s->n - j),
                        (float *)(void *)(work + staging_of(s).b));
            widened = j;
            weft_status mine = run_block(p, call, worker, work, i, j);
            if (mine)
#pragma omp atomic write
                status = mine;
        }
    }
    if (status)
        weft_fail(err, status, WEFT_NOWHERE,
                  "oneDNN could not multiply a block of matrices (status %d); [cpu] kernels = "
                  "plain does without it",
                  (int)status);
    return status;
}

static bool same_shape(const cpu_matmul_shape *a, const cpu_matmul_shape *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->a_row == b->a_row &&
           a->a_col == b->a_col && a->b_row == b->b_row && a->b_col == b->b_col &&
           a->c_row == b->c_row && a->ab == b->ab && a->c == b->c && a->add == b->add;
}

/* The work is cut, and its memory measured, for one size and one number of threads. */
static weft_status check(const product *p, const weft_call *call, weft_error *err)
{
    cpu_matmul_shape now = shape_of(call);
    if (!same_shape(&p->shape, &now) || p->threads != threads_of(call, &now) ||
        p->widened != is_widened(call, &now))
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "%s: the product was prepared for another size or way of storing the "
                         "result, or for %d threads and not for %d",
                         call->op->name, p->threads, threads_of(call, &now));
    return cpu_check_workspace(call, p->workspace, err);
}

weft_status cpu_product_launch(const weft_call *call, weft_error *err)
{
    const product *p = call->state;
    const cpu_matmul_shape *s = &p->shape;
    weft_status status = check(p, call, err);
    if (status)
        return status;
    if (empty(s)) {
        if (s->m * s->n > 0 && !s->add)
            memset(call->outs[0].data, 0, (size_t)(s->m * s->n) * weft_dtype_size(s->c));
        return WEFT_OK;
    }
    if (p->widened)
        return launch_blocks(p, call, err);
    return cpu_sliced_run(p->direct, call->ins[0].data, call->ins[1].data, call->outs[0].data,
                          call->workspace, err);
}
