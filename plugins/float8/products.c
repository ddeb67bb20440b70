/* SPDX-License-Identifier: Apache-2.0 */
/* Products of two values in 8 bits, with their scales: result = (sum of a b) / (scale of a's row,
 * scale of b's). Rules as the core's linear has, by dim names. */
#include "float8.h"

#include <string.h>

static void print_dims(weft_text *text, const weft_value *v, const weft_value *without)
{
    for (int d = 0; d < v->n_dims; d++)
        if (!without || weft_value_dim(without, v->dims[d].name) < 0)
            weft_text_print(text, " %s", v->dims[d].name);
}

/* a, b, their scales and what else there is -> what they do not share. */
static weft_status rule(const weft_node *node, weft_text *text, weft_error *err)
{
    (void)err;
    for (int i = 0; i < node->n_ins; i++) {
        weft_text_add(text, i ? ", " : ""); /* a blank is an operand without dims */
        print_dims(text, node->ins[i], NULL);
    }
    weft_text_add(text, " ->");
    print_dims(text, node->ins[0], node->ins[1]);
    print_dims(text, node->ins[1], node->ins[0]);
    return WEFT_OK;
}

static weft_status infer(weft_graph *graph, weft_node *node, weft_error *err)
{
    weft_value *out = node->outs[0];
    (void)err;
    out->n_dims = 0;
    for (int i = 0; i < 2; i++)
        for (int d = 0; d < node->ins[i]->n_dims; d++)
            if (weft_value_dim(node->ins[1 - i], node->ins[i]->dims[d].name) < 0)
                out->dims[out->n_dims++] = node->ins[i]->dims[d];
    out->dtype = weft_graph_dtype(graph);
    return WEFT_OK;
}

static int64_t product(const weft_tensor *t, int from, int to)
{
    int64_t n = 1;
    for (int d = from; d < to; d++)
        n *= t->size[d];
    return n;
}

f8_product f8_product_of(const weft_call *call)
{
    const weft_tensor *a = &call->ins[0], *b = &call->ins[1];
    int shared = (a->n_dims + b->n_dims - call->outs[0].n_dims) / 2;
    bool dx = strcmp(call->op->name, f8_op_linear_dx.name) == 0,
         dw = strcmp(call->op->name, f8_op_linear_dw.name) == 0;
    int a_at = dw ? 0 : a->n_dims - shared, b_at = dx || dw ? 0 : b->n_dims - shared;
    f8_product p = {.n = product(a, a_at, a_at + shared)};
    p.rows = dw ? product(a, shared, a->n_dims) : product(a, 0, a_at);
    p.columns = b_at ? product(b, 0, b_at) : product(b, shared, b->n_dims);
    p.a_row = dw ? 1 : p.n;
    p.a_step = dw ? p.rows : 1;
    p.b_row = dx || dw ? 1 : p.n;
    p.b_step = dx || dw ? p.columns : 1;
    return p;
}

weft_status f8_check_emulates(const weft_call *call, weft_error *err)
{
    if (strcmp(weft_call_text(call, "emulate"), "no") != 0)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "[float8] emulate = no: this device has no kernel that multiplies in 8 bits; "
                     "set emulate = auto, or list a device that has one");
}

/* Of what is in 8 bits the table itself is asked: a product reads each element many times. */
static double element(const weft_tensor *t, const float *values, int64_t i)
{
    return values ? (double)values[((const uint8_t *)t->data)[i]] : weft_tensor_get(t, i);
}

static weft_status product_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *a = &call->ins[0], *b = &call->ins[1], *out = &call->outs[0];
    const weft_tensor *of_a = &call->ins[2], *of_b = &call->ins[3];
    const float *as = weft_f8_values(a->dtype), *bs = weft_f8_values(b->dtype);
    f8_product p = f8_product_of(call);
    weft_status s = f8_check_emulates(call, err);
    for (int64_t i = 0; i < p.rows && !s; i++)
        for (int64_t j = 0; j < p.columns; j++) {
            double sum = 0, scale = weft_tensor_get(of_a, of_a->n_dims ? i : 0) *
                                    weft_tensor_get(of_b, of_b->n_dims ? j : 0);
            for (int64_t k = 0; k < p.n; k++)
                sum += element(a, as, i * p.a_row + k * p.a_step) *
                       element(b, bs, j * p.b_row + k * p.b_step);
            int64_t at = i * p.columns + j;
            weft_tensor_set(out, at,
                            sum / scale + (call->accumulate ? weft_tensor_get(out, at) : 0));
        }
    return s;
}

static double flops(const weft_call *call)
{
    f8_product p = f8_product_of(call);
    return 2.0 * (double)p.rows * (double)p.columns * (double)p.n;
}

const weft_op f8_op_linear = {
    .name = "float8_linear",
    .summary = "x w^T of values in 8 bits and their scales",
    .family = "linear",
    .flags = WEFT_OP_HALF | WEFT_OP_MATMUL | WEFT_OP_ROUNDS,
    .make_rule = rule,
    .attrs = "recipe, power_of_two, emulate, history",
    .infer = infer,
    .plain = product_plain,
    .flops = flops,
    .grad_of = "0 1",
    .grad_reads = "all",
    .differentiate = f8_differentiate,
};

/* Of a part of the head, where dw may have to read what x was narrowed from. */
const weft_op f8_op_linear_part = {
    .name = "float8_linear_part",
    .summary = "float8_linear of a part of the head",
    .family = "linear",
    .flags = WEFT_OP_HALF | WEFT_OP_MATMUL | WEFT_OP_ROUNDS,
    .make_rule = rule,
    .attrs = "recipe, power_of_two, emulate, history",
    .infer = infer,
    .plain = product_plain,
    .flops = flops,
    .grad_of = "0 1",
    .grad_reads = "all 0.0",
    .differentiate = f8_differentiate,
};

/* Rowwise the other two products need other scales, so what was quantised is read again. */
const weft_op f8_op_linear_rows = {
    .name = "float8_linear_rows",
    .summary = "x w^T of values in 8 bits, with a scale for every row of either",
    .family = "linear",
    .flags = WEFT_OP_HALF | WEFT_OP_MATMUL | WEFT_OP_ROUNDS,
    .make_rule = rule,
    .attrs = "recipe, power_of_two, emulate, history",
    .infer = infer,
    .plain = product_plain,
    .flops = flops,
    .grad_of = "0 1",
    .grad_reads = "4 0.0 1.0",
    .differentiate = f8_differentiate,
};

const weft_op f8_op_linear_dx = {
    .name = "float8_linear_dx",
    .summary = "dy w of values in 8 bits and their scales",
    .family = "linear",
    .flags = WEFT_OP_HALF | WEFT_OP_MATMUL,
    .make_rule = rule,
    .attrs = "recipe, power_of_two, emulate, history",
    .infer = infer,
    .plain = product_plain,
    .flops = flops,
};

const weft_op f8_op_linear_dw = {
    .name = "float8_linear_dw",
    .summary = "dy^T x of values in 8 bits and their scales",
    .family = "linear",
    .flags = WEFT_OP_MATMUL,
    .make_rule = rule,
    .attrs = "recipe, power_of_two, emulate, history",
    .infer = infer,
    .plain = product_plain,
    .flops = flops,
};
