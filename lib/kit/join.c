/* SPDX-License-Identifier: Apache-2.0 */
/* For passes: nodes replaced by one of an op whose pattern they fit, where the device has a kernel
 * for it. What is done is the same on every rank. */
#include "compile/graph/rule.h"
#include "compile/program/lower.h"
#include "kit/pattern.h"

#include <stdio.h>
#include <string.h>

typedef struct match {
    const weft_pattern *p;
    weft_node *node[WEFT_PATTERN_MEMBERS];
    weft_value *of[WEFT_PATTERN_NAMES]; /* by number */
    weft_node *first, *last, *at;       /* of the members; where the new node stands */
    weft_attr attrs[16];
    int n_attrs;
} match;

static bool bind(weft_value **of, int n, const int8_t *numbers, weft_value *const *values)
{
    for (int i = 0; i < n; i++) {
        weft_value **at = &of[numbers[i]];
        if (*at && *at != values[i])
            return false;
        *at = values[i];
    }
    return true;
}

/* In one place, in the same steps: they could as well be one node. */
static bool is_beside(const weft_node *a, const weft_node *b)
{
    return a->part == b->part && a->stage == b->stage && a->chunk == b->chunk &&
           a->phase == b->phase && a->scope == b->scope && a->every == b->every;
}

/* Is n member k, with what others are by now? */
static bool fits(match *m, int k, weft_node *n)
{
    const weft_member *w = &m->p->member[k];
    for (int i = 0; i < k; i++)
        if (m->node[i] == n)
            return false;
    if (n->op != w->op || n->n_ins != w->n_ins || n->n_outs != w->n_outs || n->steps ||
        !is_beside(n, k ? m->node[0] : n) || weft_node_otherwise(n) >= 0 || weft_node_rings(n))
        return false;
    for (int i = 0; i < n->n_ins + n->n_outs; i++)
        if ((i < n->n_ins ? n->ins[i] : n->outs[i - n->n_ins])->turn)
            return false;
    m->node[k] = n;
    m->first = k && m->first->mark < n->mark ? m->first : n;
    m->last = k && m->last->mark > n->mark ? m->last : n;
    return bind(m->of, n->n_ins, w->in, n->ins) && bind(m->of, n->n_outs, w->out, n->outs);
}

static bool is_member(const match *m, const weft_node *n)
{
    for (int k = 0; k < m->p->n; k++)
        if (m->node[k] == n)
            return true;
    return false;
}

/* The dtype that a value between two members has where nobody says another. */
static weft_dtype usual(const weft_node *n)
{
    const weft_dtype from = n->ins[n->op->dtype_from]->dtype;
    return !(n->op->flags & WEFT_OP_STAT) || from == WEFT_F64 ? from : WEFT_F32;
}

/* Is every operand there by then? */
static bool has_operands(const match *m, const weft_node *at)
{
    for (int i = 0; i < m->p->n_ins; i++)
        if (m->of[i]->node->mark >= at->mark)
            return false;
    return true;
}

/* Does nobody else read what members make before this node, and what is between them never? */
static bool is_unread(const match *m, const weft_node *at)
{
    for (int i = m->p->n_ins; i < m->p->n_names; i++)
        for (int u = 0; u < m->of[i]->n_uses; u++) {
            const weft_node *reader = m->of[i]->uses[u].node;
            const bool inner = i >= m->p->n_ins + m->p->n_outs;
            if (!is_member(m, reader) && (inner || reader->mark <= at->mark))
                return false;
        }
    return true;
}

/* Can they be one node, where the first of them stands or else the last? */
static bool is_closed(const weft_graph *g, match *m)
{
    for (int i = m->p->n_ins + m->p->n_outs; i < m->p->n_names; i++) {
        const weft_value *v = m->of[i];
        if (v->fetch || v->dtype != usual(v->node) || weft_value_is_root(g, v))
            return false;
    }
    m->at = has_operands(m, m->first) ? m->first : m->last;
    return is_unread(m, m->at);
}

