/* SPDX-License-Identifier: Apache-2.0 */
/* Which tokenizer it is. */
#include "../tokenizer/tiktoken.h"
#include "command.h"

#include <weft/files.h>

#include <jansson.h>
#include <string.h>

weft_status tokenize_load(const tokenize_options *o, tokenizer **out, weft_error *err)
{
    const tokenizer_choice choice = {.pattern = o->pattern,
                                     .special = o->special,
                                     .pattern_key = "--pattern",
                                     .special_key = "--special"};
    char *path = tokenizer_path(o->tokenizer);
    *out = NULL;
    weft_status status = path ? tokenizer_open(&choice, path, out, err) : weft_fail_memory(err);
    weft_free(path);
    return status;
}

/* ---- what it is made of ---- */

static void add_types(weft_text *out, const json_t *part, const char *const *lists)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *inner = NULL;
    for (int i = 0; lists[i] && !inner; i++)
        inner = json_object_get(part, lists[i]);
    if (!json_is_array(inner)) {
        weft_text_add(out, type ? type : "none");
        return;
    }
    for (size_t i = 0; i < json_array_size(inner); i++) {
        weft_text_add(out, i ? ", " : "");
        add_types(out, json_array_get(inner, i), lists);
    }
}

typedef struct component {
    const char *name;
    weft_text types;
} component;

enum { N_COMPONENTS = 5 };

static weft_status find_components(const char *path, component *components, weft_error *err)
{
    static const char *const names[N_COMPONENTS] = {"normalizer", "pre_tokenizer", "model",
                                                    "post_processor", "decoder"};
    static const char *const lists[] = {"normalizers", "pretokenizers", "processors", "decoders",
                                        NULL};
    json_t *root = json_load_file(path, 0, NULL); /* NULL: a rank file */
    for (int i = 0; i < N_COMPONENTS; i++) {
        components[i].name = names[i];
        if (root)
            add_types(&components[i].types, json_object_get(root, names[i]), lists);
        else
            weft_text_add(&components[i].types, i == 1 ? "the pattern" : i == 2 ? "ranks" : "none");
    }
    json_decref(root);
    weft_status status = WEFT_OK;
    for (int i = 0; !status && i < N_COMPONENTS; i++)
        status = components[i].types.out_of_memory ? weft_fail_memory(err) : WEFT_OK;
    return status;
}

static void add_special(const tokenizer *t, bool json, weft_text *out)
{
    int shown = 0, size = tokenizer_vocab_size(t);
    for (int id = 0; id < size; id++) {
        size_t n;
        const char *token = tokenizer_is_special(t, id) ? tokenizer_token(t, id, &n) : NULL;
        if (!token)
            continue;
        if (json) {
            weft_text_add(out, shown ? ", " : "");
            weft_text_add_json(out, token);
            weft_text_print(out, ": %d", id);
        } else {
            weft_text_print(out, "%-16s %8d  %s\n", shown ? "" : "special tokens", id, token);
        }
        shown++;
    }
    if (!shown && !json)
        weft_text_print(out, "%-16s none\n", "special tokens");
}

static void add_all(const tokenizer *t, const component *components, bool json, weft_text *out)
{
    int size = tokenizer_vocab_size(t), used = 0;
    size_t n;
    for (int id = 0; id < size; id++)
        used += tokenizer_token(t, id, &n) != NULL;
    weft_text_print(out,
                    json ? "{\"vocab_size\": %d, \"tokens\": %d"
                         : "vocabulary       %8d  ids, of which %d are tokens\n",
                    size, used);
    for (int i = 0; i < N_COMPONENTS; i++) {
        const char *types = weft_text_get(&components[i].types);
        if (!json) {
            weft_text_print(out, "%-16s           %s\n", components[i].name, types);
            continue;
        }
        weft_text_print(out, ", \"%s\": ", components[i].name);
        weft_text_add_json(out, types);
    }
    weft_text_add(out, json ? ", \"special\": {" : "");
    add_special(t, json, out);
    weft_text_add(out, json ? "}}\n" : "");
}

weft_status tokenize_info(const weft_command_host *host, const tokenize_options *o, weft_error *err)
{
    tokenizer *t = NULL;
    component components[N_COMPONENTS] = {0};
    weft_text out = {0};
    char *path = tokenizer_path(o->tokenizer);
    weft_status status = path ? tokenize_load(o, &t, err) : weft_fail_memory(err);
    if (!status)
        status = find_components(path, components, err);
    if (!status) {
        add_all(t, components, o->json, &out);
        status =
            out.out_of_memory ? weft_fail_memory(err) : host->write(host, out.data, out.size, err);
    }
    for (int i = 0; i < N_COMPONENTS; i++)
        weft_text_release(&components[i].types);
    weft_text_release(&out);
    weft_free(path);
    tokenizer_destroy(t);
    return status;
}
