/* SPDX-License-Identifier: Apache-2.0 */
/* x[L.. c..] w[m.. c..] -> y[L.. m..] and its two gradients. Each group may be several dims; each
 * contraction is one strided product. linear_each: the same for each index of a dim that x, w and
 * y have, x[L.. e l.. c..] w[e m.. c..] -> y[L.. e l.. m..]. */
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

/* ---- rules of linear_each: `each` says which dim of operand 0 it is ---- */

/* Are these `count` dims of a, from `from_a` on but for `each`, those of b? */
static bool same_dims(const weft_value *a, int from_a, int each_a, const weft_value *b, int from_b,
                      int each_b, int count)
{
    for (int i = from_a, k = from_b; count > 0; i++, k++, count--) {
        i += i == each_a;
        k += k == each_b;
        if (strcmp(a->dims[i].name, b->dims[k].name) != 0)
            return false;
    }
    return true;
}

/* linear_each: common dims are the last of both; dx: the last of operand 0 and those behind the
 * first of the weight; dw: the first of both. */
typedef enum each_kind { EACH_Y, EACH_DX, EACH_DW } each_kind;

static const char *each_misfit(const weft_node *node, each_kind kind, int shared)
{
    const weft_value *a = node->ins[0], *b = node->ins[1];
    int each = (int)weft_node_int(node, "each"), of_b = kind == EACH_DW ? each : 0;
    if (!weft_node_has(node, "each") || each < 0 || each >= a->n_dims)
        return "attribute `each` names no dim of the first";
    if (of_b >= b->n_dims || strcmp(a->dims[each].name, b->dims[of_b].name) != 0)
        return kind == EACH_DW ? "the dim that is kept must stand at one place in both"
                               : "the dim that is kept must be the first of the weight";
    if (kind != EACH_DW && each >= a->n_dims - shared)
        return "the dim that is kept must stand before those that are contracted";
    if (kind == EACH_Y && shared < 1)
        return "no dim name in common but the one that is kept; the dims to be contracted must "
               "have the same names";
    if (!same_dims(a, kind == EACH_DW ? 0 : a->n_dims - shared, each, b,
                   kind == EACH_Y    ? b->n_dims - shared
                   : kind == EACH_DX ? 1
                                     : 0,
                   of_b, shared))
        return kind == EACH_Y ? "the common dims must be the last of both"
                              : "the common dims must stand together, in the same order";
    for (int d = 0; d < a->n_dims; d++) {
        int other = find_dim(b, a->dims[d].name);
        if (other >= 0 && a->dims[d].size != b->dims[other].size)
            return "a common dim has two sizes";
    }
    return NULL;
}

static weft_status each_rule(const weft_node *node, each_kind kind, weft_text *rule,
                             weft_error *err)
{
    const weft_value *a = node->ins[0], *b = node->ins[1];
    int shared = -1, each = (int)weft_node_int(node, "each");
    for (int d = 0; d < a->n_dims; d++)
        shared += find_dim(b, a->dims[d].name) >= 0;
    const char *wrong = each_misfit(node, kind, shared);
    if (wrong)
        return misfit(node, wrong, err);
    print_dims(rule, a, NULL);
    weft_text_add(rule, ",");
    print_dims(rule, b, NULL);
    weft_text_add(rule, " ->");
    for (int d = 0; d < a->n_dims; d++)
        if (d == each || find_dim(b, a->dims[d].name) < 0)
            weft_text_print(rule, " %s", a->dims[d].name);
    print_dims(rule, b, a);
    return WEFT_OK;
}

static weft_status linear_each_rule(const weft_node *node, weft_text *rule, weft_error *err)
{
    return each_rule(node, EACH_Y, rule, err);
}

static weft_status linear_each_dx_rule(const weft_node *node, weft_text *rule, weft_error *err)
{
    return each_rule(node, EACH_DX, rule, err);
}

static weft_status linear_each_dw_rule(const weft_node *node, weft_text *rule, weft_error *err)
{
    return each_rule(node, EACH_DW, rule, err);
}

/* ---- kernels ---- */

/* An operand seen as a matrix: element (row, k) at row * rows + k * step. */
typedef struct matrix {
    const weft_tensor *t;
    int64_t rows, step;
} matrix;

