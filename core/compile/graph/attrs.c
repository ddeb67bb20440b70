/* SPDX-License-Identifier: Apache-2.0 */
/* The attributes that ops declare. */
#include "compile/graph/graph.h"
#include "settings/settings.h"

#include <string.h>
#include <weft/marks.h>

enum { MOST_NAMES = 32 };

/* The next name of a list, "eps, theta", and its length; 0 at the end. */
static const char *next_name(const char *p, size_t *n)
{
    p += strspn(p, ", ");
    *n = strcspn(p, ", ");
    return p;
}

bool weft_op_declares(const weft_op *op, const char *key)
{
    size_t n, size = strlen(key);
    for (const char *p = next_name(op->attrs ? op->attrs : "", &n); n; p = next_name(p + n, &n))
        if (n == size && strncmp(p, key, n) == 0)
            return true;
    for (int m = 0; m < WEFT_MARKS; m++) /* of marks others decide: marks.c */
        if (strcmp(weft_mark_name((weft_mark)m), key) == 0)
            return true;
    return false;
}

static const char *nearest(weft_graph *g, const weft_op *op, const char *key)
{
    const char *names[MOST_NAMES];
    size_t n;
    int n_names = 0;
    for (const char *p = next_name(op->attrs ? op->attrs : "", &n); n && n_names < MOST_NAMES;
         p = next_name(p + n, &n))
        if ((names[n_names] = weft_pool_format(&g->pool, "%.*s", (int)n, p)))
            n_names++;
    return weft_nearest(key, names, n_names);
}

weft_status weft_check_attr(weft_graph *g, const weft_op *op, const char *name, const char *key)
{
    if (weft_op_declares(op, key))
        return WEFT_OK;
    const char *near = nearest(g, op, key);
    if (near)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s%s%s: the op declares no attribute '%s'; did it mean '%s'?",
                        name ? name : "", name ? " = " : "", op->name, key, near);
    else
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s%s%s: the op declares no attribute '%s', %s%s (weft_op.attrs)",
                        name ? name : "", name ? " = " : "", op->name, key,
                        op->attrs ? "but: " : "nor any other", op->attrs ? op->attrs : "");
    return weft_graph_status(g);
}
