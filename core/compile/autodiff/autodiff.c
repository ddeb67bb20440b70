/* SPDX-License-Identifier: Apache-2.0 */
/* Reverse mode over the placed graph. A redistribute does not change what a value is, so its
 * adjoint is nothing at all: the gradient passes on, and every gradient gets the cuts of the value
 * that it belongs to. */
#include "compile/autodiff/autodiff.h"
#include "compile/graph/grad.h"

#include <stdlib.h>
#include <string.h>
#include <weft/marks.h>

/* ---- the gradients of one node's operands ---- */

typedef struct operands {
    weft_value *ins[WEFT_RULE_MAX_PARTS], *like;
    int n;
} operands;

/* Resolves the words behind a gradient op. */
static weft_status resolve(weft_backward *b, const weft_node *n, const char *args,
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
            v = weft_backward_recall(b, *p == 'r' ? n->outs[atoi(p + 1)] : n->ins[atoi(p)]);
            first = last = -1;
        }
        for (int i = first; i <= last; i++) {
            weft_value *x = i < 0 ? v : dys[i];
            if (!x || out->n == WEFT_RULE_MAX_PARTS) {
                weft_graph_fail(b->g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                                "%s = %s (%s): a statement of its gradient reads '%.*s', the "
                                "gradient of a result that the loss does not use; write this "
                                "gradient in `differentiate`, which can do without",
                                n->outs[0]->name, n->op->name, n->by, (int)size, p);
                return WEFT_ERR_INTERNAL;
            }
            out->ins[out->n++] = x;
        }
    }
    return weft_graph_status(b->g);
}

/* Is there none of the gradients that the statement reads? Then it gives none. */
static bool reads_nothing(const weft_node *n, const weft_grad *s, weft_value *const *dys)
{
    bool any = !s->op && dys[0];
    for (int r = 0; s->op && r < n->n_outs; r++)
        any = any || (dys[r] && weft_grad_reads_dy(s->args, r));
    return !any;
}

static weft_status apply(weft_backward *b, weft_node *n, const weft_grad *s, const int *targets,
                         int n_targets, weft_value *const *dys)
{
    bool wanted = false;
    weft_value *x[WEFT_GRAD_MAX_TARGETS];
    for (int i = 0; i < n_targets; i++) {
        x[i] = n->ins[targets[i]];
        wanted = wanted || b->needs[x[i]->id];
    }
    if (!wanted || reads_nothing(n, s, dys))
        return WEFT_OK;
    const weft_op *op = s->op ? weft_map_get(&b->g->config.ops->by_name, s->op, s->op_size) : NULL;
    bool cast = op && (op->flags & WEFT_OP_CAST) && n->n_outs == 1;
    if (!s->op || (cast && (weft_backward_dtype(b, x[0]) == dys[0]->dtype ||
                            weft_get_mark(n, WEFT_MARK_PASS_ON))))
        return weft_backward_add_part(b, x[0], dys[0]) ? WEFT_OK : WEFT_ERR_MEMORY;
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
    weft_node *made = weft_backward_make(b, s->op, s->op_size, x, n, spec);
    for (int i = 0; made && i < n_targets; i++)
        if (b->needs[x[i]->id] && !weft_backward_add_part(b, x[i], made->outs[i]))
            return WEFT_ERR_MEMORY;
    return made ? WEFT_OK : weft_graph_status(b->g);
}

