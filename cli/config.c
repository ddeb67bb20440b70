/* SPDX-License-Identifier: Apache-2.0 */
/* weft config: every effective value, with its source. */
#include "cli.h"
#include "console/counts.h"
#include "host/plugins.h"

int weft_cmd_config(int argc, char **argv)
{
    bool sources = false, only_given = false;
    const weft_option extra[] = {
        {.name = "sources", .help = "say where every value comes from", .flag = &sources},
        {.name = "given", .help = "leave defaults out", .flag = &only_given},
        {.name = NULL},
    };
    const weft_cli_usage usage = {
        .command = "config",
        .arguments = "run.ini",
        .max_arguments = 1,
        .summary =
            "Checks an INI file and prints it with every default filled in. Nothing is started.",
        .accepts = WEFT_CLI_INI,
        .extra = extra,
    };
    weft_cli_options options;
    weft_settings *settings = NULL;
    weft_plugins *plugins = NULL;
    weft_error err = {0};
    weft_text text = {0};
    weft_cli_log sink;
    weft_log log = weft_cli_log_init(&sink, WEFT_LOG_WARN);
    int code = weft_cli_parse(&usage, argc, argv, &options);

    if (code != WEFT_CLI_GO)
        goto done;
    if (weft_cli_settings(&options, &settings, &err) != WEFT_OK ||
        weft_plugins_load(settings, &log, &plugins, &err) != WEFT_OK) {
        code = weft_cli_report(&err);
        goto done;
    }
    if (weft_settings_check_keys(settings, &log, &err) != WEFT_OK) {
        code = weft_cli_report(&err);
        goto done;
    }
    weft_settings_print(settings, sources, only_given, &text);
    code = weft_cli_print(&text);
done:
    weft_text_release(&text);
    weft_plugins_destroy(plugins);
    weft_settings_destroy(settings);
    weft_error_release(&err);
    weft_cli_options_release(&options);
    return code;
}
