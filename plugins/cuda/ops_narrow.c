/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of what makes an activation and narrows it, of the plugin float8. */
#include "gpu.h"

#include <string.h>

static bool is_silu(const weft_call *call)
{
    return strstr(call->op->name, "silu_mul") != NULL;
}

/* Does a sum come first? Then it is result 0. */
static int sums(const weft_call *call)
{
    return strstr(call->op->name, "add_") != NULL;
}

/* Rows of bf16 that a block holds, and whole words of gates; a scale that is one, or each row's. */
bool cuda_narrow_accepts(const weft_call *call)
{
    const weft_tensor *x = &call->ins[0], *last = &call->ins[call->n_ins - 1];
    const int64_t places = weft_call_int(call, "places");
    const int wide = 2 + sums(call);
    const bool rows = call->n_ins == wide;
    bool whole = cuda_width(x) % 8 == 0 && (is_silu(call) || cuda_width(x) <= 32 * CUDA_THREADS);
    for (int i = 0; i < wide && whole; i++)
        whole = call->ins[i].dtype == WEFT_BF16 || (i == wide - 1 && !is_silu(call));
    if (sums(call))
        whole = whole && call->outs[0].dtype == WEFT_BF16;
    if (!rows)
        return whole && last->n_dims == 0 && places == 0;
    return whole && x->n_dims > 0 && places == ((int64_t)1 << (x->n_dims - 1)) - 1;
}

static int64_t blocks_of(const weft_call *call)
{
    const weft_tensor *x = &call->ins[0];
    const int64_t n = weft_tensor_count(x);
    if (is_silu(call) && call->n_ins > 2)
        return cuda_chunk_blocks(n);
    return n ? cuda_row_blocks(cuda_rows(x)) : 0;
}

/* Is the largest magnitude asked for? */
static bool has_amax(const weft_call *call)
{
    return call->n_ins > 2 + sums(call) && call->n_outs > 1 + sums(call);
}

size_t cuda_narrow_workspace(const weft_call *call)
{
    return has_amax(call) ? (size_t)blocks_of(call) * sizeof(float) : 0;
}

static cuda_narrow_args narrow_args(const weft_call *call)
{
    const int sum = sums(call);
    const weft_tensor *x = &call->ins[0], *q = &call->outs[sum];
    const bool rows = call->n_ins == 2 + sum;
    cuda_narrow_args a = {.of = {.x = cuda_view_of(x),
                                 .w = cuda_view_of(&call->ins[1 + sum]),
                                 .rows = cuda_rows(x),
                                 .width = cuda_width(x),
                                 .eps = is_silu(call) ? 0 : (float)weft_call_real(call, "eps")},
                          .scale = rows ? NULL : call->ins[call->n_ins - 1].data,
                          .scales = rows ? q[1].data : NULL,
                          .parts = has_amax(call) ? call->workspace : NULL,
                          .out = q->data,
                          .e5m2 = q->dtype == WEFT_F8E5M2,
                          .power_of_two = rows && weft_call_int(call, "power_of_two") != 0,
                          .most = weft_dtype_max(q->dtype)};
    if (sum) {
        a.of.dy = cuda_view_of(&call->ins[1]);
        a.of.sum = cuda_view_of(&call->outs[0]);
    }
    return a;
}

weft_status cuda_narrow_launch(const weft_call *call, weft_error *err)
{
    const cuda_narrow_args a = narrow_args(call);
    const cuda_quantise_args parts = {
        .out = cuda_view_of(&call->outs[call->n_outs - 1]), .parts = a.parts, .n = blocks_of(call)};
    const bool by_row = is_silu(call) && a.scales;
    weft_status s = cuda_check_workspace(call, cuda_narrow_workspace(call), err);
    if (!s)
        s = cuda_launch(call->queue,
                        by_row                           ? CUDA_KERNEL_narrow_silu_mul_rows
                        : is_silu(call)                  ? CUDA_KERNEL_narrow_silu_mul
                        : a.of.width > 16 * CUDA_THREADS ? CUDA_KERNEL_narrow_norm_4
                                                         : CUDA_KERNEL_narrow_norm_2,
                        &a, blocks_of(call), err);
    return s || !has_amax(call)
               ? s
               : cuda_launch(call->queue, CUDA_KERNEL_amax_of_parts, &parts, 1, err);
}

/* What is read and written, and a launch more for the maximum of all blocks. */
weft_kernel_work cuda_narrow_work(const weft_call *call)
{
    weft_kernel_work w = {.launches = 1 + has_amax(call), .dtype = WEFT_F32};
    for (int i = 0; i < call->n_ins + call->n_outs; i++) {
        const weft_tensor *t = i < call->n_ins ? &call->ins[i] : &call->outs[i - call->n_ins];
        w.bytes += (double)weft_tensor_count(t) * (double)weft_dtype_size(t->dtype);
    }
    return w;
}
