/* SPDX-License-Identifier: Apache-2.0 */
/* The ops and what their plain kernels share. README.md is their table. */
#ifndef WEFT_OPS_H
#define WEFT_OPS_H

#include <string.h>

#include <weft/plugin.h>

/* clang-format off */
#define OPS(X) \
    X(embedding) X(embedding_dw) \
    X(linear) X(linear_dx) X(linear_dw) X(linear_each) X(linear_each_dx) X(linear_each_dw) \
    X(add_bias) X(bias_dw) X(scale) X(take) \
    X(head_part) X(head_place) X(head_join) X(head_sum) \
    X(rms_norm) X(rms_norm_dx) X(rms_norm_dw) X(head_norm) X(head_norm_dx) X(head_norm_dw) \
    X(layer_norm) X(layer_norm_dx) X(layer_norm_dw) \
    X(angles) X(rope) X(rope_dx) X(attention) X(attention_dx) \
    X(full_attention) X(full_attention_dx) X(attention_merge) X(cache) \
    X(silu_mul) X(silu_mul_dx) X(gelu) X(gelu_dx) \
    X(chunk) X(unchunk) \
    X(max_v) X(sumexp) X(sumexp_dx) X(pick) X(pick_dx) X(nll) X(nll_de) X(nll_dt) \
    X(sum) X(broadcast) X(count_valid) X(reciprocal) X(sumsq) X(sqrt) X(clip) \
    X(add_rms_norm) X(rms_norm_dx_dw) X(linear_pair) X(linear_pair_dw)
/* clang-format on */

#define DECLARE_OP(op) extern const weft_op ops_##op;
OPS(DECLARE_OP)
#undef DECLARE_OP

/* ---- for plain kernels ---- */

/* As weft_tensor_get, with what is read most inline. */
static inline double op_get(const weft_tensor *t, int64_t i)
{
    if (t->dtype == WEFT_F32)
        return (double)((const float *)t->data)[i];
    return t->dtype == WEFT_F64 ? ((const double *)t->data)[i] : weft_tensor_get(t, i);
}

static inline int64_t op_get_int(const weft_tensor *t, int64_t i)
{
    return t->dtype == WEFT_I32 ? ((const int32_t *)t->data)[i] : (int64_t)op_get(t, i);
}

/* Writes, or adds to, element i of result 0. */
static inline void op_put(const weft_call *call, int64_t i, double x)
{
    const weft_tensor *t = &call->outs[0];
    weft_tensor_set(t, i, call->accumulate ? op_get(t, i) + x : x);
}

/* As op_put for any result: only result 0 accumulates. */
static inline void op_put_to(const weft_call *call, int result, int64_t i, double x)
{
    if (result == 0)
        op_put(call, i, x);
    else
        weft_tensor_set(&call->outs[result], i, x);
}

/* Extent of the last dim; 1 for scalars. */
static inline int64_t op_last(const weft_tensor *t)
{
    return t->n_dims ? t->size[t->n_dims - 1] : 1;
}

/* Product of the extents of dims [from, to). */
static inline int64_t op_product(const weft_tensor *t, int from, int to)
{
    int64_t n = 1;
    for (int d = from; d < to; d++)
        n *= t->size[d];
    return n;
}

/* Rows: elements of all dims but the last. */
static inline int64_t op_rows(const weft_tensor *t)
{
    return op_product(t, 0, t->n_dims - 1);
}

/* Makes result `result` of a node look like value v: same dims and dtype. */
static inline void op_infer_like(weft_node *node, int result, const weft_value *v)
{
    weft_value *out = node->outs[result];
    out->n_dims = v->n_dims;
    memcpy(out->dims, v->dims, sizeof out->dims);
    out->dtype = v->dtype;
}

#endif
