/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of attention: matrix instructions for bf16 heads of a multiple of 8 elements, a simple
 * kernel for the rest. */
#include "gpu.h"

#include <math.h>

enum { Q, K, V, INDEX_Q, INDEX_K, SEGMENTS_Q, SEGMENTS_K };
enum { MOST_HEAD = 256 };

/* Are some places hidden from others? Else there are neither places nor documents. */
static bool hides(const weft_call *call)
{
    return call->n_ins > SEGMENTS_K;
}

/* The last operands of a gradient: out, lse, dout; NULL: it is none. */
static const weft_tensor *of_gradient(const weft_call *call)
{
    return call->n_ins > (hides(call) ? 7 : 3) ? &call->ins[call->n_ins - 3] : NULL;
}

static bool is_narrow(const weft_tensor *t)
{
    return t->dtype == WEFT_F32 || t->dtype == WEFT_BF16;
}

bool cuda_attention_accepts(const weft_call *call)
{
    const weft_tensor *in = call->ins, *q = &in[Q], *k = &in[K], *last = of_gradient(call);
    int64_t d = q->grain[2], rows = q->size[1] > k->size[1] ? q->size[1] : k->size[1];
    for (int i = INDEX_Q; i <= SEGMENTS_K && hides(call); i++)
        if (in[i].dtype != WEFT_I32)
            return false;
    for (int i = Q; i <= V; i++)
        if (!is_narrow(&in[i]))
            return false;
    for (int i = 0; i < call->n_outs; i++)
        if (!is_narrow(&call->outs[i]))
            return false;
    if (last && (!is_narrow(&last[0]) || last[1].dtype != WEFT_F32 || !is_narrow(&last[2])))
        return false;
    return d >= 1 && d <= MOST_HEAD && q->size[0] <= 65535 && q->size[2] / d <= 65535 &&
           rows * q->size[0] * (q->size[2] / d) < INT32_MAX && k->whole[2] > 0;
}

/* Head sizes that matrix instructions are compiled for; 0: none fits. */
static int matrix_size(const weft_call *call, const cuda_attention_args *a)
{
    bool halves = call->ins[Q].dtype == WEFT_BF16 && call->ins[K].dtype == WEFT_BF16 &&
                  call->ins[V].dtype == WEFT_BF16 &&
                  (!of_gradient(call) || of_gradient(call)[2].dtype == WEFT_BF16);
    if (!halves || a->d % 8 != 0)
        return 0;
    return a->d <= 64 ? 64 : a->d <= 128 ? 128 : 256;
}

static int64_t tiles(int64_t rows)
{
    return (rows + CUDA_TILE - 1) / CUDA_TILE;
}

static cuda_attention_args args_of(const weft_call *call)
{
    const weft_tensor *q = &call->ins[Q], *k = &call->ins[K];
    int64_t d = q->grain[2];
    double scale = weft_call_real(call, "scale");
    return (cuda_attention_args){.batch = (int32_t)q->size[0],
                                 .q_rows = (int32_t)q->size[1],
                                 .k_rows = (int32_t)k->size[1],
                                 .heads = (int32_t)(q->size[2] / d),
                                 .kv_heads = (int32_t)(k->size[2] / d),
                                 .d = (int32_t)d,
                                 .head_lo = (int32_t)(q->lo[2] / d),
                                 .kv_lo = (int32_t)(k->lo[2] / d),
                                 .group = (int32_t)(q->whole[2] / k->whole[2]),
                                 .causal = hides(call) && (!weft_call_has(call, "causal") ||
                                                           weft_call_int(call, "causal") != 0),
                                 .add_dq = call->accumulate,
                                 .scale = (float)(scale != 0.0 ? scale : 1.0 / sqrt((double)d))};
}

/* ---- workspace: ranges of tiles, then the backward's delta ---- */

static size_t ranges_bytes(const weft_call *call)
{
    const weft_tensor *q = &call->ins[Q], *k = &call->ins[K];
    return (size_t)(q->size[0] * (tiles(q->size[1]) + tiles(k->size[1]))) * 4 * sizeof(int32_t);
}

static size_t dx_bytes(const weft_call *call)
{
    const weft_tensor *q = &call->ins[Q];
    size_t heads = (size_t)(weft_tensor_count(q) / q->grain[2]);
    return (ranges_bytes(call) + 63) / 64 * 64 + heads * sizeof(float);
}

/* Whoever computes it. */
static size_t larger(size_t ours, size_t theirs)
{
    return ours > theirs ? ours : theirs;
}

size_t cuda_attention_workspace(const weft_call *call)
{
    return larger(ranges_bytes(call), cuda_dnn_workspace(call));
}

