/* SPDX-License-Identifier: Apache-2.0 */
/* Services that plugins stand around. Internal to weft. */
#ifndef WEFT_LIB_PRINT_WRAPS_H
#define WEFT_LIB_PRINT_WRAPS_H

#include "host/plugins.h"

/* Appends "transport: trace around count around local" for one wrapped service of plugins that are
 * created, and goes on to the next; start with *i = 0; false at the end. */
bool weft_print_wraps(const weft_plugins *plugins, int *i, weft_text *text);

#endif
