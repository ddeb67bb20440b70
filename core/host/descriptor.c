/* SPDX-License-Identifier: Apache-2.0 */
/* What can be wrong with a plugin's descriptor, found before any of its code runs. */
#include "host/host.h"
#include "host/wrap.h"

#include <string.h>

/* What is being checked: every complaint begins alike. */
typedef struct check {
    const weft_plugin *plugin;
    const char *name, *path;
    weft_where where;
    weft_error *err;
    weft_status status;
    int complaints;
} check;

static void complain(check *c, const char *format, ...) WEFT_PRINTF(2, 3);

static void complain(check *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = weft_vformat(format, args);
    va_end(args);
    weft_status status = text ? weft_fail(c->err, WEFT_ERR_INPUT, c->where, "plugin '%s' (%s): %s",
                                          c->name, c->path ? c->path : "builtin", text)
                              : weft_fail_memory(c->err);
    c->status = c->status ? c->status : status;
    c->complaints++;
    weft_free(text);
}

/* ---- words ---- */

const char *weft_stage_name(weft_pass_stage stage)
{
    static const char *const names[WEFT_STAGES] = {"mesh",  "graph",  "table",  "placed",
                                                   "joint", "closed", "ordered"};
    return (unsigned)stage < WEFT_STAGES ? names[stage] : "?";
}

const char *weft_event_name(weft_event event)
{
    static const char *const names[] = {
        "start",  "step_begin", "step_end",          "evaluate",        "value",
        "stop",   "text",       "instruction_begin", "instruction_end", "instruction_times",
        "memory", "gradients",  "updated",           "not_finite"};
    unsigned i = 0;
    while (i < sizeof names / sizeof names[0] && (unsigned)event != 1u << i)
        i++;
    return i < sizeof names / sizeof names[0] ? names[i] : NULL;
}

static bool is_empty(const char *text)
{
    return !text || !text[0];
}

/* ---- head: until it fits, no other field means anything ---- */

/* Headers that have changed under one ABI number, as between two days of development. */
static void check_sizes(check *c)
{
    const weft_plugin *p = c->plugin;
    const struct {
        const char *of;
        size_t has, expected;
    } sizes[] = {{"a parameter", p->param_size, sizeof(weft_param)},
                 {"a contribution", p->contribution_size, sizeof(weft_contribution)},
                 {"an op", p->op_size, sizeof(weft_op)},
                 {"a kernel", p->kernel_size, sizeof(weft_kernel)}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].has != sizes[i].expected)
            complain(c,
                     "built with headers in which %s has %zu bytes; here it has %zu; build it "
                     "again with this weft's headers",
                     sizes[i].of, sizes[i].has, sizes[i].expected);
    if (!c->complaints && p->service_sizes != WEFT_SERVICE_SIZES)
        complain(c, "built with headers in which a service, a view or a value has another size; "
                    "build it again with this weft's headers");
}

/* What an author of a plugin is to do. */
#define AGAIN                                                                                      \
    "build it again with this weft's headers; docs/writing-plugins.md lists what has changed"

static void check_head(check *c)
{
    const weft_plugin *p = c->plugin;
    if (p->magic != WEFT_PLUGIN_MAGIC) {
        complain(
            c, "its descriptor's magic is 0x%08x, expected 0x%08x; begin it with WEFT_PLUGIN_HEAD",
            p->magic, WEFT_PLUGIN_MAGIC);
        return;
    }
    if (p->abi_major != WEFT_ABI_MAJOR)
        complain(c, "built for ABI major %u, expected %d; " AGAIN, p->abi_major, WEFT_ABI_MAJOR);
    if (p->abi_minor != WEFT_ABI_MINOR)
        complain(c, "built for ABI minor %u, expected %d (0.x loads exact matches only); " AGAIN,
                 p->abi_minor, WEFT_ABI_MINOR);
    if (c->complaints)
        return; /* sizes differ, too */
    if (p->size != sizeof(weft_plugin))
        complain(
            c, "its descriptor has %u bytes, expected %zu; build it again with this weft's headers",
            p->size, sizeof(weft_plugin));
    if (!c->complaints)
        check_sizes(c);
}

