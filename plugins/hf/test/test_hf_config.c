/* SPDX-License-Identifier: Apache-2.0 */
/* config.json: what is taken, what is refused, and what can be wrong with a plugin's table. */
#include "folders.h"

#define LLAMA                                                                                      \
    "\"model_type\": \"llama\", \"hidden_size\": 16, \"num_hidden_layers\": 2, "                   \
    "\"num_attention_heads\": 4, \"intermediate_size\": 26, "                                      \
    "\"vocab_size\": 50"
/* 12 experts in 4 groups, of which 2 are kept. */
#define DEEPSEEK3                                                                                  \
    "\"model_type\": \"deepseek_v3\", \"hidden_size\": 16, \"num_hidden_layers\": 2, "             \
    "\"num_attention_heads\": 4, \"vocab_size\": 50, \"n_routed_experts\": 12, "                   \
    "\"qk_nope_head_dim\": 6, \"qk_rope_head_dim\": 4, "
#define GPT2 "\"model_type\": \"gpt2\", \"n_embd\": 16, \"n_head\": 4, \"n_layer\": 2"

static weft_status read_config(const char *members, hf_model *m, weft_error *err)
{
    weft_error written = {0};
    char *text = weft_format("{%s}", members);
    assert_non_null(text);
    mkdir("m", 0755);
    check(weft_write_file("m/config.json", text, strlen(text), &written), &written);
    weft_free(text);
    return hf_config_read("m", &tables, m, err);
}

static void both_spellings_of_rope(void **state)
{
    (void)state;
    static const struct {
        const char *members;
        double theta;
        bool scaling;
    } list[] = {
        {LLAMA, 10000, false},
        {LLAMA ", \"rope_theta\": 5e5, \"rope_scaling\": null", 5e5, false},
        {LLAMA ", \"rope_parameters\": {\"rope_theta\": 500000, \"rope_type\": \"default\"}", 5e5,
         false},
        {LLAMA ", \"rope_theta\": 5e5, \"rope_scaling\": {\"type\": \"llama3\", \"factor\": 32, "
               "\"low_freq_factor\": 1, \"high_freq_factor\": 4, "
               "\"original_max_position_embeddings\": 8192}",
         5e5, true},
        {LLAMA ", \"rope_parameters\": {\"rope_theta\": 5e5, \"rope_type\": \"llama3\", "
               "\"factor\": 32.0, \"low_freq_factor\": 1.0, "
               "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}",
         5e5, true},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        hf_model m;
        weft_error err = {0};
        check(read_config(list[i].members, &m, &err), &err);
        assert_true(hf_model_int(&m, "rope_theta") == (int64_t)list[i].theta);
        assert_int_equal(hf_model_int(&m, "rope_scaling"), list[i].scaling);
        assert_true(!list[i].scaling ||
                    (hf_model_int(&m, "rope_factor") == 32 && hf_model_int(&m, "rope_low") == 1 &&
                     hf_model_int(&m, "rope_high") == 4 &&
                     hf_model_int(&m, "rope_original") == 8192));
        assert_int_equal(hf_model_int(&m, "head_dim"), 4);
        assert_int_equal(hf_model_int(&m, "n_kv_heads"), 4);
        hf_model_release(&m);
    }
}

