/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2: learned positions, LayerNorm, GELU, biases, a head tied to the embedding. Hugging Face's
 * names; q, k, v are separate, and all weights are [out, in]. */
#include <weft/weft.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct flavor {
    const char *name;
    int64_t dim, layers, heads;
} flavor;

static const flavor flavors[] = {{"debug", 128, 4, 4},
                                 {"124M", 768, 12, 12},
                                 {"355M", 1024, 24, 16},
                                 {"774M", 1280, 36, 20},
                                 {"1558M", 1600, 48, 25}};
static const char *const flavor_names[] = {"debug", "124M", "355M", "774M", "1558M", NULL};
static const char *const of_flavor[] = {"flavor", NULL};

#define SIZE(key, text)                                                                            \
    {                                                                                              \
        .name = key, .type = WEFT_PARAM_INT, .value = "flavor", .min = 1, .max = 1 << 24,          \
        .choices = of_flavor, .help = text                                                         \
    }

static const char *const vocab_words[] = {"auto", NULL};

static const weft_param params[] = {
    {.name = "flavor",
     .type = WEFT_PARAM_CHOICE,
     .value = "debug",
     .choices = flavor_names,
     .help = "the sizes that the other keys default to"},
    SIZE("dim", "width of the residual stream (Hugging Face: n_embd)"),
    {.name = "n_layers",
     .type = WEFT_PARAM_INT,
     .value = "flavor",
     .min = 1,
     .max = 1 << 14,
     .choices = of_flavor,
     .help = "transformer blocks"},
    SIZE("n_heads", "attention heads; must divide dim"),
    SIZE("ffn_dim", "hidden width of the feed-forward; flavor: 4 dim"),
    {.name = "vocab_size",
     .type = WEFT_PARAM_INT,
     .value = "50257",
     .min = 1,
     .max = 1 << 24,
     .choices = vocab_words,
     .help = "ids that the embedding knows; auto: as many as the tokenizer has"},
    {.name = "n_positions",
     .type = WEFT_PARAM_INT,
     .value = "1024",
     .min = 1,
     .max = 1 << 24,
     .unit = "tokens",
     .help = "learned positions; at least seq_len"},
    {.name = "norm_eps",
     .type = WEFT_PARAM_REAL,
     .value = "1e-5",
     .min = 0,
     .max = 1,
     .help = "added to the variance in LayerNorm"},
    {.name = "tied",
     .type = WEFT_PARAM_BOOL,
     .value = "yes",
     .help = "the head shares the embedding's weight"},
    {.name = NULL},
};

typedef struct gpt2 {
    const weft_host *host;
    flavor size;
    int64_t ffn;
} gpt2;

static int64_t pick(const weft_params *p, const char *key, int64_t standard)
{
    return weft_params_is(p, key, "flavor") ? standard : weft_params_int(p, key);
}

static weft_status create(const weft_host *host, void **self, weft_error *err)
{
    const weft_params *p = host->params;
    gpt2 *m = weft_alloc_zero(1, sizeof *m);
    if (!m)
        return weft_fail_memory(err);
    m->host = host;
    for (size_t i = 0; i < sizeof flavors / sizeof flavors[0]; i++)
        if (weft_params_is(p, "flavor", flavors[i].name))
            m->size = flavors[i];
    m->size.dim = pick(p, "dim", m->size.dim);
    m->size.layers = pick(p, "n_layers", m->size.layers);
    m->size.heads = pick(p, "n_heads", m->size.heads);
    m->ffn = pick(p, "ffn_dim", 4 * m->size.dim);
    weft_status s = WEFT_OK;
    if (m->size.dim % m->size.heads)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "n_heads"),
                      "[gpt2] n_heads %lld does not divide dim %lld", (long long)m->size.heads,
                      (long long)m->size.dim);
    int64_t seq_len = weft_params_int(host->train, "seq_len");
    if (weft_params_int(p, "n_positions") < seq_len)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "n_positions"),
                      "[gpt2] n_positions %lld is less than [train] seq_len %lld",
                      (long long)weft_params_int(p, "n_positions"), (long long)seq_len);
    if (s)
        weft_free(m);
    else
        *self = m;
    return s;
}

static void destroy(void *self)
{
    weft_free(self);
}

/* ---- the graph ---- */

static weft_init normal(double std)
{
    return (weft_init){WEFT_INIT_NORMAL, std, 0};
}

typedef struct site {
    const gpt2 *m;
    weft_graph *g;
    int64_t layer;
    char text[2][96];
} site;

static const char *parameter_name(site *s, const char *part, const char *what)
{
    if (s->layer >= 0)
        snprintf(s->text[0], sizeof s->text[0], "transformer.h.%lld.%s.%s", (long long)s->layer,
                 part, what);
    else
        snprintf(s->text[0], sizeof s->text[0], "transformer.%s.%s", part, what);
    return s->text[0];
}

static const char *value_name(site *s, const char *name)
{
    if (s->layer >= 0)
        snprintf(s->text[1], sizeof s->text[1], "b%lld.%s", (long long)s->layer, name);
    else
        snprintf(s->text[1], sizeof s->text[1], "%s", name);
    return s->text[1];
}

