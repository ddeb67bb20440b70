/* SPDX-License-Identifier: Apache-2.0 */
/* All values of a small graph, so that every op meets operands as it meets them in a run: ids
 * within the vocabulary, statistics that belong to what they are statistics of. */
#include "conform.h"

#include <math.h>
#include <string.h>
#include <weft/random.h>

enum { SEED = 7 };
static const uint64_t unwritten = UINT64_C(0x7ff8dead5a5a5a5a); /* a NaN that no kernel makes */

/* ---- what a run gives ---- */

/* Of a field that is bounded, any value that it may have. u: drawn, between 0 and 1. */
static double bounded(const weft_graph *g, const weft_field *f, double u)
{
    const weft_dim *dim = weft_map_get(&g->dims, f->below, strlen(f->below));
    const double high = dim ? (double)dim->size : 2;
    return f->low + floor(u * (high - f->low));
}

static double input(const weft_graph *g, const weft_value *v, int64_t i, double u)
{
    int64_t last = v->n_dims ? v->dims[v->n_dims - 1].size : 1, at = i % last;
    if (strcmp(v->name, "step") == 0)
        return 3;
    bool of_step;
    const weft_field *f = weft_input_field(g, v->name, &of_step);
    if (f && f->dtype == WEFT_F32)
        return weft_normal_inverse(u);
    if (f && f->below && strcmp(v->name, "positions") != 0)
        return bounded(g, f, u);
    if (strstr(v->name, "segments"))
        return (double)(at * 3 / (last + 1));
    if (strcmp(v->name, "last") == 0)
        return (double)(int64_t)(u * (double)g->config.sizes.seq_len);
    return (double)at; /* places of the sequence */
}

static double source(const weft_graph *g, const weft_value *v, int64_t i, double u)
{
    if (strcmp(v->node->op->name, "input") == 0)
        return input(g, v, i, u);
    if (!weft_dtype_is_float(v->dtype))
        return (double)(int64_t)(3 * u);
    if (strcmp(v->node->op->name, "state") == 0)
        return 0.1 + 0.2 * u; /* squares among them: above 0 */
    return (v->init.kind == WEFT_INIT_ONE ? 1 : 0) + 0.3 * weft_normal_inverse(u);
}

/* ---- nodes ---- */

static bool allocate(weft_tensor *t, const weft_value *v, weft_pool *pool)
{
    weft_tensor shape = {.dtype = weft_dtype_is_float(v->dtype) ? WEFT_F64 : v->dtype,
                         .n_dims = v->n_dims};
    for (int d = 0; d < v->n_dims; d++) {
        shape.size[d] = shape.whole[d] = v->dims[d].size;
        shape.grain[d] = v->dims[d].grain;
    }
    *t = conform_new(&shape, pool);
    for (int64_t i = 0; t->data && t->dtype == WEFT_F64 && i < weft_tensor_count(t); i++)
        memcpy((double *)t->data + i, &unwritten, sizeof unwritten);
    return t->data;
}

bool conform_use_init(conform_use *u, const weft_graph *g, const weft_node *n,
                      const conform_values *values, weft_pool *pool, weft_error *err)
{
    (void)pool;
    memset(u, 0, sizeof *u);
    u->graph = g;
    u->node = n;
    for (int i = 0; i < n->n_ins; i++)
        u->ins[i] = values->of[n->ins[i]->id];
    if (n->like) {
        u->ins[n->n_ins] = values->of[n->like->id];
        u->ins[n->n_ins].data = NULL;
    }
    for (int r = 0; r < n->n_outs; r++)
        u->outs[r] = values->of[n->outs[r]->id];
    return weft_node_find_rule(g, n, true, &u->rule, err) == WEFT_OK;
}

static weft_status check_written(const weft_node *n, const weft_tensor *t, int r, weft_error *err)
{
    for (int64_t i = 0; t->dtype == WEFT_F64 && i < weft_tensor_count(t); i++)
        if (memcmp((double *)t->data + i, &unwritten, sizeof unwritten) == 0)
            return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                             "element %lld of %lld of result %d of %s is not written; a kernel "
                             "writes every element",
                             (long long)i, (long long)weft_tensor_count(t), r, n->outs[r]->name);
    return WEFT_OK;
}

weft_status conform_compute(const weft_graph *g, const weft_node *n, conform_values *values,
                            weft_pool *pool, weft_error *err)
{
    conform_use *u = weft_alloc_zero(1, sizeof *u);
    weft_status s = u ? WEFT_OK : weft_fail_memory(err);
    for (int r = 0; !s && r < n->n_outs; r++)
        if (!allocate(&values->of[n->outs[r]->id], n->outs[r], pool))
            s = weft_fail_memory(err);
    if (s)
        goto done;
    u->graph = g;
    u->node = n;
    for (int i = 0; i < n->n_ins; i++)
        u->ins[i] = values->of[n->ins[i]->id];
    if (n->op->flags & WEFT_OP_SOURCE) {
        const weft_tensor *t = &values->of[n->outs[0]->id];
        const uint64_t stream = weft_hash_name(n->outs[0]->name);
        for (int64_t i = 0, count = weft_tensor_count(t); i < count; i++)
            weft_tensor_set(
                t, i, source(g, n->outs[0], i, weft_random_uniform(SEED, stream, (uint64_t)i)));
    } else if (!n->op->plain) { /* moves a value, and does not change it */
        const weft_tensor *t = &values->of[n->outs[0]->id];
        for (int64_t i = 0; i < weft_tensor_count(t); i++)
            weft_tensor_set(t, i, weft_tensor_get(&u->ins[0], i));
    } else {
        for (int r = 0; r < n->n_outs; r++)
            u->outs[r] = values->of[n->outs[r]->id];
        s = conform_run(u, u->ins, u->outs, false, err);
        for (int r = 0; !s && r < n->n_outs; r++)
            s = check_written(n, &u->outs[r], r, err);
    }
done:
    weft_free(u);
    return s;
}

static bool known(const weft_node *n, const conform_values *values)
{
    for (int i = 0; i < n->n_ins; i++)
        if (!values->of[n->ins[i]->id].data)
            return false;
    return true;
}

weft_status conform_evaluate(const conform *c, const weft_graph *g, conform_values *values,
                             weft_pool *pool, weft_error *err)
{
    values->of = weft_pool_alloc(pool, ((size_t)g->n_values + 1) * sizeof *values->of);
    if (!values->of)
        return weft_fail_memory(err);
    for (const weft_node *n = g->first; n; n = n->next) {
        weft_error own = {0};
        if (!known(n, values))
            continue;
        conform_now(c, "op %s: plain", n->op->name);
        if (conform_compute(g, n, values, pool, &own)) {
            conform_fail(c, "op %s: plain: %s", n->op->name, weft_error_text(&own));
            for (int r = 0; r < n->n_outs; r++)
                values->of[n->outs[r]->id].data = NULL;
        }
        conform_check_output(c, c->now);
        weft_error_release(&own);
    }
    return WEFT_OK;
}
