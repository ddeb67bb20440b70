/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of ops around tokens: embedding, cross-entropy, rows; sums, single numbers, the update,
 * 8-bit values. */
#include "gpu.h"

#include <string.h>

static bool is(const weft_call *call, const char *op)
{
    return strcmp(call->op->name, op) == 0;
}

/* ---- embedding ---- */

static cuda_embedding_args embedding_args(const weft_call *call, const weft_tensor *table)
{
    return (cuda_embedding_args){.ids = cuda_view_of(&call->ins[0]),
                                 .out = cuda_view_of(&call->outs[0]),
                                 .tokens = weft_tensor_count(&call->ins[0]),
                                 .width = table->size[1],
                                 .lo = table->lo[0],
                                 .rows = table->size[0],
                                 .accumulate = call->accumulate};
}

weft_status cuda_embedding_launch(const weft_call *call, weft_error *err)
{
    cuda_embedding_args a = embedding_args(call, &call->ins[1]);
    a.table = cuda_view_of(&call->ins[1]);
    return cuda_launch(call->queue, CUDA_KERNEL_embedding, &a, cuda_row_blocks(a.tokens), err);
}

/* Where the launch has what, in its workspace; its bytes. */
static size_t lay_out_order(cuda_embedding_args *a, void *base)
{
    const int64_t pieces = (a->tokens + CUDA_PIECE - 1) / CUDA_PIECE,
                  width = (a->width + 7) / 8 * 8;
    const int64_t keys = (a->tokens + 7) / 8 * 8;
    a->keys = base;
    if (base) {
        a->order = a->keys + keys;
        a->parts = (float *)(a->order + keys);
    }
    return (size_t)keys * 2 * sizeof(int64_t) + (size_t)(2 * pieces * width) * sizeof(float);
}

size_t cuda_embedding_workspace(const weft_call *call)
{
    cuda_embedding_args a = embedding_args(call, &call->outs[0]);
    return lay_out_order(&a, NULL);
}

/* Only rows that occur are written; the others are zeros first where nothing is added to. */
static weft_status clear_rows(const weft_call *call, weft_error *err)
{
    const weft_tensor *out = &call->outs[0];
    const int64_t bytes = weft_tensor_count(out) * (int64_t)weft_dtype_size(out->dtype);
    const weft_box box = weft_box_of(out->data, NULL, bytes);
    return call->accumulate || bytes == 0 ? WEFT_OK : cuda_box_move(call->queue, &box, err);
}

weft_status cuda_embedding_dw_launch(const weft_call *call, weft_error *err)
{
    cuda_embedding_args a = embedding_args(call, &call->outs[0]);
    const int64_t columns = (a.width + 8 * CUDA_THREADS - 1) / (8 * CUDA_THREADS),
                  grid[3] = {cuda_row_blocks((a.tokens + CUDA_PIECE - 1) / CUDA_PIECE),
                             columns < 64 ? columns : 64, 1};
    a.dy = cuda_view_of(&call->ins[1]);
    a.whole = cuda_is_whole(&call->ins[1]);
    lay_out_order(&a, call->workspace);
    weft_status s = cuda_check_workspace(call, cuda_embedding_workspace(call), err);
    s = s ? s : clear_rows(call, err);
    s = s ? s
          : cuda_launch(call->queue, CUDA_KERNEL_sort_tokens, &a,
                        cuda_row_blocks((a.tokens + CUDA_THREADS - 1) / CUDA_THREADS), err);
    s = s ? s
          : cuda_launch(call->queue, CUDA_KERNEL_order_tokens, &a, cuda_chunk_blocks(8 * a.tokens),
                        err);
    s = s ? s : cuda_launch_grid(call->queue, CUDA_KERNEL_embedding_dw, &a, grid, 0, err);
    return s ? s : cuda_launch_grid(call->queue, CUDA_KERNEL_embedding_join, &a, grid, 0, err);
}

/* ---- cross-entropy ---- */

