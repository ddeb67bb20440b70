/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2: learned positions, LayerNorm, GELU, biases, a head tied to the embedding. Hugging Face's
 * names; q, k, v are separate, and all weights are [out, in]. */
#include <weft/blocks.h>
#include <weft/weft.h>

#include <math.h>
#include <stdio.h>

typedef struct gpt2 {
    const weft_host *host;
    weft_decoder_sizes d; /* of these dim, layers, heads, ffn, vocab, norm_eps, tied */
    int64_t positions;
} gpt2;

static const char *const flavor_names[] = {"debug", "124M", "355M", "774M", "1558M", NULL};
static const char *const flavors[] = {
    "dim = 128, n_layers = 4, n_heads = 4, ffn_dim = 512",
    "dim = 768, n_layers = 12, n_heads = 12, ffn_dim = 3072",
    "dim = 1024, n_layers = 24, n_heads = 16, ffn_dim = 4096",
    "dim = 1280, n_layers = 36, n_heads = 20, ffn_dim = 5120",
    "dim = 1600, n_layers = 48, n_heads = 25, ffn_dim = 6400",
};
static const char *const of_flavor[] = {"flavor", NULL};

static const char *const vocab_words[] = {"auto", NULL};

static const weft_param params[] = {
    WEFT_DECODER_FLAVOR(flavor_names, flavors),
    WEFT_DECODER_SIZE(gpt2, "dim", d.dim, 1, 1 << 24, of_flavor,
                      "width of the residual stream (Hugging Face: n_embd)"),
    {.name = "n_layers",
     WEFT_INT(gpt2, d.layers),
     .flags = WEFT_PARAM_DEPTH,
     .value = "flavor",
     .min = 1,
     .max = 1 << 14,
     .choices = of_flavor,
     .help = "transformer blocks"},
    WEFT_DECODER_SIZE(gpt2, "n_heads", d.heads, 1, 1 << 24, of_flavor,
                      "attention heads; must divide dim"),
    WEFT_DECODER_SIZE(gpt2, "ffn_dim", d.ffn, 1, 1 << 24, of_flavor,
                      "hidden width of the feed-forward; flavor: 4 dim"),
    {.name = "vocab_size",
     WEFT_INT(gpt2, d.vocab),
     .value = "50257",
     .min = 1,
     .max = 1 << 24,
     .choices = vocab_words,
     .help = "ids that the embedding knows; auto: as many as the tokenizer has"},
    {.name = "n_positions",
     WEFT_INT(gpt2, positions),
     .value = "1024",
     .min = 1,
     .max = 1 << 24,
     .unit = "tokens",
     .help = "learned positions; at least seq_len"},
    {.name = "norm_eps",
     WEFT_REAL(gpt2, d.norm_eps),
     .value = "1e-5",
     .min = 0,
     .max = 1,
     .help = "added to the variance in LayerNorm"},
    WEFT_DECODER_TIED(gpt2, "yes", "the head shares the embedding's weight"),
    {.name = NULL},
};

static weft_status create(void *self, weft_error *err)
{
    gpt2 *m = self;
    const weft_params *p = m->host->params;
    weft_status s = WEFT_OK;
    if (weft_params_is(p, "ffn_dim", "flavor"))
        m->d.ffn = 4 * m->d.dim;
    if (m->d.dim % m->d.heads)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "n_heads"),
                      "[gpt2] n_heads %lld does not divide dim %lld", (long long)m->d.heads,
                      (long long)m->d.dim);
    int64_t seq_len = weft_params_int(m->host->train, "seq_len");
    if (m->positions < seq_len)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "n_positions"),
                      "[gpt2] n_positions %lld is less than [train] seq_len %lld",
                      (long long)m->positions, (long long)seq_len);
    return s;
}

/* ---- the graph ---- */

static weft_init normal(double std)
{
    return (weft_init){WEFT_INIT_NORMAL, std, 0};
}

/* A parameter of a part: "attn.q_proj", "weight". */
static weft_value *parameter(weft_graph *g, const char *part, const char *what, const char *shape,
                             weft_init init)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", part, what);
    return weft_add_parameter(g, name, shape, init);
}

