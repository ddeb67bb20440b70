/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json and tokenizer_config.json, as Hugging Face's tokenizers and transformers read
 * them. */
#include "train.h"

#include <weft/files.h>

#include <string.h>

static void add_entry(weft_text *out, bool first, const char *token, int id)
{
    weft_text_add(out, first ? "\n      " : ",\n      ");
    weft_text_add_json(out, token);
    weft_text_print(out, ": %d", id);
}

static void add_special(weft_text *out, const text_train_files *files, const char *indent,
                        bool with_id)
{
    for (int i = 0; i < files->n_special; i++) {
        weft_text_print(out, "%s\n%s", i ? "," : "", indent);
        weft_text_print(out, with_id ? "{\"id\": %d, \"content\": " : "\"%d\": {\"content\": ", i);
        weft_text_add_json(out, files->special[i]);
        weft_text_add(out, ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                           "\"normalized\": false, \"special\": true}");
    }
}

static void add_split(weft_text *out, const char *pattern)
{
    if (!pattern) {
        weft_text_add(out, "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                           "\"trim_offsets\": true, \"use_regex\": true}");
        return;
    }
    weft_text_add(out, "{\"type\": \"Sequence\", \"pretokenizers\": [\n    {\"type\": \"Split\", "
                       "\"pattern\": {\"Regex\": ");
    weft_text_add_json(out, pattern);
    weft_text_add(out, "}, \"behavior\": \"Isolated\", \"invert\": false},\n"
                       "    {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                       "\"trim_offsets\": true, \"use_regex\": false}]}");
}

static void add_model(weft_text *out, const text_train_result *result)
{
    weft_text_add(out, "{\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": "
                       "null,\n    \"continuing_subword_prefix\": null,\n"
                       "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n    "
                       "\"byte_fallback\": false,\n    \"ignore_merges\": false,\n"
                       "    \"vocab\": {");
    char *const *token = result->tokens.list;
    for (int i = 0; i < result->tokens.n; i++)
        add_entry(out, i == 0, token[i], i);
    weft_text_add(out, "\n    },\n    \"merges\": [");
    for (size_t i = 0; i < result->n_merges; i++) {
        weft_text_add(out, i ? ",\n      [" : "\n      [");
        weft_text_add_json(out, token[result->merges[i].left]);
        weft_text_add(out, ", ");
        weft_text_add_json(out, token[result->merges[i].right]);
        weft_text_add(out, "]");
    }
    weft_text_add(out, "\n    ]\n  }");
}

static void add_template_token(weft_text *out, const char *token, int type)
{
    weft_text_add(out, "{\"SpecialToken\": {\"id\": ");
    weft_text_add_json(out, token);
    weft_text_print(out, ", \"type_id\": %d}}, {\"Sequence\": {\"id\": \"%c\", \"type_id\": %d}}",
                    type, 'A' + type, type);
}

/* A prompt begins with BOS, as documents do in a run. */
static void add_template(weft_text *out, const text_train_files *files)
{
    int id = 0;
    while (files->bos && id < files->n_special && strcmp(files->special[id], files->bos) != 0)
        id++;
    if (!files->bos || id == files->n_special) {
        weft_text_add(out, "null");
        return;
    }
    weft_text_add(out, "{\"type\": \"TemplateProcessing\",\n    \"single\": [");
    add_template_token(out, files->bos, 0);
    weft_text_add(out, "],\n    \"pair\": [");
    add_template_token(out, files->bos, 0);
    weft_text_add(out, ", ");
    add_template_token(out, files->bos, 1);
    weft_text_add(out, "],\n    \"special_tokens\": {");
    weft_text_add_json(out, files->bos);
    weft_text_add(out, ": {\"id\": ");
    weft_text_add_json(out, files->bos);
    weft_text_print(out, ", \"ids\": [%d], \"tokens\": [", id);
    weft_text_add_json(out, files->bos);
    weft_text_add(out, "]}}}");
}

weft_status text_train_json(const text_train_result *result, const text_train_files *files,
                            weft_text *out, weft_error *err)
{
    weft_text_add(out, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": "
                       "null,\n  \"added_tokens\": [");
    add_special(out, files, "    ", true);
    weft_text_add(out, "],\n  \"normalizer\": null,\n  \"pre_tokenizer\": ");
    add_split(out, files->pattern);
    weft_text_add(out, ",\n  \"post_processor\": ");
    add_template(out, files);
    weft_text_add(out, ",\n  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
                       "\"trim_offsets\": true, \"use_regex\": true},\n"
                       "  \"model\": ");
    add_model(out, result);
    weft_text_add(out, "\n}\n");
    return out->out_of_memory ? weft_fail_memory(err) : WEFT_OK;
}

static void add_config(weft_text *out, const text_train_files *files)
{
    weft_text_add(out, "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n");
    if (files->bos) {
        weft_text_add(out, "  \"bos_token\": ");
        weft_text_add_json(out, files->bos);
        weft_text_add(out, ",\n");
    }
    if (files->eos) {
        weft_text_add(out, "  \"eos_token\": ");
        weft_text_add_json(out, files->eos);
        weft_text_add(out, ",\n");
    }
    if (files->max_length)
        weft_text_print(out, "  \"model_max_length\": %lld,\n", (long long)files->max_length);
    weft_text_add(out, "  \"clean_up_tokenization_spaces\": false,\n  \"added_tokens_decoder\": {");
    add_special(out, files, "    ", false);
    weft_text_add(out, "}\n}\n");
}

/* tokenizer_config.json in the folder of tokenizer.json. */
static char *config_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    return weft_format("%.*stokenizer_config.json", slash ? (int)(slash - path + 1) : 0, path);
}

weft_status text_train_write(const text_train_result *result, const text_train_files *files,
                             weft_error *err)
{
    weft_text json = {0}, config = {0};
    char *beside = config_path(files->path);
    weft_status status =
        beside ? text_train_json(result, files, &json, err) : weft_fail_memory(err);
    add_config(&config, files);
    if (!status && config.out_of_memory)
        status = weft_fail_memory(err);
    if (!status)
        status = weft_write_file(files->path, json.data, json.size, err);
    if (!status)
        status = weft_write_file(beside, config.data, config.size, err);
    weft_text_release(&json);
    weft_text_release(&config);
    weft_free(beside);
    return status;
}
