/* SPDX-License-Identifier: Apache-2.0 */
/* grouped and its gradients, ops of the plugin moe: products of each expert's rows with its weight.
 * cuBLASLt wants to be told by the host how many rows there are, and a task that is replayed has no
 * host: so the products are ours, and find the counts on the GPU. */
#include "blas.h"

#include <string.h>

enum { TILE_ANY = 64, TILE_MMA = 128 };

typedef struct grouped {
    cuda_grouped_args args;
    bool dw;
} grouped;

static grouped grouped_of(const weft_call *call)
{
    const weft_tensor *x = &call->ins[0], *w = &call->ins[1], *counts = &call->ins[2],
                      *out = &call->outs[0];
    const bool dw = strcmp(call->op->name, "grouped_dw") == 0;
    return (grouped){
        .args = {.slots = x->size[3],
                 .rows = cuda_rows(x),
                 .m = dw ? cuda_width(x) : 0,
                 .n = cuda_width(out),
                 .k = dw ? 0 : cuda_width(x),
                 .groups = (int32_t)(counts->size[0] * counts->size[1]),
                 .experts = (int32_t)counts->size[2],
                 .each = (int32_t)(counts->whole[2] / x->whole[2]),
                 .accumulate = call->accumulate,
                 .turned = strcmp(call->op->name, "grouped_dx") == 0,
                 .whole = cuda_is_whole(x) && cuda_is_whole(w) && cuda_width(out) % 8 == 0},
        .dw = dw};
}

weft_status cuda_grouped_prepare(const weft_call *call, void **state, weft_error *err)
{
    const grouped made = grouped_of(call);
    return cuda_keep(&made, sizeof made, state, err);
}

bool cuda_grouped_accepts(const weft_call *call)
{
    const weft_tensor *a = &call->ins[0], *b = &call->ins[1], *counts = &call->ins[2];
    const weft_dtype c = call->outs[0].dtype;
    return call->n_ins == 3 && a->n_dims == 5 && counts->n_dims == 3 && counts->dtype == WEFT_I32 &&
           a->dtype == b->dtype && (a->dtype == WEFT_F32 || a->dtype == WEFT_BF16) &&
           (c == a->dtype || c == WEFT_F32) && cuda_rows(a) < INT32_MAX && a->whole[2] > 0 &&
           counts->whole[2] % a->whole[2] == 0;
}

/* The list: runs, their tiles, rows in use. */
static size_t list_bytes(const cuda_grouped_args *a)
{
    const int64_t runs = (int64_t)a->groups * a->experts;
    return (size_t)(runs * CUDA_RUN_WORDS + 1 + runs) * sizeof(int32_t);
}

size_t cuda_grouped_workspace(const weft_call *call)
{
    const grouped made = grouped_of(call);
    return list_bytes(&made.args);
}

static int64_t tiles_of(int64_t n, int32_t tile)
{
    return (n + tile - 1) / tile;
}

/* No more tiles than this, whatever the counts are: each run may end within one. */
static int64_t most_tiles(const cuda_grouped_args *a, bool dw)
{
    const int64_t columns = tiles_of(a->n, a->tile);
    if (dw)
        return a->experts * tiles_of(a->m, a->tile) * columns;
    return (tiles_of(a->rows, a->tile) + (int64_t)a->groups * a->experts) * columns;
}

static cuda_kernel kernel_of(const cuda_grouped_args *a, bool dw)
{
    if (!a->whole)
        return dw ? CUDA_KERNEL_grouped_any_dw : CUDA_KERNEL_grouped_any;
    return dw          ? CUDA_KERNEL_grouped_mma_dw
           : a->turned ? CUDA_KERNEL_grouped_mma_dx
                       : CUDA_KERNEL_grouped_mma;
}

static bool is_empty(const cuda_grouped_args *a)
{
    return a->n == 0 || a->experts == 0 || a->groups == 0 || (a->m == 0 && a->rows == 0);
}

static cuda_grouped_args with_addresses(const weft_call *call)
{
    cuda_grouped_args a = ((const grouped *)call->state)->args;
    a.a = cuda_view_of(&call->ins[0]);
    a.b = cuda_view_of(&call->ins[1]);
    a.counts = call->ins[2].data;
    a.out = cuda_view_of(&call->outs[0]);
    a.list = call->workspace;
    a.whole = a.whole && cuda_is_aligned(call);
    a.tile = a.whole ? TILE_MMA : TILE_ANY;
    return a;
}

weft_status cuda_grouped_launch(const weft_call *call, weft_error *err)
{
    const cuda_grouped_args a = with_addresses(call);
    const bool dw = ((const grouped *)call->state)->dw;
    weft_status s = cuda_check_workspace(call, list_bytes(&a), err);
    if (s || is_empty(&a)) /* a weight's gradient is zero where no token is */
        return s ? s : cuda_product_clear(call, err);
    s = cuda_launch(call->queue, CUDA_KERNEL_grouped_list, &a, 1, err);
    if (!s && !dw && !call->accumulate)
        s = cuda_launch(call->queue, CUDA_KERNEL_grouped_clear, &a, cuda_row_blocks(a.rows), err);
    return s ? s
             : cuda_launch(call->queue, kernel_of(&a, dw), &a, cuda_row_blocks(most_tiles(&a, dw)),
                           err);
}

/* Rows in use are what the op's flops say; those behind are zeros that are written. */
weft_kernel_work cuda_grouped_work(const weft_call *call)
{
    const bool dw = strcmp(call->op->name, "grouped_dw") == 0;
    const weft_tensor *all[] = {&call->ins[0], &call->ins[1], &call->outs[0]};
    weft_kernel_work work = {.launches = dw || call->accumulate ? 2 : 3,
                             .dtype = call->ins[0].dtype};
    for (int i = 0; i < 3; i++)
        work.bytes += (double)weft_tensor_count(all[i]) * (double)weft_dtype_size(all[i]->dtype);
    return work;
}
