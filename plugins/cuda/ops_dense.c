/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of element-wise ops, norms, rope and copies. */
#include "gpu.h"

#include <string.h>
#include <weft/rope.h>

/* ---- element-wise ---- */

/* What a thread has, eight elements or one; or a block, a row. */
typedef enum shares { BY_CHUNK, BY_ELEMENT, BY_ROW } shares;

static const struct {
    const char *op;
    cuda_kernel kernel;
    shares by;
} elementwise_ops[] = {
    {"add", CUDA_KERNEL_add, BY_CHUNK},
    {"add_bias", CUDA_KERNEL_add_bias, BY_ROW},
    {"scale", CUDA_KERNEL_scale, BY_CHUNK},
    {"cast", CUDA_KERNEL_copy, BY_CHUNK},
    {"accumulate", CUDA_KERNEL_copy, BY_CHUNK},
    {"snapshot", CUDA_KERNEL_copy, BY_CHUNK},
    {"accumulate_max", CUDA_KERNEL_larger, BY_CHUNK},
    {"lowest", CUDA_KERNEL_lowest, BY_CHUNK},
    {"broadcast", CUDA_KERNEL_broadcast, BY_CHUNK},
    {"silu_mul", CUDA_KERNEL_silu_mul, BY_CHUNK},
    {"silu_mul_dx", CUDA_KERNEL_silu_mul_dx, BY_CHUNK},
    {"gelu", CUDA_KERNEL_gelu, BY_CHUNK},
    {"gelu_dx", CUDA_KERNEL_gelu_dx, BY_CHUNK},
    {"nll", CUDA_KERNEL_nll, BY_ELEMENT},
    {"nll_de", CUDA_KERNEL_nll_de, BY_ELEMENT},
    {"nll_dt", CUDA_KERNEL_nll_dt, BY_ELEMENT},
};

typedef struct elementwise {
    cuda_elementwise_args args;
    cuda_kernel kernel;
    int64_t blocks;
} elementwise;

/* Only attributes that an op declares may be asked for. */
static bool is_kind_of(const weft_call *call, const char *name)
{
    return strncmp(call->op->name, name, strlen(name)) == 0;
}

static bool are_all_whole(const weft_call *call)
{
    bool whole = true;
    for (int i = 0; i < call->n_ins && whole; i++)
        whole = cuda_is_whole(&call->ins[i]);
    for (int i = 0; i < call->n_outs && whole; i++)
        whole = cuda_is_whole(&call->outs[i]);
    return whole;
}

weft_status cuda_elementwise_prepare(const weft_call *call, void **state, weft_error *err)
{
    const int64_t n = weft_tensor_count(&call->outs[0]), width = cuda_width(&call->outs[0]);
    elementwise made = {.args = {.n = n,
                                 .width = width,
                                 .accumulate = call->accumulate,
                                 .exact = is_kind_of(call, "gelu") && weft_call_int(call, "exact"),
                                 .whole = are_all_whole(call)}};
    int i = 0;
    while (strcmp(elementwise_ops[i].op, call->op->name) != 0)
        i++;
    made.kernel = elementwise_ops[i].kernel;
    if (elementwise_ops[i].by == BY_ROW)
        made.blocks = n > 0 ? cuda_row_blocks(n / width) : 0;
    else
        made.blocks = cuda_chunk_blocks(elementwise_ops[i].by == BY_ELEMENT ? 8 * n : n);
    return cuda_keep(&made, sizeof made, state, err);
}

/* More terms than one launch takes are added to the sum of those before. */
weft_status cuda_elementwise_launch(const weft_call *call, weft_error *err)
{
    const elementwise *made = call->state;
    cuda_elementwise_args a = made->args;
    weft_status s = WEFT_OK;
    a.whole = a.whole && cuda_is_aligned(call);
    for (int i = 0; i < call->n_outs; i++)
        a.outs[i] = cuda_view_of(&call->outs[i]);
    for (int at = 0; at < call->n_ins && !s; at += a.n_ins) {
        a.n_ins = call->n_ins - at < CUDA_MOST_INS ? call->n_ins - at : CUDA_MOST_INS;
        a.accumulate = at > 0 || made->args.accumulate;
        for (int i = 0; i < a.n_ins; i++)
            a.ins[i] = cuda_view_of(&call->ins[at + i]);
        s = cuda_launch(call->queue, made->kernel, &a, made->blocks, err);
    }
    return s;
}