static weft_value *norm(site *s, const char *name, const char *part, weft_value *x)
{
    weft_value *w = weft_add_parameter(s->g, parameter_name(s, part, "weight"), "embed",
                                       (weft_init){WEFT_INIT_ONE, 0, 0});
    weft_value *b = weft_add_parameter(s->g, parameter_name(s, part, "bias"), "embed",
                                       (weft_init){WEFT_INIT_ZERO, 0, 0});
    weft_value *n = weft_add3(s->g, "layer_norm", value_name(s, name), x, w, b);
    weft_set_real(s->g, n, "eps", weft_params_real(s->m->host->params, "norm_eps"));
    return n;
}

/* A linear with bias; out and in are dim names. */
static weft_value *linear(site *s, const char *name, const char *part, const char *out,
                          const char *in, double std, weft_value *x)
{
    char shape[64], product[64];
    snprintf(shape, sizeof shape, "%s %s", out, in);
    snprintf(product, sizeof product, "%s.xw", name);
    weft_value *w = weft_add_parameter(s->g, parameter_name(s, part, "weight"), shape, normal(std));
    weft_value *b = weft_add_parameter(s->g, parameter_name(s, part, "bias"), out,
                                       (weft_init){WEFT_INIT_ZERO, 0, 0});
    return weft_bias(s->g, value_name(s, name), weft_linear(s->g, value_name(s, product), x, w), b);
}

static weft_value *block(site *s, weft_value *x)
{
    weft_graph *g = s->g;
    double out_std = 0.02 / sqrt(2.0 * (double)s->m->size.layers);
    weft_graph_set_block(g, (int)s->layer);
    weft_value *n = norm(s, "n1", "ln_1", x);
    weft_value *q = linear(s, "q", "attn.q_proj", "heads", "embed", 0.02, n);
    weft_value *k = linear(s, "k", "attn.k_proj", "heads", "embed", 0.02, n);
    weft_value *v = linear(s, "v", "attn.v_proj", "heads", "embed", 0.02, n);
    weft_value *index = weft_add_input(g, "index"), *segments = weft_add_input(g, "segments");
    weft_value *o = weft_add(g, "attention", value_name(s, "o"), 7,
                             (weft_value *[]){q, k, v, index, index, segments, segments});
    weft_set_int(g, o, "causal", 1);
    weft_value *d = linear(s, "attn", "attn.c_proj", "embed", "heads", out_std, o);
    weft_value *h = weft_add2(g, "add", value_name(s, "h"), x, d);
    weft_set_role(g, h, "residual");
    n = norm(s, "n2", "ln_2", h);
    weft_value *f = linear(s, "f", "mlp.c_fc", "ffn", "embed", 0.02, n);
    weft_value *a = weft_add1(g, "gelu", value_name(s, "a"), f);
    d = linear(s, "d", "mlp.c_proj", "embed", "ffn", out_std, a);
    weft_value *y = weft_add2(g, "add", value_name(s, "y"), h, d);
    weft_set_role(g, y, "residual");
    return y;
}

static weft_status build(void *self, weft_graph *g, weft_error *err)
{
    const gpt2 *m = self;
    const weft_params *p = m->host->params;
    site s = {.m = m, .g = g, .layer = -1};
    int64_t n_vocab;
    weft_status status =
        weft_vocabulary(m->host, "gpt2", weft_params_int(p, "vocab_size"), &n_vocab, err);
    if (status)
        return status;
    if (weft_graph_context(g) > weft_params_int(p, "n_positions"))
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "n_positions"),
                         "[gpt2] n_positions %lld is less than the %lld tokens of context that "
                         "text is written with; choose [sample] context = %lld",
                         (long long)weft_params_int(p, "n_positions"),
                         (long long)weft_graph_context(g),
                         (long long)weft_params_int(p, "n_positions"));
    weft_graph_dim(g, "embed", m->size.dim, 1);
    weft_graph_dim(g, "heads", m->size.heads, m->size.dim / m->size.heads);
    weft_graph_dim(g, "ffn", m->ffn, 1);
    weft_graph_dim(g, "vocab", n_vocab, 1);
    weft_graph_dim(g, "positions", weft_params_int(p, "n_positions"), 1);

    weft_graph_set_block(g, WEFT_BLOCK_EMBEDDING);
    weft_value *table =
        weft_add_parameter(g, "transformer.wte.weight", "vocab embed", normal(0.02));
    weft_value *places =
        weft_add_parameter(g, "transformer.wpe.weight", "positions embed", normal(0.02));
    weft_value *tokens = weft_add2(g, "embedding", "x.tokens", weft_add_input(g, "ids"), table);
    weft_value *position =
        weft_add2(g, "embedding", "x.positions", weft_add_input(g, "positions"), places);
    weft_value *x = weft_add2(g, "add", "x", tokens, position);
    weft_set_role(g, x, "residual");
    for (s.layer = 0; s.layer < m->size.layers; s.layer++)
        x = block(&s, x);
    s.layer = -1;
    weft_graph_set_block(g, WEFT_BLOCK_HEAD);
    x = norm(&s, "nf", "ln_f", x);
    weft_value *head = weft_params_bool(p, "tied")
                           ? table
                           : weft_add_parameter(g, "lm_head.weight", "vocab embed", normal(0.02));
    weft_add_head(g, x, head);
    return weft_graph_status(g);
}

static const char *const gives[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = build, .gives = gives},
    {.kind = WEFT_END}};

WEFT_PLUGIN(gpt2) = {
    WEFT_PLUGIN_HEAD,
    .name = "gpt2",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "GPT-2: learned positions, LayerNorm, GELU, biases, tied head",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .contributions = contributions,
    .create = create,
    .destroy = destroy,
};