typedef struct loss {
    cuda_loss_args args;
    cuda_kernel kernel;
    int64_t blocks;
} loss;

/* Rows a block each, or a thread each. */
static void choose_loss(const weft_call *call, loss *made)
{
    const int64_t rows = cuda_row_blocks(made->args.rows),
                  threads = cuda_chunk_blocks(8 * made->args.rows);
    const bool pick = is(call, "pick"), dx = is(call, "pick_dx");
    made->blocks = pick || (dx && call->accumulate) ? threads : rows;
    made->kernel = pick                 ? CUDA_KERNEL_pick
                   : dx                 ? CUDA_KERNEL_pick_dx
                   : is(call, "max_v")  ? CUDA_KERNEL_max_v
                   : is(call, "sumexp") ? CUDA_KERNEL_sumexp
                                        : CUDA_KERNEL_sumexp_dx;
    if (dx && call->accumulate)
        made->kernel = CUDA_KERNEL_pick_dx_add;
}

weft_status cuda_loss_prepare(const weft_call *call, void **state, weft_error *err)
{
    const weft_tensor *in = call->ins, *logits = is(call, "pick_dx") ? &call->outs[0] : &in[0];
    loss made = {.args = {.rows = cuda_rows(logits),
                          .width = cuda_width(logits),
                          .lo = logits->lo[logits->n_dims - 1],
                          .accumulate = call->accumulate,
                          .whole = cuda_is_whole(&in[0]) &&
                                   (!is(call, "sumexp_dx") || cuda_is_whole(&call->outs[0]))}};
    choose_loss(call, &made);
    return cuda_keep(&made, sizeof made, state, err);
}

/* logits (max (dy)), logits labels, or labels dy */
weft_status cuda_loss_launch(const weft_call *call, weft_error *err)
{
    const loss *made = call->state;
    const cuda_view first = cuda_view_of(&call->ins[0]),
                    last = cuda_view_of(&call->ins[call->n_ins - 1]);
    cuda_loss_args a = made->args;
    a.out = cuda_view_of(&call->outs[0]);
    a.whole = a.whole && cuda_is_aligned(call);
    a.logits = a.labels = first;
    a.dy = last;
    if (made->kernel == CUDA_KERNEL_pick)
        a.labels = last;
    else if (call->n_ins > 1)
        a.max = cuda_view_of(&call->ins[1]);
    return cuda_launch(call->queue, made->kernel, &a, made->blocks, err);
}

/* ---- what a plan is told of those that reach for few elements ---- */

static double bytes_of(const weft_tensor *t)
{
    return (double)weft_tensor_count(t) * (double)weft_dtype_size(t->dtype);
}

/* Of each row one number, for which memory gives a sector. */
weft_kernel_work cuda_pick_work(const weft_call *call)
{
    const double sector = 32, rows = (double)weft_tensor_count(&call->ins[1]);
    weft_kernel_work work = {.launches = 1, .bytes = bytes_of(&call->ins[1])};
    if (is(call, "pick"))
        work.bytes += bytes_of(&call->outs[0]) + rows * sector;
    else
        work.bytes += bytes_of(&call->ins[0]) +
                      (call->accumulate ? 2 * rows * sector : bytes_of(&call->outs[0]));
    return work;
}

/* A row of the table for each token. */
weft_kernel_work cuda_embedding_work(const weft_call *call)
{
    const weft_tensor *ids = &call->ins[0], *table = &call->ins[1];
    const double rows = (double)(weft_tensor_count(ids) * table->size[1]);
    return (weft_kernel_work){.launches = 1,
                              .bytes = bytes_of(ids) +
                                       rows * (double)weft_dtype_size(table->dtype) +
                                       bytes_of(&call->outs[0]) * (call->accumulate ? 2 : 1)};
}

/* No more rows of the table than there are tokens, behind its zeros if they begin a sum; the
 * ends of pieces are written apart and read again. */
