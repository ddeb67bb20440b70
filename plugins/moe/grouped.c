/* SPDX-License-Identifier: Apache-2.0 */
/* Products of each expert's rows with its weight, as many rows as counts say: rows [B S J C e],
 * weight [experts f e], counts [B S experts] -> [B S J C f]; the gradients; and a factor for each
 * row. */
#include "moe.h"

#include <string.h>

/* The rows of one expert in one token group that are here. */
typedef struct run {
    int64_t expert;       /* counted from the first that is here */
    int64_t first, count; /* rows */
    int64_t behind;       /* rows of its expert group behind it that no expert has; of the last
                             expert of a group only */
} run;

typedef enum kind { FORWARD, DX, DW } kind;

/* The i-th of (token groups) x (experts) that are here; rows: [B S J C ...]. */
static run run_of(const weft_tensor *rows, const weft_tensor *counts, int64_t i)
{
    const int64_t experts = counts->size[2], each = counts->whole[2] / rows->whole[2];
    const int64_t group = i / experts, expert = i % experts, in_group = expert % each;
    run r = {.expert = expert};
    for (int64_t x = expert - in_group; x < expert; x++)
        r.first += moe_int(counts, group * experts + x);
    r.count = moe_int(counts, i);
    const int64_t used = r.first + r.count, slots = rows->size[3];
    r.behind = in_group == each - 1 ? slots - used : 0;
    r.first += (group * rows->size[2] + expert / each) * slots;
    return r;
}

static int64_t runs_of(const weft_tensor *counts)
{
    return weft_tensor_count(counts);
}

/* ---- rows times weight ---- */

static double dot(const weft_tensor *a, int64_t at, const weft_tensor *w, int64_t from,
                  int64_t step, int64_t n)
{
    double sum = 0;
    if (a->dtype == WEFT_F32 && w->dtype == WEFT_F32) {
        const float *x = (const float *)a->data + at, *y = (const float *)w->data + from;
        for (int64_t i = 0; i < n; i++)
            sum += (double)x[i] * (double)y[i * step];
        return sum;
    }
    for (int64_t i = 0; i < n; i++)
        sum += weft_tensor_get(a, at + i) * weft_tensor_get(w, from + i * step);
    return sum;
}

static weft_status rows_by_weight(const weft_call *call, kind how)
{
    const weft_tensor *x = &call->ins[0], *w = &call->ins[1], *counts = &call->ins[2];
    const int64_t n = moe_last(x), m = moe_last(&call->outs[0]);
    for (int64_t i = 0; i < runs_of(counts); i++) {
        const run r = run_of(x, counts, i);
        for (int64_t row = r.first; row < r.first + r.count; row++)
            for (int64_t j = 0; j < m; j++)
                moe_put(call, row * m + j,
                        dot(x, row * n, w, r.expert * m * n + (how == DX ? j : j * n),
                            how == DX ? m : 1, n));
        for (int64_t e = (r.first + r.count) * m; e < (r.first + r.count + r.behind) * m; e++)
            moe_put(call, e, 0);
    }
    return WEFT_OK;
}

static weft_status grouped_plain(const weft_call *call, weft_error *err)
{
    (void)err;
    return rows_by_weight(call, FORWARD);
}

static weft_status grouped_dx_plain(const weft_call *call, weft_error *err)
{
    (void)err;
    return rows_by_weight(call, DX);
}

/* ---- dy, rows, counts -> the gradient of the weight ---- */

static double sum_of_rows(const weft_call *call, int64_t expert, int64_t f, int64_t e)
{
    const weft_tensor *dy = &call->ins[0], *x = &call->ins[1], *counts = &call->ins[2];
    const int64_t m = moe_last(dy), n = moe_last(x);
    double sum = 0;
    for (int64_t i = expert; i < runs_of(counts); i += counts->size[2]) {
        const run r = run_of(x, counts, i);
        for (int64_t row = r.first; row < r.first + r.count; row++)
            sum += weft_tensor_get(dy, row * m + f) * weft_tensor_get(x, row * n + e);
    }
    return sum;
}

static weft_status grouped_dw_plain(const weft_call *call, weft_error *err)
{
    const int64_t m = moe_last(&call->ins[0]), n = moe_last(&call->ins[1]);
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++)
        moe_put(call, i, sum_of_rows(call, i / (m * n), i / n % m, i % n));
    return WEFT_OK;
}

/* 2 m n for each row that is used: `rows` are those of all pairs, k for each token. */
static double grouped_flops(const weft_call *call)
{
    const weft_tensor *x = &call->ins[0];
    double rows = (double)weft_call_int(call, "rows");
    for (int d = 0; d < 3; d++)
        rows *= (double)x->size[d] / (double)x->whole[d];
    return 2 * rows * (double)moe_last(x) * (double)moe_last(&call->outs[0]);
}

