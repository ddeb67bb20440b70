/* SPDX-License-Identifier: Apache-2.0 */
/* Maxima, scales, quantised values. Kernels here are the reference: any float dtype. */
#include "float8.h"

#include <math.h>
#include <string.h>

static weft_status cannot_accumulate(const weft_call *call, weft_error *err)
{
    return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "%s: nothing is added to its result",
                     call->op->name);
}

/* Is `name` one of the words? */
static bool is_among(const char *words, const char *name)
{
    size_t n = strlen(name), size;
    for (const char *p = words; *p; p += size + (p[size] == ' ')) {
        size = strcspn(p, " ");
        if (size == n && memcmp(p, name, n) == 0)
            return true;
    }
    return false;
}

/* ---- amax ---- */

/* "*0 *1 *2 -> *0 *1": as an element-wise op's, so that shards may be cut anywhere. */
static weft_status amax_rule(const weft_node *node, weft_text *rule, weft_error *err)
{
    const weft_value *x = node->ins[0];
    const char *keep = weft_node_text(node, "keep");
    (void)err;
    weft_text_add(rule, "*");
    weft_text_add(rule, " ->");
    for (int d = 0; d < x->n_dims; d++)
        if (is_among(keep, x->dims[d].name))
            weft_text_print(rule, " *%d", d);
    return WEFT_OK;
}

/* For each dim of x the distance in the result; 0 where it is contracted. Of kernels' tensors only
 * extents are known: kept dims are named by their places. */
static bool find_kept(const weft_call *call, int64_t stride[WEFT_MAX_DIMS])
{
    const weft_tensor *x = &call->ins[0], *out = &call->outs[0];
    int64_t kept = weft_call_int(call, "places"), size = 1;
    int n = 0;
    for (int d = x->n_dims - 1; d >= 0; d--) {
        bool keeps = kept >> d & 1;
        stride[d] = keeps ? size : 0;
        size *= keeps ? x->size[d] : 1;
        n += keeps;
    }
    return n == out->n_dims && size == weft_tensor_count(out);
}

static weft_status amax_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0], *out = &call->outs[0];
    int64_t n = weft_tensor_count(x), stride[WEFT_MAX_DIMS], at[WEFT_MAX_DIMS] = {0}, to = 0;
    if (call->accumulate)
        return cannot_accumulate(call, err);
    if (!find_kept(call, stride))
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "float8_amax: the result does not fit");
    for (int64_t i = 0; i < weft_tensor_count(out); i++)
        weft_tensor_set(out, i, 0);
    for (int64_t i = 0; i < n; i++) {
        double value = fabs(weft_tensor_get(x, i)), most = weft_tensor_get(out, to);
        if (!(value <= most) && !isnan(most))
            weft_tensor_set(out, to, value);
        for (int d = x->n_dims - 1; d >= 0; d--) { /* the next element, and where it goes */
            to += stride[d];
            if (++at[d] < x->size[d])
                break;
            to -= stride[d] * at[d];
            at[d] = 0;
        }
    }
    return WEFT_OK;
}

/* Results' dims come from the rule; kept places are told to the kernel. */
static weft_status amax_infer(weft_graph *graph, weft_node *node, weft_error *err)
{
    const weft_value *x = node->ins[0];
    weft_value *out = node->outs[0];
    const char *keep = weft_node_text(node, "keep");
    int64_t places = 0;
    (void)err;
    out->n_dims = 0;
    for (int d = 0; d < x->n_dims; d++)
        if (is_among(keep, x->dims[d].name)) {
            out->dims[out->n_dims++] = x->dims[d];
            places |= (int64_t)1 << d;
        }
    out->dtype = x->dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;
    weft_set_int(graph, out, "places", places);
    return weft_graph_status(graph);
}

const weft_op f8_op_amax = {
    .name = "float8_amax",
    .summary = "the largest magnitude, or that of every row; a NaN stays",
    .make_rule = amax_rule,
    .attrs = "keep, history, places",
    .infer = amax_infer,
    .flags = WEFT_OP_MAX | WEFT_OP_STAT,
    .plain = amax_plain,
};

/* ---- scales ---- */

