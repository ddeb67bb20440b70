/* SPDX-License-Identifier: Apache-2.0 */
/* Llama 2, 3, 3.1, 3.2: the graph, with Hugging Face's names, shapes and orientation. Knows nothing
 * of meshes. */
#include <weft/weft.h>

#include <math.h>

typedef struct llama {
    const weft_host *host;
    int64_t dim, layers, heads, kv_heads, head_dim, ffn, vocab;
    double norm_eps, rope_theta, rope_factor, rope_low, rope_high, rope_original;
    bool rope_scaling, tied;
} llama;

static const char *const flavor_names[] = {"debug", "8B", "70B", "405B", NULL};
static const char *const flavors[] = {
    "dim = 256, n_layers = 6, n_heads = 16, n_kv_heads = 16, head_dim = 16, ffn_dim = 768, "
    "vocab_size = 2048",
    "dim = 4096, n_layers = 32, n_heads = 32, n_kv_heads = 8, head_dim = 128, ffn_dim = 14336, "
    "vocab_size = 128256",
    "dim = 8192, n_layers = 80, n_heads = 64, n_kv_heads = 8, head_dim = 128, ffn_dim = 28672, "
    "vocab_size = 128256",
    "dim = 16384, n_layers = 126, n_heads = 128, n_kv_heads = 8, head_dim = 128, ffn_dim = 53248, "
    "vocab_size = 128256",
};
static const char *const of_flavor[] = {"flavor", NULL};
static const char *const or_auto[] = {"flavor", "auto", NULL};

#define SIZE(key, field_, text)                                                                    \
    {                                                                                              \
        .name = key, WEFT_INT(llama, field_), .value = "flavor", .min = 1, .max = 1 << 24,         \
        .choices = of_flavor, .help = text                                                         \
    }

static const weft_param params[] = {
    {.name = "flavor",
     .type = WEFT_PARAM_CHOICE,
     .value = "debug",
     .choices = flavor_names,
     .presets = flavors,
     .help = "the sizes that the other keys default to"},
    SIZE("dim", dim, "width of the residual stream (Hugging Face: hidden_size)"),
    {.name = "n_layers",
     WEFT_INT(llama, layers),
     .value = "flavor",
     .min = 1,
     .max = 1 << 14,
     .choices = of_flavor,
     .help = "transformer blocks"},
    SIZE("n_heads", heads, "query heads"),
    SIZE("n_kv_heads", kv_heads, "key and value heads; n_heads must be a multiple"),
    SIZE("head_dim", head_dim, "width of one head; flavor: dim / n_heads"),
    {.name = "ffn_dim",
     WEFT_INT(llama, ffn),
     .value = "flavor",
     .min = 1,
     .max = 1 << 24,
     .choices = or_auto,
     .help = "hidden width of the feed-forward; auto: 8/3 dim, rounded up to a multiple of 256"},
    {.name = "vocab_size",
     WEFT_INT(llama, vocab),
     .value = "flavor",
     .min = 1,
     .max = 1 << 24,
     .choices = or_auto,
     .help = "ids that the embedding and the head know; auto: as many as the tokenizer has"},
    {.name = "norm_eps",
     WEFT_REAL(llama, norm_eps),
     .value = "1e-5",
     .min = 0,
     .max = 1,
     .help = "added to the mean square in RMSNorm"},
    {.name = "rope_theta",
     WEFT_REAL(llama, rope_theta),
     .value = "500000",
     .min = 1,
     .max = 1e12,
     .help = "base of the rotary frequencies"},
    {.name = "rope_scaling",
     WEFT_BOOL(llama, rope_scaling),
     .value = "no",
     .help = "Llama 3.1's stretching of the slow rotary frequencies, for contexts beyond "
             "rope_original"},
    {.name = "rope_factor",
     WEFT_REAL(llama, rope_factor),
     .value = "8",
     .min = 1,
     .max = 1e6,
     .flags = WEFT_PARAM_ADVANCED,
     .help = "how much they are stretched"},
    {.name = "rope_low",
     WEFT_REAL(llama, rope_low),
     .value = "1",
     .min = 0,
     .max = 1e6,
     .flags = WEFT_PARAM_ADVANCED,
     .help = "fewer turns than this in the original context: stretched whole"},
    {.name = "rope_high",
     WEFT_REAL(llama, rope_high),
     .value = "4",
     .min = 0,
     .max = 1e6,
     .flags = WEFT_PARAM_ADVANCED,
     .help = "more turns than this: not stretched"},
    {.name = "rope_original",
     WEFT_REAL(llama, rope_original),
     .value = "8192",
     .min = 1,
     .max = 1e9,
     .unit = "tokens",
     .flags = WEFT_PARAM_ADVANCED,
     .help = "context that the frequencies were made for"},
    {.name = "tied",
     WEFT_BOOL(llama, tied),
     .value = "no",
     .help = "the head shares the embedding's weight (Llama 3.2 1B and 3B)"},
    {.name = NULL},
};

