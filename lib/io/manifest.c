/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.json of a checkpoint, as far as it says which files there are and what their sums are.
 */
#include "io/internal.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define SUM_KEY ",\n\"sum\": \""

void weft_manifest_file_print(weft_text *text, const char *name, const weft_sums *sums)
{
    weft_text_add(text, text->size ? ",\n  {\"name\": " : "  {\"name\": ");
    weft_text_add_json(text, name);
    weft_text_print(text, ", \"bytes\": %" PRId64 ", \"chunk\": %" PRId64 ", \"sums\": [",
                    sums->bytes, sums->chunk);
    for (int64_t i = 0; i < sums->n; i++)
        weft_text_print(text, "%s\"%016" PRIx64 "\"", i ? ", " : "", sums->sum[i]);
    weft_text_add(text, "]}");
}

void weft_manifest_seal(weft_text *text)
{
    uint64_t sum = weft_sum(weft_text_get(text), text->size);
    weft_text_print(text, SUM_KEY "%016" PRIx64 "\"}\n", sum);
}

static weft_status damaged(const weft_manifest *m, const char *what, weft_error *err)
{
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s/manifest.json %s", m->path, what);
}

static weft_status check_sum(const weft_manifest *m, const char *text, weft_error *err)
{
    const char *last = NULL;
    for (const char *at = text; (at = strstr(at, SUM_KEY)); at++)
        last = at;
    uint64_t sum = last ? strtoull(last + strlen(SUM_KEY), NULL, 16) : 0;
    if (!last)
        return damaged(m, "has no sum of itself: it is cut short, or not weft's", err);
    return sum == weft_sum(text, (size_t)(last - text))
               ? WEFT_OK
               : damaged(m, "is damaged: its sum is another", err);
}

bool weft_sum_parse(const char *text, uint64_t *sum)
{
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return false;
    *sum = strtoull(text, NULL, 16);
    return true;
}

static bool read_count(const json_t *j, int64_t *out)
{
    *out = json_integer_value(j);
    return json_is_integer(j) && *out >= 0;
}

/* A file lies in the checkpoint's folder and nowhere else. */
static bool is_inside(const char *name)
{
    return name && *name && *name != '/' && strcmp(name, "..") != 0 &&
           strncmp(name, "../", 3) != 0 && !strstr(name, "/../");
}

static bool read_file(const json_t *j, weft_manifest_file *f)
{
    const json_t *sums = json_object_get(j, "sums");
    f->name = json_string_value(json_object_get(j, "name"));
    if (!is_inside(f->name) || !read_count(json_object_get(j, "bytes"), &f->sums.bytes) ||
        !read_count(json_object_get(j, "chunk"), &f->sums.chunk) || f->sums.chunk < 1 ||
        !json_is_array(sums))
        return false;
    f->sums.n = (int64_t)json_array_size(sums);
    if (f->sums.n != f->sums.bytes / f->sums.chunk + (f->sums.bytes % f->sums.chunk != 0))
        return false;
    f->sums.sum = weft_alloc_zero((size_t)f->sums.n + 1, sizeof *f->sums.sum);
    for (int64_t i = 0; i < f->sums.n; i++)
        if (!f->sums.sum ||
            !weft_sum_parse(json_string_value(json_array_get(sums, (size_t)i)), &f->sums.sum[i]))
            return false;
    return f->sums.sum != NULL;
}

static weft_status read_files(weft_manifest *m, weft_error *err)
{
    const json_t *files = json_object_get(m->json, "files");
    const char *format = json_string_value(json_object_get(m->json, "format"));
    if (!format || strcmp(format, WEFT_MANIFEST_FORMAT) != 0)
        return damaged(m,
                       format ? "is of another format; this weft reads '" WEFT_MANIFEST_FORMAT "'"
                              : "is not a manifest of a checkpoint",
                       err);
    size_t n = json_array_size(files);
    bool well = json_is_array(files);
    m->files = weft_alloc_zero(n + 1, sizeof *m->files);
    if (!m->files)
        return weft_fail_memory(err);
    for (size_t i = 0; i < n && well; i++) {
        well = read_file(json_array_get(files, i), &m->files[m->n_files++]) &&
               !__builtin_add_overflow(m->bytes, m->files[i].sums.bytes, &m->bytes);
    }
    return well ? WEFT_OK : damaged(m, "is incomplete, or contradicts itself", err);
}

/* By sections, and texts all: whoever looks for one that is none would take the key's default. */
static weft_status check_settings(const weft_manifest *m, weft_error *err)
{
    const char *section, *key;
    json_t *keys, *value, *settings = json_object_get(m->json, "settings");
    bool well = !settings || json_is_object(settings);
    json_object_foreach(settings, section, keys) {
        well = well && json_is_object(keys);
        json_object_foreach(keys, key, value) {
            if (!json_is_string(value))
                return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                                 "%s/manifest.json: [%s] %s among its settings is no string, so "
                                 "weft has not written it",
                                 m->path, section, key);
        }
    }
    return well ? WEFT_OK : damaged(m, "has settings that are not of sections", err);
}

weft_status weft_manifest_read(const weft_io *io, const char *path, weft_manifest *m,
                               weft_error *err)
{
    char *name = weft_format("%s/manifest.json", path), *text = NULL;
    size_t n;
    *m = (weft_manifest){.path = weft_strdup(path)};
    weft_status s =
        name && m->path ? weft_io_read_file(io, name, &text, &n, err) : weft_fail_memory(err);
    s = s ? s : check_sum(m, text, err);
    if (!s && !(m->json = json_loads(text, JSON_REJECT_DUPLICATES, NULL)))
        s = damaged(m, "is not JSON", err);
    s = s ? s : read_files(m, err);
    s = s ? s : check_settings(m, err);
    weft_free(name);
    weft_free(text);
    return s;
}

void weft_manifest_release(weft_manifest *m)
{
    for (int i = 0; i < m->n_files; i++)
        weft_sums_release(&m->files[i].sums);
    weft_free(m->files);
    weft_free(m->path);
    json_decref(m->json);
    *m = (weft_manifest){0};
}

static bool holds_tensors(const char *name, bool model)
{
    size_t n = strlen(name), m = strlen(".safetensors");
    return n > m && strcmp(name + n - m, ".safetensors") == 0 && !(model && strchr(name, '/'));
}

weft_status weft_manifest_open(const weft_io *io, const weft_manifest *m, bool model,
                               weft_folder **out, weft_error *err)
{
    const char **names = weft_alloc_zero((size_t)m->n_files + 1, sizeof *names);
    int n = 0;
    *out = NULL;
    if (!names)
        return weft_fail_memory(err);
    for (int i = 0; i < m->n_files; i++)
        if (holds_tensors(m->files[i].name, model))
            names[n++] = m->files[i].name;
    weft_status s = weft_folder_open_files(io, m->path, names, n, out, err);
    for (int i = 0; i < m->n_files && !s; i++)
        if (holds_tensors(m->files[i].name, model))
            s = weft_folder_verify(*out, m->files[i].name, &m->files[i].sums, err);
    weft_free(names);
    if (s) {
        weft_folder_destroy(*out);
        *out = NULL;
    }
    return s;
}
