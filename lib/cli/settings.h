/* SPDX-License-Identifier: Apache-2.0 */
/* What only commands do with settings. */
#ifndef WEFT_CLI_SETTINGS_H
#define WEFT_CLI_SETTINGS_H

#include "settings/settings.h"

/* -o section.key=value; the value may be empty (not set). */
weft_status weft_settings_override(weft_settings *settings, const char *assignment,
                                   weft_error *err);
/* --with NAME, NAME@after:OTHER, NAME@before:OTHER, NAME@first; --without NAME. Unknown OTHER or
 * NAME is an error with the nearest name. */
weft_status weft_settings_with(weft_settings *settings, const char *spec, weft_error *err);
weft_status weft_settings_without(weft_settings *settings, const char *name, weft_error *err);

/* Appends the effective INI, loadable again: every claimed section, every key. with_sources adds ";
 * run.ini:14" comments; only_given leaves defaults out. */
void weft_settings_print(const weft_settings *settings, bool with_sources, bool only_given,
                         weft_text *text);

#endif
