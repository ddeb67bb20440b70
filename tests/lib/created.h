/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin's self as the host makes it, for tests of one plugin alone. */
#ifndef TESTS_CREATED_H
#define TESTS_CREATED_H

#include <weft/plugin.h>

/* Fills the plugin's struct from host, whose params are set, and calls create. host lives until
 * created_release. */
weft_status created_init(const weft_plugin *plugin, const weft_host *host, void **self,
                         weft_error *err);
/* Calls destroy; NULL is fine. */
void created_release(const weft_plugin *plugin, const weft_host *host, void *self);

#endif