weft_kernel_work cuda_embedding_dw_work(const weft_call *call)
{
    const weft_tensor *ids = &call->ins[0], *out = &call->outs[0];
    const int64_t tokens = weft_tensor_count(ids), rows = out->size[0];
    const double found = (double)((tokens < rows ? tokens : rows) * out->size[1]),
                 before = call->accumulate ? 0 : bytes_of(out);
    return (weft_kernel_work){.launches = call->accumulate ? 4 : 5,
                              .bytes = before + bytes_of(ids) + bytes_of(&call->ins[1]) +
                                       2 * found * (double)weft_dtype_size(out->dtype) +
                                       2 * (double)cuda_embedding_workspace(call),
                              .before = before};
}

/* ---- sums of all elements ---- */

static int64_t sum_blocks(int64_t n)
{
    int64_t blocks = cuda_chunk_blocks(n);
    return blocks < CUDA_SUM_BLOCKS ? blocks : CUDA_SUM_BLOCKS;
}

size_t cuda_sum_workspace(const weft_call *call)
{
    return (size_t)sum_blocks(weft_tensor_count(&call->ins[0])) * sizeof(double);
}

typedef struct sum {
    cuda_sum_args args;
    cuda_kernel kernel;
} sum;

weft_status cuda_sum_prepare(const weft_call *call, void **state, weft_error *err)
{
    const int64_t n = weft_tensor_count(&call->ins[0]);
    const sum made = {
        .args = {.n = n, .n_parts = (int32_t)sum_blocks(n), .accumulate = call->accumulate},
        .kernel = is(call, "sumsq")         ? CUDA_KERNEL_sumsq_parts
                  : is(call, "count_valid") ? CUDA_KERNEL_valid_parts
                                            : CUDA_KERNEL_sum_parts};
    return cuda_keep(&made, sizeof made, state, err);
}

weft_status cuda_sum_launch(const weft_call *call, weft_error *err)
{
    const sum *made = call->state;
    cuda_sum_args a = made->args;
    a.x = cuda_view_of(&call->ins[0]);
    a.out = cuda_view_of(&call->outs[0]);
    a.parts = call->workspace;
    weft_status s = cuda_check_workspace(call, cuda_sum_workspace(call), err);
    s = s ? s : cuda_launch(call->queue, made->kernel, &a, a.n_parts, err);
    return s ? s : cuda_launch(call->queue, CUDA_KERNEL_add_parts, &a, 1, err);
}

/* ---- single numbers ---- */

static int32_t shape_of(const weft_call *call)
{
    static const char *const shapes[] = {"constant", "linear", "sqrt", "cosine"};
    for (int32_t i = 3; i > 0; i--)
        if (strcmp(weft_call_text(call, "shape"), shapes[i]) == 0)
            return i;
    return 0;
}

typedef struct scalar {
    cuda_scalar_args args;
    cuda_kernel kernel;
} scalar;

weft_status cuda_scalar_prepare(const weft_call *call, void **state, weft_error *err)
{
    scalar made = {.args = {.accumulate = call->accumulate}, .kernel = CUDA_KERNEL_reciprocal};
    cuda_scalar_args *a = &made.args;
    if (is(call, "constant")) {
        made.kernel = CUDA_KERNEL_constant;
        a->value = weft_call_real(call, "value");
    } else if (is(call, "sqrt")) {
        made.kernel = CUDA_KERNEL_square_root;
    } else if (is(call, "clip")) {
        made.kernel = CUDA_KERNEL_clip;
        a->value = weft_call_real(call, "max_norm");
    } else if (is(call, "lr_schedule")) {
        made.kernel = CUDA_KERNEL_lr_schedule;
        a->value = weft_call_real(call, "lr");
        a->min_factor = weft_call_real(call, "min_factor");
        a->warmup = weft_call_int(call, "warmup");
        a->decay = weft_call_int(call, "decay");
        a->total = weft_call_int(call, "total");
        a->shape = shape_of(call);
    }
    return cuda_keep(&made, sizeof made, state, err);
}

