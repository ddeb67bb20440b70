/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for the device "cpu" of what routes tokens and moves rows; products of rows are the
 * device's own. Every element is one sum in one order, whatever the number of threads. */
#include "moe.h"

#include <string.h>

/* BLOCK: elements of a row that are in f32 at a time; SHARE: elements that pay for a thread; LINE:
 * bytes that memory gives at once. */
enum { BLOCK = 512, SHARE = 16384, LINE = 64 };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int threads_of(const weft_call *call, int64_t elements)
{
    const int64_t most = call->threads < 1 ? 1 : call->threads;
    return elements < 2 * SHARE ? 1 : (int)least(most, elements / SHARE);
}

static int64_t width_of(const weft_tensor *rows)
{
    return rows->n_dims > 4 ? rows->size[4] : 1;
}

/* ---- elements as f32 ---- */

static const float *load(const weft_tensor *t, int64_t at, int64_t n, float *buffer)
{
    const uint16_t *h = (const uint16_t *)t->data + at;
    if (t->dtype == WEFT_F32)
        return (const float *)t->data + at;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        buffer[i] = weft_bf16_to_f32(h[i]);
    return buffer;
}

/* Result 0 = x, or += x. */
static void store(const weft_call *call, int64_t at, int64_t n, const float *x)
{
    const weft_tensor *y = &call->outs[0];
    float *f = (float *)y->data + at;
    uint16_t *h = (uint16_t *)y->data + at;
    const bool add = call->accumulate;
    if (y->dtype == WEFT_F32 && !add)
        memcpy(f, x, (size_t)n * sizeof *f);
    else if (y->dtype == WEFT_F32)
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            f[i] += x[i];
    else if (!add)
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            h[i] = weft_f32_to_bf16(x[i]);
    else
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            h[i] = weft_f32_to_bf16(x[i] + weft_bf16_to_f32(h[i]));
}

/* ---- rows to their slots, and back: bytes are moved ---- */

static bool moves_bytes(const weft_call *call)
{
    return call->ins[0].dtype == call->outs[0].dtype;
}

/* Where the rows of a token's choices are. */
typedef struct places {
    const int32_t *expert, *slot; /* [k] */
    int64_t first;                /* row of its token group */
    int64_t slots;
    uint32_t each;
} places;

static int64_t experts_each(const weft_call *call, const weft_tensor *rows)
{
    return weft_call_int(call, "experts") / rows->whole[2];
}

/* As moe_row_of, whose divisions are made once for a token. */
static places places_of(const weft_call *call, const weft_tensor *rows, int64_t each, int64_t token)
{
    const weft_tensor *chosen = &call->ins[1];
    const int64_t k = chosen->size[2], seq = chosen->size[1];
    int64_t b = 0, s = 0;
    if (rows->whole[0] * rows->whole[1] > 1) {
        b = moe_group(chosen, rows, 0, token / seq);
        s = moe_group(chosen, rows, 1, token % seq);
    }
    return (places){.expert = (const int32_t *)chosen->data + token * k,
                    .slot = (const int32_t *)call->ins[2].data + token * k,
                    .first = (b * rows->size[1] + s) * rows->size[2] * rows->size[3],
                    .slots = rows->size[3],
                    .each = (uint32_t)each};
}

/* Of choice j; -1: it has none. */
static int64_t row_at(const places *p, int64_t j)
{
    return p->slot[j] < 0
               ? -1
               : p->first + (int64_t)((uint32_t)p->expert[j] / p->each) * p->slots + p->slot[j];
}

static size_t slots_workspace(const weft_call *call)
{
    return (size_t)(weft_tensor_count(&call->outs[0]) / width_of(&call->outs[0]));
}

/* dispatch, whose operand has a row for each token, and spread: a number for each choice. Slots
 * that nobody has are zeros. */
static weft_status to_slots(const weft_call *call, bool of_token)
{
    const weft_tensor *y = &call->outs[0];
    const size_t bytes = (size_t)width_of(y) * weft_dtype_size(y->dtype);
    const int64_t k = call->ins[1].size[2], n = weft_tensor_count(&call->ins[1]) / k,
                  slots = (int64_t)slots_workspace(call), each = experts_each(call, y);
    const int threads = threads_of(call, weft_tensor_count(y));
    char *used = call->workspace, *to = y->data;
    const char *from = call->ins[0].data;
    memset(used, 0, (size_t)slots);
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < n; i++) {
            const places p = places_of(call, y, each, i);
            for (int64_t j = 0; j < k; j++) {
                const int64_t row = row_at(&p, j);
                if (row < 0)
                    continue;
                used[row] = 1;
                memcpy(to + (size_t)row * bytes, from + (size_t)(of_token ? i : i * k + j) * bytes,
                       bytes);
            }
        }
