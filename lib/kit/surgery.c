/* SPDX-License-Identifier: Apache-2.0 */
/* For passes: nodes put in front of whoever reads a value, values replaced, nodes moved and taken
 * out. */
#include "kit/pattern.h"

#include <string.h>
#include <weft/marks.h>

/* ---- insert ---- */

void weft_node_set_operand(weft_graph *g, weft_node *n, int i, weft_value *v)
{
    if (!v || n->ins[i] == v || weft_graph_status(g))
        return;
    const weft_value *old = n->ins[i];
    if (n->steps && !weft_move_forget(g, n->outs[0]))
        return;
    if (g->placed && v->placed && old->placed && v->layout.bits != old->layout.bits) {
        weft_value *moved = weft_move_to(g, v, old->layout, n, n->phase, "what it replaces", NULL);
        if (!moved)
            return;
        weft_node_come_before(g, moved->node, n); /* it may be there already, further behind */
        v = moved;
    }
    weft_node_relink(g, n, i, v);
}

static bool works_on_tokens(const weft_node *n)
{
    for (int i = 0; i < n->n_outs; i++)
        if (!n->outs[i]->weight)
            return true;
    return false;
}

static bool picked(const weft_use *use, bool (*pick)(const weft_use *, void *), void *ctx)
{
    return works_on_tokens(use->node) && (!pick || pick(use, ctx));
}

/* The first node, in the order of the graph, of these uses of a result of `source`. */
static weft_node *first_user(const weft_node *source, const weft_use *uses, int n)
{
    for (weft_node *at = source->next; at && n > 1; at = at->next)
        for (int i = 0; i < n; i++)
            if (uses[i].node == at)
                return at;
    return uses[0].node;
}

weft_value *weft_insert_at_use(weft_graph *g, weft_value *source, const char *op_name,
                               const char *suffix, bool (*pick)(const weft_use *, void *),
                               void *ctx)
{
    if (!source || weft_graph_status(g))
        return NULL;
    const weft_op *op = weft_ops_find(g->config.ops, op_name);
    weft_use *uses = weft_pool_alloc(&g->pool, ((size_t)source->n_uses + 1) * sizeof *uses);
    char *name = weft_pool_format(&g->pool, "%s%s", source->name, suffix);
    if (!op || !uses || !name)
        return weft_graph_fail(g, op ? WEFT_ERR_MEMORY : WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                               op ? "out of memory" : "there is no op '%s'", op_name);
    int n = 0;
    for (int i = 0; i < source->n_uses; i++)
        if (picked(&source->uses[i], pick, ctx))
            uses[n++] = source->uses[i];
    if (n == 0)
        return NULL;
    weft_node *first = first_user(source->node, uses, n);
    weft_spot spot = g->spot;
    g->spot.before = first;
    g->spot.block = first->block;
    g->spot.chunk = n == 1 ? first->chunk : -1;
    g->spot.phase = first->phase;
    g->spot.scope = WEFT_SCOPE_NONE;
    weft_node *made = weft_graph_add_node(
        g, &(weft_node_spec){.op = op, .name = name, .n_ins = 1, .ins = &source, .n_outs = 1});
    g->spot = spot;
    if (!made)
        return NULL;
    for (int i = 0; i < n; i++)
        weft_node_set_operand(g, uses[i].node, uses[i].operand, made->outs[0]);
    return made->outs[0];
}

weft_value *weft_cast_at_use(weft_graph *g, weft_value *source, weft_dtype dtype,
                             const char *suffix, bool (*pick)(const weft_use *, void *), void *ctx)
{
    weft_value *cast = weft_insert_at_use(g, source, "cast", suffix, pick, ctx);
    if (cast)
        cast->dtype = dtype;
    return cast;
}

void weft_narrow_at_use(weft_graph *g, weft_value *v)
{
    weft_value *cast = weft_cast_at_use(g, v, WEFT_BF16, ".n", NULL, NULL);
    weft_set_mark(g, cast, WEFT_MARK_PASS_ON, 1);
    if (cast)
        cast->recompute = v->recompute;
}

