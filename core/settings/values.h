/* SPDX-License-Identifier: Apache-2.0 */
/* What settings are made of. Internal to core/settings and, for commands, to lib/console. */
#ifndef WEFT_SETTINGS_VALUES_H
#define WEFT_SETTINGS_VALUES_H

#include "settings/ini.h"
#include "settings/settings.h"

/* One key's checked value. */
typedef struct weft_checked {
    const weft_param *param;
    const char *text;   /* as written; lists: words joined by one blank; "" if not set */
    const char **words; /* lists */
    weft_where *wheres; /* of each word */
    int n_words;
    int64_t integer;
    double real;
    bool boolean, given;
    bool dropped; /* data names a file by it: it is as if not set */
    int word;     /* which of the parameter's choices it is, from 1; 0: none */
    weft_where where;
} weft_checked;

struct weft_params {
    const char *section;
    int n;
    weft_checked *values; /* in the table's order */
};

/* What the user wrote for one key, the last time it was set. */
typedef struct weft_ini_key {
    const char *key;
    weft_ini_line *lines;
    weft_where where;
    weft_where before; /* where it was set before that; nowhere: it was not */
    weft_trust trust;
    struct weft_ini_key *next;
} weft_ini_key;

typedef struct weft_section {
    const char *name;
    weft_where where; /* its first header */
    weft_ini_key *settings;
    const weft_param *table; /* of whoever claimed it */
    weft_params *params;
    bool claimed;
    struct weft_section *next;
} weft_section;

struct weft_settings {
    weft_pool pool;
    weft_kept_file *files; /* in reading order */
    bool packed;           /* there are no files but these */
    bool broken;           /* lines were wrong: what is not set may stand there */
    weft_where file;       /* the main file */
    weft_section *sections;
    weft_listed *listed;
    int n_listed, n_files;
    bool fallback;        /* what is read holds only where nothing was said */
    const char **removed; /* names taken out by --without: their sections are left alone */
    int n_removed;
};

weft_section *weft_section_find(const weft_settings *settings, const char *name);
/* Finds or adds; NULL when out of memory. */
weft_section *weft_section_add(weft_settings *settings, const char *name, weft_where where);
const weft_ini_key *weft_setting_find(const weft_section *section, const char *key);
/* Sets a key to new lines, the later one wins. */
weft_status weft_setting_put(weft_settings *settings, weft_section *section, const char *key,
                             weft_ini_line *lines, weft_where where, weft_error *err);

/* Splits the lines of a value at blanks. */
weft_status weft_split_words(weft_pool *pool, const weft_ini_line *lines, const char ***words,
                             weft_where **wheres, int *n, weft_error *err);

/* A name as listed, '?' taken off; it must be a new one. Strings are kept, not copied. */
weft_status weft_listed_make(const weft_settings *settings, const char *word, weft_where where,
                             weft_listed *out, weft_error *err);
/* Makes the list of plugins from [weft] plugins. */
weft_status weft_settings_list(weft_settings *settings, weft_error *err);

/* Notes every key of a claimed section that its table does not have. */
weft_status weft_section_unknown(weft_settings *settings, const weft_section *section,
                                 weft_error *err);

/* Parses one word into out's integer, real or boolean; a wrong one is an error at `where`. */
weft_status weft_value_parse(const char *section, const weft_param *param, const char *word,
                             weft_where where, weft_checked *out, weft_error *err);

#endif
