/* SPDX-License-Identifier: Apache-2.0 */
/* tinylm: a small decoder with squared-ReLU feed-forwards. The descriptor at the end is all that
 * weft sees of this plugin. */
#include "tinylm.h"

#include <math.h>
#include <stdio.h>

static const weft_param params[] = {
    {.name = "dim",
     .type = WEFT_PARAM_INT,
     .value = "128",
     .min = 2,
     .max = 65536,
     .help = "Width of the residual stream."},
    {.name = "n_layers",
     .type = WEFT_PARAM_INT,
     .value = "3",
     .min = 1,
     .max = 1000,
     .help = "Transformer blocks."},
    {.name = "n_heads",
     .type = WEFT_PARAM_INT,
     .value = "4",
     .min = 1,
     .max = 1024,
     .help = "Attention heads; dim / n_heads must be even."},
    {.name = "vocab_size",
     .type = WEFT_PARAM_INT,
     .value = "258",
     .min = 1,
     .max = 1 << 24,
     .help = "Ids that the embedding and the head know."},
    {.name = NULL},
};

typedef struct tinylm {
    int64_t dim, layers, heads, vocab;
} tinylm;

static weft_status create(const weft_host *host, void **self, weft_error *err)
{
    const weft_params *p =
        host->params; /* types and ranges are checked; how keys go together is for us to check */
    int64_t dim = weft_params_int(p, "dim"), heads = weft_params_int(p, "n_heads");
    if (dim % (2 * heads) != 0)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "n_heads"),
                         "[tinylm] n_heads %lld: dim %lld must be a multiple of 2 n_heads",
                         (long long)heads, (long long)dim);
    tinylm *m = weft_alloc(sizeof *m);
    if (!m)
        return weft_fail_memory(err);
    *m = (tinylm){dim, weft_params_int(p, "n_layers"), heads, weft_params_int(p, "vocab_size")};
    *self = m;
    return WEFT_OK;
}

static void destroy(void *self)
{
    weft_free(self);
}

/* ---- the graph: global shapes, no layouts, no meshes. Builders pass NULL on, so nothing is
 * checked in between. ---- */

static weft_value *parameter(weft_graph *g, int64_t layer, const char *name, const char *shape,
                             weft_init init)
{
    char full[64];
    snprintf(full, sizeof full, "blocks.%lld.%s.weight", (long long)layer, name);
    return weft_add_parameter(g, full, shape, init);
}

static weft_value *norm(weft_graph *g, weft_value *x, weft_value *w)
{
    weft_value *n = weft_add2(g, "rms_norm", NULL, x, w);
    weft_set_real(g, n, "eps", 1e-5);
    return n;
}

static weft_value *rope(weft_graph *g, weft_value *x)
{
    weft_value *r = weft_add2(g, "rope", NULL, x, weft_add_input(g, "positions"));
    weft_set_real(g, r, "theta", 10000);
    return r;
}

static weft_value *block(const tinylm *m, weft_graph *g, int64_t l, weft_value *x)
{
    const weft_init one = {WEFT_INIT_ONE, 0, 0}, in = {WEFT_INIT_NORMAL, 0.02, 0},
                    out = {WEFT_INIT_NORMAL, 0.02 / sqrt(2.0 * (double)m->layers), 0};
    weft_value *index = weft_add_input(g, "index"), *segments = weft_add_input(g, "segments");
    weft_graph_set_block(g, (int)l);

    weft_value *n = norm(g, x, parameter(g, l, "norm1", "embed", one));
    weft_value *q = rope(g, weft_linear(g, NULL, n, parameter(g, l, "q", "heads embed", in)));
    weft_value *k = rope(g, weft_linear(g, NULL, n, parameter(g, l, "k", "heads embed", in)));
    weft_value *v = weft_linear(g, NULL, n, parameter(g, l, "v", "heads embed", in));
    weft_value *o = weft_add(g, "attention", NULL, 7,
                             (weft_value *[]){q, k, v, index, index, segments, segments});
    weft_set_int(g, o, "causal", 1);
    weft_value *h = weft_add2(g, "add", NULL, x,
                              weft_linear(g, NULL, o, parameter(g, l, "o", "embed heads", out)));
    weft_set_role(g, h, "residual");

    n = norm(g, h, parameter(g, l, "norm2", "embed", one));
    char name[32]; /* without a name a value is called after its op */
    snprintf(name, sizeof name, "b%lld.act", (long long)l);
    weft_value *a = weft_add1(g, "relu2", name,
                              weft_linear(g, NULL, n, parameter(g, l, "up", "ffn embed", in)));
    weft_value *y = weft_add2(g, "add", NULL, h,
                              weft_linear(g, NULL, a, parameter(g, l, "down", "embed ffn", out)));
    weft_set_role(g, y, "residual");
    return y;
}

static weft_status build(void *self, weft_graph *g, weft_error *err)
{
    const tinylm *m = self;
    const weft_init normal = {WEFT_INIT_NORMAL, 0.02, 0};
    (void)err;
    weft_graph_dim(g, "embed", m->dim, 1);
    weft_graph_dim(g, "heads", m->heads, m->dim / m->heads); /* cut at whole heads only */
    weft_graph_dim(g, "ffn", 4 * m->dim, 1);
    weft_graph_dim(g, "vocab", m->vocab, 1);

    weft_graph_set_block(g, WEFT_BLOCK_EMBEDDING);
    weft_value *x = weft_add2(g, "embedding", "x", weft_add_input(g, "ids"),
                              weft_add_parameter(g, "embed.weight", "vocab embed", normal));
    weft_set_role(g, x, "residual");
    for (int64_t l = 0; l < m->layers; l++)
        x = block(m, g, l, x);
    weft_graph_set_block(g, WEFT_BLOCK_HEAD);
    x = norm(g, x, weft_add_parameter(g, "norm.weight", "embed", (weft_init){WEFT_INIT_ONE, 0, 0}));
    weft_add_head(g, x, weft_add_parameter(g, "head.weight", "vocab embed", normal));
    return weft_graph_status(g);
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
    .create = create,
    .destroy = destroy,
};