/* ---- norms ---- */

/* The forms of a kernel: rows of any width, and those that hold a row, 2 or 4 chunks a thread. */
typedef struct norm_forms {
    cuda_kernel any, held_2, held_4;
} norm_forms;

static const norm_forms forward = {CUDA_KERNEL_norm, CUDA_KERNEL_norm_2, CUDA_KERNEL_norm_4},
                        backward = {CUDA_KERNEL_norm_dx, CUDA_KERNEL_norm_dx_2,
                                    CUDA_KERNEL_norm_dx_4},
                        of_weight = {CUDA_KERNEL_norm_stats, CUDA_KERNEL_norm_dw_2,
                                     CUDA_KERNEL_norm_dw_4},
                        of_sum = {CUDA_KERNEL_add_norm_4, CUDA_KERNEL_add_norm_2,
                                  CUDA_KERNEL_add_norm_4},
                        of_both = {CUDA_KERNEL_norm_dx_dw_4, CUDA_KERNEL_norm_dx_dw_2,
                                   CUDA_KERNEL_norm_dx_dw_4};

/* The state of all norms. */
typedef struct norm {
    cuda_norm_args args;
    bool whole, dx; /* dx: of three operands the last is dy */
} norm;

static bool is_word(const weft_tensor *t)
{
    return t->dtype == WEFT_F32 || t->dtype == WEFT_BF16;
}

static bool is_gradient(const weft_call *call)
{
    return call->n_ins == 3 && strstr(call->op->name, "_dx");
}

static norm norm_of(const weft_call *call)
{
    const weft_tensor *x = &call->ins[0];
    return (norm){.args = {.rows = cuda_rows(x),
                           .width = cuda_width(x),
                           .centred = is_kind_of(call, "layer_norm"),
                           .accumulate = call->accumulate},
                  .dx = is_gradient(call)};
}

/* Weights and biases have the row's width. */
weft_status cuda_norm_prepare(const weft_call *call, void **state, weft_error *err)
{
    const weft_tensor *in = call->ins;
    norm made = norm_of(call);
    made.args.eps = (float)weft_call_real(call, "eps");
    made.whole = cuda_is_whole(&in[0]) && cuda_is_whole(&call->outs[0]) && is_word(&in[1]) &&
                 (call->n_ins == 2 || (made.dx ? cuda_is_whole(&in[2]) : is_word(&in[2])));
    return cuda_keep(&made, sizeof made, state, err);
}

/* The gradient of a bias is a sum alone, and has no eps. */
weft_status cuda_columns_prepare(const weft_call *call, void **state, weft_error *err)
{
    norm made = norm_of(call);
    if (!is_kind_of(call, "bias_dw"))
        made.args.eps = (float)weft_call_real(call, "eps");
    made.whole = cuda_is_whole(&call->ins[0]) && cuda_is_whole(&call->ins[call->n_ins - 1]);
    return cuda_keep(&made, sizeof made, state, err);
}

static cuda_norm_args norm_args(const weft_call *call)
{
    cuda_norm_args a = ((const norm *)call->state)->args;
    a.x = cuda_view_of(&call->ins[0]);
    a.out = cuda_view_of(&call->outs[0]);
    return a;
}

static cuda_kernel norm_form(const norm_forms *forms, int64_t width, bool whole)
{
    enum { CHUNKS = 8 * CUDA_THREADS };
    if (!whole || width > 4 * CHUNKS)
        return forms->any;
    return width > 2 * CHUNKS ? forms->held_4 : forms->held_2;
}

