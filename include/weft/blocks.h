/* SPDX-License-Identifier: Apache-2.0 */
/* What decoders are built of, for plugins that are models: sizes and their rows of a parameter
 * table, norms, attention, feed-forwards, mixtures of experts. All of it is inline and made of
 * <weft/graph.h>: nothing here is needed, and a model is free to do otherwise.
 *
 * Dims are called batch, seq, embed, heads, kv_heads, head_dim, ffn and vocab, and of experts
 * choices (the router's rows), experts, expert_ffn; values of block N "bN.", parameters as Hugging
 * Face calls them, behind the prefix that the caller sets. */
#ifndef WEFT_BLOCKS_H
#define WEFT_BLOCKS_H

#include <math.h>
#include <stdio.h>
#include <weft/hf.h>
#include <weft/marks.h>
#include <weft/plugin.h>
#include <weft/rope.h>
#include <weft/service.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a decoder's sizes ---- */

typedef struct weft_decoder_sizes {
    int64_t dim, layers, heads, kv_heads, head_dim, ffn, vocab;
    double norm_eps, rope_theta, rope_factor, rope_low, rope_high, rope_original;
    bool rope_scaling, tied;
    bool qk_norm; /* queries and keys are normed, head by head, before they are rotated */
} weft_decoder_sizes;

/* Rows of a parameter table, where the plugin's struct has a weft_decoder_sizes `d`. A size's
 * default is what the CHOICE `flavor` says; words: {"flavor", NULL}, auto_words: {"flavor", "auto",
 * NULL}. */
#define WEFT_DECODER_SIZE(self_, key_, field_, least_, most_, words_, help_)                       \
    {                                                                                              \
        .name = key_, WEFT_INT(self_, field_), .value = "flavor", .min = least_, .max = most_,     \
        .choices = words_, .help = help_                                                           \
    }
#define WEFT_DECODER_FLAVOR(names_, presets_)                                                      \
    {                                                                                              \
        .name = "flavor", .type = WEFT_PARAM_CHOICE, .value = "debug", .choices = names_,          \
        .presets = presets_, .help = "the sizes that the other keys default to"                    \
    }
#define WEFT_DECODER_LAYERS(self_, words_)                                                         \
    {                                                                                              \
        .name = "n_layers", WEFT_INT(self_, d.layers), .value = "flavor", .min = 1,                \
        .max = 1 << 14, .choices = words_, .flags = WEFT_PARAM_DEPTH, .help = "transformer blocks" \
    }
#define WEFT_DECODER_SIZES(self_, words_, auto_words_, head_dim_help_, ffn_help_)                  \
    WEFT_DECODER_SIZE(self_, "dim", d.dim, 1, 1 << 24, words_,                                     \
                      "width of the residual stream (Hugging Face: hidden_size)"),                 \
        WEFT_DECODER_LAYERS(self_, words_),                                                        \
        WEFT_DECODER_SIZE(self_, "n_heads", d.heads, 1, 1 << 24, words_, "query heads"),           \
        WEFT_DECODER_SIZE(self_, "n_kv_heads", d.kv_heads, 1, 1 << 24, words_,                     \
                          "key and value heads; n_heads must be a multiple"),                      \
        WEFT_DECODER_SIZE(self_, "head_dim", d.head_dim, 1, 1 << 24, words_, head_dim_help_),      \
        WEFT_DECODER_SIZE(self_, "ffn_dim", d.ffn, 1, 1 << 24, auto_words_, ffn_help_),            \
        WEFT_DECODER_SIZE(                                                                         \
            self_, "vocab_size", d.vocab, 1, 1 << 24, auto_words_,                                 \
            "ids that the embedding and the head know; auto: as many as the tokenizer has")
#define WEFT_DECODER_NORM_EPS(self_, value_)                                                       \
    {                                                                                              \
        .name = "norm_eps", WEFT_REAL(self_, d.norm_eps), .value = value_, .min = 0, .max = 1,     \
        .help = "added to the mean square in RMSNorm"                                              \
    }
#define WEFT_DECODER_ROPE_THETA(self_, value_)                                                     \
    {                                                                                              \
        .name = "rope_theta", WEFT_REAL(self_, d.rope_theta), .value = value_, .min = 1,           \
        .max = 1e12, .help = "base of the rotary frequencies"                                      \
    }
#define WEFT_DECODER_TIED(self_, value_, help_)                                                    \
    {                                                                                              \
        .name = "tied", WEFT_BOOL(self_, d.tied), .value = value_, .help = help_                   \
    }

/* ---- how they lie in Hugging Face's folders: rows for <weft/hf.h> ---- */