static void what_changes_numbers_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *members, *says;
    } list[] = {
        {LLAMA ", \"attention_bias\": true", "'attention_bias' is true"},
        {LLAMA ", \"mlp_bias\": true", "'mlp_bias' is true"},
        {LLAMA ", \"hidden_act\": \"gelu\"", "'hidden_act' is \"gelu\"; weft has silu"},
        {LLAMA ", \"quantization_config\": {\"bits\": 4}", "'quantization_config' is {\"bits\":4}"},
        {LLAMA ", \"sliding_window\": 4096", "'sliding_window' is 4096"},
        {LLAMA ", \"partial_rotary_factor\": 0.5",
         "'partial_rotary_factor' is 0.5; weft has 1 alone"},
        {LLAMA ", \"layer_types\": [\"full_attention\", \"sliding_attention\"]",
         "'layer_types' has 'sliding_attention'"},
        {LLAMA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}", "type 'linear'"},
        {LLAMA ", \"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 2}", "type 'yarn'"},
        {LLAMA ", \"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 2}",
         "'low_freq_factor' is missing"},
        {LLAMA ", \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\"}}",
         "differ between layers"},
        {LLAMA ", \"rope_theta\": 10000, \"rope_parameters\": {\"rope_theta\": 500000}",
         "'rope_theta' is 10000, but 500000"},
        {LLAMA ", \"rope_parameters\": [1]", "'rope_parameters' is an array; expected an object"},
        {LLAMA ", \"rms_norm_eps\": \"small\"", "'rms_norm_eps' is a string; expected a number"},
        {LLAMA ", \"rms_norm_eps\": false", "'rms_norm_eps' is false; expected a number"},
        {LLAMA ", \"num_key_value_heads\": true",
         "'num_key_value_heads' is true; expected a whole number"},
        {LLAMA ", \"num_key_value_heads\": 3", "'num_key_value_heads' 3 does not divide"},
        {LLAMA ", \"head_dim\": 5", "rotary positions need an even width"},
        {LLAMA ", \"tie_word_embeddings\": 1",
         "'tie_word_embeddings' is a number; expected true or false"},
        {LLAMA ", \"architectures\": [\"LlamaForSequenceClassification\"]",
         "'architectures' is 'LlamaForSequenceClassification'"},
        {DEEPSEEK3 "\"v_head_dim\": 8, \"first_k_dense_replace\": 1, \"rope_parameters\": "
                   "{\"rope_type\": \"yarn\", \"rope_theta\": 1, \"factor\": 4, "
                   "\"original_max_position_embeddings\": 16}",
         "'rope_theta' is 1; positions of type 'yarn' need more than 1"},
        {DEEPSEEK3
         "\"v_head_dim\": 8, \"first_k_dense_replace\": 1, \"rope_parameters\": "
         "{\"rope_type\": \"yarn\", \"rope_theta\": 100, \"factor\": 4, \"beta_fast\": 1, "
         "\"beta_slow\": 2, \"original_max_position_embeddings\": 16}",
         "'beta_slow' is 2; it must be less than 'beta_fast', 1"},
        {DEEPSEEK3 "\"first_k_dense_replace\": 2, \"v_head_dim\": 8",
         "'first_k_dense_replace' is 2; it must be less than 'num_hidden_layers', 2"},
        {DEEPSEEK3 "\"first_k_dense_replace\": 1, \"v_head_dim\": 11",
         "'v_head_dim' is 11; at most 'qk_nope_head_dim+qk_rope_head_dim', 6+4 = 10"},
        {GPT2 ", \"activation_function\": \"gelu\"",
         "'activation_function' is \"gelu\"; weft has gelu_new"},
        {GPT2 ", \"scale_attn_weights\": false", "'scale_attn_weights' is false; weft has 1 alone"},
        {GPT2 ", \"scale_attn_by_inverse_layer_idx\": true",
         "'scale_attn_by_inverse_layer_idx' is true"},
        {GPT2 ", \"n_positions\": 0", "'n_positions' is 0; expected 1 to"},
        {"\"_class_name\": \"FluxTransformer2DModel\", \"axes_dims_rope\": [16, 56, "
         "9223372036854775807]",
         "'axes_dims_rope' must hold whole numbers from 0 to 999999999 alone"},
        {"\"model_type\": \"mistral\"", "'model_type' is 'mistral'; weft has no such model"},
        {"\"hidden_size\": 16", "'model_type' is missing"},
        {"\"model_type\": \"llama\"", "'intermediate_size' is missing"},
        {"\"model_type\" \"llama\"", "is not JSON"},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        hf_model m;
        weft_error err = {0};
        bool said = false;
        assert_int_equal(read_config(list[i].members, &m, &err), WEFT_ERR_INPUT);
        for (int k = 0; k < err.n_items; k++)
            said = said || strstr(err.items[k].text, list[i].says);
        if (!said)
            fail_msg("'%s' is not said, but: %s", list[i].says, weft_error_text(&err));
        weft_error_release(&err);
        hf_model_release(&m);
    }
}

