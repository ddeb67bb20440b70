/* SPDX-License-Identifier: Apache-2.0 */
/* config.json, read. What changes numbers and is not known to weft is refused by name; Hugging Face's defaults stand in for keys that are left out.
 */
#include "hf.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <weft/files.h>

typedef struct reader {
    const char *path;
    json_t *object;
    weft_error *err;
    weft_status status;
} reader;

static void complain(reader *r, const char *format, ...) WEFT_PRINTF(2, 3);

static void complain(reader *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    weft_status s = weft_vfail(r->err, WEFT_ERR_INPUT, (weft_where){r->path, 0}, format, args);
    va_end(args);
    r->status = r->status ? r->status : s;
}

static const char *type_name(const json_t *x)
{
    static const char *const names[] = {"an object", "an array", "a string", "a number", "a number", "true", "false", "null"};
    return names[json_typeof(x)];
}

/* ---- values ---- */

/* NULL: not there, or null, which is the same. */
static json_t *get(const reader *r, const char *key)
{
    json_t *x = json_object_get(r->object, key);
    return json_is_null(x) ? NULL : x;
}

/* least above `standard` makes the key required. */
static int64_t get_int(reader *r, const char *key, int64_t least, int64_t standard)
{
    const json_t *x = get(r, key);
    if (!x && standard < least)
        complain(r, "'%s' is missing", key);
    if (!x)
        return standard;
    if (!json_is_integer(x)) {
        complain(r, "'%s' is %s; expected a whole number", key, type_name(x));
        return least;
    }
    if (json_integer_value(x) < least || json_integer_value(x) > 1 << 24)
        complain(r, "'%s' is %lld; expected %lld to %d", key, (long long)json_integer_value(x), (long long)least, 1 << 24);
    return json_integer_value(x);
}

/* NAN as standard makes the key required. */
static double get_real(reader *r, const char *key, double least, double most, double standard)
{
    const json_t *x = get(r, key);
    if (!x && isnan(standard))
        complain(r, "'%s' is missing", key);
    if (!x)
        return standard;
    if (!json_is_number(x)) {
        complain(r, "'%s' is %s; expected a number", key, type_name(x));
        return least;
    }
    double value = json_number_value(x);
    if (!(value >= least && value <= most))
        complain(r, "'%s' is %g; expected %g to %g", key, value, least, most);
    return value;
}

static bool get_bool(reader *r, const char *key, bool standard)
{
    const json_t *x = get(r, key);
    if (x && !json_is_boolean(x))
        complain(r, "'%s' is %s; expected true or false", key, type_name(x));
    return x ? json_is_true(x) : standard;
}

/* Some models end with one of several ids: the first is taken. */
static int64_t get_id(const reader *r, const char *key)
{
    const json_t *x = get(r, key);
    if (json_is_array(x))
        x = json_array_get(x, 0);
    return json_is_integer(x) ? json_integer_value(x) : -1;
}

/* ---- what must have one value ---- */

static bool is_off(const json_t *x)
{
    return !x || json_is_null(x) || json_is_false(x) || (json_is_number(x) && json_number_value(x) == 0) ||
           (json_is_array(x) && !json_array_size(x)) || (json_is_object(x) && !json_object_size(x));
}

static void must_be_off(reader *r, const char *const *keys)
{
    for (; *keys; keys++) {
        char *text = is_off(json_object_get(r->object, *keys)) ? NULL : json_dumps(json_object_get(r->object, *keys), JSON_ENCODE_ANY | JSON_COMPACT);
        if (text)
            complain(r, "'%s' is %.60s; weft's models do not have it, so the numbers would be others", *keys, text);
        free(text);
    }
}

static void must_be(reader *r, const char *key, double value)
{
    const json_t *x = get(r, key);
    bool same = !x || (json_is_boolean(x) ? json_is_true(x) == (value != 0) : json_is_number(x) && json_number_value(x) == value);
    if (!same)
        complain(r, "'%s' must be %g; weft's models know nothing else", key, value);
}

static void must_be_word(reader *r, const char *key, const char *const *words)
{
    const json_t *x = get(r, key);
    if (!x)
        return;
    for (int i = 0; words[i]; i++)
        if (json_is_string(x) && strcmp(json_string_value(x), words[i]) == 0)
            return;
    complain(r, "'%s' is %s%s%s; weft has %s alone", key, json_is_string(x) ? "'" : "", json_is_string(x) ? json_string_value(x) : type_name(x),
             json_is_string(x) ? "'" : "", words[0]);
}

