/* SPDX-License-Identifier: Apache-2.0 */
/* z-loss (Chowdhery et al., "PaLM", 2022): weight * log(sum exp(logits))^2 of every token is added
 * to the loss, so that logits do not drift. It shows how a pass adds a term to the loss. */
#include <weft/weft.h>

#include <math.h>
#include <string.h>

/* ---- the op: max, sumexp, labels [b s] -> [b s], 0 where there is no label ---- */

static void put(const weft_call *call, int64_t i, double y)
{
    const weft_tensor *out = &call->outs[0];
    weft_tensor_set(out, i, call->accumulate ? weft_tensor_get(out, i) + y : y);
}

/* log(sum exp(logits)) of token i. */
static double log_sum(const weft_call *call, int64_t i)
{
    return log(weft_tensor_get(&call->ins[1], i)) + weft_tensor_get(&call->ins[0], i);
}

static weft_status z_square(const weft_call *call, weft_error *err)
{
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++)
        put(call, i, weft_tensor_get(&call->ins[2], i) < 0 ? 0 : pow(log_sum(call, i), 2));
    return WEFT_OK;
}

/* max, sumexp, labels, dy -> the gradient of sumexp */
static weft_status z_square_de(const weft_call *call, weft_error *err)
{
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++)
        put(call, i,
            weft_tensor_get(&call->ins[2], i) < 0
                ? 0
                : 2 * log_sum(call, i) / weft_tensor_get(&call->ins[1], i) *
                      weft_tensor_get(&call->ins[3], i));
    return WEFT_OK;
}

/* The logarithm does not depend on which maximum was taken out: operand 0 gets no gradient. */
static const char *const grad[] = {"1: z_square_de 0 1 2 dy", NULL};
static const weft_op z_square_op = {
    .name = "z_square",
    .summary = "the squared logarithm of the sum of exp(logits)",
    .rule = "b s, b s, b s -> b s",
    .grad = grad,
    .flags = WEFT_OP_STAT,
    .plain = z_square,
};
static const weft_op z_square_de_op = {
    .name = "z_square_de",
    .summary = "gradient of z_square's sumexp",
    .rule = "b s, b s, b s, b s -> b s",
    .linear = "3",
    .flags = WEFT_OP_STAT,
    .plain = z_square_de,
};

/* ---- the pass ---- */

typedef struct z_loss {
    const weft_host *host;
    double weight;
    int mean;
} z_loss;

enum { STEP, MICRO_BATCH };

static const weft_param params[] = {
    {.name = "weight",
     WEFT_REAL(z_loss, weight),
     .value = "1e-4",
     .min = 0,
     .max = 1e6,
     .help = "What the squares are multiplied by."},
    {.name = "mean",
     WEFT_CHOICE(z_loss, mean),
     .value = "step",
     .choices = (const char *const[]){"step", "micro_batch", NULL},
     .help = "Over the tokens of a step, or over those of each micro-batch and then over these."},
    {.name = NULL},
};

/* Each part of the head gets a term, next to its cross-entropy, so that it runs with it. */
static void add_part(weft_graph *g, weft_node *nll, const z_loss *m)
{
    weft_graph_at(g, nll);
    weft_value *squares = weft_add3(g, "z_square", NULL, nll->ins[0], nll->ins[1], nll->ins[3]);
    weft_value *sum = weft_add1(g, "sum", NULL, squares);
    bool each = m->mean == MICRO_BATCH;
    if (each) {
        weft_value *n = weft_add1(g, "count_valid", NULL, weft_add_input(g, "labels"));
        sum = weft_add2(g, "scale", NULL, sum, weft_add1(g, "reciprocal", NULL, n));
    }
    weft_graph_at(g, NULL);
    weft_add_loss(g, NULL, sum, m->weight, each ? WEFT_LOSS_PER_MICRO_BATCH : 0);
}

static void add_z_loss(void *self, weft_graph *g)
{
    int n_found = 0;
    for (weft_node *n = weft_graph_first(g); n && !weft_graph_status(g); n = n->next) {
        if (strcmp(n->op->name, "nll") != 0)
            continue;
        add_part(g, n, self);
        n_found++;
    }
    if (n_found == 0)
        weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                        "z_loss: the model has no cross-entropy; take z_loss off the list");
}

static const char *const needs[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS,
     .stage = WEFT_STAGE_GRAPH,
     .modes = WEFT_IN_TRAIN,
     .graph = add_z_loss,
     .needs = needs},
    {.kind = WEFT_END},
};
static const weft_op *const ops[] = {&z_square_op, &z_square_de_op, NULL};

WEFT_PLUGIN(z_loss) = {
    WEFT_PLUGIN_HEAD,
    .name = "z_loss",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "keeps the logarithm of the sum of exp(logits) small",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .self_size = WEFT_SELF(z_loss),
    .contributions = contributions,
    .ops = ops,
};
