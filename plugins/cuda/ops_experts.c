/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of the ops of experts, which the plugin moe has: routing, slots, loads. */
#include "gpu.h"

#include <string.h>

static bool is(const weft_call *call, const char *op)
{
    return strcmp(call->op->name, op) == 0;
}

/* Threads that each have an element. */
static int64_t element_blocks(int64_t n)
{
    return cuda_chunk_blocks(8 * n);
}

/* ---- routers ---- */

enum { WARPS = CUDA_ROUTE_THREADS / 32, MOST_PARTS = 64 };

typedef struct route {
    cuda_route_args args;
    cuda_kernel kernel;
    size_t workspace;
} route;

static const struct {
    const char *op;
    cuda_kernel kernel;
    bool sums; /* is an attribute `batch` said? */
} routers[] = {
    {"route", CUDA_KERNEL_route, false},
    {"route_dx", CUDA_KERNEL_route_dx, false},
    {"router_mean", CUDA_KERNEL_router_mean, true},
    {"router_share", CUDA_KERNEL_router_share, true},
    {"router_mean_dx", CUDA_KERNEL_router_mean_dx, true},
    {"router_z", CUDA_KERNEL_router_z, false},
    {"router_z_dx", CUDA_KERNEL_router_z_dx, false},
};

static int64_t count_tokens(const weft_call *call)
{
    return call->ins[0].size[0] * call->ins[0].size[1];
}

static cuda_route_args route_args(const weft_call *call)
{
    return (cuda_route_args){.tokens = count_tokens(call),
                             .n = (int32_t)call->ins[0].size[2],
                             .k = (int32_t)weft_call_int(call, "k"),
                             .score = (int32_t)weft_call_int(call, "score"),
                             .norm = (int32_t)weft_call_int(call, "norm"),
                             .groups = (int32_t)weft_call_int(call, "limit_groups"),
                             .keep = (int32_t)weft_call_int(call, "keep_groups"),
                             .eps = weft_call_real(call, "eps"),
                             .scale = weft_call_real(call, "scale"),
                             .accumulate = call->accumulate};
}

bool cuda_route_accepts(const weft_call *call)
{
    const weft_tensor *logits = &call->ins[0];
    return logits->n_dims == 3 && logits->size[2] <= CUDA_MOST_EXPERTS &&
           weft_call_int(call, "k") <= CUDA_MOST_CHOSEN &&
           weft_call_int(call, "limit_groups") <= CUDA_MOST_CHOSEN;
}

/* Tokens that are summed in one: those of a sample, or all. */
static void set_sums(cuda_route_args *a, const weft_call *call)
{
    const weft_tensor *logits = &call->ins[0];
    const bool all = weft_call_int(call, "batch") != 0;
    a->sums = all ? 1 : logits->size[0];
    a->each = all ? a->tokens : logits->size[1];
    const int64_t parts = (a->each + WARPS - 1) / WARPS;
    a->n_parts = (int32_t)(parts < MOST_PARTS ? parts : MOST_PARTS);
}

static size_t sums_bytes(const cuda_route_args *a)
{
    return (size_t)(a->sums * a->n_parts * a->n) * sizeof(double);
}

weft_status cuda_route_prepare(const weft_call *call, void **state, weft_error *err)
{
    route made = {.args = route_args(call)};
    int i = 0;
    while (!is(call, routers[i].op))
        i++;
    made.kernel = routers[i].kernel;
    if (routers[i].sums)
        set_sums(&made.args, call);
    made.workspace = sums_bytes(&made.args);
    return cuda_keep(&made, sizeof made, state, err);
}

/* Of a call, with its logits and its first result. */
static cuda_route_args begin_route(const weft_call *call)
{
    cuda_route_args a = ((const route *)call->state)->args;
    a.logits = cuda_view_of(&call->ins[0]);
    a.out = cuda_view_of(&call->outs[0]);
    return a;
}