/* What keys say of each other: all at once, each by name and number, and what follows from a key
 * that is wrong itself is left out. */
static void contradictions_are_all_said(void **state)
{
    (void)state;
    static const struct {
        const char *members;
        const char *says[8];
    } list[] = {
        {DEEPSEEK3
         "\"v_head_dim\": 8, \"first_k_dense_replace\": 1, \"n_group\": 4, \"topk_group\": 2, "
         "\"num_experts_per_tok\": 6, \"qk_head_dim\": 10",
         {NULL}},
        {DEEPSEEK3
         "\"v_head_dim\": 8, \"first_k_dense_replace\": 1, \"n_group\": 8, \"topk_group\": 9, "
         "\"num_experts_per_tok\": 13, \"qk_head_dim\": 192",
         {"'qk_head_dim' is 192, but 'qk_nope_head_dim+qk_rope_head_dim', 6+4 = 10",
          "'n_group' 8 does not divide 'n_routed_experts', 12",
          "'n_group' is 8; at most 'n_routed_experts/2', 12/2 = 6",
          "'topk_group' is 9; at most 'n_group', 8",
          "'num_experts_per_tok' is 13; at most 'n_routed_experts', 12"}},
        {DEEPSEEK3
         "\"v_head_dim\": 8, \"first_k_dense_replace\": 1, \"n_group\": 4, \"topk_group\": 2, "
         "\"num_experts_per_tok\": 7",
         {"'num_experts_per_tok' is 7; at most 'topk_group*n_routed_experts/n_group', 2*12/4 = 6"}},
        {DEEPSEEK3
         "\"v_head_dim\": 8, \"first_k_dense_replace\": 1, \"n_group\": 0, \"topk_group\": 2, "
         "\"num_experts_per_tok\": 7, \"tie_word_embeddings\": 1",
         {"'n_group' is 0; expected 1 to", "'tie_word_embeddings' is a number"}},
        {LLAMA ", \"rope_theta\": -1, \"rope_parameters\": {\"rope_theta\": -1}",
         {"'rope_theta' is -1; expected 1 to 1e+12"}},
        {LLAMA ", \"rope_theta\": -1, \"rope_parameters\": {\"rope_type\": \"default\"}",
         {"'rope_theta' is -1; expected 1 to 1e+12"}},
        {LLAMA ", \"rope_theta\": -1, \"rope_parameters\": {\"rope_theta\": 10000}",
         {"'rope_theta' is -1; expected 1 to 1e+12"}},
        {"\"model_type\": \"llama\", \"hidden_size\": 0, \"num_hidden_layers\": 2, "
         "\"num_attention_heads\": 4, \"intermediate_size\": 26, \"vocab_size\": 50",
         {"'hidden_size' is 0; expected 1 to"}},
        {"\"model_type\": \"llama\", \"hidden_size\": 18, \"num_hidden_layers\": 2, "
         "\"num_attention_heads\": 4, \"intermediate_size\": 26, \"vocab_size\": 50",
         {"'head_dim' is left out, and 'hidden_size/num_attention_heads', 18/4 = 4, is not whole"}},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        hf_model m;
        weft_error err = {0};
        int n = 0;
        read_config(list[i].members, &m, &err);
        while (n < err.n_items && list[i].says[n] && strstr(err.items[n].text, list[i].says[n]))
            n++;
        if (n < err.n_items || list[i].says[n])
            fail_msg("case %d: not said: '%s', but: %s", (int)i, list[i].says[n],
                     weft_error_text(&err));
        weft_error_release(&err);
        hf_model_release(&m);
    }
}

