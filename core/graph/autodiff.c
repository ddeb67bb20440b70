/* SPDX-License-Identifier: Apache-2.0 */
/* Reverse mode over the placed graph. A redistribute does not change what a value is, so its
 * adjoint is nothing at all: the gradient passes on, and `settle` gives every gradient the cuts of
 * the value that it belongs to. */
#include "graph/grad.h"
#include "graph/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/marks.h>

typedef struct parts {
    weft_value **list;
    int n, capacity;
} parts;

typedef struct backward {
    weft_graph *g;
    int n_values;        /* of the forward */
    bool *needs;         /* by value id: its gradient is wanted */
    parts *of;           /* by value id: contributions to its gradient */
    weft_value **copies; /* by value id: the recomputed copy */
} backward;

/* ---- building ---- */

static bool add_part(backward *b, weft_value *x, weft_value *part)
{
    parts *p = &b->of[x->id];
    return weft_graph_push(b->g, (void ***)&p->list, &p->n, &p->capacity, part);
}

/* A gradient's dtype; that of a weight is a sum over tokens and stays wide. */
static weft_dtype gradient_dtype(const backward *b, const weft_value *x)
{
    return x->weight ? b->g->config.dtype : x->dtype;
}

/* New nodes belong to the block, chunk and plugin of `source`: the node that they differentiate. */
static void stand_at(weft_graph *g, const weft_node *source, weft_phase phase)
{
    g->spot.block = source->block;
    g->spot.chunk = source->chunk;
    g->by = source->by;
    g->spot.phase = phase;
}

/* A node that makes (part of) the gradients of `targets`, as many as it has results; spec has its
 * operands and what else it needs. */
static weft_node *make(backward *b, const char *op, size_t op_size, weft_value *const *targets,
                       const weft_node *source, weft_node_spec spec)
{
    weft_graph *g = b->g;
    char *name = weft_pool_format(&g->pool, "%.*s", (int)op_size, op);
    weft_dtype dtypes[WEFT_RULE_MAX_PARTS];
    if (!name) {
        weft_fail_memory(&g->error);
        return NULL;
    }
    if (!(spec.op = weft_ops_find(g->config.ops, name))) {
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "the gradient of %s needs op '%s', which does not exist", source->op->name,
                        name);
        return NULL;
    }
    for (int i = 0; i < spec.n_outs; i++)
        dtypes[i] = gradient_dtype(b, targets[i]);
    spec.gradient_of = targets;
    spec.dtypes = dtypes;
    stand_at(g, source, WEFT_BACKWARD);
    return weft_graph_add_node(g, &spec);
}

/* Does a gather that weight x goes through ask for collectives that run as one? Then the gradient's
 * do, too. */
static bool is_grouped(const weft_value *x)
{
    for (int i = 0; i < x->n_uses; i++)
        if (weft_get_mark(x->uses[i].node, WEFT_MARK_GROUP))
            return true;
    return false;
}

/* Every axis that cuts x cuts its gradient in the same place; on all other axes the gradient stays
 * as it is, open sums included. */
static weft_value *settle(backward *b, weft_value *dx, const weft_value *x)
{
    weft_layout to = x->layout, have = dx->layout;
    for (int a = 0; a < WEFT_MAX_AXES; a++)
        if (weft_layout_open(to, a))
            to = weft_layout_clear(to, a);
    for (int d = 0; d < dx->n_dims; d++) {
        int list[WEFT_MAX_AXES], n = weft_layout_list(have, d, list);
        for (int i = 0; i < n; i++)
            if (weft_layout_byte(to, list[i]) == 0)
                to = weft_layout_cut(to, d, list[i], weft_layout_fine(have, list[i]));
    }
    for (int a = 0; a < WEFT_MAX_AXES; a++)
        if (weft_layout_open(have, a) && weft_layout_byte(to, a) == 0)
            to = weft_layout_set_open(to, a, weft_layout_open(have, a));
    if (to.bits == have.bits)
        return dx;
    char why[256];
    snprintf(why, sizeof why, "cuts of %s", x->name);
    stand_at(b->g, dx->node, WEFT_BACKWARD);
    weft_value *moved =
        weft_move_to(b->g, dx, to, NULL, WEFT_BACKWARD, why, x->weight ? b->g->storage_by : NULL);
    if (moved)
        moved->node->block = dx->node->block;
    if (moved && x->weight && is_grouped(x))
        weft_set_mark(b->g, moved, WEFT_MARK_GROUP, 1);
    return moved;
}

