/* SPDX-License-Identifier: Apache-2.0 */
/* What only commands do with settings. */
#ifndef WEFT_CLI_SETTINGS_H
#define WEFT_CLI_SETTINGS_H

#include "settings/settings.h"

/* Appends the effective INI, loadable again: every claimed section, every key. with_sources adds ";
 * run.ini:14" comments; only_given leaves defaults out. */
void weft_settings_print(const weft_settings *settings, bool with_sources, bool only_given,
                         weft_text *text);

#endif
