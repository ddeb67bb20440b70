/* SPDX-License-Identifier: Apache-2.0 */
/* weft inspect NAME ...: everything a plugin's descriptor says. Touches no hardware: no hook of the
 * plugin is called. */
#include "cli.h"
#include "ops.h"

#include "compile/driver/plan.h"

typedef struct wish {
    bool json, all, man;
    int i, n;
} wish;

/* What a run would say of its ops' texts, listed alone. */
static void check_ops(const weft_plugin *plugin, weft_error *err)
{
    weft_ops ops = {0};
    if (weft_ops_init(&ops, &plugin->ops, &plugin->name, 1, err) == WEFT_OK)
        weft_plan_check_ops(&ops, plugin, WEFT_NOWHERE, err);
    weft_ops_release(&ops);
}

static void inspect_one(void *self, const weft_module *module, weft_text *text, weft_error *err)
{
    const wish *w = self;
    check_ops(module->plugin, err);
    if (w->man) {
        weft_plugin_describe_man(module, text);
        return;
    }
    if (!w->json) {
        weft_text_add(text, w->i ? "\n" : "");
        weft_plugin_describe(module, w->all, text);
        return;
    }
    weft_text_add(text, w->n == 1 ? "" : w->i ? ",\n" : "[");
    weft_plugin_describe_json(module, text);
    weft_text_add(text, w->i < w->n - 1 ? "" : w->n == 1 ? "\n" : "]\n");
}

static void inspect_all(weft_search *search, const weft_cli_options *options, const wish *how,
                        weft_text *text, weft_error *err)
{
    if (options->n_arguments == 0)
        weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                  "NAME ... is missing; see weft inspect --help");
    for (int i = 0; i < options->n_arguments; i++) {
        wish w = *how;
        w.i = i;
        w.n = options->n_arguments;
        weft_cli_probe(search, options->arguments[i], inspect_one, &w, text, err);
    }
}

/* What the named plugins bring, of the core's ops those that they have kernels for; with no name,
 * all that there is. */
static void list_ops(weft_search *search, const weft_cli_options *options, weft_op_form form,
                     weft_text *text, weft_error *err)
{
    weft_op_table table = {.all = options->n_arguments == 0};
    const char *const *names = options->arguments;
    weft_status s = weft_op_table_add_core(&table, err);
    if (table.all && !(names = weft_search_names(search)))
        s = weft_fail_memory(err);
    for (int i = 0; !s && (table.all ? names[i] != NULL : i < options->n_arguments); i++)
        s = weft_op_table_add(&table, search, names[i], err);
    if (!s)
        weft_op_table_print(&table, form, text);
    weft_op_table_release(&table);
}

int weft_cmd_inspect(int argc, char **argv)
{
    bool json = false, all = false, ops = false, markdown = false, man = false;
    const weft_option extra[] = {
        {.name = "json",
         .help = "print JSON: one object, or an array for several names",
         .flag = &json},
        {.name = "all",
         .help = "show advanced parameters too (JSON always has them)",
         .flag = &all},
        {.name = "ops",
         .help = "print the table of their ops; without a name: of all ops",
         .flag = &ops},
        {.name = "man", .help = "print a page for man, section 7, of each", .flag = &man},
        {.name = "markdown", .help = "with --ops: as a table of Markdown", .flag = &markdown},
        {0}};
    const weft_cli_usage usage = {
        .command = "inspect",
        .arguments = "[NAME ...]",
        .max_arguments = -1,
        .summary = "Describe plugins: parameters, contributions, capabilities, ops, kernels.",
        .accepts = WEFT_CLI_OPTIONAL,
        .extra = extra};
    weft_cli_options options = {0};
    weft_error err = {0};
    weft_search *search = NULL;
    weft_text text = {0};
    int code = weft_cli_parse(&usage, argc, argv, &options);
    if (code != WEFT_CLI_GO)
        goto done;
    const wish how = {.json = json, .all = all, .man = man};
    weft_op_form form = json ? WEFT_OPS_JSON : markdown ? WEFT_OPS_MARKDOWN : WEFT_OPS_TEXT;
    bool opened = weft_search_create(NULL, &search, &err) == WEFT_OK;
    if (opened && ops)
        list_ops(search, &options, form, &text, &err);
    else if (opened)
        inspect_all(search, &options, &how, &text, &err);
    /* With a wrong name JSON would be torn: nothing is printed then. */
    code = weft_cli_report(&err);
    if (code == 0)
        code = weft_cli_print(&text);
done:
    weft_text_release(&text);
    weft_search_destroy(search);
    weft_error_release(&err);
    weft_cli_options_release(&options);
    return code;
}
