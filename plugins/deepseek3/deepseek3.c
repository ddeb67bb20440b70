/* SPDX-License-Identifier: Apache-2.0 */
/* DeepSeek-V3: attention through a latent of few elements for each token (MLA), experts chosen by
 * sigmoids and a bias, with Hugging Face's names but for the experts'
 * weights, which stand together. Knows nothing of meshes. */
#include <weft/blocks.h>
#include <weft/weft.h>

typedef struct deepseek3 {
    const weft_host *host;
    weft_decoder_sizes d;
    weft_experts e;
    weft_rope rope;
    int64_t q_rank, kv_rank, nope, rope_dim, v, dense, shared, depth;
    double depth_weight;
    double mscale, mscale_all;
    double scale; /* of attention's scores */
    bool yarn;
} deepseek3;

static const char *const flavor_names[] = {"debug", "16B", "671B", NULL};
static const char *const flavors[] = {
    "dim = 256, n_layers = 6, n_heads = 8, q_rank = 96, kv_rank = 64, nope_dim = 32, rope_dim = "
    "16, "
    "v_dim = 32, ffn_dim = 768, vocab_size = 2048, dense_layers = 1, n_experts = 8, top_k = 2, "
    "expert_dim = 128, n_shared = 1, n_groups = 2, keep_groups = 1",
    "dim = 2048, n_layers = 27, n_heads = 16, q_rank = 0, kv_rank = 512, nope_dim = 128, "
    "rope_dim = 64, v_dim = 128, ffn_dim = 10944, vocab_size = 102400, dense_layers = 1, "
    "n_experts = 64, top_k = 6, expert_dim = 1408, n_shared = 2, n_groups = 1, keep_groups = 1",
    "dim = 7168, n_layers = 61, n_heads = 128, q_rank = 1536, kv_rank = 512, nope_dim = 128, "
    "rope_dim = 64, v_dim = 128, ffn_dim = 18432, vocab_size = 129280, dense_layers = 3, "
    "n_experts = 256, top_k = 8, expert_dim = 2048, n_shared = 1, n_groups = 8, keep_groups = 4",
};
static const char *const of_flavor[] = {"flavor", NULL};
static const char *const or_auto[] = {"flavor", "auto", NULL};

#define SIZE(key_, field_, least_, help_)                                                          \
    WEFT_DECODER_SIZE(deepseek3, key_, field_, least_, 1 << 24, of_flavor, help_)
#define YARN(key_, field_, value_, least_, most_, help_)                                           \
    {                                                                                              \
        .name = key_, WEFT_REAL(deepseek3, field_), .value = value_, .min = least_, .max = most_,  \
        .flags = WEFT_PARAM_ADVANCED, .when = "yarn=yes", .help = help_                            \
    }
