/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin described from its descriptor alone, as text and as JSON. */
#include "console/describe.h"
#include "console/counts.h"
#include "host/host.h"

#include <string.h>

/* ---- words ---- */

const char *weft_kind_name(weft_kind kind)
{
    static const char *const names[] = {"end",     "pass", "service", "observer",
                                        "command", "wrap", "axis",    "review"};
    return (unsigned)kind < 8 ? names[kind] : "?";
}

const char *weft_param_type_name(weft_param_type type)
{
    static const char *const names[] = {"bool", "int", "real", "string", "path", "choice"};
    return (unsigned)type < 6 ? names[type] : "?";
}

static const char *numerics_name(weft_numerics numerics)
{
    static const char *const names[] = {"bitwise", "tolerance", "changes"};
    return (unsigned)numerics < 3 ? names[numerics] : "?";
}

/* ---- text ---- */

static void add_words(weft_text *text, const char *label, const char *const *words)
{
    if (!words || !words[0])
        return;
    weft_text_print(text, "; %s", label);
    for (int i = 0; words[i]; i++)
        weft_text_print(text, " %s", words[i]);
}

static void add_events(weft_text *text, unsigned events, bool json)
{
    bool first = true;
    const char *name;
    for (unsigned i = 0; (name = weft_event_name((weft_event)(1u << i))); i++) {
        if (!(events & 1u << i))
            continue;
        weft_text_print(text, json ? "%s\"%s\"" : "%s%s", first ? "" : json ? ", " : " ", name);
        first = false;
    }
}

static void describe_contributions(const weft_plugin *plugin, weft_text *text)
{
    const weft_contribution *k = plugin->contributions;
    if (!k || k->kind == WEFT_END)
        return;
    weft_text_add(text, "\ncontributions\n");
    for (; k->kind != WEFT_END; k++) {
        weft_text_print(text, "  %s", weft_kind_name(k->kind));
        if (k->kind == WEFT_PASS)
            weft_text_print(text, ", stage %s%s%s", weft_stage_name(k->stage),
                            k->after ? ", after " : "", k->after ? k->after : "");
        if (k->kind == WEFT_AXIS)
            weft_text_print(text, " %s, of %s ranks%s%s", k->axis, k->degree,
                            k->cuts ? ", cuts " : "", k->cuts ? k->cuts : "");
        if (k->kind == WEFT_SERVICE || k->kind == WEFT_WRAP)
            weft_text_print(text, k->kind == WEFT_WRAP ? " of %s" : " %s", k->service);
        if (k->kind == WEFT_OBSERVER) {
            weft_text_add(text, " of ");
            add_events(text, k->events, false);
        }
        if (k->kind == WEFT_COMMAND)
            weft_text_print(text, " weft %s: %s", k->command->name, k->command->summary);
        add_words(text, "needs", k->needs);
        add_words(text, "gives", k->gives);
        add_words(text, "refuses", k->refuses);
        weft_text_add(text, "\n");
    }
}

static bool is_bounded(const weft_param *q)
{
    return (q->type == WEFT_PARAM_INT || q->type == WEFT_PARAM_REAL) &&
           (q->min != 0 || q->max != 0);
}

static void describe_type(const weft_param *q, weft_text *text)
{
    weft_text_print(text, "%s%s", q->flags & WEFT_PARAM_LIST ? "list of " : "",
                    weft_param_type_name(q->type));
    if (is_bounded(q)) {
        weft_text_add(text, " from ");
        weft_text_add_real(text, q->min);
        weft_text_add(text, " to ");
        weft_text_add_real(text, q->max);
    }
    if (q->unit)
        weft_text_print(text, ", in %s", q->unit);
    for (int i = 0; q->choices && q->choices[i]; i++)
        weft_text_print(text, "%s%s",
                        i > 0                          ? ", "
                        : q->type == WEFT_PARAM_CHOICE ? ": "
                                                       : "; or ",
                        q->choices[i]);
    if (q->flags & WEFT_PARAM_PER_RANK)
        weft_text_add(text, "; may differ between ranks");
}

static void describe_param(const weft_param *q, weft_text *text)
{
    weft_text_print(text, "  %s", q->name);
    if (q->flags & WEFT_PARAM_REQUIRED)
        weft_text_add(text, " (required)");
    else if (q->value)
        weft_text_print(text, " = %s", q->value);
    else
        weft_text_add(text, " (not set)");
    weft_text_add(text, "\n      ");
    describe_type(q, text);
    if (q->when) {
        weft_text_add(text, "\n      where ");
        weft_when_print(q->when, text);
    }
    if (q->refuses)
        weft_text_print(text, "\n      excludes %s", q->refuses);
    weft_text_print(text, "\n      %s\n", q->help);
}

