/* SPDX-License-Identifier: Apache-2.0 */
/* Groups follow from the table, whoever wrote it: axes that cut tokens cut token groups, those that
 * cut experts cut expert groups. And what is reported of experts, and learnt from their load. */
#include "moe.h"

#include <string.h>

typedef struct job {
    weft_graph *g;
    int64_t batches, parts, owners;
} job;

static bool is(const char *a, const char *b)
{
    return a && strcmp(a, b) == 0;
}

/* Does a line of the table cut tokens' dim `dim` by the axis? */
static bool cuts_tokens(const weft_table_rule *r, const char *dim, const char *axis)
{
    return !r->idle && is(r->dim, dim) && is(r->axis, axis) &&
           (r->of == WEFT_RULE_INPUT || (r->of == WEFT_RULE_ROLE && is(r->pattern, "residual")));
}

static bool cuts_experts(const weft_table_rule *r, const char *axis)
{
    return !r->idle && is(r->dim, "experts") && is(r->axis, axis) && r->of == WEFT_RULE_PARAM &&
           !r->pattern;
}

static bool any_rule(const weft_graph *g, const char *dim, const char *axis)
{
    weft_table_rule r;
    for (int i = 0; weft_graph_rule(g, i, &r); i++)
        if (dim ? cuts_tokens(&r, dim, axis) : cuts_experts(&r, axis))
            return true;
    return false;
}

/* As many groups as the axes make that divide what there is; what another one cuts is gathered. */
static int64_t count_groups(const weft_graph *g, const char *dim, int64_t size)
{
    const weft_mesh *mesh = weft_graph_mesh(g);
    int64_t n = 1;
    for (int a = mesh->n_axes - 1; a >= 0; a--)
        if (any_rule(g, dim, mesh->axis[a].name) && size % (n * mesh->axis[a].size) == 0)
            n *= mesh->axis[a].size;
    return n;
}

static bool knows_groups(const weft_node *n)
{
    return n->op == &moe_assign || n->op == &moe_dispatch || n->op == &moe_combine ||
           n->op == &moe_spread || n->op == &moe_collect;
}

static void set_groups(weft_graph *g, double room)
{
    for (weft_node *n = weft_graph_first(g); n; n = n->next) {
        if (!knows_groups(n))
            continue;
        const weft_value *chosen = n->ins[n->op == &moe_assign ? 0 : 1];
        weft_value *v = n->outs[0];
        weft_set_int(g, v, "batches", count_groups(g, "batch", chosen->dims[0].size));
        weft_set_int(g, v, "parts", count_groups(g, "seq", chosen->dims[1].size));
        weft_set_int(g, v, "owners", count_groups(g, NULL, weft_node_int(n, "experts")));
        weft_set_real(g, v, "room", room);
    }
    weft_refresh(g);
}

/* ---- reports ---- */

enum { MOST_BLOCKS = 1024 };

/* Of each block one load, and of each of the pieces that overlap cuts it into the others. */
typedef struct totals {
    int blocks, pieces;
    const weft_value *router[MOST_BLOCKS];
    weft_value *load[MOST_BLOCKS], *room[MOST_BLOCKS], *refused[MOST_BLOCKS];
} totals;

/* What stands behind a value that was brought elsewhere or stored in parts. */
static weft_value *source_of(weft_value *v, const weft_op *op)
{
    while (v->node->op != op && v->node->n_ins > 0)
        v = v->node->ins[0];
    return v;
}

/* The weight of a block's router, which all its pieces have. */
static const weft_value *router_of(const weft_node *assign)
{
    const weft_node *route = source_of(assign->ins[0], &moe_route)->node,
                    *logits = route->n_ins > 0 ? route->ins[0]->node : NULL;
    return logits && logits->n_ins > 1 ? source_of(logits->ins[1], NULL) : assign->outs[0];
}

static weft_node *next_assign(weft_node *n)
{
    while (n && n->op != &moe_assign)
        n = n->next;
    return n;
}

static bool is_last_piece(const weft_node *assign)
{
    const weft_value *router = router_of(assign);
    for (weft_node *n = next_assign(assign->next); n; n = next_assign(n->next))
        if (router_of(n) == router)
            return false;
    return true;
}

static bool may_overflow(const weft_node *assign)
{
    const moe_groups m = moe_node_groups(assign, assign->ins[0]);
    return m.slots < m.worst;
}

/* The place of the block in the list. */
static int block_of(totals *t, const weft_node *assign)
{
    const weft_value *router = router_of(assign);
    int i = 0;
    while (i < t->blocks && t->router[i] != router)
        i++;
    if (i == t->blocks) {
        t->router[t->blocks++] = router;
        t->load[i] = NULL;
    }
    return i;
}

/* Right behind `assign`, in its block. */
static void watch(weft_graph *g, weft_node *assign, int blocks, totals *t)
{
    const bool last = is_last_piece(assign);
    const int i = block_of(t, assign);
    weft_graph_at(g, assign->next);
    weft_value *load =
        weft_accumulate(g, weft_add1(g, "expert_load", NULL, assign->outs[0]), WEFT_SUM);
    t->load[i] = t->load[i] ? weft_add2(g, "add", NULL, t->load[i], load) : load;
    if (last) {
        t->load[i] = weft_add1(g, "load_peak", NULL, t->load[i]);
        weft_set_real(g, t->load[i], "scale", 1.0 / blocks);
    }
    t->room[t->pieces] =
        weft_accumulate(g, weft_add1(g, "largest", NULL, assign->outs[3]), WEFT_MAX);
    t->refused[t->pieces++] =
        weft_accumulate(g, weft_add1(g, "sum", NULL, assign->outs[2]), WEFT_SUM);
    weft_graph_at(g, NULL);
}

