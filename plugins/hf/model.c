/* SPDX-License-Identifier: Apache-2.0 */
/* A model as the keys of its plugin's section, and the tables by which plugins say where such a
 * model lies in Hugging Face's files. */
#include "hf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

const char *hf_number(char buffer[32], double x)
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(buffer, 32, "%.*g", digits, x);
        if (strtod(buffer, NULL) == x)
            break;
    }
    return buffer;
}

size_t hf_next_word(const char **list)
{
    *list += strspn(*list, " ");
    return strcspn(*list, " ");
}

bool hf_has_word(const char *list, const char *word)
{
    for (size_t n; (n = hf_next_word(&list)); list += n)
        if (strlen(word) == n && strncmp(list, word, n) == 0)
            return true;
    return false;
}

bool hf_next_number(const char **list, int64_t *out)
{
    char *end;
    *out = strtoll(*list, &end, 10);
    const bool is = end > *list;
    *list = end;
    return is;
}

bool hf_says_yes(const char *text)
{
    return hf_has_word("yes true on 1", text);
}

bool hf_says_no(const char *text)
{
    return hf_has_word("no false off 0", text);
}

/* ---- values ---- */

bool hf_value_number(const hf_value *v, double *out)
{
    if (v->param->type == WEFT_PARAM_STRING)
        return false;
    *out = hf_says_yes(v->text);
    if (v->param->type == WEFT_PARAM_INT || v->param->type == WEFT_PARAM_REAL)
        return weft_parse_number(v->text, out);
    return *out != 0 || hf_says_no(v->text);
}

void hf_value_set_number(hf_value *v, double x)
{
    char number[32];
    if (v->param->type == WEFT_PARAM_INT)
        snprintf(v->text, sizeof v->text, "%.0f", x);
    else if (v->param->type == WEFT_PARAM_REAL)
        snprintf(v->text, sizeof v->text, "%s", hf_number(number, x));
    else
        snprintf(v->text, sizeof v->text, "%s", x != 0 ? "yes" : "no");
}

/* ---- a model ---- */

weft_status hf_model_init(hf_model *m, const weft_hf_model *table, const weft_hf_form *form,
                          weft_error *err)
{
    int n = 0;
    m->table = table;
    m->form = form;
    while (table->params[n].name)
        n++;
    m->values = weft_alloc_zero((size_t)n + 1, sizeof *m->values);
    if (!m->values)
        return weft_fail_memory(err);
    m->n = n;
    for (int i = 0; i < n; i++) {
        const char *standard = table->params[i].value;
        m->values[i].param = &table->params[i];
        snprintf(m->values[i].text, sizeof m->values[i].text, "%s", standard ? standard : "");
    }
    return WEFT_OK;
}

void hf_model_release(hf_model *m)
{
    weft_free(m->values);
    m->values = NULL;
    m->n = 0;
    weft_text_release(&m->notes);
}

void hf_print_notes(const hf_model *m, const weft_log *log)
{
    if (m->notes.size > 0)
        weft_log_print(log, WEFT_LOG_WARN, "%.*s", (int)m->notes.size - 1,
                       weft_text_get(&m->notes));
}

hf_value *hf_model_find(const hf_model *m, const char *key)
{
    for (int i = 0; i < m->n && key; i++)
        if (strcmp(m->values[i].param->name, key) == 0)
            return &m->values[i];
    return NULL;
}

static bool is_on(const hf_model *m, const char *key)
{
    double x;
    const hf_value *v = hf_model_find(m, key);
    return v && hf_value_number(v, &x) && x != 0;
}

bool hf_model_has(const hf_model *m, const char *when, const char *unless)
{
    return (!when || is_on(m, when)) && (!unless || !is_on(m, unless));
}

int64_t hf_model_int(const hf_model *m, const char *key)
{
    double x;
    const hf_value *v = hf_model_find(m, key);
    return v && hf_value_number(v, &x) && fabs(x) < 9e18 ? (int64_t)x : 0;
}

static int64_t get_int(const void *model, const char *key)
{
    return hf_model_int(model, key);
}

void hf_model_text(const hf_model *m, const hf_value *v, char text[512])
{
    size_t used = 0;
    const char *list = v->text;
    snprintf(text, 512, "%s", v->param->type == WEFT_PARAM_STRING ? "" : v->text);
    if (*text)
        return;
    for (int64_t x; used < 480 && hf_next_number(&list, &x);)
        used += (size_t)snprintf(text + used, 512 - used, "%s%lld", used ? " " : "", (long long)x);
    if (!used && m->form->derive)
        m->form->derive(v->param->name, get_int, m, text);
}

const char *hf_key_of(const weft_hf_key *keys, const char *key)
{
    while (keys->name && !(key && keys->key && strcmp(keys->key, key) == 0))
        keys++;
    return keys->name;
}

const char *hf_context_key(const hf_model *m)
{
    const weft_hf_key *k = m->form->keys;
    while (k->name && !(k->context && k->key))
        k++;
    return k->key;
}

/* ---- tables ---- */

void hf_plugin_of(const char *type, char plugin[64])
{
    static const char *const others[][2] = {{"llama", "llama3"},
                                            {"qwen3_moe", "qwen3"},
                                            {"deepseek_v3", "deepseek3"},
                                            {"FluxTransformer2DModel", "flux"}};
    snprintf(plugin, 64, "%s", type);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(type, others[i][0]) == 0)
            snprintf(plugin, 64, "%s", others[i][1]);
    for (char *c = plugin; *c; c++)
        *c = *c == '-' ? '_' : *c;
    hf_one_line(plugin); /* it may be told that there is no such */
}

static const weft_hf_model *table_of(const weft_plugin *plugin)
{
    for (const weft_contribution *c = plugin->contributions; c && c->kind != WEFT_END; c++)
        if (c->kind == WEFT_SERVICE && strcmp(c->service, "hf_model") == 0)
            return c->table;
    return NULL;
}

weft_status hf_tables_find(const hf_tables *tables, const char *plugin, const weft_hf_model **out,
                           weft_error *err)
{
    const weft_plugin *found = NULL;
    *out = tables->own && strcmp(tables->own->plugin, plugin) == 0 ? tables->own : NULL;
    if (!tables->plugins)
        return WEFT_OK;
    weft_status s = tables->plugins->find(tables->plugins->self, plugin, &found, err);
    if (s)
        return s;
    *out = table_of(found);
    return *out ? hf_table_check(*out, plugin, err) : WEFT_OK;
}