static weft_status apply_statements(weft_backward *b, weft_node *n, weft_value *const *dys)
{
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

/* What comes to a result that the op's gradients leave out would be lost. */
static weft_status check_results(weft_backward *b, const weft_node *n, weft_value *const *dys)
{
    const char *owner = weft_ops_owner(b->g->config.ops, n->op);
    bool wanted = false;
    for (int i = 0; i < n->n_ins; i++)
        wanted = wanted || (b->needs[n->ins[i]->id] && weft_grad_covers(n, i));
    for (int r = 0; wanted && r < n->n_outs; r++)
        if (dys[r] && !weft_grad_takes(n->op, r))
            weft_graph_fail(b->g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                            "the loss is made from %s (%s), and op %s%s%s has no gradient of its "
                            "result %d; leave that out of the loss",
                            n->outs[r]->name, n->by, n->op->name, owner ? " of plugin " : "",
                            owner ? owner : "", r);
    return weft_graph_status(b->g);
}

/* A gradient that was wanted wide is closed by now; whoever reads it gets it as narrow as the
 * value.
 */
static weft_value *narrow(weft_backward *b, const weft_node *n, const weft_value *v, weft_value *dy)
{
    if (!dy || n->steps || !weft_get_mark(n, WEFT_MARK_WIDE_GRADIENT) ||
        weft_dtype_size(dy->dtype) <= weft_dtype_size(v->dtype))
        return dy;
    weft_backward_stand_at(b->g, n, WEFT_BACKWARD);
    weft_node *made =
        weft_graph_add_node(b->g, &(weft_node_spec){.op = weft_ops_find(b->g->config.ops, "cast"),
                                                    .name = dy->name,
                                                    .n_ins = 1,
                                                    .ins = &dy,
                                                    .n_outs = 1});
    if (!made)
        return NULL;
    made->outs[0]->dtype = v->dtype;
    return made->outs[0];
}

/* Adds what n contributes to the gradients of its operands. */
static weft_status visit(weft_backward *b, weft_node *n)
{
    weft_value *dys[WEFT_RULE_MAX_PARTS] = {NULL};
    bool any = false;
    for (int r = 0; r < n->n_outs; r++) {
        if (b->of[n->outs[r]->id].n == 0)
            continue;
        if (!(dys[r] = narrow(b, n, n->outs[r], weft_backward_total(b, n->outs[r]))))
            return weft_graph_status(b->g);
        any = true;
    }
    if (!any)
        return WEFT_OK;
    if (n->n_ins == 0) {
        n->outs[0]->gradient = dys[0];
        return WEFT_OK;
    }
    if (check_results(b, n, dys))
        return weft_graph_status(b->g);
    return n->op->differentiate ? weft_backward_call(b, n, dys) : apply_statements(b, n, dys);
}

/* ---- whether every trained parameter has a gradient: a way to the loss, through operands that ops
 * have gradients for ---- */

enum { REACHED = 1, OF_LOSS = 2 };

/* Marks what the loss is made from. */
static void mark_makers(weft_graph *g)
{
    for (weft_node *n = g->first; n; n = n->next)
        n->mark = 0;
    g->loss->node->mark = OF_LOSS;
    for (weft_node *n = g->loss->node; n; n = n->prev)
        for (int i = 0; n->mark && i < n->n_ins; i++)
            n->ins[i]->node->mark = OF_LOSS;
}

/* The first node on the way from p to the loss that has no gradient for what it reads of it. */
static weft_node *cut_at(weft_graph *g, const weft_value *p, int *operand)
{
    mark_makers(g);
    p->node->mark |= REACHED;
    for (weft_node *n = p->node->next; n; n = n->next)
        for (int i = 0; i < n->n_ins; i++) {
            if (!(n->ins[i]->node->mark & REACHED) || (n->mark & REACHED))
                continue;
            *operand = i;
            if (weft_grad_covers(n, i))
                n->mark |= REACHED;
            else if (n->mark & OF_LOSS)
                return n;
        }
    return NULL;
}

/* *said: the node that was named last; it is named once, whatever needs it. */
static weft_status explain(weft_graph *g, const weft_value *p, const weft_node **said,
                           weft_error *err)
{
    int i;
    const weft_node *n = cut_at(g, p, &i);
    if (!n)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "parameter %s (%s) does not reach the loss; remove it or use it", p->name,
                         p->node->by);
    const char *owner = weft_ops_owner(g->config.ops, n->op);
    if (n != *said)
        weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                  "op %s%s%s has no gradient for operand %d of %s (%s), which parameter %s needs",
                  n->op->name, owner ? " of plugin " : "", owner ? owner : "", i, n->outs[0]->name,
                  n->by, p->name);
    *said = n;
    return WEFT_ERR_INTERNAL;
}

/* Marks what a gradient comes to, from the loss on. */
static void mark_reached(weft_graph *g)
{
    for (weft_node *n = g->first; n; n = n->next)
        n->mark = 0;
    g->loss->node->mark = REACHED;
    for (weft_node *n = g->loss->node; n; n = n->prev)
        for (int i = 0; n->mark && i < n->n_ins; i++)
            if (!n->ins[i]->node->mark && weft_grad_covers(n, i))
                n->ins[i]->node->mark = REACHED;
}