weft_value *weft_add_before(weft_graph *g, weft_node *at, const char *op, const char *name,
                            const char *suffix, int n_ins, weft_value *const *ins)
{
    char *full = weft_pool_format(&g->pool, "%s%s", name, suffix);
    if (!full)
        return weft_graph_fail(g, WEFT_ERR_MEMORY, WEFT_NOWHERE, "out of memory");
    weft_spot spot = g->spot;
    weft_graph_at(g, at);
    weft_value *v = weft_add_many(g, op, full, n_ins, ins, 1, NULL);
    g->spot = spot;
    return v;
}

void weft_each_use_edge(weft_graph *g, void (*visit)(weft_graph *, weft_value *, void *), void *ctx)
{
    weft_value **found = NULL;
    int n = 0, capacity = 0;
    for (weft_node *node = g->first; node; node = node->next) {
        for (int r = 0; r < node->n_outs; r++) {
            weft_value *v = node->outs[r];
            bool edge = false;
            for (int i = 0; v->weight && !edge && i < v->n_uses; i++)
                edge = works_on_tokens(v->uses[i].node);
            if (edge && !weft_graph_push(g, (void ***)&found, &n, &capacity, v))
                return;
        }
    }
    for (int i = 0; i < n && !weft_graph_status(g); i++)
        visit(g, found[i], ctx);
}

/* ---- replace ---- */

enum { MAKES = 1, BEHIND = 2 };

/* Marks what makes `value`, and all nodes behind it. */
static void mark_around(weft_graph *g, const weft_value *value)
{
    int behind = 0;
    for (weft_node *n = g->first; n; n = n->next) {
        n->mark = n == value->node ? MAKES : behind;
        behind = n == value->node ? BEHIND : behind;
    }
    for (weft_node *n = value->node; n; n = n->prev)
        for (int i = 0; n->mark == MAKES && i < n->n_ins; i++)
            n->ins[i]->node->mark = MAKES;
}

static bool same_dims(const weft_value *a, const weft_value *b)
{
    bool same = a->n_dims == b->n_dims;
    for (int d = 0; same && d < a->n_dims; d++)
        same = strcmp(a->dims[d].name, b->dims[d].name) == 0 && a->dims[d].size == b->dims[d].size;
    return same;
}

/* A redistribute that makes `value` from `old` is `old` still, in another layout. */
static bool is_old(const weft_node *reader)
{
    return reader->mark == MAKES && reader->steps;
}

static weft_status check_readers(weft_graph *g, const weft_value *old, const weft_value *value)
{
    for (int i = 0; i < old->n_uses && !weft_graph_status(g); i++) {
        const weft_node *reader = old->uses[i].node;
        if (is_old(reader))
            check_readers(g, reader->outs[0], value);
        else if (!reader->mark)
            weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                            "%s cannot be replaced by %s: %s reads it before that is there; "
                            "weft_graph_at puts nodes further to the front",
                            old->name, value->name, reader->outs[0]->name);
    }
    return weft_graph_status(g);
}

static weft_status check_replace(weft_graph *g, const weft_value *old, const weft_value *value)
{
    if (same_dims(old, value))
        return check_readers(g, old, value);
    weft_text a = {0}, b = {0};
    weft_value_print_shape(old, &a);
    weft_value_print_shape(value, &b);
    weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "%s cannot be replaced by %s",
                    weft_text_get(&a), weft_text_get(&b));
    weft_text_release(&a);
    weft_text_release(&b);
    return weft_graph_status(g);
}

/* What the node that made `old` was told counts for the one that makes `value`. */
static void take_attributes(weft_graph *g, const weft_value *old, weft_value *value)
{
    for (int i = 0; i < old->node->n_attrs; i++)
        if (!weft_node_has(value->node, old->node->attrs[i].key))
            weft_node_set_attr(g, value, old->node->attrs[i]);
}

