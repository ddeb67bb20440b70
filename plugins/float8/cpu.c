/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for the device "cpu", in f32: maxima and quantised values. Results depend neither on the
 * processor nor on threads. */
#include "cpu.h"

#include <string.h>

enum {
    PIECE = 16384, /* elements of one piece of work */
    ACROSS = 64,   /* columns of one */
};

static int team(const weft_call *call, int64_t pieces)
{
    int64_t most = f8_threads(call);
    return (int)(pieces < 2 ? 1 : f8_least(pieces, most));
}

static bool is_bf16(const weft_tensor *t)
{
    return t->dtype == WEFT_BF16;
}

static const void *at(const weft_tensor *t, int64_t i)
{
    return (const char *)t->data + i * (int64_t)weft_dtype_size(t->dtype);
}

/* ---- amax: bits, of which larger ones are larger magnitudes ---- */

/* Are the dims that are kept the first ones (all or none of them, too)? */
static bool keeps_first(const weft_call *call)
{
    int64_t places = weft_call_int(call, "places");
    return (places & (places + 1)) == 0;
}

/* The last ones? */
static bool keeps_last(const weft_call *call)
{
    int64_t all = ((int64_t)1 << call->ins[0].n_dims) - 1,
            gone = all & ~weft_call_int(call, "places");
    return gone != all && (gone & (gone + 1)) == 0;
}

static bool amax_accepts(const weft_call *call)
{
    return f8_is_half(&call->ins[0]) && call->outs[0].dtype == WEFT_F32 &&
           (keeps_first(call) || keeps_last(call));
}

static void amax_rows(const weft_call *call, const f8_loops *loops, int64_t rows, int64_t n)
{
    const weft_tensor *x = &call->ins[0];
    uint32_t *out = call->outs[0].data;
#pragma omp parallel for schedule(static) num_threads(team(call, rows *n / PIECE))
    for (int64_t r = 0; r < rows; r++)
        out[r] = loops->most(at(x, r * n), is_bf16(x), n);
}

static void amax_whole(const weft_call *call, const f8_loops *loops, int64_t n)
{
    const weft_tensor *x = &call->ins[0];
    int64_t pieces = (n + PIECE - 1) / PIECE;
    uint32_t most = 0;
#pragma omp parallel for schedule(static) num_threads(team(call, pieces)) reduction(max : most)
    for (int64_t i = 0; i < pieces; i++) {
        uint32_t bits = loops->most(at(x, i * PIECE), is_bf16(x), f8_least(PIECE, n - i * PIECE));
        most = bits > most ? bits : most;
    }
    memcpy(call->outs[0].data, &most, sizeof most);
}

static void amax_columns(const weft_call *call, const f8_loops *loops, int64_t n, int64_t columns)
{
    const weft_tensor *x = &call->ins[0];
    uint32_t *out = call->outs[0].data;
    int64_t pieces = (columns + ACROSS - 1) / ACROSS;
    memset(out, 0, (size_t)columns * sizeof *out);
#pragma omp parallel for schedule(static) num_threads(team(call, n *columns / PIECE))
    for (int64_t p = 0; p < pieces; p++) {
        int64_t from = p * ACROSS, width = f8_least(ACROSS, columns - from);
        for (int64_t i = 0; i < n; i++)
            loops->raise(at(x, i * columns + from), is_bf16(x), width, out + from);
    }
}

static weft_status amax_launch(const weft_call *call, weft_error *err)
{
    const f8_loops *loops = f8_loops_get(F8_AVX512);
    int64_t n = weft_tensor_count(&call->ins[0]), kept = weft_tensor_count(&call->outs[0]);
    (void)err;
    if (kept == 0)
        return WEFT_OK;
    if (call->outs[0].n_dims == 0)
        amax_whole(call, loops, n);
    else if (keeps_first(call))
        amax_rows(call, loops, kept, n / kept);
    else
        amax_columns(call, loops, n / kept, kept);
    return WEFT_OK;
}

/* ---- quantise ---- */

static bool quantise_accepts(const weft_call *call)
{
    return f8_is_half(&call->ins[0]) && call->ins[1].dtype == WEFT_F32 &&
           f8_is_operand(call->outs[0].dtype) && (keeps_first(call) || keeps_last(call));
}

static weft_status quantise_launch(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0], *scale = &call->ins[1], *out = &call->outs[0];
    const f8_loops *loops = f8_loops_get(F8_AVX512);
    int64_t n = weft_tensor_count(x), kept = weft_tensor_count(scale);
    bool e5m2 = out->dtype == WEFT_F8E5M2, first = keeps_first(call);
    (void)err;
    if (n == 0)
        return WEFT_OK;
    /* a row has one scale, or a row of scales */
    int64_t width = first ? n / kept : kept, step = first ? 0 : 1;
    int64_t length = width < PIECE ? width : PIECE, pieces = (width + length - 1) / length;
#pragma omp parallel for schedule(static) num_threads(team(call, n / PIECE))
    for (int64_t p = 0; p < n / width * pieces; p++) {
        int64_t row = p / pieces, from = p % pieces * length;
        loops->quantise(at(x, row * width + from), is_bf16(x), e5m2,
                        (const float *)scale->data + (first ? row : from), step,
                        f8_least(length, width - from), (uint8_t *)out->data + row * width + from);
    }
    return WEFT_OK;
}

#define PRODUCT(name_)                                                                             \
    {                                                                                              \
        .op = name_, .device = "cpu", .name = "float8_widened", .priority = 10,                    \
        .accumulates = true, .accepts = f8_product_accepts, .workspace = f8_product_workspace,     \
        .prepare = f8_product_prepare, .launch = f8_product_launch                                 \
    }

const weft_kernel f8_cpu_kernels[] = {
    {.op = "float8_amax",
     .device = "cpu",
     .name = "float8_amax_f32",
     .priority = 10,
     .accepts = amax_accepts,
     .launch = amax_launch},
    {.op = "float8_quantise",
     .device = "cpu",
     .name = "float8_quantise_f32",
     .priority = 10,
     .accepts = quantise_accepts,
     .launch = quantise_launch},
    PRODUCT("float8_linear"),
    PRODUCT("float8_linear_part"),
    PRODUCT("float8_linear_rows"),
    PRODUCT("float8_linear_dx"),
    PRODUCT("float8_linear_dw"),
    {.op = NULL},
};