size_t cuda_attention_dx_workspace(const weft_call *call)
{
    return larger(dx_bytes(call), cuda_dnn_workspace(call));
}

static weft_status find_ranges(const weft_call *call, cuda_attention_args *a, weft_error *err)
{
    int64_t n = a->batch * (tiles(a->q_rows) + tiles(a->k_rows)), warps = CUDA_THREADS / 32;
    a->ranges_q = call->workspace;
    a->ranges_k = a->ranges_q ? a->ranges_q + 4 * a->batch * tiles(a->q_rows) : NULL;
    return cuda_launch(call->queue, CUDA_KERNEL_attention_ranges, a, (n + warps - 1) / warps, err);
}

/* ---- what is executed ---- */

/* Of so many products of all queries with all keys, for heads as wide as the kernel's; or by cuDNN.
 */
static weft_kernel_work executed(const weft_call *call, const cuda_attention_args *a, int size,
                                 double products)
{
    const weft_kernel_work own = {.flops = products * 2.0 * size * a->heads * a->batch *
                                           (double)a->q_rows * (double)a->k_rows};
    return cuda_dnn_may_take(call) ? cuda_dnn_work(call, own) : own;
}

weft_kernel_work cuda_attention_work(const weft_call *call)
{
    const cuda_attention_args a = args_of(call);
    return executed(call, &a, matrix_size(call, &a), 2);
}

/* dq is 3, and dk with dv 4: scores and their gradients are made in both, and by each block that
 * has a half of a very wide head's columns. */
weft_kernel_work cuda_attention_dx_work(const weft_call *call)
{
    const cuda_attention_args a = args_of(call);
    const int size = matrix_size(call, &a);
    return executed(call, &a, size, 3 + (size > 128 ? 6 : 4));
}

/* ---- prepared ---- */

typedef struct prepared {
    cuda_attention_args args;
    int size;     /* of matrix_size */
    void *by_dnn; /* cuDNN's; NULL: our own kernels do it */
} prepared;

weft_status cuda_attention_prepare(const weft_call *call, void **state, weft_error *err)
{
    prepared made = {.args = args_of(call)};
    made.size = matrix_size(call, &made.args);
    if (call->queue && !made.size)
        call->queue->slow = fmax(call->queue->slow, call->op->flops(call));
    weft_status s = cuda_dnn_prepare(call, made.args.scale, &made.by_dnn, err);
    s = s ? s : cuda_keep(&made, sizeof made, state, err);
    if (s)
        cuda_dnn_release(made.by_dnn);
    return s;
}

void cuda_attention_release(void *state)
{
    if (state)
        cuda_dnn_release(((const prepared *)state)->by_dnn);
    weft_free(state);
}

bool cuda_attention_is_by_dnn(const void *state)
{
    return ((const prepared *)state)->by_dnn != NULL;
}

static cuda_attention_args with_addresses(const weft_call *call)
{
    const weft_tensor *in = call->ins;
    cuda_attention_args a = ((const prepared *)call->state)->args;
    a.q = cuda_view_of(&in[Q]);
    a.k = cuda_view_of(&in[K]);
    a.v = cuda_view_of(&in[V]);
    if (!hides(call))
        return a;
    a.index_q = in[INDEX_Q].data;
    a.index_k = in[INDEX_K].data;
    a.segments_q = in[SEGMENTS_Q].data;
    a.segments_k = in[SEGMENTS_K].data;
    return a;
}

/* ---- launches ---- */

/* Elements of bf16 in shared memory: `rows` rows of a head, `n` of each of two operands that are
 * read in turn, and the next n. */
static size_t shared_bytes(int size, int rows, int n)
{
    return (size_t)size * (size_t)(rows + 4 * n) * 2;
}

weft_status cuda_attention_launch(const weft_call *call, weft_error *err)
{
    const prepared *made = call->state;
    const int size = made->size;
    if (made->by_dnn)
        return cuda_dnn_launch(call, made->by_dnn, err);
    cuda_attention_args a = with_addresses(call);
    a.out = cuda_view_of(&call->outs[0]);
    a.lse = call->outs[1].data;
    if (!size)
        return cuda_launch(
            call->queue, CUDA_KERNEL_attention_any, &a,
            cuda_row_blocks(((int64_t)a.batch * a.q_rows * a.heads + CUDA_THREADS / 32 - 1) /
                            (CUDA_THREADS / 32)),
            err);
    weft_status s = cuda_check_workspace(call, ranges_bytes(call), err);
    if (!s)
        s = find_ranges(call, &a, err);
    if (s)
        return s;
    cuda_kernel kernel = size == 64    ? CUDA_KERNEL_attention_64
                         : size == 128 ? CUDA_KERNEL_attention_128
                                       : CUDA_KERNEL_attention_256;
    return cuda_launch_grid(call->queue, kernel, &a,
                            (const int64_t[]){tiles(a.q_rows), a.heads, a.batch},
                            shared_bytes(size, CUDA_TILE, size == 256 ? 32 : 64), err);
}

