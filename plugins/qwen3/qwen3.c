/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen3, dense and with experts: Llama's blocks with normed queries and keys, with Hugging Face's
 * names but for the experts' weights, which stand together. Knows nothing of meshes. */
#include <weft/blocks.h>
#include <weft/weft.h>

#include <stdlib.h>

typedef struct qwen3 {
    const weft_host *host;
    weft_decoder_sizes d;
    weft_experts e;
    int64_t sparse_step;
} qwen3;

static const char *const flavor_names[] = {"debug", "0.6B", "1.7B",    "4B",        "8B",
                                           "14B",   "32B",  "30B-A3B", "235B-A22B", NULL};
#define DENSE ", vocab_size = 151936, n_experts = 0, top_k = 1, expert_dim = 1"

#define EXPERTS ", vocab_size = 151936, n_experts = 128, top_k = 8"
static const char *const flavors[] = {
    "dim = 256, n_layers = 6, n_heads = 8, n_kv_heads = 4, head_dim = 32, ffn_dim = 768, "
    "vocab_size = 2048, n_experts = 0, top_k = 1, expert_dim = 1",
    "dim = 1024, n_layers = 28, n_heads = 16, n_kv_heads = 8, head_dim = 128, ffn_dim = 3072" DENSE,
    "dim = 2048, n_layers = 28, n_heads = 16, n_kv_heads = 8, head_dim = 128, ffn_dim = 6144" DENSE,
    "dim = 2560, n_layers = 36, n_heads = 32, n_kv_heads = 8, head_dim = 128, ffn_dim = 9728" DENSE,
    "dim = 4096, n_layers = 36, n_heads = 32, n_kv_heads = 8, head_dim = 128, ffn_dim = "
    "12288" DENSE,
    "dim = 5120, n_layers = 40, n_heads = 40, n_kv_heads = 8, head_dim = 128, ffn_dim = "
    "17408" DENSE,
    "dim = 5120, n_layers = 64, n_heads = 64, n_kv_heads = 8, head_dim = 128, ffn_dim = "
    "25600" DENSE,
    "dim = 2048, n_layers = 48, n_heads = 32, n_kv_heads = 4, head_dim = 128, ffn_dim = 6144, "
    "expert_dim = 768" EXPERTS,
    "dim = 4096, n_layers = 94, n_heads = 64, n_kv_heads = 4, head_dim = 128, ffn_dim = 12288, "
    "expert_dim = 1536" EXPERTS,
};
static const char *const of_flavor[] = {"flavor", NULL};
static const char *const or_auto[] = {"flavor", "auto", NULL};

static const weft_param params[] = {
    WEFT_DECODER_FLAVOR(flavor_names, flavors),
    WEFT_DECODER_SIZES(qwen3, of_flavor, or_auto, "width of one head, whatever dim / n_heads is",
                       "hidden width of a dense feed-forward; auto: 3 dim"),
    WEFT_DECODER_SIZE(qwen3, "n_experts", e.n, 0, 1 << 16, of_flavor,
                      "experts of a block; 0: feed-forwards are dense"),
    WEFT_DECODER_SIZE(qwen3, "top_k", e.k, 1, 1 << 16, of_flavor, "experts for each token"),
    WEFT_DECODER_SIZE(qwen3, "expert_dim", e.ffn, 1, 1 << 24, of_flavor,
                      "hidden width of one expert (Hugging Face: moe_intermediate_size)"),
    {.name = "shared",
     WEFT_INT(qwen3, e.shared),
     .value = "0",
     .max = 1 << 24,
     .help = "hidden width of a feed-forward that every token goes through besides; 0: none"},
    {.name = "norm_top_k",
     WEFT_BOOL(qwen3, e.norm),
     .value = "yes",
     .help = "a token's weights sum to 1 (Hugging Face: norm_topk_prob)"},
    {.name = "decoder_sparse_step",
     WEFT_INT(qwen3, sparse_step),
     .value = "1",
     .min = 1,
     .max = 1 << 14,
     .help = "every so many blocks, from block N - 1 on, one has experts; others are dense"},
    {.name = "mlp_only_layers",
     .type = WEFT_PARAM_STRING,
     .value = "",
     .flags = WEFT_PARAM_LIST,
     .help = "numbers of blocks, from 0 on, that are dense whatever decoder_sparse_step says"},
    WEFT_EXPERTS_PARAMS(qwen3, "0.001"),
    WEFT_DECODER_NORM_EPS(qwen3, "1e-6"),
    WEFT_DECODER_ROPE_THETA(qwen3, "1000000"),
    {.name = "tied",
     .type = WEFT_PARAM_CHOICE,
     .value = "auto",
     .choices = (const char *const[]){"auto", "yes", "no", NULL},
     .help = "the head shares the embedding's weight; auto: with the flavors up to 4B"},
    {.name = NULL},
};