#define WEFT_DECODER_HF_EMBEDDING                                                                  \
    {                                                                                              \
        "model.embed_tokens.weight", .shape = "vocab_size dim"                                     \
    }
#define WEFT_DECODER_HF_ATTENTION                                                                  \
    {"model.layers.{l}.input_layernorm.weight", .shape = "dim"},                                   \
        {"model.layers.{l}.self_attn.q_proj.weight", .shape = "n_heads*head_dim dim"},             \
        {"model.layers.{l}.self_attn.k_proj.weight", .shape = "n_kv_heads*head_dim dim"},          \
        {"model.layers.{l}.self_attn.v_proj.weight", .shape = "n_kv_heads*head_dim dim"},          \
        {"model.layers.{l}.self_attn.o_proj.weight", .shape = "dim n_heads*head_dim"},             \
    {                                                                                              \
        "model.layers.{l}.post_attention_layernorm.weight", .shape = "dim"                         \
    }
#define WEFT_DECODER_HF_SWIGLU                                                                     \
    {"model.layers.{l}.mlp.gate_proj.weight", .shape = "ffn_dim dim"},                             \
        {"model.layers.{l}.mlp.up_proj.weight", .shape = "ffn_dim dim"},                           \
    {                                                                                              \
        "model.layers.{l}.mlp.down_proj.weight", .shape = "dim ffn_dim"                            \
    }
#define WEFT_DECODER_HF_HEAD                                                                       \
    {"model.norm.weight", .shape = "dim"}, {"lm_head.weight", "vocab_size dim", .unless = "tied"}, \
        {.file = "lm_head.weight",                                                                 \
         .of = "model.embed_tokens.weight",                                                        \
         .when = "tied",                                                                           \
         .other = true},                                                                           \
    {                                                                                              \
        .file = "*.rotary_emb.inv_freq"                                                            \
    }
/* What Transformers takes where config.json leaves a key out. */
#define WEFT_DECODER_HF_KEYS(kv_heads_, head_dim_, context_, eps_)                                 \
    {"hidden_size", .key = "dim"}, {"num_hidden_layers", .key = "n_layers"},                       \
        {"num_attention_heads", .key = "n_heads"},                                                 \
        {"num_key_value_heads", "n_kv_heads", .standard = kv_heads_,                               \
         .divides = "num_attention_heads"},                                                        \
        {"head_dim", "head_dim", .standard = head_dim_, .multiple = 2,                             \
         .why = "rotary positions need an even width"},                                            \
        {"vocab_size", .key = "vocab_size"},                                                       \
        {"max_position_embeddings", .standard = context_, .context = true},                        \
        {"rms_norm_eps", "norm_eps", .standard = eps_},                                            \
        {"tie_word_embeddings", "tied", .standard = "false"},                                      \
        {"hidden_act", .is = "silu", .also = "swish"},                                             \
    {                                                                                              \
        "initializer_range", .written = "0.02"                                                     \
    }

/* What must hold between them. standard: head_dim is dim / n_heads. */
static inline weft_status weft_decoder_check(const weft_host *host, const char *name,
                                             const weft_decoder_sizes *d, bool standard,
                                             weft_error *err)
{
    const weft_params *p = host->params;
    weft_status s = WEFT_OK;
    if (d->heads % d->kv_heads)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "n_kv_heads"),
                      "[%s] n_kv_heads %lld does not divide n_heads %lld", name,
                      (long long)d->kv_heads, (long long)d->heads);
    if (standard && d->dim % d->heads)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "n_heads"),
                      "[%s] n_heads %lld does not divide dim %lld; set head_dim, or other sizes",
                      name, (long long)d->heads, (long long)d->dim);
    else if (d->head_dim % 2)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, standard ? "n_heads" : "head_dim"),
                      "[%s] head_dim is %lld; rotary positions need an even one", name,
                      (long long)d->head_dim);
    return s;
}

/* ---- pieces of a block ---- */

/* Normal, cut at +-2 in absolute terms: far outside for the stds in use. */
static inline weft_init weft_block_normal(double std)
{
    return (weft_init){WEFT_INIT_TRUNC_NORMAL, std, 2 / std};
}

/* Of what adds to the residual stream in block l: deeper blocks add less. */
static inline double weft_block_out_std(int64_t l)
{
    return 0.02 / sqrt(2.0 * (double)(l + 1));
}

