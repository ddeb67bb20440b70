/* SPDX-License-Identifier: Apache-2.0 */
/* weft inspect NAME ...: everything a plugin's descriptor says. Touches no hardware: no hook of the
 * plugin is called. */
#include "cli.h"
#include "inspect_check.h"
#include "ops.h"

#include "compile/driver/plan.h"
#include "console/describe.h"
#include "kit/pattern.h"

#include <string.h>

typedef struct wish {
    weft_search *search;
    bool json, all, man;
    int i, n;
} wish;

/* What a run would say of its ops' texts, where nothing else is listed. */
static void check_ops(weft_search *search, const weft_plugin *plugin, weft_error *err)
{
    weft_ops ops = {0};
    const weft_op *const *op = plugin->ops;
    if (weft_cli_ops_init(&ops, search, plugin, err) == WEFT_OK)
        weft_plan_check_ops(&ops, plugin, WEFT_NOWHERE, err);
    weft_error why = {0};
    for (weft_pattern pattern; op && *op; op++)
        if ((*op)->pattern)
            weft_pattern_read(&ops, *op, &pattern, &why);
    weft_error_move(err, &why, WEFT_OK, WEFT_NOWHERE, "plugin '%s': ", plugin->name);
    weft_ops_release(&ops);
}

static void inspect_one(void *self, const weft_module *module, weft_text *text, weft_error *err)
{
    const wish *w = self;
    check_ops(w->search, module->plugin, err);
    weft_cli_inspect_check(module->plugin, err);
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

/* One of the core's own sections. */
static void inspect_core(const weft_param *params, const char *section, const wish *w,
                         weft_text *text, weft_error *err)
{
    if (w->json)
        weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                  "--json describes plugins, and [%s] is a section of the core", section);
    if (w->json)
        return;
    if (w->man) {
        weft_params_describe_man(params, text);
    } else {
        weft_text_add(text, w->i ? "\n" : "");
        weft_params_describe(section, params, w->all, text);
    }
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
        const weft_param *core = weft_core_params(options->arguments[i]);
        if (core)
            inspect_core(core, options->arguments[i], &w, text, err);
        else
            weft_cli_probe(search, options->arguments[i], inspect_one, &w, text, err);
    }
}

static bool is_named(const weft_cli_options *options, const char *name)
{
    for (int i = 0; i < options->n_arguments; i++)
        if (strcmp(options->arguments[i], name) == 0)
            return true;
    return false;
}

/* What every run has, of plugins that are not named. */
static weft_status add_known(weft_op_table *table, weft_search *search,
                             const weft_cli_options *options, weft_error *err)
{
    weft_settings *settings = NULL;
    const weft_params *weft = NULL;
    weft_default d;
    weft_status s = weft_cli_built_in(&settings, &weft, err);
    for (int i = 0; !s && weft_default_get(weft, i, &d); i++)
        if (!d.service[0] && !is_named(options, d.name))
            s = weft_op_table_add(table, search, d.name, err);
    table->n_known = table->n_ops;
    weft_settings_destroy(settings);
    return s;
}

/* What the named plugins bring, of the ops of every run those that they have kernels for; with no
 * name, all that there is. */
static void list_ops(weft_search *search, const weft_cli_options *options, weft_op_form form,
                     weft_text *text, weft_error *err)
{
    const bool all = options->n_arguments == 0;
    weft_op_table table = {0};
    const char *const *names = options->arguments;
    weft_status s = weft_op_table_add_core(&table, err);
    if (!s && !all)
        s = add_known(&table, search, options, err);
    if (all && !(names = weft_search_names(search)))
        s = weft_fail_memory(err);
    for (int i = 0; !s && (all ? names[i] != NULL : i < options->n_arguments); i++)
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
        .summary = "Describe plugins: parameters, contributions, capabilities, ops, kernels; "
                   "or the sections of the core: weft, train, mesh.",
        .accepts = WEFT_CLI_OPTIONAL,
        .extra = extra};
    weft_cli_options options = {0};
    weft_error err = {0};
    weft_search *search = NULL;
    weft_text text = {0};
    int code = weft_cli_parse(&usage, argc, argv, &options);
    if (code != WEFT_CLI_GO)
        goto done;
    weft_op_form form = json ? WEFT_OPS_JSON : markdown ? WEFT_OPS_MARKDOWN : WEFT_OPS_TEXT;
    bool opened = weft_search_create(NULL, &search, &err) == WEFT_OK;
    if (opened && ops)
        list_ops(search, &options, form, &text, &err);
    const wish how = {.search = search, .json = json, .all = all, .man = man};
    if (opened && !ops)
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