static weft_value *norm(const gpt2 *m, weft_graph *g, const char *name, const char *part,
                        weft_value *x)
{
    weft_value *w = parameter(g, part, "weight", "embed", (weft_init){WEFT_INIT_ONE, 0, 0});
    weft_value *b = parameter(g, part, "bias", "embed", (weft_init){WEFT_INIT_ZERO, 0, 0});
    weft_value *n = weft_add3(g, "layer_norm", name, x, w, b);
    weft_set_real(g, n, "eps", m->d.norm_eps);
    return n;
}

/* A linear with bias; out and in are dim names. */
static weft_value *linear(weft_graph *g, const char *name, const char *part, const char *out,
                          const char *in, double std, weft_value *x)
{
    char shape[64], product[64];
    snprintf(shape, sizeof shape, "%s %s", out, in);
    snprintf(product, sizeof product, "%s.xw", name);
    weft_value *w = parameter(g, part, "weight", shape, normal(std));
    weft_value *b = parameter(g, part, "bias", out, (weft_init){WEFT_INIT_ZERO, 0, 0});
    return weft_bias(g, name, weft_linear(g, product, x, w), b);
}

static weft_value *block(const gpt2 *m, weft_graph *g, int64_t layer, weft_value *x)
{
    double out_std = 0.02 / sqrt(2.0 * (double)m->d.layers);
    weft_graph_set_block(g, (int)layer);
    weft_graph_set_prefix(g, "b%lld.", (long long)layer);
    weft_graph_set_parameter_prefix(g, "transformer.h.%lld.", (long long)layer);
    weft_value *n = norm(m, g, "n1", "ln_1", x);
    weft_value *q = linear(g, "q", "attn.q_proj", "heads", "embed", 0.02, n);
    weft_value *k = linear(g, "k", "attn.k_proj", "heads", "embed", 0.02, n);
    weft_value *v = linear(g, "v", "attn.v_proj", "heads", "embed", 0.02, n);
    weft_value *index = weft_add_input(g, "index"), *segments = weft_add_input(g, "segments");
    weft_value *o = weft_add(g, "attention", "o", 7,
                             (weft_value *[]){q, k, v, index, index, segments, segments});
    weft_set_int(g, o, "causal", 1);
    weft_value *d = linear(g, "attn", "attn.c_proj", "embed", "heads", out_std, o);
    weft_value *h = weft_add2(g, "add", "h", x, d);
    weft_set_role(g, h, "residual");
    n = norm(m, g, "n2", "ln_2", h);
    weft_value *f = linear(g, "f", "mlp.c_fc", "ffn", "embed", 0.02, n);
    weft_value *a = weft_add1(g, "gelu", "a", f);
    d = linear(g, "d", "mlp.c_proj", "embed", "ffn", out_std, a);
    weft_value *y = weft_add2(g, "add", "y", h, d);
    weft_set_role(g, y, "residual");
    return y;
}

/* Text may be longer than what is trained on. */
static bool fits(const gpt2 *m, weft_graph *g)
{
    if (weft_graph_context(g) > m->positions)
        weft_graph_fail(g, WEFT_ERR_INPUT, weft_params_where(m->host->params, "n_positions"),
                        "[gpt2] n_positions %lld is less than the %lld tokens of context that "
                        "text is written with; choose [sample] context = %lld",
                        (long long)m->positions, (long long)weft_graph_context(g),
                        (long long)m->positions);
    return !weft_graph_status(g);
}

static void build(void *self, weft_graph *g)
{
    const gpt2 *m = self;
    int64_t n_vocab;
    if (weft_vocabulary(m->host, "gpt2", m->d.vocab, &n_vocab, weft_graph_error(g)) || !fits(m, g))
        return;
    weft_graph_dim(g, "embed", m->d.dim, 1);
    weft_graph_dim(g, "heads", m->d.heads, m->d.dim / m->d.heads);
    weft_graph_dim(g, "ffn", m->d.ffn, 1);
    weft_graph_dim(g, "vocab", n_vocab, 1);
    weft_graph_dim(g, "positions", m->positions, 1);

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
    for (int64_t layer = 0; layer < m->d.layers; layer++)
        x = block(m, g, layer, x);
    weft_graph_set_block(g, WEFT_BLOCK_HEAD);
    x = norm(m, g, "nf", "transformer.ln_f", x);
    weft_add_head(g, x,
                  m->d.tied ? table
                            : weft_add_parameter(g, "lm_head.weight", "vocab embed", normal(0.02)));
}

