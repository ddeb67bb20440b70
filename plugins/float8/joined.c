/* SPDX-License-Identifier: Apache-2.0 */
/* What makes an activation and what narrows it, at once, so that it is in 8 bits alone: where the
 * scale is known before (of past steps, or kept from the forward), with the largest magnitude that
 * a history will remember, or where each row has a scale of its own. A scale of the whole tensor
 * from its magnitudes now is not known before all of it is made, so there is no such op. Plain
 * kernels are those of the members, one after the other. */
#include "float8.h"

#include <math.h>
#include <string.h>

/* ---- what is narrowed ---- */

/* Does the op add first? Then the sum is its first result. */
static int sums(const weft_op *op)
{
    return strncmp(op->pattern, "x d ", 4) == 0;
}

static void add_rows(const weft_call *call)
{
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++)
        weft_tensor_set(&call->outs[0], i,
                        weft_tensor_get(&call->ins[0], i) + weft_tensor_get(&call->ins[1], i));
}

static void norm_rows(const weft_call *call, const weft_tensor *x, const weft_tensor *w,
                      const weft_tensor *y)
{
    const int64_t width = x->n_dims ? x->size[x->n_dims - 1] : 1;
    for (int64_t at = 0; at < weft_tensor_count(y); at += width) {
        double squares = 0;
        for (int64_t e = at; e < at + width; e++)
            squares += weft_tensor_get(x, e) * weft_tensor_get(x, e);
        const double r = 1.0 / sqrt(squares / (double)width + weft_call_real(call, "eps"));
        for (int64_t e = 0; e < width; e++)
            weft_tensor_set(y, at + e, weft_tensor_get(x, at + e) * r * weft_tensor_get(w, e));
    }
}

static void make_norm(const weft_call *call, const weft_tensor *y)
{
    const int sum = sums(call->op);
    if (sum)
        add_rows(call);
    norm_rows(call, sum ? &call->outs[0] : &call->ins[0], &call->ins[1 + sum], y);
}

static void make_silu_mul(const weft_call *call, const weft_tensor *y)
{
    for (int64_t i = 0; i < weft_tensor_count(y); i++) {
        const double gate = weft_tensor_get(&call->ins[0], i);
        weft_tensor_set(y, i,
                        gate * (1.0 / (1.0 + exp(-gate))) * weft_tensor_get(&call->ins[1], i));
    }
}

/* ---- narrowed ---- */

static weft_status cannot_accumulate(const weft_call *call, weft_error *err)
{
    return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "%s: nothing is added to its result",
                     call->op->name);
}

static weft_status run(const weft_op *op, const weft_call *of, const weft_tensor *ins, int n_ins,
                       const weft_tensor *out, weft_error *err)
{
    weft_call call = *of;
    call.op = op;
    call.n_ins = n_ins;
    call.ins = ins;
    call.n_outs = 1;
    call.outs = out;
    return op->plain(&call, err);
}

/* q, or q and the maximum, or q and its rows' scales. */
static weft_status narrow(const weft_call *call, const weft_tensor *y, weft_error *err)
{
    const weft_tensor *q = call->outs + sums(call->op), *beside = q + 1;
    const bool alone = beside == call->outs + call->n_outs;
    const bool rows = !alone && beside->n_dims;
    const weft_tensor ins[] = {*y, rows ? *beside : call->ins[call->n_ins - 1]};
    weft_status s = alone ? WEFT_OK : run(&f8_op_amax, call, y, 1, beside, err);
    if (!s && rows) /* a scale where its maximum was */
        s = run(&f8_op_scale, call, beside, 1, beside, err);
    return s ? s : run(&f8_op_quantise, call, ins, 2, q, err);
}

static weft_status plain(const weft_call *call,
                         void (*make)(const weft_call *call, const weft_tensor *y), weft_error *err)
{
    weft_tensor y = *(sums(call->op) ? &call->outs[0] : &call->ins[0]);
    if (call->accumulate)
        return cannot_accumulate(call, err);
    y.data = weft_alloc((size_t)weft_tensor_count(&y) * weft_dtype_size(y.dtype) + 1);
    if (!y.data)
        return weft_fail_memory(err);
    make(call, &y);
    weft_status s = narrow(call, &y, err);
    weft_free(y.data);
    return s;
}

static weft_status norm_plain(const weft_call *call, weft_error *err)
{
    return plain(call, make_norm, err);
}

