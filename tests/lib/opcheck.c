/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weft/random.h>

#include "opcheck.h"
#include "standard_ops.h"

const weft_op *opcheck_find(const char *name)
{
    const weft_op *op = standard_op(name);
    if (!op)
        fail_msg("there is no op %s", name);
    return op;
}

/* ---- tensors ---- */

/* Of the extents of dims [from, to). */
static int64_t product(const weft_tensor *t, int from, int to)
{
    int64_t n = 1;
    for (int d = from; d < to; d++)
        n *= t->size[d];
    return n;
}

static void *get_memory(weft_pool *pool, size_t bytes)
{
    void *p = weft_pool_alloc(pool, bytes + 16);
    assert_non_null(p);
    return p;
}

weft_tensor opcheck_new(const weft_tensor *like, weft_pool *pool)
{
    weft_tensor t = *like;
    t.data = get_memory(pool, (size_t)weft_tensor_count(like) * weft_dtype_size(like->dtype));
    return t;
}

weft_tensor opcheck_copy(const weft_tensor *t, weft_pool *pool)
{
    return opcheck_cast(t, t->dtype, pool);
}

weft_tensor opcheck_cast(const weft_tensor *t, weft_dtype dtype, weft_pool *pool)
{
    weft_tensor shape = *t, to;
    shape.dtype = weft_dtype_is_float(t->dtype) ? dtype : t->dtype;
    to = opcheck_new(&shape, pool);
    for (int64_t i = 0; i < weft_tensor_count(t); i++)
        weft_tensor_set(&to, i, weft_tensor_get(t, i));
    return to;
}

weft_tensor opcheck_random(const weft_tensor *like, uint64_t seed, uint64_t stream, weft_pool *pool)
{
    weft_tensor t = opcheck_new(like, pool);
    for (int64_t i = 0; i < weft_tensor_count(&t); i++)
        weft_tensor_set(&t, i, weft_normal_inverse(weft_random_uniform(seed, stream, (uint64_t)i)));
    return t;
}

weft_tensor opcheck_slice(const weft_tensor *t, int d, int64_t lo, int64_t hi, weft_pool *pool)
{
    weft_tensor shape = *t, to;
    int64_t outer = product(t, 0, d), inner = product(t, d + 1, t->n_dims), i = 0;
    shape.size[d] = hi - lo;
    shape.lo[d] = t->lo[d] + lo;
    to = opcheck_new(&shape, pool);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t p = lo * inner; p < hi * inner; p++)
            weft_tensor_set(&to, i++, weft_tensor_get(t, o * t->size[d] * inner + p));
    return to;
}

void opcheck_same(const weft_tensor *a, const weft_tensor *b, double tolerance, const char *what,
                  const char *op)
{
    double scale = 1.0;
    assert_int_equal(weft_tensor_count(a), weft_tensor_count(b));
    for (int64_t i = 0; i < weft_tensor_count(a); i++) {
        double x = fabs(weft_tensor_get(a, i));
        scale = isfinite(x) && x > scale ? x : scale;
    }
    for (int64_t i = 0; i < weft_tensor_count(a); i++) {
        double x = weft_tensor_get(a, i), y = weft_tensor_get(b, i);
        if (x != y && !(fabs(x - y) <= tolerance * scale))
            fail_msg("%s, %s: element %lld is %.17g, not %.17g", op, what, (long long)i, y, x);
    }
}

/* ---- uses ---- */

static void fill(weft_tensor *t, const char *kind, uint64_t seed, uint64_t stream)
{
    long bound = strtol(kind + 1, NULL, 10);
    int64_t last = t->n_dims ? t->size[t->n_dims - 1] : 1;
    for (int64_t i = 0; i < weft_tensor_count(t); i++) {
        double u = weft_random_uniform(seed, stream, (uint64_t)i), x = 0.0;
        if (*kind == 'f')
            x = weft_normal_inverse(u);
        else if (*kind == 'p')
            x = 0.5 + 1.5 * u;
        else if (*kind == 'i')
            x = floor(u * (double)bound);
        else if (*kind == 'l')
            x = floor(u * (double)(bound + 1)) - 1.0;
        else if (*kind == 'n')
            x = (double)(i + bound);
        else if (*kind == 'm')
            x = (double)(i * 5 % bound); /* a permutation where 5 does not divide the bound */
        else
            x = floor((double)(i % last) * 0.6 + u);
        weft_tensor_set(t, i, x);
    }
}