/* A warp for each token. */
static int64_t token_blocks(cuda_kernel kernel, int64_t tokens)
{
    const int64_t warps = cuda_kernel_threads(kernel) / 32;
    return cuda_row_blocks((tokens + warps - 1) / warps);
}

static weft_status launch_tokens(const weft_call *call, const cuda_route_args *a, weft_error *err)
{
    const cuda_kernel kernel = ((const route *)call->state)->kernel;
    return cuda_launch(call->queue, kernel, a, token_blocks(kernel, a->tokens), err);
}

weft_status cuda_route_launch(const weft_call *call, weft_error *err)
{
    cuda_route_args a = begin_route(call);
    a.chosen = cuda_view_of(&call->outs[0]);
    a.weights = cuda_view_of(&call->outs[1]);
    if (call->n_ins > 1)
        a.bias = cuda_view_of(&call->ins[1]);
    return launch_tokens(call, &a, err);
}

weft_status cuda_route_dx_launch(const weft_call *call, weft_error *err)
{
    cuda_route_args a = begin_route(call);
    a.chosen = cuda_view_of(&call->ins[1]);
    a.dy = cuda_view_of(&call->ins[2]);
    return launch_tokens(call, &a, err);
}

size_t cuda_router_sums_workspace(const weft_call *call)
{
    cuda_route_args a = route_args(call);
    set_sums(&a, call);
    return sums_bytes(&a);
}

weft_status cuda_router_sums_launch(const weft_call *call, weft_error *err)
{
    const route *made = call->state;
    cuda_route_args a = begin_route(call);
    a.parts = call->workspace;
    const int64_t grid[3] = {a.n_parts, a.sums < 65535 ? a.sums : 65535, 1};
    weft_status s = cuda_check_workspace(call, made->workspace, err);
    s = s ? s : cuda_launch_grid(call->queue, made->kernel, &a, grid, 0, err);
    return s ? s
             : cuda_launch(call->queue, CUDA_KERNEL_router_sums, &a, element_blocks(a.sums * a.n),
                           err);
}

weft_status cuda_router_dx_launch(const weft_call *call, weft_error *err)
{
    cuda_route_args a = begin_route(call);
    a.dy = cuda_view_of(&call->ins[1]);
    return launch_tokens(call, &a, err);
}

static int64_t z_blocks(const weft_call *call)
{
    const int64_t blocks = token_blocks(CUDA_KERNEL_router_z, count_tokens(call));
    return blocks < CUDA_SUM_BLOCKS ? blocks : CUDA_SUM_BLOCKS;
}

size_t cuda_router_z_workspace(const weft_call *call)
{
    return (size_t)z_blocks(call) * sizeof(double);
}

weft_status cuda_router_z_launch(const weft_call *call, weft_error *err)
{
    cuda_route_args a = begin_route(call);
    const cuda_sum_args sum = {.out = a.out,
                               .parts = call->workspace,
                               .n_parts = (int32_t)z_blocks(call),
                               .accumulate = call->accumulate};
    weft_status s = cuda_check_workspace(call, cuda_router_z_workspace(call), err);
    a.parts = call->workspace;
    s = s ? s : cuda_launch(call->queue, CUDA_KERNEL_router_z, &a, sum.n_parts, err);
    return s ? s : cuda_launch(call->queue, CUDA_KERNEL_add_parts, &sum, 1, err);
}

/* ---- slots ---- */

/* Token groups here: those of `groups` [batches parts ...]. */
static cuda_slots_args slots_args(const weft_call *call, const weft_tensor *chosen,
                                  const weft_tensor *groups)
{
    return (cuda_slots_args){.batch = chosen->size[0],
                             .seq = chosen->size[1],
                             .per_batch = chosen->whole[0] / groups->whole[0],
                             .per_seq = chosen->whole[1] / groups->whole[1],
                             .parts = groups->size[1],
                             .groups = (int32_t)(groups->size[0] * groups->size[1]),
                             .k = (int32_t)chosen->size[2],
                             .experts = (int32_t)weft_call_int(call, "experts"),
                             .accumulate = call->accumulate};
}