static void check_identity(check *c)
{
    const weft_plugin *p = c->plugin;
    if (is_empty(p->name))
        complain(c, "its descriptor has no name; expected '%s'", c->name);
    else if (strcmp(p->name, c->name) != 0)
        complain(c, "its descriptor says '%s', its file name '%s'; both must be equal", p->name,
                 c->name);
    if (is_empty(p->version))
        complain(c, "its descriptor has no version");
    if (is_empty(p->licence))
        complain(c, "its descriptor has no licence");
    if (is_empty(p->summary))
        complain(c, "its descriptor has no summary");
    if ((unsigned)p->numerics > WEFT_NUMERICS_CHANGES)
        complain(c, "numerics is %d; expected bitwise, tolerance or changes", (int)p->numerics);
}

/* ---- parameters ---- */

/* Fields lie in the plugin's own struct, behind the host; words of INT and REAL are told from
 * numbers. */
static void check_field(check *c, const weft_param *q)
{
    const size_t size = c->plugin->self_size;
    if (q->field == 0)
        return;
    if (q->field < sizeof(void *) || q->field >= size || q->flags & WEFT_PARAM_LIST)
        complain(c,
                 "parameter '%s' has a field, but %s; leave the field out, or set self_size = "
                 "WEFT_SELF(struct)",
                 q->name,
                 q->flags & WEFT_PARAM_LIST ? "is a list" : "not inside the plugin's struct");
    if ((q->type == WEFT_PARAM_INT || q->type == WEFT_PARAM_REAL) && q->choices && q->min < 0)
        complain(c, "parameter '%s' has words and numbers below 0, which are alike in a field",
                 q->name);
}

/* Each word begins with a key of the same table. */
static void check_when(check *c, const weft_param *q)
{
    for (const char *w = q->when; w && *w; w += strcspn(w, " "), w += strspn(w, " ")) {
        const weft_param *p = c->plugin->params;
        const int n = (int)strcspn(w, "!= ");
        while (p->name && (strncmp(p->name, w, (size_t)n) != 0 || p->name[n]))
            p++;
        if (!p->name)
            complain(c, "parameter '%s' counts by '%.*s', which is none", q->name, n, w);
    }
}

static void check_param(check *c, const weft_param *q)
{
    const weft_param *table = c->plugin->params;
    if (!weft_is_name(q->name, "_")) {
        complain(c, "parameter '%s': a name is letters, digits and '_', a letter first", q->name);
        return;
    }
    for (const weft_param *other = table; other < q; other++)
        if (strcmp(other->name, q->name) == 0)
            complain(c, "parameter '%s' is declared twice", q->name);
    if ((unsigned)q->type > WEFT_PARAM_CHOICE)
        complain(c, "parameter '%s' has the unknown type %d", q->name, (int)q->type);
    if (is_empty(q->help))
        complain(c, "parameter '%s' has no help", q->name);
    if (q->type == WEFT_PARAM_CHOICE && (!q->choices || !q->choices[0]))
        complain(c, "parameter '%s' is a choice of nothing", q->name);
    if (!(q->min <= q->max))
        complain(c, "parameter '%s' has minimum %g above maximum %g", q->name, q->min, q->max);
    check_field(c, q);
    check_when(c, q);
    if ((q->flags & WEFT_PARAM_REQUIRED) && q->value)
        complain(c, "parameter '%s' is required, so its default '%s' can never be used", q->name,
                 q->value);
}

/* Parses the defaults as if the user had written them: a table must obey its own types, ranges and
 * choices. */
