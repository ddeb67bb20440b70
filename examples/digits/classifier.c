/* SPDX-License-Identifier: Apache-2.0 */
/* classifier: a perceptron with residual blocks that says which class a picture is of. It shows a
 * model without text: it reads fields of the data, has a loss of its own, and reports a figure. */
#include <weft/weft.h>

#include <math.h>

typedef struct classifier {
    const weft_host *host;
    int64_t rows, columns, classes, dim, layers;
} classifier;

/* ---- how many are right: an op without a gradient ---- */

/* logit of the label, largest logit, labels -> 1 where they are equal. */
static weft_status is_right(const weft_call *call, weft_error *err)
{
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++) {
        const bool right = weft_tensor_get(&call->ins[2], i) >= 0 &&
                           weft_tensor_get(&call->ins[0], i) == weft_tensor_get(&call->ins[1], i);
        weft_tensor_set(&call->outs[0], i,
                        right + (call->accumulate ? weft_tensor_get(&call->outs[0], i) : 0));
    }
    return WEFT_OK;
}

static const weft_op right_op = {
    .name = "right",
    .summary = "1 where the label has the largest logit",
    .rule = "..., ..., ... -> ...",
    .flags = WEFT_OP_STAT,
    .plain = is_right,
};
static const weft_op *const ops[] = {&right_op, NULL};

/* ---- the graph ---- */

static weft_value *linear(weft_graph *g, const char *name, weft_value *x, const char *weight,
                          const char *shape, double std)
{
    const weft_init init = {WEFT_INIT_NORMAL, std, 0};
    return weft_linear(g, name, x, weft_add_parameter(g, weight, shape, init));
}

static weft_value *block(const classifier *m, weft_graph *g, int64_t i, weft_value *x)
{
    const double in = 1 / sqrt((double)m->dim), out = in / sqrt((double)(8 * m->layers));
    weft_graph_set_block(g, (int)i);
    weft_graph_set_prefix(g, "b%lld.", (long long)i);
    weft_graph_set_parameter_prefix(g, "blocks.%lld.", (long long)i);
    weft_value *h = linear(g, NULL, x, "up.weight", "ffn embed", in);
    weft_value *y = linear(g, NULL, weft_add1(g, "gelu", NULL, h), "down.weight", "embed ffn", out);
    weft_value *sum = weft_add2(g, "add", NULL, x, y);
    weft_set_role(g, sum, "residual");
    return sum;
}

/* Cross-entropy of the logits, summed over samples; the core divides by how many have labels. */
static void add_loss(weft_graph *g, weft_value *logits)
{
    weft_value *labels = weft_add_input(g, "labels");
    weft_value *max = weft_add1(g, "max_v", "max", logits);
    weft_value *sum = weft_add2(g, "sumexp", "sumexp", logits, max);
    weft_value *picked = weft_add2(g, "pick", "picked", logits, labels);
    weft_value *nll = weft_add(g, "nll", "nll", 4, (weft_value *[]){max, sum, picked, labels});
    weft_add_loss(g, "classes", weft_add1(g, "sum", "sum_nll", nll), 1, WEFT_LOSS_VALIDATION);
    if (weft_graph_mode(g) == WEFT_MODE_TRAIN)
        weft_add1(g, "sum", "n_right", weft_add3(g, "right", "right", picked, max, labels));
}

static void build(void *self, weft_graph *g)
{
    const classifier *m = self;
    weft_graph_dim(g, "rows", m->rows, 1);
    weft_graph_dim(g, "columns", m->columns, 1);
    weft_graph_dim(g, "classes", m->classes, 1);
    weft_graph_dim(g, "embed", m->dim, 1);
    weft_graph_dim(g, "ffn", 4 * m->dim, 1);
    weft_graph_set_block(g, WEFT_BLOCK_EMBEDDING);
    weft_value *x = linear(g, "x", weft_add_input(g, "image"), "image.weight", "embed rows columns",
                           1 / sqrt((double)(m->rows * m->columns)));
    weft_set_role(g, x, "residual");
    for (int64_t i = 0; i < m->layers; i++)
        x = block(m, g, i, x);
    weft_graph_set_block(g, WEFT_BLOCK_HEAD);
    add_loss(g, linear(g, "logits", x, "classes.weight", "classes embed", 1e-3));
}

/* Once the backward is there: those of all micro-batches, as a share of the labels. */
static void report(void *self, weft_graph *g)
{
    (void)self;
    weft_value *right = weft_accumulate(g, weft_graph_find(g, "n_right"), WEFT_SUM);
    weft_add_report(g, "accuracy",
                    weft_add2(g, "scale", "accuracy", right, weft_graph_find(g, "inv_tokens")));
}

/* ---- the plugin ---- */

#define SIZE(field, default_value, help_text)                                                      \
    {                                                                                              \
        .name = #field, WEFT_INT(classifier, field), .value = default_value, .min = 1,             \
        .max = 65536, .help = help_text                                                            \
    }
static const weft_param params[] = {
    SIZE(rows, "12", "Rows of a picture."),
    SIZE(columns, "12", "Points of a row."),
    SIZE(classes, "10", "Labels are below it."),
    SIZE(dim, "64", "Width of the residual stream."),
    SIZE(layers, "2", "Blocks."),
    {.name = NULL},
};

static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS,
     .stage = WEFT_STAGE_GRAPH,
     .graph = build,
     .gives = (const char *const[]){"model", NULL}},
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_JOINT, .modes = WEFT_IN_TRAIN, .graph = report},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(classifier) = {
    WEFT_PLUGIN_HEAD,
    .name = "classifier",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "a model: which class a picture is of",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .self_size = WEFT_SELF(classifier),
    .contributions = contributions,
    .ops = ops,
};