void weft_params_describe(const char *section, const weft_param *q, bool all, weft_text *text)
{
    int hidden = 0;
    if (!q || !q->name)
        return;
    weft_text_print(text, "parameters, section [%s]\n", section);
    for (; q->name; q++) {
        if ((q->flags & WEFT_PARAM_ADVANCED) && !all)
            hidden++;
        else
            describe_param(q, text);
    }
    if (hidden > 0)
        weft_text_print(text, "  and %d advanced: see --all\n", hidden);
}

void weft_op_flags_print(unsigned flags, weft_text *text)
{
    static const char *const names[] = {"half",   "half_weight", "inplace",     "stat",  "source",
                                        "max",    "matmul",      "accumulates", "add",   "cast",
                                        "gather", "parameter",   "state",       "input", "monotone",
                                        "rounds", "fetch",       "evict",       "pair"};
    _Static_assert((1u << sizeof names / sizeof names[0]) - 1 == WEFT_OP_FLAGS, "a flag is new");
    const char *blank = "";
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (flags & 1u << i) {
            weft_text_print(text, "%s%s", blank, names[i]);
            blank = " ";
        }
}

static void describe_ops(const weft_plugin *plugin, weft_text *text)
{
    if (plugin->ops && plugin->ops[0])
        weft_text_add(text, "\nops\n");
    for (int i = 0; plugin->ops && plugin->ops[i]; i++) {
        const weft_op *op = plugin->ops[i];
        weft_text_print(text, "  %s: %s%s%s\n", op->name, op->summary, op->rule ? "; rule " : "",
                        op->rule ? op->rule : "");
    }
    if (plugin->kernels && plugin->kernels->op)
        weft_text_add(text, "\nkernels\n");
    for (const weft_kernel *k = plugin->kernels; k && k->op; k++)
        weft_text_print(text, "  %s on %s: %s, priority %d%s\n", k->op, k->device, k->name,
                        k->priority, k->accumulates ? ", accumulates" : "");
}

void weft_plugin_describe(const weft_module *module, bool all, weft_text *text)
{
    static const char *const numerics[] = {"bitwise: listing it changes no bit of a run's numbers",
                                           "tolerance: numbers move by rounding only",
                                           "changes: other numbers by design"};
    const weft_plugin *p = module->plugin;
    weft_text_print(text, "%s %s: %s\n", p->name, p->version, p->summary);
    weft_text_print(text, "  licence   %s\n", p->licence);
    weft_text_print(text, "  file      %s\n", module->path ? module->path : "builtin");
    weft_text_print(text, "  abi       %u.%u\n", p->abi_major, p->abi_minor);
    weft_text_print(text, "  numerics  %s\n", numerics[p->numerics]);
    describe_contributions(p, text);
    if (p->params && p->params->name)
        weft_text_add(text, "\n");
    weft_params_describe(p->name, p->params, all, text);
    describe_ops(p, text);
}

/* ---- JSON ---- */

static void json_key(weft_text *text, const char *key)
{
    weft_text_print(text, ", \"%s\": ", key);
}

static void json_text(weft_text *text, const char *key, const char *value)
{
    json_key(text, key);
    if (value)
        weft_text_add_json(text, value);
    else
        weft_text_add(text, "null");
}

static void json_words(weft_text *text, const char *key, const char *const *words)
{
    json_key(text, key);
    weft_text_add(text, "[");
    for (int i = 0; words && words[i]; i++) {
        weft_text_add(text, i ? ", " : "");
        weft_text_add_json(text, words[i]);
    }
    weft_text_add(text, "]");
}

static void json_bool(weft_text *text, const char *key, bool value)
{
    json_key(text, key);
    weft_text_add(text, value ? "true" : "false");
}

