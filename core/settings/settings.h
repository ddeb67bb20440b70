/* SPDX-License-Identifier: Apache-2.0 */
/* The user's INI as text with sources, and its checked form: one weft_params a section. Internal to
 * weft (core and cli). */
#ifndef WEFT_SETTINGS_SETTINGS_H
#define WEFT_SETTINGS_SETTINGS_H

#include <weft/params.h>

typedef struct weft_settings weft_settings;

/* A file as it was read. */
typedef struct weft_kept_file {
    const char *name, *real; /* as it was asked for; its real path */
    const char *text;
    size_t size;
    struct weft_kept_file *next;
} weft_kept_file;

/* A name from [weft] plugins. */
typedef struct weft_listed {
    const char *name;
    bool optional; /* written ?name */
    weft_where where;
} weft_listed;

/* Reads an INI and what it includes. Only its form is checked (line lengths, sections, key = value,
 * NUL, UTF-8, include cycles); every error at once. On error *out is NULL. */
weft_status weft_settings_read(const char *file, weft_settings **out, weft_error *err);
/* The same from text; `name` stands for the file in messages, includes are relative to the working
 * directory. */
weft_status weft_settings_read_text(const char *name, const char *text, size_t size,
                                    weft_settings **out, weft_error *err);
/* The same from files that are in memory, the first the INI, with what it includes behind it; no
 * file is opened. */
weft_status weft_settings_read_kept(const weft_kept_file *files, weft_settings **out,
                                    weft_error *err);
/* Adds what a command's own INI says of keys that nobody has set; behind overrides. name: as for
 * weft_settings_read_text, lives as long as settings. */
weft_status weft_settings_fall_back(weft_settings *settings, const char *name, const char *text,
                                    weft_error *err);
/* What settings may name. */
typedef enum weft_trust {
    WEFT_TRUST_ALL,   /* whatever it is: the user says so */
    WEFT_TRUST_FILES, /* no libraries and no folders of plugins: they are as if not set */
    WEFT_TRUST_NONE   /* no files either; but for a lock, which only narrows */
} weft_trust;

void weft_settings_destroy(weft_settings *settings);

/* The listed plugins in order. A name twice is an error noted when the
 * INI was read. */
int weft_settings_plugins(const weft_settings *settings, const weft_listed **list);
/* Which of them has this name; -1: none. */
int weft_listed_find(const weft_settings *settings, const char *name);

/* Checks section `name` against `table` (NULL: no keys): wrong type, range, missing REQUIRED, all
 * of them go to err. Unknown keys are left to weft_settings_finish, which knows all tables, unless
 * the table is empty: then they are errors at once. The section counts as known from then on. *out
 * is owned by settings and lives as long; asking again with the same table gives the same. */
weft_status weft_settings_section(weft_settings *settings, const char *name,
                                  const weft_param *table, const weft_params **out,
                                  weft_error *err);
/* Every unknown key of the sections that are claimed (with the nearest name, and the section that
 * has it) and every section that nobody can claim is an error; not so those of the core, of listed
 * plugins (whoever failed to open one said so) and of those that --without took out. candidates:
 * names that exist but are not listed (for "add X to plugins"), NULL-ended, may be NULL. early:
 * before plugins are opened, when one of the candidates may be added to the list yet. */
weft_status weft_settings_finish(weft_settings *settings, const char *const *candidates, bool early,
                                 weft_error *err);

/* Fills the fields of a plugin's struct that its parameters name. */
void weft_params_fill(const weft_params *params, void *out);

/* The core's own sections' tables: [weft], [train], [mesh]. NULL for any other name. */
const weft_param *weft_core_params(const char *section);

#endif
