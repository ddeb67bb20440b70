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

enum { MOST = 64 }; /* operands, and results, of any node */

typedef struct ring {
    weft_graph *g;
    weft_node *node;   /* what becomes steps */
    int n;             /* steps */
    int dim[2 * MOST]; /* of every operand, then result: where the index is, of what travels; -1: it
                          does not */
    const int *home;   /* of every result: as dim; it is summed on the way */
    weft_value *ins[MOST];  /* of the step to come */
    weft_value *outs[MOST]; /* of the step at hand */
    weft_value *sum[MOST];  /* of the steps so far; of what comes home, those of other ranks */
    weft_value *own[MOST];  /* of what comes home, a rank's own part */
} ring;

/* Of an index that is not cut there is one step: nothing travels. */
static bool init(ring *r, weft_graph *g, weft_node *node)
{
    const char *index = node->op->ring->index;
    *r = (ring){.g = g, .node = node, .home = r->dim + node->n_ins};
    for (int i = 0; i < node->n_ins + node->n_outs; i++)
        r->dim[i] = weft_ring_moves(node, i) ? weft_node_index(g, node, i, index) : -1;
    for (int i = 0; i < node->n_ins; i++) {
        r->ins[i] = node->ins[i];
        if (r->dim[i] >= 0)
            r->n = weft_layout_pieces(weft_graph_mesh(g), node->ins[i]->layout, r->dim[i]);
    }
    if (r->n == 0)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "op %s: its ring names an index '%s' that its rule does not have",
                        node->op->name, index);
    return r->n > 1;
}

/* v, one rank further. A node that reads it twice has it travel once; what belongs to no block (the
 * inputs that say who may see whom) travels once for all who read it. */
static weft_value *shift(ring *r, weft_value *v, int d)
{
    const char *why = r->node->outs[0]->name;
    const bool shared = v && v->node->block == WEFT_BLOCK_NONE && v->node->phase == WEFT_FORWARD;
    for (int i = 0; v && i < v->n_uses; i++) {
        const weft_node *user = v->uses[i].node;
        if (weft_node_shifts(user) && user->outs[0]->turn_dim == d && (shared || user->why == why))
            return user->outs[0];
    }
    const weft_value *first = v; /* before it was shifted at all */
    while (first && weft_node_shifts(first->node))
        first = first->node->ins[0];
    const char *name = first ? weft_graph_format(r->g, "%s.s%d", first->name, v->turn + 1) : NULL;
    weft_node *n = name ? weft_add_bare(r->g, r->node, "redistribute", name, 1, &v, 1, &v) : NULL;
    if (!n || !weft_node_set_shift(r->g, n, d))
        return NULL;
    const char *by = weft_graph_mesh(r->g)->axis[n->steps->axes[0]].by;
    n->by = by ? by : "core";
    n->why = why;
    n->scope = v->node->scope;
    if (shared) {
        n->block = WEFT_BLOCK_NONE;
        n->chunk = -1;
        n->phase = WEFT_FORWARD;
    }
    return n->outs[0];
}

static void send_sums(ring *r)
{
    for (int i = 0; i < r->node->n_outs; i++)
        if (r->home[i] >= 0 && r->sum[i])
            r->sum[i] = shift(r, r->sum[i], r->home[i]);
}

/* Results of steps, which others are added to, are not narrower than f32. */
static void add_step(ring *r, weft_value *const *ins, int turn)
{
    weft_node *of = r->node;
    weft_node *n = weft_add_bare(r->g, of, of->op->name, of->outs[0]->name, of->n_ins, ins,
                                 of->n_outs, of->outs);
    for (int i = 0; n && i < of->n_outs; i++) {
        weft_value *v = r->outs[i] = n->outs[i];
        if (weft_dtype_is_float(v->dtype) && weft_dtype_size(v->dtype) < sizeof(float))
            v->dtype = WEFT_F32;
        if (r->home[i] >= 0) {
            v->turn = turn;
            v->turn_dim = r->home[i];
        }
    }
}

/* Adds what the step has found out of these results, all at once, to what is known of them. */
static void combine(ring *r, const char *op, const int *results, int n)
{
    weft_value *both[2 * MOST];
    weft_node *made = NULL;
    for (int i = 0; i < n; i++) {
        both[i] = r->sum[results[i]];
        both[n + i] = r->outs[results[i]];
    }
    if (n > 0 && both[0])
        made = weft_add_bare(r->g, r->node, op, r->node->outs[results[0]]->name, 2 * n, both, n,
                             both + n);
    if (made && weft_op_declares(made->op, "ring"))
        weft_set_int(r->g, made->outs[0], "ring", 1);
    for (int i = 0; i < n; i++)
        r->sum[results[i]] = made ? made->outs[i] : both[n + i];
}

static void combine_all(ring *r, int step)
{
    const char *merge = r->node->op->ring->merge;
    int merged[MOST], n = 0;
    for (int i = 0; i < r->node->n_outs; i++)
        if (r->home[i] < 0 && merge)
            merged[n++] = i;
        else if (r->home[i] >= 0 && step == 0)
            r->own[i] = r->outs[i];
        else
            combine(r, "add", &i, 1);
    combine(r, merge, merged, n);
}

/* Whoever reads what the node made reads the whole sum instead, under that one's name. */
static void finish(ring *r, int i)
{
    weft_value *wanted = r->node->outs[i];
    if (r->home[i] >= 0) {
        r->outs[i] = r->sum[i];
        r->sum[i] = r->own[i];
        combine(r, "add", &i, 1);
    }
    weft_value *made = r->sum[i];
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
        weft_value *here[MOST];
        memcpy(here, r->ins, sizeof here);
        for (int i = 0; i < r->node->n_ins && step + 1 < r->n; i++)
            if (r->dim[i] >= 0)
                r->ins[i] = shift(r, here[i], r->dim[i]);
        send_sums(r);
        add_step(r, here, step);
        combine_all(r, step);
    }
    send_sums(r);
    for (int i = 0; i < r->node->n_outs && !weft_graph_status(r->g); i++)
        finish(r, i);
    weft_remove(r->g, r->node);
}

void cp_expand_rings(void *self, weft_graph *g)
{
    (void)self;
    for (weft_node *n = weft_graph_first(g), *next; n && !weft_graph_status(g); n = next) {
        ring r;
        next = n->next;
        if (weft_node_rings(n) && init(&r, g, n))
            expand(&r);
    }
}
