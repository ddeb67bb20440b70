/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of the checks, and what one use of an op on one rank must do. */
#include "conform.h"

#include "host/enter.h"

#include <math.h>
#include <string.h>
#include <weft/random.h>

/* ---- tensors ---- */

weft_tensor conform_new(const weft_tensor *like, weft_pool *pool)
{
    weft_tensor t = *like;
    t.data = weft_pool_alloc(pool, (size_t)weft_tensor_count(like) * weft_dtype_size(t.dtype) + 16);
    return t;
}

weft_tensor conform_copy(const weft_tensor *from, weft_pool *pool)
{
    weft_tensor t = conform_new(from, pool);
    if (t.data && from->data)
        memcpy(t.data, from->data, (size_t)weft_tensor_count(from) * weft_dtype_size(t.dtype));
    return t;
}

weft_tensor conform_slice(const weft_tensor *t, int d, int64_t lo, int64_t hi, weft_pool *pool)
{
    weft_tensor shape = *t;
    int64_t outer = 1, inner = 1, k = 0;
    for (int i = 0; i < t->n_dims; i++) {
        outer *= i < d ? t->size[i] : 1;
        inner *= i > d ? t->size[i] : 1;
    }
    shape.size[d] = hi - lo;
    shape.lo[d] = t->lo[d] + lo;
    weft_tensor to = conform_new(&shape, pool);
    for (int64_t o = 0; to.data && o < outer; o++)
        for (int64_t p = lo * inner; p < hi * inner; p++)
            weft_tensor_set(&to, k++, weft_tensor_get(t, o * t->size[d] * inner + p));
    return to;
}

void conform_randomise(weft_tensor *t, uint64_t stream)
{
    for (int64_t i = 0; t->data && i < weft_tensor_count(t); i++)
        weft_tensor_set(t, i, weft_normal_inverse(weft_random_uniform(11, stream, (uint64_t)i)));
}

int64_t conform_differ(const weft_tensor *want, const weft_tensor *got, double tolerance)
{
    double scale = 0;
    for (int64_t i = 0; i < weft_tensor_count(want); i++) {
        double x = fabs(weft_tensor_get(want, i));
        scale = isfinite(x) && x > scale ? x : scale;
    }
    scale = scale > 1e-3 ? scale : 1e-3;
    for (int64_t i = 0; i < weft_tensor_count(want); i++) {
        double x = weft_tensor_get(want, i), y = weft_tensor_get(got, i);
        if (x != y && !(isnan(x) && isnan(y)) && !(fabs(x - y) <= tolerance * scale))
            return i;
    }
    return -1;
}

void conform_print_difference(const weft_tensor *want, const weft_tensor *got, int result,
                              int64_t i, weft_text *text)
{
    weft_text_add(text, "shape [");
    for (int d = 0; d < want->n_dims; d++)
        weft_text_print(text, "%s%lld", d ? ", " : "", (long long)want->size[d]);
    weft_text_print(text, "], result %d, element %lld is %.9g, not %.9g", result, (long long)i,
                    weft_tensor_get(got, i), weft_tensor_get(want, i));
}

weft_status conform_watched(const weft_attr_watch *watch, weft_error *err)
{
    if (!watch->key[0])
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                     "it reads the attribute '%s', which the op does not declare, and so gets 0; "
                     "declare it (weft_op.attrs), or mend the name",
                     watch->key);
}

weft_status conform_run(const conform_use *u, const weft_tensor *ins, const weft_tensor *outs,
                        bool accumulate, weft_error *err)
{
    const weft_node *n = u->node;
    weft_attr_watch watch = {""};
    const weft_call call = {.op = n->op,
                            .attrs = n->attrs,
                            .n_attrs = n->n_attrs,
                            .n_ins = n->n_ins,
                            .n_outs = n->n_outs,
                            .ins = ins,
                            .outs = outs,
                            .accumulate = accumulate,
                            .threads = 1,
                            .watch = &watch};
    const char *owner = weft_ops_owner(u->graph->config.ops, n->op);
    const weft_entry entry = weft_enter_op(owner, "plain", n->op->name, err);
    weft_status s = n->op->plain(&call, err);
    return weft_leave(&entry, s ? s : conform_watched(&watch, err));
}

bool conform_ran(const conform *c, const conform_use *u, const char *check, const weft_tensor *ins,
                 const weft_tensor *outs)
{
    weft_error err = {0};
    weft_status s = conform_run(u, ins, outs, false, &err);
    if (s)
        conform_fail(c, "op %s: %s: the plain kernel fails: %s", u->node->op->name, check,
                     weft_error_text(&err));
    weft_error_release(&err);
    return s == WEFT_OK;
}

/* ---- linear groups ---- */