/* Are the token groups here those of the tokens here, all of them whole? */
static bool are_whole(const weft_tensor *chosen, const weft_tensor *groups)
{
    bool whole = chosen->n_dims == 3 && groups->n_dims >= 2;
    for (int d = 0; d < 2 && whole; d++) {
        const int64_t n = groups->whole[d], each = n > 0 ? chosen->whole[d] / n : 0;
        whole = n > 0 && each * n == chosen->whole[d] && chosen->lo[d] == each * groups->lo[d] &&
                chosen->size[d] == each * groups->size[d];
    }
    return whole && weft_tensor_count(chosen) < INT32_MAX;
}

static int64_t owners_of(const weft_call *call)
{
    const int64_t owners = weft_call_int(call, "owners");
    return owners > 0 ? owners : 1;
}

bool cuda_assign_accepts(const weft_call *call)
{
    return call->outs[0].n_dims == 3 && are_whole(&call->ins[0], &call->outs[0]) &&
           weft_call_int(call, "experts") == call->outs[0].size[2];
}

size_t cuda_assign_workspace(const weft_call *call)
{
    return (size_t)weft_tensor_count(&call->outs[0]) * sizeof(int32_t);
}

/* Slots of a pair: room times an even load, in eights, but no more than could ever be asked for. */
static void set_slots(cuda_slots_args *a, const weft_call *call)
{
    const int64_t tokens = a->per_batch * a->per_seq, owners = a->owners,
                  worst = tokens * (a->k < a->each ? a->k : a->each);
    const double room = weft_call_real(call, "room"),
                 some = 8 * __builtin_ceil(room * (double)(tokens * a->k) / (double)owners / 8);
    a->balanced = (tokens * a->k + owners - 1) / owners;
    a->slots = room > 0 && some < (double)worst ? (int64_t)some : worst;
}

weft_status cuda_assign_prepare(const weft_call *call, void **state, weft_error *err)
{
    cuda_slots_args a = slots_args(call, &call->ins[0], &call->outs[0]);
    a.owners = (int32_t)owners_of(call);
    a.each = a.experts / a.owners;
    set_slots(&a, call);
    return cuda_keep(&a, sizeof a, state, err);
}

weft_status cuda_assign_launch(const weft_call *call, weft_error *err)
{
    cuda_slots_args a = *(const cuda_slots_args *)call->state;
    a.chosen = call->ins[0].data;
    a.wanted = call->workspace;
    a.counts = call->outs[0].data;
    a.slot_out = call->outs[1].data;
    a.refused = cuda_view_of(&call->outs[2]);
    a.most = cuda_view_of(&call->outs[3]);
    const int64_t grid = cuda_row_blocks((int64_t)a.groups * a.experts);
    weft_status s = cuda_check_workspace(call, cuda_assign_workspace(call), err);
    s = s ? s : cuda_launch(call->queue, CUDA_KERNEL_assign_count, &a, grid, err);
    return s ? s : cuda_launch(call->queue, CUDA_KERNEL_assign_place, &a, grid, err);
}

typedef struct slots {
    cuda_slots_args args;
    cuda_kernel kernel;
} slots;

/* rows: [batches parts owners slots], and perhaps a width. */
static cuda_slots_args rows_args(const weft_call *call, const weft_tensor *rows)
{
    cuda_slots_args a = slots_args(call, &call->ins[1], rows);
    a.owners = (int32_t)rows->size[2];
    a.each = a.experts / (int32_t)rows->whole[2];
    a.slots = rows->size[3];
    a.rows = a.groups * a.owners * a.slots;
    a.width = rows->n_dims > 4 ? rows->size[4] : 1;
    return a;
}