static void check_defaults(check *c, const weft_param *table, int n)
{
    weft_text ini = {0}, source = {0};
    weft_settings *settings = NULL;
    weft_error errors = {0};
    const weft_params *params;
    weft_param *copy = weft_alloc_zero((size_t)n + 1, sizeof *copy);
    weft_text_print(&ini, "[%s]\n", c->name);
    for (int i = 0; copy && i < n; i++) {
        copy[i] = table[i];
        copy[i].flags &= ~(unsigned)WEFT_PARAM_REQUIRED;
        if (table[i].value)
            weft_text_print(&ini, "%s = %s\n", table[i].name, table[i].value);
    }
    weft_text_print(&source, "plugin '%s' (%s), its defaults", c->name,
                    c->path ? c->path : "builtin");
    if (!copy || ini.out_of_memory || source.out_of_memory) {
        c->status = weft_fail_memory(c->err);
        goto done;
    }
    weft_status status = weft_settings_read_text(weft_text_get(&source), weft_text_get(&ini),
                                                 ini.size, &settings, &errors);
    if (status == WEFT_OK)
        status = weft_settings_section(settings, c->name, copy, &params, &errors);
    weft_error_move(c->err, &errors, WEFT_OK, c->where, "%s", "");
    c->status = c->status ? c->status : status;
done:
    weft_settings_destroy(settings);
    weft_error_release(&errors);
    weft_text_release(&ini);
    weft_text_release(&source);
    weft_free(copy);
}

static void check_params(check *c)
{
    const weft_param *table = c->plugin->params;
    int before = c->complaints;
    int n = 0;
    for (; table && table[n].name; n++)
        check_param(c, &table[n]);
    if (n > 0 && c->complaints == before)
        check_defaults(c, table, n);
}

/* ---- contributions ---- */

static void check_capabilities(check *c, const char *list_name, const char *const *list,
                               bool may_be_optional)
{
    for (int i = 0; list && list[i]; i++) {
        size_t n = may_be_optional ? strcspn(list[i], " ") : strlen(list[i]);
        if (n > 0 && list[i][n - 1] == '?' && may_be_optional)
            n--;
        if (n == 0 || strcspn(list[i], "? \t\n") < n)
            complain(c, "'%s' in %s is not a capability%s", list[i], list_name,
                     may_be_optional ? "" : " (only needs and after may end with '?')");
    }
}

static void check_pass(check *c, const weft_contribution *k)
{
    if ((unsigned)k->stage >= WEFT_STAGES)
        complain(c,
                 "a pass has the unknown stage %d; stages are mesh, graph, table, placed, joint, "
                 "closed and ordered",
                 (int)k->stage);
    else if (!(k->stage == WEFT_STAGE_MESH ? k->mesh != NULL : k->graph != NULL))
        complain(c, "a pass of stage %s has no function for it", weft_stage_name(k->stage));
}

static void check_axis(check *c, const weft_contribution *k)
{
    const weft_param *p = c->plugin->params;
    while (p && p->name && (is_empty(k->degree) || strcmp(p->name, k->degree) != 0))
        p++;
    if (is_empty(k->axis))
        complain(c, "an axis has no name");
    else if (!p || !p->name || p->type != WEFT_PARAM_INT)
        complain(c,
                 "the degree of axis '%s' is said by parameter '%s', which the plugin does not "
                 "have as an integer",
                 k->axis, k->degree ? k->degree : "");
}

/* Tables begin with their size. Another than this weft's is another type, or another weft. */
static void check_size(check *c, const weft_service_kind *kind, const void *table)
{
    size_t size = *(const size_t *)table;
    if (size == kind->size)
        return;
    if (size == 0)
        complain(c, "service '%s': its table's size is 0; set .size = sizeof(%s)", kind->name,
                 kind->type);
    else
        complain(c,
                 "service '%s': its table has size %zu, %s than expected, %zu; .size is "
                 "sizeof(%s) of this weft's headers",
                 kind->name, size, size < kind->size ? "smaller" : "larger", kind->size,
                 kind->type);
}

