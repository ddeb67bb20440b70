/* SPDX-License-Identifier: Apache-2.0 */
/* The table of marks, and what may be marked with what. */
#include "compile/graph/graph.h"

#include <string.h>
#include <weft/marks.h>

static const struct {
    const char *name;
    unsigned on; /* ops with one of these flags; 0: all */
    bool moves;  /* redistributes, too */
    int64_t most;
    const char *whom;
} marks[WEFT_MARKS] = {
    [WEFT_MARK_GROUP] = {"group", WEFT_OP_GATHER, true, WEFT_GROUP_ALL,
                         "gathers and redistributes"},
    [WEFT_MARK_PREFETCH] = {"prefetch", WEFT_OP_GATHER, true, 1 << 20, "gathers and redistributes"},
    [WEFT_MARK_BESIDE] = {"beside", WEFT_OP_GATHER, true, 1, "redistributes"},
    [WEFT_MARK_REDUCE_EACH] = {"reduce_each", WEFT_OP_GATHER, true, 1, "gathers"},
    [WEFT_MARK_WIDE] = {"wide", 0, false, 1, "products"},
    [WEFT_MARK_PASS_ON] = {"pass_on", WEFT_OP_CAST, false, 1, "casts"},
    [WEFT_MARK_WIDE_GRADIENT] = {"wide_gradient", 0, true, 1, "all ops"},
    [WEFT_MARK_KEEP] = {"kept", 0, false, 1, "all ops"},
    [WEFT_MARK_EXACT] = {"exact", 0, false, 1, "products"},
    [WEFT_MARK_OF_MESH] = {"of_mesh", 0, false, 1, "all ops"},
    [WEFT_MARK_CHOOSES] = {"chooses", 0, false, 1, "all ops"},
    [WEFT_MARK_NO_DECAY] = {"no_decay", WEFT_OP_PARAMETER, false, 1, "parameters"},
    [WEFT_MARK_EVERY] = {"every", 0, true, INT64_MAX, "what runs once a step"},
    [WEFT_MARK_OTHERWISE] = {"otherwise", 0, true, WEFT_RULE_MAX_PARTS, "what runs once a step"},
};

const char *weft_mark_name(weft_mark mark)
{
    return (unsigned)mark < WEFT_MARKS ? marks[mark].name : NULL;
}

int64_t weft_get_mark(const weft_node *n, weft_mark mark)
{
    const char *name = weft_mark_name(mark);
    return name ? weft_node_int(n, name) : 0;
}

/* What is wrong with the mark on the node; NULL: nothing. A gradient's node has those of the node
 * that it differentiates, and need not be of its kind. */
static const char *misuse(const weft_node *n, int mark, int64_t x)
{
    bool fits = !marks[mark].on || (n->op->flags & marks[mark].on) ||
                (marks[mark].moves && n->steps) || n->phase != WEFT_FORWARD;
    if (!fits)
        return "is not for this op, but for";
    return x < 0 || x > marks[mark].most ? "has a value that makes no sense; it is for" : NULL;
}

static weft_status complain(const weft_node *n, int mark, const char *what, weft_error *err)
{
    return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                     "%s = %s (%s): the mark '%s' %s %s; see <weft/marks.h>",
                     n->n_outs ? n->outs[0]->name : "?", n->op->name, n->by, marks[mark].name, what,
                     marks[mark].whom);
}

void weft_set_mark(weft_graph *g, weft_value *v, weft_mark mark, int64_t x)
{
    if (!v || weft_graph_status(g))
        return;
    if (!weft_mark_name(mark)) {
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "there is no mark %d for %s; <weft/marks.h> lists all", (int)mark, v->name);
        return;
    }
    const char *what = misuse(v->node, (int)mark, x);
    if (what)
        complain(v->node, (int)mark, what, &g->error);
    else
        weft_set_int(g, v, marks[mark].name, x);
}

weft_status weft_check_marks(const weft_node *n, weft_error *err)
{
    for (int i = 0; i < n->n_attrs; i++)
        for (int m = 0; m < WEFT_MARKS; m++) {
            if (strcmp(n->attrs[i].key, marks[m].name) != 0)
                continue;
            const char *what = n->attrs[i].kind == WEFT_ATTR_INT ? misuse(n, m, n->attrs[i].i)
                                                                 : "is a whole number; it is for";
            if (what)
                return complain(n, m, what, err);
        }
    return WEFT_OK;
}