/* The attributes of all; false: two have one that differs, or there are too many. */
static bool merge(match *m)
{
    const int most = sizeof m->attrs / sizeof m->attrs[0];
    m->n_attrs = 0;
    for (int k = 0; k < m->p->n; k++)
        for (int i = 0; i < m->node[k]->n_attrs; i++) {
            const weft_attr *a = &m->node[k]->attrs[i], *b = m->attrs;
            int j = 0;
            while (j < m->n_attrs && strcmp(b[j].key, a->key) != 0)
                j++;
            if (j == most || (j < m->n_attrs &&
                              (b[j].kind != a->kind || b[j].i != a->i || b[j].r != a->r ||
                               strcmp(a->text ? a->text : "", b[j].text ? b[j].text : "") != 0)))
                return false;
            m->attrs[j] = *a;
            m->n_attrs += j == m->n_attrs;
        }
    return true;
}

/* Does its rule, which may be made of its operands, fit them? */
static bool has_rule(const match *m)
{
    weft_error ignored = {0};
    weft_rule rule;
    match copy = *m;
    const weft_node n = {.op = m->p->op,
                         .ins = copy.of,
                         .outs = copy.of + m->p->n_ins,
                         .n_ins = m->p->n_ins,
                         .n_outs = m->p->n_outs,
                         .attrs = copy.attrs,
                         .n_attrs = m->n_attrs};
    const bool fits = weft_rule_of_node(&n, true, &rule, &ignored) == WEFT_OK;
    weft_error_release(&ignored);
    return fits;
}

/* Has every rank a kernel for its part of it? */
static bool is_taken(const weft_graph *g, const match *m)
{
    const int n = m->p->n_ins + m->p->n_outs, ranks = weft_mesh_ranks(&g->config.mesh);
    weft_tensor tensors[WEFT_PATTERN_NAMES];
    weft_call call = {.op = m->p->op,
                      .attrs = m->attrs,
                      .n_attrs = m->n_attrs,
                      .n_ins = m->p->n_ins,
                      .n_outs = m->p->n_outs,
                      .ins = tensors,
                      .outs = tensors + m->p->n_ins};
    weft_kernels_address(g->config.kernels, 0, &call);
    for (int rank = 0; rank < ranks; rank++) {
        int coord[WEFT_MAX_AXES];
        weft_mesh_coord(&g->config.mesh, rank, coord);
        for (int i = 0; i < n; i++)
            weft_local_tensor(g, m->of[i], coord, &tensors[i]);
        if (!weft_kernels_find(g->config.kernels, &call))
            return false;
    }
    return true;
}

/* Finds members k and on. One reads what those before it do: of that, what has fewest readers. Of
 * several that fit, as those that read what a product reads, the first that a kernel takes. */
static bool find(const weft_graph *g, match *m, int k)
{
    if (k == m->p->n)
        return is_closed(g, m) && merge(m) && has_rule(m) && is_taken(g, m);
    const weft_value *from = NULL;
    for (int i = 0; i < m->p->member[k].n_ins; i++) {
        const weft_value *v = m->of[m->p->member[k].in[i]];
        from = v && (!from || v->n_uses < from->n_uses) ? v : from;
    }
    for (int u = 0; from && u < from->n_uses; u++) {
        match try = *m;
        if (fits(&try, k, from->uses[u].node) && find(g, &try, k + 1)) {
            *m = try;
            return true;
        }
    }
    return false;
}

/* ---- made one ---- */