static void make_operand(opcheck_use *u, int i, const char *spec, uint64_t seed, weft_pool *pool)
{
    weft_tensor shape = {.dtype = *spec == 'f' || *spec == 'p' ? WEFT_F64 : WEFT_I32};
    char name[24];
    long long size, grain;
    for (const char *p = strchr(spec, ' '); p; p = strchr(p + 1, ' ')) {
        int d = shape.n_dims++, got = sscanf(p, " %23[^=]=%lld/%lld", name, &size, &grain);
        assert_true(got >= 2);
        u->in_dims[i][d] = (weft_dim){weft_pool_strdup(pool, name), size, got == 3 ? grain : 1};
        shape.size[d] = shape.whole[d] = size;
        shape.grain[d] = u->in_dims[i][d].grain;
    }
    u->ins[i] = opcheck_new(&shape, pool);
    fill(&u->ins[i], spec, seed, (uint64_t)i);
}

/* A node with values of its own, enough for make_rule and infer. */
typedef struct fake_node {
    weft_node node;
    weft_value value[OPCHECK_INS + OPCHECK_OUTS], *list[OPCHECK_INS + OPCHECK_OUTS];
} fake_node;

static void fake(fake_node *f, opcheck_use *u)
{
    memset(f, 0, sizeof(*f));
    for (int i = 0; i < OPCHECK_INS + OPCHECK_OUTS; i++) {
        bool in = i < OPCHECK_INS;
        const weft_tensor *t = in ? &u->ins[i] : &u->outs[i - OPCHECK_INS];
        f->value[i] =
            (weft_value){.name = in ? "operand" : "result", .dtype = t->dtype, .n_dims = t->n_dims};
        memcpy(f->value[i].dims, in ? u->in_dims[i] : u->out_dims[i - OPCHECK_INS],
               sizeof(f->value[i].dims));
        f->list[i] = &f->value[i];
    }
    f->node = (weft_node){.op = u->op,
                          .ins = f->list,
                          .outs = f->list + OPCHECK_INS,
                          .n_ins = u->n_ins,
                          .n_outs = u->n_outs,
                          .like = u->like ? f->list[u->n_ins] : NULL,
                          .attrs = (weft_attr *)(uintptr_t)u->attrs,
                          .n_attrs = u->n_attrs};
}

static void set_result(opcheck_use *u, int r, const weft_value *v, weft_pool *pool)
{
    weft_tensor shape = {.dtype = v->dtype, .n_dims = v->n_dims};
    for (int d = 0; d < v->n_dims; d++) {
        u->out_dims[r][d] = v->dims[d];
        shape.size[d] = shape.whole[d] = v->dims[d].size;
        shape.grain[d] = v->dims[d].grain;
    }
    u->outs[r] = opcheck_new(&shape, pool);
}

static void infer_by_rule(fake_node *f, opcheck_use *u)
{
    for (int r = 0; r < u->n_outs; r++) {
        weft_value *v = f->node.outs[r];
        v->dtype = u->n_ins ? u->ins[u->op->dtype_from].dtype : WEFT_F64;
        v->n_dims = u->rule.out[r].n_dims;
        for (int d = 0; d < v->n_dims; d++)
            for (int i = u->rule.n_ins - 1; i >= 0; i--) {
                int at = weft_rule_dim(&u->rule.in[i], u->rule.out[r].letter[d]);
                if (at >= 0)
                    v->dims[d] = u->in_dims[i][at];
            }
    }
}

