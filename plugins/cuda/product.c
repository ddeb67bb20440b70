/* SPDX-License-Identifier: Apache-2.0 */
/* linear and its gradients: bf16 or f32 operands, sums in f32, results in either. */
#include "blas.h"

#include <string.h>

/* ---- calls ---- */

static int64_t extent(const weft_tensor *t, int from, int to)
{
    int64_t n = 1;
    for (int d = from; d < to; d++)
        n *= t->size[d];
    return n;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

cuda_product cuda_product_make(const weft_tensor *a, const weft_tensor *b, const weft_tensor *c,
                               cuda_kind kind, bool accumulate)
{
    int shared = (a->n_dims + b->n_dims - c->n_dims) / 2;
    cuda_product p = {.a = (int32_t)a->dtype,
                      .b = (int32_t)b->dtype,
                      .c = (int32_t)c->dtype,
                      .accumulate = accumulate};
    if (kind == CUDA_DW) { /* dy^T x */
        p.m = extent(a, shared, a->n_dims);
        p.n = extent(b, shared, b->n_dims);
        p.k = extent(a, 0, shared);
        p.turn_a = true;
        return p;
    }
    int left = a->n_dims - shared;
    p.m = extent(a, 0, left);
    p.k = extent(a, left, a->n_dims);
    p.turn_b = kind == CUDA_FORWARD; /* x w^T, or dy w */
    p.n = p.turn_b ? extent(b, 0, b->n_dims - shared) : extent(b, shared, b->n_dims);
    return p;
}

cuda_product cuda_product_of(const weft_call *call)
{
    const char *op = call->op->name;
    return cuda_product_make(&call->ins[0], &call->ins[1], &call->outs[0],
                             ends_with(op, "linear_dw")   ? CUDA_DW
                             : ends_with(op, "linear_dx") ? CUDA_DX
                                                          : CUDA_FORWARD,
                             call->accumulate);
}

bool cuda_product_fits(const cuda_product *p)
{
    return p->m < INT32_MAX && p->n < INT32_MAX && p->k < INT32_MAX && p->each < INT32_MAX;
}

bool cuda_product_is_known(const cuda_product *p)
{
    return p->a == p->b && (p->a == WEFT_BF16 || p->a == WEFT_F32) &&
           (p->c == p->a || p->c == WEFT_F32) && cuda_product_fits(p);
}

bool cuda_product_accepts(const weft_call *call)
{
    const cuda_product p = cuda_product_of(call);
    return cuda_product_is_known(&p);
}

/* What heuristics may choose is not known without a GPU: its bound is. */
size_t cuda_product_workspace(const weft_call *call)
{
    cuda_product p = cuda_product_of(call);
    return cuda_product_is_empty(&p) ? 0 : CUDA_PRODUCT_WORKSPACE;
}

void cuda_product_print(const cuda_product *p, weft_text *text)
{
    if (p->each)
        weft_text_print(text, "%lld times %s", (long long)p->each,
                        p->apart == CUDA_PAIR ? "(of one x) " : "");
    weft_text_print(text, "[%lld %lld] x [%lld %lld] of %s", (long long)p->m, (long long)p->k,
                    (long long)p->k, (long long)p->n, weft_dtype_name((weft_dtype)p->a));
    if (p->a != p->b)
        weft_text_print(text, " and %s", weft_dtype_name((weft_dtype)p->b));
    weft_text_print(text, " to %s", weft_dtype_name((weft_dtype)p->c));
}

/* ---- prepared: products of calls that are alike ---- */

weft_status cuda_product_open(const weft_call *call, cuda_products **products, weft_error *err)
{
    *products = call->queue ? call->queue->products : NULL;
    if (*products)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "%s: prepared before the device is open",
                     call->op->name);
}

weft_status cuda_product_none(const cuda_product *p, const char *op, weft_error *err)
{
    weft_text text = {0};
    cuda_product_print(p, &text);
    weft_status s = weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE,
                              "%s: cuBLASLt has no algorithm for %s in %d bytes of workspace", op,
                              text.data ? text.data : "a product", CUDA_PRODUCT_WORKSPACE);
    weft_text_release(&text);
    return s;
}

