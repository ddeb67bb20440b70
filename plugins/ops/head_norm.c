/* SPDX-License-Identifier: Apache-2.0 */
/* Every head over its root mean square, times a weight: x [.. heads], w [head_dim] -> like x. */
#include "ops.h"

#include <math.h>

typedef struct heads {
    const weft_tensor *x;
    int64_t n, width; /* heads of all tokens, elements of one */
    double eps;
} heads;

static heads heads_of(const weft_call *call)
{
    const weft_tensor *x = &call->ins[0];
    int64_t width = x->grain[x->n_dims - 1];
    return (heads){x, weft_tensor_count(x) / width, width, weft_call_real(call, "eps")};
}

/* One over the root mean square of head i. */
static double scale_of(const heads *h, int64_t i)
{
    double sum = 0;
    for (int64_t e = 0; e < h->width; e++)
        sum += op_get(h->x, i * h->width + e) * op_get(h->x, i * h->width + e);
    return 1 / sqrt(sum / (double)h->width + h->eps);
}

static weft_status norm(const weft_call *call, weft_error *err)
{
    heads h = heads_of(call);
    (void)err;
    for (int64_t i = 0; i < h.n; i++) {
        double r = scale_of(&h, i);
        for (int64_t e = 0; e < h.width; e++)
            op_put(call, i * h.width + e,
                   r * op_get(h.x, i * h.width + e) * op_get(&call->ins[1], e));
    }
    return WEFT_OK;
}

/* x, w, dy -> dx */
static weft_status norm_dx(const weft_call *call, weft_error *err)
{
    heads h = heads_of(call);
    (void)err;
    for (int64_t i = 0; i < h.n; i++) {
        double r = scale_of(&h, i), mean = 0;
        for (int64_t e = 0; e < h.width; e++)
            mean += r * op_get(h.x, i * h.width + e) * op_get(&call->ins[1], e) *
                    op_get(&call->ins[2], i * h.width + e) / (double)h.width;
        for (int64_t e = 0; e < h.width; e++) {
            double g = op_get(&call->ins[1], e) * op_get(&call->ins[2], i * h.width + e);
            op_put(call, i * h.width + e, r * (g - r * op_get(h.x, i * h.width + e) * mean));
        }
    }
    return WEFT_OK;
}

/* x, dy -> dw */
static weft_status norm_dw(const weft_call *call, weft_error *err)
{
    heads h = heads_of(call);
    double *sum = weft_alloc_zero((size_t)h.width, sizeof *sum);
    if (!sum)
        return weft_fail_memory(err);
    for (int64_t i = 0; i < h.n; i++) {
        double r = scale_of(&h, i);
        for (int64_t e = 0; e < h.width; e++)
            sum[e] += r * op_get(h.x, i * h.width + e) * op_get(&call->ins[1], i * h.width + e);
    }
    for (int64_t e = 0; e < h.width; e++)
        op_put(call, e, sum[e]);
    weft_free(sum);
    return WEFT_OK;
}

/* Axes may cut tokens, and heads between one and the next, but not the width of a head, which is
 * the weight's one index. */
static const char *const grad[] = {"0: head_norm_dx 0 1 dy", "1: head_norm_dw 0 dy like1", NULL};
const weft_op ops_head_norm = {
    .name = "head_norm",
    .summary = "every head over its root mean square, times w",
    .rule = "... h, [d] -> ... h",
    .linear = "1",
    .grad = grad,
    .attrs = "eps",
    .flags = WEFT_OP_HALF,
    .plain = norm,
};
const weft_op ops_head_norm_dx = {
    .name = "head_norm_dx",
    .summary = "gradient of head_norm's x",
    .rule = "... h, [d], ... h -> ... h",
    .linear = "2",
    .attrs = "eps",
    .flags = WEFT_OP_HALF,
    .plain = norm_dx,
};
const weft_op ops_head_norm_dw = {
    .name = "head_norm_dw",
    .summary = "gradient of head_norm's w",
    .rule = "... h, ... h, [d] -> [d]",
    .linear = "1",
    .attrs = "eps",
    .plain = norm_dw,
};
