/* SPDX-License-Identifier: Apache-2.0 */
/* dropout: of what attention and the feed-forward add to the residual stream a part is left out, in
 * training, at random (Srivastava et al., "Dropout", 2014). Which part is a function of the step,
 * the sample, the place in it and the channel: the same on every mesh, in every micro-batch, and
 * when the forward is computed again. It shows how an op draws at random. */
#include <weft/weft.h>

#include <string.h>

/* ---- the op ---- */

/* x, index, step, micro-batch -> x with zeros. Row i of memory is place index[i] of its sample. Its
 * gradient is itself: the same elements of dy. */
static weft_status drop(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0], *index = &call->ins[1], *out = &call->outs[0];
    const double p = weft_call_real(call, "p");
    const uint64_t seed = (uint64_t)weft_call_int(call, "seed"),
                   site = (uint64_t)weft_call_int(call, "site"),
                   step = (uint64_t)weft_tensor_get(&call->ins[2], 0);
    const int64_t micro = (int64_t)weft_tensor_get(&call->ins[3], 0), seq = x->size[1],
                  width = x->size[2];
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(out); i++) {
        const int64_t sample = micro * x->whole[0] + x->lo[0] + i / width / seq,
                      place = (int64_t)weft_tensor_get(index, i / width % seq),
                      channel = x->lo[2] + i % width;
        const uint64_t element = (uint64_t)((sample * x->whole[1] + place) * x->whole[2] + channel);
        const bool stays = weft_random_uniform(seed, step << 16 | site, element) >= p;
        const double y = stays ? weft_tensor_get(x, i) / (1 - p) : 0;
        weft_tensor_set(out, i, call->accumulate ? weft_tensor_get(out, i) + y : y);
    }
    return WEFT_OK;
}

static const weft_op dropout_op = {
    .name = "dropout",
    .summary = "x with zeros at random, by step and place: x, index, step, micro_batch -> y",
    .rule = "b s e, s, , -> b s e",
    .linear = "0",
    .grad = (const char *const[]){"0: dropout dy 1 2 3", NULL},
    .attrs = "p seed site",
    .flags = WEFT_OP_HALF,
    .plain = drop,
};

static const weft_op *const ops[] = {&dropout_op, NULL};

/* ---- the pass ---- */

typedef struct dropout {
    const weft_host *host;
    double p;
    int64_t seed;
} dropout;

static const weft_param params[] = {
    {.name = "p",
     WEFT_REAL(dropout, p),
     .value = "0.1",
     .max = 0.99,
     .help = "Which part is left out."},
    {.name = "seed", WEFT_INT(dropout, seed), .value = "1", .max = 1e9, .help = "Of the dice."},
    {.name = NULL},
};

static bool is_residual(const weft_value *v)
{
    return v->role && strcmp(v->role, "residual") == 0;
}

/* What a block adds to the residual stream; -1: it adds nothing here. */
static int branch_of(const weft_node *n)
{
    if (strcmp(n->op->name, "add") != 0 || !is_residual(n->outs[0]))
        return -1;
    return is_residual(n->ins[1]) ? 0 : 1;
}

static void graph(void *self, weft_graph *g)
{
    const dropout *d = self;
    int site = 0;
    for (weft_node *n = weft_graph_first(g); n && !weft_graph_status(g); n = n->next) {
        const int branch = branch_of(n);
        if (branch < 0)
            continue;
        weft_graph_at(g, n);
        weft_value *ins[] = {n->ins[branch], weft_add_input(g, "index"), weft_add_input(g, "step"),
                             weft_add_input(g, "micro_batch")};
        weft_value *y = weft_add(g, "dropout", NULL, 4, ins);
        weft_set_real(g, y, "p", d->p);
        weft_set_int(g, y, "seed", d->seed);
        weft_set_int(g, y, "site", site++);
        weft_node_set_operand(g, n, branch, y);
    }
    weft_graph_at(g, NULL);
    if (site == 0)
        weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                        "dropout: the model adds nothing to a residual stream; take dropout off "
                        "the list");
}

static const char *const needs[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS,
     .stage = WEFT_STAGE_GRAPH,
     .modes = WEFT_IN_TRAIN,
     .graph = graph,
     .needs = needs},
    {0},
};

WEFT_PLUGIN(dropout) = {
    WEFT_PLUGIN_HEAD,
    .name = "dropout",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "leaves out a part of what blocks add, at random",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .self_size = WEFT_SELF(dropout),
    .contributions = contributions,
    .ops = ops,
};
