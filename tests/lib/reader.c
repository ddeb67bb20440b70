/* SPDX-License-Identifier: Apache-2.0 */
#include "reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

weft_status weft_read_bad(const weft_reader *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    weft_vfail(r->err, WEFT_ERR_INPUT, (weft_where){"graph", r->line}, format, args);
    va_end(args);
    return WEFT_ERR_INPUT;
}

void weft_read_skip(weft_reader *r)
{
    r->p += strspn(r->p, " ");
}

bool weft_read_accept(weft_reader *r, const char *word)
{
    weft_read_skip(r);
    size_t n = strlen(word);
    if (strncmp(r->p, word, n) != 0)
        return false;
    r->p += n;
    return true;
}

weft_status weft_read_expect(weft_reader *r, const char *word)
{
    return weft_read_accept(r, word)
               ? WEFT_OK
               : weft_read_bad(r, "'%s' is missing before '%.20s'", word, r->p);
}

weft_status weft_read_word(weft_reader *r, const char *what, const char *ends, const char **out)
{
    weft_read_skip(r);
    size_t n = strcspn(r->p, ends);
    if (n == 0)
        return weft_read_bad(r, "%s is missing before '%.20s'", what, r->p);
    *out = weft_pool_format(&r->g->pool, "%.*s", (int)n, r->p);
    r->p += n;
    return *out ? WEFT_OK : weft_fail_memory(r->err);
}

weft_status weft_read_int(weft_reader *r, const char *what, int64_t min, int64_t max, int64_t *out)
{
    weft_read_skip(r);
    char *end;
    errno = 0;
    *out = strtoll(r->p, &end, 10);
    if (end == r->p || errno || *out < min || *out > max)
        return weft_read_bad(r, "%s must be an integer from %lld to %lld, not '%.20s'", what,
                             (long long)min, (long long)max, r->p);
    r->p = end;
    return WEFT_OK;
}

weft_status weft_read_real(weft_reader *r, const char *what, double *out)
{
    weft_read_skip(r);
    char *end;
    *out = strtod(r->p, &end);
    if (end == r->p)
        return weft_read_bad(r, "%s must be a number, not '%.20s'", what, r->p);
    r->p = end;
    return WEFT_OK;
}

weft_status weft_read_axis(weft_reader *r, int *out)
{
    const char *name;
    weft_status s = weft_read_word(r, "an axis", " /!,;]", &name);
    if (s)
        return s;
    *out = weft_mesh_find(&r->g->config.mesh, name);
    return *out >= 0 ? WEFT_OK : weft_read_bad(r, "the mesh has no axis '%s'", name);
}

weft_status weft_read_name(weft_reader *r, const char **out)
{
    weft_read_skip(r);
    if (*r->p != '@' && *r->p != '%')
        return weft_read_bad(r, "a value begins with @ or %%, not with '%.20s'", r->p);
    r->p++;
    return weft_read_word(r, "a name", " ,;:)", out);
}

weft_value *weft_read_find(const weft_reader *r, const char *name)
{
    weft_value *v = weft_graph_find(r->g, name);
    return v && strcmp(v->name, name) == 0 ? v : NULL; /* the map keeps names that were replaced */
}

weft_status weft_read_value(weft_reader *r, weft_value **out)
{
    const char *name;
    weft_status s = weft_read_name(r, &name);
    if (s)
        return s;
    *out = weft_read_find(r, name);
    return *out ? WEFT_OK : weft_read_bad(r, "%s is not made by any line before", name);
}
