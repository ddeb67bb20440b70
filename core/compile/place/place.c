/* SPDX-License-Identifier: Apache-2.0 */
/* One placement algorithm for every op, forward, backward and update. For every node, and
 * independently for every mesh axis, the axis gets one role in the op: it cuts an index, passes an
 * open sum through a linear group, passes an open maximum through a monotone op, or leaves the op
 * alone. The cheapest role wins. On the axis of a pipeline's stages nothing is chosen: a node is
 * where its block is. */
#include "compile/graph/graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/random.h>

typedef enum role_kind { ROLE_CUT, ROLE_MORE, ROLE_WHOLE, ROLE_OPEN, ROLE_MAX, ROLE_AT } role_kind;

typedef struct role {
    role_kind kind;
    int letter, group, at;
} role;

/* An ordered list of axes for one index; fine ones ignore the grain. Behind those that cut all its
 * dims are those that cut the dims marked x+ alone, n_all with them. */
typedef struct axis_list {
    int n, n_all, axis[WEFT_MAX_AXES];
    bool fine[WEFT_MAX_AXES];
} axis_list;

typedef struct job {
    weft_graph *g;
    weft_node *n;
    weft_rule rule;
    role roles[WEFT_MAX_AXES];
    axis_list order[WEFT_RULE_MAX_LETTERS];
} job;

static weft_value *operand(const job *j, int i)
{
    return i < j->n->n_ins ? j->n->ins[i] : j->n->like;
}

static unsigned cut_state(const weft_rule_part *part, role r)
{
    int d = weft_rule_dim(part, r.letter);
    return d < 0 || (r.kind == ROLE_MORE && !part->more[d]) ? 0 : 0x80u | (unsigned)d << 3;
}

static bool is_cut(role r)
{
    return r.kind == ROLE_CUT || r.kind == ROLE_MORE;
}

/* What a role makes of operand i, and of result r. */
static unsigned operand_state(const job *j, role r, int i)
{
    if (is_cut(r))
        return cut_state(&j->rule.in[i], r);
    if (r.kind == ROLE_MAX)
        return i == 0 ? WEFT_OPEN_MAX : 0;
    return r.kind == ROLE_OPEN && (j->rule.group[r.group] >> i & 1u) ? WEFT_OPEN_SUM : 0;
}

static unsigned result_state(const job *j, role r, int i)
{
    if (!is_cut(r))
        return r.kind == ROLE_OPEN ? WEFT_OPEN_SUM : r.kind == ROLE_MAX ? WEFT_OPEN_MAX : 0;
    unsigned s = cut_state(&j->rule.out[i], r);
    return s ? s : j->n->op->flags & WEFT_OP_MAX ? WEFT_OPEN_MAX : WEFT_OPEN_SUM;
}

/* Parameters move only by their own gather; in the backward only gradients move; what is only
 * looked at stays. */
static bool anchored(const job *j, const weft_value *v)
{
    if (v == j->n->like || v->weight)
        return true;
    bool gradient_op = j->n->phase == WEFT_BACKWARD || j->n->phase == WEFT_UPDATE;
    return gradient_op && (v->node->phase == WEFT_FORWARD || v->node->phase == WEFT_RECOMPUTE);
}

static double price(const job *j, int axis, role r)
{
    static const double anchor = 1e9, communicates = 2e-3;
    double total = 0;
    for (int i = 0; i < j->rule.n_ins; i++) {
        const weft_value *v = operand(j, i);
        double c = weft_move_price(j->g, v, axis, weft_layout_state(v->layout, axis),
                                   operand_state(j, r, i));
        total += c > communicates && anchored(j, v) ? c * anchor : c;
    }
    for (int i = 0; i < j->n->n_outs; i++) {
        unsigned want;
        if (weft_table_wants(j->g, j->n->outs[i], axis, &want))
            total += weft_move_price(j->g, j->n->outs[i], axis, result_state(j, r, i), want);
    }
    return total;
}

static bool element_wise(const job *j)
{
    for (int l = 0; l < j->rule.n_letters; l++)
        if (j->rule.name[l][0] != '*')
            return false;
    return true;
}

/* Rounding shares is not rounding the sum. What is no sum yet, a bias, joins one share. */
static bool narrows(const job *j, int axis)
{
    for (int i = 0; i < j->n->n_ins; i++)
        if (weft_layout_open(j->n->ins[i]->layout, axis) &&
            weft_dtype_is_float(j->n->ins[i]->dtype) &&
            weft_dtype_size(j->n->outs[0]->dtype) < weft_dtype_size(j->n->ins[i]->dtype))
            return true;
    return false;
}

