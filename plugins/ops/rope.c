/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary positions (Su et al., "RoFormer", 2021): dims i and i + d/2 of every head turn together by
 * position * theta^(-2i/d). */
#include "ops.h"

#include <math.h>

/* Llama 3.1 slows the long waves down by `factor`: those that turn less than `low` times in
 * `original` positions fully, those above `high` not. */
static double stretched(const weft_call *call, double frequency)
{
    double factor = weft_call_real(call, "factor"), original = weft_call_real(call, "original");
    double low = weft_call_real(call, "low"), high = weft_call_real(call, "high");
    double turns = original * frequency / (2.0 * M_PI);
    double keep;

    if (factor == 0.0 || turns >= high)
        return frequency;
    if (turns < low)
        return frequency / factor;
    keep = (turns - low) / (high - low);
    return frequency * (keep + (1.0 - keep) / factor);
}

/* x [b s h*d], positions [b s] -> [b s h*d] */
static weft_status rotate(const weft_call *call, double sign)
{
    const weft_tensor *x = &call->ins[0];
    int64_t rows = op_rows(x), width = op_last(x), d = x->grain[x->n_dims - 1], half = d / 2;

    for (int64_t i = 0; i < half; i++) {
        double frequency = sign * stretched(call, pow(weft_call_real(call, "theta"),
                                                      -2.0 * (double)i / (double)d));
        for (int64_t row = 0; row < rows; row++) {
            double angle = op_get(&call->ins[1], row) * frequency, c = cos(angle), s = sin(angle);
            for (int64_t at = row * width + i; at < (row + 1) * width; at += d) {
                double a = op_get(x, at), b = op_get(x, at + half);
                op_put(call, at, a * c - b * s);
                op_put(call, at + half, a * s + b * c);
            }
        }
    }
    return WEFT_OK;
}

static weft_status rope_plain(const weft_call *call, weft_error *err)
{
    (void)err;
    return rotate(call, 1.0);
}

static weft_status rope_dx_plain(const weft_call *call, weft_error *err)
{
    (void)err;
    return rotate(call, -1.0);
}

static weft_status rope_infer(weft_graph *graph, weft_node *node, weft_error *err)
{
    const weft_value *x = node->ins[0];
    const weft_dim *heads = &x->dims[x->n_dims - 1];

    (void)graph;
    if (heads->grain % 2 != 0)
        return weft_fail(
            err, WEFT_ERR_INPUT, WEFT_NOWHERE,
            "%s of %s: dim %s has heads of %lld elements; rope needs an even head size",
            node->op->name, x->name, heads->name, (long long)heads->grain);
    op_infer_like(node, 0, x);
    return WEFT_OK;
}

const weft_op ops_rope = {
    .name = "rope",
    .summary = "rotary positions",
    .family = "rope",
    .rule = "... h, ... -> ... h",
    .linear = "0",
    .grad = (const char *const[]){"0: rope_dx dy 1", NULL},
    .attrs = "theta, factor, low, high, original",
    .flags = WEFT_OP_HALF,
    .plain = rope_plain,
    .infer = rope_infer,
};

const weft_op ops_rope_dx = {
    .name = "rope_dx",
    .summary = "rotates back",
    .family = "rope",
    .rule = "... h, ... -> ... h",
    .linear = "0",
    .attrs = "theta, factor, low, high, original",
    .flags = WEFT_OP_HALF,
    .plain = rope_dx_plain,
    .infer = rope_infer,
};