/* What was said of it by its name, too. */
static void take_marks(weft_graph *g, weft_value *old, weft_value *value)
{
    for (int i = 0; i < g->n_table; i++)
        if (weft_table_matches(g->table[i], WEFT_RULE_VALUE, old->name))
            g->table[i]->pattern = value->name;
    value->role = value->role ? value->role : old->role;
    value->fetch = value->fetch || old->fetch;
    value->recompute = value->recompute || old->recompute;
    old->role = NULL;
    old->fetch = false;
}

/* What the run and state read of `old`, in its layout where there is one. */
static void take_roots(weft_graph *g, weft_value *old, weft_value *value)
{
    weft_value *root = value;
    if (g->placed && value->layout.bits != old->layout.bits) {
        weft_spot spot = g->spot;
        root = weft_move_to(g, value, old->layout, value->node->next, value->node->phase,
                            "what it replaces", NULL);
        g->spot = spot;
        if (!root)
            return;
    }
    weft_graph_replace_root(g, old, root);
    g->inverse = g->inverse == old ? root : g->inverse;
    for (int i = 0; i < g->n_parameters; i++)
        if (g->parameters[i]->gradient == old)
            g->parameters[i]->gradient = root;
    if (old->update_of)
        root->update_of = old->update_of;
    old->update_of = NULL;
}

bool weft_value_is_root(const weft_graph *g, const weft_value *v)
{
    bool root = v == g->loss || v == g->loss_sum || v == g->tokens || v == g->logits ||
                v == g->inverse || v->update_of;
    for (int i = 0; !root && i < g->n_terms; i++)
        root = g->terms[i]->value == v;
    for (int i = 0; !root && i < g->n_reports; i++)
        root = g->reports[i].value == v;
    for (int i = 0; !root && i < g->n_parameters; i++)
        root = g->parameters[i]->gradient == v;
    return root;
}

static void replace_uses(weft_graph *g, weft_value *old, weft_value *value)
{
    int n = old->n_uses;
    weft_use *uses = weft_pool_alloc(&g->pool, ((size_t)n + 1) * sizeof *uses);
    if (!uses)
        return;
    if (n)
        memcpy(uses, old->uses, (size_t)n * sizeof *uses);
    for (int i = 0; i < n; i++) {
        if (is_old(uses[i].node))
            replace_uses(g, uses[i].node->outs[0], value);
        else if (uses[i].node->mark != MAKES)
            weft_node_set_operand(g, uses[i].node, uses[i].operand, value);
    }
    if (weft_value_is_root(g, old))
        take_roots(g, old, value);
}

void weft_replace(weft_graph *g, weft_value *old, weft_value *value)
{
    if (!old || !value || old == value || weft_graph_status(g))
        return;
    mark_around(g, value);
    if (check_replace(g, old, value))
        return;
    if (old->node->mark != MAKES)
        take_attributes(g, old, value);
    take_marks(g, old, value);
    replace_uses(g, old, value);
}

/* ---- setters ---- */

static bool may_set(weft_graph *g, const weft_value *v, bool late, const char *what)
{
    if (v && !weft_graph_status(g) && late)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE, what, v->name);
    return v && !weft_graph_status(g);
}

void weft_set_scope(weft_graph *g, weft_value *v, weft_scope scope)
{
    if (may_set(g, v, g->placed,
                "the scope of %s is set in a placed graph; passes of stage graph set it") &&
        may_set(g, v, (unsigned)scope > WEFT_STEP_END,
                "the scope of %s is none; weft_scope lists all"))
        v->node->scope = scope;
}

void weft_set_recompute(weft_graph *g, weft_value *v, bool again)
{
    if (may_set(g, v, g->spot.phase != WEFT_FORWARD,
                "the recomputation of %s is set behind the backward; passes of stage graph or "
                "placed set it"))
        v->recompute = again && !weft_get_mark(v->node, WEFT_MARK_KEEP);
}

