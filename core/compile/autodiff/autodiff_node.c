/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of one node's operands. */
#include "compile/autodiff/autodiff.h"
#include "compile/graph/grad.h"

#include <stdlib.h>
#include <string.h>
#include <weft/marks.h>

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
                                "%s = %s (%s): the loss is not made from all results, and a "
                                "statement of the gradient reads '%.*s', which there is not; "
                                "`differentiate` can do without",
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

weft_status weft_backward_visit(weft_backward *b, weft_node *n)
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
