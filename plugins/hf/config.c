/* SPDX-License-Identifier: Apache-2.0 */
/* config.json as a model; Hugging Face's defaults stand in for keys that are left out. */
#include "config.h"

#include <stdio.h>
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

static void find_model(hf_reader *r, const char *folder, const hf_tables *tables, hf_model *m)
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
    if (s == WEFT_ERR_INPUT && !named)
        hf_complain(r,
                    "'%s' is '%s'; weft has no such model, and no plugin '%s' was found "
                    "that has: --model PLUGIN names another",
                    key, type, plugin);
    else if (!s && !form)
        s = other_model(folder, type, plugin, tables, r->err);
    s = s ? s : hf_model_init(m, table, form, r->err);
    r->status = r->status ? r->status : s;
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

static void read_model(hf_reader *r, const char *folder, const hf_tables *tables, hf_model *m)
{
    const json_t *first = json_array_get(hf_get(r, "architectures"), 0);
    find_model(r, folder, tables, m);
    if (!m->form)
        return;
    if (json_is_string(first) && strcmp(json_string_value(first), m->form->architecture) != 0)
        hf_complain(r, "'architectures' is '%s'; weft knows %s", json_string_value(first),
                    m->form->architecture);
    m->bos = hf_get_id(r, "bos_token_id");
    m->eos = hf_get_id(r, "eos_token_id");
    hf_read_keys(r, m->form->keys, m);
    if (m->form->rope)
        hf_read_rotary(r, m);
    hf_check_keys(r, m);
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

static weft_status no_config(const char *folder, weft_error *err)
{
    struct stat st;
    if (stat(folder, &st) != 0)
        return hf_refuse(err, folder, "there is no such folder");
    if (!S_ISDIR(st.st_mode))
        return hf_refuse(err, folder, "is a file; name the folder that holds config.json");
    weft_status s = hf_refuse_metas(folder, err);
    if (s)
        return s;
    if (hf_has_file(folder, "model_index.json"))
        return hf_refuse(err, folder,
                         "holds several models of diffusers'; name the one to be read, "
                         "%s/transformer",
                         folder);
    return hf_refuse(err, folder, "has no config.json, so it is not a Hugging Face folder");
}

weft_status hf_config_check(const char *folder, weft_error *err)
{
    return hf_is_folder(folder) ? WEFT_OK : no_config(folder, err);
}

weft_status hf_config_read(const char *folder, const hf_tables *tables, hf_model *m,
                           weft_error *err)
{
    json_t *root = NULL;
    *m = (hf_model){.bos = -1, .eos = -1, .context = 2048};
    if (!hf_is_folder(folder))
        return no_config(folder, err);
    char *path = weft_format("%s/config.json", folder);
    weft_status s = path ? hf_read_json(path, &root, err) : weft_fail_memory(err);
    if (!s) {
        hf_reader r = {.path = path, .object = root, .err = err};
        read_model(&r, folder, tables, m);
        s = r.status ? r.status : m->notes.out_of_memory ? weft_fail_memory(err) : WEFT_OK;
    }
    json_decref(root);
    weft_free(path);
    return s;
}
