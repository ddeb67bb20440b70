/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as cuDNN's graphs say it: products, element-wise operations, reductions. The library
 * knows the pattern, and has one kernel for all of it; in which order operands stand is part of
 * that. Keys are [.. d keys], turned by their strides. */
#include "dnn.h"

#include <string.h>

/* ---- descriptors ---- */

cudnn_descriptor_t cuda_dnn_make(cuda_dnn_graph *g, int type)
{
    if (g->status || g->n == DNN_MOST_DESCRIPTORS)
        return NULL;
    g->at = "cudnnBackendCreateDescriptor";
    g->status = g->dnn->api.cudnnBackendCreateDescriptor(type, &g->all[g->n]);
    return g->status ? NULL : g->all[g->n++];
}

void cuda_dnn_set(cuda_dnn_graph *g, cudnn_descriptor_t d, int name, int type, int64_t n,
                  const void *elements)
{
    if (g->status)
        return;
    g->at = "cudnnBackendSetAttribute";
    g->status = g->dnn->api.cudnnBackendSetAttribute(d, name, type, n, elements);
}

void cuda_dnn_set_descriptor(cuda_dnn_graph *g, cudnn_descriptor_t d, int name,
                             cudnn_descriptor_t value)
{
    cuda_dnn_set(g, d, name, DNN_T_DESCRIPTOR, 1, &value);
}

void cuda_dnn_finish(cuda_dnn_graph *g, cudnn_descriptor_t d)
{
    if (g->status)
        return;
    g->at = "cudnnBackendFinalize";
    g->status = g->dnn->api.cudnnBackendFinalize(d);
}

/* ---- tensors ---- */

enum { RANK = 4, ALIGNMENT = 16 };

/* The last two dims change places. */
typedef struct shape {
    int64_t dims[RANK], strides[RANK];
} shape;

static shape packed(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (shape){{a, b, c, d}, {b * c * d, c * d, d, 1}};
}

/* [batch rows heads d] as [batch heads n d]: of the rows the first n. */
static shape of_rows(int64_t batch, int64_t heads, int64_t n, int64_t rows, int64_t d)
{
    return (shape){{batch, heads, n, d}, {rows * heads * d, d, heads * d, 1}};
}

static shape turned(shape s)
{
    return (shape){{s.dims[0], s.dims[1], s.dims[3], s.dims[2]},
                   {s.strides[0], s.strides[1], s.strides[3], s.strides[2]}};
}

/* name 0: it is nowhere in memory. */
static cudnn_descriptor_t tensor(cuda_dnn_graph *g, int64_t name, int type, const shape *s)
{
    const int64_t alignment = ALIGNMENT, id = name ? name : g->next++;
    const bool nowhere = name == 0, by_value = name >= DNN_SCALE;
    cudnn_descriptor_t t = cuda_dnn_make(g, DNN_TENSOR);
    cuda_dnn_set(g, t, DNN_TENSOR_TYPE, DNN_T_DATA_TYPE, 1, &type);
    cuda_dnn_set(g, t, DNN_TENSOR_DIMS, DNN_T_INT64, RANK, s->dims);
    cuda_dnn_set(g, t, DNN_TENSOR_STRIDES, DNN_T_INT64, RANK, s->strides);
    cuda_dnn_set(g, t, DNN_TENSOR_ID, DNN_T_INT64, 1, &id);
    cuda_dnn_set(g, t, DNN_TENSOR_ALIGNMENT, DNN_T_INT64, 1, &alignment);
    cuda_dnn_set(g, t, DNN_TENSOR_VIRTUAL, DNN_T_BOOLEAN, 1, &nowhere);
    cuda_dnn_set(g, t, DNN_TENSOR_BY_VALUE, DNN_T_BOOLEAN, 1, &by_value);
    cuda_dnn_finish(g, t);
    return t;
}

static cudnn_descriptor_t number(cuda_dnn_graph *g, int64_t name)
{
    const shape one = packed(1, 1, 1, 1);
    return tensor(g, name, DNN_FLOAT, &one);
}

/* ---- operations ---- */

static void add_op(cuda_dnn_graph *g, cudnn_descriptor_t op)
{
    cuda_dnn_finish(g, op);
    if (!g->status && g->n_ops < DNN_MOST_OPS)
        g->ops[g->n_ops++] = op;
}

