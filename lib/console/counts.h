/* SPDX-License-Identifier: Apache-2.0 */
/* Where keys count (weft_param.when). */
#ifndef WEFT_LIB_CONSOLE_COUNTS_H
#define WEFT_LIB_CONSOLE_COUNTS_H

#include "settings/values.h"

/* weft_param_counts of a section that was checked. */
bool weft_params_count(const weft_params *params, const weft_param *table, const weft_param *param);
/* Appends "state is not none or gradients = yes". */
void weft_when_print(const char *when, weft_text *text);
/* Says that the key does nothing, why, and where it would. */
void weft_param_warn_idle(const char *section, const weft_param *param, const weft_params *params,
                          const weft_log *log);
/* Says so of every key that a file or an option sets and that does nothing; those that refuse each
 * other (weft_param.refuses) are errors. log may be NULL. */
weft_status weft_settings_check_keys(const weft_settings *settings, const weft_log *log,
                                     weft_error *err);

/* Takes such keys as not set, and those that then do nothing, but for keys that must be. */
void weft_settings_drop_idle(weft_settings *settings);

#endif
