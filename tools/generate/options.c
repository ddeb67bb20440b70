/* SPDX-License-Identifier: Apache-2.0 */
/* The settings that writing text needs, as edits of those that the model comes with. */
#include "generate.h"

#include <string.h>

enum { MOST_EDITS = 16 + GENERATE_MOST_AXES };

static void add(generate_options *o, weft_cli_edit_kind kind, const char *text)
{
    o->options.edits[o->options.n_edits++] = (weft_cli_edit){kind, text, NULL};
}

/* Words are kept one behind the other, each with its NUL; places are turned into pointers when all
 * are there. */
static void print_setting(weft_text *words, size_t *at, const char *key, const char *value)
{
    *at = words->size;
    weft_text_print(words, "sample.%s=%s", key, value);
    weft_text_add_bytes(words, "", 1);
}

static void print_number(weft_text *words, size_t *at, const char *key, int64_t value)
{
    *at = words->size;
    weft_text_print(words, "sample.%s=%lld", key, (long long)value);
    weft_text_add_bytes(words, "", 1);
}

static int print_settings(const generate_wishes *w, weft_text *words, size_t at[MOST_EDITS])
{
    int n = 0;
    print_setting(words, &at[n++], "tokens",
                  "1000000000"); /* --max-tokens is looked at elsewhere */
    if (w->greedy || w->temperature)
        print_setting(words, &at[n++], "temperature", w->greedy ? "0" : w->temperature);
    if (w->top_p)
        print_setting(words, &at[n++], "top_p", w->top_p);
    if (w->top_k >= 0)
        print_number(words, &at[n++], "top_k", w->top_k);
    if (w->seed >= 0)
        print_number(words, &at[n++], "seed", w->seed);
    return n;
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
    o->edits = weft_alloc_zero((size_t)s->n_edits + MOST_EDITS, sizeof *o->edits);
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
    if (!s->sample)
        add(out, WEFT_CLI_WITH, "sample");
    if (s->ini)
        add(out, WEFT_CLI_SET, "train.steps=1000000000"); /* none is made, but it must be set, and
                                                             no schedule should find it short */
    for (int i = 0; i < n; i++)
        add(out, WEFT_CLI_SET, weft_text_get(&out->words) + at[i]);
    return WEFT_OK;
}

void generate_options_release(generate_options *o)
{
    weft_free(o->options.edits);
    weft_text_release(&o->words);
    memset(o, 0, sizeof *o);
}
