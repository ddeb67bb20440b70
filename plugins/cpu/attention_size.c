/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu.h"

#include <math.h>

enum { Q, K, V, INDEX_Q, INDEX_K, SEGMENTS_Q, SEGMENTS_K };

/* Bytes that one walk over the tiles may spend on whole rows of dq; beyond, two walks are taken
 * instead. */
static const double one_pass_bytes = 128 << 20;

static bool is_half(weft_dtype dtype)
{
    return dtype == WEFT_F32 || dtype == WEFT_BF16;
}

/* Are some places hidden from others? Else there are neither places nor documents. */
static bool hides(const weft_call *call)
{
    return call->n_ins > SEGMENTS_K;
}

static bool types_fit(const weft_call *call, bool backward)
{
    const weft_tensor *last = &call->ins[call->n_ins - 3]; /* out, lse, dout of a gradient */
    for (int i = Q; i <= V; i++)
        if (!is_half(call->ins[i].dtype) || call->ins[i].n_dims != 3)
            return false;
    for (int i = INDEX_Q; i <= SEGMENTS_K && hides(call); i++)
        if (call->ins[i].dtype != WEFT_I32)
            return false;
    if (!backward)
        return is_half(call->outs[0].dtype) && call->outs[1].dtype == WEFT_F32;
    for (int i = 0; i < 3; i++)
        if (!is_half(call->outs[i].dtype))
            return false;
    return is_half(last[0].dtype) && last[1].dtype == WEFT_F32 && is_half(last[2].dtype);
}

static bool multiplies_bf16(const weft_call *call, bool backward)
{
    for (int i = Q; i <= V; i++)
        if (call->ins[i].dtype != WEFT_BF16)
            return false;
    return (!backward || call->ins[call->n_ins - 1].dtype == WEFT_BF16) && call->queue &&
           call->queue->products == CPU_PRODUCTS_BF16 && cpu_has_bf16_dots();
}

/* Unless the attribute says no. */
static bool is_causal(const weft_call *call)
{
    return hides(call) && (!weft_call_has(call, "causal") || weft_call_int(call, "causal") != 0);
}

/* One walk costs 5 tile products and cuts work by (batch row, kv head) only; two walks cost 7 and
 * cut it by tiles too. */
static bool one_pass_pays(const cpu_attention *a)
{
    int64_t tasks = a->batch * a->kv_heads, rounds = (tasks + a->threads - 1) / a->threads;
    double bytes = 4.0 * (double)a->group * (double)a->q_rows * (double)a->padded * a->threads;
    return rounds * a->threads * 5 <= tasks * 7 && bytes <= one_pass_bytes;
}

/* Tiles of one thread: see the structs in attention.h and attention_dx.h. */
static int64_t floats_of(const cpu_attention *a, bool backward)
{
    int64_t tile = CPU_TILE * a->padded, square = CPU_TILE * CPU_TILE;
    int64_t rows = a->one_pass ? a->group * a->q_rows * a->padded : tile;
    if (!backward && a->bf16) /* k, v, loaded; of each head q, out, scores, weights, max and sum */
        return 3 * tile / 2 + CPU_STACK * (3 * tile / 2 + 3 * square / 2 + 2 * CPU_TILE);
    if (!backward)
        return 2 * tile + CPU_STACK * (2 * tile + square + 2 * CPU_TILE);
    if (a->bf16) /* nine of cells, dk, dv; p, ds, three of cells */
        return 9 * tile / 2 + 2 * tile + 2 * square + 3 * square / 2 + rows;
    return 8 * tile + 2 * square + rows;
}

/* Two products forward, five backward, or seven; under causality about half of each. */
static double operations_of(const cpu_attention *a, bool backward)
{
    double scores = (double)a->batch * (double)a->heads * (double)a->q_rows * (double)a->k_rows;
    return (backward ? 10 : 4) * scores * (double)a->head_dim / (a->causal ? 2 : 1);
}