/* dim: the last of x. */
static inline weft_value *weft_block_norm_of(weft_graph *g, const char *name, weft_value *x,
                                             const char *weight, const char *dim, double eps)
{
    weft_value *w = weft_add_parameter(g, weight, dim, (weft_init){WEFT_INIT_ONE, 0, 0});
    weft_value *n = weft_add2(g, "rms_norm", name, x, w);
    weft_set_real(g, n, "eps", eps);
    return n;
}

static inline weft_value *weft_block_norm(weft_graph *g, const char *name, weft_value *x,
                                          const char *weight, double eps)
{
    return weft_block_norm_of(g, name, x, weight, "embed", eps);
}

static inline weft_value *weft_block_linear(weft_graph *g, const char *name, weft_value *x,
                                            const char *weight, const char *shape, double std)
{
    return weft_linear(g, name, x, weft_add_parameter(g, weight, shape, weft_block_normal(std)));
}

/* Angles of whole heads, for all blocks. */
static inline weft_value *weft_block_angles(weft_graph *g, const weft_decoder_sizes *d)
{
    const weft_rope rope = {.pairs = d->head_dim / 2,
                            .theta = d->rope_theta,
                            .law = d->rope_scaling ? "llama3" : NULL,
                            .factor = d->rope_factor,
                            .low = d->rope_low,
                            .high = d->rope_high,
                            .original = d->rope_original};
    return weft_rope_angles(g, &rope);
}

/* Every head of x over its root mean square, times a weight [head_dim]. */
static inline weft_value *weft_block_head_norm(weft_graph *g, const char *name, weft_value *x,
                                               const char *weight, double eps)
{
    weft_value *w = weft_add_parameter(g, weight, "head_dim", (weft_init){WEFT_INIT_ONE, 0, 0});
    weft_value *n = weft_add2(g, "head_norm", name, x, w);
    weft_set_real(g, n, "eps", eps);
    return n;
}

/* Causal attention within each document. */
static inline weft_value *weft_block_attend(weft_graph *g, weft_value *q, weft_value *k,
                                            weft_value *v)
{
    weft_value *index = weft_add_input(g, "index"), *segments = weft_add_input(g, "segments");
    weft_value *o = weft_add(g, "attention", "o", 7,
                             (weft_value *[]){q, k, v, index, index, segments, segments});
    weft_set_int(g, o, "causal", 1);
    return o;
}

/* Grouped-query attention with rotary positions; turn: their angles. */
static inline weft_value *weft_block_attention(weft_graph *g, const weft_decoder_sizes *d,
                                               weft_value *x, weft_value *turn, double out_std)
{
    weft_value *q = weft_block_linear(g, "q", x, "self_attn.q_proj.weight", "heads embed", 0.02);
    weft_value *k = weft_block_linear(g, "k", x, "self_attn.k_proj.weight", "kv_heads embed", 0.02);
    weft_value *v = weft_block_linear(g, "v", x, "self_attn.v_proj.weight", "kv_heads embed", 0.02);
    if (d->qk_norm) {
        q = weft_block_head_norm(g, "q_norm", q, "self_attn.q_norm.weight", d->norm_eps);
        k = weft_block_head_norm(g, "k_norm", k, "self_attn.k_norm.weight", d->norm_eps);
    }
    q = weft_rope_turn(g, "q_rot", q, turn, 0, false);
    k = weft_rope_turn(g, "k_rot", k, turn, 0, false);
    weft_value *o = weft_block_attend(g, q, k, v);
    return weft_block_linear(g, "attn", o, "self_attn.o_proj.weight", "embed heads", out_std);
}

/* down(silu(gate x) * up x) */
static inline weft_value *weft_block_swiglu(weft_graph *g, weft_value *x, double out_std)
{
    weft_value *gate = weft_block_linear(g, "g", x, "mlp.gate_proj.weight", "ffn embed", 0.02);
    weft_value *up = weft_block_linear(g, "u", x, "mlp.up_proj.weight", "ffn embed", out_std);
    weft_value *a = weft_add2(g, "silu_mul", "a", gate, up);
    return weft_block_linear(g, "d", a, "mlp.down_proj.weight", "embed ffn", out_std);
}

/* ---- mixtures of experts: needs the plugin moe ---- */

typedef struct weft_experts {
    int64_t n, k, ffn;    /* experts, of these for each token, width of one */
    int score;            /* 0: softmax, 1: sigmoid, 2: softmax over the chosen */
    bool norm;            /* weights are divided by their sum and eps */
    double eps, scale;    /* scale 0: 1 */
    int64_t groups, keep; /* choose among the `keep` best of `groups` groups; 0: among all */
    double bias_rate;     /* of a bias that evens the load, without a loss; 0: no bias */
    bool recentre;        /* its steps sum to 0 */
    double balance, z;    /* weights of terms of the loss; 0: none */
    bool of_batch;        /* balance over a micro-batch; no: over each sample */
    const char *router, *gate, *up, *down; /* names of parameters behind the prefix */
    const char *bias;                      /* of the state that is the bias */
    bool biased;                           /* there is one, with a bias_rate of 0, too */
    int64_t shared; /* width of a feed-forward that every token goes through as well; 0: none */
    const char *shared_gate, *shared_up, *shared_down;
} weft_experts;