static weft_status silu_mul_plain(const weft_call *call, weft_error *err)
{
    return plain(call, make_silu_mul, err);
}

/* Both gradients of silu_mul. */
static void make_silu_mul_dx(const weft_call *call, const weft_tensor *gate, const weft_tensor *up)
{
    for (int64_t i = 0; i < weft_tensor_count(gate); i++) {
        const double g = weft_tensor_get(&call->ins[0], i), s = 1.0 / (1.0 + exp(-g)),
                     dy = weft_tensor_get(&call->ins[2], i);
        weft_tensor_set(gate, i,
                        dy * weft_tensor_get(&call->ins[1], i) * s * (1.0 + g * (1.0 - s)));
        weft_tensor_set(up, i, dy * g * s);
    }
}

/* g, u, dy and two scales -> q and the largest magnitude, of each gradient. */
static weft_status silu_mul_dx_plain(const weft_call *call, weft_error *err)
{
    const size_t size = (size_t)weft_tensor_count(&call->ins[0]),
                 bytes = size * weft_dtype_size(call->ins[0].dtype);
    weft_tensor made[] = {call->ins[0], call->ins[0]};
    if (call->accumulate)
        return cannot_accumulate(call, err);
    char *room = weft_alloc(2 * bytes + 1);
    if (!room)
        return weft_fail_memory(err);
    made[0].data = room;
    made[1].data = room + bytes;
    make_silu_mul_dx(call, &made[0], &made[1]);
    weft_status s = WEFT_OK;
    for (int i = 0; i < 2 && !s; i++) {
        const weft_tensor ins[] = {made[i], call->ins[3 + i]};
        s = run(&f8_op_amax, call, ins, 1, &call->outs[2 * i + 1], err);
        s = s ? s : run(&f8_op_quantise, call, ins, 2, &call->outs[2 * i], err);
    }
    weft_free(room);
    return s;
}

/* What is there already. */
static weft_status quantise_plain(const weft_call *call, weft_error *err)
{
    return call->accumulate ? cannot_accumulate(call, err) : narrow(call, &call->ins[0], err);
}

/* ---- the ops ---- */

static void look_like(weft_value *out, const weft_value *x, int n_dims, weft_dtype dtype)
{
    memcpy(out->dims, x->dims, sizeof out->dims);
    out->n_dims = n_dims;
    out->dtype = dtype;
}

static weft_status infer_of(weft_graph *graph, weft_node *node, int beside, weft_error *err)
{
    const weft_value *x = node->ins[0];
    const weft_dtype dtype = weft_dtype_find(weft_node_text(node, "dtype"));
    const int q = sums(node->op);
    if (!f8_is_operand(dtype))
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "%s: products in 8 bits have no dtype called '%s'", node->op->name,
                         weft_node_text(node, "dtype"));
    if (q)
        look_like(node->outs[0], x, x->n_dims, x->dtype);
    look_like(node->outs[q], x, x->n_dims, dtype);
    if (node->n_outs > q + 1)
        look_like(node->outs[q + 1], x, beside, WEFT_F32);
    weft_set_int(graph, node->outs[0], "places", ((int64_t)1 << beside) - 1);
    return weft_graph_status(graph);
}

static weft_status infer(weft_graph *graph, weft_node *node, weft_error *err)
{
    return infer_of(graph, node, 0, err);
}

static weft_status infer_rows(weft_graph *graph, weft_node *node, weft_error *err)
{
    return infer_of(graph, node, node->ins[0]->n_dims - 1, err);
}

static weft_status infer_pair(weft_graph *graph, weft_node *node, weft_error *err)
{
    weft_status s = infer(graph, node, err);
    if (s)
        return s;
    look_like(node->outs[2], node->ins[0], node->ins[0]->n_dims, node->outs[0]->dtype);
    look_like(node->outs[3], node->ins[0], 0, WEFT_F32);
    return WEFT_OK;
}

#define QUANTISED "q = float8_quantise(y, s)"
#define SEEN      "m = float8_amax(y); " QUANTISED
#define BY_ROWS   "m = float8_amax(y); s = float8_scale(m); " QUANTISED