/* Result = f(a) + f(b) where the operands of the group are a + b? */
static void check_group(const conform *c, const conform_use *u, int group, weft_pool *pool)
{
    weft_tensor ins[2][WEFT_RULE_MAX_PARTS], outs[2][WEFT_RULE_MAX_PARTS];
    const weft_node *n = u->node;
    for (int i = 0; i < n->n_ins; i++) {
        ins[0][i] = ins[1][i] = u->ins[i];
        if (!(u->rule.group[group] >> i & 1))
            continue;
        if (!weft_dtype_is_float(u->ins[i].dtype))
            return; /* there are no open sums of integers */
        ins[0][i] = conform_new(&u->ins[i], pool);
        ins[1][i] = conform_copy(&u->ins[i], pool);
        conform_randomise(&ins[0][i], (uint64_t)i + 1);
        for (int64_t k = 0; ins[1][i].data && k < weft_tensor_count(&ins[1][i]); k++)
            weft_tensor_set(&ins[1][i], k,
                            weft_tensor_get(&u->ins[i], k) - weft_tensor_get(&ins[0][i], k));
    }
    for (int half = 0; half < 2; half++) {
        for (int r = 0; r < n->n_outs; r++)
            outs[half][r] = conform_new(&u->outs[r], pool);
        if (!conform_ran(c, u, "linear", ins[half], outs[half]))
            return;
    }
    for (int r = 0; r < n->n_outs; r++) {
        for (int64_t k = 0; k < weft_tensor_count(&u->outs[r]); k++)
            weft_tensor_set(&outs[0][r], k,
                            weft_tensor_get(&outs[0][r], k) + weft_tensor_get(&outs[1][r], k));
        int64_t at = conform_differ(&u->outs[r], &outs[0][r], 1e-9);
        if (at < 0)
            continue;
        weft_text what = {0};
        conform_print_difference(&u->outs[r], &outs[0][r], r, at, &what);
        conform_fail(c,
                     "op %s: linear: \"%s\" names group %d, in which it is not linear: of f(a) + "
                     "f(b) against f(a + b), %s; take the group out of `linear`",
                     n->op->name, n->op->linear, group, weft_text_get(&what));
        weft_text_release(&what);
        return;
    }
}

void conform_check_linear(const conform *c, const conform_use *u)
{
    conform_now(c, "op %s: linear", u->node->op->name);
    for (int g = 0; g < u->rule.n_groups; g++) {
        weft_pool pool = {0};
        check_group(c, u, g, &pool);
        weft_pool_release(&pool);
    }
    conform_count(c, "linear groups", u->rule.n_groups);
}

/* ---- monotone in operand 0 ---- */

/* The greater of a and b, element by element, into a. */
static void maximum(const weft_tensor *a, const weft_tensor *b)
{
    for (int64_t i = 0; a->data && b->data && i < weft_tensor_count(a); i++) {
        double x = weft_tensor_get(a, i), y = weft_tensor_get(b, i);
        weft_tensor_set(a, i, x > y ? x : y);
    }
}

/* f(max(a, b)) = max(f(a), f(b)) where a and b stand for operand 0? */
static void compare_maxima(const conform *c, const conform_use *u, weft_pool *pool)
{
    enum { A, B, MOST };
    const weft_node *n = u->node;
    weft_tensor ins[3][WEFT_RULE_MAX_PARTS], outs[3][WEFT_RULE_MAX_PARTS];
    for (int k = A; k <= MOST; k++) {
        memcpy(ins[k], u->ins, (size_t)n->n_ins * sizeof *u->ins);
        ins[k][0] = conform_copy(k == MOST ? &ins[A][0] : &u->ins[0], pool);
        if (k != MOST)
            conform_randomise(&ins[k][0], (uint64_t)k + 1);
    }
    maximum(&ins[MOST][0], &ins[B][0]);
    for (int k = A; k <= MOST; k++) {
        for (int r = 0; r < n->n_outs; r++)
            outs[k][r] = conform_new(&u->outs[r], pool);
        if (!conform_ran(c, u, "monotone", ins[k], outs[k]))
            return;
    }
    for (int r = 0; r < n->n_outs; r++) {
        maximum(&outs[A][r], &outs[B][r]);
        int64_t at = conform_differ(&outs[MOST][r], &outs[A][r], 1e-9);
        if (at < 0)
            continue;
        weft_text what = {0};
        conform_print_difference(&outs[MOST][r], &outs[A][r], r, at, &what);
        conform_fail(c,
                     "op %s: monotone: of max(f(a), f(b)) against f(max(a, b)), %s; take the flag "
                     "MONOTONE off",
                     n->op->name, weft_text_get(&what));
        weft_text_release(&what);
        return;
    }
}

void conform_check_monotone(const conform *c, const conform_use *u)
{
    weft_pool pool = {0};
    if (!weft_node_is(u->node, WEFT_OP_MONOTONE) || u->node->n_ins == 0 ||
        !weft_dtype_is_float(u->ins[0].dtype))
        return;
    conform_now(c, "op %s: monotone", u->node->op->name);
    compare_maxima(c, u, &pool);
    weft_pool_release(&pool);
}

/* ---- accumulate ---- */

