/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins that weft's makers know of and that are not here: what there is to do about it stands in
 * a file that whoever builds or packages weft has written. */
#include "host/internal.h"

#include <ctype.h>
#include <string.h>
#include <weft/files.h>

#ifndef WEFT_KNOWN_PLUGINS
#define WEFT_KNOWN_PLUGINS "/usr/local/share/weft/plugins.known"
#endif

enum { MOST_BYTES = 1 << 20 };

bool weft_known_next(const char **text, weft_known *out)
{
    for (const char *line = *text; *line; line = *text) {
        const char *end = line + strcspn(line, "\n");
        *text = end + (*end == '\n');
        line += strspn(line, " \t");
        size_t name = strcspn(line, " \t\n");
        const char *words = line + name + strspn(line + name, " \t");
        while (end > words && isspace((unsigned char)end[-1]))
            end--;
        if (*line == '#' || name == 0 || words >= end)
            continue;
        *out = (weft_known){line, (int)name, words, (int)(end - words)};
        return true;
    }
    return false;
}

/* A file that is not there, or cannot be read, knows nothing: it is a help, no more. */
char *weft_search_known(const weft_search *search)
{
    const char *path = WEFT_KNOWN_PLUGINS;
    char *text = NULL, *own = NULL;
    size_t size;
    for (int i = 0; i < search->n_folders; i++)
        if (search->folders[i].build)
            path = own = weft_format("%s/../plugins.known", search->folders[i].real);
    if (!path || weft_read_file(path, &text, &size, NULL) != WEFT_OK || size > MOST_BYTES) {
        weft_free(text);
        text = NULL;
    }
    weft_free(own);
    return text;
}