static bool is_tied(const weft_params *p)
{
    static const char *const small[] = {"0.6B", "1.7B", "4B"};
    bool tied = weft_params_is(p, "tied", "yes");
    for (int i = 0; i < 3 && weft_params_is(p, "tied", "auto"); i++)
        tied = tied || weft_params_is(p, "flavor", small[i]);
    return tied;
}

/* Does block l have experts? */
static bool is_sparse(const qwen3 *m, int64_t l)
{
    bool sparse = m->e.n > 0 && (l + 1) % m->sparse_step == 0;
    const char *word;
    for (int i = 0; (word = weft_params_word(m->host->params, "mlp_only_layers", i)); i++)
        sparse = sparse && strtoll(word, NULL, 10) != l;
    return sparse;
}

static weft_status check_layers(const qwen3 *m, weft_error *err)
{
    const weft_params *p = m->host->params;
    weft_status s = WEFT_OK;
    const char *word;
    bool any = m->e.n == 0;
    for (int i = 0; (word = weft_params_word(p, "mlp_only_layers", i)); i++) {
        char *end = NULL;
        const long long l = strtoll(word, &end, 10);
        if (end == word || *end || l < 0 || l >= m->d.layers)
            s = weft_fail(err, WEFT_ERR_INPUT, weft_params_word_where(p, "mlp_only_layers", i),
                          "[qwen3] mlp_only_layers: '%s' is no block; they are 0 to %lld", word,
                          (long long)m->d.layers - 1);
    }
    for (int64_t l = 0; l < m->d.layers; l++)
        any = any || is_sparse(m, l);
    if (!s && !any)
        s = weft_fail(
            err, WEFT_ERR_INPUT, weft_params_where(p, "n_experts"),
            "[qwen3] %lld experts, but decoder_sparse_step and mlp_only_layers leave none "
            "of %lld blocks that has any; set n_experts = 0, or decoder_sparse_step to at "
            "most %lld and leave one of its blocks out of mlp_only_layers",
            (long long)m->e.n, (long long)m->d.layers, (long long)m->d.layers);
    return s;
}

static weft_status create(void *self, weft_error *err)
{
    qwen3 *m = self;
    const weft_params *p = m->host->params;
    m->d.qk_norm = true;
    m->d.tied = is_tied(p);
    if (weft_params_is(p, "ffn_dim", "auto"))
        m->d.ffn = 3 * m->d.dim;
    m->e.of_batch = weft_params_is(p, "balance_of", "batch");
    m->e.router = "mlp.gate.weight";
    m->e.gate = "mlp.experts.gate_proj.weight";
    m->e.up = "mlp.experts.up_proj.weight";
    m->e.down = "mlp.experts.down_proj.weight";
    m->e.bias = "mlp.gate.e_score_correction_bias";
    m->e.shared_gate = "mlp.shared_expert.gate_proj.weight";
    m->e.shared_up = "mlp.shared_expert.up_proj.weight";
    m->e.shared_down = "mlp.shared_expert.down_proj.weight";
    weft_status s = weft_decoder_check(m->host, "qwen3", &m->d, false, err);
    weft_status of_experts = m->e.n ? weft_experts_check(m->host, "qwen3", &m->e, err) : WEFT_OK;
    weft_status of_layers = check_layers(m, err);
    return s ? s : of_experts ? of_experts : of_layers;
}

static weft_value *feed_forward(const void *self, weft_graph *g, int64_t l, weft_value *x,
                                double out_std)
{
    const qwen3 *m = self;
    return is_sparse(m, l) ? weft_block_experts(g, &m->e, l, x, out_std)
                           : weft_block_swiglu(g, x, out_std);
}

static void build(void *self, weft_graph *g)
{
    const qwen3 *m = self;
    if (m->e.n && !weft_graph_has_op(g, "route")) {
        weft_graph_fail(g, WEFT_ERR_INPUT, weft_params_where(m->host->weft, "plugins"),
                        "[qwen3] n_experts: a model with %lld experts needs the plugin moe; list "
                        "it before qwen3, or set n_experts = 0",
                        (long long)m->e.n);
        return;
    }
    if (m->e.n)
        weft_experts_dims(g, &m->e);
    weft_decoder_build(g, m->host, "qwen3", &m->d, feed_forward, m);
}

/* ---- Hugging Face: a kind of folder for each; experts lie there one by one, or, where
 * Transformers was told to, together, gate and up in one ---- */

#define HF_NORMS                                                                                   \
    {"model.layers.{l}.self_attn.q_norm.weight", .shape = "head_dim"},                             \
    {                                                                                              \
        "model.layers.{l}.self_attn.k_norm.weight", .shape = "head_dim"                            \
    }
