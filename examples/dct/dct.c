/* SPDX-License-Identifier: Apache-2.0 */
/* dct: what attention gives is turned by a discrete cosine transform before the output product
 * reads it, so that no channel stands out: nothing is lost, for the transform is orthonormal. An op
 * whose kernel prepares a table once and works in memory that it has asked for. */
#include <weft/weft.h>

#include <math.h>
#include <string.h>

/* ---- the op: rows x of n, y[k] = sum over j of c(k, j) x[j]; `inverse`: over k of c(k, j) ---- */

static const double pi = 3.14159265358979323846;

static double cosine(int64_t n, int64_t k, int64_t j)
{
    double scale = sqrt((k ? 2.0 : 1.0) / (double)n);
    return scale * cos(pi * ((double)j + 0.5) * (double)k / (double)n);
}

static double weight(bool inverse, int64_t n, int64_t to, int64_t from)
{
    return inverse ? cosine(n, from, to) : cosine(n, to, from);
}

static weft_status turn_plain(const weft_call *call, bool inverse)
{
    const weft_tensor *x = &call->ins[0], *y = &call->outs[0];
    int64_t n = x->size[x->n_dims - 1], elements = weft_tensor_count(x);
    for (int64_t row = 0; row < elements; row += n)
        for (int64_t to = 0; to < n; to++) {
            double sum = call->accumulate ? weft_tensor_get(y, row + to) : 0;
            for (int64_t from = 0; from < n; from++)
                sum += weight(inverse, n, to, from) * weft_tensor_get(x, row + from);
            weft_tensor_set(y, row + to, sum);
        }
    return WEFT_OK;
}

static weft_status dct_plain(const weft_call *call, weft_error *err)
{
    (void)err;
    return turn_plain(call, false);
}

static weft_status dct_inverse_plain(const weft_call *call, weft_error *err)
{
    (void)err;
    return turn_plain(call, true);
}

/* [e]: a rank needs whole rows. Linear, so the gradient is the transposed matrix, which is the
 * inverse; of it, this one. */
static const weft_op dct_op = {.name = "dct",
                               .summary = "rows, turned by a discrete cosine transform",
                               .rule = "b s [e] -> b s [e]",
                               .linear = "0",
                               .grad = (const char *const[]){"0: dct_inverse dy", NULL},
                               .flags = WEFT_OP_HALF,
                               .plain = dct_plain};
static const weft_op dct_inverse_op = {.name = "dct_inverse",
                                       .summary = "the inverse of dct",
                                       .rule = "b s [e] -> b s [e]",
                                       .linear = "0",
                                       .grad = (const char *const[]){"0: dct dy", NULL},
                                       .flags = WEFT_OP_HALF,
                                       .plain = dct_inverse_plain};
static const weft_op *const ops[] = {&dct_op, &dct_inverse_op, NULL};

/* ---- the kernel ---- */

/* What depends on the call's extents alone: made once, before the run, and shared by all calls that
 * are alike. It lies in memory of the host, as the device "cpu" does. */
typedef struct table {
    int64_t n;
    float weight[]; /* [from][to], so that a sum runs over many `to` at once */
} table;

static bool accepts(const weft_call *call)
{
    return call->ins[0].dtype == WEFT_F32 && call->outs[0].dtype == WEFT_F32;
}

static int64_t width(const weft_call *call)
{
    return call->ins[0].size[call->ins[0].n_dims - 1];
}

/* A row of sums. Known without hardware, since `weft plan` asks as well. */
static size_t workspace(const weft_call *call)
{
    return (size_t)width(call) * sizeof(float);
}

static weft_status prepare(const weft_call *call, void **state, weft_error *err)
{
    int64_t n = width(call);
    bool inverse = call->op == &dct_inverse_op;
    table *t = weft_alloc(sizeof *t + (size_t)(n * n) * sizeof t->weight[0]);
    if (!t)
        return weft_fail_memory(err);
    t->n = n;
    for (int64_t from = 0; from < n; from++)
        for (int64_t to = 0; to < n; to++)
            t->weight[from * n + to] = (float)weight(inverse, n, to, from);
    *state = t;
    return WEFT_OK;
}

/* Allocates nothing, and refuses what it was not prepared for. */
static weft_status launch(const weft_call *call, weft_error *err)
{
    const table *t = call->state;
    const float *x = call->ins[0].data;
    float *y = call->outs[0].data, *sums = call->workspace;
    int64_t n = width(call), elements = weft_tensor_count(&call->ins[0]);
    if (t->n != n || call->workspace_bytes < workspace(call))
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "dct: rows of %lld, not of %lld",
                         (long long)n, (long long)t->n);
    for (int64_t row = 0; row < elements; row += n) {
        for (int64_t to = 0; to < n; to++)
            sums[to] = call->accumulate ? y[row + to] : 0;
        for (int64_t from = 0; from < n; from++)
            for (int64_t to = 0; to < n; to++)
                sums[to] += t->weight[from * n + to] * x[row + from];
        memcpy(y + row, sums, (size_t)n * sizeof *sums);
    }
    return WEFT_OK;
}

#define KERNEL(op_)                                                                                \
    {                                                                                              \
        .op = op_, .device = "cpu", .name = op_ "_f32", .priority = 10, .accumulates = true,       \
        .accepts = accepts, .workspace = workspace, .prepare = prepare, .release = weft_free,      \
        .launch = launch                                                                           \
    }
static const weft_kernel kernels[] = {KERNEL("dct"), KERNEL("dct_inverse"), {.op = NULL}};

/* ---- the pass ---- */

/* Who reads what an attention gives reads it turned. */
static void graph(void *self, weft_graph *g)
{
    int n_found = 0;
    (void)self;
    for (weft_node *n = weft_graph_first(g); n && !weft_graph_status(g); n = n->next) {
        if (!weft_node_in(n, "attention"))
            continue;
        weft_value *out = n->outs[0];
        weft_graph_at(g, n->next);
        weft_value *turned = weft_add1(g, "dct", NULL, out);
        weft_graph_at(g, NULL);
        weft_replace(g, out, turned);
        n_found++;
    }
    if (n_found == 0)
        weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                        "dct: the model has no attention; take dct off the list");
}

static const char *const needs[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = graph, .needs = needs},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(dct) = {
    WEFT_PLUGIN_HEAD,
    .name = "dct",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "turns what attention gives by a discrete cosine transform",
    .numerics = WEFT_NUMERICS_CHANGES,
    .contributions = contributions,
    .ops = ops,
    .kernels = kernels,
};
