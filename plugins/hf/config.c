/* SPDX-License-Identifier: Apache-2.0 */
/* config.json as a model; Hugging Face's defaults stand in for keys that are left out. */
#include "config.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <weft/files.h>

static const char *const silu[] = {"silu", "swish", NULL};
static const char *const gelu[] = {"gelu_new", "gelu_pytorch_tanh",
                                   NULL}; /* two words for the tanh form */

/* ---- rotary positions ---- */

/* rope: the object that holds rope_type and its numbers. */
static void read_rope(hf_reader *r, json_t *rope, hf_model *m)
{
    hf_reader inner = *r;
    inner.object = rope;
    const json_t *type =
        hf_get(&inner, "rope_type") ? hf_get(&inner, "rope_type") : hf_get(&inner, "type");
    const char *word = json_is_string(type) ? json_string_value(type)
                       : type               ? hf_json_type(type)
                                            : "default";
    hf_must_be(&inner, "partial_rotary_factor", 1);
    if (strcmp(word, "llama3") == 0) {
        m->scaling = true;
        m->factor = hf_get_real(&inner, "factor", 1, 1e6, NAN);
        m->low = hf_get_real(&inner, "low_freq_factor", 0, 1e6, NAN);
        m->high = hf_get_real(&inner, "high_freq_factor", 0, 1e6, NAN);
        m->original = hf_get_real(&inner, "original_max_position_embeddings", 1, 1e9, NAN);
        if (!inner.status && m->low >= m->high)
            hf_complain(&inner, "'high_freq_factor' must be greater than 'low_freq_factor'");
    } else if (strcmp(word, "default") != 0) {
        hf_complain(&inner,
                    "rotary positions of type '%s' are not known; weft has default and llama3",
                    word);
    }
    r->status = inner.status;
}

/* Both spellings may stand side by side, but must agree. */
static void compare_rope(hf_reader *r, json_t *before, const hf_model *m)
{
    hf_model old = {.theta = m->theta,
                    .factor = m->factor,
                    .low = m->low,
                    .high = m->high,
                    .original = m->original};
    read_rope(r, before, &old);
    if (!r->status && (old.scaling != m->scaling || old.factor != m->factor || old.low != m->low ||
                       old.high != m->high || old.original != m->original))
        hf_complain(r, "'rope_scaling' and 'rope_parameters' differ; keep the right one");
}

/* Transformers 5 keeps theta and the scaling in rope_parameters, those before it in rope_theta and
 * rope_scaling. */
static void read_rotary(hf_reader *r, hf_model *m)
{
    json_t *now = hf_get(r, "rope_parameters"), *before = hf_get(r, "rope_scaling");
    hf_reader inner = *r;
    m->theta = hf_get_real(r, "rope_theta", 1, 1e12, 10000);
    if (now && !json_is_object(now))
        hf_complain(r, "'rope_parameters' is %s; expected an object", hf_json_type(now));
    if (before && !json_is_object(before))
        hf_complain(r, "'rope_scaling' is %s; expected an object", hf_json_type(before));
    if (!now && json_is_object(before))
        read_rope(r, before, m);
    if (!json_is_object(now))
        return;
    inner.object = now;
    if (json_is_object(json_object_iter_value(json_object_iter(now))))
        hf_complain(r, "'rope_parameters' differ between layers; weft has one kind of them");
    double theta = hf_get_real(&inner, "rope_theta", 1, 1e12, m->theta);
    r->status = r->status ? r->status : inner.status;
    if (hf_get(r, "rope_theta") && theta != m->theta)
        hf_complain(r, "'rope_theta' is %g, but %g in 'rope_parameters'", m->theta, theta);
    m->theta = theta;
    read_rope(r, now, m);
    if (json_is_object(before))
        compare_rope(r, before, m);
}

/* ---- families ---- */

static void read_llama(hf_reader *r, hf_model *m)
{
    m->dim = hf_get_int(r, "hidden_size", 1, 0);
    m->layers = hf_get_int(r, "num_hidden_layers", 1, 0);
    m->heads = hf_get_int(r, "num_attention_heads", 1, 0);
    m->kv_heads = hf_get_int(r, "num_key_value_heads", 1, m->heads > 0 ? m->heads : 1);
    m->ffn = hf_get_int(r, "intermediate_size", 1, 0);
    m->vocab = hf_get_int(r, "vocab_size", 1, 0);
    m->context = hf_get_int(r, "max_position_embeddings", 1, 2048);
    m->eps = hf_get_real(r, "rms_norm_eps", 0, 1, 1e-6);
    m->tied = hf_get_bool(r, "tie_word_embeddings", false);
    if (!r->status && !hf_get(r, "head_dim") && m->dim % m->heads)
        hf_complain(r, "'num_attention_heads' %lld does not divide 'hidden_size' %lld",
                    (long long)m->heads, (long long)m->dim);
    m->head_dim =
        hf_get_int(r, "head_dim", 1, m->heads > 0 && m->dim >= m->heads ? m->dim / m->heads : 1);
    if (!r->status && m->heads % m->kv_heads)
        hf_complain(r, "'num_key_value_heads' %lld does not divide 'num_attention_heads' %lld",
                    (long long)m->kv_heads, (long long)m->heads);
    if (!r->status && m->head_dim % 2)
        hf_complain(r, "a head is %lld wide; rotary positions need an even width",
                    (long long)m->head_dim);
    hf_must_be_word(r, "hidden_act", silu);
    read_rotary(r, m);
}

