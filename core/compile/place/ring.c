/* SPDX-License-Identifier: Apache-2.0 */
/* Rings: an op of which shards of an index travel becomes one step for each shard.
 *
 * Before a step begins, the shards of the next one set out, so that they travel while it computes.
 * In step i a rank has the shard of the rank i places before it. What a step finds out about its
 * own queries is combined with the steps before. Of a gradient of what travels, a rank's own part
 * stays; the parts of the other ranks are summed on the way and come home with the last shift, n -
 * 1 shifts in all, as many as the keys make. */
#include "compile/graph/internal.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 16 }; /* operands and results of an op with a ring */

typedef struct ring {
    weft_graph *g;
    weft_node *node; /* what becomes steps */
    const weft_ring *how;
    const weft_op *add, *cast, *merge;
    int n;                   /* steps */
    int dim[MOST];           /* of every operand: where the index is; -1: it does not travel */
    int home[MOST];          /* of every result: as dim, if it is summed on the way; -1: not */
    weft_value *ins[MOST];   /* of the step at hand */
    weft_value *next[MOST];  /* of the step behind it */
    weft_value *outs[MOST];  /* of the step at hand */
    weft_value *total[MOST]; /* of the steps so far; of what comes home, a rank's own part */
    weft_value *away[MOST];  /* of what comes home: the sum that travels */
} ring;

static bool lists(const char *numbers, int i)
{
    for (const char *p = numbers; p && *p;) {
        char *end;
        if (strtol(p, &end, 10) == i)
            return true;
        p = end == p ? p + 1 : end;
    }
    return false;
}

bool weft_ring_moves(const weft_node *n, int i)
{
    return weft_node_rings(n) && (i < n->n_ins ? lists(n->op->ring->travels, i)
                                               : lists(n->op->ring->returns, i - n->n_ins));
}

static int letter_of(const weft_rule *rule, const char *name)
{
    for (int l = 0; l < rule->n_letters; l++)
        if (strcmp(rule->name[l], name) == 0)
            return l;
    return -1;
}

/* How many shards the index has; 1: it is not cut, so nothing travels. */
static int count_shards(const weft_graph *g, const weft_value *v, int d)
{
    int list[WEFT_MAX_AXES], n = 1;
    for (int i = weft_layout_list(v->layout, d, list) - 1; i >= 0; i--)
        n *= g->config.mesh.axis[list[i]].size;
    return n;
}

static weft_status init(ring *r, weft_graph *g, weft_node *node)
{
    weft_rule rule;
    weft_status s = weft_node_rule(g, node, &rule);
    *r = (ring){.g = g, .node = node, .how = node->op->ring, .n = 1};
    if (s)
        return s;
    int letter = letter_of(&rule, r->how->index);
    if (letter < 0 || node->n_ins > MOST || node->n_outs > MOST) {
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "op %s: its ring speaks of an index '%s' that its rule has not, or the op "
                        "has more than %d operands or results",
                        node->op->name, r->how->index, MOST);
        return WEFT_ERR_INTERNAL;
    }
    for (int i = 0; i < node->n_ins; i++) {
        int d = weft_rule_dim(&rule.in[i], letter);
        r->ins[i] = node->ins[i];
        r->dim[i] = lists(r->how->travels, i) ? d : -1;
        if (r->dim[i] >= 0)
            r->n = count_shards(g, node->ins[i], d);
    }
    for (int i = 0; i < node->n_outs; i++)
        r->home[i] = lists(r->how->returns, i) ? weft_rule_dim(&rule.out[i], letter) : -1;
    r->add = weft_ops_find(g->config.ops, "add");
    r->cast = weft_ops_find(g->config.ops, "cast");
    r->merge = r->how->merge ? weft_ops_find(g->config.ops, r->how->merge) : NULL;
    if (r->how->merge && !r->merge)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "op %s: its ring merges by '%s', and there is no such op", node->op->name,
                        r->how->merge);
    return weft_graph_status(g);
}

/* ---- nodes ---- */

/* As `like` in everything but its maker, and not narrower than f32. */
static void describe(weft_value *v, const weft_value *like, bool wide)
{
    bool narrow = weft_dtype_is_float(like->dtype) && weft_dtype_size(like->dtype) < 4;
    v->n_dims = like->n_dims;
    memcpy(v->dims, like->dims, sizeof v->dims);
    v->dtype = wide && narrow ? WEFT_F32 : like->dtype;
    v->layout = like->layout;
    v->placed = true;
    v->trains = like->trains;
    v->turn = like->turn;
    v->turn_dim = like->turn_dim;
}

