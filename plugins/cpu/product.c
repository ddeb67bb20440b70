/* SPDX-License-Identifier: Apache-2.0 */
/* linear, linear_dx, linear_dw: matrix products by oneDNN, or by tiles of our own. Where the CPU
 * has no bf16 products, bf16 operands are widened tile by tile and multiplied in f32 by ourselves:
 * oneDNN would pack once more what was widened for it. Where it has AMX, they are ours, too; and in
 * f32 those of small weights. */
#include "sliced.h"
#include "tiles.h"

#include <math.h>
#include <string.h>

typedef struct product {
    cpu_matmul_shape shape; /* of the whole */
    int threads;
    const cpu_gemm *gemm; /* or NULL */
    size_t workspace;     /* bytes */
    cpu_sliced *direct;
} product;

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
bool cpu_product_fits(const cpu_matmul_shape *s)
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
    if (call->n_ins != 2 || call->n_outs != 1)
        return false;
    const weft_tensor *all[3] = {&call->ins[0], &call->ins[1], &call->outs[0]};
    int shared = shared_dims(call);
    if (shared < 1 || shared > all[0]->n_dims || shared > all[1]->n_dims ||
        all[0]->dtype != all[1]->dtype)
        return false;
    cpu_matmul_shape s = shape_of(call);
    if (!cpu_product_fits(&s))
        return false;
    return all[0]->dtype == WEFT_F32 ? all[2]->dtype == WEFT_F32
                                     : all[0]->dtype == WEFT_BF16 && is_half(all[2]->dtype);
}

static bool empty(const cpu_matmul_shape *s)
{
    return s->m == 0 || s->n == 0 || s->k == 0;
}

/* The rows of an operand of a weight's gradient are multiples of 2 KiB apart, so that what is
 * gathered from many of them shares few places of a cache. */
static bool is_crowded(const cpu_matmul_shape *s)
{
    return s->m >= 128 && s->n >= 128 && (s->m % 512 == 0 || s->n % 512 == 0);
}

/* Such a gradient, of a weight so small that it would be cut into slices, oneDNN makes at 0.5 to
 * 0.95 times the rate of tiles (AVX2, 128 x 512 to 2048 x 256 elements, 512 to 4,096 rows); larger
 * ones, others, and the other products, it makes at 1.05 to 1.4 times. Of weights that a second
 * cache holds it is neither faster nor slower (AVX2, steps of models of width 64 and 128), and
 * makes code for each size first: half of the processor's time of a run of two small steps. It is
 * the weight's size that decides, not how many rows there are. */
enum { FEW = 1 << 16 };

static bool is_tiled_f32(const cpu_matmul_shape *s)
{
    const bool dw = s->a_row == 1 && s->b_col == 1;
    const int64_t weight = dw ? s->m * s->n : s->n * s->k;
    return weight <= FEW || (dw && is_crowded(s) && cpu_sliced_is_cut(s));
}

const cpu_gemm *cpu_product_gemm_own(const weft_call *call)
{
    if (!call->queue || call->queue->products == CPU_PRODUCTS_F32)
        return &cpu_gemm_vectors;
    return call->queue->amx ? &cpu_gemm_amx : cpu_has_bf16_dots() ? &cpu_gemm_dots : NULL;
}

/* By AMX oneDNN 2.6.3 makes linear at 0.8 to 0.95 of the rate of our tiles, its gradients at 0.5 to
 * 0.9 (a core of a Sapphire Rapids, 512 to 4,096 rows, models of width 288 to 2,048). And where an
 * odd number of terms is summed it sets up no registers for the last: some such products end by an
 * illegal instruction, or are written beyond. By AVX512-BF16 it makes all three at 1.1 to 1.3 times
 * the rate of ours (a core of a Zen 4; bench/experts 1 7 bf16). */