/* How many are assigned, of how many blocks. */
static int count_assigned(const weft_graph *g, weft_node **last, int *blocks)
{
    int pieces = 0;
    *blocks = 0;
    for (weft_node *n = next_assign(weft_graph_first(g)); n; n = next_assign(n->next)) {
        pieces++;
        *blocks += is_last_piece(n);
        *last = n;
    }
    return pieces;
}

enum { AT_ONCE = 32 }; /* operands of one node */

/* One number of those of all blocks, which are overwritten. */
static weft_value *join(weft_graph *g, const char *op, const char *name, int n, weft_value **list)
{
    while (n > AT_ONCE) {
        int m = 0;
        for (int i = 0; i < n; i += AT_ONCE)
            list[m++] = weft_add(g, op, NULL, n - i < AT_ONCE ? n - i : AT_ONCE, list + i);
        n = m;
    }
    return weft_add(g, op, name, n, list);
}

static void report(weft_graph *g, int blocks, const weft_node *last, totals *t)
{
    for (weft_node *n = next_assign(weft_graph_first(g)), *next; n; n = next) {
        next = next_assign(n->next);
        watch(g, n, blocks, t);
    }
    weft_graph_set_block(g, WEFT_BLOCK_NONE);
    weft_add_report(g, "moe.load", join(g, "scalar_sum", "moe.load", t->blocks, t->load));
    weft_add_report(g, "moe.room", join(g, "scalar_max", "moe.room", t->pieces, t->room));
    weft_value *refused = join(g, "scalar_sum", "moe.refused", t->pieces, t->refused);
    if (may_overflow(last))
        weft_add_refusal(
            g, "moe.refused", refused,
            "choices of tokens found no room with their experts, and nothing is learnt "
            "from what would be missing; for the run so far [ep] room would have had to be at "
            "least",
            "moe.room");
    else
        weft_add_report(g, "moe.refused", refused);
}

void moe_place(void *self, weft_graph *g)
{
    weft_node *last = NULL;
    int blocks;
    const int pieces = count_assigned(g, &last, &blocks);
    const bool trains = weft_graph_mode(g) == WEFT_MODE_TRAIN;
    (void)self;
    if (!pieces)
        return;
    if (pieces > MOST_BLOCKS) {
        weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE, "moe: %d blocks of experts; %d at most",
                        pieces, MOST_BLOCKS);
        return;
    }
    set_groups(g, trains ? weft_node_real(last, "room") : 0);
    const moe_groups m = moe_node_groups(last, last->ins[0]);
    weft_graph_note(g,
                    "%d blocks of %lld experts, %lld of each token: %lld token groups, %lld "
                    "expert groups, %lld slots a pair",
                    blocks, (long long)m.experts, (long long)m.k, (long long)(m.batches * m.parts),
                    (long long)m.owners, (long long)m.slots);
    totals *t = trains ? weft_alloc_zero(1, sizeof *t) : NULL;
    if (t)
        report(g, blocks, last, t);
    else if (trains)
        weft_fail_memory(weft_graph_error(g));
    weft_free(t);
}

/* ---- the bias ---- */

/* The step's load of a block, which moe.load is made of. */
static weft_value *load_of(const weft_node *assign)
{
    const weft_value *counts = assign->outs[0];
    for (int i = 0; i < counts->n_uses; i++) {
        weft_node *n = counts->uses[i].node;
        for (int k = 0; n->op == &moe_expert_load && k < n->outs[0]->n_uses; k++)
            if (weft_node_is(n->outs[0]->uses[k].node, WEFT_OP_ACCUMULATES))
                return n->outs[0]->uses[k].node->outs[0];
    }
    return NULL;
}

static weft_value *bias_of(const weft_node *assign)
{
    const weft_node *route = source_of(assign->ins[0], &moe_route)->node;
    return route->op == &moe_route && route->n_ins > 1 ? source_of(route->ins[1], NULL) : NULL;
}

/* Once for all pieces of a block. */
static void learn(weft_graph *g, weft_node *assign)
{
    const weft_node *route = source_of(assign->ins[0], &moe_route)->node;
    weft_value *bias = bias_of(assign), *load = NULL;
    for (weft_node *n = next_assign(weft_graph_first(g)); n && bias; n = next_assign(n->next)) {
        if (bias_of(n) != bias || n->phase != WEFT_FORWARD)
            continue;
        if (!load && n != assign)
            return;
        load = load ? weft_add2(g, "add", NULL, load, load_of(n)) : load_of(n);
    }
    if (!bias)
        return;
    weft_value *next = weft_add2(g, "bias_step", NULL, bias, load);
    weft_set_real(g, next, "rate", weft_node_real(route, "bias_rate"));
    weft_set_int(g, next, "recentre", weft_node_int(route, "recentre"));
    weft_set_update(g, bias, next);
}

void moe_learn(void *self, weft_graph *g)
{
    (void)self;
    for (weft_node *n = next_assign(weft_graph_first(g)); n; n = next_assign(n->next))
        if (n->phase == WEFT_FORWARD)
            learn(g, n);
}
