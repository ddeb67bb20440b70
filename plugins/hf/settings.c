/* SPDX-License-Identifier: Apache-2.0 */
/* A model as weft's settings. */
#include "hf.h"

#include <stdio.h>
#include <string.h>

/* ---- the model's section ---- */

void hf_settings_section(const hf_model *m, weft_text *ini)
{
    weft_text_print(ini, "[%s]\n", m->table->plugin);
    for (int i = 0; i < m->n; i++)
        if (m->values[i].said)
            weft_text_print(ini, "%s = %s\n", m->values[i].param->name, m->values[i].text);
}

/* Does it say which model it is? */
static bool is_identity(const hf_model *m, const weft_param *p)
{
    const weft_hf_rope *rope = m->form->rope;
    bool is = p->presets || hf_key_of(m->form->keys, p->name) ||
              (rope && strcmp(rope->theta, p->name) == 0);
    for (const weft_hf_rope_type *t = rope ? rope->types : NULL; t && t->type; t++)
        is = is || strcmp(t->key, p->name) == 0 || hf_key_of(t->keys, p->name);
    return is;
}

static int64_t seq_len_of(const hf_model *m)
{
    return m->context < 2048 ? m->context : 2048;
}

/* Defaults, too, so that a checkpoint can tell the same model from another. */
json_t *hf_settings_json(const hf_model *m)
{
    char seq_len[32];
    json_t *keys = json_object();
    bool ok = keys != NULL;
    for (int i = 0; i < m->n; i++)
        if (is_identity(m, m->values[i].param))
            ok = json_object_set_new(keys, m->values[i].param->name,
                                     json_string(m->values[i].text)) == 0 &&
                 ok;
    snprintf(seq_len, sizeof seq_len, "%lld", (long long)seq_len_of(m));
    if (ok) /* an INI without steps is none */
        return json_pack("{s:o, s:{s:s, s:s*}}", m->table->plugin, keys, "train", "steps", "1",
                         "seq_len", m->form->data ? NULL : seq_len);
    json_decref(keys);
    return NULL;
}

/* ---- INIs ---- */

/* A path as an INI's value; none that an INI cannot hold. */
static weft_status add_path(weft_text *ini, const char *key, const char *path, const char *file,
                            weft_error *err)
{
    if (strpbrk(path, "\n\r\t") || *path == ';' || strstr(path, " ;") || strstr(path, " #"))
        return hf_refuse(err, path, "this name cannot stand in an INI; rename the folder");
    weft_text_print(ini, "%s = %s%s%s\n", key, path, file ? "/" : "", file ? file : "");
    return WEFT_OK;
}

static void add_notes(const hf_model *m, weft_text *ini)
{
    for (const char *line = weft_text_get(&m->notes); *line;) {
        int n = (int)strcspn(line, "\n");
        weft_text_print(ini, "; %.*s\n", n, line);
        line += n + (line[n] == '\n');
    }
}

/* What is listed first: the model, and what it needs. */
static void add_model(const hf_model *m, weft_text *ini)
{
    weft_text_add(ini, "[weft]\nplugins =\n");
    const char *w = m->form->with ? m->form->with : "";
    for (size_t n; (n = hf_next_word(&w)); w += n)
        weft_text_print(ini, "    %.*s\n", (int)n, w);
    weft_text_print(ini, "    %s\n", m->table->plugin);
}

static weft_status add_tokenizer(const hf_model *m, const char *folder, weft_text *ini,
                                 weft_error *err)
{
    weft_status s = add_path(ini, "tokenizer", folder, "tokenizer.json", err);
    if (!s)
        hf_tokens_settings(folder, m, ini);
    return s;
}

/* The model's section, and where its parameters begin. */
static weft_status add_load(const hf_model *m, const char *folder, weft_text *ini, weft_error *err)
{
    hf_settings_section(m, ini);
    weft_text_add(ini, "\n[hf]\n");
    return add_path(ini, "load", folder, NULL, err);
}

/* Blocks that config.json has and the files have not would be planned first: said before. A folder
 * without any is for who loads none. */