static double combined(const weft_op *op, double before, double x)
{
    const unsigned maximum = WEFT_OP_ACCUMULATES | WEFT_OP_MAX;
    if ((op->flags & maximum) != maximum)
        return before + x;
    return before > x ? before : x;
}

/* Result r was `before`, and is now what it was combined with. */
static void check_sum(const conform *c, const conform_use *u, int r, const weft_tensor *before,
                      const weft_tensor *now)
{
    const weft_op *op = u->node->op;
    for (int64_t i = 0; i < weft_tensor_count(before); i++)
        weft_tensor_set(before, i,
                        combined(op, weft_tensor_get(before, i), weft_tensor_get(&u->outs[r], i)));
    const int64_t at = conform_differ(before, now, 1e-9);
    if (at < 0)
        return;
    weft_text what = {0};
    conform_print_difference(before, now, r, at, &what);
    conform_fail(c,
                 "op %s: accumulate: the plain kernel does not %s result %d %s what is there "
                 "where call->accumulate is set: %s",
                 op->name, op->flags & WEFT_OP_MAX ? "take the maximum of" : "add", r,
                 op->flags & WEFT_OP_MAX ? "and" : "to", weft_text_get(&what));
    weft_text_release(&what);
}

void conform_check_accumulate(const conform *c, const conform_use *u)
{
    const weft_node *n = u->node;
    weft_pool pool = {0};
    weft_error err = {0};
    weft_tensor outs[WEFT_RULE_MAX_PARTS], before[WEFT_RULE_MAX_PARTS];
    conform_now(c, "op %s: accumulate", n->op->name);
    if (!weft_dtype_is_float(u->outs[0].dtype))
        return;
    for (int r = 0; r < n->n_outs; r++) {
        outs[r] = conform_new(&u->outs[r], &pool);
        conform_randomise(&outs[r], (uint64_t)r + 31);
        before[r] = conform_copy(&outs[r], &pool);
    }
    /* One that refuses is not asked: what counts is that it does not add silently wrong. */
    const bool ran = conform_run(u, u->ins, outs, true, &err) == WEFT_OK;
    for (int r = 0; r < n->n_outs && ran; r++) {
        if (r == 0 || n->op->flags & WEFT_OP_PAIR)
            check_sum(c, u, r, &before[r], &outs[r]);
        else if (conform_differ(&u->outs[r], &outs[r], 1e-9) >= 0)
            conform_fail(c,
                         "op %s: accumulate: result %d is added to what is there; only result 0 "
                         "is, the others are written",
                         n->op->name, r);
    }
    conform_count(c, "accumulations", 1);
    weft_error_release(&err);
    weft_pool_release(&pool);
}

/* ---- in place ---- */

static bool same_size(const weft_tensor *a, const weft_tensor *b)
{
    return a->dtype == b->dtype && weft_tensor_count(a) == weft_tensor_count(b);
}

void conform_check_flops(const conform *c, const conform_use *u)
{
    const weft_node *n = u->node;
    const weft_call call = {.op = n->op,
                            .attrs = n->attrs,
                            .n_attrs = n->n_attrs,
                            .n_ins = n->n_ins,
                            .n_outs = n->n_outs,
                            .ins = u->ins,
                            .outs = u->outs,
                            .threads = 1};
    conform_now(c, "op %s: flops", n->op->name);
    if (!n->op->flops)
        return;
    const weft_entry entry =
        weft_enter_op(weft_ops_owner(u->graph->config.ops, n->op), "flops", n->op->name, NULL);
    const double flops = n->op->flops(&call);
    weft_leave(&entry, WEFT_OK);
    if (!(flops >= 0 && flops < 1e30))
        conform_fail(c, "op %s: flops: it says %g operations of one call; a number from 0 on",
                     n->op->name, flops);
}

void conform_check_in_place(const conform *c, const conform_use *u)
{
    const weft_node *n = u->node;
    weft_tensor ins[WEFT_RULE_MAX_PARTS], outs[WEFT_RULE_MAX_PARTS];
    conform_now(c, "op %s: in place", n->op->name);
    for (int at = 0; n->op->flags & WEFT_OP_INPLACE && at < n->n_ins && at < n->n_outs; at++) {
        weft_pool pool = {0};
        if (!same_size(&u->ins[at], &u->outs[at]))
            continue;
        for (int i = 0; i < n->n_ins; i++)
            ins[i] = conform_copy(&u->ins[i], &pool);
        for (int r = 0; r < n->n_outs; r++)
            outs[r] = conform_new(&u->outs[r], &pool);
        outs[at].data = ins[at].data;
        bool ran = conform_ran(c, u, "in place", ins, outs);
        for (int r = 0; ran && r < n->n_outs; r++)
            if (conform_differ(&u->outs[r], &outs[r], 0) >= 0)
                conform_fail(c,
                             "op %s: in place: flag INPLACE is set, and result %d is another one "
                             "where result %d lies where operand %d lay",
                             n->op->name, r, at, at);
        conform_count(c, "in place", 1);
        weft_pool_release(&pool);
    }
}
