/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of a linear in 8 bits, by recipe. */
#include "float8.h"

#include <string.h>

typedef struct backward {
    f8_build build;
    weft_backward *b;
    const weft_node *n;
    weft_value *dy, **dxs;
    weft_value *x, *w; /* in 8 bits, as the forward read them */
} backward;

static weft_value *saved(const backward *c, int operand)
{
    return weft_backward_saved(c->b, c->n->ins[operand]);
}

/* What an operand was quantised from. */
static weft_value *wide(const backward *c, int operand)
{
    const weft_value *q = weft_value_before_moves(c->n->ins[operand]);
    if (f8_is(q->node, &f8_op_quantise))
        return weft_backward_saved(c->b, q->node->ins[0]);
    return weft_graph_fail(c->build.g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                           "%s: operand %d is %s, which another pass has put in the place of a "
                           "quantised value",
                           c->n->outs[0]->name, operand, q->name);
}

/* A product of the gradient with another operand, in 8 bits. */
static void multiply(const backward *c, const char *op, int operand, weft_value *q,
                     weft_value *scale, weft_value *other, weft_value *others_scale)
{
    weft_value *ins[] = {q, other, scale, others_scale};
    if (weft_backward_wants(c->b, operand))
        c->dxs[operand] = weft_backward_add(c->b, op, operand, 4, ins, NULL);
}

/* Tensorwise and delayed: one quantised gradient for both products. */
static void whole(const backward *c)
{
    weft_value *scale, *q;
    const char *history = weft_node_text(c->n, "history");
    if (*history) {
        f8_amax(&c->build, c->dy, "", history);
        scale = saved(c, F8_BACK_SCALE);
        q = f8_quantise(&c->build, c->dy, scale, WEFT_F8E5M2);
    } else {
        q = f8_narrow(&c->build, c->dy, "", WEFT_F8E5M2, &scale);
    }
    if (weft_backward_wants(c->b, F8_X))
        multiply(c, f8_op_linear_dx.name, F8_X, q, scale, saved(c, F8_W), saved(c, F8_W_SCALE));
    if (weft_backward_wants(c->b, F8_W))
        multiply(c, f8_op_linear_dw.name, F8_W, q, scale, saved(c, F8_X), saved(c, F8_X_SCALE));
}

/* dx = dy w: a scale for every row of dy, and for every column of w. */
static void rows_of_dx(const backward *c)
{
    f8_names keep;
    weft_value *scale, *q, *of_w = saved(c, F8_BACK_SCALE);
    if (!weft_backward_wants(c->b, F8_X))
        return;
    f8_dims(c->dy, c->w, false, &keep);
    q = f8_narrow(&c->build, c->dy, keep.text, WEFT_F8E4M3, &scale);
    multiply(c, f8_op_linear_dx.name, F8_X, q, scale,
             f8_quantise(&c->build, wide(c, F8_W), of_w, WEFT_F8E4M3), of_w);
}

/* dw = dy^T x: a scale for every column of dy and of x, over all tokens of the micro-batch. */
static void columns_of_dw(const backward *c)
{
    f8_names keep;
    weft_value *scale, *x_scale, *q, *x;
    if (!weft_backward_wants(c->b, F8_W))
        return;
    f8_dims(c->dy, c->x, false, &keep);
    q = f8_narrow(&c->build, c->dy, keep.text, WEFT_F8E4M3, &scale);
    f8_dims(c->x, c->dy, false, &keep);
    x = f8_narrow(&c->build, wide(c, F8_X), keep.text, WEFT_F8E4M3, &x_scale);
    multiply(c, f8_op_linear_dw.name, F8_W, q, scale, x, x_scale);
}

static void dw_in_high_precision(const backward *c)
{
    weft_value *ins[] = {c->dy, NULL};
    if (!weft_backward_wants(c->b, F8_W))
        return;
    ins[1] = wide(c, F8_X);
    c->dxs[F8_W] = weft_backward_add(c->b, "linear_dw", F8_W, 2, ins, NULL);
}

weft_status f8_differentiate(weft_backward *b, const weft_node *n, weft_value *const *dys,
                             weft_value **dxs, weft_error *err)
{
    const char *recipe = weft_node_text(n, "recipe");
    const backward c = {
        .build = {weft_backward_graph(b), true, weft_node_int(n, "power_of_two") != 0},
        .b = b,
        .n = n,
        .dy = dys[0],
        .dxs = dxs,
        .x = n->ins[F8_X],
        .w = n->ins[F8_W]};
    (void)err;
    if (strcmp(recipe, f8_recipes[F8_ROWWISE]) == 0) {
        rows_of_dx(&c);
        columns_of_dw(&c);
    } else if (strcmp(recipe, f8_recipes[F8_ROWWISE_GW_HP]) == 0) {
        rows_of_dx(&c);
        dw_in_high_precision(&c);
    } else {
        whole(&c);
    }
    return weft_graph_status(c.build.g);
}