/* Rows of a parameter table, where the plugin's struct has a weft_experts `e`. */
#define WEFT_EXPERTS_PARAMS(self_, balance_)                                                       \
    WEFT_EXPERTS_LOAD(self_, balance_, "0",                                                        \
                      "step of the bias that evens the load without a loss; 0: there is no bias")
#define WEFT_EXPERTS_LOAD(self_, balance_, rate_, rate_help_)                                      \
    {.name = "balance",                                                                            \
     WEFT_REAL(self_, e.balance),                                                                  \
     .value = balance_,                                                                            \
     .min = 0,                                                                                     \
     .max = 1e3,                                                                                   \
     .help = "weight of the loss that evens the experts' load; 0: none"},                          \
        {.name = "balance_of",                                                                     \
         .type = WEFT_PARAM_CHOICE,                                                                \
         .value = "sample",                                                                        \
         .when = "balance!=0",                                                                     \
         .choices = (const char *const[]){"sample", "batch", NULL},                                \
         .help = "what is balanced: the tokens of each sample, the same on every mesh and with "   \
                 "any number of micro-batches; batch: of each micro-batch"},                       \
        {.name = "bias_rate",                                                                      \
         WEFT_REAL(self_, e.bias_rate),                                                            \
         .value = rate_,                                                                           \
         .min = 0,                                                                                 \
         .max = 1,                                                                                 \
         .help = rate_help_},                                                                      \
    {                                                                                              \
        .name = "router_z", WEFT_REAL(self_, e.z), .value = "0", .min = 0, .max = 1e3,             \
        .help = "weight of the loss that keeps the router's logits small; 0: none"                 \
    }

/* The number of equal groups, of at least two experts each, that is nearest to `groups`. */
static inline int64_t weft_experts_nearest(int64_t experts, int64_t groups)
{
    int64_t best = 1;
    for (int64_t d = 2; 2 * d <= experts; d++)
        if (experts % d == 0 && (d > groups ? d - groups : groups - d) <
                                    (best > groups ? best - groups : groups - best))
            best = d;
    return best;
}

/* Where the user says the first of these keys that is said; what is wrong with others may be a
 * flavor's. */
static inline weft_where weft_experts_where(const weft_host *host, const char *const *keys)
{
    while (*keys && !weft_params_given(host->params, *keys))
        keys++;
    return *keys ? weft_params_where(host->params, *keys) : WEFT_NOWHERE;
}

/* What must hold between the numbers of experts, whose keys are called as in `moe`'s models. */
static inline weft_status weft_experts_check(const weft_host *host, const char *name,
                                             const weft_experts *e, weft_error *err)
{
    static const char *const of_k[] = {"top_k",  "keep_groups", "keep", "n_groups",
                                       "groups", "n_experts",   NULL},
                             *const of_groups[] = {"n_groups", "groups", "n_experts", NULL},
                             *const of_keep[] = {"keep_groups", "keep", "n_groups", "groups", NULL};
    const int64_t each = e->groups > 0 ? e->n / e->groups : 0;
    if (e->k > e->n)
        return weft_fail(err, WEFT_ERR_INPUT, weft_experts_where(host, of_k),
                         "[%s] top_k: %lld experts for each token, of %lld; at most as many as "
                         "there are",
                         name, (long long)e->k, (long long)e->n);
    if (e->groups > 0 && (e->n % e->groups || each < 2))
        return weft_fail(err, WEFT_ERR_INPUT, weft_experts_where(host, of_groups),
                         "[%s] %lld experts in %lld groups: groups are equal, of at least two "
                         "experts; the nearest that works is %lld",
                         name, (long long)e->n, (long long)e->groups,
                         (long long)weft_experts_nearest(e->n, e->groups));
    if (e->groups > 0 && (e->keep > e->groups || e->keep < 1))
        return weft_fail(err, WEFT_ERR_INPUT, weft_experts_where(host, of_keep),
                         "[%s] %lld groups of experts are kept, of %lld; 1 to %lld are", name,
                         (long long)e->keep, (long long)e->groups, (long long)e->groups);
    if (e->groups > 0 && e->k > e->keep * each)
        return weft_fail(err, WEFT_ERR_INPUT, weft_experts_where(host, of_k),
                         "[%s] top_k: %lld experts for each token, of the %lld in %lld groups; at "
                         "most as many as there are, or keep %lld groups",
                         name, (long long)e->k, (long long)(e->keep * each), (long long)e->keep,
                         (long long)((e->k + each - 1) / each));
    return WEFT_OK;
}

