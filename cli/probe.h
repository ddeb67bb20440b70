/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins looked at only, as `weft plugins` does with all that there are. */
#ifndef WEFT_CLI_PROBE_H
#define WEFT_CLI_PROBE_H

#include "host/plugins.h"

/* Adds to text what there is to say of a plugin, and to err what is wrong with it. */
typedef void weft_describe(void *self, const weft_module *module, weft_text *text, weft_error *err);
/* A process of its own opens the plugin and describes it, so that a constructor that crashes, hangs
 * or exits is an error and nothing of it stays. Call it while there is but one thread. */
weft_status weft_cli_probe(weft_search *search, const char *name, weft_describe *describe,
                           void *self, weft_text *text, weft_error *err);

#endif
