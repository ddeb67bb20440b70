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
/* A family's state is one piece. */
#define PREPARED(by_, family_)                                                                     \
    .prepare = cuda_##by_##_prepare, .release = weft_free, .launch = cuda_##family_##_launch
#define KERNEL(name_, accumulates_, types_, family_)                                               \
    {                                                                                              \
        HEAD(name_, accumulates_), .types = types_, PREPARED(family_, family_)                     \
    }
/* Its extents are all that it goes by. */
#define SIMPLE(name_, accumulates_, types_, launch_)                                               \
    {                                                                                              \
        HEAD(name_, accumulates_), .types = types_, .launch = cuda_##launch_##_launch              \
    }
#define IF(name_, accumulates_, types_, accepts_, family_)                                         \
    {                                                                                              \
        HEAD(name_, accumulates_), .types = types_, .accepts = accepts_,                           \
                                   PREPARED(family_, family_)                                      \
    }
#define ATTENTION(op_, name_, accumulates_)                                                        \
    {                                                                                              \
        HEAD(op_, accumulates_),                                                                   \
            .accepts = cuda_attention_accepts, .workspace = cuda_##name_##_workspace,              \
            .work = cuda_##name_##_work, .loads = cuda_dnn_loads,                                  \
            .prepare = cuda_attention_prepare, .release = cuda_attention_release,                  \
            .launch = cuda_##name_##_launch                                                        \
    }
#define ELEMENTWISE(name_, types_) KERNEL(name_, true, types_, elementwise)
#define LOSS(name_, adds_, types_) KERNEL(name_, adds_, types_, loss)
/* Of each row one number: what lies around it is not read. */
#define PICK(name_, adds_, types_)                                                                 \
    {                                                                                              \
        HEAD(name_, adds_), .types = types_, .work = cuda_pick_work, PREPARED(loss, loss)          \
    }
#define NORM(name_, types_) KERNEL(name_, true, types_, norm)
#define COLUMNS(name_, types_, joins_, launch_)                                                    \
    {                                                                                              \
        HEAD(name_, true), .types = types_, .accepts = joins_,                                     \
                           .workspace = cuda_columns_workspace, PREPARED(columns, launch_)         \
    }
#define SUM(name_, types_)                                                                         \
    {                                                                                              \
        HEAD(name_, true), .types = types_, .workspace = cuda_sum_workspace, PREPARED(sum, sum)    \
    }
#define SCALAR(name_, types_) KERNEL(name_, true, types_, scalar)

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
                           .prepare = cuda_each_prepare, .release = cuda_each_release,             \
                           .launch = cuda_each_launch                                              \
    }

