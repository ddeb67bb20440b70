/* SPDX-License-Identifier: Apache-2.0 */
/* The table of kernels: which calls each takes and what memory it needs. Everything else falls to
 * the plain kernels. */
#include "cpu.h"

#include <string.h>

/* What an op's operands and results may be: h f32 or bf16, f f32, i i32, n f32 or f64; the last one
 * before > or the end repeats. */
static const struct signature {
    const char *op, *types;
} signatures[] = {
    {"add", "h>h"},
    {"add_bias", "hh>h"},
    {"scale", "hh>h"},
    {"cast", "h>h"},
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
    {"chunk", "h>h"},
    {"unchunk", "h>h"},
    {"sum", "h>n"},
    {"count_valid", "i>n"},
    {"max_v", "h>f"},
    {"sumexp", "hf>f"},
    {"sumexp_dx", "hff>h"},
    {"pick", "hi>f"},
    {"pick_dx", "if>h"},
    {"nll", "fffi>f"},
    {"nll_de", "fif>f"},
    {"nll_dt", "if>f"},
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
    default:
        return dtype == WEFT_F32 || dtype == WEFT_F64;
    }
}

/* Checks n tensors against the types from `types` on, up to '>' or the end. */
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

static bool accepts_rope(const weft_call *call)
{
    const weft_tensor *x = &call->ins[0];
    int64_t d = x->grain[x->n_dims - 1];
    return accepts_types(call) && d >= 2 && d % 2 == 0 && d <= CPU_MAX_ROPE &&
           x->size[x->n_dims - 1] % d == 0;
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
    return accepts_types(call);
}

static bool accepts_attention(const weft_call *call)
{
    cpu_attention a;
    return !weft_call_has_lengths(call) && cpu_attention_read(call, false, &a);
}

static bool accepts_decode(const weft_call *call)
{
    return !weft_call_has_lengths(call) && cpu_decode_accepts(call);
}

/* Bytes are moved, never converted. */
static bool accepts_cache(const weft_call *call)
{
    return !weft_call_has_lengths(call) && call->ins[2].dtype == WEFT_I32 &&
           call->ins[0].dtype == call->ins[1].dtype && call->ins[0].dtype == call->outs[0].dtype;
}

static bool accepts_attention_dx(const weft_call *call)
{
    cpu_attention a;
    return !weft_call_has_lengths(call) && cpu_attention_read(call, true, &a);
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

enum { PRIORITY = 10 };

#define HEAD(name_, kernel_, accumulates_)                                                         \
    .op = #name_, .device = "cpu", .name = kernel_, .priority = PRIORITY,                          \
    .accumulates = accumulates_
#define VECTOR(name_, accumulates_, accepts_)                                                      \
    {                                                                                              \
        HEAD(name_, #name_ "_vector", accumulates_), .accepts = accepts_,                          \
                                                     .launch = dispatch_##name_                    \
    }
#define ROW_SUM(name_)                                                                             \
    {                                                                                              \
        HEAD(name_, #name_ "_vector", true),                                                       \
            .accepts = accepts_types, .workspace = cpu_rows_workspace, .launch = dispatch_##name_  \
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
#define ATTENTION(name_)                                                                           \
    {                                                                                              \
        HEAD(name_, #name_ "_tiled", false),                                                       \
            .accepts = accepts_##name_, .workspace = cpu_##name_##_workspace,                      \
            .prepare = cpu_##name_##_prepare, .release = cpu_attention_release,                    \
            .launch = dispatch_##name_                                                             \
    }

const weft_kernel cpu_kernels[] = {
    PRODUCT(linear, false),
    PRODUCT(linear_dx, false),
    PRODUCT(linear_dw, true),
    ATTENTION(attention),
    ATTENTION(attention_dx),
    {.op = "attention",
     .device = "cpu",
     .name = "attention_decode",
     .priority = PRIORITY + 1,
     .accepts = accepts_decode,
     .workspace = cpu_decode_workspace,
     .prepare = cpu_decode_prepare,
     .release = cpu_attention_release,
     .launch = dispatch_decode},
    VECTOR(cache, false, accepts_cache),
    VECTOR(add, true, accepts_types),
    VECTOR(add_bias, true, accepts_types),
    VECTOR(scale, true, accepts_types),
    VECTOR(cast, true, accepts_types),
    VECTOR(accumulate, true, accepts_types),
    VECTOR(accumulate_max, true, accepts_types),
    VECTOR(broadcast, true, accepts_types),
    VECTOR(silu_mul, true, accepts_types),
    VECTOR(silu_mul_dx, true, accepts_types),
    VECTOR(gelu, true, accepts_types),
    VECTOR(gelu_dx, true, accepts_types),
    VECTOR(rms_norm, true, accepts_types),
    VECTOR(rms_norm_dx, true, accepts_types),
    ROW_SUM(rms_norm_dw),
    VECTOR(layer_norm, true, accepts_types),
    VECTOR(layer_norm_dx, true, accepts_types),
    ROW_SUM(layer_norm_dw),
    ROW_SUM(bias_dw),
    VECTOR(rope, true, accepts_rope),
    VECTOR(rope_dx, true, accepts_rope),
    VECTOR(embedding, true, accepts_types),
    VECTOR(embedding_dw, true, accepts_types),
    VECTOR(attention_merge, false, accepts_types),
    VECTOR(take, true, accepts_types),
    VECTOR(chunk, false, accepts_chunk),
    VECTOR(unchunk, false, accepts_chunk),
    VECTOR(sum, true, accepts_types),
    VECTOR(count_valid, true, accepts_types),
    {HEAD(sumsq, "sumsq_f32", true), .accepts = cpu_sumsq_accepts, .workspace = cpu_sumsq_workspace,
     .launch = cpu_sumsq_launch},
    VECTOR(max_v, false, accepts_types),
    VECTOR(sumexp, false, accepts_types),
    VECTOR(sumexp_dx, true, accepts_types),
    VECTOR(pick, false, accepts_types),
    VECTOR(pick_dx, true, accepts_types),
    VECTOR(nll, false, accepts_types),
    VECTOR(nll_de, false, accepts_types),
    VECTOR(nll_dt, false, accepts_types),
    {.op = NULL},
};