weft_status cuda_scalar_launch(const weft_call *call, weft_error *err)
{
    const scalar *made = call->state;
    cuda_scalar_args a = made->args;
    a.out = cuda_view_of(&call->outs[0]);
    if (call->n_ins > 0)
        a.in = cuda_view_of(&call->ins[0]);
    return cuda_launch(call->queue, made->kernel, &a, 1, err);
}

weft_status cuda_adamw_prepare(const weft_call *call, void **state, weft_error *err)
{
    const cuda_adamw_args a = {.n = weft_tensor_count(&call->ins[0]),
                               .beta1 = weft_call_real(call, "beta1"),
                               .beta2 = weft_call_real(call, "beta2"),
                               .eps = weft_call_real(call, "eps"),
                               .weight_decay = weft_call_real(call, "weight_decay")};
    return cuda_keep(&a, sizeof a, state, err);
}

weft_status cuda_adamw_launch(const weft_call *call, weft_error *err)
{
    const weft_tensor *in = call->ins, *out = call->outs;
    cuda_adamw_args a = *(const cuda_adamw_args *)call->state;
    a.p = cuda_view_of(&in[0]);
    a.m = cuda_view_of(&in[1]);
    a.v = cuda_view_of(&in[2]);
    a.g = cuda_view_of(&in[3]);
    a.clip = cuda_view_of(&in[4]);
    a.lr = cuda_view_of(&in[5]);
    a.step = cuda_view_of(&in[6]);
    a.p_out = cuda_view_of(&out[0]);
    a.m_out = cuda_view_of(&out[1]);
    a.v_out = cuda_view_of(&out[2]);
    return cuda_launch(call->queue, CUDA_KERNEL_adamw, &a, cuda_chunk_blocks(a.n), err);
}

/* ---- rows that an index names ---- */

/* A copy of the cache as it was, where the result does not lie there already. */
static weft_status copy_cache(const weft_call *call, weft_error *err)
{
    const weft_tensor *was = &call->ins[0], *out = &call->outs[0];
    int64_t bytes = weft_tensor_count(was) * (int64_t)weft_dtype_size(was->dtype);
    const weft_box box = weft_box_of(out->data, was->data, bytes);
    return was->data == out->data ? WEFT_OK : cuda_box_move(call->queue, &box, err);
}

typedef struct rows_of {
    cuda_rows_args args;
    cuda_kernel kernel;
    int64_t blocks;
} rows_of;

static rows_of repeat_of(const weft_call *call, bool backward)
{
    const weft_tensor *in = &call->ins[0], *out = &call->outs[0];
    const weft_tensor *q = backward ? in : out, *k = backward ? out : in;
    int64_t d = q->grain[2];
    rows_of made = {.args = {.n = cuda_rows(in),
                             .group = (int32_t)(q->whole[2] / k->whole[2]),
                             .head_lo = (int32_t)(q->lo[2] / d),
                             .kv_lo = (int32_t)(k->lo[2] / d),
                             .heads = (int32_t)(q->size[2] / d),
                             .kv_heads = (int32_t)(k->size[2] / d),
                             .d = (int32_t)d},
                    .kernel = backward ? CUDA_KERNEL_repeat_kv_dx : CUDA_KERNEL_repeat_kv};
    made.blocks = cuda_row_blocks(made.args.n * (backward ? made.args.kv_heads : made.args.heads));
    return made;
}

static rows_of indexed_of(const weft_call *call, bool cache)
{
    const weft_tensor *in = call->ins;
    rows_of made = {.args = {.batch = in[0].size[0],
                             .places = in[0].size[1],
                             .width = in[0].size[2],
                             .n = cache ? in[1].size[1] : 1},
                    .kernel = cache ? CUDA_KERNEL_cache : CUDA_KERNEL_take};
    made.blocks = cuda_row_blocks(made.args.batch * made.args.n);
    return made;
}

