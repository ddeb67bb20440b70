/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of float8 share. A linear becomes
 *
 *     x -> amax -> scale -> quantise -\
 *     w -> amax -> scale -> quantise --> float8_linear
 *
 * and its gradients the like. A scale is one number for a tensor (tensorwise, delayed) or one for
 * every row of a product's operand (rowwise); which dims it keeps is the attribute `keep` of what
 * makes it, by names. */
#ifndef FLOAT8_H
#define FLOAT8_H

#include <weft/weft.h>

typedef enum f8_recipe {
    F8_TENSORWISE,
    F8_DELAYED,
    F8_ROWWISE,
    F8_ROWWISE_GW_HP,
    F8_RECIPES
} f8_recipe;

extern const char *const f8_recipes[]; /* their names, NULL-ended */

/* Operands of float8_linear. */
enum {
    F8_X,
    F8_W,
    F8_X_SCALE,
    F8_W_SCALE,
    F8_BACK_SCALE /* which only the backward reads: delayed, that of dy; rowwise, that of the
                     weight's columns; gw_hp, that of the whole weight; tensorwise: there is none */
};

typedef struct f8_names {
    char text[WEFT_MAX_DIMS * 32];
} f8_names;

/* ---- build.c ---- */

/* Dims of a that b does not have (shared: that it has), by names. */
void f8_dims(const weft_value *a, const weft_value *b, bool shared, f8_names *out);
/* The value that a gather, casts and redistributes of w begin with. */
weft_value *f8_stored(weft_value *w);

/* Where nodes are added, and how scales are made. */
typedef struct f8_build {
    weft_graph *g;
    bool backward, power_of_two;
} f8_build;

/* The builders give what is there already, if it is made alike and on the same side of the
 * backward. history: NULL, or the state that will remember the maximum. */
weft_value *f8_amax(const f8_build *b, weft_value *x, const char *keep, const char *history);
weft_value *f8_scale(const f8_build *b, weft_value *amax, weft_dtype dtype);
weft_value *f8_quantise(const f8_build *b, weft_value *x, weft_value *scale, weft_dtype dtype);
/* The largest magnitude of what x is a part of: the head is cut into as many parts as a device
 * likes, and no number may depend on that. */
weft_value *f8_whole_amax(const f8_build *b, weft_value *x, const char *history);
/* The three in turn; *scale receives the second. */
weft_value *f8_narrow(const f8_build *b, weft_value *x, const char *keep, weft_dtype dtype,
                      weft_value **scale);
/* The scale of a weight, made from what is stored, once a step. */
weft_value *f8_weight_scale(const f8_build *b, weft_value *w, const char *keep);
bool f8_is(const weft_node *n, const weft_op *op);
/* Is it of one of the head's parts? Those run one after the other, forward and backward, so that no
 * number of all gradients of logits is known before the first of them is read. */
static inline bool f8_is_part(const weft_node *n)
{
    return n->chunk >= 0;
}

/* ---- ops.c, products.c, backward.c, history.c, cpu.c ---- */

extern const weft_op f8_op_amax, f8_op_scale, f8_op_quantise, f8_op_linear, f8_op_linear_part,
    f8_op_linear_rows, f8_op_linear_dx, f8_op_linear_dw, f8_op_history;
extern const weft_op *const f8_ops[];
extern const weft_kernel f8_cpu_kernels[];

/* joined.c: what makes an activation and what narrows it, at once. */
#define F8_JOINED(X)                                                                               \
    X(add_rms_norm_rows)                                                                           \
    X(add_rms_norm_amax)                                                                           \
    X(add_rms_norm)                                                                                \
    X(rms_norm_rows)                                                                               \
    X(rms_norm_amax)                                                                               \
    X(rms_norm)                                                                                    \
    X(silu_mul_dx_amax)                                                                            \
    X(silu_mul_rows)                                                                               \
    X(silu_mul_amax)                                                                               \
    X(silu_mul)                                                                                    \
    X(quantise_rows)                                                                               \
    X(quantise_amax)
#define F8_DECLARE(op) extern const weft_op f8_op_##op;
F8_JOINED(F8_DECLARE)
#undef F8_DECLARE

/* Is it a dtype of products' operands? */
static inline bool f8_is_operand(weft_dtype dtype)
{
    return dtype == WEFT_F8E4M3 || dtype == WEFT_F8E5M2;
}

/* Does the call want hardware, where there is none? */
weft_status f8_check_emulates(const weft_call *call, weft_error *err);
weft_status f8_differentiate(weft_backward *b, const weft_node *n, weft_value *const *dys,
                             weft_value **dxs, weft_error *err);

/* A product as matrices: result[i][j] = sum over k < n of a[i][k] b[j][k], element (row, k) of an
 * operand at row * rows + k * step. */
typedef struct f8_product {
    int64_t rows, columns, n;
    int64_t a_row, a_step, b_row, b_step;
} f8_product;

f8_product f8_product_of(const weft_call *call);

/* ---- pass.c, history.c ---- */

/* Is every word of recipe_of one? */
weft_status f8_check_recipes(const weft_params *p, weft_error *err);
void f8_early(void *self, weft_graph *g);
void f8_late(void *self, weft_graph *g);
void f8_placed(void *self, weft_graph *g);
void f8_joint(void *self, weft_graph *g);
/* The two states of a tensor under delayed scaling, added by the first call; the scale. name: of
 * the maxima's, into out. */
weft_value *f8_history(weft_graph *g, const weft_params *p, const char *weight, const char *which,
                       char *name, size_t size);

#endif
