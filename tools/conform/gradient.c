/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients against finite differences: a graph of the one op, with its float operands as
 * parameters and a weighted sum of its results as loss, is differentiated as any model is, so that
 * statements and functions are tried alike. */
#include "conform.h"

#include "compile/graph/grad.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/random.h>

/* ---- an op of our own: products by element ---- */

static weft_status product_plain(const weft_call *call, weft_error *err)
{
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++) {
        double x = weft_tensor_get(&call->ins[0], i) * weft_tensor_get(&call->ins[1], i);
        weft_tensor_set(&call->outs[0], i,
                        call->accumulate ? weft_tensor_get(&call->outs[0], i) + x : x);
    }
    return WEFT_OK;
}

static const weft_op product = {.name = "conform_product",
                                .summary = "the product of each element",
                                .rule = "*, * -> *",
                                .linear = "0, 1",
                                .grad = (const char *const[]){"0: conform_product dy 1", NULL},
                                .plain = product_plain};

weft_status conform_add_ops(weft_ops *ops, weft_error *err)
{
    return weft_map_set(&ops->by_name, &ops->pool, product.name, strlen(product.name),
                        (void *)(uintptr_t)&product)
               ? WEFT_OK
               : weft_fail_memory(err);
}

/* ---- the graph ---- */

typedef struct trial {
    const conform *c;
    const conform_use *u;
    weft_graph *g;
    weft_pool pool;
    weft_value *parameter[WEFT_RULE_MAX_PARTS]; /* by operand; NULL: not differentiated */
    conform_values values;
    weft_tensor *given; /* by value id: what a source holds */
} trial;

/* Does the op say what the gradient of this operand is? */
static bool has_gradient(const weft_node *n, int operand)
{
    return weft_grad_covers(n, operand);
}

static weft_value *add_source(trial *t, const char *op, const char *name, int i,
                              const weft_value *like, const weft_tensor *holds)
{
    weft_graph *g = t->g;
    const char *own = weft_pool_format(&g->pool, "%s%d", name, i);
    const weft_node_spec spec = {.op = weft_ops_find(g->config.ops, op),
                                 .name = own,
                                 .n_outs = 1,
                                 .scope =
                                     strcmp(op, "parameter") ? WEFT_MICRO_BATCH : WEFT_STEP_BEGIN};
    weft_node *n = own ? weft_node_new(g, &spec) : NULL;
    if (!n)
        return NULL;
    weft_value *v = n->outs[0];
    v->n_dims = like->n_dims;
    memcpy(v->dims, like->dims, sizeof v->dims);
    v->dtype = weft_dtype_is_float(like->dtype) ? WEFT_F64 : like->dtype;
    if (v->id < 256 && holds)
        t->given[v->id] = *holds;
    return v;
}

/* Operand i: itself, or a parameter plus an input, so that it is no weight, which would be computed
 * once a step. */
static weft_value *add_operand(trial *t, int i)
{
    weft_graph *g = t->g;
    const weft_node *n = t->u->node;
    const weft_value *like = n->ins[i];
    weft_tensor zero = conform_new(&t->u->ins[i], &t->pool);
    if (!has_gradient(n, i) || !weft_dtype_is_float(like->dtype))
        return add_source(t, "input", "operand", i, like, &t->u->ins[i]);
    weft_value *p = add_source(t, "parameter", "parameter", i, like, &t->u->ins[i]);
    weft_value *none = add_source(t, "input", "nothing", i, like, &zero);
    if (!p || !none ||
        !weft_graph_push(g, (void ***)&g->parameters, &g->n_parameters, &g->parameters_capacity, p))
        return NULL;
    t->parameter[i] = p;
    return weft_add2(g, "add", NULL, p, none);
}