weft_status cuda_rows_prepare(const weft_call *call, void **state, weft_error *err)
{
    const bool cache = is(call, "cache");
    rows_of made = cache || is(call, "take") ? indexed_of(call, cache)
                                             : repeat_of(call, is(call, "repeat_kv_dx"));
    made.args.accumulate = call->accumulate;
    return cuda_keep(&made, sizeof made, state, err);
}

/* (rows, more rows, index), (rows, index), or rows of heads alone */
weft_status cuda_rows_launch(const weft_call *call, weft_error *err)
{
    const rows_of *made = call->state;
    cuda_rows_args a = made->args;
    a.in = cuda_view_of(&call->ins[0]);
    a.index = cuda_view_of(&call->ins[call->n_ins - 1]);
    a.out = cuda_view_of(&call->outs[0]);
    if (made->kernel != CUDA_KERNEL_cache)
        return cuda_launch(call->queue, made->kernel, &a, made->blocks, err);
    a.more = cuda_view_of(&call->ins[1]);
    weft_status s = copy_cache(call, err);
    return s ? s : cuda_launch(call->queue, made->kernel, &a, made->blocks, err);
}

/* ---- 8 bits ---- */

/* Kept places are the first dims of x, the last, or none: elements that share a number are a row or
 * a column. -1: they are neither. */
static int32_t kept_dims(const weft_call *call, int64_t *width)
{
    const weft_tensor *x = &call->ins[0];
    int64_t places = weft_call_int(call, "places"), all = ((int64_t)1 << x->n_dims) - 1;
    int first = 0, last = x->n_dims;
    while (first < x->n_dims && places >> first & 1)
        first++;
    while (last > 0 && places >> (last - 1) & 1)
        last--;
    bool rows = places == ((int64_t)1 << first) - 1;
    *width = 1;
    for (int d = rows ? first : last; d < x->n_dims; d++)
        *width *= x->size[d];
    if (rows)
        return places ? CUDA_KEEP_ROWS : CUDA_KEEP_NONE;
    return places == all - (((int64_t)1 << last) - 1) ? CUDA_KEEP_COLUMNS : -1;
}

bool cuda_quantise_accepts(const weft_call *call)
{
    int64_t width;
    return is(call, "float8_scale") || (kept_dims(call, &width) >= 0 && width > 0);
}

/* Of a maximum of columns. */
static int64_t column_parts(const weft_call *call, int64_t width)
{
    int64_t rows = weft_tensor_count(&call->ins[0]) / width;
    return rows < CUDA_PARTS ? rows : CUDA_PARTS;
}

size_t cuda_amax_workspace(const weft_call *call)
{
    int64_t width;
    int64_t parts = kept_dims(call, &width) == CUDA_KEEP_COLUMNS
                        ? column_parts(call, width) * width
                        : sum_blocks(weft_tensor_count(&call->ins[0]));
    return (size_t)parts * sizeof(float);
}

typedef struct quantise {
    cuda_quantise_args args;
    cuda_kernel kernel;
    size_t workspace;
} quantise;

static cuda_kernel amax_kernel(int32_t keep)
{
    return keep == CUDA_KEEP_ROWS      ? CUDA_KERNEL_amax_rows
           : keep == CUDA_KEEP_COLUMNS ? CUDA_KERNEL_amax_column_parts
                                       : CUDA_KERNEL_amax_parts;
}

weft_status cuda_quantise_prepare(const weft_call *call, void **state, weft_error *err)
{
    const bool scale = is(call, "float8_scale"), amax = is(call, "float8_amax");
    quantise made = {.args = {.n = weft_tensor_count(&call->ins[0]),
                              .power_of_two = scale && weft_call_int(call, "power_of_two") != 0}};
    cuda_quantise_args *a = &made.args;
    a->keep = scale ? CUDA_KEEP_NONE : kept_dims(call, &a->width);
    made.kernel = amax ? amax_kernel(a->keep) : scale ? CUDA_KERNEL_f8_scale : CUDA_KERNEL_quantise;
    if (amax) {
        made.workspace = cuda_amax_workspace(call);
        a->n_parts = a->keep == CUDA_KEEP_COLUMNS ? column_parts(call, a->width) : sum_blocks(a->n);
    } else {
        const weft_dtype dtype = weft_dtype_find(weft_call_text(call, "dtype"));
        a->most = weft_dtype_max(dtype);
        a->e5m2 = dtype == WEFT_F8E5M2;
    }
    return cuda_keep(&made, sizeof made, state, err);
}