/* Attributes of route and of what looks at the router as it does. */
static inline void weft_experts_route(weft_graph *g, weft_value *v, const weft_experts *e)
{
    weft_set_int(g, v, "score", e->score);
    weft_set_int(g, v, "norm", e->norm);
    weft_set_real(g, v, "eps", e->eps);
    weft_set_real(g, v, "scale", e->scale != 0 ? e->scale : 1);
    weft_set_int(g, v, "limit_groups", e->groups);
    weft_set_int(g, v, "keep_groups", e->keep);
}

/* An op that looks at the router's logits, with as many experts for each token. */
static inline weft_value *weft_experts_look(weft_graph *g, const char *op, weft_value *logits,
                                            const weft_experts *e)
{
    const weft_attr attrs[] = {{.key = "k", .kind = WEFT_ATTR_INT, .i = e->k},
                               {.key = "batch", .kind = WEFT_ATTR_INT, .i = e->of_batch}};
    weft_value *v = NULL;
    weft_add_full(g, op, NULL, 1, &logits, 1, &v, attrs, 2);
    weft_experts_route(g, v, e);
    return v;
}

/* What is chosen would not be chosen again. */
static inline void weft_experts_mark(weft_graph *g, weft_value *chosen)
{
    weft_set_mark(g, chosen, WEFT_MARK_KEEP, 1);
    weft_set_mark(g, chosen, WEFT_MARK_CHOOSES, 1);
}

/* Terms of the loss: sum over experts of (share of the choices) * (mean score), times their number,
 * which is 1 if all are even; and the square of the logits' log sum exp. */
static inline void weft_experts_add_losses(weft_graph *g, weft_value *logits, const weft_experts *e)
{
    if (weft_graph_mode(g) != WEFT_MODE_TRAIN)
        return;
    if (e->balance > 0) {
        const double places =
            (double)weft_graph_seq_len(g) * (e->of_batch ? (double)weft_graph_micro_batch(g) : 1.0);
        weft_value *share = weft_experts_look(g, "router_share", logits, e);
        weft_experts_mark(g, share);
        weft_value *mean = weft_experts_look(g, "router_mean", logits, e);
        weft_value *term = weft_add2(g, "balance", NULL, share, mean);
        weft_set_real(g, term, "scale",
                      (double)e->n / ((double)e->k * places * (e->of_batch ? places : 1)));
        weft_add_loss(g, "balance", term, e->balance, e->of_batch ? WEFT_LOSS_PER_MICRO_BATCH : 0);
    }
    if (e->z > 0) {
        weft_value *z = weft_add1(g, "router_z", NULL, logits);
        weft_add_loss(g, "router_z", z, e->z, 0);
    }
}

/* logits, bias (NULL: none) -> chosen, weights */
static inline void weft_experts_choose(weft_graph *g, weft_value *logits, weft_value *bias,
                                       const weft_experts *e, weft_value *outs[2])
{
    const weft_attr attrs[] = {{.key = "k", .kind = WEFT_ATTR_INT, .i = e->k},
                               {.key = "bias_rate", .kind = WEFT_ATTR_REAL, .r = e->bias_rate},
                               {.key = "recentre", .kind = WEFT_ATTR_INT, .i = e->recentre}};
    weft_add_full(g, "route", "chosen", bias ? 2 : 1, (weft_value *[]){logits, bias}, 2, outs,
                  attrs, 3);
    weft_experts_route(g, outs[0], e);
    weft_experts_mark(g, outs[0]);
}

/* A node of an op that knows of groups. */
static inline weft_value *weft_experts_add(weft_graph *g, const char *op, const char *name,
                                           const weft_experts *e, int n_ins, weft_value **ins,
                                           int n_outs, weft_value **outs)
{
    const weft_attr attrs[] = {{.key = "experts", .kind = WEFT_ATTR_INT, .i = e->n}};
    return weft_add_full(g, op, name, n_ins, ins, n_outs, outs, attrs, 1);
}