static weft_value *add_loss(trial *t, const weft_node *made)
{
    weft_value *loss = NULL;
    for (int r = 0; r < made->n_outs; r++) {
        if (!weft_dtype_is_float(made->outs[r]->dtype) || !weft_grad_takes(t->u->node->op, r))
            continue;
        weft_tensor weights = conform_new(&t->u->outs[r], &t->pool);
        weights.dtype = WEFT_F64;
        conform_randomise(&weights, (uint64_t)r + 61);
        weft_value *w = add_source(t, "input", "weights", r, made->outs[r], &weights);
        weft_value *term = weft_add1(t->g, "sum", NULL,
                                     weft_add2(t->g, "conform_product", NULL, made->outs[r], w));
        loss = loss ? weft_add2(t->g, "add", NULL, loss, term) : term;
    }
    return loss;
}

static weft_status build(trial *t, const weft_ops *ops, weft_error *err)
{
    const weft_node *n = t->u->node;
    weft_graph_config config = {
        .mode = WEFT_MODE_TRAIN, .ops = ops, .dtype = WEFT_F64, .sizes = t->u->graph->config.sizes};
    weft_value *ins[WEFT_RULE_MAX_PARTS];
    weft_status s = weft_graph_create(&config, &t->g, err);
    if (s)
        return s;
    t->given = weft_pool_alloc(&t->pool, 256 * sizeof *t->given);
    for (int i = 0; t->given && i < n->n_ins; i++)
        ins[i] = add_operand(t, i);
    weft_node_spec spec = {.op = n->op,
                           .n_ins = n->n_ins,
                           .ins = ins,
                           .n_outs = n->n_outs,
                           .attrs = n->attrs,
                           .n_attrs = n->n_attrs};
    if (n->like)
        spec.like = add_source(t, "input", "like", 0, n->like, NULL);
    weft_node *made = weft_graph_status(t->g) ? NULL : weft_graph_add_node(t->g, &spec);
    t->g->loss = made ? add_loss(t, made) : NULL;
    if (t->g->loss && !weft_graph_place(t->g))
        weft_graph_differentiate(t->g);
    if (weft_graph_status(t->g))
        return weft_fail(err, weft_graph_status(t->g), WEFT_NOWHERE, "%s",
                         weft_error_text(weft_graph_error(t->g)));
    return WEFT_OK;
}

/* ---- numbers ---- */

/* Computes the nodes up to `last` from what sources hold. */
static weft_status compute(trial *t, const weft_node *last, weft_pool *pool, weft_error *err)
{
    weft_status s = WEFT_OK;
    t->values.of = weft_pool_alloc(pool, ((size_t)t->g->n_values + 1) * sizeof *t->values.of);
    if (!t->values.of)
        return weft_fail_memory(err);
    for (const weft_node *n = t->g->first; n && !s; n = n == last ? NULL : n->next) {
        int id = n->n_outs ? n->outs[0]->id : 0;
        if (id < 256 && t->given[id].data)
            t->values.of[id] = t->given[id];
        else
            s = conform_compute(t->g, n, &t->values, pool, err);
    }
    return s;
}

/* The loss where operand's parameter is moved by h times the direction. */
static double loss_at(trial *t, int operand, const weft_tensor *direction, double h,
                      weft_error *err)
{
    weft_pool pool = {0};
    weft_tensor *x = &t->given[t->parameter[operand]->id], was = *x;
    *x = conform_copy(&was, &pool);
    for (int64_t i = 0; x->data && i < weft_tensor_count(x); i++)
        weft_tensor_set(x, i, weft_tensor_get(&was, i) + h * weft_tensor_get(direction, i));
    double loss = NAN;
    if (x->data && !compute(t, t->g->loss->node, &pool, err))
        loss = weft_tensor_get(&t->values.of[t->g->loss->id], 0);
    *x = was;
    weft_pool_release(&pool);
    return loss;
}

/* noise: how far rounding of the loss may be from it. */
static double slope(trial *t, int operand, const weft_tensor *direction, double step, double *noise,
                    weft_error *err)
{
    static const double at[] = {-2, -1, 1, 2}, factor[] = {1, -8, 8, -1};
    double sum = 0, largest = 0;
    for (int k = 0; k < 4; k++) {
        const double loss = loss_at(t, operand, direction, at[k] * step, err);
        sum += factor[k] * loss;
        largest = fmax(largest, fabs(loss));
    }
    *noise = 4 * DBL_EPSILON * largest / step;
    return sum / (12 * step);
}

