/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of element-wise ops, norms, rope and copies. */
#include "gpu.h"

#include <string.h>
#include <weft/rope.h>

/* ---- element-wise ---- */

static const struct {
    const char *op;
    cuda_kernel kernel;
    bool tokens; /* an element a thread, not eight */
} elementwise[] = {
    {"add", CUDA_KERNEL_add, false},
    {"scale", CUDA_KERNEL_scale, false},
    {"cast", CUDA_KERNEL_copy, false},
    {"accumulate", CUDA_KERNEL_copy, false},
    {"snapshot", CUDA_KERNEL_copy, false},
    {"accumulate_max", CUDA_KERNEL_larger, false},
    {"lowest", CUDA_KERNEL_lowest, false},
    {"broadcast", CUDA_KERNEL_broadcast, false},
    {"silu_mul", CUDA_KERNEL_silu_mul, false},
    {"silu_mul_dx", CUDA_KERNEL_silu_mul_dx, false},
    {"gelu", CUDA_KERNEL_gelu, false},
    {"gelu_dx", CUDA_KERNEL_gelu_dx, false},
    {"nll", CUDA_KERNEL_nll, true},
    {"nll_de", CUDA_KERNEL_nll_de, true},
    {"nll_dt", CUDA_KERNEL_nll_dt, true},
};

/* Only attributes that an op declares may be asked for. */
static bool is_kind_of(const weft_call *call, const char *name)
{
    return strncmp(call->op->name, name, strlen(name)) == 0;
}

static cuda_elementwise_args elementwise_args(const weft_call *call)
{
    cuda_elementwise_args a = {.n = weft_tensor_count(&call->outs[0]),
                               .width = cuda_width(&call->outs[0]),
                               .n_ins = call->n_ins,
                               .accumulate = call->accumulate,
                               .exact =
                                   is_kind_of(call, "gelu") && weft_call_int(call, "exact") != 0,
                               .whole = true};
    for (int i = 0; i < call->n_ins; i++) {
        a.ins[i] = cuda_view_of(&call->ins[i]);
        a.whole = a.whole && cuda_is_whole(&call->ins[i]);
    }
    for (int i = 0; i < call->n_outs; i++) {
        a.outs[i] = cuda_view_of(&call->outs[i]);
        a.whole = a.whole && cuda_is_whole(&call->outs[i]);
    }
    return a;
}

weft_status cuda_elementwise_launch(const weft_call *call, weft_error *err)
{
    cuda_elementwise_args a = elementwise_args(call);
    size_t i = 0;
    while (strcmp(elementwise[i].op, call->op->name) != 0)
        i++;
    return cuda_launch(call->queue, elementwise[i].kernel, &a,
                       cuda_chunk_blocks(elementwise[i].tokens ? 8 * a.n : a.n), err);
}

/* More terms than one launch takes are added to the sum of those before. */
weft_status cuda_add_launch(const weft_call *call, weft_error *err)
{
    weft_call some = *call;
    weft_status s = WEFT_OK;
    for (int at = 0; at < call->n_ins && !s; at += some.n_ins) {
        some.ins = call->ins + at;
        some.n_ins = call->n_ins - at < CUDA_MOST_INS ? call->n_ins - at : CUDA_MOST_INS;
        some.accumulate = at > 0 || call->accumulate;
        s = cuda_elementwise_launch(&some, err);
    }
    return s;
}

weft_status cuda_bias_launch(const weft_call *call, weft_error *err)
{
    cuda_elementwise_args a = elementwise_args(call);
    return cuda_launch(call->queue, CUDA_KERNEL_add_bias, &a,
                       a.n > 0 ? cuda_row_blocks(a.n / a.width) : 0, err);
}

/* ---- norms ---- */

static cuda_norm_args norm_args(const weft_call *call)
{
    const weft_tensor *x = &call->ins[0];
    bool norm = !is_kind_of(call, "bias_dw");
    return (cuda_norm_args){.x = cuda_view_of(x),
                            .out = cuda_view_of(&call->outs[0]),
                            .rows = cuda_rows(x),
                            .width = cuda_width(x),
                            .eps = norm ? (float)weft_call_real(call, "eps") : 0,
                            .centred = is_kind_of(call, "layer_norm"),
                            .accumulate = call->accumulate};
}

/* The forms of a kernel: rows of any width, and those that hold a row, 2 or 4 chunks a thread. */
typedef struct norm_forms {
    cuda_kernel any, held_2, held_4;
} norm_forms;

static const norm_forms forward = {CUDA_KERNEL_norm, CUDA_KERNEL_norm_2, CUDA_KERNEL_norm_4},
                        backward = {CUDA_KERNEL_norm_dx, CUDA_KERNEL_norm_dx_2,
                                    CUDA_KERNEL_norm_dx_4},
                        of_weight = {CUDA_KERNEL_norm_stats, CUDA_KERNEL_norm_dw_2,
                                     CUDA_KERNEL_norm_dw_4};

