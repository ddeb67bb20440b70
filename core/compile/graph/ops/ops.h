/* SPDX-License-Identifier: Apache-2.0 */
/* The standard ops and what their plain kernels share. README.md is their table. */
#ifndef WEFT_GRAPH_OPS_OPS_H
#define WEFT_GRAPH_OPS_OPS_H

#include <weft/graph.h>

/* clang-format off */
#define WEFT_STANDARD_OPS(X) \
    X(parameter) X(state) X(input) X(constant) \
    X(embedding) X(embedding_dw) \
    X(linear) X(linear_dx) X(linear_dw) \
    X(add) X(add_bias) X(bias_dw) X(scale) X(cast) X(accumulate) X(accumulate_max) X(lowest) X(take) \
    X(rms_norm) X(rms_norm_dx) X(rms_norm_dw) X(layer_norm) X(layer_norm_dx) X(layer_norm_dw) \
    X(rope) X(rope_dx) X(attention) X(attention_dx) \
    X(attention_merge) X(cache) \
    X(silu_mul) X(silu_mul_dx) X(gelu) X(gelu_dx) \
    X(chunk) X(unchunk) \
    X(max_v) X(sumexp) X(sumexp_dx) X(pick) X(pick_dx) X(nll) X(nll_de) X(nll_dt) \
    X(sum) X(broadcast) X(count_valid) X(reciprocal) X(sumsq) X(sqrt) X(clip) X(gather) X(redistribute)
/* clang-format on */

#define WEFT_DECLARE_OP(op) extern const weft_op weft_op_##op;
WEFT_STANDARD_OPS(WEFT_DECLARE_OP)
#undef WEFT_DECLARE_OP

/* All standard ops, NULL-ended. */
const weft_op *const *weft_standard_ops(void);

/* ---- for plain kernels: as weft_tensor_get and _set, but inline ---- */

static inline double op_get(const weft_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case WEFT_F64:
        return ((const double *)t->data)[i];
    case WEFT_F32:
        return (double)((const float *)t->data)[i];
    case WEFT_BF16:
        return (double)weft_bf16_to_f32(((const uint16_t *)t->data)[i]);
    case WEFT_I32:
        return (double)((const int32_t *)t->data)[i];
    case WEFT_F8E4M3:
    case WEFT_F8E5M2:
    case WEFT_F8E8M0:
        return (double)weft_f8_values(t->dtype)[((const uint8_t *)t->data)[i]];
    default:
        return (double)((const uint8_t *)t->data)[i];
    }
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

/* True if the node has the attribute at all. */
bool op_has(const weft_call *call, const char *key);

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
void op_infer_like(weft_node *node, int result, const weft_value *v);

#endif
