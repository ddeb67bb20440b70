/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes: made, linked, changed. */
#include "base/array.h"
#include "compile/graph/graph.h"

#include <string.h>

static bool add_use(weft_graph *g, weft_value *v, weft_node *n, int operand)
{
    weft_use *use = weft_pool_push(&g->pool, &v->uses, &v->n_uses, &v->uses_capacity, sizeof *use);
    if (use)
        *use = (weft_use){n, operand};
    return use;
}

/* Keeps the order of the remaining uses: it decides where passes insert. */
static void remove_use(weft_value *v, const weft_node *n, int operand)
{
    int to = 0;
    for (int i = 0; i < v->n_uses; i++)
        if (v->uses[i].node != n || v->uses[i].operand != operand)
            v->uses[to++] = v->uses[i];
    v->n_uses = to;
}

void weft_node_relink(weft_graph *g, weft_node *n, int i, weft_value *v)
{
    if (n->ins[i] == v)
        return;
    if (n->ins[i])
        remove_use(n->ins[i], n, i);
    if (add_use(g, v, n, i))
        n->ins[i] = v;
}

weft_value *weft_node_drop_operand(weft_node *n)
{
    weft_value *v = n->ins[--n->n_ins];
    remove_use(v, n, n->n_ins);
    return v;
}

void weft_node_link(weft_graph *g, weft_node *n, weft_node *before)
{
    n->next = before;
    n->prev = before ? before->prev : g->last;
    if (n->prev)
        n->prev->next = n;
    else
        g->first = n;
    if (before)
        before->prev = n;
    else
        g->last = n;
}

void weft_node_unlink(weft_graph *g, weft_node *n)
{
    if (n->prev)
        n->prev->next = n->next;
    else
        g->first = n->next;
    if (n->next)
        n->next->prev = n->prev;
    else
        g->last = n->prev;
    n->prev = n->next = NULL;
}

/* Is n `at`, or behind it? Sought from both, since it is near the front, or near `at`. */
static bool is_from(const weft_node *at, const weft_node *n)
{
    const weft_node *to_front = at;
    for (const weft_node *up = n; up != at; up = up->prev, to_front = to_front->prev) {
        if (!to_front)
            return true; /* n was not on the way */
        if (!up || to_front == n)
            return false;
    }
    return true;
}

void weft_node_come_before(weft_graph *g, weft_node *n, weft_node *at)
{
    if (!at || !is_from(at, n))
        return;
    if (g->spot.before == n) /* it shall not take along what is added next */
        g->spot.before = n->next;
    if (n == at)
        return;
    weft_node_unlink(g, n);
    weft_node_link(g, n, at);
}

/* Result i is called after what it is the gradient of; else like the node, with a number behind. */
static const char *result_name(weft_graph *g, const weft_node_spec *spec, const char *name, int i)
{
    if (spec->gradient_of)
        return weft_pool_format(&g->pool, "%s'", spec->gradient_of[i]->name);
    return i ? weft_pool_format(&g->pool, "%s.%d", name, i) : name;
}

static weft_value *new_value(weft_graph *g, weft_node *n, int result, const char *wanted)
{
    const char *name = wanted ? weft_graph_name(g, wanted) : NULL;
    weft_value *v = weft_pool_alloc(&g->pool, sizeof *v);
    if (!v || !name || !weft_map_set(&g->names, &g->pool, name, strlen(name), v))
        return NULL;
    v->name = name;
    v->id = g->n_values++;
    v->node = n;
    v->result = result;
    return v;
}

static bool made_of_weights(const weft_node *n)
{
    if (n->n_ins == 0)
        return weft_node_is(n, WEFT_OP_PARAMETER | WEFT_OP_STATE);
    for (int i = 0; i < n->n_ins; i++)
        if (!n->ins[i]->weight)
            return false;
    return true;
}

weft_node *weft_node_new(weft_graph *g, const weft_node_spec *spec)
{
    if (weft_graph_status(g))
        return NULL;
    weft_node *n = weft_pool_alloc(&g->pool, sizeof *n);
    size_t n_ins = (size_t)spec->n_ins, n_outs = (size_t)spec->n_outs;
    weft_value **values = weft_pool_alloc(&g->pool, (n_ins + n_outs + 1) * sizeof *values);
    weft_attr *attrs = weft_pool_alloc(&g->pool, ((size_t)spec->n_attrs + 1) * sizeof *attrs);
    const char *name =
        spec->name ? spec->name : weft_pool_format(&g->pool, "%s%d", spec->op->name, g->n_nodes);
    if (!n || !values || !attrs || !name)
        return NULL;
    *n = (weft_node){.op = spec->op,
                     .id = g->n_nodes++,
                     .ins = values,
                     .outs = values + n_ins,
                     .n_ins = spec->n_ins,
                     .n_outs = spec->n_outs,
                     .like = spec->like,
                     .attrs = attrs,
                     .n_attrs = spec->n_attrs,
                     .attrs_capacity = spec->n_attrs + 1,
                     .block = g->spot.block,
                     .chunk = g->spot.chunk,
                     .phase = g->spot.phase,
                     .scope = spec->scope,
                     .every = 1,
                     .by = g->by};
    if (spec->like)
        spec->like->shapes = true;
    if (spec->n_attrs)
        memcpy(attrs, spec->attrs, (size_t)spec->n_attrs * sizeof *attrs);
    for (int i = 0; i < spec->n_ins; i++) {
        n->ins[i] = spec->ins[i];
        if (!add_use(g, n->ins[i], n, i))
            return NULL;
    }
    bool weight = made_of_weights(n);
    for (int i = 0; i < spec->n_outs; i++) {
        if (!(n->outs[i] = new_value(g, n, i, result_name(g, spec, name, i))))
            return NULL;
        n->outs[i]->weight = weight;
    }
    weft_node_link(g, n, g->spot.before);
    return n;
}