/* A forward value as the backward sees it: kept, or computed again from what was kept. */
static weft_value *saved(backward *b, weft_value *v)
{
    if (!v->recompute || v->id >= b->n_values)
        return v;
    if (b->copies[v->id])
        return b->copies[v->id];
    weft_graph *g = b->g;
    weft_node *n = v->node;
    weft_value **ins = weft_pool_alloc(&g->pool, ((size_t)n->n_ins + 1) * sizeof *ins);
    char *name = weft_pool_format(&g->pool, "%s*", n->outs[0]->name);
    if (!ins || !name) {
        weft_fail_memory(&g->error);
        return NULL;
    }
    for (int i = 0; i < n->n_ins; i++)
        if (!(ins[i] = saved(b, n->ins[i])))
            return NULL;
    stand_at(g, n, WEFT_RECOMPUTE);
    weft_node *copy = weft_node_new(g, &(weft_node_spec){.op = n->op,
                                                         .name = name,
                                                         .n_ins = n->n_ins,
                                                         .ins = ins,
                                                         .n_outs = n->n_outs,
                                                         .like = n->like,
                                                         .attrs = n->attrs,
                                                         .n_attrs = n->n_attrs,
                                                         .scope = n->scope});
    if (!copy)
        return NULL;
    copy->steps = n->steps;
    copy->n_steps = n->n_steps;
    copy->why = n->why;
    for (int r = 0; r < n->n_outs; r++) {
        weft_value *from = n->outs[r], *to = copy->outs[r];
        to->dtype = from->dtype;
        to->n_dims = from->n_dims;
        memcpy(to->dims, from->dims, sizeof from->dims);
        to->layout = from->layout;
        to->placed = true;
        b->copies[from->id] = to;
    }
    return b->copies[v->id];
}

/* Contributions are summed two at a time, each sum beside its last contribution, so that a sum may
 * grow in place. */
static weft_value *sum(backward *b, weft_value **list, int n, weft_value *x)
{
    weft_value *total = list[0];
    for (int i = 1; total && i < n; i++) {
        weft_value *ins[] = {total, list[i]};
        weft_node *node = make(b, "add", 3, &x, list[i]->node,
                               (weft_node_spec){.n_ins = 2, .ins = ins, .n_outs = 1});
        total = node ? node->outs[0] : NULL;
    }
    return total;
}

/* The sum over the step's micro-batches of v, which is x or its gradient. */
static weft_node *accumulate(backward *b, weft_value *v, weft_value *x, const weft_node *source)
{
    return make(b, "accumulate", 10, &x, source,
                (weft_node_spec){.n_ins = 1, .ins = &v, .n_outs = 1, .scope = WEFT_MICRO_BATCH});
}

/* In whose cuts the sum over micro-batches is kept: those of x itself, or, if the gather that x is
 * made through says so, those of what that gathers.
 */
static const weft_value *kept_like(const weft_value *x)
{
    for (const weft_node *n = x->node; n->n_ins; n = n->ins[0]->node)
        if (weft_get_mark(n, WEFT_MARK_REDUCE_EACH))
            return n->ins[0];
    return x;
}

/* A step_begin value that micro-batches use: sum its contributions over them, and go on after the
 * last. */
static weft_value *over_micro_batches(backward *b, weft_value *x, parts *p)
{
    weft_value **inner = weft_pool_alloc(&b->g->pool, ((size_t)p->n + 1) * sizeof *inner);
    int n_inner = 0, n_outer = 0;
    if (!inner) {
        weft_fail_memory(&b->g->error);
        return NULL;
    }
    for (int i = 0; i < p->n; i++) {
        if (weft_value_available(p->list[i]) == WEFT_MICRO_BATCH)
            inner[n_inner++] = p->list[i];
        else
            p->list[n_outer++] = p->list[i];
    }
    p->n = n_outer;
    if (n_inner) {
        weft_value *last = inner[n_inner - 1], *total = sum(b, inner, n_inner, x);
        if (total)
            total = settle(b, total, x->weight ? kept_like(x) : x);
        weft_node *node = total ? accumulate(b, total, x, last->node) : NULL;
        if (!node || !add_part(b, x, node->outs[0]))
            return NULL;
    }
    weft_value *total = sum(b, p->list, p->n, x);
    return total ? settle(b, total, x) : NULL;
}

static weft_value *total_of(backward *b, weft_value *x)
{
    parts *p = &b->of[x->id];
    if (x->node->scope == WEFT_STEP_BEGIN)
        return over_micro_batches(b, x, p);
    weft_value *total = sum(b, p->list, p->n, x);
    return total ? settle(b, total, x) : NULL;
}

