/* SPDX-License-Identifier: Apache-2.0 */
/* linear_each and its gradients: products of one size in one call of cuBLASLt, of operands where
 * they lie. Rows of tokens are [outer each inner]; where there are both outer and inner ones, one
 * call for each outer. */
#include "blas.h"

#include <string.h>

typedef struct layout {
    cuda_product product;
    int64_t outer;
    int64_t a, b, c; /* bytes from one outer to the next */
    bool sums;       /* which are terms of one result (dw) */
} layout;

static int64_t extent(const weft_tensor *t, int from, int to)
{
    int64_t n = 1;
    for (int d = from; d < to; d++)
        n *= t->size[d];
    return n;
}

/* The largest power of 2 that divides all three, as far as one is of use. */
static int32_t alignment_of(const layout *l)
{
    int32_t alignment = CUDA_PRODUCT_ALIGNMENT;
    while ((l->a | l->b | l->c) % alignment != 0)
        alignment /= 2;
    return l->outer > 1 && alignment < CUDA_PRODUCT_ALIGNMENT ? alignment : 0;
}

static layout layout_of(const weft_call *call)
{
    const weft_tensor *a = &call->ins[0], *b = &call->ins[1];
    const bool dw = strcmp(call->op->name, "linear_each_dw") == 0,
               dx = strcmp(call->op->name, "linear_each_dx") == 0;
    const int each = (int)weft_call_int(call, "each"),
              shared = (a->n_dims + b->n_dims - call->outs[0].n_dims - 1) / 2,
              lead = dw ? shared + 1 : a->n_dims - shared; /* dims of rows */
    const int64_t width = extent(a, lead, a->n_dims), before = extent(a, 0, each),
                  inner = extent(a, each + 1, lead),
                  n = dw   ? extent(b, lead, b->n_dims)
                      : dx ? extent(b, 1 + shared, b->n_dims)
                           : extent(b, 1, b->n_dims - shared);
    layout l = {.product = {.n = n,
                            .turn_a = dw,
                            .turn_b = !dw && !dx,
                            .accumulate = call->accumulate,
                            .a = (int32_t)a->dtype,
                            .b = (int32_t)b->dtype,
                            .c = (int32_t)call->outs[0].dtype,
                            .apart = inner == 1 && before != 1,
                            .each = a->size[each]}};
    const int64_t rows = l.product.apart ? before : inner;
    l.outer = l.product.apart ? 1 : before;
    l.sums = dw && l.outer > 1;
    l.product.m = dw ? width : rows;
    l.product.k = dw ? rows : width;
    if (l.outer > 1) {
        const int64_t step = a->size[each] * inner;
        l.a = step * width * (int64_t)weft_dtype_size(a->dtype);
        l.b = dw ? step * n * (int64_t)weft_dtype_size(b->dtype) : 0;
        l.c = dw ? 0 : step * n * (int64_t)weft_dtype_size(call->outs[0].dtype);
    }
    l.product.alignment = alignment_of(&l);
    return l;
}

static bool is_empty(const layout *l)
{
    return l->outer == 0 || l->product.each == 0 || cuda_product_is_empty(&l->product);
}

bool cuda_each_accepts(const weft_call *call)
{
    const layout l = layout_of(call);
    const cuda_product *p = &l.product;
    return p->a == p->b && (p->a == WEFT_BF16 || p->a == WEFT_F32) &&
           (p->c == p->a || p->c == WEFT_F32) && (!l.sums || p->c == WEFT_F32) &&
           cuda_product_fits(p);
}

size_t cuda_each_workspace(const weft_call *call)
{
    const layout l = layout_of(call);
    return is_empty(&l) ? 0 : CUDA_PRODUCT_WORKSPACE;
}

size_t cuda_each_loads(const weft_call *call)
{
    const layout l = layout_of(call);
    return call->queue && call->queue->loads && !is_empty(&l) ? cuda_product_scratch(&l.product)
                                                              : 0;
}

weft_kernel_work cuda_each_work(const weft_call *call)
{
    const layout l = layout_of(call);
    const weft_tensor *all[] = {&call->ins[0], &call->ins[1], &call->outs[0]};
    weft_kernel_work work = {.launches = (int)l.outer, .dtype = (weft_dtype)l.product.a};
    for (int i = 0; i < 3; i++)
        work.bytes += (double)weft_tensor_count(all[i]) * (double)weft_dtype_size(all[i]->dtype);
    return work;
}

typedef struct prepared {
    layout layout;
    cuda_matmul *matmul;
} prepared;

/* The state; NULL: there is no term. */
weft_status cuda_each_prepare(const weft_call *call, void **state, weft_error *err)
{
    prepared made = {.layout = layout_of(call)};
    const cuda_product *p = &made.layout.product;
    cuda_products *products;
    weft_status s = cuda_product_open(call, &products, err);
    if (s || is_empty(&made.layout))
        return s;
    s = cuda_matmul_create(products, p, &made.matmul, err);
    if (!s && !made.matmul)
        s = cuda_product_none(p, call->op->name, err);
    s = s ? s : cuda_keep(&made, sizeof made, state, err);
    if (s)
        cuda_matmul_destroy(made.matmul);
    return s;
}

void cuda_each_release(void *state)
{
    if (state)
        cuda_matmul_destroy(((const prepared *)state)->matmul);
    weft_free(state);
}

weft_status cuda_each_launch(const weft_call *call, weft_error *err)
{
    const prepared *made = call->state;
    if (!made)
        return cuda_product_clear(call, err);
    const layout *l = &made->layout;
    weft_status s = cuda_check_workspace(call, CUDA_PRODUCT_WORKSPACE, err);
    for (int64_t i = 0; i < l->outer && !s; i++)
        s = cuda_matmul_launch(made->matmul, call->queue,
                               &(cuda_operands){.a = (const char *)call->ins[0].data + i * l->a,
                                                .b = (const char *)call->ins[1].data + i * l->b,
                                                .c = (char *)call->outs[0].data + i * l->c,
                                                .workspace = call->workspace,
                                                .add = l->sums && i > 0},
                               err);
    return s;
}
