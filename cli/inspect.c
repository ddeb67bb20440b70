/* SPDX-License-Identifier: Apache-2.0 */
/* weft inspect NAME ...: everything a plugin's descriptor says. Touches no hardware: no hook of the
 * plugin is called. */
#include "cli.h"
#include "probe.h"

typedef struct wish {
    bool json, all;
    int i, n;
} wish;

static void inspect_one(void *self, const weft_module *module, weft_text *text)
{
    const wish *w = self;
    if (!w->json) {
        weft_text_add(text, w->i ? "\n" : "");
        weft_plugin_describe(module, w->all, text);
        return;
    }
    weft_text_add(text, w->n == 1 ? "" : w->i ? ",\n" : "[");
    weft_plugin_describe_json(module, text);
    weft_text_add(text, w->i < w->n - 1 ? "" : w->n == 1 ? "\n" : "]\n");
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
        wish w = {json, all, i, options.n_arguments};
        weft_cli_probe(search, options.arguments[i], inspect_one, &w, &text, &err);
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
