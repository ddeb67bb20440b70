/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor parallelism is a table: heads, kv_heads, ffn and vocab of parameters are cut over axis tp,
 * the sequence of the residual stream too. Column and row parallel products, sequence parallel
 * norms, the sharded embedding and the parallel loss follow from it. */
#include "tp.h"

static const char *const reductions[] = {"auto", "f32", NULL};

typedef struct tp {
    const weft_host *host;
    int64_t degree;
    bool sequence_parallel, regather, loss_parallel;
    int reduce_dtype;
} tp;

enum { REDUCE_AUTO, REDUCE_F32 };

static const weft_param params[] = {
    {.name = "degree",
     WEFT_INT(tp, degree),
     .tune = "ranks",
     .min = 1,
     .max = 1 << 16,
     .unit = "ranks",
     .flags = WEFT_PARAM_REQUIRED,
     .help = "Size of axis tp: ranks that share every product."},
    {.name = "sequence_parallel",
     WEFT_BOOL(tp, sequence_parallel),
     .value = "yes",
     .help = "Cut the sequence of the residual stream, so that norms and sums are shared as well."},
    {.name = "regather",
     WEFT_BOOL(tp, regather),
     .value = "yes",
     .when = "sequence_parallel=yes",
     .help = "Gather a block's tokens again in the backward instead of "
             "keeping them whole on every rank."},
    {.name = "loss_parallel",
     WEFT_BOOL(tp, loss_parallel),
     .value = "yes",
     .help = "Keep logits cut by vocabulary; no: every rank holds them whole."},
    {.name = "reduce_dtype",
     WEFT_CHOICE(tp, reduce_dtype),
     .value = "auto",
     .choices = reductions,
     .help = "What the forward's sums over tp are made and sent in: auto: the activations' own "
             "dtype; f32: twice the bytes of bf16, rounded once."},
    {.name = NULL},
};

/* The dims of parameters that are cut. */
static const char *const dims[] = {"heads", "v_heads", "ffn", "shared_ffn", "vocab"};
enum { DIMS = sizeof dims / sizeof dims[0] };

/* Does a product contract a dim of its weight which tp cuts, so that its result is an open sum? */
static bool is_row_parallel(const weft_node *n)
{
    bool contracts = false;
    for (int i = 0; i < n->n_ins && weft_node_in(n, "linear"); i++)
        for (int d = 0; d < DIMS && n->ins[i]->weight; d++)
            contracts = contracts || (weft_value_dim(n->ins[i], dims[d]) >= 0 &&
                                      weft_value_dim(n->outs[0], dims[d]) < 0);
    return contracts;
}

/* The sum stays f32 until it is closed. The mark tells whoever narrows values later to leave this
 * one and to narrow behind it; the gradient stays as narrow as it is, for nothing is summed on its
 * way. */
static void keep_wide(weft_graph *g, const tp *self, weft_value *v)
{
    weft_set_mark(g, v, WEFT_MARK_WIDE, 1);
    weft_add_rule_of(g, v, self->sequence_parallel ? "seq" : NULL, "tp");
    if (v->dtype != WEFT_BF16)
        return;
    weft_narrow_at_use(g, v);
    v->dtype = WEFT_F32;
}

static void add_table(void *self, weft_graph *g)
{
    const tp *t = self;
    for (int d = 0; d < DIMS; d++)
        weft_add_rule(g, WEFT_RULE_PARAM, NULL, dims[d], "tp");
    for (weft_node *n = weft_graph_first(g); n && t->degree > 1; n = n->next)
        if (t->reduce_dtype == REDUCE_F32 && is_row_parallel(n))
            keep_wide(g, t, n->outs[0]);
    if (!tp_repeat_kv(g, t->degree)) /* keys are whole on every rank then */
        weft_add_rule(g, WEFT_RULE_PARAM, NULL, "kv_heads", "tp");
    if (t->sequence_parallel)
        weft_add_rule_seq(g, WEFT_RULE_ROLE, "residual", "tp");
    else
        weft_add_rule(g, WEFT_RULE_ROLE, "residual", NULL, "tp");
    if (t->regather)
        weft_add_regather(g, "tp");
    if (!t->loss_parallel)
        weft_add_rule(g, WEFT_RULE_ROLE, "logits", NULL, "tp");
}

static const char *const needs[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_AXIS, .axis = "tp", .degree = "degree"},
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = add_table, .needs = needs},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(tp) = {
    WEFT_PLUGIN_HEAD,
    .name = "tp",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "tensor, sequence and loss parallelism",
    .numerics = WEFT_NUMERICS_TOLERANCE,
    .params = params,
    .self_size = WEFT_SELF(tp),
    .contributions = contributions,
    .ops = tp_ops,
};
