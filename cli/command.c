/* SPDX-License-Identifier: Apache-2.0 */
/* weft NAME ... where NAME is a command that a plugin gives. The plugin is found and opened as
 * others are, and never created. */
#include "console/folders.h"
#include "probe.h"
#include "processors.h"
#include "session.h"

#include "console/crash.h"
#include "host/enter.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Commands of weft's own plugins. Any other plugin's command is called as the plugin is. */
static const struct known {
    const char *name, *plugin;
} known[] = {{"ckpt", "ckpt"},     {"convert", "hf"},      {"disk", "disk"},
             {"flight", "flight"}, {"profile", "profile"}, {"tokenize", "text"}};

enum { N_KNOWN = sizeof known / sizeof known[0] };

static const struct known *find_known(const char *command)
{
    for (int i = 0; i < N_KNOWN; i++)
        if (strcmp(command, known[i].name) == 0)
            return &known[i];
    return NULL;
}

const char *weft_command_plugin(const char *command)
{
    const struct known *own = find_known(command);
    return own ? own->plugin : command;
}

static const char *const *own;

void weft_command_set_own(const char *const *names)
{
    own = names;
}

static bool is_listed(const char *const *names, const char *name)
{
    for (int i = 0; names && names[i]; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

bool weft_command_is_own(const char *word)
{
    return is_listed(own, word);
}

static const weft_command *find(const weft_plugin *plugin, const char *name)
{
    for (const weft_contribution *k = plugin->contributions; k && k->kind != WEFT_END; k++)
        if (k->kind == WEFT_COMMAND && strcmp(k->command->name, name) == 0)
            return k->command;
    return NULL;
}

static const weft_command *first_command(const weft_plugin *plugin)
{
    for (const weft_contribution *k = plugin->contributions; k && k->kind != WEFT_END; k++)
        if (k->kind == WEFT_COMMAND)
            return k->command;
    return NULL;
}

/* Is it one of weft's own that give a command? */
static bool gives_known(const char *plugin)
{
    for (int i = 0; i < N_KNOWN; i++)
        if (strcmp(plugin, known[i].plugin) == 0)
            return true;
    return false;
}

static void list_command(void *name, const weft_module *module, weft_text *text, weft_error *err)
{
    (void)err;
    const weft_command *command = find(module->plugin, name);
    if (command)
        weft_text_print(text, "  %-10s %s\n", command->name, command->summary);
}

void weft_command_list(weft_text *text)
{
    weft_error err = {0};
    weft_search *search = NULL;
    const char *const *names =
        weft_search_create(NULL, &search, &err) == WEFT_OK ? weft_search_names(search) : NULL;
    for (int i = 0; i < N_KNOWN; i++)
        if (is_listed(names, known[i].plugin))
            weft_cli_probe(search, known[i].plugin, list_command, (void *)(uintptr_t)known[i].name,
                           text, &err);
    for (int i = 0; names && names[i]; i++)
        if (weft_search_is_users(search, names[i]) && !gives_known(names[i]))
            weft_cli_probe(search, names[i], list_command, (void *)(uintptr_t)names[i], text, &err);
    weft_search_destroy(search);
    weft_error_release(&err); /* help is given, whatever plugins are like: `weft plugins` says what
                                 is wrong with them */
}

bool weft_command_is(const char *word)
{
    weft_error err = {0};
    weft_search *search = NULL;
    bool is = find_known(word);
    if (!is && weft_search_create(NULL, &search, &err) == WEFT_OK)
        is = is_listed(weft_search_names(search), word);
    weft_search_destroy(search);
    weft_error_release(&err);
    return is;
}

int weft_command_names(const char **names, int capacity)
{
    int n = 0;
    for (; n < N_KNOWN && n < capacity; n++)
        names[n] = known[n].name;
    return n;
}

/* ---- running one ---- */

static weft_status write_out(const weft_command_host *host, const void *data, size_t n,
                             weft_error *err)
{
    (void)host;
    if (weft_cli_write(data, n))
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot write the output: %s",
                     strerror(errno));
}

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static weft_status open_command(weft_search *search, const char *name, weft_module *module,
                                const weft_command **command, weft_error *err)
{
    const char *plugin = weft_command_plugin(name);
    weft_status s = weft_module_open(search, plugin, WEFT_NOWHERE, module, err);
    s = s ? s : weft_search_check_mapped(search, err);
    if (s)
        return s;
    weft_crash_note_plugin(module);
    *command = find(module->plugin, name);
    if (*command)
        return WEFT_OK;
    const weft_command *other = first_command(module->plugin);
    if (other && find_known(other->name))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "plugin '%s' gives no command '%s'; did you mean 'weft %s'?", plugin, name,
                         other->name);
    if (other)
        return weft_fail(err, WEFT_ERR_PLUGIN, WEFT_NOWHERE,
                         "plugin '%s' gives a command '%s', which nobody can call: a command is "
                         "called as its plugin is; call it '%s'",
                         plugin, other->name, plugin);
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "plugin '%s' gives no command '%s': list it in [weft] plugins of an INI (weft "
                     "inspect %s says what it is for)",
                     plugin, name, plugin);
}