/* Rows of each expert by its weight; rows: of all tokens. */
static inline weft_value *weft_experts_product(weft_graph *g, const char *name, weft_value *x,
                                               weft_value *counts, const char *weight,
                                               const char *shape, double std, int64_t rows)
{
    weft_value *w = weft_add_parameter(g, weight, shape, weft_block_normal(std));
    weft_value *y = weft_add3(g, "grouped", name, x, w, counts);
    weft_set_int(g, y, "rows", rows);
    return y;
}

/* Declares the dims of experts, once in a graph. */
static inline void weft_experts_dims(weft_graph *g, const weft_experts *e)
{
    weft_graph_dim(g, "choices", e->n, 1);
    weft_graph_dim(g, "experts", e->n, 1);
    weft_graph_dim(g, "expert_ffn", e->ffn, 1);
    if (e->shared > 0)
        weft_graph_dim(g, "shared_ffn", e->shared, 1);
}

/* What every token goes through, whatever it chooses: a swiglu. */
static inline weft_value *weft_experts_shared(weft_graph *g, const weft_experts *e, weft_value *x,
                                              double out_std)
{
    weft_value *gate = weft_block_linear(g, "sg", x, e->shared_gate, "shared_ffn embed", 0.02);
    weft_value *up = weft_block_linear(g, "su", x, e->shared_up, "shared_ffn embed", out_std);
    weft_value *a = weft_add2(g, "silu_mul", "sa", gate, up);
    return weft_block_linear(g, "shared", a, e->shared_down, "embed shared_ffn", out_std);
}

/* Of block l: the weighted sum of each token's experts, each a swiglu. Weights are applied to what
 * the last product reads, so that its results need not be kept. */
static inline weft_value *weft_block_experts(weft_graph *g, const weft_experts *e, int64_t l,
                                             weft_value *x, double out_std)
{
    weft_value *routed[2] = {NULL}, *assigned[4] = {NULL}, *sent = NULL, *weights = NULL, *y = NULL;
    weft_value *router = weft_add_parameter(g, e->router, "choices embed", weft_block_normal(0.02));
    weft_set_mark(g, router, WEFT_MARK_NO_DECAY, 1);
    weft_value *logits = weft_linear(g, "router", x, router);
    weft_set_mark(g, logits, WEFT_MARK_EXACT, 1);
    char name[96];
    snprintf(name, sizeof name, "model.layers.%lld.%s", (long long)l, e->bias);
    weft_value *bias = e->bias_rate > 0 || e->biased
                           ? weft_add_state(g, name, "choices", weft_graph_dtype(g),
                                            (weft_init){WEFT_INIT_ZERO, 0, 0}, WEFT_STATE_BUFFER)
                           : NULL;
    weft_experts_choose(g, logits, bias, e, routed);
    weft_experts_add_losses(g, logits, e);
    weft_experts_add(g, "assign", "counts", e, 1, routed, 4, assigned);
    weft_set_mark(g, assigned[0], WEFT_MARK_KEEP, 1);
    weft_set_mark(g, assigned[0], WEFT_MARK_OF_MESH, 1);
    weft_experts_add(g, "dispatch", "sent", e, 3, (weft_value *[]){x, routed[0], assigned[1]}, 1,
                     &sent);
    weft_experts_add(g, "spread", "weights", e, 3,
                     (weft_value *[]){routed[1], routed[0], assigned[1]}, 1, &weights);
    const int64_t rows = e->k * weft_graph_micro_batch(g) * weft_graph_seq_len(g);
    weft_value *counts = assigned[0], *shared = NULL;
    if (e->shared > 0) /* while rows travel */
        shared = weft_experts_shared(g, e, x, out_std);
    weft_value *gate =
        weft_experts_product(g, "g", sent, counts, e->gate, "experts expert_ffn embed", 0.02, rows);
    weft_value *up = weft_experts_product(g, "u", sent, counts, e->up, "experts expert_ffn embed",
                                          out_std, rows);
    weft_value *a = weft_add2(g, "silu_mul", "a", gate, up);
    a = weft_add2(g, "slot_scale", "aw", a, weights);
    a = weft_experts_product(g, "rows", a, counts, e->down, "experts embed expert_ffn", out_std,
                             rows);
    weft_experts_add(g, "combine", shared ? "c" : "d", e, 3,
                     (weft_value *[]){a, routed[0], assigned[1]}, 1, &y);
    return shared ? weft_add2(g, "add", "d", y, shared) : y;
}

/* ---- a whole decoder ---- */

/* Of block l, what is added to the residual stream: by its feed-forward, by attention; turn: the
 * angles of rotary positions. */
typedef weft_value *weft_feed_forward(const void *self, weft_graph *g, int64_t l, weft_value *x,
                                      double out_std);
typedef weft_value *weft_attention(const void *self, weft_graph *g, weft_value *x, weft_value *turn,
                                   double out_std);