static weft_status grouped_infer(weft_graph *g, weft_node *node, weft_error *err)
{
    const weft_value *x = node->ins[0], *w = node->ins[1], *counts = node->ins[2];
    const int contracted = node->op == &moe_grouped ? 2 : 1;
    weft_value *y = node->outs[0];
    (void)g;
    if (x->n_dims != 5 || w->n_dims != 3 || counts->n_dims != 3 ||
        w->dims[0].size != counts->dims[2].size || w->dims[0].size % x->dims[2].size ||
        x->dims[4].size != w->dims[contracted].size)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "%s of %s and %s: rows [batch seq expert_groups slots width] by a weight "
                         "[experts out width]",
                         node->op->name, x->name, w->name);
    y->n_dims = 5;
    memcpy(y->dims, x->dims, sizeof y->dims);
    y->dims[4] = w->dims[3 - contracted];
    y->dtype = x->dtype;
    return WEFT_OK;
}

static weft_status grouped_dw_infer(weft_graph *g, weft_node *node, weft_error *err)
{
    weft_value *w = node->outs[0];
    (void)g, (void)err;
    w->n_dims = 3;
    w->dims[0] = node->ins[2]->dims[2];
    w->dims[1] = node->ins[0]->dims[4];
    w->dims[2] = node->ins[1]->dims[4];
    w->dtype = node->ins[0]->dtype;
    return WEFT_OK;
}

#define GROUPED_ATTRS "rows"

const weft_op moe_grouped = {
    .name = "grouped",
    .summary = "each expert's rows times its weight",
    .family = "linear",
    .rule = "b s x [c] e, x f e, b s x -> b s x [c] f",
    .linear = "0, 1",
    .grad = (const char *const[]){"0: grouped_dx dy 1 2", "1: grouped_dw dy 0 2", NULL},
    .attrs = GROUPED_ATTRS,
    .flags = WEFT_OP_HALF | WEFT_OP_HALF_WEIGHT | WEFT_OP_MATMUL,
    .plain = grouped_plain,
    .flops = grouped_flops,
    .infer = grouped_infer,
};

const weft_op moe_grouped_dx = {
    .name = "grouped_dx",
    .summary = "gradient of grouped's rows",
    .family = "linear",
    .rule = "b s x [c] f, x f e, b s x -> b s x [c] e",
    .linear = "0, 1",
    .attrs = GROUPED_ATTRS,
    .flags = WEFT_OP_HALF | WEFT_OP_HALF_WEIGHT | WEFT_OP_MATMUL,
    .plain = grouped_dx_plain,
    .flops = grouped_flops,
    .infer = grouped_infer,
};

const weft_op moe_grouped_dw = {
    .name = "grouped_dw",
    .summary = "gradient of grouped's weight",
    .family = "linear",
    .rule = "b s x [c] f, b s x [c] e, b s x -> x f e",
    .linear = "0, 1",
    .attrs = GROUPED_ATTRS,
    .flags = WEFT_OP_MATMUL,
    .plain = grouped_dw_plain,
    .flops = grouped_flops,
    .infer = grouped_dw_infer,
};

/* ---- slot_scale: rows times a number each; slot_dot: its gradient ---- */

static weft_status slot_scale_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0], *w = &call->ins[1];
    const int64_t width = moe_last(x);
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(x); i++)
        moe_put(call, i, weft_tensor_get(x, i) * weft_tensor_get(w, i / width));
    return WEFT_OK;
}

static weft_status slot_dot_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0], *y = &call->ins[1];
    const int64_t width = moe_last(x);
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++) {
        double sum = 0;
        for (int64_t e = i * width; e < (i + 1) * width; e++)
            sum += weft_tensor_get(x, e) * weft_tensor_get(y, e);
        moe_put(call, i, sum);
    }
    return WEFT_OK;
}

const weft_op moe_slot_scale = {
    .name = "slot_scale",
    .summary = "rows, each times its weight",
    .rule = "b s j c f, b s j c -> b s j c f",
    .linear = "0, 1",
    .grad = (const char *const[]){"0: slot_scale dy 1", "1: slot_dot dy 0", NULL},
    .flags = WEFT_OP_HALF,
    .plain = slot_scale_plain,
};

const weft_op moe_slot_dot = {
    .name = "slot_dot",
    .summary = "rows times rows, element by element, each summed",
    .rule = "b s j c f, b s j c f -> b s j c",
    .linear = "0, 1",
    .flags = WEFT_OP_STAT,
    .plain = slot_dot_plain,
};
