/* SPDX-License-Identifier: Apache-2.0 */
/* config.json as a model; Hugging Face's defaults stand in for keys that are left out. */
#include "hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- which model ---- */

/* The run's model, or another plugin's, is not what the folder holds. */
static weft_status other_model(const char *folder, const char *type, const char *plugin,
                               const hf_tables *tables, weft_error *err)
{
    char right[64];
    hf_plugin_of(type, right);
    if (strcmp(right, plugin) == 0)
        return hf_refuse(err, folder,
                         "'model_type' is '%s', and the plugin %s does not say how such a "
                         "model's files are read",
                         type, plugin);
    if (tables->plugins)
        return hf_refuse(err, folder, "'model_type' is '%s', which the plugin %s does not read",
                         type, plugin);
    return hf_refuse(err, NULL,
                     "%s holds a model of the plugin %s, but the run's is of %s; `weft convert "
                     "--settings %s` prints an INI for it",
                     folder, right, plugin, folder);
}

static const weft_hf_form *form_of(const weft_hf_model *table, const char *type)
{
    for (int i = 0; table && table->forms[i]; i++)
        if (strcmp(table->forms[i]->type, type) == 0)
            return table->forms[i];
    return NULL;
}

static void find_model(hf_reader *r, const char *folder, const hf_tables *tables)
{
    char plugin[64];
    const weft_hf_model *table = NULL;
    const char *key =
        !hf_get(r, "model_type") && hf_get(r, "_class_name") ? "_class_name" : "model_type";
    const json_t *x = hf_get(r, key);
    const char *type = json_string_value(x),
               *named = tables->plugins ? tables->named : tables->own->plugin;
    if (!type) {
        hf_complain(r, "'%s' is %s", key, x ? hf_json_type(x) : "missing");
        return;
    }
    hf_plugin_of(type, plugin);
    if (named)
        snprintf(plugin, sizeof plugin, "%s", named);
    weft_status s = hf_tables_find(tables, plugin, &table, r->err);
    const weft_hf_form *form = form_of(table, type);
    if (s == WEFT_ERR_INPUT && !named && !table)
        hf_complain(r,
                    "'%s' is '%s'; weft has no such model, and no plugin '%s' was found "
                    "that has: --model PLUGIN names another",
                    key, type, plugin);
    else if (!s && !form)
        s = other_model(folder, type, plugin, tables, r->err);
    s = s ? s : hf_model_init(r->m, table, form, r->err);
    r->status = r->status ? r->status : s;
}

/* ---- keys that its table does not name ---- */

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
            return keys->key || keys->is || keys->same || keys->unwritten || keys->context ||
                   !reads;
    return false;
}