weft_status cuda_norm_launch(const weft_call *call, weft_error *err)
{
    const norm *made = call->state;
    const bool whole = made->whole && cuda_is_aligned(call);
    cuda_norm_args a = norm_args(call);
    a.w = cuda_view_of(&call->ins[1]);
    if (made->dx)
        a.dy = cuda_view_of(&call->ins[2]);
    else if (a.centred)
        a.bias = cuda_view_of(&call->ins[2]);
    return cuda_launch(call->queue, norm_form(made->dx ? &backward : &forward, a.width, whole), &a,
                       a.width > 0 ? cuda_row_blocks(a.rows) : 0, err);
}

/* Parts of the sum and, before them, a row's statistics. */
static int64_t n_parts(int64_t rows)
{
    return rows < CUDA_PARTS ? rows : CUDA_PARTS;
}

static size_t stats_bytes(const weft_call *call)
{
    return call->n_ins == 2 ? ((size_t)cuda_rows(&call->ins[0]) * 8 + 63) / 64 * 64 : 0;
}

size_t cuda_columns_workspace(const weft_call *call)
{
    const weft_tensor *x = &call->ins[0];
    return stats_bytes(call) +
           (size_t)n_parts(cuda_rows(x)) * (size_t)cuda_width(x) * sizeof(float);
}

/* (x,) dy -> [e]: also the gradient of a bias, which has no x. */
weft_status cuda_norm_dw_launch(const weft_call *call, weft_error *err)
{
    const norm *made = call->state;
    cuda_norm_args of = norm_args(call);
    cuda_columns_args a = {.x = of.x,
                           .dy = cuda_view_of(&call->ins[call->n_ins - 1]),
                           .out = of.out,
                           .parts = (float *)((char *)call->workspace + stats_bytes(call)),
                           .rows = of.rows,
                           .width = of.width,
                           .n_parts = n_parts(of.rows),
                           .accumulate = call->accumulate};
    const int64_t columns = (a.width + CUDA_COLUMNS - 1) / CUDA_COLUMNS;
    const bool whole = made->whole && cuda_is_aligned(call);
    const cuda_kernel form = norm_form(&of_weight, a.width, whole);
    const bool held = call->n_ins == 2 && form != of_weight.any;
    weft_status s = cuda_check_workspace(call, cuda_columns_workspace(call), err);
    if (!s && call->n_ins == 2) {
        of.dy = a.dy;
        of.parts = (cuda_view){a.parts, WEFT_F32};
        a.stats = of.stats = call->workspace;
        s = cuda_launch(call->queue, form, &of,
                        a.width == 0 ? 0
                        : held       ? a.n_parts
                                     : cuda_row_blocks(a.rows),
                        err);
    }
    if (!s && !held)
        s = cuda_launch_grid(call->queue, CUDA_KERNEL_column_parts, &a,
                             (const int64_t[]){columns, a.n_parts, 1}, 0, err);
    if (!s)
        s = cuda_launch(call->queue, CUDA_KERNEL_column_sums, &a, (a.width + 31) / 32, err);
    return s;
}

/* ---- norms with what stands beside them ---- */

/* Rows of bf16 that a block holds: others' are no faster together. */
bool cuda_norm_joins(const weft_call *call)
{
    const int64_t width = cuda_width(&call->ins[0]);
    bool whole = width % 8 == 0 && width <= 32 * CUDA_THREADS;
    for (int i = 0; i < call->n_ins && whole; i++)
        whole = call->ins[i].dtype == WEFT_BF16 || call->ins[i].n_dims == 1;
    return whole && call->outs[0].dtype == WEFT_BF16;
}

/* x, d, w -> x + d, its norm */
weft_status cuda_add_norm_launch(const weft_call *call, weft_error *err)
{
    cuda_norm_args a = norm_args(call);
    a.dy = cuda_view_of(&call->ins[1]);
    a.w = cuda_view_of(&call->ins[2]);
    a.sum = a.out;
    a.out = cuda_view_of(&call->outs[1]);
    return cuda_launch(call->queue, norm_form(&of_sum, a.width, true), &a,
                       a.width > 0 ? cuda_row_blocks(a.rows) : 0, err);
}

