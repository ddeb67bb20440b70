/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin's page for man, section 7, from its descriptor alone. */
#include "console/counts.h"
#include "console/describe.h"
#include "host/host.h"

#include <ctype.h>
#include <string.h>

/* Words as roff takes them literally; a line must not begin as a request does. */
static void add(weft_text *text, const char *words)
{
    bool first = text->size == 0 || text->data[text->size - 1] == '\n';
    for (const char *p = words ? words : ""; *p; p++) {
        if (first && (*p == '.' || *p == '\''))
            weft_text_add(text, "\\&");
        if (*p == '\\')
            weft_text_add(text, "\\e");
        else if (*p == '-')
            weft_text_add(text, "\\-");
        else
            weft_text_add_bytes(text, p, 1);
        first = *p == '\n';
    }
}

static void add_line(weft_text *text, const char *request, const char *words)
{
    weft_text_print(text, "%s ", request);
    add(text, words);
    weft_text_add(text, "\n");
}

static void add_words(weft_text *text, const char *label, const char *const *words)
{
    if (!words || !words[0])
        return;
    weft_text_print(text, "; %s", label);
    for (int i = 0; words[i]; i++) {
        weft_text_add(text, " ");
        add(text, words[i]);
    }
}

static void print_head(const weft_plugin *p, weft_text *text)
{
    weft_text_add(text, ".TH \"WEFT\\-");
    for (const char *c = p->name; *c; c++)
        weft_text_print(text, "%c", toupper((unsigned char)*c));
    weft_text_print(text, "\" 7 \"\" \"weft %s\" \"Plugins of weft\"\n.SH NAME\nweft\\-",
                    WEFT_VERSION);
    add(text, p->name);
    weft_text_add(text, " \\- ");
    add(text, p->summary);
    weft_text_add(text, "\n.SH SYNOPSIS\n.nf\n[weft]\nplugins = ... ");
    add(text, p->name);
    weft_text_add(text, " ...\n");
    if (p->params && p->params->name) {
        weft_text_add(text, "[");
        add(text, p->name);
        weft_text_add(text, "]\n");
        add(text, p->params->name);
        weft_text_add(text, " = ...\n");
    }
    weft_text_add(text, ".fi\n");
}

static void print_contributions(const weft_plugin *p, weft_text *text)
{
    const weft_contribution *k = p->contributions;
    static const char *const numerics[] = {"Listing it changes no bit of a run's numbers.",
                                           "Listing it moves numbers by rounding only.",
                                           "Listing it gives other numbers by design."};
    weft_text_print(text, ".SH DESCRIPTION\n%s\n", numerics[p->numerics]);
    for (; k && k->kind != WEFT_END; k++) {
        weft_text_print(text, ".PP\nIt gives a %s", weft_kind_name(k->kind));
        if (k->kind == WEFT_PASS)
            weft_text_print(text, " of stage %s", weft_stage_name(k->stage));
        if (k->kind == WEFT_AXIS)
            weft_text_print(text, " %s", k->axis);
        if (k->kind == WEFT_SERVICE)
            weft_text_print(text, " %s", k->service);
        if (k->kind == WEFT_COMMAND) {
            weft_text_add(text, ", weft ");
            add(text, k->command->name);
            weft_text_add(text, ": ");
            add(text, k->command->summary);
        }
        add_words(text, "it needs", k->needs);
        add_words(text, "it gives", k->gives);
        add_words(text, "it refuses", k->refuses);
        weft_text_add(text, ".\n");
    }
}

static void print_when(const char *when, weft_text *text)
{
    weft_text t = {0};
    weft_when_print(when, &t);
    weft_text_add(text, "It counts where ");
    add(text, weft_text_get(&t));
    weft_text_add(text, ".\n");
    text->out_of_memory = text->out_of_memory || t.out_of_memory;
    weft_text_release(&t);
}

static void print_param(const weft_param *q, weft_text *text)
{
    add_line(text, ".TP\n.B", q->name);
    weft_text_print(text, "%s%s", q->flags & WEFT_PARAM_LIST ? "A list of " : "",
                    weft_param_type_name(q->type));
    if (q->min != 0 || q->max != 0) {
        weft_text t = {0};
        weft_text_add(&t, " from ");
        weft_text_add_real(&t, q->min);
        weft_text_add(&t, " to ");
        weft_text_add_real(&t, q->max);
        add(text, weft_text_get(&t));
        text->out_of_memory = text->out_of_memory || t.out_of_memory;
        weft_text_release(&t);
    }
    if (q->unit) {
        weft_text_add(text, ", in ");
        add(text, q->unit);
    }
    for (int i = 0; q->choices && q->choices[i]; i++) {
        weft_text_add(text, i ? ", " : q->type == WEFT_PARAM_CHOICE ? ": " : "; or ");
        add(text, q->choices[i]);
    }
    if (q->flags & WEFT_PARAM_REQUIRED)
        weft_text_add(text, "; must be given");
    else if (q->value && *q->value) {
        weft_text_add(text, "; default ");
        add(text, q->value);
    }
    weft_text_add(text, q->flags & WEFT_PARAM_PER_RANK ? "; may differ between ranks.\n" : ".\n");
    if (q->when)
        print_when(q->when, text);
    if (q->refuses) {
        weft_text_add(text, "It excludes ");
        add(text, q->refuses);
        weft_text_add(text, ".\n");
    }
    add(text, q->help);
    weft_text_add(text, "\n");
}

void weft_params_describe_man(const weft_param *params, weft_text *text)
{
    for (const weft_param *q = params; q && q->name; q++)
        print_param(q, text);
}

static void print_ops(const weft_plugin *p, weft_text *text)
{
    if (p->ops && p->ops[0])
        weft_text_add(text, ".SH OPS\n");
    for (const weft_op *const *op = p->ops; op && *op; op++) {
        add_line(text, ".TP\n.B", (*op)->name);
        add(text, (*op)->summary);
        weft_text_add(text, "\n");
        if ((*op)->rule && !(*op)->make_rule)
            add_line(text, ".br\nRule:", (*op)->rule);
    }
}

void weft_plugin_describe_man(const weft_module *module, weft_text *text)
{
    const weft_plugin *p = module->plugin;
    print_head(p, text);
    print_contributions(p, text);
    if (p->params && p->params->name)
        weft_text_add(text, ".SH PARAMETERS\n");
    weft_params_describe_man(p->params, text);
    print_ops(p, text);
    weft_text_add(text, ".SH LICENCE\n");
    add(text, p->licence);
    weft_text_add(text, "\n");
    weft_text_add(text, ".SH SEE ALSO\n.BR weft (1)\n");
}
