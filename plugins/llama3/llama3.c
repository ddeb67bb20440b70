/* SPDX-License-Identifier: Apache-2.0 */
/* Llama 2, 3, 3.1, 3.2: the graph, with Hugging Face's names, shapes and orientation. Knows nothing
 * of meshes. */
#include <weft/weft.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct flavor {
    const char *name;
    int64_t dim, layers, heads, kv_heads, ffn, vocab;
} flavor;

static const flavor flavors[] = {
    {"debug", 256, 6, 16, 16, 768, 2048},
    {"8B", 4096, 32, 32, 8, 14336, 128256},
    {"70B", 8192, 80, 64, 8, 28672, 128256},
    {"405B", 16384, 126, 128, 8, 53248, 128256},
};

static const char *const flavor_names[] = {"debug", "8B", "70B", "405B", NULL};
static const char *const of_flavor[] = {"flavor", NULL};
static const char *const vocab_words[] = {"flavor", "auto", NULL};
static const char *const ffn_words[] = {"flavor", "auto", NULL};

#define SIZE(key, text)                                                                            \
    {                                                                                              \
        .name = key, .type = WEFT_PARAM_INT, .value = "flavor", .min = 1, .max = 1 << 24,          \
        .choices = of_flavor, .help = text                                                         \
    }

static const weft_param params[] = {
    {.name = "flavor",
     .type = WEFT_PARAM_CHOICE,
     .value = "debug",
     .choices = flavor_names,
     .help = "the sizes that the other keys default to"},
    SIZE("dim", "width of the residual stream (Hugging Face: hidden_size)"),
    {.name = "n_layers",
     .type = WEFT_PARAM_INT,
     .value = "flavor",
     .min = 1,
     .max = 1 << 14,
     .choices = of_flavor,
     .help = "transformer blocks"},
    SIZE("n_heads", "query heads"),
    SIZE("n_kv_heads", "key and value heads; n_heads must be a multiple"),
    SIZE("head_dim", "width of one head; flavor: dim / n_heads"),
    {.name = "ffn_dim",
     .type = WEFT_PARAM_INT,
     .value = "flavor",
     .min = 1,
     .max = 1 << 24,
     .choices = ffn_words,
     .help = "hidden width of the feed-forward; auto: 8/3 dim, rounded up to a multiple of 256"},
    {.name = "vocab_size",
     .type = WEFT_PARAM_INT,
     .value = "flavor",
     .min = 1,
     .max = 1 << 24,
     .choices = vocab_words,
     .help = "ids that the embedding and the head know; auto: as many as the tokenizer has"},
    {.name = "norm_eps",
     .type = WEFT_PARAM_REAL,
     .value = "1e-5",
     .min = 0,
     .max = 1,
     .help = "added to the mean square in RMSNorm"},
    {.name = "rope_theta",
     .type = WEFT_PARAM_REAL,
     .value = "500000",
     .min = 1,
     .max = 1e12,
     .help = "base of the rotary frequencies"},
    {.name = "rope_scaling",
     .type = WEFT_PARAM_BOOL,
     .value = "no",
     .help = "Llama 3.1's stretching of the slow rotary frequencies, for contexts beyond "
             "rope_original"},
    {.name = "rope_factor",
     .type = WEFT_PARAM_REAL,
     .value = "8",
     .min = 1,
     .max = 1e6,
     .flags = WEFT_PARAM_ADVANCED,
     .help = "how much they are stretched"},
    {.name = "rope_low",
     .type = WEFT_PARAM_REAL,
     .value = "1",
     .min = 0,
     .max = 1e6,
     .flags = WEFT_PARAM_ADVANCED,
     .help = "fewer turns than this in the original context: stretched whole"},
    {.name = "rope_high",
     .type = WEFT_PARAM_REAL,
     .value = "4",
     .min = 0,
     .max = 1e6,
     .flags = WEFT_PARAM_ADVANCED,
     .help = "more turns than this: not stretched"},
    {.name = "rope_original",
     .type = WEFT_PARAM_REAL,
     .value = "8192",
     .min = 1,
     .max = 1e9,
     .unit = "tokens",
     .flags = WEFT_PARAM_ADVANCED,
     .help = "context that the frequencies were made for"},
    {.name = "tied",
     .type = WEFT_PARAM_BOOL,
     .value = "no",
     .help = "the head shares the embedding's weight (Llama 3.2 1B and 3B)"},
    {.name = NULL},
};

typedef struct llama {
    const weft_host *host;
    flavor size;
    int64_t head_dim;
    bool tied;
} llama;

static int64_t pick(const weft_params *p, const char *key, int64_t standard)
{
    return weft_params_is(p, key, "flavor") ? standard : weft_params_int(p, key);
}