#define HF_EXPERTS "model.layers.{l}.mlp.experts."
#define HF_SPARSE  .every = "decoder_sparse_step", .except = "mlp_only_layers"
#define HF_DENSE   HF_SPARSE, .others = true
static const weft_hf_tensor hf_dense[] = {
    WEFT_DECODER_HF_EMBEDDING, WEFT_DECODER_HF_ATTENTION, HF_NORMS,
    WEFT_DECODER_HF_SWIGLU,    WEFT_DECODER_HF_HEAD,      {0}};
static const weft_hf_tensor hf_of_experts[] = {
    WEFT_DECODER_HF_EMBEDDING,
    WEFT_DECODER_HF_ATTENTION,
    HF_NORMS,
    {"model.layers.{l}.mlp.gate_proj.weight", "ffn_dim dim", HF_DENSE},
    {"model.layers.{l}.mlp.up_proj.weight", "ffn_dim dim", HF_DENSE},
    {"model.layers.{l}.mlp.down_proj.weight", "dim ffn_dim", HF_DENSE},
    {"model.layers.{l}.mlp.gate.weight", "n_experts dim", HF_SPARSE},
    {HF_EXPERTS "gate_proj.weight", "n_experts expert_dim dim",
     .file = HF_EXPERTS "{x}.gate_proj.weight", HF_SPARSE},
    {HF_EXPERTS "up_proj.weight", "n_experts expert_dim dim",
     .file = HF_EXPERTS "{x}.up_proj.weight", HF_SPARSE},
    {HF_EXPERTS "down_proj.weight", "n_experts dim expert_dim",
     .file = HF_EXPERTS "{x}.down_proj.weight", HF_SPARSE},
    {HF_EXPERTS "gate_proj.weight", "n_experts expert_dim dim", .file = HF_EXPERTS "gate_up_proj",
     .part = 0, .parts = 2, .along = 1, .other = true},
    {HF_EXPERTS "up_proj.weight", "n_experts expert_dim dim", .file = HF_EXPERTS "gate_up_proj",
     .part = 1, .parts = 2, .along = 1, .other = true},
    {HF_EXPERTS "down_proj.weight", "n_experts dim expert_dim", .file = HF_EXPERTS "down_proj",
     .other = true},
    WEFT_DECODER_HF_HEAD,
    {0}};
static const weft_hf_key hf_dense_keys[] = {WEFT_DECODER_HF_KEYS("32", "128", "32768", "1e-6"),
                                            {"intermediate_size", "ffn_dim", .standard = "22016"},
                                            {"attention_bias", .written = "false"},
                                            {"use_sliding_window", .written = "false"},
                                            {0}};
static const weft_hf_key hf_keys_of_experts[] = {
    WEFT_DECODER_HF_KEYS("4", "hidden_size/num_attention_heads", "32768", "1e-6"),
    {"intermediate_size", "ffn_dim", .standard = "6144"}, /* of dense blocks */
    {"num_local_experts", "n_experts", .standard = "128", .old = "num_experts"},
    {"num_experts_per_tok", "top_k", .standard = "8", .most = "num_local_experts"},
    {"moe_intermediate_size", "expert_dim", .standard = "768"},
    {"norm_topk_prob", "norm_top_k", .standard = "false"},
    {"decoder_sparse_step", "decoder_sparse_step", .standard = "1", .most = "num_hidden_layers"},
    {"mlp_only_layers", "mlp_only_layers", .below = "num_hidden_layers"},
    {"attention_bias", .written = "false"},
    {"use_sliding_window", .written = "false"},
    {0}};
static const weft_hf_rope hf_rope = {"rope_theta", 10000, NULL};
static const weft_hf_form hf_form_dense = {.type = "qwen3",
                                           .architecture = "Qwen3ForCausalLM",
                                           .unless = "n_experts",
                                           .prefix = "model.",
                                           .layers = "n_layers",
                                           .tensors = hf_dense,
                                           .keys = hf_dense_keys,
                                           .rope = &hf_rope};
static const weft_hf_form hf_form_of_experts = {.type = "qwen3_moe",
                                                .architecture = "Qwen3MoeForCausalLM",
                                                .when = "n_experts",
                                                .unless =
                                                    "bias_rate shared", /* no place for them */
                                                .prefix = "model.",
                                                .layers = "n_layers",
                                                .with = "moe",
                                                .tensors = hf_of_experts,
                                                .keys = hf_keys_of_experts,
                                                .rope = &hf_rope};
static const weft_hf_form *const hf_forms[] = {&hf_form_dense, &hf_form_of_experts, NULL};
static const weft_hf_model hf = {sizeof hf, "qwen3", params, hf_forms};

static const char *const needs[] = {"experts?", NULL}, *const gives[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = build, .needs = needs, .gives = gives},
    {.kind = WEFT_SERVICE, .service = "hf_model", .table = &hf},
    {.kind = WEFT_END}};

WEFT_PLUGIN(qwen3) = {
    WEFT_PLUGIN_HEAD,
    .name = "qwen3",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "Qwen3: normed queries and keys, SwiGLU or a mixture of experts",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(qwen3),
    .create = create,
};
