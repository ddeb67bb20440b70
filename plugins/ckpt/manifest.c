/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.json: what a checkpoint is. Its files and their sums are lib/io's. */
#include "ckpt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ---- */

static void add_pairs(weft_text *text, const char *key, const char *a, const char *b,
                      const char *const *pairs)
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

static void add_plugins(weft_text *text, const char *const *list)
{
    static const char *const keys[] = {"name", "version", "sha256"};
    weft_text_add(text, ",\n\"plugins\": [");
    for (int i = 0; list[i]; i++) {
        weft_text_print(text, "%s\"%s\": ", i % 3 ? ", " : i ? ", {" : "{", keys[i % 3]);
        weft_text_add_json(text, list[i]);
        weft_text_add(text, i % 3 == 2 ? "}" : "");
    }
    weft_text_add(text, "]");
}

void ckpt_manifest_write(weft_text *text, const weft_state_view *state, const weft_params *params,
                         const char *records)
{
    const weft_progress *p = &state->progress;
    weft_text_print(text, "{\"format\": \"%s\",\n\"weft\": \"%s\",\n", WEFT_MANIFEST_FORMAT,
                    WEFT_VERSION);
    weft_text_print(text,
                    "\"step\": %" PRId64 ", \"steps\": %" PRId64 ", \"samples\": %" PRId64
                    ", \"tokens\": %" PRId64 ", \"skipped\": %" PRId64 ", \"in_a_row\": %" PRId64
                    ", \"ranks\": %d,\n",
                    p->step, state->steps, p->samples, p->tokens, p->skipped, p->in_a_row,
                    state->ranks);
    weft_text_print(text,
                    "\"data\": \"%016" PRIx64 "\", \"tokenizer\": \"%016" PRIx64 "\",\n\"model\": ",
                    state->data_id, state->tokenizer_id);
    weft_text_add_json(text, state->model);
    weft_text_add(text, ",\n\"excluded\": [");
    const char *word;
    for (int i = 0; params && (word = weft_params_word(params, "exclude", i)); i++) {
        weft_text_add(text, i ? ", " : "");
        weft_text_add_json(text, word);
    }
    weft_text_add(text, "]");
    add_plugins(text, state->plugins);
    add_pairs(text, "kernels", "op", "kernel", state->kernels);
    add_settings(text, state);
    weft_text_print(text, ",\n\"files\": [\n%s]", records);
    weft_manifest_seal(text);
}

/* ---- reading ---- */

/* Steps are added to it. */
static bool read_count(const json_t *j, int64_t *out)
{
    *out = json_integer_value(j);
    return json_is_integer(j) && *out >= 0 && *out <= INT64_MAX / 4;
}

static bool read_members(ckpt_manifest *m)
{
    const json_t *row = json_object_get(m->root, "in_a_row"); /* not there: none */
    m->model = json_string_value(json_object_get(m->root, "model"));
    return m->model && read_count(json_object_get(m->root, "step"), &m->progress.step) &&
           read_count(json_object_get(m->root, "steps"), &m->steps) &&
           read_count(json_object_get(m->root, "samples"), &m->progress.samples) &&
           read_count(json_object_get(m->root, "tokens"), &m->progress.tokens) &&
           read_count(json_object_get(m->root, "skipped"), &m->progress.skipped) &&
           (!row || read_count(row, &m->progress.in_a_row)) &&
           weft_sum_parse(json_string_value(json_object_get(m->root, "data")), &m->data_id) &&
           weft_sum_parse(json_string_value(json_object_get(m->root, "tokenizer")),
                          &m->tokenizer_id);
}

weft_status ckpt_manifest_read(const weft_io *io, const char *path, ckpt_manifest *m,
                               weft_error *err)
{
    *m = (ckpt_manifest){0};
    weft_status s = weft_manifest_read(io, path, &m->base, err);
    m->path = m->base.path;
    m->root = m->base.json;
    if (!s && !read_members(m))
        s = weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE,
                      "%s/manifest.json is incomplete, or contradicts itself", path);
    return s;
}

void ckpt_manifest_release(ckpt_manifest *m)
{
    weft_manifest_release(&m->base);
    *m = (ckpt_manifest){0};
}