#pragma omp for schedule(static)
        for (int64_t row = 0; row < slots; row++)
            if (!used[row])
                memset(to + (size_t)row * bytes, 0, bytes);
    }
    return WEFT_OK;
}

/* A launch that finds less workspace than it needs must not begin. */
static weft_status check_workspace(const weft_call *call, size_t needed, weft_error *err)
{
    if (call->workspace_bytes >= needed && (call->workspace || needed == 0))
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                     "%s: the kernel needs %zu bytes of workspace and was given %zu",
                     call->op->name, needed, call->workspace_bytes);
}

static weft_status dispatch_launch(const weft_call *call, weft_error *err)
{
    weft_status status = check_workspace(call, slots_workspace(call), err);
    return status ? status : to_slots(call, true);
}

static weft_status spread_launch(const weft_call *call, weft_error *err)
{
    weft_status status = check_workspace(call, slots_workspace(call), err);
    return status ? status : to_slots(call, false);
}

static weft_status collect_launch(const weft_call *call, weft_error *err)
{
    const weft_tensor *rows = &call->ins[0];
    const size_t bytes = weft_dtype_size(rows->dtype);
    const int64_t k = call->ins[1].size[2], n = weft_tensor_count(&call->outs[0]) / k,
                  each = experts_each(call, rows);
    (void)err;
#pragma omp parallel for schedule(static) num_threads(threads_of(call, n *k))
    for (int64_t i = 0; i < n; i++) {
        const places p = places_of(call, rows, each, i);
        for (int64_t j = 0; j < k; j++) {
            const int64_t row = row_at(&p, j);
            char *to = (char *)call->outs[0].data + (size_t)(i * k + j) * bytes;
            if (row < 0)
                memset(to, 0, bytes);
            else
                memcpy(to, (const char *)rows->data + (size_t)row * bytes, bytes);
        }
    }
    return WEFT_OK;
}

/* Rows lie anywhere: those of the next token are asked for while this one's are added. */
static void ask_for(const weft_tensor *rows, const places *p, int64_t k, int64_t width)
{
    const size_t bytes = (size_t)width * weft_dtype_size(rows->dtype);
    for (int64_t j = 0; j < k; j++) {
        const int64_t row = row_at(p, j);
        const char *at = (const char *)rows->data + (size_t)(row < 0 ? 0 : row) * bytes;
        for (size_t i = 0; row >= 0 && i < bytes; i += LINE)
            __builtin_prefetch(at + i);
    }
}

static void combine_token(const weft_call *call, const places *p, int64_t token, int64_t width)
{
    const weft_tensor *rows = &call->ins[0], *y = &call->outs[0];
    const int64_t k = call->ins[1].size[2];
    const bool straight = y->dtype == WEFT_F32 && !call->accumulate;
    float own[BLOCK], buffer[BLOCK];
    for (int64_t e = 0; e < width; e += BLOCK) {
        const int64_t n = least(BLOCK, width - e);
        float *restrict sum = straight ? (float *)y->data + token * width + e : own;
        bool any = false;
        for (int64_t j = 0; j < k; j++) {
            const int64_t row = row_at(p, j);
            if (row < 0)
                continue;
            const float *restrict from = load(rows, row * width + e, n, buffer);
            if (any)
#pragma omp simd
                for (int64_t i = 0; i < n; i++)
                    sum[i] += from[i];
            else
#pragma omp simd
                for (int64_t i = 0; i < n; i++)
                    sum[i] = 0 + from[i]; /* which makes 0 of -0 */
            any = true;
        }
        if (!any)
            memset(sum, 0, (size_t)n * sizeof *sum);
        if (!straight)
            store(call, token * width + e, n, sum);
    }
}

static weft_status combine_launch(const weft_call *call, weft_error *err)
{
    const weft_tensor *chosen = &call->ins[1];
    const int64_t width = moe_last(&call->outs[0]), k = chosen->size[2],
                  n = weft_tensor_count(chosen) / k, each = experts_each(call, &call->ins[0]);
    (void)err;
#pragma omp parallel for schedule(static) num_threads(threads_of(call, n *k *width))
    for (int64_t token = 0; token < n; token++) {
        const places p = places_of(call, &call->ins[0], each, token),
                     next = places_of(call, &call->ins[0], each, least(token + 1, n - 1));
        ask_for(&call->ins[0], &next, k, width);
        combine_token(call, &p, token, width);
    }
    return WEFT_OK;
}