static void check_service(check *c, const weft_contribution *k)
{
    if (is_empty(k->service)) {
        complain(c, "a service has no name");
        return;
    }
    if (!k->table) {
        complain(c, "service '%s' has no table", k->service);
        return;
    }
    const weft_service_kind *kind = weft_service_kind_find(k->service);
    if (kind)
        check_size(c, kind, k->table);
    const weft_device *device = strcmp(k->service, "device") == 0 ? k->table : NULL;
    if (device && device->size == sizeof *device && is_empty(device->name))
        complain(c, "a device has no name, which kernels name it by");
}

static void check_wrap(check *c, const weft_contribution *k)
{
    char buffer[64];
    bool optional;
    if (is_empty(k->service)) {
        complain(c, "a wrap does not name the service that it stands around");
        return;
    }
    const char *service = weft_plain_capability(k->service, buffer, &optional);
    const weft_service_kind *kind = weft_service_kind_find(service);
    if (!k->table)
        complain(c, "the wrap of '%s' has no table", service);
    if (!k->wrap)
        complain(c, "the wrap of '%s' has no function `wrap`, so it is never told what it wraps",
                 service);
    if (kind && !kind->forward)
        complain(c, "service '%s' cannot be wrapped: its functions have no instance", service);
    else if (kind && k->table)
        check_size(c, kind, k->table);
    for (const weft_contribution *other = c->plugin->contributions; other < k; other++)
        if (other->kind == WEFT_WRAP && !is_empty(other->service) &&
            strcmp(weft_plain_capability(other->service, (char[64]){0}, &optional), service) == 0)
            complain(c, "it wraps '%s' twice", service);
}

static void check_observer(check *c, const weft_contribution *k)
{
    const unsigned all = 2u * WEFT_EVENT_NOT_FINITE - 1; /* the last */
    if (!k->observe)
        complain(c, "an observer has no function");
    if (k->events == 0 || (k->events & ~all))
        complain(c, "an observer asks for events 0x%x; expected some of 0x%x", k->events, all);
}

static void check_command(check *c, const weft_contribution *k)
{
    const weft_command *command = k->command;
    if (!command) {
        complain(c, "a command is missing");
        return;
    }
    if (!weft_is_name(command->name, "_-")) {
        complain(c,
                 "a command is called '%s'; a name is letters, digits, '-' and '_', a letter first",
                 command->name ? command->name : "");
        return;
    }
    for (const weft_contribution *other = c->plugin->contributions; other < k; other++)
        if (other->kind == WEFT_COMMAND && other->command && other->command->name &&
            strcmp(other->command->name, command->name) == 0)
            complain(c, "command '%s' is given twice", command->name);
    if (is_empty(command->summary) || strchr(command->summary, '\n'))
        complain(c, "command '%s' needs a summary of one line", command->name);
    if (is_empty(command->usage) || command->usage[strlen(command->usage) - 1] != '\n')
        complain(c, "command '%s' needs a usage of whole lines, for --help", command->name);
    if (!command->run)
        complain(c, "command '%s' has no function", command->name);
}

static void check_contributions(check *c)
{
    char buffer[64];
    bool optional;
    for (const weft_contribution *k = c->plugin->contributions; k && k->kind != WEFT_END; k++) {
        switch (k->kind) {
        case WEFT_PASS:
            check_pass(c, k);
            break;
        case WEFT_SERVICE:
            check_service(c, k);
            break;
        case WEFT_OBSERVER:
            check_observer(c, k);
            break;
        case WEFT_COMMAND:
            check_command(c, k);
            break;
        case WEFT_WRAP:
            check_wrap(c, k);
            break;
        case WEFT_AXIS:
            check_axis(c, k);
            break;
        case WEFT_REVIEW:
            if (!k->review)
                complain(c, "a review has no function");
            break;
        default:
            complain(c,
                     "a contribution has kind %d; expected a pass, axis, service, wrap, observer, "
                     "review or command, and an empty entry at the end",
                     (int)k->kind);
            return; /* the table's end is missing: what follows is not ours to read */
        }
        if (k->after && k->kind != WEFT_PASS)
            complain(c, "a contribution that is not a pass says after '%s'; only passes wait",
                     k->after);
        const char *list = k->after;
        for (const char *word; (word = weft_next_after(&list, buffer, &optional));)
            check_capabilities(c, "after", (const char *const[]){word, NULL}, false);
        check_capabilities(c, "needs", k->needs, true);
        check_capabilities(c, "gives", k->gives, false);
        check_capabilities(c, "refuses", k->refuses, false);
    }
}

