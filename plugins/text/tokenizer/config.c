/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <jansson.h>
#include <string.h>
#include <unistd.h>

void tokenizer_config_release(tokenizer_config *config)
{
    weft_free(config->path);
    weft_free(config->bos.text);
    weft_free(config->eos.text);
    *config = (tokenizer_config){0};
}

/* A token is a text or an object with its content. */
static weft_status read_token(tokenizer_config *config, const json_t *root, const char *key,
                              tokenizer_config_token *token, weft_error *err)
{
    const json_t *value = json_object_get(root, key);
    if (!value)
        return WEFT_OK;
    if (json_is_null(value)) {
        token->state = TOKENIZER_CONFIG_NONE;
        return WEFT_OK;
    }
    if (json_is_object(value))
        value = json_object_get(value, "content");
    if (!json_is_string(value))
        return weft_fail(err, WEFT_ERR_INPUT, (weft_where){config->path, 0},
                         "$.%s: must be a token, an object with its content, or null", key);
    token->text = weft_strdup(json_string_value(value));
    token->state = TOKENIZER_CONFIG_TEXT;
    return token->text ? WEFT_OK : weft_fail_memory(err);
}

static weft_status read_file(tokenizer_config *config, weft_error *err)
{
    char *data;
    size_t n;
    json_error_t wrong;
    weft_status status = weft_read_file(config->path, &data, &n, err);
    if (status)
        return status;
    json_t *root = json_loadb(data, n, JSON_DECODE_INT_AS_REAL,
                              &wrong); /* a model_max_length of 1e30 is usual, as an integer */
    weft_free(data);
    if (!json_is_object(root))
        status = weft_fail(err, WEFT_ERR_INPUT,
                           (weft_where){config->path, wrong.line > 0 && !root ? wrong.line : 0},
                           "not a JSON object%s%s", root ? "" : ": ", root ? "" : wrong.text);
    if (!status)
        status = read_token(config, root, "bos_token", &config->bos, err);
    if (!status)
        status = read_token(config, root, "eos_token", &config->eos, err);
    json_decref(root);
    return status;
}

weft_status tokenizer_config_read(tokenizer_config *config, const char *tokenizer_path,
                                  weft_error *err)
{
    *config = (tokenizer_config){0};
    const char *slash = strrchr(tokenizer_path, '/');
    config->path = weft_format("%.*stokenizer_config.json",
                               slash ? (int)(slash + 1 - tokenizer_path) : 0, tokenizer_path);
    if (!config->path)
        return weft_fail_memory(err);
    config->found = access(config->path, F_OK) == 0;
    return config->found ? read_file(config, err) : WEFT_OK;
}