static const weft_param params[] = {
    WEFT_DECODER_FLAVOR(flavor_names, flavors),
    SIZE("dim", d.dim, 1, "width of the residual stream (Hugging Face: hidden_size)"),
    WEFT_DECODER_LAYERS(deepseek3, of_flavor),
    SIZE("n_heads", d.heads, 1, "heads of attention"),
    SIZE("q_rank", q_rank, 0, "width of the latent of queries (q_lora_rank); 0: there is none"),
    SIZE("kv_rank", kv_rank, 1, "width of the latent of keys and values (kv_lora_rank)"),
    SIZE("nope_dim", nope, 1, "elements of a query or key that do not turn (qk_nope_head_dim)"),
    SIZE("rope_dim", rope_dim, 2, "those that turn, behind the others (qk_rope_head_dim); even"),
    SIZE("v_dim", v, 1, "elements of a value (v_head_dim); at most nope_dim + rope_dim"),
    SIZE("ffn_dim", d.ffn, 1, "hidden width of a dense feed-forward"),
    WEFT_DECODER_SIZE(deepseek3, "vocab_size", d.vocab, 1, 1 << 24, or_auto,
                      "ids that the embedding and the head know; auto: as many as the tokenizer "
                      "has"),
    SIZE("dense_layers", dense, 0, "blocks at the beginning without experts"),
    WEFT_DECODER_SIZE(deepseek3, "n_experts", e.n, 2, 1 << 16, of_flavor, "experts of a block"),
    WEFT_DECODER_SIZE(deepseek3, "top_k", e.k, 1, 1 << 16, of_flavor, "experts for each token"),
    SIZE("expert_dim", e.ffn, 1, "hidden width of one expert (moe_intermediate_size)"),
    WEFT_DECODER_SIZE(deepseek3, "n_shared", shared, 1, 1 << 16, of_flavor,
                      "experts that every token goes through as well"),
    WEFT_DECODER_SIZE(deepseek3, "n_groups", e.groups, 1, 1 << 16, of_flavor,
                      "groups of experts (n_group)"),
    WEFT_DECODER_SIZE(deepseek3, "keep_groups", e.keep, 1, 1 << 16, of_flavor,
                      "groups that a token chooses its experts in (topk_group)"),
    {.name = "norm_top_k",
     WEFT_BOOL(deepseek3, e.norm),
     .value = "yes",
     .help = "a token's weights are divided by their sum (norm_topk_prob)"},
    {.name = "route_scale",
     WEFT_REAL(deepseek3, e.scale),
     .value = "2.5",
     .min = 1e-6,
     .max = 1e6,
     .help = "what a token's weights are multiplied by (routed_scaling_factor)"},
    WEFT_EXPERTS_LOAD(deepseek3, "0.0001", "0.001",
                      "step of the bias that evens the load without a loss; 0: it stays"),
    WEFT_DECODER_NORM_EPS(deepseek3, "1e-6"),
    WEFT_DECODER_ROPE_THETA(deepseek3, "10000"),
    {.name = "yarn",
     WEFT_BOOL(deepseek3, yarn),
     .value = "no",
     .help = "slow rotary frequencies are stretched, for contexts beyond rope_original"},
    YARN("rope_factor", rope.factor, "40", 1, 1e6, "how much they are stretched"),
    YARN("rope_slow", rope.low, "1", 1e-3, 1e6,
         "fewer turns than this in the original context: stretched whole"),
    YARN("rope_fast", rope.high, "32", 1e-3, 1e6, "more turns than this: not stretched"),
    {.name = "rope_original",
     WEFT_REAL(deepseek3, rope.original),
     .value = "4096",
     .min = 1,
     .max = 1e9,
     .unit = "tokens",
     .flags = WEFT_PARAM_ADVANCED,
     .when = "yarn=yes",
     .help = "context that the frequencies were made for"},
    YARN("mscale", mscale, "1", 0, 1e3, "of sines and cosines: over mscale_all of the same"),
    YARN("mscale_all", mscale_all, "1", 0, 1e3,
         "of scores (mscale_all_dim): times (1 + 0.1 mscale_all ln rope_factor)^2"),
    WEFT_DECODER_TIED(deepseek3, "no", "the head shares the embedding's weight"),
    WEFT_DECODER_MTP(deepseek3, depth, depth_weight),
    {.name = NULL},
};

static weft_status check(const deepseek3 *m, weft_error *err)
{
    const weft_params *p = m->host->params;
    weft_status s = weft_experts_check(m->host, "deepseek3", &m->e, err);
    if (m->rope_dim % 2)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "rope_dim"),
                      "[deepseek3] rope_dim is %lld; what turns are pairs, so it is even",
                      (long long)m->rope_dim);
    if (m->v > m->nope + m->rope_dim)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "v_dim"),
                      "[deepseek3] v_dim is %lld; at most nope_dim + rope_dim, %lld",
                      (long long)m->v, (long long)(m->nope + m->rope_dim));
    if (m->dense >= m->d.layers)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "dense_layers"),
                      "[deepseek3] dense_layers is %lld of %lld blocks; at least one has experts",
                      (long long)m->dense, (long long)m->d.layers);
    if (m->yarn && m->rope.low >= m->rope.high)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "rope_fast"),
                      "[deepseek3] rope_fast must be greater than rope_slow");
    if (m->yarn && m->d.rope_theta <= 1)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "rope_theta"),
                      "[deepseek3] with yarn rope_theta must be greater than 1");
    return s;
}

