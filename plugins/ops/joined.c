/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that do the work of several others at once, where a device has a kernel for them: their
 * patterns say of which. Plain kernels are those of the others, one after the other. */
#include "ops.h"

/* r = x + d, y = norm of r. */
static weft_status make_both(const weft_call *call, weft_error *err)
{
    weft_call sum = *call, norm = *call;
    const weft_tensor normed[] = {call->outs[0], call->ins[2]};
    sum.accumulate = norm.accumulate = false;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++)
        op_put(&sum, i, op_get(&call->ins[0], i) + op_get(&call->ins[1], i));
    norm.n_ins = 2;
    norm.ins = normed;
    norm.n_outs = 1;
    norm.outs = call->outs + 1;
    return ops_rms_norm.plain(&norm, err);
}

/* What r is added to joins it behind the norm. */
static weft_status add_rms_norm_plain(const weft_call *call, weft_error *err)
{
    const int64_t n = weft_tensor_count(&call->outs[0]);
    if (!call->accumulate || n == 0)
        return make_both(call, err);
    double *before = weft_alloc((size_t)n * sizeof *before);
    if (!before)
        return weft_fail_memory(err);
    for (int64_t i = 0; i < n; i++)
        before[i] = op_get(&call->outs[0], i);
    weft_status s = make_both(call, err);
    for (int64_t i = 0; i < n && !s; i++)
        op_put(call, i, before[i]);
    weft_free(before);
    return s;
}

/* x, w, dy -> dx, dw: dx alone is added to what is there. */
static weft_status rms_norm_dx_dw_plain(const weft_call *call, weft_error *err)
{
    weft_call dx = *call, dw = *call;
    const weft_tensor of_dw[] = {call->ins[0], call->ins[2]};
    dx.n_outs = dw.n_outs = 1;
    dw.n_ins = 2;
    dw.ins = of_dw;
    dw.outs = call->outs + 1;
    dw.accumulate = false;
    weft_status s = ops_rms_norm_dw.plain(&dw, err);
    return s ? s : ops_rms_norm_dx.plain(&dx, err);
}

const weft_op ops_add_rms_norm = {
    .name = "add_rms_norm",
    .summary = "x + d, and its rms_norm",
    .family = "norm",
    .rule = "... [e], ... [e], [e] -> ... [e], ... [e]",
    .pattern = "x d w -> r y; r = add(x, d); y = rms_norm(r, w)",
    .attrs = "eps",
    .flags = WEFT_OP_HALF,
    .plain = add_rms_norm_plain,
};

const weft_op ops_rms_norm_dx_dw = {
    .name = "rms_norm_dx_dw",
    .summary = "both gradients of rms_norm",
    .family = "norm",
    .rule = "... [e], [e], ... [e] -> ... [e], [e]",
    .linear = "2",
    .pattern = "x w dy -> dx dw; dx = rms_norm_dx(x, w, dy); dw = rms_norm_dw(x, dy)",
    .attrs = "eps",
    .plain = rms_norm_dx_dw_plain,
};