static void read_gpt2(hf_reader *r, hf_model *m)
{
    m->dim = hf_get_int(r, "n_embd", 1, 768);
    m->layers = hf_get_int(r, "n_layer", 1, 12);
    m->heads = hf_get_int(r, "n_head", 1, 12);
    m->ffn = hf_get_int(r, "n_inner", 1, 4 * m->dim);
    m->vocab = hf_get_int(r, "vocab_size", 1, 50257);
    m->context = hf_get_int(r, "n_positions", 1, 1024);
    m->eps = hf_get_real(r, "layer_norm_epsilon", 0, 1, 1e-5);
    m->tied = hf_get_bool(r, "tie_word_embeddings", true);
    if (!r->status && m->dim % m->heads)
        hf_complain(r, "'n_head' %lld does not divide 'n_embd' %lld", (long long)m->heads,
                    (long long)m->dim);
    if (!r->status) {
        m->kv_heads = m->heads;
        m->head_dim = m->dim / m->heads;
    }
    hf_must_be_word(r, "activation_function", gelu);
}

static void read_model(hf_reader *r, hf_model *m)
{
    static const struct {
        const char *type, *architecture;
        void (*read)(hf_reader *r, hf_model *m);
    } families[HF_FAMILIES] = {{"llama", "LlamaForCausalLM", read_llama},
                               {"gpt2", "GPT2LMHeadModel", read_gpt2}};
    const json_t *type = hf_get(r, "model_type"),
                 *architecture = json_array_get(hf_get(r, "architectures"), 0);
    const char *word = json_is_string(type) ? json_string_value(type) : NULL;
    int f = 0;
    while (f < HF_FAMILIES && (!word || strcmp(word, families[f].type) != 0))
        f++;
    if (f == HF_FAMILIES) {
        hf_complain(r, "'model_type' is %s%s%s; weft knows llama and gpt2", word ? "'" : "",
                    word   ? word
                    : type ? hf_json_type(type)
                           : "missing",
                    word ? "'" : "");
        return;
    }
    if (json_is_string(architecture) &&
        strcmp(json_string_value(architecture), families[f].architecture) != 0)
        hf_complain(r, "'architectures' is '%s'; weft knows %s", json_string_value(architecture),
                    families[f].architecture);
    m->family = (hf_family)f;
    m->bos = hf_get_id(r, "bos_token_id");
    m->eos = hf_get_id(r, "eos_token_id");
    families[f].read(r, m);
    hf_check_keys(r, m);
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
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "%s: is a file; name the folder that holds config.json", folder);
    if (hf_has_file(folder, "params.json") || hf_has_file(folder, "consolidated.00.pth"))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "%s: these are Meta's own files (params.json, consolidated.*), whose q "
                         "and k are in another order; take the same model's "
                         "Hugging Face folder, which has config.json and *.safetensors",
                         folder);
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "%s: has no config.json, so it is not a Hugging Face folder", folder);
}

weft_status hf_config_read(const char *folder, hf_model *m, weft_error *err)
{
    char *data = NULL;
    size_t size = 0;
    json_error_t where;
    *m = (hf_model){
        .bos = -1, .eos = -1, .factor = 8, .low = 1, .high = 4, .original = 8192, .theta = 10000};
    if (!hf_is_folder(folder))
        return no_config(folder, err);
    char *path = weft_format("%s/config.json", folder);
    weft_status s = path ? weft_read_file(path, &data, &size, err) : weft_fail_memory(err);
    json_t *root = s ? NULL : json_loadb(data, size, JSON_REJECT_DUPLICATES, &where);
    if (!s && !root)
        s = weft_fail(err, WEFT_ERR_INPUT, ((weft_where){path, where.line > 0 ? where.line : 0}),
                      "is not JSON: %s", where.text);
    else if (!s && !json_is_object(root))
        s = weft_fail(err, WEFT_ERR_INPUT, ((weft_where){path, 0}), "holds %s; expected an object",
                      hf_json_type(root));
    if (!s) {
        hf_reader r = {.path = path, .object = root, .err = err};
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