weft_status opcheck_infer(opcheck_use *u, weft_pool *pool, weft_error *err)
{
    fake_node *f = get_memory(pool, sizeof(*f));
    weft_status status;
    fake(f, u);
    if ((status = weft_rule_of_node(&f->node, false, &u->rule, err)))
        return status;
    for (int r = 0; r < u->n_outs; r++) /* as the core does where no operand has floats */
        f->node.outs[r]->dtype = WEFT_F64;
    if (!u->op->infer || u->op->flags & WEFT_OP_SOURCE)
        infer_by_rule(f, u);
    else if ((status = u->op->infer(NULL, &f->node, err)))
        return status;
    for (int r = 0; r < u->n_outs; r++)
        set_result(u, r, f->node.outs[r], pool);
    fake(f, u);
    return weft_rule_of_node(&f->node, true, &u->rule, err);
}

void opcheck_run(opcheck_use *u, bool accumulate)
{
    weft_error err = {0};
    weft_call call = {.op = u->op,
                      .attrs = u->attrs,
                      .n_attrs = u->n_attrs,
                      .n_ins = u->n_ins,
                      .n_outs = u->n_outs,
                      .ins = u->ins,
                      .outs = u->outs,
                      .accumulate = accumulate};
    if (u->op->plain(&call, &err))
        fail_msg("%s: %s", u->op->name, weft_error_text(&err));
    weft_error_release(&err);
}

void opcheck_make(opcheck_use *u, const opcheck_case *c, uint64_t seed, weft_pool *pool)
{
    weft_error err = {0};
    memset(u, 0, sizeof(*u));
    u->op = opcheck_find(c->op);
    u->attrs = c->attrs;
    while (u->n_attrs < OPCHECK_ATTRS && c->attrs[u->n_attrs].key)
        u->n_attrs++;
    u->n_outs = c->n_outs ? c->n_outs : 1;
    for (; u->n_ins < OPCHECK_INS && c->ins[u->n_ins]; u->n_ins++)
        make_operand(u, u->n_ins, c->ins[u->n_ins], seed, pool);
    if (opcheck_infer(u, pool, &err))
        fail_msg("%s: %s", c->op, weft_error_text(&err));
    opcheck_run(u, false);
}

/* ---- gradients ---- */

/* Adds what an argument names to the operands of the gradient's node. */
static void add_argument(opcheck_grad *g, const opcheck_use *u, const char *word,
                         const weft_tensor *dys)
{
    opcheck_use *to = &g->use;
    bool dy = !strncmp(word, "dy", 2), all = !strcmp(word, "dys");
    if (!strncmp(word, "like", 4)) {
        int i = atoi(word + 4);
        to->like = true;
        to->ins[to->n_ins] = u->ins[i];
        to->ins[to->n_ins].data = NULL;
        memcpy(to->in_dims[to->n_ins], u->in_dims[i], sizeof(u->in_dims[i]));
        return;
    }
    if (dy || *word == 'r') {
        int from = all ? 0 : atoi(word + (dy ? 2 : 1)), end = all ? u->n_outs : from + 1;
        for (int r = from; r < end; r++) {
            memcpy(to->in_dims[to->n_ins], u->out_dims[r], sizeof(u->out_dims[r]));
            to->ins[to->n_ins++] = dy ? dys[r] : u->outs[r];
        }
        return;
    }
    assert_true(*word >= '0' && *word <= '9');
    memcpy(to->in_dims[to->n_ins], u->in_dims[atoi(word)], sizeof(u->in_dims[0]));
    to->ins[to->n_ins++] = u->ins[atoi(word)];
}

/* The node of a statement's right side. Its results look like their targets, whatever inference
 * says: it must agree. */
static void carry_out(opcheck_grad *g, const opcheck_use *u, const char *right,
                      const weft_tensor *dys, weft_pool *pool)
{
    char *text = weft_pool_strdup(pool, right), *save = NULL, *word = strtok_r(text, " ", &save);
    weft_error err = {0};
    if (!strcmp(word, "dy")) {
        g->passed_on = true;
        g->use.outs[0] = dys[0];
        return;
    }
    g->use.op = opcheck_find(word);
    g->use.attrs = u->attrs;
    g->use.n_attrs = u->n_attrs;
    g->use.n_outs = g->n_targets;
    while ((word = strtok_r(NULL, " ", &save)))
        add_argument(g, u, word, dys);
    if (opcheck_infer(&g->use, pool, &err))
        fail_msg("gradient %s of %s: %s", right, u->op->name, weft_error_text(&err));
    for (int k = 0; k < g->n_targets; k++) {
        const weft_tensor *have = &g->use.outs[k], *want = &u->ins[g->target[k]];
        assert_int_equal(have->n_dims, want->n_dims);
        for (int d = 0; d < want->n_dims; d++) {
            assert_int_equal(have->size[d], want->size[d]);
            assert_int_equal(have->grain[d], want->grain[d]);
        }
    }
    opcheck_run(&g->use, false);
}

