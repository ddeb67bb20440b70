/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary positions: the angles of all positions, made once, and pairs of every head's elements
 * turned by them. */
#include "ops.h"

#include <weft/rope.h>

/* ---- positions [..] -> [.. turn]: the cosines of all pairs, then the sines ---- */

static weft_status angles_plain(const weft_call *call, weft_error *err)
{
    const weft_rope r = weft_rope_of(call);
    const int64_t rows = weft_tensor_count(&call->ins[0]);

    (void)err;
    for (int64_t i = 0; i < r.pairs; i++) {
        const double frequency = weft_rope_frequency(&r, i);
        for (int64_t row = 0; row < rows; row++) {
            const double angle = (double)op_get_int(&call->ins[0], row) * frequency;
            op_put(call, row * 2 * r.pairs + i, r.scale * cos(angle));
            op_put(call, (row * 2 + 1) * r.pairs + i, r.scale * sin(angle));
        }
    }
    return WEFT_OK;
}

static weft_status angles_infer(weft_graph *graph, weft_node *node, weft_error *err)
{
    const weft_value *positions = node->ins[0];
    const int64_t pairs = weft_node_int(node, "pairs");
    weft_value *turn = node->outs[0];

    (void)graph;
    if (pairs < 1 || positions->n_dims >= WEFT_MAX_DIMS)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "angles of %s: %lld pairs; at least one turns, and that of few dims",
                         positions->name, (long long)pairs);
    turn->n_dims = positions->n_dims + 1;
    memcpy(turn->dims, positions->dims, sizeof turn->dims);
    turn->dims[positions->n_dims] = (weft_dim){"turn", 2 * pairs, 1};
    return WEFT_OK;
}

const weft_op ops_angles = {
    .name = "angles",
    .summary = "cosines and sines of rotary positions",
    .rule = "... -> ... [p]",
    .attrs = WEFT_ROPE_ATTRS,
    .flags = WEFT_OP_STAT,
    .plain = angles_plain,
    .infer = angles_infer,
};

/* ---- x [.. heads], turn [.. turn] -> like x ---- */

typedef struct pairs {
    int64_t width, d, n; /* elements of a row, of a head; pairs that turn */
    int64_t first, other,
        apart; /* of pair i: element first + apart i, and that `other` behind it */
} pairs;

static pairs pairs_of(const weft_call *call)
{
    const weft_tensor *x = &call->ins[0];
    const int64_t n = op_last(&call->ins[1]) / 2;
    const bool neighbours = weft_call_int(call, "neighbours") != 0;
    return (pairs){.width = op_last(x),
                   .d = x->grain[x->n_dims - 1],
                   .n = n,
                   .first = weft_call_int(call, "first"),
                   .other = neighbours ? 1 : n,
                   .apart = neighbours ? 2 : 1};
}

/* at: where a head begins; turn: its row's cosines. */
static void rotate_head(const weft_call *call, const pairs *p, int64_t at, int64_t turn,
                        double sign)
{
    const weft_tensor *x = &call->ins[0];
    for (int64_t e = 0; e < p->d; e++)
        if (e < p->first || e >= p->first + 2 * p->n)
            op_put(call, at + e, op_get(x, at + e));
    for (int64_t i = 0; i < p->n; i++) {
        const int64_t to = at + p->first + i * p->apart;
        const double a = op_get(x, to), b = op_get(x, to + p->other);
        const double c = op_get(&call->ins[1], turn + i),
                     s = sign * op_get(&call->ins[1], turn + p->n + i);
        op_put(call, to, a * c - b * s);
        op_put(call, to + p->other, a * s + b * c);
    }
}

static weft_status rotate(const weft_call *call, double sign)
{
    const pairs p = pairs_of(call);
    for (int64_t row = 0; row < op_rows(&call->ins[0]); row++)
        for (int64_t at = row * p.width; at < (row + 1) * p.width; at += p.d)
            rotate_head(call, &p, at, row * 2 * p.n, sign);
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
    const weft_value *x = node->ins[0], *turn = node->ins[1];
    const weft_dim *heads = &x->dims[x->n_dims - 1];
    const int64_t turned = turn->dims[turn->n_dims - 1].size, first = weft_node_int(node, "first");

    (void)graph;
    if (turned % 2 != 0 || first < 0 || first + turned > heads->grain)
        return weft_fail(
            err, WEFT_ERR_INPUT, WEFT_NOWHERE,
            "%s of %s: dim %s has heads of %lld elements, of which %lld from %lld on are to turn "
            "in pairs",
            node->op->name, x->name, heads->name, (long long)heads->grain, (long long)turned,
            (long long)first);
    op_infer_like(node, 0, x);
    return WEFT_OK;
}

const weft_op ops_rope = {
    .name = "rope",
    .summary = "rotary positions",
    .family = "rope",
    .rule = "... h, ... [p] -> ... h",
    .linear = "0",
    .grad = (const char *const[]){"0: rope_dx dy 1", NULL},
    .attrs = "first, neighbours",
    .flags = WEFT_OP_HALF,
    .plain = rope_plain,
    .infer = rope_infer,
};

const weft_op ops_rope_dx = {
    .name = "rope_dx",
    .summary = "rotates back",
    .family = "rope",
    .rule = "... h, ... [p] -> ... h",
    .linear = "0",
    .attrs = "first, neighbours",
    .flags = WEFT_OP_HALF,
    .plain = rope_dx_plain,
    .infer = rope_infer,
};
