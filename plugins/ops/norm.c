/* SPDX-License-Identifier: Apache-2.0 */
/* Norms over the last dim: rms_norm y = w x r with r = 1 / rms(x); layer_norm y = w x^ + bias with
 * x^ = (x - mean) r. An rms_norm is a layer_norm whose mean is held at zero, and so are its
 * gradients. */
#include "ops.h"

#include <math.h>

typedef struct stats {
    double mean, r;
} stats;

static stats row_stats(const weft_call *call, int64_t row, bool centred)
{
    const weft_tensor *x = &call->ins[0];
    int64_t n = op_last(x);
    double sum = 0.0, squares = 0.0;
    stats s = {0.0, 0.0};

    for (int64_t e = 0; centred && e < n; e++)
        sum += op_get(x, row * n + e);
    s.mean = centred ? sum / (double)n : 0.0;
    for (int64_t e = 0; e < n; e++) {
        double d = op_get(x, row * n + e) - s.mean;
        squares += d * d;
    }
    s.r = 1.0 / sqrt(squares / (double)n + weft_call_real(call, "eps"));
    return s;
}

static double normed(const weft_call *call, int64_t i, stats s)
{
    return (op_get(&call->ins[0], i) - s.mean) * s.r;
}

/* x [b s e], w [e] (, bias [e]) -> [b s e] */
static weft_status norm(const weft_call *call, bool centred)
{
    int64_t rows = op_rows(&call->ins[0]), n = op_last(&call->ins[0]);

    for (int64_t row = 0; row < rows; row++) {
        stats s = row_stats(call, row, centred);
        for (int64_t e = 0; e < n; e++) {
            double y = normed(call, row * n + e, s) * op_get(&call->ins[1], e);
            op_put(call, row * n + e, centred ? y + op_get(&call->ins[2], e) : y);
        }
    }
    return WEFT_OK;
}

/* x, w, dy -> r (g - mean(g) - x^ mean(g x^)) with g = dy w; without mean(g) if not centred. */
static weft_status norm_dx(const weft_call *call, bool centred)
{
    const weft_tensor *w = &call->ins[1], *dy = &call->ins[2];
    int64_t rows = op_rows(dy), n = op_last(dy);

    for (int64_t row = 0; row < rows; row++) {
        stats s = row_stats(call, row, centred);
        double g_mean = 0.0, gx_mean = 0.0;
        for (int64_t e = 0; e < n; e++) {
            double g = op_get(dy, row * n + e) * op_get(w, e);
            g_mean += centred ? g / (double)n : 0.0;
            gx_mean += g * normed(call, row * n + e, s) / (double)n;
        }
        for (int64_t e = 0; e < n; e++) {
            double g = op_get(dy, row * n + e) * op_get(w, e);
            op_put(call, row * n + e, s.r * (g - g_mean - normed(call, row * n + e, s) * gx_mean));
        }
    }
    return WEFT_OK;
}

/* x, dy -> sum over rows of dy x^ [e] */
static weft_status norm_dw(const weft_call *call, bool centred, weft_error *err)
{
    const weft_tensor *dy = &call->ins[1];
    int64_t rows = op_rows(dy), n = op_last(dy);
    double *sum = weft_alloc_zero((size_t)n, sizeof(*sum));

    if (!sum)
        return weft_fail_memory(err);
    for (int64_t row = 0; row < rows; row++) {
        stats s = row_stats(call, row, centred);
        for (int64_t e = 0; e < n; e++)
            sum[e] += op_get(dy, row * n + e) * normed(call, row * n + e, s);
    }
    for (int64_t e = 0; e < n; e++)
        op_put(call, e, sum[e]);
    weft_free(sum);
    return WEFT_OK;
}

static weft_status rms_norm_plain(const weft_call *call, weft_error *err)
{
    (void)err;
    return norm(call, false);
}

static weft_status rms_norm_dx_plain(const weft_call *call, weft_error *err)
{
    (void)err;
    return norm_dx(call, false);
}

static weft_status rms_norm_dw_plain(const weft_call *call, weft_error *err)
{
    return norm_dw(call, false, err);
}

static weft_status layer_norm_plain(const weft_call *call, weft_error *err)
{
    (void)err;
    return norm(call, true);
}

static weft_status layer_norm_dx_plain(const weft_call *call, weft_error *err)
{
    (void)err;
    return norm_dx(call, true);
}

static weft_status layer_norm_dw_plain(const weft_call *call, weft_error *err)
{
    return norm_dw(call, true, err);
}

const weft_op ops_rms_norm = {
    .name = "rms_norm",
    .summary = "x over its root mean square, times w",
    .family = "norm",
    .rule = "... [e], [e] -> ... [e]",
    .linear = "1",
    .grad = (const char *const[]){"0: rms_norm_dx 0 1 dy", "1: rms_norm_dw 0 dy", NULL},
    .attrs = "eps",
    .flags = WEFT_OP_HALF,
    .plain = rms_norm_plain,
};

const weft_op ops_rms_norm_dx = {
    .name = "rms_norm_dx",
    .summary = "gradient of rms_norm's x",
    .family = "norm",
    .rule = "... [e], [e], ... [e] -> ... [e]",
    .linear = "2",
    .attrs = "eps",
    .flags = WEFT_OP_HALF,
    .plain = rms_norm_dx_plain,
};

const weft_op ops_rms_norm_dw = {
    .name = "rms_norm_dw",
    .summary = "gradient of rms_norm's w",
    .family = "norm",
    .rule = "... [e], ... [e] -> [e]",
    .linear = "1",
    .attrs = "eps",
    .plain = rms_norm_dw_plain,
};

const weft_op ops_layer_norm = {
    .name = "layer_norm",
    .summary = "x less its mean, over its deviation, times w, plus bias",
    .family = "norm",
    .rule = "... [e], [e], [e] -> ... [e]",
    .linear = "1 2",
    .grad = (const char *const[]){"0: layer_norm_dx 0 1 dy", "1: layer_norm_dw 0 dy",
                                  "2: bias_dw dy", NULL},
    .attrs = "eps",
    .flags = WEFT_OP_HALF,
    .plain = layer_norm_plain,
};

const weft_op ops_layer_norm_dx = {
    .name = "layer_norm_dx",
    .summary = "gradient of layer_norm's x",
    .family = "norm",
    .rule = "... [e], [e], ... [e] -> ... [e]",
    .linear = "2",
    .attrs = "eps",
    .flags = WEFT_OP_HALF,
    .plain = layer_norm_dx_plain,
};

const weft_op ops_layer_norm_dw = {
    .name = "layer_norm_dw",
    .summary = "gradient of layer_norm's w",
    .family = "norm",
    .rule = "... [e], ... [e] -> [e]",
    .linear = "1",
    .attrs = "eps",
    .plain = layer_norm_dw_plain,
};
