/* SPDX-License-Identifier: Apache-2.0 */
/* What must be true of a graph after every pass, stated without how it came about. */
#include "compile/graph/graph.h"

#include <string.h>

typedef struct check {
    weft_graph *g;
    weft_error *err;
    weft_rule rule;
    weft_scope *known; /* by node id, before placement: from when on its results are there */
    int *next_use;     /* by value id: where the search for its next use begins */
} check;

/* After the last micro-batch its own value is there, and that of no other. */
static bool reads_last_alone(const check *c, weft_scope reader, weft_scope operand)
{
    return c->g->config.mode == WEFT_MODE_TRAIN && reader == WEFT_STEP_END &&
           operand == WEFT_MICRO_BATCH;
}

static const char last_alone[] =
    "runs at the end of the step and reads a value that differs between micro-batches, so that "
    "only the last would count; weft_accumulate combines them: ";

static weft_status wrong(check *c, const weft_node *n, const char *what, const char *detail)
{
    return weft_fail(c->err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "%s = %s (%s): %s%s",
                     n->n_outs ? n->outs[0]->name : "?", n->op->name, n->by, what,
                     detail ? detail : "");
}

/* Bytes for axes of the mesh alone; the places of every dim 0, 1, ... without gaps; open axes of
 * one kind. */
static bool sound_layout(const weft_mesh *mesh, const weft_value *v)
{
    unsigned places[8] = {0}, kinds = 0;
    for (int a = 0; a < WEFT_MAX_AXES; a++) {
        unsigned b = weft_layout_byte(v->layout, a);
        if (b && a >= mesh->n_axes)
            return false;
        if (b & 0x80u) {
            if ((int)(b >> 3 & 7) >= v->n_dims || (places[b >> 3 & 7] >> (b & 7u) & 1u))
                return false;
            places[b >> 3 & 7] |= 1u << (b & 7u);
        } else if (b & 0x40u) {
            if ((int)(b & 0x3fu) >= mesh->axis[a].size)
                return false;
        } else if (b) {
            kinds |= b;
        }
    }
    for (int d = 0; d < 8; d++)
        if (places[d] & (places[d] + 1))
            return false;
    return kinds <= WEFT_OPEN_MAX;
}

/* A value that all blocks read has thousands of uses, listed about as their nodes are. */
static bool has_use(check *c, const weft_value *v, const weft_node *n, int operand)
{
    int *next = &c->next_use[v->id];
    for (int i = 0; i < v->n_uses; i++) {
        int k = *next < v->n_uses ? *next : 0;
        *next = k + 1;
        if (v->uses[k].node == n && v->uses[k].operand == operand)
            return true;
    }
    return false;
}

void weft_value_print_shape(const weft_value *v, weft_text *text)
{
    weft_text_print(text, "%s [", v->name);
    for (int d = 0; d < v->n_dims; d++)
        weft_text_print(text, "%s%s %lld", d ? ", " : "", v->dims[d].name,
                        (long long)v->dims[d].size);
    weft_text_add(text, "]");
}

/* What is too large for any machine is refused before sizes overflow. */
static weft_status check_size(check *c, const weft_value *v)
{
    int64_t n = 1;
    bool fits = true;
    for (int d = 0; d < v->n_dims && fits; d++)
        fits = !__builtin_mul_overflow(n, v->dims[d].size, &n) && n <= WEFT_MAX_ELEMENTS;
    if (fits)
        return WEFT_OK;
    weft_text shape = {0};
    weft_value_print_shape(v, &shape);
    weft_status s =
        weft_fail(c->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                  "%s has more than 2^50 elements, which no machine can hold; choose smaller sizes",
                  weft_text_get(&shape));
    weft_text_release(&shape);
    return s;
}

