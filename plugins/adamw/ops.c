/* SPDX-License-Identifier: Apache-2.0 */
/* What the update computes. Kernels here are the reference: any float dtype, arithmetic in f64. */
#include "adamw.h"

#include <math.h>

static void put(const weft_call *call, int64_t i, double x)
{
    const weft_tensor *out = &call->outs[0];
    weft_tensor_set(out, i, call->accumulate ? weft_tensor_get(out, i) + x : x);
}

static weft_status lr_schedule_plain(const weft_call *call, weft_error *err)
{
    (void)err;
    adamw_schedule schedule = {
        .lr = weft_call_real(call, "lr"),
        .min_factor = weft_call_real(call, "min_factor"),
        .warmup = weft_call_int(call, "warmup"),
        .decay = weft_call_int(call, "decay"),
        .total = weft_call_int(call, "total"),
        .shape = adamw_shape_find(weft_call_text(call, "shape")),
    };
    put(call, 0, adamw_schedule_lr(&schedule, llround(weft_tensor_get(&call->ins[0], 0))));
    return WEFT_OK;
}

/* base^n by squaring: the same bits whatever the math library. */
static double power(double base, int64_t n)
{
    double x = 1;
    for (; n > 0; n >>= 1, base *= base)
        if (n & 1)
            x *= base;
    return x;
}

adamw_numbers adamw_numbers_of(const weft_call *call)
{
    double lr = weft_tensor_get(&call->ins[5], 0);
    int64_t step = llround(weft_tensor_get(&call->ins[6], 0));
    adamw_numbers k = {
        .beta1 = weft_call_real(call, "beta1"),
        .beta2 = weft_call_real(call, "beta2"),
        .eps = weft_call_real(call, "eps"),
        .keep = 1 - lr * weft_call_real(call, "weight_decay"),
        .clip = weft_tensor_get(&call->ins[4], 0),
    };
    k.rate = lr / (1 - power(k.beta1, step));
    k.root = 1 / sqrt(1 - power(k.beta2, step));
    return k;
}

weft_status adamw_check_update(const weft_call *call, weft_error *err)
{
    if (call->accumulate)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "adamw: an update cannot be accumulated");
    int64_t n = weft_tensor_count(&call->ins[0]);
    for (int i = 1; i < 4; i++)
        if (weft_tensor_count(&call->ins[i]) != n)
            return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                             "adamw: operand %d has %lld elements, the parameter has %lld", i,
                             (long long)weft_tensor_count(&call->ins[i]), (long long)n);
    return WEFT_OK;
}

static weft_status adamw_plain(const weft_call *call, weft_error *err)
{
    weft_status status = adamw_check_update(call, err);
    if (status != WEFT_OK)
        return status;
    const weft_tensor *in = call->ins, *out = call->outs;
    adamw_numbers k = adamw_numbers_of(call);
    int64_t n = weft_tensor_count(&in[0]);
    for (int64_t i = 0; i < n; i++) {
        double g = k.clip * weft_tensor_get(&in[3], i);
        double m = k.beta1 * weft_tensor_get(&in[1], i) + (1 - k.beta1) * g;
        double v = k.beta2 * weft_tensor_get(&in[2], i) + (1 - k.beta2) * g * g;
        double p = k.keep * weft_tensor_get(&in[0], i) - k.rate * m / (sqrt(v) * k.root + k.eps);
        weft_tensor_set(&out[0], i, p);
        weft_tensor_set(&out[1], i, m);
        weft_tensor_set(&out[2], i, v);
    }
    return WEFT_OK;
}

static double adamw_flops(const weft_call *call)
{
    return 16.0 * (double)weft_tensor_count(&call->ins[0]);
}

static const weft_op op_lr_schedule = {
    .name = "lr_schedule",
    .summary = "learning rate of a step, counted from 1",
    .rule = "->",
    .attrs = "lr, min_factor, warmup, decay, total, shape, weight_decay, decay_all, max_norm",
    .flags = WEFT_OP_STAT,
    .plain = lr_schedule_plain,
};

static const weft_op op_adamw = {
    .name = "adamw",
    .summary = "parameter, moments, gradient, clip factor, learning rate, step -> next parameter "
               "and moments",
    .rule = "*, *, *, *, , , -> *, *, *",
    .attrs = "beta1, beta2, eps, weight_decay",
    .flags = WEFT_OP_INPLACE,
    .plain = adamw_plain,
    .flops = adamw_flops,
};

const weft_op *const adamw_ops[] = {&op_lr_schedule, &op_adamw, NULL};