/* Sines and cosines are scaled by one number, scores by another. */
static void set_rope(deepseek3 *m)
{
    const double f = m->rope.factor, all = weft_yarn_scale(f, m->mscale_all);
    const bool both = m->mscale != 0 && m->mscale_all != 0;
    m->rope.pairs = m->rope_dim / 2;
    m->rope.theta = m->d.rope_theta;
    m->rope.law = m->yarn ? "yarn" : NULL;
    m->rope.scale = !m->yarn ? 1 : weft_yarn_scale(f, both ? m->mscale : 1) / (both ? all : 1);
    m->scale = (m->yarn ? all * all : 1) / sqrt((double)(m->nope + m->rope_dim));
}

static weft_status create(void *self, weft_error *err)
{
    deepseek3 *m = self;
    m->e.score = 1;
    m->e.eps = 1e-20;
    m->e.biased = true;
    m->e.of_batch = weft_params_is(m->host->params, "balance_of", "batch");
    m->e.shared = m->shared * m->e.ffn;
    m->e.router = "mlp.gate.weight";
    m->e.bias = "mlp.gate.e_score_correction_bias";
    m->e.gate = "mlp.experts.gate_proj.weight";
    m->e.up = "mlp.experts.up_proj.weight";
    m->e.down = "mlp.experts.down_proj.weight";
    m->e.shared_gate = "mlp.shared_experts.gate_proj.weight";
    m->e.shared_up = "mlp.shared_experts.up_proj.weight";
    m->e.shared_down = "mlp.shared_experts.down_proj.weight";
    set_rope(m);
    return check(m, err);
}

/* ---- attention ---- */

/* Of every head of x, which has `whole` elements, `width` from `first` on; or the other way. */
static weft_value *part(weft_graph *g, const char *op, const char *name, int n, weft_value **ins,
                        const char *dim, int64_t first, int64_t width, int64_t whole)
{
    const weft_attr attrs[] = {{.key = "first", .kind = WEFT_ATTR_INT, .i = first},
                               {.key = "width", .kind = WEFT_ATTR_INT, .i = width},
                               {.key = "whole", .kind = WEFT_ATTR_INT, .i = whole},
                               {.key = "dim", .kind = WEFT_ATTR_TEXT, .text = dim}};
    weft_value *y = NULL;
    weft_add_full(g, op, name, n, ins, 1, &y, attrs, 4);
    return y;
}

static weft_value *add_queries(const deepseek3 *m, weft_graph *g, weft_value *x, weft_value *turn)
{
    weft_value *q = x;
    if (m->q_rank > 0) {
        q = weft_block_linear(g, "qa", x, "self_attn.q_a_proj.weight", "q_rank embed", 0.02);
        q = weft_block_norm_of(g, "qn", q, "self_attn.q_a_layernorm.weight", "q_rank", 1e-6);
        q = weft_block_linear(g, "q", q, "self_attn.q_b_proj.weight", "heads q_rank", 0.02);
    } else {
        q = weft_block_linear(g, "q", x, "self_attn.q_proj.weight", "heads embed", 0.02);
    }
    return weft_rope_turn(g, "q_rot", q, turn, m->nope, true);
}

/* Keys and values of all heads are made from one latent; what turns of a key all heads share.
 * Values have zeros behind them, for attention's heads are of one size, and what comes of these is
 * left out. */