/* ---- Hugging Face: matrices are [in, out], and q, k, v lie in one ---- */

#define HF "transformer.h.{l}."
#define HF_QKV(letter, index)                                                                      \
    {                                                                                              \
        HF "attn." letter "_proj.weight", "dim dim", .file = HF "attn.c_attn.weight",              \
                                                     .turned = true, .part = index, .parts = 3     \
    }
#define HF_QKV_BIAS(letter, index)                                                                 \
    {                                                                                              \
        HF "attn." letter "_proj.bias", "dim", .file = HF "attn.c_attn.bias", .part = index,       \
                                               .parts = 3                                          \
    }
static const weft_hf_tensor hf_tensors[] = {
    {"transformer.wte.weight", .shape = "vocab_size dim"},
    {"transformer.wpe.weight", .shape = "n_positions dim"},
    {HF "ln_1.weight", .shape = "dim"},
    {HF "ln_1.bias", .shape = "dim"},
    HF_QKV("q", 0),
    HF_QKV("k", 1),
    HF_QKV("v", 2),
    HF_QKV_BIAS("q", 0),
    HF_QKV_BIAS("k", 1),
    HF_QKV_BIAS("v", 2),
    {HF "attn.c_proj.weight", "dim dim", .turned = true},
    {HF "attn.c_proj.bias", .shape = "dim"},
    {HF "ln_2.weight", .shape = "dim"},
    {HF "ln_2.bias", .shape = "dim"},
    {HF "mlp.c_fc.weight", "ffn_dim dim", .turned = true},
    {HF "mlp.c_fc.bias", .shape = "ffn_dim"},
    {HF "mlp.c_proj.weight", "dim ffn_dim", .turned = true},
    {HF "mlp.c_proj.bias", .shape = "dim"},
    {"transformer.ln_f.weight", .shape = "dim"},
    {"transformer.ln_f.bias", .shape = "dim"},
    {"lm_head.weight", "vocab_size dim", .unless = "tied"},
    {.file = "lm_head.weight", .of = "transformer.wte.weight", .when = "tied", .other = true},
    {.file = HF "attn.bias"}, /* masks */
    {.file = HF "attn.masked_bias"},
    {0}};
static const weft_hf_key hf_keys[] = {
    {"n_embd", "dim", .standard = "768"},
    {"n_layer", "n_layers", .standard = "12"},
    {"n_head", "n_heads", .standard = "12", .divides = "n_embd"},
    {"n_inner", "ffn_dim", .standard = "4*n_embd"},
    {"vocab_size", "vocab_size", .standard = "50257"},
    {"n_positions", "n_positions", .standard = "1024", .context = true},
    {"layer_norm_epsilon", "norm_eps", .standard = "1e-5"},
    {"tie_word_embeddings", "tied", .standard = "true"},
    {"activation_function", .is = "gelu_new", .also = "gelu_pytorch_tanh"}, /* the tanh form */
    {"scale_attn_weights", .written = "true"},
    {0}};
static const weft_hf_form hf_form = {.type = "gpt2",
                                     .architecture = "GPT2LMHeadModel",
                                     .prefix = "transformer.",
                                     .layers = "n_layers",
                                     .tensors = hf_tensors,
                                     .keys = hf_keys};
static const weft_hf_form *const hf_forms[] = {&hf_form, NULL};
static const weft_hf_model hf = {sizeof hf, "gpt2", params, hf_forms};

static const char *const gives[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = build, .gives = gives},
    {.kind = WEFT_SERVICE, .service = "hf_model", .table = &hf},
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
    .self_size = WEFT_SELF(gpt2),
    .create = create,
};
