/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.json: what a checkpoint is, and the sums of its files. Its last member is the sum of all text before it. */
#include "ckpt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT  "weft checkpoint 1"
#define SUM_KEY ",\n\"sum\": \""

/* ---- writing ---- */

void ckpt_manifest_file(weft_text *record, const char *name, const weft_sums *sums)
{
    weft_text_add(record, record->size ? ",\n  {\"name\": " : "  {\"name\": ");
    weft_text_add_json(record, name);
    weft_text_print(record, ", \"bytes\": %" PRId64 ", \"chunk\": %" PRId64 ", \"sums\": [", sums->bytes, sums->chunk);
    for (int64_t i = 0; i < sums->n; i++)
        weft_text_print(record, "%s\"%016" PRIx64 "\"", i ? ", " : "", sums->sum[i]);
    weft_text_add(record, "]}");
}

static void add_pairs(weft_text *text, const char *key, const char *a, const char *b, const char *const *pairs)
{
    weft_text_print(text, ",\n\"%s\": [", key);
    for (int i = 0; pairs && pairs[i]; i += 2) {
        weft_text_print(text, "%s\n  {\"%s\": ", i ? "," : "", a);
        weft_text_add_json(text, pairs[i]);
        weft_text_print(text, ", \"%s\": ", b);
        weft_text_add_json(text, pairs[i + 1]);
        weft_text_add(text, "}");
    }
    weft_text_add(text, "]");
}

static void add_settings(weft_text *text, const weft_state_view *state)
{
    const char *section = "";
    weft_text_add(text, ",\n\"settings\": {");
    for (int i = 0; i < state->n_settings; i++) {
        const weft_setting *x = &state->settings[i];
        bool fresh = strcmp(section, x->section) != 0;
        if (fresh) {
            weft_text_add(text, i ? "},\n  " : "\n  ");
            weft_text_add_json(text, x->section);
            weft_text_add(text, ": {");
        }
        section = x->section;
        weft_text_add(text, fresh ? "" : ", ");
        weft_text_add_json(text, x->key);
        weft_text_add(text, ": ");
        weft_text_add_json(text, x->value);
    }
    weft_text_add(text, state->n_settings ? "}}" : "}");
}

void ckpt_manifest_write(weft_text *text, const weft_state_view *state, const weft_params *params, const char *records)
{
    const weft_progress *p = &state->progress;
    weft_text_print(text, "{\"format\": \"%s\",\n\"weft\": \"%s\",\n", FORMAT, WEFT_VERSION);
    weft_text_print(text,
                    "\"step\": %" PRId64 ", \"steps\": %" PRId64 ", \"samples\": %" PRId64 ", \"tokens\": %" PRId64 ", \"skipped\": %" PRId64
                    ", \"ranks\": %d,\n",
                    p->step, state->steps, p->samples, p->tokens, p->skipped, state->ranks);
    weft_text_print(text, "\"data\": \"%016" PRIx64 "\", \"tokenizer\": \"%016" PRIx64 "\",\n\"model\": ", state->data_id, state->tokenizer_id);
    weft_text_add_json(text, state->model);
    weft_text_add(text, ",\n\"excluded\": [");
    const char *word;
    for (int i = 0; params && (word = weft_params_word(params, "exclude", i)); i++) {
        weft_text_add(text, i ? ", " : "");
        weft_text_add_json(text, word);
    }
    weft_text_add(text, "]");
    add_pairs(text, "plugins", "name", "version", state->plugins);
    add_pairs(text, "kernels", "op", "kernel", state->kernels);
    add_settings(text, state);
    weft_text_print(text, ",\n\"files\": [\n%s]", records);
    uint64_t sum = weft_sum(weft_text_get(text), text->size);
    weft_text_print(text, SUM_KEY "%016" PRIx64 "\"}\n", sum);
}

/* ---- reading ---- */

static weft_status damaged(const ckpt_manifest *m, const char *what, weft_error *err)
{
    return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "%s/manifest.json %s", m->path, what);
}

static bool read_hex(const json_t *j, uint64_t *out)
{
    const char *text = json_string_value(j);
    char *end;
    if (!text || strlen(text) != 16)
        return false;
    *out = strtoull(text, &end, 16);
    return !*end;
}

static bool read_count(const json_t *j, int64_t *out)
{
    *out = json_integer_value(j);
    return json_is_integer(j) && *out >= 0;
}

/* A file lies in the checkpoint's folder and nowhere else. */
static bool is_inside(const char *name)
{
    return name && *name && *name != '/' && strcmp(name, "..") != 0 && strncmp(name, "../", 3) != 0 && !strstr(name, "/../");
}

