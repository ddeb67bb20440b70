/* SPDX-License-Identifier: Apache-2.0 */
/* linear_each and its gradients: a product for every index of a dim, of operands where they lie.
 * Threads share the products, or, where there are too few of them, each product; as in product.c no
 * bit depends on which. */
#include "sliced.h"
#include "tiles.h"

#include <math.h>
#include <omp.h>
#include <string.h>

/* Rows of tokens are [outer each rows], or [rows each]: then `rows` lie apart, and there is one
 * outer. */
typedef struct layout {
    cpu_matmul_shape shape; /* of one product */
    int64_t outer, each;
    int64_t a[2], b[2], c[2]; /* elements to the next outer one, and to the next of each */
    int64_t sums;             /* outer products are terms of one result (dw) */
} layout;

typedef struct products {
    layout at;
    int threads, across, within; /* that share the products; in each */
    const cpu_gemm *gemm;        /* as product.c has it */
    size_t workspace, scratch;   /* bytes of all, and of each that computes across */
    cpu_sliced *direct[];        /* [across]: of the first terms; [across]: of those to be added */
} products;

/* ---- from call to layout ---- */

static int64_t extent(const weft_tensor *t, int from, int to)
{
    int64_t n = 1;
    for (int d = from; d < to; d++)
        n *= t->size[d];
    return n;
}

/* How many dims the operands share beside the one that is kept. */
static int shared_dims(const weft_call *call)
{
    return (call->ins[0].n_dims + call->ins[1].n_dims - call->outs[0].n_dims - 1) / 2;
}

static layout layout_of(const weft_call *call)
{
    const weft_tensor *a = &call->ins[0], *b = &call->ins[1];
    const bool dw = strcmp(call->op->name, "linear_each_dw") == 0,
               dx = strcmp(call->op->name, "linear_each_dx") == 0;
    const int each = (int)weft_call_int(call, "each"), shared = shared_dims(call);
    const int lead = dw ? shared + 1 : a->n_dims - shared; /* dims of rows */
    const int64_t m = extent(a, lead, a->n_dims);          /* a row of operand 0 */
    const int64_t n = dw   ? extent(b, lead, b->n_dims)
                      : dx ? extent(b, 1 + shared, b->n_dims)
                           : extent(b, 1, b->n_dims - shared);
    const int64_t inner = extent(a, each + 1, lead), before = extent(a, 0, each);
    const bool apart = inner == 1;
    layout l;
    memset(&l, 0, sizeof l); /* compared as bytes */
    l.each = a->size[each];
    l.outer = apart ? 1 : before;
    const int64_t rows = apart ? before : inner, row = apart ? l.each : 1;
    const int64_t steps[2] = {l.each * inner, inner}, w[2] = {0, m * n};
    cpu_matmul_shape *s = &l.shape;
    s->ab = a->dtype, s->c = call->outs[0].dtype, s->add = call->accumulate;
    l.sums = dw && l.outer > 1;
    for (int i = 0; i < 2; i++) {
        l.a[i] = steps[i] * m;
        l.b[i] = dw ? steps[i] * n : w[i];
        l.c[i] = dw ? w[i] : steps[i] * n;
    }
    if (dw) { /* dw[m, n] = dy[k, m]' x[k, n] */
        s->m = m, s->n = n, s->k = rows;
        s->a_row = 1, s->a_col = row * m, s->b_row = row * n, s->b_col = 1, s->c_row = n;
        return l;
    }
    s->m = rows, s->n = n, s->k = m;
    s->a_row = row * m, s->a_col = 1, s->c_row = row * n;
    s->b_row = dx ? n : 1, s->b_col = dx ? 1 : m;
    return l;
}

bool cpu_each_accepts(const weft_call *call)
{
    if (call->n_ins != 2 || call->n_outs != 1)
        return false;
    const weft_dtype a = call->ins[0].dtype, b = call->ins[1].dtype, c = call->outs[0].dtype;
    if (a != b || (a != WEFT_F32 && a != WEFT_BF16) || (c != WEFT_F32 && c != a))
        return false;
    layout l = layout_of(call);
    return cpu_product_fits(&l.shape) && (c == WEFT_F32 || !l.sums); /* rounded once */
}

static bool empty(const layout *l)
{
    return l->outer * l->each * l->shape.m * l->shape.n * l->shape.k == 0;
}

static int64_t count(const layout *l)
{
    return l->sums ? l->each : l->outer * l->each;
}

static int threads_of(const weft_call *call, const layout *l)
{
    double m = (double)l->shape.m, n = (double)l->shape.n, k = (double)l->shape.k;
    double bytes = (m * k + k * n) * (double)weft_dtype_size(l->shape.ab);
    return cpu_threads_for(call, (double)(l->outer * l->each) * fmax(2 * m * n * k, 5 * bytes));
}

/* Each thread has as many products as the others, or so many that one more is no matter. */
static int across_of(const layout *l, int threads)
{
    return count(l) % threads == 0 || count(l) >= 8 * threads ? threads : 1;
}

/* SIZE_MAX: it cannot be done. */
static size_t scratch_of(const layout *l, const cpu_gemm *gemm, int within)
{
    size_t bytes =
        gemm ? cpu_tiles_scratch(gemm, &l->shape, within) : cpu_sliced_scratch(&l->shape, within);
    return bytes == SIZE_MAX ? bytes : (bytes + 63) & ~(size_t)63;
}