static weft_value *attention(const void *self, weft_graph *g, weft_value *x, weft_value *turn,
                             double out_std)
{
    const deepseek3 *m = self;
    const int64_t rank = m->kv_rank, nope = m->nope, r = m->rope_dim, v_dim = m->v, qk = nope + r;
    weft_value *q = add_queries(m, g, x, turn);
    weft_value *a = weft_block_linear(g, "kva", x, "self_attn.kv_a_proj_with_mqa.weight",
                                      "kv_latent embed", 0.02);
    weft_value *c = part(g, "head_part", "c", 1, &a, "kv_rank", 0, rank, rank + r);
    weft_value *k_rot = part(g, "head_part", "kr", 1, &a, "rope", rank, r, rank + r);
    k_rot = weft_rope_turn(g, "kr_rot", k_rot, turn, 0, true);
    c = weft_block_norm_of(g, "cn", c, "self_attn.kv_a_layernorm.weight", "kv_rank", 1e-6);
    weft_value *kv =
        weft_block_linear(g, "kv", c, "self_attn.kv_b_proj.weight", "kv_heads kv_rank", 0.02);
    weft_value *k = part(g, "head_part", "kn", 1, &kv, "kv_heads", 0, nope, nope + v_dim);
    k = part(g, "head_join", "k", 2, (weft_value *[]){k, k_rot}, "kv_heads", 0, nope, qk);
    weft_value *v = part(g, "head_part", "v", 1, &kv, "kv_heads", nope, v_dim, nope + v_dim);
    if (v_dim < qk)
        v = part(g, "head_place", "vw", 1, &v, "kv_heads", 0, v_dim, qk);
    weft_value *o = weft_block_attend(g, q, k, v);
    weft_set_real(g, o, "scale", m->scale);
    o = part(g, "head_part", "ov", 1, &o, "v_heads", 0, v_dim, qk);
    return weft_block_linear(g, "attn", o, "self_attn.o_proj.weight", "embed v_heads", out_std);
}

/* ---- the graph ---- */

static weft_value *feed_forward(const void *self, weft_graph *g, int64_t l, weft_value *x,
                                double out_std)
{
    const deepseek3 *m = self;
    return l < m->dense ? weft_block_swiglu(g, x, out_std)
                        : weft_block_experts(g, &m->e, l, x, out_std);
}

static void build(void *self, weft_graph *g)
{
    const deepseek3 *m = self;
    weft_decoder_graph c = {.g = g,
                            .d = &m->d,
                            .feed_forward = feed_forward,
                            .attention = attention,
                            .rope = &m->rope,
                            .depth = (int)m->depth,
                            .depth_weight = m->depth_weight,
                            .self = m};
    weft_experts_dims(g, &m->e);
    weft_graph_dim(g, "heads", m->d.heads, m->nope + m->rope_dim);
    weft_graph_dim(g, "kv_heads", m->d.heads, m->nope + m->v);
    weft_graph_dim(g, "v_heads", m->d.heads, m->v);
    weft_graph_dim(g, "kv_latent", 1, m->kv_rank + m->rope_dim);
    weft_graph_dim(g, "kv_rank", 1, m->kv_rank);
    if (m->q_rank > 0)
        weft_graph_dim(g, "q_rank", m->q_rank, 1);
    weft_decoder_build_with(&c, m->host, "deepseek3");
}

/* ---- Hugging Face: experts lie there one by one, or, where Transformers was told to, together,
 * gate and up in one ---- */