#define PAIR(name_, accumulates_)                                                                  \
    {                                                                                              \
        HEAD(name_, accumulates_), .accepts = cuda_pair_accepts, .workspace = cuda_pair_workspace, \
                                   .work = cuda_pair_work, .loads = cuda_pair_loads,               \
                                   .prepare = cuda_pair_prepare, .release = cuda_pair_release,     \
                                   .launch = cuda_pair_launch                                      \
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
#define OPTIONAL(name_, accumulates_, types_, accepts_, workspace_, by_, family_)                  \
    {                                                                                              \
        HEAD(name_, accumulates_), .types = types_, .accepts = accepts_, .workspace = workspace_,  \
                                   PREPARED(by_, family_), .optional = true                        \
    }
#define QUANTISE(name_, types_, workspace_)                                                        \
    OPTIONAL(name_, false, types_, cuda_quantise_accepts, workspace_, quantise, quantise)

#define NARROW(name_, types_)                                                                      \
    {                                                                                              \
        HEAD(float8_##name_, false), .types = types_, .accepts = cuda_narrow_accepts,              \
                                     .workspace = cuda_narrow_workspace, .work = cuda_narrow_work, \
                                     PREPARED(narrow, narrow), .optional = true                    \
    }

#define ROUTE(name_, adds_, types_, workspace_, launch_)                                           \
    OPTIONAL(name_, adds_, types_, cuda_route_accepts, workspace_, route, launch_)

#define SLOTS(name_, adds_, way_, workspace_)                                                      \
    {                                                                                              \
        HEAD(name_, adds_), .types = "hii>h", .accepts = cuda_##way_##_slots_accepts,              \
                            .workspace = workspace_, .work = cuda_slots_work,                      \
                            PREPARED(way_##_slots, way_##_slots), .optional = true                 \
    }
#define SLOT_ROWS(name_)                                                                           \
    {                                                                                              \
        HEAD(name_, true), .types = "hh>h", .launch = cuda_##name_##_launch, .optional = true      \
    }

#define GROUPED(name_)                                                                             \
    {                                                                                              \
        HEAD(name_, true), .accepts = cuda_grouped_accepts, .workspace = cuda_grouped_workspace,   \
                           .work = cuda_grouped_work, PREPARED(grouped, grouped), .optional = true \
    }

#define LOAD(name_, adds_, types_)                                                                 \
    OPTIONAL(name_, adds_, types_, cuda_load_accepts, NULL, load, load)

const weft_kernel cuda_kernels[] = {
    PRODUCT(linear),
    PRODUCT(linear_dx),
    PRODUCT(linear_dw),
    PAIR(linear_pair, false),
    PAIR(linear_pair_dw, true),
    EACH(linear_each),
    EACH(linear_each_dx),
    EACH(linear_each_dw),
    ATTENTION(attention, attention, false),
    ATTENTION(attention_dx, attention_dx, true),
    ATTENTION(full_attention, attention, false),
    ATTENTION(full_attention_dx, attention_dx, true),
    SIMPLE(attention_merge, false, "hfhf>hf", attention_merge),
    IF(add, true, "h>h", accepts_sum, elementwise),
    ELEMENTWISE(add_bias, "hh>h"),
    ELEMENTWISE(scale, "hh>h"),
    ELEMENTWISE(cast, "h>h"),
    OPTIONAL(snapshot, true, "h>h", NULL, NULL, elementwise, elementwise),
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
    COLUMNS(rms_norm_dw, "hh>h", NULL, norm_dw),
    {HEAD(add_rms_norm, false), .types = "hhh>hh", .accepts = cuda_norm_joins,
     PREPARED(norm, add_norm)},
    COLUMNS(rms_norm_dx_dw, "hhh>hh", cuda_norm_joins, norm_dx_dw),
    NORM(layer_norm, "hhh>h"),
    NORM(layer_norm_dx, "hhh>h"),
    COLUMNS(layer_norm_dw, "hh>h", NULL, norm_dw),
    COLUMNS(bias_dw, "h>h", NULL, norm_dw),
    KERNEL(head_norm, true, "hh>h", head_norm),
    KERNEL(head_norm_dx, true, "hhh>h", head_norm),
    {HEAD(head_norm_dw, true), .types = "hhh>h", .workspace = cuda_head_norm_workspace,
     PREPARED(head_norm, head_norm_dw)},
    KERNEL(head_part, true, "h>h", heads),
    KERNEL(head_place, true, "h>h", heads),
    KERNEL(head_join, true, "hh>h", heads),
    KERNEL(head_sum, true, "hh>h", heads),
    IF(angles, true, "i>f", cuda_angles_accepts, angles),
    IF(rope, true, "hf>h", cuda_rope_accepts, rope),
    IF(rope_dx, true, "hf>h", cuda_rope_accepts, rope),
    {HEAD(embedding, true), .types = "ih>h", .work = cuda_embedding_work,
     .launch = cuda_embedding_launch},
    {HEAD(embedding_dw, true), .types = "ih>f", .work = cuda_embedding_dw_work,
     .workspace = cuda_embedding_workspace, .launch = cuda_embedding_dw_launch},
    KERNEL(take, true, "hi>h", rows),
    IF(cache, false, "hhi>h", accepts_cache, rows),
    OPTIONAL(repeat_kv, true, "h>h", NULL, NULL, rows, rows),
    OPTIONAL(repeat_kv_dx, true, "h>h", NULL, NULL, rows, rows),
    IF(chunk, false, NULL, cuda_chunk_accepts, chunk),
    {HEAD(unchunk, false), .accepts = cuda_chunk_accepts, PREPARED(chunk, unchunk)},
    SUM(sum, "s>n"),
    SUM(sumsq, "s>n"),
    SUM(count_valid, "i>n"),
    LOSS(max_v, false, "h>f"),
    LOSS(sumexp, false, "hf>f"),
    LOSS(sumexp_dx, true, "hff>h"),
    PICK(pick, false, "hi>f"),
    PICK(pick_dx, true, "if>h"),
    KERNEL(nll, false, "fffi>f", elementwise),
    KERNEL(nll_de, false, "fif>f", elementwise),
    KERNEL(nll_dt, false, "if>f", elementwise),
    SCALAR(constant, ">s"),
    SCALAR(reciprocal, "s>s"),
    SCALAR(sqrt, "s>s"),
    SCALAR(clip, "s>s"),
    SCALAR(lr_schedule, "s>s"),
    KERNEL(adamw, false, "hhhhsss>h", adamw),
    QUANTISE(float8_amax, "h>f", cuda_amax_workspace),
    QUANTISE(float8_scale, "s>f", NULL),
    QUANTISE(float8_quantise, "hf>q", NULL),
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
    OPTIONAL(float8_history, false, "ffs>f", accepts_history, NULL, history, history),
    F8_PRODUCT(float8_linear),
    F8_PRODUCT(float8_linear_part),
    F8_PRODUCT(float8_linear_rows),
    F8_PRODUCT(float8_linear_dx),
    F8_PRODUCT(float8_linear_dw),
    ROUTE(route, false, "n>in", NULL, route),
    ROUTE(route_dx, true, "nin>n", NULL, route_dx),
    ROUTE(router_mean, true, "n>n", cuda_router_sums_workspace, router_sums),
    ROUTE(router_share, true, "n>n", cuda_router_sums_workspace, router_sums),
    ROUTE(router_mean_dx, true, "nn>n", NULL, router_dx),
    ROUTE(router_z, true, "n>n", cuda_router_z_workspace, router_z),
    ROUTE(router_z_dx, true, "nn>n", NULL, router_dx),
    OPTIONAL(assign, false, "i>iinn", cuda_assign_accepts, cuda_assign_workspace, assign, assign),
    SLOTS(dispatch, false, to, cuda_to_slots_workspace),
    SLOTS(spread, false, to, cuda_to_slots_workspace),
    SLOTS(combine, true, from, NULL),
    SLOTS(collect, true, from, NULL),
    GROUPED(grouped),
    GROUPED(grouped_dx),
    GROUPED(grouped_dw),
    SLOT_ROWS(slot_scale),
    SLOT_ROWS(slot_dot),
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