size_t cpu_each_workspace(const weft_call *call)
{
    layout l = layout_of(call);
    if (empty(&l))
        return 0;
    int threads = threads_of(call, &l), across = across_of(&l, threads);
    size_t bytes = scratch_of(&l, cpu_product_gemm(call, &l.shape), threads / across);
    return bytes == SIZE_MAX ? 0 : (size_t)across * bytes; /* prepare will say why */
}

/* ---- prepare ---- */

weft_status cpu_each_prepare(const weft_call *call, void **state, weft_error *err)
{
    const layout l = layout_of(call);
    const int threads = threads_of(call, &l), across = across_of(&l, threads);
    products *p = weft_alloc_zero(1, sizeof *p + 2 * (size_t)across * sizeof *p->direct);
    if (!p)
        return weft_fail_memory(err);
    memcpy(&p->at, &l, sizeof l);
    p->threads = threads, p->across = across, p->within = threads / across;
    p->gemm = cpu_product_gemm(call, &l.shape);
    p->workspace = cpu_each_workspace(call);
    p->scratch = p->workspace / (size_t)across;
    cpu_matmul_shape more = l.shape;
    more.add = true;
    weft_status s = WEFT_OK;
    for (int i = 0; i < across && !p->gemm && !empty(&l) && !s; i++) {
        s = cpu_sliced_create(&l.shape, p->within, &p->direct[i], err);
        if (!s && l.sums)
            s = cpu_sliced_create(&more, p->within, &p->direct[across + i], err);
    }
    if (s) {
        cpu_each_release(p);
        return s;
    }
    *state = p;
    return WEFT_OK;
}

void cpu_each_release(void *state)
{
    products *p = state;
    for (int i = 0; p && i < 2 * p->across; i++)
        cpu_sliced_destroy(p->direct[i]);
    weft_free(p);
}

/* ---- launch ---- */

static weft_status check(const products *p, const weft_call *call, weft_error *err)
{
    const layout now = layout_of(call);
    if (memcmp(&p->at, &now, sizeof now) != 0 || p->threads != threads_of(call, &now) ||
        p->gemm != cpu_product_gemm(call, &now.shape))
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "%s: the products were prepared for another size or way of storing the "
                         "result, or for %d threads and not for %d",
                         call->op->name, p->threads, threads_of(call, &now));
    return cpu_check_workspace(call, p->workspace, err);
}

/* One product; term: which of those that are added up. */
static weft_status multiply(const products *p, const weft_call *call, int worker, int64_t outer,
                            int64_t each, bool first, weft_error *err)
{
    const layout *l = &p->at;
    const int64_t ab = (int64_t)weft_dtype_size(l->shape.ab),
                  of_c = (int64_t)weft_dtype_size(l->shape.c);
    const char *a = (const char *)call->ins[0].data + (outer * l->a[0] + each * l->a[1]) * ab,
               *b = (const char *)call->ins[1].data + (outer * l->b[0] + each * l->b[1]) * ab;
    char *c = (char *)call->outs[0].data + (outer * l->c[0] + each * l->c[1]) * of_c;
    char *scratch = p->scratch ? (char *)call->workspace + (size_t)worker * p->scratch : NULL;
    if (!p->gemm)
        return cpu_sliced_run(p->direct[first ? worker : p->across + worker], a, b, c, scratch,
                              err);
    cpu_matmul_shape s = l->shape;
    s.add = s.add || !first;
    cpu_tiles_run(p->gemm, &s, p->within, a, b, c, scratch);
    return WEFT_OK;
}

/* The i-th result, from all its terms. */
static weft_status result(const products *p, const weft_call *call, int worker, int64_t i,
                          weft_error *err)
{
    const layout *l = &p->at;
    weft_status s = WEFT_OK;
    if (!l->sums)
        return multiply(p, call, worker, i / l->each, i % l->each, true, err);
    for (int64_t outer = 0; outer < l->outer && !s; outer++)
        s = multiply(p, call, worker, outer, i, outer == 0, err);
    return s;
}

weft_status cpu_each_launch(const weft_call *call, weft_error *err)
{
    const products *p = call->state;
    const int64_t n = count(&p->at);
    weft_status s = check(p, call, err);
    if (s)
        return s;
    if (empty(&p->at)) {
        size_t bytes = (size_t)weft_tensor_count(&call->outs[0]) * weft_dtype_size(p->at.shape.c);
        if (bytes && !p->at.shape.add)
            memset(call->outs[0].data, 0, bytes);
        return WEFT_OK;
    }
    for (int64_t i = 0; i < n && p->across == 1 && !s; i++)
        s = result(p, call, 0, i, err);
    if (p->across == 1)
        return s;
    int worst = WEFT_OK;
#pragma omp parallel for num_threads(p->across) schedule(static) reduction(max : worst)
    for (int64_t i = 0; i < n; i++) {
        int one = (int)result(p, call, omp_get_thread_num(), i, NULL);
        worst = one > worst ? one : worst;
    }
    return worst == WEFT_OK
               ? WEFT_OK
               : weft_fail(err, (weft_status)worst, WEFT_NOWHERE,
                           "%s: oneDNN could not multiply matrices (status %d); [cpu] kernels = "
                           "plain does without it",
                           call->op->name, worst);
}