static weft_status check(const llama *m, const weft_params *p, weft_error *err)
{
    weft_status s = WEFT_OK;
    const flavor *f = &m->size;
    if (f->heads % f->kv_heads)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "n_kv_heads"),
                      "[llama3] n_kv_heads %lld does not divide n_heads %lld",
                      (long long)f->kv_heads, (long long)f->heads);
    if (weft_params_is(p, "head_dim", "flavor") && f->dim % f->heads)
        s = weft_fail(
            err, WEFT_ERR_INPUT, weft_params_where(p, "n_heads"),
            "[llama3] n_heads %lld does not divide dim %lld; set head_dim, or other sizes",
            (long long)f->heads, (long long)f->dim);
    else if (m->head_dim % 2)
        s = weft_fail(
            err, WEFT_ERR_INPUT,
            weft_params_where(p, weft_params_is(p, "head_dim", "flavor") ? "n_heads" : "head_dim"),
            "[llama3] head_dim is %lld; rotary positions need an even one", (long long)m->head_dim);
    if (weft_params_real(p, "rope_low") >= weft_params_real(p, "rope_high"))
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "rope_high"),
                      "[llama3] rope_high must be greater than rope_low");
    return s;
}

static weft_status create(const weft_host *host, void **self, weft_error *err)
{
    const weft_params *p = host->params;
    llama *m = weft_alloc_zero(1, sizeof *m);
    if (!m)
        return weft_fail_memory(err);
    m->host = host;
    m->size = flavors[0];
    for (size_t i = 0; i < sizeof flavors / sizeof flavors[0]; i++)
        if (weft_params_is(p, "flavor", flavors[i].name))
            m->size = flavors[i];
    flavor *f = &m->size;
    f->dim = pick(p, "dim", f->dim);
    f->layers = pick(p, "n_layers", f->layers);
    f->heads = pick(p, "n_heads", f->heads);
    f->kv_heads =
        pick(p, "n_kv_heads", weft_params_is(p, "n_heads", "flavor") ? f->kv_heads : f->heads);
    f->ffn = weft_params_is(p, "ffn_dim", "auto") ||
                     (weft_params_is(p, "ffn_dim", "flavor") && !weft_params_is(p, "dim", "flavor"))
                 ? (8 * f->dim / 3 + 255) / 256 * 256
                 : pick(p, "ffn_dim", f->ffn);
    f->vocab = pick(p, "vocab_size", f->vocab);
    m->head_dim = pick(p, "head_dim", f->dim / f->heads);
    m->tied = weft_params_bool(p, "tied");
    *self = m;
    weft_status s = check(m, p, err);
    if (s) {
        weft_free(m);
        *self = NULL;
    }
    return s;
}

static void destroy(void *self)
{
    weft_free(self);
}

/* ---- the graph ---- */

/* Normal, cut at +-2 in absolute terms: far outside for the stds in use. */
static weft_init normal(double std)
{
    return (weft_init){WEFT_INIT_TRUNC_NORMAL, std, 2 / std};
}

static weft_value *layer_parameter(weft_graph *g, int64_t layer, const char *name,
                                   const char *shape, weft_init init)
{
    char full[128];
    snprintf(full, sizeof full, "model.layers.%lld.%s.weight", (long long)layer, name);
    return weft_add_parameter(g, full, shape, init);
}

static const char *local_name(char *buffer, size_t size, int64_t layer, const char *name)
{
    snprintf(buffer, size, "b%lld.%s", (long long)layer, name);
    return buffer;
}

static weft_value *rms_norm(const llama *m, weft_graph *g, const char *name, weft_value *x,
                            weft_value *w)
{
    weft_value *n = weft_add2(g, "rms_norm", name, x, w);
    weft_set_real(g, n, "eps", weft_params_real(m->host->params, "norm_eps"));
    return n;
}

static weft_value *rope(const llama *m, weft_graph *g, const char *name, weft_value *x)
{
    const weft_params *p = m->host->params;
    weft_value *r = weft_add2(g, "rope", name, x, weft_add_input(g, "positions"));
    weft_set_real(g, r, "theta", weft_params_real(p, "rope_theta"));
    if (weft_params_bool(p, "rope_scaling")) {
        weft_set_real(g, r, "factor", weft_params_real(p, "rope_factor"));
        weft_set_real(g, r, "low", weft_params_real(p, "rope_low"));
        weft_set_real(g, r, "high", weft_params_real(p, "rope_high"));
        weft_set_real(g, r, "original", weft_params_real(p, "rope_original"));
    }
    return r;
}