weft_status weft_graph_check_reach(weft_graph *g, weft_error *err)
{
    if (!g->loss || weft_graph_status(g))
        return weft_graph_status(g);
    mark_reached(g);
    const weft_value **missed = weft_alloc(((size_t)g->n_parameters + 1) * sizeof *missed);
    if (!missed)
        return weft_fail_memory(err);
    int n = 0;
    for (int i = 0; i < g->n_parameters; i++)
        if (!g->parameters[i]->frozen && !g->parameters[i]->node->mark)
            missed[n++] = g->parameters[i];
    const weft_node *said = NULL;
    weft_status s = WEFT_OK;
    for (int i = 0; i < n && i < 20; i++)
        s = explain(g, missed[i], &said, err);
    weft_free(missed);
    return s;
}

/* Every parameter that is trained has a gradient, and there is one. */
static weft_status check_used(weft_graph *g)
{
    weft_status s = WEFT_OK;
    const weft_node *said = NULL;
    int n_frozen = 0;
    for (int i = 0; i < g->n_parameters; i++) {
        n_frozen += g->parameters[i]->frozen;
        if (!g->parameters[i]->gradient && !g->parameters[i]->frozen)
            s = explain(g, g->parameters[i], &said, &g->error);
    }
    if (n_frozen == 0 || n_frozen < g->n_parameters)
        return s;
    return weft_fail(&g->error, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "every parameter is frozen; nothing is left to train");
}

/* ---- the walk ---- */

/* The reported loss: summed over micro-batches and closed. */
static weft_status report_loss(weft_backward *b)
{
    weft_graph *g = b->g;
    weft_node *n = weft_backward_accumulate(b, g->loss, g->loss, g->loss->node);
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
            weft_set_mark(g, p->gradient, WEFT_MARK_GROUP, WEFT_GROUP_BLOCK);
        p->summed = p->gradient;
    }
    return WEFT_OK;
}

/* Who counts operations asks for it. */
static void mark_trains(weft_graph *g, const bool *needs)
{
    for (weft_node *n = g->first; n && needs; n = n->next)
        for (int r = 0; r < n->n_outs; r++)
            n->outs[r]->trains = needs[n->outs[r]->id];
}

weft_status weft_graph_differentiate(weft_graph *g)
{
    if (!g->loss) {
        weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                        "no listed plugin builds a model with a loss; list one, as llama3");
        return WEFT_ERR_INPUT;
    }
    weft_node *last = g->last;
    size_t n = (size_t)g->n_values;
    weft_backward b = {.g = g, .n_values = g->n_values};
    weft_pool pool = {0};
    b.needs = weft_pool_alloc(&pool, n * sizeof *b.needs);
    b.of = weft_pool_alloc(&pool, n * sizeof *b.of);
    b.copies = weft_pool_alloc(&pool, n * sizeof *b.copies);
    int block = g->spot.block, chunk = g->spot.chunk;
    const char *by = g->by;
    weft_status s = WEFT_OK;
    g->differentiating = true;
    if (pool.out_of_memory)
        s = weft_fail_memory(&g->error);
    s = s ? s : weft_gradient_wanted(g, b.needs);
    mark_trains(g, b.needs);
    if (!s) {
        weft_attr one = {.key = "value", .kind = WEFT_ATTR_REAL, .r = 1};
        weft_node_spec spec = {.n_outs = 1, .attrs = &one, .n_attrs = 1, .scope = WEFT_MICRO_BATCH};
        weft_node *seed = weft_backward_make(&b, "constant", 8, &g->loss, g->loss->node, spec);
        if (seed)
            weft_backward_add_part(&b, g->loss, seed->outs[0]);
        s = weft_graph_status(g);
    }
    for (weft_node *node = last; node && !s; node = node->prev)
        s = visit(&b, node);
    if (!s)
        s = report_loss(&b);
    if (!s)
        s = check_used(g);
    if (!s)
        s = close_gradients(g);
    g->differentiating = false;
    g->spot.block = WEFT_BLOCK_HEAD;
    g->spot.chunk = -1;
    g->spot.phase = WEFT_FORWARD;
    if (!s)
        s = weft_loss_report(g);
    g->spot.phase = WEFT_UPDATE;
    g->spot.block = block;
    g->spot.chunk = chunk;
    g->by = by;
    weft_pool_release(&pool);
    return s;
}