/* The state is a cuda_matmul; NULL: there is no term. */
weft_status cuda_product_prepare(const weft_call *call, void **state, weft_error *err)
{
    cuda_product p = cuda_product_of(call);
    cuda_products *products;
    cuda_matmul *m = NULL;
    weft_status s = cuda_product_open(call, &products, err);
    if (s || cuda_product_is_empty(&p))
        return s;
    s = cuda_matmul_create(products, &p, &m, err);
    if (!s && !m)
        s = cuda_product_none(&p, call->op->name, err);
    *state = m;
    return s;
}

/* ---- memory beside the run's ---- */

static size_t align(int64_t elements, size_t size)
{
    size_t bytes = (size_t)elements * size;
    return (bytes + CUDA_PRODUCT_ALIGNMENT - 1) / CUDA_PRODUCT_ALIGNMENT * CUDA_PRODUCT_ALIGNMENT;
}

/* Of all products' operands of one kind; *next: from one to the other of a pair, unless they
 * share it. */
static size_t bytes_of(const cuda_product *p, int64_t elements, int32_t dtype, bool shared,
                       int64_t *next)
{
    const size_t size = weft_dtype_size((weft_dtype)dtype), one = align(elements, size);
    *next = p->apart == CUDA_PAIR && !shared ? (int64_t)one : 0;
    if (p->apart == CUDA_PAIR)
        return shared ? one : 2 * one;
    return align(cuda_product_count(p) * elements, size);
}

static void *pointer(CUdeviceptr at)
{
    return (void *)(uintptr_t)at;
}

size_t cuda_product_lay_out(const cuda_product *p, CUdeviceptr at, cuda_operands *out)
{
    int64_t next_a, next_b, next_c;
    size_t a = bytes_of(p, p->m * p->k, p->a, !p->turn_a, &next_a);
    size_t b = a + bytes_of(p, p->k * p->n, p->b, p->turn_a, &next_b);
    size_t c = b + bytes_of(p, p->m * p->n, p->c, false, &next_c);
    size_t a_scale = c + align(p->m, sizeof(float));
    size_t b_scale = a_scale + align(p->n, sizeof(float));
    *out = (cuda_operands){.a = pointer(at),
                           .b = pointer(at + a),
                           .c = pointer(at + b),
                           .a_scale = pointer(at + c),
                           .b_scale = pointer(at + a_scale),
                           .workspace = pointer(at + b_scale),
                           .next_a = next_a,
                           .next_b = next_b,
                           .next_c = next_c};
    return b_scale + CUDA_PRODUCT_WORKSPACE;
}

size_t cuda_product_scratch(const cuda_product *p)
{
    cuda_operands unused;
    return cuda_product_lay_out(p, 0, &unused);
}

size_t cuda_product_loads(const weft_call *call)
{
    const cuda_product p = cuda_product_of(call);
    return call->queue && call->queue->loads && !cuda_product_is_empty(&p)
               ? cuda_product_scratch(&p)
               : 0;
}

void cuda_product_release(void *state)
{
    cuda_matmul_destroy(state);
}

weft_status cuda_product_clear(const weft_call *call, weft_error *err)
{
    const weft_tensor *out = &call->outs[0];
    int64_t bytes = weft_tensor_count(out) * (int64_t)weft_dtype_size(out->dtype);
    const weft_box zeros = weft_box_of(out->data, NULL, bytes);
    return call->accumulate ? WEFT_OK : cuda_box_move(call->queue, &zeros, err);
}

weft_status cuda_product_launch(const weft_call *call, weft_error *err)
{
    if (!call->state)
        return cuda_product_clear(call, err);
    weft_status s = cuda_check_workspace(call, CUDA_PRODUCT_WORKSPACE, err);
    return s ? s
             : cuda_matmul_launch(call->state, call->queue,
                                  &(cuda_operands){.a = call->ins[0].data,
                                                   .b = call->ins[1].data,
                                                   .c = call->outs[0].data,
                                                   .workspace = call->workspace},
                                  err);
}