static weft_status check(const llama *m, const weft_params *p, weft_error *err)
{
    const bool standard = weft_params_is(p, "head_dim", "flavor");
    weft_status s = WEFT_OK;
    if (m->heads % m->kv_heads)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "n_kv_heads"),
                      "[llama3] n_kv_heads %lld does not divide n_heads %lld",
                      (long long)m->kv_heads, (long long)m->heads);
    if (standard && m->dim % m->heads)
        s = weft_fail(
            err, WEFT_ERR_INPUT, weft_params_where(p, "n_heads"),
            "[llama3] n_heads %lld does not divide dim %lld; set head_dim, or other sizes",
            (long long)m->heads, (long long)m->dim);
    else if (m->head_dim % 2)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, standard ? "n_heads" : "head_dim"),
                      "[llama3] head_dim is %lld; rotary positions need an even one",
                      (long long)m->head_dim);
    if (m->rope_low >= m->rope_high)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "rope_high"),
                      "[llama3] rope_high must be greater than rope_low");
    return s;
}

/* What the flavor says of a size holds with its other sizes; with another width or number of heads
 * the sizes that follow from it do. */
static weft_status create(void *self, weft_error *err)
{
    llama *m = self;
    const weft_params *p = m->host->params;
    const bool wide = !weft_params_is(p, "dim", "flavor");
    if (weft_params_is(p, "n_kv_heads", "flavor") && !weft_params_is(p, "n_heads", "flavor"))
        m->kv_heads = m->heads;
    if (weft_params_is(p, "ffn_dim", "auto") || (weft_params_is(p, "ffn_dim", "flavor") && wide))
        m->ffn = (8 * m->dim / 3 + 255) / 256 * 256;
    if (weft_params_is(p, "head_dim", "flavor"))
        m->head_dim = m->dim / m->heads;
    return check(m, p, err);
}

/* ---- the graph ---- */

/* Normal, cut at +-2 in absolute terms: far outside for the stds in use. */
static weft_init normal(double std)
{
    return (weft_init){WEFT_INIT_TRUNC_NORMAL, std, 2 / std};
}

static weft_value *rms_norm(const llama *m, weft_graph *g, const char *name, weft_value *x,
                            const char *weight)
{
    weft_value *w = weft_add_parameter(g, weight, "embed", (weft_init){WEFT_INIT_ONE, 0, 0});
    weft_value *n = weft_add2(g, "rms_norm", name, x, w);
    weft_set_real(g, n, "eps", m->norm_eps);
    return n;
}

static weft_value *linear(weft_graph *g, const char *name, weft_value *x, const char *weight,
                          const char *shape, double std)
{
    return weft_linear(g, name, x, weft_add_parameter(g, weight, shape, normal(std)));
}

static weft_value *rope(const llama *m, weft_graph *g, const char *name, weft_value *x)
{
    weft_value *r = weft_add2(g, "rope", name, x, weft_add_input(g, "positions"));
    weft_set_real(g, r, "theta", m->rope_theta);
    if (m->rope_scaling) {
        weft_set_real(g, r, "factor", m->rope_factor);
        weft_set_real(g, r, "low", m->rope_low);
        weft_set_real(g, r, "high", m->rope_high);
        weft_set_real(g, r, "original", m->rope_original);
    }
    return r;
}

