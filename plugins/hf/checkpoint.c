/* SPDX-License-Identifier: Apache-2.0 */
/* Weft's own checkpoints, read and written: step-N/manifest.json and *.safetensors beside it.
 * Moments and counters are left alone. */
#include "hf.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FORMAT  "weft checkpoint 1"
#define SUM_KEY ",\n\"sum\": \""

enum { MOST_NAMED = 20 };

/* ---- which folder ---- */

bool hf_has_file(const char *folder, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof path && stat(path, &st) == 0;
}

static weft_status resolve(const char *path, char **out, weft_error *err)
{
    weft_status s = weft_checkpoint_find(weft_io_system(), path, out, err);
    if (!s && !*out)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "%s: is neither a Hugging Face folder (config.json) nor a checkpoint "
                      "(manifest.json), nor a run that holds one (ckpt/step-N)",
                      path);
    return s;
}

/* ---- the manifest ---- */

static weft_status damaged(const char *path, const char *what, weft_error *err)
{
    return weft_fail(err, WEFT_ERR_INPUT, ((weft_where){path, 0}), "%s", what);
}

static weft_status read_manifest(hf_checkpoint *c, weft_error *err)
{
    char *name = weft_format("%s/manifest.json", c->path), *text = NULL;
    const char *last = NULL;
    size_t n = 0;
    weft_status s = name ? weft_read_file(name, &text, &n, err) : weft_fail_memory(err);
    if (s)
        goto done;
    for (const char *at = text; (at = strstr(at, SUM_KEY)); at++)
        last = at;
    if (!last ||
        strtoull(last + strlen(SUM_KEY), NULL, 16) != weft_sum(text, (size_t)(last - text))) {
        s = damaged(name, "is damaged, or not weft's: its sum of itself is another", err);
        goto done;
    }
    c->manifest = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const char *format = json_string_value(json_object_get(c->manifest, "format"));
    if (!format || strcmp(format, FORMAT) != 0)
        s = damaged(name,
                    format ? "is of another format than '" FORMAT "'"
                           : "is not a manifest of a checkpoint",
                    err);
    c->step = json_integer_value(json_object_get(c->manifest, "step"));
done:
    weft_free(text);
    weft_free(name);
    return s;
}

/* Files of the model: those beside the manifest, not those in optim/. */
static const char *model_file(const json_t *entry)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    size_t n = name ? strlen(name) : 0;
    bool is = n > 12 && !strchr(name, '/') && strcmp(name + n - 12, ".safetensors") == 0;
    return is ? name : NULL;
}

static weft_status verify_file(hf_checkpoint *c, const json_t *entry, weft_error *err)
{
    const json_t *list = json_object_get(entry, "sums");
    weft_sums sums = {.bytes = json_integer_value(json_object_get(entry, "bytes")),
                      .chunk = json_integer_value(json_object_get(entry, "chunk")),
                      .n = (int64_t)json_array_size(list)};
    if (sums.chunk < 1 || sums.bytes < 0 ||
        sums.n != sums.bytes / sums.chunk + (sums.bytes % sums.chunk != 0))
        return damaged(c->path, "its manifest lacks the sums of its files", err);
    sums.sum = weft_alloc_zero((size_t)sums.n + 1, sizeof *sums.sum);
    if (!sums.sum)
        return weft_fail_memory(err);
    for (int64_t i = 0; i < sums.n; i++) {
        const char *text = json_string_value(json_array_get(list, (size_t)i));
        sums.sum[i] = text ? strtoull(text, NULL, 16) : 0;
    }
    weft_status s = weft_folder_verify(c->folder, model_file(entry), &sums, err);
    weft_free(sums.sum);
    return s;
}

static weft_status open_tensors(hf_checkpoint *c, weft_error *err)
{
    const json_t *files = json_object_get(c->manifest, "files"), *entry;
    size_t i;
    int n = 0;
    const char **names = weft_alloc_zero(json_array_size(files) + 1, sizeof *names);
    if (!names)
        return weft_fail_memory(err);
    json_array_foreach(files, i, entry)
        if (model_file(entry))
            names[n++] = model_file(entry);
    weft_status s = n ? weft_folder_open_files(weft_io_system(), c->path, names, n, &c->folder, err)
                      : damaged(c->path, "its manifest names no files of the model", err);
    json_array_foreach(files, i, entry)
        if (!s && model_file(entry))
            s = verify_file(c, entry, err);
    weft_free(names);
    return s;
}