void weft_add_rule(weft_graph *g, weft_rule_of of, const char *pattern, const char *dim,
                   const char *axis)
{
    weft_add_rule_with(g,
                       &(weft_table_rule){.of = of, .pattern = pattern, .dim = dim, .axis = axis});
}

void weft_add_rule_of(weft_graph *g, const weft_value *v, const char *dim, const char *axis)
{
    if (v)
        weft_add_rule(g, WEFT_RULE_VALUE, v->name, dim, axis);
}

/* ---- the same node once ---- */

static bool has_attr(const weft_node *n, const weft_attr *a)
{
    if (!weft_node_has(n, a->key))
        return false;
    return a->kind == WEFT_ATTR_TEXT   ? strcmp(weft_node_text(n, a->key), a->text) == 0
           : a->kind == WEFT_ATTR_REAL ? weft_node_real(n, a->key) == a->r
                                       : weft_node_int(n, a->key) == a->i;
}

static bool is_same(const weft_node *n, const char *op, int n_ins, weft_value *const *ins,
                    const weft_attr *attrs, int n_attrs)
{
    if (strcmp(n->op->name, op) != 0 || n->n_ins != n_ins || n->n_attrs != n_attrs)
        return false;
    for (int i = 0; i < n_ins; i++)
        if (n->ins[i] != ins[i])
            return false;
    for (int k = 0; k < n_attrs; k++)
        if (!has_attr(n, &attrs[k]))
            return false;
    return true;
}

weft_value *weft_add_once(weft_graph *g, const char *op, const char *name, int n_ins,
                          weft_value *const *ins, const weft_attr *attrs, int n_attrs)
{
    const weft_value *first = n_ins > 0 ? ins[0] : NULL;
    for (int i = 0; first && i < first->n_uses; i++) {
        weft_node *n = first->uses[i].node;
        if (n->phase == g->spot.phase && is_same(n, op, n_ins, ins, attrs, n_attrs)) {
            weft_node_come_before(g, n, g->spot.before);
            return n->outs[0];
        }
    }
    return weft_add_full(g, op, name, n_ins, ins, 1, NULL, attrs, n_attrs);
}

/* ---- move ---- */

static bool reads(const weft_node *n, const weft_node *of)
{
    for (int i = 0; i < n->n_ins; i++)
        if (n->ins[i]->node == of)
            return true;
    return n->like && n->like->node == of;
}

/* Does `before`, the end if it is NULL, stand behind n? Looked for on both sides, so that a short
 * way takes a short time.
 */
static bool is_behind(const weft_node *n, const weft_node *before)
{
    const weft_node *back = n->prev, *on = n->next;
    if (!before)
        return true;
    while (back && on && back != before && on != before) {
        back = back->prev;
        on = on->next;
    }
    while (back && back != before && on != before)
        back = back->prev;
    return on == before || back != before;
}

/* What keeps n from standing before `before`: the node on the way that it reads, or that reads it;
 * NULL: nothing. */
static const weft_node *held_by(const weft_node *n, const weft_node *before)
{
    const bool on = is_behind(n, before);
    for (const weft_node *at = on ? n->next : before; at != (on ? before : n); at = at->next)
        if (on ? reads(at, n) : reads(n, at))
            return at;
    return NULL;
}

void weft_move_before(weft_graph *g, weft_node *n, weft_node *before)
{
    if (!n || n == before || weft_graph_status(g))
        return;
    const weft_node *holds = held_by(n, before);
    if (holds) {
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s cannot stand before %s: %s, which it reads or which reads it, would be "
                        "on the wrong side",
                        n->outs[0]->name, before ? before->outs[0]->name : "the end",
                        holds->outs[0]->name);
        return;
    }
    if (g->spot.before == n)
        g->spot.before = n->next;
    weft_node_unlink(g, n);
    weft_node_link(g, n, before);
}

/* ---- remove ---- */