/* A decoder while it is built. */
typedef struct weft_decoder_graph weft_decoder_graph;
struct weft_decoder_graph {
    weft_graph *g;
    const weft_decoder_sizes *d;
    weft_feed_forward *feed_forward; /* NULL: swiglu */
    weft_attention *attention;       /* NULL: grouped-query, of sizes d */
    const weft_rope *rope;           /* NULL: that of whole heads of sizes d */
    int depth;                       /* modules that predict further tokens */
    double depth_weight;             /* of their losses together */
    const void *self;
    weft_value *turn, *table, *head; /* angles, the weights of embedding and head */
};
enum { WEFT_DECODER_DEPTH = 16 };

/* Rows of a parameter table for depth and depth_weight. */
#define WEFT_DECODER_MTP(self_, depth_, weight_)                                                   \
    {.name = "mtp",                                                                                \
     WEFT_INT(self_, depth_),                                                                      \
     .value = "0",                                                                                 \
     .min = 0,                                                                                     \
     .max = WEFT_DECODER_DEPTH,                                                                    \
     .help = "modules that predict further tokens than the next, one each (multi-token "           \
             "prediction); only training has them"},                                               \
    {                                                                                              \
        .name = "mtp_weight", WEFT_REAL(self_, weight_), .value = "0.3", .min = 1e-6, .max = 1e6,  \
        .when = "mtp!=0", .help = "weight of the mean of their losses; that of the head's is 1"    \
    }

/* x behind block l. */
static inline weft_value *weft_decoder_block(const weft_decoder_graph *c, int64_t l, weft_value *x)
{
    weft_graph *g = c->g;
    const double out_std = weft_block_out_std(l), eps = c->d->norm_eps;
    weft_value *n = weft_block_norm(g, "n1", x, "input_layernorm.weight", eps);
    weft_value *h = c->attention ? c->attention(c->self, g, n, c->turn, out_std)
                                 : weft_block_attention(g, c->d, n, c->turn, out_std);
    h = weft_add2(g, "add", "h", x, h);
    weft_set_role(g, h, "residual");
    n = weft_block_norm(g, "n2", h, "post_attention_layernorm.weight", eps);
    weft_value *y = weft_add2(g, "add", "y", h,
                              c->feed_forward ? c->feed_forward(c->self, g, l, n, out_std)
                                              : weft_block_swiglu(g, n, out_std));
    weft_set_role(g, y, "residual");
    return y;
}

static inline void weft_decoder_dims(const weft_decoder_graph *c, int64_t n_vocab)
{
    const weft_decoder_sizes *d = c->d;
    weft_graph_dim(c->g, "embed", d->dim, 1);
    if (!c->attention) {
        weft_graph_dim(c->g, "heads", d->heads, d->head_dim);
        weft_graph_dim(c->g, "kv_heads", d->kv_heads, d->head_dim);
    }
    if (d->qk_norm)
        weft_graph_dim(c->g, "head_dim", d->head_dim, 1);
    weft_graph_dim(c->g, "ffn", d->ffn, 1);
    weft_graph_dim(c->g, "vocab", n_vocab, 1);
    if (c->depth > 0)
        weft_graph_dim(c->g, "joined", d->dim, 1);
}

/* Module k of multi-token prediction, a block behind the last (DeepSeek-V3's report): from what the
 * head reads of the depth before, and the embedding of the token k further on, what it reads at
 * this one. The two are normed, and joined by a projection, which has a weight for each: from
 * embed to `joined`, another name for it, for no weight has one dim twice. */
static inline weft_value *weft_decoder_module(const weft_decoder_graph *c, int k, weft_value *x)
{
    weft_graph *g = c->g;
    const double eps = c->d->norm_eps;
    const weft_attr called_embed[] = {{.key = "width", .kind = WEFT_ATTR_INT, .i = 1},
                                      {.key = "whole", .kind = WEFT_ATTR_INT, .i = 1},
                                      {.key = "dim", .kind = WEFT_ATTR_TEXT, .text = "embed"}};
    char ids[24];
    snprintf(ids, sizeof ids, "ids+%d", k);
    weft_value *e = weft_add2(g, "embedding", "e", weft_add_input(g, ids), c->table);
    e = weft_block_norm(g, "ne", e, "enorm.weight", eps);
    x = weft_block_norm(g, "nh", x, "hnorm.weight", eps);
    e = weft_block_linear(g, "pe", e, "eh_proj.embedding.weight", "joined embed", 0.02);
    x = weft_block_linear(g, "ph", x, "eh_proj.hidden.weight", "joined embed", 0.02);
    e = weft_add2(g, "add", "p", e, x);
    weft_add_full(g, "head_part", "x", 1, &e, 1, &x, called_embed, 3);
    weft_set_role(g, x, "residual");
    x = weft_decoder_block(c, c->d->layers + k - 1, x);
    return weft_block_norm(g, "nf", x, "shared_head.norm.weight", eps);
}

