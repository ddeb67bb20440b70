/* SPDX-License-Identifier: Apache-2.0 */
/* The table of kernels: which calls each takes and what memory it needs. Everything else falls to
 * the plain kernels. */
#include "cpu.h"

#include <string.h>

/* One scale, and one maximum, of all. */
static bool accepts_scale(const weft_call *call)
{
    return call->ins[call->n_ins - 1].n_dims == 0 && weft_call_int(call, "places") == 0;
}

/* A scale for each row of the last dim. */
static bool accepts_rows(const weft_call *call)
{
    const int n = call->ins[0].n_dims;
    return n > 0 && weft_call_int(call, "places") == ((int64_t)1 << (n - 1)) - 1;
}

static bool accepts_rope(const weft_call *call)
{
    const weft_tensor *x = &call->ins[0];
    int64_t d = x->grain[x->n_dims - 1];
    return d <= CPU_MAX_ROPE && x->size[x->n_dims - 1] % d == 0;
}

/* Bytes are moved, never converted. */
static bool accepts_chunk(const weft_call *call)
{
    for (int i = 0; i < call->n_ins; i++)
        if (call->ins[i].dtype != call->outs[0].dtype)
            return false;
    for (int i = 0; i < call->n_outs; i++)
        if (call->outs[i].dtype != call->outs[0].dtype)
            return false;
    return true;
}

static bool accepts_attention(const weft_call *call)
{
    cpu_attention a;
    return cpu_attention_read(call, false, &a);
}

/* Bytes are moved, never converted. */
static bool accepts_cache(const weft_call *call)
{
    return call->ins[0].dtype == call->ins[1].dtype && call->ins[0].dtype == call->outs[0].dtype;
}

static bool accepts_attention_dx(const weft_call *call)
{
    cpu_attention a;
    return cpu_attention_read(call, true, &a);
}

/* Sums over rows are made in f64, in up to CPU_PARTS parts. */
size_t cpu_rows_workspace(const weft_call *call)
{
    const weft_tensor *x = &call->ins[0];
    size_t rows = 1, width = (size_t)x->size[x->n_dims - 1];
    for (int d = 0; d + 1 < x->n_dims; d++)
        rows *= (size_t)x->size[d];
    return (rows < CPU_PARTS ? rows : CPU_PARTS) * width * sizeof(double);
}

weft_status cpu_check_workspace(const weft_call *call, size_t needed, weft_error *err)
{
    if (call->workspace_bytes >= needed && (call->workspace || needed == 0))
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                     "%s: the kernel needs %zu bytes of workspace and was given %zu",
                     call->op->name, needed, call->workspace_bytes);
}

#define CPU_DISPATCH(op)                                                                           \
    static weft_status dispatch_##op(const weft_call *call, weft_error *err)                       \
    {                                                                                              \
        return cpu_launchers_get(CPU_ISA_AVX512)->op(call, err);                                   \
    }
CPU_VECTOR_OPS(CPU_DISPATCH)
#undef CPU_DISPATCH

/* NULL: products are of f32, which the table of all kernels has. */
static const cpu_attention_launchers *bf16_launchers(const cpu_attention *a)
{
    return !a || !a->bf16 ? NULL : a->amx ? &cpu_attention_amx : &cpu_attention_bf16;
}

static weft_status launch_attention(const weft_call *call, weft_error *err)
{
    const cpu_attention_launchers *of_bf16 = bf16_launchers(call->state);
    return (of_bf16 ? of_bf16->forward : dispatch_attention)(call, err);
}

static weft_status launch_attention_dx(const weft_call *call, weft_error *err)
{
    const cpu_attention_launchers *of_bf16 = bf16_launchers(call->state);
    return (of_bf16 ? of_bf16->backward : dispatch_attention_dx)(call, err);
}

enum { PRIORITY = 10 };

