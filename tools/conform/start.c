/* SPDX-License-Identifier: Apache-2.0 */
/* A run of one rank with the plugin, as a user starts it: what it says of the plugin, which an
 * oracle's runs do not show, since they go on, or are refused as runs are that want hardware. */
#include "conform.h"

#include "cli.h"
#include "process.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { SECONDS = 100 };

bool conform_is_fault(const weft_text *said)
{
    return strstr(weft_text_get(said), WEFT_CLI_FAULT) != NULL;
}

/* "error: x failed at step_end and is switched off; the run goes on: why" */
static void find_failures(const conform *c, const char *said)
{
    static const char then[] = "; the run goes on: ";
    char begin[CONFORM_NOW];
    snprintf(begin, sizeof begin, "error: %s failed at ", c->plugin);
    for (const char *at = said, *why; (at = strstr(at, begin)) && (why = strstr(at, then));) {
        at += strlen(begin);
        why += strlen(then);
        conform_fail(c, "observer: plugin '%s' fails at %.*s, and runs go on without it: %.*s",
                     c->plugin, (int)strcspn(at, " "), at, (int)strcspn(why, "\n"), why);
    }
}

bool conform_start(const conform *c, const char *ini)
{
    char dir[240];
    snprintf(dir, sizeof dir, "weft.dir=%s/start", c->folder);
    const char *const argv[] = {
        "weft", "train", ini, "-o", dir, "-o", "train.steps=2", "-o", "train.eval_every=1", NULL};
    weft_text said = {0};
    conform_now(c, "run: one rank");
    const int code = weft_process_call(argv, NULL, SECONDS, &said);
    const bool refused = code == 2 && conform_is_fault(&said);
    find_failures(c, weft_text_get(&said));
    if (refused)
        conform_fail(c, "run: refused: %s", conform_gist(&said));
    conform_count(c, "runs started", code != 2);
    weft_text_release(&said);
    return !refused;
}