/* Before placement a scope is what a pass has set, or follows from the operands. */
static weft_status check_scope(check *c, const weft_node *n)
{
    weft_scope latest = WEFT_STEP_BEGIN;
    for (int i = 0; i < n->n_ins; i++) {
        weft_scope s = c->known[n->ins[i]->node->id];
        latest = s > latest ? s : latest;
        if (n->scope != WEFT_SCOPE_NONE && s > n->scope)
            return wrong(c, n, "runs before its operand is known: ", n->ins[i]->name);
    }
    for (int i = 0; i < n->n_ins; i++)
        if (reads_last_alone(c, n->scope != WEFT_SCOPE_NONE ? n->scope : latest,
                             c->known[n->ins[i]->node->id]))
            return wrong(c, n, last_alone, n->ins[i]->name);
    c->known[n->id] = weft_node_accumulates(n)      ? WEFT_STEP_END
                      : n->scope != WEFT_SCOPE_NONE ? n->scope
                                                    : latest;
    return WEFT_OK;
}

/* Whoever makes a value says whether it is a number or an integer; later passes choose the width
 * alone. */
static weft_status check_dtype(check *c, const weft_node *n, weft_value *v)
{
    int was = v->verified - 1;
    if (v->dtype < 0 || v->dtype >= WEFT_DTYPES)
        return wrong(c, n, "has an unknown dtype: ", v->name);
    if (was >= 0 && (was == WEFT_I32) != (v->dtype == WEFT_I32))
        return wrong(c, n,
                     was == WEFT_I32 ? "was i32, and is now " : "was not an integer, and is now ",
                     weft_dtype_name(v->dtype));
    v->verified = 1 + (int)v->dtype;
    return WEFT_OK;
}

static weft_status check_structure(check *c, weft_node *n)
{
    if (c->g->placed && n->scope == WEFT_SCOPE_NONE)
        return wrong(c, n, "has no scope", NULL);
    for (int i = 0; i < n->n_ins; i++) {
        if (n->ins[i]->node->mark != 1)
            return wrong(c, n, "reads a value that is made later: ", n->ins[i]->name);
        if (!has_use(c, n->ins[i], n, i))
            return wrong(c, n, "is not listed as a use of ", n->ins[i]->name);
        if (c->g->placed && weft_value_available(n->ins[i]) > n->scope)
            return wrong(c, n, "runs before its operand is known: ", n->ins[i]->name);
        if (c->g->placed && reads_last_alone(c, n->scope, weft_value_available(n->ins[i])))
            return wrong(c, n, last_alone, n->ins[i]->name);
    }
    if (!c->g->placed && check_scope(c, n))
        return WEFT_ERR_INTERNAL;
    if (n->like && n->like->node->mark != 1)
        return wrong(c, n, "takes its shape from a value that is made later: ", n->like->name);
    for (int i = 0; i < n->n_outs; i++) {
        weft_value *v = n->outs[i];
        if (weft_graph_find(c->g, v->name) != v)
            return wrong(c, n, "shares its name with another value", NULL);
        for (int d = 0; d < v->n_dims; d++)
            if (!v->dims[d].name || v->dims[d].size < 1 || v->dims[d].grain < 1 ||
                v->dims[d].size % v->dims[d].grain)
                return wrong(c, n, "has a dim without a name or a sound size", NULL);
        for (int k = 0; k < v->n_uses; k++)
            if (v->uses[k].operand >= v->uses[k].node->n_ins ||
                v->uses[k].node->ins[v->uses[k].operand] != v)
                return wrong(c, n,
                             "lists a use that does not read it: ", v->uses[k].node->outs[0]->name);
        if (c->g->placed && !v->placed)
            return wrong(c, n, "has no layout", NULL);
        if (c->g->placed && !sound_layout(&c->g->config.mesh, v))
            return wrong(c, n, "has a layout that makes no sense: ", v->name);
        const weft_value *of = v->update_of;
        if (of && (!weft_same_shape(v, of) || v->layout.bits != of->layout.bits))
            return wrong(c, n, "differs in dims, dtype or layout from the state that it becomes: ",
                         of->name);
        weft_status s = check_dtype(c, n, v);
        s = s ? s : check_size(c, v);
        if (s)
            return s;
    }
    return WEFT_OK;
}

/* ---- redistributes ---- */

/* The axes end dim d's list, in this order. */
static bool ends_with(weft_layout l, int d, const weft_step *s)
{
    int list[WEFT_MAX_AXES], n = weft_layout_list(l, d, list);
    return n >= s->n_axes &&
           memcmp(list + n - s->n_axes, s->axes, sizeof(int) * (size_t)s->n_axes) == 0;
}

