/* SPDX-License-Identifier: Apache-2.0 */
/* The table of kernels: which calls each takes and what memory it needs. */
#include "gpu.h"

#include <string.h>

/* What an op's operands and results may be: h f32 or bf16, f f32, i i32, n f32 or f64, s any float
 * but 8 bits, q 8 bits; the last one before > or the end repeats. */
static const struct signature {
    const char *op, *types;
} signatures[] = {
    {"add", "h>h"},
    {"add_bias", "hh>h"},
    {"scale", "hh>h"},
    {"cast", "h>h"},
    {"snapshot", "h>h"},
    {"accumulate", "h>h"},
    {"accumulate_max", "h>h"},
    {"broadcast", "h>h"},
    {"silu_mul", "hh>h"},
    {"silu_mul_dx", "hhh>hh"},
    {"gelu", "h>h"},
    {"gelu_dx", "hh>h"},
    {"rms_norm", "hh>h"},
    {"rms_norm_dx", "hhh>h"},
    {"rms_norm_dw", "hh>h"},
    {"layer_norm", "hhh>h"},
    {"layer_norm_dx", "hhh>h"},
    {"layer_norm_dw", "hh>h"},
    {"bias_dw", "h>h"},
    {"rope", "hi>h"},
    {"rope_dx", "hi>h"},
    {"embedding", "ih>h"},
    {"embedding_dw", "ih>f"}, /* sums over tokens: in f32 or not here */
    {"attention_merge", "hfhf>hf"},
    {"take", "hi>h"},
    {"cache", "hhi>h"},
    {"repeat_kv", "h>h"},
    {"repeat_kv_dx", "h>h"},
    {"sum", "s>n"},
    {"sumsq", "s>n"},
    {"count_valid", "i>n"},
    {"max_v", "h>f"},
    {"sumexp", "hf>f"},
    {"sumexp_dx", "hff>h"},
    {"pick", "hi>f"},
    {"pick_dx", "if>h"},
    {"nll", "fffi>f"},
    {"nll_de", "fif>f"},
    {"nll_dt", "if>f"},
    {"constant", ">s"},
    {"reciprocal", "s>s"},
    {"sqrt", "s>s"},
    {"clip", "s>s"},
    {"lr_schedule", "s>s"},
    {"adamw", "hhhhsss>h"},
    {"float8_amax", "h>f"},
    {"float8_scale", "s>f"},
    {"float8_quantise", "hf>q"},
    {"float8_history", "ffs>f"},
};

static bool type_fits(char type, weft_dtype dtype)
{
    switch (type) {
    case 'h':
        return dtype == WEFT_F32 || dtype == WEFT_BF16;
    case 'f':
        return dtype == WEFT_F32;
    case 'i':
        return dtype == WEFT_I32;
    case 'n':
        return dtype == WEFT_F32 || dtype == WEFT_F64;
    case 'q':
        return weft_dtype_is_f8(dtype);
    default:
        return dtype == WEFT_F32 || dtype == WEFT_BF16 || dtype == WEFT_F64;
    }
}

static bool tensors_fit(const char *types, const weft_tensor *t, int n)
{
    for (int i = 0; i < n; i++) {
        if (!type_fits(*types, t[i].dtype))
            return false;
        if (types[1] && types[1] != '>')
            types++;
    }
    return true;
}

static bool accepts_types(const weft_call *call)
{
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++)
        if (strcmp(signatures[i].op, call->op->name) == 0)
            return !weft_call_has_lengths(call) &&
                   tensors_fit(signatures[i].types, call->ins, call->n_ins) &&
                   tensors_fit(strchr(signatures[i].types, '>') + 1, call->outs, call->n_outs);
    return false;
}

/* What is rounded between launches would not be the sum of all. */
static bool accepts_sum(const weft_call *call)
{
    return accepts_types(call) && (call->n_ins <= CUDA_MOST_INS || call->outs[0].dtype == WEFT_F32);
}

static bool accepts_rope(const weft_call *call)
{
    return accepts_types(call) && cuda_rope_accepts(call);
}

/* Bytes are moved, never converted. */
static bool accepts_chunk(const weft_call *call)
{
    return !weft_call_has_lengths(call) && cuda_chunk_accepts(call);
}

static bool accepts_rows(const weft_call *call)
{
    const weft_tensor *out = &call->outs[0];
    return accepts_types(call) && weft_tensor_count(&call->ins[0]) < INT32_MAX &&
           weft_tensor_count(out) < INT32_MAX &&
           (strcmp(call->op->name, "cache") != 0 ||
            (call->ins[0].dtype == call->ins[1].dtype && call->ins[0].dtype == out->dtype));
}

static bool accepts_quantise(const weft_call *call)
{
    return accepts_types(call) && cuda_quantise_accepts(call);
}

static bool accepts_history(const weft_call *call)
{
    const size_t most = sizeof((cuda_history_args *)0)->maxima / sizeof(cuda_view);
    return accepts_types(call) && (size_t)call->n_ins <= 3 + most;
}

static bool accepts_attention(const weft_call *call)
{
    return !weft_call_has_lengths(call) && cuda_attention_accepts(call);
}

enum { PRIORITY = 10 };

#define HEAD(name_, accumulates_)                                                                  \
    .op = #name_, .device = "cuda", .name = #name_ "_cuda", .priority = PRIORITY,                  \
    .accumulates = accumulates_