/* Weights and biases, whose width is the row's. */
static bool is_in_words(const weft_tensor *t)
{
    return (t->dtype == WEFT_F32 || t->dtype == WEFT_BF16) && (uintptr_t)t->data % 16 == 0;
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
    cuda_norm_args a = norm_args(call);
    const bool dx = call->n_ins == 3 && strstr(call->op->name, "_dx");
    const bool whole =
        cuda_is_whole(&call->ins[0]) && cuda_is_whole(&call->outs[0]) &&
        is_in_words(&call->ins[1]) &&
        (call->n_ins == 2 || (dx ? cuda_is_whole(&call->ins[2]) : is_in_words(&call->ins[2])));
    a.w = cuda_view_of(&call->ins[1]);
    if (dx)
        a.dy = cuda_view_of(&call->ins[2]);
    else if (a.centred)
        a.bias = cuda_view_of(&call->ins[2]);
    return cuda_launch(call->queue, norm_form(dx ? &backward : &forward, a.width, whole), &a,
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
    cuda_norm_args norm = norm_args(call);
    cuda_columns_args a = {.x = norm.x,
                           .dy = cuda_view_of(&call->ins[call->n_ins - 1]),
                           .out = norm.out,
                           .parts = (float *)((char *)call->workspace + stats_bytes(call)),
                           .rows = norm.rows,
                           .width = norm.width,
                           .n_parts = n_parts(norm.rows),
                           .accumulate = call->accumulate};
    const int64_t columns = (a.width + CUDA_COLUMNS - 1) / CUDA_COLUMNS;
    const bool whole = cuda_is_whole(&call->ins[0]) && cuda_is_whole(&call->ins[call->n_ins - 1]);
    const cuda_kernel form = norm_form(&of_weight, a.width, whole);
    const bool held = call->n_ins == 2 && form != of_weight.any;
    weft_status s = cuda_check_workspace(call, cuda_columns_workspace(call), err);
    if (!s && call->n_ins == 2) {
        norm.dy = a.dy;
        norm.parts = (cuda_view){a.parts, WEFT_F32};
        a.stats = norm.stats = call->workspace;
        s = cuda_launch(call->queue, form, &norm,
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
    static const norm_forms forms = {CUDA_KERNEL_add_norm_4, CUDA_KERNEL_add_norm_2,
                                     CUDA_KERNEL_add_norm_4};
    cuda_norm_args a = norm_args(call);
    a.dy = cuda_view_of(&call->ins[1]);
    a.w = cuda_view_of(&call->ins[2]);
    a.sum = a.out;
    a.out = cuda_view_of(&call->outs[1]);
    return cuda_launch(call->queue, norm_form(&forms, a.width, true), &a,
                       a.width > 0 ? cuda_row_blocks(a.rows) : 0, err);
}

/* x, w, dy -> dx, dw, by parts as dw alone */
weft_status cuda_norm_dx_dw_launch(const weft_call *call, weft_error *err)
{
    static const norm_forms forms = {CUDA_KERNEL_norm_dx_dw_4, CUDA_KERNEL_norm_dx_dw_2,
                                     CUDA_KERNEL_norm_dx_dw_4};
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
        s = cuda_launch(call->queue, norm_form(&forms, a.width, true), &a,
                        a.width > 0 ? sums.n_parts : 0, err);
    return s ? s
             : cuda_launch(call->queue, CUDA_KERNEL_column_sums, &sums, (a.width + 31) / 32, err);
}

/* ---- norms of heads ---- */

static cuda_norm_args head_args(const weft_call *call)
{
    const weft_tensor *x = &call->ins[0];
    cuda_norm_args a = {.x = cuda_view_of(x),
                        .w = cuda_view_of(&call->ins[1]),
                        .dy = cuda_view_of(&call->ins[call->n_ins - 1]),
                        .out = cuda_view_of(&call->outs[0]),
                        .width = x->grain[x->n_dims - 1],
                        .eps = (float)weft_call_real(call, "eps"),
                        .accumulate = call->accumulate};
    a.rows = a.width > 0 ? weft_tensor_count(x) / a.width : 0;
    return a;
}

/* A warp has one at a time. */
static int64_t head_blocks(int64_t heads)
{
    return cuda_row_blocks((heads + CUDA_THREADS / 32 - 1) / (CUDA_THREADS / 32));
}

weft_status cuda_head_norm_launch(const weft_call *call, weft_error *err)
{
    const cuda_norm_args a = head_args(call);
    return cuda_launch(call->queue,
                       strcmp(call->op->name, "head_norm") == 0 ? CUDA_KERNEL_head_norm
                                                                : CUDA_KERNEL_head_norm_dx,
                       &a, head_blocks(a.rows), err);
}

/* At least one, so that no heads are a sum of nothing. */
static int32_t head_parts(const cuda_norm_args *a)
{
    const int32_t parts = n_parts((a->rows + CUDA_THREADS / 32 - 1) / (CUDA_THREADS / 32));
    return parts > 0 ? parts : 1;
}

size_t cuda_head_norm_workspace(const weft_call *call)
{
    const cuda_norm_args a = head_args(call);
    return (size_t)head_parts(&a) * (size_t)a.width * sizeof(float);
}

/* x, dy, w -> dw */
weft_status cuda_head_norm_dw_launch(const weft_call *call, weft_error *err)
{
    cuda_norm_args a = head_args(call);
    a.dy = cuda_view_of(&call->ins[1]);
    a.parts = (cuda_view){call->workspace, WEFT_F32};
    const cuda_columns_args sums = {.out = a.out,
                                    .parts = call->workspace,
                                    .width = a.width,
                                    .n_parts = head_parts(&a),
                                    .accumulate = call->accumulate};
    weft_status s = cuda_check_workspace(call, cuda_head_norm_workspace(call), err);
    s = s ? s : cuda_launch(call->queue, CUDA_KERNEL_head_norm_dw, &a, sums.n_parts, err);
    return s ? s
             : cuda_launch(call->queue, CUDA_KERNEL_column_sums, &sums, (a.width + 31) / 32, err);
}

/* ---- parts of heads ---- */

weft_status cuda_heads_launch(const weft_call *call, weft_error *err)
{
    const weft_tensor *in = &call->ins[0], *out = &call->outs[0];
    const bool sum = strcmp(call->op->name, "head_sum") == 0;
    cuda_heads_args a = {.in = cuda_view_of(in),
                         .more = cuda_view_of(&call->ins[call->n_ins - 1]),
                         .out = cuda_view_of(out),
                         .first = weft_call_int(call, "first"),
                         .width = weft_call_int(call, "width"),
                         .whole = weft_call_int(call, "whole"),
                         .accumulate = call->accumulate};
    a.heads = sum ? cuda_width(in) / a.whole : cuda_width(out) / out->grain[out->n_dims - 1];
    a.rows = cuda_rows(out) * (sum ? 1 : a.heads);
    cuda_kernel kernel = CUDA_KERNEL_head_part;
    if (sum)
        kernel = CUDA_KERNEL_head_sum;
    else if (strcmp(call->op->name, "head_place") == 0)
        kernel = CUDA_KERNEL_head_place;
    else if (strcmp(call->op->name, "head_join") == 0)
        kernel = CUDA_KERNEL_head_join;
    return cuda_launch(call->queue, kernel, &a, head_blocks(a.rows), err);
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

weft_status cuda_rope_launch(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0];
    cuda_rope_args a = {
        .x = cuda_view_of(x),
        .turn = cuda_view_of(&call->ins[1]),
        .out = cuda_view_of(&call->outs[0]),
        .rows = cuda_rows(x),
        .width = (int32_t)x->grain[x->n_dims - 1],
        .first = (int32_t)weft_call_int(call, "first"),
        .pairs = (int32_t)(cuda_width(&call->ins[1]) / 2),
        .neighbours = weft_call_int(call, "neighbours") != 0,
        .accumulate = call->accumulate,
        .sign = strcmp(call->op->name, "rope_dx") == 0 ? -1.0f : 1.0f,
    };
    a.heads = (int32_t)(cuda_width(x) / a.width);
    int64_t blocks = cuda_chunk_blocks(a.rows * ((a.pairs + 7) / 8) * 8);
    /* Few rows: heads are shared out, too. */
    int64_t by_head = blocks < 512 ? (a.heads < 8 ? a.heads : 8) : 1;
    const bool whole = !a.neighbours && (a.width | a.first | a.pairs) % 8 == 0 &&
                       cuda_is_whole(x) && cuda_is_whole(&call->outs[0]) &&
                       is_in_words(&call->ins[1]);
    return cuda_launch_grid(call->queue, whole ? CUDA_KERNEL_rope_whole : CUDA_KERNEL_rope, &a,
                            (const int64_t[]){a.heads ? blocks : 0, by_head, 1}, 0, err);
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

/* Moves part i of n out of the whole, or into it. */
static weft_status move_part(const weft_call *call, const weft_tensor *whole,
                             const weft_tensor *part, int i, int n, bool joins, weft_error *err)
{
    int dim = (int)weft_call_int(call, "dim");
    int64_t outer = 1, inner = (int64_t)weft_dtype_size(whole->dtype);
    for (int d = 0; d < whole->n_dims; d++) {
        outer *= d <= dim ? part->size[d] : 1;
        inner *= d > dim ? part->size[d] : 1;
    }
    unsigned char *in_whole = (unsigned char *)whole->data + i * inner;
    const int64_t whole_step = n * inner;
    const weft_box box = {.from = joins ? part->data : in_whole,
                          .to = joins ? in_whole : part->data,
                          .bytes = inner,
                          .n = {outer, 1, 1, 1},
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