static weft_status launch_columns(const weft_call *call, const cuda_quantise_args *a,
                                  weft_error *err)
{
    const int64_t grid[] = {(a->width + CUDA_COLUMNS - 1) / CUDA_COLUMNS, a->n_parts, 1};
    weft_status s = cuda_launch_grid(call->queue, CUDA_KERNEL_amax_column_parts, a, grid, 0, err);
    return s ? s
             : cuda_launch(call->queue, CUDA_KERNEL_amax_of_columns, a,
                           cuda_chunk_blocks(8 * a->width), err);
}

static weft_status launch_parts(const weft_call *call, cuda_quantise_args *a, weft_error *err)
{
    weft_status s = cuda_launch(call->queue, CUDA_KERNEL_amax_parts, a, a->n_parts, err);
    a->n = a->n_parts;
    return s ? s : cuda_launch(call->queue, CUDA_KERNEL_amax_of_parts, a, 1, err);
}

weft_status cuda_quantise_launch(const weft_call *call, weft_error *err)
{
    const quantise *made = call->state;
    cuda_quantise_args a = made->args;
    weft_status s = cuda_check_workspace(call, made->workspace, err);
    if (s)
        return s;
    a.x = cuda_view_of(&call->ins[0]);
    a.out = cuda_view_of(&call->outs[0]);
    a.parts = call->workspace;
    switch (made->kernel) {
    case CUDA_KERNEL_amax_column_parts:
        return launch_columns(call, &a, err);
    case CUDA_KERNEL_amax_parts:
        return launch_parts(call, &a, err);
    case CUDA_KERNEL_amax_rows:
        return cuda_launch(call->queue, made->kernel, &a,
                           cuda_row_blocks(weft_tensor_count(&call->outs[0])), err);
    case CUDA_KERNEL_f8_scale:
        return cuda_launch(call->queue, made->kernel, &a, cuda_chunk_blocks(8 * a.n), err);
    default:
        a.scale = cuda_view_of(&call->ins[1]);
        return cuda_launch(call->queue, made->kernel, &a, cuda_chunk_blocks(a.n), err);
    }
}

weft_status cuda_history_prepare(const weft_call *call, void **state, weft_error *err)
{
    const cuda_history_args a = {
        .n = weft_tensor_count(&call->outs[0]),
        .interval = weft_call_int(call, "interval"),
        .n_maxima = call->n_ins - 3,
        .recent = weft_call_int(call, "recent") != 0,
        .power_of_two = weft_call_int(call, "power_of_two") != 0,
        .margin = (int32_t)weft_call_int(call, "margin"),
        .most = weft_dtype_max(weft_dtype_find(weft_call_text(call, "dtype")))};
    return cuda_keep(&a, sizeof a, state, err);
}

weft_status cuda_history_launch(const weft_call *call, weft_error *err)
{
    const weft_tensor *in = call->ins;
    cuda_history_args a = *(const cuda_history_args *)call->state;
    a.was = cuda_view_of(&in[0]);
    a.scale = cuda_view_of(&in[1]);
    a.step = cuda_view_of(&in[2]);
    a.out = cuda_view_of(&call->outs[0]);
    a.scale_out = cuda_view_of(&call->outs[1]);
    for (int i = 0; i < a.n_maxima; i++)
        a.maxima[i] = cuda_view_of(&in[3 + i]);
    return cuda_launch(call->queue, CUDA_KERNEL_f8_history, &a, 1, err);
}
