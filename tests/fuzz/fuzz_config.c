/* SPDX-License-Identifier: Apache-2.0 */
/* config.json of Hugging Face folders. */
#include "../../plugins/hf/hf.h"
#include "fuzz.h"
#include <weft/files.h>

#include <stdlib.h>
#include <string.h>

extern const weft_plugin gpt2_LTX_plugin, llama3_LTX_plugin, mixtral_LTX_plugin, qwen3_LTX_plugin;

static weft_status find(void *self, const char *name, const weft_plugin **out, weft_error *err)
{
    static const weft_plugin *const known[] = {&gpt2_LTX_plugin, &llama3_LTX_plugin,
                                               &mixtral_LTX_plugin, &qwen3_LTX_plugin};
    (void)self;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i]->name, name) == 0) {
            *out = known[i];
            return WEFT_OK;
        }
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "there is no plugin '%s'", name);
}

static const char *const seeds[] = {
    "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":128,"
    "\"vocab_size\":258,\"rms_norm_eps\":1e-5,\"rope_theta\":10000.0,\"tie_word_embeddings\":true,"
    "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,"
    "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":8192},\"bos_token_id\":1,"
    "\"eos_token_id\":[2,3],\"max_position_embeddings\":2048}",
    "{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":2,\"n_head\":4,\"n_positions\":128,"
    "\"vocab_size\":258,\"layer_norm_epsilon\":1e-5,\"activation_function\":\"gelu_new\"}",
    "{\"model_type\":\"qwen3_moe\",\"hidden_size\":64,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"num_experts\":8,\"num_experts_per_tok\":2,"
    "\"norm_topk_prob\":true,\"mlp_only_layers\":[],\"decoder_sparse_step\":1,"
    "\"vocab_size\":258,\"rope_parameters\":{\"rope_theta\":1e4}}",
    "{\"model_type\":\"mixtral\",\"hidden_size\":64,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"num_local_experts\":8,\"vocab_size\":258}",
    NULL};
static const char *const words[] = {"9223372036854775807",
                                    "-1",
                                    "0",
                                    "\"",
                                    "{",
                                    "}",
                                    "[",
                                    "]",
                                    "1e9",
                                    ",",
                                    ":",
                                    "null",
                                    "true",
                                    NULL};

static weft_status parse(const char *data, size_t n)
{
    char *path = weft_format("%s/config.json", fuzz_folder());
    weft_error err = {0};
    const weft_finder finder = {NULL, find};
    const hf_tables tables = {.plugins = &finder};
    hf_model model;
    if (!path || weft_write_file(path, data, n, NULL))
        abort();
    weft_status s = hf_config_read(fuzz_folder(), &tables, &model, &err);
    fuzz_check(s, &err);
    hf_model_release(&model);
    weft_error_release(&err);
    weft_free(path);
    return s;
}

int main(int argc, char **argv)
{
    return fuzz_main(&(fuzz_target){"fuzz_config", seeds, words, parse}, argc, argv);
}
