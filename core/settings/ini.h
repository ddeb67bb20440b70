/* SPDX-License-Identifier: Apache-2.0 */
/* One INI text as a list of entries in reading order. Internal to core/settings. */
#ifndef WEFT_SETTINGS_INI_H
#define WEFT_SETTINGS_INI_H

#include <weft/base.h>

enum {
    WEFT_INI_LINE = 65536,   /* bytes in a line, its end not counted */
    WEFT_INI_FILE = 1 << 20, /* bytes in a file */
    WEFT_INI_NAME = 49,    /* bytes in a section's or key's name: what every build of inih keeps */
    WEFT_INI_KEYS = 10000, /* keys in a file */
    WEFT_INI_ERRORS = 50,  /* errors noted in one file before giving up on it */
};

/* One line of a value: what stands behind '=', then one for each indented line below it. */
typedef struct weft_ini_line {
    const char *text; /* without comment and surrounding blanks; may be empty */
    weft_where where;
    struct weft_ini_line *next;
} weft_ini_line;

typedef struct weft_ini_entry {
    const char *section; /* "" before the first section */
    const char *key;     /* NULL: the header of `section` itself */
    weft_ini_line *lines;
    weft_where where;
    struct weft_ini_entry *next;
} weft_ini_entry;

/* Parses `text` with inih. All memory is from `pool`; `name` must live as long as it. Every error
 * of form is noted, the entries read so far are in *out in any case. */
weft_status weft_ini_parse(weft_pool *pool, const char *name, const char *text, size_t size,
                           weft_ini_entry **out, weft_error *err);

/* Checks a text's bytes: 0 if all are fine, else the 1-based place of the first that is no UTF-8 or
 * a control character other than tab. */
size_t weft_ini_bad_byte(const char *text, size_t size);

#endif
