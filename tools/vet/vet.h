/* SPDX-License-Identifier: Apache-2.0 */
/* weft vet: a set of plugins as bytes, told without opening one of them. */
#ifndef WEFT_TOOLS_VET_H
#define WEFT_TOOLS_VET_H

#include "vet/vetted.h"

/* Adds a line, if there is none that says the same. */
weft_status weft_vet_add(weft_vetted *set, const weft_vetted_line *line, weft_error *err);
/* Adds the program that runs, and what it is linked with. */
weft_status weft_vet_add_program(weft_vetted *set, weft_error *err);
/* Adds a plugin's file, and the libraries that it needs. *device: set if it gives one. named: told
 * of the keys that name libraries, with their presets; ends at one without a name. */
typedef weft_status weft_vet_named(void *ctx, const char *plugin, const weft_param *keys,
                                   weft_error *err);
weft_status weft_vet_add_plugin(weft_vetted *set, const char *name, const char *path, weft_where at,
                                bool *device, weft_vet_named *named, void *ctx, weft_error *err);
/* Adds a library that is opened by its name, or path, and what it needs; *found: it is here. */
weft_status weft_vet_add_named(weft_vetted *set, const char *name, bool *found, weft_error *err);
/* Appends the lock's text. */
void weft_vet_print(const weft_vetted *set, weft_text *text);

/* ---- libraries.c ---- */

/* Called with a library's real path, and the name that it is asked for by; bare: it is looked for
 * by this name, and not by a path. */
typedef weft_status weft_vet_library(void *self, const char *name, bool bare, const char *real,
                                     weft_error *err);
/* Calls each with every library that the dynamic linker would map with an object, which it says
 * without running any of it. more: a library, by name, that is mapped before them if it is there;
 * NULL: none. */
weft_status weft_vet_libraries(const char *path, const char *more, weft_vet_library *each,
                               void *self, weft_error *err);

#endif