/* A node in the place of the one that becomes steps; the caller describes its results. */
static weft_node *add_node(ring *r, const weft_op *op, const char *name, int n_ins,
                           weft_value *const *ins, int n_outs)
{
    const weft_node *of = r->node;
    weft_node *n = weft_node_new(r->g, &(weft_node_spec){.op = op,
                                                         .name = name,
                                                         .n_ins = n_ins,
                                                         .ins = ins,
                                                         .n_outs = n_outs,
                                                         .scope = of->scope});
    if (!n)
        return NULL;
    n->stage = of->stage;
    n->by = of->by;
    return n;
}

static weft_value *add_sum(ring *r, int result, weft_value *a, weft_value *b)
{
    const char *name = r->node->outs[result]->name;
    weft_node *n = a && b ? add_node(r, r->add, name, 2, (weft_value *[]){a, b}, 1) : NULL;
    if (n)
        describe(n->outs[0], a, true);
    return n ? n->outs[0] : NULL;
}

bool weft_node_set_shift(weft_graph *g, weft_node *n, int d)
{
    const weft_value *from = n->ins[0];
    weft_step *step = weft_pool_alloc(&g->pool, sizeof *step);
    if (!step) {
        weft_fail_memory(&g->error);
        return false;
    }
    *step = (weft_step){.move = WEFT_SHIFT, .dim = d, .to = -1, .after = from->layout};
    step->n_axes = weft_layout_list(from->layout, d, step->axes);
    n->outs[0]->turn_dim = d;
    n->outs[0]->turn = (from->turn + 1) % count_shards(g, from, d);
    n->steps = step;
    n->n_steps = 1;
    return true;
}

static weft_value *add_shift(ring *r, weft_value *v, int d)
{
    weft_graph *g = r->g;
    const weft_value *first = v; /* before it was shifted at all */
    while (weft_node_shifts(first->node))
        first = first->node->ins[0];
    char *name = weft_pool_format(&g->pool, "%s.s%d", first->name, v->turn + 1);
    if (!name) {
        weft_fail_memory(&g->error);
        return NULL;
    }
    weft_node *n =
        weft_node_new(g, &(weft_node_spec){.op = weft_ops_find(g->config.ops, "redistribute"),
                                           .name = name,
                                           .n_ins = 1,
                                           .ins = &v,
                                           .n_outs = 1,
                                           .scope = weft_value_available(v)});
    if (!n || (describe(n->outs[0], v, false), !weft_node_set_shift(g, n, d)))
        return NULL;
    const char *by = g->config.mesh.axis[n->steps->axes[0]].by;
    n->by = by ? by : "core";
    n->why = r->node->outs[0]->name;
    n->stage = r->node->stage;
    return n->outs[0];
}

/* What belongs to no block (the inputs that say who may see whom) travels once for all who read it;
 * all else for this node alone. */
static weft_value *shift(ring *r, weft_value *v, int d)
{
    weft_graph *g = r->g;
    if (!v)
        return NULL;
    bool shared = v->node->block == WEFT_BLOCK_NONE && v->node->phase == WEFT_FORWARD;
    struct {
        int64_t id, dim;
    } key = {v->id, d};
    weft_value *known = shared ? weft_map_get(&g->shifted, &key, sizeof key) : NULL;
    if (known) {
        weft_node_come_before(g, known->node, r->node);
        return known;
    }
    const weft_spot spot = g->spot;
    if (shared)
        g->spot.block = WEFT_BLOCK_NONE, g->spot.chunk = -1, g->spot.phase = WEFT_FORWARD;
    weft_value *shifted = add_shift(r, v, d);
    g->spot = spot;
    if (shifted && shared && !weft_map_set(&g->shifted, &g->pool, &key, sizeof key, shifted))
        weft_fail_memory(&g->error);
    return shifted;
}

/* ---- steps ---- */

static void send_next(ring *r)
{
    for (int i = 0; i < r->node->n_ins; i++) {
        int same = 0; /* an operand that is read twice travels once */
        while (same < i && (r->ins[same] != r->ins[i] || r->dim[same] != r->dim[i]))
            same++;
        r->next[i] = r->dim[i] < 0 ? r->ins[i]
                     : same < i    ? r->next[same]
                                   : shift(r, r->ins[i], r->dim[i]);
    }
}