static inline void weft_decoder_begin_block(weft_graph *g, int64_t l)
{
    weft_graph_set_block(g, (int)l);
    weft_graph_set_prefix(g, "b%lld.", (long long)l);
    weft_graph_set_parameter_prefix(g, "model.layers.%lld.", (long long)l);
}

/* What the head reads of the last block, and with modules what it reads of each. The last norm is
 * in the block of the first module, which reads it, too. Where nothing is trained there are their
 * blocks, so that stages of a pipeline are the same, with nothing in them. */
static inline void weft_decoder_hidden(weft_decoder_graph *c, weft_value *x,
                                       weft_value *hidden[1 + WEFT_DECODER_DEPTH])
{
    weft_graph *g = c->g;
    weft_graph_set_block(g, c->depth > 0 ? (int)c->d->layers : WEFT_BLOCK_HEAD);
    hidden[0] = weft_block_norm(g, "nf", x, "model.norm.weight", c->d->norm_eps);
    for (int k = 1; k <= c->depth; k++) {
        weft_decoder_begin_block(g, c->d->layers + k - 1);
        if (weft_graph_mode(g) == WEFT_MODE_TRAIN)
            hidden[k] = weft_decoder_module(c, k, hidden[k - 1]);
    }
    weft_graph_set_block(g, WEFT_BLOCK_HEAD);
}

/* One head for all depths. */
static inline void weft_decoder_heads(const weft_decoder_graph *c,
                                      weft_value *hidden[1 + WEFT_DECODER_DEPTH])
{
    weft_add_head(c->g, hidden[0], c->head);
    for (int k = 1; k <= c->depth && weft_graph_mode(c->g) == WEFT_MODE_TRAIN; k++) {
        char name[24];
        snprintf(name, sizeof name, "mtp%d", k);
        const weft_head head = {.name = name,
                                .shift = k,
                                .weight = c->depth_weight / c->depth,
                                .flags = WEFT_LOSS_OWN_COUNT};
        weft_add_head_with(c->g, hidden[k], c->head, &head);
    }
}

/* The graph: embedding, blocks, norm, head. name: of the plugin, for messages. With an attention of
 * its own the model declares the dims of heads. */
static inline void weft_decoder_build_with(weft_decoder_graph *c, const weft_host *host,
                                           const char *name)
{
    weft_graph *g = c->g;
    const weft_decoder_sizes *d = c->d;
    const weft_init head = {WEFT_INIT_TRUNC_NORMAL, 1 / sqrt((double)d->dim), 3};
    weft_value *hidden[1 + WEFT_DECODER_DEPTH];
    int64_t n_vocab;
    if (weft_vocabulary(host, name, d->vocab, &n_vocab, weft_graph_error(g)))
        return;
    weft_decoder_dims(c, n_vocab);
    c->turn = c->rope ? weft_rope_angles(g, c->rope) : weft_block_angles(g, d);

    weft_graph_set_block(g, WEFT_BLOCK_EMBEDDING);
    c->table = weft_add_parameter(g, "model.embed_tokens.weight", "vocab embed",
                                  d->tied ? head : (weft_init){WEFT_INIT_NORMAL, 1, 0});
    weft_value *x = weft_add2(g, "embedding", "x", weft_add_input(g, "ids"), c->table);
    weft_set_role(g, x, "residual");
    for (int64_t l = 0; l < d->layers; l++) {
        weft_decoder_begin_block(g, l);
        x = weft_decoder_block(c, l, x);
    }
    weft_decoder_hidden(c, x, hidden);
    c->head = d->tied ? c->table : weft_add_parameter(g, "lm_head.weight", "vocab embed", head);
    weft_decoder_heads(c, hidden);
}

/* The same with a feed-forward of the model's own, NULL: swiglu, and all else as in Llama. */
static inline void weft_decoder_build(weft_graph *g, const weft_host *host, const char *name,
                                      const weft_decoder_sizes *d, weft_feed_forward *feed_forward,
                                      const void *self)
{
    weft_decoder_graph c = {.g = g, .d = d, .feed_forward = feed_forward, .self = self};
    weft_decoder_build_with(&c, host, name);
}

#ifdef __cplusplus
}
#endif
#endif