weft_status cuda_to_slots_prepare(const weft_call *call, void **state, weft_error *err)
{
    const slots made = {.args = rows_args(call, &call->outs[0]),
                        .kernel =
                            is(call, "spread") ? CUDA_KERNEL_slots_spread : CUDA_KERNEL_slots_fill};
    return cuda_keep(&made, sizeof made, state, err);
}

weft_status cuda_from_slots_prepare(const weft_call *call, void **state, weft_error *err)
{
    const slots made = {.args = rows_args(call, &call->ins[0]),
                        .kernel = is(call, "collect") ? CUDA_KERNEL_slots_collect
                                                      : CUDA_KERNEL_slots_combine};
    return cuda_keep(&made, sizeof made, state, err);
}

static cuda_slots_args begin_slots(const weft_call *call)
{
    cuda_slots_args a = ((const slots *)call->state)->args;
    a.in = cuda_view_of(&call->ins[0]);
    a.chosen = call->ins[1].data;
    a.slot = call->ins[2].data;
    a.out = cuda_view_of(&call->outs[0]);
    return a;
}

static bool accepts_rows(const weft_call *call, const weft_tensor *rows)
{
    return rows->n_dims >= 4 && are_whole(&call->ins[1], rows) && rows->size[2] == rows->whole[2];
}

bool cuda_to_slots_accepts(const weft_call *call)
{
    return accepts_rows(call, &call->outs[0]);
}

bool cuda_from_slots_accepts(const weft_call *call)
{
    return accepts_rows(call, &call->ins[0]);
}

static size_t map_bytes(const cuda_slots_args *a)
{
    return (size_t)a->rows * sizeof(int32_t);
}

size_t cuda_to_slots_workspace(const weft_call *call)
{
    const cuda_slots_args a = rows_args(call, &call->outs[0]);
    return map_bytes(&a);
}

/* dispatch and spread: whose each row is, then the rows. */
weft_status cuda_to_slots_launch(const weft_call *call, weft_error *err)
{
    const cuda_kernel kernel = ((const slots *)call->state)->kernel;
    cuda_slots_args a = begin_slots(call);
    const weft_box map = weft_box_of(call->workspace, NULL, (int64_t)map_bytes(&a));
    weft_status s = cuda_check_workspace(call, map_bytes(&a), err);
    if (s || a.rows == 0)
        return s;
    a.map = call->workspace;
    s = cuda_box_move(call->queue, &map, err);
    s = s ? s
          : cuda_launch(call->queue, CUDA_KERNEL_slots_map, &a,
                        element_blocks(a.batch * a.seq * a.k), err);
    return s ? s
             : cuda_launch(call->queue, kernel, &a,
                           kernel == CUDA_KERNEL_slots_spread ? element_blocks(a.rows)
                                                              : cuda_row_blocks(a.rows),
                           err);
}

weft_status cuda_from_slots_launch(const weft_call *call, weft_error *err)
{
    const cuda_kernel kernel = ((const slots *)call->state)->kernel;
    const cuda_slots_args a = begin_slots(call);
    const int64_t tokens = a.batch * a.seq;
    return cuda_launch(call->queue, kernel, &a,
                       kernel == CUDA_KERNEL_slots_collect ? element_blocks(tokens * a.k)
                                                           : cuda_row_blocks(tokens),
                       err);
}

static weft_status launch_slot_rows(const weft_call *call, cuda_kernel kernel, weft_error *err)
{
    const cuda_slots_args a = {.in = cuda_view_of(&call->ins[0]),
                               .by = cuda_view_of(&call->ins[1]),
                               .out = cuda_view_of(&call->outs[0]),
                               .rows = cuda_rows(&call->ins[0]),
                               .width = cuda_width(&call->ins[0]),
                               .accumulate = call->accumulate};
    return cuda_launch(call->queue, kernel, &a, cuda_row_blocks(a.rows), err);
}

weft_status cuda_slot_scale_launch(const weft_call *call, weft_error *err)
{
    return launch_slot_rows(call, CUDA_KERNEL_slot_scale, err);
}