static void check_layer_types(reader *r)
{
    const json_t *types = get(r, "layer_types"), *type;
    size_t i;
    json_array_foreach(types, i, type)
    {
        if (json_is_string(type) && strcmp(json_string_value(type), "full_attention") == 0)
            continue;
        complain(r, "'layer_types' has '%s'; weft has full_attention alone", json_is_string(type) ? json_string_value(type) : type_name(type));
        return;
    }
}

/* What other models of the same shapes differ by. */
static const char *const switched_off[] = {"quantization_config",
                                           "compression_config",
                                           "attention_bias",
                                           "mlp_bias",
                                           "use_sliding_window",
                                           "sliding_window",
                                           "attn_logit_softcapping",
                                           "final_logit_softcapping",
                                           "query_pre_attn_scalar",
                                           "clip_qkv",
                                           "use_qk_norm",
                                           "qk_norm",
                                           "num_experts",
                                           "num_local_experts",
                                           "n_routed_experts",
                                           "alibi",
                                           "parallel_residual",
                                           "use_parallel_residual",
                                           "rope_interleaved",
                                           "rope_ratio",
                                           "add_cross_attention",
                                           "is_encoder_decoder",
                                           "use_mup",
                                           "no_rope_layers",
                                           "scale_attn_by_inverse_layer_idx",
                                           "auto_map",
                                           NULL};
static const char *const switched_on[] = {"attention_multiplier", "residual_multiplier", "embedding_multiplier",
                                          "logits_scaling",       "logit_scale",         "partial_rotary_factor",
                                          "rotary_pct",           "scale_attn_weights",  NULL};
static const char *const silu[] = {"silu", "swish", NULL};
static const char *const gelu[] = {"gelu_new", "gelu_pytorch_tanh", NULL}; /* two words for the tanh form */

/* Read here, or without effect on the numbers of a forward pass. */
static const char *const harmless[] = {"architectures",
                                       "model_type",
                                       "hidden_size",
                                       "num_hidden_layers",
                                       "num_attention_heads",
                                       "num_key_value_heads",
                                       "head_dim",
                                       "intermediate_size",
                                       "vocab_size",
                                       "max_position_embeddings",
                                       "rms_norm_eps",
                                       "rope_theta",
                                       "rope_scaling",
                                       "rope_parameters",
                                       "tie_word_embeddings",
                                       "hidden_act",
                                       "n_embd",
                                       "n_layer",
                                       "n_head",
                                       "n_inner",
                                       "n_positions",
                                       "n_ctx",
                                       "layer_norm_epsilon",
                                       "activation_function",
                                       "bos_token_id",
                                       "eos_token_id",
                                       "pad_token_id",
                                       "layer_types",
                                       "attention_dropout",
                                       "attn_pdrop",
                                       "embd_pdrop",
                                       "resid_pdrop",
                                       "initializer_range",
                                       "pretraining_tp",
                                       "use_cache",
                                       "torch_dtype",
                                       "dtype",
                                       "transformers_version",
                                       "reorder_and_upcast_attn",
                                       "summary_activation",
                                       "summary_first_dropout",
                                       "summary_proj_to_labels",
                                       "summary_type",
                                       "summary_use_proj",
                                       "task_specific_params",
                                       "_name_or_path",
                                       "gradient_checkpointing",
                                       "chunk_size_feed_forward",
                                       "output_attentions",
                                       "output_hidden_states",
                                       "return_dict",
                                       "id2label",
                                       "label2id",
                                       "problem_type",
                                       "_attn_implementation",
                                       "attn_implementation",
                                       "transformers.js_config",
                                       "is_llama_config",
                                       "unsloth_version",
                                       "max_sequence_length",
                                       NULL};

static bool is_among(const char *const *list, const char *word)
{
    for (; *list; list++)
        if (strcmp(*list, word) == 0)
            return true;
    return false;
}

static void note_unknown(reader *r, hf_model *m)
{
    const char *key;
    json_t *value;
    json_object_foreach(r->object, key,
                        value) if (!is_among(harmless, key) && !is_among(switched_off, key) && !is_among(switched_on, key) && !is_off(value))
        weft_text_print(&m->notes, "config.json has '%s', which weft does not know and leaves out\n", key);
}

/* ---- rotary positions ---- */

