/* SPDX-License-Identifier: Apache-2.0 */
/* The settings that writing needs, as edits of those that the model comes with. */
#include "generate.h"

#include <stdio.h>
#include <string.h>

enum { MOST_EDITS = 16 + GENERATE_MOST_AXES };

static void add(generate_options *o, weft_cli_edit_kind kind, const char *text)
{
    o->options.edits[o->options.n_edits++] = (weft_cli_edit){kind, text, NULL};
}

/* Words are kept one behind the other, each with its NUL; places are turned into pointers when all
 * are there. */
typedef struct wording {
    weft_text *words;
    size_t *at;
    int n;
} wording;

/* value NULL: it is not given. option: what messages call it. */
static void print_setting(wording *w, const char *key, const char *option, const char *value)
{
    if (!value)
        return;
    w->at[w->n++] = w->words->size;
    weft_text_print(w->words, "%s=%s", key, value);
    weft_text_add_bytes(w->words, "", 1);
    weft_text_print(w->words, "%s %s", option, value);
    weft_text_add_bytes(w->words, "", 1);
}

/* Nor is a negative one. */
static void print_number(wording *w, const char *key, const char *option, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    print_setting(w, key, option, value < 0 ? NULL : text);
}

static int print_settings(const generate_wishes *w, weft_text *words, size_t at[MOST_EDITS])
{
    wording to = {words, at, 0};
    if (w->out) {
        print_setting(&to, "images.file", "--out", w->out);
        print_setting(&to, "images.prompts", "--prompts", w->prompts_file);
        print_setting(&to, "images.samples", "--samples", /* the settings' are of another file */
                      w->samples || !w->prompts_file ? w->samples : "");
        print_setting(&to, "images.guidance", "--guidance", w->guidance);
        print_setting(&to, "images.cfg", "--cfg", w->cfg);
        print_setting(&to, "images.empty", "--empty", w->empty);
        print_number(&to, "images.steps", "--steps", w->steps);
        print_number(&to, "images.seed", "--seed", w->seed);
        print_number(&to, "images.batch", "--batch", w->batch);
        return to.n;
    }
    print_setting(&to, "sample.tokens", "--max-tokens", "1000000000"); /* looked at elsewhere */
    print_setting(&to, "sample.temperature", w->greedy ? "--greedy:" : "--temperature",
                  w->greedy ? "0" : w->temperature);
    print_setting(&to, "sample.top_p", "--top-p", w->top_p);
    print_number(&to, "sample.top_k", "--top-k", w->top_k);
    print_number(&to, "sample.seed", "--seed", w->seed);
    return to.n;
}

/* A plugin is taken out once, whatever its axes. */
static void add_axes(generate_options *o, const generate_axes *a)
{
    for (int i = 0; i < a->n; i++) {
        bool again = i > 0 && strcmp(a->list[i].plugin, a->list[i - 1].plugin) == 0;
        if (!a->list[i].out)
            add(o, WEFT_CLI_SET, a->list[i].set);
        else if (!again)
            add(o, WEFT_CLI_WITHOUT, a->list[i].plugin);
    }
}

weft_status generate_options_init(generate_options *out, const weft_cli_options *given,
                                  const generate_wishes *w, const generate_source *s,
                                  weft_error *err)
{
    size_t at[MOST_EDITS];
    *out = (generate_options){.options = *given};
    weft_cli_options *o = &out->options;
    o->ini = s->origin ? s->origin : s->name;
    o->ini_text = s->ini;
    o->no_data = true;
    o->threads = true;
    o->ini_trust = s->ini && s->checkpoint ? WEFT_TRUST_NONE : WEFT_TRUST_ALL;
    o->n_edits = 0;
    o->edits = weft_alloc_zero((size_t)(s->n_edits + s->n_late) + MOST_EDITS, sizeof *o->edits);
    int n = print_settings(w, &out->words, at);
    if (!o->edits || out->words.out_of_memory)
        return weft_fail_memory(err);
    if (s->own_tokenizer && (s->lists_text || s->wants_text))
        add(out, WEFT_CLI_SET, s->own_tokenizer); /* before those given, which count more */
    for (int i = 0; i < s->n_edits; i++)
        o->edits[o->n_edits++] = s->edits[i];
    add_axes(out, &s->axes);
    if (s->lists_store)
        add(out, WEFT_CLI_WITHOUT, "ckpt");
    if (s->lists_weights && !s->weights)
        add(out, WEFT_CLI_WITHOUT, "hf");
    if (s->wants_text)
        add(out, WEFT_CLI_WITH, "text");
    if (w->out && s->sample)
        add(out, WEFT_CLI_WITHOUT, "sample");
    if (w->out ? !s->images : !s->sample)
        add(out, WEFT_CLI_WITH, w->out ? "images" : "sample");
    for (int i = 0; i < s->n_late; i++)
        o->edits[o->n_edits++] = s->late[i];
    if (s->ini)
        add(out, WEFT_CLI_SET, "train.steps=1000000000"); /* none is made, but it must be set, and
                                                             no schedule should find it short */
    for (int i = 0; i < n; i++) {
        const char *set = weft_text_get(&out->words) + at[i];
        add(out, WEFT_CLI_SET, set);
        o->edits[o->n_edits - 1].as = set + strlen(set) + 1;
    }
    return WEFT_OK;
}

void generate_options_release(generate_options *o)
{
    weft_free(o->options.edits);
    weft_text_release(&o->words);
    memset(o, 0, sizeof *o);
}