/* b, t: NULL: there is none. axis: of GEN_INDEX. */
static void pointwise(cuda_dnn_graph *g, int mode, int precision, int64_t axis,
                      cudnn_descriptor_t x, cudnn_descriptor_t b, cudnn_descriptor_t t,
                      cudnn_descriptor_t y)
{
    cudnn_descriptor_t how = cuda_dnn_make(g, DNN_POINTWISE);
    cuda_dnn_set(g, how, DNN_POINTWISE_MODE, DNN_T_POINTWISE_MODE, 1, &mode);
    cuda_dnn_set(g, how, DNN_POINTWISE_PRECISION, DNN_T_DATA_TYPE, 1, &precision);
    if (mode == DNN_GEN_INDEX)
        cuda_dnn_set(g, how, DNN_POINTWISE_AXIS, DNN_T_INT64, 1, &axis);
    cuda_dnn_finish(g, how);
    cudnn_descriptor_t op = cuda_dnn_make(g, DNN_POINTWISE_OP);
    cuda_dnn_set_descriptor(g, op, DNN_POINTWISE_OP_HOW, how);
    cuda_dnn_set_descriptor(g, op, DNN_POINTWISE_OP_X, x);
    if (b)
        cuda_dnn_set_descriptor(g, op, DNN_POINTWISE_OP_B, b);
    if (t)
        cuda_dnn_set_descriptor(g, op, DNN_POINTWISE_OP_T, t);
    cuda_dnn_set_descriptor(g, op, DNN_POINTWISE_OP_Y, y);
    add_op(g, op);
}

/* In f32, into a new tensor that is nowhere. */
static cudnn_descriptor_t compute(cuda_dnn_graph *g, int mode, cudnn_descriptor_t x,
                                  cudnn_descriptor_t b, const shape *s)
{
    cudnn_descriptor_t y = tensor(g, 0, DNN_FLOAT, s);
    pointwise(g, mode, DNN_FLOAT, 0, x, b, NULL, y);
    return y;
}

static void multiply(cuda_dnn_graph *g, cudnn_descriptor_t a, cudnn_descriptor_t b,
                     cudnn_descriptor_t c)
{
    const int precision = DNN_FLOAT;
    cudnn_descriptor_t how = cuda_dnn_make(g, DNN_MATMUL);
    cuda_dnn_set(g, how, DNN_MATMUL_PRECISION, DNN_T_DATA_TYPE, 1, &precision);
    cuda_dnn_finish(g, how);
    cudnn_descriptor_t op = cuda_dnn_make(g, DNN_MATMUL_OP);
    cuda_dnn_set_descriptor(g, op, DNN_MATMUL_OP_A, a);
    cuda_dnn_set_descriptor(g, op, DNN_MATMUL_OP_B, b);
    cuda_dnn_set_descriptor(g, op, DNN_MATMUL_OP_C, c);
    cuda_dnn_set_descriptor(g, op, DNN_MATMUL_OP_HOW, how);
    add_op(g, op);
}

static void reduce(cuda_dnn_graph *g, int mode, cudnn_descriptor_t x, cudnn_descriptor_t y)
{
    const int precision = DNN_FLOAT;
    cudnn_descriptor_t how = cuda_dnn_make(g, DNN_REDUCTION);
    cuda_dnn_set(g, how, DNN_REDUCTION_OPERATOR, DNN_T_REDUCTION, 1, &mode);
    cuda_dnn_set(g, how, DNN_REDUCTION_PRECISION, DNN_T_DATA_TYPE, 1, &precision);
    cuda_dnn_finish(g, how);
    cudnn_descriptor_t op = cuda_dnn_make(g, DNN_REDUCTION_OP);
    cuda_dnn_set_descriptor(g, op, DNN_REDUCTION_OP_X, x);
    cuda_dnn_set_descriptor(g, op, DNN_REDUCTION_OP_Y, y);
    cuda_dnn_set_descriptor(g, op, DNN_REDUCTION_OP_HOW, how);
    add_op(g, op);
}