/* x, w, dy -> dx, dw, by parts as dw alone */
weft_status cuda_norm_dx_dw_launch(const weft_call *call, weft_error *err)
{
    cuda_norm_args a = norm_args(call);
    cuda_columns_args sums = {.out = cuda_view_of(&call->outs[1]),
                              .parts = call->workspace,
                              .width = a.width,
                              .n_parts = n_parts(a.rows)};
    a.w = cuda_view_of(&call->ins[1]);
    a.dy = cuda_view_of(&call->ins[2]);
    a.parts = (cuda_view){sums.parts, WEFT_F32};
    weft_status s = cuda_check_workspace(call, cuda_columns_workspace(call), err);
    if (!s)
        s = cuda_launch(call->queue, norm_form(&of_both, a.width, true), &a,
                        a.width > 0 ? sums.n_parts : 0, err);
    return s ? s
             : cuda_launch(call->queue, CUDA_KERNEL_column_sums, &sums, (a.width + 31) / 32, err);
}

/* ---- norms of heads ---- */

/* Of x; rows are heads. */
static int64_t count_heads(const weft_tensor *x, int64_t *width)
{
    *width = x->grain[x->n_dims - 1];
    return *width > 0 ? weft_tensor_count(x) / *width : 0;
}

weft_status cuda_head_norm_prepare(const weft_call *call, void **state, weft_error *err)
{
    norm made = {
        .args = {.eps = (float)weft_call_real(call, "eps"), .accumulate = call->accumulate},
        .dx = is_gradient(call)};
    made.args.rows = count_heads(&call->ins[0], &made.args.width);
    return cuda_keep(&made, sizeof made, state, err);
}

/* A warp has one at a time. */
static int64_t head_blocks(int64_t heads)
{
    return cuda_row_blocks((heads + CUDA_THREADS / 32 - 1) / (CUDA_THREADS / 32));
}

weft_status cuda_head_norm_launch(const weft_call *call, weft_error *err)
{
    const bool dx = ((const norm *)call->state)->dx;
    cuda_norm_args a = norm_args(call);
    a.w = cuda_view_of(&call->ins[1]);
    a.dy = cuda_view_of(&call->ins[call->n_ins - 1]);
    return cuda_launch(call->queue, dx ? CUDA_KERNEL_head_norm_dx : CUDA_KERNEL_head_norm, &a,
                       head_blocks(a.rows), err);
}

/* At least one, so that no heads are a sum of nothing. */
static int64_t head_parts(int64_t heads)
{
    const int64_t parts = n_parts((heads + CUDA_THREADS / 32 - 1) / (CUDA_THREADS / 32));
    return parts > 0 ? parts : 1;
}

size_t cuda_head_norm_workspace(const weft_call *call)
{
    int64_t width, heads = count_heads(&call->ins[0], &width);
    return (size_t)head_parts(heads) * (size_t)width * sizeof(float);
}

/* x, dy, w -> dw */
weft_status cuda_head_norm_dw_launch(const weft_call *call, weft_error *err)
{
    cuda_norm_args a = norm_args(call);
    a.w = a.dy = cuda_view_of(&call->ins[1]);
    a.parts = (cuda_view){call->workspace, WEFT_F32};
    const cuda_columns_args sums = {.out = a.out,
                                    .parts = call->workspace,
                                    .width = a.width,
                                    .n_parts = head_parts(a.rows),
                                    .accumulate = call->accumulate};
    weft_status s = cuda_check_workspace(call, cuda_head_norm_workspace(call), err);
    s = s ? s : cuda_launch(call->queue, CUDA_KERNEL_head_norm_dw, &a, sums.n_parts, err);
    return s ? s
             : cuda_launch(call->queue, CUDA_KERNEL_column_sums, &sums, (a.width + 31) / 32, err);
}