static weft_value *attention(const llama *m, weft_graph *g, int64_t l, weft_value *x,
                             double out_std)
{
    char name[64];
    weft_value *q =
        weft_linear(g, local_name(name, sizeof name, l, "q"), x,
                    layer_parameter(g, l, "self_attn.q_proj", "heads embed", normal(0.02)));
    weft_value *k =
        weft_linear(g, local_name(name, sizeof name, l, "k"), x,
                    layer_parameter(g, l, "self_attn.k_proj", "kv_heads embed", normal(0.02)));
    weft_value *v =
        weft_linear(g, local_name(name, sizeof name, l, "v"), x,
                    layer_parameter(g, l, "self_attn.v_proj", "kv_heads embed", normal(0.02)));
    q = rope(m, g, local_name(name, sizeof name, l, "q_rot"), q);
    k = rope(m, g, local_name(name, sizeof name, l, "k_rot"), k);
    weft_value *index = weft_add_input(g, "index"), *segments = weft_add_input(g, "segments");
    weft_value *o = weft_add(g, "attention", local_name(name, sizeof name, l, "o"), 7,
                             (weft_value *[]){q, k, v, index, index, segments, segments});
    weft_set_int(g, o, "causal", 1);
    return weft_linear(g, local_name(name, sizeof name, l, "attn"), o,
                       layer_parameter(g, l, "self_attn.o_proj", "embed heads", normal(out_std)));
}

static weft_value *feed_forward(weft_graph *g, int64_t l, weft_value *x, double out_std)
{
    char name[64];
    weft_value *gate =
        weft_linear(g, local_name(name, sizeof name, l, "g"), x,
                    layer_parameter(g, l, "mlp.gate_proj", "ffn embed", normal(0.02)));
    weft_value *up =
        weft_linear(g, local_name(name, sizeof name, l, "u"), x,
                    layer_parameter(g, l, "mlp.up_proj", "ffn embed", normal(out_std)));
    weft_value *a = weft_add2(g, "silu_mul", local_name(name, sizeof name, l, "a"), gate, up);
    return weft_linear(g, local_name(name, sizeof name, l, "d"), a,
                       layer_parameter(g, l, "mlp.down_proj", "embed ffn", normal(out_std)));
}

static weft_value *block(const llama *m, weft_graph *g, int64_t l, weft_value *x)
{
    char name[64];
    double out_std = 0.02 / sqrt(2.0 * (double)(l + 1)); /* deeper blocks add less */
    weft_init one = {WEFT_INIT_ONE, 0, 0};
    weft_graph_set_block(g, (int)l);
    weft_value *n = rms_norm(m, g, local_name(name, sizeof name, l, "n1"), x,
                             layer_parameter(g, l, "input_layernorm", "embed", one));
    weft_value *h = weft_add2(g, "add", local_name(name, sizeof name, l, "h"), x,
                              attention(m, g, l, n, out_std));
    weft_set_role(g, h, "residual");
    n = rms_norm(m, g, local_name(name, sizeof name, l, "n2"), h,
                 layer_parameter(g, l, "post_attention_layernorm", "embed", one));
    weft_value *y = weft_add2(g, "add", local_name(name, sizeof name, l, "y"), h,
                              feed_forward(g, l, n, out_std));
    weft_set_role(g, y, "residual");
    return y;
}

static weft_status build(void *self, weft_graph *g, weft_error *err)
{
    const llama *m = self;
    const flavor *f = &m->size;
    int64_t n_vocab;
    weft_status status = weft_vocabulary(m->host, "llama3", f->vocab, &n_vocab, err);
    if (status)
        return status;
    weft_graph_dim(g, "embed", f->dim, 1);
    weft_graph_dim(g, "heads", f->heads, m->head_dim);
    weft_graph_dim(g, "kv_heads", f->kv_heads, m->head_dim);
    weft_graph_dim(g, "ffn", f->ffn, 1);
    weft_graph_dim(g, "vocab", n_vocab, 1);
    double head_std = 1 / sqrt((double)f->dim);
    weft_init head_init = {WEFT_INIT_TRUNC_NORMAL, head_std, 3};

    weft_graph_set_block(g, WEFT_BLOCK_EMBEDDING);
    weft_value *table =
        weft_add_parameter(g, "model.embed_tokens.weight", "vocab embed",
                           m->tied ? head_init : (weft_init){WEFT_INIT_NORMAL, 1, 0});
    weft_value *x = weft_add2(g, "embedding", "x", weft_add_input(g, "ids"), table);
    weft_set_role(g, x, "residual");
    for (int64_t l = 0; l < f->layers; l++)
        x = block(m, g, l, x);
    weft_graph_set_block(g, WEFT_BLOCK_HEAD);
    x = rms_norm(
        m, g, "nf", x,
        weft_add_parameter(g, "model.norm.weight", "embed", (weft_init){WEFT_INIT_ONE, 0, 0}));
    weft_value *head =
        m->tied ? table : weft_add_parameter(g, "lm_head.weight", "vocab embed", head_init);
    weft_add_head(g, x, head);
    return weft_graph_status(g);
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
    .create = create,
    .destroy = destroy,
};