/* The layout that a step leads to, as its move is defined; false if it cannot start there. */
static bool step_leads(weft_layout l, const weft_step *s, weft_layout *to)
{
    if (s->move == WEFT_SHIFT) { /* of all the axes of the dim; the layout stays */
        int list[WEFT_MAX_AXES];
        *to = l;
        return s->n_axes > 0 && s->n_axes == weft_layout_list(l, s->dim, list) &&
               ends_with(l, s->dim, s);
    }
    bool takes = s->move == WEFT_ALL_GATHER || s->move == WEFT_ALL_TO_ALL;
    bool closes = s->move == WEFT_REDUCE_SCATTER || s->move == WEFT_ALL_REDUCE;
    bool leaves =
        s->move == WEFT_SEND || s->move == WEFT_BROADCAST || (s->move == WEFT_ZERO && s->dim >= 0);
    if (takes && !ends_with(l, s->dim, s))
        return false;
    if (leaves && (s->dim < 0 || weft_layout_at(l, s->axes[0]) != s->dim))
        return false;
    for (int i = 0; i < s->n_axes && !takes && !leaves; i++) {
        if (closes ? !weft_layout_open(l, s->axes[i]) : weft_layout_byte(l, s->axes[i]) != 0)
            return false;
    }
    for (int i = s->n_axes - 1; i >= 0; i--)
        l = weft_layout_clear(l, s->axes[i]);
    int cut = s->move == WEFT_ALL_TO_ALL                                ? s->to
              : s->move == WEFT_REDUCE_SCATTER || s->move == WEFT_SLICE ? s->dim
                                                                        : -1;
    for (int i = 0; cut >= 0 && i < s->n_axes; i++)
        l = weft_layout_cut(l, cut, s->axes[i], weft_layout_fine(s->after, s->axes[i]));
    if (s->move == WEFT_ZERO)
        l = weft_layout_set_open(l, s->axes[0], WEFT_OPEN_SUM);
    if (s->move == WEFT_SEND || s->move == WEFT_KEEP)
        l = weft_layout_set_at(l, s->axes[0], s->to);
    *to = l;
    return true;
}

/* A shift turns by one; nothing else that moves is turned. */
static bool turns(const check *c, const weft_node *n)
{
    const weft_value *from = n->ins[0], *to = n->outs[0];
    if (!weft_node_shifts(n))
        return from->turn == 0 && to->turn == 0;
    const int count = weft_step_members(&c->g->config.mesh, n->steps);
    return to->turn == (from->turn + 1) % count && to->turn_dim == n->steps->dim &&
           (from->turn == 0 || from->turn_dim == to->turn_dim);
}

static weft_status check_moves(check *c, weft_node *n)
{
    const weft_value *from = n->ins[0], *to = n->outs[0];
    weft_layout l = from->layout;
    if (!weft_same_shape(from, to))
        return wrong(c, n, "changes more than the layout of ", from->name);
    for (int i = 0; i < n->n_steps; i++) {
        if (!step_leads(l, &n->steps[i], &l) || l.bits != n->steps[i].after.bits)
            return wrong(c, n, "has a step that does not lead where it says: ",
                         weft_move_name(n->steps[i].move));
    }
    if (!turns(c, n))
        return wrong(c, n, "is not one rank further than ", from->name);
    return l.bits == to->layout.bits
               ? WEFT_OK
               : wrong(c, n, "has steps that do not lead to its layout", NULL);
}

/* ---- ops ---- */

/* Dims of one index are of one size, unless the op itself says what they are (heads and kv_heads; a
 * dim and its chunks). */
