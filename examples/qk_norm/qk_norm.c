/* SPDX-License-Identifier: Apache-2.0 */
/* qk_norm, a change to a model that it knows nothing of: queries and keys are divided by their root
 * mean square, head by head, and scaled by a weight, before they are rotated. It shows how a pass
 * adds parameters and nodes in the middle of a graph. */
#include <weft/weft.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the op: x [batch seq heads], w [head_dim] -> like x ---- */

typedef struct heads {
    const weft_tensor *x;
    int64_t n, width; /* heads of all tokens, elements of one */
    double eps;
} heads;

static heads heads_of(const weft_call *call)
{
    const weft_tensor *x = &call->ins[0];
    int64_t width = x->grain[x->n_dims - 1];
    return (heads){x, weft_tensor_count(x) / width, width, weft_call_real(call, "eps")};
}

/* One over the root mean square of head i. */
static double scale_of(const heads *h, int64_t i)
{
    double sum = 0;
    for (int64_t e = 0; e < h->width; e++)
        sum += pow(weft_tensor_get(h->x, i * h->width + e), 2);
    return 1 / sqrt(sum / (double)h->width + h->eps);
}

static void put(const weft_call *call, int64_t i, double y)
{
    const weft_tensor *out = &call->outs[0];
    weft_tensor_set(out, i, call->accumulate ? weft_tensor_get(out, i) + y : y);
}

static weft_status norm(const weft_call *call, weft_error *err)
{
    heads h = heads_of(call);
    (void)err;
    for (int64_t i = 0; i < h.n; i++) {
        double r = scale_of(&h, i);
        for (int64_t e = 0; e < h.width; e++)
            put(call, i * h.width + e,
                r * weft_tensor_get(h.x, i * h.width + e) * weft_tensor_get(&call->ins[1], e));
    }
    return WEFT_OK;
}

/* x, w, dy -> dx */
static weft_status norm_dx(const weft_call *call, weft_error *err)
{
    heads h = heads_of(call);
    (void)err;
    for (int64_t i = 0; i < h.n; i++) {
        double r = scale_of(&h, i), mean = 0;
        for (int64_t e = 0; e < h.width; e++)
            mean += r * weft_tensor_get(h.x, i * h.width + e) * weft_tensor_get(&call->ins[1], e) *
                    weft_tensor_get(&call->ins[2], i * h.width + e) / (double)h.width;
        for (int64_t e = 0; e < h.width; e++) {
            double g =
                weft_tensor_get(&call->ins[1], e) * weft_tensor_get(&call->ins[2], i * h.width + e);
            put(call, i * h.width + e, r * (g - r * weft_tensor_get(h.x, i * h.width + e) * mean));
        }
    }
    return WEFT_OK;
}

/* x, dy -> dw */
static weft_status norm_dw(const weft_call *call, weft_error *err)
{
    heads h = heads_of(call);
    double *sum = weft_alloc_zero((size_t)h.width, sizeof *sum);
    if (!sum)
        return weft_fail_memory(err);
    for (int64_t i = 0; i < h.n; i++) {
        double r = scale_of(&h, i);
        for (int64_t e = 0; e < h.width; e++)
            sum[e] += r * weft_tensor_get(h.x, i * h.width + e) *
                      weft_tensor_get(&call->ins[1], i * h.width + e);
    }
    for (int64_t e = 0; e < h.width; e++)
        put(call, e, sum[e]);
    weft_free(sum);
    return WEFT_OK;
}

/* Axes may cut tokens, and heads between one and the next, but not the width of a head, which is
 * the weight's one index. */
static const char *const grad[] = {"0: head_norm_dx 0 1 dy", "1: head_norm_dw 0 dy like1", NULL};
static const weft_op head_norm = {
    .name = "head_norm",
    .summary = "every head over its root mean square, times w",
    .rule = "b s h, [d] -> b s h",
    .linear = "1",
    .grad = grad,
    .attrs = "eps",
    .flags = WEFT_OP_HALF,
    .plain = norm,
};
static const weft_op head_norm_dx = {
    .name = "head_norm_dx",
    .summary = "gradient of head_norm's x",
    .rule = "b s h, [d], b s h -> b s h",
    .linear = "2",
    .attrs = "eps",
    .flags = WEFT_OP_HALF,
    .plain = norm_dx,
};
static const weft_op head_norm_dw = {
    .name = "head_norm_dw",
    .summary = "gradient of head_norm's w",
    .rule = "b s h, b s h, [d] -> [d]",
    .linear = "1",
    .attrs = "eps",
    .plain = norm_dw,
};

/* ---- the pass ---- */

/* The node in whose place queries or keys are normed: that which rotates them, if there is one
 * between the product and attention. */
static weft_node *reader_of(weft_node *attention, int operand, int *which)
{
    *which = operand;
    for (weft_node *n = attention->ins[operand]->node; n->n_ins; n = n->ins[0]->node) {
        if (weft_node_in(n, "linear"))
            break;
        if (weft_node_in(n, "rope")) {
            *which = 0;
            return n;
        }
    }
    return attention;
}

/* Everything between the two calls of weft_graph_at stands before the reader, in its block. */
static void add_norm(weft_graph *g, weft_node *attention, int operand, double eps)
{
    int which;
    char name[96];
    weft_node *reader = reader_of(attention, operand, &which);
    const char *letter = operand == 0 ? "q" : "k";
    weft_value *x = reader->ins[which];
    weft_graph_dim(g, "head_dim", x->dims[2].grain, 1);

    weft_graph_at(g, reader);
    snprintf(name, sizeof name, "model.layers.%d.self_attn.%s_norm.weight", reader->block, letter);
    weft_value *w = weft_add_parameter(g, name, "head_dim", (weft_init){WEFT_INIT_ONE, 0, 0});
    snprintf(name, sizeof name, "b%d.%s_norm", reader->block, letter);
    weft_value *y = weft_add2(g, "head_norm", name, x, w);
    weft_set_real(g, y, "eps", eps);
    weft_graph_at(g, NULL);

    weft_node_set_operand(g, reader, which, y);
}

typedef struct qk_norm {
    const weft_host *host;
    double eps;
} qk_norm;

static void add_norms(void *self, weft_graph *g)
{
    const qk_norm *m = self;
    int n_found = 0;
    for (weft_node *n = weft_graph_first(g); n && !weft_graph_status(g); n = n->next) {
        if (!weft_node_in(n, "attention"))
            continue;
        add_norm(g, n, 0, m->eps);
        add_norm(g, n, 1, m->eps);
        n_found++;
    }
    if (n_found == 0)
        weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                        "qk_norm: the model has no attention; take qk_norm off the list");
}

/* ---- the descriptor ---- */

static const weft_param params[] = {
    {.name = "eps",
     WEFT_REAL(qk_norm, eps),
     .value = "1e-6",
     .min = 0,
     .max = 1,
     .help = "Added to the mean square."},
    {.name = NULL},
};

static const char *const needs[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = add_norms, .needs = needs},
    {.kind = WEFT_END},
};
static const weft_op *const ops[] = {&head_norm, &head_norm_dx, &head_norm_dw, NULL};

WEFT_PLUGIN(qk_norm) = {
    WEFT_PLUGIN_HEAD,
    .name = "qk_norm",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "queries and keys normed before attention, as in Qwen3",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .self_size = WEFT_SELF(qk_norm),
    .contributions = contributions,
    .ops = ops,
};