weft_status cuda_slot_dot_launch(const weft_call *call, weft_error *err)
{
    return launch_slot_rows(call, CUDA_KERNEL_slot_dot, err);
}

static double bytes_of(const weft_tensor *t)
{
    return (double)weft_tensor_count(t) * (double)weft_dtype_size(t->dtype);
}

/* Tokens' rows are read as often as they are chosen, and rows with nobody's are not. */
weft_kernel_work cuda_slots_work(const weft_call *call)
{
    const bool there = is(call, "dispatch") || is(call, "spread");
    const weft_tensor *few = there ? &call->ins[0] : &call->outs[0],
                      *rows = there ? &call->outs[0] : &call->ins[0];
    const double k = (double)call->ins[1].size[2],
                 indices = bytes_of(&call->ins[1]) + bytes_of(&call->ins[2]),
                 map = there ? (double)cuda_to_slots_workspace(call) : 0,
                 chosen = (call->ins[0].n_dims > 3 && !there) || is(call, "dispatch")
                              ? k * bytes_of(few)
                              : bytes_of(few);
    return (weft_kernel_work){.launches = there ? 3 : 1,
                              .bytes = indices + 3 * map + chosen +
                                       (there ? bytes_of(rows) : bytes_of(few)),
                              .before = there ? 2 * map + indices : 0};
}

/* ---- loads, and single numbers ---- */

typedef struct load {
    cuda_load_args args;
    cuda_kernel kernel;
} load;

static const struct {
    const char *op;
    cuda_kernel kernel;
    const char *scale;
} loads[] = {
    {"expert_load", CUDA_KERNEL_expert_load, NULL},  {"load_peak", CUDA_KERNEL_load_peak, "scale"},
    {"bias_step", CUDA_KERNEL_bias_step, "rate"},    {"balance", CUDA_KERNEL_balance, "scale"},
    {"balance_dp", CUDA_KERNEL_balance_dp, "scale"}, {"scalar_sum", CUDA_KERNEL_scalar_sum, NULL},
    {"scalar_max", CUDA_KERNEL_scalar_max, NULL},    {"largest", CUDA_KERNEL_largest, NULL},
};

bool cuda_load_accepts(const weft_call *call)
{
    return call->n_ins <= CUDA_MOST_NUMBERS;
}

weft_status cuda_load_prepare(const weft_call *call, void **state, weft_error *err)
{
    const weft_tensor *in = call->ins;
    load made = {.args = {.n = weft_tensor_count(&in[0]),
                          .n_ins = call->n_ins,
                          .accumulate = call->accumulate}};
    cuda_load_args *a = &made.args;
    int i = 0;
    while (!is(call, loads[i].op))
        i++;
    made.kernel = loads[i].kernel;
    a->scale = loads[i].scale ? weft_call_real(call, loads[i].scale) : 0;
    if (made.kernel == CUDA_KERNEL_expert_load) {
        a->rows = in[0].size[0] * in[0].size[1];
        a->n = in[0].size[2];
    } else if (made.kernel == CUDA_KERNEL_bias_step) {
        a->rows = weft_tensor_count(&in[1]);
        a->lo = in[0].lo[0];
        a->recentre = (int32_t)weft_call_int(call, "recentre");
    } else if (made.kernel == CUDA_KERNEL_balance_dp) {
        a->n = weft_tensor_count(&in[1]);
    }
    return cuda_keep(&made, sizeof made, state, err);
}

weft_status cuda_load_launch(const weft_call *call, weft_error *err)
{
    const load *made = call->state;
    cuda_load_args a = made->args;
    a.out = cuda_view_of(&call->outs[0]);
    for (int i = 0; i < call->n_ins; i++)
        a.ins[i] = cuda_view_of(&call->ins[i]);
    return cuda_launch(call->queue, made->kernel, &a, 1, err);
}