static weft_status check_sizes(check *c, weft_node *n)
{
    const weft_rule *r = &c->rule;
    const weft_dim *seen[WEFT_RULE_MAX_LETTERS] = {NULL};
    for (int i = 0; i < r->n_ins + n->n_outs && !n->op->infer; i++) {
        const weft_rule_part *part = i < r->n_ins ? &r->in[i] : &r->out[i - r->n_ins];
        const weft_value *v = i < n->n_ins   ? n->ins[i]
                              : i < r->n_ins ? n->like
                                             : n->outs[i - r->n_ins];
        for (int d = 0; d < v->n_dims; d++) {
            const weft_dim **s = &seen[part->letter[d]];
            if (*s && ((*s)->size != v->dims[d].size || (*s)->grain != v->dims[d].grain))
                return wrong(c, n, "one index has two sizes: ", r->name[part->letter[d]]);
            *s = &v->dims[d];
        }
    }
    return WEFT_OK;
}

/* more: the axis cuts the dims marked x+ alone. */
static unsigned state_for(const weft_rule_part *part, int letter, bool more)
{
    int d = weft_rule_dim(part, letter);
    return d < 0 || (more && !part->more[d]) ? 0 : 0x80u | (unsigned)d << 3;
}

static const weft_rule_part *part_of(const check *c, const weft_node *n, int i)
{
    return i < n->n_ins ? &c->rule.in[i] : &c->rule.out[i - n->n_ins];
}

static const weft_value *value_of(const weft_node *n, int i)
{
    return i < n->n_ins ? n->ins[i] : n->outs[i - n->n_ins];
}

/* Does an axis that cuts a letter leave all of its dims whole that are not marked x+? */
static bool cuts_marked(const check *c, const weft_node *n, int letter, int axis)
{
    if (letter < 0 || !(c->rule.more >> letter & 1u))
        return false;
    for (int i = 0; i < n->n_ins + n->n_outs; i++) {
        const weft_rule_part *part = part_of(c, n, i);
        int d = weft_rule_dim(part, letter);
        if (d >= 0 && !part->more[d] && weft_layout_cuts(value_of(n, i)->layout, axis))
            return false;
    }
    return true;
}

/* A node that is at one coordinate reads what is there, or everywhere, and makes what is there. */
static weft_status check_at(check *c, weft_node *n, int axis)
{
    int at = n->n_outs ? weft_layout_at(n->outs[0]->layout, axis) : -1;
    for (int i = 0; i < n->n_ins; i++)
        if (weft_layout_byte(n->ins[i]->layout, axis) &&
            weft_layout_at(n->ins[i]->layout, axis) != at)
            return wrong(c, n, "reads a value that is not where it runs: ", n->ins[i]->name);
    for (int i = 1; i < n->n_outs; i++)
        if (weft_layout_at(n->outs[i]->layout, axis) != at)
            return wrong(c, n, "its results are in different places of ",
                         c->g->config.mesh.axis[axis].name);
    return WEFT_OK;
}

static bool is_at(const weft_node *n, int axis)
{
    for (int i = 0; i < n->n_ins + n->n_outs; i++)
        if (weft_layout_at(value_of(n, i)->layout, axis) >= 0)
            return true;
    return false;
}

/* One axis plays one role: it cuts one index everywhere, or exactly the operands of one linear
 * group are open sums, or operand 0 of a monotone op is an open maximum, or nothing. */
