/* SPDX-License-Identifier: Apache-2.0 */
/* What must be true of a graph after every pass, stated without how it came about. */
#include "graph/internal.h"

#include <string.h>

typedef struct check {
    weft_graph *g;
    weft_error *err;
    weft_rule rule;
} check;

static weft_status wrong(check *c, const weft_node *n, const char *what, const char *detail)
{
    return weft_fail(c->err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "%s = %s (%s): %s%s", n->n_outs ? n->outs[0]->name : "?", n->op->name, n->by, what,
                     detail ? detail : "");
}

static bool has_use(const weft_value *v, const weft_node *n, int operand)
{
    for (int i = 0; i < v->n_uses; i++)
        if (v->uses[i].node == n && v->uses[i].operand == operand)
            return true;
    return false;
}

/* What is too large for any machine is refused before sizes overflow. */
static weft_status check_size(check *c, const weft_value *v)
{
    int64_t n = 1;
    for (int d = 0; d < v->n_dims; d++)
        if (__builtin_mul_overflow(n, v->dims[d].size, &n) || n > WEFT_MAX_ELEMENTS)
            return weft_fail(c->err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s has more than 2^50 elements, which no machine can hold; choose smaller sizes",
                             v->name);
    return WEFT_OK;
}

static weft_status check_structure(check *c, weft_node *n)
{
    for (int i = 0; i < n->n_ins; i++) {
        if (n->ins[i]->node->mark != 1)
            return wrong(c, n, "reads what is made later: ", n->ins[i]->name);
        if (!has_use(n->ins[i], n, i))
            return wrong(c, n, "is not listed as a use of ", n->ins[i]->name);
    }
    for (int i = 0; i < n->n_outs; i++) {
        weft_value *v = n->outs[i];
        if (weft_graph_find(c->g, v->name) != v)
            return wrong(c, n, "shares its name with another value", NULL);
        for (int d = 0; d < v->n_dims; d++)
            if (!v->dims[d].name || v->dims[d].size < 1 || v->dims[d].grain < 1 || v->dims[d].size % v->dims[d].grain)
                return wrong(c, n, "has a dim without a name or a sound size", NULL);
        if (c->g->placed && !v->placed)
            return wrong(c, n, "has no layout", NULL);
        weft_status s = check_size(c, v);
        if (s)
            return s;
    }
    return WEFT_OK;
}

static unsigned state_of(weft_layout l, int axis)
{
    unsigned b = weft_layout_byte(l, axis);
    return b & 0x80u ? b & 0xb8u : b;
}

static unsigned state_for(const weft_rule_part *part, int letter)
{
    int d = weft_rule_dim(part, letter);
    return d < 0 ? 0 : 0x80u | (unsigned)d << 3;
}

/* One axis plays one role: it cuts one index everywhere, or exactly the operands of one linear group are open, or nothing. */
static weft_status check_axis(check *c, weft_node *n, int axis)
{
    const weft_rule *r = &c->rule;
    int letter = -1;
    uint64_t open = 0;
    for (int i = 0; i < r->n_ins; i++) {
        const weft_value *v = i < n->n_ins ? n->ins[i] : n->like;
        if (i == n->n_ins)
            continue; /* only looked at */
        unsigned s = state_of(v->layout, axis);
        if (s == WEFT_OPEN_MAX)
            return wrong(c, n, "reads an open maximum: ", v->name);
        if (s == WEFT_OPEN_SUM)
            open |= (uint64_t)1 << i;
        else if (s)
            letter = r->in[i].letter[s >> 3 & 7];
    }
    for (int i = 0; letter < 0 && i < n->n_outs; i++)
        if (weft_layout_cuts(n->outs[i]->layout, axis))
            letter = r->out[i].letter[weft_layout_dim(n->outs[i]->layout, axis)];
    if (letter >= 0 && (open || (r->whole >> letter & 1u)))
        return wrong(c, n, "an axis cuts an index that must be whole, or an open sum: ", c->g->config.mesh.axis[axis].name);
    bool linear = open == 0;
    for (int k = 0; k < r->n_groups; k++)
        linear = linear || r->group[k] == open;
    if (!linear)
        return wrong(c, n, "reads an open sum that it is not linear in, over ", c->g->config.mesh.axis[axis].name);
    for (int i = 0; letter >= 0 && i < n->n_ins; i++)
        if (state_of(n->ins[i]->layout, axis) != state_for(&r->in[i], letter))
            return wrong(c, n, "operands disagree over ", c->g->config.mesh.axis[axis].name);
    for (int i = 0; i < n->n_outs; i++) {
        unsigned want = open ? WEFT_OPEN_SUM : 0;
        if (letter >= 0 && !(want = state_for(&r->out[i], letter)))
            want = n->op->flags & WEFT_OP_MAX ? WEFT_OPEN_MAX : WEFT_OPEN_SUM;
        if (state_of(n->outs[i]->layout, axis) != want)
            return wrong(c, n, "its result's layout does not follow from the operands over ", c->g->config.mesh.axis[axis].name);
    }
    return WEFT_OK;
}

/* Operands and results that share an index share its ordered axes. */
static weft_status check_order(check *c, weft_node *n)
{
    const weft_rule *r = &c->rule;
    for (int l = 0; l < r->n_letters; l++) {
        int seen[WEFT_MAX_AXES], n_seen = -1;
        for (int i = 0; i < n->n_ins + n->n_outs; i++) {
            const weft_rule_part *part = i < n->n_ins ? &r->in[i] : &r->out[i - n->n_ins];
            const weft_value *v = i < n->n_ins ? n->ins[i] : n->outs[i - n->n_ins];
            int d = weft_rule_dim(part, l), list[WEFT_MAX_AXES];
            if (d < 0)
                continue;
            int count = weft_layout_list(v->layout, d, list);
            if (n_seen >= 0 && (count != n_seen || memcmp(list, seen, sizeof(int) * (size_t)count) != 0))
                return wrong(c, n, "operands cut an index in different orders: ", r->name[l]);
            memcpy(seen, list, sizeof(int) * (size_t)count);
            n_seen = count;
        }
    }
    return WEFT_OK;
}

static weft_status check_node(check *c, weft_node *n)
{
    weft_status s = check_structure(c, n);
    if (s || (n->op->flags & WEFT_OP_SOURCE) || n->steps)
        return s;
    s = weft_rule_of_node(n, true, &c->rule, c->err);
    if (s || !c->g->placed)
        return s;
    for (int a = 0; a < c->g->config.mesh.n_axes && !s; a++)
        s = check_axis(c, n, a);
    return s ? s : c->g->config.mesh.n_axes ? check_order(c, n) : WEFT_OK;
}

weft_status weft_graph_verify(weft_graph *g, weft_error *err)
{
    check c = {.g = g, .err = err};
    weft_status first = weft_graph_status(g);
    if (first)
        return first;
    for (weft_node *n = g->first; n; n = n->next)
        n->mark = 0;
    int wrongs = 0;
    for (weft_node *n = g->first; n && wrongs < 20; n = n->next) {
        weft_status s = check_node(&c, n);
        n->mark = 1;
        wrongs += s != WEFT_OK;
        first = first ? first : s;
    }
    return first;
}
