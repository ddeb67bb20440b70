/* SPDX-License-Identifier: Apache-2.0 */
/* weft inspect --ops. A plugin's process sends its ops and kernels as lines of fields, which are
 * put together here: kernels may be of another plugin than their op. */
#include "ops.h"

#include "cli.h"
#include "compile/driver/plan.h"
#include "console/describe.h"

#include <string.h>

enum { N_FIELDS = 11, MOST_TABLES = 8 };

/* ---- of a plugin and of what nobody needs to list ---- */

static weft_status add_defaults(const weft_params *weft, weft_search *search,
                                const weft_plugin *plugin, const weft_op *const **tables,
                                const char **names, int *n, weft_error *err)
{
    weft_default d;
    weft_status s = WEFT_OK;
    for (int i = 0; !s && *n < MOST_TABLES && weft_default_get(weft, i, &d); i++) {
        weft_module m;
        if (d.service[0] || (plugin && strcmp(plugin->name, d.name) == 0))
            continue;
        s = weft_module_open(search, d.name, d.where, &m, err);
        if (s)
            break;
        tables[*n] = m.plugin->ops;
        names[(*n)++] = m.plugin->name;
    }
    return s;
}

weft_status weft_cli_ops_init(weft_ops *ops, weft_search *search, const weft_plugin *plugin,
                              weft_error *err)
{
    const weft_op *const *tables[MOST_TABLES] = {plugin ? plugin->ops : NULL};
    const char *names[MOST_TABLES] = {plugin ? plugin->name : NULL};
    int n = 1;
    weft_settings *settings = NULL;
    const weft_params *weft = NULL;
    memset(ops, 0, sizeof *ops);
    weft_status s = weft_cli_built_in(&settings, &weft, err);
    s = s ? s : add_defaults(weft, search, plugin, tables, names, &n, err);
    s = s ? s : weft_ops_init(ops, tables, names, n, err);
    weft_settings_destroy(settings);
    return s;
}

/* ---- lines ---- */

/* A field: whatever would end it is a blank. */
static void add_field(weft_text *text, const char *field)
{
    for (const char *p = field ? field : ""; *p; p++)
        weft_text_add_bytes(text, *p == '\t' || *p == '\n' ? " " : p, 1);
    weft_text_add(text, "\t");
}

static void add_op(const weft_op *op, const char *owner, weft_text *text)
{
    weft_text_add(text, "op\t");
    add_field(text, op->name);
    add_field(text, owner);
    add_field(text, op->summary);
    add_field(text, op->make_rule ? "of each use" : op->rule);
    add_field(text, op->linear);
    for (const char *const *g = op->grad; g && *g; g++)
        weft_text_print(text, "%s%s", g == op->grad ? "" : "; ", *g);
    if (op->differentiate)
        weft_text_print(text, "a function: for %s; reads %s", op->grad_of ? op->grad_of : "none",
                        op->grad_reads ? op->grad_reads : "gradients alone");
    weft_text_add(text, "\t");
    weft_op_flags_print(op->flags, text);
    weft_text_add(text, "\t");
    add_field(text, op->family);
    add_field(text, op->attrs);
    add_field(text, op->pattern);
    weft_text_add(text, "\n");
}

static void add_ops(void *self, const weft_module *module, weft_text *text, weft_error *err)
{
    (void)self;
    (void)err;
    const weft_plugin *p = module->plugin;
    for (const weft_op *const *op = p->ops; op && *op; op++)
        add_op(*op, p->name, text);
    for (const weft_kernel *k = p->kernels; k && k->op; k++) {
        weft_text_add(text, "kernel\t");
        add_field(text, k->op);
        add_field(text, p->name);
        add_field(text, k->device);
        add_field(text, k->name);
        weft_text_add(text, "\n");
    }
}

/* ---- the table ---- */

static bool grow(void **list, int n, int *capacity, size_t size)
{
    if (n < *capacity)
        return true;
    int more = *capacity ? 2 * *capacity : 64;
    void *longer = weft_realloc(*list, (size_t)more * size);
    if (!longer)
        return false;
    *list = longer;
    *capacity = more;
    return true;
}

