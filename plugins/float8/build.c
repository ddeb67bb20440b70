/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of this plugin, each made once. */
#include "float8.h"

#include <stdio.h>
#include <string.h>

bool f8_is(const weft_node *n, const weft_op *op)
{
    return strcmp(n->op->name, op->name) == 0; /* our own */
}

void f8_dims(const weft_value *a, const weft_value *b, bool shared, f8_names *out)
{
    size_t n = 0;
    out->text[0] = '\0';
    for (int d = 0; d < a->n_dims; d++)
        if ((weft_value_dim(b, a->dims[d].name) >= 0) == shared && n < sizeof out->text)
            n += (size_t)snprintf(out->text + n, sizeof out->text - n, "%s%s", n ? " " : "",
                                  a->dims[d].name);
}

/* What a node of this op makes of x, if there is one with the same attributes and operand 1. */
static weft_value *find(const weft_value *x, const weft_op *op, const weft_value *second,
                        const weft_attr *attrs, int n_attrs, bool backward)
{
    for (int i = 0; i < x->n_uses; i++) {
        const weft_node *n = x->uses[i].node;
        bool same = x->uses[i].operand == 0 && f8_is(n, op) && (!second || n->ins[1] == second) &&
                    (n->phase == WEFT_BACKWARD) == backward && n->phase != WEFT_RECOMPUTE;
        for (int k = 0; same && k < n_attrs; k++)
            same = attrs[k].kind == WEFT_ATTR_TEXT
                       ? strcmp(weft_node_text(n, attrs[k].key), attrs[k].text) == 0
                       : weft_node_int(n, attrs[k].key) == attrs[k].i;
        if (same)
            return n->outs[0];
    }
    return NULL;
}

/* Named after its first operand, not by a number: offload finds it again in graphs of other modes.
 */
static weft_value *add_new(weft_graph *g, const char *op, const char *suffix, int n,
                           weft_value *const *ins, const weft_attr *attrs, int n_attrs)
{
    char *name = weft_format("%s.%s", ins[0]->name, suffix);
    if (!name)
        return weft_graph_fail(g, WEFT_ERR_MEMORY, WEFT_NOWHERE, "out of memory");
    weft_value *made = weft_add_full(g, op, name, n, ins, 1, NULL, attrs, n_attrs);
    weft_free(name);
    return made;
}

static weft_value *add(const f8_build *b, const weft_op *op, const char *suffix, int n,
                       weft_value *const *ins, const weft_attr *attrs, int n_attrs)
{
    if (weft_graph_status(b->g) || !ins[0] || (n > 1 && !ins[1]))
        return NULL;
    weft_value *made = find(ins[0], op, n > 1 ? ins[1] : NULL, attrs, n_attrs, b->backward);
    return made ? made : add_new(b->g, op->name, suffix, n, ins, attrs, n_attrs);
}

weft_value *f8_amax(const f8_build *b, weft_value *x, const char *keep, const char *history)
{
    const weft_attr attrs[] = {
        {.key = "keep", .kind = WEFT_ATTR_TEXT, .text = keep},
        {.key = "history", .kind = WEFT_ATTR_TEXT, .text = history ? history : ""}};
    return add(b, &f8_op_amax, "amax", 1, &x, attrs, history ? 2 : 1);
}

weft_value *f8_scale(const f8_build *b, weft_value *amax, weft_dtype dtype)
{
    const weft_attr attrs[] = {
        {.key = "dtype", .kind = WEFT_ATTR_TEXT, .text = weft_dtype_name(dtype)},
        {.key = "power_of_two", .kind = WEFT_ATTR_INT, .i = b->power_of_two}};
    return add(b, &f8_op_scale, "scale", 1, &amax, attrs, 2);
}

weft_value *f8_quantise(const f8_build *b, weft_value *x, weft_value *scale, weft_dtype dtype)
{
    const weft_attr attr = {.key = "dtype", .kind = WEFT_ATTR_TEXT, .text = weft_dtype_name(dtype)};
    weft_value *ins[] = {x, scale};
    weft_value *q = add(b, &f8_op_quantise, "q", 2, ins, &attr, 1);
    if (q && x->recompute) /* what is not kept wide is not kept narrow */
        q->recompute = true;
    return q;
}

weft_value *f8_narrow(const f8_build *b, weft_value *x, const char *keep, weft_dtype dtype,
                      weft_value **scale)
{
    *scale = f8_scale(b, f8_amax(b, x, keep, NULL), dtype);
    return f8_quantise(b, x, *scale, dtype);
}

/* The largest magnitude of what v begins with, cast, is that of the cast: rounding keeps order. */
static weft_value *as_cast(weft_graph *g, weft_value *amax, const weft_value *first,
                           const weft_value *v)
{
    if (v == first)
        return amax;
    amax = as_cast(g, amax, first, v->node->ins[0]);
    if (!weft_node_is(v->node, WEFT_OP_CAST) || !amax || v->dtype == amax->dtype)
        return amax;
    const weft_attr attr = {
        .key = "dtype", .kind = WEFT_ATTR_TEXT, .text = weft_dtype_name(v->dtype)};
    weft_value *cast = find(amax, v->node->op, NULL, &attr, 1, false);
    return cast ? cast : add_new(g, v->node->op->name, "cast", 1, &amax, &attr, 1);
}

/* What v is a part of, cast or not; v itself if nothing was cut into parts. */
static weft_value *whole_of(weft_value *v)
{
    weft_value *whole = v;
    for (weft_value *at = v; at->node->n_ins == 1; at = at->node->ins[0])
        if (weft_node_in(at->node, "chunk"))
            whole = at->node->ins[0];
        else if (!weft_node_is(at->node, WEFT_OP_CAST))
            break;
    return whole;
}

weft_value *f8_whole_amax(const f8_build *b, weft_value *x, const char *history)
{
    weft_value *whole = whole_of(x);
    return as_cast(b->g, f8_amax(b, whole, "", history), whole, x);
}

weft_value *f8_stored(weft_value *w)
{
    while (w->node->n_ins == 1 && weft_node_is(w->node, WEFT_OP_CAST | WEFT_OP_GATHER))
        w = w->node->ins[0];
    return w;
}

weft_value *f8_weight_scale(const f8_build *b, weft_value *w, const char *keep)
{
    weft_value *stored = f8_stored(w);
    weft_value *amax = as_cast(b->g, f8_amax(b, stored, keep, NULL), stored, w);
    weft_value *scale = f8_scale(b, amax, WEFT_F8E4M3);
    if (!scale || !*keep)
        return scale;
    /* one for each row: they lie in shards as the rows do */
    weft_value *whole = find(scale, &(weft_op){.name = "gather"}, NULL, NULL, 0, false);
    if (whole)
        return whole;
    whole = add_new(b->g, "gather", "whole", 1, &scale, NULL, 0);
    if (whole)
        whole->node->scope = WEFT_STEP_BEGIN;
    weft_set_mark(b->g, whole, WEFT_MARK_GROUP, WEFT_GROUP_ALL);
    return whole;
}
