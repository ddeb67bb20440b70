/* SPDX-License-Identifier: Apache-2.0 */
#include "vet/known.h"

#include <ctype.h>
#include <string.h>
#include <weft/files.h>

#ifndef WEFT_KNOWN_PLUGINS
#define WEFT_KNOWN_PLUGINS "/usr/local/share/weft/plugins.known"
#endif

enum { MOST_BYTES = 1 << 20 };

char *weft_known_read(const char *build)
{
    char *text = NULL, *path = build ? weft_format("%s/../plugins.known", build)
                                     : weft_strdup(WEFT_KNOWN_PLUGINS);
    size_t size;
    if (path && weft_read_file(path, &text, &size, NULL) == WEFT_OK && size > MOST_BYTES) {
        weft_free(text);
        text = NULL;
    }
    weft_free(path);
    return text;
}

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

bool weft_known_is(const weft_known *known, const char *name)
{
    return strlen(name) == (size_t)known->name_size &&
           strncmp(name, known->name, (size_t)known->name_size) == 0;
}

char *weft_known_advise(const char *build, const char *name)
{
    char *text = weft_known_read(build), *advice = NULL;
    const char *p = text;
    weft_known k;
    while (p && !advice && weft_known_next(&p, &k))
        if (weft_known_is(&k, name))
            advice = weft_format("%.*s", k.advice_size, k.advice);
    weft_free(text);
    return advice;
}