enum { MAX_CANDIDATES = 2 * WEFT_RULE_MAX_PARTS + WEFT_RULE_MAX_LETTERS };

static int add_candidate(role *list, int n, role r)
{
    for (int i = 0; i < n; i++)
        if (list[i].kind == r.kind && list[i].letter == r.letter && list[i].group == r.group)
            return n;
    if (n < MAX_CANDIDATES)
        list[n++] = r;
    return n;
}

static bool group_is_open(const job *j, int axis, int group)
{
    for (int i = 0; i < j->rule.n_ins; i++)
        if ((j->rule.group[group] >> i & 1u) &&
            weft_layout_open(operand(j, i)->layout, axis) == WEFT_OPEN_SUM)
            return true;
    return false;
}

/* The dims of a letter, one after the other: of operands, then of results. */
static const weft_dim *next_dim(const job *j, int letter, int *i)
{
    while (*i < j->rule.n_ins + j->n->n_outs) {
        int k = (*i)++;
        bool in = k < j->rule.n_ins;
        int d = weft_rule_dim(in ? &j->rule.in[k] : &j->rule.out[k - j->rule.n_ins], letter);
        if (d >= 0)
            return &(in ? operand(j, k) : j->n->outs[k - j->rule.n_ins])->dims[d];
    }
    return NULL;
}

/* Whether the dims of a letter can be cut alike into `count`: of one size, or all of them divide.
 * If not, *a and *b are two that cannot. */
static bool divides(const job *j, int letter, int64_t count, const weft_dim **a, const weft_dim **b)
{
    int i = 0;
    *a = next_dim(j, letter, &i);
    while ((*b = next_dim(j, letter, &i))) {
        int64_t first = (*a)->size / (*a)->grain, units = (*b)->size / (*b)->grain;
        if (units != first && (units % count || first % count))
            return false;
    }
    return true;
}

/* The axes that cut a letter already, outermost first: those of the operand that has most. */
static int cut_before(const job *j, int letter, int list[WEFT_MAX_AXES])
{
    int n = 0;
    for (int i = 0; i < j->rule.n_ins; i++) {
        int have[WEFT_MAX_AXES], d = weft_rule_dim(&j->rule.in[i], letter);
        int n_have = d < 0 ? 0 : weft_layout_list(operand(j, i)->layout, d, have);
        if (n_have <= n)
            continue;
        n = n_have;
        memcpy(list, have, sizeof have);
    }
    return n;
}

/* A dim and its parts (chunk) share a letter, and so do heads and kv_heads: an axis may cut it
 * where all of them divide, by this axis and those that come before it: of axes that cut it already
 * the outer ones, for what is cut within them is gathered alone. Where inner ones may go on
 * (x+), none cuts all dims behind one that does not. */
static bool can_cut(const job *j, int axis, int letter)
{
    const weft_dim *first, *other;
    const weft_mesh *mesh = &j->g->config.mesh;
    int list[WEFT_MAX_AXES], n = cut_before(j, letter, list);
    const bool more = j->rule.more >> letter & 1u;
    int64_t count = 1;
    weft_axes known = 0;
    for (int k = 0; k < n; k++) {
        const int64_t with = count * mesh->axis[list[k]].size;
        const bool fits = divides(j, letter, with, &first, &other);
        if (list[k] == axis || (more && !fits))
            return fits;
        count = fits ? with : count;
        known |= 1u << list[k];
    }
    for (int a = 0; a < axis; a++)
        if (!(known >> a & 1u) && j->roles[a].kind == ROLE_CUT && j->roles[a].letter == letter)
            count *= mesh->axis[a].size;
    return divides(j, letter, count * mesh->axis[axis].size, &first, &other);
}

/* An axis cuts all dims of a letter or, where they do not divide, the marked ones alone. */
static bool can_cut_some(const job *j, int axis, int letter, role *r)
{
    *r = (role){.kind = can_cut(j, axis, letter) ? ROLE_CUT : ROLE_MORE, .letter = letter};
    return r->kind == ROLE_CUT || (j->rule.more >> letter & 1u);
}

