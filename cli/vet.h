/* SPDX-License-Identifier: Apache-2.0 */
/* weft vet: a set of plugins as bytes, told without opening one of them. */
#ifndef WEFT_CLI_VET_H
#define WEFT_CLI_VET_H

#include "plugin/vetted.h"

/* Adds a line, if there is none that says the same. */
weft_status weft_vet_add(weft_vetted *set, const weft_vetted_line *line, weft_error *err);
/* Adds the program that runs, and what it is linked with. */
weft_status weft_vet_add_program(weft_vetted *set, weft_error *err);
/* Adds a plugin's file, and the libraries that it needs. *device: set if it gives one. */
weft_status weft_vet_add_plugin(weft_vetted *set, const char *name, const char *path, weft_where at,
                                bool *device, weft_error *err);
/* Appends the lock's text. */
void weft_vet_print(const weft_vetted *set, weft_text *text);

/* ---- vet_libraries.c ---- */

/* Calls each with the real path of every library that the dynamic linker would map with an object,
 * which it says without running any of it. */
weft_status weft_vet_libraries(const char *path,
                               weft_status (*each)(void *self, const char *real, weft_error *err),
                               void *self, weft_error *err);

#endif
