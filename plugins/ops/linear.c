/* SPDX-License-Identifier: Apache-2.0 */
/* x[L.. c..] w[m.. c..] -> y[L.. m..] and its two gradients. Each group may be several dims; each
 * contraction is one strided product. */
#include "ops.h"

#include <string.h>

/* ---- rules: by dim names ---- */

static int find_dim(const weft_value *v, const char *name)
{
    for (int d = 0; d < v->n_dims; d++)
        if (!strcmp(v->dims[d].name, name))
            return d;
    return -1;
}

static void print_dims(weft_text *text, const weft_value *v, const weft_value *without)
{
    for (int d = 0; d < v->n_dims; d++)
        if (!without || find_dim(without, v->dims[d].name) < 0)
            weft_text_print(text, " %s", v->dims[d].name);
}

static weft_status misfit(const weft_node *node, const char *want, weft_error *err)
{
    weft_text a = {0}, b = {0};
    weft_status status;

    print_dims(&a, node->ins[0], NULL);
    print_dims(&b, node->ins[1], NULL);
    status = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s of %s [%s ] and %s [%s ]: %s",
                       node->op->name, node->ins[0]->name, weft_text_get(&a), node->ins[1]->name,
                       weft_text_get(&b), want);
    weft_text_release(&a);
    weft_text_release(&b);
    return status;
}

/* Writes the rule and checks what the kernel relies on: the shared dims, in one order, are the last
 * (tail) or first dims of either operand. */
static weft_status rule_by_names(const weft_node *node, bool tail_a, bool tail_b, weft_text *rule,
                                 weft_error *err)
{
    const weft_value *a = node->ins[0], *b = node->ins[1];
    int shared = 0;

    for (int d = 0; d < a->n_dims; d++)
        shared += find_dim(b, a->dims[d].name) >= 0;
    if (!shared)
        return misfit(
            node, "no dim name in common; the dims to be contracted must have the same names", err);
    for (int k = 0; k < shared; k++) {
        const weft_dim *da = &a->dims[tail_a ? a->n_dims - shared + k : k];
        const weft_dim *db = &b->dims[tail_b ? b->n_dims - shared + k : k];
        if (strcmp(da->name, db->name) != 0)
            return misfit(node,
                          tail_b ? "the common dims must be the last of both"
                                 : "the common dims must stand together, in the same order",
                          err);
        if (da->size != db->size)
            return misfit(node, "a common dim has two sizes", err);
    }
    print_dims(rule, a, NULL);
    weft_text_add(rule, ",");
    print_dims(rule, b, NULL);
    weft_text_add(rule, " ->");
    print_dims(rule, a, b);
    print_dims(rule, b, a);
    return WEFT_OK;
}

static weft_status linear_rule(const weft_node *node, weft_text *rule, weft_error *err)
{
    return rule_by_names(node, true, true, rule, err);
}

static weft_status linear_dx_rule(const weft_node *node, weft_text *rule, weft_error *err)
{
    return rule_by_names(node, true, false, rule, err);
}

static weft_status linear_dw_rule(const weft_node *node, weft_text *rule, weft_error *err)
{
    return rule_by_names(node, false, false, rule, err);
}

/* ---- kernels ---- */

/* An operand seen as a matrix: element (row, k) at row * rows + k * step. */
typedef struct matrix {
    const weft_tensor *t;
    int64_t rows, step;
} matrix;

static double dot(matrix a, int64_t i, matrix b, int64_t j, int64_t n)
{
    double sum = 0.0;
    int64_t pa = i * a.rows, pb = j * b.rows;
    if (a.t->dtype == WEFT_F64 && b.t->dtype == WEFT_F64) {
        const double *x = a.t->data, *y = b.t->data;
        for (int64_t k = 0; k < n; k++)
            sum += x[pa + k * a.step] * y[pb + k * b.step];
    } else if (a.t->dtype == WEFT_F32 && b.t->dtype == WEFT_F32) {
        const float *x = a.t->data, *y = b.t->data;
        for (int64_t k = 0; k < n; k++)
            sum += (double)x[pa + k * a.step] * (double)y[pb + k * b.step];
    } else {
        for (int64_t k = 0; k < n; k++)
            sum += op_get(a.t, pa + k * a.step) * op_get(b.t, pb + k * b.step);
    }
    return sum;
}

