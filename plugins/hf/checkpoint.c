/* SPDX-License-Identifier: Apache-2.0 */
/* Weft's own checkpoints, read and written: step-N/manifest.json and *.safetensors beside it.
 * Moments and counters are left alone. */
#include "hf.h"

#include <string.h>

/* ---- its files ---- */

static weft_status read_manifest(const char *path, weft_manifest *out, weft_error *err)
{
    char *found = NULL;
    weft_status s = hf_folder_check(path, err);
    s = s ? s : weft_checkpoint_find(weft_io_system(), path, &found, err);
    if (!s && !found)
        s = hf_refuse(err, path,
                      "is neither a Hugging Face folder (config.json) nor a checkpoint "
                      "(manifest.json), nor a run that holds one (ckpt/step-N)");
    s = s ? s : weft_manifest_read(weft_io_system(), found, out, err);
    weft_free(found);
    return s;
}

/* ---- the model ---- */

/* What training does not change, and settings do not say: from an import's own words, else from the
 * folder that the run began from. */
static void recall(hf_source *c, const hf_tables *tables)
{
    const json_t *said = json_object_get(c->manifest.json, "hf");
    const char *began = json_string_value(json_object_get(
        json_object_get(json_object_get(c->manifest.json, "settings"), "hf"), "load"));
    hf_model m = {.bos = -1, .eos = -1};
    weft_error err = {0};
    if (json_is_object(said)) {
        m.bos = json_integer_value(json_object_get(said, "bos"));
        m.eos = json_integer_value(json_object_get(said, "eos"));
        m.context = json_integer_value(json_object_get(said, "context"));
    } else if (began && *began && hf_config_read(began, tables, &m, &err) != WEFT_OK) {
        m.context = 0;
    }
    if (m.context > 0) {
        c->model.bos = m.bos;
        c->model.eos = m.eos;
        if (!hf_context_key(&c->model))
            c->model.context = m.context;
    }
    hf_model_release(&m);
    weft_error_release(&err);
}

weft_status hf_checkpoint_open(hf_source *x, const char *path, const hf_tables *tables,
                               hf_extra extra, weft_error *err)
{
    *x = (hf_source){.ours = true};
    weft_status s = read_manifest(path, &x->manifest, err);
    x->path = x->manifest.path;
    s = s ? s : weft_manifest_open(weft_io_system(), &x->manifest, true, &x->folder, err);
    s = s ? s : hf_settings_read(x->manifest.json, tables, x->folder, x->path, &x->model, err);
    s = s ? s : hf_source_match(x, extra, err);
    if (!s) {
        recall(x, tables);
        hf_tokens_find(x);
    }
    return s;
}

/* ---- writing ---- */

/* What a run of the model lists: what it needs, and itself. */
static json_t *list_plugins(const hf_model *m)
{
    json_t *list = json_array();
    const char *w = m->form->with ? m->form->with : "";
    for (size_t n; (n = hf_next_word(&w)); w += n)
        json_array_append_new(list,
                              json_pack("{s:s%, s:s}", "name", w, n, "version", WEFT_VERSION));
    json_array_append_new(
        list, json_pack("{s:s, s:s}", "name", m->table->plugin, "version", WEFT_VERSION));
    return list;
}

static json_t *manifest_of(const hf_model *m, const weft_text *files)
{
    static const char none[] = "0000000000000000";
    char *list = weft_format("[%s]", weft_text_get(files));
    json_t *root = json_pack(
        "{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:s, s:[], s:o, "
        "s:[], s:{s:I, s:I, s:I}, s:o, s:o}",
        "format", WEFT_MANIFEST_FORMAT, "weft", WEFT_VERSION, "step", 0, "steps", 0, "samples", 0,
        "tokens", 0, "skipped", 0, "ranks", 1, "data", none, "tokenizer", none, "model",
        m->table->plugin, "excluded", "plugins", list_plugins(m), "kernels", "hf", "bos",
        (json_int_t)m->bos, "eos", (json_int_t)m->eos, "context", (json_int_t)m->context,
        "settings", hf_settings_json(m), "files", list ? json_loads(list, 0, NULL) : NULL);
    weft_free(list);
    return root;
}

weft_status hf_manifest_write(const char *folder, const hf_model *m, const weft_text *files,
                              weft_error *err)
{
    json_t *root = files->out_of_memory ? NULL : manifest_of(m, files);
    char path[HF_PATH], *dumped = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    weft_text text = {0};
    if (dumped) {
        weft_text_add_bytes(&text, dumped, strlen(dumped) - strlen("\n}")); /* the sum ends it */
        weft_manifest_seal(&text);
    }
    weft_status s = dumped && !text.out_of_memory
                        ? weft_write_file(hf_path(path, folder, "manifest.json"),
                                          weft_text_get(&text), text.size, err)
                        : weft_fail_memory(err);
    weft_text_release(&text);
    free(dumped);
    json_decref(root);
    return s;
}