static int candidates(const job *j, int axis, role list[MAX_CANDIDATES])
{
    role r;
    int n = 0;
    for (int i = 0; i < j->rule.n_ins; i++) {
        const weft_value *v = operand(j, i);
        if (!weft_layout_cuts(v->layout, axis))
            continue;
        int d = weft_layout_dim(v->layout, axis), letter = j->rule.in[i].letter[d];
        bool between_grains = weft_layout_fine(v->layout, axis) && v->dims[d].grain > 1;
        if (!(j->rule.whole >> letter & 1u) && (!between_grains || element_wise(j)) &&
            can_cut_some(j, axis, letter, &r))
            n = add_candidate(list, n, r);
    }
    for (int i = 0; i < j->n->n_outs; i++) {
        unsigned want;
        if (!weft_table_wants(j->g, j->n->outs[i], axis, &want) || !(want & 0x80u))
            continue;
        int letter = j->rule.out[i].letter[want >> 3 & 7];
        if (!(j->rule.whole >> letter & 1u) && (weft_rule_in_letters(&j->rule) >> letter & 1u) &&
            can_cut_some(j, axis, letter, &r))
            n = add_candidate(list, n, r);
    }
    n = add_candidate(list, n, (role){.kind = ROLE_WHOLE});
    for (int k = 0; k < j->rule.n_groups && !narrows(j, axis); k++)
        if (group_is_open(j, axis, k))
            n = add_candidate(list, n, (role){.kind = ROLE_OPEN, .group = k});
    if ((j->n->op->flags & WEFT_OP_MONOTONE) && j->n->n_ins &&
        weft_layout_open(j->n->ins[0]->layout, axis) == WEFT_OPEN_MAX)
        n = add_candidate(list, n, (role){.kind = ROLE_MAX});
    return n;
}

/* Tests: any legal role. Placement decides cost, never correctness, so all of them must give the
 * same numbers. */
static role roll(const job *j, int axis, role *list, int n)
{
    uint32_t letters = weft_rule_in_letters(&j->rule) & ~j->rule.whole;
    role r;
    for (int l = 0; l < j->rule.n_letters; l++)
        if ((letters >> l & 1u) && can_cut_some(j, axis, l, &r))
            n = add_candidate(list, n, r);
    int legal = 0;
    for (int i = 0; i < n; i++)
        if (price(j, axis, list[i]) < INFINITY)
            list[legal++] = list[i];
    return list[weft_random_bits(j->g->config.dice, 1, j->g->rolls++) % (uint64_t)legal];
}

/* Bits of the operands that are at one coordinate or open over the axis. */
static uint64_t find_apart(const job *j, int axis, int *first, bool *one)
{
    uint64_t apart = 0;
    *first = -1;
    *one = true;
    for (int i = 0; i < j->n->n_ins; i++) {
        int at = weft_layout_at(j->n->ins[i]->layout, axis);
        bool open = weft_layout_open(j->n->ins[i]->layout, axis) != 0;
        if (at < 0 && !open)
            continue;
        *one = *one && !open && (*first < 0 || *first == at);
        *first = at;
        apart |= (uint64_t)1 << i;
    }
    return apart;
}

static int find_group(const job *j, int axis, uint64_t operands)
{
    for (int k = 0; k < j->rule.n_groups && !narrows(j, axis); k++)
        if (j->rule.group[k] == operands)
            return k;
    return -1;
}

/* What belongs to a block is where its stage is; what belongs to none, where all is that it reads.
 * A sum of what is in several places stays open, but for one of tokens that a forward goes on with:
 * stages cannot meet in a micro-batch, so that is made, as whatever else reads such, in the last of
 * the stages that it reads from. What is known once a step is everywhere. */
static role find_stage(const job *j, int axis)
{
    int at = weft_graph_block_rank(j->g, j->n->block);
    if (at >= 0)
        return (role){.kind = ROLE_AT, .at = at};
    bool one;
    uint64_t apart = find_apart(j, axis, &at, &one);
    if (!apart)
        return (role){.kind = ROLE_WHOLE};
    if (one)
        return (role){.kind = ROLE_AT, .at = at};
    int group = find_group(j, axis, apart);
    bool forward = j->n->scope == WEFT_MICRO_BATCH && j->n->phase == WEFT_FORWARD;
    if (group >= 0 && (!forward || j->n->outs[0]->n_dims == 0))
        return (role){.kind = ROLE_OPEN, .group = group};
    return forward ? (role){.kind = ROLE_AT, .at = weft_graph_stage_rank(j->g, j->n->stage)}
                   : (role){.kind = ROLE_WHOLE};
}