/* ---- ops and kernels ---- */

static void check_flags(check *c, const weft_op *op)
{
    const unsigned own =
        WEFT_OP_PARAMETER | WEFT_OP_STATE | WEFT_OP_INPUT | WEFT_OP_FETCH | WEFT_OP_EVICT;
    if (op->flags & ~(unsigned)WEFT_OP_FLAGS)
        complain(c, "op '%s' has the unknown flags 0x%x; <weft/op.h> lists all", op->name,
                 op->flags & ~(unsigned)WEFT_OP_FLAGS);
    if (op->flags & own)
        complain(c,
                 "op '%s' has a flag of weft's own: of parameters, states and inputs, added by "
                 "weft_add_parameter, weft_add_state, weft_add_input, or of far memory, used by "
                 "weft_put_far",
                 op->name);
    if (op->family && !op->family[0])
        complain(c, "op '%s' is of family ''; NULL means its name", op->name);
}

static void check_op(check *c, int i)
{
    const weft_op *op = c->plugin->ops[i];
    if (is_empty(op->name)) {
        complain(c, "op %d has no name", i);
        return;
    }
    for (int j = 0; j < i; j++)
        if (!is_empty(c->plugin->ops[j]->name) && strcmp(c->plugin->ops[j]->name, op->name) == 0)
            complain(c, "op '%s' is declared twice", op->name);
    if (is_empty(op->summary))
        complain(c, "op '%s' has no summary", op->name);
    check_flags(c, op);
    if (op->flags & WEFT_OP_SOURCE)
        return;
    if (op->grad && op->grad[0] && op->differentiate)
        complain(c, "op '%s' says its gradient twice, in grad and in differentiate; leave one out",
                 op->name);
    if (!op->differentiate && (op->grad_of || op->grad_reads))
        complain(c, "op '%s' has grad_of or grad_reads, but no differentiate", op->name);
    if (op->differentiate && is_empty(op->grad_of))
        complain(c,
                 "op '%s' has differentiate, but does not say for which operands; set grad_of, as "
                 "\"0 1\" or \"all\"",
                 op->name);
    if (!op->rule && !op->make_rule)
        complain(c, "op '%s' has neither rule nor make_rule", op->name);
    if (!op->plain)
        complain(c, "op '%s' has no plain kernel; every op needs one, in plain C", op->name);
}

static void check_kernel(check *c, const weft_kernel *k)
{
    if (is_empty(k->op) || is_empty(k->device) || is_empty(k->name)) {
        complain(c, "a kernel (op '%s', device '%s', name '%s') lacks one of the three", k->op,
                 k->device ? k->device : "", k->name ? k->name : "");
        return;
    }
    if (!k->launch)
        complain(c, "kernel '%s' of op '%s' has no launch", k->name, k->op);
    if (k->priority <= 0)
        complain(c,
                 "kernel '%s' of op '%s' has priority %d; it must be above 0, the plain kernel's",
                 k->name, k->op, k->priority);
}

weft_status weft_descriptor_check(const weft_plugin *plugin, const char *name, const char *path,
                                  weft_where where, weft_error *err)
{
    check c = {plugin, name, path, where, err, WEFT_OK, 0};
    check_head(&c);
    if (c.status != WEFT_OK)
        return c.status;
    check_identity(&c);
    check_params(&c);
    check_contributions(&c);
    for (int i = 0; plugin->ops && plugin->ops[i]; i++)
        check_op(&c, i);
    for (const weft_kernel *k = plugin->kernels; k && k->op; k++)
        check_kernel(&c, k);
    return c.status;
}