/* rope: the object that holds rope_type and its numbers. */
static void read_rope(reader *r, json_t *rope, hf_model *m)
{
    reader inner = *r;
    inner.object = rope;
    const json_t *type = get(&inner, "rope_type") ? get(&inner, "rope_type") : get(&inner, "type");
    const char *word = json_is_string(type) ? json_string_value(type) : type ? type_name(type) : "default";
    must_be(&inner, "partial_rotary_factor", 1);
    if (strcmp(word, "llama3") == 0) {
        m->scaling = true;
        m->factor = get_real(&inner, "factor", 1, 1e6, NAN);
        m->low = get_real(&inner, "low_freq_factor", 0, 1e6, NAN);
        m->high = get_real(&inner, "high_freq_factor", 0, 1e6, NAN);
        m->original = get_real(&inner, "original_max_position_embeddings", 1, 1e9, NAN);
        if (!inner.status && m->low >= m->high)
            complain(&inner, "'high_freq_factor' must be greater than 'low_freq_factor'");
    } else if (strcmp(word, "default") != 0) {
        complain(&inner, "rotary positions of type '%s' are not known; weft has default and llama3", word);
    }
    r->status = inner.status;
}

/* Both spellings may stand side by side, but must agree. */
static void compare_rope(reader *r, json_t *before, const hf_model *m)
{
    hf_model old = {.theta = m->theta, .factor = m->factor, .low = m->low, .high = m->high, .original = m->original};
    read_rope(r, before, &old);
    if (!r->status &&
        (old.scaling != m->scaling || old.factor != m->factor || old.low != m->low || old.high != m->high || old.original != m->original))
        complain(r, "'rope_scaling' and 'rope_parameters' differ; keep the right one");
}

/* Transformers 5 keeps theta and the scaling in rope_parameters, those before it in rope_theta and rope_scaling. */
static void read_rotary(reader *r, hf_model *m)
{
    json_t *now = get(r, "rope_parameters"), *before = get(r, "rope_scaling");
    reader inner = *r;
    m->theta = get_real(r, "rope_theta", 1, 1e12, 10000);
    if (now && !json_is_object(now))
        complain(r, "'rope_parameters' is %s; expected an object", type_name(now));
    if (before && !json_is_object(before))
        complain(r, "'rope_scaling' is %s; expected an object", type_name(before));
    if (!now && json_is_object(before))
        read_rope(r, before, m);
    if (!json_is_object(now))
        return;
    inner.object = now;
    if (json_is_object(json_object_iter_value(json_object_iter(now))))
        complain(r, "'rope_parameters' differ between layers; weft has one kind of them");
    double theta = get_real(&inner, "rope_theta", 1, 1e12, m->theta);
    r->status = r->status ? r->status : inner.status;
    if (get(r, "rope_theta") && theta != m->theta)
        complain(r, "'rope_theta' is %g, but %g in 'rope_parameters'", m->theta, theta);
    m->theta = theta;
    read_rope(r, now, m);
    if (json_is_object(before))
        compare_rope(r, before, m);
}

/* ---- families ---- */

static void read_llama(reader *r, hf_model *m)
{
    m->dim = get_int(r, "hidden_size", 1, 0);
    m->layers = get_int(r, "num_hidden_layers", 1, 0);
    m->heads = get_int(r, "num_attention_heads", 1, 0);
    m->kv_heads = get_int(r, "num_key_value_heads", 1, m->heads > 0 ? m->heads : 1);
    m->ffn = get_int(r, "intermediate_size", 1, 0);
    m->vocab = get_int(r, "vocab_size", 1, 0);
    m->context = get_int(r, "max_position_embeddings", 1, 2048);
    m->eps = get_real(r, "rms_norm_eps", 0, 1, 1e-6);
    m->tied = get_bool(r, "tie_word_embeddings", false);
    if (!r->status && !get(r, "head_dim") && m->dim % m->heads)
        complain(r, "'num_attention_heads' %lld does not divide 'hidden_size' %lld", (long long)m->heads, (long long)m->dim);
    m->head_dim = get_int(r, "head_dim", 1, m->heads > 0 && m->dim >= m->heads ? m->dim / m->heads : 1);
    if (!r->status && m->heads % m->kv_heads)
        complain(r, "'num_key_value_heads' %lld does not divide 'num_attention_heads' %lld", (long long)m->kv_heads, (long long)m->heads);
    if (!r->status && m->head_dim % 2)
        complain(r, "a head is %lld wide; rotary positions need an even width", (long long)m->head_dim);
    must_be_word(r, "hidden_act", silu);
    read_rotary(r, m);
}

