/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that are told something of the sample, by rows of numbers made from it (Peebles and Xie,
 * "Scalable diffusion models with transformers", 2022). A row holds slots as wide as x, one behind
 * the other: `shift`, `scale` and `gate` say which. */
#include "diffusion.h"

#include <math.h>

/* ---- silu ---- */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static weft_status silu(const weft_call *call, weft_error *err)
{
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++) {
        const double x = diffusion_get(&call->ins[0], i);
        diffusion_put(call, 0, i, x * sigmoid(x));
    }
    return WEFT_OK;
}

static weft_status silu_dx(const weft_call *call, weft_error *err)
{
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++) {
        const double x = diffusion_get(&call->ins[0], i), s = sigmoid(x);
        diffusion_put(call, 0, i, diffusion_get(&call->ins[1], i) * s * (1 + x * (1 - s)));
    }
    return WEFT_OK;
}

/* ---- modulate ---- */

/* Rows of x; those of `m` belong to samples. */
typedef struct rows {
    const weft_tensor *x, *m;
    int64_t places, width, slots, shift, scale;
    double eps;
} rows;

static rows rows_of(const weft_call *call, const weft_tensor *x, const weft_tensor *m)
{
    return (rows){x,
                  m,
                  x->size[1],
                  x->size[2],
                  m->size[1],
                  weft_call_int(call, "shift") * x->size[2],
                  weft_call_int(call, "scale") * x->size[2],
                  weft_call_real(call, "eps")};
}

static double slot(const rows *r, int64_t row, int64_t at)
{
    return diffusion_get(r->m, row / r->places * r->slots + at);
}

/* Of a row: its mean, and one over its deviation. */
static void norm_of(const rows *r, int64_t row, double *mean, double *factor)
{
    double sum = 0, squares = 0;
    for (int64_t e = 0; e < r->width; e++)
        sum += diffusion_get(r->x, row * r->width + e);
    *mean = sum / (double)r->width;
    for (int64_t e = 0; e < r->width; e++) {
        const double d = diffusion_get(r->x, row * r->width + e) - *mean;
        squares += d * d;
    }
    *factor = 1 / sqrt(squares / (double)r->width + r->eps);
}

/* x [b s e], m [b slots] -> norm(x) (1 + scale) + shift */
static weft_status modulate(const weft_call *call, weft_error *err)
{
    const rows r = rows_of(call, &call->ins[0], &call->ins[1]);
    (void)err;
    for (int64_t row = 0; row < r.x->size[0] * r.places; row++) {
        double mean, factor;
        norm_of(&r, row, &mean, &factor);
        for (int64_t e = 0; e < r.width; e++)
            diffusion_put(call, 0, row * r.width + e,
                          (diffusion_get(r.x, row * r.width + e) - mean) * factor *
                                  (1 + slot(&r, row, r.scale + e)) +
                              slot(&r, row, r.shift + e));
    }
    return WEFT_OK;
}

/* x, m, dy -> dx */
static weft_status modulate_dx(const weft_call *call, weft_error *err)
{
    const rows r = rows_of(call, &call->ins[0], &call->ins[1]);
    const weft_tensor *dy = &call->ins[2];
    (void)err;
    for (int64_t row = 0; row < r.x->size[0] * r.places; row++) {
        double mean, factor, sum = 0, along = 0;
        norm_of(&r, row, &mean, &factor);
        for (int64_t e = 0; e < r.width; e++) {
            const int64_t i = row * r.width + e;
            const double d = diffusion_get(dy, i) * (1 + slot(&r, row, r.scale + e));
            sum += d;
            along += d * (diffusion_get(r.x, i) - mean) * factor;
        }
        for (int64_t e = 0; e < r.width; e++) {
            const int64_t i = row * r.width + e;
            const double d = diffusion_get(dy, i) * (1 + slot(&r, row, r.scale + e)),
                         normed = (diffusion_get(r.x, i) - mean) * factor;
            diffusion_put(call, 0, i, factor * (d - (sum + normed * along) / (double)r.width));
        }
    }
    return WEFT_OK;
}