#define KERNEL(name_, accumulates_, accepts_, launch_)                                             \
    {                                                                                              \
        HEAD(name_, accumulates_), .accepts = accepts_, .launch = launch_                          \
    }
#define WORKING(name_, accumulates_, accepts_, workspace_, launch_)                                \
    {                                                                                              \
        HEAD(name_, accumulates_), .accepts = accepts_, .workspace = workspace_, .launch = launch_ \
    }
#define ELEMENTWISE(name_) KERNEL(name_, true, accepts_types, cuda_elementwise_launch)
#define LOSS(name_, adds_) KERNEL(name_, adds_, accepts_types, cuda_loss_launch)
#define NORM(name_)        KERNEL(name_, true, accepts_types, cuda_norm_launch)
#define COLUMNS(name_)                                                                             \
    WORKING(name_, true, accepts_types, cuda_columns_workspace, cuda_norm_dw_launch)
#define SUM(name_)    WORKING(name_, true, accepts_types, cuda_sum_workspace, cuda_sum_launch)
#define SCALAR(name_) KERNEL(name_, true, accepts_types, cuda_scalar_launch)

#define PRODUCT(name_)                                                                             \
    {                                                                                              \
        HEAD(name_, true), .accepts = cuda_product_accepts, .workspace = cuda_product_workspace,   \
                           .prepare = cuda_product_prepare, .release = cuda_product_release,       \
                           .launch = cuda_product_launch                                           \
    }

/* Of an op of another plugin, which need not be listed. */
#define OPTIONAL(name_, accumulates_, accepts_, workspace_, launch_)                               \
    {                                                                                              \
        HEAD(name_, accumulates_), .accepts = accepts_, .workspace = workspace_,                   \
                                   .launch = launch_, .optional = true                             \
    }

const weft_kernel cuda_kernels[] = {
    PRODUCT(linear),
    PRODUCT(linear_dx),
    PRODUCT(linear_dw),
    WORKING(attention, false, accepts_attention, cuda_attention_workspace, cuda_attention_launch),
    WORKING(attention_dx, true, accepts_attention, cuda_attention_dx_workspace,
            cuda_attention_dx_launch),
    KERNEL(attention_merge, false, accepts_types, cuda_attention_merge_launch),
    KERNEL(add, true, accepts_sum, cuda_add_launch),
    KERNEL(add_bias, true, accepts_types, cuda_bias_launch),
    ELEMENTWISE(scale),
    ELEMENTWISE(cast),
    OPTIONAL(snapshot, true, accepts_types, NULL, cuda_elementwise_launch),
    ELEMENTWISE(accumulate),
    ELEMENTWISE(accumulate_max),
    ELEMENTWISE(broadcast),
    ELEMENTWISE(silu_mul),
    ELEMENTWISE(silu_mul_dx),
    ELEMENTWISE(gelu),
    ELEMENTWISE(gelu_dx),
    NORM(rms_norm),
    NORM(rms_norm_dx),
    COLUMNS(rms_norm_dw),
    NORM(layer_norm),
    NORM(layer_norm_dx),
    COLUMNS(layer_norm_dw),
    COLUMNS(bias_dw),
    KERNEL(rope, true, accepts_rope, cuda_rope_launch),
    KERNEL(rope_dx, true, accepts_rope, cuda_rope_launch),
    KERNEL(embedding, true, accepts_types, cuda_embedding_launch),
    WORKING(embedding_dw, true, accepts_types, cuda_embedding_workspace, cuda_embedding_dw_launch),
    KERNEL(take, true, accepts_rows, cuda_rows_launch),
    KERNEL(cache, false, accepts_rows, cuda_rows_launch),
    OPTIONAL(repeat_kv, true, accepts_rows, NULL, cuda_rows_launch),
    OPTIONAL(repeat_kv_dx, true, accepts_rows, NULL, cuda_rows_launch),
    KERNEL(chunk, false, accepts_chunk, cuda_chunk_launch),
    KERNEL(unchunk, false, accepts_chunk, cuda_unchunk_launch),
    SUM(sum),
    SUM(sumsq),
    SUM(count_valid),
    LOSS(max_v, false),
    LOSS(sumexp, false),
    LOSS(sumexp_dx, true),
    LOSS(pick, false),
    LOSS(pick_dx, true),
    KERNEL(nll, false, accepts_types, cuda_elementwise_launch),
    KERNEL(nll_de, false, accepts_types, cuda_elementwise_launch),
    KERNEL(nll_dt, false, accepts_types, cuda_elementwise_launch),
    SCALAR(constant),
    SCALAR(reciprocal),
    SCALAR(sqrt),
    SCALAR(clip),
    SCALAR(lr_schedule),
    KERNEL(adamw, false, accepts_types, cuda_adamw_launch),
    OPTIONAL(float8_amax, false, accepts_quantise, cuda_amax_workspace, cuda_quantise_launch),
    OPTIONAL(float8_scale, false, accepts_quantise, NULL, cuda_quantise_launch),
    OPTIONAL(float8_quantise, false, accepts_quantise, NULL, cuda_quantise_launch),
    OPTIONAL(float8_history, false, accepts_history, NULL, cuda_history_launch),
    {.op = NULL},
};