/* Cuts the line at its tabs; fields that are missing are empty. */
static void split(char *line, const char *fields[N_FIELDS])
{
    for (int i = 0; i < N_FIELDS; i++) {
        fields[i] = line;
        line += strcspn(line, "\t");
        if (*line)
            *line++ = '\0';
    }
}

static weft_status take_line(weft_op_table *t, char *line, weft_error *err)
{
    const char *f[N_FIELDS];
    split(line, f);
    if (strcmp(f[0], "op") == 0) {
        if (!grow((void **)&t->ops, t->n_ops, &t->ops_capacity, sizeof *t->ops))
            return weft_fail_memory(err);
        t->ops[t->n_ops++] =
            (weft_op_row){f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8], f[9], f[10]};
    } else {
        if (!grow((void **)&t->kernels, t->n_kernels, &t->kernels_capacity, sizeof *t->kernels))
            return weft_fail_memory(err);
        t->kernels[t->n_kernels++] = (weft_kernel_row){f[1], f[2], f[3], f[4]};
    }
    return WEFT_OK;
}

static weft_status take_lines(weft_op_table *t, const weft_text *text, weft_error *err)
{
    char *line = weft_pool_strdup(&t->pool, weft_text_get(text));
    weft_status s = line && !text->out_of_memory ? WEFT_OK : weft_fail_memory(err);
    while (!s && *line) {
        char *next = line + strcspn(line, "\n");
        if (*next)
            *next++ = '\0';
        s = take_line(t, line, err);
        line = next;
    }
    return s;
}

weft_status weft_op_table_add_core(weft_op_table *t, weft_error *err)
{
    weft_text text = {0};
    for (const weft_op *const *op = weft_core_ops(); *op; op++)
        add_op(*op, "core", &text);
    weft_status s = take_lines(t, &text, err);
    weft_text_release(&text);
    return s;
}

weft_status weft_op_table_add(weft_op_table *t, weft_search *search, const char *name,
                              weft_error *err)
{
    weft_text text = {0};
    weft_status s = weft_cli_probe(search, name, add_ops, NULL, &text, err);
    s = s ? s : take_lines(t, &text, err);
    weft_text_release(&text);
    return s;
}

void weft_op_table_release(weft_op_table *t)
{
    weft_free(t->ops);
    weft_free(t->kernels);
    weft_pool_release(&t->pool);
    memset(t, 0, sizeof *t);
}

/* ---- shown ---- */

/* Kernels of an op as "cpu linear_onednn", by `between`; those of another plugin than the device's
 * say whose they are. */
static void add_kernels(const weft_op_table *t, const char *op, const char *between,
                        weft_text *text)
{
    const char *before = "";
    for (int i = 0; i < t->n_kernels; i++) {
        const weft_kernel_row *k = &t->kernels[i];
        if (strcmp(k->op, op) != 0)
            continue;
        weft_text_print(text, "%s%s: %s", before, k->device, k->name);
        if (strcmp(k->owner, k->device) != 0)
            weft_text_print(text, " (%s)", k->owner);
        before = between;
    }
}

static void print_line(weft_text *text, const char *label, const char *value)
{
    if (*value)
        weft_text_print(text, "    %-10s %s\n", label, value);
}

static void print_row(const weft_op_table *t, const weft_op_row *op, weft_text *text)
{
    weft_text kernels = {0};
    weft_text_print(text, "%s (%s): %s\n", op->name, op->owner, op->summary);
    print_line(text, "rule", op->rule);
    print_line(text, "linear", op->linear);
    print_line(text, "gradient", op->gradient);
    print_line(text, "flags", op->flags);
    print_line(text, "family", op->family);
    print_line(text, "attributes", op->attrs);
    print_line(text, "pattern", op->pattern);
    add_kernels(t, op->name, ", ", &kernels);
    print_line(text, "kernels", weft_text_get(&kernels));
    text->out_of_memory = text->out_of_memory || kernels.out_of_memory;
    weft_text_release(&kernels);
}