/* ---- parts of heads ---- */

typedef struct heads {
    cuda_heads_args args;
    cuda_kernel kernel;
} heads;

static cuda_kernel heads_kernel(const weft_call *call)
{
    return is_kind_of(call, "head_sum")     ? CUDA_KERNEL_head_sum
           : is_kind_of(call, "head_place") ? CUDA_KERNEL_head_place
           : is_kind_of(call, "head_join")  ? CUDA_KERNEL_head_join
                                            : CUDA_KERNEL_head_part;
}

weft_status cuda_heads_prepare(const weft_call *call, void **state, weft_error *err)
{
    const weft_tensor *in = &call->ins[0], *out = &call->outs[0];
    heads made = {.args = {.first = weft_call_int(call, "first"),
                           .width = weft_call_int(call, "width"),
                           .whole = weft_call_int(call, "whole"),
                           .accumulate = call->accumulate},
                  .kernel = heads_kernel(call)};
    cuda_heads_args *a = &made.args;
    const bool sum = made.kernel == CUDA_KERNEL_head_sum;
    a->heads = sum ? cuda_width(in) / a->whole : cuda_width(out) / out->grain[out->n_dims - 1];
    a->rows = cuda_rows(out) * (sum ? 1 : a->heads);
    return cuda_keep(&made, sizeof made, state, err);
}

weft_status cuda_heads_launch(const weft_call *call, weft_error *err)
{
    const heads *made = call->state;
    cuda_heads_args a = made->args;
    a.in = cuda_view_of(&call->ins[0]);
    a.more = cuda_view_of(&call->ins[call->n_ins - 1]);
    a.out = cuda_view_of(&call->outs[0]);
    return cuda_launch(call->queue, made->kernel, &a, head_blocks(a.rows), err);
}

/* ---- rope ---- */

bool cuda_angles_accepts(const weft_call *call)
{
    return weft_call_int(call, "pairs") <= CUDA_MOST_PAIRS;
}

/* The state is the launch's arguments but for what each call has of its own. */
weft_status cuda_angles_prepare(const weft_call *call, void **state, weft_error *err)
{
    const weft_rope r = weft_rope_of(call);
    cuda_angles_args *a = *state = weft_alloc_zero(1, sizeof *a);
    if (!a)
        return weft_fail_memory(err);
    a->rows = weft_tensor_count(&call->ins[0]);
    a->pairs = (int32_t)r.pairs;
    a->scale = (float)r.scale;
    for (int i = 0; i < a->pairs; i++)
        a->frequency[i] = weft_rope_frequency(&r, i);
    return WEFT_OK;
}

weft_status cuda_angles_launch(const weft_call *call, weft_error *err)
{
    cuda_angles_args a = *(const cuda_angles_args *)call->state;
    a.positions = cuda_view_of(&call->ins[0]);
    a.out = cuda_view_of(&call->outs[0]);
    a.accumulate = call->accumulate;
    return cuda_launch(call->queue, CUDA_KERNEL_angles, &a,
                       cuda_chunk_blocks(a.rows * ((a.pairs + 7) / 8) * 8), err);
}

bool cuda_rope_accepts(const weft_call *call)
{
    const weft_tensor *x = &call->ins[0];
    return x->size[x->n_dims - 1] % x->grain[x->n_dims - 1] == 0;
}

typedef struct rope {
    cuda_rope_args args;
    bool whole;
    int64_t blocks, by_head;
} rope;