/* Real numbers stand there as people write them. */
static void numbers_are_short(void **state)
{
    (void)state;
    static const double list[] = {1e-5, 0.1, 10000, 1.0 / 3, 1e30, -2.5e-7};
    json_t *root = json_object(), *again = NULL;
    weft_error err = {0};
    char *text;
    size_t size;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        json_object_set_new(root, (char[]){(char)('a' + i), 0}, json_real(list[i]));
    json_object_set_new(root, "words", json_string("a \\ \"1.50000\" {2e3}"));
    json_object_set_new(root, "whole", json_integer(-123456789012345678));
    json_object_set_new(root, "not", json_false());
    check(hf_write_json(root, 0, "\n", ".", "x.json", &err), &err);
    check(weft_read_file("x.json", &text, &size, &err), &err);
    assert_non_null(strstr(text, "\"a\": 1e-05,"));
    assert_non_null(strstr(text, "\"b\": 0.1,"));
    assert_non_null(strstr(text, "\"c\": 10000.0,"));
    check(hf_read_json("x.json", &again, &err), &err);
    assert_true(json_equal(root, again));
    json_decref(root);
    json_decref(again);
    weft_free(text);
}

/* ---- tables with mistakes ---- */

static const weft_param toy_params[] = {
    {.name = "dim", .type = WEFT_PARAM_INT, .value = "4", .min = 1, .max = 64, .help = "."},
    {.name = "n_layers", .type = WEFT_PARAM_INT, .value = "2", .min = 1, .max = 64, .help = "."},
    {.name = NULL}};
static const weft_hf_key toy_keys[] = {{"hidden_size", .key = "dim"}, {0}},
                         unknown_key[] = {{"hidden_size", .key = "width"}, {0}},
                         unknown_row[] = {{"hidden_size", "dim", .most = "2*width"}, {0}},
                         unknown_standard[] = {{"hidden_size", "dim", .standard = "2*width"}, {0}},
                         same_key[] = {{"hidden_size", .key = "dim"},
                                       {"n_embd", .key = "dim"},
                                       {0}},
                         empty_key[] = {{.name = "hidden_size"}, {0}};

static weft_status find_toy(void *self, const char *name, const weft_plugin **out, weft_error *err)
{
    (void)name, (void)err;
    *out = self;
    return WEFT_OK;
}

static weft_status read_toy(const weft_hf_form *form, weft_error *err)
{
    const weft_hf_form *forms[] = {form, NULL};
    const weft_hf_model table = {sizeof table, "toy", toy_params, forms};
    const weft_contribution contributions[] = {
        {.kind = WEFT_SERVICE, .service = "hf_model", .table = &table}, {.kind = WEFT_END}};
    weft_plugin plugin = {.contributions = contributions};
    const weft_finder toys = {&plugin, find_toy};
    const hf_tables its = {.plugins = &toys};
    weft_error written = {0};
    static const char text[] = "{\"model_type\": \"toy\", \"hidden_size\": 8}";
    hf_model m;
    hf_map map = {0};
    mkdir("m", 0755);
    check(weft_write_file("m/config.json", text, strlen(text), &written), &written);
    weft_status s = hf_config_read("m", &its, &m, err);
    s = s ? s : hf_map_create(&m, &map, err);
    hf_map_release(&map);
    hf_model_release(&m);
    return s;
}

