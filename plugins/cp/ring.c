/* SPDX-License-Identifier: Apache-2.0 */
/* Rings: an op of which shards of an index travel becomes one step for each shard.
 *
 * Before a step begins, the shards of the next one set out, so that they travel while it computes.
 * In step i a rank has the shard of the rank i places before it. What a step finds out about its
 * own queries is combined with the steps before. Of a gradient of what travels, a rank's own part
 * stays; the parts of the other ranks are summed on the way and come home with the last shift, n -
 * 1 shifts in all, as many as the keys make. */
#include "cp.h"

#include <string.h>

enum { MOST = 16 }; /* operands and results of an op with a ring */

typedef struct ring {
    weft_graph *g;
    weft_node *node; /* what becomes steps */
    const weft_ring *how;
    int n;             /* steps */
    int dim[2 * MOST]; /* of every operand, then result: where the index is, of what travels; -1: it
                          does not */
    const int *home;   /* of every result: as dim; it is summed on the way */
    weft_value *ins[MOST];   /* of the step at hand */
    weft_value *next[MOST];  /* of the step behind it */
    weft_value *outs[MOST];  /* of the step at hand */
    weft_value *total[MOST]; /* of the steps so far; of what comes home, a rank's own part */
    weft_value *away[MOST];  /* of what comes home: the sum that travels */
} ring;

/* Of an index that is not cut there is one step: nothing travels. */
static weft_status init(ring *r, weft_graph *g, weft_node *node)
{
    *r = (ring){.g = g, .node = node, .how = node->op->ring, .home = r->dim + node->n_ins};
    const bool fits = node->n_ins <= MOST && node->n_outs <= MOST;
    for (int i = 0; fits && i < node->n_ins + node->n_outs; i++)
        r->dim[i] = weft_ring_moves(node, i) ? weft_node_index(g, node, i, r->how->index) : -1;
    for (int i = 0; fits && i < node->n_ins; i++) {
        r->ins[i] = node->ins[i];
        if (r->dim[i] >= 0)
            r->n = weft_layout_pieces(weft_graph_mesh(g), node->ins[i]->layout, r->dim[i]);
    }
    if (r->n == 0)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "op %s: its ring names an index '%s' that its rule does not have, or the "
                        "op has more than %d operands or results",
                        node->op->name, r->how->index, MOST);
    return weft_graph_status(g);
}

/* ---- nodes ---- */

/* Not narrower than f32. */
static void widen(weft_value *v)
{
    if (weft_dtype_is_float(v->dtype) && weft_dtype_size(v->dtype) < weft_dtype_size(WEFT_F32))
        v->dtype = WEFT_F32;
}

static weft_value *add_sum(ring *r, int result, weft_value *a, weft_value *b)
{
    const char *name = r->node->outs[result]->name;
    weft_node *n =
        a && b ? weft_add_bare(r->g, r->node, "add", name, 2, (weft_value *[]){a, b}, 1, &a) : NULL;
    if (!n)
        return NULL;
    widen(n->outs[0]);
    return n->outs[0];
}

static weft_value *add_shift(ring *r, weft_value *v, int d)
{
    const weft_value *first = v; /* before it was shifted at all */
    while (weft_node_shifts(first->node))
        first = first->node->ins[0];
    char *name = weft_format("%s.s%d", first->name, v->turn + 1);
    if (!name) {
        weft_fail_memory(weft_graph_error(r->g));
        return NULL;
    }
    weft_node *n = weft_add_bare(r->g, r->node, "redistribute", name, 1, &v, 1, &v);
    weft_free(name);
    if (!n || !weft_node_set_shift(r->g, n, d))
        return NULL;
    const char *by = weft_graph_mesh(r->g)->axis[n->steps->axes[0]].by;
    n->by = by ? by : "core";
    n->why = r->node->outs[0]->name;
    n->scope = v->node->scope;
    return n->outs[0];
}

static weft_value *find_shared(const weft_value *v, int d)
{
    for (int i = 0; i < v->n_uses; i++) {
        const weft_node *user = v->uses[i].node;
        if (weft_node_shifts(user) && user->outs[0]->turn_dim == d)
            return user->outs[0];
    }
    return NULL;
}

/* What belongs to no block (the inputs that say who may see whom) travels once for all who read it;
 * all else for this node alone. */
static weft_value *shift(ring *r, weft_value *v, int d)
{
    if (!v)
        return NULL;
    bool shared = v->node->block == WEFT_BLOCK_NONE && v->node->phase == WEFT_FORWARD;
    weft_value *shifted = shared ? find_shared(v, d) : NULL;
    if (shifted || !(shifted = add_shift(r, v, d)) || !shared)
        return shifted;
    shifted->node->block = WEFT_BLOCK_NONE;
    shifted->node->chunk = -1;
    shifted->node->phase = WEFT_FORWARD;
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
    weft_node *of = r->node;
    weft_node *n = weft_add_bare(r->g, of, of->op->name, of->outs[0]->name, of->n_ins, r->ins,
                                 of->n_outs, of->outs);
    for (int i = 0; n && i < of->n_outs; i++) {
        r->outs[i] = n->outs[i];
        widen(n->outs[i]);
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
    weft_node *made = weft_add_bare(r->g, r->node, r->how->merge, r->node->outs[0]->name, n, both,
                                    n / 2, both + n / 2);
    if (made && weft_op_declares(made->op, "ring"))
        weft_set_int(r->g, made->outs[0], "ring", 1);
    for (int i = 0, k = 0; made && i < r->node->n_outs; i++)
        if (r->home[i] < 0)
            r->total[i] = made->outs[k++];
}

/* Adds what the step has found out to what is known. */
static void combine(ring *r, int step)
{
    if (step > 0 && r->how->merge)
        merge(r);
    for (int i = 0; i < r->node->n_outs; i++) {
        if (r->home[i] >= 0 && step > 0)
            r->away[i] = step == 1 ? r->outs[i] : add_sum(r, i, r->away[i], r->outs[i]);
        else if (step == 0)
            r->total[i] = r->outs[i];
        else if (!r->how->merge)
            r->total[i] = add_sum(r, i, r->total[i], r->outs[i]);
    }
}

/* Whoever reads what the node made reads this instead, under that one's name. */
static void finish(ring *r, weft_value *made, weft_value *wanted)
{
    if (made && made->dtype != wanted->dtype) {
        weft_node *n = weft_add_bare(r->g, r->node, "cast", made->name, 1, &made, 1, &wanted);
        made = n ? n->outs[0] : NULL;
    }
    if (made)
        weft_swap_makers(made, wanted);
}

static void expand(ring *r)
{
    for (int step = 0; step < r->n && !weft_graph_status(r->g); step++) {
        if (step + 1 < r->n)
            send_next(r);
        send_sums(r);
        add_step(r, step);
        combine(r, step);
        memcpy(r->ins, r->next, sizeof r->ins);
    }
    send_sums(r);
    for (int i = 0; i < r->node->n_outs && !weft_graph_status(r->g); i++) {
        if (r->home[i] >= 0)
            r->total[i] = add_sum(r, i, r->total[i], r->away[i]);
        finish(r, r->total[i], r->node->outs[i]);
    }
    weft_remove(r->g, r->node);
}

void cp_expand_rings(weft_graph *g)
{
    for (weft_node *n = weft_graph_first(g), *next; n && !weft_graph_status(g); n = next) {
        ring r;
        next = n->next;
        if (weft_node_rings(n) && !init(&r, g, n) && r.n > 1)
            expand(&r);
    }
}