static cudnn_descriptor_t reshape(cuda_dnn_graph *g, cudnn_descriptor_t x, int type,
                                  const shape *to)
{
    cudnn_descriptor_t y = tensor(g, 0, type, to), op = cuda_dnn_make(g, DNN_RESHAPE_OP);
    cuda_dnn_set_descriptor(g, op, DNN_RESHAPE_OP_X, x);
    cuda_dnn_set_descriptor(g, op, DNN_RESHAPE_OP_Y, y);
    add_op(g, op);
    return y;
}

/* ---- attention ---- */

/* Of each query with each key, of each query, the operands as they lie, and results, which have no
 * rows but those that take part. */
typedef struct shapes {
    shape scores, rows, q, k, q_made, k_made;
} shapes;

static shapes shapes_of(const cuda_dnn_attention *a)
{
    return (shapes){packed(a->batch, a->heads, a->queries, a->keys),
                    packed(a->batch, a->heads, a->queries, 1),
                    of_rows(a->batch, a->heads, a->queries, a->q_rows, a->d),
                    of_rows(a->batch, a->kv_heads, a->keys, a->k_rows, a->d),
                    of_rows(a->batch, a->heads, a->queries, a->queries, a->d),
                    of_rows(a->batch, a->kv_heads, a->keys, a->keys, a->d)};
}

/* Minus infinity where the key's place is behind the query's. */
static cudnn_descriptor_t mask(cuda_dnn_graph *g, cudnn_descriptor_t scores, const shape *s)
{
    cudnn_descriptor_t row = tensor(g, 0, DNN_INT32, s), column = tensor(g, 0, DNN_INT32, s),
                       seen = tensor(g, 0, DNN_BOOLEAN, s), lowest = number(g, DNN_LOWEST),
                       masked = tensor(g, 0, DNN_FLOAT, s);
    pointwise(g, DNN_GEN_INDEX, DNN_INT32, 2, scores, NULL, NULL, row);
    pointwise(g, DNN_GEN_INDEX, DNN_INT32, 3, scores, NULL, NULL, column);
    pointwise(g, DNN_CMP_GE, DNN_BOOLEAN, 0, row, column, NULL, seen);
    pointwise(g, DNN_SELECT, DNN_FLOAT, 0, scores, lowest, seen, masked);
    return masked;
}

/* out = softmax(scale q k') v, and the logarithm of what softmax divides by. */
static void describe_forward(cuda_dnn_graph *g, const cuda_dnn_attention *a)
{
    const shapes s = shapes_of(a);
    const shape k_turned = turned(s.k);
    cudnn_descriptor_t q = tensor(g, DNN_Q, DNN_BFLOAT16, &s.q),
                       k = tensor(g, DNN_K, DNN_BFLOAT16, &k_turned),
                       v = tensor(g, DNN_V, DNN_BFLOAT16, &s.k),
                       out = tensor(g, DNN_OUT, DNN_BFLOAT16, &s.q_made),
                       lse = tensor(g, DNN_LSE, DNN_FLOAT, &s.rows),
                       scores = tensor(g, 0, DNN_FLOAT, &s.scores);
    multiply(g, q, k, scores);
    scores = compute(g, DNN_MUL, scores, number(g, DNN_SCALE), &s.scores);
    if (a->causal)
        scores = mask(g, scores, &s.scores);
    cudnn_descriptor_t most = tensor(g, 0, DNN_FLOAT, &s.rows),
                       sum = tensor(g, 0, DNN_FLOAT, &s.rows);
    reduce(g, DNN_MAX, scores, most);
    cudnn_descriptor_t less = compute(g, DNN_SUB, scores, most, &s.scores),
                       weights = compute(g, DNN_EXP, less, NULL, &s.scores);
    reduce(g, DNN_SUM, weights, sum);
    cudnn_descriptor_t logarithm = compute(g, DNN_LOG, sum, NULL, &s.rows),
                       shares = tensor(g, 0, DNN_BFLOAT16, &s.scores);
    pointwise(g, DNN_ADD, DNN_FLOAT, 0, most, logarithm, NULL, lse);
    pointwise(g, DNN_DIV, DNN_FLOAT, 0, weights, sum, NULL, shares);
    multiply(g, shares, v, out);
}

