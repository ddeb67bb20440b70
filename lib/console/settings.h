/* SPDX-License-Identifier: Apache-2.0 */
/* What only commands do with settings. */
#ifndef WEFT_LIB_CONSOLE_SETTINGS_H
#define WEFT_LIB_CONSOLE_SETTINGS_H

#include "settings/settings.h"

/* -o section.key=value; the value may be empty (not set). */
weft_status weft_settings_override(weft_settings *settings, const char *assignment,
                                   weft_error *err);
/* --with NAME, NAME@after:OTHER, NAME@before:OTHER, NAME@first; --without NAME. Unknown OTHER or
 * NAME is an error with the nearest name. */
weft_status weft_settings_with(weft_settings *settings, const char *spec, weft_error *err);
weft_status weft_settings_without(weft_settings *settings, const char *name, weft_error *err);
/* The same of what something else has asked for; as: what messages call it. */
weft_status weft_settings_override_as(weft_settings *settings, const char *assignment,
                                      const char *as, weft_error *err);
weft_status weft_settings_with_as(weft_settings *settings, const char *spec, const char *as,
                                  weft_error *err);
weft_status weft_settings_without_as(weft_settings *settings, const char *name, const char *as,
                                     weft_error *err);

/* What it says by now is data, a folder's and not the user's; what is set from now on is the
 * user's. */
void weft_settings_take_as_data(weft_settings *settings, weft_trust trust);
/* Appends all files that were read, the INI and what it includes, in one piece: for a rank that
 * does not have them. */
weft_status weft_settings_pack(const weft_settings *settings, weft_text *pack, weft_error *err);
/* The same settings from such a piece, with the same places in messages; no file is opened. */
weft_status weft_settings_unpack(const char *pack, size_t size, weft_settings **out,
                                 weft_error *err);
/* Appends the effective INI, loadable again: every claimed section, every key. with_sources adds ";
 * run.ini:14" comments; only_given leaves defaults out. */
void weft_settings_print(const weft_settings *settings, bool with_sources, bool only_given,
                         weft_text *text);

#endif