static role choose(const job *j, int axis)
{
    if (axis == weft_graph_stage_axis(j->g))
        return find_stage(j, axis);
    role list[MAX_CANDIDATES];
    int n = candidates(j, axis, list);
    if (j->g->config.dice)
        return roll(j, axis, list, n);
    int best = 0;
    double lowest = price(j, axis, list[0]);
    for (int i = 1; i < n; i++) { /* the first of equals: cut, then whole, then open */
        const double p = price(j, axis, list[i]);
        best = p < lowest ? i : best;
        lowest = p < lowest ? p : lowest;
    }
    return list[best];
}

/* The ordered axes of a set for one index: as in the operand that already has most of them, then
 * the new ones, outermost first. */
static axis_list order_set(const job *j, int letter, weft_axes set)
{
    axis_list best = {0};
    for (int i = 0; i < j->rule.n_ins; i++) {
        const weft_value *v = operand(j, i);
        int d = weft_rule_dim(&j->rule.in[i], letter), list[WEFT_MAX_AXES];
        axis_list have = {0};
        int n = d < 0 ? 0 : weft_layout_list(v->layout, d, list);
        for (int k = 0; k < n; k++) {
            if (!(set >> list[k] & 1u))
                continue;
            have.fine[have.n] = weft_layout_fine(v->layout, list[k]) && element_wise(j);
            have.axis[have.n++] = list[k];
        }
        if (have.n > best.n)
            best = have;
    }
    for (int k = 0; k < best.n; k++)
        set &= ~(1u << best.axis[k]);
    for (int a = WEFT_MAX_AXES - 1; a >= 0; a--)
        if (set >> a & 1u)
            best.axis[best.n++] = a;
    return best;
}

static weft_axes axes_of(const job *j, role_kind kind, int letter)
{
    weft_axes set = 0;
    for (int a = 0; a < j->g->config.mesh.n_axes; a++)
        if (j->roles[a].kind == kind && j->roles[a].letter == letter)
            set |= 1u << a;
    return set;
}

static void order_letters(job *j)
{
    for (int l = 0; l < j->rule.n_letters; l++) {
        const weft_axes all = axes_of(j, ROLE_CUT, l), more = axes_of(j, ROLE_MORE, l);
        axis_list *order = &j->order[l];
        order->n = 0;
        if (all)
            *order = order_set(j, l, all);
        order->n_all = order->n;
        const axis_list behind = more ? order_set(j, l, more) : (axis_list){0};
        for (int k = 0; k < behind.n; k++) {
            order->fine[order->n_all] = behind.fine[k];
            order->axis[order->n_all++] = behind.axis[k];
        }
    }
}

static int64_t nearest_degree(int64_t a, int64_t b, int64_t wanted)
{
    int64_t best = 1;
    for (int64_t d = 1; d <= a && d <= b; d++)
        if (a % d == 0 && b % d == 0 && llabs(d - wanted) < llabs(best - wanted))
            best = d;
    return best;
}

static weft_status not_even(job *j, int axis, const weft_dim *first, const weft_dim *dim)
{
    const weft_axis *cuts = &j->g->config.mesh.axis[axis];
    int64_t first_units = first->size / first->grain, units = dim->size / dim->grain;
    weft_where at = weft_table_where(j->g, axis, first->name);
    at = at.file ? at : weft_table_where(j->g, axis, dim->name);
    bool users = at.file, known = !users && cuts->at.file && cuts->by;
    const char *who = users ? "[mesh] rule" : cuts->by ? cuts->by : "mesh";
    weft_graph_fail(j->g, WEFT_ERR_INPUT, users ? at : cuts->at,
                    "%s%s%s: %s = %s: %s %lld and %s %lld must both divide by %s = %lld; the "
                    "nearest degree that works is %lld",
                    known ? "[" : "", who, known ? "] degree" : "", j->n->outs[0]->name,
                    j->n->op->name, first->name, (long long)first_units, dim->name,
                    (long long)units, cuts->name, (long long)cuts->size,
                    (long long)nearest_degree(units, first_units, cuts->size));
    return WEFT_ERR_INPUT;
}

/* Where every operand comes cut by an axis that the sizes of a letter (heads, kv_heads) do not both
 * divide by, the mesh is refused, whatever else might be chosen: to gather them all would be
 * correct and slow. Together with other axes it is no more than a choice that is not there. */