static weft_status check_axis(check *c, weft_node *n, int axis)
{
    const weft_rule *r = &c->rule;
    int letter = -1;
    uint64_t open = 0;
    bool maximum = false;
    if (is_at(n, axis))
        return check_at(c, n, axis);
    for (int i = 0; i < n->n_ins; i++) {
        const weft_value *v = n->ins[i];
        unsigned s = weft_layout_state(v->layout, axis);
        if (s == WEFT_OPEN_MAX && (i > 0 || !weft_node_is(n, WEFT_OP_MONOTONE)))
            return wrong(c, n, "reads an open maximum: ", v->name);
        if (s == WEFT_OPEN_MAX)
            maximum = true;
        else if (s == WEFT_OPEN_SUM)
            open |= (uint64_t)1 << i;
        else if (s)
            letter = r->in[i].letter[s >> 3 & 7];
    }
    for (int i = 0; letter < 0 && i < n->n_outs; i++)
        if (weft_layout_cuts(n->outs[i]->layout, axis))
            letter = r->out[i].letter[weft_layout_dim(n->outs[i]->layout, axis)];
    if (letter >= 0 && (open || maximum || (r->whole >> letter & 1u)))
        return wrong(
            c, n,
            "an axis cuts an index that must be whole, or a value that is an open sum over it: ",
            c->g->config.mesh.axis[axis].name);
    const bool more = cuts_marked(c, n, letter, axis);
    bool linear = open == 0;
    for (int k = 0; k < r->n_groups && !maximum; k++)
        linear = linear || r->group[k] == open;
    if (!linear)
        return wrong(c, n, "reads an open sum that it is not linear in, over ",
                     c->g->config.mesh.axis[axis].name);
    for (int i = 0; letter >= 0 && i < n->n_ins; i++)
        if (weft_layout_state(n->ins[i]->layout, axis) != state_for(&r->in[i], letter, more))
            return wrong(c, n, "operands disagree over ", c->g->config.mesh.axis[axis].name);
    for (int i = 0; i < n->n_outs; i++) {
        unsigned want = maximum ? WEFT_OPEN_MAX : open ? WEFT_OPEN_SUM : 0;
        if (letter >= 0 && !(want = state_for(&r->out[i], letter, more)))
            want = n->op->flags & WEFT_OP_MAX ? WEFT_OPEN_MAX : WEFT_OPEN_SUM;
        if (weft_layout_state(n->outs[i]->layout, axis) != want)
            return wrong(c, n, "its result's layout does not follow from the operands over ",
                         c->g->config.mesh.axis[axis].name);
    }
    return WEFT_OK;
}

/* Operands and results that share an index share its ordered axes; where it is marked x+, more may
 * follow. */
static weft_status check_order(check *c, weft_node *n)
{
    const weft_rule *r = &c->rule;
    for (int l = 0; l < r->n_letters; l++) {
        int seen[2][WEFT_MAX_AXES], n_seen[2] = {-1, -1}; /* of dims without a mark, with one */
        weft_layout other = {0};
        for (int i = 0; i < n->n_ins + n->n_outs; i++) {
            const weft_layout layout = value_of(n, i)->layout;
            int d = weft_rule_dim(part_of(c, n, i), l), list[WEFT_MAX_AXES];
            if (d < 0)
                continue;
            const int count = weft_layout_list(layout, d, list), more = part_of(c, n, i)->more[d];
            const size_t bytes = sizeof(int) * (size_t)count;
            if (n_seen[more] >= 0 &&
                (count != n_seen[more] || memcmp(list, seen[more], bytes) != 0))
                return wrong(c, n, "operands cut an index in different orders: ", r->name[l]);
            for (int k = 0; n_seen[more] >= 0 && k < count; k++)
                if (weft_layout_fine(layout, list[k]) != weft_layout_fine(other, list[k]))
                    return wrong(c, n, "an index is cut between grains here and at grains there: ",
                                 r->name[l]);
            memcpy(seen[more], list, bytes);
            other = layout;
            n_seen[more] = count;
        }
        if (n_seen[0] > 0 && n_seen[1] >= 0 &&
            (n_seen[0] > n_seen[1] || memcmp(seen[0], seen[1], sizeof(int) * (size_t)n_seen[0])))
            return wrong(c, n,
                         "the outermost axes of an index are not all of its others': ", r->name[l]);
    }
    return WEFT_OK;
}

static int turn_of(const weft_value *v, int d)
{
    return v->turn_dim == d ? v->turn : 0;
}

/* On its way round a ring a value is cut where it is turned, and by less than a whole round.
 * Whoever shifts it says so; it does not begin like that. */
static weft_status check_turned(check *c, const weft_node *n)
{
    for (int i = 0; i < n->n_outs; i++) {
        const weft_value *v = n->outs[i];
        bool cut = v->placed && v->turn_dim >= 0 && v->turn_dim < v->n_dims;
        int count = cut ? weft_layout_pieces(&c->g->config.mesh, v->layout, v->turn_dim) : 1;
        if (v->turn < 0 || v->turn >= count || (v->turn && weft_node_is(n, WEFT_OP_SOURCE)))
            return wrong(c, n, "is passed round a ring that does not exist: ", v->name);
    }
    return WEFT_OK;
}