static weft_value *attention(const llama *m, weft_graph *g, weft_value *x, double out_std)
{
    weft_value *q = linear(g, "q", x, "self_attn.q_proj.weight", "heads embed", 0.02);
    weft_value *k = linear(g, "k", x, "self_attn.k_proj.weight", "kv_heads embed", 0.02);
    weft_value *v = linear(g, "v", x, "self_attn.v_proj.weight", "kv_heads embed", 0.02);
    q = rope(m, g, "q_rot", q);
    k = rope(m, g, "k_rot", k);
    weft_value *index = weft_add_input(g, "index"), *segments = weft_add_input(g, "segments");
    weft_value *o = weft_add(g, "attention", "o", 7,
                             (weft_value *[]){q, k, v, index, index, segments, segments});
    weft_set_int(g, o, "causal", 1);
    return linear(g, "attn", o, "self_attn.o_proj.weight", "embed heads", out_std);
}

static weft_value *feed_forward(weft_graph *g, weft_value *x, double out_std)
{
    weft_value *gate = linear(g, "g", x, "mlp.gate_proj.weight", "ffn embed", 0.02);
    weft_value *up = linear(g, "u", x, "mlp.up_proj.weight", "ffn embed", out_std);
    weft_value *a = weft_add2(g, "silu_mul", "a", gate, up);
    return linear(g, "d", a, "mlp.down_proj.weight", "embed ffn", out_std);
}

static weft_value *block(const llama *m, weft_graph *g, int64_t l, weft_value *x)
{
    double out_std = 0.02 / sqrt(2.0 * (double)(l + 1)); /* deeper blocks add less */
    weft_graph_set_block(g, (int)l);
    weft_graph_set_prefix(g, "b%lld.", (long long)l);
    weft_graph_set_parameter_prefix(g, "model.layers.%lld.", (long long)l);
    weft_value *n = rms_norm(m, g, "n1", x, "input_layernorm.weight");
    weft_value *h = weft_add2(g, "add", "h", x, attention(m, g, n, out_std));
    weft_set_role(g, h, "residual");
    n = rms_norm(m, g, "n2", h, "post_attention_layernorm.weight");
    weft_value *y = weft_add2(g, "add", "y", h, feed_forward(g, n, out_std));
    weft_set_role(g, y, "residual");
    return y;
}

static void build(void *self, weft_graph *g)
{
    const llama *m = self;
    int64_t n_vocab;
    if (weft_vocabulary(m->host, "llama3", m->vocab, &n_vocab, weft_graph_error(g)))
        return;
    weft_graph_dim(g, "embed", m->dim, 1);
    weft_graph_dim(g, "heads", m->heads, m->head_dim);
    weft_graph_dim(g, "kv_heads", m->kv_heads, m->head_dim);
    weft_graph_dim(g, "ffn", m->ffn, 1);
    weft_graph_dim(g, "vocab", n_vocab, 1);
    weft_init head_init = {WEFT_INIT_TRUNC_NORMAL, 1 / sqrt((double)m->dim), 3};

    weft_graph_set_block(g, WEFT_BLOCK_EMBEDDING);
    weft_value *table =
        weft_add_parameter(g, "model.embed_tokens.weight", "vocab embed",
                           m->tied ? head_init : (weft_init){WEFT_INIT_NORMAL, 1, 0});
    weft_value *x = weft_add2(g, "embedding", "x", weft_add_input(g, "ids"), table);
    weft_set_role(g, x, "residual");
    for (int64_t l = 0; l < m->layers; l++)
        x = block(m, g, l, x);
    weft_graph_set_block(g, WEFT_BLOCK_HEAD);
    x = rms_norm(m, g, "nf", x, "model.norm.weight");
    weft_add_head(
        g, x, m->tied ? table : weft_add_parameter(g, "lm_head.weight", "vocab embed", head_init));
}

static const char *const gives[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = build, .gives = gives},
    {.kind = WEFT_END}};

WEFT_PLUGIN(llama3) = {
    WEFT_PLUGIN_HEAD,
    .name = "llama3",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "Llama 2 and 3: grouped-query attention, rotary positions, RMSNorm, SwiGLU",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(llama),
    .create = create,
};
