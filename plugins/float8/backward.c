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

static void dw_in_high_precision(const backward *c)
{
    weft_value *ins[] = {c->dy, NULL};
    if (!weft_backward_wants(c->b, F8_W))
        return;
    ins[1] = wide(c, F8_X);
    c->dxs[F8_W] = weft_backward_add(c->b, "linear_dw", F8_W, 2, ins, NULL);
}

/* ---- the head ---- */

/* The maker of v, if it is of this op. */
static const weft_node *made_by(weft_value *v, const char *op)
{
    const weft_node *n = v ? weft_value_before_moves(v)->node : NULL;
    return n && weft_node_in(n, op) ? n : NULL;
}

/* The operand of v's maker, if that is of this op. */
static weft_value *through(weft_value *v, const char *op, int operand)
{
    const weft_node *n = made_by(v, op);
    return n ? n->ins[operand] : NULL;
}

/* Where dy is what cross-entropy alone makes of logits, (softmax - 1 at the label) times the
 * gradient of the token's loss: that gradient, one number for all tokens of all parts. No element
 * of dy is larger. NULL: it is not, or not known to be. */
static weft_value *bound_of(weft_value *dy)
{
    const weft_node *sum = made_by(dy, "add");
    if (!sum || sum->n_ins != 2)
        return NULL;
    int pick = made_by(sum->ins[0], "pick_dx") ? 0 : 1;
    weft_value *of_pick = through(through(sum->ins[pick], "pick_dx", 1), "nll_dt", 1),
               *of_sum = through(through(sum->ins[1 - pick], "sumexp_dx", 2), "nll_de", 2);
    weft_value *a = through(of_pick, "broadcast", 0), *b = through(of_sum, "broadcast", 0);
    return a && b && weft_value_before_moves(a) == weft_value_before_moves(b) ? a : NULL;
}

/* A gradient of which nothing is known: dx has a scale for every token, dw, a sum over tokens of
 * all parts, is not in 8 bits. */
static void part(const backward *c)
{
    f8_names keep;
    weft_value *scale, *q;
    if (weft_backward_wants(c->b, F8_X)) {
        f8_dims(c->dy, c->w, false, &keep);
        q = f8_narrow(&c->build, c->dy, keep.text, WEFT_F8E5M2, &scale);
        multiply(c, f8_op_linear_dx.name, F8_X, q, scale, saved(c, F8_W), saved(c, F8_W_SCALE));
    }
    dw_in_high_precision(c);
}

/* ---- by recipe ---- */

/* Of a part of the head: by what no part's gradient exceeds. */
static weft_value *scale_of_parts(const backward *c)
{
    weft_graph *g = c->build.g;
    weft_value *bound = bound_of(c->dy);
    if (!bound)
        return NULL;
    weft_graph_set_chunk(g, -1);
    weft_value *scale = f8_scale(&c->build, f8_amax(&c->build, bound, "", NULL), WEFT_F8E5M2);
    weft_graph_set_chunk(g, c->n->chunk);
    return scale;
}

/* NULL: there is none for the whole gradient. */
static weft_value *scale_of_dy(const backward *c)
{
    const char *history = weft_node_text(c->n, "history");
    if (f8_is_part(c->n))
        return scale_of_parts(c);
    weft_value *amax = f8_amax(&c->build, c->dy, "", *history ? history : NULL);
    return *history ? saved(c, F8_BACK_SCALE) : f8_scale(&c->build, amax, WEFT_F8E5M2);
}

/* Tensorwise and delayed: one quantised gradient for both products. */
static void whole(const backward *c)
{
    weft_value *scale = scale_of_dy(c), *q;
    if (!scale) {
        part(c);
        return;
    }
    q = f8_quantise(&c->build, c->dy, scale, WEFT_F8E5M2);
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
        if (f8_is_part(n)) /* a column's scale would be of tokens of all parts */
            dw_in_high_precision(&c);
        else
            columns_of_dw(&c);
    } else if (strcmp(recipe, f8_recipes[F8_ROWWISE_GW_HP]) == 0) {
        rows_of_dx(&c);
        dw_in_high_precision(&c);
    } else {
        whole(&c);
    }
    return weft_graph_status(c.build.g);
}
