/* SPDX-License-Identifier: Apache-2.0 */
/* Where plugins are looked for, for commands that show it. */
#ifndef WEFT_CONSOLE_FOLDERS_H
#define WEFT_CONSOLE_FOLDERS_H

#include "host/plugins.h"

/* Is this plugin found in a folder that the user has named? */
bool weft_search_is_users(weft_search *search, const char *name);
/* The i-th folder in which plugins are looked for, from 0; NULL past the end. */
const char *weft_search_folder(const weft_search *search, int i);
/* The i-th file that has this plugin's name, in the order of folders: the first one is opened, and
 * hides the others. NULL past the end, or when out of memory. Owned by search. */
const char *weft_search_copy(weft_search *search, const char *name, int i);

#endif