/* result[i][j] = sum over k < n of a[i][k] b[j][k] */
static weft_status product(const weft_call *call, matrix a, int64_t rows, matrix b, int64_t cols,
                           int64_t n)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            op_put(call, i * cols + j, dot(a, i, b, j, n));
    return WEFT_OK;
}

/* How many dims the operands share: what both have and the result has not. */
static int shared_dims(const weft_call *call)
{
    return (call->ins[0].n_dims + call->ins[1].n_dims - call->outs[0].n_dims) / 2;
}

static weft_status linear_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0], *w = &call->ins[1];
    int c = shared_dims(call);
    int64_t n = op_product(x, x->n_dims - c, x->n_dims);
    int64_t rows = op_product(x, 0, x->n_dims - c), cols = op_product(w, 0, w->n_dims - c);

    (void)err;
    return product(call, (matrix){x, n, 1}, rows, (matrix){w, n, 1}, cols, n);
}

static weft_status linear_dx_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *dy = &call->ins[0], *w = &call->ins[1];
    int m = shared_dims(call);
    int64_t n = op_product(w, 0, m);
    int64_t rows = op_product(dy, 0, dy->n_dims - m), cols = op_product(w, m, w->n_dims);

    (void)err;
    return product(call, (matrix){dy, n, 1}, rows, (matrix){w, 1, cols}, cols, n);
}

static weft_status linear_dw_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *dy = &call->ins[0], *x = &call->ins[1];
    int l = shared_dims(call);
    int64_t n = op_product(dy, 0, l);
    int64_t rows = op_product(dy, l, dy->n_dims), cols = op_product(x, l, x->n_dims);

    (void)err;
    return product(call, (matrix){dy, 1, rows}, rows, (matrix){x, 1, cols}, cols, n);
}

/* 2 M N K; the last `shared` dims of operand 0, or (dw) its first, are contracted. */
static double flops(const weft_call *call, bool tail)
{
    const weft_tensor *a = &call->ins[0];
    int shared = shared_dims(call);
    int64_t n = tail ? op_product(a, a->n_dims - shared, a->n_dims) : op_product(a, 0, shared);
    return 2.0 * (double)weft_tensor_count(&call->outs[0]) * (double)n;
}

static double linear_flops(const weft_call *call)
{
    return flops(call, true);
}

static double linear_dw_flops(const weft_call *call)
{
    return flops(call, false);
}

const weft_op ops_linear = {
    .name = "linear",
    .summary = "x w^T",
    .family = "linear",
    .linear = "0, 1",
    .grad = (const char *const[]){"0: linear_dx dy 1", "1: linear_dw dy 0", NULL},
    .flags = WEFT_OP_HALF | WEFT_OP_HALF_WEIGHT | WEFT_OP_MATMUL,
    .plain = linear_plain,
    .flops = linear_flops,
    .make_rule = linear_rule,
};

const weft_op ops_linear_dx = {
    .name = "linear_dx",
    .summary = "dy w",
    .family = "linear",
    .linear = "0, 1",
    .flags = WEFT_OP_HALF | WEFT_OP_HALF_WEIGHT | WEFT_OP_MATMUL,
    .plain = linear_dx_plain,
    .flops = linear_flops,
    .make_rule = linear_dx_rule,
};

const weft_op ops_linear_dw = {
    .name = "linear_dw",
    .summary = "dy^T x",
    .family = "linear",
    .linear = "0, 1",
    .flags = WEFT_OP_MATMUL,
    .plain = linear_dw_plain,
    .flops = linear_dw_flops,
    .make_rule = linear_dw_rule,
};
