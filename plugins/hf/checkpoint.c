/* SPDX-License-Identifier: Apache-2.0 */
/* Weft's own checkpoints, read and written: step-N/manifest.json and *.safetensors beside it.
 * Moments and counters are left alone. */
#include "hf.h"

#include <inttypes.h>
#include <string.h>

/* ---- which folder ---- */

static weft_status read_manifest(hf_checkpoint *c, const char *path, weft_error *err)
{
    char *found = NULL;
    weft_status s = weft_checkpoint_find(weft_io_system(), path, &found, err);
    if (!s && !found)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "%s: is neither a Hugging Face folder (config.json) nor a checkpoint "
                      "(manifest.json), nor a run that holds one (ckpt/step-N)",
                      path);
    s = s ? s : weft_manifest_read(weft_io_system(), found, &c->manifest, err);
    weft_free(found);
    return s;
}

/* ---- its files ---- */

/* Those of the model: beside the manifest, not in optim/. */
static bool is_models(const char *name)
{
    const size_t n = strlen(name);
    return n > 12 && !strchr(name, '/') && strcmp(name + n - 12, ".safetensors") == 0;
}

static weft_status open_tensors(hf_checkpoint *c, weft_error *err)
{
    const weft_manifest *m = &c->manifest;
    int n = 0;
    const char **names = weft_alloc_zero((size_t)m->n_files + 1, sizeof *names);
    if (!names)
        return weft_fail_memory(err);
    for (int i = 0; i < m->n_files; i++)
        if (is_models(m->files[i].name))
            names[n++] = m->files[i].name;
    weft_status s = n ? weft_folder_open_files(weft_io_system(), m->path, names, n, &c->folder, err)
                      : weft_fail(err, WEFT_ERR_INPUT, ((weft_where){m->path, 0}),
                                  "its manifest names no files of the model");
    for (int i = 0; i < m->n_files && !s; i++)
        if (is_models(m->files[i].name))
            s = weft_folder_verify(c->folder, m->files[i].name, &m->files[i].sums, err);
    weft_free(names);
    return s;
}

/* ---- the model ---- */

static weft_status differs(const hf_checkpoint *c, const hf_tensor *want, const weft_stored *t,
                           weft_error *err)
{
    char is[HF_NAME], should[HF_NAME];
    return weft_fail(err, WEFT_ERR_INPUT, ((weft_where){c->manifest.path, 0}),
                     "tensor '%s' is %s; the settings say %s, with the plugin %s ([%s])",
                     want->name, t ? hf_shape(is, t->size, t->n_dims) : "missing",
                     hf_shape(should, want->size, want->n_dims), c->model.table->plugin,
                     want->row->shape);
}

static weft_status compare(hf_checkpoint *c, hf_extra extra, weft_error *err)
{
    weft_status s = WEFT_OK;
    int wrong = 0, found = 0;
    for (int i = 0; i < c->map.n; i++) {
        const hf_tensor *want = &c->map.list[i];
        const weft_stored *t = weft_folder_find(c->folder, want->name);
        found += t != NULL;
        if (!hf_has_shape(t, want->size, want->n_dims) && wrong++ < HF_MOST_NAMED)
            s = differs(c, want, t, err);
    }
    hf_say_more(wrong, "are wrong", (weft_where){c->manifest.path, 0}, err);
    for (int i = 0; found < weft_folder_count(c->folder) && i < weft_folder_count(c->folder); i++) {
        const weft_stored *t = weft_folder_get(c->folder, i);
        weft_status one =
            hf_map_find(&c->map, t->name) ? WEFT_OK : hf_extras_add(&c->extras, t, err);
        s = s ? s : one;
    }
    weft_status extras = hf_extras_settle(&c->extras, extra, c->manifest.path, err);
    return s ? s : extras;
}

/* Does the length of texts follow from a key of the model's? */
static bool knows_context(const hf_model *m)
{
    const weft_hf_key *k = m->form->keys;
    while (k->name && !(k->context && k->key))
        k++;
    return k->name != NULL;
}

/* What training does not change, and settings do not say: from an import's own words, else from the
 * folder that the run began from. */
static void recall(hf_checkpoint *c, const hf_tables *tables)
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
        if (!knows_context(&c->model))
            c->model.context = m.context;
    }
    hf_model_release(&m);
    weft_error_release(&err);
}

weft_status hf_checkpoint_open(hf_checkpoint *c, const char *path, const hf_tables *tables,
                               hf_extra extra, weft_error *err)
{
    *c = (hf_checkpoint){0};
    weft_status s = read_manifest(c, path, err);
    s = s ? s : open_tensors(c, err);
    s = s ? s
          : hf_settings_read(c->manifest.json, tables, c->folder, c->manifest.path, &c->model, err);
    s = s ? s : hf_map_create(&c->model, &c->map, err);
    s = s ? s : compare(c, extra, err);
    if (!s) {
        recall(c, tables);
        s = hf_tokens_find(c, err);
    }
    return s;
}

void hf_checkpoint_close(hf_checkpoint *c)
{
    hf_extras_release(&c->extras);
    weft_folder_destroy(c->folder);
    hf_map_release(&c->map);
    hf_model_release(&c->model);
    weft_manifest_release(&c->manifest);
    *c = (hf_checkpoint){0};
}

/* ---- writing ---- */

weft_status hf_manifest_file(json_t *files, const char *name, const weft_sums *sums,
                             weft_error *err)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < sums->n; i++) {
        char text[24];
        snprintf(text, sizeof text, "%016" PRIx64, sums->sum[i]);
        json_array_append_new(list, json_string(text));
    }
    if (!list || (int64_t)json_array_size(list) != sums->n) {
        json_decref(list);
        return weft_fail_memory(err);
    }
    json_t *entry =
        json_pack("{s:s, s:I, s:I, s:o}", "name", name, "bytes", (json_int_t)sums->bytes, "chunk",
                  (json_int_t)sums->chunk, "sums", list);
    return json_array_append_new(files, entry) == 0 ? WEFT_OK : weft_fail_memory(err);
}

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

weft_status hf_manifest_write(const char *folder, const hf_model *m, json_t *files, weft_error *err)
{
    static const char none[] = "0000000000000000";
    const char *plugin = m->table->plugin;
    json_t *settings = hf_settings_json(m);
    json_t *root =
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:s, s:[], s:o, "
                  "s:[], s:{s:I, s:I, s:I}, s:o, s:o}",
                  "format", WEFT_MANIFEST_FORMAT, "weft", WEFT_VERSION, "step", 0, "steps", 0,
                  "samples", 0, "tokens", 0, "skipped", 0, "ranks", 1, "data", none, "tokenizer",
                  none, "model", plugin, "excluded", "plugins", list_plugins(m), "kernels", "hf",
                  "bos", (json_int_t)m->bos, "eos", (json_int_t)m->eos, "context",
                  (json_int_t)m->context, "settings", settings, "files", files);
    char *dumped = root ? json_dumps(root, JSON_INDENT(1)) : NULL,
         *path = weft_format("%s/manifest.json", folder);
    weft_text text = {0};
    if (dumped) {
        weft_text_add_bytes(&text, dumped, strlen(dumped) - strlen("\n}")); /* the sum ends it */
        weft_manifest_seal(&text);
    }
    weft_status s = dumped && path && !text.out_of_memory
                        ? weft_write_file(path, weft_text_get(&text), text.size, err)
                        : weft_fail_memory(err);
    weft_text_release(&text);
    weft_free(path);
    free(dumped);
    json_decref(root);
    return s;
}
