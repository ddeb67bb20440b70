/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of config.json: what changes numbers and is not known to weft is refused by name. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

/* What other models of the same shapes differ by. */
static const char switched_off[] =
    "quantization_config compression_config attention_bias mlp_bias use_sliding_window "
    "sliding_window attn_logit_softcapping final_logit_softcapping query_pre_attn_scalar "
    "clip_qkv use_qk_norm qk_norm num_experts num_local_experts n_routed_experts alibi "
    "parallel_residual use_parallel_residual rope_interleaved rope_ratio add_cross_attention "
    "is_encoder_decoder use_mup no_rope_layers scale_attn_by_inverse_layer_idx auto_map";
static const char switched_on[] =
    "attention_multiplier residual_multiplier embedding_multiplier logits_scaling logit_scale "
    "partial_rotary_factor rotary_pct scale_attn_weights";
/* Read here, or without effect on the numbers of a forward pass. */
static const char harmless[] =
    "architectures model_type vocab_size rope_theta rope_scaling rope_parameters "
    "tie_word_embeddings n_ctx bos_token_id eos_token_id pad_token_id layer_types "
    "attention_dropout attn_pdrop embd_pdrop resid_pdrop initializer_range pretraining_tp "
    "use_cache torch_dtype dtype transformers_version reorder_and_upcast_attn "
    "summary_activation summary_first_dropout summary_proj_to_labels summary_type "
    "summary_use_proj task_specific_params _name_or_path gradient_checkpointing "
    "chunk_size_feed_forward output_attentions output_hidden_states return_dict id2label "
    "label2id problem_type _attn_implementation attn_implementation transformers.js_config "
    "is_llama_config unsloth_version output_router_logits router_aux_loss_coef "
    "router_jitter_noise max_window_layers max_sequence_length _class_name _diffusers_version";

static bool is_off(const json_t *x)
{
    return !x || json_is_null(x) || json_is_false(x) ||
           (json_is_number(x) && json_number_value(x) == 0) ||
           (json_is_array(x) && !json_array_size(x)) || (json_is_object(x) && !json_object_size(x));
}

/* Rows that only write a key leave it to the lists above. */
static bool is_of(const weft_hf_key *keys, const char *name, bool reads)
{
    for (; keys->name; keys++)
        if (strcmp(keys->name, name) == 0 || (keys->old && strcmp(keys->old, name) == 0))
            return keys->key || keys->is || keys->unwritten || keys->context || !reads;
    return false;
}

static void must_be_off(hf_reader *r, const char *key, const json_t *value)
{
    char *text = is_off(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    if (text && strcmp(key, "quantization_config") == 0)
        hf_complain(r,
                    "'%s' is %.60s: its tensors are not numbers as they stand; convert it to bf16 "
                    "first",
                    key, text);
    else if (text)
        hf_complain(r,
                    "'%s' is %.60s; weft's models do not have it, so the numbers would be others",
                    key, text);
    free(text);
}

static void check_layer_types(hf_reader *r)
{
    const json_t *types = hf_get(r, "layer_types"), *type;
    size_t i;
    json_array_foreach(types, i, type) {
        if (json_is_string(type) && strcmp(json_string_value(type), "full_attention") == 0)
            continue;
        hf_complain(r, "'layer_types' has '%s'; weft has full_attention alone",
                    json_is_string(type) ? json_string_value(type) : hf_json_type(type));
        return;
    }
}

/* Of keys that the model's table does not name. */
static void check_key(hf_reader *r, hf_model *m, const char *key, const json_t *value)
{
    if (hf_has_word(switched_off, key))
        must_be_off(r, key, value);
    else if (hf_has_word(switched_on, key))
        hf_check_constant(r, &(weft_hf_key){key, .is = "1", .also = "true"});
    else if (!is_of(m->form->keys, key, false) && !hf_has_word(harmless, key) && !is_off(value))
        weft_text_print(&m->notes,
                        "config.json has '%s', which weft does not know and leaves out\n", key);
}

void hf_check_keys(hf_reader *r, hf_model *m)
{
    const char *key;
    json_t *value;
    json_object_foreach(r->object, key, value)
        if (!is_of(m->form->keys, key, true))
            check_key(r, m, key, value);
    check_layer_types(r);
}
