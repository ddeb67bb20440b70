/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins that weft's makers know of, and what to do about one that is not here: that stands in a
 * file (plugins.known) that whoever builds or packages weft has written. */
#ifndef WEFT_VET_KNOWN_H
#define WEFT_VET_KNOWN_H

#include <stdbool.h>

/* One line of it: a name, and what to do. Neither ends in NUL. */
typedef struct weft_known {
    const char *name;
    int name_size;
    const char *advice;
    int advice_size;
} weft_known;

/* Its text; weft_free it. build: the build tree's folder of plugins, beside which it lies then;
 * NULL: the program is installed. NULL: there is none, or it cannot be read: it is a help, no more.
 */
char *weft_known_read(const char *build);
/* The next line of the text, which it moves on; false at the end. */
bool weft_known_next(const char **text, weft_known *out);
/* Is it the one of this line? */
bool weft_known_is(const weft_known *known, const char *name);
/* What to do about a plugin; weft_free it. NULL: it is not in the list, or there is no memory. */
char *weft_known_advise(const char *build, const char *name);

#endif
