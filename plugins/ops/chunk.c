/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts a dim into n parts and back. Part i holds the places p with p mod n = i, so that every rank
 * chunks its own shard. */
#include "ops.h"

/* Element order of a part against its whole: for each outer index, for each place, a run of `inner`
 * elements. */
typedef struct strides {
    int64_t outer, places, inner;
} strides;

static weft_status strides_of(const weft_call *call, const weft_tensor *whole,
                              const weft_tensor *parts, int n, strides *out, weft_error *err)
{
    int64_t dim = weft_call_int(call, "dim");

    *out = (strides){op_product(whole, 0, (int)dim), parts[0].size[dim],
                     op_product(whole, (int)dim + 1, whole->n_dims)};
    for (int i = 0; i < n; i++)
        if (whole->size[dim] != n * parts[i].size[dim] || whole->lo[dim] != n * parts[i].lo[dim])
            return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                             "%s: a shard of places %lld to %lld cannot be cut into %d equal parts",
                             call->op->name, (long long)whole->lo[dim],
                             (long long)(whole->lo[dim] + whole->size[dim]), n);
    return WEFT_OK;
}

static int64_t in_whole(const strides *s, int n, int part, int64_t i)
{
    int64_t inner = i % s->inner, place = i / s->inner % s->places,
            outer = i / s->inner / s->places;
    return ((outer * s->places + place) * n + part) * s->inner + inner;
}

static weft_status chunk_plain(const weft_call *call, weft_error *err)
{
    strides s;
    weft_status status = strides_of(call, &call->ins[0], call->outs, call->n_outs, &s, err);

    for (int part = 0; !status && part < call->n_outs; part++)
        for (int64_t i = 0; i < s.outer * s.places * s.inner; i++)
            op_put_to(call, part, i, op_get(&call->ins[0], in_whole(&s, call->n_outs, part, i)));
    return status;
}

static weft_status unchunk_plain(const weft_call *call, weft_error *err)
{
    strides s;
    weft_status status = strides_of(call, &call->outs[0], call->ins, call->n_ins, &s, err);

    for (int part = 0; !status && part < call->n_ins; part++)
        for (int64_t i = 0; i < s.outer * s.places * s.inner; i++)
            op_put(call, in_whole(&s, call->n_ins, part, i), op_get(&call->ins[part], i));
    return status;
}

/* The dim that is cut; NULL, with an error, if the node makes no sense. */
static const weft_dim *cut_dim(const weft_node *node, int n, weft_error *err)
{
    int64_t dim = weft_node_int(node, "dim");
    const weft_value *x = node->ins[0];

    if (dim < 0 || dim >= x->n_dims) {
        weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s of %s: there is no dim %lld",
                  node->op->name, x->name, (long long)dim);
        return NULL;
    }
    if (weft_node_has(node, "n") && weft_node_int(node, "n") != n) {
        weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s of %s: n = %lld, but there are %d parts",
                  node->op->name, x->name, (long long)weft_node_int(node, "n"), n);
        return NULL;
    }
    return &x->dims[dim];
}

static weft_status chunk_infer(weft_graph *graph, weft_node *node, weft_error *err)
{
    const weft_dim *dim = cut_dim(node, node->n_outs, err);
    int n = node->n_outs;

    (void)graph;
    if (!dim)
        return WEFT_ERR_INPUT;
    if (dim->grain != 1 || dim->size % n != 0)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "chunk of %s: %s = %lld cannot be cut into %d equal parts; the number of "
                         "parts must divide it",
                         node->ins[0]->name, dim->name, (long long)dim->size, n);
    for (int i = 0; i < n; i++) {
        op_infer_like(node, i, node->ins[0]);
        node->outs[i]->dims[weft_node_int(node, "dim")].size = dim->size / n;
    }
    return WEFT_OK;
}

static weft_status unchunk_infer(weft_graph *graph, weft_node *node, weft_error *err)
{
    const weft_dim *dim = cut_dim(node, node->n_ins, err);

    (void)graph;
    if (!dim)
        return WEFT_ERR_INPUT;
    op_infer_like(node, 0, node->ins[0]);
    node->outs[0]->dims[weft_node_int(node, "dim")].size = dim->size * node->n_ins;
    return WEFT_OK;
}

/* The parts of what comes back. */
static weft_status unchunk_differentiate(weft_backward *b, const weft_node *node,
                                         weft_value *const *dys, weft_value **dxs, weft_error *err)
{
    enum { MOST_PARTS = 64 };
    int operands[MOST_PARTS];

    (void)err;
    for (int i = 0; i < node->n_ins; i++)
        operands[i] = i;
    weft_backward_add_many(b, "chunk", node->n_ins, operands, 1, dys, NULL, dxs);
    return WEFT_OK;
}

const weft_op ops_chunk = {
    .name = "chunk",
    .summary = "n parts of a dim, every n-th place each",
    .rule = "* -> * ...",
    .linear = "0",
    .grad = (const char *const[]){"0: unchunk dys", NULL},
    .attrs = "dim, n",
    .flags = WEFT_OP_HALF,
    .plain = chunk_plain,
    .infer = chunk_infer,
};

const weft_op ops_unchunk = {
    .name = "unchunk",
    .summary = "puts the parts of chunk together again",
    .rule = "* ... -> *",
    .linear = "all",
    .attrs = "dim, n",
    .flags = WEFT_OP_HALF,
    .plain = unchunk_plain,
    .infer = unchunk_infer,
    .grad_of = "all",
    .differentiate = unchunk_differentiate,
};
