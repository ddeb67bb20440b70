/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens in pieces, from the first node of a block that can be cut to the last: what cannot (an
 * attention along the sequence, a sum over tokens) reads the whole again. */
#include "overlap.h"

#include <string.h>

typedef struct cutter {
    weft_graph *g;
    const char *dim;
    int n, n_values;      /* pieces; values before anything was cut */
    weft_value ***pieces; /* by id of these; NULL: it is whole */
    weft_value **joined;  /* and put together again */
    weft_node **cut;      /* nodes that pieces took the place of */
    int n_cut;
} cutter;

/* A part of the rule table that speaks of this value by its name speaks of its pieces, too. */
static void take_rules(cutter *c, const weft_value *from, weft_value *piece)
{
    weft_table_rule rule;
    for (int i = 0; weft_graph_rule(c->g, i, &rule); i++)
        if (rule.of == WEFT_RULE_VALUE && !rule.idle && rule.pattern &&
            strcmp(rule.pattern, from->name) == 0) {
            rule.pattern = piece->name;
            weft_add_rule_with(c->g, &rule);
        }
}

/* What was said of a value is true of its pieces. */
static void describe(cutter *c, const weft_value *from, weft_value *piece)
{
    if (!piece)
        return;
    piece->dtype = from->dtype;
    piece->fetch = from->fetch;
    if (from->role)
        weft_set_role(c->g, piece, from->role);
    piece->recompute = from->recompute;
    take_rules(c, from, piece);
}

static void add_attrs(cutter *c, const char *op, const weft_value *like, const char *name,
                      int n_ins, weft_value *const *ins, int n_outs, weft_value **outs)
{
    const weft_attr attrs[] = {
        {.key = "dim", .kind = WEFT_ATTR_INT, .i = weft_value_dim(like, c->dim)},
        {.key = "n", .kind = WEFT_ATTR_INT, .i = c->n}};
    weft_add_full(c->g, op, name, n_ins, ins, n_outs, outs, attrs, 2);
}

/* The pieces of v, for node n. They are cheap: the backward makes them again of what is kept. They
 * are of the block that v is of: those of what all blocks read (positions) are of none, or one
 * stage's backward would wait for another's. */
static weft_value **pieces_of(cutter *c, weft_value *v, weft_node *n)
{
    if (c->pieces[v->id])
        return c->pieces[v->id];
    weft_value **list = weft_alloc_zero((size_t)c->n, sizeof *list);
    const char *name = weft_graph_format(c->g, "%s.pieces", v->name);
    if (!list)
        weft_fail_memory(weft_graph_error(c->g));
    if (list && name) {
        weft_graph_at(c->g, n);
        weft_graph_set_block(c->g, v->node->block);
        add_attrs(c, "chunk", v, name, 1, &v, c->n, list);
        for (int p = 0; p < c->n && list[p]; p++) {
            describe(c, v, list[p]);
            list[p]->fetch = false;
            weft_set_recompute(c->g, list[p], weft_graph_mode(c->g) == WEFT_MODE_TRAIN);
        }
    }
    return c->pieces[v->id] = list;
}

static weft_value *whole_of(cutter *c, weft_value *v, weft_node *n)
{
    if (c->joined[v->id])
        return c->joined[v->id];
    const char *name = weft_graph_format(c->g, "%s.whole", v->name);
    weft_value *whole = NULL;
    weft_graph_at(c->g, n);
    add_attrs(c, "unchunk", v, name, c->n, c->pieces[v->id], 1, &whole);
    describe(c, v, whole);
    if (whole)
        whole->fetch = false;
    return c->joined[v->id] = whole;
}

static bool is_cut(const cutter *c, const weft_value *v)
{
    return v->id < c->n_values && c->pieces[v->id];
}

static bool has_dim(const cutter *c, const weft_value *v)
{
    return !v->weight && weft_value_dim(v, c->dim) >= 0;
}

static void add_piece(cutter *c, weft_node *n, int p)
{
    weft_value *ins[64], *outs[64];
    const char *name = weft_graph_format(c->g, "%s.%d", n->outs[0]->name, p);
    for (int i = 0; i < n->n_ins; i++)
        ins[i] = has_dim(c, n->ins[i]) ? pieces_of(c, n->ins[i], n)[p] : n->ins[i];
    weft_graph_at(c->g, n);
    weft_add_full(c->g, n->op->name, name, n->n_ins, ins, n->n_outs, outs, n->attrs, n->n_attrs);
    for (int i = 0; i < n->n_outs && !weft_graph_status(c->g); i++) {
        if (!c->pieces[n->outs[i]->id])
            c->pieces[n->outs[i]->id] = weft_alloc_zero((size_t)c->n, sizeof(weft_value *));
        if (!c->pieces[n->outs[i]->id]) {
            weft_fail_memory(weft_graph_error(c->g));
            return;
        }
        c->pieces[n->outs[i]->id][p] = outs[i];
        describe(c, n->outs[i], outs[i]);
        outs[i]->node->scope = n->scope;
    }
}

static bool may_cut(const cutter *c, const weft_node *n)
{
    if (n->block < 0 || n->chunk >= 0 || n->n_ins > 64 || n->n_outs > 64 ||
        weft_node_in(n, "chunk") || weft_node_in(n, "unchunk"))
        return false;
    for (int i = 0; i < n->n_outs; i++)
        if (n->outs[i]->weight)
            return false;
    return weft_node_splits(c->g, n, c->dim);
}

static void visit(cutter *c, weft_node *n)
{
    if (may_cut(c, n)) {
        for (int i = 0; i < n->n_ins; i++)
            if (has_dim(c, n->ins[i]))
                pieces_of(c, n->ins[i], n);
        for (int p = 0; p < c->n && !weft_graph_status(c->g); p++)
            add_piece(c, n, p);
        c->cut[c->n_cut++] = n;
        return;
    }
    for (int i = 0; i < n->n_ins && !weft_graph_status(c->g); i++)
        if (is_cut(c, n->ins[i]))
            weft_node_set_operand(c->g, n, i, whole_of(c, n->ins[i], n));
}

static void release(cutter *c)
{
    for (int i = 0; c->pieces && i < c->n_values; i++)
        weft_free(c->pieces[i]);
    weft_free(c->pieces);
    weft_free(c->joined);
    weft_free(c->cut);
}

int overlap_cut(weft_graph *g, int n, const char *dim)
{
    cutter c = {.g = g, .dim = dim, .n = n, .n_values = weft_graph_values(g)};
    int nodes = 0;
    for (const weft_node *at = weft_graph_first(g); at; at = at->next)
        nodes++;
    const size_t size = (size_t)(c.n_values > nodes ? c.n_values : nodes) + 1;
    c.pieces = weft_alloc_zero(size, sizeof *c.pieces);
    c.joined = weft_alloc_zero(size, sizeof *c.joined);
    c.cut = weft_alloc_zero(size, sizeof *c.cut);
    if (!c.pieces || !c.joined || !c.cut)
        weft_fail_memory(weft_graph_error(g));
    for (weft_node *at = weft_graph_first(g), *next; at && !weft_graph_status(g); at = next) {
        next = at->next;
        visit(&c, at);
    }
    weft_graph_at(g, NULL);
    for (int i = c.n_cut - 1; i >= 0 && !weft_graph_status(g); i--)
        if (c.cut[i]->n_ins > 0) /* it went with one behind it otherwise */
            weft_remove(g, c.cut[i]);
    nodes = c.n_cut;
    release(&c);
    return nodes;
}