void weft_value_shape_as(weft_value *v, const weft_value *like)
{
    v->dtype = like->dtype;
    v->n_dims = like->n_dims;
    memcpy(v->dims, like->dims, sizeof v->dims);
}

weft_node *weft_node_copy(weft_graph *g, const weft_node *n, const char *name,
                          weft_value *const *ins)
{
    weft_node *copy = weft_node_new(g, &(weft_node_spec){.op = n->op,
                                                         .name = name,
                                                         .n_ins = n->n_ins,
                                                         .ins = ins,
                                                         .n_outs = n->n_outs,
                                                         .like = n->like,
                                                         .attrs = n->attrs,
                                                         .n_attrs = n->n_attrs,
                                                         .scope = n->scope});
    for (int r = 0; copy && r < n->n_outs; r++)
        weft_value_shape_as(copy->outs[r], n->outs[r]);
    return copy;
}

weft_node *weft_graph_add_node(weft_graph *g, const weft_node_spec *spec)
{
    weft_node *n = weft_node_new(g, spec);
    if (!n)
        return NULL;
    for (int i = 0; spec->gradient_of && i < n->n_outs; i++) {
        weft_value_shape_as(n->outs[i], spec->gradient_of[i]);
        n->outs[i]->dtype = spec->dtypes[i];
    }
    if (!spec->gradient_of && weft_infer(g, n))
        return NULL;
    if (g->placed && weft_place_node(g, n))
        return NULL;
    return n;
}

/* ---- what it is ---- */

bool weft_node_is(const weft_node *n, unsigned flags)
{
    return (n->op->flags & flags) != 0;
}

/* ---- attributes ---- */

const weft_attr *weft_attr_find(const weft_attr *list, int n, const char *key)
{
    for (int i = 0; i < n; i++)
        if (strcmp(list[i].key, key) == 0)
            return &list[i];
    return NULL;
}

int64_t weft_attr_int(const weft_attr *a)
{
    return !a ? 0 : a->kind == WEFT_ATTR_REAL ? (int64_t)a->r : a->kind == WEFT_ATTR_INT ? a->i : 0;
}

double weft_attr_real(const weft_attr *a)
{
    return !a ? 0 : a->kind == WEFT_ATTR_REAL ? a->r : a->kind == WEFT_ATTR_INT ? (double)a->i : 0;
}

const char *weft_attr_text(const weft_attr *a)
{
    return a && a->kind == WEFT_ATTR_TEXT && a->text ? a->text : "";
}

int64_t weft_node_int(const weft_node *n, const char *key)
{
    return weft_attr_int(weft_attr_find(n->attrs, n->n_attrs, key));
}

double weft_node_real(const weft_node *n, const char *key)
{
    return weft_attr_real(weft_attr_find(n->attrs, n->n_attrs, key));
}

const char *weft_node_text(const weft_node *n, const char *key)
{
    return weft_attr_text(weft_attr_find(n->attrs, n->n_attrs, key));
}

bool weft_node_has(const weft_node *n, const char *key)
{
    return weft_attr_find(n->attrs, n->n_attrs, key);
}

void weft_node_set_attr(weft_graph *g, weft_value *v, weft_attr attr)
{
    weft_node *n = v->node;
    weft_attr *a = (weft_attr *)(uintptr_t)weft_attr_find(n->attrs, n->n_attrs, attr.key);
    attr.key = weft_pool_strdup(&g->pool, attr.key);
    if (attr.kind == WEFT_ATTR_TEXT)
        attr.text = weft_pool_strdup(&g->pool, attr.text);
    if (!attr.key || (attr.kind == WEFT_ATTR_TEXT && !attr.text))
        return;
    if (!a)
        a = weft_pool_push(&g->pool, &n->attrs, &n->n_attrs, &n->attrs_capacity, sizeof *a);
    if (a)
        *a = attr;
}

static void set_attr(weft_graph *g, weft_value *v, weft_attr attr)
{
    if (v && !weft_graph_status(g) && !weft_check_attr(g, v->node->op, v->name, attr.key))
        weft_node_set_attr(g, v, attr);
}

void weft_set_int(weft_graph *g, weft_value *v, const char *key, int64_t x)
{
    set_attr(g, v, (weft_attr){.key = key, .kind = WEFT_ATTR_INT, .i = x});
}

void weft_set_real(weft_graph *g, weft_value *v, const char *key, double x)
{
    set_attr(g, v, (weft_attr){.key = key, .kind = WEFT_ATTR_REAL, .r = x});
}

void weft_set_text(weft_graph *g, weft_value *v, const char *key, const char *x)
{
    set_attr(g, v, (weft_attr){.key = key, .kind = WEFT_ATTR_TEXT, .text = x});
}