weft_status cuda_rope_prepare(const weft_call *call, void **state, weft_error *err)
{
    const weft_tensor *x = &call->ins[0], *turn = &call->ins[1];
    rope made = {.args = {.rows = cuda_rows(x),
                          .width = (int32_t)x->grain[x->n_dims - 1],
                          .first = (int32_t)weft_call_int(call, "first"),
                          .pairs = (int32_t)(cuda_width(turn) / 2),
                          .neighbours = weft_call_int(call, "neighbours") != 0,
                          .accumulate = call->accumulate,
                          .sign = is_kind_of(call, "rope_dx") ? -1.0f : 1.0f}};
    cuda_rope_args *a = &made.args;
    a->heads = (int32_t)(cuda_width(x) / a->width);
    made.blocks = a->heads ? cuda_chunk_blocks(a->rows * ((a->pairs + 7) / 8) * 8) : 0;
    /* Few rows: heads are shared out, too. */
    made.by_head = made.blocks < 512 ? (a->heads < 8 ? a->heads : 8) : 1;
    made.whole = !a->neighbours && (a->width | a->first | a->pairs) % 8 == 0 && cuda_is_whole(x) &&
                 cuda_is_whole(&call->outs[0]) && is_word(turn);
    return cuda_keep(&made, sizeof made, state, err);
}

weft_status cuda_rope_launch(const weft_call *call, weft_error *err)
{
    const rope *made = call->state;
    const bool whole = made->whole && cuda_is_aligned(call);
    cuda_rope_args a = made->args;
    a.x = cuda_view_of(&call->ins[0]);
    a.turn = cuda_view_of(&call->ins[1]);
    a.out = cuda_view_of(&call->outs[0]);
    return cuda_launch_grid(call->queue, whole ? CUDA_KERNEL_rope_whole : CUDA_KERNEL_rope, &a,
                            (const int64_t[]){made->blocks, made->by_head, 1}, 0, err);
}

/* ---- chunks: every n-th place of a dim ---- */

bool cuda_chunk_accepts(const weft_call *call)
{
    bool joins = strcmp(call->op->name, "unchunk") == 0;
    const weft_tensor *whole = joins ? &call->outs[0] : &call->ins[0];
    const weft_tensor *parts = joins ? call->ins : call->outs;
    int64_t dim = weft_call_int(call, "dim"), n = joins ? call->n_ins : call->n_outs;
    for (int i = 0; i < n; i++)
        if (parts[i].dtype != whole->dtype || whole->size[dim] != n * parts[i].size[dim] ||
            whole->lo[dim] != n * parts[i].lo[dim])
            return false;
    return true;
}

/* Of a part: runs, and the bytes of each. */
typedef struct chunk {
    int64_t outer, inner;
} chunk;

weft_status cuda_chunk_prepare(const weft_call *call, void **state, weft_error *err)
{
    const weft_tensor *part = call->n_outs > 1 ? &call->outs[0] : &call->ins[0];
    const int64_t dim = weft_call_int(call, "dim");
    chunk made = {1, (int64_t)weft_dtype_size(part->dtype)};
    for (int d = 0; d < part->n_dims; d++)
        *(d <= dim ? &made.outer : &made.inner) *= part->size[d];
    return cuda_keep(&made, sizeof made, state, err);
}

/* Moves part i of n out of the whole, or into it. */
static weft_status move_part(const weft_call *call, const weft_tensor *whole,
                             const weft_tensor *part, int i, int n, bool joins, weft_error *err)
{
    const chunk *made = call->state;
    unsigned char *in_whole = (unsigned char *)whole->data + i * made->inner;
    const int64_t inner = made->inner, whole_step = n * inner;
    const weft_box box = {.from = joins ? part->data : in_whole,
                          .to = joins ? in_whole : part->data,
                          .bytes = inner,
                          .n = {made->outer, 1, 1, 1},
                          .from_stride = {joins ? inner : whole_step},
                          .to_stride = {joins ? whole_step : inner}};
    return cuda_box_move(call->queue, &box, err);
}

weft_status cuda_chunk_launch(const weft_call *call, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < call->n_outs && !s; i++)
        s = move_part(call, &call->ins[0], &call->outs[i], i, call->n_outs, false, err);
    return s;
}

weft_status cuda_unchunk_launch(const weft_call *call, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < call->n_ins && !s; i++)
        s = move_part(call, &call->outs[0], &call->ins[i], i, call->n_ins, true, err);
    return s;
}