weft_status weft_cli_find_plugin(void *search, const char *name, const weft_plugin **out,
                                 weft_error *err)
{
    weft_module module;
    weft_status s = weft_module_open(search, name, WEFT_NOWHERE, &module, err);
    s = s ? s : weft_search_check_mapped(search, err);
    *out = s ? NULL : module.plugin;
    return s;
}

static weft_status run(weft_search *search, const weft_module *module, const weft_command *command,
                       int argc, char **argv, bool *answers_no, weft_error *err)
{
    const weft_finder plugins = {search, weft_cli_find_plugin};
    const weft_processors processors = weft_cli_processors();
    weft_cli_log sink;
    weft_log log = weft_cli_log_init(&sink, WEFT_LOG_INFO);
    sink.early = false;
    signal(SIGPIPE, SIG_IGN); /* a command that nobody reads any more ends as it would on any error,
                                 and leaves nothing half done */
    char *cache_dir = NULL;
    weft_status s = weft_cli_cache_dir(&log, &cache_dir, err);
    weft_command_host host = {.log = &log,
                              .cache_dir = cache_dir,
                              .threads = weft_processors_share(&processors, 1, 1, 1),
                              .terminal = weft_cli_terminal(),
                              .write = write_out,
                              .plugins = &plugins,
                              .answers_no = answers_no};
    if (!s) {
        const weft_entry entry = weft_enter(module->plugin->name, "command", module->where, err);
        s = weft_leave(&entry, command->run(&host, argc, argv, err));
        if (!s && ferror(stdout))
            s = weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot write the output");
    }
    weft_log_print(&log, WEFT_LOG_INFO, "\r");
    weft_cli_log_release(&sink);
    weft_free(cache_dir);
    return s;
}

int weft_command_run(int argc, char **argv)
{
    weft_error err = {0};
    weft_search *search = NULL;
    weft_module module;
    const weft_command *command = NULL;
    weft_text text = {0};
    bool no = false;
    weft_status s = weft_search_create(NULL, &search, &err);
    s = s ? s : open_command(search, argv[0], &module, &command, &err);
    if (!s && asks_for_help(argc, argv))
        weft_text_add(&text, command->usage);
    else if (!s)
        s = run(search, &module, command, argc, argv, &no, &err);
    /* What was written before a failure stands: flushed in any case, and a failure to flush is one
     * of the command. */
    int unwritten = ferror(stdout) ? 0 : weft_cli_print(&text);
    int code = weft_cli_conclude(s, &err);
    code = code ? code : unwritten ? unwritten : no;
    weft_text_release(&text);
    weft_search_destroy(search);
    weft_error_release(&err);
    return code;
}