int opcheck_statement(const opcheck_use *u, const char *text, const weft_tensor *dys,
                      opcheck_grad *grads, weft_pool *pool)
{
    const char *colon = strchr(text, ':');
    int n = strncmp(text, "all", 3) ? 1 : u->n_ins;
    assert_non_null(colon);
    for (int i = 0; i < n; i++) {
        memset(&grads[i], 0, sizeof(grads[i]));
        if (n > 1 || !strncmp(text, "all", 3))
            grads[i].target[grads[i].n_targets++] = i;
        else
            for (char *p = (char *)(uintptr_t)text; p < colon; p++)
                grads[i].target[grads[i].n_targets++] = (int)strtol(p, &p, 10);
        carry_out(&grads[i], u, colon + 2, dys, pool);
    }
    return n;
}

/* ---- central differences ---- */

/* sum over the results of weights . result; results without weights do not count. */
static double objective(opcheck_use *u, const weft_tensor *weights)
{
    double sum = 0.0;
    opcheck_run(u, false);
    for (int r = 0; r < u->n_outs; r++)
        for (int64_t i = 0; weights[r].data && i < weft_tensor_count(&weights[r]); i++)
            sum += weft_tensor_get(&weights[r], i) * weft_tensor_get(&u->outs[r], i);
    return sum;
}

static double slope(opcheck_use *u, const weft_tensor *weights, int operand, int64_t i)
{
    static const double step = 1e-3, at[] = {-2, -1, 1, 2}, factor[] = {1, -8, 8, -1};
    weft_tensor *x = &u->ins[operand];
    double was = weft_tensor_get(x, i), sum = 0.0;
    for (int k = 0; k < 4; k++) {
        weft_tensor_set(x, i, was + at[k] * step);
        sum += factor[k] * objective(u, weights);
    }
    weft_tensor_set(x, i, was);
    return sum / (12.0 * step);
}

void opcheck_differences(const opcheck_case *c, weft_pool *pool)
{
    opcheck_use *u = get_memory(pool, sizeof(*u));
    opcheck_grad *grads = get_memory(pool, OPCHECK_INS * sizeof(*grads));
    weft_tensor weights[OPCHECK_OUTS] = {0};

    opcheck_make(u, c, 7, pool);
    assert_non_null(u->op->grad);
    for (int r = 0; r < u->n_outs; r++)
        if (r == 0 || strstr(u->op->grad[0], "dys"))
            weights[r] = opcheck_random(&u->outs[r], 11, (uint64_t)r, pool);
    for (const char *const *text = u->op->grad; *text; text++) {
        int n = opcheck_statement(u, *text, weights, grads, pool);
        for (int k = 0; k < n; k++)
            for (int t = 0; t < grads[k].n_targets; t++) {
                int operand = grads[k].target[t];
                weft_tensor found = opcheck_new(&u->ins[operand], pool),
                            *claimed = &grads[k].use.outs[t];
                for (int64_t i = 0; i < weft_tensor_count(&found); i++)
                    weft_tensor_set(&found, i, slope(u, weights, operand, i));
                opcheck_run(u, false);
                for (int64_t i = 0; i < weft_tensor_count(&found); i++) {
                    double want = weft_tensor_get(&found, i), have = weft_tensor_get(claimed, i);
                    if (!(fabs(want - have) <= 1e-6 * fabs(want) + 1e-8))
                        fail_msg(
                            "%s \"%s\": element %lld of operand %d has gradient %.12g, not %.12g",
                            c->op, *text, (long long)i, operand, have, want);
                }
            }
    }
}
