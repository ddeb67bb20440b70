/* SPDX-License-Identifier: Apache-2.0 */
/* The getters of one section's checked values. */
#include "settings/values.h"

#include <string.h>

static const weft_checked *find(const weft_params *params, const char *key)
{
    for (int i = 0; params && i < params->n; i++)
        if (strcmp(params->values[i].param->name, key) == 0)
            return &params->values[i];
    return NULL;
}

static const weft_checked *find_type(const weft_params *params, const char *key,
                                     weft_param_type type)
{
    const weft_checked *value = find(params, key);

    return value && value->param->type == type && !(value->param->flags & WEFT_PARAM_LIST) ? value
                                                                                           : NULL;
}

bool weft_params_bool(const weft_params *params, const char *key)
{
    const weft_checked *value = find_type(params, key, WEFT_PARAM_BOOL);

    return value && value->boolean;
}

int64_t weft_params_int(const weft_params *params, const char *key)
{
    const weft_checked *value = find_type(params, key, WEFT_PARAM_INT);

    return value ? value->integer : 0;
}

double weft_params_real(const weft_params *params, const char *key)
{
    const weft_checked *value = find_type(params, key, WEFT_PARAM_REAL);

    return value ? value->real : 0.0;
}

const char *weft_params_text(const weft_params *params, const char *key)
{
    const weft_checked *value = find(params, key);

    return value ? value->text : "";
}

const char *weft_params_word(const weft_params *params, const char *key, int i)
{
    const weft_checked *value = find(params, key);

    return value && i >= 0 && i < value->n_words ? value->words[i] : NULL;
}

bool weft_params_is(const weft_params *params, const char *key, const char *word)
{
    const weft_checked *value = find(params, key);

    return value && strcmp(value->text, word) == 0;
}

bool weft_params_has(const weft_params *params, const char *key, const char *word)
{
    const char *have;
    for (int i = 0; (have = weft_params_word(params, key, i)); i++)
        if (strcmp(have, word) == 0)
            return true;
    return false;
}

bool weft_params_given(const weft_params *params, const char *key)
{
    const weft_checked *value = find(params, key);

    return value && value->given;
}

weft_where weft_params_where(const weft_params *params, const char *key)
{
    const weft_checked *value = find(params, key);

    return value ? value->where : WEFT_NOWHERE;
}

weft_where weft_params_word_where(const weft_params *params, const char *key, int i)
{
    const weft_checked *value = find(params, key);

    return value && i >= 0 && i < value->n_words ? value->wheres[i] : WEFT_NOWHERE;
}

void weft_params_fill(const weft_params *params, void *out)
{
    for (int i = 0; params && i < params->n; i++) {
        const weft_checked *value = &params->values[i];
        const int choice = value->word - 1;
        const int64_t integer = value->word ? -value->word : value->integer;
        const double real = value->word ? -value->word : value->real;
        char *at = (char *)out + value->param->field;

        if (value->param->field == 0)
            continue;
        switch (value->param->type) {
        case WEFT_PARAM_BOOL:
            memcpy(at, &value->boolean, sizeof value->boolean);
            break;
        case WEFT_PARAM_INT:
            memcpy(at, &integer, sizeof integer);
            break;
        case WEFT_PARAM_REAL:
            memcpy(at, &real, sizeof real);
            break;
        case WEFT_PARAM_CHOICE:
            memcpy(at, &choice, sizeof choice);
            break;
        case WEFT_PARAM_STRING:
        case WEFT_PARAM_PATH:
            memcpy(at, &value->text, sizeof value->text);
            break;
        }
    }
}
