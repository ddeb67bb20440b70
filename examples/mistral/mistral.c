/* SPDX-License-Identifier: Apache-2.0 */
/* mistral: a model of one's own that trains from Hugging Face's folders and is written as one. The
 * graph is what <weft/blocks.h> builds; what its folders look like is said in two tables. */
#include <weft/blocks.h>
#include <weft/weft.h>

typedef struct mistral {
    const weft_host *host;
    weft_decoder_sizes d;
} mistral;

/* ---- the section [mistral] ---- */

static const char *const flavor_names[] = {"debug", "7B", NULL};
static const char *const flavors[] = {
    "dim = 128, n_layers = 4, n_heads = 8, n_kv_heads = 4, head_dim = 16, ffn_dim = 448, "
    "vocab_size = 2048",
    "dim = 4096, n_layers = 32, n_heads = 32, n_kv_heads = 8, head_dim = 128, ffn_dim = 14336, "
    "vocab_size = 32768"};
static const char *const of_flavor[] = {"flavor", NULL};

static const weft_param params[] = {
    WEFT_DECODER_FLAVOR(flavor_names, flavors),
    WEFT_DECODER_SIZES(mistral, of_flavor, of_flavor, "width of one head",
                       "hidden width of the feed-forward"),
    WEFT_DECODER_NORM_EPS(mistral, "1e-5"),
    WEFT_DECODER_ROPE_THETA(mistral, "1000000"),
    WEFT_DECODER_TIED(mistral, "no", "the head shares the embedding's weight"),
    {0},
};

static weft_status create(void *self, weft_error *err)
{
    mistral *m = self;
    return weft_decoder_check(m->host, "mistral", &m->d, false, err);
}

static void build(void *self, weft_graph *g)
{
    const mistral *m = self;
    weft_decoder_build(g, m->host, "mistral", &m->d, NULL, m);
}

/* ---- its folders ---- */

/* Where each parameter lies, and of what shape it is, in keys of the section. These rows are of
 * every such decoder; spelt out, one is
 *     {"model.layers.{l}.mlp.down_proj.weight", .shape = "dim ffn_dim"} */
static const weft_hf_tensor hf_tensors[] = {WEFT_DECODER_HF_EMBEDDING,
                                            WEFT_DECODER_HF_ATTENTION,
                                            WEFT_DECODER_HF_SWIGLU,
                                            WEFT_DECODER_HF_HEAD,
                                            {0}};

/* What config.json says, and what Transformers takes where it says nothing. A sliding window is
 * another model: hf refuses keys that it knows to change numbers, unless they are named here. */
static const weft_hf_key hf_keys[] = {
    WEFT_DECODER_HF_KEYS("8", "hidden_size/num_attention_heads", "131072", "1e-6"),
    {"intermediate_size", "ffn_dim", .standard = "14336"},
    {"sliding_window", .is = "null"},
    {0}};
static const weft_hf_rope hf_rope = {"rope_theta", 10000, NULL};
static const weft_hf_form hf_form = {.type = "mistral",
                                     .architecture = "MistralForCausalLM",
                                     .prefix = "model.",
                                     .layers = "n_layers",
                                     .tensors = hf_tensors,
                                     .keys = hf_keys,
                                     .rope = &hf_rope};
static const weft_hf_form *const hf_forms[] = {&hf_form, NULL};
static const weft_hf_model hf = {sizeof hf, "mistral", params, hf_forms};

/* ---- the plugin ---- */

static const char *const gives[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = build, .gives = gives},
    {.kind = WEFT_SERVICE, .service = "hf_model", .table = &hf},
    {0}};

WEFT_PLUGIN(mistral) = {
    WEFT_PLUGIN_HEAD,
    .name = "mistral",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "Mistral 7B: grouped-query attention without a window, SwiGLU",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(mistral),
    .create = create,
};