/* pa, pb: where the first terms are. */
static double dot(matrix a, int64_t pa, matrix b, int64_t pb, int64_t n)
{
    double sum = 0.0;
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
            op_put(call, i * cols + j, dot(a, i * a.rows, b, j * b.rows, n));
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

/* ---- kernels of linear_each ---- */

/* Operand 0 is [outer each inner m]; n: columns of the result. */
typedef struct products {
    int64_t outer, each, inner, m, n;
} products;

static products products_of(const weft_call *call, each_kind kind)
{
    const weft_tensor *a = &call->ins[0], *b = &call->ins[1];
    int at = (int)weft_call_int(call, "each");
    int shared = (a->n_dims + b->n_dims - call->outs[0].n_dims - 1) / 2;
    int rows = kind == EACH_DW ? shared + 1 : a->n_dims - shared;
    products p = {op_product(a, 0, at), a->size[at], op_product(a, at + 1, rows),
                  op_product(a, rows, a->n_dims), 1};
    p.n = kind == EACH_Y    ? op_product(b, 1, b->n_dims - shared)
          : kind == EACH_DX ? op_product(b, 1 + shared, b->n_dims)
                            : op_product(b, rows, b->n_dims);
    return p;
}

/* Every row by the matrix of its `each`: element (column, term) of one at column * rows + term *
 * step. */
static weft_status rows_by_weight(const weft_call *call, each_kind kind)
{
    const products p = products_of(call, kind);
    const matrix a = {&call->ins[0], p.m, 1};
    const matrix w = {&call->ins[1], kind == EACH_Y ? p.m : 1, kind == EACH_Y ? 1 : p.n};
    for (int64_t row = 0; row < p.outer * p.each * p.inner; row++) {
        int64_t from = row / p.inner % p.each * p.m * p.n;
        for (int64_t j = 0; j < p.n; j++)
            op_put(call, row * p.n + j, dot(a, row * a.rows, w, from + j * w.rows, p.m));
    }
    return WEFT_OK;
}

static weft_status linear_each_plain(const weft_call *call, weft_error *err)
{
    (void)err;
    return rows_by_weight(call, EACH_Y);
}

static weft_status linear_each_dx_plain(const weft_call *call, weft_error *err)
{
    (void)err;
    return rows_by_weight(call, EACH_DX);
}

static weft_status linear_each_dw_plain(const weft_call *call, weft_error *err)
{
    const products p = products_of(call, EACH_DW);
    const matrix dy = {&call->ins[0], 1, p.m}, x = {&call->ins[1], 1, p.n};
    (void)err;
    for (int64_t i = 0; i < p.each * p.m * p.n; i++) {
        int64_t e = i / (p.m * p.n), row = i / p.n % p.m, column = i % p.n;
        double sum = 0;
        for (int64_t o = 0; o < p.outer; o++) {
            int64_t from = (o * p.each + e) * p.inner;
            sum += dot(dy, from * p.m + row, x, from * p.n + column, p.inner);
        }
        op_put(call, i, sum);
    }
    return WEFT_OK;
}

static double linear_each_flops(const weft_call *call)
{
    const products p = products_of(call, EACH_Y);
    return 2.0 * (double)weft_tensor_count(&call->outs[0]) * (double)p.m;
}

static double linear_each_dw_flops(const weft_call *call)
{
    const products p = products_of(call, EACH_DW);
    return 2.0 * (double)weft_tensor_count(&call->outs[0]) * (double)(p.outer * p.inner);
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

const weft_op ops_linear_each = {
    .name = "linear_each",
    .summary = "x w^T for each index of a dim that both have",
    .family = "linear",
    .linear = "0, 1",
    .grad = (const char *const[]){"0: linear_each_dx dy 1", "1: linear_each_dw dy 0", NULL},
    .attrs = "each",
    .flags = WEFT_OP_HALF | WEFT_OP_HALF_WEIGHT | WEFT_OP_MATMUL,
    .plain = linear_each_plain,
    .flops = linear_each_flops,
    .make_rule = linear_each_rule,
};

const weft_op ops_linear_each_dx = {
    .name = "linear_each_dx",
    .summary = "dy w for each index of a dim that both have",
    .family = "linear",
    .linear = "0, 1",
    .attrs = "each",
    .flags = WEFT_OP_HALF | WEFT_OP_HALF_WEIGHT | WEFT_OP_MATMUL,
    .plain = linear_each_dx_plain,
    .flops = linear_each_flops,
    .make_rule = linear_each_dx_rule,
};

const weft_op ops_linear_each_dw = {
    .name = "linear_each_dw",
    .summary = "dy^T x for each index of a dim that both have",
    .family = "linear",
    .linear = "0, 1",
    .attrs = "each",
    .flags = WEFT_OP_MATMUL,
    .plain = linear_each_dw_plain,
    .flops = linear_each_dw_flops,
    .make_rule = linear_each_dw_rule,
};