/* Who else needs v, in words; NULL: nobody. */
static const char *needed_by(const weft_graph *g, const weft_value *v)
{
    const weft_value *const roots[] = {g->loss, g->loss_report, g->loss_sum, g->tokens, g->logits};
    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++)
        if (roots[i] == v)
            return "the run";
    for (int i = 0; i < g->n_terms; i++)
        if (g->terms[i]->value == v)
            return "the run";
    for (int i = 0; i < g->n_reports; i++)
        if (g->reports[i].value == v)
            return "a report";
    for (int i = 0; i < g->n_parameters; i++)
        if (g->parameters[i]->gradient == v)
            return g->parameters[i]->name;
    const char *by = v->n_uses       ? v->uses[0].node->outs[0]->name
                     : v->update_of  ? v->update_of->name
                     : v->updated_by ? v->updated_by
                     : v->gradient   ? v->gradient->name
                                     : NULL;
    for (const weft_node *n = v->shapes ? g->first : NULL; n && !by; n = n->next)
        by = n->like == v ? n->outs[0]->name : NULL;
    return by;
}

/* Neither its name nor a redistribute finds it again. */
static bool forget(weft_graph *g, weft_value *v)
{
    if (weft_map_set(&g->names, &g->pool, v->name, strlen(v->name), NULL) && weft_move_forget(g, v))
        return true;
    weft_fail_memory(&g->error);
    return false;
}

static void drop(weft_value **list, int *n, const weft_value *v)
{
    int to = 0;
    for (int i = 0; i < *n; i++)
        if (list[i] != v)
            list[to++] = list[i];
    *n = to;
}

/* Inputs stay: they are there for whoever asks for them next. */
static bool may_go(const weft_graph *g, const weft_node *n)
{
    if (weft_node_is(n, WEFT_OP_INPUT))
        return false;
    for (int i = 0; i < n->n_outs; i++)
        if (needed_by(g, n->outs[i]))
            return false;
    return true;
}

/* Takes n, which nobody reads, and then what nobody reads any more. */
static void take_out(weft_graph *g, weft_node *n)
{
    for (int i = 0; i < n->n_outs; i++)
        if (!forget(g, n->outs[i]))
            return;
    if (weft_node_is(n, WEFT_OP_PARAMETER))
        drop(g->parameters, &g->n_parameters, n->outs[0]);
    else if (weft_node_is(n, WEFT_OP_STATE))
        drop(g->states, &g->n_states, n->outs[0]);
    weft_node *next = n->next;
    if (g->spot.before == n)
        g->spot.before = next;
    weft_node_unlink(g, n);
    n->next = next; /* whoever walks the graph goes on from here */
    while (n->n_ins > 0) {
        weft_node *from = weft_node_drop_operand(n)->node;
        if (may_go(g, from))
            take_out(g, from);
    }
}

void weft_remove(weft_graph *g, weft_node *n)
{
    if (!n || weft_graph_status(g))
        return;
    for (int i = 0; i < n->n_outs; i++) {
        const char *by = needed_by(g, n->outs[i]);
        if (!by)
            continue;
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s cannot be removed: %s needs it; let that read something else first",
                        n->outs[i]->name, by);
        return;
    }
    take_out(g, n);
}

void weft_freeze(weft_graph *g, weft_value *parameter)
{
    if (!parameter)
        return;
    if (!weft_node_is(parameter->node, WEFT_OP_PARAMETER))
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s cannot be frozen: it is not a parameter", parameter->name);
    else if (g->loss_report)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s cannot be frozen any more: its gradient is in the graph; freeze it in "
                        "a graph pass",
                        parameter->name);
    else
        parameter->frozen = true;
}

/* ---- dims that follow from attributes ---- */

void weft_refresh(weft_graph *g)
{
    for (weft_node *n = g->first; n && !weft_graph_status(g); n = n->next) {
        weft_dtype dtypes[WEFT_RULE_MAX_PARTS];
        for (int i = 0; i < n->n_outs; i++)
            dtypes[i] = n->outs[i]->dtype;
        if (n->n_ins > 0)
            weft_infer(g, n);
        for (int i = 0; i < n->n_outs; i++)
            n->outs[i]->dtype = dtypes[i];
    }
}