static double dot(const weft_tensor *a, const weft_tensor *b, double *size)
{
    double sum = 0;
    *size = 0;
    for (int64_t i = 0; i < weft_tensor_count(a); i++) {
        double x = weft_tensor_get(a, i) * weft_tensor_get(b, i);
        sum += x;
        *size += fabs(x);
    }
    return sum;
}

/* One direction: all elements at once, or one of them alone. Near a kink of the function another
 * step decides. */
static bool agrees(trial *t, int operand, const weft_tensor *gradient, const weft_tensor *direction,
                   double *want, double *have)
{
    static const double steps[] = {1e-4, 1e-3, 1e-6};
    double size, noise;
    *have = dot(gradient, direction, &size);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        weft_error err = {0};
        *want = slope(t, operand, direction, steps[i], &noise, &err);
        weft_error_release(&err);
        if (fabs(*want - *have) <= 1e-5 * size + 1e-5 * fabs(*want) + 1e-7 + noise)
            return true;
    }
    return false;
}

static void check_operand(trial *t, int operand, const weft_tensor *gradient)
{
    enum { WAYS = 2, ELEMENTS = 4 };
    const weft_op *op = t->u->node->op;
    int64_t n = weft_tensor_count(gradient);
    for (int k = 0; k < WAYS + ELEMENTS && n > 0; k++) {
        double want, have;
        weft_pool pool = {0};
        weft_tensor direction = conform_new(gradient, &pool);
        int64_t at = (int64_t)(weft_random_bits(5, (uint64_t)operand, (uint64_t)k) % (uint64_t)n);
        if (k < WAYS)
            conform_randomise(&direction, (uint64_t)(100 + k));
        else
            weft_tensor_set(&direction, at, 1);
        bool same = agrees(t, operand, gradient, &direction, &want, &have);
        weft_pool_release(&pool);
        if (same)
            continue;
        char where[64] = "along a random direction";
        if (k >= WAYS)
            snprintf(where, sizeof where, "of element %lld", (long long)at);
        conform_fail(t->c,
                     "op %s: gradient: of operand %d %s it is %.9g, finite differences say %.9g; "
                     "mend what gives the gradient",
                     op->name, operand, where, have, want);
        return;
    }
}

static void check_all(trial *t)
{
    weft_error err = {0};
    weft_tensor gradients[WEFT_RULE_MAX_PARTS];
    const weft_op *op = t->u->node->op;
    int checked = 0;
    if (compute(t, NULL, &t->pool, &err)) {
        conform_fail(t->c, "op %s: gradient: %s", op->name, weft_error_text(&err));
        weft_error_release(&err);
        return;
    }
    for (int i = 0; i < t->u->node->n_ins; i++)
        if (t->parameter[i] && t->parameter[i]->gradient)
            gradients[i] = t->values.of[t->parameter[i]->gradient->id];
    for (int i = 0; i < t->u->node->n_ins; i++)
        if (t->parameter[i] && t->parameter[i]->gradient) {
            check_operand(t, i, &gradients[i]);
            checked++;
        }
    conform_count(t->c, "gradients", checked);
}

void conform_check_gradient(const conform *c, const conform_use *u, const weft_ops *ops)
{
    const weft_op *op = u->node->op;
    weft_error err = {0};
    if (op->flags & WEFT_OP_ROUNDS) {
        conform_skip(c, "op %s: gradient: it rounds, and differences do not tell its gradient",
                     op->name);
        return;
    }
    trial *t = weft_alloc_zero(1, sizeof *t);
    if (!t || (!op->grad && !op->differentiate))
        goto done;
    conform_now(c, "op %s: gradient", op->name);
    t->c = c;
    t->u = u;
    if (build(t, ops, &err))
        conform_fail(c, "op %s: gradient: %s", op->name, weft_error_text(&err));
    else if (t->g->loss)
        check_all(t);
done:
    if (t) {
        weft_graph_destroy(t->g);
        weft_pool_release(&t->pool);
    }
    weft_free(t);
    weft_error_release(&err);
}
