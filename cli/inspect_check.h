/* SPDX-License-Identifier: Apache-2.0 */
/* What `weft inspect` finds in a descriptor beside what every command refuses. */
#ifndef WEFT_CLI_INSPECT_CHECK_H
#define WEFT_CLI_INSPECT_CHECK_H

#include <weft/plugin.h>

void weft_cli_inspect_check(const weft_plugin *plugin, weft_error *err);

#endif