/* Operands and results that share an index hold the same shard of it: they are turned alike, but
 * for what goes round in a ring, which is turned like all else that does. What no operand has is
 * not turned. */
static weft_status check_turns(check *c, weft_node *n)
{
    const weft_rule *r = &c->rule;
    for (int l = 0; l < r->n_letters; l++) {
        int turn[2] = {0, 0}; /* of what stays, of what travels */
        bool known[2] = {false, false};
        for (int i = 0; i < n->n_ins + n->n_outs; i++) {
            int d = weft_rule_dim(part_of(c, n, i), l), travels = weft_ring_moves(n, i);
            if (d < 0)
                continue;
            if (!known[travels] && i < n->n_ins)
                turn[travels] = turn_of(value_of(n, i), d);
            known[travels] = true;
            if (turn_of(value_of(n, i), d) != turn[travels])
                return wrong(c, n, "has shards of other ranks of one index: ", r->name[l]);
        }
    }
    return WEFT_OK;
}

static weft_status check_part(check *c, const weft_node *n)
{
    for (int i = 0; i < n->n_ins; i++)
        if (!weft_node_may_read(n, n->ins[i]->node))
            return wrong(c, n, "runs in an earlier part or stage than the node that makes ",
                         n->ins[i]->name);
    return WEFT_OK;
}

/* What lies far is fetched, and nothing else is. */
static weft_status check_far(check *c, const weft_node *n)
{
    const bool fetch = weft_node_is(n, WEFT_OP_FETCH);
    for (int i = 0; i < n->n_ins; i++) {
        const weft_value *v = n->ins[i];
        const bool away = weft_node_is(v->node, WEFT_OP_EVICT);
        const bool kept = weft_node_is(v->node, WEFT_OP_PARAMETER | WEFT_OP_STATE);
        if (fetch && !away && (!kept || v->kind == WEFT_STATE_CACHE))
            return wrong(c, n, "fetches what is no parameter or state, nor evicted: ", v->name);
        if (!fetch && (away || (kept && weft_value_is_far(v))))
            return wrong(c, n, "reads what lies in far memory, without a fetch: ", v->name);
    }
    return WEFT_OK;
}

static weft_status check_node(check *c, weft_node *n)
{
    weft_status s = check_structure(c, n);
    s = s ? s : weft_check_marks(n, c->err);
    s = s ? s : check_turned(c, n);
    s = s ? s : check_far(c, n);
    if (!s && c->g->has_parts)
        s = check_part(c, n);
    if (s || (n->op->flags & WEFT_OP_SOURCE))
        return s;
    if (n->steps)
        return check_moves(c, n);
    if (weft_node_find_rule(c->g, n, true, &c->rule, c->err))
        return wrong(c, n, "does not fit the index rule of its op", NULL);
    s = check_sizes(c, n);
    if (s || !c->g->placed)
        return s;
    for (int a = 0; a < c->g->config.mesh.n_axes && !s; a++)
        s = check_axis(c, n, a);
    if (s || !c->g->config.mesh.n_axes)
        return s;
    s = check_order(c, n);
    return s ? s : check_turns(c, n);
}

weft_status weft_graph_verify(weft_graph *g, weft_error *err)
{
    check c = {.g = g, .err = err};
    weft_status first = weft_graph_status(g);
    if (first)
        return first;
    weft_pool pool = {0};
    c.known = weft_pool_alloc(&pool, ((size_t)g->n_nodes + 1) * sizeof *c.known);
    c.next_use = weft_pool_alloc(&pool, ((size_t)g->n_values + 1) * sizeof *c.next_use);
    if (pool.out_of_memory)
        first = weft_fail_memory(err);
    for (weft_node *n = g->first; n; n = n->next)
        n->mark = 0;
    enum { ENOUGH = 20 };
    int wrongs = first ? ENOUGH : 0;
    for (weft_node *n = g->first; n && wrongs < ENOUGH; n = n->next) {
        weft_status s = check_node(&c, n);
        n->mark = 1;
        wrongs += s != WEFT_OK;
        first = first ? first : s;
    }
    weft_pool_release(&pool);
    return first || !g->has_parts ? first : weft_graph_check_every(g);
}