/* ---- one node ---- */

typedef struct operands {
    weft_value *ins[WEFT_RULE_MAX_PARTS], *like;
    int n;
} operands;

/* Resolves the words behind a gradient op. */
static weft_status resolve(backward *b, const weft_node *n, const char *args,
                           weft_value *const *dys, operands *out)
{
    size_t size;
    memset(out, 0, sizeof *out);
    for (const char *p = weft_grad_word(args, &size); size; p = weft_grad_word(p + size, &size)) {
        weft_value *v = NULL;
        int first = 0, last = 0;
        if (size == 3 && strncmp(p, "dys", 3) == 0)
            last = n->n_outs - 1;
        else if (strncmp(p, "dy", 2) == 0)
            first = last = size > 2 ? atoi(p + 2) : 0;
        else if (strncmp(p, "like", 4) == 0) {
            out->like = n->ins[atoi(p + 4)];
            continue;
        } else {
            v = saved(b, *p == 'r' ? n->outs[atoi(p + 1)] : n->ins[atoi(p)]);
            first = last = -1;
        }
        for (int i = first; i <= last; i++) {
            weft_value *x = i < 0 ? v : dys[i];
            if (!x || out->n == WEFT_RULE_MAX_PARTS) {
                weft_graph_fail(b->g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                                "the gradient of %s = %s asks for '%.*s', which it does not have",
                                n->outs[0]->name, n->op->name, (int)size, p);
                return WEFT_ERR_INTERNAL;
            }
            out->ins[out->n++] = x;
        }
    }
    return weft_graph_status(b->g);
}

static weft_status apply(backward *b, weft_node *n, const weft_grad *s, const int *targets,
                         int n_targets, weft_value *const *dys)
{
    bool wanted = false;
    weft_value *x[WEFT_GRAD_MAX_TARGETS];
    for (int i = 0; i < n_targets; i++) {
        x[i] = n->ins[targets[i]];
        wanted = wanted || b->needs[x[i]->id];
    }
    if (!wanted)
        return WEFT_OK;
    const weft_op *op = s->op ? weft_map_get(&b->g->config.ops->by_name, s->op, s->op_size) : NULL;
    bool cast = op && (op->flags & WEFT_OP_CAST);
    if (!s->op ||
        (cast && (gradient_dtype(b, x[0]) == dys[0]->dtype || weft_get_mark(n, WEFT_MARK_PASS_ON))))
        return add_part(b, x[0], dys[0]) ? WEFT_OK : WEFT_ERR_MEMORY;
    operands o;
    weft_status st = resolve(b, n, s->args, dys, &o);
    if (st)
        return st;
    weft_node_spec spec = {.n_ins = o.n,
                           .ins = o.ins,
                           .n_outs = n_targets,
                           .like = o.like,
                           .attrs = n->attrs,
                           .n_attrs = n->n_attrs};
    weft_node *made = make(b, s->op, s->op_size, x, n, spec);
    for (int i = 0; made && i < n_targets; i++)
        if (b->needs[x[i]->id] && !add_part(b, x[i], made->outs[i]))
            return WEFT_ERR_MEMORY;
    return made ? WEFT_OK : weft_graph_status(b->g);
}

static weft_status visit(backward *b, weft_node *n)
{
    weft_value *dys[WEFT_RULE_MAX_PARTS] = {NULL};
    bool any = false;
    for (int r = 0; r < n->n_outs; r++) {
        if (b->of[n->outs[r]->id].n == 0)
            continue;
        if (!(dys[r] = total_of(b, n->outs[r])))
            return weft_graph_status(b->g);
        any = true;
    }
    if (!any)
        return WEFT_OK;
    if (n->n_ins == 0) {
        n->outs[0]->gradient = dys[0];
        return WEFT_OK;
    }
    for (const char *const *text = n->op->grad; text && *text; text++) {
        weft_grad s;
        weft_status st = weft_grad_read(n->op, *text, n->n_ins, n->n_outs, &s, &b->g->error);
        if (!s.all && !st)
            st = apply(b, n, &s, s.targets, s.n_targets, dys);
        for (int i = 0; s.all && !st && i < n->n_ins; i++)
            st = apply(b, n, &s, &i, 1, dys);
        if (st)
            return st;
    }
    return WEFT_OK;
}

/* ---- the whole ---- */

/* A value needs a gradient if it is a parameter that is trained, or made from one that needs one
 * through an operand that has a gradient. */
