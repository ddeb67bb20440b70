/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of a plugin, called as somebody calls them who does not know them. */
#include "conform.h"

#include "cli.h"
#include "process.h"

#include <signal.h>
#include <string.h>

enum { SECONDS = 20, MOST_WORDS = 4 };

static const struct attempt {
    const char *how, *words[MOST_WORDS]; /* ended by NULL */
} attempts[] = {
    {"without arguments", {NULL}},
    {"with --help", {"--help"}},
    {"with an unknown option", {"--no-such-option"}},
    {"with nonsense", {"nonsense", "", "--no-such-option=1"}},
};

/* What is wrong with how it ended; NULL: nothing. */
static const char *fault_of(int code, const char *said)
{
    if (code == 128 + SIGALRM)
        return "time";
    if (code > 128)
        return "crash";
    if (strstr(said, "has called exit("))
        return "exit";
    return strstr(said, "without a message") ? "silent" : NULL;
}

static void try_one(const conform *c, const weft_command *command, const struct attempt *a)
{
    const char *argv[MOST_WORDS + 3] = {"weft", command->name};
    weft_text said = {0};
    for (int i = 0; i < MOST_WORDS && a->words[i]; i++)
        argv[2 + i] = a->words[i];
    conform_now(c, "command %s %s", command->name, a->how);
    int code = weft_process_call(argv, c->folder, SECONDS, &said);
    const char *fault = fault_of(code, weft_text_get(&said));
    bool helped = strstr(weft_text_get(&said), command->usage) != NULL;
    if (code == 128 + SIGALRM)
        conform_fail(c, "command %s: time: %s it does not end within %d s", command->name, a->how,
                     SECONDS);
    else if (fault)
        conform_fail(c, "command %s: %s: %s: %s; return an error that says what it takes",
                     command->name, fault, a->how, conform_gist(&said));
    else if (a->words[0] && strcmp(a->words[0], "--help") == 0 && (code || !helped))
        conform_fail(c, "command %s: help: %s it does not print its usage: %s", command->name,
                     a->how, conform_gist(&said));
    conform_count(c, "calls of commands", 1);
    weft_text_release(&said);
}

void conform_commands(const conform *c, void *self)
{
    const weft_module *module = self;
    const weft_contribution *k = module ? module->plugin->contributions : NULL;
    for (; k && k->kind != WEFT_END; k++) {
        if (k->kind != WEFT_COMMAND)
            continue;
        if (strcmp(weft_command_plugin(k->command->name), c->plugin) != 0) {
            conform_fail(c,
                         "command %s: name: it cannot be called, for `weft %s` opens the plugin "
                         "%s; a plugin's command has the plugin's name",
                         k->command->name, k->command->name, k->command->name);
            continue;
        }
        for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++)
            try_one(c, k->command, &attempts[i]);
    }
}