/* Three of each: with a scale that is known, with the maximum beside, by rows. */
#define NARROWED(name_, summary_, plain_, operands_, part_, rows_, sum_, made_, names_, result_)   \
    const weft_op f8_op_##name_ = {                                                                \
        .name = "float8_" #name_,                                                                  \
        .summary = summary_ ", in 8 bits by a scale that is known",                                \
        .rule = operands_ ", -> " sum_ part_,                                                      \
        .pattern = names_ " s -> " result_ "q; " made_ "; " QUANTISED,                             \
        .attrs = "eps, dtype, places",                                                             \
        .flags = WEFT_OP_ROUNDS,                                                                   \
        .infer = infer,                                                                            \
        .plain = plain_,                                                                           \
    };                                                                                             \
    const weft_op f8_op_##name_##_amax = {                                                         \
        .name = "float8_" #name_ "_amax",                                                          \
        .summary = summary_ ", in 8 bits by a scale that is known, and its largest magnitude",     \
        .rule = operands_ ", -> " sum_ part_ ", ",                                                 \
        .pattern = names_ " s -> " result_ "q m; " made_ "; " SEEN,                                \
        .attrs = "eps, keep, history, dtype, places",                                              \
        .flags = WEFT_OP_MAX | WEFT_OP_ROUNDS,                                                     \
        .infer = infer,                                                                            \
        .plain = plain_,                                                                           \
    };                                                                                             \
    const weft_op f8_op_##name_##_rows = {                                                         \
        .name = "float8_" #name_ "_rows",                                                          \
        .summary = summary_ ", in 8 bits, and the scale of each row",                              \
        .rule = rows_ " -> " sum_ "... [e], ...",                                                  \
        .pattern = names_ " -> " result_ "q s; " made_ "; " BY_ROWS,                               \
        .attrs = "eps, keep, history, places, dtype, power_of_two",                                \
        .flags = WEFT_OP_ROUNDS,                                                                   \
        .infer = infer_rows,                                                                       \
        .plain = plain_,                                                                           \
    }

#define NORM     "... [e], [e]"
#define ADD_NORM "... [e], ... [e], [e]"

NARROWED(rms_norm, "rms_norm", norm_plain, NORM, "... [e]", NORM, "", "y = rms_norm(x, w)", "x w",
         "");
NARROWED(add_rms_norm, "x + d, and its rms_norm", norm_plain, ADD_NORM, "... [e]", ADD_NORM,
         "... [e], ", "r = add(x, d); y = rms_norm(r, w)", "x d w", "r ");
NARROWED(silu_mul, "silu_mul", silu_mul_plain, "*, *", "*", "... [e], ... [e]", "",
         "y = silu_mul(g, u)", "g u", "");

/* Both read what is there. */
const weft_op f8_op_quantise_amax = {
    .name = "float8_quantise_amax",
    .summary = "x in 8 bits by a scale that is known, and its largest magnitude",
    .rule = "*, -> *, ",
    .pattern = "x s -> q m; m = float8_amax(x); q = float8_quantise(x, s)",
    .attrs = "keep, history, dtype, places",
    .flags = WEFT_OP_MAX | WEFT_OP_ROUNDS,
    .infer = infer,
    .plain = quantise_plain,
};

const weft_op f8_op_quantise_rows = {
    .name = "float8_quantise_rows",
    .summary = "x in 8 bits, and the scale of each row",
    .rule = "... [e] -> ... [e], ...",
    .pattern = "x -> q s; m = float8_amax(x); s = float8_scale(m); q = float8_quantise(x, s)",
    .attrs = "keep, history, places, dtype, power_of_two",
    .flags = WEFT_OP_ROUNDS,
    .infer = infer_rows,
    .plain = quantise_plain,
};

/* Each gradient has a scale of its own. */
const weft_op f8_op_silu_mul_dx_amax = {
    .name = "float8_silu_mul_dx_amax",
    .summary = "both gradients of silu_mul, in 8 bits by scales that are known, and their largest "
               "magnitudes",
    .rule = "*, *, *, ,  -> *, , *, ",
    .pattern = "g u y s t -> p m q k; a b = silu_mul_dx(g, u, y); m = float8_amax(a); "
               "p = float8_quantise(a, s); k = float8_amax(b); q = float8_quantise(b, t)",
    .attrs = "keep, history, dtype, places",
    .flags = WEFT_OP_MAX | WEFT_OP_ROUNDS,
    .infer = infer_pair,
    .plain = silu_mul_dx_plain,
};
