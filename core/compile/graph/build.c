/* SPDX-License-Identifier: Apache-2.0 */
/* The builder that models and passes speak; its short forms are in lib/kit. */
#include "compile/graph/graph.h"

#include <string.h>

/* NULL when out of memory, which whoever makes a value notices. */
static const char *prefixed(weft_graph *g, const char *prefix, const char *name)
{
    return prefix && name ? weft_pool_format(&g->pool, "%s%s", prefix, name) : name;
}

/* ---- sources ---- */

weft_status weft_source_shape(weft_graph *g, weft_value *v, const char *shape)
{
    for (const char *p = shape; *p;) {
        size_t n = strcspn(p, " ");
        if (n) {
            const weft_dim *d = weft_map_get(&g->dims, p, n);
            if (!d || v->n_dims == WEFT_MAX_DIMS) {
                weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                                d ? "%s has more than %d dims" : "%s: dim '%.*s' is not declared",
                                v->name, d ? WEFT_MAX_DIMS : (int)n, p);
                return WEFT_ERR_INTERNAL;
            }
            v->dims[v->n_dims++] = *d;
        }
        p += n + (p[n] == ' ');
    }
    return WEFT_OK;
}

weft_value *weft_source_new(weft_graph *g, const char *op_name, const char *name, weft_scope scope)
{
    const weft_op *op = weft_ops_find(g->config.ops, op_name);
    if (!op)
        return weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "there is no op '%s'", op_name);
    weft_node_spec spec = {.op = op, .name = name, .n_outs = 1, .scope = scope};
    weft_node *n = weft_node_new(g, &spec);
    if (!n)
        return NULL;
    n->outs[0]->dtype = g->config.dtype;
    return n->outs[0];
}

weft_value *weft_source_finish(weft_graph *g, weft_value *v)
{
    return g->placed && weft_place_node(g, v->node) ? NULL : v;
}

/* The list is in the order of the graph: the last one, if it was inserted, goes where it stands. */
static void order_parameter(weft_graph *g)
{
    weft_value **list = g->parameters, *v = list[g->n_parameters - 1];
    const weft_node *next = g->spot.before;
    while (next && !weft_node_is(next, WEFT_OP_PARAMETER))
        next = next->next;
    for (int i = g->n_parameters - 1; next && i > 0; i--) {
        list[i] = list[i - 1];
        list[i - 1] = v;
        if (list[i]->node == next)
            return;
    }
}

weft_value *weft_add_parameter(weft_graph *g, const char *last, const char *shape, weft_init init)
{
    const char *name = prefixed(g, g->parameter_prefix, last);
    if (!name)
        return NULL;
    if (!weft_graph_status(g) && weft_graph_find(g, name))
        return weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "parameter '%s' is added twice",
                               name);
    weft_value *v = weft_source_new(g, "parameter", name, WEFT_STEP_BEGIN);
    if (!v || weft_source_shape(g, v, shape))
        return NULL;
    v->init = init;
    if (!weft_graph_push(g, (void ***)&g->parameters, &g->n_parameters, &g->parameters_capacity, v))
        return NULL;
    order_parameter(g);
    return weft_source_finish(g, v);
}

/* ---- nodes ---- */

/* A sum of more operands than a rule holds becomes a tree of sums. */
static weft_value *add_tree(weft_graph *g, const char *name, int n, weft_value *const *ins)
{
    weft_value *parts[WEFT_RULE_MAX_PARTS];
    int n_parts = 0, per = (n + WEFT_RULE_MAX_PARTS / 2 - 1) / (WEFT_RULE_MAX_PARTS / 2);
    for (int i = 0; i < n; i += per) {
        int take = n - i < per ? n - i : per;
        parts[n_parts] = take == 1 ? ins[i] : weft_add(g, "add", NULL, take, ins + i);
        if (!parts[n_parts++])
            return NULL;
    }
    return weft_add(g, "add", name, n_parts, parts);
}