static void send_sums(ring *r)
{
    for (int i = 0; i < r->node->n_outs; i++)
        if (r->away[i])
            r->away[i] = shift(r, r->away[i], r->home[i]);
}

static void add_step(ring *r, int turn)
{
    const weft_node *of = r->node;
    weft_node *n = add_node(r, of->op, of->outs[0]->name, of->n_ins, r->ins, of->n_outs);
    for (int i = 0; n && i < of->n_attrs; i++)
        weft_node_set_attr(r->g, n->outs[0], of->attrs[i]);
    for (int i = 0; n && i < of->n_outs; i++) {
        r->outs[i] = n->outs[i];
        describe(n->outs[i], of->outs[i], true);
        if (r->home[i] >= 0) {
            n->outs[i]->turn = turn;
            n->outs[i]->turn_dim = r->home[i];
        }
    }
}

static void merge(ring *r)
{
    weft_value *both[2 * MOST];
    int n = 0;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < r->node->n_outs; i++)
            if (r->home[i] < 0)
                both[n++] = k ? r->outs[i] : r->total[i];
    weft_node *made = add_node(r, r->merge, r->node->outs[0]->name, n, both, n / 2);
    if (made && weft_op_declares(r->merge, "ring"))
        weft_node_set_attr(r->g, made->outs[0],
                           (weft_attr){.key = "ring", .kind = WEFT_ATTR_INT, .i = 1});
    for (int i = 0, k = 0; made && i < r->node->n_outs; i++)
        if (r->home[i] < 0) {
            describe(made->outs[k], r->outs[i], true);
            r->total[i] = made->outs[k++];
        }
}

/* Adds what the step has found out to what is known. */
static void combine(ring *r, int step)
{
    if (step > 0 && r->merge)
        merge(r);
    for (int i = 0; i < r->node->n_outs; i++) {
        if (r->home[i] >= 0 && step > 0)
            r->away[i] = step == 1 ? r->outs[i] : add_sum(r, i, r->away[i], r->outs[i]);
        else if (step == 0)
            r->total[i] = r->outs[i];
        else if (!r->merge)
            r->total[i] = add_sum(r, i, r->total[i], r->outs[i]);
    }
}

/* v takes the place of what the node made: its maker now makes that. */
static void finish(ring *r, weft_value *made, weft_value *wanted)
{
    if (made && made->dtype != wanted->dtype) {
        weft_node *n = add_node(r, r->cast, made->name, 1, &made, 1);
        if (!n)
            return;
        describe(n->outs[0], wanted, false);
        made = n->outs[0];
    }
    if (!made)
        return;
    weft_node *n = made->node;
    n->outs[made->result] = wanted;
    wanted->node = n;
    wanted->result = made->result;
    weft_map_set(&r->g->names, &r->g->pool, made->name, strlen(made->name), NULL);
}

static void expand(ring *r)
{
    weft_graph *g = r->g;
    for (int step = 0; step < r->n && !weft_graph_status(g); step++) {
        if (step + 1 < r->n)
            send_next(r);
        send_sums(r);
        add_step(r, step);
        combine(r, step);
        memcpy(r->ins, r->next, sizeof r->ins);
    }
    send_sums(r);
    for (int i = 0; i < r->node->n_outs && !weft_graph_status(g); i++) {
        if (r->home[i] >= 0)
            r->total[i] = add_sum(r, i, r->total[i], r->away[i]);
        finish(r, r->total[i], r->node->outs[i]);
    }
    while (r->node->n_ins > 0)
        weft_node_drop_operand(r->node);
    weft_node_unlink(g, r->node);
}

bool weft_graph_has_rings(const weft_graph *g)
{
    const weft_node *n = g->first;
    while (n && !weft_node_rings(n))
        n = n->next;
    return n != NULL;
}

weft_status weft_graph_expand_rings(weft_graph *g)
{
    const weft_spot spot = g->spot;
    for (weft_node *n = g->first, *next; n && !weft_graph_status(g); n = next) {
        ring r;
        next = n->next;
        if (!weft_node_rings(n) || init(&r, g, n) || r.n < 2)
            continue;
        g->spot = (weft_spot){n, n->block, n->chunk, n->phase, n->scope};
        expand(&r);
    }
    g->spot = spot;
    return weft_graph_status(g);
}