/* Slots of result 0, of sample b. */
static weft_status put_slots(const weft_call *call, int64_t b, const double *sums)
{
    const int64_t slots = call->outs[0].size[1];
    for (int64_t i = 0; i < slots; i++)
        diffusion_put(call, 0, b * slots + i, sums[i]);
    return WEFT_OK;
}

/* x, dy; like m -> dm: the slots that were not read are zeros */
static weft_status modulate_dm(const weft_call *call, weft_error *err)
{
    const rows r = rows_of(call, &call->ins[0], &call->outs[0]);
    double *sums = weft_alloc_zero((size_t)r.slots, sizeof *sums);
    if (!sums)
        return weft_fail_memory(err);
    for (int64_t b = 0; b < r.x->size[0]; b++) {
        memset(sums, 0, (size_t)r.slots * sizeof *sums);
        for (int64_t row = b * r.places; row < (b + 1) * r.places; row++) {
            double mean, factor;
            norm_of(&r, row, &mean, &factor);
            for (int64_t e = 0; e < r.width; e++) {
                const double d = diffusion_get(&call->ins[1], row * r.width + e);
                sums[r.shift + e] += d;
                sums[r.scale + e] += d * (diffusion_get(r.x, row * r.width + e) - mean) * factor;
            }
        }
        put_slots(call, b, sums);
    }
    weft_free(sums);
    return WEFT_OK;
}

/* ---- gates ---- */

/* y [b s e] times slot `gate` of m [b slots], and, where there is one, behind an addend. */
static weft_status add_gated(const weft_call *call, const weft_tensor *x, const weft_tensor *y,
                             const weft_tensor *m)
{
    const int64_t places = y->size[1], width = y->size[2], slots = m->size[1],
                  from = weft_call_int(call, "gate") * width;
    for (int64_t i = 0; i < weft_tensor_count(y); i++)
        diffusion_put(call, 0, i,
                      (x ? diffusion_get(x, i) : 0) +
                          diffusion_get(y, i) *
                              diffusion_get(m, i / width / places * slots + from + i % width));
    return WEFT_OK;
}

static weft_status gate_add(const weft_call *call, weft_error *err)
{
    (void)err;
    return add_gated(call, &call->ins[0], &call->ins[1], &call->ins[2]);
}

static weft_status gate(const weft_call *call, weft_error *err)
{
    (void)err;
    return add_gated(call, NULL, &call->ins[0], &call->ins[1]);
}

/* y, dy; like m -> dm */
static weft_status gate_dm(const weft_call *call, weft_error *err)
{
    const weft_tensor *y = &call->ins[0];
    const int64_t each = y->size[1] * y->size[2], width = y->size[2], slots = call->outs[0].size[1],
                  from = weft_call_int(call, "gate") * width;
    double *sums = weft_alloc_zero((size_t)slots, sizeof *sums);
    if (!sums)
        return weft_fail_memory(err);
    for (int64_t b = 0; b < y->size[0]; b++) {
        memset(sums, 0, (size_t)slots * sizeof *sums);
        for (int64_t i = b * each; i < (b + 1) * each; i++)
            sums[from + i % width] += diffusion_get(y, i) * diffusion_get(&call->ins[1], i);
        put_slots(call, b, sums);
    }
    weft_free(sums);
    return WEFT_OK;
}

/* Does m have the slots that are read? */
static weft_status check_slots(const weft_node *node, const weft_value *x, const weft_value *m,
                               const char *const *names, weft_error *err)
{
    if (x->n_dims != 3 || m->n_dims != 2)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "%s of %s: it must be [batch seq embed], and %s [batch slots]",
                         node->op->name, x->name, m->name);
    for (; *names; names++) {
        const int64_t i = weft_node_int(node, *names), width = x->dims[2].size;
        if (i < 0 || (i + 1) * width > m->dims[1].size)
            return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                             "%s of %s: %s is slot %lld of %s, which has %lld of %lld",
                             node->op->name, x->name, *names, (long long)i, m->name,
                             (long long)(m->dims[1].size / width), (long long)width);
    }
    return WEFT_OK;
}