static weft_value *add_full(weft_graph *g, const char *op_name, const char *name, int n_ins,
                            weft_value *const *ins, int n_outs, weft_value **outs,
                            const weft_attr *attrs, int n_attrs)
{
    if (weft_graph_status(g))
        return NULL;
    for (int i = 0; i < n_ins; i++)
        if (!ins[i])
            return weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                                   "%s%s%s (%s): operand %d is NULL", name ? name : "",
                                   name ? " = " : "", op_name, g->by, i);
    const weft_op *op = weft_ops_find(g->config.ops, op_name);
    if (!op)
        return weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                               "there is no op '%s'; is the plugin that has it listed?", op_name);
    for (int i = 0; i < n_attrs; i++)
        if (weft_check_attr(g, op, name, attrs[i].key))
            return NULL;
    if (n_ins > WEFT_RULE_MAX_PARTS && strcmp(op_name, "add") == 0)
        return add_tree(g, name, n_ins, ins);
    weft_node_spec spec = {.op = op,
                           .name = prefixed(g, g->prefix, name),
                           .n_ins = n_ins,
                           .ins = ins,
                           .n_outs = n_outs,
                           .attrs = attrs,
                           .n_attrs = n_attrs};
    weft_node *n = weft_graph_add_node(g, &spec);
    if (!n)
        return NULL;
    for (int i = 0; outs && i < n_outs; i++)
        outs[i] = n->outs[i];
    return n->outs[0];
}

/* Keys and texts are the graph's own from now on, as names are. */
static weft_attr *copy_attrs(weft_graph *g, const weft_attr *attrs, int n)
{
    weft_attr *own = weft_pool_alloc(&g->pool, ((size_t)n + 1) * sizeof *own);
    bool copied = own;
    for (int i = 0; copied && i < n; i++) {
        own[i] = attrs[i];
        own[i].key = weft_pool_strdup(&g->pool, attrs[i].key);
        own[i].text = attrs[i].text ? weft_pool_strdup(&g->pool, attrs[i].text) : NULL;
        copied = own[i].key && (own[i].text || !attrs[i].text);
    }
    return copied ? own : NULL;
}

weft_value *weft_add_full(weft_graph *g, const char *op, const char *name, int n_ins,
                          weft_value *const *ins, int n_outs, weft_value **outs,
                          const weft_attr *attrs, int n_attrs)
{
    weft_attr *own = copy_attrs(g, attrs, n_attrs);
    weft_value *v = own ? add_full(g, op, name, n_ins, ins, n_outs, outs, own, n_attrs) : NULL;
    for (int i = 0; !v && outs && i < n_outs; i++)
        outs[i] = NULL;
    return v;
}

/* How many results an op has by its rule: those between the arrow and the end. */
static int rule_results(const weft_op *op)
{
    const char *arrow = op->rule ? strstr(op->rule, "->") : NULL;
    int n = 1;
    for (const char *p = arrow; p && *p; p++)
        n += *p == ',';
    return n;
}

weft_value *weft_add(weft_graph *g, const char *op_name, const char *name, int n_ins,
                     weft_value *const *ins)
{
    const weft_op *op = weft_ops_find(g->config.ops, op_name);
    return weft_add_full(g, op_name, name, n_ins, ins, op ? rule_results(op) : 1, NULL, NULL, 0);
}

weft_value *weft_accumulate(weft_graph *g, weft_value *v, weft_total how)
{
    if (!v || weft_graph_status(g))
        return NULL;
    if (g->config.mode != WEFT_MODE_TRAIN)
        return weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                               "%s cannot be accumulated: there are steps in training only; ask "
                               "weft_graph_mode",
                               v->name);
    if (weft_value_available(v) == WEFT_STEP_END)
        return weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                               "%s cannot be accumulated: it is known only after the last "
                               "micro-batch",
                               v->name);
    weft_node_spec spec = {
        .op = weft_ops_find(g->config.ops, how == WEFT_MAX ? "accumulate_max" : "accumulate"),
        .n_ins = 1,
        .ins = &v,
        .n_outs = 1,
        .scope = WEFT_MICRO_BATCH};
    weft_node *n = weft_graph_add_node(g, &spec);
    if (n && how == WEFT_SUM && weft_dtype_is_float(v->dtype) &&
        weft_dtype_size(v->dtype) < weft_dtype_size(g->config.dtype))
        n->outs[0]->dtype = g->config.dtype;
    return n ? n->outs[0] : NULL;
}
