/* SPDX-License-Identifier: Apache-2.0 */
/* linear_pair and linear_pair_dw: two products of one x in one launch, of operands where they lie.
 * A batch of two whose strides are what lies between their addresses, and x's is 0. NVIDIA says
 * nothing of strides below 0, and what copies tiles has none (a tensor map's are unsigned, below
 * 2^40 bytes): so the product whose operands come first goes first. Where the second operand of one
 * kind comes before the first and that of the other kind behind it there is no such order, and
 * they are two launches. Addresses are known when a call is enqueued, not before: both ways are
 * prepared, and a task that is captured has the one that its addresses ask for. */
#include "blas.h"

#include <string.h>

typedef struct pair {
    cuda_matmul *both; /* NULL: cuBLASLt has no algorithm for it */
    cuda_matmul *one;
    bool dw;
} pair;

static const int64_t most_stride = (int64_t)1 << 40;

static bool is_dw(const weft_call *call)
{
    return strcmp(call->op->name, "linear_pair_dw") == 0;
}

/* Product i: x with a weight, or a gradient with x. */
static cuda_product member_of(const weft_call *call, int i)
{
    const weft_tensor *x = &call->ins[0], *other = &call->ins[1 + i];
    const bool dw = is_dw(call);
    return cuda_product_make(dw ? other : x, dw ? x : other, &call->outs[i],
                             dw ? CUDA_DW : CUDA_FORWARD, call->accumulate);
}

static cuda_product both_of(const weft_call *call)
{
    cuda_product p = member_of(call, 0);
    p.each = 2;
    p.apart = CUDA_PAIR;
    return p;
}

bool cuda_pair_accepts(const weft_call *call)
{
    if (!call->queue || !call->queue->pairs)
        return false;
    const cuda_product p = member_of(call, 0), q = member_of(call, 1);
    return memcmp(&p, &q, sizeof p) == 0 && cuda_product_is_known(&p);
}

size_t cuda_pair_workspace(const weft_call *call)
{
    const cuda_product p = member_of(call, 0);
    return cuda_product_is_empty(&p) ? 0 : CUDA_PRODUCT_WORKSPACE;
}

size_t cuda_pair_loads(const weft_call *call)
{
    const cuda_product p = both_of(call);
    return call->queue && call->queue->loads && !cuda_product_is_empty(&p)
               ? cuda_product_scratch(&p)
               : 0;
}

/* Each product reads x. That addresses are in order is a guess. */
weft_kernel_work cuda_pair_work(const weft_call *call)
{
    weft_kernel_work work = {.launches = 1, .dtype = call->ins[0].dtype};
    for (int i = 0; i < 2; i++) {
        const weft_tensor *all[] = {&call->ins[0], &call->ins[1 + i], &call->outs[i],
                                    &call->outs[i]};
        for (int k = 0; k < (call->accumulate ? 4 : 3); k++)
            work.bytes +=
                (double)weft_tensor_count(all[k]) * (double)weft_dtype_size(all[k]->dtype);
    }
    return work;
}

void cuda_pair_release(void *state)
{
    pair *p = state;
    if (!p)
        return;
    cuda_matmul_destroy(p->both);
    cuda_matmul_destroy(p->one);
    weft_free(p);
}

/* The state is a pair; NULL: there is no term. */
weft_status cuda_pair_prepare(const weft_call *call, void **state, weft_error *err)
{
    const cuda_product one = member_of(call, 0), both = both_of(call);
    cuda_products *products;
    weft_status s = cuda_product_open(call, &products, err);
    if (s || cuda_product_is_empty(&one))
        return s;
    pair *p = *state = weft_alloc_zero(1, sizeof *p);
    if (!p)
        return weft_fail_memory(err);
    p->dw = is_dw(call);
    s = cuda_matmul_create(products, &one, &p->one, err);
    if (!s && !p->one)
        s = cuda_product_none(&one, call->op->name, err);
    if (!s)
        s = cuda_matmul_create(products, &both, &p->both, err);
    if (s) {
        cuda_pair_release(p);
        *state = NULL;
    }
    return s;
}

static int64_t between(const void *from, const void *to)
{
    return (int64_t)((uintptr_t)to - (uintptr_t)from);
}

/* Which product goes first; -1: there is no order in which all strides are what a batch has. */
static int first_of(const weft_call *call)
{
    const int64_t in = between(call->ins[1].data, call->ins[2].data),
                  out = between(call->outs[0].data, call->outs[1].data);
    if (in <= -most_stride || in >= most_stride || out <= -most_stride || out >= most_stride ||
        (in < 0 && out > 0) || (in > 0 && out < 0))
        return -1;
    return in < 0 || out < 0;
}

static cuda_operands operands_of(const weft_call *call, int i)
{
    const bool dw = ((const pair *)call->state)->dw;
    return (cuda_operands){.a = call->ins[dw ? 1 + i : 0].data,
                           .b = call->ins[dw ? 0 : 1 + i].data,
                           .c = call->outs[i].data,
                           .workspace = call->workspace};
}

static weft_status launch_both(const weft_call *call, int first, weft_error *err)
{
    const pair *p = call->state;
    const cuda_operands other = operands_of(call, !first);
    cuda_operands o = operands_of(call, first);
    o.next_a = between(o.a, other.a);
    o.next_b = between(o.b, other.b);
    o.next_c = between(o.c, other.c);
    return cuda_matmul_launch(p->both, call->queue, &o, err);
}

static weft_status launch_each(const weft_call *call, weft_error *err)
{
    const pair *p = call->state;
    weft_status s = WEFT_OK;
    for (int i = 0; i < 2 && !s; i++) {
        const cuda_operands o = operands_of(call, i);
        s = cuda_matmul_launch(p->one, call->queue, &o, err);
    }
    return s;
}

static weft_status clear_each(const weft_call *call, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < 2 && !s; i++) {
        weft_call one = *call;
        one.outs = call->outs + i;
        s = cuda_product_clear(&one, err);
    }
    return s;
}

weft_status cuda_pair_launch(const weft_call *call, weft_error *err)
{
    const pair *p = call->state;
    if (!p)
        return clear_each(call, err);
    weft_status s = cuda_check_workspace(call, CUDA_PRODUCT_WORKSPACE, err);
    if (s)
        return s;
    const int first = p->both ? first_of(call) : -1;
    return first < 0 ? launch_each(call, err) : launch_both(call, first, err);
}
