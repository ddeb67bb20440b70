/* SPDX-License-Identifier: Apache-2.0 */
/* The table of kernels: which calls each takes and what memory it needs. */
#include "gpu.h"

/* What is rounded between launches would not be the sum of all. */
static bool accepts_sum(const weft_call *call)
{
    return call->n_ins <= CUDA_MOST_INS || call->outs[0].dtype == WEFT_F32;
}

/* Bytes are moved, never converted. */
static bool accepts_cache(const weft_call *call)
{
    weft_dtype dtype = call->outs[0].dtype;
    return call->ins[0].dtype == dtype && call->ins[1].dtype == dtype;
}

static bool accepts_history(const weft_call *call)
{
    const size_t most = sizeof((cuda_history_args *)0)->maxima / sizeof(cuda_view);
    return (size_t)call->n_ins <= 3 + most;
}

enum { PRIORITY = 10 };

#define HEAD(name_, accumulates_)                                                                  \
    .op = #name_, .device = "cuda", .name = #name_ "_cuda", .priority = PRIORITY,                  \
    .accumulates = accumulates_
#define KERNEL(name_, accumulates_, types_, launch_)                                               \
    {                                                                                              \
        HEAD(name_, accumulates_), .types = types_, .launch = launch_                              \
    }
#define IF(name_, accumulates_, types_, accepts_, launch_)                                         \
    {                                                                                              \
        HEAD(name_, accumulates_), .types = types_, .accepts = accepts_, .launch = launch_         \
    }
#define WORKING(name_, accumulates_, types_, workspace_, launch_)                                  \
    {                                                                                              \
        HEAD(name_, accumulates_), .types = types_, .workspace = workspace_, .launch = launch_     \
    }
/* Whose operands and results are not read and written whole. */
#define FEW(name_, accumulates_, types_, work_, workspace_, launch_)                               \
    {                                                                                              \
        HEAD(name_, accumulates_), .types = types_, .work = work_, .workspace = workspace_,        \
                                   .launch = launch_                                               \
    }
#define ATTENTION(op_, name_, accumulates_)                                                        \
    {                                                                                              \
        HEAD(op_, accumulates_), .accepts = cuda_attention_accepts,                                \
                                 .workspace = cuda_##name_##_workspace,                            \
                                 .work = cuda_##name_##_work, .loads = cuda_dnn_loads,             \
                                 .prepare = cuda_attention_prepare, .release = cuda_dnn_release,   \
                                 .launch = cuda_##name_##_launch                                   \
    }
#define ELEMENTWISE(name_, types_) KERNEL(name_, true, types_, cuda_elementwise_launch)
#define LOSS(name_, adds_, types_) KERNEL(name_, adds_, types_, cuda_loss_launch)
#define NORM(name_, types_)        KERNEL(name_, true, types_, cuda_norm_launch)
#define COLUMNS(name_, types_)                                                                     \
    WORKING(name_, true, types_, cuda_columns_workspace, cuda_norm_dw_launch)
#define SUM(name_, types_)    WORKING(name_, true, types_, cuda_sum_workspace, cuda_sum_launch)
#define SCALAR(name_, types_) KERNEL(name_, true, types_, cuda_scalar_launch)

#define PRODUCT(name_)                                                                             \
    {                                                                                              \
        HEAD(name_, true), .accepts = cuda_product_accepts, .workspace = cuda_product_workspace,   \
                           .loads = cuda_product_loads, .prepare = cuda_product_prepare,           \
                           .release = cuda_product_release, .launch = cuda_product_launch          \
    }

#define EACH(name_)                                                                                \
    {                                                                                              \
        HEAD(name_, true), .accepts = cuda_each_accepts, .workspace = cuda_each_workspace,         \
                           .work = cuda_each_work, .loads = cuda_each_loads,                       \
                           .prepare = cuda_each_prepare, .release = cuda_product_release,          \
                           .launch = cuda_each_launch                                              \
    }

#define F8_PRODUCT(name_)                                                                          \
    {                                                                                              \
        HEAD(name_, true), .accepts = cuda_f8_product_accepts,                                     \
                           .workspace = cuda_f8_product_workspace, .work = cuda_f8_product_work,   \
                           .loads = cuda_f8_product_loads, .check = cuda_f8_product_check,         \
                           .prepare = cuda_f8_product_prepare, .release = cuda_f8_product_release, \
                           .launch = cuda_f8_product_launch, .optional = true                      \
    }

/* Of an op of another plugin, which need not be listed. */
#define OPTIONAL(name_, accumulates_, types_, accepts_, workspace_, launch_)                       \
    {                                                                                              \
        HEAD(name_, accumulates_), .types = types_, .accepts = accepts_, .workspace = workspace_,  \
                                   .launch = launch_, .optional = true                             \
    }