/* Of each query head, summed over the heads that share a key head. */
static void multiply_shared(cuda_dnn_graph *g, const cuda_dnn_attention *a, cudnn_descriptor_t x,
                            cudnn_descriptor_t y, int name, const shape *k)
{
    const shape each = packed(a->batch, a->heads, a->keys, a->d);
    cudnn_descriptor_t out = tensor(g, name, DNN_BFLOAT16, k);
    if (a->heads == a->kv_heads) {
        multiply(g, x, y, out);
        return;
    }
    cudnn_descriptor_t all = tensor(g, 0, DNN_BFLOAT16, &each);
    multiply(g, x, y, all);
    reduce(g, DNN_SUM, all, out);
}

static void describe_backward(cuda_dnn_graph *g, const cuda_dnn_attention *a)
{
    const shapes s = shapes_of(a);
    const shape k_turned = turned(s.k), scores_turned = turned(s.scores),
                sums = packed(a->batch, a->heads, a->queries, a->d);
    cudnn_descriptor_t q = tensor(g, DNN_Q, DNN_BFLOAT16, &s.q),
                       k = tensor(g, DNN_K, DNN_BFLOAT16, &k_turned),
                       v = tensor(g, DNN_V, DNN_BFLOAT16, &k_turned),
                       out = tensor(g, DNN_OUT, DNN_BFLOAT16, &s.q),
                       dout = tensor(g, DNN_DOUT, DNN_BFLOAT16, &s.q),
                       lse = tensor(g, DNN_LSE, DNN_FLOAT, &s.rows), scale = number(g, DNN_SCALE);
    /* delta: out with its gradient, summed over a head */
    cudnn_descriptor_t product = compute(g, DNN_MUL, dout, out, &sums),
                       sum = tensor(g, 0, DNN_FLOAT, &s.rows),
                       delta = tensor(g, DNN_DELTA, DNN_FLOAT, &s.rows);
    reduce(g, DNN_SUM, product, sum);
    pointwise(g, DNN_MUL, DNN_FLOAT, 0, sum, number(g, DNN_ONE), NULL, delta);
    /* the weights once more, and dv */
    cudnn_descriptor_t scores = tensor(g, 0, DNN_FLOAT, &s.scores);
    multiply(g, q, k, scores);
    scores = compute(g, DNN_MUL, scores, scale, &s.scores);
    scores = compute(g, DNN_SUB, scores, lse, &s.scores);
    if (a->causal)
        scores = mask(g, scores, &s.scores);
    cudnn_descriptor_t weights = compute(g, DNN_EXP, scores, NULL, &s.scores);
    multiply_shared(g, a, reshape(g, weights, DNN_BFLOAT16, &scores_turned), dout, DNN_DV,
                    &s.k_made);
    /* the scores' gradient, and dk */
    cudnn_descriptor_t d = tensor(g, 0, DNN_FLOAT, &s.scores);
    multiply(g, dout, v, d);
    d = compute(g, DNN_SUB, d, delta, &s.scores);
    d = compute(g, DNN_MUL, d, weights, &s.scores);
    d = compute(g, DNN_MUL, d, scale, &s.scores);
    multiply_shared(g, a, reshape(g, d, DNN_BFLOAT16, &scores_turned), q, DNN_DK, &s.k_made);
    /* dq: sums over blocks of keys, in f32, then rounded; or, in the library's own memory, all */
    cudnn_descriptor_t dq = tensor(g, DNN_DQ, DNN_BFLOAT16, &s.q_made),
                       k_rows = reshape(g, k, DNN_BFLOAT16, &s.k);
    if (a->whole) {
        multiply(g, d, k_rows, dq);
        return;
    }
    cudnn_descriptor_t dq_sums = tensor(g, DNN_DQ_SUMS, DNN_FLOAT, &sums);
    multiply(g, d, k_rows, dq_sums);
    pointwise(g, DNN_IDENTITY, DNN_FLOAT, 0, dq_sums, NULL, NULL, dq);
}

void cuda_dnn_describe(cuda_dnn_graph *g, const cuda_dnn_attention *a)
{
    g->next = DNN_NAMES;
    if (a->backward)
        describe_backward(g, a);
    else
        describe_forward(g, a);
}