#define HF_LAYER     "model.layers.{l}."
#define HF_ATTENTION HF_LAYER "self_attn."
#define HF_MLP       HF_LAYER "mlp."
#define HF_EXPERTS   HF_MLP "experts."
#define HF_SHARED    HF_MLP "shared_experts."
#define HF_UP        "n_experts expert_dim dim"
#define HF_DOWN      "n_experts dim expert_dim"
static const weft_hf_tensor hf_tensors[] = {
    WEFT_DECODER_HF_EMBEDDING,
    {HF_LAYER "enorm.weight", "dim", .from = "n_layers"},
    {HF_LAYER "hnorm.weight", "dim", .from = "n_layers"},
    {HF_LAYER "eh_proj.embedding.weight", "dim dim", .file = HF_LAYER "eh_proj.weight", .part = 0,
     .parts = 2, .along = 1, .from = "n_layers"},
    {HF_LAYER "eh_proj.hidden.weight", "dim dim", .file = HF_LAYER "eh_proj.weight", .part = 1,
     .parts = 2, .along = 1, .from = "n_layers"},
    {HF_LAYER "input_layernorm.weight", .shape = "dim"},
    {HF_ATTENTION "q_proj.weight", "n_heads*(nope_dim+rope_dim) dim", .unless = "q_rank"},
    {HF_ATTENTION "q_a_proj.weight", "q_rank dim", .when = "q_rank"},
    {HF_ATTENTION "q_a_layernorm.weight", "q_rank", .when = "q_rank"},
    {HF_ATTENTION "q_b_proj.weight", "n_heads*(nope_dim+rope_dim) q_rank", .when = "q_rank"},
    {HF_ATTENTION "kv_a_proj_with_mqa.weight", .shape = "(kv_rank+rope_dim) dim"},
    {HF_ATTENTION "kv_a_layernorm.weight", .shape = "kv_rank"},
    {HF_ATTENTION "kv_b_proj.weight", .shape = "n_heads*(nope_dim+v_dim) kv_rank"},
    {HF_ATTENTION "o_proj.weight", .shape = "dim n_heads*v_dim"},
    {HF_LAYER "post_attention_layernorm.weight", .shape = "dim"},
    {HF_MLP "gate_proj.weight", "ffn_dim dim", .until = "dense_layers"},
    {HF_MLP "up_proj.weight", "ffn_dim dim", .until = "dense_layers"},
    {HF_MLP "down_proj.weight", "dim ffn_dim", .until = "dense_layers"},
    {HF_MLP "gate.weight", "n_experts dim", .from = "dense_layers"},
    {HF_MLP "gate.e_score_correction_bias", "n_experts", .from = "dense_layers", .exact = true},
    {HF_EXPERTS "gate_proj.weight", HF_UP, .file = HF_EXPERTS "{x}.gate_proj.weight",
     .from = "dense_layers"},
    {HF_EXPERTS "up_proj.weight", HF_UP, .file = HF_EXPERTS "{x}.up_proj.weight",
     .from = "dense_layers"},
    {HF_EXPERTS "down_proj.weight", HF_DOWN, .file = HF_EXPERTS "{x}.down_proj.weight",
     .from = "dense_layers"},
    {HF_EXPERTS "gate_proj.weight", HF_UP, .file = HF_EXPERTS "gate_up_proj", .part = 0, .parts = 2,
     .along = 1, .from = "dense_layers", .other = true},
    {HF_EXPERTS "up_proj.weight", HF_UP, .file = HF_EXPERTS "gate_up_proj", .part = 1, .parts = 2,
     .along = 1, .from = "dense_layers", .other = true},
    {HF_EXPERTS "down_proj.weight", HF_DOWN, .file = HF_EXPERTS "down_proj", .from = "dense_layers",
     .other = true},
    {HF_SHARED "gate_proj.weight", "n_shared*expert_dim dim", .from = "dense_layers"},
    {HF_SHARED "up_proj.weight", "n_shared*expert_dim dim", .from = "dense_layers"},
    {HF_SHARED "down_proj.weight", "dim n_shared*expert_dim", .from = "dense_layers"},
    {HF_LAYER "shared_head.norm.weight", "dim", .from = "n_layers"},
    {.file = HF_LAYER "embed_tokens.weight",
     .of = "model.embed_tokens.weight",
     .from = "n_layers",
     .when = "mtp"},
    {.file = HF_LAYER "shared_head.head.weight",
     .of = "lm_head.weight",
     .from = "n_layers",
     .when = "mtp",
     .unless = "tied"},
    {.file = HF_LAYER "shared_head.head.weight",
     .of = "model.embed_tokens.weight",
     .from = "n_layers",
     .when = "tied"},
    WEFT_DECODER_HF_HEAD,
    {0}};
