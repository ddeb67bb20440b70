/* SPDX-License-Identifier: Apache-2.0 */
/* config.json, written as Transformers 5 writes it, and readable for Transformers 4: rope in both
 * spellings. */
#include "hf.h"

#include <stdlib.h>
#include <weft/files.h>

/* A number such as Python would read as a float. */
static json_t *real(double x)
{
    return json_real(x);
}

static json_t *rope_scaling(const hf_model *m)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:I}", "rope_type", "llama3", "factor", real(m->factor),
                     "low_freq_factor", real(m->low), "high_freq_factor", real(m->high),
                     "original_max_position_embeddings", (json_int_t)m->original);
}

static json_t *rope_parameters(const hf_model *m)
{
    json_t *rope = m->scaling ? rope_scaling(m) : json_pack("{s:s}", "rope_type", "default");
    if (rope && json_object_set_new(rope, "rope_theta", real(m->theta)) != 0) {
        json_decref(rope);
        return NULL;
    }
    return rope;
}

static json_t *llama_config(const hf_model *m)
{
    json_t *scaling = m->scaling ? rope_scaling(m) : json_null();
    return json_pack("{s:[s], s:s, s:b, s:b, s:I, s:s, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:f, "
                     "s:o, s:f, s:o, s:b, s:I}",
                     "architectures", "LlamaForCausalLM", "model_type", "llama", "attention_bias",
                     0, "mlp_bias", 0, "head_dim", (json_int_t)m->head_dim, "hidden_act", "silu",
                     "hidden_size", (json_int_t)m->dim, "initializer_range", 0.02,
                     "intermediate_size", (json_int_t)m->ffn, "max_position_embeddings",
                     (json_int_t)m->context, "num_attention_heads", (json_int_t)m->heads,
                     "num_hidden_layers", (json_int_t)m->layers, "num_key_value_heads",
                     (json_int_t)m->kv_heads, "rms_norm_eps", m->eps, "rope_parameters",
                     rope_parameters(m), "rope_theta", m->theta, "rope_scaling", scaling,
                     "tie_word_embeddings", m->tied, "vocab_size", (json_int_t)m->vocab);
}

static json_t *gpt2_config(const hf_model *m)
{
    return json_pack("{s:[s], s:s, s:s, s:f, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:I}",
                     "architectures", "GPT2LMHeadModel", "model_type", "gpt2",
                     "activation_function", "gelu_new", "layer_norm_epsilon", m->eps, "n_embd",
                     (json_int_t)m->dim, "n_head", (json_int_t)m->heads, "n_inner",
                     (json_int_t)m->ffn, "n_layer", (json_int_t)m->layers, "n_positions",
                     (json_int_t)m->context, "scale_attn_weights", 1, "tie_word_embeddings",
                     m->tied, "vocab_size", (json_int_t)m->vocab);
}

static bool add_ids(json_t *root, const hf_model *m)
{
    json_t *bos = m->bos >= 0 ? json_integer(m->bos) : json_null(),
           *eos = m->eos >= 0 ? json_integer(m->eos) : json_null();
    bool has_bos =
        json_object_set_new(root, "bos_token_id", bos) == 0; /* both are taken over, or freed */
    return json_object_set_new(root, "eos_token_id", eos) == 0 && has_bos;
}

weft_status hf_config_write(const char *folder, const hf_model *m, weft_dtype dtype,
                            weft_error *err)
{
    static const char *const names[WEFT_DTYPES] = {
        [WEFT_F32] = "float32", [WEFT_F64] = "float64", [WEFT_BF16] = "bfloat16"};
    const char *name = (unsigned)dtype < WEFT_DTYPES && names[dtype] ? names[dtype] : "float32";
    json_t *root = m->family == HF_GPT2 ? gpt2_config(m) : llama_config(m);
    /* Transformers 5 reads dtype, those before it torch_dtype. */
    bool ok = root && add_ids(root, m) &&
              json_object_set_new(root, "dtype", json_string(name)) == 0 &&
              json_object_set_new(root, "torch_dtype", json_string(name)) == 0;
    char *text = ok ? json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL,
         *path = weft_format("%s/config.json", folder);
    weft_text out = {0};
    if (text)
        weft_text_print(&out, "%s\n", text);
    weft_status s = text && path && !out.out_of_memory
                        ? weft_write_file(path, weft_text_get(&out), out.size, err)
                        : weft_fail_memory(err);
    weft_text_release(&out);
    weft_free(path);
    free(text);
    json_decref(root);
    return s;
}