static weft_status mark_needs(backward *b)
{
    for (weft_node *n = b->g->first; n; n = n->next) {
        bool need = weft_node_is(n, WEFT_OP_PARAMETER) && !n->outs[0]->frozen;
        for (const char *const *text = n->op->grad; text && *text; text++) {
            weft_grad s;
            weft_status st = weft_grad_read(n->op, *text, n->n_ins, n->n_outs, &s, &b->g->error);
            if (st)
                return st;
            for (int i = 0; s.all && i < n->n_ins; i++)
                need = need || b->needs[n->ins[i]->id];
            for (int i = 0; !s.all && i < s.n_targets; i++)
                need = need || b->needs[n->ins[s.targets[i]]->id];
        }
        for (int r = 0; r < n->n_outs; r++)
            b->needs[n->outs[r]->id] = n->outs[r]->trains = need;
    }
    return WEFT_OK;
}

/* The reported loss: summed over micro-batches and closed. */
static weft_status report_loss(backward *b)
{
    weft_graph *g = b->g;
    weft_node *n = accumulate(b, g->loss, g->loss, g->loss->node);
    if (!n)
        return weft_graph_status(g);
    n->phase = WEFT_FORWARD;
    g->loss_report =
        weft_move_to(g, n->outs[0], (weft_layout){0}, NULL, WEFT_UPDATE, "reported", NULL);
    return weft_graph_status(g);
}

/* What is left open (a norm's weight over tp, everything over dp_replicate) is summed once a step,
 * on the shard: whoever asks for a parameter's gradient gets it whole. */
static weft_status close_gradients(weft_graph *g)
{
    g->spot.phase = WEFT_UPDATE;
    for (int i = 0; i < g->n_parameters; i++) {
        weft_value *p = g->parameters[i], *gradient = p->gradient;
        weft_layout to = gradient ? gradient->layout : (weft_layout){0};
        for (int a = 0; gradient && a < WEFT_MAX_AXES; a++)
            if (weft_layout_open(to, a))
                to = weft_layout_clear(to, a);
        if (gradient && !(p->gradient = weft_move_to(g, gradient, to, NULL, WEFT_UPDATE,
                                                     "the optimizer", NULL)))
            return weft_graph_status(g);
        if (p->gradient != gradient)
            weft_set_mark(g, p->gradient, WEFT_MARK_GROUP, 1);
    }
    return WEFT_OK;
}

static weft_status check_trained(weft_graph *g)
{
    for (int i = 0; i < g->n_parameters; i++)
        if (!g->parameters[i]->frozen)
            return WEFT_OK;
    if (g->n_parameters == 0)
        return WEFT_OK;
    return weft_fail(&g->error, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "every parameter is frozen; nothing is left to train");
}

weft_status weft_graph_differentiate(weft_graph *g)
{
    if (!g->loss) {
        weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                        "no listed plugin builds a model with a loss; list one, as llama3");
        return WEFT_ERR_INPUT;
    }
    weft_status s = check_trained(g);
    s = s ? s : weft_graph_check_reach(g, &g->error);
    if (s)
        return s;
    weft_node *last = g->last;
    size_t n = (size_t)g->n_values;
    backward b = {.g = g, .n_values = g->n_values};
    b.needs = weft_alloc_zero(n, sizeof *b.needs);
    b.of = weft_alloc_zero(n, sizeof *b.of);
    b.copies = weft_alloc_zero(n, sizeof *b.copies);
    int block = g->spot.block, chunk = g->spot.chunk;
    const char *by = g->by;
    if (!b.needs || !b.of || !b.copies)
        s = weft_fail_memory(&g->error);
    s = s ? s : mark_needs(&b);
    if (!s) {
        weft_attr one = {.key = "value", .kind = WEFT_ATTR_REAL, .r = 1};
        weft_node_spec spec = {.n_outs = 1, .attrs = &one, .n_attrs = 1, .scope = WEFT_MICRO_BATCH};
        weft_node *seed = make(&b, "constant", 8, &g->loss, g->loss->node, spec);
        if (seed)
            add_part(&b, g->loss, seed->outs[0]);
        s = weft_graph_status(g);
    }
    for (weft_node *node = last; node && !s; node = node->prev)
        s = visit(&b, node);
    if (!s)
        s = report_loss(&b);
    if (!s)
        s = close_gradients(g);
    g->spot.phase = WEFT_UPDATE;
    g->spot.block = block;
    g->spot.chunk = chunk;
    g->by = by;
    weft_free(b.needs);
    weft_free(b.of);
    weft_free(b.copies);
    return s;
}
