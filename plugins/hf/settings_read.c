/* SPDX-License-Identifier: Apache-2.0 */
/* A model from the settings that a checkpoint keeps, where whole numbers are numbers, but for a
 * vocabulary that is the data's. What is a word there follows from the tensors. */
#include "hf.h"

#include <stdio.h>
#include <string.h>

enum { MOST_LAYERS = 1 << 14 };

typedef struct reading {
    hf_model *m;
    const weft_folder *tensors;
    const char *at;
    weft_error *err;
} reading;

/* ---- which model ---- */

static weft_status find_model(const json_t *manifest, const hf_tables *tables, const reading *r)
{
    const char *plugin = json_string_value(json_object_get(manifest, "model"));
    const weft_hf_model *table = NULL;
    plugin = tables->named ? tables->named : plugin;
    if (!plugin)
        return hf_refuse(r->err, r->at, "does not say which plugin's model it is");
    weft_status s = hf_tables_find(tables, plugin, &table, r->err);
    if (!s && !table)
        s = hf_refuse(r->err, r->at,
                      "models of the plugin %s have no form in Hugging Face's files: it has no "
                      "table (<weft/hf.h>)",
                      plugin);
    return s ? s : hf_model_init(r->m, table, table->forms[0], r->err);
}

static weft_status check_value(const reading *r, const hf_value *v, const char *text)
{
    return weft_param_check(r->m->table->plugin, v->param, text, (weft_where){r->at, 0}, r->err);
}

static weft_status take_settings(const json_t *manifest, const reading *r)
{
    hf_model *m = r->m;
    const json_t *said = json_object_get(json_object_get(manifest, "settings"), m->table->plugin);
    weft_status s = WEFT_OK;
    for (int i = 0; i < m->n; i++) {
        double x;
        hf_value *v = &m->values[i];
        const char *text = json_string_value(json_object_get(said, v->param->name));
        if (text)
            snprintf(v->text, sizeof v->text, "%s", text);
        if (v->param->type == WEFT_PARAM_CHOICE)
            continue;
        if (text && *text && check_value(r, v, text))
            s = WEFT_ERR_INPUT;
        if (hf_value_number(v, &x))
            hf_value_set_number(v, x);
    }
    return s;
}

static bool is_open(const hf_value *v)
{
    double x;
    return !hf_value_number(v, &x);
}

/* ---- tensors ---- */

/* The tensor of a row, in the first block that has it. */
static const weft_stored *stored(const reading *r, const weft_hf_tensor *row)
{
    char name[HF_NAME];
    int64_t l = 0;
    while (l < MOST_LAYERS && !hf_is_of_layer(r->m, row, l))
        l++;
    hf_name(name, row->name, l, 0);
    return weft_folder_find(r->tensors, name);
}

/* A word, by the tensors: a key that is a dim by itself is as long as that, a switch is on where
 * those are that depend on it. */
static weft_status take_tensors(const reading *r, hf_value *v)
{
    const char *name = v->param->name;
    const bool is_number = v->param->type == WEFT_PARAM_INT || v->param->type == WEFT_PARAM_REAL;
    for (const weft_hf_tensor *row = r->m->form->tensors; hf_is_row(row); row++) {
        const char *word = row->shape, *key = row->when ? row->when : row->unless;
        if (!row->name || row->other)
            continue;
        const weft_stored *t = stored(r, row);
        if (!is_number && key && strcmp(key, name) == 0) {
            hf_value_set_number(v, (t != NULL) == (row->when != NULL));
            return WEFT_OK;
        }
        for (int d = 0; t && d < t->n_dims; d++) {
            const size_t n = hf_next_word(&word);
            if (n == strlen(name) && strncmp(word, name, n) == 0) {
                hf_value_set_number(v, (double)t->size[d]);
                return check_value(r, v, v->text);
            }
            word += n;
        }
    }
    return WEFT_OK;
}

/* ---- all of it ---- */

/* Every key that config.json needs is a number by now. */
static weft_status check(const reading *r)
{
    weft_status s = WEFT_OK;
    for (const weft_hf_key *k = r->m->form->keys; k->name; k++) {
        const hf_value *v = hf_model_find(r->m, k->key);
        if (v && is_open(v) && v->param->type != WEFT_PARAM_CHOICE &&
            v->param->type != WEFT_PARAM_STRING)
            s = hf_refuse(r->err, r->at,
                          "its settings say [%s] %s = %s, which is no number; a checkpoint that "
                          "weft makes now has it: go on with this one for a step",
                          r->m->table->plugin, v->param->name, v->text);
    }
    return s;
}

static weft_status choose_form(const reading *r)
{
    hf_model *m = r->m;
    char blame[HF_NAME] = "";
    for (int i = 0; m->table->forms[i]; i++) {
        const weft_hf_form *form = m->form = m->table->forms[i];
        const char *unless = form->unless ? form->unless : "";
        bool has = hf_model_has(m, form->when, NULL);
        snprintf(blame, sizeof blame, "%s", form->when ? form->when : "flavor");
        for (size_t n; has && (n = hf_next_word(&unless)); unless += n) {
            snprintf(blame, sizeof blame, "%.*s", (int)n, unless);
            has = hf_model_has(m, NULL, blame);
        }
        if (has)
            return WEFT_OK;
    }
    return hf_refuse(r->err, r->at,
                     "with these settings a model of the plugin %s has no form in Hugging Face's "
                     "files, which have no place for what the key %s makes",
                     m->table->plugin, blame);
}

static void find_context(const json_t *manifest, hf_model *m)
{
    double x;
    const char *seq_len = json_string_value(json_object_get(
        json_object_get(json_object_get(manifest, "settings"), "train"), "seq_len"));
    if (seq_len && weft_parse_number(seq_len, &x) && x >= 1 && x < 1e15)
        m->context = (int64_t)x;
    if (hf_context_key(m))
        m->context = hf_model_int(m, hf_context_key(m));
}

weft_status hf_settings_read(const json_t *manifest, const hf_tables *tables,
                             const weft_folder *tensors, const char *where, hf_model *m,
                             weft_error *err)
{
    const reading r = {m, tensors, where, err};
    *m = (hf_model){.bos = -1, .eos = -1, .context = 2048};
    weft_status s = find_model(manifest, tables, &r);
    s = s ? s : take_settings(manifest, &r);
    s = s ? s : choose_form(&r);
    if (s)
        return s;
    for (int i = 0; i < m->n; i++)
        if (is_open(&m->values[i]) && take_tensors(&r, &m->values[i]))
            s = WEFT_ERR_INPUT;
    find_context(manifest, m);
    return check(&r) ? WEFT_ERR_INPUT : s;
}