#define NARROW(name_, types_)                                                                      \
    {                                                                                              \
        HEAD(float8_##name_, false), .types = types_, .accepts = cuda_narrow_accepts,              \
                                     .workspace = cuda_narrow_workspace, .work = cuda_narrow_work, \
                                     .launch = cuda_narrow_launch, .optional = true                \
    }

#define SLOTS(name_, adds_, way_, workspace_)                                                      \
    {                                                                                              \
        HEAD(name_, adds_), .types = "hii>h", .accepts = cuda_##way_##_slots_accepts,              \
                            .workspace = workspace_, .work = cuda_slots_work,                      \
                            .launch = cuda_##way_##_slots_launch, .optional = true                 \
    }

#define GROUPED(name_)                                                                             \
    {                                                                                              \
        HEAD(name_, true), .accepts = cuda_grouped_accepts, .workspace = cuda_grouped_workspace,   \
                           .work = cuda_grouped_work, .launch = cuda_grouped_launch,               \
                           .optional = true                                                        \
    }

#define LOAD(name_, adds_, types_)                                                                 \
    OPTIONAL(name_, adds_, types_, cuda_load_accepts, NULL, cuda_load_launch)

const weft_kernel cuda_kernels[] = {
    PRODUCT(linear),
    PRODUCT(linear_dx),
    PRODUCT(linear_dw),
    EACH(linear_each),
    EACH(linear_each_dx),
    EACH(linear_each_dw),
    ATTENTION(attention, attention, false),
    ATTENTION(attention_dx, attention_dx, true),
    ATTENTION(full_attention, attention, false),
    ATTENTION(full_attention_dx, attention_dx, true),
    KERNEL(attention_merge, false, "hfhf>hf", cuda_attention_merge_launch),
    IF(add, true, "h>h", accepts_sum, cuda_add_launch),
    KERNEL(add_bias, true, "hh>h", cuda_bias_launch),
    ELEMENTWISE(scale, "hh>h"),
    ELEMENTWISE(cast, "h>h"),
    OPTIONAL(snapshot, true, "h>h", NULL, NULL, cuda_elementwise_launch),
    ELEMENTWISE(accumulate, "h>h"),
    ELEMENTWISE(accumulate_max, "h>h"),
    ELEMENTWISE(lowest, "h>h"),
    ELEMENTWISE(broadcast, "h>h"),
    ELEMENTWISE(silu_mul, "hh>h"),
    ELEMENTWISE(silu_mul_dx, "hhh>hh"),
    ELEMENTWISE(gelu, "h>h"),
    ELEMENTWISE(gelu_dx, "hh>h"),
    NORM(rms_norm, "hh>h"),
    NORM(rms_norm_dx, "hhh>h"),
    COLUMNS(rms_norm_dw, "hh>h"),
    IF(add_rms_norm, false, "hhh>hh", cuda_norm_joins, cuda_add_norm_launch),
    {HEAD(rms_norm_dx_dw, true), .types = "hhh>hh", .accepts = cuda_norm_joins,
     .workspace = cuda_columns_workspace, .launch = cuda_norm_dx_dw_launch},
    NORM(layer_norm, "hhh>h"),
    NORM(layer_norm_dx, "hhh>h"),
    COLUMNS(layer_norm_dw, "hh>h"),
    COLUMNS(bias_dw, "h>h"),
    KERNEL(head_norm, true, "hh>h", cuda_head_norm_launch),
    KERNEL(head_norm_dx, true, "hhh>h", cuda_head_norm_launch),
    WORKING(head_norm_dw, true, "hhh>h", cuda_head_norm_workspace, cuda_head_norm_dw_launch),
    KERNEL(head_part, true, "h>h", cuda_heads_launch),
    KERNEL(head_place, true, "h>h", cuda_heads_launch),
    KERNEL(head_join, true, "hh>h", cuda_heads_launch),
    KERNEL(head_sum, true, "hh>h", cuda_heads_launch),
    {HEAD(angles, true), .types = "i>f", .accepts = cuda_angles_accepts,
     .prepare = cuda_angles_prepare, .release = weft_free, .launch = cuda_angles_launch},
    IF(rope, true, "hf>h", cuda_rope_accepts, cuda_rope_launch),
    IF(rope_dx, true, "hf>h", cuda_rope_accepts, cuda_rope_launch),
    FEW(embedding, true, "ih>h", cuda_embedding_work, NULL, cuda_embedding_launch),
    FEW(embedding_dw, true, "ih>f", cuda_embedding_dw_work, cuda_embedding_workspace,
        cuda_embedding_dw_launch),
    KERNEL(take, true, "hi>h", cuda_rows_launch),
    IF(cache, false, "hhi>h", accepts_cache, cuda_rows_launch),
    OPTIONAL(repeat_kv, true, "h>h", NULL, NULL, cuda_rows_launch),
    OPTIONAL(repeat_kv_dx, true, "h>h", NULL, NULL, cuda_rows_launch),
    IF(chunk, false, NULL, cuda_chunk_accepts, cuda_chunk_launch),
    IF(unchunk, false, NULL, cuda_chunk_accepts, cuda_unchunk_launch),
    SUM(sum, "s>n"),
    SUM(sumsq, "s>n"),
    SUM(count_valid, "i>n"),
    LOSS(max_v, false, "h>f"),
    LOSS(sumexp, false, "hf>f"),
    LOSS(sumexp_dx, true, "hff>h"),
    FEW(pick, false, "hi>f", cuda_pick_work, NULL, cuda_loss_launch),
    FEW(pick_dx, true, "if>h", cuda_pick_work, NULL, cuda_loss_launch),
    KERNEL(nll, false, "fffi>f", cuda_elementwise_launch),
    KERNEL(nll_de, false, "fif>f", cuda_elementwise_launch),
    KERNEL(nll_dt, false, "if>f", cuda_elementwise_launch),
    SCALAR(constant, ">s"),
    SCALAR(reciprocal, "s>s"),
    SCALAR(sqrt, "s>s"),
    SCALAR(clip, "s>s"),
    SCALAR(lr_schedule, "s>s"),
    KERNEL(adamw, false, "hhhhsss>h", cuda_adamw_launch),
    OPTIONAL(float8_amax, false, "h>f", cuda_quantise_accepts, cuda_amax_workspace,
             cuda_quantise_launch),
    OPTIONAL(float8_scale, false, "s>f", cuda_quantise_accepts, NULL, cuda_quantise_launch),
    OPTIONAL(float8_quantise, false, "hf>q", cuda_quantise_accepts, NULL, cuda_quantise_launch),
    NARROW(rms_norm, "hhf>q"),
    NARROW(rms_norm_amax, "hhf>qf"),
    NARROW(rms_norm_rows, "hh>qf"),
    NARROW(add_rms_norm, "hhhf>hq"),
    NARROW(add_rms_norm_amax, "hhhf>hqf"),
    NARROW(add_rms_norm_rows, "hhh>hqf"),
    NARROW(silu_mul, "hhf>q"),
    NARROW(silu_mul_amax, "hhf>qf"),
    NARROW(silu_mul_dx_amax, "hhhff>qfqf"),
    NARROW(silu_mul_rows, "hh>qf"),
    NARROW(quantise_amax, "hf>qf"),
    NARROW(quantise_rows, "h>qf"),
    OPTIONAL(float8_history, false, "ffs>f", accepts_history, NULL, cuda_history_launch),
    F8_PRODUCT(float8_linear),
    F8_PRODUCT(float8_linear_part),
    F8_PRODUCT(float8_linear_rows),
    F8_PRODUCT(float8_linear_dx),
    F8_PRODUCT(float8_linear_dw),
    OPTIONAL(route, false, "n>in", cuda_route_accepts, NULL, cuda_route_launch),
    OPTIONAL(route_dx, true, "nin>n", cuda_route_accepts, NULL, cuda_route_dx_launch),
    OPTIONAL(router_mean, true, "n>n", cuda_route_accepts, cuda_router_sums_workspace,
             cuda_router_sums_launch),
    OPTIONAL(router_share, true, "n>n", cuda_route_accepts, cuda_router_sums_workspace,
             cuda_router_sums_launch),
    OPTIONAL(router_mean_dx, true, "nn>n", cuda_route_accepts, NULL, cuda_router_dx_launch),
    OPTIONAL(router_z, true, "n>n", cuda_route_accepts, cuda_router_z_workspace,
             cuda_router_z_launch),
    OPTIONAL(router_z_dx, true, "nn>n", cuda_route_accepts, NULL, cuda_router_dx_launch),
    OPTIONAL(assign, false, "i>iinn", cuda_assign_accepts, cuda_assign_workspace,
             cuda_assign_launch),
    SLOTS(dispatch, false, to, cuda_to_slots_workspace),
    SLOTS(spread, false, to, cuda_to_slots_workspace),
    SLOTS(combine, true, from, NULL),
    SLOTS(collect, true, from, NULL),
    GROUPED(grouped),
    GROUPED(grouped_dx),
    GROUPED(grouped_dw),
    OPTIONAL(slot_scale, true, "hh>h", NULL, NULL, cuda_slot_rows_launch),
    OPTIONAL(slot_dot, true, "hh>h", NULL, NULL, cuda_slot_rows_launch),
    LOAD(expert_load, true, "i>n"),
    LOAD(load_peak, true, "n>n"),
    LOAD(bias_step, false, "nn>n"),
    LOAD(balance, true, "nn>n"),
    LOAD(balance_dp, true, "nn>n"),
    LOAD(scalar_sum, true, "s>s"),
    LOAD(scalar_max, false, "s>s"),
    LOAD(largest, false, "n>n"),
    {.op = NULL},
};
