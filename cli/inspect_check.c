/* SPDX-License-Identifier: Apache-2.0 */
/* What nobody minds when a plugin runs, since it never does anything: kernels that take no call,
 * passes of no mode, commands that cannot be called, values that a key does not have. */
#include "inspect_check.h"
#include "cli.h"

#include <stdio.h>
#include <string.h>

static void complain(weft_error *err, const weft_plugin *p, const char *format, ...)
    WEFT_PRINTF(3, 4);

static void complain(weft_error *err, const weft_plugin *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = weft_vformat(format, args);
    va_end(args);
    if (text)
        weft_fail(err, WEFT_ERR_PLUGIN, WEFT_NOWHERE, "plugin '%s': %s", p->name, text);
    else
        weft_fail_memory(err);
    weft_free(text);
}

/* ---- ops and kernels ---- */

/* By its rule; -1: any number, or it depends on the node. */
static int count_operands(const weft_op *op)
{
    const char *end = op->rule ? strstr(op->rule, "->") : NULL, *last = end;
    int n = 1;
    for (const char *c = op->rule; end && c < end; c++)
        n += *c == ',';
    while (last && last > op->rule && last[-1] == ' ')
        last--;
    return !end || (last - op->rule > 3 && strncmp(last - 3, "...", 3) == 0) ? -1 : n;
}

/* "eps, theta" */
static bool is_list(const char *names)
{
    char word[64];
    for (size_t n; *names; names += n + strspn(names + n, ",")) {
        names += strspn(names, " ");
        n = strcspn(names, ", ");
        if (n == 0 || n >= sizeof word ||
            (names[n] == ',' && (!names[n + 1] || names[n + 1] == ',')))
            return false;
        memcpy(word, names, n);
        word[n] = '\0';
        if (!weft_is_name(word, "_"))
            return false;
    }
    return true;
}

static void check_op(const weft_plugin *p, const weft_op *op, weft_error *err)
{
    const int n = count_operands(op);
    if (!weft_is_name(op->name, "_.-"))
        complain(err, p, "op '%s': a name is letters, digits and '_', a letter first", op->name);
    if (op->dtype_from < 0 || (n >= 0 && op->dtype_from >= n))
        complain(err, p, "op %s: dtype_from %d names an operand that index rule \"%s\" has not",
                 op->name, op->dtype_from, op->rule ? op->rule : "");
    if (op->attrs && !is_list(op->attrs))
        complain(err, p, "op %s: attrs \"%s\" are names with commas between, \"eps, theta\"",
                 op->name, op->attrs);
}

static void check_kernel(const weft_plugin *p, const weft_kernel *k, weft_error *err)
{
    const char *results = k->types ? strchr(k->types, '>') : NULL;
    if (k->types && (!results || strchr(results + 1, '>') || !results[1] ||
                     k->types[strspn(k->types, "hfinsq*>")]))
        complain(
            err, p,
            "kernel %s: types \"%s\": a letter of h f i n s q * for each operand, '>', and one "
            "for each result, as \"hi>h\"",
            k->name, k->types);
}

/* ---- contributions ---- */

static void check_service(const weft_plugin *p, const weft_contribution *c, weft_error *err)
{
    for (const weft_contribution *o = p->contributions; o != c; o++)
        if (o->kind == WEFT_SERVICE && strcmp(o->service, c->service) == 0)
            complain(err, p, "service '%s' is given twice; the second is never used", c->service);
}

static void check_contribution(const weft_plugin *p, const weft_contribution *c, weft_error *err)
{
    const unsigned modes = WEFT_IN_TRAIN | WEFT_IN_EVALUATE | WEFT_IN_GENERATE | WEFT_IN_DECODE;
    if (c->kind == WEFT_PASS && (c->modes & ~modes))
        complain(err, p, "a pass runs in the unknown modes 0x%x; expected some of 0x%x",
                 c->modes & ~modes, modes);
    if (c->kind == WEFT_REVIEW && (unsigned)c->stage >= WEFT_STAGES)
        complain(err, p, "a review has the unknown stage %d", (int)c->stage);
    if (c->kind == WEFT_AXIS && strlen(c->axis) >= sizeof((weft_axis *)0)->name)
        complain(err, p, "axis '%s': a name is at most %d characters long", c->axis,
                 (int)sizeof((weft_axis *)0)->name - 1);
    if (c->kind == WEFT_COMMAND && (weft_command_is_own(c->command->name) ||
                                    strcmp(weft_command_plugin(c->command->name), p->name) != 0))
        complain(err, p,
                 "command '%s' cannot be called: `weft %s` is not this plugin's; call it '%s'",
                 c->command->name, c->command->name, p->name);
    if (c->kind == WEFT_SERVICE)
        check_service(p, c, err);
}

/* ---- parameters ---- */

static bool is_word(const char *const *words, const char *word)
{
    for (int i = 0; words && words[i]; i++)
        if (strcmp(words[i], word) == 0)
            return true;
    return false;
}

static bool can_be(const weft_param *p, const char *word)
{
    static const char *const truths[] = {"yes", "no", "true", "false", "on", "off", "1", "0", NULL};
    double x;
    if (p->type == WEFT_PARAM_BOOL)
        return is_word(truths, word);
    if (p->type == WEFT_PARAM_CHOICE || is_word(p->choices, word))
        return is_word(p->choices, word);
    if (p->type != WEFT_PARAM_INT && p->type != WEFT_PARAM_REAL)
        return true;
    return weft_parse_number(word, &x) &&
           ((p->min == 0 && p->max == 0) || (x >= p->min && x <= p->max));
}

/* Values, or one word alone that says which. */
static void check_tune(const weft_plugin *p, const weft_param *param, weft_error *err)
{
    char word[64];
    if (strcmp(param->tune, "ranks") == 0 || strcmp(param->tune, "batch") == 0)
        return;
    for (const char *at = param->tune; *at; at += strspn(at, " ")) {
        const size_t n = strcspn(at, " ");
        snprintf(word, sizeof word, "%.*s", (int)n, at);
        if (!can_be(param, word))
            complain(err, p, "parameter '%s': tune names '%s', a value that it cannot have",
                     param->name, word);
        at += n;
    }
}

static void check_param(const weft_plugin *p, const weft_param *param, weft_error *err)
{
    const unsigned known = WEFT_PARAM_DEPTH * 2 - 1;
    if (param->flags & ~known)
        complain(err, p, "parameter '%s' has the unknown flags 0x%x; <weft/params.h> lists all",
                 param->name, param->flags & ~known);
    for (const char *at = param->refuses; at && *at; at += strspn(at, " ")) {
        const size_t n = strcspn(at, " ");
        if (!memchr(at, '.', n))
            complain(err, p,
                     "parameter '%s': refuses '%.*s'; keys are SECTION.KEY, as ckpt.initial",
                     param->name, (int)n, at);
        at += n;
    }
    if (param->tune)
        check_tune(p, param, err);
}

void weft_cli_inspect_check(const weft_plugin *p, weft_error *err)
{
    for (const weft_op *const *op = p->ops; op && *op; op++)
        check_op(p, *op, err);
    for (const weft_kernel *k = p->kernels; k && k->op; k++)
        check_kernel(p, k, err);
    for (const weft_contribution *c = p->contributions; c && c->kind != WEFT_END; c++)
        check_contribution(p, c, err);
    for (const weft_param *param = p->params; param && param->name; param++)
        check_param(p, param, err);
}
