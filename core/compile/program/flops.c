/* SPDX-License-Identifier: Apache-2.0 */
/* Operations: of every instruction, of a step, and what MFU counts of them. */
#include "compile/graph/grad.h"
#include "compile/program/compiler.h"
#include "host/enter.h"

/* A product runs in the narrowest dtype of what it multiplies: scales and biases beside that do not
 * count. */
weft_dtype weft_product_dtype(const weft_graph *g, const weft_node *n)
{
    weft_dtype narrowest = g->config.dtype;
    for (int i = 0; i < n->n_ins; i++) {
        weft_dtype dtype = n->ins[i]->dtype;
        if (n->ins[i]->n_dims > 1 && weft_dtype_is_float(dtype) &&
            weft_dtype_size(dtype) < weft_dtype_size(narrowest))
            narrowest = dtype;
    }
    return narrowest;
}

double weft_product_passes(const weft_node *n)
{
    const bool pair = weft_node_is(n, WEFT_OP_PAIR); /* each product has the gradients of both */
    int possible = 0, needed = 0;
    for (int i = 0; i < n->n_ins; i++) {
        const int covers = pair ? 1 + (i == 0) : weft_grad_covers(n, i);
        possible += covers;
        needed += n->ins[i]->trains ? covers : 0;
    }
    return possible ? 1 + 2.0 * needed / possible : 1;
}

static void count_product(weft_compiler *c, const weft_node *n, double flops)
{
    c->l->model_flops += flops;
    c->products[weft_product_dtype(c->g, n)] +=
        flops + 1; /* the same where a rank's share is empty */
}

void weft_compile_find_product_dtype(weft_compiler *c)
{
    weft_dtype most = c->g->config.dtype;
    for (int i = 0; i < WEFT_DTYPES; i++)
        if (c->products[i] > c->products[most])
            most = (weft_dtype)i;
    c->l->product_dtype = most;
}

void weft_compile_count(weft_compiler *c, weft_instruction *in, const weft_call *call,
                        weft_part part)
{
    const weft_node *n = in->node;
    double flops = 0, times = weft_part_is_micro(part) ? (double)c->g->config.sizes.micro_batches
                                                       : 1 / (double)n->every;
    if (n->op->flops) {
        const weft_entry entry =
            weft_enter_op(weft_ops_owner(c->g->config.ops, n->op), "flops", n->op->name, NULL);
        flops = n->op->flops(call);
        weft_leave(&entry, WEFT_OK);
    } else {
        for (int i = 0; i < call->n_ins + call->n_outs; i++) {
            double elements = (double)weft_tensor_count(&call->ins[i]);
            flops = elements > flops ? elements : flops;
        }
    }
    in->flops = flops;
    c->l->flops += flops * times;
    if (n->phase == WEFT_FORWARD && (n->op->flags & WEFT_OP_MATMUL))
        count_product(c, n, weft_product_passes(n) * flops * times);
}
