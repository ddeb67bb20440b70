/* SPDX-License-Identifier: Apache-2.0 */
/* weft inspect NAME ...: everything a plugin's descriptor says. Touches no hardware: no hook of the
 * plugin is called. */
#include "cli.h"
#include "plugin/plugins.h"

static void inspect_one(const weft_module *module, bool json, bool all, int i, int n,
                        weft_text *text)
{
    if (!json) {
        weft_text_add(text, i ? "\n" : "");
        weft_plugin_describe(module, all, text);
        return;
    }
    weft_text_add(text, n == 1 ? "" : i ? ",\n" : "[");
    weft_plugin_describe_json(module, text);
    weft_text_add(text, i < n - 1 ? "" : n == 1 ? "\n" : "]\n");
}

int weft_cmd_inspect(int argc, char **argv)
{
    bool json = false, all = false;
    const weft_option extra[] = {{.name = "json",
                                  .help = "print JSON: one object, or an array for several names",
                                  .flag = &json},
                                 {.name = "all",
                                  .help = "show advanced parameters too (JSON always has them)",
                                  .flag = &all},
                                 {0}};
    const weft_cli_usage usage = {
        .command = "inspect",
        .arguments = "NAME ...",
        .max_arguments = -1,
        .summary = "Describe plugins: parameters, contributions, capabilities, ops, kernels.",
        .extra = extra};
    weft_cli_options options = {0};
    weft_error err = {0};
    weft_search *search = NULL;
    weft_text text = {0};
    int code = weft_cli_parse(&usage, argc, argv, &options);
    if (code != WEFT_CLI_GO)
        goto done;
    bool opened = weft_search_create(NULL, &search, &err) == WEFT_OK;
    for (int i = 0; opened && i < options.n_arguments; i++) {
        weft_module module;
        if (weft_module_open(search, options.arguments[i], WEFT_NOWHERE, &module, &err) == WEFT_OK)
            inspect_one(&module, json, all, i, options.n_arguments, &text);
    }
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
