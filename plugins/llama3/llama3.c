/* SPDX-License-Identifier: Apache-2.0 */
/* Llama 2, 3, 3.1, 3.2: the graph, with Hugging Face's names, shapes and orientation. Knows nothing
 * of meshes. */
#include <weft/blocks.h>
#include <weft/weft.h>

typedef struct llama {
    const weft_host *host;
    weft_decoder_sizes d;
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

static const weft_param params[] = {
    WEFT_DECODER_FLAVOR(flavor_names, flavors),
    WEFT_DECODER_SIZES(
        llama, of_flavor, or_auto, "width of one head; flavor: dim / n_heads",
        "hidden width of the feed-forward; auto: 8/3 dim, rounded up to a multiple of 256"),
    WEFT_DECODER_NORM_EPS(llama, "1e-5"),
    WEFT_DECODER_ROPE_THETA(llama, "500000"),
    {.name = "rope_scaling",
     WEFT_BOOL(llama, d.rope_scaling),
     .value = "no",
     .help = "Llama 3.1's stretching of the slow rotary frequencies, for contexts beyond "
             "rope_original"},
    {.name = "rope_factor",
     WEFT_REAL(llama, d.rope_factor),
     .value = "8",
     .min = 1,
     .max = 1e6,
     .flags = WEFT_PARAM_ADVANCED,
     .when = "rope_scaling=yes",
     .help = "how much they are stretched"},
    {.name = "rope_low",
     WEFT_REAL(llama, d.rope_low),
     .value = "1",
     .min = 0,
     .max = 1e6,
     .flags = WEFT_PARAM_ADVANCED,
     .when = "rope_scaling=yes",
     .help = "fewer turns than this in the original context: stretched whole"},
    {.name = "rope_high",
     WEFT_REAL(llama, d.rope_high),
     .value = "4",
     .min = 0,
     .max = 1e6,
     .flags = WEFT_PARAM_ADVANCED,
     .when = "rope_scaling=yes",
     .help = "more turns than this: not stretched"},
    {.name = "rope_original",
     WEFT_REAL(llama, d.rope_original),
     .value = "8192",
     .min = 1,
     .max = 1e9,
     .unit = "tokens",
     .flags = WEFT_PARAM_ADVANCED,
     .when = "rope_scaling=yes",
     .help = "context that the frequencies were made for"},
    WEFT_DECODER_TIED(llama, "no", "the head shares the embedding's weight (Llama 3.2 1B and 3B)"),
    {.name = NULL},
};

/* What the flavor says of a size holds with its other sizes; with another width or number of heads
 * the sizes that follow from it do. */
static weft_status create(void *self, weft_error *err)
{
    llama *m = self;
    weft_decoder_sizes *d = &m->d;
    const weft_params *p = m->host->params;
    const bool wide = !weft_params_is(p, "dim", "flavor"),
               standard = weft_params_is(p, "head_dim", "flavor");
    if (weft_params_is(p, "n_kv_heads", "flavor") && !weft_params_is(p, "n_heads", "flavor"))
        d->kv_heads = d->heads;
    if (weft_params_is(p, "ffn_dim", "auto") || (weft_params_is(p, "ffn_dim", "flavor") && wide))
        d->ffn = (8 * d->dim / 3 + 255) / 256 * 256;
    if (standard)
        d->head_dim = d->dim / d->heads;
    weft_status s = weft_decoder_check(m->host, "llama3", d, standard, err);
    return d->rope_low < d->rope_high
               ? s
               : weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "rope_high"),
                           "[llama3] rope_high must be greater than rope_low");
}

static void build(void *self, weft_graph *g)
{
    const llama *m = self;
    weft_decoder_build(g, m->host, "llama3", &m->d, NULL, m);
}

/* ---- Hugging Face: the same names, element for element ---- */

static const weft_hf_tensor hf_tensors[] = {WEFT_DECODER_HF_EMBEDDING,
                                            WEFT_DECODER_HF_ATTENTION,
                                            WEFT_DECODER_HF_SWIGLU,
                                            WEFT_DECODER_HF_HEAD,
                                            {0}};
static const weft_hf_key hf_keys[] = {
    WEFT_DECODER_HF_KEYS("num_attention_heads", "hidden_size/num_attention_heads", "2048", "1e-6"),
    {"intermediate_size", .key = "ffn_dim"},
    {"attention_bias", .written = "false"},
    {"mlp_bias", .written = "false"},
    {0}};
static const weft_hf_key hf_stretched[] = {
    {"factor", .key = "rope_factor"},
    {"high_freq_factor", .key = "rope_high"},
    {"low_freq_factor", "rope_low", .below = "high_freq_factor"},
    {"original_max_position_embeddings", "rope_original", .whole = true},
    {0}};
static const weft_hf_rope_type hf_rope_types[] = {
    {"llama3", "rope_scaling", .value = "yes", .keys = hf_stretched}, {0}};
static const weft_hf_rope hf_rope = {"rope_theta", 10000, hf_rope_types};
static const weft_hf_form hf_form = {.type = "llama",
                                     .architecture = "LlamaForCausalLM",
                                     .prefix = "model.",
                                     .layers = "n_layers",
                                     .tensors = hf_tensors,
                                     .keys = hf_keys,
                                     .rope = &hf_rope};
static const weft_hf_form *const hf_forms[] = {&hf_form, NULL};
static const weft_hf_model hf = {sizeof hf, "llama3", params, hf_forms};

static const char *const gives[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = build, .gives = gives},
    {.kind = WEFT_SERVICE, .service = "hf_model", .table = &hf},
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