bool cpu_attention_read(const weft_call *call, bool backward, cpu_attention *a)
{
    const int known = hides(call) ? 7 : 3;
    if (call->n_ins != known + (backward ? 3 : 0) || call->n_outs != (backward ? 3 : 2) ||
        !types_fit(call, backward))
        return false;
    const weft_tensor *q = &call->ins[Q], *k = &call->ins[K], *v = &call->ins[V];
    int64_t d = q->grain[2];
    if (d < 1 || k->grain[2] != d || v->grain[2] != d || v->size[2] != k->size[2])
        return false;
    *a = (cpu_attention){
        .batch = q->size[0],
        .q_rows = q->size[1],
        .k_rows = k->size[1],
        .heads = q->size[2] / d,
        .kv_heads = k->size[2] / d,
        .head_dim = d,
        .padded = (d + CPU_PAD - 1) / CPU_PAD * CPU_PAD,
        .head_lo = q->lo[2] / d,
        .kv_lo = k->lo[2] / d,
        .group = k->whole[2] > 0 ? q->whole[2] / k->whole[2] : 1,
        .scale = weft_call_real(call, "scale"),
        .causal = is_causal(call),
        .hides = hides(call),
        .bf16 = multiplies_bf16(call, backward),
    };
    a->amx = a->bf16 && call->queue->amx;
    a->threads = cpu_threads_for(call, operations_of(a, backward));
    if (a->scale == 0.0)
        a->scale = 1.0 / sqrt((double)d);
    if (a->group < 1 || a->head_lo / a->group < a->kv_lo)
        return false;
    if (a->heads > 0 && (a->head_lo + a->heads - 1) / a->group >= a->kv_lo + a->kv_heads)
        return false;
    a->one_pass = backward && one_pass_pays(a);
    a->floats = floats_of(a, backward);
    return true;
}

size_t cpu_attention_workspace(const weft_call *call)
{
    cpu_attention a;
    if (!cpu_attention_read(call, false, &a))
        return 0;
    return (size_t)(a.floats * a.threads) * sizeof(float);
}

/* The row sums of dout * out come first, then the threads' tiles. */
size_t cpu_attention_dx_workspace(const weft_call *call)
{
    cpu_attention a;
    if (!cpu_attention_read(call, true, &a))
        return 0;
    int64_t deltas = (a.batch * a.q_rows * a.heads + CPU_PAD - 1) / CPU_PAD * CPU_PAD;
    return (size_t)(deltas + a.floats * a.threads) * sizeof(float);
}

enum { DECODE_QUERIES = 4 };

bool cpu_decode_accepts(const weft_call *call)
{
    cpu_attention a;
    return cpu_attention_read(call, false, &a) && a.q_rows <= DECODE_QUERIES &&
           a.k_rows > DECODE_QUERIES;
}

/* See decode_state. */
static int64_t decode_floats(const cpu_attention *a)
{
    int64_t floats = CPU_STACK * (2 * a->padded + CPU_TILE + 2) + a->padded;
    return (floats + CPU_PAD - 1) / CPU_PAD * CPU_PAD;
}

size_t cpu_decode_workspace(const weft_call *call)
{
    cpu_attention a;
    if (!cpu_attention_read(call, false, &a))
        return 0;
    return (size_t)(decode_floats(&a) * a.threads) * sizeof(float);
}

static weft_status prepare(const weft_call *call, bool backward, void **state, weft_error *err)
{
    cpu_attention *a = weft_alloc(sizeof *a);
    if (!a)
        return weft_fail_memory(err);
    if (!cpu_attention_read(call, backward, a)) {
        weft_free(a);
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "%s: prepared for a call that the kernel does not accept", call->op->name);
    }
    *state = a;
    return WEFT_OK;
}

weft_status cpu_attention_prepare(const weft_call *call, void **state, weft_error *err)
{
    return prepare(call, false, state, err);
}

weft_status cpu_decode_prepare(const weft_call *call, void **state, weft_error *err)
{
    weft_status s = prepare(call, false, state, err);
    cpu_attention *a = s ? NULL : *state;
    if (a)
        a->floats = decode_floats(a);
    return s;
}

weft_status cpu_attention_dx_prepare(const weft_call *call, void **state, weft_error *err)
{
    return prepare(call, true, state, err);
}

weft_status cpu_attention_check(const weft_call *call, bool backward, size_t workspace,
                                weft_error *err)
{
    const cpu_attention *a = call->state;
    cpu_attention now;
    if (!a || !cpu_attention_read(call, backward, &now) || now.threads != a->threads ||
        now.batch != a->batch || now.q_rows != a->q_rows || now.k_rows != a->k_rows ||
        now.heads != a->heads || now.kv_heads != a->kv_heads || now.head_dim != a->head_dim ||
        now.one_pass != a->one_pass || now.bf16 != a->bf16 || now.amx != a->amx)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "%s: the kernel was prepared for another size, or for %d threads and not "
                         "for %d",
                         call->op->name, a ? a->threads : 0, cpu_threads(call));
    return cpu_check_workspace(call, workspace, err);
}

void cpu_attention_release(void *state)
{
    weft_free(state);
}