static void read_gpt2(reader *r, hf_model *m)
{
    m->dim = get_int(r, "n_embd", 1, 768);
    m->layers = get_int(r, "n_layer", 1, 12);
    m->heads = get_int(r, "n_head", 1, 12);
    m->ffn = get_int(r, "n_inner", 1, 4 * m->dim);
    m->vocab = get_int(r, "vocab_size", 1, 50257);
    m->context = get_int(r, "n_positions", 1, 1024);
    m->eps = get_real(r, "layer_norm_epsilon", 0, 1, 1e-5);
    m->tied = get_bool(r, "tie_word_embeddings", true);
    if (!r->status && m->dim % m->heads)
        complain(r, "'n_head' %lld does not divide 'n_embd' %lld", (long long)m->heads, (long long)m->dim);
    if (!r->status) {
        m->kv_heads = m->heads;
        m->head_dim = m->dim / m->heads;
    }
    must_be_word(r, "activation_function", gelu);
}

static void read_model(reader *r, hf_model *m)
{
    static const struct {
        const char *type, *architecture;
        void (*read)(reader *r, hf_model *m);
    } families[HF_FAMILIES] = {{"llama", "LlamaForCausalLM", read_llama}, {"gpt2", "GPT2LMHeadModel", read_gpt2}};
    const json_t *type = get(r, "model_type"), *architecture = json_array_get(get(r, "architectures"), 0);
    const char *word = json_is_string(type) ? json_string_value(type) : NULL;
    int f = 0;
    while (f < HF_FAMILIES && (!word || strcmp(word, families[f].type) != 0))
        f++;
    if (f == HF_FAMILIES) {
        complain(r, "'model_type' is %s%s%s; weft knows llama and gpt2", word ? "'" : "",
                 word   ? word
                 : type ? type_name(type)
                        : "missing",
                 word ? "'" : "");
        return;
    }
    if (json_is_string(architecture) && strcmp(json_string_value(architecture), families[f].architecture) != 0)
        complain(r, "'architectures' is '%s'; weft knows %s", json_string_value(architecture), families[f].architecture);
    m->family = (hf_family)f;
    m->bos = get_id(r, "bos_token_id");
    m->eos = get_id(r, "eos_token_id");
    families[f].read(r, m);
    must_be_off(r, switched_off);
    for (int i = 0; switched_on[i]; i++)
        must_be(r, switched_on[i], 1);
    check_layer_types(r);
    note_unknown(r, m);
}

/* ---- the file ---- */

bool hf_is_folder(const char *folder)
{
    return hf_has_file(folder, "config.json");
}

static weft_status no_config(const char *folder, weft_error *err)
{
    struct stat st;
    if (stat(folder, &st) != 0)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s: there is no such folder", folder);
    if (!S_ISDIR(st.st_mode))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s: is a file; name the folder that holds config.json", folder);
    if (hf_has_file(folder, "params.json") || hf_has_file(folder, "consolidated.00.pth"))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "%s: these are Meta's own files (params.json, consolidated.*), whose q and k are in another order; take the same model's "
                         "Hugging Face folder, which has config.json and *.safetensors",
                         folder);
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s: has no config.json, so it is no Hugging Face folder", folder);
}

weft_status hf_config_read(const char *folder, hf_model *m, weft_error *err)
{
    char *data = NULL;
    size_t size = 0;
    json_error_t where;
    *m = (hf_model){.bos = -1, .eos = -1, .factor = 8, .low = 1, .high = 4, .original = 8192, .theta = 10000};
    if (!hf_is_folder(folder))
        return no_config(folder, err);
    char *path = weft_format("%s/config.json", folder);
    weft_status s = path ? weft_read_file(path, &data, &size, err) : weft_fail_memory(err);
    json_t *root = s ? NULL : json_loadb(data, size, JSON_REJECT_DUPLICATES, &where);
    if (!s && !root)
        s = weft_fail(err, WEFT_ERR_INPUT, ((weft_where){path, where.line > 0 ? where.line : 0}), "is no JSON: %s", where.text);
    else if (!s && !json_is_object(root))
        s = weft_fail(err, WEFT_ERR_INPUT, ((weft_where){path, 0}), "holds %s; expected an object", type_name(root));
    if (!s) {
        reader r = {.path = path, .object = root, .err = err};
        read_model(&r, m);
        s = r.status ? r.status : m->notes.out_of_memory ? weft_fail_memory(err) : WEFT_OK;
    }
    json_decref(root);
    weft_free(data);
    weft_free(path);
    return s;
}

void hf_model_release(hf_model *m)
{
    weft_text_release(&m->notes);
}
