/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for the device "cpu", on as many threads as the call says, with results that do not
 * depend on how many. The iteration's is cpu's own, which has the products. */
#include "muon.h"

#include <string.h>

enum {
    PIECE = 16384, /* elements */
    FEW = 4,       /* pieces that are not worth waking threads for */
};

/* A run over n elements in pieces: element numbers [lo, hi). */
typedef struct run {
    int64_t n, pieces;
    int team;
} run;

static run run_of(const weft_call *call, int64_t n)
{
    int64_t pieces = (n + PIECE - 1) / PIECE;
    return (run){n, pieces, pieces > FEW && call->threads > 1 ? call->threads : 1};
}

static int64_t end_of(const run *r, int64_t piece)
{
    int64_t end = (piece + 1) * PIECE;
    return end < r->n ? end : r->n;
}

/* ---- momentum and update ---- */

static weft_status momentum_launch(const weft_call *call, weft_error *err)
{
    const float keep = (float)weft_call_real(call, "momentum"), rest = 1 - keep,
                clip = (float)weft_tensor_get(&call->ins[2], 0);
    const float ahead = weft_call_int(call, "nesterov") ? keep : 1, now = 1 - ahead;
    const float *grad = call->ins[0].data, *was = call->ins[1].data;
    float *to = call->outs[0].data, *next = call->outs[1].data;
    const run r = run_of(call, weft_tensor_count(&call->ins[0]));
    (void)err;
#pragma omp parallel for schedule(static) num_threads(r.team)
    for (int64_t p = 0; p < r.pieces; p++) {
        const int64_t hi = end_of(&r, p);
#pragma omp simd
        for (int64_t i = p * PIECE; i < hi; i++) {
            float g = clip * grad[i], m = keep * was[i] + rest * g;
            to[i] = ahead * m + now * g;
            next[i] = m;
        }
    }
    return WEFT_OK;
}

static weft_status update_launch(const weft_call *call, weft_error *err)
{
    const double lr = weft_tensor_get(&call->ins[2], 0);
    const float keep = (float)(1 - lr * weft_call_real(call, "weight_decay")),
                by = (float)(lr * muon_step(call));
    const bool half = call->ins[1].dtype == WEFT_BF16;
    const float *was = call->ins[0].data, *wide = call->ins[1].data;
    const uint16_t *narrow = call->ins[1].data;
    float *to = call->outs[0].data;
    const run r = run_of(call, weft_tensor_count(&call->ins[0]));
    (void)err;
#pragma omp parallel for schedule(static) num_threads(r.team)
    for (int64_t p = 0; p < r.pieces; p++) {
        const int64_t hi = end_of(&r, p);
        if (half)
#pragma omp simd
            for (int64_t i = p * PIECE; i < hi; i++)
                to[i] = keep * was[i] - by * weft_bf16_to_f32(narrow[i]);
        else
#pragma omp simd
            for (int64_t i = p * PIECE; i < hi; i++)
                to[i] = keep * was[i] - by * wide[i];
    }
    return WEFT_OK;
}

/* ---- stacks ---- */

/* Elements [lo, hi) of a matrix from or to a slot; from NULL: zeros. */
static void move(const weft_tensor *from, int64_t from_at, const weft_tensor *to, int64_t to_at,
                 int64_t n)
{
    const size_t out = weft_dtype_size(to->dtype);
    char *there = (char *)to->data + (size_t)to_at * out;
    if (!from) {
        memset(there, 0, (size_t)n * out);
        return;
    }
    const char *here = (const char *)from->data + (size_t)from_at * weft_dtype_size(from->dtype);
    if (from->dtype == to->dtype)
        memcpy(there, here, (size_t)n * out);
    else if (to->dtype == WEFT_BF16)
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)(void *)there)[i] =
                weft_f32_to_bf16(((const float *)(const void *)here)[i]);
    else
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            ((float *)(void *)there)[i] =
                weft_bf16_to_f32(((const uint16_t *)(const void *)here)[i]);
}

static weft_status stack_launch(const weft_call *call, weft_error *err)
{
    const muon_slots s = {weft_call_int(call, "slots"), weft_call_int(call, "first"), call->n_ins};
    const int64_t n = weft_tensor_count(&call->ins[0]);
    const run r = run_of(call, s.slots * n);
    (void)err;
#pragma omp parallel for schedule(static) num_threads(r.team)
    for (int64_t slot = 0; slot < s.slots; slot++) {
        const int64_t matrix = muon_matrix(&s, slot);
        move(matrix < s.matrices ? &call->ins[matrix] : NULL, 0, &call->outs[0], slot * n, n);
    }
    return WEFT_OK;
}

static weft_status unstack_launch(const weft_call *call, weft_error *err)
{
    const muon_slots s = {call->ins[0].size[0], weft_call_int(call, "first"), call->n_outs};
    const int64_t n = weft_tensor_count(&call->outs[0]);
    const run r = run_of(call, s.matrices * n);
    (void)err;
#pragma omp parallel for schedule(static) num_threads(r.team)
    for (int64_t matrix = 0; matrix < s.matrices; matrix++)
        move(&call->ins[0], muon_slot(&s, matrix) * n, &call->outs[matrix], 0, n);
    return WEFT_OK;
}

#define KERNEL(name_, types_, launch_)                                                             \
    {                                                                                              \
        .op = #name_, .device = "cpu", .name = #name_ "_vector", .priority = 10, .types = types_,  \
        .launch = launch_                                                                          \
    }

const weft_kernel muon_cpu_kernels[] = {
    KERNEL(muon_momentum, "ffs>f", momentum_launch),
    KERNEL(muon_stack, "h>h", stack_launch),
    KERNEL(muon_unstack, "h>h", unstack_launch),
    KERNEL(muon_update, "fhs>f", update_launch),
    {.op = NULL},
};
