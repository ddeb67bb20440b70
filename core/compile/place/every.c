/* SPDX-License-Identifier: Apache-2.0 */
/* What runs only in some steps. A pass marks where something is kept, or shown to end; what only
 * such nodes read follows them, and so does a redistribute of what they make. */
#include "compile/graph/graph.h"

#include <string.h>
#include <weft/marks.h>

int64_t weft_gcd(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

int weft_node_otherwise(const weft_node *n)
{
    return (int)weft_get_mark(n, WEFT_MARK_OTHERWISE) - 1;
}

int64_t weft_value_every(const weft_value *v)
{
    return weft_node_otherwise(v->node) >= 0 ? 1 : v->node->every;
}

/* In which steps a node reads its operand i. */
static int64_t reads_every(const weft_node *n, int i)
{
    return weft_node_otherwise(n) == i ? 1 : n->every;
}

/* ---- what follows ---- */

/* Sets mark 1 on nodes whose results are there for the host, or others, in every step. */
static void mark_wanted(weft_graph *g)
{
    for (weft_node *n = g->first; n; n = n->next) {
        n->mark = n->scope == WEFT_MICRO_BATCH || weft_node_accumulates(n) ||
                  weft_node_is(n, WEFT_OP_SOURCE);
        for (int r = 0; r < n->n_outs; r++)
            n->mark =
                n->mark || n->outs[r]->update_of || (n->outs[r]->fetch && n->outs[r]->n_uses == 0);
    }
    weft_graph_mark_shown(g);
}

/* 0: nobody reads it in any step. */
static int64_t every_of_readers(const weft_node *n)
{
    int64_t every = 0;
    for (int r = 0; r < n->n_outs; r++)
        for (int i = 0; i < n->outs[r]->n_uses; i++) {
            const weft_use *use = &n->outs[r]->uses[i];
            every = weft_gcd(every, reads_every(use->node, use->operand));
        }
    return every;
}

void weft_graph_assign_every(weft_graph *g)
{
    bool any = false;
    for (weft_node *n = g->first; n; n = n->next) {
        const int64_t marked = weft_get_mark(n, WEFT_MARK_EVERY);
        n->every = marked > 0 ? marked : n->steps && n->n_ins ? weft_value_every(n->ins[0]) : 1;
        any = any || n->every > 1;
    }
    if (!any)
        return;
    mark_wanted(g);
    for (weft_node *n = g->last; n; n = n->prev)
        if (!n->mark && n->every == 1 && !weft_get_mark(n, WEFT_MARK_EVERY))
            n->every = every_of_readers(n);
    for (weft_node *n = g->first; n; n = n->next)
        n->every = n->every ? n->every : 1;
}

/* ---- checks ---- */

static void fail_stale(weft_graph *g, const weft_value *v, const char *by, const char *reader)
{
    weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                    "%s (%s) is made every %lld steps, and %s (%s) needs it in others, too; let a "
                    "state keep it, or mark that with weft_set_every",
                    v->name, v->node->by, (long long)v->node->every, reader, by);
}

static void check_operands(weft_graph *g, const weft_node *n)
{
    const int kept = weft_node_otherwise(n);
    for (int i = 0; i < n->n_ins; i++)
        if (reads_every(n, i) % weft_value_every(n->ins[i]))
            fail_stale(g, n->ins[i], n->by, n->outs[0]->name);
    if (kept >= 0 && n->ins[kept]->layout.bits != n->outs[0]->layout.bits)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s (%s) is %s in other steps, and lies otherwise on the mesh",
                        n->outs[0]->name, n->by, n->ins[kept]->name);
    if (n->every > 1 && (n->scope == WEFT_MICRO_BATCH || weft_node_is(n, WEFT_OP_SOURCE)))
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s (%s) is marked to be made every %lld steps, and only what runs once a "
                        "step can be left out of some",
                        n->outs[0]->name, n->by, (long long)n->every);
}

static void check_count(weft_graph *g)
{
    int64_t list[WEFT_MOST_PERIODS];
    int n = 0, i;
    for (const weft_node *node = g->first; node; node = node->next) {
        for (i = 0; i < n && list[i] != node->every; i++)
            continue;
        if (i < n || node->every == 1)
            continue;
        if (n == WEFT_MOST_PERIODS) {
            weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                            "nodes run every %lld, %lld, %lld, %lld and %lld (%s) steps; a run has "
                            "at most %d such numbers: let some be alike",
                            (long long)list[0], (long long)list[1], (long long)list[2],
                            (long long)list[3], (long long)node->every, node->by,
                            WEFT_MOST_PERIODS);
            return;
        }
        list[n++] = node->every;
    }
}

weft_status weft_graph_check_every(weft_graph *g)
{
    for (const weft_node *n = g->first; n && !weft_graph_status(g); n = n->next)
        check_operands(g, n);
    for (int i = 0; i < g->n_reports && !weft_graph_status(g); i++)
        if (weft_value_every(g->reports[i].value) > 1)
            fail_stale(g, g->reports[i].value, g->reports[i].by, g->reports[i].name);
    for (int i = 0; i < g->n_parameters && !weft_graph_status(g); i++)
        if (g->parameters[i]->gradient && weft_value_every(g->parameters[i]->gradient) > 1)
            fail_stale(g, g->parameters[i]->gradient, "gradient", g->parameters[i]->name);
    if (!weft_graph_status(g))
        check_count(g);
    return weft_graph_status(g);
}