static void mistakes_of_tables_are_named(void **state)
{
    (void)state;
    static const struct {
        weft_hf_tensor tensors[4];
        const weft_hf_key *keys;
        const char *says;
    } list[] = {
        {{{"a", .shape = "dim"}, {"b.{l}", .shape = "dim 2*dim"}, {0}}, toy_keys, NULL},
        {{{"a", .shape = "dim width"}, {0}},
         toy_keys,
         "plugin 'toy', its table for Hugging Face (toy): 'a' is [dim width], but 'width' is"},
        {{{"a", .shape = "dim"}, {"a", .shape = "dim dim"}, {0}},
         toy_keys,
         "one parameter stands there twice: 'a' [8] and 'a' [8, 8]"},
        {{{"a", "dim", .file = "x"}, {"b", "dim dim", .file = "x"}, {0}},
         toy_keys,
         "two parameters lie in one tensor: 'a' [8] and 'b' [8, 8]"},
        {{{"a", "dim", .file = "x", .part = 1, .parts = 2},
          {"b", "dim", .file = "x", .parts = 2},
          {0}},
         toy_keys,
         "'a' is part 1 of 2 of 'x' along dim 0"},
        {{{"a", "dim", .file = "x", .parts = 2}, {"b", .shape = "dim"}, {0}},
         toy_keys,
         "'a' is part 0 of 2"},
        {{{"a", "dim", .turned = true}, {0}}, toy_keys, "only what has two dims"},
        {{{"a", "dim", .file = "x{x}"}, {0}}, toy_keys, "'a' is [dim], 1 dims"},
        {{{"a", "dim", .unless = "tied"}, {0}}, toy_keys, "'a' speaks of 'tied'"},
        {{{"a.{l}", "dim", .file = "a"}, {0}}, toy_keys, "one is of each block"},
        {{{"a", .shape = "dim"}, {.file = "*.{l}.b"}, {0}}, toy_keys, "'*.{l}.b' has several gaps"},
        {{{"a", .shape = "dim"}, {0}},
         unknown_key,
         "'hidden_size' speaks of 'width', which is no key of the plugin's"},
        {{{"a", .shape = "dim"}, {0}},
         unknown_row,
         "'hidden_size' speaks of 'width', which is neither a number nor a row above"},
        {{{"a", .shape = "dim"}, {0}},
         unknown_standard,
         "'hidden_size' speaks of 'width', which is neither"},
        {{{"a", .shape = "dim"}, {0}}, same_key, "'hidden_size' and 'n_embd' say 'dim' both"},
        {{{"a", .shape = "dim"}, {0}}, empty_key, "'hidden_size' has neither a key nor a value"},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        const weft_hf_form form = {.type = "toy",
                                   .architecture = "Toy",
                                   .layers = "n_layers",
                                   .tensors = list[i].tensors,
                                   .keys = list[i].keys};
        weft_error err = {0};
        bool said = !list[i].says;
        assert_int_equal(read_toy(&form, &err), said ? WEFT_OK : WEFT_ERR_INPUT);
        for (int k = 0; k < err.n_items; k++)
            said = said || strstr(err.items[k].text, list[i].says);
        if (!said)
            fail_msg("'%s' is not said, but: %s", list[i].says, weft_error_text(&err));
        weft_error_release(&err);
    }
}

static void unknown_keys_are_noted(void **state)
{
    (void)state;
    hf_model m;
    weft_error err = {0};
    check(read_config(LLAMA ", \"new_trick\": 3, \"other_trick\": false, \"use_cache\": true", &m,
                      &err),
          &err);
    assert_non_null(strstr(weft_text_get(&m.notes), "'new_trick'"));
    assert_null(strstr(weft_text_get(&m.notes), "other_trick"));
    hf_model_release(&m);
    check(read_config(LLAMA ", \"eos_token_id\": 50, \"bos_token_id\": 49", &m, &err), &err);
    assert_non_null(strstr(weft_text_get(&m.notes), "'eos_token_id' 50, which is left out: "
                                                    "'vocab_size' is 50"));
    assert_true(m.eos == -1 && m.bos == 49);
    hf_model_release(&m);
}

static void numbers_read_back(void **state)
{
    (void)state;
    static const double list[] = {1e-5, 1e-6, 500000, 10000, 0.1, 1.0 / 3, 8, 1234567.25, 1e12};
    char text[32];
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        assert_true(strtod(hf_number(text, list[i]), NULL) == list[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(both_spellings_of_rope, enter, leave),
        cmocka_unit_test_setup_teardown(what_changes_numbers_is_refused, enter, leave),
        cmocka_unit_test_setup_teardown(contradictions_are_all_said, enter, leave),
        cmocka_unit_test_setup_teardown(numbers_are_short, enter, leave),
        cmocka_unit_test_setup_teardown(mistakes_of_tables_are_named, enter, leave),
        cmocka_unit_test_setup_teardown(unknown_keys_are_noted, enter, leave),
        cmocka_unit_test(numbers_read_back),
    };
    return cmocka_run_group_tests(tests, open_search, close_search);
}