static weft_status check_even(job *j, int axis)
{
    for (int l = 0; l < j->rule.n_letters; l++) {
        const weft_dim *first, *other;
        bool cut = false, whole = false;
        for (int i = 0; i < j->rule.n_ins; i++) {
            int d = weft_rule_dim(&j->rule.in[i], l);
            weft_layout layout = operand(j, i)->layout;
            bool cuts = weft_layout_cuts(layout, axis) && weft_layout_dim(layout, axis) == d;
            cut = cut || (d >= 0 && cuts);
            whole = whole || (d >= 0 && !cuts);
        }
        if (cut && !whole && !(j->rule.more >> l & 1u) &&
            !divides(j, l, j->g->config.mesh.axis[axis].size, &first, &other) &&
            strcmp(first->name, other->name) != 0)
            return not_even(j, axis, first, other);
    }
    return WEFT_OK;
}

static weft_layout cut_layout(const job *j, const weft_rule_part *part)
{
    weft_layout l = {0};
    for (int d = 0; d < part->n_dims; d++) {
        const axis_list *axes = &j->order[(int)part->letter[d]];
        for (int k = 0; k < (part->more[d] ? axes->n_all : axes->n); k++)
            l = weft_layout_cut(l, d, axes->axis[k], axes->fine[k]);
    }
    return l;
}

static weft_layout operand_layout(const job *j, int i)
{
    weft_layout l = cut_layout(j, &j->rule.in[i]);
    for (int a = 0; a < j->g->config.mesh.n_axes; a++)
        if (j->roles[a].kind == ROLE_OPEN && (j->rule.group[j->roles[a].group] >> i & 1u))
            l = weft_layout_set_open(l, a, WEFT_OPEN_SUM);
        else if (j->roles[a].kind == ROLE_MAX && i == 0)
            l = weft_layout_set_open(l, a, WEFT_OPEN_MAX);
    for (int a = 0; a < j->g->config.mesh.n_axes; a++) /* what is everywhere is there, too */
        if (j->roles[a].kind == ROLE_AT && weft_layout_byte(operand(j, i)->layout, a))
            l = weft_layout_set_at(l, a, j->roles[a].at);
    return l;
}

static weft_layout result_layout(const job *j, int i)
{
    weft_layout l = cut_layout(j, &j->rule.out[i]);
    for (int a = 0; a < j->g->config.mesh.n_axes; a++) {
        if (j->roles[a].kind == ROLE_AT)
            l = weft_layout_set_at(l, a, j->roles[a].at);
        unsigned s = result_state(j, j->roles[a], i);
        if (s == WEFT_OPEN_SUM || s == WEFT_OPEN_MAX)
            l = weft_layout_set_open(l, a, (int)s);
    }
    return l;
}

/* Its own, or what the table demands for its role. */
static weft_layout wanted_layout(const weft_graph *g, const weft_value *v)
{
    weft_layout target = v->layout;
    for (int a = 0; a < g->config.mesh.n_axes; a++) {
        unsigned want;
        if (a == weft_graph_stage_axis(g) || !weft_table_wants(g, v, a, &want) ||
            weft_layout_state(target, a) == want)
            continue;
        target = weft_layout_clear(target, a);
        if (want)
            target = weft_layout_cut(target, (int)(want >> 3) & 7, a, false);
    }
    return target;
}

/* Everyone sees what the table demands. */
static weft_status give_role(weft_graph *g, weft_value *v)
{
    const weft_layout target = wanted_layout(g, v);
    if (target.bits == v->layout.bits)
        return WEFT_OK;
    char why[256];
    snprintf(why, sizeof why, "the table's layout of %s", v->role ? v->role : v->name);
    weft_value *moved = weft_move_to(g, v, target, v->node->next, v->node->phase, why, NULL);
    if (!moved)
        return weft_graph_status(g);
    moved->node->block = v->node->block;
    moved->recompute = v->recompute;
    weft_place_replace(g, v, moved);
    return WEFT_OK;
}

/* As early as the operands allow, but not before what it was added in front of. What has none is
 * the same in all micro-batches. */
static void set_scope(const weft_graph *g, weft_node *n)
{
    if (n->scope != WEFT_SCOPE_NONE)
        return;
    n->scope = WEFT_STEP_BEGIN;
    if (g->placed && g->spot.scope > n->scope)
        n->scope = g->spot.scope;
    for (int i = 0; i < n->n_ins; i++) {
        weft_scope s = weft_value_available(n->ins[i]);
        if (s > n->scope)
            n->scope = s;
    }
}