static void json_contribution(const weft_contribution *k, weft_text *text)
{
    weft_text_print(text, "{\"kind\": \"%s\"", weft_kind_name(k->kind));
    if (k->kind == WEFT_PASS)
        json_text(text, "stage", weft_stage_name(k->stage));
    if (k->after)
        json_text(text, "after", k->after);
    if (k->kind == WEFT_AXIS) {
        json_text(text, "axis", k->axis);
        json_text(text, "degree", k->degree);
    }
    if (k->cuts)
        json_text(text, "cuts", k->cuts);
    if (k->kind == WEFT_SERVICE || k->kind == WEFT_WRAP)
        json_text(text, "service", k->service);
    if (k->kind == WEFT_OBSERVER) {
        json_key(text, "events");
        weft_text_add(text, "[");
        add_events(text, k->events, true);
        weft_text_add(text, "]");
    }
    if (k->kind == WEFT_COMMAND) {
        json_text(text, "command", k->command->name);
        json_text(text, "summary", k->command->summary);
    }
    json_words(text, "needs", k->needs);
    json_words(text, "gives", k->gives);
    json_words(text, "refuses", k->refuses);
    weft_text_add(text, "}");
}

static void json_param(const weft_param *q, weft_text *text)
{
    weft_text_add(text, "{\"name\": ");
    weft_text_add_json(text, q->name);
    json_text(text, "type", weft_param_type_name(q->type));
    json_bool(text, "list", q->flags & WEFT_PARAM_LIST);
    json_text(text, "default", q->value);
    if (is_bounded(q)) {
        weft_text_add(text, ", \"min\": ");
        weft_text_add_real(text, q->min);
        weft_text_add(text, ", \"max\": ");
        weft_text_add_real(text, q->max);
    }
    json_text(text, "unit", q->unit);
    json_words(text, "choices", q->choices);
    json_bool(text, "required", q->flags & WEFT_PARAM_REQUIRED);
    json_bool(text, "per_rank", q->flags & WEFT_PARAM_PER_RANK);
    json_bool(text, "advanced", q->flags & WEFT_PARAM_ADVANCED);
    json_text(text, "when", q->when);
    json_text(text, "refuses", q->refuses);
    json_text(text, "help", q->help);
    weft_text_add(text, "}");
}

static void json_op(const weft_op *op, weft_text *text)
{
    weft_text_add(text, "{\"name\": ");
    weft_text_add_json(text, op->name);
    json_text(text, "summary", op->summary);
    json_text(text, "family", op->family ? op->family : op->name);
    json_text(text, "rule", op->rule);
    json_text(text, "linear", op->linear);
    json_text(text, "attributes", op->attrs);
    json_words(text, "gradient", op->grad);
    json_text(text, "gradient_of", op->grad_of);
    json_text(text, "gradient_reads", op->grad_reads);
    weft_text_add(text, ", \"flags\": \"");
    weft_op_flags_print(op->flags, text);
    weft_text_add(text, "\"}");
}

static void json_kernel(const weft_kernel *k, weft_text *text)
{
    weft_text_add(text, "{\"op\": ");
    weft_text_add_json(text, k->op);
    json_text(text, "device", k->device);
    json_text(text, "name", k->name);
    weft_text_print(text, ", \"priority\": %d", k->priority);
    json_bool(text, "accumulates", k->accumulates);
    weft_text_add(text, "}");
}

void weft_plugin_describe_json(const weft_module *module, weft_text *text)
{
    const weft_plugin *p = module->plugin;
    weft_text_add(text, "{\"name\": ");
    weft_text_add_json(text, p->name);
    json_text(text, "version", p->version);
    json_text(text, "licence", p->licence);
    json_text(text, "summary", p->summary);
    json_text(text, "file", module->path);
    weft_text_print(text, ", \"abi\": \"%u.%u\"", p->abi_major, p->abi_minor);
    json_text(text, "numerics", numerics_name(p->numerics));
    weft_text_add(text, ",\n \"contributions\": [");
    for (const weft_contribution *k = p->contributions; k && k->kind != WEFT_END; k++) {
        weft_text_add(text, k == p->contributions ? "\n  " : ",\n  ");
        json_contribution(k, text);
    }
    weft_text_add(text, "],\n \"parameters\": [");
    for (const weft_param *q = p->params; q && q->name; q++) {
        weft_text_add(text, q == p->params ? "\n  " : ",\n  ");
        json_param(q, text);
    }
    weft_text_add(text, "],\n \"ops\": [");
    for (int i = 0; p->ops && p->ops[i]; i++) {
        weft_text_add(text, i == 0 ? "\n  " : ",\n  ");
        json_op(p->ops[i], text);
    }
    weft_text_add(text, "],\n \"kernels\": [");
    for (const weft_kernel *k = p->kernels; k && k->op; k++) {
        weft_text_add(text, k == p->kernels ? "\n  " : ",\n  ");
        json_kernel(k, text);
    }
    weft_text_add(text, "]}");
}