static void json_row(const weft_op_table *t, const weft_op_row *op, weft_text *text)
{
    const char *const pairs[][2] = {
        {"name", op->name},       {"plugin", op->owner},  {"summary", op->summary},
        {"rule", op->rule},       {"linear", op->linear}, {"gradient", op->gradient},
        {"flags", op->flags},     {"family", op->family}, {"attributes", op->attrs},
        {"pattern", op->pattern},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        weft_text_print(text, "%s\"%s\": ", i ? ", " : "{", pairs[i][0]);
        weft_text_add_json(text, pairs[i][1]);
    }
    weft_text_add(text, ", \"kernels\": [");
    const char *before = "";
    for (int i = 0; i < t->n_kernels; i++) {
        const weft_kernel_row *k = &t->kernels[i];
        if (strcmp(k->op, op->name) != 0)
            continue;
        weft_text_print(text, "%s{\"device\": ", before);
        weft_text_add_json(text, k->device);
        weft_text_add(text, ", \"name\": ");
        weft_text_add_json(text, k->name);
        weft_text_add(text, ", \"plugin\": ");
        weft_text_add_json(text, k->owner);
        weft_text_add(text, "}");
        before = ", ";
    }
    weft_text_add(text, "]}");
}

/* A cell; a bar would end it. */
static void add_cell(weft_text *text, const char *mark, const char *value)
{
    weft_text_add(text, *value ? mark : "");
    for (const char *p = value; *p; p++) {
        if (*p == '|')
            weft_text_add(text, "\\");
        weft_text_add_bytes(text, p, 1);
    }
    weft_text_print(text, "%s | ", *value ? mark : "");
}

static void markdown_row(const weft_op_table *t, const weft_op_row *op, weft_text *text)
{
    weft_text kernels = {0};
    add_kernels(t, op->name, ", ", &kernels);
    weft_text_add(text, "| ");
    add_cell(text, "`", op->name);
    add_cell(text, "", op->owner);
    add_cell(text, "", op->summary);
    add_cell(text, strcmp(op->rule, "of each use") ? "`" : "", op->rule);
    add_cell(text, "", op->linear);
    add_cell(text, "`", op->gradient);
    add_cell(text, "", op->flags);
    add_cell(text, "", op->family);
    add_cell(text, "", op->attrs);
    add_cell(text, "`", op->pattern);
    add_cell(text, "", weft_text_get(&kernels));
    text->size--; /* the blank behind the last bar */
    text->data[text->size] = '\0';
    weft_text_add(text, "\n");
    text->out_of_memory = text->out_of_memory || kernels.out_of_memory;
    weft_text_release(&kernels);
}

static bool has_kernel(const weft_op_table *t, const char *op)
{
    for (int i = 0; i < t->n_kernels; i++)
        if (strcmp(t->kernels[i].op, op) == 0)
            return true;
    return false;
}

void weft_op_table_print(const weft_op_table *t, weft_op_form form, weft_text *text)
{
    if (form == WEFT_OPS_MARKDOWN)
        weft_text_add(text, "| op | of | what it computes | operands -> results | linear in | "
                            "gradient | flags | family | attributes | pattern | kernels |\n"
                            "|---|---|---|---|---|---|---|---|---|---|---|\n");
    const char *before = "[";
    for (int i = 0; i < t->n_ops && !text->out_of_memory; i++) {
        if (i < t->n_known && !has_kernel(t, t->ops[i].name))
            continue;
        if (form == WEFT_OPS_MARKDOWN) {
            markdown_row(t, &t->ops[i], text);
        } else if (form == WEFT_OPS_JSON) {
            weft_text_add(text, before);
            before = ",\n";
            json_row(t, &t->ops[i], text);
        } else {
            print_row(t, &t->ops[i], text);
        }
    }
    if (form == WEFT_OPS_JSON)
        weft_text_add(text, *before == ',' ? "]\n" : "[]\n");
}