static bool read_file(const json_t *j, ckpt_file *f)
{
    const json_t *sums = json_object_get(j, "sums");
    f->name = json_string_value(json_object_get(j, "name"));
    if (!is_inside(f->name) || !read_count(json_object_get(j, "bytes"), &f->sums.bytes) || !read_count(json_object_get(j, "chunk"), &f->sums.chunk) ||
        f->sums.chunk < 1 || !json_is_array(sums))
        return false;
    f->sums.n = (int64_t)json_array_size(sums);
    if (f->sums.n != (f->sums.bytes + f->sums.chunk - 1) / f->sums.chunk)
        return false;
    f->sums.sum = weft_alloc_zero((size_t)f->sums.n + 1, sizeof *f->sums.sum);
    for (int64_t i = 0; i < f->sums.n; i++)
        if (!f->sums.sum || !read_hex(json_array_get(sums, (size_t)i), &f->sums.sum[i]))
            return false;
    return f->sums.sum != NULL;
}

static weft_status read_members(ckpt_manifest *m, weft_error *err)
{
    const json_t *files = json_object_get(m->root, "files");
    const char *format = json_string_value(json_object_get(m->root, "format"));
    if (!format || strcmp(format, FORMAT) != 0)
        return damaged(m, format ? "is of another format; this weft reads '" FORMAT "'" : "is no manifest of a checkpoint", err);
    m->model = json_string_value(json_object_get(m->root, "model"));
    bool well = m->model && json_is_array(files) && read_count(json_object_get(m->root, "step"), &m->progress.step) &&
                read_count(json_object_get(m->root, "steps"), &m->steps) && read_count(json_object_get(m->root, "samples"), &m->progress.samples) &&
                read_count(json_object_get(m->root, "tokens"), &m->progress.tokens) &&
                read_count(json_object_get(m->root, "skipped"), &m->progress.skipped) && read_hex(json_object_get(m->root, "data"), &m->data_id) &&
                read_hex(json_object_get(m->root, "tokenizer"), &m->tokenizer_id);
    size_t n = json_array_size(files);
    m->files = weft_alloc_zero(n + 1, sizeof *m->files);
    for (size_t i = 0; i < n && well && m->files; i++) {
        well = read_file(json_array_get(files, i), &m->files[m->n_files++]);
        m->bytes += m->files[i].sums.bytes;
    }
    if (!m->files)
        return weft_fail_memory(err);
    return well ? WEFT_OK : damaged(m, "lacks something, or says what cannot be", err);
}

static weft_status check_sum(const ckpt_manifest *m, const char *text, weft_error *err)
{
    const char *last = NULL;
    for (const char *at = text; (at = strstr(at, SUM_KEY)); at++)
        last = at;
    uint64_t sum = last ? strtoull(last + strlen(SUM_KEY), NULL, 16) : 0;
    if (!last)
        return damaged(m, "has no sum of itself: it is cut short, or not weft's", err);
    return sum == weft_sum(text, (size_t)(last - text)) ? WEFT_OK : damaged(m, "is damaged: its sum is another", err);
}

weft_status ckpt_manifest_read(const weft_io *io, const char *path, ckpt_manifest *m, weft_error *err)
{
    char *name = weft_format("%s/manifest.json", path), *text = NULL;
    size_t n;
    *m = (ckpt_manifest){.path = weft_strdup(path)};
    weft_status s = name && m->path ? weft_io_read_file(io, name, &text, &n, err) : weft_fail_memory(err);
    s = s ? s : check_sum(m, text, err);
    if (!s && !(m->root = json_loads(text, JSON_REJECT_DUPLICATES, NULL)))
        s = damaged(m, "is no JSON", err);
    s = s ? s : read_members(m, err);
    weft_free(name);
    weft_free(text);
    return s;
}

void ckpt_manifest_release(ckpt_manifest *m)
{
    for (int i = 0; i < m->n_files; i++)
        weft_free(m->files[i].sums.sum);
    weft_free(m->files);
    weft_free(m->path);
    json_decref(m->root);
    *m = (ckpt_manifest){0};
}

const char *ckpt_manifest_setting(const ckpt_manifest *m, const char *section, const char *key)
{
    return json_string_value(json_object_get(json_object_get(json_object_get(m->root, "settings"), section), key));
}

static bool holds_tensors(const char *name)
{
    size_t n = strlen(name), m = strlen(".safetensors");
    return n > m && strcmp(name + n - m, ".safetensors") == 0;
}

weft_status ckpt_manifest_tensors(const weft_io *io, const ckpt_manifest *m, weft_folder **out, weft_error *err)
{
    const char **names = weft_alloc_zero((size_t)m->n_files + 1, sizeof *names);
    int n = 0;
    *out = NULL;
    if (!names)
        return weft_fail_memory(err);
    for (int i = 0; i < m->n_files; i++)
        if (holds_tensors(m->files[i].name))
            names[n++] = m->files[i].name;
    weft_status s = weft_folder_open_files(io, m->path, names, n, out, err);
    for (int i = 0; i < m->n_files && !s; i++)
        if (holds_tensors(m->files[i].name))
            s = weft_folder_verify(*out, m->files[i].name, &m->files[i].sums, err);
    weft_free(names);
    if (s) {
        weft_folder_destroy(*out);
        *out = NULL;
    }
    return s;
}