static weft_status modulate_infer(weft_graph *g, weft_node *node, weft_error *err)
{
    (void)g;
    diffusion_like(node->outs[0], node->ins[0]);
    return check_slots(node, node->ins[0], node->ins[1],
                       (const char *const[]){"shift", "scale", NULL}, err);
}

static weft_status gate_add_infer(weft_graph *g, weft_node *node, weft_error *err)
{
    (void)g;
    diffusion_like(node->outs[0], node->ins[0]);
    return check_slots(node, node->ins[1], node->ins[2], (const char *const[]){"gate", NULL}, err);
}

const weft_op diffusion_silu = {
    .name = "silu",
    .summary = "x / (1 + e^-x)",
    .family = "activation",
    .rule = "* -> *",
    .grad = (const char *const[]){"0: silu_dx 0 dy", NULL},
    .flags = WEFT_OP_HALF | WEFT_OP_INPLACE,
    .plain = silu,
};

const weft_op diffusion_silu_dx = {
    .name = "silu_dx",
    .summary = "gradient of silu",
    .family = "activation",
    .rule = "*, * -> *",
    .linear = "1",
    .flags = WEFT_OP_HALF | WEFT_OP_INPLACE,
    .plain = silu_dx,
};

const weft_op diffusion_modulate = {
    .name = "modulate",
    .summary = "x less its mean, over its deviation, times 1 + scale, plus shift: x, slots",
    .family = "norm",
    .rule = "b s [e], b [m] -> b s [e]",
    .grad = (const char *const[]){"0: modulate_dx 0 1 dy", "1: modulate_dm 0 dy like1", NULL},
    .attrs = "shift, scale, eps",
    .flags = WEFT_OP_HALF,
    .plain = modulate,
    .infer = modulate_infer,
};

const weft_op diffusion_modulate_dx = {
    .name = "modulate_dx",
    .summary = "gradient of modulate's x",
    .family = "norm",
    .rule = "b s [e], b [m], b s [e] -> b s [e]",
    .linear = "2",
    .attrs = "shift, scale, eps",
    .flags = WEFT_OP_HALF,
    .plain = modulate_dx,
};

const weft_op diffusion_modulate_dm = {
    .name = "modulate_dm",
    .summary = "gradient of modulate's slots",
    .family = "norm",
    .rule = "b s [e], b s [e], b [m] -> b [m]",
    .linear = "1",
    .attrs = "shift, scale, eps",
    .plain = modulate_dm,
};

const weft_op diffusion_gate_add = {
    .name = "gate_add",
    .summary = "x + gate y: x, y, slots",
    .rule = "b s [e], b s [e], b [m] -> b s [e]",
    .linear = "0 1",
    .grad = (const char *const[]){"0: dy", "1: gate dy 2", "2: gate_dm 1 dy like2", NULL},
    .attrs = "gate",
    .flags = WEFT_OP_HALF | WEFT_OP_INPLACE,
    .plain = gate_add,
    .infer = gate_add_infer,
};

const weft_op diffusion_gate = {
    .name = "gate",
    .summary = "y times its gate: y, slots",
    .rule = "b s [e], b [m] -> b s [e]",
    .linear = "0",
    .grad = (const char *const[]){"0: gate dy 1", "1: gate_dm 0 dy like1", NULL},
    .attrs = "gate",
    .flags = WEFT_OP_HALF | WEFT_OP_INPLACE,
    .plain = gate,
};

const weft_op diffusion_gate_dm = {
    .name = "gate_dm",
    .summary = "gradient of a gate",
    .rule = "b s [e], b s [e], b [m] -> b [m]",
    .linear = "0, 1",
    .attrs = "gate",
    .plain = gate_dm,
};