static weft_status scale_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *amax = &call->ins[0];
    weft_dtype dtype = weft_dtype_find(weft_call_text(call, "dtype"));
    bool power_of_two = weft_call_int(call, "power_of_two") != 0;
    if (call->accumulate)
        return cannot_accumulate(call, err);
    for (int64_t i = 0; i < weft_tensor_count(amax); i++)
        weft_tensor_set(&call->outs[0], i,
                        (double)weft_f8_scale_of(weft_tensor_get(amax, i), dtype, power_of_two, 0));
    return WEFT_OK;
}

static void look_like(weft_value *out, const weft_value *v, weft_dtype dtype)
{
    out->n_dims = v->n_dims;
    memcpy(out->dims, v->dims, sizeof out->dims);
    out->dtype = dtype;
}

static weft_status scale_infer(weft_graph *graph, weft_node *node, weft_error *err)
{
    (void)graph, (void)err;
    look_like(node->outs[0], node->ins[0], WEFT_F32);
    return WEFT_OK;
}

const weft_op f8_op_scale = {
    .name = "float8_scale",
    .summary = "what brings the largest magnitude to the dtype's largest number",
    .rule = "* -> *",
    .attrs = "dtype, power_of_two",
    .infer = scale_infer,
    .plain = scale_plain,
};

/* ---- quantised values ---- */

static weft_status quantise_rule(const weft_node *node, weft_text *rule, weft_error *err)
{
    const weft_value *x = node->ins[0], *scale = node->ins[1];
    (void)err;
    weft_text_add(rule, "*,");
    for (int k = 0; k < scale->n_dims; k++)
        for (int d = 0; d < x->n_dims; d++)
            if (strcmp(scale->dims[k].name, x->dims[d].name) == 0)
                weft_text_print(rule, " *%d", d);
    weft_text_add(rule, " -> *");
    return WEFT_OK;
}

static weft_status quantise_infer(weft_graph *graph, weft_node *node, weft_error *err)
{
    weft_dtype dtype = weft_dtype_find(weft_node_text(node, "dtype"));
    int64_t places = 0;
    if (!f8_is_operand(dtype))
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "float8_quantise: products in 8 bits have no dtype called '%s'",
                         weft_node_text(node, "dtype"));
    for (int k = 0; k < node->ins[1]->n_dims; k++)
        for (int d = 0; d < node->ins[0]->n_dims; d++)
            if (strcmp(node->ins[1]->dims[k].name, node->ins[0]->dims[d].name) == 0)
                places |= (int64_t)1 << d;
    look_like(node->outs[0], node->ins[0], dtype);
    weft_set_int(graph, node->outs[0], "places", places);
    return weft_graph_status(graph);
}

/* An infinity becomes a NaN: that a step has overflowed must not be lost in the largest number. */
static double quantised(double x, double scale, bool wide, weft_dtype dtype)
{
    float y = wide ? weft_f64_to_f32_odd(x * scale) : (float)x * (float)scale;
    if (!isfinite(x))
        y = NAN;
    return (double)weft_f8_values(dtype)[weft_f32_to_f8(y, dtype == WEFT_F8E5M2)];
}

static weft_status quantise_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0], *scale = &call->ins[1];
    weft_dtype dtype = weft_dtype_find(weft_call_text(call, "dtype"));
    int64_t places = weft_call_int(call, "places"), stride[WEFT_MAX_DIMS], size = 1;
    int64_t at[WEFT_MAX_DIMS] = {0}, from = 0;
    if (call->accumulate)
        return cannot_accumulate(call, err);
    for (int d = x->n_dims - 1; d >= 0; d--) {
        stride[d] = places >> d & 1 ? size : 0;
        size *= places >> d & 1 ? x->size[d] : 1;
    }
    for (int64_t i = 0; i < weft_tensor_count(x); i++) {
        weft_tensor_set(&call->outs[0], i,
                        quantised(weft_tensor_get(x, i), weft_tensor_get(scale, from),
                                  x->dtype == WEFT_F64, dtype));
        for (int d = x->n_dims - 1; d >= 0; d--) {
            from += stride[d];
            if (++at[d] < x->size[d])
                break;
            from -= stride[d] * at[d];
            at[d] = 0;
        }
    }
    return WEFT_OK;
}

const weft_op f8_op_quantise = {
    .name = "float8_quantise",
    .summary = "x times its scale, in 8 bits; the gradient passes as if nothing were rounded",
    .make_rule = quantise_rule,
    .attrs = "dtype, places",
    .grad = (const char *const[]){"0: dy", NULL},
    .flags = WEFT_OP_ROUNDS,
    .infer = quantise_infer,
    .plain = quantise_plain,
};