static weft_status launch_any_dx(const weft_call *call, const cuda_attention_args *a,
                                 weft_error *err)
{
    const int64_t warps = CUDA_THREADS / 32;
    int64_t q = (int64_t)a->batch * a->q_rows * a->heads;
    int64_t k = (int64_t)a->batch * a->k_rows * a->kv_heads;
    weft_status s = cuda_launch(call->queue, CUDA_KERNEL_attention_any_dq, a,
                                cuda_row_blocks((q + warps - 1) / warps), err);
    return s ? s
             : cuda_launch(call->queue, CUDA_KERNEL_attention_any_dkv, a,
                           cuda_row_blocks((k + warps - 1) / warps), err);
}

static weft_status launch_matrix_dx(const weft_call *call, const cuda_attention_args *a, int size,
                                    weft_error *err)
{
    static const struct {
        cuda_kernel dq, dkv;
        int n_dq, n_dkv; /* rows that are read in turn */
    } by_size[] = {
        {CUDA_KERNEL_attention_dq_64, CUDA_KERNEL_attention_dkv_64, 64, 32},
        {CUDA_KERNEL_attention_dq_128, CUDA_KERNEL_attention_dkv_128, 32, 32},
        {CUDA_KERNEL_attention_dq_256, CUDA_KERNEL_attention_dkv_256, 16, 16},
    };
    int i = size == 64 ? 0 : size == 128 ? 1 : 2;
    int64_t halves = size > 128 ? 2 : 1;
    weft_status s = cuda_launch_grid(call->queue, by_size[i].dq, a,
                                     (const int64_t[]){tiles(a->q_rows), a->heads, a->batch},
                                     shared_bytes(size, 2 * CUDA_TILE, by_size[i].n_dq), err);
    return s ? s
             : cuda_launch_grid(call->queue, by_size[i].dkv, a,
                                (const int64_t[]){tiles(a->k_rows) * halves, a->kv_heads, a->batch},
                                shared_bytes(size, 2 * CUDA_TILE, by_size[i].n_dkv), err);
}

weft_status cuda_attention_dx_launch(const weft_call *call, weft_error *err)
{
    const prepared *made = call->state;
    const int size = made->size;
    if (made->by_dnn)
        return cuda_dnn_launch(call, made->by_dnn, err);
    cuda_attention_args a = with_addresses(call);
    int64_t heads = (int64_t)a.batch * a.q_rows * a.heads, warps = CUDA_THREADS / 32;
    weft_status s = cuda_check_workspace(call, dx_bytes(call), err);
    a.out = cuda_view_of(&of_gradient(call)[0]);
    a.lse = of_gradient(call)[1].data;
    a.dout = cuda_view_of(&of_gradient(call)[2]);
    a.dq = cuda_view_of(&call->outs[0]);
    a.dk = cuda_view_of(&call->outs[1]);
    a.dv = cuda_view_of(&call->outs[2]);
    a.delta = (float *)((char *)call->workspace + (ranges_bytes(call) + 63) / 64 * 64);
    if (!s)
        s = cuda_launch(call->queue, CUDA_KERNEL_attention_delta, &a,
                        cuda_row_blocks((heads + warps - 1) / warps), err);
    if (!s && size)
        s = find_ranges(call, &a, err);
    if (s)
        return s;
    return size ? launch_matrix_dx(call, &a, size, err) : launch_any_dx(call, &a, err);
}

weft_status cuda_attention_merge_launch(const weft_call *call, weft_error *err)
{
    const int64_t warps = CUDA_THREADS / 32;
    int64_t rows = weft_tensor_count(&call->outs[1]), n = weft_tensor_count(&call->outs[0]);
    cuda_elementwise_args a = {.n = n, .width = rows ? n / rows : 1, .n_ins = call->n_ins};
    for (int i = 0; i < call->n_ins; i++)
        a.ins[i] = cuda_view_of(&call->ins[i]);
    for (int i = 0; i < call->n_outs; i++)
        a.outs[i] = cuda_view_of(&call->outs[i]);
    return cuda_launch(call->queue, CUDA_KERNEL_attention_merge, &a,
                       a.width ? cuda_row_blocks((rows + warps - 1) / warps) : 0, err);
}
