/* SPDX-License-Identifier: Apache-2.0 */
/* weft plugins: what could be listed in [weft] plugins here. Every plugin that is found is opened,
 * each by a process of its own, and none created. */
#include "cli.h"
#include "console/folders.h"
#include "probe.h"
#include "vet/known.h"

#include <string.h>

static void add_kind(weft_text *text, const char *word, const char *name)
{
    const char *before = text->size > 0 ? ", " : "";
    weft_text_print(text, "%s%s%s%s", before, word, name ? " " : "", name ? name : "");
}

/* "pass, service device, observer": each once. */
static void describe_kinds(const weft_plugin *plugin, weft_text *text)
{
    bool pass = false, observer = false;
    for (const weft_contribution *k = plugin->contributions; k && k->kind != WEFT_END; k++) {
        if (k->kind == WEFT_SERVICE)
            add_kind(text, "service", k->service);
        if (k->kind == WEFT_COMMAND)
            add_kind(text, "command", k->command->name);
        if (k->kind == WEFT_AXIS)
            add_kind(text, "axis", k->axis);
        if (k->kind == WEFT_PASS && !pass)
            add_kind(text, "pass", NULL);
        if (k->kind == WEFT_OBSERVER && !observer)
            add_kind(text, "observer", NULL);
        pass = pass || k->kind == WEFT_PASS;
        observer = observer || k->kind == WEFT_OBSERVER;
    }
    if (text->size == 0)
        weft_text_add(text, plugin->kernels ? "kernels" : plugin->ops ? "ops" : "hooks only");
}

static int longest(const char *const *names)
{
    size_t most = 0;
    for (int i = 0; names[i]; i++)
        most = strlen(names[i]) > most ? strlen(names[i]) : most;
    return (int)most;
}

static void list_one(void *self, const weft_module *module, weft_text *text, weft_error *err)
{
    (void)err;
    int width = *(const int *)self;
    const weft_plugin *p = module->plugin;
    weft_text kinds = {0};
    describe_kinds(p, &kinds);
    weft_text_print(text, "%-*s  %s  %s (%s)\n%*s  %s\n", width, p->name, p->version, p->summary,
                    weft_text_get(&kinds), width, "", module->path ? module->path : "builtin");
    text->out_of_memory = text->out_of_memory || kinds.out_of_memory;
    weft_text_release(&kinds);
}

/* What is found first is opened; the same name in a later folder is not. */
static void list_hidden(weft_search *search, const char *name, int width, weft_text *text)
{
    const char *copy;
    for (int i = 1; (copy = weft_search_copy(search, name, i)); i++)
        weft_text_print(text, "%*s  hides %s\n", width, "", copy);
}

static bool is_found(const char *const *names, const weft_known *k)
{
    for (int i = 0; names[i]; i++)
        if (weft_known_is(k, names[i]))
            return true;
    return false;
}

/* Plugins that are known and not here, and where all of them were looked for. */
static void list_rest(weft_search *search, const char *const *names, weft_text *text)
{
    char *list = weft_known_read(weft_search_build(search));
    const char *p = list, *folder;
    weft_known k;
    while (p && weft_known_next(&p, &k))
        if (!is_found(names, &k))
            weft_text_print(text, "%.*s  is not here; %.*s\n", k.name_size, k.name, k.advice_size,
                            k.advice);
    weft_free(list);
    weft_text_add(text, "\nlooked for in this order, the first of a name counts:\n");
    for (int i = 0; (folder = weft_search_folder(search, i)); i++)
        weft_text_print(text, "  %s\n", folder);
}

int weft_cmd_plugins(int argc, char **argv)
{
    bool names_only = false;
    const weft_option extra[] = {{.name = "names",
                                  .help = "print names only, one a line, and open nothing",
                                  .flag = &names_only},
                                 {0}};
    const weft_cli_usage usage = {
        .command = "plugins",
        .max_arguments = 0,
        .summary = "List the plugins that can be found, with version, kind, summary and file.",
        .accepts = WEFT_CLI_OPTIONAL,
        .extra = extra};
    weft_cli_options options = {0};
    weft_error err = {0};
    weft_search *search = NULL;
    weft_text text = {0};
    int code = weft_cli_parse(&usage, argc, argv, &options);
    if (code != WEFT_CLI_GO)
        goto done;
    if (weft_search_create(NULL, &search, &err) == WEFT_OK) {
        const char *const *names = weft_search_names(search);
        int width = names ? longest(names) : 0;
        if (!names)
            weft_fail_memory(&err);
        for (int i = 0; names && names[i]; i++) {
            if (names_only)
                weft_text_print(&text, "%s\n", names[i]);
            else {
                weft_cli_probe(search, names[i], list_one, &width, &text, &err);
                list_hidden(search, names[i], width, &text);
            }
        }
        if (names && !names_only)
            list_rest(search, names, &text);
    }
    code = weft_cli_print(&text);
    int failed = weft_cli_report(&err); /* broken plugins come after those that work */
    code = code ? code : failed;
done:
    weft_text_release(&text);
    weft_search_destroy(search);
    weft_error_release(&err);
    weft_cli_options_release(&options);
    return code;
}