/* ---- rows times a number each ---- */

static void scale_row(const weft_call *call, int64_t row, int64_t width, float by)
{
    float x[BLOCK], y[BLOCK];
    for (int64_t e = 0; e < width; e += BLOCK) {
        const int64_t n = least(BLOCK, width - e);
        const float *from = load(&call->ins[0], row * width + e, n, x);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = from[i] * by;
        store(call, row * width + e, n, y);
    }
}

static weft_status slot_scale_launch(const weft_call *call, weft_error *err)
{
    const int64_t width = moe_last(&call->ins[0]), n = weft_tensor_count(&call->ins[1]);
    float by;
    (void)err;
#pragma omp parallel for schedule(static) num_threads(threads_of(call, n *width)) private(by)
    for (int64_t i = 0; i < n; i++)
        scale_row(call, i, width, *load(&call->ins[1], i, 1, &by));
    return WEFT_OK;
}

static float dot_row(const weft_call *call, int64_t row, int64_t width)
{
    float x[BLOCK], y[BLOCK], sum = 0;
    for (int64_t e = 0; e < width; e += BLOCK) {
        const int64_t n = least(BLOCK, width - e);
        const float *a = load(&call->ins[0], row * width + e, n, x),
                    *b = load(&call->ins[1], row * width + e, n, y);
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++)
            sum += a[i] * b[i];
    }
    return sum;
}

static weft_status slot_dot_launch(const weft_call *call, weft_error *err)
{
    const int64_t width = moe_last(&call->ins[0]), n = weft_tensor_count(&call->outs[0]);
    (void)err;
#pragma omp parallel for schedule(static) num_threads(threads_of(call, n *width))
    for (int64_t i = 0; i < n; i++) {
        const float sum = dot_row(call, i, width);
        store(call, i, 1, &sum);
    }
    return WEFT_OK;
}

/* ---- routing: tokens are shared ---- */

static int route_threads(const weft_call *call)
{
    return threads_of(call, 16 * weft_tensor_count(&call->ins[0])); /* an exp each */
}

static size_t route_workspace(const weft_call *call)
{
    return (size_t)route_threads(call) * moe_route_room(call);
}

static weft_status share_tokens(const weft_call *call, moe_tokens *visit, weft_error *err)
{
    const int64_t n = call->ins[0].size[0] * call->ins[0].size[1];
    const size_t room = moe_route_room(call);
    const int threads = route_threads(call);
    weft_status status = check_workspace(call, route_workspace(call), err);
    if (status)
        return status;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int part = 0; part < threads; part++)
        visit(call, n * part / threads, n * (part + 1) / threads,
              (double *)(void *)((char *)call->workspace + (size_t)part * room));
    return WEFT_OK;
}

static weft_status route_launch(const weft_call *call, weft_error *err)
{
    return share_tokens(call, moe_route_tokens, err);
}

static weft_status route_dx_launch(const weft_call *call, weft_error *err)
{
    return share_tokens(call, moe_route_tokens_dx, err);
}

#define KERNEL(op_, types_, adds_, accepts_, workspace_)                                           \
    {                                                                                              \
        .op = #op_, .device = "cpu", .name = #op_ "_cpu", .priority = 10, .accumulates = adds_,    \
        .types = types_, .accepts = accepts_, .workspace = workspace_, .launch = op_##_launch      \
    }

const weft_kernel moe_kernels[] = {KERNEL(route, NULL, false, NULL, route_workspace),
                                   KERNEL(route_dx, NULL, true, NULL, route_workspace),
                                   KERNEL(dispatch, "*ii>*", false, moves_bytes, slots_workspace),
                                   KERNEL(spread, "*ii>*", false, moves_bytes, slots_workspace),
                                   KERNEL(collect, "*ii>*", false, moves_bytes, NULL),
                                   KERNEL(combine, "hii>h", true, NULL, NULL),
                                   KERNEL(slot_scale, "hh>h", true, NULL, NULL),
                                   KERNEL(slot_dot, "hh>h", true, NULL, NULL),
                                   {.op = NULL}};