/* ---- the model ---- */

static weft_status differs(const hf_checkpoint *c, const hf_tensor *want, const weft_stored *t,
                           weft_error *err)
{
    weft_text text = {0};
    weft_text_print(&text, "tensor '%s' is ", want->name);
    if (t)
        hf_print_shape(&text, t->size, t->n_dims);
    else
        weft_text_add(&text, "missing");
    weft_text_add(&text, "; the settings say ");
    hf_print_shape(&text, want->size, want->n_dims);
    weft_status s =
        weft_fail(err, WEFT_ERR_INPUT, ((weft_where){c->path, 0}), "%s, with the plugin %s ([%s])",
                  weft_text_get(&text), c->model.table->plugin, want->row->shape);
    weft_text_release(&text);
    return s;
}

static bool has_shape(const weft_stored *t, const hf_tensor *want)
{
    bool fits = t && t->n_dims == want->n_dims;
    for (int d = 0; d < want->n_dims && fits; d++)
        fits = t->size[d] == want->size[d];
    return fits;
}

static weft_status compare(hf_checkpoint *c, hf_extra extra, weft_error *err)
{
    weft_status s = WEFT_OK;
    int wrong = 0, found = 0;
    for (int i = 0; i < c->map.n; i++) {
        const hf_tensor *want = &c->map.list[i];
        const weft_stored *t = weft_folder_find(c->folder, want->name);
        found += t != NULL;
        if (!has_shape(t, want) && wrong++ < MOST_NAMED)
            s = differs(c, want, t, err);
    }
    if (wrong > MOST_NAMED)
        weft_fail(err, WEFT_ERR_INPUT, ((weft_where){c->path, 0}), "%d more tensors are wrong",
                  wrong - MOST_NAMED);
    for (int i = 0; found < weft_folder_count(c->folder) && i < weft_folder_count(c->folder); i++) {
        const weft_stored *t = weft_folder_get(c->folder, i);
        weft_status one =
            hf_map_find(&c->map, t->name) ? WEFT_OK : hf_extras_add(&c->extras, t, err);
        s = s ? s : one;
    }
    weft_status extras = hf_extras_settle(&c->extras, extra, c->path, err);
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
    const json_t *said = json_object_get(c->manifest, "hf");
    const char *began = json_string_value(
        json_object_get(json_object_get(json_object_get(c->manifest, "settings"), "hf"), "load"));
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
    weft_status s = resolve(path, &c->path, err);
    s = s ? s : read_manifest(c, err);
    s = s ? s : open_tensors(c, err);
    s = s ? s : hf_settings_read(c->manifest, tables, c->folder, c->path, &c->model, err);
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
    json_decref(c->manifest);
    weft_free(c->path);
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
    for (const char *w = m->form->with ? m->form->with : ""; *(w += strspn(w, " "));) {
        const size_t n = strcspn(w, " ");
        json_array_append_new(list,
                              json_pack("{s:s%, s:s}", "name", w, n, "version", WEFT_VERSION));
        w += n;
    }
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
                  "format", FORMAT, "weft", WEFT_VERSION, "step", 0, "steps", 0, "samples", 0,
                  "tokens", 0, "skipped", 0, "ranks", 1, "data", none, "tokenizer", none, "model",
                  plugin, "excluded", "plugins", list_plugins(m), "kernels", "hf", "bos",
                  (json_int_t)m->bos, "eos", (json_int_t)m->eos, "context", (json_int_t)m->context,
                  "settings", settings, "files", files);
    char *dumped = root ? json_dumps(root, JSON_INDENT(1)) : NULL,
         *path = weft_format("%s/manifest.json", folder);
    weft_text text = {0};
    if (dumped) {
        size_t n = strlen(dumped);
        while (n > 0 && (dumped[n - 1] == '}' || dumped[n - 1] == '\n') &&
               (n == strlen(dumped) || dumped[n - 1] == '\n'))
            n--; /* the object is ended below, by the sum */
        weft_text_add_bytes(&text, dumped, n);
        uint64_t sum = weft_sum(weft_text_get(&text), text.size);
        weft_text_print(&text, SUM_KEY "%016" PRIx64 "\"}\n", sum);
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