static weft_status compare_files(const hf_model *m, const char *folder, weft_error *err)
{
    hf_source x = {.path = folder, .model = *m};
    weft_status s = WEFT_OK;
    if (hf_files_are_there(folder, m)) {
        s = hf_files_open(folder, m, &x.folder, err);
        s = s ? s : hf_source_match(&x, HF_EXTRA_REFUSE, err);
    }
    x.model = (hf_model){0}; /* it is the caller's */
    hf_source_close(&x);
    return s;
}

/* A run that has what the folder has, and no more. */
static weft_status add_minimal(const hf_model *m, const char *folder, weft_text *ini,
                               weft_error *err)
{
    const bool tokenizer = hf_has_file(folder, "tokenizer.json");
    weft_status s = compare_files(m, folder, err);
    weft_text_print(ini, "%s    hf\n\n[train]\n", tokenizer ? "    text\n" : "");
    if (!m->form->diffusers)
        weft_text_print(ini, "seq_len = %lld\n\n", (long long)seq_len_of(m));
    s = s ? s : add_load(m, folder, ini, err);
    if (s || !tokenizer)
        return s;
    weft_text_add(ini, "\n[text]\n");
    return add_tokenizer(m, folder, ini, err);
}

static weft_status add_data(const hf_model *m, const char *folder, weft_text *ini, weft_error *err)
{
    if (m->form->data) {
        weft_text_print(ini, "\n[%s]\npath = train            ; your files\n", m->form->data);
        return WEFT_OK;
    }
    weft_text_add(ini, "\n[text]\npath = train.txt        ; your text\n");
    if (!hf_has_file(folder, "tokenizer.json")) {
        weft_text_add(ini, "; the folder has no tokenizer.json: name the model's tokenizer here, "
                           "or the ids will mean something else\n;tokenizer =\n");
        return WEFT_OK;
    }
    return add_tokenizer(m, folder, ini, err);
}

/* A whole run, for people. */
static weft_status add_training(const hf_model *m, const char *folder, weft_text *ini,
                                weft_error *err)
{
    weft_text_print(ini,
                    "    %-20s; the data\n"
                    "    hf                  ; where the parameters begin\n"
                    "    cpu\n"
                    "    bf16                ; activations and weight copies in bf16\n"
                    "    adamw\n"
                    "    metrics\n"
                    "    ckpt                ; saves and resumes\n"
                    "dir = runs/finetune\n\n[train]\nsteps = 1000\n",
                    m->form->data ? m->form->data : "text");
    if (m->form->data)
        weft_text_add(ini, "global_batch = 8        ; samples a step\n\n");
    else
        weft_text_print(ini,
                        "seq_len = %lld\n"
                        "global_batch = 8        ; samples a step: %lld tokens\n\n",
                        (long long)seq_len_of(m), (long long)(8 * seq_len_of(m)));
    weft_status s = add_load(m, folder, ini, err);
    s = s ? s : add_data(m, folder, ini, err);
    weft_text_add(
        ini, "\n[adamw]\nlr = 2e-5\nwarmup_steps = 50\nlr_decay = cosine\nmin_lr_factor = 0.1\n");
    return s;
}

weft_status hf_settings_print(const char *folder, const hf_tables *tables, bool minimal,
                              weft_text *ini, weft_error *err)
{
    hf_model m;
    weft_status s = hf_config_read(folder, tables, &m, err);
    if (!s) {
        add_notes(&m, ini);
        add_model(&m, ini);
        s = minimal ? add_minimal(&m, folder, ini, err) : add_training(&m, folder, ini, err);
    }
    if (!s && (ini->out_of_memory || m.notes.out_of_memory))
        s = weft_fail_memory(err);
    hf_model_release(&m);
    return s;
}

/* ---- the format service ---- */

static weft_status print_minimal(const char *folder, const weft_finder *plugins, weft_text *ini,
                                 weft_error *err)
{
    return hf_settings_print(folder, &(hf_tables){.plugins = plugins}, true, ini, err);
}

const weft_model_format hf_format = {
    .size = sizeof(weft_model_format), .is = hf_is_folder, .settings = print_minimal};
