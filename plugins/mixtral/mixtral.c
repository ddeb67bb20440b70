/* SPDX-License-Identifier: Apache-2.0 */
/* Mixtral: Llama's blocks with a mixture of experts for the feed-forward, with Hugging Face's names
 * but for the experts' weights, which stand together. Knows nothing of meshes. */
#include <weft/blocks.h>
#include <weft/weft.h>

typedef struct mixtral {
    const weft_host *host;
    weft_decoder_sizes d;
    weft_experts e;
} mixtral;

static const char *const flavor_names[] = {"debug", "8x7B", "8x22B", NULL};
static const char *const flavors[] = {
    "dim = 256, n_layers = 6, n_heads = 16, n_kv_heads = 8, head_dim = 16, ffn_dim = 384, "
    "vocab_size = 2048, n_experts = 8, top_k = 2",
    "dim = 4096, n_layers = 32, n_heads = 32, n_kv_heads = 8, head_dim = 128, ffn_dim = 14336, "
    "vocab_size = 32000, n_experts = 8, top_k = 2",
    "dim = 6144, n_layers = 56, n_heads = 48, n_kv_heads = 8, head_dim = 128, ffn_dim = 16384, "
    "vocab_size = 32768, n_experts = 8, top_k = 2",
};
static const char *const of_flavor[] = {"flavor", NULL};
static const char *const or_auto[] = {"flavor", "auto", NULL};

static const weft_param params[] = {
    WEFT_DECODER_FLAVOR(flavor_names, flavors),
    WEFT_DECODER_SIZES(mixtral, of_flavor, or_auto, "width of one head; flavor: dim / n_heads",
                       "hidden width of one expert; auto: 7/2 dim"),
    WEFT_DECODER_SIZE(mixtral, "n_experts", e.n, 1, 1 << 16, of_flavor, "experts of a block"),
    WEFT_DECODER_SIZE(mixtral, "top_k", e.k, 1, 1 << 16, of_flavor, "experts for each token"),
    {.name = "shared",
     WEFT_INT(mixtral, e.shared),
     .value = "0",
     .max = 1 << 24,
     .help = "hidden width of a feed-forward that every token goes through besides; 0: none"},
    WEFT_EXPERTS_PARAMS(mixtral, "0.001"),
    WEFT_DECODER_NORM_EPS(mixtral, "1e-5"),
    WEFT_DECODER_ROPE_THETA(mixtral, "1000000"),
    WEFT_DECODER_TIED(mixtral, "no", "the head shares the embedding's weight"),
    {.name = NULL},
};

static weft_status create(void *self, weft_error *err)
{
    mixtral *m = self;
    const weft_params *p = m->host->params;
    const bool standard = weft_params_is(p, "head_dim", "flavor");
    if (weft_params_is(p, "ffn_dim", "auto"))
        m->d.ffn = 7 * m->d.dim / 2;
    if (standard)
        m->d.head_dim = m->d.dim / m->d.heads;
    m->e.ffn = m->d.ffn;
    m->e.norm = true;
    m->e.of_batch = weft_params_is(p, "balance_of", "batch");
    m->e.router = "block_sparse_moe.gate.weight";
    m->e.gate = "block_sparse_moe.experts.w1.weight";
    m->e.down = "block_sparse_moe.experts.w2.weight";
    m->e.up = "block_sparse_moe.experts.w3.weight";
    m->e.bias = "block_sparse_moe.gate.e_score_correction_bias";
    m->e.shared_gate = "block_sparse_moe.shared_expert.w1.weight";
    m->e.shared_down = "block_sparse_moe.shared_expert.w2.weight";
    m->e.shared_up = "block_sparse_moe.shared_expert.w3.weight";
    weft_status s = weft_decoder_check(m->host, "mixtral", &m->d, standard, err);
    weft_status of_experts = weft_experts_check(m->host, "mixtral", &m->e, err);
    return s ? s : of_experts;
}

static weft_value *feed_forward(const void *self, weft_graph *g, int64_t l, weft_value *x,
                                double out_std)
{
    return weft_block_experts(g, &((const mixtral *)self)->e, l, x, out_std);
}

static void build(void *self, weft_graph *g)
{
    const mixtral *m = self;
    weft_experts_dims(g, &m->e);
    weft_decoder_build(g, m->host, "mixtral", &m->d, feed_forward, m);
}

/* ---- Hugging Face: experts lie there one by one, or, where Transformers was told to, together,
 * gate and up in one and under its own names ---- */

#define HF_MOE "model.layers.{l}.block_sparse_moe."
#define HF_MLP "model.layers.{l}.mlp."
#define HF_UP  "n_experts ffn_dim dim"
static const weft_hf_tensor hf_tensors[] = {
    WEFT_DECODER_HF_EMBEDDING,
    WEFT_DECODER_HF_ATTENTION,
    {HF_MOE "gate.weight", .shape = "n_experts dim"},
    {HF_MOE "experts.w1.weight", HF_UP, .file = HF_MOE "experts.{x}.w1.weight"},
    {HF_MOE "experts.w2.weight", "n_experts dim ffn_dim", .file = HF_MOE "experts.{x}.w2.weight"},
    {HF_MOE "experts.w3.weight", HF_UP, .file = HF_MOE "experts.{x}.w3.weight"},
    {HF_MOE "gate.weight", "n_experts dim", .file = HF_MLP "gate.weight", .other = true},
    {HF_MOE "experts.w1.weight", HF_UP, .file = HF_MLP "experts.gate_up_proj", .part = 0,
     .parts = 2, .along = 1, .other = true},
    {HF_MOE "experts.w3.weight", HF_UP, .file = HF_MLP "experts.gate_up_proj", .part = 1,
     .parts = 2, .along = 1, .other = true},
    {HF_MOE "experts.w2.weight", "n_experts dim ffn_dim", .file = HF_MLP "experts.down_proj",
     .other = true},
    WEFT_DECODER_HF_HEAD,
    {0}};
static const weft_hf_key hf_keys[] = {
    WEFT_DECODER_HF_KEYS("8", "hidden_size/num_attention_heads", "131072", "1e-5"),
    {"intermediate_size", "ffn_dim", .standard = "14336"},
    {"num_local_experts", "n_experts", .standard = "8"},
    {"num_experts_per_tok", "top_k", .standard = "2", .most = "num_local_experts"},
    {0}};
static const weft_hf_rope hf_rope = {"rope_theta", 1e6, NULL};
static const weft_hf_form hf_form = {.type = "mixtral",
                                     .architecture = "MixtralForCausalLM",
                                     .unless = "bias_rate shared", /* of which files know nothing */
                                     .prefix = "model.",
                                     .layers = "n_layers",
                                     .with = "moe",
                                     .tensors = hf_tensors,
                                     .keys = hf_keys,
                                     .rope = &hf_rope};
static const weft_hf_form *const hf_forms[] = {&hf_form, NULL};
static const weft_hf_model hf = {sizeof hf, "mixtral", params, hf_forms};

static const char *const needs[] = {"experts (moe gives it)", NULL};
static const char *const gives[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = build, .needs = needs, .gives = gives},
    {.kind = WEFT_SERVICE, .service = "hf_model", .table = &hf},
    {.kind = WEFT_END}};

WEFT_PLUGIN(mixtral) = {
    WEFT_PLUGIN_HEAD,
    .name = "mixtral",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "Mixtral: grouped-query attention, and a mixture of SwiGLU experts",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(mixtral),
    .create = create,
};
