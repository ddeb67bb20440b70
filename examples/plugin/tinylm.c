/* SPDX-License-Identifier: Apache-2.0 */
/* tinylm: a small decoder with squared-ReLU feed-forwards. The descriptor at the end is all that
 * weft sees of this plugin. */
#include "tinylm.h"

#include <math.h>
#include <weft/rope.h>

/* The keys of [tinylm], filled in before create. */
typedef struct tinylm {
    const weft_host *host;
    int64_t dim, layers, heads, vocab;
} tinylm;

static const weft_param params[] = {
    {.name = "dim",
     WEFT_INT(tinylm, dim),
     .value = "128",
     .min = 2,
     .max = 65536,
     .help = "Width of the residual stream."},
    {.name = "n_layers",
     WEFT_INT(tinylm, layers),
     .value = "3",
     .min = 1,
     .max = 1000,
     .help = "Transformer blocks."},
    {.name = "n_heads",
     WEFT_INT(tinylm, heads),
     .value = "4",
     .min = 1,
     .max = 1024,
     .help = "Attention heads; dim / n_heads must be even."},
    {.name = "vocab_size",
     WEFT_INT(tinylm, vocab),
     .value = "258",
     .min = 1,
     .max = 1 << 24,
     .help = "Ids that the embedding and the head know."},
    {.name = NULL},
};

/* Types and ranges are checked; how keys go together is for us to check. */
static weft_status create(void *self, weft_error *err)
{
    const tinylm *m = self;
    if (m->dim % (2 * m->heads) == 0)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(m->host->params, "n_heads"),
                     "[tinylm] n_heads %lld: dim %lld must be a multiple of 2 n_heads",
                     (long long)m->heads, (long long)m->dim);
}

/* ---- the graph: global shapes, no layouts, no meshes. Builders pass NULL on, so nothing is
 * checked in between. ---- */

static weft_value *norm(weft_graph *g, weft_value *x, weft_value *w)
{
    weft_value *n = weft_add2(g, "rms_norm", NULL, x, w);
    weft_set_real(g, n, "eps", 1e-5);
    return n;
}

static weft_value *block(const tinylm *m, weft_graph *g, int64_t l, weft_value *x, weft_value *turn)
{
    const weft_init one = {WEFT_INIT_ONE, 0, 0}, in = {WEFT_INIT_NORMAL, 0.02, 0},
                    out = {WEFT_INIT_NORMAL, 0.02 / sqrt(2.0 * (double)m->layers), 0};
    weft_value *index = weft_add_input(g, "index"), *segments = weft_add_input(g, "segments");
    weft_graph_set_block(g, (int)l);
    weft_graph_set_prefix(g, "b%lld.", (long long)l);
    weft_graph_set_parameter_prefix(g, "blocks.%lld.", (long long)l);

    weft_value *n = norm(g, x, weft_add_parameter(g, "norm1.weight", "embed", one));
    weft_value *q = weft_linear(g, NULL, n, weft_add_parameter(g, "q.weight", "heads embed", in));
    weft_value *k = weft_linear(g, NULL, n, weft_add_parameter(g, "k.weight", "heads embed", in));
    q = weft_rope_turn(g, NULL, q, turn, 0, false);
    k = weft_rope_turn(g, NULL, k, turn, 0, false);
    weft_value *v = weft_linear(g, NULL, n, weft_add_parameter(g, "v.weight", "heads embed", in));
    weft_value *o = weft_add(g, "attention", NULL, 7,
                             (weft_value *[]){q, k, v, index, index, segments, segments});
    weft_set_int(g, o, "causal", 1);
    weft_value *h =
        weft_add2(g, "add", NULL, x,
                  weft_linear(g, NULL, o, weft_add_parameter(g, "o.weight", "embed heads", out)));
    weft_set_role(g, h, "residual");

    n = norm(g, h, weft_add_parameter(g, "norm2.weight", "embed", one));
    /* without a name a value is called after its op */
    weft_value *a =
        weft_add1(g, "relu2", "act",
                  weft_linear(g, NULL, n, weft_add_parameter(g, "up.weight", "ffn embed", in)));
    weft_value *y =
        weft_add2(g, "add", NULL, h,
                  weft_linear(g, NULL, a, weft_add_parameter(g, "down.weight", "embed ffn", out)));
    weft_set_role(g, y, "residual");
    return y;
}

static void build(void *self, weft_graph *g)
{
    const tinylm *m = self;
    const weft_init normal = {WEFT_INIT_NORMAL, 0.02, 0};
    weft_graph_dim(g, "embed", m->dim, 1);
    weft_graph_dim(g, "heads", m->heads, m->dim / m->heads); /* cut at whole heads only */
    weft_graph_dim(g, "ffn", 4 * m->dim, 1);
    weft_graph_dim(g, "vocab", m->vocab, 1);

    const weft_rope rope = {.pairs = m->dim / m->heads / 2, .theta = 10000};
    weft_value *turn = weft_rope_angles(g, &rope); /* of no block, once for all */

    weft_graph_set_block(g, WEFT_BLOCK_EMBEDDING);
    weft_value *x = weft_add2(g, "embedding", "x", weft_add_input(g, "ids"),
                              weft_add_parameter(g, "embed.weight", "vocab embed", normal));
    weft_set_role(g, x, "residual");
    for (int64_t l = 0; l < m->layers; l++)
        x = block(m, g, l, x, turn);
    weft_graph_set_block(g, WEFT_BLOCK_HEAD);
    x = norm(g, x, weft_add_parameter(g, "norm.weight", "embed", (weft_init){WEFT_INIT_ONE, 0, 0}));
    weft_add_head(g, x, weft_add_parameter(g, "head.weight", "vocab embed", normal));
}

/* ---- the descriptor ---- */

static const char *const gives[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = build, .gives = gives},
    {.kind = WEFT_END}};
static const weft_op *const ops[] = {&relu2_op, &relu2_dx_op, NULL};

WEFT_PLUGIN(tinylm) = {
    WEFT_PLUGIN_HEAD,
    .name = "tinylm",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "a small decoder with squared-ReLU feed-forwards",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .contributions = contributions,
    .ops = ops,
    .kernels = relu2_kernels,
    .self_size = WEFT_SELF(tinylm),
    .create = create,
};