static const weft_hf_key hf_keys[] = {
    {"hidden_size", .key = "dim"},
    {"num_hidden_layers", .key = "n_layers"},
    {"num_attention_heads", .key = "n_heads"},
    {"num_key_value_heads", .same = "num_attention_heads"},
    {"q_lora_rank", "q_rank", .standard = "1536", .null = "0"},
    {"kv_lora_rank", "kv_rank", .standard = "512"},
    {"qk_nope_head_dim", "nope_dim", .standard = "128"},
    {"qk_rope_head_dim", "rope_dim", .standard = "64", .multiple = 2,
     .why = "what turns are pairs"},
    {"qk_head_dim", .same = "qk_nope_head_dim+qk_rope_head_dim", .unwritten = true},
    {"v_head_dim", "v_dim", .standard = "128", .most = "qk_nope_head_dim+qk_rope_head_dim"},
    {"intermediate_size", "ffn_dim", .standard = "18432"},
    {"vocab_size", .key = "vocab_size"},
    {"first_k_dense_replace", "dense_layers", .standard = "3", .below = "num_hidden_layers"},
    {"n_routed_experts", "n_experts", .standard = "256"},
    {"moe_intermediate_size", "expert_dim", .standard = "2048"},
    {"n_shared_experts", "n_shared", .standard = "1"},
    {"n_group", "n_groups", .standard = "8", .divides = "n_routed_experts",
     .most = "n_routed_experts/2"},
    {"topk_group", "keep_groups", .standard = "4", .most = "n_group"},
    {"num_experts_per_tok", "top_k", .standard = "8",
     .most = "n_routed_experts topk_group*n_routed_experts/n_group"},
    {"norm_topk_prob", "norm_top_k", .standard = "true"},
    {"routed_scaling_factor", "route_scale", .standard = "2.5"},
    {"max_position_embeddings", .standard = "4096", .context = true},
    {"rms_norm_eps", "norm_eps", .standard = "1e-6"},
    {"tie_word_embeddings", "tied", .standard = "false"},
    {"hidden_act", .is = "silu", .also = "swish"},
    {"rope_interleave", .is = "true"},
    {"scoring_func", .is = "sigmoid", .unwritten = true},
    {"topk_method", .is = "noaux_tc", .unwritten = true},
    {"moe_layer_freq", .is = "1", .unwritten = true},
    {"attention_bias", .written = "false"},
    {"initializer_range", .written = "0.02"},
    {"auto_map", .unwritten = true},
    {"aux_loss_alpha", .unwritten = true},
    {"ep_size", .unwritten = true},
    {"seq_aux", .unwritten = true},
    {"head_dim", .unwritten = true},
    {"num_nextn_predict_layers", "mtp", .standard = "0"},
    {0}};
static const weft_hf_key hf_stretched[] = {
    {"factor", .key = "rope_factor"},
    {"beta_fast", "rope_fast", .standard = "32"},
    {"beta_slow", "rope_slow", .standard = "1", .below = "beta_fast"},
    {"mscale", "mscale", .standard = "0"},
    {"mscale_all_dim", "mscale_all", .standard = "0"},
    {"original_max_position_embeddings", "rope_original", .whole = true},
    {"attention_factor", .is = "null", .unwritten = true},
    {"truncate", .is = "true", .unwritten = true},
    {0}};
static const weft_hf_rope_type hf_rope_types[] = {{"yarn", "yarn", "yes", hf_stretched, 1}, {0}};
static const weft_hf_rope hf_rope = {"rope_theta", 10000, hf_rope_types};
static const weft_hf_form hf_form = {
    .type = "deepseek_v3",
    .architecture = "DeepseekV3ForCausalLM",
    .prefix = "model.",
    .layers = "n_layers",
    .behind = "mtp",
    .with = "moe",
    .warning = "Transformers 4 gave experts outside of the groups that a token keeps the score 0, "
               "by which they are chosen before experts with negative ones; weft and Transformers "
               "5 choose none of them",
    .tensors = hf_tensors,
    .keys = hf_keys,
    .rope = &hf_rope};
static const weft_hf_form *const hf_forms[] = {&hf_form, NULL};
static const weft_hf_model hf = {sizeof hf, "deepseek3", params, hf_forms};

static const char *const needs[] = {"experts (moe gives it)", NULL};
static const char *const gives[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = build, .needs = needs, .gives = gives},
    {.kind = WEFT_SERVICE, .service = "hf_model", .table = &hf},
    {.kind = WEFT_END}};

WEFT_PLUGIN(deepseek3) = {
    WEFT_PLUGIN_HEAD,
    .name = "deepseek3",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "DeepSeek-V3: attention through latents, experts by sigmoids and a bias",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(deepseek3),
    .create = create,
};