static bool join(weft_graph *g, const match *m)
{
    const int first = m->p->n_ins;
    const weft_spot spot = g->spot;
    g->spot = (weft_spot){m->at->next, m->at->block, m->at->chunk, m->at->phase, m->at->scope};
    weft_node *n = weft_node_new(g, &(weft_node_spec){.op = m->p->op,
                                                      .name = m->of[first]->name,
                                                      .n_ins = first,
                                                      .ins = m->of,
                                                      .n_outs = m->p->n_outs,
                                                      .attrs = m->attrs,
                                                      .n_attrs = m->n_attrs,
                                                      .scope = m->at->scope});
    g->spot = spot;
    if (!n)
        return false;
    n->part = m->at->part;
    n->stage = m->at->stage;
    n->every = m->at->every;
    n->mark = m->at->mark;
    n->by = m->at->by;
    for (int i = 0; i < n->n_outs; i++) { /* values stay what they are */
        n->outs[i] = m->of[first + i];
        n->outs[i]->node = n;
        n->outs[i]->result = i;
    }
    for (int k = m->p->n - 1; k >= 0; k--) {
        while (m->node[k]->n_ins)
            weft_node_drop_operand(m->node[k]);
        weft_node_unlink(g, m->node[k]);
    }
    return true;
}

/* What is said of an op: how often it was put in, and what is never made for that. */
typedef struct tally {
    int count;
    double bytes;   /* of one micro-batch, on the rank that has most of each */
    weft_text lost; /* names in a block: " n1 n2 " */
} tally;

static void count(tally *t, const weft_graph *g, const match *m)
{
    t->count++;
    for (int i = m->p->n_ins + m->p->n_outs; i < m->p->n_names; i++) {
        char name[64];
        const char *dot = strrchr(m->of[i]->name, '.');
        snprintf(name, sizeof name, " %s ", dot ? dot + 1 : m->of[i]->name);
        t->bytes += (double)weft_value_part_bytes(g, m->of[i]);
        if (!strstr(weft_text_get(&t->lost), name))
            weft_text_add(&t->lost, name + (t->lost.size > 0));
    }
}

static void tell(weft_graph *g, const weft_pattern *p, tally *t)
{
    weft_text bytes = {0};
    weft_print_bytes(&bytes, t->bytes);
    if (t->lost.size)
        weft_graph_note(g, "%d times %s: %s; never made:%s(%s of a micro-batch)", t->count,
                        p->op->name, p->op->pattern, weft_text_get(&t->lost),
                        weft_text_get(&bytes));
    else
        weft_graph_note(g, "%d times %s: %s", t->count, p->op->name, p->op->pattern);
    weft_text_release(&bytes);
}

/* Everything that the pattern fits. */
static void join_all(weft_graph *g, const weft_pattern *p, tally *t)
{
    for (weft_node *n = g->first, *next; n && !weft_graph_status(g); n = next) {
        match m = {.p = p};
        next = n->next;
        if (n->op != p->member[0].op || !fits(&m, 0, n) || !find(g, &m, 1))
            continue;
        while (next && is_member(&m, next))
            next = next->next;
        if (join(g, &m))
            count(t, g, &m);
    }
}

/* Positions, by which is asked what comes first. */
static void number(weft_graph *g)
{
    int position = 0;
    for (weft_node *n = g->first; n; n = n->next)
        n->mark = position++;
}

/* Is it the first kernel of its op? */
static bool is_first(const weft_kernels *kernels, int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(kernels->list[k]->op, kernels->list[i]->op) == 0)
            return false;
    return true;
}

/* Ops of so many members. */
static void join_ops(weft_graph *g, int members, bool (*wanted)(const char *op, void *ctx),
                     void *ctx)
{
    const weft_kernels *kernels = g->config.kernels;
    for (int i = 0; kernels && i < kernels->n && !weft_graph_status(g); i++) {
        const weft_op *op = weft_ops_find(g->config.ops, kernels->list[i]->op);
        weft_pattern p;
        if (!op || !op->pattern || !is_first(kernels, i) || (wanted && !wanted(op->name, ctx)) ||
            weft_pattern_read(g->config.ops, op, &p, &g->error) || p.n != members)
            continue;
        tally t = {0};
        number(g);
        join_all(g, &p, &t);
        if (t.count)
            tell(g, &p, &t);
        weft_text_release(&t.lost);
    }
}

void weft_join_nodes(weft_graph *g, bool (*wanted)(const char *op, void *ctx), void *ctx)
{
    for (int members = WEFT_PATTERN_MEMBERS; members > 0; members--)
        join_ops(g, members, wanted, ctx);
}