#define HEAD(name_, kernel_, accumulates_)                                                         \
    .op = #name_, .device = "cpu", .name = kernel_, .priority = PRIORITY,                          \
    .accumulates = accumulates_
#define VECTOR(name_, accumulates_, types_)                                                        \
    {                                                                                              \
        HEAD(name_, #name_ "_vector", accumulates_), .types = types_, .launch = dispatch_##name_   \
    }
#define IF(name_, accumulates_, types_, accepts_)                                                  \
    {                                                                                              \
        HEAD(name_, #name_ "_vector", accumulates_), .types = types_, .accepts = accepts_,         \
                                                     .launch = dispatch_##name_                    \
    }
#define ROW_SUM(name_, types_)                                                                     \
    {                                                                                              \
        HEAD(name_, #name_ "_vector", true), .types = types_, .workspace = cpu_rows_workspace,     \
                                             .launch = dispatch_##name_                            \
    }
#ifdef WEFT_ONEDNN
#define BY "_onednn"
#else
#define BY "_tiled"
#endif
#define PRODUCT(name_, accumulates_)                                                               \
    {                                                                                              \
        HEAD(name_, #name_ BY, accumulates_),                                                      \
            .accepts = cpu_product_accepts, .workspace = cpu_product_workspace,                    \
            .prepare = cpu_product_prepare, .release = cpu_product_release,                        \
            .launch = cpu_product_launch                                                           \
    }
#define EACH(name_, accumulates_)                                                                  \
    {                                                                                              \
        HEAD(name_, #name_ BY, accumulates_),                                                      \
            .accepts = cpu_each_accepts, .workspace = cpu_each_workspace,                          \
            .prepare = cpu_each_prepare, .release = cpu_each_release, .launch = cpu_each_launch    \
    }
#define GROUPED(name_)                                                                             \
    {                                                                                              \
        HEAD(name_, #name_ "_tiled", true), .accepts = cpu_grouped_accepts,                        \
                                            .workspace = cpu_grouped_workspace,                    \
                                            .launch = cpu_grouped_launch, .optional = true         \
    }
#define ATTENTION(op_, name_)                                                                      \
    {                                                                                              \
        HEAD(op_, #name_ "_tiled", false),                                                         \
            .accepts = accepts_##name_, .workspace = cpu_##name_##_workspace,                      \
            .prepare = cpu_##name_##_prepare, .release = cpu_attention_release,                    \
            .launch = launch_##name_                                                               \
    }

/* Of the plugin float8, which need not be listed. */
#define NARROW(name_, types_, accepts_)                                                            \
    {                                                                                              \
        HEAD(float8_##name_, #name_ "_narrow", false), .types = types_, .accepts = accepts_,       \
                                                       .launch = dispatch_float8_##name_,          \
                                                       .optional = true                            \
    }

const weft_kernel cpu_kernels[] = {
    PRODUCT(linear, false),
    PRODUCT(linear_dx, false),
    PRODUCT(linear_dw, true),
    EACH(linear_each, false),
    EACH(linear_each_dx, false),
    EACH(linear_each_dw, true),
    GROUPED(grouped),
    GROUPED(grouped_dx),
    GROUPED(grouped_dw),
    ATTENTION(attention, attention),
    ATTENTION(attention_dx, attention_dx),
    ATTENTION(full_attention, attention),
    ATTENTION(full_attention_dx, attention_dx),
    {.op = "attention",
     .device = "cpu",
     .name = "attention_decode",
     .priority = PRIORITY + 1,
     .accepts = cpu_decode_accepts,
     .workspace = cpu_decode_workspace,
     .prepare = cpu_decode_prepare,
     .release = cpu_attention_release,
     .launch = dispatch_decode},
    IF(cache, false, "**i>*", accepts_cache),
    VECTOR(add, true, "h>h"),
    VECTOR(add_bias, true, "hh>h"),
    VECTOR(scale, true, "hh>h"),
    VECTOR(cast, true, "h>h"),
    VECTOR(accumulate, true, "h>h"),
    VECTOR(accumulate_max, true, "h>h"),
    VECTOR(broadcast, true, "h>h"),
    VECTOR(silu_mul, true, "hh>h"),
    VECTOR(silu_mul_dx, true, "hhh>hh"),
    VECTOR(gelu, true, "h>h"),
    VECTOR(gelu_dx, true, "hh>h"),
    VECTOR(rms_norm, true, "hh>h"),
    VECTOR(rms_norm_dx, true, "hhh>h"),
    ROW_SUM(rms_norm_dw, "hh>h"),
    VECTOR(add_rms_norm, false, "hhh>hh"),
    ROW_SUM(rms_norm_dx_dw, "hhh>hh"),
    NARROW(rms_norm, "hhf>q", accepts_scale),
    NARROW(rms_norm_amax, "hhf>qf", accepts_scale),
    NARROW(rms_norm_rows, "hh>qf", accepts_rows),
    NARROW(add_rms_norm, "hhhf>hq", accepts_scale),
    NARROW(add_rms_norm_amax, "hhhf>hqf", accepts_scale),
    NARROW(add_rms_norm_rows, "hhh>hqf", accepts_rows),
    NARROW(silu_mul, "hhf>q", accepts_scale),
    NARROW(silu_mul_amax, "hhf>qf", accepts_scale),
    NARROW(silu_mul_dx_amax, "hhhff>qfqf", accepts_scale),
    NARROW(silu_mul_rows, "hh>qf", accepts_rows),
    NARROW(quantise_amax, "hf>qf", accepts_scale),
    NARROW(quantise_rows, "h>qf", accepts_rows),
    VECTOR(head_norm, true, "hh>h"),
    VECTOR(head_norm_dx, true, "hhh>h"),
    ROW_SUM(head_norm_dw, "hhh>h"),
    VECTOR(layer_norm, true, "hhh>h"),
    VECTOR(layer_norm_dx, true, "hhh>h"),
    ROW_SUM(layer_norm_dw, "hh>h"),
    ROW_SUM(bias_dw, "h>h"),
    VECTOR(head_part, true, "h>h"),
    VECTOR(head_place, true, "h>h"),
    VECTOR(head_join, true, "h>h"),
    VECTOR(head_sum, true, "h>h"),
    IF(rope, true, "hf>h", accepts_rope),
    IF(rope_dx, true, "hf>h", accepts_rope),
    VECTOR(embedding, true, "ih>h"),
    VECTOR(embedding_dw, true, "ih>f"),
    VECTOR(attention_merge, false, "hfhf>hf"),
    VECTOR(take, true, "hi>h"),
    IF(chunk, false, "h>h", accepts_chunk),
    IF(unchunk, false, "h>h", accepts_chunk),
    VECTOR(sum, true, "h>n"),
    VECTOR(count_valid, true, "i>n"),
    {HEAD(newton_schulz, "newton_schulz" BY, false), .types = "h>h",
     .accepts = cpu_newton_schulz_accepts, .workspace = cpu_newton_schulz_workspace,
     .prepare = cpu_newton_schulz_prepare, .release = cpu_newton_schulz_release,
     .launch = cpu_newton_schulz_launch, .optional = true},
    {HEAD(sumsq, "sumsq_f32", true), .accepts = cpu_sumsq_accepts, .workspace = cpu_sumsq_workspace,
     .launch = cpu_sumsq_launch},
    VECTOR(max_v, false, "h>f"),
    VECTOR(sumexp, false, "hf>f"),
    VECTOR(sumexp_dx, true, "hff>h"),
    VECTOR(pick, false, "hi>f"),
    VECTOR(pick_dx, true, "if>h"),
    VECTOR(nll, false, "fffi>f"),
    VECTOR(nll_de, false, "fif>f"),
    VECTOR(nll_dt, false, "if>f"),
    {.op = NULL},
};