/* Of a node of a micro-batch; weft_graph_assign_parts says it again once all is there. */
static void set_stage(const weft_graph *g, weft_node *n)
{
    n->stage = weft_graph_stage_of(g, n->block);
    if (n->block != WEFT_BLOCK_NONE)
        return;
    bool backward = n->phase == WEFT_BACKWARD;
    n->stage = backward ? weft_graph_stages(g) - 1 : 0;
    for (int i = 0; i < n->n_ins; i++) {
        const weft_node *maker = n->ins[i]->node;
        bool later = backward ? maker->stage < n->stage : maker->stage > n->stage;
        bool counts =
            maker->scope == WEFT_MICRO_BATCH && (!backward || maker->phase != WEFT_FORWARD);
        n->stage = later && counts ? maker->stage : n->stage;
    }
}

/* What is made from a gathered parameter alone is as short-lived as it. */
static void inherit_recompute(weft_node *n)
{
    if (!n->outs[0]->weight)
        return;
    for (int i = 0; i < n->n_ins; i++)
        for (int r = 0; n->ins[i]->recompute && r < n->n_outs; r++)
            n->outs[r]->recompute = true;
}

static weft_status place_op(weft_graph *g, weft_node *n)
{
    job j = {.g = g, .n = n};
    weft_status s = weft_node_find_rule(g, n, true, &j.rule, &g->error);
    if (s)
        return s;
    for (int a = 0; a < g->config.mesh.n_axes; a++) {
        if ((s = check_even(&j, a)))
            return s;
        j.roles[a] = choose(&j, a);
    }
    order_letters(&j);
    for (int i = 0; i < n->n_ins; i++) {
        char why[256];
        weft_layout to = operand_layout(&j, i);
        if (to.bits == n->ins[i]->layout.bits)
            continue;
        snprintf(why, sizeof why, "%s %s", n->op->name, n->outs[0]->name);
        weft_value *moved = weft_move_to(g, n->ins[i], to, n, n->phase, why, NULL);
        if (!moved)
            return weft_graph_status(g);
        weft_node_relink(g, n, i, moved);
    }
    for (int i = 0; i < n->n_outs; i++) {
        n->outs[i]->layout = result_layout(&j, i);
        n->outs[i]->placed = true;
    }
    for (int i = 0; !s && i < n->n_outs; i++)
        s = give_role(g, n->outs[i]);
    return s;
}

static weft_status place_source(weft_graph *g, weft_value *v)
{
    const weft_value *like = v->node->like;
    if (!like)
        return weft_table_source(g, v);
    v->layout = like->layout;
    v->placed = true;
    if (v->kind == WEFT_STATE_CACHE) { /* whole in the sequence, and without open sums */
        v->layout = wanted_layout(g, like);
        for (int a = 0; a < g->config.mesh.n_axes; a++)
            if (weft_layout_open(v->layout, a) ||
                (weft_layout_cuts(v->layout, a) && weft_layout_dim(v->layout, a) == 1))
                v->layout = weft_layout_clear(v->layout, a);
        return WEFT_OK;
    }
    v->store_axes = like->store_axes;
    weft_store_as_trained(g, v);
    return WEFT_OK;
}

weft_status weft_place_node(weft_graph *g, weft_node *n)
{
    set_scope(g, n);
    set_stage(g, n);
    if (n->op->flags & WEFT_OP_SOURCE)
        return n->n_outs && n->n_ins == 0 ? place_source(g, n->outs[0]) : WEFT_OK;
    inherit_recompute(n);
    if (weft_node_is(n, WEFT_OP_GATHER))
        return weft_place_gather(g, n);
    if (g->config.mesh.n_axes == 0) { /* one rank: nothing to choose */
        for (int i = 0; i < n->n_outs; i++)
            n->outs[i]->placed = true;
        return WEFT_OK;
    }
    return place_op(g, n);
}

weft_status weft_graph_place(weft_graph *g)
{
    if (weft_graph_check_stages(g) || weft_graph_copy_weights(g))
        return weft_graph_status(g);
    for (weft_node *n = g->first, *next; n; n = next) {
        next = n->next;
        weft_status s = weft_place_node(g, n);
        if (s)
            return s;
    }
    g->placed = true;
    return weft_graph_verify(g, &g->error);
}