static void must_be_off(hf_reader *r, const char *key, const json_t *value)
{
    char *text = is_off(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    if (text)
        hf_complain(r, "'%s' is %.60s%s", key, text,
                    strcmp(key, "quantization_config") == 0
                        ? ": its tensors are not numbers as they stand; convert it to bf16 first"
                        : "; weft's models do not have it, so the numbers would be others");
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

static void note_unknown(hf_reader *r, const char *key)
{
    char *note = weft_format("config.json has '%s', which weft does not know and leaves out", key);
    if (note)
        hf_one_line(note);
    else
        r->m->notes.out_of_memory = true;
    weft_text_add(&r->m->notes, note);
    weft_text_add(&r->m->notes, "\n");
    weft_free(note);
}

/* Complains of every switch that makes another model of the same shapes, and notes in m what is
 * not known. */
static void check_keys(hf_reader *r)
{
    const weft_hf_key *named = r->m->form->keys;
    const char *key;
    json_t *value;
    json_object_foreach(r->object, key, value) {
        if (is_of(named, key, true))
            continue;
        if (hf_has_word(switched_off, key))
            must_be_off(r, key, value);
        else if (hf_has_word(switched_on, key))
            hf_check_constant(r, &(weft_hf_key){key, .is = "1", .also = "true"});
        else if (!is_of(named, key, false) && !hf_has_word(harmless, key) && !is_off(value))
            note_unknown(r, key);
    }
    check_layer_types(r);
}

/* ---- all of it ---- */

/* Some models end with one of several ids: the first is taken. -1: none. Transformers writes its
 * standard ids for models of fewer, too, so one beyond them is told and left out. */
static int64_t get_id(const hf_reader *r, const char *key)
{
    const int64_t ids = hf_model_int(r->m, "vocab_size");
    const json_t *x = hf_get(r, key);
    if (json_is_array(x))
        x = json_array_get(x, 0);
    const int64_t id = json_is_integer(x) ? json_integer_value(x) : -1;
    if (id < ids || ids < 1)
        return id;
    weft_text_print(&r->m->notes,
                    "config.json says '%s' %lld, which is left out: 'vocab_size' is %lld\n", key,
                    (long long)id, (long long)ids);
    return -1;
}

static bool is_before_5(const hf_reader *r)
{
    const char *version = json_string_value(hf_get(r, "transformers_version"));
    return version && version[0] >= '0' && version[0] < '5' && version[1] == '.';
}

/* Blocks behind the last, which are there only if their tensors are: Transformers keeps the key and
 * leaves them out. */
static void settle_behind(const char *folder, hf_model *m)
{
    const int64_t n = hf_model_int(m, m->form->behind);
    if (n < 1 || hf_files_have_block(folder, m, hf_model_blocks(m) - 1))
        return;
    weft_text_print(&m->notes,
                    "config.json says that %lld block%s behind the last ([%s] %s); the files have "
                    "none of them\n",
                    (long long)n, n == 1 ? " stands" : "s stand", m->table->plugin,
                    m->form->behind);
    hf_value_set_number(hf_model_find(m, m->form->behind), 0);
}

static void read_model(hf_reader *r, const char *folder, const hf_tables *tables)
{
    hf_model *m = r->m;
    const json_t *first = json_array_get(hf_get(r, "architectures"), 0);
    find_model(r, folder, tables);
    if (!m->form)
        return;
    if (json_is_string(first) && strcmp(json_string_value(first), m->form->architecture) != 0)
        hf_complain(r, "'architectures' is '%s'; weft knows %s", json_string_value(first),
                    m->form->architecture);
    hf_read_keys(r, m->form->keys);
    m->bos = get_id(r, "bos_token_id");
    m->eos = get_id(r, "eos_token_id");
    if (m->form->rope)
        hf_read_rotary(r);
    check_keys(r);
    settle_behind(folder, m);
    if (m->form->warning && is_before_5(r))
        weft_text_print(&m->notes, "%s\n", m->form->warning);
}

/* ---- the file ---- */

bool hf_is_folder(const char *folder)
{
    return hf_has_file(folder, "config.json");
}

weft_status hf_refuse_metas(const char *folder, weft_error *err)
{
    if (!hf_has_file(folder, "params.json") && !hf_has_file(folder, "consolidated.00.pth") &&
        !hf_has_file(folder, "consolidated.safetensors"))
        return WEFT_OK;
    return hf_refuse(err, folder,
                     "these are Meta's own files (params.json, consolidated.*), whose q and k "
                     "are in another order; take the same model's Hugging Face folder, which has "
                     "config.json and *.safetensors");
}

weft_status hf_folder_check(const char *folder, weft_error *err)
{
    struct stat st;
    if (stat(folder, &st) != 0)
        return hf_refuse(err, folder, "there is no such folder");
    return S_ISDIR(st.st_mode) ? WEFT_OK
                               : hf_refuse(err, folder, "is a file; name the folder that holds it");
}

weft_status hf_config_check(const char *folder, weft_error *err)
{
    if (hf_is_folder(folder))
        return WEFT_OK;
    weft_status s = hf_folder_check(folder, err);
    s = s ? s : hf_refuse_metas(folder, err);
    if (s)
        return s;
    if (hf_has_file(folder, "model_index.json"))
        return hf_refuse(err, folder,
                         "holds several models of diffusers'; name the one to be read, "
                         "%s/transformer",
                         folder);
    return hf_refuse(err, folder, "has no config.json, so it is not a Hugging Face folder");
}

weft_status hf_config_read(const char *folder, const hf_tables *tables, hf_model *m,
                           weft_error *err)
{
    char path[HF_PATH];
    json_t *root = NULL;
    *m = (hf_model){.bos = -1, .eos = -1, .context = 2048};
    weft_status s = hf_config_check(folder, err);
    s = s ? s : hf_read_json(hf_path(path, folder, "config.json"), &root, err);
    if (!s) {
        hf_reader r = {.path = path, .object = root, .m = m, .err = err};
        read_model(&r, folder, tables);
        s = r.status ? r.status : m->notes.out_of_memory ? weft_fail_memory(err) : WEFT_OK;
    }
    json_decref(root);
    return s;
}