static const cpu_gemm *gemm_of_bf16(const weft_call *call)
{
    const cpu_gemm *own = cpu_product_gemm_own(call);
    return own == &cpu_gemm_dots ? NULL : own;
}

const cpu_gemm *cpu_product_gemm(const weft_call *call, const cpu_matmul_shape *s)
{
    if (s->ab == WEFT_BF16)
        return gemm_of_bf16(call);
    return is_tiled_f32(s) ? &cpu_gemm_vectors : NULL;
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

static bool same_shape(const cpu_matmul_shape *a, const cpu_matmul_shape *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->a_row == b->a_row &&
           a->a_col == b->a_col && a->b_row == b->b_row && a->b_col == b->b_col &&
           a->c_row == b->c_row && a->ab == b->ab && a->c == b->c && a->add == b->add;
}

/* The oldest goes first. */
static size_t find_scratch(cpu_scratches *all, const cpu_matmul_shape *s, int threads)
{
    enum { MOST = sizeof all->kept / sizeof *all->kept };
    for (int i = 0; i < all->n; i++)
        if (all->kept[i].threads == threads && same_shape(&all->kept[i].shape, s))
            return all->kept[i].bytes;
    size_t bytes = cpu_sliced_scratch(s, threads);
    if (bytes == SIZE_MAX) /* another time there may be memory */
        return bytes;
    all->kept[all->next].shape = *s;
    all->kept[all->next].threads = threads;
    all->kept[all->next].bytes = bytes;
    all->next = (all->next + 1) % MOST;
    all->n = all->n < MOST ? all->n + 1 : MOST;
    return bytes;
}

static size_t scratch_of(const weft_call *call, const cpu_matmul_shape *s, int threads)
{
    cpu_scratches *all = call->queue ? call->queue->scratches : NULL;
    if (!all || atomic_flag_test_and_set(&all->busy))
        return cpu_sliced_scratch(s, threads);
    size_t bytes = find_scratch(all, s, threads);
    atomic_flag_clear(&all->busy);
    return bytes;
}

size_t cpu_product_workspace(const weft_call *call)
{
    cpu_matmul_shape s = shape_of(call);
    if (empty(&s)) /* of which oneDNN wants to know nothing */
        return 0;
    const cpu_gemm *gemm = cpu_product_gemm(call, &s);
    if (gemm)
        return cpu_tiles_scratch(gemm, &s, threads_of(call, &s));
    size_t bytes = scratch_of(call, &s, threads_of(call, &s));
    return bytes == SIZE_MAX ? 0 : bytes; /* prepare will say why */
}

/* ---- prepare ---- */

weft_status cpu_product_prepare(const weft_call *call, void **state, weft_error *err)
{
    product *p = weft_alloc_zero(1, sizeof *p);
    if (!p)
        return weft_fail_memory(err);
    p->shape = shape_of(call);
    p->threads = threads_of(call, &p->shape);
    p->gemm = cpu_product_gemm(call, &p->shape);
    p->workspace = cpu_product_workspace(call);
    weft_status status = WEFT_OK;
    if (!empty(&p->shape) && !p->gemm)
        status = cpu_sliced_create(&p->shape, p->threads, &p->direct, err);
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
    weft_free(p);
}

/* ---- launch ---- */

/* The work is cut, and its memory measured, for one size and one number of threads. */
static weft_status check(const product *p, const weft_call *call, weft_error *err)
{
    cpu_matmul_shape now = shape_of(call);
    if (!same_shape(&p->shape, &now) || p->threads != threads_of(call, &now) ||
        p->gemm != cpu_product_gemm(call, &now))
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
    if (!p->gemm)
        return cpu_sliced_run(p->direct, call->ins[0].data, call->ins[1].data, call->outs[0].data,
                              call->workspace, err);
    cpu_tiles_run(p->gemm, s, p->threads, call->ins[0].data, call->ins[1].data, call->outs[0].data,
                  call->workspace);
    return WEFT_OK;
}
